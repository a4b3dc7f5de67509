"""Pictures show what they are given, with labels that do not overlap."""

import dataclasses
import functools
import itertools
import subprocess
import sys
from types import MappingProxyType, SimpleNamespace

import dask.array as da
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_hex
from matplotlib.quiver import Quiver

import dhsic
from dhsic import plots
from dhsic._drawing import BLUE, GREY, shortened
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.plots.matrix import cluster_order
from dhsic.results.picture import critical_value

LONG = "a name of a column that somebody has exported with its unit and its source"


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def shown(axis):
    if axis.get_figure().stale:
        axis.get_figure().draw_without_rendering()
    low, high = sorted(axis.get_view_interval())
    return [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]


def boxes(texts):
    return [text.get_window_extent() for text in texts if text.get_text()]


def overlap(boxes):
    return [pair for pair in itertools.combinations(boxes, 2) if pair[0].overlaps(pair[1])]


def assert_inside(ax, texts):
    whole = ax.figure.bbox
    for box in boxes(texts):
        assert whole.x0 <= box.x0 < box.x1 <= whole.x1
        assert whole.y0 <= box.y0 < box.y1 <= whole.y1


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1, 0.2, 0.5])
@pytest.mark.parametrize("b", [19, 99, 199, 250])
def test_critical_value__is_where_the_pvalue_passes_the_level(rng, alpha, b):
    values = rng.standard_normal(b)
    critical = critical_value(values, alpha, resampled=True)
    above, at = (
        (1 + np.count_nonzero(values >= t)) / (b + 1)
        for t in (np.nextafter(critical or 9, 9), critical or 9)
    )
    if critical is None:
        assert 1 / (b + 1) > alpha
    else:
        assert above <= alpha + 1e-12 < at


def test_critical_value__of_draws_is_their_quantile(rng):
    values = rng.standard_normal(1000)
    assert critical_value(values, 0.1, resampled=False) == np.quantile(values, 0.9)
    assert critical_value(values[:0], 0.1, resampled=False) is None


@functools.cache
@functools.cache
def a_test(strength=0.0, **options):
    x, y = np.random.default_rng(0).standard_normal((2, 200))
    asked = {"kernels": "gaussian", "estimator": "nystrom-m", "rng": 0, **options}
    return dhsic.independence_test(x, strength * x + y, **asked)


def test_null_distribution__has_statistic_and_critical_value():
    result = a_test()
    ax = plots.null_distribution(result, alpha=0.1)
    statistic, critical = (line.get_xdata()[0] for line in ax.lines)
    assert statistic == result.statistic
    assert critical == critical_value(result.null_distribution, 0.1, resampled=True)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert any("10 %" in label for label in labels)
    assert ax.get_xscale() == "linear"
    fitted = plots.null_distribution(a_test(null="gamma"))
    assert any("about" in text.get_text() for text in fitted.get_legend().get_texts())


@pytest.mark.parametrize("noise", [3.0, 1.0, 0.5])
@pytest.mark.parametrize("null", ["spectral", "permutation"])
def test_null_distribution__has_a_legend_that_hides_nothing(noise, null):
    ax = plots.null_distribution(a_test(noise, null=null))
    ax.figure.draw_without_rendering()
    legend = ax.get_legend().get_window_extent()
    hidden = [shape for shape in (*ax.patches, *ax.lines) if legend.overlaps(_extent(shape))]
    assert hidden == []
    assert len(ax.lines) == 2
    assert all(line.get_xdata()[0] <= ax.get_xlim()[1] for line in ax.lines)


def _extent(shape):
    return shape.get_window_extent()


def test_null_distribution__stays_readable_where_the_statistic_is_far_out():
    result = a_test(3.0, null="spectral")
    ax = plots.null_distribution(result)
    assert ax.get_xscale() == "symlog"
    to_pixels = ax.transData.transform
    left, right = (
        to_pixels((x, 0))[0] for x in np.quantile(result.null_distribution, [0.01, 0.99])
    )
    assert right - left > 0.2 * ax.bbox.width
    assert to_pixels((result.statistic, 0))[0] < ax.bbox.x1
    assert overlap(boxes(shown(ax.xaxis))) == []


