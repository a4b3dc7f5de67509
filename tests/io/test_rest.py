"""The rows that are left of a variable are the same however they are asked for."""

import dask
import dask.array as da
import numpy as np
import pytest
import zarr

from dhsic.io.open import open_variables
from dhsic.io.rest import RestSource
from tests.estimators.features import session_on

N = 900
LEFT_OUT = np.sort(np.random.default_rng(1).choice(np.arange(1, N - 1), 300, replace=False))


def given(kind, x, tmp_path):
    if kind == "zarr":
        return zarr.create_array(tmp_path / "x.zarr", data=x, chunks=(200, 2))
    return da.from_array(x, chunks=(350, 2)) if kind == "dask" else x


@pytest.mark.parametrize(
    "left_out",
    [LEFT_OUT, np.union1d(LEFT_OUT, [0, N - 1]), np.arange(300), np.arange(600, N), []],
    ids=["between", "both ends", "first", "last", "none"],
)
@pytest.mark.parametrize(
    ("kind", "place"), [("numpy", "memory"), ("zarr", "storage"), ("dask", "graph")]
)
def test_rows__however_they_are_asked_for(kind, place, left_out, tmp_path):
    x = np.random.default_rng(0).standard_normal((N, 2))
    left_out = np.asarray(left_out, np.intp)
    kept = np.delete(np.arange(N), left_out)
    whole, _ = open_variables([given(kind, x, tmp_path), x])
    source, count = RestSource(whole, left_out), len(kept)
    assert (source.place, source.shape, source.row_bytes) == (place, (count, 2), 16)
    rows = np.array([0, 3, 299, count - 1])
    (taken,) = dask.compute(source.take(rows))
    np.testing.assert_array_equal(taken, x[kept[rows]])
    if place == "graph":
        for bounds in ([0, count], [0, 1, 250, 299, count]):
            blocks = dask.compute(*source.lazy(bounds))
            assert list(map(len, blocks)) == np.diff(bounds).tolist()
            np.testing.assert_array_equal(np.concatenate(blocks), x[kept])
        return
    for start, stop in [(0, count), (0, 1), (17, 450), (count - 1, count)]:
        np.testing.assert_array_equal(source.read(start, stop), x[kept[start:stop]])


def test_chunks__are_those_of_the_whole_less_the_rows_that_are_left_out(tmp_path):
    whole, _ = open_variables([given("zarr", np.zeros((N, 2)), tmp_path), np.zeros(N)])
    assert whole.chunk_rows == 200
    assert RestSource(whole, LEFT_OUT).chunk_rows == 133
    assert RestSource(whole, LEFT_OUT[:0]).chunk_rows == 200


def test_place_of__is_the_row_of_the_whole():
    whole, _ = open_variables([np.zeros((N, 2))] * 2, ["x", "y"])
    source, kept = RestSource(whole, LEFT_OUT), np.delete(np.arange(N), LEFT_OUT)
    assert [source.place_of(row) for row in (0, 100, 599)] == [
        ("x", int(kept[row])) for row in (0, 100, 599)
    ]


def test_session_over_the_rest__is_the_same_run():
    session = session_on(np.random.default_rng(0).standard_normal((2, N)))
    rest = session.over([RestSource(source, LEFT_OUT) for source in session.sources])
    assert (rest.n, rest.seed, rest.names) == (N - len(LEFT_OUT), session.seed, session.names)
    assert rest.finished is session.finished
    assert session.n == N
