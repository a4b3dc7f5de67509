"""Pictures of causal graphs, their p-values and curves of decisions, without overlaps."""

import itertools

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex
from matplotlib.text import Annotation

from dhsic import plots
from dhsic._drawing import BLUE
from dhsic.causal import precision_recall_curve, roc_curve, score_dags, search_dag
from dhsic.causal.dags import enumerate_dags
from dhsic.errors import InvalidArgumentError

LONG = ["mean annual temperature in Celsius", "$altitude_m$ above the sea", "sunshine", "rain"]


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def boxes(texts):
    return [text.get_window_extent() for text in texts if text.get_text()]


def arrows_in(axes):
    return [text for text in axes.texts if isinstance(text, Annotation)]


def assert_readable(figure):
    """Texts lie apart and inside of the figure."""
    figure.draw_without_rendering()
    texts = []
    for axes in figure.axes:
        texts += [*axes.texts, axes.title, axes.xaxis.label]
        if axes.axison:
            low, high = sorted(axes.yaxis.get_view_interval())
            ticks = axes.yaxis.get_major_ticks()
            texts += [tick.label1 for tick in ticks if low <= tick.get_loc() <= high]
        if axes.get_legend() is not None:
            texts += axes.get_legend().get_texts()
    found = boxes(texts)
    assert [pair for pair in itertools.combinations(found, 2) if pair[0].overlaps(pair[1])] == []
    whole = figure.bbox
    for box in found:
        assert whole.x0 <= box.x0 < box.x1 <= whole.x1
        assert whole.y0 <= box.y0 < box.y1 <= whole.y1


def scored(m, seed=0):
    graphs = enumerate_dags(m)
    return np.random.default_rng(seed).random(len(graphs)) ** 6, graphs


@pytest.mark.parametrize(("m", "names"), [(2, None), (3, LONG), (4, LONG)])
def test_dag_scores__are_readable(m, names):
    pvalues, graphs = scored(m)
    axes = plots.dag_scores(pvalues, graphs, names and names[:m])
    assert len(axes.get_yticklabels()) == min(len(graphs), 30)
    assert_readable(axes.figure)


def test_dag_scores__show_what_they_are_given():
    pvalues, graphs = scored(3)
    axes = plots.dag_scores(pvalues, graphs, ["a", "b", "c"], alpha=0.1)
    order = np.argsort(-pvalues)
    widths = {round(bar.get_y() + 0.36): bar.get_width() for bar in axes.patches}
    assert [widths[k] for k in range(25)] == pytest.approx(pvalues[order])
    blue = [bar for bar in axes.patches if to_hex(bar.get_facecolor()) == to_hex(BLUE)]
    assert len(blue) == (pvalues > 0.1).sum()
    (line,) = axes.lines
    assert line.get_xdata()[0] == 0.1
    beside = axes.figure.axes[1]
    best = graphs[order[0]]
    arrows = arrows_in(beside)
    assert len(arrows) == sum(map(len, best))
    assert f"{pvalues.max():.3f}" in beside.get_title()
    label = axes.get_yticklabels()[0].get_text()
    assert label.count("→") == sum(1 for causes in best if causes)
    only = plots.dag_scores(pvalues, graphs, most=4, ax=plt.figure().subplots())
    assert len(only.patches) == 4
    assert "the largest 4 of 25" in only.get_xlabel()
    assert len(only.figure.axes) == 1


def test_scores__draw_themselves(rng):
    x, noise = rng.uniform(-1.0, 1.0, (2, 100))
    scores = score_dags(x, x + x**3 + noise, names=["x", "y"], rng=0)
    axes = scores.plot(alpha=0.2, most=2)
    assert axes.get_yticklabels()[0].get_text() == str(scores.best.dag).replace(" -> ", "→")
    assert axes.lines[0].get_xdata()[0] == 0.2
    assert len(axes.patches) == 2
    given = plt.figure().subplots()
    assert scores.plot(given) is given
    found = search_dag(x, x + x**3 + noise, names=["x", "y"], rng=0).plot()
    assert len(arrows_in(found)) == 1


def test_causal_graph__has_arrows_from_causes_to_effects():
    axes = plots.causal_graph([(1, 2), (), (1,)], ["z", "x", "y"])
    points = dict(zip("zxy", axes.lines[0].get_xydata(), strict=True))
    places = {name: tuple(point) for name, point in points.items()}
    arrows = arrows_in(axes)
    found = {(tuple(text.xyann), tuple(text.xy)) for text in arrows}
    expected = {("x", "z"), ("y", "z"), ("x", "y")}
    assert found == {(places[cause], places[effect]) for cause, effect in expected}
    assert max(points.values(), key=lambda point: point[1]) is points["x"]  # the first cause


@pytest.mark.parametrize("m", [1, 3, 5, 20])
def test_causal_graph__is_readable(m):
    names = [f"{LONG[k % 4]} {k}" for k in range(m)]
    assert_readable(plots.causal_graph([range(k) for k in range(m)], names).figure)


def test_curves__have_areas_and_styles_that_differ(rng):
    truth = rng.random(60) < 0.6
    names = [f"RHSIC, D = {d}" for d in range(9)]
    scores = {name: rng.standard_normal(60) + truth for name in names}
    roc = {name: roc_curve(one, truth) for name, one in scores.items()}
    axes = plots.roc_curves(roc)
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert texts == [f"{name}, AUC {one.auc:.2f}" for name, one in roc.items()]
    curves = axes.lines[1:]
    np.testing.assert_array_equal(curves[3].get_xdata(), roc[names[3]].false_positive_rate)
    styles = {(to_hex(line.get_color()), line.get_linestyle()) for line in curves}
    assert len(styles) == len(names)
    assert_readable(axes.figure)
    recall = {name: precision_recall_curve(one, truth) for name, one in scores.items()}
    axes = plots.precision_recall_curves(recall)
    np.testing.assert_array_equal(axes.lines[0].get_ydata()[1:], recall[names[0]].precision)
    assert_readable(axes.figure)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plots.causal_graph([(1,), (0,)]), "without cycles"),
        (lambda: plots.causal_graph([(0,)]), "parents of node 0 must be other nodes"),
        (lambda: plots.causal_graph([(), (5,)]), "parents of node 1 must be other nodes"),
        (lambda: plots.causal_graph("ab"), "parents must be a sequence"),
        (lambda: plots.causal_graph([(), ()], ["a"]), "names must be 2"),
        (lambda: plots.dag_scores([0.1], [((),), ((),)]), "graphs must be 1"),
        (lambda: plots.dag_scores([1.1], [((),)]), "pvalues must be from 0 to 1"),
        (lambda: plots.dag_scores([0.1], [((),)], alpha=0), "alpha must be"),
        (lambda: plots.dag_scores([0.1], [((),)], most=0), "most must be"),
        (lambda: plots.roc_curves({}), "curves must be a mapping"),
        (lambda: plots.precision_recall_curves([1]), "curves must be a mapping"),
    ],
)
def test_refuses(draw, message):
    with pytest.raises(InvalidArgumentError, match=message):
        draw()
