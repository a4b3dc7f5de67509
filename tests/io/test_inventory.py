"""Stored chunks that are absent, folders in their place, and data that change under a run."""

import os
import shutil

import numpy as np
import pytest
import zarr
from zarr.codecs import ShardingCodec

import dhsic
from dhsic import causal
from dhsic.errors import DataError, DependentRowsWarning, InvalidArgumentError
from dhsic.io.inventory import inventory_of
from dhsic.io.open import open_data, open_group, open_variables
from dhsic.io.sources import StoredSource
from tests.io.stored import (
    ALLOW,
    QUICK,
    WHOLE,
    N,
    X,
    Y,
    Z,
    allowed,
    lose,
    touch,
    write,
)


def embedding(*data):
    return dhsic.mean_embedding(data[0], "gaussian:0.5", 10, rng=0)


FUNCTIONS = {
    "plan": lambda *d: dhsic.plan(*d[:2]),
    "independence_test": lambda *d: dhsic.independence_test(*d[:2], **QUICK),
    "hsic": lambda *d: dhsic.hsic(*d[:2], **QUICK),
    "interaction_test": lambda *d: dhsic.interaction_test(*d, rng=0),
    "plan_interaction": lambda *d: dhsic.plan_interaction(*d),
    "two_sample_test": lambda *d: dhsic.two_sample_test(*d[:2], rng=0),
    "plan_two_sample": lambda *d: dhsic.plan_two_sample(*d[:2]),
    "dependence_matrix": lambda *d: dhsic.dependence_matrix(*d, rng=0),
    "rank_features": lambda *d: dhsic.rank_features(*d[:2], rng=0),
    "plan_ranking": lambda *d: dhsic.plan_ranking(*d[:2]),
    "select_features": lambda *d: dhsic.select_features(*d[:2], 1, rng=0),
    "sensitivity_map": lambda *d: dhsic.sensitivity_map(*d[:2], rng=0),
    "witness_functions": lambda *d: dhsic.witness_functions(*d[:2], rng=0),
    "mean_embedding": embedding,
    "direction": lambda *d: causal.direction(*d[:2], rng=0),
    "score_dags": lambda *d: causal.score_dags(*d[:2], rng=0),
    "search_dag": lambda *d: causal.search_dag(*d[:2], rng=0),
    "residuals": lambda *d: causal.residual_independence_test(*d[:2], given=d[2], rng=0),
    "conditional": lambda *d: dhsic.conditional_independence_test(*d[:2], given=d[2], rng=0),
}
RUNS = [name for name in FUNCTIONS if not name.startswith("plan")]
TELLING = [name for name in RUNS if name not in ("mean_embedding", "witness_functions")]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_absent_chunks__are_refused_with_their_rows(name, paths):
    lose(paths[0])
    with pytest.raises(DataError, match=r"lacks 1 stored chunk, of rows 50 to 99, which") as caught:
        FUNCTIONS[name](*paths)
    assert "read as 0" in str(caught.value)
    assert "--allow-missing-chunks" in str(caught.value)
    assert "dhsic.stored_array(..., allow_missing_chunks=True)" in str(caught.value)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_absent_chunks__are_the_fill_value_where_they_are_allowed(name, paths):
    lose(paths[0])
    FUNCTIONS[name](*allowed(paths))


def test_absent_chunks__no_longer_make_evidence_without_a_word(tmp_path):
    x, y = np.random.default_rng(1).normal(3.0, 1.0, (2, 10_000, 1))
    paths = [str(tmp_path / name) for name in ("x", "y")]
    for path, values in zip(paths, (x, y), strict=True):
        zarr.create_array(path, data=values, chunks=(1000, 1))
    options = {"kernels": "gaussian", "null": "gamma", "estimator": "nystrom-hsic", "rng": 0}
    assert dhsic.independence_test(*paths, **options).pvalue > 0.01
    lose(*paths, chunk="c/3/0")
    with pytest.raises(DataError, match="rows 3000 to 3999"):
        dhsic.independence_test(*paths, **options)
    with pytest.warns(DependentRowsWarning):  # rows of the absent chunk are alike in both
        found = dhsic.independence_test(*allowed(paths), **options)
    assert found.pvalue < 1e-50
    assert [one.absent for one in found.data] == [1, 1]
    assert "1 chunk of x absent, read as the fill value" in str(found)


def test_absent_chunks__are_allowed_of_the_array_that_says_so(paths):
    lose(*paths)
    one = dhsic.stored_array(paths[0], **ALLOW)
    with pytest.raises(DataError, match="variable 'y' lacks"):
        dhsic.plan(one, paths[1])


def test_absent_chunks__of_a_group_are_allowed(group):
    lose(f"{group}/x")
    with pytest.raises(DataError, match="rows 50 to 99"):
        dhsic.plan(*open_group(group, ["x", "y"]))
    with pytest.raises(DataError, match="rows 50 to 99"):
        dhsic.plan("x", "y", data=group)
    dhsic.plan(*open_group(group, ["x", "y"], **ALLOW))


