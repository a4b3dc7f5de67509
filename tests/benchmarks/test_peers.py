"""The tests of other packages, what limits a run, and the studies that compare them."""

import csv
import itertools
import operator
import time
from functools import partial

import click
import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.peers import peer_limits, peer_tests, peers
from benchmarks.peers.peer_tests import METHODS
from benchmarks.shared import limits
from benchmarks.shared.limits import Measured, measure

MODULES = {
    "dhsic": "dhsic",
    "hyppo": "hyppo",
    "dcor": "dcor",
    "statsmodels": "statsmodels",
    "causal-learn": "causallearn",
    "scikit-learn": "sklearn",
}
MULTIPLIER, GAMMA = "dhsic nystrom-m, multiplier", "dhsic v-hsic, gamma"
COUNTED = ("permutation", "multiplier", "auto")
COMPILED = ("dcor dcov", "hyppo Hsic", "hyppo Dcorr")  # for as long as all other tests here take
MIB = 2**20
LARGE = 200 * MIB


@pytest.fixture
def out(tmp_path):
    return tmp_path / "peers.csv"


def run(out, *options):
    arguments = [*map(str, options), "--out", str(out)]
    done = CliRunner().invoke(peers.main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return read(out)


def read(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def methods(*names):
    return [part for name in names for part in ("--method", name)]


@pytest.fixture(scope="module")
def pair():
    x = np.random.default_rng(0).standard_normal((120, 2))
    return x, x[:, :1] ** 2


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.nightly if name in COMPILED else ())
        for name in peers.SIZED
    ],
)
def test_method__gives_the_pvalue_of_its_resamples(name, pair):
    method = METHODS[name]
    module = MODULES[method.package]
    pytest.importorskip(module, reason=f"{module} is in the group `peers`")
    many = 499 if name == "dhsic default" else 19  # it has as many as there are rows at least
    few, same, more = (method.test(*pair, resamples, 3) for resamples in (9, 9, many))
    assert 0.0 <= few <= 0.2
    assert few == same
    if method.null in COUNTED:
        assert more < few
    else:
        assert more == few


@pytest.mark.parametrize("name", ["scikit-learn Nystroem 50", "causal-learn RIT"])
def test_method__takes_the_seed(name, pair):
    module = MODULES[METHODS[name].package]
    pytest.importorskip(module, reason=f"{module} is in the group `peers`")
    x = np.random.default_rng(1).standard_normal((120, 1))
    assert len({METHODS[name].test(x, pair[1], 99, seed) for seed in range(5)}) > 1


def test_statsmodels__counts_the_replicates_that_are_as_large(pair):
    pytest.importorskip("statsmodels", reason="statsmodels is in the group `peers`")
    x = np.random.default_rng(2).standard_normal((40, 1))
    pvalues = [METHODS["statsmodels dcov"].test(x, pair[1][:40], n, 0) * n for n in (30, 70)]
    np.testing.assert_allclose(pvalues, np.round(pvalues))


def test_missing_package__names_the_group(pair, monkeypatch):
    monkeypatch.setattr(peer_tests.importlib, "import_module", missing)
    with pytest.raises(ImportError, match=r"dcor .* install the group peers"):
        METHODS["dcor dcov"].test(*pair, 9, 0)


def missing(name):
    msg = f"No module named {name!r}"
    raise ModuleNotFoundError(msg)


@pytest.mark.parametrize(
    ("call", "seconds", "memory", "value", "stopped"),
    [
        (partial(sum, (1, 2)), 60.0, 2**40, 3, ""),
        (partial(time.sleep, 60.0), 0.1, 2**40, None, "time"),
        (partial(all, itertools.repeat(True)), 0.1, 2**40, None, "time"),
        (partial(operator.mul, b"x", 10**9), 60.0, 200 * MIB, None, "memory"),
        (partial(int, "x"), 60.0, 2**40, None, "error: ValueError: invalid literal"),
    ],
)
def test_measure__says_what_stopped_a_call(call, seconds, memory, value, stopped):
    found = measure(partial(partial, call), seconds, memory)
    assert found.value == value
    assert found.stopped.startswith(stopped)
    assert bool(found.stopped) == bool(stopped)
    assert found.peak_bytes >= found.start_bytes > MIB
    assert found.seconds < 30.0


