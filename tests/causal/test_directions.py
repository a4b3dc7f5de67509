"""Directions of pairs: residuals of both regressions, compared by several criteria."""

import math

import numpy as np
import pytest
from scipy.stats import binom

import dhsic
from dhsic import causal
from dhsic.errors import InvalidArgumentError, MemoryBudgetError
from tests import oracles

N = 80
CRITERIA = ("p-value", "larger-p-value", "hsic", "sensitivity")
ESTIMATORS = (dhsic.VHSIC(), dhsic.RFFHSIC(40), dhsic.NystromMHSIC(20))
MANY = np.broadcast_to(np.float64(0.0), 2_000_000)


def caused(n=N, seed=0):
    """A uniform cause, its effect and uniform noise: every criterion tells the direction."""
    x, noise = np.random.default_rng(seed).uniform(-1.0, 1.0, (2, n))
    return x, x + x**3 + 0.6 * noise


def sides(x, y):
    """Cause and residuals of both directions, of standardised variables."""
    x, y = (((one - one.mean()) / one.std())[:, None] for one in (x, y))
    rng = np.random.default_rng(0)
    return [(a, causal.Splines().residuals(b, [a], rng)) for a, b in ((x, y), (y, x))]


def grams(cause, left):
    """By the median heuristic."""
    gammas = [1.0 / np.median(abs(a - a.T)[np.triu_indices(N, 1)]) ** 2 for a in (cause, left)]
    both = zip((cause, left), gammas, strict=True)
    return gammas, [oracles.gaussian_gram(a, a, gamma) for a, gamma in both]


def test_hsic__is_that_of_cause_and_residuals():
    found = causal.direction(*caused(), criterion="hsic", rng=5)
    forward, backward = (oracles.v_hsic(grams(*pair)[1]) for pair in sides(*caused()))
    assert found.forward.hsic == pytest.approx(forward, rel=1e-8)
    assert found.backward.hsic == pytest.approx(backward, rel=1e-8)
    assert found.score == pytest.approx(backward - forward, rel=1e-8)


def test_sensitivity__is_the_difference_of_norms_of_the_maps_of_the_paper():
    found = causal.direction(*caused(), criterion="sensitivity", rng=5)
    norms = []
    for cause, left in sides(*caused()):
        gammas, both = grams(cause, left)
        maps = (
            N * oracles.paper_equation_8(cause, *both, gammas[0]),
            N * oracles.paper_equation_8(left, *both[::-1], gammas[1]),
        )
        norms.append([math.sqrt(np.mean(s**2)) for s in maps])
    assert found.forward.sensitivity == pytest.approx(norms[0], rel=1e-8)
    assert found.backward.sensitivity == pytest.approx(norms[1], rel=1e-8)
    assert found.score == pytest.approx(sum(norms[1]) - sum(norms[0]), rel=1e-7)


def test_pvalues__are_those_of_single_tests():
    found, larger = (
        causal.direction(*caused(), criterion=one, null="spectral", rng=5)
        for one in ("p-value", "larger-p-value")
    )
    options = {"kernels": "gaussian", "estimator": "v-hsic", "null": "spectral", "rng": 5}
    alone = [dhsic.independence_test(*pair, **options).pvalue for pair in sides(*caused())]
    assert found.null == "spectral"
    assert [found.forward.pvalue, found.backward.pvalue] == pytest.approx(alone, rel=1e-7)
    assert found.score == pytest.approx(math.log(alone[0]) - math.log(alone[1]), rel=1e-7)
    assert larger.score == pytest.approx(max(alone) if alone[0] > alone[1] else -max(alone))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: e.name)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_exchanged_variables__have_the_opposite_score(criterion, estimator):
    x, y = caused()
    options = {"criterion": criterion, "estimator": estimator, "rng": 3}
    one = causal.direction(x, y, names=["x", "y"], **options)
    other = causal.direction(y, x, names=["y", "x"], **options)
    assert one.score == -other.score != 0.0
    assert one.direction == other.direction == "x -> y"
    assert (one.forward, one.backward) == (other.backward, other.forward)
    assert (one.estimator, one.criterion) == (estimator.name, criterion)
    even = type(one)(**{**one.__dict__, "score": 0.0})
    assert even.direction == "undecided"


@pytest.mark.parametrize("criterion", ["p-value", "hsic", "sensitivity"])
def test_directions__are_found(criterion):
    """Far more often right than a coin: 18 of 20 are 3.6 standard deviations from half."""
    pairs = [caused(120, seed) for seed in range(20)]
    pairs = [pair if k % 2 else pair[::-1] for k, pair in enumerate(pairs)]
    found = causal.directions(pairs, criterion=criterion, estimator="rff-hsic", rng=0)
    right = (found.scores > 0) == (np.arange(20) % 2)
    assert right.sum() >= 18 > binom.ppf(0.999, 20, 0.5)


def test_linear_normal_pairs__have_no_preferred_direction():
    """Nothing can be known of them, so that neither order of the variables may be preferred."""
    runs = 40
    data = np.random.default_rng(1).standard_normal((runs, 2, 60))
    pairs = [(x, 0.7 * x + noise) for x, noise in data]
    found = causal.directions(pairs, criterion="hsic", estimator=dhsic.RFFHSIC(20), rng=0)
    low, high = binom.ppf([0.0005, 0.9995], runs, 0.5)
    assert low <= (found.scores > 0).sum() <= high


