"""Grids on landmarks and shared frequencies: each combination is its own test, in one run."""

import tracemalloc

import numpy as np
import pytest

import dhsic
from dhsic._arguments import choose_method, open_session
from dhsic.errors import InvalidArgumentError, MemoryBudgetError
from dhsic.estimators.landmark.terms import SignedPass
from dhsic.kernels import Candidates, Combinations, Delta, Gaussian, Grid, parse
from dhsic.nulls import Multiplier, Permutation

D = (2, 1, 3)
MIXED = Grid(
    (Candidates(("gaussian", "laplacian"), (0.25, 0.5, 2.0)), Candidates("matern32", (0.5, 1.0))),
    combine="all",
)
HALVED = Grid(Candidates("gaussian", (0.5, 1.0)), combine="all")
NULLS = [Multiplier(19), Permutation(19, "all"), Permutation(19, "groups", 64)]


def data_of(m, n=500):
    rng = np.random.default_rng(m)
    common = rng.standard_normal((n, 1))
    return [0.3 * common + rng.standard_normal((n, d)) for d in D[:m]]


def session_of(data, precision="float64", client=None, memory="2GiB"):
    return open_session(data, None, 5, precision, client, None if client else 1, memory, None)


def outcome(data, grid, estimator, null, **options):
    session = session_of(data, **options)
    return estimator.test_grid(session, grid.combinations(len(data)), null)


ESTIMATORS = [
    (2, dhsic.NystromMHSIC(n_landmarks=60)),
    (3, dhsic.NystromMHSIC(n_landmarks=60)),
    (2, dhsic.NystromMHSIC(n_landmarks=300, pairing="joint", tolerance=1e-3)),
    (3, dhsic.RFFHSIC(n_features=30)),
]


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("null", NULLS, ids=repr)
@pytest.mark.parametrize(("m", "estimator"), ESTIMATORS, ids=repr)
def test_grid__is_each_combination_by_itself(m, estimator, null, precision):
    data = data_of(m)
    grid = MIXED if m == 2 else HALVED
    found = outcome(data, grid, estimator, null, precision=precision)
    assert found.replicates.shape == (19, len(found.combinations))
    tolerance = 1e-9 if precision == "float64" else 3e-4
    for c in range(len(found.combinations)):
        kernels = found.combinations.kernels_of(c)
        single = estimator.test(session_of(data, precision), kernels, null)
        assert found.statistics[c] == pytest.approx(single.statistic, rel=tolerance)
        np.testing.assert_allclose(
            found.replicates[:, c], single.distribution.values, rtol=10 * tolerance
        )
        estimate = pytest.approx(single.estimate.value, rel=0.02)  # pivots cut the marginals
        assert found.estimate(c).value == estimate
        assert found.estimate(c).kernels == kernels
        assert found.detail == single.detail


@pytest.mark.parametrize("null", NULLS, ids=repr)
def test_grid__is_the_same_on_a_client(null, client):
    data, estimator = data_of(2), dhsic.NystromMHSIC(n_landmarks=50)
    found, again = (outcome(data, MIXED, estimator, null, client=c) for c in (None, client))
    assert again.statistics.tobytes() == found.statistics.tobytes()
    assert again.replicates.tobytes() == found.replicates.tobytes()


def test_grid__prunes_for_each_combination():
    rng = np.random.default_rng(0)
    data = list(rng.standard_normal((2, 1000)))
    grid = Grid(Candidates("gaussian", (0.25, 4.0)), combine="matched")
    found = outcome(data, grid, dhsic.NystromMHSIC(n_landmarks=200), Multiplier(5))
    narrow, wide = (found.estimate(c).landmarks for c in range(2))
    assert wide.kept < 60 < narrow.kept
    assert narrow.drawn == wide.drawn == 200


