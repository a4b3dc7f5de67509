"""Runs on a cluster whose processes are killed: the result must be the same, bit by bit.

For every seed the command line runs a test on a scheduler and workers of its own, all on this
machine, with a checkpoint. Workers are killed and paused at random; at a random moment the client,
or for odd seeds the scheduler, is killed too. The same command is then run again, on the same
cluster or a new one, while workers go on being killed and paused. Its result is compared with that
of a quiet run. Writes benchmarks/results/chaos.csv, and goes on where it stopped; a file of other
options is refused.

    python benchmarks/chaos.py
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import click
import numpy as np
import psutil
from distributed import Client

from benchmarks.output import read_csv, write_csv
from dhsic.io.synthetic import generate

_PATIENCE = 600.0
_MOST_KILLS = 3  # of a run: a task that is under way while four workers die is given up by Dask
_ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


class HangError(Exception):
    """Something did not happen in time."""


def wait_for(what: str, condition: Callable[[], Any], seconds: float = _PATIENCE) -> Any:
    """The first true value of a condition."""
    until = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > until:
            raise HangError(what)
        time.sleep(0.02)
    return found


def end(process: subprocess.Popen[Any]) -> None:
    """Kill a process with all that it started."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                child.kill()
    process.kill()
    process.communicate()


@dataclass
class Cluster:
    """A scheduler and workers, each a process with another that starts it anew."""

    address: str
    scheduler: subprocess.Popen[Any]
    nannies: list[subprocess.Popen[Any]]

    def workers(self) -> list[psutil.Process]:
        """The processes that do the work, as far as they run now."""
        found = []
        for nanny in self.nannies:
            with suppress(psutil.NoSuchProcess):
                children = psutil.Process(nanny.pid).children()
                found += [child for child in children if "spawn_main" in " ".join(child.cmdline())]
        return found


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    """Start a cluster on this machine, which is gone when the block ends."""
    file = folder / f"scheduler-{time.monotonic_ns()}.json"
    dask = [sys.executable, "-m", "dask"]
    common = ["--host", "127.0.0.1", "--no-dashboard"]
    started: list[subprocess.Popen[Any]] = []

    def start(*command: str) -> subprocess.Popen[Any]:
        process = subprocess.Popen(
            [*dask, *command],
            env=_ENVIRONMENT,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        started.append(process)
        return process

    try:
        scheduler = start("scheduler", "--port", "0", *common, "--scheduler-file", str(file))
        address = wait_for("scheduler", lambda: _address(file))
        options = ["--nthreads", "1", "--memory-limit", "0", "--local-directory", str(folder)]
        nannies = [start("worker", address, *common, *options) for _ in range(workers)]
        made = Cluster(address, scheduler, nannies)
        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=_PATIENCE)
        yield made
    finally:
        for process in started:
            end(process)


def _address(file: Path) -> str | None:
    with suppress(OSError, ValueError):
        return str(json.loads(file.read_text())["address"])
    return None


@dataclass
class Chaos:
    """Kills and pauses workers at random, until it is stopped."""

    cluster: Cluster
    rng: np.random.Generator
    mean_seconds: float
    kills: int = 0
    pauses: int = 0
    _stopped: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Chaos:
        self._thread = threading.Thread(target=self._work)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._stopped.wait(self.rng.exponential(self.mean_seconds)):
            workers = self.cluster.workers()
            if not workers:
                continue
            victim = workers[self.rng.integers(len(workers))]
            with suppress(psutil.NoSuchProcess):
                if self.rng.random() < 0.5 and self.kills < _MOST_KILLS:
                    self.kills += 1
                    victim.kill()
                else:
                    self._pause(victim)

    def _pause(self, victim: psutil.Process) -> None:
        self.pauses += 1
        victim.suspend()
        try:
            self._stopped.wait(self.rng.uniform(0.1, 2.0))
        finally:
            victim.resume()


@dataclass(frozen=True)
class Trial:
    """The command that is run, and where."""

    folder: Path
    options: tuple[str, ...]

    def start(self, name: str, *where: str, kept: Path | None = None) -> subprocess.Popen[str]:
        """Run the command line; its result goes to a file of that name."""
        checkpoint = () if kept is None else ("--checkpoint", str(kept))
        command = [sys.executable, "-m", "dhsic.cli", "test", *self.options, *checkpoint, *where]
        return subprocess.Popen(
            [*command, "--json", str(self.folder / name)],
            env=_ENVIRONMENT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, process: subprocess.Popen[str], code: int = 0) -> str:
        """What it said on stderr, once it has ended with that code."""
        try:
            _, said = process.communicate(timeout=_PATIENCE)
        except subprocess.TimeoutExpired as error:
            end(process)
            msg = "client"
            raise HangError(msg) from error
        if process.returncode != code:
            msg = f"exit code {process.returncode}: {said}"
            raise RuntimeError(msg)
        return said

    def result(self, name: str) -> tuple[Any, ...]:
        """What must be the same, bit by bit: JSON keeps every digit."""
        found = json.loads((self.folder / name).read_text())
        return found["statistic"], found["pvalue"], found["null_distribution"]