def test_absent_chunks__that_touch_are_one_range(paths):
    lose(paths[0], chunk="c/1/0")
    lose(paths[0], chunk="c/2/0")
    lose(paths[0], chunk="c/0/0")
    with pytest.raises(DataError, match="lacks 3 stored chunks, of rows 0 to 149, which"):
        dhsic.plan(*paths)


def test_absent_chunks__of_any_columns_are_refused(tmp_path):
    path = str(tmp_path / "wide.zarr")
    zarr.create_array(path, data=np.hstack([X, Y, Z]), chunks=(50, 1))
    lose(path, chunk="c/3/2")
    with pytest.raises(DataError, match="rows 150 to 199"):
        dhsic.plan(path, Y)


@pytest.mark.parametrize("fill", [1.5, -7.0])
def test_absent_chunks__are_told_with_their_fill_value(tmp_path, fill):
    paths = write(tmp_path, fill_value=fill)
    lose(paths[0])
    with pytest.raises(DataError, match=f"would be read as {fill:g}"):
        dhsic.plan(*paths)


def test_absent_chunks__whose_fill_value_is_nan_are_missing_values(tmp_path):
    paths = write(tmp_path, fill_value=float("nan"))
    lose(paths[0])
    with pytest.raises(DataError, match="has NaN or infinity, first in row 50"):
        dhsic.independence_test(*paths[:2], **QUICK)
    found = dhsic.independence_test(*paths[:2], missing="drop", **QUICK)
    assert (found.n, found.dropped, found.data[0].absent) == (N - 50, 50, 1)


@pytest.mark.parametrize("version", [2, 3])
def test_zeros__that_are_left_out_are_refused_and_pass_where_written(tmp_path, version):
    rare = np.zeros((N, 1))
    rare[3] = 1.0
    left_out, written = str(tmp_path / "out.zarr"), str(tmp_path / "in.zarr")
    zarr.create_array(left_out, data=rare, chunks=(50, 1), zarr_format=version)
    zarr.create_array(written, data=rare, chunks=(50, 1), zarr_format=version, config=WHOLE)
    with pytest.raises(DataError, match="lacks 3 stored chunks, of rows 50 to 199"):
        dhsic.independence_test(left_out, Y, **QUICK)
    found = dhsic.independence_test(written, Y, **QUICK)
    same = dhsic.independence_test(dhsic.stored_array(left_out, **ALLOW), Y, **QUICK)
    assert found.pvalue == same.pvalue


def test_absent_chunks__in_memory_are_refused():
    array = zarr.create_array({}, shape=(N, 1), chunks=(50, 1), dtype="f8")
    array[:100] = 1.0
    with pytest.raises(DataError, match="rows 100 to 199"):
        dhsic.plan(array, Y)


@pytest.mark.parametrize("allow", [False, True])
def test_folder__in_the_place_of_a_chunk_is_refused(paths, allow):
    lose(paths[0])
    os.mkdir(f"{paths[0]}/c/1/0")
    source = dhsic.stored_array(paths[0], allow_missing_chunks=allow)
    with pytest.raises(DataError, match=r"chunk 1 along the rows of variable 'x' must be a file"):
        dhsic.plan(source, paths[1])


def test_folder__that_is_gone_is_an_error(paths):
    opened = open_variables(paths)
    shutil.rmtree(paths[0])
    with pytest.raises(DataError, match=r"chunks of variable 'x' cannot be listed .*No such file"):
        dhsic.plan(*opened)


# Shards


def shards(path, rows, location="end", codecs=None):
    """100 rows a shard, 10 a chunk, of which only some rows are ever written."""
    inner = ShardingCodec(
        chunk_shape=(10, 1), index_location=location, **({"index_codecs": codecs} if codecs else {})
    )
    array = zarr.create_array(
        str(path),
        shape=(N + 50, 1),
        chunks=(100, 1),
        dtype="f8",
        serializer=inner,
        compressors=None,
    )
    for start, stop in rows:
        array[start:stop] = 1.0 + np.arange(start, stop)[:, None]
    return zarr.open_array(str(path), mode="r")


@pytest.mark.parametrize("location", ["start", "end"])
def test_shards__tell_chunks_that_are_absent_within(tmp_path, location):
    array = shards(tmp_path / "x.zarr", [(0, 40), (60, 100), (200, 250)], location)
    found = inventory_of(array, "x")
    assert found.absent == [(40, 50), (50, 60), (100, 200)]
    assert (found.summary.chunks, found.summary.absent) == (3, 3)
    with pytest.raises(DataError, match="of rows 40 to 59, rows 100 to 199, which"):
        dhsic.plan(array, np.arange(250.0))
    dhsic.plan(dhsic.stored_array(array, **ALLOW), np.arange(250.0))


def test_shards__that_are_whole_pass(tmp_path):
    array = shards(tmp_path / "x.zarr", [(0, 250)])
    assert inventory_of(array, "x").absent == []


