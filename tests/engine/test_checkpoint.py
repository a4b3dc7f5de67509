"""Checkpoints: which states and folders they take, and one manifest for all who start."""

import json
import threading
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dhsic.engine.checkpoint import Checkpoint, Manifest, Shards
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.io.folder import Folder
from tests.engine.kept import Kept, N, NoLuckError, go, opened, shard_files
from tests.engine.toys import Sums, bits, even_bounds, on


def test_run_pass__refuses_a_state_that_cannot_be_kept(folder):
    with pytest.raises(TypeError, match=r"toys:Moments cannot be kept"):
        go(Sums(), even_bounds(N, 5), opened(folder))


@dataclass(frozen=True)
class Unsaid(Kept):
    ballast: object = None


def test_run_pass__refuses_a_reduction_that_fields_do_not_say(folder):
    with pytest.raises(TypeError, match="cannot be digested"):
        go(Unsaid(ballast=object()), even_bounds(N, 5), opened(folder))


def test_run_pass__says_that_a_worker_does_not_see_the_folder(client, folder):
    checkpoint = opened(folder)
    elsewhere = replace(checkpoint, manifest=replace(checkpoint.manifest, token="of another disk"))
    with pytest.raises(InvalidArgumentError, match="must be a folder that every worker sees"):
        go(Kept(), even_bounds(N, 5), elsewhere, on(client))
    assert shard_files(folder) == []


def test_run_pass__says_that_the_memory_of_this_process_is_not_seen(client):
    folder = Folder.at("memory://unseen/kept", "checkpoint")
    with pytest.raises(InvalidArgumentError, match="must be a folder that every worker sees"):
        go(Kept(), even_bounds(N, 5), opened(folder), on(client))


def test_run_pass__says_that_the_disk_refuses(folder, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    checkpoint = opened(folder)
    monkeypatch.setattr("os.replace", full)
    monkeypatch.setattr(Checkpoint, "shards", lambda self, *_: Shards(folder, "", "x", 5))
    monkeypatch.setattr(Shards, "check", lambda self: None)
    monkeypatch.setattr("dhsic.engine.checkpoint._refuse_other", lambda *_: None)
    folder.inner("x").make()
    with pytest.raises(DataError, match=r"cannot write to .*kept/x \(No space left on device\)"):
        go(Kept(), even_bounds(N, 5), checkpoint)


def test_checkpoint__in_an_object_store_goes_on():
    folder = Folder.at("memory://bucket/kept/", "checkpoint")
    bounds = even_bounds(N, 200)
    quiet = go(Kept(), bounds)
    Kept.chunks.clear()
    Kept.failing.append(90)
    with pytest.raises(NoLuckError):
        go(Kept(), bounds, opened(folder))
    Kept.chunks.clear()
    Kept.failing.clear()
    assert bits(go(Kept(), bounds, opened(folder))) == bits(quiet)
    assert len(Kept.chunks) == 200 - 88
    with pytest.raises(InvalidArgumentError, match="seed was 0 there and is 1 now"):
        opened(folder, seed=1)


def test_checkpoint__manifest_is_readable_and_the_same_for_all(folder):
    first, second = opened(folder), opened(folder)
    assert first == second
    found = json.loads((Path(folder.url) / "dhsic-checkpoint.json").read_text())
    assert found["run"]["seed"] == 0
    assert Manifest.read(folder) == first.manifest


def test_checkpoint__many_that_start_at_a_time_have_one_manifest(folder):
    tokens, barrier = [], threading.Barrier(8)

    def start():
        barrier.wait(30)
        tokens.append(opened(folder).manifest.token)

    threads_ = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads_:
        thread.start()
    for thread in threads_:
        thread.join(30)
    assert len(tokens) == 8
    assert len(set(tokens)) == 1


def test_checkpoint__of_different_runs_that_start_at_a_time_one_is_kept(folder):
    kept, others, barrier = [], [], threading.Barrier(4)

    def start(seed):
        barrier.wait(30)
        try:
            kept.append(opened(folder, seed=seed).manifest.run["seed"])
        except InvalidArgumentError as error:
            others.append(str(error))

    together = [threading.Thread(target=start, args=(seed,)) for seed in range(4)]
    for thread in together:
        thread.start()
    for thread in together:
        thread.join(30)
    assert len(kept) == 1
    assert len(others) == 3
    assert all(f"seed was {kept[0]} there and is" in message for message in others)