@pytest.mark.parametrize("low", [-1.0, 0.9])
@pytest.mark.parametrize("far", [-5.0, 0.5, 1.5, 2.1, 2.9, 3.1, 25.0, 1e3, 1e8, 1e30])
def test_null_distribution__has_ticks_however_far_the_statistic(far, low):
    values = np.linspace(low, 1.0, 99)
    result = dataclasses.replace(a_test(), null_distribution=values, statistic=far)
    ax = plots.null_distribution(result)
    labels = boxes(shown(ax.xaxis))
    assert 2 <= len(labels) <= 12
    assert overlap(labels) == []
    assert ax.get_xlim()[0] <= min(low, far)
    assert max(1.0, far) <= ax.get_xlim()[1]


def test_null_distribution__of_equal_values_is_drawn():
    for values in (np.zeros(50), np.full(50, 2.0)):
        result = dataclasses.replace(a_test(), null_distribution=values)
        plots.null_distribution(result).figure.draw_without_rendering()


@pytest.mark.parametrize("value", [0.0, 0.05, -3.0])
def test_null_distribution__of_one_value_is_a_narrow_bar_there(value):
    result = dataclasses.replace(a_test(), null_distribution=np.array([value]), statistic=0.4)
    ax = plots.null_distribution(result)
    (bar,) = ax.patches
    assert bar.get_x() < value < bar.get_x() + bar.get_width() < 0.4
    assert bar.get_width() < 0.1 * np.ptp(ax.get_xlim())
    assert ax.get_xscale() == "linear"


def test_null_distribution__of_too_few_resamples_has_no_critical_value():
    assert len(plots.null_distribution(a_test(n_resamples=10)).lines) == 1


def test_null_distribution__checks_the_level():
    with pytest.raises(InvalidArgumentError, match="alpha must be greater than 0 and less than 1"):
        plots.null_distribution(a_test(), alpha=1.0)


def test_null_distribution__is_of_a_test():
    with pytest.raises(InvalidArgumentError, match="IndependenceTestResult, got a dict"):
        plots.null_distribution({})


def test_ranking__sorts_colours_and_cuts(rng):
    values = rng.permutation(60) / 60
    ax = plots.ranking(values, pvalues=1 - values, alpha=0.5, threshold=0.3, quantity="CKA")
    widths = {round(p.get_y() + p.get_height() / 2): p for p in ax.patches}
    assert [widths[k].get_width() for k in range(40)] == sorted(values, reverse=True)[:40]
    colours = [to_hex(widths[k].get_facecolor()) for k in range(40)]
    expected = [to_hex(BLUE if v >= 0.5 else GREY) for v in sorted(values, reverse=True)[:40]]
    assert colours == expected
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == [f"x{k + 1}" for k in np.argsort(-values)[:40]]
    assert ax.get_xlabel() == "CKA, the largest 40 of 60"
    assert ax.lines[0].get_xdata()[0] == 0.3
    said = [text.get_text() for text in ax.get_legend().get_texts()]
    assert said == ["critical value 0.3", "adjusted p ≤ 0.5: 30", "not significant"]


@pytest.mark.parametrize(("count", "scale"), [(1, 1e-6), (3, 1e-6), (3, 1e5), (40, 1.0)])
def test_ranking__has_labels_that_do_not_overlap(count, scale):
    values = scale * np.arange(1.0, count + 1)
    ax = plots.ranking(
        values, [f"{LONG} {k}" for k in range(count)], pvalues=np.full(count, 0.01), control="Holm"
    )
    for axis in map(shown, (ax.xaxis, ax.yaxis)):
        assert overlap(boxes(axis)) == []
        assert_inside(ax, axis)
    bars = [p.get_window_extent() for p in ax.patches]
    legend = ax.get_legend().get_window_extent()
    assert not any(legend.overlaps(bar) for bar in bars)


def test_ranking__names_in_the_legend_only_what_there_is():
    ax = plots.ranking([1.0, 2.0], pvalues=[0.01, 0.02])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["adjusted p ≤ 0.05: 2"]


