"""Zarr in object stores and on websites: read, written, refused, and asked again for what may pass."""

import json
import os
import subprocess
import sys
import uuid

import numpy as np
import pytest
import s3fs
import zarr
from click.testing import CliRunner
from zarr.storage import FsspecStore

import dhsic
from dhsic.cli import main
from dhsic.errors import DataError
from tests.io.object_store import BROKEN, BUCKET, BUSY, CUT, DENIED, KEY, RESET, SECRET, TOKEN

pytestmark = pytest.mark.nightly

N = 600
X = np.random.default_rng(0).standard_normal((N, 3))
Y = np.sin(X[:, 0]) + np.random.default_rng(1).standard_normal(N)
SECRETS = (KEY, SECRET, TOKEN)
OPTIONS = {"kernels": "gaussian", "n_resamples": 30, "rng": 0}
TEST = ["--variable", "x", "--variable", "y", "--kernel", "gaussian", "--resamples", "30"]


def fill(group, **options):
    group.create_array("x", data=X, **{"chunks": (100, 3), **options})
    group.create_array("y", data=Y, chunks=(200,))


def bucket():
    """The files of the store, past any proxy."""
    return s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)


@pytest.fixture
def url(s3, tmp_path):
    """A group in the store, x in six chunks and y in three."""
    return stored(tmp_path)


def stored(folder, zarr_format=3, **options):
    place = f"s3://{BUCKET}/{uuid.uuid4().hex[:8]}/songs.zarr"
    fill(zarr.create_group(folder / "copy.zarr", zarr_format=zarr_format), **options)
    bucket().put(str(folder / "copy.zarr"), place, recursive=True)
    return place


