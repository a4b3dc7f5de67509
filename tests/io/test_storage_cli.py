"""Object stores from the command line: what works, what is refused, and what nobody gets to see."""

import json
import os
import subprocess
import sys
import uuid

import numpy as np
import pytest
import zarr
from click.testing import CliRunner

from dhsic.cli import main
from dhsic.io import backends
from dhsic.io.storage import RemoteStore
from tests.io.object_store import BUCKET, BUSY, DENIED, KEY, SECRET, TOKEN

TEST = ["--variable", "x", "--variable", "y", "--kernel", "gaussian", "--resamples", "30"]
SECRETS = (KEY, SECRET, TOKEN)
N = 1200


@pytest.fixture
def url(s3):
    """A group in the store, with a corrupt array."""
    place = f"s3://{BUCKET}/{uuid.uuid4().hex[:8]}/songs.zarr"
    x = np.random.default_rng(0).standard_normal((N, 2))
    group = zarr.create_group(RemoteStore(place, read_only=False))
    group.create_array("x", data=x, chunks=(200, 2))
    group.create_array("y", data=x[:, 0] ** 2, chunks=(200,))
    group.create_array("corrupt", data=x, chunks=(200, 2))
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync

    garbage = default_buffer_prototype().buffer.from_bytes(b"garbage")
    sync(group.store.set("corrupt/c/3/0", garbage))
    return place


def invoke(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def in_a_process(*arguments):
    command = [sys.executable, "-m", "dhsic", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def test_plan_and_test__read_urls(url):
    planned = invoke("plan", url, *TEST)
    tested = invoke("test", url, *TEST)
    assert (planned.exit_code, tested.exit_code) == (0, 0)
    assert planned.stdout.startswith("1,200 rows of x, y")
    assert "independence rejected" in tested.stdout


def test_generate__says_where_it_wrote(s3):
    place = f"s3://{BUCKET}/{uuid.uuid4().hex[:8]}/new.zarr"
    done = invoke("generate", place, "--rows", 50, "--features", 2)
    assert done.stdout == f"wrote {place}: features 50 x 2, year 50 x 1\n"
    again = invoke("generate", place, "--rows", 50, "--features", 2)
    assert again.exit_code == 2
    assert again.stderr.startswith(f"dhsic: error: {place!r} holds objects already")


BAD = {
    "no bucket": (["test", "s3://nowhere-at-all/x.zarr", *TEST], "NoSuchBucket"),
    "no group": (["test", f"s3://{BUCKET}/none.zarr", *TEST], "is not a readable zarr group"),
    "an array": (["test", "URL/x", *TEST], "is not a readable zarr group (ContainsArrayError"),
    "no array": (["test", "URL", "--variable", "z", *TEST], "needs an array 'z' in 's3://"),
    "a corrupt chunk": (
        ["test", "URL", "--variable", "corrupt", *TEST],
        "corrupt/c/3/0: RuntimeError: Zstd decompression error",
    ),
    "no place": (["test", "s3://", *TEST], "must name a bucket"),
    "an unknown kind": (["plan", "htp://bucket/x.zarr", *TEST], "did you mean 'http'"),
    "a chained URL": (["plan", "zip::s3://bucket/x.zip", *TEST], "of a kind that can be read"),
    "a password": (["test", f"s3://me:{SECRET}@host/x", *TEST], "'s3://***@host/x' with one"),
    "a signature": (["plan", f"https://h/x?sig={SECRET}", *TEST], "'https://h/x?***' with one"),
    "a token": (["generate", f"https://{TOKEN}@h/x", "--rows", 9], "'https://***@h/x' with one"),
    "a newline": (["test", "s3://bucket/x\ny", *TEST], "no control characters"),
    "no gcsfs": (["test", "gs://bucket/x.zarr", *TEST], "pip install 'dhsic[gcs]'"),
    "no adlfs": (["test", "az://bucket/x.zarr", *TEST], "pip install 'dhsic[azure]'"),
    "nobody there": (["test", "http://127.0.0.1:9/x.zarr", *TEST], "given up after 4 tries"),
    "to http": (["generate", "http://h/x.zarr", "--rows", 9], "URL of an object store, got"),
    "over what is there": (
        ["generate", "URL", "--rows", 9, "--overwrite"],
        "an object store cannot replace a group at once",
    ),
    "to no bucket": (["generate", "s3://nowhere-at-all/x", "--rows", 9], "NoSuchBucket"),
}


@pytest.mark.parametrize("case", BAD)
def test_command__refuses_in_a_line(url, case, monkeypatch):
    monkeypatch.setattr("dhsic.io.storage._PAUSE_SECONDS", 0.001)
    absent = {"gcsfs": None, "adlfs": None}
    monkeypatch.setattr("dhsic.io.urls.find_spec", lambda name: absent.get(name, name))
    command, words = BAD[case]
    done = invoke(*(str(part).replace("URL", url) for part in command))
    assert done.exit_code == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert not [secret for secret in SECRETS if secret in done.output]


@pytest.mark.parametrize(("fault", "words"), [(DENIED, "403 AccessDenied"), (BUSY, "503 SlowDown")])
def test_command__says_what_the_store_said(url, proxy, library, fault, words, monkeypatch):
    monkeypatch.setattr("dhsic.io.storage._PAUSE_SECONDS", 0.001)
    monkeypatch.setitem(backends._RETRY, "max_retries", 0)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    proxy.fault = lambda method, path, before: fault if path.endswith("x/c/3/0") else None
    done = invoke("test", url, *TEST)
    assert done.exit_code == 2
    assert f"x/c/3/0 ({words}" in done.stderr
    assert done.stderr.count("\n") == 1


def leaks(folder, outputs):
    """Secrets in outputs and in what was written to a folder."""
    texts = [text.encode() for text in outputs]
    texts += [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    return [secret for secret in SECRETS for text in texts if secret.encode() in text]


@pytest.mark.parametrize("case", ["done", "refused", "corrupt"])
def test_run__shows_and_writes_no_credentials(url, proxy, tmp_path, case):
    if case == "refused":
        proxy.fault = lambda method, path, before: DENIED if "/c/3" in path else None
    variables = ["--variable", "corrupt"] if case == "corrupt" else []
    outputs = ["--json", tmp_path / "result.json", "--log-json", tmp_path / "events.jsonl"]
    done = in_a_process(
        *("test", url, *variables, *TEST, *outputs, "--debug", "--workers", 1),
        *("--checkpoint", tmp_path / "checkpoint"),
    )
    assert done.returncode == (0 if case == "done" else 2), done.stderr
    assert (tmp_path / "events.jsonl").stat().st_size
    if case == "done":
        assert json.loads((tmp_path / "result.json").read_text())
        assert any((tmp_path / "checkpoint").iterdir())
    else:
        assert "Traceback" in done.stderr
    assert leaks(tmp_path, [done.stdout, done.stderr]) == []
    assert leaks(tmp_path, [os.environ["AWS_SECRET_ACCESS_KEY"]]) == [SECRET]  # it would be seen


def test_run__of_fsspec_ends_without_a_word_of_open_connections(url, monkeypatch):
    monkeypatch.setenv("FSSPEC_S3_USE_SSL", "")
    done = in_a_process("test", url, *TEST)
    assert (done.returncode, done.stderr) == (0, "")
