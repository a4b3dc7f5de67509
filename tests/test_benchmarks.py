"""Every benchmark runs small, and says what it should."""

import csv
import itertools
import re
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.stats import spearmanr

import dhsic
from benchmarks.cluster import chaos, graph, struck, worker_memory
from benchmarks.cost import (
    causal_scale,
    embedding_scale,
    family,
    pruning,
    ranking_cost,
    roofline,
    scaling,
    storage,
)
from benchmarks.data import cause_effect_pairs, dependent_air, weather_dags
from benchmarks.level import (
    conditional_level,
    dependent_rows,
    grid_level,
    level,
    ranking_errors,
    tails,
)
from benchmarks.papers import (
    associations,
    bounds,
    convergence,
    embedding_error,
    sensitivity_convergence,
)
from benchmarks.peers import pc_graph
from benchmarks.power import (
    auto_landmarks,
    dag_search,
    feature_recovery,
    grid_power,
    nfsic_power,
    power,
    selection,
    two_sample,
)
from benchmarks.shared.cases import SCENARIOS
from benchmarks.shared.embeddings import Mixture, kernel_means, nested_errors, nystrom_error
from benchmarks.shared.output import write_csv
from dhsic.estimators import TABLE
from dhsic.kernels import Candidates, Gaussian, Grid
from dhsic.landmarks import Pool
from dhsic.nulls import Gamma, Spectral

# Few rows, of which the guard of approximate nulls warns.
pytestmark = pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")


def run(module, out, *options):
    arguments = [str(option) for option in options]
    done = CliRunner().invoke(module.main, [*arguments, "--out", str(out)], catch_exceptions=False)
    assert done.exit_code == 0
    with out.open() as file:
        return list(csv.DictReader(file))


@pytest.fixture
def out(tmp_path):
    return tmp_path / "results" / "table.csv"


QUICK_LEVEL = ["--runs", 2, "--setting", 40, "gaussian", "--processes", 1]


def test_level__has_every_pair(out):
    table = run(level, out, *QUICK_LEVEL, "--runs", 1, "--variables", 2)
    pairs = {(row["estimator"], row["null"].split()[0]) for row in table}
    supported = {(e.estimator.name, null.name) for e in TABLE for null in e.nulls}
    assert supported <= pairs
    assert all(0 <= float(row["5%"]) <= float(row["10%"]) <= 1 for row in table)


def test_level__has_three_variables_where_they_are_supported(out):
    table = run(level, out, *QUICK_LEVEL, "--null", "gamma")
    three = {row["estimator"] for row in table if row["variables"] == "3"}
    assert three == {"nystrom-m", "rff-hsic", "v-hsic"}


def test_level__goes_on_where_it_stopped(out, monkeypatch):
    first = run(level, out, *QUICK_LEVEL, "--estimator", "dcov", "--null", "gamma")
    monkeypatch.setattr(level, "one_pvalue", lambda setting: 0.005)
    both = run(
        level, out, *QUICK_LEVEL, "--estimator", "dcov", "--null", "gamma", "--null", "normal"
    )
    assert both == first
    more = run(level, out, *QUICK_LEVEL, "--estimator", "dcor", "--null", "gamma")
    assert more[: len(first)] == first
    assert [row["above"] for row in more[len(first) :]] == ["1%"]


def test_power__has_a_row_a_test(out):
    table = run(power, out, "--runs", 2, "--size", 60, "--processes", 1)
    assert len(table) == len(power.TESTS) * len(power.ALTERNATIVES)


def test_pruning__keeps_less_with_a_wider_tolerance(out):
    options = ["--rows", 300, "--landmarks", 80, "--power-rows", 100, "--power-landmarks", 30]
    table = run(pruning, out, *options, "--runs", 2, "--processes", 1)
    kept = [int(row["kept"]) for row in table if row["dimensions"] == "1 1"]
    assert kept == sorted(kept, reverse=True)
    assert kept[0] > kept[-1]


def test_roofline__compares_the_same_work(out):
    options = ["--rows", 3000, "--features", 5, "--landmarks", 30, "--own-landmarks", 20]
    few = ["--resamples", 10, "--repeats", 1, "--workers", 0, "--threads", 1]
    table = run(roofline, out, *options, *few)
    assert [row["precision"] for row in table] == 2 * ["float32", "float64"]
    assert all(float(row["floor_s"]) > 0 for row in table)
    signs, shifts = table[0], table[2]
    assert (signs["null"], signs["landmarks_kept"]) == ("signs", "30")
    assert shifts["null"] == "shifts"
    assert shifts["landmarks_kept"].startswith("20 ")


def test_scaling__measures_memory_and_reads_the_prediction(out):
    (row,) = run(scaling, out, "--case", 2000, "60", "--features", 4, "--threads", 1)
    assert (row["n"], row["landmarks"]) == ("2000", "60")
    assert 50 < float(row["peak MiB"]) < 2000
    assert 50 < float(row["planned MiB"]) < 2000


def test_worker_memory__measures_workers_and_reads_the_prediction(out):
    options = ["--rows", 9000, "--features", 4, "--landmarks", 60, "--workers", 1]
    (row,) = run(worker_memory, out, *options)
    assert row["workers"] == "1"
    for whom in ("worker", "driver"):
        assert 50 < float(row[f"peak {whom} MiB"]) < 572 < float(row[f"planned {whom} MiB"]) + 500


