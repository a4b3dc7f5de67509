"""Curves of weighted decisions are what their definitions say."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

from dhsic.causal import accuracy_curve, precision_recall_curve, roc_curve
from dhsic.errors import InvalidArgumentError, MissingDependencyError
from tests import oracles


def decisions(seed, ties, n=60):
    """Scores, truth and weights; some weigh nothing."""
    rng = np.random.default_rng(seed)
    truth = rng.random(n) < 0.7
    scores = rng.standard_normal(n) + truth
    weights = np.where(rng.random(n) < 0.1, 0.0, rng.choice([0.083, 0.25, 1.0], n))
    return (np.round(scores) if ties else scores), truth, weights


CASES = [pytest.param(seed, ties, id=f"{seed}, {ties=}") for seed in (0, 1) for ties in (0, 1)]


@pytest.mark.parametrize(("seed", "ties"), CASES)
def test_roc__is_its_definition(seed, ties):
    scores, truth, weights = decisions(seed, ties)
    found = roc_curve(scores, truth, weights)
    assert found.auc == pytest.approx(oracles.weighted_auc(scores, truth, weights), rel=1e-12)
    whole = oracles.weighted_counts(scores, truth, weights, -np.inf)
    for k, threshold in enumerate(found.thresholds):
        above = oracles.weighted_counts(scores, truth, weights, threshold)
        rates = found.true_positive_rate[k], found.false_positive_rate[k]
        assert rates == pytest.approx(np.divide(above, whole), rel=1e-12)
    assert len(found.thresholds) == len(set(scores[weights > 0])) + 1
    assert (found.thresholds[0], found.true_positive_rate[-1]) == (np.inf, 1.0)


@pytest.mark.parametrize(("seed", "ties"), CASES)
def test_precision_recall__is_its_definition(seed, ties):
    scores, truth, weights = decisions(seed, ties)
    found = precision_recall_curve(scores, truth, weights)
    area = before = 0.0
    for k, threshold in enumerate(found.thresholds):
        up, down = oracles.weighted_counts(scores, truth, weights, threshold)
        recall = up / weights[truth].sum()
        assert found.precision[k] == pytest.approx(up / (up + down), rel=1e-12)
        assert found.recall[k] == pytest.approx(recall, rel=1e-12)
        area, before = area + (recall - before) * up / (up + down), recall
    assert found.average_precision == pytest.approx(area, rel=1e-12)


@pytest.mark.parametrize("curve", [roc_curve, precision_recall_curve])
def test_curves__say_which_library_they_need(curve, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(MissingDependencyError, match=r"needs scikit-learn.*dhsic\[causal\]"):
        curve([1.0, 2.0], [True, False])
    assert accuracy_curve([1.0, 2.0], [True, False]).accuracy[-1] == 0.5


@pytest.mark.parametrize(("seed", "ties"), CASES)
def test_accuracy__is_its_definition(seed, ties):
    scores, truth, weights = decisions(seed, ties)
    found = accuracy_curve(scores, truth, weights)
    sizes = sorted({abs(s) for s, w in zip(scores, weights, strict=True) if w}, reverse=True)
    before = area = 0.0
    for k, size in enumerate(sizes):
        chosen = np.abs(scores) >= size
        right = [0.5 if s == 0 else (s > 0) == t for s, t in zip(scores, truth, strict=True)]
        decided = weights[chosen].sum()
        accuracy = (weights * right)[chosen].sum() / decided
        assert found.accuracy[k] == pytest.approx(accuracy, rel=1e-12)
        assert found.decision_rate[k] == pytest.approx(decided / weights.sum(), rel=1e-12)
        area, before = area + (decided / weights.sum() - before) * accuracy, decided / weights.sum()
    assert found.area == pytest.approx(area, rel=1e-12)


def test_weights__are_shares_and_are_1_where_not_given():
    scores, truth, weights = decisions(0, ties=False)
    one = roc_curve(scores, truth, weights)
    assert roc_curve(scores, truth, 7.0 * weights).auc == pytest.approx(one.auc)
    assert roc_curve(scores, truth).auc == roc_curve(scores, truth, np.ones(60)).auc != one.auc


def test_scores__of_the_other_order_have_the_same_area():
    scores, truth, weights = decisions(1, ties=True)
    one, other = roc_curve(scores, truth, weights), roc_curve(-scores, ~truth, weights)
    assert one.auc == pytest.approx(other.auc, rel=1e-12)


def test_curves__draw_themselves():
    scores, truth, _ = decisions(0, ties=False)
    for curve in (roc_curve(scores, truth), precision_recall_curve(scores, truth)):
        axes = curve.plot(label="HSIC")
        assert "HSIC" in axes.get_legend().get_texts()[0].get_text()
        plt.close(axes.figure)


@pytest.mark.parametrize("curve", [roc_curve, precision_recall_curve, accuracy_curve])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], []), "scores must be one or more numbers"),
        (([1.0, np.nan], [True, False]), "scores must be finite"),
        (([1.0, 2.0], [1, 0]), "truth must be 2 booleans"),
        (([1.0, 2.0], [True]), "truth must be 2 booleans"),
        (([1.0, 2.0], [True, False], [1.0]), "weights must be 2 numbers"),
        (([1.0, 2.0], [True, False], [1.0, -1.0]), "weights must be at least 0"),
        (([1.0, 2.0], [True, False], [0.0, 0.0]), "weights must be at least 0 and not all 0"),
    ],
)
def test_refuses(curve, arguments, message):
    with pytest.raises(InvalidArgumentError, match=message):
        curve(*arguments)


@pytest.mark.parametrize("truth", [[True, True], [False, False]])
def test_roc__needs_both_classes(truth):
    with pytest.raises(InvalidArgumentError, match="both classes must have weight"):
        roc_curve([1.0, 2.0], truth)


def test_scores__that_are_no_numbers_are_refused():
    with pytest.raises(InvalidArgumentError, match="scores must be numbers"):
        roc_curve(["high", "low"], [True, False])
