import os
import threading
from pathlib import Path

import pytest

from dhsic.io.whole import put_new, put_whole, write_whole


def test_a_file_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")

    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("forced", [True, False])
def test_a_file_of_parts_is_forced_where_it_is_asked_for(
    forced: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    monkeypatch.setattr("os.fsync", calls.append)
    put_whole(tmp_path / "a", [b"one", memoryview(b"two")], forced=forced)
    assert (tmp_path / "a").read_bytes() == b"onetwo"
    assert len(calls) == forced


def test_a_new_file_is_forced_before_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = []
    monkeypatch.setattr("os.fsync", lambda _: there.append((tmp_path / "a").exists()))
    put_new(tmp_path / "a", b"first")
    put_new(tmp_path / "a", b"second")
    assert there == [False, True]
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"first"


@pytest.mark.parametrize("links", [True, False], ids=["hard links", "none"])
def test_of_new_files_at_a_time_one_is_kept_for_all(
    links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    if not links:
        monkeypatch.setattr("os.link", refused)
    seen: list[bytes] = []

    def write(path: Path, data: bytes) -> None:
        barrier.wait(30)
        put_new(path, data)
        seen.append(path.read_bytes())

    for number in range(10):
        seen.clear()
        barrier, path = threading.Barrier(4), tmp_path / f"{number}"
        own = [f"run {one}".encode() for one in range(4)]
        together = [threading.Thread(target=write, args=(path, data)) for data in own]
        for thread in together:
            thread.start()
        for thread in together:
            thread.join(30)
        assert len(seen) == 4
        assert len(set(seen)) == 1
        assert seen[0] in own
    assert len(os.listdir(tmp_path)) == 10
