"""Inventories by store and by codec, and those of what dhsic writes."""

import uuid
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import zarr
from numcodecs import CRC32, Blosc, Zlib
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, ZstdCodec

import dhsic
from dhsic.bench import scaling_study
from dhsic.bench.data import _stored
from dhsic.errors import DataError
from dhsic.io.inventory import inventory_of
from dhsic.io.open import open_group
from dhsic.io.sources import ArraySource
from dhsic.io.storage import RemoteStore
from dhsic.io.synthetic import generate
from tests.io.object_store import BUCKET, DENIED, Website
from tests.io.stored import (
    ALLOW,
    N,
    X,
    Y,
    allowed,
    lose,
    touch,
    write,
)


@pytest.fixture
def remote(s3, tmp_path):
    """A group in the store, by its URL."""
    url = f"s3://{BUCKET}/{uuid.uuid4().hex[:8]}/songs.zarr"
    made = zarr.create_group(RemoteStore(url, read_only=False))
    for name, values in zip("xy", (X, Y), strict=True):
        made.create_array(name, data=values, chunks=(50, 1))
    return url


def change(url, key, data=None):
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync

    store = RemoteStore(url, read_only=False)
    if data is None:
        sync(store.delete(key))
    else:
        sync(store.set(key, default_buffer_prototype().buffer.from_bytes(data)))


def lists(proxy):
    """Requests for names of objects."""
    return sum(path.strip("/") == BUCKET for _, path in proxy.seen)


def test_s3__absent_chunks_are_refused(remote, library):
    change(remote, "x/c/1/0")
    with pytest.raises(DataError, match="rows 50 to 99"):
        dhsic.plan(f"{remote}/x", f"{remote}/y")
    found = dhsic.hsic(*allowed([f"{remote}/x", f"{remote}/y"]), rng=0)
    assert [one.absent for one in found.data] == [1, 0]


def test_s3__empty_chunks_are_refused(remote, library):
    change(remote, "x/c/1/0", b"")
    for paths in ([f"{remote}/x", f"{remote}/y"], allowed([f"{remote}/x", f"{remote}/y"])):
        with pytest.raises(DataError, match="rows 50 to 99"):
            dhsic.hsic(*paths, rng=0)


def test_s3__change_under_a_run_is_an_error(remote, library, disturbed):
    def write():
        zarr.open_array(RemoteStore(f"{remote}/x", read_only=False), mode="r+")[60] = 1.0

    disturbed(write)
    with pytest.raises(DataError, match="'x' changed during the run, in rows 50 to 99"):
        dhsic.hsic(*open_group(remote, ["x", "y"]), rng=0)


def test_s3__is_listed_twice_a_run_by_etags(remote, proxy, library):
    opened = open_group(remote, ["x", "y"])
    proxy.seen.clear()
    dhsic.hsic(*opened, rng=0)
    assert lists(proxy) == 4
    stamp = opened[0].inventory(within=True).chunks[0][0]
    assert stamp.size > 0
    assert len(stamp.mark.strip('"')) == 32


def test_s3__that_lists_nothing_is_read_all_the_same(remote, proxy, library):
    proxy.fault = lambda method, path, before: DENIED if path.strip("/") == BUCKET else None
    found = dhsic.hsic(*open_group(remote, ["x", "y"]), rng=0)
    assert found.data == ()
    assert lists(proxy)


def test_memory__of_fsspec_is_listed():
    url = f"memory://{uuid.uuid4().hex}/x.zarr"
    array = zarr.create_array(
        RemoteStore(url, read_only=False), shape=(N, 1), chunks=(50, 1), dtype="f8"
    )
    array[:150] = X[:150]
    with pytest.raises(DataError, match="rows 150 to 199"):
        dhsic.plan(url, Y)


@pytest.fixture
def website(tmp_path):
    site = Website(tmp_path)
    yield site
    site.close()


def test_http__absent_chunk_is_an_error_where_it_is_read(website, paths):
    lose(paths[0])
    urls = [f"{website.url}/{name}.zarr" for name in "xy"]
    with pytest.raises(DataError, match=r"x\.zarr/c/1/0 is absent or empty: complete the data"):
        dhsic.hsic(*urls, rng=0)
    found = dhsic.hsic(*allowed(urls), rng=0)
    assert found.estimate == dhsic.hsic(*allowed(paths[:2]), rng=0).estimate
    with pytest.raises(DataError, match="is absent"):
        dhsic.hsic(dhsic.stored_array(urls[0]), Y, rng=0)


@pytest.mark.parametrize("shards", [None, (100, 1)])
def test_http__empty_chunk_is_an_error_where_it_is_read(shards, website, tmp_path):
    made = zarr.create_array(tmp_path / "s.zarr", data=X, chunks=(50, 1), shards=shards)
    (tmp_path / "s.zarr" / made.metadata.encode_chunk_key((1, 0))).write_bytes(b"")
    url = f"{website.url}/s.zarr"
    for x in (url, dhsic.stored_array(url, **ALLOW)):
        with pytest.raises(DataError, match="variable 's' cannot be read"):
            dhsic.hsic(x, Y, rng=0)


