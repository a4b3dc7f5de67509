"""Pictures show what they are given, with labels that lie apart and inside of the figure."""

import functools
import itertools

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.collections import QuadMesh
from matplotlib.quiver import Quiver
from matplotlib.text import Annotation

import dhsic
from dhsic import plots
from dhsic.errors import DataError, InvalidArgumentError

LONG = "a name of a column that somebody has exported with its unit and its source"
NAMES = ["mean annual temperature in Celsius", "$altitude_m$ above the sea", "two\nlines", "rain"]
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@functools.cache
def a_test(strength=0.0, **options):
    x, y = np.random.default_rng(0).standard_normal((2, 200))
    asked = {"kernels": "gaussian", "estimator": "nystrom-m", "rng": 0, **options}
    return dhsic.independence_test(x, strength * x + y, **asked)


# --- all of them: readable


def ticks(axis):
    low, high = sorted(axis.get_view_interval())
    return [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]


def assert_readable(ax):
    figure = ax.figure
    figure.draw_without_rendering()
    groups = [[]]
    for axes in figure.axes:
        groups[0] += [axes.title, axes.xaxis.label]
        groups[0] += [one for one in axes.texts if isinstance(one, Annotation) or not axes.axison]
        if axes.axison:
            groups += [ticks(axes.xaxis), ticks(axes.yaxis)]
        if axes.get_legend() is not None:
            groups[0] += axes.get_legend().get_texts()
    whole = figure.bbox
    for texts in groups:
        boxes = [one.get_window_extent() for one in texts if one.get_text() and one.get_visible()]
        assert not [1 for one, other in itertools.combinations(boxes, 2) if one.overlaps(other)]
        for box in boxes:
            assert whole.x0 - 1 <= box.x0 < box.x1 <= whole.x1 + 1
            assert whole.y0 - 1 <= box.y0 < box.y1 <= whole.y1 + 1
    if ax.get_legend() is not None:
        legend = ax.get_legend().get_window_extent()
        assert not [bar for bar in ax.patches if legend.overlaps(bar.get_window_extent())]


def two_groups(count):
    """Variables of alternating groups: those of one depend."""
    group = np.arange(count) % 2
    return np.where(group[:, None] == group, 0.8, 0.05) + 0.2 * np.eye(count)


def long_names(count):
    return [f"{NAMES[k % 4]} {k}" for k in range(count)]


READABLE = {
    "a null": lambda: a_test(0.5).plot(),
    "a statistic far out": lambda: a_test(3.0, null="spectral").plot(),
    "one column": lambda: plots.ranking([1e-6], [LONG], pvalues=[0.01], control="Holm"),
    "40 columns": lambda: plots.ranking(np.arange(1.0, 41), [f"{LONG} {k}" for k in range(40)]),
    "a matrix": lambda: plots.dependence_heatmap(two_groups(25), long_names(25)),
    "graphs": lambda: plots.dag_scores(np.arange(25) / 25, [((), (0,), (0, 1))] * 25, NAMES[:3]),
    "a graph": lambda: plots.causal_graph([range(k) for k in range(20)], long_names(20)),
}


@pytest.mark.parametrize("picture", READABLE)
def test_pictures__have_texts_that_lie_apart_and_inside(picture):
    assert_readable(READABLE[picture]())


# --- the null distribution


@pytest.mark.parametrize(("alpha", "b"), [(0.01, 19), (0.01, 99), (0.05, 198), (0.1, 99)])
def test_null_distribution__critical_value_is_where_the_pvalue_passes_the_level(alpha, b):
    values = np.random.default_rng(b).standard_normal(b)
    lines = plots.null_distribution(values, 0.0, alpha=alpha).lines
    assert lines[0].get_xdata()[0] == 0.0
    if 1 / (b + 1) > alpha:
        assert len(lines) == 1, "so few replicates cannot reject"
        return
    critical = lines[1].get_xdata()[0]
    above, at = (
        (1 + np.count_nonzero(values >= t)) / (b + 1) for t in (np.nextafter(critical, 9), critical)
    )
    assert above <= alpha + 1e-12 < at


