"""What a run tells, and how it is written."""

import json

import numpy as np
import pytest

import dhsic
from dhsic.engine.events import (
    BlockFinished,
    PassFinished,
    PassStarted,
    RunStarted,
    StepStarted,
    as_json,
)

X, Y = np.random.default_rng(5).standard_normal((2, 5000))
SUMS = PassStarted("sums", 4, 4000, bytes_read=32_000, resumed=1000, resumed_parts=1)
EVENTS = [
    RunStarted(4000, ("x", "y"), (SUMS,), 2, 4, 10**8, 10**9),
    SUMS,
    BlockFinished("sums", 1000, "pairs of rows"),
    StepStarted("solve"),
    PassFinished("sums", 4, 4000, 32_000, 1.0, 2.0, "resamples"),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_as_json__keeps_every_field(event):
    written = json.loads(json.dumps(as_json(event)))
    kind = written.pop("event")
    assert kind.replace("-", "") == type(event).__name__.lower()
    assert written == json.loads(json.dumps(vars(event), default=vars))


def test_as_json__names_every_kind_differently():
    assert len({as_json(event)["event"] for event in EVENTS}) == len(EVENTS)


@pytest.mark.parametrize(
    ("options", "unit"),
    [
        ({"null": "multiplier"}, "rows"),
        ({"estimator": "v-hsic", "null": "multiplier", "kernels": "gaussian"}, "pairs of rows"),
    ],
)
def test_parts__are_as_many_as_blocks_finish(options, unit):
    told = []
    dhsic.independence_test(X, Y, rng=0, n_resamples=20, threads=2, progress=told.append, **options)
    for started in (event for event in told if isinstance(event, PassStarted)):
        assert started.unit == unit
        finished = [e for e in told if isinstance(e, BlockFinished) and e.name == started.name]
        assert len(finished) == started.parts > 1
        assert sum(event.amount for event in finished) == started.amount


def test_run__starts_with_what_was_planned():
    told = []
    options = {"estimator": "nystrom-m", "null": "multiplier", "n_resamples": 20}
    options |= {"threads": 2, "names": ["a", "b"]}
    dhsic.independence_test(X, Y, rng=0, progress=told.append, **options)
    plan = dhsic.plan(X, Y, **options)
    first = told[0]
    assert (first.n, first.variables) == (5000, ("a", "b"))
    assert first.passes == tuple(e for e in told if isinstance(e, PassStarted))
    assert [started.bytes_read for started in first.passes] == [2 * 8 * 5000] * 2
    assert (first.workers, first.threads) == (1, 2)
    assert first.driver_bytes == pytest.approx(plan.peak_driver_bytes, rel=0.1)
    assert first.worker_bytes == first.driver_bytes
    assert sum(isinstance(event, RunStarted) for event in told) == 1


def test_estimate__tells_of_its_run_too():
    told = []
    dhsic.hsic(X, Y, rng=0, threads=2, progress=told.append)
    assert isinstance(told[0], RunStarted)
    assert told[0].passes == tuple(e for e in told if isinstance(e, PassStarted))


def test_run__that_is_refused_never_starts():
    told = []
    with pytest.raises(dhsic.errors.MemoryBudgetError):
        dhsic.independence_test(X, Y, rng=0, memory="1MiB", progress=told.append)
    assert told == []
