"""Tests without options keep their level on everyday data, and the study of that runs small."""

import csv
from functools import cache

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import binom

from benchmarks.level import level_default
from benchmarks.level.level_default import FUNCTIONS, LEVELS, Acceptance, Cell, one_data_set
from benchmarks.shared.null_data import KINDS, Drawing, spread, varies
from dhsic.errors import DataError

DEFAULT = "independence_test"

# Where random signs and limit laws were wrong, and beside them what permutations had right before.
# Together they are enough to see a level of 10 % in place of 5 %, each to see one of 50 %, and all
# but the long ones of three variables one of 30 %. More data sets where they take least.
GUARDED = {
    Cell(DEFAULT, "normal, 3 columns", 3, 200): 15,
    Cell(DEFAULT, "2% dummies", 2, 400): 75,
    Cell(DEFAULT, "2% dummies", 2, 1000): 37,
    Cell(DEFAULT, "Poisson(0.03)", 2, 500): 78,
    Cell(DEFAULT, "0.5% dummy, continuous", 2, 1000): 37,
    Cell(DEFAULT, "zero-inflated", 2, 500): 40,
    Cell(DEFAULT, "normal, 1 columns", 2, 200): 37,
    Cell("rank_features", "2% dummies", 9, 5000): 37,
    Cell("dependence_matrix", "2% dummies", 4, 200): 120,
    Cell("two_sample_test", "0.5% dummies", 2, 1000): 90,
}
LONG = {Cell(DEFAULT, "normal, 3 columns", 3, 1000): 40}
SHOWN = {"rank_features": "max-t", "dependence_matrix": "Holm"}


@cache
def pvalues(cell):
    place = list(FUNCTIONS[cell.function].pvalues).index(SHOWN.get(cell.function, "whole"))
    tested = [one_data_set(cell, number) for number in range((GUARDED | LONG)[cell])]
    return np.array([one.pvalues[place] for one in tested])


@pytest.mark.parametrize(
    "cell",
    [*GUARDED, *(pytest.param(cell, marks=pytest.mark.nightly) for cell in LONG)],
    ids=lambda cell: f"{cell.function}, {cell.kind}, {cell.n}",
)
def test_default__keeps_its_level_on(cell):
    found = pvalues(cell)
    most, power = Acceptance.of(len(found), truth=0.5 if len(found) < 20 else 0.3)
    assert power >= 0.9
    assert np.count_nonzero(found <= 0.05 + 1e-9) <= most


@pytest.mark.parametrize("level", LEVELS)
def test_default__keeps_its_level_on_all_together(level):
    found = np.concatenate([pvalues(cell) for cell in GUARDED])
    assert np.count_nonzero(found <= level + 1e-9) <= Acceptance.of(len(found), level).most


def test_guard__sees_a_level_of_ten_for_five_percent():
    assert Acceptance.of(sum(GUARDED.values()), level=0.05, truth=0.1).power >= 0.9


@pytest.mark.parametrize(("data_sets", "level", "truth"), [(60, 0.05, 0.3), (500, 0.05, 0.1)])
def test_acceptance__is_what_it_says(data_sets, level, truth):
    most, power = Acceptance.of(data_sets, level, truth)
    assert binom.sf(most, data_sets, level) <= 0.001 < binom.sf(most - 1, data_sets, level)
    rejected = np.random.default_rng(0).binomial(data_sets, truth, 20_000)
    assert np.mean(rejected > most) == pytest.approx(power, abs=0.01)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "level_default.csv"


