"""What a session says of bad data, and what it hands to estimators."""

import dask.array as da
import numpy as np
import pytest
import zarr

import dhsic
from dhsic.engine.events import PassFinished, PassStarted, StepStarted
from dhsic.engine.reduction import RowBlock
from dhsic.engine.scan import Scan, Still
from dhsic.engine.session import Session
from dhsic.errors import DataError
from dhsic.io.open import open_variables
from tests.engine.toys import Gather, SlowSource, Sums, gathered, on, threads

N = 20_000  # five blocks


def session(*data, runtime=None, listener=None, names=None):
    return Session(open_variables(data, names), runtime or threads(3), 0, listener=listener)


def normal(*shape):
    return np.random.default_rng(0).standard_normal(shape)


@pytest.fixture(params=["threads", "client"])
def runtime(request):
    return threads(2) if request.param == "threads" else on(request.getfixturevalue("client"))


def wrapped(kind, x, tmp_path):
    if kind == "zarr":
        chunks, whole = (3000, 1)[: x.ndim], {"write_empty_chunks": True}
        return zarr.create_array(tmp_path / "bad.zarr", data=x, chunks=chunks, config=whole)
    return {"numpy": x, "dask": da.from_array(x, chunks=3000)}[kind]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["numpy", "zarr", "dask"])
def test_run__names_the_variable_and_the_first_row_that_is_not_finite(kind, bad, tmp_path):
    x, y = normal(2, N)
    y[[50, 51, 12_345]] = bad
    with pytest.raises(
        DataError,
        match=r"^variable 'year' has NaN or infinity, first in row 50: drop or fill such rows$",
    ):
        session(x, wrapped(kind, y, tmp_path), names=["timbre", "year"]).run(Sums())


def test_run__names_the_first_row_on_a_client(client):
    x, y = normal(N, 2), normal(N)
    x[777, 1] = np.nan
    with pytest.raises(DataError, match="'x1' has NaN or infinity, first in row 777"):
        session(x, y, runtime=on(client)).run(Sums())


@pytest.mark.parametrize("rows", [(0, N - 1), (N - 1, 0)])
def test_run__names_the_first_row_even_where_a_later_block_fails_first(rows):
    x, y = normal(2, N)
    x[rows[0]] = y[rows[1]] = np.nan
    culprit = 1 + rows.index(0)
    sources = [SlowSource("x1", x), SlowSource("x2", y)]
    with pytest.raises(DataError, match=f"'x{culprit}' has NaN or infinity, first in row 0"):
        Session(sources, threads(3), 0).run(Sums())


def test_take__names_the_first_row_of_all_and_not_that_which_it_fetched():
    x = normal(N)
    x[[4, 9000]] = np.nan
    with pytest.raises(DataError, match="'x1' has NaN or infinity, first in row 4:"):
        session(x, normal(N)).take([np.array([9000]), np.array([0])])


def test_run__says_so_where_bad_values_come_and_go():
    class Flaky(SlowSource):
        reads = 0

        def read(self, start, stop):
            Flaky.reads += 1
            return super().read(start, stop) * (np.nan if Flaky.reads == 1 else 1.0)

    sources = [Flaky("x", normal(10)), SlowSource("y", normal(10))]
    with pytest.raises(DataError, match="read once and not again: keep the data as they are"):
        Session(sources, threads(1), 0).run(Sums())


def test_take__returns_rows_in_the_order_asked_and_as_often(runtime, tmp_path):
    x, y = normal(N, 2), np.arange(N)
    data = [wrapped("zarr", x, tmp_path), y, da.from_array(y, chunks=3000)]
    rows = [np.array(r) for r in ([5, 3, 5, N - 1], [7, 7, 0], [9000, 1, 2, 3, 1])]
    taken = session(*data, runtime=runtime).take(rows)
    for values, expected, numbers in zip(taken, [x, y[:, None], y[:, None]], rows, strict=True):
        assert values.dtype == np.float64
        np.testing.assert_array_equal(values, expected[numbers])


