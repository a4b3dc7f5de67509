"""Input that is damaged, or is no file: metadata, pipes, brackets without end, long paths."""

import json
import os

import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from click.testing import CliRunner

import dhsic
from dhsic.cli import main
from dhsic.errors import DataError, DhsicError, InvalidArgumentError
from dhsic.io.million_song import convert_million_song
from dhsic.io.open import open_group
from dhsic.io.zarr_output import new_group

BRACKETS = "[" * 100_000
TEST = ("--variable", "x", "--variable", "y", "--kernel", "gaussian")


@pytest.fixture(params=[2, 3])
def stored(request, tmp_path):
    """A group of x and y, with the metadata of x, and the second chunk of it."""
    group = zarr.create_group(tmp_path / "g.zarr", zarr_format=request.param)
    for name, values in zip("xy", np.random.default_rng(0).random((2, 60, 1)), strict=True):
        group.create_array(name, data=values, chunks=(20, 1))
    own = tmp_path / "g.zarr" / "x"
    return (
        (own / ".zarray", own / "1.0") if request.param == 2 else (own / "zarr.json", own / "c/1/0")
    )


def refused(*words):
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == 2, done.stderr
    return done.stderr


@pytest.mark.parametrize("chunk", [0, -1, "a", None, 1.5, 10**30])
def test_metadata__with_impossible_chunks_are_refused(stored, chunk):
    metadata, _ = stored
    told = json.loads(metadata.read_text())
    if "chunks" in told:
        told["chunks"] = [chunk, 1]
    else:
        told["chunk_grid"]["configuration"]["chunk_shape"] = [chunk, 1]
    metadata.write_text(json.dumps(told))
    assert "metadata of " in refused("test", metadata.parents[1], *TEST)
    with pytest.raises(DataError):
        dhsic.independence_test(str(metadata.parent), np.arange(60.0))


@pytest.mark.parametrize("text", [BRACKETS, '{"a":' * 100_000, "{}", "", "null"])
def test_metadata__that_are_none_are_refused(stored, text):
    metadata, _ = stored
    metadata.write_text(text)
    refused("test", metadata.parents[1], *TEST)
    with pytest.raises(DataError, match="is not a readable zarr array"):
        dhsic.independence_test(str(metadata.parent), np.arange(60.0))


def test_pipe__in_the_place_of_a_chunk_is_refused(stored):
    metadata, chunk = stored
    chunk.unlink()
    os.mkfifo(chunk)
    said = refused("test", metadata.parents[1], *TEST, "--allow-missing-chunks")
    assert "stored chunk 1 along the rows of variable 'x' must be a file, not a pipe" in said


def test_pipe__in_the_place_of_metadata_is_refused(stored):
    metadata, _ = stored
    metadata.unlink()
    os.mkfifo(metadata)
    with pytest.raises(DataError, match=r"cannot be read \(it is a pipe or a device, not a file"):
        open_group(str(metadata.parents[1]), ["x", "y"])
    with pytest.raises(DataError, match="it is a pipe or a device"):
        dhsic.stored_array(str(metadata.parent))


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.npz", "t.zarr", "t"])
def test_pipe__is_no_data(tmp_path, name):
    os.mkfifo(tmp_path / name)
    refused("test", tmp_path / name, *TEST)
    with pytest.raises(DataError):
        dhsic.load_embedding(tmp_path / name)
    with pytest.raises(DataError, match="is not a file"):
        convert_million_song(tmp_path / name, tmp_path / "o.zarr")