def test_grid__drops_landmarks_that_no_combination_keeps():
    rng = np.random.default_rng(0)
    data = list(rng.standard_normal((2, 1000)))
    grid = Grid(Candidates("gaussian", (4.0, 8.0)), combine="all")
    session = session_of(data)
    estimator = dhsic.NystromMHSIC(n_landmarks=200)
    basis, tuples, _ = estimator._tests.prepare(session, grid.combinations(2))
    assert len(basis.landmarks) < 60
    assert tuples.n_landmarks == len(basis.landmarks)


def test_grid__reads_the_data_twice_whatever_its_size():
    data = data_of(2)
    options = {"kernels": MIXED, "estimator": "nystrom-m", "null": "multiplier"}
    result = dhsic.independence_test(*data, **options, rng=0)
    assert [done.name for done in result.passes] == ["kernel sums", "multiplier null"]


def test_grid__of_categories_and_numbers():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, 400)
    x = np.where(codes == 2, 3.0, 0.0) + rng.standard_normal(400)
    grid = Grid((Candidates(Delta()), Candidates("gaussian", (0.5, 1.0, 2.0))))
    result = dhsic.independence_test(codes, x, kernels=grid, rng=0)
    assert result.pvalue < 0.01
    assert [c.kernels[0] for c in result.grid.combinations] == ["delta"] * 3


def plan_of(grid, estimator="nystrom-m", n=20_000, memory="2GiB", null="multiplier", m=2):
    session = session_of([np.zeros((n, d)) for d in D[:m]], memory=memory)
    return choose_method(session, grid, estimator, null, None).plan(session)


@pytest.mark.parametrize(("m", "estimator"), [(2, "nystrom-m"), (3, "nystrom-m"), (3, "rff-hsic")])
@pytest.mark.parametrize("null", ["multiplier", "permutation"])
def test_plan__grows_with_the_grid(m, estimator, null):
    one = Grid(Candidates("gaussian", (1.0,)), combine="all")
    two, four = (
        Grid(Candidates("gaussian", f), combine="all") for f in [(1.0, 2.0), (1.0, 2.0, 3.0, 4.0)]
    )
    plans = [plan_of(grid, estimator, m=m, null=null) for grid in (one, two, four)]
    peaks = [plan.peak_worker_bytes for plan in plans]
    assert peaks[0] < peaks[2]
    returned = [
        step.bytes_to_driver for plan in plans for step in plan.steps if step.name == f"{null} null"
    ]
    # Permutations return the sums of all sides as well.
    assert returned[1] == pytest.approx(2**m * returned[0], rel=0.01 if null[0] == "m" else 0.6)
    assert returned[1] > returned[0]


def test_plan__of_too_many_kernels_says_what_to_do():
    grid = Grid(Candidates("gaussian", (1.0, 2.0, 3.0, 4.0)), combine="all")
    with pytest.raises(MemoryBudgetError, match="fewer kernels"):
        plan_of(grid, memory="100MiB").check()


def test_plan__bounds_the_memory_of_a_grid_and_not_by_far():
    n = 20_000
    data = list(np.random.default_rng(0).standard_normal((2, n)))
    session = session_of(data)
    estimator, grid = (
        dhsic.NystromMHSIC(n_landmarks=400),
        Grid(Candidates("gaussian", (0.1, 0.2)), combine="all"),
    )
    combinations = grid.combinations(2)
    planned = estimator.plan(session, combinations, Multiplier(100))
    (predicted,) = (s.worker_bytes for s in planned.steps if s.name == "multiplier null")
    _, tuples, _ = estimator._tests.prepare(session, combinations)
    reduction = SignedPass(tuples, np.zeros(tuples.starts[-1]), 100, 0)
    tracemalloc.start()
    session.run(reduction)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < predicted < 3 * peak


def test_estimate__refuses_a_grid():
    with pytest.raises(InvalidArgumentError, match="one kernel for each variable, got a Grid"):
        dhsic.hsic(*data_of(2), kernels=Grid())


