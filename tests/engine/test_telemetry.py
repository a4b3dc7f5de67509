"""How far a run is, from what is told of it."""

import math
from dataclasses import replace

from dhsic.engine.events import (
    BlockFinished,
    PassFinished,
    PassStarted,
    RunStarted,
    StepStarted,
)
from dhsic.engine.telemetry import Position

SUMS = PassStarted("sums", 4, 4000, bytes_read=32_000)
NULL = PassStarted("null", 4, 4000)


def test_parts__of_pairs_are_those_of_blocks_with_each_other_and_themselves():
    assert (NULL.parts, PassStarted("pairs", 4, 8_002_000, "pairs of rows").parts) == (4, 10)


BLOCK = BlockFinished("sums", 1000)
RUN = RunStarted(4000, ("x", "y"), (SUMS, NULL), 2, 4, 10**8, 10**9)


def after(*told, start=None):
    """The position after events, each with its time."""
    position = start or Position()
    for event, now in told:
        position = position.after(event, now)
    return position


def test_position__counts_what_is_done_and_how_fast():
    half = after((RUN, 0.0), (SUMS, 1.0), (BLOCK, 2.0), (BLOCK, 5.0))
    assert (half.done, half.parts_done, half.number) == (2000, 2, 1)
    assert half.rate == 500.0
    assert half.byte_rate == 4000.0
    assert half.seconds_left(5.0) == 4.0
    assert half.seconds_left(6.5) == 2.5
    assert half.seconds_left(60.0) == 0.0


def test_position__knows_no_rate_before_the_first_block():
    begun = after((RUN, 0.0), (SUMS, 1.0))
    assert (begun.rate, begun.byte_rate, begun.seconds_left(3.0)) == (None, None, None)
    step = after((StepStarted("solve"), 2.0), start=begun)
    assert (step.name, step.amount, step.number) == ("solve", None, None)
    assert step.seconds_left(9.0) is None


def test_position__leaves_what_was_resumed_out_of_the_rate():
    resumed = replace(SUMS, resumed=2000, resumed_parts=2)
    position = after((RUN, 0.0), (resumed, 0.0), (BLOCK, 2.0))
    assert (position.done, position.parts_done, position.resumed) == (3000, 3, 2000)
    assert position.rate == 500.0
    assert position.seconds_left(2.0) == 2.0


def test_number__counts_planned_passes_over_data_alone():
    done = PassFinished("sums", 4, 4000, 0, 1.0, 1.0)
    numbers, position = [], Position()
    resamples = PassStarted("permutations", 4, 250, "resamples")
    unplanned = PassStarted("scan", 4, 4000)
    for event in (RUN, SUMS, done, resamples, done, StepStarted("solve"), NULL, done, unplanned):
        position = position.after(event, 0.0)
        numbers.append(position.number)
    assert numbers == [None, 1, 1, None, None, None, 2, 2, None]
    assert position.after(RUN, 0.0).after(SUMS, 0.0).number == 1


def test_number__stays_where_a_pass_is_started_again():
    again = after((RUN, 0.0), (SUMS, 0.0), (BLOCK, 1.0), (SUMS, 2.0))
    assert (again.number, again.done) == (1, 0)


def test_position__is_read_as_it_was_written():
    resumed = replace(SUMS, resumed=1000, resumed_parts=1)
    null = PassStarted("null", 4, 250, "resamples")
    for told in (
        ((RUN, 0.0), (SUMS, 1.0)),
        ((RUN, 0.0), (resumed, 1.0), (BLOCK, 3.0)),
        ((RUN, 0.0), (null, 1.0), (BlockFinished("null", 50), 2.0)),
    ):
        written = after(*told).as_json()
        read = Position.read("sums", written, 1000.0)
        assert read.as_json() == written
        assert (read.name, read.heard) == ("sums", 1000.0)


def test_position__is_json_without_numbers_that_json_lacks():
    for position in (Position(), after((RUN, 0.0), (SUMS, 0.0), (BLOCK, 0.0))):
        values = position.as_json().values()
        assert not any(isinstance(x, float) and not math.isfinite(x) for x in values)
    half = after((RUN, 0.0), (SUMS, 1.0), (BLOCK, 5.0)).as_json()
    assert half == {
        "pass": 1,
        "passes": 2,
        "parts": 4,
        "parts_done": 1,
        "amount": 4000,
        "done": 1000,
        "resumed": 0,
        "unit": "rows",
        "bytes_done": 8000,
        "per_second": 250.0,
        "bytes_per_second": 2000.0,
        "seconds_left": 12.0,
    }