def rare(count, width=1, n=N):
    """A variable that is 0 but in a few rows, which hold their numbers."""
    x = np.zeros((n, width))
    rows = np.random.default_rng(1).choice(np.arange(1, n), count, replace=False)
    x[rows] = rows[:, None]
    return x


def still(variable, *columns):
    return Still(variable, columns, np.zeros(len(columns)))


def test_differing__finds_all_rows_where_they_are_few(runtime, tmp_path):
    x, y = rare(5), rare(3, 2)
    y[7, 1] = -1.0
    for kind in ("numpy", "zarr", "dask"):
        data = x, wrapped(kind, y, tmp_path)
        first, second, third = session(*data, runtime=runtime).differing(
            [still(0, 0), still(1, 1), still(1, 1, 0)]
        )
        assert (first.total, second.total, third.total) == (5, 4, 4)
        assert sorted(first.values[:, 0]) == sorted(x[x != 0])
        assert sorted(second.values[:, 0]) == sorted(y[y[:, 1] != 0, 1])
        assert [-1.0, 0.0] in third.values.tolist()


def test_scan__plans_what_it_keeps_of_rows_that_differ():
    scan = Scan((still(0, 0, 1), still(1, 0)))
    values = np.ones((300, 2)), np.ones((300, 3))
    found = scan.combine(*(scan.chunk(RowBlock(start, values)) for start in (0, 300)))
    kept = sum(one.keys.nbytes + one.values.nbytes for one in found.differing)
    assert scan.footprint(300).state == kept > 0


def test_differing__keeps_a_draw_that_depends_on_rows_and_seed_alone(runtime, tmp_path):
    x = rare(3000)
    drawn = [
        session(data, normal(N), runtime=runtime).differing([still(0, 0)])[0]
        for data in (x, wrapped("zarr", x, tmp_path), wrapped("dask", x, tmp_path))
    ]
    for one in drawn:
        assert one.total == 3000
        assert one.values.tolist() == drawn[0].values.tolist()
    assert len(set(drawn[0].values[:, 0])) == 16
    again = Session(open_variables((x, normal(N)), None), threads(1), 1).differing([still(0, 0)])
    assert again[0].values.tolist() != drawn[0].values.tolist()
    other = session(normal(N), x).differing([still(1, 0)])  # draws of variables are their own
    assert other[0].values.tolist() != drawn[0].values.tolist()


def test_differing__draws_from_all_rows_alike():
    x = np.arange(N) + 1.0
    data = open_variables((x, normal(N)), None)
    means = [
        Session(data, threads(2), seed).differing([still(0, 0)])[0].values.mean() / N
        for seed in range(60)
    ]
    assert abs(np.mean(means) - 0.5) < 5.0 / np.sqrt(12 * 16 * 60)


def test_differing__of_a_constant_finds_none():
    (found,) = session(normal(N), np.full((N, 2), 7.0)).differing(
        [Still(1, (0, 1), np.array([7.0, 7.0]))]
    )
    assert found.total == len(found.values) == 0


def test_differing__looks_once_and_says_so():
    run = session(rare(5), rare(3))
    first = run.differing([still(0, 0)])
    assert [done.name for done in run.finished] == ["scan"]
    assert run.differing([still(0, 0), still(0, 0)]) == first * 2
    assert len(run.finished) == 1
    assert [one.total for one in run.differing([still(0, 0), still(1, 0)])] == [5, 3]
    assert len(run.finished) == 2


def test_differing__names_missing_values_first():
    x = np.zeros(N)
    x[11] = np.nan
    with pytest.raises(DataError, match="'x1' has NaN or infinity, first in row 11"):
        session(x, normal(N)).differing([still(0, 0)])


@pytest.fixture
def corrupted(tmp_path):
    x = normal(N, 2)
    array = zarr.create_array(tmp_path / "x.zarr", data=x, chunks=(1000, 2))
    (tmp_path / "x.zarr" / "c" / "7" / "0").write_bytes(b"garbage")
    return array


MATCH = r"rows \d+ to \d+ of variable 'timbre' cannot be read .*: is the data complete and intact\?"