def test_ranking__draws_where_it_is_told():
    _, ax = plt.subplots()
    assert plots.ranking([1.0, 2.0], ax=ax, most=1) is ax
    assert len(ax.patches) == 1
    assert ax.get_legend() is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": [1.0, np.nan]}, "values must be finite"),
        ({"values": []}, "values must be a number or more"),
        ({"values": [1.0], "names": ["a", "b"]}, "names must be 1"),
        ({"values": [1.0], "pvalues": [0.1, 0.2]}, "pvalues must be 1 numbers"),
        ({"values": [1.0], "alpha": 0.0}, "alpha must be"),
        ({"values": [1.0], "most": 0}, "most must be"),
        ({"values": ["high"]}, "values must be real numbers"),
        ({"values": [1.0 + 2.0j]}, "values must be real numbers"),
        ({"values": [1.0, 2.0], "names": "ab"}, "names must be a sequence of 2 names, got 'ab'"),
        ({"values": [1.0], "names": 3}, "names must be a sequence"),
        ({"values": [1.0], "pvalues": [3.0]}, "pvalues must be from 0 to 1, got 3 to 3"),
        ({"values": [1.0], "pvalues": [-0.1]}, "pvalues must be from 0 to 1"),
        ({"values": [1.0], "threshold": "high"}, "threshold must be a finite number"),
        ({"values": [1.0], "threshold": np.nan}, "threshold must be a finite number"),
    ],
)
def test_ranking__refuses(arguments, message):
    with pytest.raises(InvalidArgumentError, match=message):
        plots.ranking(**arguments)


def a_map(n=60):
    x = np.random.default_rng(0).uniform(-1, 1, n)
    return x, x**2, (1e-3 * x[:, None], 2e-3 * np.ones((n, 1)))


def test_sensitivity_field__colours_by_the_norm_and_points_along_the_gradient():
    x, y, maps = a_map()
    ax = plots.sensitivity_field(x, y, maps, names=["time", "height"])
    dots, arrows = ax.collections
    assert isinstance(arrows, Quiver)
    assert ax.figure.axes[1].get_ylabel() == "norm of the gradient"
    norms = np.hypot(maps[0], maps[1]).ravel()
    np.testing.assert_allclose(np.sort(dots.get_array()), np.sort(norms))
    at = {
        tuple(point): value
        for point, value in zip(dots.get_offsets().data, dots.get_array(), strict=True)
    }
    assert all(at[a, b] == pytest.approx(value) for a, b, value in zip(x, y, norms, strict=True))
    cross = arrows.U * maps[1].ravel() - arrows.V * maps[0].ravel()
    np.testing.assert_allclose(cross, 0.0, atol=1e-12)
    assert (arrows.V > 0).all()
    lengths = np.hypot(arrows.U / np.ptp(x), arrows.V / np.ptp(y))
    assert 0.05 < np.quantile(lengths, 0.95) < 0.15
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time", "height")
    tips = np.array([x + arrows.U, y + arrows.V])
    assert (tips.min(axis=1) >= [ax.get_xlim()[0], ax.get_ylim()[0]]).all()
    assert (tips.max(axis=1) <= [ax.get_xlim()[1], ax.get_ylim()[1]]).all()


def test_sensitivity_field__takes_dask_arrays_results_and_fewer_points():
    x, y, maps = a_map(1000)
    lazy = [da.from_array(m, chunks=300) for m in maps]
    result = SimpleNamespace(maps=MappingProxyType(dict(zip("xy", lazy, strict=True))))
    ax = plots.sensitivity_field(da.from_array(x), y, result, most=100, arrows=20)
    dots, arrows = ax.collections
    assert len(dots.get_offsets()) == 100
    assert len(arrows.U) == 20
    assert len(plots.sensitivity_field(x, y, maps, arrows=0).collections) == 1
    assert len(ax.figure.axes) == 2
    assert dots.get_sizes() == [14.0]
    assert plots.sensitivity_field(x, y, maps, size=3.0).collections[0].get_sizes() == [3.0]
    again = plots.sensitivity_field(x, y, lazy, most=100)
    np.testing.assert_array_equal(again.collections[0].get_array(), dots.get_array())
    assert len(plots.sensitivity_field(x, y, maps, colorbar=False).figure.axes) == 1