def test_measure__takes_the_peak_of_the_call_alone(monkeypatch):
    monkeypatch.setattr(limits, "POLL_SECONDS", 30.0)  # what lasts shorter is not seen by looking
    spike = f"len(b'x' * {LARGE})"
    quiet = measure(partial(eval, f"[{spike}, int][1]"), 60.0, 2**40)
    assert quiet.peak_bytes < quiet.start_bytes + LARGE / 2
    high = measure(partial(partial, eval, spike), 60.0, 2**40)
    assert (high.value, high.stopped) == (LARGE, "")
    assert high.peak_bytes > high.start_bytes + 0.9 * LARGE
    assert measure(partial(partial, eval, spike), 60.0, LARGE).stopped == "memory"


@pytest.mark.parametrize(
    ("wall", "tried"),
    [
        (5000, [2000, 4000, 8000, 6000]),
        (1200, [2000, 1000, 1500]),
        (99_999, [2000, 4000, 8000, 16_000]),
        (0, [2000, 1000, 500]),
    ],
)
def test_sizes_to_try__come_near_the_wall(wall, tried):
    stopped = {}
    sizes = []
    for n in peer_limits.sizes_to_try(stopped, 2000, 16_000):
        stopped[n] = n > wall
        sizes.append(n)
    assert sizes == tried


def test_limits__reads_what_is_stored_in_a_process_of_its_own(out):
    options = ["--features", 90, "--start", 1000, "--most", 1000, "--resamples", 9]
    (row,) = run(out, "limits", *methods(peers.STORED), *options)
    assert (row["data"], row["stopped"], row["p-value"]) == ("zarr", "", "0.1")
    assert float(row["peak MiB"]) >= float(row["start MiB"]) > 50


def test_limits__stops_at_its_limits_and_goes_on(out, monkeypatch):
    asked = []

    def stub(prepare, seconds, memory):
        asked.append((prepare.args[:2], seconds, memory))
        return Measured(0.5, "time" if prepare.args[1] > 1000 else "", 1.0, 1.0, MIB, MIB)

    monkeypatch.setattr(peer_limits, "measure", stub)
    options = ["limits", *methods("dcor dcov"), "--start", 500, "--resamples", 9]
    options += ["--seconds", 2, "--memory", 64]
    table = run(out, *options, "--most", 1000)
    assert [row["n"] for row in table] == ["500", "1000"]
    table = run(out, *options)
    assert [(row["n"], row["stopped"]) for row in table][2:] == [("2000", "time"), ("1500", "time")]
    assert asked == [(("dcor dcov", n), 2.0, 64 * MIB) for n in (500, 1000, 2000, 1500)]
    assert {row["features"] for row in table} == {"90"}


def test_limits__leave_threads_to_the_package_and_tell_ours_the_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    asked = []

    def stub(prepare, seconds, memory):
        asked.append((peer_limits.os.environ.get("OPENBLAS_NUM_THREADS"), prepare.args[-1]))
        return Measured(0.5, "error: MemoryBudgetError: too much", 1.0, 1.0, MIB, MIB)

    monkeypatch.setattr(peer_limits, "measure", stub)
    monkeypatch.setattr(peer_limits, "generate", lambda *given, **options: None)
    settings = [("dhsic default", 1, 500)]
    (row,) = peer_limits.limit_rows(settings, 500, 9, 2.0, 64, done=[])
    assert asked == [(None, 64)]
    assert row["stopped"] == "memory"
    assert peer_limits.os.environ["OPENBLAS_NUM_THREADS"] == "1"


def test_limits__needs_the_package():
    missing = Measured(None, "error: ImportError: install the group peers", 0.0, 0.0, 0, 0)
    with pytest.raises(click.ClickException, match="install the group"):
        peer_limits.stopped_by(missing)


