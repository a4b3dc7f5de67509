"""How quick a machine is: measured once, kept, and never in the way."""

import json
import threading
from concurrent.futures import Future
from types import SimpleNamespace

import numpy as np
import pytest

import dhsic
from dhsic._work import REFERENCE
from dhsic.cluster.local import PlannedWorkers
from dhsic.engine import rates
from dhsic.engine.rates import machine_of, measure, rates_of
from dhsic.engine.runtime import Runtime

HERE = Runtime.here(1, 2**31)


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """The numbers of measurements so far; rates are theirs, and are kept in a new folder."""
    count = []

    def faked():
        count.append(len(count) + 1)
        return dict.fromkeys(REFERENCE.seconds, 1e-3 * len(count))

    monkeypatch.delenv("DHSIC_RATES")
    monkeypatch.setattr(rates, "measure", faked)
    monkeypatch.setattr(rates, "user_cache_path", lambda *_, **__: tmp_path / "cache")
    return count


def kept(tmp_path):
    return sorted((tmp_path / "cache").iterdir())


def test_rates__are_measured_once_and_kept(measured, tmp_path):
    first, second = rates_of(HERE), rates_of(HERE)
    assert first == second
    assert (first.seconds["products"], measured) == (1e-3, [1])
    (file,) = kept(tmp_path)
    assert json.loads(file.read_text())["machine"] == machine_of()
    assert first.machine == machine_of()["processor"]


def test_rates__are_renewed_where_that_is_asked_for(measured, tmp_path):
    rates_of(HERE)
    assert rates_of(HERE, anew=True).seconds["calls"] == 2e-3
    assert rates_of(HERE).seconds["calls"] == 2e-3
    assert len(kept(tmp_path)) == 1


@pytest.mark.parametrize("what", ["numpy", "blas", "dhsic", "processor", "threads"])
def test_rates__of_another_library_or_processor_are_not_taken(
    measured, tmp_path, what, monkeypatch
):
    rates_of(HERE)
    other = {**machine_of(), what: "another"}
    monkeypatch.setattr(rates, "machine_of", lambda: other)
    assert rates_of(HERE).seconds["calls"] == 2e-3
    assert len(kept(tmp_path)) == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"machine": {}, "seconds": {}}',
        '{"machine": {}, "seconds": {"products": "quick"}}',
        json.dumps({"machine": {}, "seconds": dict.fromkeys(REFERENCE.seconds, 1e-3)}),
        json.dumps({"machine": machine_of(), "seconds": dict.fromkeys(REFERENCE.seconds, -1.0)}),
        json.dumps({"machine": machine_of(), "seconds": dict.fromkeys(REFERENCE.seconds, 1e9)}),
    ],
)
def test_rates__are_measured_again_where_the_file_is_broken(measured, tmp_path, text):
    rates_of(HERE)
    (file,) = kept(tmp_path)
    file.write_text(text)
    assert rates_of(HERE).seconds["calls"] == 2e-3
    assert json.loads(file.read_text())["seconds"]["calls"] == 2e-3


def test_rates__are_told_where_nothing_can_be_kept(measured, tmp_path):
    (tmp_path / "cache").write_text("a file")
    assert rates_of(HERE).seconds["calls"] == 1e-3
    assert rates_of(HERE).seconds["calls"] == 2e-3
    assert (tmp_path / "cache").read_text() == "a file"


def test_rates__are_written_whole_or_not_at_all(measured, tmp_path, monkeypatch):
    def fails(source, target):
        raise OSError

    monkeypatch.setattr(rates.os, "replace", fails)
    assert rates_of(HERE).seconds["calls"] == 1e-3
    assert kept(tmp_path) == []


def test_rates__are_those_of_the_reference_machine_where_that_is_set(measured, monkeypatch):
    monkeypatch.setenv("DHSIC_RATES", "reference")
    assert (rates_of(HERE), rates_of(HERE, anew=True)) == (REFERENCE, REFERENCE)
    assert measured == []


