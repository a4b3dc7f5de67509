"""Runs that are called again: the same ones go on, others are refused by the field that differs."""

import json
import re
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import zarr

import dhsic
from dhsic.engine.events import BlockFinished, PassStarted
from dhsic.engine.samples import describe_sources
from dhsic.errors import DataError, InvalidArgumentError, MissingDependencyError
from dhsic.estimators import TABLE
from dhsic.io.open import open_variables
from tests.engine.toys import CountingStore, threads

N = 300
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 3))
Y = X[:, :1] + RNG.standard_normal((N, 1))


class Seen:
    """A listener that remembers, and stops a run at a block of a pass."""

    def __init__(self, stop=None):
        self.stop, self.events = stop, []

    def __call__(self, event):
        self.events.append(event)
        if isinstance(event, BlockFinished) and event.name == self.stop:
            raise KeyboardInterrupt

    @property
    def started(self):
        return [event for event in self.events if isinstance(event, PassStarted)]

    @property
    def blocks(self):
        return [event for event in self.events if isinstance(event, BlockFinished)]


def run(folder, *data, **options):
    asked = {
        "estimator": dhsic.NystromMHSIC(n_landmarks=20),
        "null": dhsic.Multiplier(30),
        "kernels": "gaussian",
        "rng": 0,
        "threads": 2,
        "checkpoint": None if folder is None else str(folder),
        **options,
    }
    return dhsic.independence_test(*(data or (X, Y)), **asked)


def same(one, other):
    return (one.statistic, one.pvalue, one.null_distribution.tobytes()) == (
        *(other.statistic, other.pvalue, other.null_distribution.tobytes()),
    )


RESAMPLING = (dhsic.Shifts, dhsic.Chain, dhsic.Permutation, dhsic.Multiplier)
EVERY = [
    pytest.param(row.estimator.name, null, id=f"{row.estimator.name}-{null.name}")
    for row in TABLE
    for kind in row.nulls
    for null in [
        dhsic.Sequential(4, 40)
        if kind is dhsic.Sequential
        else kind(39)
        if kind in RESAMPLING
        else kind()
    ]
]


@pytest.mark.sampled(2)
@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
@pytest.mark.parametrize(("estimator", "null"), EVERY)
def test_independence_test__of_every_kind_goes_on_to_the_same_bits(estimator, null, tmp_path):
    options = {"estimator": estimator, "null": null, "kernels": None}
    quiet = run(None, **options)
    kept = run(tmp_path / "kept", **options)
    seen = Seen()
    again = run(tmp_path / "kept", progress=seen, **options)
    assert same(quiet, kept)
    assert same(quiet, again)
    assert seen.blocks == []
    assert all(event.resumed == event.amount for event in seen.started)
    assert seen.started or null.name == "spectral"  # which takes no pass where it holds all rows


@pytest.fixture
def long(tmp_path):
    """Data of several blocks, in storage."""
    paths = str(tmp_path / "x.zarr"), str(tmp_path / "y.zarr")
    rng = np.random.default_rng(3)
    for path, d in zip(paths, (4, 1), strict=True):
        zarr.create_array(path, data=rng.standard_normal((40_000, d)), chunks=(4096, d))
    return paths


@pytest.mark.parametrize("stop", ["kernel sums", "multiplier null"])
@pytest.mark.parametrize("places", [("threads", "client"), ("client", "threads")])
def test_independence_test__goes_on_after_an_interrupt(stop, places, long, client, tmp_path):
    where = {"threads": {"threads": 1}, "client": {"threads": None, "client": client}}
    quiet = run(None, *long)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "kept", *long, progress=Seen(stop), **where[places[0]])
    seen = Seen()
    again = run(tmp_path / "kept", *long, progress=seen, **where[places[1]])
    assert same(quiet, again)
    if stop == "multiplier null":
        assert seen.started[0].resumed == 40_000
    run(tmp_path / "kept", *long, progress=(once_more := Seen()), memory="3GiB")
    assert once_more.blocks == []


def test_hsic__goes_on(tmp_path):
    options = {"rng": 0, "checkpoint": str(tmp_path / "kept"), "threads": 1}
    first = dhsic.hsic(X, Y, **options)
    again = dhsic.hsic(X, Y, **options, progress=(seen := Seen()))
    assert (again.estimate, seen.blocks) == (first.estimate, [])
    assert seen.started


