"""The suite of airspeed velocity, the description of the machine and the time against n."""

import csv
import importlib
import inspect
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure

import dhsic
from benchmarks.cost import wall
from benchmarks.shared import machine

ROOT = Path(__file__).parents[2]
SUITE = ROOT / "benchmarks" / "asv"
MODULES = sorted(path.stem for path in (SUITE / "suite").glob("[a-z]*.py"))
MEASURES = ("time_", "peakmem_", "timeraw_")
SIGNS, SPECTRAL, DEFAULT, _ = wall.METHODS
QUICKEST = {"Planning": ["block-hsic"]}  # where the first parameters take longest


def benchmarks():
    for name in MODULES:
        module = importlib.import_module(f"benchmarks.asv.suite.{name}")
        for _, case in inspect.getmembers(module, inspect.isclass):
            if case.__module__ == module.__name__:
                for method in dir(case):
                    if method.startswith(MEASURES):
                        yield pytest.param(case, method, id=f"{case.__name__}-{method}")


@pytest.mark.parametrize(("case", "method"), list(benchmarks()))
def test_suite__runs_every_benchmark(case, method, capsys):
    first = [values[0] for values in getattr(case, "params", [])]
    smallest = QUICKEST.get(case.__name__, first)
    assert all(map(list.__contains__, getattr(case, "params", []), smallest))
    assert len(smallest) == len(first) == len(getattr(case, "param_names", []))
    one = case()
    if hasattr(one, "setup"):
        one.setup(*smallest)
    code = getattr(one, method)(*smallest)
    if method.startswith("timeraw_"):
        exec(dedent(code), {})
    if hasattr(one, "teardown"):
        one.teardown(*smallest)
    assert capsys.readouterr().out == ""


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="asv runs in a checkout of git")
def test_suite__runs_under_asv(tmp_path):
    here = dict.fromkeys(("os", "arch", "cpu", "num_cpu", "ram"), "unknown")
    machines = {"here": {"machine": "here", **here}, "version": 1}
    (tmp_path / ".asv-machine.json").write_text(json.dumps(machines))
    quick = ["--quick", "--dry-run", "--python=same", "--launch-method=spawn", "--machine=here"]
    done = subprocess.run(
        [sys.executable, "-m", "asv", "run", *quick, "--bench", "time_random_signs"],
        cwd=SUITE,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout
    assert done.returncode == 0, said + done.stderr
    assert "passes.Draws.time_random_signs" in said
    assert "failed" not in said
    assert "OPENBLAS_NUM_THREADS1" in said


@pytest.fixture
def out(tmp_path):
    return tmp_path / "wall.csv"


@pytest.fixture
def in_process(monkeypatch):
    """No new process and, which takes longer than all else, no picture."""
    monkeypatch.setattr(wall, "alone", wall.measured)
    monkeypatch.setattr(wall, "draw", lambda ours, peers, path: None)


def run(out, *options):
    arguments = ["--out", str(out), "--peers", str(out.with_name("none.csv")), *map(str, options)]
    done = CliRunner().invoke(wall.main, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    with out.open() as file:
        return list(csv.DictReader(file))


def test_wall__measures_a_test_in_a_process_of_its_own(out):
    (row,) = run(out, "--size", 1000, "--method", SIGNS, "--threads", 1)
    assert (row["method"], row["n"], row["landmarks"]) == (SIGNS, "1000", "100")
    assert (row["threads"], row["columns"], row["stopped"]) == ("1", "1 + 1", "")
    assert float(row["seconds"]) > 0.0
    assert float(row["processor seconds"]) > 0.0
    assert 0.0 < float(row["peak MiB"]) < float(row["planned MiB"])
    assert 0.0 < float(row["p-value"]) <= 1.0
    assert out.with_name("time_against_n.png").stat().st_size > 0


def test_wall__keeps_what_is_there(out, in_process, monkeypatch):
    first = run(out, "--size", 500, "--method", SIGNS)
    with monkeypatch.context() as without_data:
        without_data.setattr(wall, "generate", None)
        assert run(out, "--size", 500, "--method", SIGNS) == first
    more = run(out, "--size", 500, "--method", SIGNS, "--method", DEFAULT)
    assert more[:1] == first
    assert [row["landmarks"] for row in more] == ["100", "179"]


def test_wall__passes_its_options_on(out, in_process, monkeypatch):
    seen = {}
    test = dhsic.independence_test

    def listen(*variables, **options):
        seen.update(options)
        return test(*variables, **options)

    monkeypatch.setattr(dhsic, "independence_test", listen)
    run(out, "--size", 300, "--method", SPECTRAL, "--threads", 1, "--memory", "3GiB")
    assert (seen["threads"], seen["memory"], seen["null"]) == (1, "3GiB", "spectral")
    assert (seen["kernels"], seen["precision"]) == ("gaussian", "float32")


def test_wall__tries_again_where_the_plan_did_not_fit(out, in_process):
    (row,) = run(out, "--size", 500, "--method", DEFAULT, "--memory", "1MB")
    assert (row["stopped"], row["seconds"], row["p-value"]) == ("memory", "", "")
    assert float(row["planned MiB"]) > 1.0
    options = ["--method", DEFAULT, "--memory"]
    assert run(out, "--size", 300, *options, "3GiB")[0] == row
    assert run(out, "--size", 500, *options, "1MB")[0] == row
    again = run(out, "--size", 500, *options, "3GiB")
    assert [(one["n"], one["stopped"]) for one in again] == [("300", ""), ("500", "")]


def table_row(method, n, seconds="", peak="", stopped="", features="1", limit="60"):
    measured = {"method": method, "n": n, "processor seconds": seconds, "peak MiB": peak}
    return {**measured, "stopped": stopped, "features": features, "limit seconds": limit}


PEERS = [
    table_row("quick", "1000", "0.5", "100"),
    table_row("quick", "10000", "5", "1000"),
    table_row("quick", "100000", stopped="memory"),
    table_row("slow", "1000", "50", "100"),
    table_row("slow", "10000", stopped="time"),
    table_row("broken", "1000", stopped="error: it is"),
    table_row("quick", "500", "2", "100", features="90"),
    table_row("quick", "2000", stopped="time", limit="5"),
    table_row("dhsic default", "1000", "0.1", "100"),
]


def test_wall__draws_the_others_beside_its_own(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **options: figures.append(figure))
    ours = [table_row(SIGNS, "1000", "0.1", "140")]
    found = {(one.label, one.columns): len(one.table) for one in wall.lines(ours, PEERS)}
    assert found == {
        (SIGNS, "1 + 1"): 1,
        ("quick", "1 + 1"): 3,
        ("slow", "1 + 1"): 2,
        ("broken", "1 + 1"): 1,
        ("quick", "90 + 1"): 1,
        ("dhsic default", "1 + 1"): 1,
    }
    (colour,) = {one.colour for one in wall.lines(ours, PEERS) if one.label == "quick"}
    assert colour in wall.PEERS
    wall.draw(ours, PEERS, tmp_path / "drawn.png")
    (panels,) = [figure.axes for figure in figures]
    assert [axes.get_title() for axes in panels] == ["1 + 1 columns"] * 2 + ["90 + 1 columns"] * 2
    crosses = [line.get_xydata().tolist() for line in panels[0].lines if line.get_marker() == "x"]
    assert crosses == [[[100_000, 5.0]], [[10_000, wall.LIMIT_SECONDS]]]
    assert panels[3].get_legend().texts[0].get_text() == "quick"


def test_wall__reads_the_table_of_the_others(out, in_process, monkeypatch):
    drawn = []
    monkeypatch.setattr(wall, "draw", lambda *arguments: drawn.append(arguments))
    peers = out.with_name("peers.csv")
    with peers.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(PEERS[0]))
        writer.writeheader()
        writer.writerows(PEERS)
    ours = run(out, "--size", 300, "--method", SIGNS, "--peers", peers)
    assert drawn == [(ours, PEERS, out.with_name("time_against_n.png"))]


def test_wall__crosses_a_method_where_it_stopped():
    time = "processor seconds"
    assert wall.stopped_at(table_row("a", "1", stopped="time"), time) == wall.LIMIT_SECONDS
    assert wall.stopped_at(table_row("a", "1", "12", stopped="memory"), time) == 12.0
    assert wall.stopped_at(table_row("a", "1", stopped="memory"), "peak MiB") is None


def test_machine__tells_of_the_processor_and_the_versions(tmp_path):
    path = tmp_path / "results" / "machine.json"
    assert CliRunner().invoke(machine.main, ["--out", str(path)]).exit_code == 0
    text = path.read_text()
    found = json.loads(text)
    assert found["cores"]["logical"] >= 1
    assert found["memory GiB"] > 0
    assert found["libraries"]["dhsic"] == dhsic.__version__
    assert found["python"].endswith(platform.python_version())
    assert found["blas"]
    assert f'"{platform.node()}"' not in text
    assert str(Path.home()) not in text
