"""Parts of a pass that a checkpoint keeps: written, taken from there, and made again if broken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from dhsic.engine.checkpoint import MissingShardError, Shards
from dhsic.engine.compute import Job, as_task, compute, held
from dhsic.engine.reduction import Partial
from dhsic.engine.runtime import Runtime

Numbers = frozenset[int]


class Sharded(Protocol):
    """Shared input of tasks, with the shards of their pass."""

    @property
    def shards(self) -> Shards | None:
        """Where they are kept, if anywhere."""
        ...


def compute_missing(
    job: Callable[[Numbers], Job],
    shards: Shards | None,
    runtime: Runtime,
    tell: Callable[[int], None],
) -> list[Any]:
    """Wanted parts of a job, given the shards that are there; broken ones are computed again."""
    # Until nothing is broken: every turn removes at least one broken shard.
    while True:
        there = shards.present() if shards is not None else frozenset()
        try:
            return compute(job(there), runtime, tell)
        except MissingShardError as missing:
            assert shards is not None
            others = there - {missing.number}
            # All that are broken are found at once, or each would end the job once more.
            for broken in [missing, *_broken_shards(shards, others, runtime)]:
                shards.drop(broken)


def _broken_shards(shards: Shards, numbers: Numbers, runtime: Runtime) -> list[MissingShardError]:
    """Those of some shards that cannot be used, read where the tasks are."""
    shared, look = held(shards, runtime), as_task(_missing_shard)
    looks = [look(shared, number) for number in sorted(numbers)]
    answers = compute(Job([], [], looks), runtime, lambda amount: None) if looks else []
    return [missing for missing in answers if missing is not None]


def keep_shard(of: Sharded, number: int, partial: Partial[Any]) -> Partial[Any]:
    """Write a shard, and pass it on."""
    assert of.shards is not None
    of.shards.write(number, partial)
    return partial


def load_shard(of: Sharded, number: int) -> Partial[Any]:
    """Read a shard."""
    assert of.shards is not None
    return of.shards.load(number)


def _missing_shard(shards: Shards, number: int) -> MissingShardError | None:
    try:
        shards.load(number)
    except MissingShardError as missing:
        return missing
    return None