def test_witness_functions__go_on(tmp_path):
    options = {"rng": 0, "checkpoint": str(tmp_path / "kept"), "threads": 1}
    points = np.linspace(-1.0, 1.0, 5)[:, None]
    y = X[:, 0] ** 2
    first = dhsic.witness_functions(X[:, 0], y, **options).first(points)
    again = dhsic.witness_functions(X[:, 0], y, **options, progress=(seen := Seen()))
    assert again.first(points).tobytes() == first.tobytes()
    assert seen.blocks == []
    assert seen.started


def stored(tmp_path, values, name, chunks=None, dtype=None, **attributes):
    path = tmp_path / f"{name}.zarr"
    values = np.asarray(values, dtype)
    array = zarr.create_array(path, data=values, chunks=chunks or values.shape)
    array.attrs.update(attributes)
    return str(path)


CHANGED = X.copy()
CHANGED[N // 2, 1] += 1e-9
LABELS = RNG.integers(0, 3, N)

DIFFERENCES = [
    ({"rng": 1}, "seed was 0 there and is 1 now"),
    ({"precision": "float32"}, "precision"),
    ({"estimator": dhsic.NystromMHSIC(n_landmarks=21)}, r"estimator\.n_landmarks was 20"),
    ({"estimator": dhsic.NystromMHSIC(n_landmarks=20, pairing="joint")}, r"estimator\.pairing"),
    ({"estimator": "rff-hsic"}, 'estimator was "NystromMHSIC" there and is "RFFHSIC" now'),
    ({"null": dhsic.Multiplier(31)}, r"null\.n_resamples was 30 there and is 31 now"),
    ({"null": dhsic.Permutation(30)}, 'null was "Multiplier" there and is "Permutation" now'),
    ({"null": "spectral"}, "null was"),
    ({"kernels": "laplacian"}, r'kernels\[0\] was "Gaussian" there and is "Laplacian" now'),
    ({"kernels": ["gaussian", "gaussian:0.5"]}, r"kernels\[1\]\.gamma"),
    ({"kernels": None}, "kernels"),
    ({"names": ("x1", "z")}, r'variables\[1\]\.name was "x2" there and is "z" now'),
    ({"data": (X[:-1], Y[:-1])}, "rows was 300 there and is 299 now"),
    ({"data": (X[:, :2], Y)}, r"variables\[0\]\.shape\[1\] was 3"),
    ({"data": (X.astype(np.float32), Y)}, r'variables\[0\]\.dtype was "<f8"'),
    ({"data": (CHANGED, Y)}, r"content\.variable 'x1'\.rows 0 to 299"),
    ({"data": (X, Y, LABELS)}, r"variables_of_kernels|kernels"),
]


@pytest.mark.parametrize(("change", "field"), DIFFERENCES, ids=[field for _, field in DIFFERENCES])
def test_checkpoint__of_another_run_is_refused_by_the_field(change, field, tmp_path):
    run(tmp_path / "kept")
    before = sorted(tmp_path.rglob("*"))
    other = {"data": (X, Y), **change}
    data = other.pop("data")
    with pytest.raises(InvalidArgumentError, match=field) as caught:
        run(tmp_path / "kept", *data, **other)
    assert "take another URL, or remove it with 'dhsic checkpoints clean'" in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_checkpoint__of_another_version_is_refused(tmp_path, monkeypatch):
    run(tmp_path / "kept")
    monkeypatch.setattr("dhsic.engine.checkpoint.__version__", "99.0")
    with pytest.raises(InvalidArgumentError, match='dhsic was "'):
        run(tmp_path / "kept")


@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
@pytest.mark.parametrize(
    ("option", "value"),
    [("aggregate", "min-p"), ("reference_share", 0.25), ("combine", "all"), ("most", 5)],
)
def test_checkpoint__of_another_grid_is_refused(option, value, tmp_path):
    run(tmp_path / "kept", kernels=dhsic.Grid(), estimator="v-hsic")
    with pytest.raises(InvalidArgumentError, match=rf"(grid\.{option}|kernels|combinations)"):
        run(tmp_path / "kept", kernels=dhsic.Grid(**{option: value}), estimator="v-hsic")


def grid(factors=(0.5, 1.0), combine="all"):
    return dhsic.Grid(dhsic.Candidates("gaussian", factors), combine=combine)


@pytest.mark.parametrize(
    ("other", "field"),
    [(grid(factors=(0.5, 2.0)), "factors"), (grid(combine="matched"), "combinations")],
)
def test_checkpoint__of_other_candidates_is_refused_by_the_field(other, field, tmp_path):
    run(tmp_path / "kept", kernels=grid(), estimator="v-hsic")
    with pytest.raises(InvalidArgumentError, match=rf"of another run: {field}"):
        run(tmp_path / "kept", kernels=other, estimator="v-hsic")


def test_checkpoint__of_another_question_is_refused(tmp_path):
    estimator = dhsic.NystromMHSIC(n_landmarks=20)
    run(tmp_path / "kept")
    with pytest.raises(InvalidArgumentError, match="computes was"):
        dhsic.hsic(X, Y, estimator=estimator, rng=0, checkpoint=str(tmp_path / "kept"))


def test_checkpoint__sees_columns_and_categories(tmp_path):
    x, label = stored(tmp_path, X, "x"), stored(tmp_path, LABELS, "label")
    coded = stored(tmp_path, LABELS, "coded", kind="categorical")
    kernels = ["gaussian", "delta"]
    names = ("x", "label")
    run(tmp_path / "kept", x, label, kernels=kernels, names=names)
    with pytest.raises(InvalidArgumentError, match=r"variables\[1\]\.categorical was false"):
        run(tmp_path / "kept", x, coded, kernels=kernels, names=names)
    group = zarr.create_group(tmp_path / "group.zarr")
    group.create_array("x", data=np.hstack([X, X]))
    opened = [
        dhsic.io.open.open_group(str(tmp_path / "group.zarr"), ["x[:, 0:3]", variable])
        for variable in ("y=x[:, 3:5]", "y=x[:, 4:6]")
    ]
    run(tmp_path / "columns", *opened[0])
    with pytest.raises(InvalidArgumentError, match=r"variables\[1\]\.columns\[0\] was 3"):
        run(tmp_path / "columns", *opened[1])


def chunked(values, place, folder):
    if place == "zarr":
        if folder.exists():
            array = zarr.open_array(folder, mode="r+")
            differs = np.flatnonzero((array[:] != values).any(axis=1))
            array[differs[0] : differs[-1] + 1] = values[differs[0] : differs[-1] + 1]
        else:
            zarr.create_array(folder, data=values, chunks=(4000, 1))
        return str(folder)
    return values if place == "memory" else da.from_array(values, chunks=(7000, 1))


@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize(("place", "span"), [("memory", 32_768), ("zarr", 4000), ("dask", 32_768)])
def test_checkpoint__sees_a_changed_row_of_many(place, span, count, tmp_path):
    x, y = np.random.default_rng(1).normal(size=(2, 200_000, 1))
    changed = x.copy()
    changed[77_000 : 77_000 + count] += 1.0
    run(tmp_path / "kept", chunked(x, place, tmp_path / "x"), y)
    with pytest.raises(InvalidArgumentError, match="is of another run") as caught:
        run(tmp_path / "kept", chunked(changed, place, tmp_path / "x"), y)
    found = re.search(r"variable 'x1?'\.rows (\d+) to (\d+) was", str(caught.value))
    first, last = map(int, found.groups())
    assert first <= 77_000 <= 77_000 + count - 1 <= last
    assert last - first < span
    assert "take another URL, or remove it with 'dhsic checkpoints clean'" in str(caught.value)


@pytest.mark.parametrize("place", ["memory", "zarr", "dask"])
def test_checkpoint__goes_on_with_data_that_did_not_change(place, tmp_path):
    data = [chunked(values, place, tmp_path / name) for values, name in ((X, "x"), (Y, "y"))]
    first = run(tmp_path / "kept", *data)
    assert same(first, run(tmp_path / "kept", *data, progress=(seen := Seen())))
    assert seen.blocks == []


def test_checkpoint__of_dask_arrays_does_not_depend_on_their_chunks():
    x = np.random.default_rng(1).normal(size=(70_000, 2))
    sources = [da.from_array(x, chunks=(rows, 2)) for rows in (7000, 70_000)]
    one, other = (describe_sources(open_variables([x, y]), threads(1)) for y in sources)
    assert one["content"]["variable 'x2'"] == other["content"]["variable 'x2'"]
    assert len(one["content"]["variable 'x2'"]) == 3
    assert one["content"]["variable 'x1'"] == one["content"]["variable 'x2'"]


def test_checkpoint__computes_a_dask_array_once_for_all_its_variables():
    computed = []

    def made(block):
        computed.append(len(block))
        return block + 1.0

    x = da.from_array(X, chunks=(100, 3)).map_blocks(made, dtype=X.dtype, meta=np.empty((0, 3)))
    found = describe_sources(open_variables([x[:, :2], x[:, 2:]]), threads(1))["content"]
    assert len(computed) == 6  # three chunks for sampled rows, and three for all
    assert found["variable 'x1'"] != found["variable 'x2'"]


def test_checkpoint__looks_at_few_chunks(tmp_path):
    stored(tmp_path, np.zeros((10_000, 2)), "x", chunks=(100, 2))
    store = CountingStore(zarr.storage.LocalStore(tmp_path / "x.zarr", read_only=True))
    sources = open_variables([zarr.open_array(store, mode="r"), np.zeros(10_000)])
    describe_sources(sources, threads(1))
    assert 2 <= sum(store.reads.values()) <= 4


def test_checkpoint__holds_a_readable_manifest(tmp_path):
    run(tmp_path / "kept")
    found = json.loads((tmp_path / "kept" / "dhsic-checkpoint.json").read_text())["run"]
    assert found["computes"] == "independence test"
    assert found["variables"][0]["shape"] == [N, 3]
    assert found["dhsic"] == dhsic.__version__


BAD = [
    (3, InvalidArgumentError, "must be the path or URL of a folder"),
    (Path("a\0b"), InvalidArgumentError, "must be the path or URL of a folder"),
    ("", InvalidArgumentError, "must be the path or URL of a folder"),
    ("  ", InvalidArgumentError, "must be the path or URL of a folder"),
    ("a\0b", InvalidArgumentError, "must be the path or URL of a folder"),
    ("a\nb", InvalidArgumentError, "must be the path or URL of a folder"),
    ("simplecache::s3://bucket/x", InvalidArgumentError, "must be the path or URL of a folder"),
    ("nowhere://bucket/x", InvalidArgumentError, "a URL must be of a kind"),
    ("s3://me:secret@bucket/x", InvalidArgumentError, "without user name, password or query"),
    ("s3://bucket/x?token=secret", InvalidArgumentError, "without user name, password or query"),
    ("s3://", InvalidArgumentError, "must name a bucket"),
    ("gs://bucket/x", MissingDependencyError, "not installed"),
    ("{file}", InvalidArgumentError, "must be a folder, got the file"),
    ("{file}/inside", DataError, "cannot"),
    ("{full}", InvalidArgumentError, "holds other files"),
    ("{broken}", DataError, "must have format 1, got none"),
    ("{newer}", DataError, "must have format 1, got 2"),
    ("{list}", DataError, "must have format 1, got none"),
    ("/proc/kept", DataError, "cannot create"),
]


@pytest.fixture
def places(tmp_path):
    """Folders that are no checkpoints."""
    texts = {"broken": "{", "newer": '{"format": 2, "run": {}, "token": ""}', "list": "[]"}
    for name, text in texts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "dhsic-checkpoint.json").write_text(text)
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("x")
    return {name: tmp_path / name for name in [*texts, "file", "full"]}


