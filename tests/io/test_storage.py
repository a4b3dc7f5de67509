"""Zarr in object stores."""

import multiprocessing
import os
import pickle
import sys
import uuid
from itertools import product

import numpy as np
import pytest
import zarr
from distributed import Client
from numcodecs import Blosc, Zlib

import dhsic
from dhsic.errors import DataError, InvalidArgumentError, MissingDependencyError
from dhsic.io import backends, storage
from dhsic.io.open import open_group, open_variables
from dhsic.io.storage import RemoteStore, StorageError
from tests.conftest import start_cluster
from tests.io.object_store import (
    BROKEN,
    BUCKET,
    BUSY,
    CUT,
    DENIED,
    KEY,
    RESET,
    SECRET,
    TOKEN,
    Website,
    environment,
)

N = 600
X = np.random.default_rng(0).standard_normal((N, 3))
Y = np.sin(X[:, 0]) + np.random.default_rng(1).standard_normal(N)
SECRETS = (KEY, SECRET, TOKEN)
OPTIONS = {"kernels": "gaussian", "n_resamples": 30, "rng": 0}


def new_url():
    return f"s3://{BUCKET}/{uuid.uuid4().hex[:8]}/songs.zarr"


def writable(url):
    return RemoteStore(url, read_only=False)


@pytest.fixture
def url(s3):
    """A group in the store, x in six chunks and y in three."""
    place = new_url()
    fill(zarr.create_group(writable(place)))
    return place


def fill(group, rows=100):
    group.create_array("x", data=X, chunks=(rows, 3), fill_value=float("nan"))
    group.create_array("y", data=Y, chunks=(2 * rows,), fill_value=float("nan"))


def put(url, key, data):
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync

    sync(writable(url).set(key, default_buffer_prototype().buffer.from_bytes(data)))


def assert_reads(source, expected):
    np.testing.assert_array_equal(source.read(0, N), expected)
    np.testing.assert_array_equal(source.read(90, 210), expected[90:210])
    rows = np.array([0, 99, 100, N - 1])
    np.testing.assert_array_equal(source.take(rows), expected[rows])


LAYOUTS = {
    "v3": lambda s: zarr.create_array(s, name="x", data=X, chunks=(100, 3)),
    "v3 sharded": lambda s: zarr.create_array(s, name="x", data=X, chunks=(20, 3), shards=(200, 3)),
    "v3 wide chunks": lambda s: zarr.create_array(s, name="x", data=X, chunks=(100, 2)),
    "v2 blosc": lambda s: zarr.create_array(
        s, name="x", data=X, chunks=(100, 3), zarr_format=2, compressors=Blosc()
    ),
    "v2 zlib": lambda s: zarr.create_array(
        s, name="x", data=X, chunks=(100, 3), zarr_format=2, compressors=Zlib()
    ),
}


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.parametrize(
    ("library", "layout"),
    [
        *product(["obstore"], [*LAYOUTS, "v3, consolidated", "v2 zlib, consolidated"]),
        *product(["fsspec"], ["v3 sharded", "v2 blosc", "v3 wide chunks, consolidated"]),
    ],
    indirect=["library"],
)
def test_open__reads_every_layout(s3, library, layout):
    place = new_url()
    zarr_format = int(layout[1])
    layout, _, consolidated = layout.partition(", ")
    zarr.create_group(writable(place), zarr_format=zarr_format)
    LAYOUTS[layout](writable(place))
    if consolidated:
        zarr.consolidate_metadata(writable(place), zarr_format=zarr_format)
    first, second = open_group(place, ["x", "a=x[:, 0]"])
    assert (first.place, first.chunk_rows) == ("storage", 200 if "sharded" in layout else 100)
    assert_reads(first, X)
    assert_reads(second, X[:, :1])
    assert_reads(open_variables([f"{place}/x", X])[0], X)


def test_open__reads_each_chunk_once_without_asking_for_its_size(url, proxy, library):
    source = open_group(url, ["x", "y"])[0]
    proxy.seen.clear()
    source.read(0, N)
    assert sorted(method for method, _ in proxy.seen) == ["GET"] * 6


