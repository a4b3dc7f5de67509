"""The exact null at landmarks: against the definition, its level, its power, its six rules."""

from functools import partial

import numpy as np
import pytest
import zarr

import dhsic
from dhsic._arguments import open_session
from dhsic.engine.groups import Groups
from dhsic.estimators import NystromMHSIC
from dhsic.estimators.landmark.statistics import plan_tuples, resample_tuples
from dhsic.estimators.landmark.tuples import Tuples
from dhsic.estimators.resample import Orbit, TwoSided, chain_of
from dhsic.kernels import Candidates, Combinations, Gaussian, Grid
from dhsic.landmarks import Pairing
from tests.estimators.features import holds_one_state
from tests.estimators.levels import Check
from tests.oracles import orders_of_orbit

LANDMARKS = 20


def tuple_statistic(kernels, landmarks, data, *, joint):
    """T = n u' K_J^- u, from the definition of u with all or with two sides."""
    grams = [kernel(z) for kernel, z in zip(kernels, landmarks, strict=True)]
    crosses = [k(z, x) for k, z, x in zip(kernels, landmarks, data, strict=True)]
    left, right = np.prod(crosses[:-1], axis=0), crosses[-1]
    apart = [c.mean(axis=1) for c in crosses] if joint else [left.mean(axis=1), right.mean(axis=1)]
    u = (left * right).mean(axis=1) - np.prod(apart, axis=0)
    return len(data[0]) * float(u @ np.linalg.solve(np.prod(grams, axis=0), u))


def orbit_rows(orbit, n, m):
    """For every permutation the rows of each variable, as if each were the one that is shifted."""
    shifted = [orders_of_orbit(orbit, variable) for variable in range(m)]
    return [[np.asarray(orders[number]) for orders in shifted] for number in range(len(orbit))]


def data_of(n, m, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((n, 1 + j % 2)) for j in range(m)]


def combinations_of(m, *, several):
    candidates = Candidates(("gaussian", "laplacian"), ((1.0, 0.5), (1.0,)))
    return Grid(candidates if several else Candidates("gaussian", (1.0,))).combinations(m)


def basis_of(session, combinations, pairs, pairing: Pairing = "independent"):
    chosen = [(*pair.left, pair.right) for pair in pairs]
    draw = NystromMHSIC(n_landmarks=LANDMARKS).draw
    return draw.basis(session, combinations, pairing, hold=True, chosen=chosen)


def session_of(data, **options):
    settings = {"precision": "float64", "threads": 1, "memory": "2GiB", **options}
    return open_session(
        data, None, 3, settings["precision"], None, settings["threads"], settings["memory"], None
    )


def resampled(session, basis, pairs, *, joint=False):
    tuples = Tuples.at(basis, pairs, session.dtype, "joint" if joint else "product")
    whiten = [partial(basis.whiten, c) for c in range(len(pairs))]
    return resample_tuples(session, tuples, whiten, dhsic.Shifts(2))


def takes(monkeypatch, orbit):
    """The orbit of any null distribution."""
    monkeypatch.setattr("dhsic.estimators.landmark.statistics.orbit_of", lambda *_: orbit)


