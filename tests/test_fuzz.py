"""Nearly valid calls of everything public end in an error of this package, or in finite numbers.

Of every public function, class of options and command, an argument or two is something else.
"""

import importlib
import inspect
import math
import os
import shlex
import warnings

import click
import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import dhsic
from dhsic import analysis, errors
from dhsic.cli import main
from dhsic.kernels import Gaussian
from dhsic.results import Result
from tests.cli.store import write_files
from tests.test_refusals import COMMANDS

CALLS = int(os.environ.get("DHSIC_FUZZED_CALLS", "20000"))
ROWS = 24
OWN_WARNINGS = (
    *(errors.PrecisionWarning, errors.LandmarkWarning, errors.ApproximateNullWarning),
    errors.InsecureWarning,
)
LEFT_OUT = {"connect", "local_cluster"}  # they start processes
LISTEN = {"client", "progress"}  # a callable is called, and may raise what it likes


def is_fuzzed(one):
    if inspect.isfunction(one):
        return one.__name__ not in LEFT_OUT
    abstract = inspect.isabstract(one) or getattr(one, "__dict__", {}).get("_is_protocol", False)
    return inspect.isclass(one) and not issubclass(one, (Result, Exception, tuple)) and not abstract


MODULES = map(importlib.import_module, ("dhsic", *(f"dhsic.{m}" for m in dhsic._SUBMODULES)))
PUBLIC = {f"{m.__name__}.{name}": getattr(m, name) for m in MODULES for name in m.__all__}
FUNCTIONS = {name: one for name, one in PUBLIC.items() if is_fuzzed(one)}

X, Y, Z = np.random.default_rng(0).random((3, ROWS))
EMBEDDING = dhsic.mean_embedding(X, Gaussian(1.0), 5, rng=0)
SPECTRUM = analysis.covariance_spectrum(X)
RESULT = dhsic.hsic(X, Y, kernels="gaussian")
# Values that parameters without a default take, by their names.
VALUES = {"x": X, "y": Y, "given": Z, "features": np.stack([X, Y, Z], axis=1), "target": Y, "k": 1}
VALUES |= {"first": EMBEDDING, "second": EMBEDDING, "path": "e.npz", "place": "data.zarr/x"}
VALUES |= {"n": 100, "p": 10, "delta": 0.1, "gamma": 0.5, "scale": 1.0, "supremum": 1.0}
VALUES |= {"spectrum": SPECTRUM, "joint": SPECTRUM, "marginals": [SPECTRUM] * 2, "eigenvalues": X}
VALUES |= {"spectra": [SPECTRUM] * 2, "hsic": 0.2, "n_features": 10}
VALUES |= {"vary": {"rows": [ROWS]}, "pairs": [(X, Y)], "scores": X, "truth": X > 0.5}
VALUES |= {"regression": "splines", "result": RESULT, "names": ("x", "y"), "parents": ((), (0,))}
VALUES |= {"kind": "local", "maximum": 2, "address": "http://none"}
QUICK = {"kernels": "gaussian", "rng": 0, "overwrite": True, "repeats": 1}


def valid(name, function):
    """Arguments of a quick call; a text stands for what has no value above."""
    args, kwargs = [], {}
    for one in inspect.signature(function).parameters.values():
        if one.kind is one.VAR_POSITIONAL:
            several = (X, Y, Z) if "interaction" in name else (X, Y)
            args += [SPECTRUM] if one.name == "spectra" else several
        elif one.name in QUICK and one.kind is not one.VAR_KEYWORD:
            kwargs[one.name] = QUICK[one.name]
        elif one.kind is one.VAR_KEYWORD or (one.default is not one.empty and one.kind > 0):
            continue
        elif one.kind is one.KEYWORD_ONLY:
            kwargs[one.name] = VALUES.get(one.name, "none")
        else:
            args.append(VALUES.get(one.name, "none"))
    return args, kwargs