@pytest.mark.parametrize("flat", [np.zeros(60), np.full(60, 2.0)])
def test_sensitivity_field__draws_without_any_sensitivity_or_spread(flat):
    _, y, _ = a_map()
    ax = plots.sensitivity_field(flat, y, (np.zeros(60), np.zeros(60)))
    assert len(ax.collections) == 1


def test_sensitivity_field__refuses():
    x, y, maps = a_map()
    for error, arguments, message in [
        (InvalidArgumentError, (x, y, maps[:1]), "two variables"),
        (InvalidArgumentError, (np.ones((60, 2)), y, maps), "x must have one column"),
        (InvalidArgumentError, (x, y, None), "maps must be a pair of arrays"),
        (InvalidArgumentError, (["a"] * 60, y, maps), "x must be real numbers"),
        (DataError, (x, y[:-1], maps), r"y must be of shape \(60,\)"),
        (DataError, (x, y, (maps[0], maps[1] * np.nan)), "the map of y must be finite"),
        (DataError, (np.ones((2, 2, 2)), y, maps), "x must be of shape"),
    ]:
        with pytest.raises(error, match=message):
            plots.sensitivity_field(*arguments)
    with pytest.raises(InvalidArgumentError, match="names must be 2"):
        plots.sensitivity_field(x, y, maps, names=["time"])


def two_groups(count):
    """Variables of alternating groups: those of one depend."""
    group = np.arange(count) % 2
    return np.where(group[:, None] == group, 0.8, 0.05) + 0.2 * np.eye(count)


def test_dependence_heatmap__puts_groups_side_by_side():
    similar = two_groups(10)
    assert sorted(cluster_order(similar).tolist()) == list(range(10))
    assert len(set(cluster_order(similar)[:5] % 2)) == 1
    ax = plots.dependence_heatmap(similar)
    shown = ax.images[0].get_array()
    assert (shown[:5, :5] >= 0.8).all()
    plain = plots.dependence_heatmap(similar, clustered=False)
    np.testing.assert_array_equal(plain.images[0].get_array(), similar)
    assert [t.get_text() for t in plain.get_xticklabels()] == [f"x{k + 1}" for k in range(10)]


def test_dependence_heatmap__crosses_what_is_not_significant():
    similar = two_groups(20)
    ax = plots.dependence_heatmap(similar, pvalues=1.0 - similar, alpha=0.5)
    crossed = {tuple(at) for dots in ax.collections for at in dots.get_offsets().tolist()}
    shown = ax.images[0].get_array()
    assert crossed == {(j, i) for (i, j), v in np.ndenumerate(shown) if v < 0.5}
    assert "50 %" in ax.get_title()
    assert plots.dependence_heatmap(similar).get_title() == ""


def test_dependence_heatmap__grows_from_nine_variables_on():
    widths = [
        plots.dependence_heatmap(np.eye(count)).get_figure().get_figwidth() for count in (2, 8, 9)
    ]
    assert widths[0] == widths[1] < widths[2]


def test_dependence_heatmap__writes_numbers_where_they_fit():
    assert "0.05"[1:] in {t.get_text() for t in plots.dependence_heatmap(two_groups(4)).texts}
    many = two_groups(20)
    assert len(plots.dependence_heatmap(many, pvalues=1.0 - many).texts) == 0


def test_dependence_heatmap__of_few_has_numbers_and_crosses():
    ax = plots.dependence_heatmap([[1.0, 0.25], [0.25, 1.0]], pvalues=[[0.0, 0.8], [0.8, 0.0]])
    assert [text.get_text() for text in ax.texts] == [".25\n×"] * 2


def test_dependence_heatmap__shows_what_chance_leaves_below_0_as_0():
    ax = plots.dependence_heatmap([[1.0, -0.003], [-0.003, 1.0]])
    assert [text.get_text() for text in ax.texts] == [".00"] * 2


@pytest.mark.parametrize("count", [2, 9, 25])
def test_dependence_heatmap__has_labels_that_do_not_overlap(count):
    ax = plots.dependence_heatmap(two_groups(count), [f"{LONG} {k}" for k in range(count)])
    for axis in map(shown, (ax.xaxis, ax.yaxis)):
        assert overlap(boxes(axis)) == []
        assert_inside(ax, axis)