def test_level__counts_rejections_of_the_runs_it_can_afford(out, monkeypatch):
    def stub(setting):
        assert [v.shape for v in setting.draw(setting.n, np.random.default_rng(0))] == [(60, 1)] * 2
        return setting.run / 100.0, 1.0

    monkeypatch.setattr(peers.curves, "one_test", stub)
    options = ["level", "--data", "normals", "--size", 60, *methods(GAMMA), "--runs", 60]
    run(out, *options, "--resamples", 19, "--seconds", 100)
    run(out, *options, "--resamples", 29, "--seconds", 55)
    table = run(out, *options, "--resamples", 39, "--seconds", 1)
    assert {(row["n"], row["null"], row["runs"]) for row in table} == {("60", "gamma", "60")}
    found = [(row["resamples"], row["tests"], row["5%"]) for row in table]
    assert found == [("19", "60", "0.1"), ("29", "55", "0.1091"), ("39", "50", "0.12")]


def test_power__is_of_tests_that_are_not_sure_yet(out, monkeypatch):
    monkeypatch.setattr(peers, "SLOW", (MULTIPLIER,))
    monkeypatch.setattr(peers, "SLOW_ROWS", 400)
    monkeypatch.setattr(peers, "RESAMPLES", 19)
    monkeypatch.setattr(peers, "_grown", lambda *setting: 1.5)
    sizes = ["--size", 50, "--size", 400, "--size", 500]
    options = ["power", "--data", "generated", *sizes, *methods(GAMMA, MULTIPLIER)]
    table = run(out, *options, "--runs", 3, "--slow-runs", 2)
    assert [(row["method"], row["n"], row["runs"]) for row in table] == [
        (GAMMA, "50", "3"),
        (GAMMA, "400", "3"),
        (MULTIPLIER, "50", "2"),
        (MULTIPLIER, "400", "2"),
    ]
    assert [float(row["power"]) for row in table[1:]] == [1.0, 0.0, 0.0]  # 1 in 20 is not 1 %
    sure, unsure = read(out.with_name("peers_time.csv"))
    assert (sure["n"], sure["over our quickest"], sure["MiB"]) == ("400", "1", "1.5")
    assert (sure["runs"], sure["power at least"], sure["most rows"]) == ("3", "0.3684", "400")
    assert (unsure["method"], unsure["seconds"], unsure["most rows"]) == (MULTIPLIER, "", "400")
    assert out.with_suffix(".png").stat().st_size > 10_000


def test_power__is_of_one_number_of_runs(out, monkeypatch):
    shown = []
    monkeypatch.setattr(peers.curves, "one_test", lambda setting: (0.0, 1.0 + setting.run))
    monkeypatch.setattr(peers, "_grown", lambda *setting: 1.5)
    monkeypatch.setattr(peers, "draw", lambda table, path: shown.append(table))
    options = ["power", "--data", "generated", *methods(GAMMA)]
    run(out, *options, "--size", 50, "--runs", 2)
    table = run(out, *options, "--size", 50, "--size", 60, "--runs", 3)
    assert [(row["n"], row["runs"]) for row in table] == [("50", "2"), ("50", "3")]
    assert [[row["runs"] for row in own] for own in shown] == [["2"], ["3"]]
    (time,) = read(out.with_name("peers_time.csv"))
    assert (time["runs"], time["seconds"]) == ("3", "2")


def test_power__does_not_take_a_test_that_failed_for_a_small_one(monkeypatch):
    failed = Measured(None, "error: the process died", 0.0, 0.0, 0, 0)
    monkeypatch.setattr(peers, "measure", lambda *given: failed)
    with pytest.raises(click.ClickException, match=f"{GAMMA} .* the process died"):
        peers._grown("generated", GAMMA, 50)


def test_songs__are_rows_of_the_table_standardised_where_asked():
    try:
        (x, y), (z, w) = (
            draw(300, np.random.default_rng(4)) for draw in (peers.songs, peers.songs_standardised)
        )
    except click.ClickException as error:
        pytest.skip(str(error))
    assert x.shape == (300, 90)
    assert y.shape == (300, 1)
    np.testing.assert_allclose(z, (x - x.mean(axis=0)) / x.std(axis=0))
    np.testing.assert_allclose(w.std(), 1.0)
    permuted = peers.songs_permuted(300, np.random.default_rng(4))
    assert np.array_equal(permuted[0], x)
    assert not np.array_equal(permuted[1], y)
    assert np.array_equal(np.sort(permuted[1], axis=0), np.sort(y, axis=0))