def test_http__of_a_group_is_allowed_absent_chunks(website, group):
    lose(f"{group}/x")
    url = f"{website.url}/all.zarr"
    with pytest.raises(DataError, match="is absent"):
        dhsic.hsic(*open_group(url, ["x", "y"]), rng=0)
    dhsic.hsic(*open_group(url, ["x", "y"], **ALLOW), rng=0)


class DataSet:
    """As of h5py: rows in a file that it names."""

    shape, ndim, dtype, chunks = (N, 1), 2, np.dtype("f8"), None

    def __init__(self, path, read=lambda: None):
        self.file, self.read = SimpleNamespace(filename=str(path)), read

    def __getitem__(self, rows):
        self.read()
        return np.fromfile(self.file.filename).reshape(self.shape)[rows]


def test_hdf5__change_under_a_run_is_an_error(tmp_path):
    path = tmp_path / "d.h5"
    path.write_bytes(X.tobytes())
    found = dhsic.hsic(DataSet(path), Y, rng=0)
    assert [(one.chunks, one.stored_bytes) for one in found.data] == [(1, X.nbytes)]
    with pytest.raises(DataError, match="changed during the run, in rows 0 to 199"):
        dhsic.hsic(DataSet(path, read=lambda: touch(path)), Y, rng=0)


@pytest.mark.parametrize(
    ("options", "checksums"),
    [
        ({"compressors": None}, ()),
        ({"compressors": Crc32cCodec()}, ("crc32c",)),
        ({"compressors": ZstdCodec()}, ()),
        ({"compressors": ZstdCodec(checksum=True)}, ("zstd",)),
        ({"compressors": [GzipCodec(), Crc32cCodec()]}, ("gzip", "crc32c")),
        ({"compressors": BloscCodec()}, ()),
        ({"shards": (100, 1), "compressors": None}, ()),
        ({"shards": (100, 1), "compressors": Crc32cCodec()}, ("crc32c",)),
        ({"zarr_format": 2, "compressors": Blosc()}, ()),
        ({"zarr_format": 2, "compressors": Zlib()}, ("zlib",)),
        ({"zarr_format": 2, "compressors": None, "filters": CRC32()}, ("crc32",)),
    ],
)
def test_inventory__tells_codecs_with_a_checksum(tmp_path, options, checksums):
    paths = write(tmp_path, **options)
    found = dhsic.hsic(*paths[:2], rng=0).data[0]
    assert found.checksums == checksums


def test_inventory__of_parts_covers_all_rows(tmp_path):
    array = zarr.create_array({}, data=np.ones((1000, 1)), chunks=(3, 1))
    parts = list(inventory_of(array, "x").parts)
    assert len(parts) == 128
    ends = [tuple(map(int, part.split()[1::2])) for part in parts]
    assert ends[0][0] == 0
    assert ends[-1][1] == 999
    assert all(b[0] == a[1] + 1 for a, b in pairwise(ends))


def test_generate__writes_checksums_and_every_chunk(tmp_path):
    generate(tmp_path / "songs.zarr", rows=3000, features=3)
    for source in open_group(str(tmp_path / "songs.zarr"), ["features", "year"]):
        found = source.inventory(within=True).summary
        assert (found.absent, found.checksums) == (0, ("crc32c",))


def test_scaling_study__writes_zeros_in_its_copies(tmp_path):
    rare = ArraySource("x", np.zeros((100, 1)))
    found = _stored(rare, 10, tmp_path / "x.zarr").inventory(within=True).summary
    assert (found.chunks, found.absent, found.checksums) == (10, 0, ("crc32c",))


def test_scaling_study__allows_absent_chunks_that_its_data_may_have(paths):
    lose(paths[0])
    vary = {"landmarks": [10, 20], "rows": [100, N]}
    options = {"vary": vary, "repeats": 1, "progress": None, "kernels": "gaussian"}
    found = scaling_study(*allowed(paths[:2]), **options)
    assert len(found.to_pandas()) == 4
    with pytest.raises(DataError, match="rows 50 to 99"):
        scaling_study(*paths[:2], **options)


def test_embedding__that_lost_a_chunk_is_refused(tmp_path):
    saved = dhsic.mean_embedding(X, "gaussian:0.5", 10, rng=0)
    saved.save(tmp_path / "e.zarr")
    dhsic.load_embedding(tmp_path / "e.zarr")
    for chunk in (tmp_path / "e.zarr" / "landmarks" / "c").rglob("*"):
        if chunk.is_file():
            chunk.unlink()
    with pytest.raises(DataError, match="no mean embedding that can be read"):
        dhsic.load_embedding(tmp_path / "e.zarr")