def test_dependence_heatmap__draws_a_result(rng):
    x, y = rng.standard_normal((2, 100))
    found = dhsic.dependence_matrix(x, y, x**2, names=["x", "y", "square"], rng=0)
    ax = plots.dependence_heatmap(found, clustered=False)
    np.testing.assert_array_equal(ax.images[0].get_array(), found.cka)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["x", "y", "square"]
    crossed = {t.get_position() for t in ax.texts if "×" in t.get_text()}
    assert crossed == {(1, 0), (0, 1), (1, 2), (2, 1)}
    renamed = plots.dependence_heatmap(found, ["a", "b", "c"], pvalues=np.zeros((3, 3)))
    assert not any("×" in t.get_text() for t in renamed.texts)


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([[1.0, 0.5]], {}, "values must be square"),
        ([[1.0], [0.5, 1.0]], {}, "values must be real numbers"),
        ([[1.0, 0.5], [0.4, 1.0]], {}, "values must be symmetric"),
        ([[1.0, 1.5], [1.5, 1.0]], {}, "values must be symmetric, at most 1"),
        (np.eye(2), {"pvalues": [[0.0, -0.1], [-0.1, 0.0]]}, "pvalues must be .* from 0 to 1"),
        ([[1.0, np.nan], [np.nan, 1.0]], {}, "values must be finite"),
        (np.eye(2), {"pvalues": np.eye(3)}, "pvalues must be 2 by 2"),
        (np.eye(2), {"names": ["a"]}, "names must be 2"),
    ],
)
def test_dependence_heatmap__refuses(values, options, message):
    with pytest.raises(InvalidArgumentError, match=message):
        plots.dependence_heatmap(values, **options)


def test_witness_function__is_a_line_over_one_column(rng):
    x = rng.standard_normal(500)
    ax = plots.witness_function(lambda rows: rows[:, 0] ** 3, x, names=[LONG])
    line = ax.lines[1]
    np.testing.assert_allclose(line.get_ydata(), line.get_xdata() ** 3)
    assert line.get_xdata()[[0, -1]] == pytest.approx(np.quantile(x, [0.005, 0.995]))
    assert len(ax.get_xlabel()) <= 40


def test_witness_function__is_colours_over_two_columns(rng):
    x = rng.standard_normal((500, 2))
    ax = plots.witness_function(lambda rows: rows[:, 0] - 3 * rows[:, 1], x)
    (mesh,) = (c for c in ax.collections if isinstance(c, QuadMesh))
    values = mesh.get_array()
    assert values[0, -1] > values[0, 0] > values[-1, 0]
    assert mesh.get_clim()[0] == -mesh.get_clim()[1]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x1", "x2")
    with pytest.raises(InvalidArgumentError, match="one or two columns, got 3"):
        plots.witness_function(lambda rows: rows[:, 0], np.ones((9, 3)))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (None, "function must be callable"),
        (lambda rows: 0.0, "values of the function must be 400 numbers"),
        (lambda rows: rows, "values of the function must be 400 numbers"),
        (lambda rows: np.full(len(rows), np.nan), "values of the function must be finite"),
    ],
)
def test_witness_function__refuses_what_has_no_value_a_row(function, message):
    with pytest.raises(InvalidArgumentError, match=message):
        plots.witness_function(function, np.arange(9.0))


@pytest.mark.parametrize("most", [3, 4, 5, 20, 200])
def test_shortened__keeps_both_ends(most):
    text = shortened(LONG, most)
    assert len(text) <= most or text == LONG
    if 4 < most < len(LONG):
        assert text[0] == LONG[0]
        assert text[-1] == LONG[-1]
        assert "…" in text


def test_names__are_no_mathematics_and_one_line():
    ax = plots.ranking([1.0, 2.0], ["$\\frac{", "two\nlines"])
    ax.figure.draw_without_rendering()
    assert [t.get_text() for t in ax.get_yticklabels()] == ["two lines", r"\$\frac{"]


def test_plots__import_without_matplotlib_and_say_what_to_install():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from dhsic import errors, plots, report\n"
        "try: plots.ranking([1.0])\n"
        "except errors.MissingDependencyError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (
        done.stdout
        == "Plotting needs matplotlib, which is not installed: pip install 'dhsic[plot]'\n"
    )
