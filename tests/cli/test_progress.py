"""The words of the bar."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from dhsic._progress import Bar, progress_bar
from dhsic.engine.events import (
    BlockFinished,
    Event,
    PassFinished,
    PassStarted,
    RunStarted,
    StepStarted,
    Unit,
)

WIDTHS = (40, 80, 120)


class Clock:
    """Seconds that pass when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def bar(clock: Clock) -> Bar:
    return Bar(clock)


def shown(bar: Bar, width: int = 120) -> list[str]:
    """The lines that a terminal of this width has, where what is too long would wrap."""
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(bar)
    return [line.rstrip() for line in captured.get().splitlines()]


def run_to(bar: Bar, clock: Clock, unit: Unit = "rows", n: int = 200_000) -> None:
    """Hear a run of two passes up to a quarter of the first, ten seconds after its start."""
    hear = bar.listen()
    first = PassStarted("kernel sums", 32, n, unit, bytes_read=8 * n)
    run = RunStarted(n, ("x", "y"), (first, replace(first, name="multiplier null")), 4, 4, 0, 0)
    for event in (run, StepStarted("fetch landmarks"), first):
        hear(event)
    clock.now += 10.0
    hear(BlockFinished("kernel sums", n // 4, unit))


def test_bar__says_what_runs_how_far_it_is_and_how_fast(bar: Bar, clock: Clock) -> None:
    bar.workers = lambda: 4
    run_to(bar, clock)
    head, numbers = shown(bar)
    assert "kernel sums, pass 1 of 2 " in head
    assert head.endswith(" 25%  0:00:30 left")
    assert numbers == (
        "  50,000 of 200,000 rows, 5,000 rows/s, 4 workers, 39.1 KiB/s, 1 of 32 blocks"
    )
    clock.now += 7.0
    assert shown(bar)[0].endswith(" 25%  0:00:23 left")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("unit", ["rows", "pairs of rows", "resamples"])
@pytest.mark.parametrize("n", [1000, 20 * 10**9])
def test_bar__never_wraps(bar: Bar, clock: Clock, width: int, unit: Unit, n: int) -> None:
    bar.workers = lambda: 1000
    run_to(bar, clock, unit, n)
    lines = shown(bar, width)
    assert len(lines) == 2
    assert max(map(len, lines)) <= width
    if width >= 80:
        assert f" {unit}, " in lines[1]
        assert "/s, 1,000 workers" in lines[1]
        assert "left" in lines[0]


def test_bar__leaves_out_what_does_not_fit(bar: Bar, clock: Clock) -> None:
    run_to(bar, clock)
    assert shown(bar, 45)[1] == "  50,000 of 200,000 rows, 5,000 rows/s"
    assert shown(bar, 60)[1] == "  50,000 of 200,000 rows, 5,000 rows/s, 39.1 KiB/s"


def test_bar__counts_pairs_and_resamples_by_their_names(bar: Bar) -> None:
    hear = bar.listen()
    hear(PassStarted("sums", 8, 1000, "pairs of rows"))
    assert shown(bar)[1] == "  0 of 1,000 pairs of rows, 0 of 36 pairs of blocks"
    hear(PassStarted("null", 32, 250, "resamples"))
    head, numbers = shown(bar)
    assert " null " in head
    assert "pass" not in head
    assert numbers == "  0 of 250 resamples, 0 of 32 ranges"


def test_bar__says_what_was_done_before(bar: Bar, clock: Clock) -> None:
    hear = bar.listen()
    hear(PassStarted("sums", 4, 4000, resumed=3000, resumed_parts=3))
    clock.now = 10.0
    hear(BlockFinished("sums", 500))
    assert shown(bar)[0].endswith(" 87%  0:00:10 left")
    assert shown(bar)[1] == (
        "  3,500 of 4,000 rows, 50 rows/s, 4 of 4 blocks, 3,000 were done before"
    )


def test_bar__of_a_step_shows_the_time_it_takes(bar: Bar, clock: Clock) -> None:
    run_to(bar, clock)
    hear = bar.listen("independent: ")
    hear(PassFinished("kernel sums", 32, 200_000, 0, 1.0, 1.0))
    hear(StepStarted("solve"))
    clock.now += 61.0
    (head,) = shown(bar)
    assert "independent: solve" in head
    assert head.endswith(" 0:01:01")


@pytest.mark.parametrize(("workers", "words"), [(1, ", 1 worker"), (0, ", 0 workers"), (None, "")])
def test_bar__counts_workers_where_there_are_any(bar: Bar, workers: int | None, words: str) -> None:
    bar.listen()(PassStarted("sums", 0, 5))
    bar.workers = lambda: workers
    assert shown(bar)[1] == f"  0 of 5 rows{words}"


def test_bar__of_other_work_has_a_rate_too(bar: Bar, clock: Clock) -> None:
    bar.begin("converting", 10_000)
    clock.now = 4.0
    bar.at(2000)
    assert shown(bar)[0].endswith(" 20%  0:00:16 left")
    assert shown(bar)[1] == "  2,000 of 10,000 rows, 500 rows/s"


def test_large_amounts_are_short(bar: Bar, clock: Clock) -> None:
    run_to(bar, clock, "pairs of rows", 20 * 10**9)
    assert shown(bar)[1] == (
        "  5.0 of 20.0 billion pairs of rows, 500 million pairs/s, 3.7 GiB/s, "
        "1 of 528 pairs of blocks"
    )


def test_slow_work_has_digits(bar: Bar, clock: Clock) -> None:
    bar.begin("permuting", 10, "resamples")
    clock.now = 8.0
    bar.at(1)
    assert shown(bar)[1] == "  1 of 10 resamples, 0.12 resamples/s"


def test_bar__shows_a_pass_of_another_process(bar: Bar, clock: Clock) -> None:
    other = Bar(clock)
    run_to(other, clock)
    written = {**other.position.as_json(), "workers": 4}
    clock.now = 500.0
    bar.show("kernel sums", written)
    other.workers = lambda: 4
    assert shown(bar)[1] == shown(other)[1]
    assert shown(bar)[0].endswith(" 25%  0:00:30 left")
    assert "kernel sums, pass 1 of 2 " in shown(bar)[0]
    clock.now += 7.0
    bar.show("kernel sums", dict(written))
    assert shown(bar)[0].endswith(" 25%  0:00:23 left"), "nothing was heard since"
    bar.show("kernel sums", {**written, "done": 100_000})
    assert shown(bar)[0].endswith(" 50%  0:00:20 left")


def test_bar__without_a_terminal_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    events: tuple[Event, ...] = (PassStarted("sums", 1, 5), BlockFinished("sums", 5))
    with progress_bar() as bar:
        for event in events:
            bar.listen()(event)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


@pytest.mark.parametrize("wanted", [True, False])
def test_bar__is_drawn_on_a_terminal_unless_it_is_to_be_quiet(
    wanted: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_INTERACTIVE", "1")
    with progress_bar(shown=wanted) as bar:
        bar.begin("starting")
    assert ("starting" in capsys.readouterr().err) is wanted