def test_family__times_every_kind(out):
    options = ["--linear", 2000, "--own", 2000, "--quadratic", 300, "--features", 2]
    table = run(family, out, *options, "--resamples", 3, "--repeats", 1)
    units = [row["unit"] for row in table]
    assert units.count("us a row") == len(family.LINEAR)
    assert units.count("times") == len(family.OWN_PERMUTATIONS)
    assert units.count("ns a pair") == len(family.QUADRATIC)


def test_convergence__finds_errors_that_fall(out):
    table = run(convergence, out, "--rows", 200, "--number", 10, "--number", 80, "--draws", 5)
    errors = [float(row["relative error"]) for row in table]
    assert len(errors) == 2 * 7
    assert all(many < few for few, many in zip(errors[::2], errors[1::2], strict=True))
    assert all(float(row["slope so far"]) < 0 for row in table[1::2])


def test_conditional_level__tests_every_case_by_both(out):
    options = ("--rows", 60, "--columns", 2, "--runs", 2, "--processes", 1)
    table = run(conditional_level, out, *options, "--rows-of-time", 400)
    cases = [row["data"] for row in table if row["test"] == "dhsic"]
    assert cases == [
        case for case in conditional_level.CASES if case not in ("turning", "volatile")
    ]
    assert all(row["spoilt"] == "0" for row in table)
    with out.with_name("table_seconds.csv").open() as file:
        assert [row["columns of z"] for row in csv.DictReader(file)] == ["1", "1", "10", "10"]


def test_conditional_level__takes_other_seeds_and_keeps_other_rows(out):
    def table(*seeds):
        options = ("--data", "spread", "--rows", 60, "--columns", 1, "--processes", 1, *seeds)
        return run(conditional_level, out, "--test", "gcm", "--runs", 30, *options)

    first, (other,) = table("--effect", 0.5), table("--effect", 0.5, "--first-seed", 30)
    assert first != [other]
    assert [row["effect"] for row in table("--effect", 0.0)] == ["0.5", "0"]
    assert table("--effect", 0.5)[0]["rejected"] == first[0]["rejected"]


def test_conditional_level__draws_what_it_says():
    def drawn(case, effect):
        return conditional_level.CASES[case](np.random.default_rng(0), 5000, 2, effect)

    *_, z = drawn("few values", 0.0)
    assert sorted(set(z.ravel())) == [-2, -1, 0, 1, 2]
    x, y, z = drawn("volatile", 1.0)
    e, f = x - z[:, 0], y - z[:, 0]
    assert abs(np.corrcoef(e, f)[0, 1]) < 0.1
    assert np.corrcoef(np.log(np.abs(e)), np.log(np.abs(f)))[0, 1] > 0.3
    x, y, z = drawn("non-monotone", 0.0)
    assert max(abs(spearmanr(x, column).statistic) for column in z.T) < 0.2


def test_conditional_level__has_a_generalised_covariance_measure():
    pytest.importorskip("sklearn")
    data = [conditional_level.spread(np.random.default_rng(s), 300, 2, 0.0) for s in range(40)]
    ps = np.array([conditional_level.gcm(x, y, z, 0) for x, y, z in data])
    assert np.mean(ps <= 0.1) <= 0.3  # 0.1 % of tests of level 10 % reject more
    assert np.mean(ps <= 0.5) >= 0.2
    x, y, z = conditional_level.spread(np.random.default_rng(0), 300, 2, 1.0)
    assert conditional_level.gcm(x, y, z, 0) < 0.001


def test_dependent_rows__tests_every_case_both_ways(out):
    options = ["--rows", 400, "--runs", 1, "--effect", 0.0, "--processes", 1]
    table = run(dependent_rows, out, *options, "--rows-of-time", 400)
    assert [row["data"] for row in table] == list(dependent_rows.CASES)
    with out.with_name("table_seconds.csv").open() as file:
        told = {row["argument"]: row["null"] for row in csv.DictReader(file)}
    assert "within strata" in told["strata, 50"]
    assert "shifts of the series" in told["time"]
    options[1] = 300
    again = run(dependent_rows, out, *options, "--case", "iid, weights", "--case", "iid, time")
    assert again[:-2] == table
    assert [(row["data"], row["n"]) for row in again[-2:]] == [
        *(("iid, weights", "300"), ("iid, time", "300"))
    ]
    assert run(dependent_rows, out, *options, "--case", "iid, time") == again


def test_tails__compare_with_permutations(out):
    options = ["--rows", 60, "--permutations", 100, "--runs", 1, "--processes", 1]
    table = run(tails, out, *options, "--data", "gaussian")
    assert {row["null"] for row in table} == {"gamma", "spectral"}
    fitted = {e.estimator.name for e in TABLE if {Gamma, Spectral} & set(e.nulls)}
    assert {row["estimator"] for row in table} == fitted
    assert all(0.2 < float(row["at 0.05"]) < 5.0 for row in table)


QUICK_GRIDS = ["--runs", 4, "--size", 40, "--processes", 1]


def test_grid_level__has_every_grid_and_aggregate(out):
    table = run(grid_level, out, *QUICK_GRIDS)
    names = ("null", "variables", "kernels", "aggregate", "reference share")
    cells = {tuple(row[name] for name in names) for row in table}
    assert len(cells) == len(table) == 2 * 2 * 3 * 6
    for row in table:
        rates = [float(row[rate]) for rate in ("1%", "5%", "10%")]
        assert rates == sorted(rates)
        cases = [float(row[key]) for key in row if key.startswith("5% ")]
        assert np.mean(cases) == float(row["5%"])


