"""Folders on disk and in object stores: whole files or none."""

import os
import re
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from s3fs import S3FileSystem
from zarr.core.sync import sync

from dhsic.errors import DataError, InvalidArgumentError
from dhsic.io.folder import Folder
from dhsic.io.storage import RemoteStore
from tests.io.object_store import DENIED


@pytest.fixture(params=["disk", "memory", "s3"])
def folder(request, tmp_path):
    if request.param == "s3":
        request.getfixturevalue("s3")
    urls = {"memory": f"memory://{tmp_path.name}/f", "s3": f"s3://bucket/{tmp_path.name}/f"}
    made = Folder.at(urls.get(request.param, str(tmp_path / "f")), "it")
    made.make()
    return made


def test_folder__reads_what_it_wrote(folder):
    assert folder.entries() == []
    assert folder.read("a") is None
    folder.write("a", [b"one", memoryview(b"two")])
    assert folder.read("a") == b"onetwo"
    folder.write("a", [b"three"])
    assert folder.read("a") == b"three"
    with folder.open("a") as file:
        assert file.read(2) == b"th"
    with folder.open("b") as file:
        assert file is None


def test_folder__lists_files_and_folders(folder):
    folder.write("b", [b"12"])
    folder.inner("inside").make()
    folder.inner("inside").write("c", [b"123"])
    file, inside = folder.entries()
    assert (file.name, file.is_folder, file.size) == ("b", False, 2)
    assert (inside.name, inside.is_folder) == ("inside", True)
    assert file.modified > 1e9
    assert not file.is_partial
    assert not folder.is_file()
    assert folder.inner("b").is_file()


def test_folder__of_nothing_is_empty(folder):
    assert folder.inner("nowhere").entries() == []
    assert not folder.inner("nowhere").is_file()
    assert folder.inner("nowhere").read("x") is None


def test_folder__writes_new_files_once(folder):
    folder.write_new("a", b"first")
    folder.write_new("a", b"second")
    assert folder.read("a") == b"first"
    assert [entry.name for entry in folder.entries()] == ["a"]


def test_folder__keeps_the_first_of_two_that_saw_no_file(folder, monkeypatch):
    folder.write_new("a", b"first")
    with monkeypatch.context() as before:
        before.setattr(Folder, "read", lambda *_: None)
        folder.write_new("a", b"second")
    assert folder.read("a") == b"first"


def test_folder__writes_new_files_in_stores_that_cannot_be_asked_for_it(monkeypatch, tmp_path):
    original = MemoryFileSystem.pipe_file

    def old(self, path, value, mode="overwrite"):
        if mode == "create":
            raise NotImplementedError
        original(self, path, value)

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", old)
    test_folder__writes_new_files_once(Folder.at(f"memory://{tmp_path.name}", "it"))


def test_folder__writes_new_files_once_without_hard_links(tmp_path, monkeypatch):
    def refused(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refused)
    test_folder__writes_new_files_once(Folder.at(str(tmp_path), "it"))


def test_folder__removes(folder):
    folder.write("a", [b"1"])
    folder.remove("a")
    folder.remove("a")
    assert folder.entries() == []
    folder.remove_empty()


def test_folder__on_disk_stays_while_something_is_in_it(tmp_path):
    folder = Folder.at(str(tmp_path), "it")
    folder.write("a", [b"1"])
    folder.remove_empty()
    assert tmp_path.exists()


def test_folder__is_absolute(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert Folder.at("runs/a", "it").url == str(tmp_path / "runs" / "a")
    assert Folder.at("~/a", "it").url == str(Path("~/a").expanduser())
    assert Folder.at(f"file://{tmp_path}/a/", "it").url == str(tmp_path / "a")
    assert Folder.at(f"file://{tmp_path}/a#b", "it").url == str(tmp_path / "a#b")
    assert Folder.at("memory://a/b/", "it").url == "memory://a/b"


class BrokenError(Exception):
    pass


def parts():
    yield b"half"
    raise BrokenError


def test_folder__leaves_nothing_of_a_write_that_fails(folder):
    folder.write("a", [b"old"])
    with pytest.raises(DataError, match="cannot write to"):
        folder.write("a", parts())
    assert folder.read("a") == b"old"
    assert [entry.name for entry in folder.entries()] == ["a"]


def test_folder__a_killed_write_leaves_a_partial_file_that_is_known(tmp_path):
    folder = Folder.at(str(tmp_path), "it")
    pid = os.fork()
    if pid == 0:

        def dying():
            yield b"half"
            os._exit(9)

        folder.write("a", dying())
    os.waitpid(pid, 0)
    (left,) = folder.entries()
    assert left.is_partial
    assert left.name.startswith(".a.")


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (lambda folder: folder.write("a", [b"1"]), "cannot write to"),
        (lambda folder: folder.write_new("a", b"1"), "cannot write to"),
        (lambda folder: folder.make(), "cannot create"),
    ],
)
def test_folder__says_what_the_disk_refuses(work, words, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match=words) as caught:
        work(Folder.at(str(tmp_path / "file" / "f"), "it"))
    assert "Not a directory" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


REMEDIES = [
    (PermissionError("AccessDenied"), "(PermissionError: AccessDenied): use the environment"),
    (TimeoutError("no answer"), "(TimeoutError: no answer): run again when the store answers"),
    (FileNotFoundError("The specified bucket does not exist"), "check the name of the bucket"),
    (OSError("set the region"), "set AWS_REGION to the region of the bucket"),
    (OSError("no luck"), "check the URL and the settings of the store"),
]


@pytest.mark.parametrize("work", [Folder.write, Folder.write_new])
@pytest.mark.parametrize(("failure", "words"), REMEDIES)
def test_folder__says_what_to_do_about_a_store(failure, words, work, monkeypatch):
    def fail(*_, **__):
        raise failure

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", fail)
    data = b"1" if work is Folder.write_new else [b"1"]
    with pytest.raises(DataError, match=f"cannot write to .*{re.escape(words)}"):
        work(Folder.at("memory://bucket/refusing", "it"), "a", data)


@pytest.fixture
def fresh_s3fs():
    """Connections that follow the environment of a test, not of an earlier one."""
    S3FileSystem.clear_instance_cache()
    yield
    S3FileSystem.clear_instance_cache()


def test_folder__and_zarr_stores_say_the_same_of_a_refusal(proxy, fresh_s3fs):
    proxy.fault = lambda method, path, before: DENIED
    with pytest.raises(DataError) as folder:
        Folder.at("s3://bucket/f", "it").write("a", [b"1"])
    with pytest.raises(DataError) as store:
        sync(RemoteStore("s3://bucket/f", read_only=False).delete("a"))
    said = [str(caught.value).rpartition("): ")[2] for caught in (folder, store)]
    assert said[0] == said[1]
    assert said[0].startswith("set AWS_ACCESS_KEY_ID")


def test_folder__names_no_credentials():
    with pytest.raises(InvalidArgumentError) as caught:
        Folder.at("ftp://me:secret@host/f", "it")
    assert "secret" not in str(caught.value)
