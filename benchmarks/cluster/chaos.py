"""Faults of a cluster at random: a run ends with the same bits or in one clear error, in time.

Of every fault the kind goes by its number and the rest is drawn: at which block of a run it
strikes, whom, and for how long. The scheduler, the workers and the client are processes of this
machine. A run that was killed with its client or its scheduler is run again from its checkpoint.
`same` counts runs that ended with the bits of the quiet run, at once or from their checkpoint,
`error` those that ended in one clear error, `struck` those that the fault found under way, and
`wrong` names the others by their numbers.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import forkserver
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, get_client
from distributed.core import Status

import dhsic
from benchmarks.study import Cell, Row, Study
from dhsic.engine.events import BlockFinished
from dhsic.errors import DhsicError

_ROWS, _BLOCKS, _BLOCK_SECONDS = 40_960, 20, 0.02
_NESTED = 4
_READY_SECONDS, _AGAIN_SECONDS = 600.0, 60.0
_WAIT, _DEADLINE = 10.0, 300.0
"""Seconds that a cluster may be without a worker, and in which a run must end."""
# Processes are forked from one that has loaded everything: many die, and starts are dear.
_PROCESSES = multiprocessing.get_context("forkserver")
_LOADED = ["dask.array", "dhsic", "dhsic.cluster", "distributed", "scipy.linalg", "scipy.spatial"]

Bits = tuple[float, ...]


# --- what runs, in processes of clients


def slow(block: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A block that comes late, so that a fault finds the run under way."""
    time.sleep(_BLOCK_SECONDS)
    return block


