"""A variable computed from others is the same however its rows are asked for."""

import dask
import dask.array as da
import numpy as np
import pytest
import zarr

from dhsic.io.derived import DerivedSource
from dhsic.io.open import open_variables


class Counted:
    """The row number, and the sum of the first columns."""

    def __call__(self, rows, values):
        assert len(rows) <= 4096
        return np.column_stack([rows, sum(x[:, 0] for x in values)])


@pytest.mark.parametrize(
    ("kinds", "place"),
    [
        (("numpy", "numpy"), "memory"),
        (("zarr", "zarr"), "storage"),
        (("zarr", "numpy"), "memory"),
        (("dask", "zarr"), "graph"),
        (("numpy", "dask"), "graph"),
    ],
)
def test_rows__however_they_are_asked_for(kinds, place, tmp_path):
    n, bounds = 9000, [0, 5000, 9000]
    data = np.random.default_rng(0).standard_normal((2, n, 2))
    given = [
        {
            "numpy": lambda x=x: x,
            "zarr": lambda x=x, m=m: zarr.create_array(
                tmp_path / f"{m}.zarr", data=x, chunks=(2000, 2)
            ),
            "dask": lambda x=x: da.from_array(x, chunks=(3500, 2)),
        }[kind]()
        for m, (kind, x) in enumerate(zip(kinds, data, strict=True))
    ]
    source = DerivedSource("sum", tuple(open_variables(given)), Counted(), 2)
    expected = np.column_stack([np.arange(n), data[:, :, 0].sum(axis=0)])
    assert source.place == place
    assert source.shape == (n, 2)
    rows = np.array([0, 3, 4999, 5000, 8999])
    (taken,) = dask.compute(source.take(rows))
    assert np.array_equal(taken, expected[rows])
    if place == "graph":
        assert np.array_equal(np.concatenate(dask.compute(*source.lazy(bounds))), expected)
    else:
        assert np.array_equal(source.read(17, 8500), expected[17:8500])


class Together:
    """How many rows are asked for at a time: on such numbers the last digits depend."""

    def __call__(self, rows, values):
        return np.full((len(rows), 1), float(len(rows)))


def test_take__computes_the_rows_of_a_chunk_together_in_whatever_parts_they_are_asked_for(tmp_path):
    stored = [
        zarr.create_array(tmp_path / f"{m}.zarr", data=np.zeros((900, 1)), chunks=(300, 1))
        for m in range(2)
    ]
    source = DerivedSource("sum", tuple(open_variables(stored)), Together(), 1)
    rows = np.array([0, 1, 299, 600, 899])
    parts = np.concatenate([source.take(rows[:3]), source.take(rows[3:])])
    assert source.take(rows).tolist() == parts.tolist() == [[3.0]] * 3 + [[2.0]] * 2
