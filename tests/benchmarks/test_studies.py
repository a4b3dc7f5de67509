"""The runner keeps, resumes and stamps rows; studies run small; pages tell which tables are old."""

import itertools
import operator
import re
import time
from dataclasses import replace
from functools import partial

import click
import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import study as runner
from benchmarks.__main__ import main, small, studies
from benchmarks.shared.dependence import TWO, Weakened
from benchmarks.shared.limits import measure
from benchmarks.study import RESULTS, STAMPS, Study, origin, read_table, run, stale
from dhsic.estimators.choose import DEFAULTS
from docs import generated

QUICK = ("convergence", "kalinke_szabo_2")
NEEDS = {"pc_graph": "causallearn", "weather_dags": "weather", "kalinke_szabo_4": "msd"}


def counted(cell, number):
    """Fails where the study says so, after it has told what it was asked for."""
    cell.test.append((cell.data, cell.n, number))
    if cell.draw == "fails":
        raise KeyboardInterrupt
    return {"value": cell.n + number / 4}


@pytest.fixture
def study():
    return Study(
        name="numbers",
        title="Do studies work?",
        data={"first": "", "second": ""},
        methods={"one": []},
        sizes=(10, 20),
        measure=counted,
        columns=("value",),
        runs=3,
        follows_defaults=lambda cell: cell.data == "first",
    )


def test_run__has_a_row_a_cell_with_its_stamps(study, tmp_path):
    table = run(study, tmp_path)
    assert [(row["data"], row["n"], row["value"]) for row in table] == [
        *(("first", "10", "10.25"), ("second", "10", "10.25")),
        *(("first", "20", "20.25"), ("second", "20", "20.25")),
    ]
    assert [row["default"] for row in table] == [str(DEFAULTS), ""] * 2
    for row in table:
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", row["date"])
        assert re.fullmatch(r"[0-9a-f]{7,}\+?|unknown", row["commit"])
        assert row["runs"] == "3"
    assert read_table(tmp_path / "numbers.csv") == table


def test_run__goes_on_where_it_was_interrupted(study, tmp_path):
    broken = replace(study, data={"first": "", "second": "fails"})
    with pytest.raises(KeyboardInterrupt):
        run(broken, tmp_path)
    (kept,) = read_table(tmp_path / "numbers.csv")
    study.methods["one"].clear()
    table = run(study, tmp_path)
    assert table[0] == kept
    assert len(table) == 4
    assert ("first", 10, 0) not in study.methods["one"]
    assert run(study, tmp_path) == table


def test_run__measures_anew_where_it_is_asked_to(study, tmp_path):
    run(study, tmp_path)
    table = run(study.of(["first"], sizes=(10,)), tmp_path, first=4, again=True)
    values = {(row["data"], row["n"]): row["value"] for row in table}
    assert len(table) == 4
    assert values["first", "10"] == "11.25"
    assert values["second", "10"] == "10.25"


def test_run__refuses_a_table_of_other_columns(study, tmp_path):
    run(study, tmp_path)
    before = (tmp_path / "numbers.csv").read_bytes()
    with pytest.raises(click.ClickException, match="--out"):
        run(replace(study, columns=("other",)), tmp_path)
    assert (tmp_path / "numbers.csv").read_bytes() == before