@pytest.mark.parametrize(
    ("m", "n", "size", "cosets"),
    [(2, 47, 47, 1), (2, 47, 10, 3), (2, 30, 30, 2), (3, 47, 10, 2), (4, 41, 20, 2)],
)
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("shifted", [True, False])
def test_statistics__are_those_of_permuted_rows(
    monkeypatch, m, n, size, cosets, several, joint, shifted
):
    data = data_of(n, m)
    session, combinations = session_of(data), combinations_of(m, several=several)
    if joint:
        pairs = [TwoSided(one[:-1], one[-1]) for one in combinations.chosen]
    else:
        pairs = [pair for stage in chain_of(combinations.chosen) for pair in stage]
    orbit = Orbit(Groups(n, size, seed=3), cosets if shifted else 5, shifted)
    takes(monkeypatch, orbit)
    basis = basis_of(session, combinations, pairs)
    found = resampled(session, basis, pairs, joint=joint).resampled
    values = np.vstack([found.statistics, found.replicates])
    assert values.shape == (len(orbit), len(pairs))
    kernels, variables = basis.combinations.kernels, basis.combinations.variables
    rows = list(orbit_rows(orbit, n, m))
    for c, pair in enumerate(pairs):
        its = [kernels[k] for k in (*pair.left, pair.right)]
        at = [variables[k] for k in (*pair.left, pair.right)]
        for number in {0, 1, size // 2, size - 1, len(orbit) - 1} & set(range(len(orbit))):
            # Shifts move the last variable alone, cosets all but the first.
            coset = number // orbit.n_shifts * orbit.n_shifts
            others = [rows[coset][v] if joint and v else np.arange(n) for v in at]
            moved = [*others[:-1], rows[number][at[-1]]]
            expected = tuple_statistic(
                its,
                basis.points(c),
                [data[v][r] for v, r in zip(at, moved, strict=True)],
                joint=joint,
            )
            assert values[number, c] == pytest.approx(expected, rel=1e-8, abs=1e-12)


def test_chain__has_a_stage_for_every_variable_but_the_first():
    stages = chain_of([(0, 2, 4), (1, 2, 5)])
    assert stages[0] == [TwoSided((0,), 2), TwoSided((1,), 2)]
    assert stages[1] == [
        TwoSided((0, 2), 4),
        TwoSided((1, 2), 5),
        TwoSided((0,), 4),
        TwoSided((2,), 4),
    ]


def test_parts__give_the_same_as_one_pass(monkeypatch):
    data = data_of(600, 3)
    session, combinations = session_of(data), combinations_of(3, several=True)
    pairs = [pair for stage in chain_of(combinations.chosen) for pair in stage]
    takes(monkeypatch, Orbit(Groups.of(600, 100, seed=3), 3))
    basis = basis_of(session, combinations, pairs)
    whole = resampled(session, basis, pairs)
    tuples = Tuples.at(basis, pairs, session.dtype)
    assert len(plan_tuples(session, tuples, dhsic.Shifts(2))) == 2
    monkeypatch.setattr("dhsic.engine.runtime.baseline_bytes", lambda: 2**31 - 2**28)
    steps = plan_tuples(session, tuples, dhsic.Shifts(2))
    assert len(steps) > 2
    holds_one_state(monkeypatch)
    parts = resampled(session, basis, pairs)
    for one, other in zip(whole.resampled, parts.resampled, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(whole.moments.kappa, parts.moments.kappa)
    assert len(session.finished) == 1 + len(steps) // 2


OPTIONS = {"estimator": NystromMHSIC(n_landmarks=60), "n_resamples": 100, "rng": 1}


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("kernels", [None, "gaussian"])
def test_streamed__is_the_same_as_in_memory(tmp_path, client, m, kernels):
    data = data_of(9_000, m)
    paths = [str(tmp_path / f"{j}.zarr") for j in range(m)]
    for path, x in zip(paths, data, strict=True):
        zarr.create_array(path, data=x, chunks=(700, x.shape[1]))
    options = {**OPTIONS, "kernels": kernels}
    here = dhsic.independence_test(*paths, **options, threads=1)
    threads = dhsic.independence_test(*paths, **options, threads=3)
    there = dhsic.independence_test(*paths, **options, client=client)
    memory = dhsic.independence_test(*data, **options)
    assert here.null_distribution.tobytes() == threads.null_distribution.tobytes()
    assert here.null_distribution.tobytes() == there.null_distribution.tobytes()
    assert (here.statistic, here.pvalue) == (there.statistic, there.pvalue)
    assert memory.pvalue == pytest.approx(here.pvalue, abs=1e-12)
    assert [one.name for one in here.passes] == ["shifts"]


def test_checkpoint__is_resumed(tmp_path):
    data = data_of(9_000, 2)
    folder = str(tmp_path / "kept")
    first = dhsic.independence_test(*data, **OPTIONS, checkpoint=folder)
    resumed = []
    again = dhsic.independence_test(
        *data, **OPTIONS, checkpoint=folder, progress=lambda e: resumed.append(e)
    )
    assert again.null_distribution.tobytes() == first.null_distribution.tobytes()
    assert any(getattr(event, "resumed", 0) == 9_000 for event in resumed)


# The level, on data that random signs reject in 45 to 67 % of cases.


def rejections(generate, level, runs, **options):
    """Whether each run rejects, one run after the other."""
    for seed in range(runs):
        data = generate(np.random.default_rng(seed))
        yield dhsic.independence_test(*data, rng=seed, threads=1, **options).pvalue <= level


CASES = {
    "three of three normals": lambda r: [r.standard_normal((200, 3)) for _ in range(3)],
    "dummies": lambda r: [(r.random(400) < 0.03) * 1.0 for _ in range(2)],
    "Poisson": lambda r: [r.poisson(0.05, 300) for _ in range(2)],
    "zero-inflated": lambda r: [np.where(r.random(300) < 0.95, 0, r.random(300)) for _ in range(2)],
    "few rows": lambda r: list(r.standard_normal((2, 12))),
}


@pytest.mark.parametrize("case", CASES)
def test_level__holds_at_default_arguments(case):
    runs = 25 if case.startswith("three") else 60
    check = Check.of(runs, 0.05, error=0.001)
    assert check.failure(0.45)[1] > 0.93
    assert check.passes(rejections(CASES[case], 0.05, runs))


@pytest.mark.parametrize("order", ["shuffled", "sorted"])
def test_power__does_not_depend_on_the_order_of_storage(order):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(6_000)
    y = 0.08 * x + rng.standard_normal(6_000)
    if order == "sorted":
        at = np.argsort(y)
        x, y = x[at], y[at]
    found = dhsic.independence_test(x, y, rng=0, kernels="gaussian")
    assert found.pvalue <= 0.01


def test_power__of_a_chain_and_where_the_dependence_enters():
    rng = np.random.default_rng(0)
    x, y, z = rng.standard_normal((3, 300))
    late = dhsic.independence_test(x, y, y + z, rng=0)
    assert late.pvalue <= 0.01
    assert (late.stages[0].variable, late.stages[1].variable) == ("x2", "x3")
    assert late.stages[0].pvalue > 0.05 > late.stages[1].pvalue
    joint = dhsic.independence_test(x, y, np.sign(x * y) * np.abs(z), rng=0)
    assert joint.stages[1].others == ("x1", "x2")
    assert joint.pvalue <= 0.01
    assert dhsic.independence_test(x, y, z, rng=0).pvalue > 0.05


def test_joint_shifts__find_three_variables_that_depend_jointly():
    rng = np.random.default_rng(2)
    x, y, z = rng.standard_normal((3, 300))
    z = np.sign(x * y) * np.abs(z)
    options = {"null": "shifts", "kernels": "gaussian", "rng": 0}
    assert dhsic.independence_test(x, y, z, **options).pvalue <= 0.01


# The six rules, each of which a simpler null breaks.


def exact_pvalues(x, y, orbit):
    """By the definition, in whole numbers: the squared sum of products of codes."""
    values = [
        sum(int(a) * int(b) for a, b in zip(x, y[rows[1]], strict=True))
        for rows in orbit_rows(orbit, len(x), 2)
    ]
    centre = int(x.sum()) * int(y.sum())
    squares = [(len(x) * value - centre) ** 2 for value in values]
    return sum(square >= squares[0] for square in squares) / len(squares)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_ties__count_whatever_rounding_does(precision):
    """Products of few codes tie often; a p-value without a tolerance is too small."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x, y = (rng.random((2, 60)) < 0.15).astype(float)
        if not (0 < x.sum() < 60 and 0 < y.sum() < 60):
            continue
        found = dhsic.independence_test(
            x, y, kernels="delta", rng=seed, precision=precision, n_resamples=60
        )
        orbit = Orbit.of(60, 60, seed)
        assert found.pvalue == pytest.approx(exact_pvalues(x, y, orbit), abs=1e-12)


def test_grid__of_kernels_that_say_nothing_has_p_1():
    """Kernels so wide that what varies is rounding."""
    x, y = np.random.default_rng(0).standard_normal((2, 40))
    kernels = Candidates((Gaussian(gamma=1e-18), Gaussian(gamma=1e-20)), factors=(1.0,))
    found = dhsic.independence_test(x, y, kernels=Grid(kernels, combine="all"), rng=0)
    assert found.pvalue == 1.0


def test_groups__that_remain_are_not_the_tail():
    """Rows that are left over never move: at the end of a sample they would hide what differs."""
    seeds = range(200)
    tails = [np.isin(np.arange(990, 1_019), Groups(1_019, 110, s).left).sum() for s in seeds]
    assert np.mean(tails) < 3.0


def test_draws__of_either_variable_are_its_own():
    """One order for both would permute both alike, and a coset would be the identity."""
    orbit = Orbit(Groups(200, 50, seed=0), 3)
    one, two = orbit.orders(1, 0, 4, variable=1), orbit.orders(1, 0, 4, variable=2)
    assert not np.array_equal(one, two)
    assert not np.array_equal(one, orbit.orders(2, 0, 4, variable=1))
    np.testing.assert_array_equal(orbit.orders(1, 2, 1)[0], orbit.orders(1, 0, 4)[2])
    np.testing.assert_array_equal(orbit.orders(0, 0, 2), [np.arange(50)] * 2)


@pytest.mark.parametrize("n", [4, 10, 300, 999, 1_000, 1_500, 2_000, 20_000])
def test_resolution__is_a_thousandth_at_every_n(n):
    orbit = Orbit.of(n, 1_000, seed=0)
    assert 1_000 <= len(orbit) <= 2_000
    x = np.arange(float(n))
    if n <= 300:
        found = dhsic.independence_test(x, x, rng=0, kernels="gaussian")
        assert found.pvalue <= (0.5 if n == 4 else 0.002)


def test_scope__a_few_resamples_more_than_asked_for():
    x, y = np.random.default_rng(0).standard_normal((2, 500))
    found = dhsic.independence_test(x, y, kernels="gaussian", n_resamples=20_000, rng=0)
    assert 20_000 <= len(found.null_distribution) + 1 <= 21_000


def test_options__of_a_chain():
    x, y, z = np.random.default_rng(0).standard_normal((3, 100))
    options = {"kernels": "gaussian", "rng": 0}
    few, many, fisher = (
        dhsic.independence_test(x, y, z, null=null, **options)
        for null in (dhsic.Chain(100), dhsic.Chain(300), dhsic.Chain(100, combined_by="fisher"))
    )
    assert "chain, 199 replicates:" in str(few)
    assert "chain, 599 replicates:" in str(many)
    stages = [stage.pvalue for stage in few.stages]
    assert few.pvalue == pytest.approx(1 - (1 - min(stages)) ** 2)
    assert fisher.score == pytest.approx(-2 * np.log(stages).sum())
    assert fisher.pvalue != few.pvalue


def test_rank_features__is_the_test_of_every_feature():
    rng = np.random.default_rng(0)
    features, target = rng.standard_normal((300, 4)), rng.standard_normal(300)
    options = {"estimator": "nystrom-m", "rng": 0}
    ranking = dhsic.rank_features(features, target, **options)
    for j, feature in enumerate(ranking.features):
        alone = dhsic.independence_test(features[:, [j]], target, kernels="gaussian", **options)
        assert feature.pvalue == pytest.approx(alone.pvalue)
    assert len(ranking.passes) == 1


def test_single__is_the_first_of_combinations():
    data = data_of(100, 2)
    session = session_of(data)
    single = Combinations.single((Gaussian(), Gaussian()))
    several = combinations_of(2, several=True)
    null = dhsic.Shifts(50)
    one = NystromMHSIC(n_landmarks=LANDMARKS).test_grid(session, single, null)
    many = NystromMHSIC(n_landmarks=LANDMARKS).test_grid(session, several, null)
    np.testing.assert_allclose(many.replicates[:, 0], one.replicates[:, 0], rtol=1e-9)
    assert many.statistics[0] == pytest.approx(one.statistics[0])


def test_chain__reports_the_joint_estimate():
    data = data_of(60, 3)
    chained, joint = (
        dhsic.independence_test(
            *data, kernels="gaussian", estimator=NystromMHSIC(20), null=null, rng=1
        )
        for null in (dhsic.Chain(40), dhsic.Shifts(40))
    )
    assert chained.estimate == pytest.approx(joint.estimate, rel=1e-6)
    assert chained.estimate > 0