@pytest.mark.parametrize(
    ("estimator", "null"), [("nystrom-m", "gamma"), ("nystrom-m", "spectral"), ("dcov", "auto")]
)
def test_grid__needs_replicates_and_an_estimator_that_takes_it(estimator, null):
    with pytest.raises(InvalidArgumentError, match="several kernels for a variable need"):
        dhsic.independence_test(*data_of(2), kernels=Grid(), estimator=estimator, null=null)


def test_guessed__stands_for_any_fit():
    found = Combinations.single([Gaussian(), Delta()]).guessed((3, 1))
    assert found.kernels[0].gamma > 0


def test_guessed__has_spreads_that_differ():
    kernel = parse("spread(gaussian)")
    assert Combinations.single([kernel, kernel]).guessed((2, 1)).kernels[0].kernel.gamma > 0


def selected(selection, pairing=None, pool=4, **options):
    data = [np.random.default_rng(m).standard_normal((400, d)) for m, d in enumerate(D)]
    estimator = dhsic.NystromMHSIC(20, pairing, selection=selection, pool=pool)
    combinations = Combinations.single([Gaussian()] * 3)
    session = session_of(data, **options)
    return data, estimator._tests.prepare(session, combinations).basis.landmarks


@pytest.mark.parametrize("pairing", ["independent", "joint"])
@pytest.mark.parametrize("selection", ["rpcholesky", "determinant", "kmeans++"])
def test_selection__chooses_rows_of_the_pool(selection, pairing):
    data, landmarks = selected(selection, pairing)
    _, uniform = selected("uniform", pairing)
    for x, points, rows, others in zip(
        data, landmarks.points, landmarks.indices, uniform.indices, strict=True
    ):
        assert len(set(rows)) == 20
        np.testing.assert_array_equal(points, x[rows])
        assert set(rows) != set(others)
    same = [set(rows) == set(landmarks.indices[0]) for rows in landmarks.indices]
    assert all(same) == (pairing == "joint")


def test_pool__of_as_many_rows_as_landmarks_leaves_no_choice():
    _, landmarks = selected("determinant", pool=1)
    _, wide = selected("determinant", pool=8)
    far, near = (np.abs(z.points[1]).max() for z in (wide, landmarks))
    assert far > near


def test_selection__follows_the_kernel_nearest_to_the_median():
    factors = (0.25, 1.0, 4.0)
    data = data_of(2)
    estimator = dhsic.NystromMHSIC(20, selection="determinant")
    grid, single = (
        estimator._tests.prepare(session_of(data), combinations).basis
        for combinations in (
            Grid(Candidates("gaussian", factors)).combinations(2),
            Combinations.single([Gaussian()] * 2),
        )
    )
    for rows, others in zip(grid.landmarks.indices, single.landmarks.indices, strict=True):
        assert set(rows) == set(others)


def test_selection__does_not_see_the_pairing():
    data, landmarks = selected("rpcholesky")
    rng = np.random.default_rng(9)
    shuffled = [data[0], *(rng.permutation(x) for x in data[1:])]
    estimator = dhsic.NystromMHSIC(20, selection="rpcholesky")
    single = Combinations.single([Gaussian()] * 3)
    again = estimator._tests.prepare(session_of(shuffled), single).basis
    assert set(again.landmarks.indices[0]) == set(landmarks.indices[0])


def test_selection__is_planned():
    session = session_of([np.zeros((20_000, d)) for d in D[:2]])
    names = {}
    for selection in ("uniform", "leverage", "rpcholesky"):
        estimator = dhsic.NystromMHSIC(400, selection=selection)
        steps = estimator.plan(session, Combinations.single([Gaussian()] * 2), Multiplier(10)).steps
        names[selection] = [step.name for step in steps]
    assert "select landmarks" not in names["uniform"]
    assert names["rpcholesky"][1] == names["leverage"][1] == "select landmarks"


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"selection": "best"}, "selection must be"),
        ({"pool": 0}, "pool must be"),
        ({"selection": "leverage", "replace": True}, "replace must be False"),
    ],
)
def test_selection__options_are_checked(options, match):
    with pytest.raises(InvalidArgumentError, match=match):
        dhsic.NystromMHSIC(**options)