def test_open__lists_arrays_only_where_one_is_not_there(url, proxy, library):
    open_group(url, ["x", "y"])
    assert proxy.asked(f"/{BUCKET}") + proxy.asked(f"/{BUCKET}/") == 0


@pytest.mark.parametrize("slash", ["", "/"])
def test_open__takes_a_url_with_and_without_a_slash_at_its_end(url, slash):
    assert_reads(open_group(url + slash, ["x", "y"])[0], X)


def test_library__is_obstore_unless_fsspec_is_configured(s3, library):
    kind = {"obstore": backends._Obstore, "fsspec": backends._Fsspec}[library]
    assert type(backends.backend(f"s3://{BUCKET}/x", True)) is kind
    assert type(backends.backend("https://127.0.0.1/x", True)) is backends._Fsspec


def test_library__is_fsspec_where_obstore_is_not_installed(s3, monkeypatch):
    monkeypatch.setattr(backends, "find_spec", lambda name: None)
    assert type(backends.backend(f"s3://{BUCKET}/x", True)) is backends._Fsspec


def test_library__that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "paramiko", None)
    monkeypatch.delitem(sys.modules, "fsspec.implementations.sftp", raising=False)
    with pytest.raises(MissingDependencyError, match=r"reading sftp://host/x needs .*paramiko"):
        open_group("sftp://host/x", ["x", "y"])