def test_pipe__is_no_file_of_a_cluster_and_no_part_of_a_checkpoint(stored, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    group = stored[0].parents[1]
    assert "it is a pipe or a device" in refused("test", group, *TEST, "--cluster", pipe)
    folder = tmp_path / "kept"
    folder.mkdir()
    pipe.rename(folder / "dhsic-checkpoint.json")
    assert "it is a pipe or a device" in refused("test", group, *TEST, "--checkpoint", folder)


@pytest.mark.parametrize("text", [BRACKETS, "[1]", '{"result":' * 100_000])
def test_json__of_no_result_is_refused(text):
    with pytest.raises(InvalidArgumentError, match="must be the JSON of a IndependenceTestResult"):
        dhsic.IndependenceTestResult.from_json(text)


def test_manifest__of_brackets_is_refused(stored, tmp_path):
    (tmp_path / "dhsic-checkpoint.json").write_text(BRACKETS)
    said = refused("test", stored[0].parents[1], *TEST, "--checkpoint", tmp_path)
    assert "the manifest of checkpoint" in said
    assert "must have format 1, got none" in refused("checkpoints", "list", tmp_path)


LONG = "a" * 300


@pytest.mark.parametrize(
    "words",
    [
        *(("test", "DATA", *TEST, option, LONG) for option in ("--json", "--report", "--log-json")),
        ("test", "DATA", *TEST, "--checkpoint", LONG),
        ("test", "DATA", *TEST, "--cluster", LONG),
        ("test", LONG, *TEST),
        ("test", f"{LONG}.csv", *TEST),
        ("generate", LONG, "--rows", "100"),
        ("convert", "million-song", LONG, "out.zarr"),
        ("convert", "table", f"{LONG}.csv", "out.zarr", "--variable", "x=a"),
        ("cause", "pairs", LONG),
        ("checkpoints", "list", LONG),
        ("status", LONG),
    ],
)
def test_paths__too_long_for_a_file_system_are_bad_usage(stored, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    refused(*(stored[0].parents[1] if word == "DATA" else word for word in words))


@pytest.mark.parametrize("name", [LONG, "a\0b"])
def test_paths__that_no_group_can_have_are_refused(tmp_path, name):
    with (
        pytest.raises(InvalidArgumentError, match=r"cannot name a zarr group .*: choose another"),
        new_group(tmp_path / name, {"x": 1}),
    ):
        pass


def test_rows__that_would_fill_the_disk_are_refused(tmp_path):
    said = refused("generate", tmp_path / "o.zarr", "--rows", "9" * 18)
    assert "rows must fit the disk" in said
    assert "columns must fit the memory" in refused(
        *("generate", tmp_path / "o.zarr", "--rows", 1, "--features", 10**9)
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("form", [sp.dok_matrix, sp.dok_array, sp.lil_matrix, sp.csr_array])
def test_sparse_matrices__are_matrices(form):
    rng = np.random.default_rng(0)
    dense = rng.random((40, 2)) * (rng.random((40, 2)) < 0.4)
    y = rng.random(40)
    found = dhsic.independence_test(form(dense), y, kernels="gaussian", rng=0)
    expected = dhsic.independence_test(dense, y, kernels="gaussian", rng=0)
    assert (found.pvalue, found.estimate) == (expected.pvalue, expected.estimate)
    assert len(dhsic.hsic(form(dense)).variables) == 2
    with pytest.raises(InvalidArgumentError, match="data must be a data frame"):
        dhsic.hsic("a", "b", data=form(dense))


@pytest.mark.parametrize("factor", [2.0**-150, 2.0**150])
def test_score_dags__does_not_depend_on_units(factor):
    causal = pytest.importorskip("dhsic.causal")
    x = np.random.default_rng(0).standard_normal((60, 2))
    x[:, 1] += x[:, 0] ** 2
    found, expected = (causal.score_dags(values, rng=0) for values in (factor * x, x))
    assert found.records() == expected.records()
    with pytest.raises(DhsicError, match="rescale the variable"):
        causal.score_dags(1e-160 * x, rng=0)


FIELDS = ("n_resamples", "estimator", "null", "precision", "kernels", "missing", "threads")


@pytest.mark.parametrize("value", ["10", np.arange(3.0), [[1]], {"a": 1}], ids=repr)
@pytest.mark.parametrize("name", FIELDS)
def test_options__of_another_kind_are_refused(name, value):
    if (name, str(value)) in (("n_resamples", "10"), ("threads", "10")):
        assert isinstance(value, str)  # a number as text is no number
    with pytest.raises(DhsicError):
        dhsic.independence_test(np.arange(9.0), np.arange(9.0) ** 2, **{name: value})


def test_options__of_others_that_are_arrays_are_refused():
    x, y = np.random.default_rng(0).random((2, 20))
    values = np.arange(3.0)
    with pytest.raises(DhsicError):
        dhsic.sensitivity_map(x, y, of=values)
    with pytest.raises(DhsicError):
        dhsic.select_features(np.stack([x, y], axis=1), y, 1, method=values)
    with pytest.raises(DhsicError):
        dhsic.rank_features(np.stack([x, y], axis=1), y, by=values)
    with pytest.raises(InvalidArgumentError, match="mmd compares mean embeddings, got an ndarray"):
        dhsic.mmd(x, y)