@pytest.mark.parametrize("name", ["v-hsic", "rff-hsic"])
def test_grid_level__runs_other_estimators_of_two_variables(out, name):
    table = run(grid_level, out, *QUICK_GRIDS, "--estimator", name, "--null", "permutation")
    assert {(row["estimator"].split()[0], row["variables"]) for row in table} == {(name, "2")}


def test_grid_level__goes_on_where_it_stopped_and_flags(out, monkeypatch):
    options = [*QUICK_GRIDS, "--variables", 2, "--null", "multiplier"]
    first = run(grid_level, out, *options)
    monkeypatch.setattr(grid_level, "pvalues", lambda setting: np.full((3, 6), 0.005))
    assert run(grid_level, out, *options) == first
    more = run(grid_level, out, *options, "--size", 50)
    assert more[: len(first)] == first
    assert {row["above"] for row in more[len(first) :]} == {"1% 5% 10%"}


@pytest.mark.parametrize("m", [2, 3])
def test_grid_level__has_smaller_grids_around_the_reference(m):
    factors = Candidates(factors=grid_level.FACTORS[m])
    combinations = Grid(factors, combine="all").combinations(m)
    small, middle, whole = grid_level.grids(combinations, m)
    assert [len(set(small)), len(set(middle)), len(set(whole))] == [5, 16, 64]
    assert all(combinations.reference() in grid for grid in (small, middle, whole))
    for first, second in itertools.combinations(range(m), 2):
        chosen = [combinations.chosen[c] for c in middle]
        pairs = {(one[first], one[second]) for one in chosen}
        assert len(pairs) == 16


def test_grid_power__draws_every_scenario(out):
    options = ["--runs", 2, "--size", 50, "--processes", 1]
    few = ["--data", "linear", "--data", "joint triple"]
    table = run(grid_power, out, *options, *few)
    assert len(table) == 2 * len(grid_power.METHODS) - 1  # dcor takes no triples
    assert run(grid_power, out, *options, *few) == table
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_grid_power__leaves_quadratic_tests_out_and_takes_fewer_runs_of_large_data(
    out, monkeypatch
):
    monkeypatch.setattr(grid_power, "one_pvalue", lambda setting: 0.01)
    options = ["--runs", 3, "--large-runs", 2, "--data", "circle", "--processes", 1]
    table = run(grid_power, out, *options, "--size", 1000, "--size", 2000)
    runs = {(row["method"], row["n"]): row["runs"] for row in table}
    assert runs["v-hsic, grid", "1000"] == "3"
    assert runs["nystrom-m, grid", "2000"] == "2"
    assert ("v-hsic, grid", "2000") not in runs


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenarios__are_data_of_so_many_rows(name):
    data = SCENARIOS[name](30, np.random.default_rng(0))
    again = SCENARIOS[name](30, np.random.default_rng(0))
    assert all(len(x) == 30 and np.isfinite(x).all() for x in data)
    assert all((x == y).all() for x, y in zip(data, again, strict=True))


def test_selection__has_every_selection(out):
    options = ["--runs", 2, "--rows", 60, "--landmarks", "2sqrt", "--processes", 1]
    table = run(selection, out, *options)
    assert len(table) == len(selection.CASES) * len(selection.SELECTIONS)
    assert {row["selection"] for row in table} == set(selection.SELECTIONS)
    assert run(selection, out, *options) == table


def test_storage__reads_the_same_from_everywhere(out):
    options = ["--rows", 3000, "--features", 4, "--chunk", 500, "--count", 1, "--repeats", 1]
    table = run(storage, out, *options)
    assert [row["reader"] for row in table] == [*storage.READERS] * 2
    assert [row["of local disk"] for row in table if row["reader"] == "local disk"] == ["1", "1"]
    assert all(float(row["MB/s"]) > 0 for row in table)


@pytest.mark.nightly
def test_chaos__ends_the_same_or_in_words_whatever_happens(out):
    table = run(chaos, out, "--faults", 10)
    assert [row["kind"] for row in table] == list(chaos.KINDS)
    assert not [row for row in table if chaos.bad(row)]


def test_chaos__kills_workers_of_a_run_under_way(out):
    (row,) = run(chaos, out, "--faults", 1, "--wait", 60)
    assert (row["kind"], row["outcome"], row["said"]) == ("workers killed", "identical", "")


@pytest.mark.parametrize(
    ("outcome", "resumed", "wrong"),
    [
        ("identical", "", False),
        ("error", "identical", False),
        ("error", "error", True),
        ("different", "", True),
        ("hang", "", True),
        ("traceback", "", True),
    ],
)
def test_chaos__says_which_faults_ended_otherwise(outcome, resumed, wrong):
    row = {"outcome": outcome, "resumed": resumed}
    assert chaos.bad(row) is wrong
    assert struck.bad(row | {"left": 0}) is wrong
    assert struck.bad(row | {"left": 1})


