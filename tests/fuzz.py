"""Calls that are nearly valid: of every public function and command, an argument or two is wrong.

Such a call must end in an error of this package, or in a result of finite numbers.
"""

import importlib
import inspect
import math
import warnings
from pathlib import Path

import click
import numpy as np
import scipy.sparse as sp
import zarr
from click.testing import CliRunner
from hypothesis import strategies as st

import dhsic
from dhsic import analysis, errors
from dhsic.cli import main
from dhsic.io.million_song import convert_million_song
from dhsic.io.synthetic import generate
from dhsic.io.tabular import convert_table
from dhsic.kernels import Gaussian
from dhsic.results import Result

ROWS = 24
MODULES = ("dhsic", *(f"dhsic.{name}" for name in dhsic._SUBMODULES))

# They start processes; what they take is read by ClusterSpec, which is among the classes.
STARTING = {"connect", "local_cluster"}
OWN_WARNINGS = (
    *(errors.PrecisionWarning, errors.LandmarkWarning, errors.ApproximateNullWarning),
    errors.InsecureWarning,
)


def public_functions():
    """Functions, and classes of options, by their names."""
    found = {one.__name__: one for one in (convert_table, convert_million_song, generate)}
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            one = getattr(module, name)
            if inspect.isfunction(one) or (inspect.isclass(one) and _holds_options(one)):
                found[f"{module.__name__}.{name}"] = one
    return {name: one for name, one in found.items() if one.__name__ not in STARTING}


def _holds_options(cls):
    others = (Result, Exception, tuple)
    abstract = inspect.isabstract(cls) or cls.__dict__.get("_is_protocol", False)
    return not issubclass(cls, others) and not abstract