def shards(kept: Path) -> int:
    """Parts of the run that are done."""
    return len(list(kept.glob("*/shard-*")))


def one_seed(
    trial: Trial, seed: int, workers: int, mean_seconds: float, total: int
) -> dict[str, Any]:
    """Interrupt a run and go on with it, and say what happened."""
    rng = np.random.default_rng(seed)
    kept, name = trial.folder / f"kept-{seed}", f"result-{seed}.json"
    ends = "scheduler" if seed % 2 else "client"
    wanted = int(rng.integers(1, total))
    row: dict[str, Any] = {"seed": seed, "killed": ends}

    def interrupted(on: Cluster) -> None:
        process = trial.start(name, "--scheduler", on.address, kept=kept)
        try:
            wait_for("a part", lambda: shards(kept) or process.poll() is not None)
            with Chaos(on, rng, mean_seconds) as chaos:
                wait_for("parts", lambda: shards(kept) >= wanted or process.poll() is not None)
                row["parts kept"] = shards(kept)
                killed = time.monotonic()
                (on.scheduler if ends == "scheduler" else process).kill()
                said = trial.finish(process, 2 if ends == "scheduler" else -signal.SIGKILL)
        finally:
            end(process)
        row.update(kills=chaos.kills, pauses=chaos.pauses)
        row["seconds to the error"] = time.monotonic() - killed if ends == "scheduler" else None
        if ends == "scheduler" and f"kept in {kept}" not in said:
            msg = f"the error does not name the checkpoint: {said}"
            raise RuntimeError(msg)

    def resumed(on: Cluster) -> None:
        began, before = time.monotonic(), shards(kept)
        process = trial.start(name, "--scheduler", on.address, kept=kept)
        try:
            wait_for("a part", lambda: shards(kept) > before or process.poll() is not None)
            with Chaos(on, rng, mean_seconds) as chaos:
                trial.finish(process)
        finally:
            end(process)
        row["kills"] += chaos.kills
        row["pauses"] += chaos.pauses
        row["seconds to resume"] = time.monotonic() - began

    with cluster(trial.folder, workers) as first:
        interrupted(first)
        if ends == "client":
            resumed(first)
    if ends == "scheduler":
        with cluster(trial.folder, workers) as second:
            resumed(second)
    row["parts of"] = total
    row["identical"] = trial.result(name) == trial.result("quiet.json")
    return row


def rows(trial: Trial, seeds: range, workers: int, mean_seconds: float) -> Iterator[dict[str, Any]]:
    trial.finish(trial.start("quiet.json", "--threads", "1", kept=trial.folder / "kept"))
    total = shards(trial.folder / "kept")
    for seed in seeds:
        try:
            yield one_seed(trial, seed, workers, mean_seconds, total)
        except (HangError, RuntimeError) as error:
            msg = f"seed {seed}: {type(error).__name__}: {error}"
            raise click.ClickException(msg) from error


def done(out: str, asked: dict[str, str]) -> list[Mapping[str, Any]]:
    """Rows of an earlier call with the same options; those of other options are refused."""
    before = read_csv(out)
    for row in before:
        for name, value in asked.items():
            if row.get(name) != value:
                msg = (
                    f"{out} must hold runs with the same options, and --{name} was "
                    f"{row.get(name, 'not written down')} there and is {value} now: take another "
                    "--out, or remove the file"
                )
                raise click.ClickException(msg)
    return before


@click.command(help=__doc__)
@click.option("--seeds", default=50)
@click.option("--workers", default=2)
@click.option("--rows", "n", default=100_000)
@click.option("--landmarks", default=300)
@click.option("--resamples", default=200)
@click.option("--every", "mean_seconds", default=1.5, help="Mean seconds between two blows.")
@click.option("--out", default="benchmarks/results/chaos.csv")
def main(
    seeds: int,
    workers: int,
    n: int,
    landmarks: int,
    resamples: int,
    mean_seconds: float,
    out: str,
) -> None:
    asked = {
        "workers": str(workers),
        "rows": str(n),
        "landmarks": str(landmarks),
        "resamples": str(resamples),
        "every": str(mean_seconds),
    }
    before = done(out, asked)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        data = folder / "data.zarr"
        generate(str(data), rows=n, features=8, dependence=0.1, seed=0)
        options = [str(data), "--variable", "features", "--variable", "year"]
        options += ["--kernel", "gaussian", "--null", "multiplier"]
        options += ["--landmarks", str(landmarks), "--resamples", str(resamples)]
        trial, left = Trial(folder, tuple(options)), range(len(before), seeds)
        new = (row | asked for row in rows(trial, left, workers, mean_seconds))
        write_csv(out, chain(before, new))
    differ = [row["seed"] for row in read_csv(out) if row["identical"] != "True"]
    if differ:
        msg = f"results of seeds {', '.join(differ)} differ"
        raise click.ClickException(msg)


if __name__ == "__main__":
    main()
