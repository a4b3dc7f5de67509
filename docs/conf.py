"""How the site is built: python -m sphinx -W -b html docs docs/_build/html."""

import os
import re
import sys
import warnings
from pathlib import Path

import matplotlib as mpl
from sphinx_gallery.sorting import FileNameSortKey

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
os.environ |= {
    "DHSIC_SMALL": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}
mpl.use("Agg")

import generated

import dhsic

generated.write(HERE / "_generated")

project = "dhsic"
author = copyright = "The dhsic developers"  # noqa: A001
version = release = dhsic.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_nb",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_generated", "examples", "gallery/*.ipynb", "sg_execution_times.rst"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]  # the sort key of the gallery is a class
nitpicky = False

autosummary_generate = True
autodoc_typehints = "none"  # docstrings have the types
autodoc_member_order = "bysource"
numpydoc_show_class_members = False

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "substitution"]
myst_substitutions = generated.figures()
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "_build" / ".jupyter_cache")
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True
nb_output_stderr = "remove"  # the bar of a slow machine

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": FileNameSortKey,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 60,
    "abort_on_example_error": True,
    "capture_repr": (),  # of axes, beside their picture
    "remove_config_comments": True,
}
# A gallery says what a result is by its picture; figures are closed as they are shown.
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

html_theme = "pydata_sphinx_theme"
html_title = "dhsic"
html_static_path = ["_static"]
html_css_files = ["dhsic.css"]
html_show_sourcelink = False
html_sidebars = {"start": [], "which_function": []}  # they have no pages below them
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 8,
    # Wide tables take the room of the contents beside them.
    "secondary_sidebar_items": {
        "**": ["page-toc"],
        "evidence": [],
        "how-to/coming-from": [],
        "which_function": [],
    },
    "show_nav_level": 1,
    "navigation_with_keys": False,
    "pygments_light_style": "default",
    "pygments_dark_style": "github-dark",
}


def escape_bars(app, what, name, obj, options, lines):
    """Norms, as |x - y|, are no substitutions."""
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = re.split(r"(``.*?``)", line)
            lines[number] = "".join(p if p[:2] == "``" else p.replace("|", "\\|") for p in parts)


def setup(app):
    app.connect("autodoc-process-docstring", escape_bars, priority=900)  # after numpydoc


# Links are checked by `python -m sphinx -b linkcheck docs docs/_build/linkcheck`.
linkcheck_ignore = [r"https?://localhost.*"]
linkcheck_timeout = 20