class Samples:
    """Values that the parameters of some name take, in a folder."""

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(0)
        x, y, z = rng.random((3, ROWS))
        group = zarr.create_group(folder / "g.zarr")
        for name, values in {"x": x, "y": y, "z": z, "w": rng.random((ROWS, 3))}.items():
            group.create_array(name, data=values)
        (folder / "t.csv").write_text("a,b\n" + "".join(f"{j},{j * j}\n" for j in range(ROWS)))
        (folder / "songs.txt").write_text("2001," + ",".join(["49.94357"] * 90) + "\n")
        (folder / "pairs").mkdir()
        np.savetxt(folder / "pairs" / "pair0001.txt", np.stack([x, y], axis=1))
        embedding = dhsic.mean_embedding(x, Gaussian(1.0), 5, rng=0)
        embedding.save(folder / "e.npz")
        spectrum = analysis.covariance_spectrum(x)
        self.folder = folder
        self.columns = (x, y, z)
        self.values = {
            "x": x,
            "y": y,
            "given": z,
            "features": np.stack([x, y, z], axis=1),
            "target": y,
            "k": 1,
            "first": embedding,
            "second": embedding,
            "path": folder / "e.npz",
            "place": str(folder / "g.zarr" / "x"),
            "extension": "none",
            "n": 100,
            "p": 10,
            "delta": 0.1,
            "gamma": 0.5,
            "scale": 1.0,
            "spectrum": spectrum,
            "joint": spectrum,
            "marginals": [spectrum] * 2,
            "vary": {"rows": [ROWS]},
            "pairs": [(x, y)],
            "scores": x,
            "truth": x > 0.5,
            "regression": "splines",
            "source": folder / "t.csv",
            "destination": folder / "out.zarr",
            "variables": {"v": ["a"]},
            "rows": ROWS,
            "result": dhsic.hsic(x, y, kernels="gaussian"),
            "kind": "local",
            "maximum": 2,
            "ca": "ca",
            "cert": "cert",
            "key": "key",
            "address": "http://none",
            "image": "none",
            "workers": 1,
            "process": "one",
            "planned": 1,
            "peak": 1,
            "candidates": dhsic.Candidates(),
            "names": ("x", "y"),
            "parents": ((), (0,)),
            "rows_": ROWS,
            "eigenvalues": x,
            "supremum": 1.0,
            "landmarks": 1.0,
            "dimension": 1.0,
            "suprema": (1.0,),
        }
        self.quick = {"kernels": "gaussian", "rng": 0, "overwrite": True, "repeats": 1}

    def of(self, name, function):
        """Arguments of a valid call that is quick."""
        taken = inspect.signature(function).parameters
        args, kwargs = [], {}
        for one in taken.values():
            if one.kind is one.VAR_POSITIONAL:
                whole = self.columns if "interaction" in name else self.columns[:2]
                args += [self.values["spectrum"]] if one.name == "spectra" else whole
            elif one.name in self.quick and one.kind is not one.VAR_KEYWORD:
                kwargs[one.name] = self.quick[one.name]
            elif one.default is one.empty and one.kind is not one.VAR_KEYWORD:
                assert one.name in self.values, f"fuzz.py has no value of {one.name} of {name}"
                value = self.values[one.name]
                if any(other.kind is one.VAR_POSITIONAL for other in taken.values()) and not kwargs:
                    if one.kind is one.KEYWORD_ONLY:
                        kwargs[one.name] = value
                    else:
                        args.append(value)
                else:
                    kwargs[one.name] = value
        return args, kwargs

    def junk(self):
        """What is now and then passed by mistake."""
        x = self.columns[0]
        shapes = [(0,), (1,), (0, 2), (ROWS, 0), (1, 3), (ROWS,), (ROWS, 2), (2, 2, 2), ()]
        dtypes = [
            *("f8", "f4", "f2", "i1", "u8", "?", "c16", "O", "U3", "S3", "M8[s]", "m8[s]"),
            *("longdouble", [("a", "f8"), ("b", "i4")], ">f8"),
        ]
        fills = [0, 1, np.nan, np.inf, -1, 1e300]
        arrays = st.builds(_filled, *map(st.sampled_from, (shapes, dtypes, fills)))
        texts = ["", "10", "auto", "x", "gaussian", "nystrom-m", "gaussian:-1", "a\0b", "\x1b[31m"]
        numbers = [
            *(True, 0, 1, -1, 3, 0.5, -0.5, math.nan, math.inf, -math.inf, 1e-320, 1e308, 1j),
            *(10**30, -(10**30), np.int64(3), np.float32(0.5), np.bool_(True)),
        ]
        others = [
            *(None, ..., object(), int, len, lambda *_: 1, b"x", range(3), slice(2)),
            *({}, {"a": x}, {1: x}, {"a": [1, 2], "b": [1]}, {0.5}, set(), frozenset("ab")),
            *([], [[]], [None], [[1, 2], [3]], [[[1]]], [1, "a"], ["a", "b"], (), ("a",), [x, x]),
            *([math.nan] * ROWS, [10**400] * ROWS, [object()] * 3, [True] * ROWS, list("ab") * 12),
            *(self.folder, str(self.folder), self.folder / "absent", self.folder / "t.csv"),
            *(str(self.folder / "g.zarr"), "memory://none", "s3://[", "file:///none"),
            *(dhsic.VHSIC(), dhsic.Permutation(5), dhsic.Grid(), dhsic.Candidates(), Gaussian(1.0)),
            *(dhsic.NystromMHSIC, self.values["first"], self.values["result"]),
            *(np.ma.masked_all(ROWS), sp.eye_array(ROWS).tocsr(), sp.dok_array((ROWS, 2))),
            *(x[:5], x[:, None, None], np.asfortranarray(np.ones((ROWS, 2))), x[::-1], x * 1e-300),
            *(np.broadcast_to(1.0, (ROWS, 2)), memoryview(b"abc"), bytearray(3), np.dtype("f8")),
        ]
        plain = st.sampled_from([*texts, *numbers, *others])
        generators = st.builds(
            lambda count: (j for j in range(count)), st.sampled_from([0, 2, ROWS])
        )
        nested = st.recursive(plain, lambda inner: st.lists(inner, max_size=3), max_leaves=4)
        return st.one_of(plain, arrays, plain, nested, generators)


def _filled(shape, dtype, fill):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return np.full(shape, fill, np.dtype(dtype))
        except (ValueError, OverflowError, TypeError):
            return np.zeros(shape, np.dtype(dtype))


@st.composite
def calls(draw, samples, functions):
    """A function with its arguments, one or two of which are something else."""
    name = draw(st.sampled_from(sorted(functions)))
    args, kwargs = samples.of(name, functions[name])
    taken = inspect.signature(functions[name]).parameters.values()
    named = [one.name for one in taken if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)]
    named = [one for one in named if one not in ("client",)] if args else named
    for _ in range(draw(st.integers(1, 2))):
        place = draw(st.sampled_from([*range(len(args)), *named] or [""]))
        value = draw(samples.junk())
        if isinstance(place, int):
            args[place] = value
        elif place and (not args or place not in _positional(taken)):
            kwargs[place] = value
    return name, args, kwargs


def _positional(taken):
    """Parameters before the variables, which are given by position."""
    return [one.name for one in taken if one.kind is one.POSITIONAL_OR_KEYWORD]


