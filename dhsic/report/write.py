"""Write a report."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from dhsic._text import printable
from dhsic._validation import check_level, check_path, named_arguments, shown
from dhsic._version import __version__
from dhsic.errors import InvalidArgumentError, require
from dhsic.io.whole import write_whole
from dhsic.report.parts import Part, facts, note, picture, section_of, table_of
from dhsic.report.run import Run, reproduction, timings
from dhsic.results import Result, RunFields


def check_report() -> None:
    """Refuse before a run what its report would lack after it.

    Raises
    ------
    MissingDependencyError
        A library of the extra "report" is not installed.

    Examples
    --------
    >>> from dhsic.report import check_report
    >>> check_report() is None  # where jinja2 and matplotlib are installed
    True
    """
    for module in ("jinja2", "matplotlib"):
        _needed(module)


@named_arguments
def write_report(
    result: Result,
    path: str | Path,
    *,
    alpha: float = 0.05,
    control: str = "bh",
    run: Run | None = None,
) -> None:
    """Write a result as one HTML file that needs nothing else, with pictures and sortable tables.

    It is written whole or not at all, and has what was found, the data, the method, parameters,
    seed, time and memory, and how to get it again. Names of the data are shown as text, whatever
    they hold.

    Parameters
    ----------
    result : Result
        The value that a function of dhsic returned.
    path : str or Path
        The file; one that is there is replaced.
    alpha : float, optional
        The level of decisions, where there are any.
    control : {"bh", "by", "bonferroni", "holm", "max-t"}, optional
        How the decisions of a ranking account for the number of features.
    run : Run, optional
        How it came about, as far as the result does not tell.

    Raises
    ------
    InvalidArgumentError
        The level is not between 0 and 1, or the result has no report.
    MissingDependencyError
        A library of the extra "report" is not installed.
    DataError
        The file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import dhsic
    >>> x, y = np.random.default_rng(0).standard_normal((2, 100))
    >>> result = dhsic.independence_test(x, y, rng=0, names=["height", "weight"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "report.html"
    ...     write_report(result, path)
    ...     "Independence not rejected at level 0.05" in path.read_text()
    True
    """
    # Refused before the pictures are drawn, which takes longest.
    _check_given(result, run)
    target = Path(check_path("path", path))
    known = run or Run()
    findings = result.findings(check_level(alpha), control)
    tables = [table_of(name, records) for name, records in findings.tables.items()]
    sections = [
        section_of("Result", [facts(result.summary()), *map(picture, findings.sketches)]),
        section_of("Data and method", [*tables, *map(note, findings.notes)]),
        *_provenance(result.origin, known),
    ]
    # Sections without parts have no heading either.
    told = [one for one in sections if one["parts"]]
    page = _page(title=findings.title, lead=findings.lead, sections=told, run=known)
    # Names may hold what UTF-8 cannot, such as the halves of a broken pair, and control characters.
    write_whole(target, printable(page, keep="\n\t"))


def _provenance(result: Any, run: Run) -> list[Part]:
    """How it came about, as far as it tells."""
    if not isinstance(result, RunFields):
        return [reproduction(run, getattr(result, "seed", None), __version__)]
    time = timings(result.passes, result.seconds, result.n, run.memory)
    return [time, reproduction(run, result.seed, result.version)]


def _check_given(result: object, run: object) -> None:
    if not isinstance(result, Result):
        msg = (
            "a report needs a result, as dhsic.independence_test returns, got a "
            f"{type(result).__name__}: give the result itself"
        )
        raise InvalidArgumentError(msg)
    if not isinstance(run, Run | None):
        msg = f"run must be a dhsic.report.Run, got {shown(run)}: leave it out, or make one"
        raise InvalidArgumentError(msg)


def _page(**told: Any) -> str:
    jinja2, folder = _needed("jinja2"), files("dhsic.report")
    script, style = (folder.joinpath(name).read_text("utf-8") for name in ("page.js", "page.css"))
    # These texts alone may run in the page, by the digests of their bytes: they are no data to
    # escape, and stand in it unchanged.
    marked = _needed("markupsafe").Markup
    hashes = (hashlib.sha256(text.encode()).digest() for text in (script, style))
    of_script, of_style = (base64.b64encode(digest).decode("ascii") for digest in hashes)
    policy = (
        f"default-src 'none'; img-src data:; script-src 'sha256-{of_script}'; "
        f"style-src 'sha256-{of_style}'; base-uri 'none'; form-action 'none'"
    )
    # Strict: a name that the template misspells is an error, and no gap in the page.
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(folder.joinpath("page.html").read_text("utf-8"))
    written = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    own = {"script": marked(script), "style": marked(style), "policy": policy}
    page: str = template.render(**told, **own, written=written)
    return page


def _needed(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        missing = require(module, "report", "A report")
        raise missing from error
