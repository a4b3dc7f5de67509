"""Passes that are interrupted go on where they stopped, and give the same bits."""

import threading
from pathlib import Path

import dask.array as da
import pytest

from dhsic.engine.events import BlockFinished, PassStarted
from dhsic.engine.run import _leaves_of_shards, run_pass
from dhsic.io.folder import Folder
from dhsic.io.open import open_variables
from tests.engine.kept import Kept, KeptPairs, N, NoLuckError, X, Y, go, groups, opened, shard_files
from tests.engine.toys import bits, even_bounds, made, on, plan_of, threads

PLACES = [
    *((1, 0), (2, 1), (5, 0), (5, 4), (37, 18), (129, 3), (129, 4), (129, 64), (129, 128)),
    *((600, 0), (600, 15), (600, 16), (600, 299), (600, 599)),
]


@pytest.mark.parametrize(("blocks", "k"), PLACES)
def test_run_pass__goes_on_after_an_error(blocks, k, folder):
    bounds = even_bounds(N, blocks)
    quiet = go(Kept(), bounds)
    Kept.chunks.clear()
    Kept.failing.append(k)
    with pytest.raises(NoLuckError):
        go(Kept(), bounds, opened(folder))
    kept = [int(path.name[-4:]) for path in shard_files(folder)]
    assert len(kept) == k // len(groups(bounds)[0])
    done = {spans[0][0] for number in kept for spans in groups(bounds)[number]}
    Kept.chunks.clear()
    Kept.failing.clear()
    events = []
    again = go(Kept(), bounds, opened(folder), listener=events.append)
    assert bits(again) == bits(quiet)
    assert sorted(Kept.chunks) == sorted(set(bounds[:-1]) - done)
    started, finished = events[0], [e for e in events if isinstance(e, BlockFinished)]
    assert started.resumed_parts == len(done) == blocks - len(finished)
    assert started.resumed + sum(event.amount for event in finished) == N


def test_run_pass__does_nothing_where_all_is_kept(folder):
    quiet = go(Kept(), even_bounds(N, 200), opened(folder), threads(3))
    Kept.chunks.clear()
    assert bits(go(Kept(), even_bounds(N, 200), opened(folder))) == bits(quiet)
    assert Kept.chunks == []


@pytest.mark.parametrize("k", [0, 1, 128, 324])
def test_run_pass__of_pairs_goes_on_after_an_error(k, folder):
    bounds = even_bounds(N, 25)
    quiet = go(KeptPairs(), bounds)
    Kept.chunks.clear()
    Kept.failing.append(k)
    lazy = (X, da.from_array(Y, chunks=90))
    with pytest.raises(NoLuckError):
        go(KeptPairs(), bounds, opened(folder), data=lazy)
    Kept.chunks.clear()
    Kept.failing.clear()
    assert bits(go(KeptPairs(), bounds, opened(folder), data=lazy)) == bits(quiet)
    size = len(groups(bounds, pairs=True)[0])
    assert size == 4
    assert len(Kept.chunks) == 325 - k // size * size


class Stop:
    """A listener that raises at a block."""

    def __init__(self, at):
        self.at, self.blocks, self.started = at, 0, []

    def __call__(self, event):
        if isinstance(event, PassStarted):
            self.started.append(event)
        self.blocks += isinstance(event, BlockFinished)
        if self.blocks == self.at:
            raise KeyboardInterrupt


@pytest.mark.sampled(2)
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("kinds", "at"),
    [
        *((("numpy", "numpy"), at) for at in (1, 30, 60)),
        (("zarr", "dask"), 30),
        (("dask", "zarr"), 60),
    ],
)
def test_run_pass__goes_on_after_an_interrupt_on_a_client(client, kinds, at, folder, tmp_path):
    bounds = even_bounds(N, 60)
    quiet = go(Kept(), bounds)
    data = [made(kind, x, tmp_path) for kind, x in zip(kinds, (X, Y), strict=True)]
    with pytest.raises(KeyboardInterrupt):
        go(Kept(), bounds, opened(folder), on(client), data, Stop(at))
    seen = Stop(-1)
    assert bits(go(Kept(), bounds, opened(folder), on(client), data, seen)) == bits(quiet)
    assert seen.started[0].resumed_parts + seen.blocks == 60
    assert seen.started[0].resumed_parts > 0 or at == 1
    # The rest elsewhere: what a client began goes on on threads.
    Kept.chunks.clear()
    assert bits(go(Kept(), bounds, opened(folder))) == bits(quiet)
    assert Kept.chunks == []


def test_run_pass__on_a_client_leaves_the_shards_to_the_workers(client, folder, monkeypatch):
    bounds = even_bounds(N, 20)
    quiet = go(Kept(), bounds, opened(folder), on(client))
    assert len(shard_files(folder)) == 20
    read = []
    original = Folder.open
    monkeypatch.setattr(
        Folder, "open", lambda self, name: read.append(name) or original(self, name)
    )
    assert bits(go(Kept(), bounds, opened(folder), on(client))) == bits(quiet)
    assert set(read) == {"dhsic-checkpoint.json"}


def test_run_pass__keeps_each_pass_apart(folder):
    checkpoint, bounds = opened(folder), even_bounds(N, 8)
    first = go(Kept(), bounds, checkpoint)
    for other in (
        lambda: go(Kept(), even_bounds(N, 9), checkpoint),
        lambda: go(Kept(), (0, 1, *even_bounds(N, 8)[2:]), checkpoint),
        lambda: go(Kept(name="others"), bounds, checkpoint),
        lambda: go(Kept(row_multiple=2), bounds, checkpoint),
        lambda: run_pass(
            *(Kept(), open_variables([X, Y]), plan_of(bounds), threads(1), lambda e: None),
            finite=False,
            checkpoint=checkpoint,
        ),
    ):
        Kept.chunks.clear()
        other()
        assert len(Kept.chunks) >= 8
    Kept.chunks.clear()
    assert bits(go(Kept(), bounds, checkpoint)) == bits(first)
    assert Kept.chunks == []


def test_shards__are_few_and_whole_subtrees():
    for leaves, size, fan_in in [
        *((1, 1, 4), (128, 1, 4), (129, 4, 4), (512, 4, 4), (513, 16, 4), (10_000, 256, 4)),
        *((128, 1, 2), (129, 2, 2), (513, 8, 2)),
    ]:
        found = _leaves_of_shards([((i, i + 1),) for i in range(leaves)], fan_in)
        assert {len(group) for group in found[:-1]} <= {size}
        assert len(found) == -(-leaves // size) <= 128


def test_run_pass__several_at_a_time_share_a_checkpoint(folder):
    bounds = even_bounds(N, 40)
    quiet, found, failed = go(Kept(), bounds), [], []

    def work():
        try:
            for _ in range(2):
                found.append(bits(go(Kept(), bounds, opened(folder), threads(2))))
        except BaseException as error:
            failed.append(error)

    together = [threading.Thread(target=work) for _ in range(3)]
    for thread in together:
        thread.start()
    for thread in together:
        thread.join(200)
    assert failed == []
    assert found == [bits(quiet)] * 6
    assert len(shard_files(folder)) == 40


def test_run_pass__leaves_no_partial_files(folder):
    go(Kept(), even_bounds(N, 5), opened(folder))
    names = [path.name for path in Path(folder.url).rglob("*")]
    assert not [name for name in names if name.endswith(".partial")]
