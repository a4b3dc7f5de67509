"""`dhsic plan` takes the options of `dhsic test` and starts nothing."""

from pathlib import Path

import pytest

from dhsic._work import REFERENCE
from dhsic.cli import main
from dhsic.engine.rates import machine_of
from tests.cli.conftest import Invoke

PAIR = ("--variable", "features", "--variable", "year")


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dhsic.engine.session.run_pass", lambda *_, **__: pytest.fail("it ran"))
    monkeypatch.setattr(
        "dhsic.cluster.connection.local_cluster", lambda *_: pytest.fail("it started")
    )


def test_says_what_would_run(invoke: Invoke, long_data: str) -> None:
    done = invoke("plan", long_data, *PAIR)
    assert (done.exit_code, done.stderr) == (0, "")
    for words in ("20,000 rows of features, year", "256 landmarks", "shifts", "allowed"):
        assert words in done.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--threads", 3), "3 threads of this process"),
        (("--workers", 3), "3 workers with 3 threads in all"),
        (("--landmarks", 77), "77 landmarks before pruning"),
        (("--memory", "1GiB"), "allowed 1.0 GiB"),
        (("--time", "0.01s", "--threads", 1), "64 landmarks before pruning"),
        (("--null", "multiplier"), "multiplier null"),
        (("--null", "permutation", "--within", "groups"), "permutation null: 5 blocks"),
        (("--null", "permutation", "--within", "all"), "permutation null: 1 block"),
        (("--estimator", "v-hsic"), "driver  statistics"),
        (("--estimator", "v-hsic", "--null", "gamma", "--threads", 1), "1 thread of this process"),
        (("--null", "gamma"), "feature moments"),
        (("--estimator", "nystrom-m", "--null", "spectral"), "spectral null"),
        (("--null", "permutation", "--within", "groups", "--group-rows", 5000), "5,000 rows"),
    ],
)
def test_follows_the_options(
    invoke: Invoke, long_data: str, options: tuple[object, ...], words: str
) -> None:
    done = invoke("plan", long_data, *PAIR, *options)
    assert done.exit_code == 0, done.stderr
    assert words in done.stdout
    assert words not in invoke("plan", long_data, *PAIR).stdout or options[1] == "multiplier"


def test_smaller_tiles_and_fewer_resamples_need_less(invoke: Invoke, long_data: str) -> None:
    plans = [
        invoke("plan", long_data, *PAIR, "--threads", 1, *options).stdout.split("shifts")[1]
        for options in ((), ("--precision", "float32"), ("--resamples", 20))
    ]
    assert len(set(plans)) == 3


def test_what_does_not_fit_is_shown_and_refused(invoke: Invoke, long_data: str) -> None:
    done = invoke("plan", long_data, *PAIR, "--memory", "20MiB")
    assert done.exit_code == 2
    assert "allowed 20.0 MiB" in done.stdout
    assert "more memory" in done.stderr


def test_accepts_every_option_of_test(invoke: Invoke, long_data: str, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    done = invoke("plan", long_data, *PAIR, "--seed", 3, "--alpha", 0.1, "--json", path)
    assert done.exit_code == 0
    assert not path.exists()
    own = {p.name for p in main.commands["plan"].params}
    assert own - {p.name for p in main.commands["test"].params} == {"calibrate"}
    assert {p.name for p in main.commands["test"].params} <= own


@pytest.mark.parametrize("where", [("--threads", 2), ("--workers", 2)])
def test_tells_the_seconds_of_this_machine_and_measures_anew_where_asked(
    invoke: Invoke,
    long_data: str,
    where: tuple[object, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured: list[int] = []

    def faked() -> dict[str, float]:
        measured.append(1)
        return {kind: len(measured) * seconds for kind, seconds in REFERENCE.seconds.items()}

    monkeypatch.delenv("DHSIC_RATES")
    monkeypatch.setattr("dhsic.engine.rates.measure", faked)
    monkeypatch.setattr("dhsic.engine.rates.user_cache_path", lambda *_, **__: tmp_path / "cache")
    asked = ("plan", long_data, *PAIR, *where)
    lines = [
        next(line for line in invoke(*one).stdout.splitlines() if "of one thread" in line)
        for one in (asked, asked, (*asked, "--calibrate"), asked)
    ]
    assert len(measured) == 2
    assert lines[0] == lines[1] != lines[2] == lines[3]
    assert machine_of()["processor"] in lines[0]


@pytest.mark.parametrize("command", ["plan", "two-sample", "interaction"])
def test_calibrate_is_an_option_of_every_plan_of_a_test(invoke: Invoke, command: str) -> None:
    assert "--calibrate" in invoke(command, "--help").stdout


@pytest.mark.parametrize(
    "asked",
    [
        ("two-sample", "--sample", "features", "--sample", "year"),
        ("interaction", *PAIR, "--variable", "features"),
    ],
)
def test_calibrate_without_a_plan_is_refused(
    invoke: Invoke, long_data: str, asked: tuple[str, ...]
) -> None:
    command, *variables = asked
    done = invoke(command, long_data, *variables, "--calibrate")
    assert done.exit_code == 2
    assert "--calibrate is for plans, got a test to run: add --plan" in done.stderr