def one_test(client: Any, kept: str | None, tell: Callable[[object], None]) -> Bits:
    """Several passes over slow blocks."""
    values = np.random.default_rng(0).standard_normal((2, _ROWS, 2))
    x, y = (da.from_array(one, chunks=(_ROWS // _BLOCKS, 2)).map_blocks(slow) for one in values)
    found = dhsic.independence_test(
        x,
        x[:, :1] + 4.0 * y,
        kernels="gaussian",
        estimator=dhsic.NystromMHSIC(n_landmarks=30),
        null="spectral",
        rng=0,
        progress=tell,
        checkpoint=kept,
        **({"threads": 1} if client is None else {"client": client}),
    )
    assert found.null_distribution is not None
    return found.statistic, found.pvalue, *map(float, found.null_distribution)


def small_test(seed: int, client: Any = None) -> float:
    """The p-value of a test, in a task of the cluster that it runs on."""
    x, y = np.random.default_rng(seed).standard_normal((2, 300))
    here = get_client() if client is None else None
    return float(dhsic.independence_test(x, y, rng=seed, client=here).pvalue)


def nested_tests(client: Any, kept: str | None, tell: Callable[[object], None]) -> Bits:
    """Tests in tasks, more of them than the cluster has threads."""
    del kept, tell
    return tuple(client.gather(client.map(small_test, range(_NESTED), pure=False)))


def as_client(pipe: Any, address: str, work: Callable[..., Bits], kept: str, wait: float) -> None:
    """Run on a cluster, tell of every block, and then of the end."""
    done = 0

    def tell(event: object) -> None:
        nonlocal done
        if isinstance(event, BlockFinished):
            done += 1
            pipe.send(("block", done))

    logging.disable(logging.CRITICAL)
    try:
        with dask.config.set({"dhsic.stall-timeout": wait}):
            client = Client(address, set_as_default=False, timeout=_READY_SECONDS)
            pipe.send(("end", "result", work(client, kept, tell)))
    except DhsicError as error:
        pipe.send(("end", "error", str(error)))
    except Exception as error:
        pipe.send(("end", "traceback", f"{type(error).__name__}: {error}"))
    os._exit(0)  # a client is not closed where its scheduler is frozen


@dataclass
class Run:
    """A client at work, seen from outside."""

    process: Any
    pipe: Any
    ended: tuple[str, Any] | None = None

    @classmethod
    def start(cls, cluster: Cluster, work: Callable[..., Bits], kept: str, wait: float) -> Run:
        ours, theirs = _PROCESSES.Pipe()
        arguments = theirs, cluster.address, work, kept, wait
        process = _PROCESSES.Process(target=as_client, args=arguments)
        process.start()
        theirs.close()
        return cls(process, ours)

    def reaches(self, block: int, until: float) -> bool:
        """Wait for so many blocks; False where the run ends before."""
        while self.ended is None and self.pipe.poll(max(0.0, until - time.monotonic())):
            try:
                kind, *said = self.pipe.recv()
            except EOFError:
                self.ended = "killed", ""
                return False
            if kind == "end":
                self.ended = said[0], said[1]
            elif said[0] >= block:
                return True
        return False

    def end(self, until: float) -> tuple[str, Any]:
        """How it ended; where it has not in time, that it hangs. It is gone afterwards."""
        self.reaches(10**9, until)
        self.kill()
        return self.ended or ("hang", "")

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


# --- clusters, whose scheduler is one process


def pause(dask_worker: Any) -> None:
    """As a worker does whose memory is full."""
    dask_worker.memory_manager.memory_pause_fraction = 1e-9
    dask_worker.status = Status.paused


def ready(client: Any) -> bool:
    """Whether there are two workers soon: a nanny gives up one that dies while it starts."""
    with suppress(TimeoutError):
        client.wait_for_workers(2, timeout=_AGAIN_SECONDS)
        return True
    return False


def as_host(pipe: Any, ttl: float) -> None:
    """Hold a cluster of two workers, and do what is asked for."""
    settings = {
        "distributed.worker.multiprocessing-method": "forkserver",
        "distributed.scheduler.worker-ttl": f"{ttl} s",
    }
    logging.disable(logging.CRITICAL)
    _PROCESSES.set_forkserver_preload(_LOADED)
    forkserver.ensure_running()  # of this process, before Dask lets it load less
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        answers: dict[str, Callable[[], Any]] = {
            "address": lambda: cluster.scheduler_address,
            "workers": lambda: [nanny.pid for nanny in cluster.workers.values() if nanny.pid],
            "pause": lambda: bool(client.run(pause)),
            "retire": lambda: cluster.scale(0),
            "ready": lambda: ready(client),
        }
        with suppress(EOFError):
            while True:
                pipe.send(answers[pipe.recv()]())


@dataclass
class Cluster:
    """A cluster, seen from outside."""

    process: Any
    pipe: Any
    address: str
    spoilt: bool = False
    seen: set[int] = field(default_factory=set)

    @classmethod
    def start(cls, ttl: float) -> Cluster:
        ours, theirs = _PROCESSES.Pipe()
        process = _PROCESSES.Process(target=as_host, args=(theirs, ttl))
        process.start()
        theirs.close()
        made = cls(process, ours, "")
        made.address = made.ask("address")
        return made

    def ask(self, what: str) -> Any:
        self.pipe.send(what)
        if not self.pipe.poll(_READY_SECONDS):
            msg = f"the cluster does not answer to {what!r}"
            raise TimeoutError(msg)
        return self.pipe.recv()

    def workers(self) -> list[int]:
        """Processes of the workers that run now."""
        found: list[int] = self.ask("workers")
        self.seen.update(found)
        return found

    def kill(self) -> None:
        """End it, with workers that are stopped."""
        with suppress(OSError, EOFError, TimeoutError):
            if self.process.is_alive() and not self.spoilt:
                self.workers()
        self.process.kill()
        self.process.join()
        for one in self.seen:
            send(one, signal.SIGKILL)


def send(process: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, number)


# --- faults


@dataclass
class Fault:
    """One fault: what it strikes, and what it draws from."""

    number: int
    rng: np.random.Generator
    cluster: Cluster
    run: Run

    def victim(self) -> int:
        workers = self.cluster.workers()
        return int(self.rng.choice(workers)) if workers else 0

    def blows(self) -> Iterator[None]:
        """Several, with pauses between them."""
        for _ in range(self.rng.integers(1, 4)):
            yield
            time.sleep(self.rng.uniform(0.0, 0.5))


def kill_workers(fault: Fault) -> None:
    for _ in fault.blows():
        if victim := fault.victim():
            send(victim, signal.SIGKILL)


def kill_all_workers(fault: Fault) -> None:
    for one in fault.cluster.workers():
        send(one, signal.SIGKILL)


def stop_workers(fault: Fault) -> None:
    for _ in fault.blows():
        if victim := fault.victim():
            send(victim, signal.SIGSTOP)
            time.sleep(fault.rng.uniform(0.1, 2.0))
            send(victim, signal.SIGCONT)


def freeze_worker(fault: Fault) -> None:
    send(fault.victim(), signal.SIGSTOP)
    fault.cluster.spoilt = True


def freeze_all_workers(fault: Fault) -> None:
    for one in fault.cluster.workers():
        send(one, signal.SIGSTOP)
    fault.cluster.spoilt = True


def pause_all_workers(fault: Fault) -> None:
    fault.cluster.ask("pause")
    fault.cluster.spoilt = True


def freeze_scheduler(fault: Fault) -> None:
    fault.cluster.workers()  # to be ended without it
    fault.cluster.spoilt = True
    send(fault.cluster.process.pid, signal.SIGSTOP)


def kill_scheduler(fault: Fault) -> None:
    fault.cluster.kill()
    fault.cluster.spoilt = True


def kill_client(fault: Fault) -> None:
    fault.run.kill()


def lose_results(fault: Fault) -> None:
    """All workers are gone between the last task and its fetch; in half of the cases for good."""
    if fault.rng.random() < 0.5:
        kill_all_workers(fault)
        return
    fault.cluster.workers()
    fault.cluster.ask("retire")
    fault.cluster.spoilt = True


@dataclass(frozen=True)
class Kind:
    """What is done to which run."""

    strike: Callable[[Fault], None]
    work: Callable[..., Bits] = one_test
    last: bool = False
    resumed: bool = False


KINDS = {
    "workers killed": Kind(kill_workers),
    "workers stopped for a while": Kind(stop_workers),
    "a worker frozen": Kind(freeze_worker),
    "all workers frozen": Kind(freeze_all_workers),
    "all workers paused": Kind(pause_all_workers),
    "all workers gone before the fetch": Kind(lose_results, last=True),
    "scheduler frozen": Kind(freeze_scheduler),
    "scheduler killed": Kind(kill_scheduler, resumed=True),
    "client killed": Kind(kill_client, resumed=True),
    "workers killed under nested tests": Kind(kill_workers, nested_tests),
}


class Trials:
    """Strikes with one fault after the other, on one cluster as long as it works."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.current: Cluster | None = None
        _PROCESSES.set_forkserver_preload(_LOADED)
        events: list[object] = []
        test = one_test(None, None, events.append)
        self.blocks = sum(isinstance(event, BlockFinished) for event in events)
        nested = tuple(small_test(seed, client="here") for seed in range(_NESTED))
        self.quiet = {one_test: test, nested_tests: nested}

    def cluster(self) -> Cluster:
        """One with two workers that work."""
        while self.current is None or self.current.spoilt or not self.current.ask("ready"):
            self.end()
            self.current = Cluster.start(_WAIT)
        return self.current

    def end(self) -> None:
        if self.current is not None:
            self.current.kill()
            self.current = None

    def __call__(self, kind: Kind, number: int) -> dict[str, Any]:
        """What came of a fault."""
        rng, kept = np.random.default_rng(number), self.folder / f"{number}"
        with self._started(kind, kept) as (cluster, run):
            block = self.blocks if kind.last else int(rng.integers(1, self.blocks))
            until = time.monotonic() + _READY_SECONDS
            if kind.work is one_test:
                struck = run.reaches(block, until)
            else:
                struck = not run.reaches(1, time.monotonic() + rng.uniform(0.0, 1.5))
            began = time.monotonic()
            if struck:
                kind.strike(Fault(number, rng, cluster, run))
            how, said = run.end(time.monotonic() + _DEADLINE)
            seconds = time.monotonic() - began
        outcome = self._outcome(kind, how, said)
        cluster.spoilt |= outcome != "identical"
        again = self._again(kind, kept) if kind.resumed else ""
        return {
            "number": number,
            "struck": struck,  # a run may end before, as where the machine is overloaded
            "same": "identical" in (outcome, again),
            "error": outcome == "error" and again in ("", "identical"),
            "seconds": seconds,
        }

    @contextmanager
    def _started(self, kind: Kind, kept: Path) -> Iterator[tuple[Cluster, Run]]:
        cluster = self.cluster()
        run = Run.start(cluster, kind.work, str(kept), _WAIT)
        try:
            yield cluster, run
        finally:
            run.kill()

    def _outcome(self, kind: Kind, how: str, said: Any) -> str:
        if how == "result":
            return "identical" if said == self.quiet[kind.work] else "different"
        return "error" if how == "killed" and kind.strike is kill_client else how

    def _again(self, kind: Kind, kept: Path) -> str:
        """What comes of going on from a checkpoint, on a cluster that works."""
        with self._started(kind, kept) as (_, run):
            how, said = run.end(time.monotonic() + _DEADLINE)
        return self._outcome(kind, how, said)


@cache
def trials() -> Trials:
    """Those of this process."""
    made = Trials()
    Finalize(None, made.end, exitpriority=10)
    return made


def measure(cell: Cell, run: int) -> dict[str, Any]:
    """One fault."""
    number = run * len(KINDS) + list(KINDS).index(cell.method)
    return trials()(cell.test, number)


def counts(cell: Cell, found: Sequence[Row]) -> Iterator[Row]:
    """How faults of a kind ended."""
    same = sum(one["same"] for one in found)
    errors = sum(one["error"] and not one["same"] for one in found)
    yield {
        "struck": sum(one["struck"] for one in found),
        "same": same,
        "error": errors,
        "wrong": " ".join(
            str(one["number"]) for one in found if not one["same"] and not one["error"]
        ),
        "longest seconds": max(one["seconds"] for one in found),
    }


STUDY = Study(
    name="chaos",
    title="Is a run that lost workers, scheduler or client the same to the bit?",
    data={"two workers": None},
    methods=KINDS,
    sizes=(_ROWS,),
    measure=measure,
    columns=("struck", "same", "error", "wrong", "longest seconds"),
    runs=50,
    rows=counts,
    small={"methods": ["workers killed"]},
)