def filled(shape, dtype, fill):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return np.full(shape, fill, np.dtype(dtype))
        except (ValueError, OverflowError, TypeError):
            return np.zeros(shape, np.dtype(dtype))


# What is now and then passed by mistake.
SHAPES = [(0,), (1,), (0, 2), (ROWS, 0), (1, 3), (ROWS,), (ROWS, 2), (2, 2, 2), ()]
DTYPES = [
    *("f8", "f4", "f2", "i1", "u8", "?", "c16", "O", "U3", "S3", "M8[s]", "m8[s]"),
    *("longdouble", [("a", "f8"), ("b", "i4")], ">f8"),
]
TEXTS = ["", "10", "auto", "x", "gaussian", "nystrom-m", "gaussian:-1", "a\0b", "\x1b[31m"]
NUMBERS = [
    *(True, 0, 1, -1, 3, 0.5, -0.5, math.nan, math.inf, -math.inf, 1e-320, 1e308, 1j),
    *(10**30, -(10**30), np.int64(3), np.float32(0.5), np.bool_(True)),
]
OTHERS = [
    *(None, ..., object(), int, len, lambda *_: 1, b"x", range(3), slice(2)),
    *({}, {"a": X}, {1: X}, {"a": [1, 2], "b": [1]}, {0.5}, set(), frozenset("ab")),
    *([], [[]], [None], [[1, 2], [3]], [[[1]]], [1, "a"], ["a", "b"], (), ("a",), [X, X]),
    *([math.nan] * ROWS, [10**400] * ROWS, [object()] * 3, [True] * ROWS, list("ab") * 12),
    *(".", "absent", "table.csv", "data.zarr", "memory://none", "s3://[", "file:///none"),
    *(dhsic.VHSIC(), dhsic.Permutation(5), dhsic.Grid(), dhsic.Candidates(), Gaussian(1.0)),
    *(dhsic.NystromMHSIC, EMBEDDING, RESULT),
    *(np.ma.masked_all(ROWS), sp.eye_array(ROWS).tocsr(), sp.dok_array((ROWS, 2))),
    *(X[:5], X[:, None, None], np.asfortranarray(np.ones((ROWS, 2))), X[::-1], X * 1e-300),
    *(np.broadcast_to(1.0, (ROWS, 2)), memoryview(b"abc"), bytearray(3), np.dtype("f8")),
]
PLAIN = st.sampled_from([*TEXTS, *NUMBERS, *OTHERS])
JUNK = st.one_of(
    PLAIN,
    st.builds(filled, *map(st.sampled_from, (SHAPES, DTYPES, [0, 1, np.nan, np.inf, -1, 1e300]))),
    st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3), max_leaves=4),
    st.builds(lambda count: (j for j in range(count)), st.sampled_from([0, 2, ROWS])),
)


@st.composite
def calls(draw):
    """A function with its arguments, one or two of which are something else."""
    name = draw(st.sampled_from(sorted(FUNCTIONS)))
    args, kwargs = valid(name, FUNCTIONS[name])
    parameters = inspect.signature(FUNCTIONS[name]).parameters.values()
    named = {one.name for one in parameters if one.default is not one.empty and one.kind > 0}
    places = [*range(len(args)), *sorted((named | kwargs.keys()) - LISTEN)]
    for _ in range(draw(st.integers(1, 2)) if places else 0):
        place, value = draw(st.sampled_from(places)), draw(JUNK)
        (args if isinstance(place, int) else kwargs)[place] = value
    return FUNCTIONS[name], args, kwargs