def test_run__has_fewer_runs_of_what_takes_long(study, tmp_path, monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr(runner.time, "perf_counter", lambda: float(next(clock)))
    table = run(replace(study, runs=100, sizes=(10,)), tmp_path, seconds=15.0)
    assert [row["runs"] for row in table] == ["15", "15"]
    table = run(replace(study, runs=100, sizes=(20,)), tmp_path, seconds=0.0)
    assert {row["runs"] for row in table[2:]} == {str(runner.FEWEST_RUNS)}


def test_run__is_the_same_in_a_pool(tmp_path):
    few = small(studies()["convergence"]).of(["5 + 1 columns"], ["rff-hsic"], runs=4)
    one, two = (run(few, tmp_path / str(count), processes=count) for count in (1, 2))
    assert one == two


def test_stale__rows_are_of_earlier_defaults():
    row = {"date": "2026-11-20", "commit": "abc1234", "default": ""}
    table = [row, {**row, "default": str(DEFAULTS)}]
    assert stale(table) == []
    assert "†" not in origin(table)
    assert "`abc1234`" in origin(table)
    old = [*table, {**row, "commit": "def5678", "default": "1"}]
    assert stale(old) == old[2:]
    assert "1 of 3 rows are of earlier defaults (version 1;" in origin(old)


def test_figure__has_a_mark_where_it_is_older_than_the_defaults():
    row = {"date": "2026-11-20", "commit": "abc1234", "default": str(DEFAULTS)}
    assert str(generated.Figure("5 %", [row], "level")) == "5 %"
    assert str(generated.Figure("5 %", [{**row, "default": "1"}], "level")) == "5 % †"


def test_readme__has_the_figures_of_the_tables():
    text = (RESULTS.parents[1] / "README.md").read_text()
    assert generated.readme(text) == text, "python -m docs.generated --write"
    assert len(generated.README.findall(text)) == 1


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.csv")), ids=lambda path: path.stem)
def test_tables__are_those_of_studies_and_tell_their_commits(path):
    table = read_table(path)
    assert list(table[0]) == studies()[path.stem].names
    keys = [tuple(row.values()) for row in table]
    assert len(set(keys)) == len(keys)
    for row in table:
        assert all(row[name] for name in STAMPS[:2])
        assert row["default"] in ("", *map(str, range(1, DEFAULTS + 1)))
    assert "commit `" in origin(table)


@pytest.mark.parametrize(
    "name",
    [
        *(
            pytest.param(name, marks=[] if name in QUICK else pytest.mark.nightly)
            for name in studies()
        )
    ],
)
def test_study__runs_small_and_leaves_the_results_alone(name, tmp_path):
    needed = NEEDS.get(name, "")
    if needed == "causallearn":
        pytest.importorskip(needed, reason="the extra `discovery` is not installed")
    elif needed and not (generated.ROOT.parent / "shared" / "data" / needed).exists():
        pytest.skip(f"there is no folder {needed}: name the folder of data in DHSIC_DATA")
    before = {path: path.stat().st_mtime_ns for path in RESULTS.iterdir()}
    asked = ["run", name, "--small", "--out", str(tmp_path)]
    done = CliRunner().invoke(main, asked, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert list(read_table(tmp_path / f"{name}.csv")[0]) == studies()[name].names
    assert {path: path.stat().st_mtime_ns for path in RESULTS.iterdir()} == before


def test_list__has_every_study():
    listed = CliRunner().invoke(main, ["list"], catch_exceptions=False).output
    for name, one in studies().items():
        assert re.search(rf"^  {name} +{re.escape(one.title)}$", listed, re.MULTILINE)


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        (["tales"], "python -m benchmarks list"),
        (["level", "--data", "nothing"], "--list"),
        (["level", "--method", "nothing"], "--list"),
    ],
)
def test_run__refuses_other_names(asked, named):
    wrong = CliRunner().invoke(main, ["run", *asked])
    assert wrong.exit_code == 2
    assert named in wrong.output


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("call", "seconds", "memory", "value", "stopped"),
    [
        (partial(sum, (1, 2)), 60.0, 2**40, 3, ""),
        (partial(time.sleep, 60.0), 0.1, 2**40, None, "time"),
        (partial(operator.mul, b"x", 10**9), 60.0, 2**28, None, "memory"),
        (partial(int, "x"), 60.0, 2**40, None, "error: ValueError: invalid literal"),
    ],
)
def test_measure__says_what_stopped_a_call(call, seconds, memory, value, stopped):
    found = measure(partial(partial, call), seconds, memory)
    assert found.value == value
    assert found.stopped.startswith(stopped)
    assert bool(found.stopped) == bool(stopped)
    assert found.peak_bytes >= found.start_bytes > 2**20


@pytest.mark.parametrize("kind", ["linear", "rare event", "50 + 50 columns"])
def test_weakened__keeps_the_rows_of_every_variable(kind):
    draw, n = TWO[kind], 800
    whole = draw(n, np.random.default_rng(0))
    weak = Weakened(draw)(n, np.random.default_rng(0))
    np.testing.assert_array_equal(weak[0], whole[0])
    np.testing.assert_array_equal(np.sort(weak[1], axis=0), np.sort(whole[1], axis=0))
    same = np.reshape(weak[1] == whole[1], (n, -1)).all(axis=1)
    assert same.sum() >= 400  # sqrt(200 n) are dependent