def test_endpoint__of_s3_goes_before_the_common_one(url, library, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", os.environ["AWS_ENDPOINT_URL"])
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert_reads(open_group(url, ["x", "y"])[0], X)


def test_credentials__come_from_a_profile(url, proxy, library, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    (tmp_path / "credentials").write_text(
        "[work]\naws_access_key_id = AKIAOFPROFILE\naws_secret_access_key = abc\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_PROFILE", "work")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    open_group(url, ["x", "y"])
    assert all("AKIAOFPROFILE/" in header for header in proxy.authorized)
    assert proxy.authorized


def test_credentials__are_not_needed_for_public_data(url, proxy, library, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    more = {"use_ssl": False} if library == "fsspec" else {}
    monkeypatch.setitem(backends.conf, "s3", {"anon": True, **more})
    with pytest.raises(StorageError, match="403"):  # the objects here are not public
        open_group(url, ["x", "y"])
    assert set(proxy.authorized) == {""}


def test_store__is_pickled_by_its_url_alone(url, library):
    source = open_group(url, ["x", "y"])[0]
    source.read(0, 10)
    data = pickle.dumps(source)
    assert len(data) < 3000
    assert not [secret for secret in SECRETS if secret.encode() in data]
    assert_reads(pickle.loads(data), X)
    assert pickle.loads(data).array.store == source.array.store


def test_store__shows_its_url_alone(url, library):
    array = open_group(url, ["x", "y"])[0].array
    array[:10]
    assert repr(array.store) == f"RemoteStore({url!r})"
    assert str(array.store_path) == f"{url}/x"
    assert not [secret for secret in SECRETS if secret in repr(array) + repr(vars(array.store))]


def read_in_child(source, send):
    send.send_bytes(source.read(0, N).tobytes())


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_store__is_read_after_a_fork(url, library):
    source = open_group(url, ["x", "y"])[0]
    source.read(0, N)
    receive, send = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=read_in_child, args=(source, send))
    child.start()
    try:
        assert receive.poll(120)
        assert receive.recv_bytes() == X.tobytes()
    finally:
        child.join(30)
        child.kill()
        child.join(30)


@pytest.fixture(scope="module")
def cluster(server):
    """Two processes with the environment of a user; they ask a proxy, where a test names one."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(server).items():
            patch.setenv(name, value)
        with start_cluster() as started, Client(started, set_as_default=False) as client:
            yield client


def point_workers_at(client, port):
    client.run(os.environ.update, {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"})


def one_in_ten():
    """Every tenth request is refused, the first ones among them."""
    count = iter(range(10**6))
    return lambda method, path, before: BUSY if next(count) % 10 == 0 else None


def values(result):
    return result.statistic, result.pvalue, np.asarray(result.null_distribution).tobytes()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("place", ["threads", "processes"])
def test_independence_test__survives_a_tenth_of_requests_refused(
    s3, proxy, library, cluster, place, tmp_path
):
    url = new_url()
    fill(zarr.create_group(writable(url)), rows=25)
    if (library, place) == ("fsspec", "processes"):
        cluster.run(backends.conf.__setitem__, "s3", {"use_ssl": False})
    fill(zarr.create_group(tmp_path / "songs.zarr"), rows=25)
    local = dhsic.independence_test(*(str(tmp_path / "songs.zarr" / a) for a in "xy"), **OPTIONS)
    proxy.fault = one_in_ten()
    point_workers_at(cluster, proxy.port)
    client = cluster if place == "processes" else None
    far = dhsic.independence_test(*(f"{url}/{a}" for a in "xy"), client=client, **OPTIONS)
    cluster.run(backends.conf.pop, "s3", None)
    assert values(far) == values(local)
    assert proxy.injected >= 5


FAULTS = {"busy": BUSY, "broken": BROKEN, "cut": CUT, "reset": RESET}


@pytest.fixture
def impatient(monkeypatch):
    """The libraries below try once and ours do not wait."""
    monkeypatch.setattr(storage, "_PAUSE_SECONDS", 0.001)
    monkeypatch.setitem(backends._RETRY, "max_retries", 0)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")


@pytest.mark.parametrize("fault", FAULTS)
def test_read__asks_again_for_what_may_pass(url, proxy, library, impatient, fault):
    source = open_group(url, ["x", "y"])[0]
    proxy.fault = lambda method, path, before: FAULTS[fault] if before < 3 else None
    assert_reads(source, X)
    assert proxy.injected == 18


@pytest.mark.parametrize("fault", FAULTS)
def test_read__gives_up_and_says_what_it_could_not_read(url, proxy, library, impatient, fault):
    source = open_group(url, ["x", "y"])[0]
    proxy.fault = lambda method, path, before: FAULTS[fault] if path.endswith("c/2/0") else None
    with pytest.raises(DataError) as caught:
        source.read(100, 400)
    text = str(caught.value)
    start = (
        f"rows 100 to 399 of variable 'x' cannot be read: the store does not give {url}/x/c/2/0 "
    )
    assert text.startswith(start)
    assert text.endswith("): given up after 4 tries; run again when the store answers")
    if fault == "busy":
        assert "(503 SlowDown: Please reduce your request rate)" in text
    assert "\n" not in text
    assert not [secret for secret in SECRETS if secret in text]
    # aiohttp asks once more by itself where a connection that it kept is gone
    assert proxy.asked("c/2/0") in ((4, 8) if fault == "reset" else (4,))


def test_read__refused_is_an_error_at_once(url, proxy, library):
    source = open_group(url, ["x", "y"])[0]
    proxy.fault = lambda method, path, before: DENIED if path.endswith("c/2/0") else None
    with pytest.raises(DataError, match=r"x/c/2/0 \(403 AccessDenied: Access Denied\): set AWS"):
        source.read(0, N)
    assert proxy.asked("c/2/0") == 1


def test_open__of_refused_metadata_is_an_error_at_once(url, proxy, library):
    proxy.fault = lambda method, path, before: DENIED
    with pytest.raises(StorageError, match=r"songs.zarr/zarr.json \(403 AccessDenied"):
        open_group(url, ["x", "y"])
    assert len(proxy.seen) == 1


def test_open__needs_no_permission_to_see_which_names_are_absent(url, proxy, library):
    """S3 answers 403, not 404, for what is not there where listing is not allowed."""
    present = (f"{BUCKET}/{url.partition(BUCKET + '/')[2]}/{key}" for key in ("", "x/", "y/"))
    present = {f"/{key}zarr.json" for key in present}
    proxy.fault = lambda method, path, before: None if path in present or "/c/" in path else DENIED
    assert_reads(open_group(url, ["x", "y"])[0], X)


@pytest.mark.parametrize("name", ["x", "y"])
def test_missing_chunk__reads_as_its_fill_value(url, library, name):
    array = zarr.open_group(writable(url), mode="r+")[name]
    array[200:400] = float("nan")  # zarr removes chunks that are nothing but fill
    assert array.nchunks_initialized < array.nchunks
    with pytest.raises(DataError, match="has NaN or infinity, first in row 200"):
        dhsic.independence_test(f"{url}/x", f"{url}/y", **OPTIONS)


def test_corrupt_chunk__is_an_error_at_once(url, proxy, library):
    put(url, "x/c/2/0", b"garbage")
    source = open_group(url, ["x", "y"])[0]
    with pytest.raises(DataError, match=f"stored chunk {url}/x/c/2/0: .*: is the data complete"):
        source.read(0, N)


def test_corrupt_chunk__kills_no_worker(url, proxy, cluster):
    put(url, "x/c/2/0", b"garbage")
    point_workers_at(cluster, proxy.port)
    before = cluster.run(os.getpid)
    with pytest.raises(DataError, match=r"variable 'x' cannot be read \(stored chunk .*/x/c/2/0"):
        dhsic.independence_test(f"{url}/x", f"{url}/y", client=cluster, **OPTIONS)
    assert cluster.run(os.getpid) == before
    assert proxy.asked("x/c/2/0") <= 4


def test_broken_chunk__of_a_matrix_of_several_columns_is_named(tmp_path):
    array = zarr.create_array(tmp_path / "x", data=X, chunks=(20, 2), shards=(200, 2))
    (tmp_path / "x" / "c" / "1" / "1").write_bytes(b"garbage")
    with pytest.raises(DataError, match=r"stored chunk file://.*/x/c/1/1: "):
        open_variables([array, X])[0].read(100, 300)


def test_local_folder__that_a_worker_does_not_see_is_an_error_not_fill_values(tmp_path, cluster):
    array = zarr.create_array(tmp_path / "x", data=X, chunks=(100, 3))
    source = open_variables([array, X])[0]
    (tmp_path / "x").rename(tmp_path / "moved")
    for read in (source.read, lambda a, b: cluster.submit(source.read, a, b).result()):
        with pytest.raises(DataError, match=f"sees no folder {tmp_path / 'x'}; put the data where"):
            read(0, 10)


def test_memory__is_held_by_its_process(cluster):
    place = f"memory://{uuid.uuid4().hex}"
    fill(zarr.create_group(writable(place)))
    source = open_variables([f"{place}/x", X])[0]
    assert source.place == "memory"
    assert_reads(source, X)
    result = dhsic.independence_test(f"{place}/x", f"{place}/y", client=cluster, **OPTIONS)
    assert values(result) == values(dhsic.independence_test(X, Y, **OPTIONS))


@pytest.fixture
def website(tmp_path):
    """A folder served over http, by its URL, and a way to make it fail."""
    site = Website(tmp_path)
    yield site
    site.close()


@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_http__is_read_without_listing(website, tmp_path, consolidated):
    fill(zarr.create_group(tmp_path / "songs.zarr"))
    if consolidated:
        zarr.consolidate_metadata(tmp_path / "songs.zarr")
    assert_reads(open_group(f"{website.url}/songs.zarr", ["x", "y"])[0], X)
    assert not [path for path in website.asked if path.rstrip("/").endswith("songs.zarr")]


def test_http__names_the_array_that_is_not_there(website, tmp_path):
    fill(zarr.create_group(tmp_path / "songs.zarr"))
    with pytest.raises(InvalidArgumentError, match="needs an array 'z' in"):
        open_group(f"{website.url}/songs.zarr", ["x", "z"])


@pytest.mark.parametrize("status", [429, 503])
def test_http__is_asked_again_for_what_may_pass(website, tmp_path, impatient, status):
    fill(zarr.create_group(tmp_path / "songs.zarr"))
    source = open_group(f"{website.url}/songs.zarr", ["x", "y"])[0]
    website.asked.clear()
    website.fault = lambda path, before: status if before < 3 else None
    assert_reads(source, X)
    assert len(website.asked) >= 4 * 6


@pytest.mark.parametrize("status", [401, 403, 410])
def test_http__refused_is_an_error_at_once(website, tmp_path, impatient, status):
    fill(zarr.create_group(tmp_path / "songs.zarr"))
    source = open_group(f"{website.url}/songs.zarr", ["x", "y"])[0]
    website.fault = lambda path, before: status if path.endswith("c/2/0") else None
    with pytest.raises(DataError, match=rf"songs\.zarr/x/c/2/0 \({status} "):
        source.read(0, N)
    assert sum(path.endswith("c/2/0") for path in website.asked) == 1