def test_struck__commands_ended_the_same_or_in_words_and_the_pages_say_when():
    path = Path(struck.__file__).parents[1] / "results"
    table = pd.read_csv(path / "struck.csv", keep_default_na=False)
    assert set(table["kind"]) == set(struck.KINDS)
    assert sorted(table["fault"]) == list(range(60))
    assert not [row for row in table.to_dict("records") if struck.bad(row)]
    soon = table["seconds"] <= 60.0
    said = f"{soon.sum()} of 60 ended within a minute"
    assert said in " ".join((path / "README.md").read_text().split())
    # The others were started by a machine with a dozen processes in wait for each processor.
    assert (table.loc[~soon, "load"] > 24.0).all()
    assert table["seconds"].max() < 90.0


@pytest.mark.parametrize("rows", ["fault,wait\n0,3.0\n", "fault,outcome\n0,identical\n"])
def test_chaos__refuses_to_go_on_with_other_options(out, rows):
    out.parent.mkdir()
    out.write_text(rows)
    asked = ["--wait", "5", "--deadline", "60", "--out", str(out)]
    refused = CliRunner().invoke(chaos.main, asked)
    assert refused.exit_code == 1
    assert re.search(r"--wait was (3\.0|not written down) there and is 5\.0 now", refused.output)
    assert out.read_text() == rows


def test_table__stays_where_a_study_fails_before_its_first_row(tmp_path):
    def failing():
        raise ModuleNotFoundError
        yield {}

    path = tmp_path / "table.csv"
    write_csv(str(path), [{"n": 1}, {"n": 2}])
    with pytest.raises(ModuleNotFoundError):
        write_csv(str(path), failing())
    assert path.read_text() == "n\n1\n2\n"


def test_table__keeps_rows_that_the_keys_tell_from_those_that_come(tmp_path):
    path = tmp_path / "table.csv"
    write_csv(str(path), [{"n": 1, "s": 0.5}, {"n": 2, "s": 0.5}], ["n"])
    write_csv(str(path), [{"n": 3, "s": 0.25}, {"n": 1, "s": 0.75}, {"n": 4, "s": 1}], ["n"])
    assert path.read_text() == "n,s\n1,0.75\n2,0.5\n3,0.25\n4,1\n"
    write_csv(str(path), [{"n": 1, "s": 2}, {"s": 3, "n": 4}])
    assert path.read_text() == "n,s\n1,2\n4,3\n"


def test_chaos__goes_on_where_the_options_are_the_same(out):
    asked = {"wait": "4.0", "deadline": "60.0"}
    write_csv(str(out), [{"fault": 0, **asked}, {"fault": 1, **asked}])
    assert [row["fault"] for row in chaos.done(str(out), asked)] == ["0", "1"]
    with pytest.raises(click.ClickException, match=r"--wait was 4\.0 there and is 9\.0 now"):
        chaos.done(str(out), {**asked, "wait": "9.0"})


def test_graph__weighs_what_is_sent(out):
    table = run(graph, out, "--blocks", 20, "--blocks", 140, "--workers", 1)
    assert [(row["blocks"], row["checkpoint"]) for row in table] == [
        *(("20", "no"), ("20", "yes"), ("140", "no"), ("140", "yes")),
    ]
    assert all(50 < float(row["bytes a task"]) < 4000 for row in table)
    assert all(float(row["scheduler processor seconds"]) > 0 for row in table)


def test_sensitivity_convergence__falls_with_the_root_of_the_features(out):
    options = ["--rows", 200, "--draws", 6, "--number", 10, "--number", 40, "--number", 160]
    table = run(sensitivity_convergence, out, *options)
    assert out.with_suffix(".png").stat().st_size > 10_000
    assert len(table) == 3 * len(sensitivity_convergence.METHODS) * 2
    last = {(r["data"], r["estimator"]): float(r["slope so far"]) for r in table[2::3]}
    for (_, estimator), slope in last.items():
        assert slope < (-0.6 if estimator == "nystrom-m" else -0.35)
        assert slope > -0.65 or estimator == "nystrom-m"


def test_associations__have_every_measure_and_a_picture(out):
    table = run(associations, out, "--rows", 60)
    assert [row["data"] for row in table] == list(associations.ASSOCIATIONS)
    assert len(table) == 14
    found = {
        row["data"]: {name: float(row[name]) for name in associations.MEASURES} for row in table
    }
    assert found["normal, r = 1"]["Pearson"] == found["normal, r = -1"]["Spearman"] * -1 == 1.0
    assert all(abs(row["HSIC"] - row["RHSIC"]) < 0.02 for row in found.values())
    assert found["parabola"]["HSIC"] > 3 * found["four clouds"]["HSIC"]
    assert found["parabola"]["MI"] > 0.3 > abs(found["parabola"]["Pearson"])
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_mutual_information__of_normal_pairs_is_known(correlation):
    pairs = [
        associations.normal(500, np.random.default_rng(seed), correlation) for seed in range(10)
    ]
    found = np.mean([associations.mutual_information(x, 100 * y) for x, y in pairs])
    assert found == pytest.approx(-0.5 * np.log(1 - correlation**2), abs=0.04)


def test_associations__draw_the_maps_where_there_are_some(out, monkeypatch):
    asked = []

    def gradients(x, y):
        asked.append(len(x))
        return x[:, None], y[:, None]

    monkeypatch.setattr(associations, "gradients", gradients)
    run(associations, out, "--rows", 60)
    assert asked == [60] * 14


