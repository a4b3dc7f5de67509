"""Zarr in object stores: read, written, refused, and asked again for what may pass."""

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import zarr
from click.testing import CliRunner

import dhsic
from dhsic.cli import main
from dhsic.errors import DataError

pytestmark = [
    pytest.mark.nightly,
    # Of connections of the tests' own, which nothing closes.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

BUCKET = "bucket"
SECRETS = {
    "AWS_ACCESS_KEY_ID": "AKIALEAKEDKEYID",
    "AWS_SECRET_ACCESS_KEY": "leakedSecretAccessKey",
    "AWS_SESSION_TOKEN": "leakedSessionToken",
}
BUSY, DENIED, CUT = (503, "SlowDown"), (403, "AccessDenied"), (200, "cut")
N = 600
X = np.random.default_rng(0).standard_normal((N, 3))
Y = np.sin(X[:, 0]) + np.random.default_rng(1).standard_normal(N)
OPTIONS = {"kernels": "gaussian", "n_resamples": 30, "rng": 0}
TEST = ["--variable", "x", "--variable", "y", "--kernel", "gaussian", "--resamples", "30"]


class Proxy(BaseHTTPRequestHandler):
    """Passes requests on, except where `fault` of the server says how they fail.

    `fault` takes the method, the path and how many requests for that path came before.
    """

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        asked = self.command, self.path.partition("?")[0]
        with self.server.lock:
            fault = self.server.fault(*asked, self.server.seen.count(asked))
            self.server.seen.append(asked)
        if fault is not None:
            text = f"<Error><Code>{fault[1]}</Code><Message>it said so</Message></Error>".encode()
            # The connection ends in the middle of a body.
            self.reply(fault[0], text, length=4000 if fault == CUT else len(text))
            self.close_connection = fault == CUT
            return
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.upstream, timeout=60)
        upstream.request(self.command, self.path, body, dict(self.headers))
        response = upstream.getresponse()
        kept = ("Content-Range", "Content-Type", "ETag", "Last-Modified")
        headers = {k: v for k in kept if (v := response.getheader(k))}
        length = response.getheader("Content-Length") if self.command == "HEAD" else None
        data = response.read()
        self.reply(response.status, data, headers, length or len(data))
        upstream.close()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

    def reply(self, status, body, headers=None, length=0):
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(length)}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@pytest.fixture(scope="module")
def port():
    """That of a moto server with one bucket."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        found = probe.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(found)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while True:
        try:
            url = f"http://127.0.0.1:{found}/{BUCKET}"
            urllib.request.urlopen(urllib.request.Request(url, b"", method="PUT")).close()
            break
        except OSError:
            assert server.poll() is None
            time.sleep(0.05)
    yield found
    server.terminate()
    server.wait(timeout=30)


def started(handler):
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@pytest.fixture
def proxy(port, monkeypatch):
    """A proxy before the server, and the environment of a user."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    server = started(Proxy)
    server.upstream, server.seen, server.lock = port, [], threading.Lock()
    server.fault = lambda method, path, before: None
    found = SECRETS | dict.fromkeys(("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"), os.devnull)
    found |= {"AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}
    found["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{server.server_port}"
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    yield server
    server.shutdown()
    server.server_close()


def bucket():
    """The files of the store."""
    import s3fs

    return s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)


def new_url():
    return f"s3://{BUCKET}/{uuid.uuid4().hex[:8]}/songs.zarr"


def stored(folder, zarr_format=3, **options):
    """A group in the store, x in six chunks and y in three."""
    place, group = new_url(), zarr.create_group(folder / "copy.zarr", zarr_format=zarr_format)
    group.create_array("x", data=X, **{"chunks": (100, 3), **options})
    group.create_array("y", data=Y, chunks=(200,))
    bucket().put(str(folder / "copy.zarr"), place, recursive=True)
    return place


@pytest.fixture
def url(proxy, tmp_path):
    return stored(tmp_path)


def invoke(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def values(result):
    return result.statistic, result.pvalue


@pytest.fixture(scope="module")
def expected():
    return values(dhsic.independence_test(X, Y, **OPTIONS))


@pytest.mark.parametrize(
    "options", [{"chunks": (20, 3), "shards": (200, 3)}, {"chunks": (100, 2)}, {"zarr_format": 2}]
)
def test_store__is_read_in_every_layout(proxy, options, tmp_path, expected):
    place = stored(tmp_path, **options)
    assert values(dhsic.independence_test("x", "y", data=f"{place}/", **OPTIONS)) == expected
    far = dhsic.independence_test(f"{place}/x", f"{place}/y", **OPTIONS)
    assert values(far) == expected


def one_in_ten():
    """Every tenth request is refused, the first ones among them."""
    count = iter(range(10**6))
    return lambda method, path, before: BUSY if next(count) % 10 == 0 else None


FAULTS = {
    "one in ten": one_in_ten(),
    "connections that end": lambda method, path, before: (
        CUT if method == "GET" and "/c/" in path and before < 1 else None
    ),
    "no permission to list": lambda method, path, before: (
        DENIED if path.strip("/") == BUCKET else None
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_store__is_asked_again_for_what_may_pass(url, proxy, fault, expected):
    proxy.fault = FAULTS[fault]
    assert values(dhsic.independence_test("x", "y", data=url, **OPTIONS)) == expected


@pytest.mark.parametrize("fault", [BUSY, DENIED])
def test_store__that_does_not_give_a_chunk_is_an_error_that_names_it(url, proxy, fault):
    proxy.fault = lambda method, path, before: fault if path.endswith("x/c/2/0") else None
    done = invoke("test", url, *TEST)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{url}/x/c/2/0 ({fault[0]} {fault[1]}" in done.stderr
    assert done.stderr.count("\n") == 1
    if fault == DENIED:
        assert sum(path.endswith("x/c/2/0") for _, path in proxy.seen) <= 3
        assert "set AWS" in done.stderr


def test_chunks__that_are_absent_empty_or_broken_are_refused(url):
    chunk = f"{url}/x/c/2/0"
    bucket().pipe(chunk, b"garbage")
    with pytest.raises(DataError, match=r"stored chunk .*/x/c/2/0: .*: is the data complete"):
        dhsic.hsic("x", "y", data=url, rng=0)
    bucket().pipe(chunk, b"")
    with pytest.raises(DataError, match="rows 200 to 299"):
        dhsic.hsic("x", "y", data=url, rng=0)
    bucket().rm(chunk)
    with pytest.raises(DataError, match="lacks 1 stored chunk, of rows 200 to 299"):
        dhsic.hsic("x", "y", data=url, rng=0)
    allowed = dhsic.stored_array(f"{url}/x", allow_missing_chunks=True)
    assert dhsic.hsic(allowed, f"{url}/y", rng=0).data[0].absent == 1


def test_group__is_written_as_on_disk_and_opens_when_it_is_complete(proxy, tmp_path):
    place, options = new_url(), ("--rows", 3000, "--features", 3, "--seed", 1)
    for where in (place, tmp_path / "songs.zarr"):
        assert invoke("generate", where, *options).exit_code == 0
    assert [path for method, path in proxy.seen if method == "PUT"][-1].endswith(
        "songs.zarr/zarr.json"
    )
    asked = {"kernels": "gaussian:1.0", "rng": 0}
    there, here = (
        dhsic.hsic("features", "year", data=one, **asked)
        for one in (place, tmp_path / "songs.zarr")
    )
    assert there.estimate == here.estimate
    assert "holds objects already" in invoke("generate", place, *options).stderr
    over = invoke("generate", place, *options, "--overwrite")
    assert "cannot replace a group at once" in over.stderr


@pytest.mark.parametrize("refused", ["/c/0/0", "year/zarr.json"])
def test_group__that_the_store_refuses_leaves_nothing(proxy, refused):
    proxy.fault = lambda method, path, before: (
        DENIED if method == "PUT" and path.endswith(refused) else None
    )
    place = new_url()
    done = invoke("generate", place, "--rows", 3000, "--features", 3)
    assert done.exit_code == 2
    assert "403 AccessDenied" in done.stderr
    assert bucket().find(place) == []


@pytest.mark.parametrize("case", ["done", "refused"])
def test_run__shows_and_writes_no_credentials(url, proxy, tmp_path, case):
    if case == "refused":
        proxy.fault = lambda method, path, before: DENIED if "/c/3" in path else None
    words = ("test", url, *TEST, "--debug", "--workers", 1, "--checkpoint", tmp_path / "kept")
    words += ("--json", tmp_path / "result.json", "--log-json", tmp_path / "events.jsonl")
    command = [sys.executable, "-m", "dhsic", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == (0 if case == "done" else 2), done.stderr
    assert (tmp_path / "events.jsonl").stat().st_size
    assert case == "refused" or json.loads((tmp_path / "result.json").read_text())
    texts = [done.stdout.encode(), done.stderr.encode()]
    texts += [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not [one for one in SECRETS.values() for text in texts if one.encode() in text]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.mark.parametrize("status", [None, 429, 503, 403, "absent", "empty"])
def test_website__is_read_without_listing_and_says_what_it_lacks(proxy, status, tmp_path, expected):
    group = zarr.create_group(tmp_path / "g.zarr")
    for name, values_of in (("x", X), ("y", Y)):
        group.create_array(name, data=values_of, chunks=(100,) * values_of.ndim)
    website = started(partial(Quiet, directory=str(tmp_path)))
    proxy.upstream, chunk = website.server_port, tmp_path / "g.zarr/x/c/2/0"
    if status in ("absent", "empty"):
        chunk.unlink()
        if status == "empty":
            chunk.touch()
    else:
        proxy.fault = lambda method, path, before: (
            (status, "it said so") if status and "/c/" in path and before < 1 else None
        )
    url = f"http://127.0.0.1:{proxy.server_port}/g.zarr"
    if status in (403, "absent", "empty"):
        with pytest.raises(DataError, match=r"/c/.* \(403 |cannot be read|is absent or empty"):
            dhsic.independence_test("x", "y", data=url, **OPTIONS)
    else:
        assert values(dhsic.independence_test("x", "y", data=url, **OPTIONS)) == expected
        assert not [path for _, path in proxy.seen if path.rstrip("/").endswith("g.zarr")]
    website.shutdown()
    website.server_close()