def test_shards__that_are_cut_off_are_left_to_the_reader(tmp_path):
    array = shards(tmp_path / "x.zarr", [(0, 250)])
    os.truncate(tmp_path / "x.zarr" / "c" / "1" / "0", 20)
    assert inventory_of(array, "x").absent == []
    with pytest.raises(DataError, match=r"x\.zarr/c/1/0"):
        dhsic.hsic(array, np.arange(250.0), rng=0)


@pytest.mark.parametrize("name", RUNS)
def test_change__under_a_run_is_an_error(name, tmp_path, paths, disturbed):
    disturbed(lambda: touch(tmp_path / "x.zarr" / "c" / "2" / "0"))
    said = "the stored data of variable 'x' changed during the run, in rows 100 to 149"
    with pytest.raises(DataError, match=said):
        FUNCTIONS[name](*paths)


@pytest.mark.parametrize("chunk", ["of another size", "gone", "new"])
def test_change__of_any_kind_is_an_error(chunk, tmp_path, paths, disturbed):
    place = tmp_path / "x.zarr" / "c" / "2" / "0"
    kept = place.read_bytes()
    told = os.stat(place)

    def shrink():
        zarr.open_array(paths[0], mode="r+")[100:150] = 1.0
        os.utime(place, ns=(told.st_atime_ns, told.st_mtime_ns))

    changes = {
        "of another size": shrink,
        "gone": place.unlink,
        "new": lambda: place.write_bytes(kept),
    }
    if chunk == "new":
        place.unlink()
    disturbed(changes[chunk])
    with pytest.raises(DataError, match="changed during the run, in rows 100 to 149"):
        FUNCTIONS["direction"](*allowed(paths))


def test_change__between_passes_is_an_error(tmp_path):
    x, y = np.random.default_rng(1).normal(size=(2, 20_000, 1))
    paths = [str(tmp_path / name) for name in ("x", "y")]
    for path, values in zip(paths, (x, y), strict=True):
        zarr.create_array(path, data=values, chunks=(2000, 1))
    done = []

    def listen(event):
        if type(event).__name__ == "PassFinished" and not done:
            zarr.open_array(paths[1], mode="r+")[4000] = 5.0
            done.append(event)

    test = {"estimator": "nystrom-m", "null": "multiplier", "kernels": "gaussian", "rng": 0}
    with pytest.raises(DataError, match="'y' changed during the run, in rows 4000 to 5999"):
        dhsic.independence_test(*paths, progress=listen, **test)
    assert done


def test_change__beyond_the_rows_is_none(tmp_path, paths, disturbed):
    disturbed(lambda: (tmp_path / "x.zarr" / "c" / "9").mkdir())
    FUNCTIONS["hsic"](*paths)


@pytest.mark.parametrize("name", TELLING)
def test_result__tells_what_was_stored(name, paths):
    found = FUNCTIONS[name](*paths)
    data = found.measured.data if name == "sensitivity_map" else getattr(found, "data", None)
    assert {one.name for one in data} <= set("xyz")
    assert len(data) >= 2
    for one in data:
        assert (one.chunks, one.absent) == (4, 0)
        assert one.stored_bytes > 0
    again = FUNCTIONS[name](*paths)
    same = again.measured.data if name == "sensitivity_map" else again.data
    assert same == data


def test_result__has_another_digest_of_other_data(paths):
    before = FUNCTIONS["hsic"](*paths).data
    zarr.open_array(paths[0], mode="r+")[7] = 1.0
    after = FUNCTIONS["hsic"](*paths).data
    assert before[0].digest != after[0].digest
    assert before[1] == after[1]
    restored = dhsic.DependenceEstimate.from_json(FUNCTIONS["hsic"](*paths).to_json())
    assert restored.data == after


def test_listing__is_done_twice_an_array_whatever_its_variables(group, disturbed):
    listed = disturbed(lambda: None)
    dhsic.independence_test(*open_group(group, ["x", "y", "again=x"]), **QUICK)
    assert sorted(listed) == ["x", "x", "y", "y"]
    listed.clear()
    dhsic.plan(*open_group(group, ["x", "y"]))
    assert sorted(listed) == ["x", "y"]


def test_listing__sees_samples_and_rows_that_are_left_out(paths, disturbed):
    listed = disturbed(lambda: None)
    zarr.open_array(paths[0], mode="r+")[7] = float("nan")
    found = dhsic.two_sample_test(*paths[:2], missing="drop", rng=0)
    assert (found.dropped, sorted(listed)) == (1, ["x", "x", "y", "y"])


def test_stored_array__refuses_what_is_not_stored():
    with pytest.raises(InvalidArgumentError, match="place must be a zarr array"):
        dhsic.stored_array(X, allow_missing_chunks=True)


def test_open_data__keeps_what_is_allowed(paths):
    opened, _ = open_data(allowed(paths), None, None, "refuse")
    assert all(isinstance(one, StoredSource) and one.allow_missing_chunks for one in opened)