def run(out, *options):
    arguments = [*map(str, options), "--out", str(out)]
    done = CliRunner().invoke(level_default.main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    with out.open() as file:
        return list(csv.DictReader(file))


SMALL = ["--n", 40, "--data-sets", 2, "--kind", "5% dummies", "--kind", "float32 tiles, ties"]
PAIRS = [*SMALL, "--function", "independence_test", "--variables", 2]


def summed(out):
    run(out, "--summary")
    with out.with_stem("level_default_summary").open() as file:
        return list(csv.DictReader(file))


def test_level_default__has_every_function(out):
    named = [word for name in FUNCTIONS for word in ("--function", name)]
    table = run(out, *SMALL, *named, "--variables", 2, "--variables", 3)
    numbers = {name: len({2, 3} & set(one.numbers)) for name, one in FUNCTIONS.items()}
    cells = 2 * sum(numbers[name] * len(one.pvalues) for name, one in FUNCTIONS.items())
    assert len(table) == cells
    assert {row["data sets"] for row in table} == {"2"}
    for row in table:
        rates = [float(row[f"{100 * level:g}%"]) for level in LEVELS]
        assert 1.0 >= rates[0] >= rates[-1] >= 0.0
    summary = summed(out)
    assert len(summary) == sum(len(one.pvalues) for one in FUNCTIONS.values())
    assert sum(int(row["cells"]) for row in summary) == cells


def test_level_default__leaves_residuals_to_those_who_ask(out):
    table = run(out, *SMALL, "--variables", 2, "--variables", 3)
    assert {row["function"] for row in table} == set(FUNCTIONS) - set(level_default.RESIDUALS)


def fixed(pvalue, seconds=1.0):
    return lambda cell, number: level_default.Tested((pvalue,), "shifts", seconds, 1)


def test_level_default__goes_on_where_it_stopped_and_flags(out, monkeypatch):
    first = run(out, *PAIRS)
    monkeypatch.setattr(level_default, "one_data_set", fixed(0.005))
    assert run(out, *PAIRS) == first
    both = run(out, *PAIRS, "--n", 50, "--data-sets", 30)
    assert both[:2] == first
    assert {(row["ok"], row["1%"], row["0.1%"], row["again"]) for row in both[2:]} == {
        ("False", "1", "0", "30")
    }
    (row,) = summed(out)
    assert (row["cells"], row["cells above"], row["data sets"]) == ("4", "2", "64")
    assert row["worst cell"].endswith("M = 2, n = 50: 1 at 1%")
    assert float(row["above by chance"]) < 0.016


@pytest.mark.parametrize(
    ("seconds", "budget", "data_sets"),
    [(1.0, 1e9, ["20", "20"]), (4.0, 1e9, ["7", "7"]), (4.0, 50.0, ["7"]), (4.0, 20.0, [])],
)
def test_level_default__keeps_to_its_times(out, monkeypatch, seconds, budget, data_sets):
    monkeypatch.setattr(level_default, "one_data_set", fixed(0.5, seconds))
    effort = ["--data-sets", 20, "--few", 7, "--cell-seconds", 30, "--budget", budget]
    if not data_sets:
        out.touch()
    assert [row["data sets"] for row in run(out, *PAIRS, *effort)] == data_sets


def test_level_default__counts_what_is_refused(out, monkeypatch):
    def refuse(*data, rng, **options):
        if data[0].sum() % 2 or len(data[0]) == 50:
            raise DataError
        return level_default.dhsic.independence_test(*data, rng=rng, **options)

    function = level_default.Function(level_default.variables, refuse, {"whole": lambda r: 0.5})
    monkeypatch.setitem(FUNCTIONS, "independence_test", function)
    part, nothing = run(out, *PAIRS, "--data-sets", 12, "--n", 50)[::2]
    assert int(part["refused"]) + int(part["data sets"]) == 12
    assert 0 < int(part["refused"]) < 12
    assert (nothing["data sets"], nothing["5%"], nothing["refused"]) == ("0", "", "5")
    (row,) = summed(out)
    assert row["cells"] == "4"


def test_level_default__has_a_seed_a_cell_and_data_set():
    def tested(kind, m, numbers):
        cell = Cell(DEFAULT, kind, m, 30)
        return tuple(one_data_set(cell, number).pvalues for number in numbers)

    one = tested("normal, 1 columns", 2, range(3))
    assert tested("normal, 1 columns", 2, range(3)) == one
    others = [tested("lognormal", 2, range(3)), tested("normal, 1 columns", 2, range(3, 6))]
    assert len({one, *others}) == 3
    assert len(set(one)) > 1


@pytest.mark.parametrize("kind", KINDS)
def test_null_data__varies_and_is_as_large_as_asked(kind):
    drawing = Drawing(kind, np.random.default_rng(0))
    data = [*drawing.variables(30, 3), *drawing.interacting(30), *drawing.caused(30, 2, 2)]
    assert all(len(x) == 30 and np.isfinite(x).all() and varies([x]) for x in data)
    sizes = [len(sample) for sample in drawing.samples([4, 9])]
    assert sizes == [4, 9]


def shares(kind, n=20_000):
    x, y = Drawing(kind, np.random.default_rng(0)).variables(n, 2)
    return float((x > 0).mean()), float((y > 0).mean())


def test_null_data__is_of_its_kind():
    assert shares("2% dummies") == pytest.approx((0.02, 0.02), abs=0.004)
    assert shares("0.5% dummy, continuous") == pytest.approx((0.005, 0.5), abs=0.01)
    assert shares("Poisson(0.03)") == pytest.approx((0.0296, 0.0296), abs=0.005)
    assert shares("zero-inflated") == pytest.approx((0.03, 0.03), abs=0.005)
    x, y = Drawing("sorted on disk", np.random.default_rng(0)).variables(500, 2)
    assert (np.diff(x[:, 0]) >= 0).all()
    assert abs(np.corrcoef(x[:, 0], y[:, 0])[0, 1]) < 0.15
    x, y = Drawing("one-hot", np.random.default_rng(0)).variables(500, 2)
    assert (x.shape, y.shape) == ((500, 6), (500, 4))
    assert (x.sum(axis=1) == 1).all()


def test_null_data__redraws_what_is_constant():
    drawing = Drawing("0.1% dummies", np.random.default_rng(0))
    assert all(x.sum() >= 1 for x in drawing.variables(10, 3))
    assert drawing.again > 20
    first, second, last = Drawing("2% dummies", np.random.default_rng(0)).interacting(20_000)
    assert np.corrcoef(first.T, second.T)[0, 1] == pytest.approx(0.5, abs=0.1)
    assert abs(np.corrcoef(first.T, last.T)[0, 1]) < 0.03


def test_null_data__effects_are_noise_beside_functions_of_causes():
    z, x, y = Drawing("normal, 1 columns", np.random.default_rng(0)).caused(20_000, 1, 2)
    assert np.mean(x * np.sin(z)) == pytest.approx(1.349 * np.mean(np.sin(z) ** 2), abs=0.03)
    assert np.corrcoef(y.T, z.T**2)[0, 1] == pytest.approx(0.886, abs=0.02)
    np.testing.assert_allclose(spread(np.array([[0.0], [0.0], [0.0], [0.0], [1.0]])), 0.4)