def test_run__names_rows_and_variable_of_a_corrupted_chunk(corrupted, runtime):
    with pytest.raises(DataError, match=MATCH) as caught:
        session(normal(N), corrupted, runtime=runtime, names=["x", "timbre"]).run(Sums())
    first, last = (int(word) for word in str(caught.value).split() if word.isdigit())
    assert first <= 7000 < 8000 <= last + 1


def test_take__names_rows_and_variable_of_a_corrupted_chunk(corrupted, runtime):
    bad = session(normal(N), corrupted, runtime=runtime, names=["x", "timbre"])
    assert bad.take([np.array([7500]), np.array([6999, 8000])])[1].shape == (2, 2)
    with pytest.raises(DataError, match=MATCH.replace(r"\d+ to \d+", "7000 to 7999")):
        bad.take([np.array([0]), np.array([3, 7500])])


def test_independence_test__names_rows_and_variable_of_a_corrupted_chunk(corrupted, client):
    for where in ({"threads": 2}, {"client": client}):
        with pytest.raises(DataError, match=MATCH):
            dhsic.independence_test(normal(N), corrupted, names=["x", "timbre"], rng=0, **where)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float32", "float64"])
@pytest.mark.parametrize("kind", ["numpy", "zarr", "dask"])
def test_session__takes_numbers_of_every_type(kind, dtype, tmp_path):
    x = (np.arange(N) % 2).astype(dtype)
    data = session(wrapped(kind, x, tmp_path), normal(N))
    np.testing.assert_array_equal(gathered(data.run(Gather()))[1][0], x[:, None])
    taken = data.take([np.array([3, 0]), np.array([0])])[0]
    assert taken.dtype == np.float64
    np.testing.assert_array_equal(taken, [[1.0], [0.0]])


@pytest.mark.parametrize("dtype", ["bool", "int32", "float32"])
@pytest.mark.parametrize("kind", ["numpy", "zarr", "dask"])
@pytest.mark.parametrize("kernel", ["gaussian", "delta"])
def test_independence_test__is_the_same_for_the_same_numbers_of_every_type(
    kind, dtype, kernel, tmp_path
):
    y = normal(300)
    x = (y > 0.3).astype(dtype)
    options = {"kernels": [kernel, "gaussian"], "rng": 0, "n_resamples": 20, "threads": 1}
    plain = dhsic.independence_test(x.astype(float), y, **options)
    other = dhsic.independence_test(wrapped(kind, x, tmp_path), y, **options)
    assert other.statistic == plain.statistic
    np.testing.assert_array_equal(other.null_distribution, plain.null_distribution)


def test_session__tells_and_remembers_passes():
    events = []
    data = session(normal(N), normal(N, 3), listener=events.append)
    data.step("prune")
    data.run(Gather())
    blocks = data.plan(Gather()).blocks
    assert events[:2] == [
        StepStarted("prune"),
        PassStarted("gather", blocks, N, bytes_read=8 * 4 * N),
    ]
    assert data.finished == [events[-1]]
    assert events[-1].bytes_read == 8 * 4 * N
    assert isinstance(events[-1], PassFinished)


def test_session__describes_the_data():
    data = session(normal(N), normal(N, 3), names=["a", "b"])
    assert (data.n, data.dims, data.names, data.dtype) == (N, (1, 3), ("a", "b"), np.float64)


def test_run__refuses_integers_that_float64_rounds():
    x = np.zeros(N, np.int64)
    x[17] = 2**53
    session(normal(N), x).run(Sums())
    for value in (2**53 + 1, -(2**53) - 1):
        x[17] = value
        with pytest.raises(DataError, match=r"hold integers beyond 2\*\*53.*subtract an offset"):
            session(normal(N), x).run(Sums())


def test_once__makes_a_value_for_every_key_and_session():
    begun, made = session(normal(9), normal(9)), []

    def make():
        made.append(len(made))
        return made[-1]

    assert [begun.once(key, make) for key in ("a", "b", "a")] == [0, 1, 0]
    other = begun.over(begun.sources)
    assert [other.once("a", make), begun.once("a", make)] == [2, 0]
