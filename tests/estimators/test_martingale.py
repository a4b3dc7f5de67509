"""The null of a martingale: its definition, the order of the rows, level and power."""

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

import dhsic
from dhsic.engine.passes import RowBlock
from dhsic.errors import ApproximateNullWarning, InvalidArgumentError
from dhsic.statistics.martingale import PieceSumsPass
from dhsic.statistics.orbit import Groups
from tests import oracles
from tests.estimators.cases import (
    CASES,
    LANDMARKS,
    SEED,
    centred,
    draw,
    gaussian,
    nystrom_features,
    principal,
    split_waves,
)
from tests.estimators.levels import Check
from tests.estimators.test_every_pair import kept

SORTED = pytest.mark.filterwarnings("ignore::dhsic.errors.DependentRowsWarning")
FEW_ROWS = pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")


def pieces_in_order(n, seed=SEED):
    """All rows, by pieces of 1,024 rows or of a sixty-fourth of them."""
    pieces = PieceSumsPass(None, n, max(1024, -(-n // 64)), seed)
    whole = RowBlock(0, (np.arange(n)[:, None],))
    rows = {
        piece: np.concatenate([x for (x,) in tiles])[:, 0] for piece, tiles in pieces.within(whole)
    }
    return np.concatenate([rows[piece] for piece in pieces.order])


def martingale(grams, order):
    """T, by one row after another."""
    n = len(order)
    k, h = (oracles.centred_gram(gram)[np.ix_(order, order)] for gram in grams)
    others = ~np.eye(n, dtype=bool)
    by_chance = k[others].mean() * h[others].mean()
    m = [(k[i, :i] * h[i, :i] - by_chance).sum() for i in range(n)]
    return math.fsum(m) / math.sqrt(math.fsum(np.square(m)))


@FEW_ROWS
@pytest.mark.parametrize("n", [9, 150])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_all_pairs__are_those_of_every_row_with_those_before(n, precision):
    data = draw(n, 2)
    found = CASES["v-hsic"].test(data, "martingale", precision=precision)
    order = Groups(n, n, SEED).members(0, 1)
    grams = [gaussian(x, x) for x in data]
    rel = 1e-9 if precision == "float64" else 1e-3
    assert found.statistic == pytest.approx(martingale(grams, order), rel=rel)
    assert found.pvalue == pytest.approx(norm.sf(found.statistic), rel=100 * rel)
    assert found.estimate == pytest.approx(oracles.v_hsic(grams), rel=rel)


FEATURES = {
    "nystrom-hsic": nystrom_features,
    "nystrom-hsic, principal": lambda data: principal(3, data),
    "rff-hsic": split_waves,
}


@FEW_ROWS
@pytest.mark.parametrize("n", [40, 600, 1500])
@pytest.mark.parametrize("name", FEATURES)
def test_features__are_those_of_every_row_with_those_before(name, n):
    if name.endswith("principal") and n > 1000:
        pytest.skip("directions are those of a sample")
    data = draw(n, 2)
    features = [centred(f) for f in FEATURES[name](data)]
    expected = martingale([f @ f.T for f in features], pieces_in_order(n))
    found = CASES[name].test(data, "martingale")
    assert found.statistic == pytest.approx(expected, rel=1e-5)
    assert found.pvalue == pytest.approx(norm.sf(expected), rel=1e-3)
    cross = features[0].T @ features[1] / n
    assert found.estimate == pytest.approx(np.sum(cross**2), rel=1e-6)
    assert [one.name for one in found.passes] == ["sums of pieces", "martingale"]


@pytest.mark.parametrize("n", [3, 1024, 1025, 10_000, 200_000])
def test_order__is_one_of_all_rows_that_the_seed_draws(n):
    orders = [pieces_in_order(n, seed) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(np.sort(orders[0]), np.arange(n))
    np.testing.assert_array_equal(orders[0], orders[1])
    assert n < 4 or (orders[0] != orders[2]).any()
    assert n < 4 or np.abs(np.corrcoef(orders[0], np.arange(n))[0, 1]) < 0.5


def test_seed__draws_another_order_and_so_another_p_value():
    data = np.random.default_rng(0).standard_normal((2, 300))
    options = {"kernels": "gaussian:0.5", "estimator": "v-hsic", "null": "martingale"}
    first, again, other = (
        dhsic.independence_test(*data, rng=seed, **options) for seed in (0, 0, 1)
    )
    assert first.statistic == again.statistic != other.statistic
    assert first.estimate == pytest.approx(other.estimate, rel=1e-9)


@pytest.mark.parametrize("estimator", ["v-hsic", "nystrom-hsic", "auto"])
def test_result__says_how_far_the_law_is_known(estimator):
    data = np.random.default_rng(0).standard_normal((2, 1200))
    found = dhsic.independence_test(*data, estimator=estimator, null="martingale", rng=0)
    assert found.null == "martingale"
    assert "an approximation" in found.null_reason
    assert "checked down to p = 0.0001" in found.null_reason
    assert "far too small" not in found.null_reason


def test_guard__tells_of_few_rows_that_show_dependence():
    rng = np.random.default_rng(0)
    rare = [(rng.random(900) < 0.1) * 1.0 for _ in range(2)]
    for estimator in ("v-hsic", "nystrom-hsic", "rff-hsic"):
        options = {"kernels": "gaussian:0.5", "estimator": estimator, "rng": 0}
        with pytest.warns(ApproximateNullWarning, match="null 'martingale' .* it needs 64"):
            found = dhsic.independence_test(*rare, null="martingale", **options)
        assert "p-values may be far too small" in found.null_reason


X, Y, Z = np.random.default_rng(0).standard_normal((3, 60))
TENS = np.arange(60) // 10


@pytest.mark.parametrize(
    ("variables", "options", "match"),
    [
        ((X, Y, Z), {"estimator": "v-hsic"}, "needs two variables, got 3: take null 'chain'"),
        ((X, Y, Z), {}, "needs two variables, got 3: take null 'chain'"),
        ((X, Y), {"strata": TENS}, "does not support strata or groups.*'auto', 'shifts'"),
        ((X, Y), {"groups": TENS}, "does not support strata or groups.*'auto', 'shifts'"),
        ((X, Y), {"order": "time"}, "does not support a series in time .* take 'auto', 'shifts'"),
        (
            (X, Y),
            {"weights": 1.0 + TENS},
            "would pair weights with the values of other rows",
        ),
        ((X, Y), {"n_resamples": 99}, "left out with null 'martingale', which draws no replicates"),
        ((X, Y), {"kernels": dhsic.Grid.auto()}, "several kernels for a variable need"),
        ((X, Y), {"estimator": "dcov"}, "not available for dcov; .* it is for .*v-hsic"),
        (
            (X, Y),
            {"estimator": dhsic.RFFHSIC(form="complex")},
            "or form='cos-sin'",
        ),
    ],
)
def test_martingale__is_refused_where_it_says_nothing(variables, options, match):
    with pytest.raises(InvalidArgumentError, match=match):
        dhsic.independence_test(*variables, null="martingale", rng=0, **options)


def test_overflow__is_refused():
    x, y = np.random.default_rng(0).standard_normal((2, 100))
    with pytest.raises(dhsic.errors.DataError, match=r"overflow|differs by"):
        dhsic.independence_test(
            1e90 * x, 1e90 * y, kernels="linear", estimator="v-hsic", null="martingale", rng=0
        )


# Level and power.


def flags(share, n=400):
    return lambda rng: [(rng.random(n) < share) * 1.0 for _ in range(2)]


NULL = {
    "normal": lambda rng: list(rng.standard_normal((2, 200))),
    # Where c is left out 59 % are rejected at 5 %.
    "ninety columns each": lambda rng: list(rng.standard_normal((2, 100, 90))),
    "heavy tails": lambda rng: [rng.standard_cauchy(200), rng.lognormal(size=200)],
    "flags": flags(0.3),
    "sorted by both": lambda rng: sorted_by_sum(rng.standard_normal((2, 300))),
}
OF_MARTINGALES = {
    "all pairs": "v-hsic",
    "features": dhsic.NystromHSIC(40, n_features="auto"),
    "waves": dhsic.RFFHSIC(10),
}
LEVEL = Check.of(60, 0.05)


def sorted_by_sum(data):
    rows = np.argsort(data[0] + data[1])
    return [x[rows] for x in data]


def by(estimator, null="martingale"):
    options = {"kernels": "gaussian", "threads": 1, "estimator": estimator, "null": null}
    return lambda data, seed: dhsic.independence_test(*data, rng=seed, **options)


@SORTED
@pytest.mark.parametrize("case", NULL)
@pytest.mark.parametrize("name", OF_MARTINGALES)
def test_level__is_kept(name, case):
    assert LEVEL.failure(0.05)[1] < 0.001
    assert LEVEL.failure(0.3)[1] > 0.95
    assert kept(LEVEL, NULL[case], 0.05, by(OF_MARTINGALES[name]))


@SORTED
@pytest.mark.nightly
@pytest.mark.parametrize("case", NULL)
@pytest.mark.parametrize("name", OF_MARTINGALES)
def test_level__is_kept_over_600_data_sets(name, case):
    test = by(OF_MARTINGALES[name])
    found = (test(NULL[case](np.random.default_rng([7, s])), s).pvalue for s in range(600))
    pvalues = np.fromiter(found, float)
    for level in (0.05, 0.01, 0.001):
        assert np.count_nonzero(pvalues <= level) <= binom.isf(0.0005, 600, level)


@FEW_ROWS
def test_level__is_not_kept_where_the_guard_warns():
    """Of pairs of flags of which three rows show dependence 13 % are rejected at .1 %."""
    test, draw_flags = by(dhsic.NystromHSIC(10)), flags(0.045, 1000)
    found = (test(draw_flags(np.random.default_rng(seed)), seed).pvalue for seed in range(60))
    assert sum(p < 0.001 for p in found) > binom.isf(1e-4, 60, 0.01)


def linear(rng, n=200):
    x, noise = rng.standard_normal((2, n))
    return x, 0.25 * x + noise


def circle(rng, n=200):
    (x, y), turns = 0.4 * rng.standard_normal((2, n)), 2 * np.pi * rng.random(n)
    return np.cos(turns) + x, np.sin(turns) + y


@pytest.mark.parametrize("case", [linear, circle], ids=lambda case: case.__name__)
@pytest.mark.parametrize("name", OF_MARTINGALES)
def test_power__is_close_to_that_of_shifts(name, case):
    estimator = OF_MARTINGALES[name]
    found = {
        null: sum(
            by(estimator, null)(case(np.random.default_rng([3, seed])), seed).pvalue <= 0.05
            for seed in range(25)
        )
        for null in ("martingale", "shifts")
    }
    assert found["martingale"] >= found["shifts"] - 4
    assert found["martingale"] > binom.isf(1e-4, 25, 0.05)


@pytest.mark.parametrize("stored", [0, 1])
def test_power__is_there_where_rows_are_stored_sorted(stored):
    data = np.array(linear(np.random.default_rng(0), 4000))
    rows = np.argsort(data[stored])
    found = dhsic.independence_test(
        *data[:, rows], kernels="gaussian", estimator="nystrom-hsic", null="martingale", rng=0
    )
    assert found.pvalue < 1e-4


def test_landmarks__are_as_many_in_the_plan_as_in_the_run():
    x, y = np.random.default_rng(0).standard_normal((2, 5000))
    options = {"estimator": dhsic.NystromHSIC(LANDMARKS), "null": "martingale"}
    plan = dhsic.plan(x, y, **options)
    assert [step.name for step in plan.passes] == ["sums of pieces", "martingale"]
    assert "sums before pieces" in [step.name for step in plan.steps]
    assert all(step.worker_bytes > 0 for step in plan.passes)