def test_batch__has_one_seed_and_every_pair_its_own():
    pairs = {"a": caused(seed=1), "b": caused(seed=2), "c": caused(seed=1)}
    options = {"criterion": "hsic", "estimator": dhsic.RFFHSIC(10)}
    found, again = (causal.directions(pairs, rng=7, **options) for _ in "ab")
    assert found.scores.tolist() == again.scores.tolist()
    alone = causal.direction(*pairs["b"], rng=found.results[1].seed, **options)
    assert alone.score == found.results[1].score
    assert found.scores[0] != found.scores[2]  # of the same data, but other features
    assert found.pairs == ("a", "b", "c")
    assert causal.directions(list(pairs.values()), rng=7, **options).pairs[2] == "pair3"
    _, rows = found.table(2)
    order = np.argsort(-abs(found.scores))
    assert [row[0] for row in rows] == [found.pairs[k] for k in order[:2]]
    assert "3 forward" in str(found)


def test_units__change_nothing():
    x, y = caused()
    for criterion in ("hsic", "sensitivity"):
        options = {"criterion": criterion, "rng": 0}
        one = causal.direction(x, y, **options).score
        assert causal.direction(1e3 * x + 5, y / 7, **options).score == pytest.approx(one)
        for power in (-700, 700):
            assert causal.direction(np.ldexp(x, power), y, **options).score == one


def test_options__reach_what_they_are_for():
    x, y = caused()
    usual = causal.direction(x, y, rng=0)
    assert usual.regression == "splines"
    knots = causal.direction(x, y, rng=0, regression=causal.Splines(n_knots=4))
    assert knots.score != usual.score
    wide = causal.direction(x, y, rng=0, kernel="laplacian")
    assert wide.forward.hsic != usual.forward.hsic
    assert causal.direction(x, y, rng=0, estimator="dcov", kernel=None).estimator == "dcov"
    drawn = causal.direction(x, y, rng=0, null="permutation", n_resamples=19)
    assert (drawn.forward.pvalue * 20) % 1 == pytest.approx(0.0, abs=1e-9)
    forest = causal.CrossFitted("random-forest", n_folds=2)
    options = {"regression": forest, "criterion": "hsic"}
    one, again, other = (causal.direction(x, y, rng=seed, **options).score for seed in (0, 0, 1))
    assert one == again != other


def test_vectors_and_two_values__are_variables_too():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, (150, 2))
    y = np.column_stack([x[:, 0] ** 3 + x[:, 0], np.sin(2 * x[:, 1]), x[:, 1]])
    y += rng.uniform(-0.4, 0.4, y.shape)
    assert causal.direction(x, y, criterion="hsic", rng=0).score > 0
    binary = (x[:, 0] + rng.standard_normal(150) > 1.0).astype(int)
    assert np.isfinite(causal.direction(x[:, 0], binary, rng=0).score)


# Rows


def test_rows__are_all_where_they_fit():
    plan = causal.plan_direction(MANY, MANY, threads=1)
    assert plan.n == 2_000_000
    assert plan.fits


@pytest.mark.parametrize("options", [{"estimator": "v-hsic"}, {"regression": "gaussian-process"}])
def test_rows__are_as_many_as_fit(options):
    plan = causal.plan_direction(MANY, MANY, threads=1, **options)
    assert plan.n < 2_000_000
    assert plan.fits
    if "regression" in options:
        with pytest.raises(MemoryBudgetError, match=r"max_rows.*at most [\d,]+ rows would fit"):
            causal.direction(MANY, MANY, max_rows=100_000, threads=1, **options)
        small = causal.plan_direction(MANY, MANY, memory="300MiB", **options)
        assert small.n < causal.plan_direction(MANY, MANY, **options).n


def test_rows__that_are_drawn_are_the_same_of_both_variables_and_say_why():
    x, y = caused(3000)
    options = {"criterion": "hsic", "estimator": dhsic.VHSIC(), "rng": 0, "threads": 1}
    found = causal.direction(x, y, time=1e-6, **options)
    assert found.n < 3000
    assert f"{found.n:,} rows, since 3,000 rows would take more than" in found.rows_reason
    asked = causal.direction(x, y, max_rows=found.n, **options)
    assert (asked.score, asked.n) == (found.score, found.n)
    assert asked.rows_reason != found.rows_reason
    assert asked.score > 0  # rows drawn apart would tell nothing
    assert causal.direction(x, y, max_rows=60, **{**options, "rng": 1}).score != asked.score


# Accuracy


def test_accuracy_curve__is_weighted_and_refuses_what_is_no_boolean():
    scores, truth = [3.0, 2.0, 1.0, -1.0], [True, False, True, False]
    weights = [1.0, 2.0, 1.0, 1.0]
    assert causal.accuracy_curve(scores, truth, weights).accuracy[-1] == pytest.approx(3 / 5)
    with pytest.raises(InvalidArgumentError, match="truth must be 4 booleans"):
        causal.accuracy_curve(scores, [1, 0, 1, 0])
