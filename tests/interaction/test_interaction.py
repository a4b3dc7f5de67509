"""The Lancaster test of three variables: its definition, its level and power, and its options."""

from itertools import count, islice

import numpy as np
import pytest
from scipy.stats import binom

import dhsic
from tests import oracles
from tests.dependent_rows import within
from tests.estimators.cases import gaussian
from tests.estimators.levels import Check
from tests.estimators.orbit import Moves, landmark_rows

GAMMA, N, P, SEED = 3.0, 24, 10, 5
FEW = dhsic.NystromMHSIC(P, tolerance=0.0)
TOLERANCE = {"float64": 1e-9, "float32": 1e-3}
TOGETHER = ((1, 2, 0), (0, 2, 1), (0, 1, 2))  # two variables that stay together, and the third


@pytest.fixture(scope="module")
def data():
    """Variables that depend in pairs and in threes; landmark Gram matrices well conditioned."""
    rng = np.random.default_rng(1)
    x, y, z = (rng.standard_normal((N, d)) for d in (2, 3, 2))
    y[:, 0] += 0.5 * x[:, 0]
    z[:, 0] += x[:, 0] * y[:, 1]
    return [x, y, z]


def at_landmarks(data):
    """The statistic of variables whose rows are permuted, with landmarks as they are."""
    rows = landmark_rows(SEED, N, P, 3)
    points = [x[r] for x, r in zip(data, rows, strict=True)]
    joint = np.prod([gaussian(z, z) for z in points], axis=0)
    crosses = [gaussian(z, x) for z, x in zip(points, data, strict=True)]
    return lambda orders: oracles.nystrom_lancaster(
        joint, [c[:, o] for c, o in zip(crosses, orders, strict=True)]
    )


def of_pairs(data):
    grams = [gaussian(x, x) for x in data]
    return lambda orders: (
        N * oracles.v_lancaster([k[np.ix_(o, o)] for k, o in zip(grams, orders, strict=True)])
    )


def run(data, null, estimator=FEW, **options):
    given = {"kernels": f"gaussian:{GAMMA}", "rng": SEED, **options}
    return dhsic.interaction_test(*data, null=null, estimator=estimator, **given)


def check_factorisations(found, values, rel=1e-8):
    """P-values of three columns of replicates, the data first, and those of the largest."""
    values = np.array(values)
    expected = [np.mean(column >= column[0] * (1 - 1e-7)) for column in values]
    assert [one.pvalue for one in found.factorisations] == pytest.approx(expected)
    largest = values[int(np.argmax(expected))]
    whole = np.append(found.statistic, found.null_distribution)
    np.testing.assert_allclose(whole, largest, rtol=rel, atol=1e-9)
    assert found.pvalue == pytest.approx(max(expected))


@pytest.mark.parametrize(
    "null",
    [
        dhsic.Permutation(60, "all"),
        dhsic.Permutation(60, "groups", group_rows=10),
        dhsic.Shifts(60),
        dhsic.Shifts(8),
    ],
    ids=str,
)
def test_replicates_at_landmarks__permute_the_separated_variable(data, null):
    found, statistic, rows = run(data, null), at_landmarks(data), np.arange(N)
    moves = Moves(N, null, SEED, 3)
    values = []
    for s in range(3):
        moved = (moves.order(number, s) for number in range(len(moves)))
        values.append([statistic([o if m == s else rows for m in range(3)]) for o in moved])
    check_factorisations(found, values)
    assert found.statistic == pytest.approx(statistic([rows] * 3), rel=1e-8)
    assert found.estimate == pytest.approx(found.statistic / N, rel=1e-12)


def test_replicates_of_pairs__permute_the_separated_variable(data):
    null, rows = dhsic.Permutation(60), np.arange(N)
    found, statistic, moves = run(data, null, "v-lancaster"), of_pairs(data), Moves(N, null, SEED)
    values = []
    for s in range(3):
        moved = map(moves.order, range(len(moves)))
        values.append([statistic([o if m == s else rows for m in range(3)]) for o in moved])
    check_factorisations(found, values)


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("estimator", ["v-lancaster", FEW], ids=["pairs", "landmarks"])
def test_statistic__is_that_of_the_signed_measure(data, estimator, precision):
    found = run(data, dhsic.Permutation(3), estimator, precision=precision)
    oracle = of_pairs if estimator == "v-lancaster" else at_landmarks
    expected = oracle(data)([np.arange(N)] * 3)
    assert found.statistic == pytest.approx(expected, rel=TOLERANCE[precision])
    assert found.estimate == pytest.approx(expected / N, rel=TOLERANCE[precision])