# Lines of commands; `demo` is left out, which starts processes.
LINES = [
    *filter(None, COMMANDS),
    "plan data.zarr --variable x --variable y",
    "generate o.zarr --overwrite --rows 9",
    "convert million-song table.csv o.zarr --overwrite",
    "convert table table.csv o.zarr --overwrite --variable v=a",
    "cause pairs pairs",
    "matrix table.csv",
    "lags data.zarr --variable x --variable y --lags 0:4",
    "difference data.zarr --variable x --variable y --variable x",
    "methods nystrom-m",
    "submit --cluster table.csv --runs empty --render-only x",
    "submit --cluster table.csv --each a=1,2 --runs empty --render-only x",
    *(f"{name} none --runs empty" for name in ("status", "result", "cancel")),
    *("runs --runs empty", "checkpoints list empty", "checkpoints clean empty --yes"),
]
# Words that are now and then typed by mistake; none starts processes or waits.
TYPED = (
    "0 -1 nan inf 1e400 0.5 1e3 +1 ½ 2GiB 0GiB True null table.csv -- - "
    "/ . .. :: %s {} é absent/file "
    "x y w [ ] x[ x[:,99] x[:,0:1] w[:,0,0] a=b =x a=x x= = , ,, a*b "
    "gaussian:0 gaussian:-1 gaussian:nan gaussian:1e400 gamma auto none"
)
WORDS = ["", " ", "\x1b[31m", "\udcff", "a\nb", "9" * 30, "a" * 300, *TYPED.split()]


def command_of(words):
    """The command of a line, and how many words it has."""
    one, count = main, 0
    while isinstance(one, click.Group):
        one, count = one.commands[words[count]], count + 1
    return one, count


@st.composite
def command_lines(draw):
    """A command, one or two words of which are something else; none that starts workers."""
    line = shlex.split(draw(st.sampled_from(LINES)))
    command, count = command_of(line)
    places = [k for k in range(count, len(line)) if not line[k].startswith("--")]
    options = [one for one in command.params if isinstance(one, click.Option)]
    for _ in range(draw(st.integers(1, 2))):
        value = draw(st.sampled_from(WORDS))
        if draw(st.booleans()) and places:
            line[draw(st.sampled_from(places))] = value
        elif options and (option := draw(st.sampled_from(options))).name != "workers":
            line += [option.opts[0]] if option.is_flag else [option.opts[0], value]
    return line


def leaves(group):
    for one in group.commands.values():
        yield from leaves(one) if isinstance(one, click.Group) else [one]


def test_every_command__has_a_line():
    assert {command_of(line.split())[0].name for line in LINES} == {
        one.name for one in leaves(main) if one.name != "demo"
    }


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    write_files(folder)
    EMBEDDING.save(folder / "e.npz")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield


def only_own_warnings():
    warnings.simplefilter("error")
    for category in OWN_WARNINGS:
        warnings.simplefilter("ignore", category)


def check_call(function, args, kwargs):
    with warnings.catch_warnings():
        only_own_warnings()
        try:
            found = function(*args, **kwargs)
            if isinstance(found, Result):
                str(found), repr(found), found._repr_html_()
        except errors.DhsicError:
            return
    for name in ("statistic", "estimate", "pvalue", "score"):
        value = getattr(found, name, 0.0)
        assert value is None or callable(value) or np.isfinite(value).all(), (name, value)
    assert not isinstance(found, float) or math.isfinite(found), found


def check_command(*line):
    with warnings.catch_warnings():
        only_own_warnings()
        done = CliRunner().invoke(main, line)
    assert done.exit_code in (0, 2), done.stderr
    assert done.exit_code == 0 or done.stderr.strip()
    assert "Traceback" not in done.output


def check_many(count, drawn, check):
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(one=drawn)
    def run(one):
        check(*one)

    run()


NIGHTLY = {"marks": [pytest.mark.nightly, pytest.mark.timeout(0)]}


@pytest.mark.parametrize("count", [250, pytest.param(CALLS * 4 // 5, **NIGHTLY)])
def test_functions__refuse_in_words_or_answer(files, count):
    check_many(count, calls(), check_call)


@pytest.mark.parametrize("count", [120, pytest.param(CALLS // 5, **NIGHTLY)])
def test_commands__refuse_in_words_or_answer(files, count):
    check_many(count, command_lines(), check_command)