def test_feature_recovery__finds_more_than_chance(out):
    methods = [name for name in feature_recovery.METHODS if "backward" not in name]
    chosen = [word for name in methods for word in ("--method", name)]
    quick = ["--runs", 1, "--greedy-runs", 1]
    table = run(feature_recovery, out, "--rows", 300, "--columns", 20, *quick, *chosen)
    assert {row["method"] for row in table} >= set(methods) - {"pyHSICLasso"}
    assert all(float(row["precision"]) >= 0.4 for row in table)


def test_ranking_errors__has_every_control(out):
    options = ["--rows", 80, "--resamples", 19, "--landmarks", 10, "--processes", 1]
    table = run(ranking_errors, out, *options, "--mixed-runs", 2, "--null-runs", 2)
    assert len(table) == 2 * 2 * len(ranking_errors.CONTROLS)
    assert all(0 <= float(row["rate"]) <= 1 for row in table)


def test_ranking_cost__compares_the_same_work(out):
    options = ["--rows", 3000, "--columns", 4, "--landmarks", 40, "--resamples", 10]
    table = run(ranking_cost, out, *options, "--threads", 1, "--singles", 2)
    assert [(row["estimator"], row["target"]) for row in table] == ranking_cost.CASES
    for row in table:
        assert float(row["times faster"]) > 0
        assert 50 < float(row["peak MiB"]) < 572 < float(row["planned MiB"]) + 500


def test_bounds__are_not_violated(out):
    table = run(bounds, out, "--trials", 3)
    assert [row["case"] for row in table] == list(bounds.CASES)
    for row in table:
        assert row["violated"] == "0"
        assert float(row["mean error"]) <= float(row["largest error"]) < float(row["bound"])
        assert float(row["ratio to the mean"]) >= float(row["ratio to the largest"]) > 1


def test_bounds__count_violations(out, monkeypatch):
    monkeypatch.setattr(bounds, "one_error", lambda setting, seed: float(seed))
    (row,) = run(bounds, out, "--trials", 5, "--case", "embedding, normal")
    assert row["violated"] == "4"


def test_bounds__keep_what_is_there(out, monkeypatch):
    monkeypatch.setattr(bounds, "one_error", lambda setting, seed: float(seed + 1))
    first = run(bounds, out, "--trials", 5, "--case", "embedding, normal")
    monkeypatch.setattr(bounds, "one_error", lambda setting, seed: 0.1)
    assert run(bounds, out, "--trials", 5, "--case", "embedding, normal") == first
    both = run(bounds, out, "--trials", 6, "--case", "embedding, normal")
    assert both[:1] == first
    assert [row["violated"] for row in both] == ["5", "0"]


def test_embedding_error__falls_to_that_of_all_rows(out):
    options = ["--rows", 300, "--trials", 2, "--landmarks", 2, "--landmarks", 128, "--pool", 200]
    table = run(embedding_error, out, *options)
    assert {row["selection"] for row in table} == set(embedding_error.SELECTIONS)
    for few, many in zip(table[::2], table[1::2], strict=True):
        assert float(few["reached"]) < 0.2
        assert 0.7 < float(many["reached"]) < 1.5
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert run(embedding_error, out, *options) == table


@pytest.mark.parametrize("repeated", [False, True])
def test_nested_errors__are_those_of_separate_solves(repeated):
    rng = np.random.default_rng(0)
    law = Mixture.clouds(3, 6)
    x, z = law.draw(500, rng), law.draw(300, rng)
    if repeated:
        z[1::2] = z[::2]
    counts = [1, 2, 3, 50, 127, 128, 129, 300]
    found = nested_errors(law, z, kernel_means(law.gamma, z, x), counts)
    separate = [nystrom_error(law, x, z[:p], 1e-12) for p in counts]
    np.testing.assert_allclose(found, separate, rtol=1e-8)
    assert found[0] > 5 * found[-1]


def test_embedding_error__chooses_leverage_scores_anew_for_every_number():
    pool = Pool((Gaussian(gamma=1.0),), (np.random.default_rng(0).standard_normal((90, 2)),))
    rng = np.random.default_rng(1)
    (nested,) = embedding_error.chosen("kmeans++", pool, [2, 30], rng)
    assert (len(nested[0]), nested[1]) == (30, [2, 30])
    anew = embedding_error.chosen("leverage", pool, [2, 30], rng)
    assert [(len(rows), sizes) for rows, sizes in anew] == [(2, [2]), (30, [30])]


