"""The experiments of papers run small, and the frame that they share says what it should."""

import csv

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dhsic
from benchmarks.papers import kalinke_szabo, zhang
from benchmarks.power import dag_search
from benchmarks.shared import cases, curves, songs


def first_entry(data, seed):
    return float(data[0][0])


def always(pvalue):
    return lambda data, seed: pvalue


def uniform(n, rng):
    return [rng.random(n), rng.random(n)]


def run(module, out, *options):
    arguments = [str(option) for option in options]
    done = CliRunner().invoke(module.main, [*arguments, "--out", str(out)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


class Everything:
    def __contains__(self, method):
        return True


@pytest.fixture
def warm(monkeypatch):
    """Every test is run once, as its time is not looked at."""
    monkeypatch.setattr(curves, "_warm", Everything())


def table(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_curves__power_is_the_share_at_most_the_level():
    study = curves.Study({"uniform": uniform}, {"first": first_entry}, level=0.5)
    (row,) = curves.rows(study, [7], 40)
    firsts = [np.random.default_rng([7, run]).random(7)[0] for run in range(40)]
    assert row["power"] == np.mean(np.array(firsts) <= 0.5)
    assert row["error"] == pytest.approx(np.sqrt(row["power"] * (1 - row["power"]) / 40))
    assert row["level"] == 0.5
    study = curves.Study({"uniform": uniform}, {"at": always(0.05), "above": always(0.051)})
    assert [row["power"] for row in curves.rows(study, [5], 2)] == [1.0, 0.0]


def test_curves__methods_see_the_same_data_and_their_own_sizes():
    seen = {"a": [], "b": []}

    def recorder(name):
        def test(data, seed):
            seen[name].append((len(data[0]), data[0][0], seed))
            return 1.0

        return test

    methods = {name: recorder(name) for name in seen}
    study = curves.Study({"uniform": uniform}, methods, largest={"b": 5})
    found = list(curves.rows(study, [5, 9], 3))
    assert [(row["method"], row["n"]) for row in found] == [("a", 5), ("b", 5), ("a", 9)]
    assert set(seen["b"]) == {call for call in seen["a"] if call[0] == 5}
    assert len(set(seen["a"])) == 6


def test_curves__time_leaves_the_first_test_out(monkeypatch):
    monkeypatch.setattr(curves, "_warm", set())
    clock = iter([0.0, 2.0, 10.0, 14.0])
    monkeypatch.setattr(curves.time, "process_time", lambda: next(clock))
    calls = []
    study = curves.Study({"uniform": uniform}, {"timed": lambda data, seed: calls.append(0) or 1.0})
    (row,) = curves.rows(study, [5], 2)
    assert row["seconds"] == 3.0
    assert len(calls) == 3


def test_curves__keep_rows_and_use_processes(tmp_path, monkeypatch):
    asked = []

    def mapped(function, settings, processes):
        asked.append((len(settings), processes))
        return [function(setting) for setting in settings]

    monkeypatch.setattr(curves, "parallel_map", mapped)
    study = curves.Study({"a": uniform, "b": uniform}, {"one": always(0.0)})
    out = tmp_path / "table.csv"
    with monkeypatch.context() as undrawn:
        undrawn.setattr(curves, "picture", lambda *given: None)
        curves.run(study, [5], 2, 3, str(out))
    assert asked == [(2, 3)] * 2
    curves.run(study, [5, 6], 2, 3, str(out))
    assert len(asked) == 4
    assert [(row["data"], row["n"]) for row in table(out)] == [
        ("a", "5"),
        ("b", "5"),
        ("a", "6"),
        ("b", "6"),
    ]
    assert out.with_suffix(".png").stat().st_size > 0


def test_curves__a_picture_is_of_one_study(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(curves, "picture", lambda table, path, scale: drawn.append(table))
    out = tmp_path / "table.csv"
    sure, unsure = {"one": always(0.0)}, {"one": always(1.0), "other": always(1.0)}
    curves.run(curves.Study({"a": uniform}, unsure), [5], 3, 1, str(out))
    curves.run(curves.Study({"a": uniform}, sure), [5], 2, 1, str(out))
    curves.run(curves.Study({"a": uniform}, sure, level=0.01), [5], 2, 1, str(out))
    curves.run(curves.Study({"b": uniform}, sure), [5], 2, 1, str(out))
    assert len(table(out)) == 5
    told = [
        [(row["data"], row["level"], row["runs"], row["power"]) for row in own] for own in drawn
    ]
    assert told == [
        [("a", "0.05", "3", "0")] * 2,
        [("a", "0.05", "2", "1")],
        [("a", "0.01", "2", "1")],
        [("b", "0.05", "2", "1")],
    ]


def test_curves__draw_every_method_in_its_colour(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(
        curves.Figure, "savefig", lambda figure, path, **options: figures.append(figure)
    )
    keys = {"level": "0.05", "error": "0.1"}
    drawn = [
        {"data": kind, "method": method, "n": n, "power": power, "seconds": n, **keys}
        for kind in ("a", "b")
        for method, n, power in (("one", 10, 0.25), ("one", 100, 0.5), ("two", 10, 0.75))
        if (kind, method) != ("b", "one")
    ]
    curves.picture(drawn, tmp_path / "p.png", rows_scale="log")
    (first, time, second, _) = figures[0].axes
    assert first.get_xscale() == "log"
    assert time.get_xscale() == "log"
    assert [line.get_label() for line in first.lines[:2]] == ["one", "two"]
    np.testing.assert_array_equal(first.lines[0].get_ydata(), [0.25, 0.5])
    colours = [line.get_color() for line in (first.lines[1], time.lines[1], second.lines[1])]
    assert set(colours) == {curves.COLOURS[1]}
    assert figures[0].axes[2].lines[-1].get_ydata() == [0.05, 0.05]


def test_styles__differ():
    styles = [tuple(curves.style(number).values()) for number in range(14)]
    assert len(set(styles)) == 14


def test_kalinke_szabo__estimates_fall_to_0_with_more_rows(tmp_path, monkeypatch):
    options = ("--figure", 1, "--runs", 2)
    run(kalinke_szabo, tmp_path, *options, "--size", 30, "--size", 300)
    found = table(tmp_path / "kalinke_szabo_1.csv")
    assert {row["method"] for row in found} == set(kalinke_szabo.NAMES["1"])
    for few, many in zip(found[:4], found[4:], strict=True):
        assert 0 < float(many["estimate"]) < float(few["estimate"]) <= float(few["quantile"])
    assert (tmp_path / "kalinke_szabo_1.png").exists()
    assert not (tmp_path / "kalinke_szabo_2.csv").exists()
    monkeypatch.setattr(kalinke_szabo, "draw_estimates", lambda *given: None)
    run(kalinke_szabo, tmp_path, *options, "--size", 30, "--size", 40)
    assert table(tmp_path / "kalinke_szabo_1.csv")[:8] == found
    value, _ = kalinke_szabo.one_estimate("v-hsic", 50, 1)
    x, y = cases.gaussian(50, 2, np.random.default_rng([50, 1]))
    expected = dhsic.hsic(x, y, kernels=kalinke_szabo.KNOWN, estimator="v-hsic", rng=1).estimate
    assert value == pytest.approx(expected)
    distances = np.abs(np.subtract(*np.random.default_rng(0).standard_normal((2, 100_000))))
    assert np.median(distances) ** -2 == pytest.approx(kalinke_szabo.KNOWN.gamma, rel=0.02)


def test_kalinke_szabo__power_of_dependent_data(tmp_path, warm):
    run(kalinke_szabo, tmp_path, "--figure", 2, "--runs", 1, "--size", 100)
    found = table(tmp_path / "kalinke_szabo_2.csv")
    assert [row["method"] for row in found] == ["default", *kalinke_szabo.NAMES["2"]]
    assert {row["level"] for row in found} == {"0.05"}
    power = {row["method"]: row["power"] for row in found}
    assert power["default"] == power["nystrom-m, 2 sqrt(n)"] == power["v-hsic"] == "1"


def test_kalinke_szabo__permutes_with_so_many_landmarks(monkeypatch):
    asked = {}
    monkeypatch.setattr(
        kalinke_szabo.curves, "dhsic_pvalue", lambda data, seed, **options: asked.update(options)
    )
    kalinke_szabo.permuted([np.zeros(100)], 0, "rff-hsic, sqrt(n)")
    assert asked["estimator"] == dhsic.RFFHSIC(n_features=10)
    assert (asked["null"], asked["n_resamples"], asked["kernels"]) == (
        "permutation",
        250,
        "gaussian",
    )


def test_kalinke_szabo__draws_estimates_of_its_runs(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(kalinke_szabo, "draw_estimates", lambda table, path: drawn.append(table))
    monkeypatch.setattr(kalinke_szabo, "one_estimate", lambda name, n, run: (1.0, 1.0))
    for runs in (2, 3):
        run(kalinke_szabo, tmp_path, "--figure", 1, "--runs", runs, "--size", 30)
    assert [{row["runs"] for row in own} for own in drawn] == [{"2"}, {"3"}]


def test_songs__are_timbre_and_year(tmp_path, monkeypatch, warm):
    monkeypatch.setattr(songs, "FOLDER", tmp_path)
    options = ("--figure", 4, "--runs", 1, "--size", 40)
    refused = run(kalinke_szabo, tmp_path / "other", *options)
    assert refused.exit_code == 1
    assert "DHSIC_DATA" in refused.output
    (tmp_path / "msd").mkdir()
    rng = np.random.default_rng(0)
    columns = {f"timbre_avg_{i}": rng.standard_normal(60) for i in range(3)}
    year = 1950 + np.arange(60)
    table_of_songs = {"year": year, "part": 0, **columns, "timbre_cov_1": 1.0 * year}
    pd.DataFrame(table_of_songs).to_parquet(tmp_path / songs.TABLE)
    timbre, years = songs.songs(20, rng)
    assert timbre.shape == (20, 4)
    assert years.shape == (20, 1)
    assert len(np.unique(years)) == 20
    np.testing.assert_array_equal(timbre[:, 3:], years)
    run(kalinke_szabo, tmp_path, *options)
    found = table(tmp_path / "kalinke_szabo_4.csv")
    assert [row["method"] for row in found] == ["default", *kalinke_szabo.NAMES["4"]]
    assert {row["level"] for row in found} == {"0.01"}


@pytest.mark.parametrize(("figure", "kinds", "n"), [("1", 1, 60), ("2", 1, 110), ("4", 2, 410)])
def test_zhang__has_level_and_draws_power(tmp_path, monkeypatch, warm, figure, kinds, n):
    drawn = []
    monkeypatch.setattr(curves, "picture", lambda *given: drawn.append(given))
    sizes = ("--size", n, "--level-size", n - 10)
    run(zhang, tmp_path, "--figure", figure, "--runs", 1, *sizes)
    found = table(tmp_path / f"zhang_{figure}.csv")
    experiment = zhang.EXPERIMENTS[figure]
    level = [row for row in found if row["data"].endswith(zhang.INDEPENDENT)]
    power = [row for row in found if row not in level]
    assert [row["method"] for row in level] == [*experiment.large_scale] * kinds
    assert [row["method"] for row in power] == [*experiment.large_scale, *experiment.others] * kinds
    assert {row["n"] for row in level} == {str(n - 10)}
    assert {row["n"] for row in power} == {str(n)}
    assert drawn == [(power, tmp_path / f"zhang_{figure}.png", experiment.scale)]


def test_zhang__leaves_exact_tests_out_of_large_data():
    study = zhang.EXPERIMENTS["2"].power("sine, d = 2")
    assert study.largest == {"v-hsic": 2000, "dcor": 2000}
    assert len(study.methods) == 5


def test_zhang__takes_independent_variables_apart():
    x, y = zhang.apart(1000, np.random.default_rng(0), lambda n, rng: [rng.random(n)] * 2)
    assert abs(np.corrcoef(x, y)[0, 1]) < 0.15


def test_cases__of_zhang_are_as_in_the_paper():
    rng = np.random.default_rng(0)
    x, y = cases.linear_in_one(20_000, rng, d=3)
    assert np.cov(x.T, y)[3] == pytest.approx([1.0, 0.0, 0.0, 2.0], abs=0.1)
    x, y = cases.sine_of_radius(1000, rng, d=2)
    sine = 20.0 * np.sin(4.0 * np.pi * (x[:, 0] ** 2 + x[:, 1] ** 2))
    assert np.std(y - sine) == pytest.approx(1.0, abs=0.1)
    x, y = cases.paired_signs(20_000, rng, d=6)
    assert np.cov(x.T, y)[6] == pytest.approx([0.0] * 6 + [2.0], abs=0.1)
    signs = np.sign(x[:, ::2] * x[:, 1::2])
    expected = np.sqrt(2.0 / 6.0) * np.sqrt(2.0 / np.pi)  # of |z|
    assert (signs * y[:, None]).mean(axis=0) == pytest.approx([expected] * 3, abs=0.05)


def test_dag_search__draws_what_was_found(tmp_path):
    rows = [
        {"n": n, "estimator": name, "found": 0.5, "standard error": 0.1, "seconds": 0.1}
        for n in (50, 100)
        for name in ("v-hsic", "nystrom-m 1sqrt")
    ]
    dag_search.picture(rows, tmp_path / "dags.png")
    assert (tmp_path / "dags.png").stat().st_size > 0
