"""Shards that are torn, altered or gone are computed again, and said so."""

from itertools import count

import pytest

from dhsic.engine.checkpoint import CheckpointWarning, Shards
from dhsic.engine.events import PassStarted
from tests.engine.kept import Kept, N, go, mapped, opened, shard_files
from tests.engine.toys import bits, even_bounds, on, threads


def damage(path, how):
    data = path.read_bytes()
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(
            {
                "empty": b"",
                "half": data[: len(data) // 2],
                "short": data[:-1],
                "long": data + b"x",
                "flipped": data[:-9] + bytes([data[-9] ^ 4]) + data[-8:],
            }[how]
        )


@pytest.mark.parametrize("how", ["empty", "half", "short", "long", "flipped"])
@pytest.mark.parametrize("place", ["threads", "client"])
def test_run_pass__computes_a_broken_shard_again(how, place, folder, request):
    runtime = threads(2) if place == "threads" else on(request.getfixturevalue("client"))
    bounds = even_bounds(N, 12)
    quiet = go(Kept(), bounds, opened(folder))
    for number in (3, 7):
        damage(shard_files(folder)[number], how)
    events = []
    with pytest.warns(CheckpointWarning, match="cannot be used and is computed again") as caught:
        again = go(Kept(), bounds, opened(folder), runtime, listener=events.append)
    assert bits(again) == bits(quiet)
    assert len(caught) == 2
    assert "\n" not in str(caught[0].message)
    started = [event for event in events if isinstance(event, PassStarted)]
    assert [event.resumed_parts for event in started] == [12, 10]
    Kept.chunks.clear()
    assert bits(go(Kept(), bounds, opened(folder))) == bits(quiet)
    assert Kept.chunks == []


@pytest.mark.parametrize("place", ["threads", "client"])
def test_run_map__computes_all_broken_shards_at_once(place, squares, folder, request):
    runtime = threads(2) if place == "threads" else on(request.getfixturevalue("client"))
    quiet = mapped(squares, opened(folder))
    for number, how in enumerate(("half", "flipped", "empty", "flipped"), start=5):
        damage(shard_files(folder)[number], how)
    started = []
    with pytest.warns(CheckpointWarning) as caught:
        again = mapped(squares, opened(folder), runtime, started.append)
    assert bits(again) == bits(quiet)
    named = sorted(str(warning.message).partition("/shard-")[2][:4] for warning in caught)
    assert named == ["0005", "0006", "0007", "0008"]
    parts = [event.resumed_parts for event in started if isinstance(event, PassStarted)]
    assert parts == [32, 28]


def test_run_pass__does_not_take_one_shard_for_another(folder):
    bounds = even_bounds(N, 12)
    quiet = go(Kept(), bounds, opened(folder))
    first, second = shard_files(folder)[:2]
    first.write_bytes(second.read_bytes())
    with pytest.warns(CheckpointWarning, match="another one"):
        assert bits(go(Kept(), bounds, opened(folder))) == bits(quiet)


def test_shards__gone_between_list_and_load_are_computed(folder, monkeypatch):
    bounds = even_bounds(N, 12)
    quiet = go(Kept(), bounds, opened(folder))
    present, calls = Shards.present, count()

    def vanishing(self):
        found = present(self)
        if next(calls) == 0:
            damage(shard_files(folder)[5], "gone")
        return found

    monkeypatch.setattr(Shards, "present", vanishing)
    with pytest.warns(CheckpointWarning, match="it is gone"):
        assert bits(go(Kept(), bounds, opened(folder))) == bits(quiet)


def test_run_pass__ignores_what_is_half_written_and_what_is_foreign(folder):
    bounds = even_bounds(N, 4)
    quiet = go(Kept(), bounds, opened(folder))
    last = shard_files(folder)[-1]
    last.rename(last.with_name(f".{last.name}.0123abcd.partial"))
    for name in ("shard-0004", "shard-9999", "shard-x", "notes.txt"):
        (last.parent / name).write_bytes(b"?")
    Kept.chunks.clear()
    assert bits(go(Kept(), bounds, opened(folder))) == bits(quiet)
    assert len(Kept.chunks) == 1
