"""Every notebook runs small from an empty folder, and is kept without outputs."""

import os
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "benchmarks" / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def read(name):
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


@pytest.fixture
def executed(tmp_path, monkeypatch):
    """Runs a notebook, with all that Jupyter keeps in a folder of the test."""
    for variable in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    for variable, value in (("JUPYTER_PLATFORM_DIRS", "1"), ("DHSIC_SMALL", "1")):
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(FOLDER.parents[1]))
    monkeypatch.delenv("MILLION_SONG", raising=False)
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")

    def execute(name):
        notebook = read(name)
        resources = {"metadata": {"path": str(tmp_path)}}
        NotebookClient(notebook, timeout=240, resources=resources).execute()
        return notebook

    return execute


def said(notebook):
    """All text that cells wrote."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    shown = [o.get("text", "") + o.get("data", {}).get("text/plain", "") for o in outputs]
    return "\n".join(shown)


def pictures(notebook):
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return sum("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.parametrize("name", NAMES)
def test_notebook__is_kept_without_outputs(name):
    notebook = read(name)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert notebook.metadata.kernelspec.name == "python3"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    assert "DHSIC_SMALL" in code[0].source


@pytest.mark.nightly
def test_scaling__has_its_pictures(executed):
    notebook = executed("scaling")
    assert pictures(notebook) == 6
    assert len(re.findall(r"\d workers: .* outside the passes", said(notebook))) == 2


@pytest.mark.nightly
def test_million_song__finds_the_year(executed, tmp_path):
    notebook = executed("million_song")
    assert pictures(notebook) == 2
    assert "/test.html'" in said(notebook)
    assert "of a worker" in said(notebook)


@pytest.mark.nightly
def test_three_tables__go_from_file_to_report(executed, monkeypatch):
    tables = ("hflights/hflights", "beijing_air/beijing_air", "msd/msd_random7000")
    folder = Path(os.environ.get("DHSIC_DATA", FOLDER.parents[2] / "shared" / "data")).resolve()
    if not all((folder / f"{table}.parquet").exists() for table in tables):
        pytest.skip("the tables are not there: name their folder in DHSIC_DATA")
    pytest.importorskip("pyarrow")
    monkeypatch.setenv("DHSIC_DATA", str(folder))
    notebook = executed("three_tables")
    text = said(notebook)
    assert "missing='drop'" in text
    assert "variable 'date' must hold real numbers" in text
    assert "True ['air.html', 'flights.html', 'songs.html']" in text
    assert pictures(notebook) == 2


@pytest.mark.nightly
def test_your_cluster__goes_on_after_an_interrupt(executed):
    text = said(executed("your_cluster"))
    assert "interrupted" in text
    assert "(True, True)" in text
    assert "#SBATCH" in text
    assert "no runs yet" in text
