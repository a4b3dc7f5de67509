"""`progress=` of the public functions: bars in terminals and notebooks, lines elsewhere."""

import inspect
import io
import subprocess
import sys
from contextlib import redirect_stderr
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import dhsic
from dhsic import _progress
from dhsic.cli import main
from dhsic.engine.events import PassFinished
from dhsic.errors import InvalidArgumentError

X, Y = np.random.default_rng(0).standard_normal((2, 60))
SHOWS = [
    getattr(module, name)
    for module in (dhsic, dhsic.causal)
    for name in module.__all__
    if inspect.isfunction(getattr(module, name))
    and "progress" in inspect.signature(getattr(module, name)).parameters
]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    for name in ("NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    return Terminal()


def run(**options):
    return dhsic.independence_test(X, Y, null="permutation", n_resamples=20, rng=0, **options)


def drawn(terminal, call=run, **options):
    """What a call writes to a terminal; pytest's capture sets back what a fixture redirects."""
    with redirect_stderr(terminal):
        call(**options)
    return terminal.getvalue()


@pytest.mark.parametrize("function", SHOWS, ids=lambda function: function.__name__)
def test_progress__is_checked_everywhere(function):
    assert len(SHOWS) >= 14
    needed = {
        "residual_independence_test": {"given": X},
        "conditional_independence_test": {"given": X},
        "select_features": {"k": 1},
        "lag_scan": {"lags": 1},
    }
    keywords = needed.get(function.__name__, {})
    with pytest.raises(InvalidArgumentError, match=r"progress must be True or False.* got 'yes'"):
        function(X, Y, progress="yes", **keywords)


def test_bar__comes_by_itself_once_patience_is_gone(terminal, monkeypatch):
    monkeypatch.setattr(_progress, "_BAR_DELAY_SECONDS", 1e6)
    assert drawn(terminal) == ""
    monkeypatch.setattr(_progress, "_BAR_DELAY_SECONDS", 0.0)
    assert drawn(terminal, progress=False) == ""
    assert "\x1b[" in drawn(terminal)


def test_callable__hears_events_and_nothing_is_drawn(terminal, monkeypatch):
    monkeypatch.setattr(_progress, "_BAR_DELAY_SECONDS", 0.0)
    heard = []
    assert drawn(terminal, progress=heard.append) == ""
    assert any(isinstance(event, PassFinished) for event in heard)
    within = partial(dhsic.causal.directions, [(X, X**3 + Y)], criterion="hsic", rng=0)
    assert drawn(terminal, within, progress=False) == ""


def test_true__writes_a_line_a_pass_where_no_terminal_is(capsys):
    run()
    assert capsys.readouterr().err == ""
    run(progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert all(line.startswith("dhsic: ") and line.endswith(" s") for line in lines)


def test_bar__is_gone_after_an_error(terminal):
    constant = partial(dhsic.independence_test, X, np.ones(60))
    with pytest.raises(dhsic.errors.DhsicError):
        drawn(terminal, constant, progress=True)
    assert terminal.getvalue().rstrip().endswith("\x1b[2K")
    assert "\x1b[" in drawn(Terminal(), progress=True), "the next one is drawn"


class Page:
    """What a notebook shows below a cell."""

    def __init__(self, shown):
        self.shown = shown

    def update(self, line, raw):
        assert raw
        self.shown.append(line["text/plain"])


@pytest.fixture
def notebook(monkeypatch):
    pages = []

    def display(line, raw, display_id):
        assert raw
        assert display_id
        pages.append(line["text/plain"])
        return Page(pages)

    shell = SimpleNamespace(kernel=object())
    module = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    return pages


def test_notebook__has_a_line_that_is_empty_in_the_end(notebook, monkeypatch):
    monkeypatch.setattr(_progress, "_PAGE_SECONDS", 0.0)
    run(progress=True)
    assert notebook[-1] == ""
    assert any(" of 20 resamples" in line and "%" in line for line in notebook)


class Bare(io.TextIOBase):
    """A stream that does not even know whether it is a terminal."""

    def isatty(self):
        raise OSError

    def write(self, text):
        raise OSError


def closed():
    stream = io.StringIO()
    stream.close()
    return stream


STREAMS = {"none": lambda: None, "bare": Bare, "closed": closed}


@pytest.mark.parametrize("stream", STREAMS)
def test_progress__without_a_usable_stderr_loses_no_answer(stream, monkeypatch):
    expected = run(progress=False).pvalue
    monkeypatch.setattr(sys, "stderr", STREAMS[stream]())
    assert run(progress=True).pvalue == expected
    assert run().pvalue == expected


@pytest.mark.parametrize(
    ("stream", "name"),
    [*((stream, "stdout") for stream in STREAMS), ("none", "stderr"), ("none", "stdin")],
)
def test_commands__without_a_usable_stream_end_as_ever(stream, name, monkeypatch, tmp_path):
    table, out = tmp_path / "table.csv", tmp_path / "out.json"
    np.savetxt(table, np.c_[X, Y], delimiter=",", header="a,b", comments="")
    words = ["test", table, "--variable", "a", "--variable", "b", "--json", out]
    monkeypatch.setattr(sys, name, STREAMS[stream]())
    with pytest.raises(SystemExit) as found:
        main([str(word) for word in words])
    # A result that cannot be printed is told by the exit code, and written all the same.
    assert found.value.code in ((0,) if name != "stdout" else (0, 1))
    assert out.exists()
    with pytest.raises(SystemExit) as missing:
        main(["test", str(tmp_path / "nowhere.zarr"), "--variable", "a", "--variable", "b"])
    assert missing.value.code == 2


def test_rich__is_not_loaded_for_runs_that_nobody_sees():
    code = (
        "import sys, numpy as np, dhsic; x = np.arange(20.0); "
        "dhsic.independence_test(x, x**2, rng=0); assert 'rich' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
