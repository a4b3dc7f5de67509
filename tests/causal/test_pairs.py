"""Directions of pairs: residuals of both regressions, compared by several criteria."""

import math
from dataclasses import FrozenInstanceError

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.stats import binom

import dhsic
from dhsic import causal
from dhsic.causal.measure import ResidualMeasure
from dhsic.causal.pair_residuals import pair_residuals
from dhsic.engine.events import RunStarted, StepStarted
from dhsic.errors import DataError, InvalidArgumentError
from tests import oracles
from tests.sensitivity.oracles import paper_equation_8

N = 80
CRITERIA = ("p-value", "larger-p-value", "hsic", "sensitivity")
ESTIMATORS = (dhsic.VHSIC(), dhsic.RFFHSIC(40), dhsic.NystromMHSIC(20))


def caused(n=N, seed=0):
    """A uniform cause, its effect and uniform noise: every criterion tells the direction."""
    rng = np.random.default_rng(seed)
    x, noise = rng.uniform(-1.0, 1.0, (2, n))
    return x, x + x**3 + 0.6 * noise


@pytest.fixture
def found():
    return pair_residuals(*caused(), rng=5, names=["x", "y"])


def naive_sides(found):
    """Gram matrices of cause and residuals of either direction, by the median heuristic."""
    for cause, left in ((found.first, found.of_second), (found.second, found.of_first)):
        gammas = [1.0 / np.median(abs(a - a.T)[np.triu_indices(N, 1)]) ** 2 for a in (cause, left)]
        grams = [oracles.gaussian_gram(a, a, g) for a, g in zip((cause, left), gammas, strict=True)]
        yield (cause, left), gammas, grams


def test_residuals__are_those_of_the_regression_of_standardised_variables(found):
    x = caused()[0][:, None]
    np.testing.assert_allclose(found.first, (x - x.mean()) / x.std(), rtol=1e-12)
    rng = np.random.default_rng(0)
    expected = causal.Splines().residuals(found.second, [found.first], rng)
    np.testing.assert_array_equal(found.of_second, expected)
    expected = causal.Splines().residuals(found.first, [found.second], rng)
    np.testing.assert_array_equal(found.of_first, expected)


def test_hsic__is_that_of_cause_and_residuals(found):
    one = found.decide(ResidualMeasure(criterion="hsic"))
    forward, backward = (oracles.v_hsic(grams) for _, _, grams in naive_sides(found))
    assert one.forward.hsic == pytest.approx(forward, rel=1e-9)
    assert one.backward.hsic == pytest.approx(backward, rel=1e-9)
    assert one.score == pytest.approx(backward - forward, rel=1e-9)


def test_sensitivity__is_the_difference_of_norms_of_the_maps_of_the_paper(found):
    one = found.decide(ResidualMeasure(criterion="sensitivity"))
    norms = []
    for (cause, left), gammas, grams in naive_sides(found):
        maps = (
            N * paper_equation_8(cause, *grams, gammas[0]),
            N * paper_equation_8(left, *grams[::-1], gammas[1]),
        )
        norms.append([math.sqrt(np.mean(s**2)) for s in maps])
    assert one.forward.sensitivity == pytest.approx(norms[0], rel=1e-9)
    assert one.backward.sensitivity == pytest.approx(norms[1], rel=1e-9)
    assert one.score == pytest.approx(sum(norms[1]) - sum(norms[0]), rel=1e-8)


def test_pvalues__are_those_of_single_tests(found):
    one = found.decide(ResidualMeasure(null="spectral"))
    alone = [
        dhsic.independence_test(
            *pair, kernels="gaussian", estimator="v-hsic", null="spectral", rng=5
        ).pvalue
        for pair in ((found.first, found.of_second), (found.second, found.of_first))
    ]
    assert (one.forward.pvalue, one.backward.pvalue, one.null) == (*alone, "spectral")
    assert one.score == pytest.approx(math.log(alone[0]) - math.log(alone[1]))
    larger = found.decide(ResidualMeasure(criterion="larger-p-value", null="spectral"))
    assert larger.score == alone[0] > alone[1]


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


@pytest.mark.parametrize("criterion", ["p-value", "hsic", "sensitivity"])
def test_directions__are_found(criterion):
    """Far more often right than a coin: 24 of 30 are 4.5 standard deviations from half."""
    pairs = [caused(120, seed) for seed in range(30)]
    pairs = [pair if k % 2 else pair[::-1] for k, pair in enumerate(pairs)]
    found = causal.directions(pairs, criterion=criterion, estimator="rff-hsic", rng=0)
    right = (found.scores > 0) == (np.arange(30) % 2)
    assert right.sum() >= 24 > binom.ppf(0.999, 30, 0.5)


def test_linear_normal_pairs__have_no_preferred_direction():
    """Of them nothing can be known, so that neither order of the variables may be preferred."""
    runs = 60
    data = np.random.default_rng(1).standard_normal((runs, 2, 60))
    pairs = [(x, 0.7 * x + noise) for x, noise in data]
    found = causal.directions(pairs, criterion="hsic", estimator=dhsic.RFFHSIC(20), rng=0)
    low, high = binom.ppf([0.0005, 0.9995], runs, 0.5)
    assert low <= (found.scores > 0).sum() <= high