def test_rates__are_those_of_the_reference_machine_where_measuring_fails(measured, monkeypatch):
    def fails():
        raise RuntimeError

    monkeypatch.setattr(rates, "measure", fails)
    assert rates_of(HERE) is REFERENCE


def test_plans__tell_the_seconds_of_the_machine(measured):
    x = np.zeros((3000, 1))
    plan = dhsic.plan(x, x, kernels="gaussian", threads=1)
    assert measured == []
    assert plan.processor_seconds == plan.work.seconds(rates_of(HERE))
    assert f"at the rates of {machine_of()['processor']}" in str(plan)
    assert measured == [1]


def test_plans__are_calibrated_anew_where_that_is_asked_for(measured):
    x = np.zeros((3000, 1))
    plan = dhsic.plan(x, x, kernels="gaussian", threads=1)
    known, anew = plan.calibrated(anew=False), plan.calibrated()
    assert anew.processor_seconds == pytest.approx(2 * known.processor_seconds)
    assert measured == [1, 2]
    assert dhsic.plan(x, x, threads=1).measured == anew.measured


class FirstWorker:
    """A client that calls functions in a thread, and knows where it was told to."""

    status = "running"

    def __init__(self):
        self.submitted = []

    def nthreads(self):
        return {"tcp://b": 2, "tcp://a": 2}

    def submit(self, function, **how):
        self.submitted.append((function.__name__, how["workers"], how["allow_other_workers"]))
        future = Future()

        def call():
            try:
                future.set_result(function())
            except RuntimeError as error:
                future.set_exception(error)

        threading.Thread(target=call).start()
        return SimpleNamespace(result=future.result, cancel=lambda: None)


def test_rates__of_a_cluster_are_those_of_its_first_worker(measured):
    client = FirstWorker()
    runtime = Runtime(4, 2**31, 2, client)
    assert rates_of(runtime).seconds["calls"] == rates_of(runtime).seconds["calls"] == 1e-3
    first = ["tcp://a"], False
    assert client.submitted == [("machine_of", *first), ("faked", *first), ("machine_of", *first)]


def test_rates__of_workers_that_do_not_run_yet_are_those_of_this_machine(measured):
    runtime = Runtime(2, 2**31, 2, PlannedWorkers(2))
    assert rates_of(runtime) == rates_of(HERE)
    assert measured == [1]


def test_rates__are_measured_on_worker_processes(client, monkeypatch, tmp_path):
    monkeypatch.delenv("DHSIC_RATES")
    monkeypatch.setattr(rates, "user_cache_path", lambda *_, **__: tmp_path)
    found = rates_of(Runtime.on(client, 2**31))
    assert found.machine == machine_of()["processor"]
    assert set(found.seconds) == set(REFERENCE.seconds)
    assert len(list(tmp_path.iterdir())) == 1


def test_measure__finds_the_seconds_of_every_kind():
    found = measure()
    assert set(found) == set(REFERENCE.seconds)
    assert all(0.0 < seconds < np.inf for seconds in found.values())


def test_measure__is_slower_where_a_probe_is(monkeypatch):
    monkeypatch.setattr(rates, "_typical", lambda probe: 1.0)
    found = measure()
    twice = {kind: (make, seconds / 2) for kind, (make, seconds) in rates._PROBES.items()}
    monkeypatch.setattr(rates, "_PROBES", twice)
    assert measure() == {kind: 2 * seconds for kind, seconds in found.items()}


@pytest.mark.parametrize("odd", [0.0, -1e-3, 1.0])
def test_probe__takes_what_most_of_its_calls_take(odd, monkeypatch):
    """The clock of a virtual machine may stand still or go back, and other work comes between."""
    # The first call is not counted.
    seconds, now = iter([2e-3, 2e-3, odd, *[2e-3] * 40]), [0.0]

    def probe():
        now[0] += next(seconds)

    monkeypatch.setattr(rates, "time", SimpleNamespace(thread_time=lambda: now[0]))
    assert rates._typical(probe) == pytest.approx(2e-3)