def check_call(function, args, kwargs):
    """Raise unless it ends as it should; whether it ended in a result."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for category in OWN_WARNINGS:
            warnings.simplefilter("ignore", category)
        try:
            found = function(*args, **kwargs)
            if isinstance(found, Result):
                str(found), repr(found), found._repr_html_()
        except errors.DhsicError:
            return False
    for name in ("statistic", "estimate", "pvalue", "score"):
        value = getattr(found, name, 0.0)
        assert value is None or callable(value) or np.isfinite(value).all(), (name, value)
    assert not isinstance(found, float) or math.isfinite(found), found
    return True


def commands(group=main, path=()):
    """All commands by their words."""
    found = {}
    for name, one in group.commands.items():
        inner = isinstance(one, click.Group)
        found |= commands(one, (*path, name)) if inner else {(*path, name): one}
    return found


class Words:
    """Words of valid commands that are quick, in the folder of the samples."""

    def __init__(self, folder: Path) -> None:
        group, pair = str(folder / "g.zarr"), ("--variable", "x", "--variable", "y")
        three, quick = (*pair, "--variable", "z"), ("--kernel", "gaussian")
        out = (str(folder / "o.zarr"), "--overwrite")
        runs = ("--runs", str(folder / "runs"))
        self.folder = folder
        self.valid = {
            ("generate",): (*out, "--rows", "9"),
            ("convert", "million-song"): (str(folder / "songs.txt"), *out),
            ("convert", "table"): (str(folder / "t.csv"), *out, "--variable", "v=a"),
            ("plan",): (group, *pair, *quick),
            ("test",): (group, *pair, *quick),
            ("sensitivity",): (group, *pair, *quick),
            ("rank",): (group, "--features", "w", "--target", "y", *quick),
            ("two-sample",): (group, "--sample", "x", "--sample", "y", *quick),
            ("interaction",): (group, *three, *quick),
            ("cause", "dags"): (group, *pair),
            ("cause", "order"): (group, *pair),
            ("cause", "residuals"): (group, *pair, "--given", "z", *quick),
            ("conditional",): (group, *pair, "--given", "z"),
            ("cause", "direction"): (group, *pair),
            ("cause", "pairs"): (str(folder / "pairs"),),
            ("demo",): ("--rows", "x"),  # a valid one starts processes
            ("submit", "slurm"): ("--spec", str(folder / "t.csv"), *runs, "--render-only", "x"),
            ("submit", "kubernetes"): ("--spec", str(folder), *runs, "--render-only", "x"),
            ("runs",): runs,
            ("status",): ("none", *runs),
            ("result",): ("none", *runs),
            ("cancel",): ("none", *runs),
            ("checkpoints", "list"): (str(folder / "runs"),),
            ("checkpoints", "clean"): (str(folder / "runs"), "--yes"),
        }

    def junk(self):
        """Words that are now and then typed by mistake; none that starts processes or waits."""
        numbers = "0 -1 nan inf 1e400 0.5 1e3 +1 ½ 2GiB 0GiB True null " + "9" * 30
        columns = "x y w [ ] x[ x[:,99] x[:,0:1] w[:,0,0] a=b =x a=x x= = , ,, a*b"
        kernels = "gaussian:0 gaussian:-1 gaussian:nan gaussian:1e400 gamma auto none"
        paths = "-- - / . .. :: %s {} é absent/file " + "a" * 300
        odd = ["", " ", "\x1b[31m", "\udcff", "a\nb", str(self.folder), str(self.folder / "t.csv")]
        return st.sampled_from([*f"{numbers} {columns} {kernels} {paths}".split(), *odd])


@st.composite
def command_lines(draw, words, known):
    """A command, one or two options of which are something else."""
    path = draw(st.sampled_from(sorted(known)))
    line = list(words.valid[path])
    options = [one for one in known[path].params if isinstance(one, click.Option)]
    places = [place for place, word in enumerate(line) if not word.startswith("--")]
    for _ in range(draw(st.integers(1, 2))):
        value = draw(words.junk())
        if draw(st.booleans()) and places:
            line[draw(st.sampled_from(places))] = value
        elif options:
            option = draw(st.sampled_from(options))
            if option.name == "workers" and value.strip("+") in ("1", "9" * 30):
                continue  # processes start
            line += [option.opts[0]] if option.is_flag else [option.opts[0], value]
    return path, line


def check_command(path, line):
    """Raise unless it ends as it should; whether it ended in a result."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for category in OWN_WARNINGS:
            warnings.simplefilter("ignore", category)
        done = CliRunner().invoke(main, [*path, *line])
    assert done.exit_code in (0, 2), done.stderr
    assert done.exit_code == 0 or done.stderr.strip()
    assert "Traceback" not in done.output
    return done.exit_code == 0