@pytest.mark.parametrize("low", [-1.0, 0.9])
@pytest.mark.parametrize("far", [-5.0, 1.5, 3.1, 1e8, 1e30])
def test_null_distribution__has_ticks_and_both_ends_however_far_the_statistic(far, low):
    values = np.linspace(low, 1.0, 99)
    ax = plots.null_distribution(values, far, note="p = 0.01", title="A question?")
    assert_readable(ax)
    assert 2 <= len(ticks(ax.xaxis)) <= 12
    assert ax.get_xlim()[0] <= min(low, far)
    assert max(1.0, far) <= ax.get_xlim()[1]
    left, right = (ax.transData.transform((x, 0))[0] for x in (low, 1.0))
    assert right - left > 0.005 * ax.bbox.width, "the replicates are seen"


# --- bars


def test_ranking__sorts_colours_and_cuts():
    values = RNG.permutation(60) / 60
    ax = plots.ranking(values, pvalues=1 - values, alpha=0.5, threshold=0.3, quantity="CKA")
    bars = sorted(ax.patches, key=lambda bar: bar.get_y())
    shown = sorted(values, reverse=True)[:40]
    assert [bar.get_width() for bar in bars] == shown
    found = {value: bar.get_facecolor() for value, bar in zip(shown, bars, strict=True)}
    assert len({found[v] for v in shown if v >= 0.5}) == 1
    assert {found[v] for v in shown if v >= 0.5}.isdisjoint(found[v] for v in shown if v < 0.5)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == [f"x{k + 1}" for k in np.argsort(-values)[:40]]
    assert ax.get_xlabel() == "CKA, the largest 40 of 60"
    assert ax.lines[0].get_xdata()[0] == 0.3
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["critical value 0.3", "adjusted p ≤ 0.5: 30", "not significant"]


def test_causal_graph__has_arrows_from_causes_to_effects():
    axes = plots.causal_graph([(1, 2), (), (1,)], ["z", "x", "y"])
    places = dict(zip("zxy", map(tuple, axes.lines[0].get_xydata()), strict=True))
    arrows = [one for one in axes.texts if isinstance(one, Annotation)]
    found = {(tuple(one.xyann), tuple(one.xy)) for one in arrows}
    assert found == {(places[a], places[b]) for a, b in ("xz", "yz", "xy")}
    assert max(places, key=lambda name: places[name][1]) == "x"  # the first cause


# --- points, matrices and surfaces


def a_map(n=60):
    x = np.random.default_rng(0).uniform(-1, 1, n)
    return x, x**2, (1e-3 * x[:, None], 2e-3 * np.ones((n, 1)))


def test_sensitivity_field__colours_by_the_norm_and_points_along_the_gradient():
    x, y, maps = a_map()
    ax = plots.sensitivity_field(x, y, maps, names=["time", "height"])
    dots, arrows = ax.collections
    assert isinstance(arrows, Quiver)
    norms = dict(zip(zip(x, y, strict=True), np.hypot(*maps).ravel(), strict=True))
    at = zip(map(tuple, dots.get_offsets().data), dots.get_array(), strict=True)
    assert all(norms[point] == pytest.approx(value) for point, value in at)
    np.testing.assert_allclose(
        arrows.U * maps[1].ravel() - arrows.V * maps[0].ravel(), 0.0, atol=1e-12
    )
    assert (arrows.V > 0).all()
    lengths = np.hypot(arrows.U / np.ptp(x), arrows.V / np.ptp(y))
    assert 0.05 < np.quantile(lengths, 0.95) < 0.15
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time", "height")
    assert ax.figure.axes[1].get_ylabel() == "norm of the gradient"