@pytest.mark.parametrize(("url", "error", "words"), BAD, ids=[str(bad[0]) for bad in BAD])
def test_checkpoint__that_cannot_be_used_is_an_error_in_a_line(url, error, words, places, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    url = url.format(**places) if isinstance(url, str) else url
    with pytest.raises(error, match=words) as caught:
        run(None, checkpoint=url)
    message = str(caught.value)
    assert "\n" not in message
    assert "secret" not in message
    assert len(message) < 400
    assert sorted(tmp_path.rglob("*")) == before


def test_checkpoint__needs_a_seed(tmp_path):
    with pytest.raises(InvalidArgumentError, match="rng must be a seed when a checkpoint"):
        run(tmp_path / "kept", rng=None)
    assert not (tmp_path / "kept").exists()


def test_checkpoint__takes_a_generator_in_the_same_state(tmp_path):
    first = run(tmp_path / "kept", rng=np.random.default_rng(5))
    seen = Seen()
    assert same(first, run(tmp_path / "kept", rng=np.random.default_rng(5), progress=seen))
    assert seen.blocks == []


def test_checkpoint__is_made_once_the_plan_is_allowed(tmp_path):
    with pytest.raises(dhsic.errors.MemoryBudgetError):
        run(tmp_path / "kept", memory="1MiB")
    assert not (tmp_path / "kept").exists()