def test_batch__has_one_seed_and_every_pair_its_own():
    pairs = {"a": caused(seed=1), "b": caused(seed=2), "c": caused(seed=1)}
    heard = []
    options = {"criterion": "hsic", "estimator": dhsic.RFFHSIC(10)}
    found = causal.directions(pairs, rng=7, progress=heard.append, **options)
    again = causal.directions(pairs, rng=7, **options)
    assert found.results[1].score == again.results[1].score
    alone = causal.direction(*pairs["b"], rng=found.results[1].seed, **options)
    assert alone.score == found.results[1].score
    assert found.scores[0] != found.scores[2]  # of the same data, but other features
    told = [StepStarted(f"{name}, pair {k} of 3") for k, name in enumerate("abc", 1)]
    assert [event for event in heard if event in told] == told
    assert heard[0] == told[0]  # and then of the steps of every pair
    assert sum(isinstance(event, RunStarted) for event in heard) == 3
    assert found.pairs == ("a", "b", "c")
    assert causal.directions(list(pairs.values()), rng=7, **options).pairs[2] == "pair3"


def test_max_rows__draws_rows_once_for_both_variables():
    x, y = caused(500)
    found = pair_residuals(x, y, max_rows=60, rng=0)
    assert len(found.first) == 60
    order = np.argsort(found.first[:, 0])
    assert np.corrcoef(found.first[order, 0], found.second[order, 0])[0, 1] > 0.8
    other = pair_residuals(x, y, max_rows=60, rng=1)
    assert not np.array_equal(found.first, other.first)
    assert len(pair_residuals(x, y, max_rows=1000, rng=0).first) == 500


def test_units__change_nothing():
    x, y = caused()
    for criterion in ("hsic", "sensitivity"):
        options = {"criterion": criterion, "rng": 0}
        one = causal.direction(x, y, **options).score
        assert causal.direction(1e3 * x + 5, y / 7, **options).score == pytest.approx(one)


def test_options__reach_what_they_are_for():
    x, y = caused()
    usual = causal.direction(x, y, rng=0)
    assert usual.regression == "splines"
    knots = causal.direction(x, y, rng=0, regression=causal.Splines(n_knots=4))
    assert knots.score != usual.score
    wide = causal.direction(x, y, rng=0, kernel="laplacian")
    assert wide.forward.hsic != usual.forward.hsic
    own = causal.direction(x, y, rng=0, estimator="dcov", kernel=None)
    assert own.estimator == "dcov"
    drawn = causal.direction(x, y, rng=0, null="permutation", n_resamples=19)
    assert (drawn.forward.pvalue * 20) % 1 == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("criterion", ["hsic", "sensitivity"])
@pytest.mark.parametrize("option", [{"null": "gamma"}, {"n_resamples": 99}])
def test_options_of_pvalues__are_refused_where_none_is_compared(criterion, option):
    (name,) = option
    with pytest.raises(InvalidArgumentError, match=rf"{name} must be left out .* drop it"):
        causal.direction(*caused(), criterion=criterion, rng=0, **option)


def test_random_forest__is_seeded():
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    from sklearn.ensemble import RandomForestRegressor

    forest = causal.CrossFitted(RandomForestRegressor(5), n_folds=2)
    options = {"regression": forest, "criterion": "hsic"}
    one, again, other = (causal.direction(*caused(), rng=s, **options).score for s in (0, 0, 1))
    assert one == again != other


def test_vectors__are_variables_too():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, (150, 2))
    y = np.column_stack([x[:, 0] ** 3 + x[:, 0], np.sin(2 * x[:, 1]), x[:, 1]])
    y += rng.uniform(-0.4, 0.4, y.shape)
    found = pair_residuals(x, y, rng=0)
    assert (found.of_second.shape, found.of_first.shape) == ((150, 3), (150, 2))
    assert found.decide(ResidualMeasure(criterion="hsic")).score > 0
    assert found.decide(ResidualMeasure(criterion="sensitivity")).forward.sensitivity is not None


def test_two_values__are_regressed_on_and_tested():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(100)
    y = (x + rng.standard_normal(100) > 1.5).astype(int)
    assert np.median(abs(y[:, None] - y)) == 0.0
    assert np.isfinite(causal.direction(x, y, rng=0).score)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_result__is_the_same_after_a_trip_through_json(criterion):
    found = causal.direction(*caused(), criterion=criterion, names=["<a>", "b"], rng=0)
    assert causal.CausalDirection.from_json(found.to_json()) == found
    assert "<a> -> b" in str(found)
    assert "&lt;a&gt; -&gt; b" in found._repr_html_()
    assert ("p-value" in str(found.forward)) == criterion.endswith("p-value")
    with pytest.raises(FrozenInstanceError):
        found.score = 1.0