def invoke(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def values(result):
    return result.statistic, result.pvalue


@pytest.fixture(scope="module")
def expected():
    return values(dhsic.independence_test(X, Y, **OPTIONS))


@pytest.mark.parametrize(
    "options",
    [{}, {"chunks": (20, 3), "shards": (200, 3)}, {"chunks": (100, 2)}, {"zarr_format": 2}],
)
def test_s3__reads_every_layout(s3, library, options, tmp_path, expected):
    place = stored(tmp_path, **options)
    for slash in ("", "/"):
        found = dhsic.independence_test("x", "y", data=place + slash, **OPTIONS)
        assert values(found) == expected
    far = dhsic.independence_test(f"{place}/x", f"{place}/y", **OPTIONS)
    assert values(far) == expected


def test_s3__gives_each_chunk_once_a_pass(url, proxy, library):
    dhsic.hsic("x", "y", data=url, rng=0, kernels="gaussian:1.0", estimator="v-hsic")
    gets = [path for method, path in proxy.seen if method == "GET" and "/c/" in path]
    assert len(set(gets)) == 9
    assert max(map(gets.count, gets)) <= 2


def test_credentials__come_from_a_profile(url, proxy, library, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    (tmp_path / "credentials").write_text(
        "[work]\naws_access_key_id = AKIAOFPROFILE\naws_secret_access_key = abc\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_PROFILE", "work")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    dhsic.plan("x", "y", data=url)
    assert proxy.authorized
    assert all("AKIAOFPROFILE/" in header for header in proxy.authorized)


def one_in_ten():
    """Every tenth request is refused, the first ones among them."""
    count = iter(range(10**6))
    return lambda method, path, before: BUSY if next(count) % 10 == 0 else None


FAULTS = {"busy": BUSY, "broken": BROKEN, "cut": CUT, "reset": RESET}


@pytest.mark.parametrize("fault", [*FAULTS, "one in ten"])
def test_s3__is_asked_again_for_what_may_pass(url, proxy, library, fault, expected):
    def once(method, path, before):
        return FAULTS[fault] if before < 1 and "/c/" in path else None

    proxy.fault = one_in_ten() if fault == "one in ten" else once
    assert values(dhsic.independence_test("x", "y", data=url, **OPTIONS)) == expected
    assert proxy.injected >= 3


@pytest.mark.parametrize("fault", [BUSY, DENIED, CUT])
def test_s3__that_does_not_give_a_chunk_is_an_error_that_names_it(url, proxy, library, fault):
    proxy.fault = lambda method, path, before: fault if path.endswith("x/c/2/0") else None
    done = invoke("test", url, *TEST)
    assert done.exit_code == 2
    assert f"{url}/x/c/2/0" in done.stderr
    assert done.stderr.count("\n") == 1
    assert fault == CUT or f"({fault[0]} {fault[1]}" in done.stderr
    assert not [secret for secret in SECRETS if secret in done.output]
    if fault == DENIED:
        assert proxy.asked("x/c/2/0") == 1
        assert "set AWS" in done.stderr


def test_s3__needs_no_permission_to_list(url, proxy, library, expected):
    proxy.fault = lambda method, path, before: DENIED if path.strip("/") == BUCKET else None
    found = dhsic.independence_test("x", "y", data=url, **OPTIONS)
    assert values(found) == expected
    assert found.data == ()


def test_s3__absent_empty_and_broken_chunks_are_refused(url, library):
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


class Other:
    """Rows of a file; a chunk in the store is written while they are read."""

    shape, ndim, dtype, chunks = (N, 1), 2, np.dtype("f8"), None

    def __init__(self, change):
        self.change = change

    def __getitem__(self, rows):
        self.change()
        return Y[:, None][rows]


def test_s3__that_changes_under_a_run_is_an_error(url, library):
    chunk = f"{url}/x/c/2/0"
    data = bucket().cat(f"{url}/x/c/3/0")
    other = Other(lambda: bucket().pipe(chunk, data))
    with pytest.raises(DataError, match="'x' changed during the run, in rows 200 to 299"):
        dhsic.hsic(f"{url}/x", other, rng=0)


def test_workers__read_and_survive_broken_chunks(url, client, expected):
    client.run(os.environ.update, {k: v for k, v in os.environ.items() if k.startswith("AWS_")})
    found = dhsic.independence_test("x", "y", data=url, client=client, **OPTIONS)
    assert values(found) == expected
    bucket().pipe(f"{url}/x/c/2/0", b"garbage")
    before = client.run(os.getpid)
    with pytest.raises(DataError, match="variable 'x' cannot be read"):
        dhsic.hsic("x", "y", data=url, client=client, rng=0)
    assert client.run(os.getpid) == before


# Written groups ----------------------------------------------------------------------------------


def test_generate__writes_the_same_group_as_on_disk(s3, proxy, library, tmp_path):
    place = f"s3://{BUCKET}/{uuid.uuid4().hex[:8]}/songs.zarr"
    options = ("--rows", 3000, "--features", 3, "--seed", 1)
    for where in (place, tmp_path / "songs.zarr"):
        assert invoke("generate", where, *options).exit_code == 0
    store = FsspecStore(bucket_async(), path=place.removeprefix("s3://"))
    there, here = zarr.open_group(store, mode="r"), zarr.open_group(tmp_path / "songs.zarr")
    for name, array in here.arrays():
        assert there[name][:].tobytes() == array[:].tobytes()
    written = [path for method, path in proxy.seen if method == "PUT"]
    assert written[-1].endswith("songs.zarr/zarr.json")  # what opens the group comes last
    again = invoke("generate", place, *options)
    assert "holds objects already" in again.stderr
    over = invoke("generate", place, *options, "--overwrite")
    assert "cannot replace a group at once" in over.stderr


def bucket_async():
    return s3fs.S3FileSystem(skip_instance_cache=True, asynchronous=True)


@pytest.mark.parametrize("refused", ["/c/0/0", "year/zarr.json"])
def test_generate__leaves_nothing_where_the_store_refuses(s3, proxy, library, refused):
    proxy.fault = lambda method, path, before: (
        DENIED if method == "PUT" and path.endswith(refused) else None
    )
    place = f"s3://{BUCKET}/{uuid.uuid4().hex[:8]}/songs.zarr"
    done = invoke("generate", place, "--rows", 3000, "--features", 3)
    assert done.exit_code == 2
    assert "403 AccessDenied" in done.stderr
    assert bucket().find(place) == []


def test_table__is_converted_to_a_store(s3, tmp_path):
    place = f"s3://{BUCKET}/{uuid.uuid4().hex[:8]}/t.zarr"
    lines = "".join(f"{i},{'ab'[i % 2]}\n" for i in range(100))
    (tmp_path / "t.csv").write_text(f"n,l\n{lines}")
    words = ("--variable", "n=n", "--variable", "l=l", "--shuffle", 0)
    assert invoke("convert", "table", tmp_path / "t.csv", place, *words).exit_code == 0
    found = dhsic.hsic("n", "l", data=place, rng=0)
    assert (found.n, found.variables[1].kernel) == (100, "delta")


# Commands ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["test", "s3://nowhere-at-all/x.zarr", *TEST], "NoSuchBucket"),
        (["test", f"s3://{BUCKET}/none.zarr", *TEST], "is not a readable zarr group"),
        (["test", "URL/x", *TEST], "is not a readable zarr group"),
        (["test", "URL", "--variable", "z", *TEST], "needs an array 'z' in 's3://"),
        (["test", "http://127.0.0.1:9/x.zarr", *TEST], "given up after 4 tries"),
        (["generate", "http://h/x.zarr", "--rows", 9], "URL of an object store, got"),
        (["generate", "s3://nowhere-at-all/x", "--rows", 9], "NoSuchBucket"),
    ],
)
def test_command__refuses_in_a_line(url, words, said):
    done = invoke(*(str(word).replace("URL", url) for word in words))
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


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
    if case == "done":
        assert json.loads((tmp_path / "result.json").read_text())
    texts = [done.stdout.encode(), done.stderr.encode()]
    texts += [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert [secret for secret in SECRETS for text in texts if secret.encode() in text] == []


# Websites ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [None, 429, 503, 403])
def test_http__is_read_without_listing_and_asked_again(website, tmp_path, status, expected):
    fill(zarr.create_group(tmp_path / "songs.zarr"))
    data = f"{website.url}/songs.zarr"
    website.fault = lambda path, before: status if "/c/" in path and before < 1 else None
    if status == 403:
        with pytest.raises(DataError, match=r"songs\.zarr/./c/.* \(403 "):
            dhsic.independence_test("x", "y", data=data, **OPTIONS)
        return
    assert values(dhsic.independence_test("x", "y", data=data, **OPTIONS)) == expected
    assert not [path for path in website.asked if path.rstrip("/").endswith("songs.zarr")]


@pytest.mark.parametrize("content", [None, b""])
def test_http__absent_or_empty_chunk_is_an_error_where_it_is_read(website, tmp_path, content):
    fill(zarr.create_group(tmp_path / "songs.zarr"))
    chunk = tmp_path / "songs.zarr/x/c/2/0"
    chunk.unlink()
    if content is not None:
        chunk.write_bytes(content)
    url = f"{website.url}/songs.zarr/x"
    with pytest.raises(DataError, match=r"variable 'x' cannot be read|is absent or empty"):
        dhsic.hsic(url, Y, rng=0)
    allowed = dhsic.stored_array(url, allow_missing_chunks=True)
    if content is None:
        assert dhsic.hsic(allowed, Y, rng=0).n == N
    else:
        with pytest.raises(DataError, match="variable 'x' cannot be read"):
            dhsic.hsic(allowed, Y, rng=0)