def test_embedding_error__is_of_real_tables_too(out, monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    columns = {"a": rng.standard_normal(400), "b": rng.random(400), "c": ["x"] * 400}
    (tmp_path / "ccpp").mkdir()
    pd.DataFrame({**columns, "d": 1.0}).to_parquet(tmp_path / "ccpp/ccpp.parquet")
    monkeypatch.setattr(embedding_error, "FOLDER", tmp_path)
    embedding_error.law_of.cache_clear()
    options = ["--data", "ccpp", "--rows", 100, "--trials", 2, "--selection", "uniform"]
    table = run(embedding_error, out, *options, "--landmarks", 1, "--landmarks", 64)
    assert embedding_error.law_of("ccpp").points.shape == (400, 2)
    assert float(table[1]["error"]) < 0.5 * float(table[0]["error"])
    embedding_error.law_of.cache_clear()


def test_embedding_scale__measures_memory_that_a_plan_told(out):
    (row,) = run(embedding_scale, out, "--rows", 600_000, "--landmarks", 40, "--threads", 1)
    assert (row["n"], row["landmarks"], row["precision"]) == ("600000", "40", "float32")
    assert 50 < float(row["peak MiB"]) < float(row["planned MiB"]) < 600
    assert float(row["empirical"]) < float(row["error"]) < 0.1
    assert 0 < float(row["seconds kernel sums"]) < float(row["seconds"])


def test_embedding_scale__error_is_that_against_the_law():
    x = np.repeat([[0.0], [2.0]], 25, axis=0) * np.eye(5)[0]
    law = embedding_scale.LAW
    found = dhsic.mean_embedding(x, Gaussian(gamma=law.gamma), 50, rng=0)
    squared = found.kernel(x).mean() - 2.0 * law.mean(x).mean() + law.squared_norm
    assert embedding_scale.error(found) == pytest.approx(np.sqrt(squared))


def test_auto_landmarks__are_compared_on_the_same_data(out):
    options = ["--runs", 3, "--size", 150, "--data", "linear"]
    table = run(auto_landmarks, out, *options)
    assert [row["landmarks"] for row in table] == 2 * list(auto_landmarks.NUMBERS)
    assert [row["kernels"] for row in table] == 3 * ["gaussian"] + 3 * ["grid"]
    for row in table:
        whole = next(r for r in table if r["kernels"] == row["kernels"] and "8" in r["landmarks"])
        beside = float(row["power"]) - float(whole["power"])
        assert float(row["beside 8sqrt"]) == pytest.approx(beside, abs=1e-3)
        assert float(row["drawn"]) <= float(whole["drawn"])
    assert run(auto_landmarks, out, *options) == table


def test_auto_landmarks__weaken_large_data():
    x, y = auto_landmarks.weakened("linear", 4000, np.random.default_rng(0))
    whole, noise = auto_landmarks.SCENARIOS["linear"](4000, np.random.default_rng(0))
    assert (x == whole).all()
    assert (y[:2000] == noise[:2000]).all()
    assert np.mean(y[2000:] == noise[2000:]) < 0.01
    assert sorted(y) == sorted(noise)


def test_two_sample__has_every_method_and_a_picture(out):
    options = ["--level-runs", 4, "--power-runs", 2, "--sizes", 20, 30]
    table = run(two_sample, out, *options, "--data", "same law", "--data", "tails")
    assert len(table) == 2 * len(two_sample.METHODS)
    pairs = {(row["estimator"], row["null"]) for row in table}
    assert len(pairs) == 9
    assert {name for name, _ in pairs} == set(two_sample.MMD_ESTIMATORS)
    assert [row["runs"] for row in table] == 17 * ["4"] + 17 * ["2"]
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_two_sample__flags_rates_of_one_law_alone(out, monkeypatch):
    monkeypatch.setattr(two_sample, "one_pvalue", lambda setting: 0.005)
    options = ["--sizes", 20, 20, "--estimator", "block-mmd"]
    table = run(two_sample, out, *options, "--data", "same law", "--data", "mean")
    assert [row["above"] for row in table] == ["1% 5% 10%", ""]
    assert run(two_sample, out, *options, "--data", "same law", "--data", "mean") == table


def test_two_sample__laws_differ_in_what_they_say():
    rng = np.random.default_rng(0)
    x = {name: law(100_000, 0.5, rng) for name, law in two_sample.SECOND.items()}
    assert x["mean"].mean() == pytest.approx(0.125, abs=0.01)
    assert x["scale"].std() == pytest.approx(np.exp(0.09), abs=0.01)
    assert np.corrcoef(x["correlation"].T)[0, 1] == pytest.approx(0.225, abs=0.01)
    assert x["correlation"].std() == pytest.approx(1.0, abs=0.01)
    quartiles = np.quantile(x["tails"], [0.25, 0.75])
    np.testing.assert_allclose(quartiles, [-0.6745, 0.6745], atol=0.01)
    assert np.quantile(np.abs(x["tails"]), 0.999) > 6
    odd = two_sample.samples("same law", (50_000, 20_000), 1)
    assert [np.quantile(one, 0.75) for one in odd] == pytest.approx([0.7649] * 2, abs=0.02)


def test_nfsic_power__has_every_method(out):
    options = ["--runs", 2, "--size", 120, "--data", "sign, d = 2", "--data", "same law, d = 10"]
    table = run(nfsic_power, out, *options)
    assert [row["method"] for row in table] == 2 * list(nfsic_power.METHODS)
    assert run(nfsic_power, out, *options) == table


@pytest.mark.parametrize("case", nfsic_power.CASES)
def test_nfsic_power__draws_what_the_cases_say(case):
    x, y = nfsic_power.CASES[case](20_000, np.random.default_rng(0))
    if case.startswith("sign"):
        assert (np.sign(x).prod(axis=1) == np.sign(y)).all()
        assert abs(np.corrcoef(np.sign(x[:, 0]), y)[0, 1]) < 0.03
    elif case.startswith("sine"):
        w = int(case.split("w = ")[1][0])
        assert np.mean(np.sin(w * x[:, 0]) * np.sin(w * y)) == pytest.approx(0.25, abs=0.02)
        assert all(abs(np.mean(np.sin(w * z) * np.sin(w * y))) < 0.02 for z in x.T[1:])
    else:
        assert x.shape == y.shape == (20_000, 10)
        assert np.abs(np.corrcoef(x.T, y.T)[:10, 10:]).max() < 0.03


def cause_effect_data(folder):
    """Six pairs of two origins and both directions, and one that weighs nothing."""
    rng = np.random.default_rng(0)
    arrays, rows = {}, []
    for number in range(1, 8):
        x, noise = rng.uniform(-1.0, 1.0, (2, 60))
        y = x + x**3 + 0.6 * noise
        forward, name = number % 2 == 1, f"pair000{number}"
        arrays[name] = np.column_stack([x, y, np.full(60, np.nan)] if forward else [y, x])
        cause, effect = (1, 2) if forward else (2, 1)
        columns = {"cause_first": cause, "cause_last": cause}
        columns |= {"effect_first": effect, "effect_last": effect}
        weight, group = (0.0 if number == 7 else 0.5), f"group {number % 3}"
        rows.append({"pair": name, **columns, "weight": weight, "group": group})
    (folder / "cep").mkdir()
    np.savez(folder / "cep/pairs.npz", **arrays)
    pd.DataFrame(rows).to_csv(folder / "cep/pairs.csv", index=False)


def test_cause_effect_pairs__are_scored_by_every_method(out, monkeypatch, tmp_path):
    cause_effect_data(tmp_path)
    monkeypatch.setattr(cause_effect_pairs, "FOLDER", tmp_path)
    monkeypatch.setattr(cause_effect_pairs, "BOOTSTRAPS", 20)
    few = {name: cause_effect_pairs.ESTIMATORS[name] for name in ("HSIC", "RHSIC, D = 10")}
    monkeypatch.setattr(cause_effect_pairs, "ESTIMATORS", few)
    scores = out.with_name("scores.csv")
    options = ["--regression", "splines", "--rows", 40, "--realisations", 2, "--scores", scores]
    table = run(cause_effect_pairs, out, *options)
    assert len(table) == 3 + 2 * len(few)
    assert {(row["pairs"], row["realisations"]) for row in table} == {("6", "2")}
    for row in table:
        assert float(row["smallest"]) <= float(row["AUC"]) <= float(row["largest"])
        assert 0.0 <= float(row["5%"]) <= float(row["95%"]) <= 1.0
        assert row["AUC of the paper"] == ""
    assert out.with_name("cause_effect_splines.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setattr(cause_effect_pairs, "scores", lambda found: pytest.fail("it ran"))
    assert run(cause_effect_pairs, out, *options) == table


def test_cause_effect_pairs__some_are_far_apart(out, monkeypatch, tmp_path):
    cause_effect_data(tmp_path)
    data = cause_effect_pairs.pairs(tmp_path)
    assert [one.number for one in cause_effect_pairs.spread(data, 3)] == [1, 3, 6]
    assert cause_effect_pairs.spread(data, None) == cause_effect_pairs.spread(data, 9) == data
    monkeypatch.setattr(cause_effect_pairs, "FOLDER", tmp_path)
    monkeypatch.setattr(cause_effect_pairs, "pairs", lambda folder: data[::2])
    refused = CliRunner().invoke(cause_effect_pairs.main, ["--out", str(out), "--pairs", "2"])
    assert refused.exit_code == 1
    assert "pairs of both directions, got 2 of one" in refused.output


def test_cause_effect_pairs__need_their_data(out, monkeypatch, tmp_path):
    monkeypatch.setattr(cause_effect_pairs, "FOLDER", tmp_path)
    refused = CliRunner().invoke(cause_effect_pairs.main, ["--out", str(out)])
    assert refused.exit_code == 1
    assert "name the folder of data in DHSIC_DATA" in refused.output


def test_pc_graph__counts_edges_that_are_wrong(monkeypatch):
    seen = []

    def search(x, test):
        seen.append((x, test))
        edges = {(min(edge), max(edge)) for edge in pc_graph.EDGES}
        return edges - {(0, 2)} | {(0, 1), (0, 3)}, set(pc_graph.COLLIDERS[1:])

    monkeypatch.setitem(pc_graph.SEARCHES, "causal-learn", search)
    row = pc_graph.row("causal-learn", "fisherz", "nonlinear", 5000)
    assert (row["missing"], row["extra"], row["turned"]) == (1, 2, 1)
    ((x, test),) = seen
    assert (x.shape, test) == ((5000, pc_graph.NODES), "fisherz")
    correlations = np.corrcoef(x.T)
    assert abs(correlations[0, 2]) > 0.3 > 0.1 > abs(correlations[1, 5])  # a square
    assert abs(np.corrcoef(x[:, 1] ** 2, x[:, 5])[0, 1]) > 0.3
    linear = np.corrcoef(pc_graph.draw(5000, "linear", 0).T)
    assert all(abs(linear[edge]) > 0.3 for edge in pc_graph.EDGES)


def test_pc_graph__searches_what_is_asked():
    few = list(pc_graph.searches((50, 60), ("pgmpy",), ("nonlinear",), ("dhsic",)))
    assert few == [("pgmpy", "dhsic", "nonlinear", n) for n in (50, 60)]
    every = list(pc_graph.searches((50,), (), (), ()))
    assert len(every) == 2 * sum(map(len, pc_graph.TESTS.values()))


def test_pc_graph__counts_tests(monkeypatch):
    def search(x, test):
        for given in (None, x[:, 3:]):
            pc_graph.DHSIC(x[:, 0], x[:, 1], given)
        return set(), set()

    monkeypatch.setitem(pc_graph.SEARCHES, "pgmpy", search)
    row = pc_graph.row("pgmpy", "dhsic", "linear", 60)
    assert (row["tests"], row["of all rows"]) == (2, 2)
    # Five times as many rows as a first test has; nodes 0 and 1 are independent.
    monkeypatch.setattr(pc_graph, "DHSIC", replace(pc_graph.DHSIC, first_rows=60, sizes=[]))
    row = pc_graph.row("pgmpy", "dhsic", "linear", 300)
    assert (row["tests"], row["of all rows"]) == (2, 2)
    monkeypatch.setitem(pc_graph.SEARCHES, "pgmpy", lambda x, test: (set(), set()))
    assert pc_graph.row("pgmpy", "pearsonr", "linear", 60)["tests"] == ""


def test_pc_graph__needs_its_libraries(out, monkeypatch):
    out.parent.mkdir(exist_ok=True)
    out.write_text("earlier\n")
    monkeypatch.setitem(pc_graph.MODULES, "pgmpy", "no_such_module")
    refused = CliRunner().invoke(pc_graph.main, ["--library", "pgmpy", "--out", str(out)])
    assert refused.exit_code == 1
    assert "pgmpy is needed and not installed: install the extra `discovery`" in refused.output
    assert out.read_text() == "earlier\n"


def test_dag_search__counts_the_graphs_that_are_found(out, monkeypatch):
    table = run(dag_search, out, "--runs", 2, "--rows", 80)
    assert [row["estimator"] for row in table] == list(dag_search.ESTIMATORS)
    assert all(row["found"] in ("0", "0.5", "1") for row in table)
    x, dag = dag_search.draw(80, 0)
    assert x.shape == (80, 4)
    assert len(dag.edges) == 6
    monkeypatch.setattr(dag_search, "draw", lambda n, seed: (x, found.best.dag))
    found = dag_search.score_dags(x, dags="complete", estimator="v-hsic", rng=0)
    (row,) = run(dag_search, out, "--runs", 1, "--rows", 80, "--estimator", "v-hsic")
    assert row["found"] == "1"


def test_dag_search__draws_smooth_functions_of_unit_variance():
    rng = np.random.default_rng(0)
    points = np.linspace(0.0, 2.0, 5)
    drawn = np.array([dag_search.smooth(points, rng) for _ in range(2000)])
    expected = np.exp(-0.5 * (points[:, None] - points) ** 2)
    assert np.cov(drawn.T) == pytest.approx(expected, abs=0.15)


def test_weather_dags__has_all_graphs(out, tmp_path):
    rows = np.random.default_rng(0).standard_normal((60, 3))
    (tmp_path / "weather").mkdir()
    header = 'Altitude Temperature "Sunshine hours"'
    np.savetxt(tmp_path / "weather" / "data.csv", rows, header=header, comments="")
    table = run(weather_dags, out, "--data", tmp_path)
    assert len({row["graph"] for row in table}) == 25
    pvalues = [float(row["v-hsic"]) for row in table]
    assert pvalues == sorted(pvalues, reverse=True)
    assert all(0.0 < float(row["nystrom-m"]) <= 1.0 for row in table)


def test_dependent_air__compares_real_pairs_with_controls(out, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(dependent_air, "DAYS", 20)
    rng, hours = np.random.default_rng(0), np.arange(1, 3 * 8760 + 1)
    (tmp_path / "weather").mkdir()
    altitude, noise = rng.standard_normal((2, 200))
    rows = np.stack([altitude, altitude + 0.3 * noise, altitude - 0.3 * noise], axis=1)
    np.savetxt(tmp_path / "weather" / "data.csv", rows, header="a b c", comments="")
    (tmp_path / "beijing_air").mkdir()
    series = {name: rng.standard_normal(len(hours)) for name in ("PM2_5", "TEMP")}
    series |= {"WSPM": series["PM2_5"] ** 2, "PRES": series["TEMP"] + 0.0}
    table = pd.DataFrame({"hour_index": hours, "station": "A", **series})
    gaps = table.drop(index=[*range(30, 40), *range(9000, 9100)])
    gaps.to_parquet(tmp_path / "beijing_air" / "beijing_air.parquet")
    found = run(
        dependent_air, out, "--data", tmp_path, "--draws", 5, "--windows", 1, "--stations", 1
    )
    places, hourly = found[:3], [row for row in found if row["data"].startswith("hours: PM2.5")]
    assert {row["argument"] for row in places} >= {dependent_air.NOTHING, "given= altitude"}
    # The window of the second year has a long gap, and there is no fourth: two years are left, and
    # two pairs of them.
    assert {(row["tests"], row["controls"]) for row in hourly} == {("2", "2")}
    assert all(float(row["rejected"]) == 1.0 for row in hourly)
    assert float(places[0]["controls rejected"]) == 1.0
    assert float(places[1]["controls rejected"]) < 1.0
    assert out.with_suffix(".png").exists()


def test_causal_scale__reads_rows_thrice(out):
    (row,) = run(causal_scale, out, "--rows", 3000, "--landmarks", 20, "--threads", 1)
    assert (row["graphs"], row["passes"]) == ("25", "3")
    assert row["truth_accepted"] == "True"
    assert float(row["peak_mib"]) >= float(row["before_mib"]) > 0.0
    assert float(row["held_mib"]) == pytest.approx(8 * 3000 * 12 / 2**20, rel=1e-3)