def test_batch__is_the_same_after_a_trip_through_json():
    pairs = [caused(seed=seed) for seed in range(4)]
    found = causal.directions(pairs, criterion="hsic", rng=0)
    assert causal.CausalDirections.from_json(found.to_json(indent=1)) == found
    header, rows = found.table(2)
    order = np.argsort(-abs(found.scores))
    assert [row[0] for row in rows] == [f"pair{k + 1}" for k in order[:2]]
    assert len(header) == len(rows[0])
    assert "4 forward" in str(found)
    truth = [True, False, True, True]
    assert found.roc_curve(truth).auc == causal.roc_curve(found.scores, truth).auc
    assert found.precision_recall_curve(truth).recall[-1] == 1.0
    assert found.accuracy_curve(truth, [1, 2, 1, 1]).accuracy[-1] == 0.6


def test_batch__of_one_pair_reads_as_its_result():
    found = causal.directions({"a": caused()}, criterion="sensitivity", rng=0)
    (one,) = found.results
    lines = dict(found.summary())
    assert lines["pairs"] == "1"
    assert lines["directions"] == "1 forward, 0 backward, 0 undecided"
    assert (lines["criterion"], lines["estimator"]) == ("sensitivity", one.estimator)
    assert lines["regression"] == one.regression
    _, rows = found.table(1)
    assert [row[:2] for row in rows] == [["a", "x1 -> x2"]]
    assert found.records() == [{"pair": "a", **one.records()[0]}]
    assert one.records()[0]["hsic_forward"] == one.forward.hsic != one.backward.hsic
    assert found.plot().get_yticklabels()[0].get_text() == "a: x1 -> x2"
    plt.close("all")


@pytest.mark.parametrize("kind", [causal.CausalDirection, causal.CausalDirections])
@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"result": "CausalDirection", "names": 1}'])
def test_json__of_something_else_is_refused(kind, text):
    with pytest.raises(InvalidArgumentError, match=f"the JSON of a {kind.__name__}"):
        kind.from_json(text)


def test_equal_sides__are_undecided():
    x = np.random.default_rng(0).standard_normal((2, 50))
    found = causal.direction(x[0], x[1], rng=0)
    even = type(found)(**{**found.__dict__, "score": 0.0})
    assert even.direction == "undecided"


GOOD = np.arange(30.0) % 7, np.arange(30.0) % 11


@pytest.mark.parametrize(
    ("pair", "options", "error", "message"),
    [
        (GOOD, {"criterion": "hsik"}, InvalidArgumentError, "did you mean 'hsic'"),
        (
            GOOD,
            {"criterion": "hsic", "kernel": "linear"},
            InvalidArgumentError,
            "kernel must see more than correlation, .* take 'gaussian'",
        ),
        (
            GOOD,
            {"estimator": "coco", "criterion": "sensitivity"},
            InvalidArgumentError,
            "map needs",
        ),
        (GOOD, {"regression": "spline"}, InvalidArgumentError, "did you mean 'splines'"),
        (GOOD, {"max_rows": 3}, InvalidArgumentError, "max_rows must be an integer >= 4"),
        (GOOD, {"names": ["a"]}, InvalidArgumentError, "names must be 2"),
        ((GOOD[0], GOOD[1][:9]), {}, DataError, "must have the same rows"),
        ((GOOD[0], np.full(30, np.nan)), {}, DataError, "'x2' has NaN"),
        ((GOOD[0], np.ones(30)), {}, DataError, "'x2' is constant in column 0"),
        ((GOOD[0], 3.0 * GOOD[0]), {}, DataError, "is a function of 'x1' up to rounding"),
    ],
)
def test_refuses(pair, options, error, message):
    with pytest.raises(error, match=message):
        causal.direction(*pair, rng=0, **options)


@pytest.mark.parametrize(
    ("pairs", "options", "message"),
    [
        ([], {}, "one or more pairs"),
        ("xy", {}, "one or more pairs"),
        ([GOOD, (GOOD[0],)], {}, "got 'pair2' without"),
        ({"a": GOOD, "b": (GOOD[0], np.ones(30))}, {}, "pair 'b': variable 'x2' is constant"),
        ([GOOD], {"progress": 3}, "progress must be True or False"),
        ([GOOD], {"rng": -1}, "rng must be"),
    ],
)
def test_batch__refuses(pairs, options, message):
    with pytest.raises((InvalidArgumentError, DataError), match=message):
        causal.directions(pairs, **{"rng": 0, **options})


def test_batch__names_that_are_the_same_as_text_are_refused():
    with pytest.raises(InvalidArgumentError, match="differ as text"):
        causal.directions({1: caused(), "1": caused()})


@pytest.mark.parametrize("power", [-700, 700])
def test_direction__does_not_depend_on_units(power):
    x, y = caused()
    plain = causal.direction(x, y, criterion="hsic", rng=0)
    scaled = causal.direction(np.ldexp(x, power), y, criterion="hsic", rng=0)
    assert scaled.score == plain.score