def test_all_values_as_landmarks__give_the_v_statistic():
    """The triples of two values each are eight, which landmarks drawn apart have all."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 2, (2, 90))
    z = np.where(rng.random(90) < 0.8, x ^ y, x)
    options = {"n_resamples": 3, "rng": 0, "kernels": "gaussian:1"}
    exact = dhsic.interaction_test(x, y, z, estimator="v-lancaster", **options)
    near = dhsic.interaction_test(x, y, z, estimator=dhsic.NystromMHSIC(90), **options)
    assert near.landmarks.kept == 8
    assert near.statistic == pytest.approx(exact.statistic, rel=1e-10)


# Rows that keep to strata and groups.


def in_strata(rng, effect=0.0):
    """All three differ between a small and a large stratum; within them z is by itself."""
    strata = (rng.random(200) < 0.2) + 0
    x, y, z = rng.standard_normal((3, 200))
    z = z + 2.0 * effect * x * y
    return [one + 3.0 * strata for one in (x, x**2 + y, z)], {"strata": strata}


def in_groups(rng, effect=0.0):
    groups = rng.permutation(np.repeat(np.arange(50), 6))
    x, y, z = rng.standard_normal((3, 50))[:, groups] + 0.3 * rng.standard_normal((3, 300))
    return [x, y, z + 2.0 * effect * x * y], {"groups": groups}


KEPT = pytest.mark.parametrize("case", [in_strata, in_groups])
QUICK = {"estimator": dhsic.NystromMHSIC(30), "threads": 1, "n_resamples": 199}


@KEPT
def test_replicates__keep_to_strata_and_groups(case):
    data, asked = case(np.random.default_rng(0), effect=0.1)
    null = dhsic.Permutation(60)
    options = {"kernels": "gaussian:0.5", "estimator": "v-lancaster", "null": null, "rng": 3}
    found = dhsic.interaction_test(*data, **options, **asked)
    n = len(data[0])
    moves = Moves(n, null, 3, 3, data=data, **asked)
    if "strata" in asked:
        data = [within(x, asked["strata"]) for x in data]
    grams = [oracles.centred_gram(gaussian(x[:, None], x[:, None], 0.5)) for x in data]
    values = []
    for a, b, s in TOGETHER:
        product, orders = grams[a] * grams[b], map(moves.order, range(len(moves)))
        values.append([np.sum(product * grams[s][np.ix_(o, o)]) / n for o in orders])
    check_factorisations(found, values, rel=1e-7)


def pvalue(case, seed, effect=0.0, asked=True):
    data, rows = case(np.random.default_rng([seed, 4]), effect)
    return dhsic.interaction_test(*data, rng=seed, **QUICK, **(rows if asked else {})).pvalue


@KEPT
def test_level__needs_the_strata_and_the_groups(case):
    check = Check.of(45, 0.05)
    assert check.failure(0.4)[1] > 0.95
    assert check.passes(pvalue(case, seed) <= 0.05 for seed in range(check.runs))
    assert sum(pvalue(case, seed, asked=False) <= 0.05 for seed in range(20)) > 3
    assert sum(pvalue(case, seed, effect=1.0) <= 0.05 for seed in range(10)) >= 8


# Level and power.

METHODS = {
    "permutations": {"null": dhsic.Permutation(19, "all"), "estimator": FEW},
    "groups": {"null": dhsic.Permutation(19, "groups", group_rows=20), "estimator": FEW},
    "shifts": {"null": dhsic.Shifts(40), "estimator": FEW},
    "pairs": {"null": dhsic.Permutation(19), "estimator": "v-lancaster"},
}


def separated(s, n, rng):
    """Two variables that depend, and one independent of both, at place s."""
    x = rng.standard_normal(n)
    data = [x, x**2 + 0.3 * rng.standard_normal(n)]
    data.insert(s, rng.standard_normal(n))
    return data


def weak_causes(rng, n=100):
    """Each of two correlated causes says little of the third, and both say much."""
    x, y = rng.multivariate_normal([0.0, 0.0], [[1.0, 0.3], [0.3, 1.0]], n).T
    return [x, y, x * y + 0.3 * x + 0.3 * rng.standard_normal(n)]


def triple(rng, n=100):
    x, y, z = rng.standard_normal((3, n))
    return [x, y, np.sign(x * y) * np.abs(z)]


def results(draw, method):
    for seed in count():
        data = draw(np.random.default_rng([13, seed]))
        yield dhsic.interaction_test(*data, rng=seed, threads=1, **METHODS[method])


@pytest.mark.parametrize(
    ("method", "s"), [*(("permutations", s) for s in range(3)), ("groups", 1), ("shifts", 2)]
)
def test_level__of_a_factorisation_that_holds(method, s):
    check = Check.of(45, 0.1)
    assert check.failure(0.4)[1] > 0.75
    found = results(lambda rng: separated(s, 40, rng), method)
    assert check.passes(one.factorisations[s].pvalue <= 0.1 + 1e-9 for one in found)


@pytest.mark.nightly
@pytest.mark.parametrize("s", range(3))
@pytest.mark.parametrize("method", METHODS)
def test_level__is_attained_over_more_data_sets(method, s):
    check = Check.of(120, 0.1, least=0.1)
    found = results(lambda rng: separated(s, 40, rng), method)
    assert check.passes(one.factorisations[s].pvalue <= 0.1 + 1e-9 for one in found)


# Seed 1 of the triples is the one in a thousand whose neighbours are alike by chance.
@pytest.mark.filterwarnings("ignore::dhsic.errors.DependentRowsWarning")
@pytest.mark.parametrize("draw", [triple, weak_causes])
@pytest.mark.parametrize("method", METHODS)
def test_power__is_far_above_the_level(method, draw):
    found = islice(results(draw, method), 8)
    assert sum(one.pvalue <= 0.1 + 1e-9 for one in found) >= 6


def test_dependent_pair__is_no_interaction():
    """What the test of joint independence rejects in every run."""
    rejected = 0
    for seed in range(15):
        data = separated(2, 100, np.random.default_rng([17, seed]))
        options = {"kernels": "gaussian", "rng": seed, "n_resamples": 19}
        assert dhsic.independence_test(*data, **options).pvalue <= 0.05
        rejected += dhsic.interaction_test(*data, **options).pvalue <= 0.05
    assert rejected <= binom.ppf(0.9995, 15, 0.05)


# Options.


def interact(data, **options):
    return dhsic.interaction_test(*data, **{"rng": 1, "n_resamples": 30, **options})


@pytest.mark.parametrize("estimator", ["nystrom-lancaster", "v-lancaster"])
def test_options__are_those_asked_for(data, estimator):
    usual = interact(data, estimator=estimator)
    assert usual.estimator == estimator
    assert usual.null_reason.startswith("exact for exchangeable rows; all ")
    other = interact(data, estimator=estimator, kernels=["laplacian", None, "imq"])
    assert [v.kernel.split(":")[0] for v in other.variables] == ["laplacian", "gaussian", "imq"]
    assert other.statistic != usual.statistic
    named = interact(data, estimator=estimator, names=["a", "b", "c"], n_resamples=40)
    assert [one.separated for one in named.factorisations] == ["a", "b", "c"]
    assert [one.together for one in named.factorisations] == [("b", "c"), ("a", "c"), ("a", "b")]


def test_records__have_the_p_value_of_all_whatever_the_names(data):
    names = ["value", "error", "factor_value"]
    found = interact(data, names=names)
    (row,) = found.records()
    assert (row["p_value"], row["p_error"]) == (found.pvalue, found.pvalue_error)
    each = {f"p_factor_{one.separated}": one.pvalue for one in found.factorisations}
    assert len(each) == len(names)
    assert each.items() <= row.items()


def test_landmarks__are_those_asked_for(data):
    usual = interact(data)
    few = interact(data, estimator=dhsic.NystromMHSIC(9))
    assert (few.landmarks.drawn, few.landmarks.pairing) == (9, "independent")
    assert few.estimate < usual.estimate
    pruned = interact(data, estimator=dhsic.NystromMHSIC(9, tolerance=0.97))
    assert pruned.landmarks.kept < few.landmarks.kept
    assert interact(data, estimator="nystrom-m").statistic == usual.statistic