def test_dependence_heatmap__puts_groups_side_by_side():
    similar = two_groups(10)
    clustered = plots.dependence_heatmap(similar)
    assert (clustered.images[0].get_array()[:5, :5] >= 0.8).all()
    labels = [t.get_text() for t in clustered.get_xticklabels()]
    assert sorted(labels) == sorted(f"x{k + 1}" for k in range(10))
    assert len({int(label[1:]) % 2 for label in labels[:5]}) == 1
    plain = plots.dependence_heatmap(similar, clustered=False)
    np.testing.assert_array_equal(plain.images[0].get_array(), similar)


def test_dependence_heatmap__crosses_what_is_not_significant():
    similar = two_groups(20)
    ax = plots.dependence_heatmap(similar, pvalues=1.0 - similar, alpha=0.5)
    crossed = {tuple(at) for dots in ax.collections for at in dots.get_offsets().tolist()}
    shown = ax.images[0].get_array()
    assert crossed == {(j, i) for (i, j), v in np.ndenumerate(shown) if v < 0.5}
    assert "50 %" in ax.get_title()
    few = plots.dependence_heatmap([[1.0, 0.25], [0.25, 1.0]], pvalues=[[0.0, 0.8], [0.8, 0.0]])
    assert [text.get_text() for text in few.texts] == [".25\n×"] * 2


def test_witness_function__is_a_line_over_one_column_and_colours_over_two():
    x = RNG.standard_normal((500, 2))
    ax = plots.witness_function(lambda rows: rows[:, 0] ** 3, x[:, 0], names=[LONG])
    line = ax.lines[1]
    np.testing.assert_allclose(line.get_ydata(), line.get_xdata() ** 3)
    assert line.get_xdata()[[0, -1]] == pytest.approx(np.quantile(x[:, 0], [0.005, 0.995]))
    ax = plots.witness_function(lambda rows: rows[:, 0] - 3 * rows[:, 1], x)
    (mesh,) = (one for one in ax.collections if isinstance(one, QuadMesh))
    values = mesh.get_array()
    assert values[0, -1] > values[0, 0] > values[-1, 0]
    assert mesh.get_clim()[0] == -mesh.get_clim()[1]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x1", "x2")


# --- refusals: the call, and words of the remedy

X, Y, MAPS = a_map()
LABELS = {"xlabel": "rows", "ylabel": "time (s)"}
REFUSED = [
    (plots.null_distribution, ({}, 0.0), {}, r"must be finite numbers of shape \(any\), got \{\}"),
    (plots.null_distribution, (a_test(), 0.0), {}, r"call plot\(\) of a result"),
    (plots.sensitivity_field, (X, Y, a_test()), {}, "must be a pair of arrays, those of x and y"),
    (plots.ranking, ([1.0, 2.0], "ab"), {}, "names must be a sequence of 2 names, got 'ab'"),
    (plots.ranking, ([1.0],), {"pvalues": [3.0]}, "numbers from 0 to 1 of .*, got 3 among"),
    (plots.sensitivity_field, (np.ones((60, 2)), Y, MAPS), {}, "x must have one column"),
    (plots.sensitivity_field, (X, Y, (MAPS[0], MAPS[1] * np.nan)), {}, "map of y must be finite"),
    (plots.dependence_heatmap, ([[1.0, 0.5], [0.4, 1.0]],), {}, "values must be symmetric"),
    (plots.witness_function, (None, X), {}, "function must be callable"),
    (plots.witness_function, (len, np.ones((9, 3))), {}, "one or two columns to be drawn, got 3"),
    (plots.causal_graph, ([(1,), (0,)],), {}, "without cycles"),
    (plots.scaling, ({},), LABELS, "one line or more"),
    (plots.scaling, ({"": ([1, 2], [0.0, 1.0])},), LABELS, "must be above 0"),
]


@pytest.mark.parametrize(("draw", "arguments", "options", "words"), REFUSED)
def test_pictures__refuse(draw, arguments, options, words):
    with pytest.raises((InvalidArgumentError, DataError), match=words):
        draw(*arguments, **options)
