"""The public scenarios, and the leaderboard of tests on them."""

import csv

import click
import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import ks_2samp, kstest

from benchmarks.peers import leaderboard, leaderboard_tests
from benchmarks.peers.leaderboard_tests import ENTRIES
from benchmarks.shared.public_scenarios import (
    SCENARIOS,
    digits,
    mixture,
    perturbed_uniform,
    rows_of,
)
from benchmarks.shared.shapes import SHAPES
from benchmarks.shared.songs import FOLDER

THEIRS = (
    *("linear", "exponential", "cubic", "joint_normal", "step", "quadratic", "w_shaped", "spiral"),
    *("uncorrelated_bernoulli", "logarithmic", "fourth_root", "sin_four_pi", "sin_sixteen_pi"),
    *("square", "two_parabolas", "circle", "ellipse", "diamond", "multiplicative_noise"),
    "multimodal_independence",
)
QUICK = ("--method", "dhsic default", "--runs", 2, "--seconds", 0)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "leaderboard.csv"


def run(out, *options):
    arguments = [*map(str, options), "--out", str(out)]
    done = CliRunner().invoke(leaderboard.main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    with out.open() as file:
        return list(csv.DictReader(file)), done.output


def features(x, y):
    """Numbers of every row in which two laws would differ."""
    yield from (x[:, 0], y[:, -1], x[:, 0] * y[:, 0], x[:, -1] ** 2 * y[:, 0])
    yield from (y[:, 0] * np.sin(w * np.pi * x[:, 0]) for w in (4.0, 16.0))
    yield x.sum(axis=1) + y.sum(axis=1)
    yield (x**2).sum(axis=1) * np.abs(y[:, 0])


@pytest.mark.parametrize("d", [1, 3, 10])
@pytest.mark.parametrize(("ours", "theirs"), list(zip(SHAPES, THEIRS, strict=True)))
def test_shapes__are_those_of_hyppo(ours, theirs, d):
    tools = pytest.importorskip("hyppo.tools", reason="hyppo is in the group `peers`")
    noise = {} if theirs.startswith("multi") else {"noise": True}
    np.random.seed(1)  # noqa: NPY002 (hyppo draws from there)
    other = tools.SIMULATIONS[theirs](4000, d, **noise)
    own = SHAPES[ours](4000, np.random.default_rng(2), d)
    assert [v.shape for v in own] == [v.shape for v in other]
    for one, two in zip(features(*own), features(*other), strict=True):
        assert ks_2samp(one, two, method="asymp").pvalue > 1e-4


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes__depend_but_the_last(shape):
    x, y = SHAPES[shape](20_000, np.random.default_rng(0), 1)
    unlinked = np.random.default_rng(1).permutation(y)
    pvalues = [
        ks_2samp(one, two, method="asymp").pvalue
        for one, two in zip(features(x, y), features(x, unlinked), strict=True)
    ]
    assert (min(pvalues) < 1e-6) == (shape != "independent")


@pytest.mark.parametrize(("d", "p"), [(2, 1), (2, 2), (3, 1)])
def test_perturbed_uniform__has_bumps_of_its_size(d, p):
    x, y = perturbed_uniform(40_000, np.random.default_rng(0), d, p, 1.0)
    z = np.hstack([x, y])
    assert z.shape == (40_000, d)
    # marginal laws are uniform, as bumps cancel in any column
    assert all(kstest(column, "uniform").pvalue > 1e-3 for column in z.T)
    # exp(-1) d times is the top of a bump, so that the density goes from 0 to 2
    distance = np.abs(z * p - np.floor(z * p) - 0.25).max(axis=1)
    peak = (z < 0.5 / p).all(axis=1) & (distance < 0.05)
    density = peak.mean() / (0.1 / p) ** d
    assert density == pytest.approx(0.1, abs=0.15)


def test_mixture__has_opposite_correlations_that_cancel():
    x, y = mixture(40_000, np.random.default_rng(0), 10)
    assert (x.shape, y.shape) == ((40_000, 5), (40_000, 5))
    assert abs(np.corrcoef(x[:, 0], y[:, 0])[0, 1]) < 0.02
    far = x[:, 1:].sum(axis=1) > 2.5  # where nearly all rows are of the second cluster
    assert np.corrcoef(x[far, 0], y[far, 0])[0, 1] > 0.2


def test_digits__keep_a_share_of_the_labels():
    rng = np.random.default_rng(0)
    (pixels, kept), (_, drawn) = digits(1000, rng, 1.0), digits(1000, rng, 0.0)
    assert pixels.shape == (1000, 64)
    ones = pixels[kept == 1].mean(axis=0) - pixels[kept == 0].mean(axis=0)
    others = pixels[drawn == 1].mean(axis=0) - pixels[drawn == 0].mean(axis=0)
    assert np.abs(ones).max() > 3.0 * np.abs(others).max()


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenarios__are_matrices_of_so_many_rows(name):
    scenario = SCENARIOS[name]
    if scenario.group == "real" and not name.startswith("digits") and not FOLDER.exists():
        pytest.skip("needs the folder of data")
    x, y = leaderboard.Columns(scenario.draw)(50, np.random.default_rng(0))
    assert x.ndim == y.ndim == 2
    assert len(x) == len(y) == 50
    assert np.isfinite(x).all()
    assert np.isfinite(y).all()


def test_real__needs_its_table(monkeypatch, tmp_path):
    monkeypatch.setattr("benchmarks.shared.public_scenarios.FOLDER", tmp_path)
    with pytest.raises(click.ClickException, match="DHSIC_DATA"):
        rows_of(5, np.random.default_rng(0), "none.parquet", ("a",), "b")


def test_permuted__keeps_both_variables():
    plain, permuted = (
        leaderboard.Columns(SCENARIOS["circle"].draw, permuted=flag)(30, np.random.default_rng(0))
        for flag in (False, True)
    )
    np.testing.assert_array_equal(plain[0], permuted[0])
    np.testing.assert_array_equal(np.sort(plain[1], axis=0), np.sort(permuted[1], axis=0))
    assert (plain[1] != permuted[1]).any()


def test_entries__take_the_columns_that_they_test():
    one, two = np.zeros((9, 1)), np.zeros((9, 2))
    assert ENTRIES["dhsic default"].takes(1000, two, two)
    assert not ENTRIES["scipy chatterjeexi"].takes(100, two, one)
    assert not ENTRIES["mutual information"].takes(100, two, two)
    assert ENTRIES["mutual information"].takes(100, two, one)
    assert not ENTRIES["hyppo Hsic"].takes(5000, one, one)


@pytest.mark.parametrize("name", ["scipy chatterjeexi", "mutual information", "OpenTURNS HSIC"])
def test_entries__find_what_is_there_and_nothing_else(name, monkeypatch):
    monkeypatch.setattr(leaderboard_tests, "RESAMPLES", 39)
    if name == "OpenTURNS HSIC":
        pytest.importorskip("openturns", reason="openturns is in the group `peers`")
    x, noise = np.random.default_rng(0).standard_normal((2, 80, 1))
    assert ENTRIES[name]([x, x**2 + 0.1 * noise], 0) <= 0.05
    assert np.mean([ENTRIES[name]([x, noise[::-1]], seed) for seed in range(3)]) > 0.05


def test_leaderboard__measures_what_is_asked_and_goes_on(out, monkeypatch):
    table, said = run(out, "--data", "linear", "--data", "HDGM-4, n = 300", *QUICK)
    measured = [row for row in table if row["source"] == "measured"]
    assert [row["data"] for row in measured] == ["linear", "HDGM-4, n = 300"]
    assert measured[0]["tests"] == "2"
    assert float(measured[0]["power 5%"]) == 1.0
    assert float(measured[0]["seconds"]) > 0.0
    assert {row["method"] for row in table if row["source"] != "measured"} == {
        *("hyppo HHG", "hyppo MGC", "hyppo Hsic, published"),
    }
    assert "shapes: dhsic default 1.000" in said
    assert out.with_suffix(".png").exists()
    monkeypatch.setattr(leaderboard, "_measured", None)  # nothing is measured twice
    assert run(out, "--data", "linear", *QUICK)[0] == table


def test_leaderboard__begins_with_the_data_set_that_is_asked_for(out, monkeypatch):
    seen = []

    def one_test(setting):
        seen.append(setting.run)
        return 0.5, 0.0

    monkeypatch.setattr(leaderboard.curves, "one_test", one_test)
    table, _ = run(out, "--data", "cubic", *QUICK[:2], "--runs", 2, "--first", 7)
    assert (table[0]["first"], table[0]["runs"]) == ("7", "2")
    assert set(seen) == {7, 8}


def test_leaderboard__leaves_out_what_is_not_installed(out, monkeypatch):
    def missing(*_):
        msg = "No module named 'here'"
        raise ImportError(msg)

    broken = {**ENTRIES, "dcor dcov": leaderboard_tests.Entry(missing, "dcor")}
    monkeypatch.setattr(leaderboard, "ENTRIES", broken)
    table, said = run(out, "--data", "linear", *QUICK, "--method", "dcor dcov")
    assert {row["method"] for row in table if row["source"] == "measured"} == {"dhsic default"}
    assert "without dcor dcov: No module named 'here'" in said


def test_leaderboard__has_fewer_data_sets_of_slow_tests(out, monkeypatch):
    monkeypatch.setattr(leaderboard.curves, "one_test", lambda setting: (0.5, 2.0))
    table, _ = run(out, "--data", "linear", *QUICK[:2], "--runs", 90, "--seconds", 100)
    assert table[0]["tests"] == "25"
    table, _ = run(out, "--data", "cubic", *QUICK[:2], "--runs", 90, "--seconds", 1)
    assert next(row["tests"] for row in table if row["data"] == "cubic") == "10"


def row(data, method, power, source="measured", level="0.05"):
    own = {"data": data, "method": method, "power 5%": str(power), "source": source}
    return {**own, "group": "shapes", "level 5%": level}


def test_means__are_of_tests_that_have_all_scenarios():
    table = [
        *(row("circle", "a", 0.5), row("square", "a", 0.7, level="0.07")),
        *(row("circle", "b", 0.9), row("square", "b", 0.1)),
        *(row("circle", "c", 1.0), row("independent", "a", 0.0)),
        row("circle", "a", 0.0, source="a paper", level=""),  # measured ones go before
    ]
    first, second = leaderboard.means(table, "shapes")
    assert (first["method"], second["method"]) == ("a", "b")
    assert first["mean power"] == pytest.approx(0.6)
    assert first["mean level"] == pytest.approx(0.17 / 3)
    assert (first["most behind"], first["where"]) == (0.5, "circle")
    assert second["most behind"] == pytest.approx(0.6)


def test_picture__has_brackets_around_what_others_published(tmp_path):
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    cells = {"circle": {"a": 0.5, "b": 0.75}}
    leaderboard._map(axes, cells, ["a", "b", "c"], {("circle", "b")})
    assert [text.get_text() for text in axes.texts] == ["50", "(75)"]
    assert [text.get_fontweight() for text in axes.texts] == ["normal", "bold"]
