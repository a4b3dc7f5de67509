"""Groups written to an object store."""

import uuid
from itertools import groupby

import numpy as np
import pytest
import zarr

from dhsic.errors import DataError, InvalidArgumentError
from dhsic.io.open import open_group
from dhsic.io.storage import RemoteStore, StorageError
from dhsic.io.synthetic import generate
from dhsic.io.tabular import convert_table
from dhsic.io.upload import Upload
from dhsic.io.zarr_output import new_group
from tests.io.object_store import BUCKET, DENIED

SMALL = {"rows": 3000, "features": 3, "seed": 1}
BLOCK = {"x": np.ones((1500, 2))}


@pytest.fixture
def url(s3):
    return f"s3://{BUCKET}/{uuid.uuid4().hex[:8]}/songs.zarr"


def arrays(place):
    group = zarr.open_group(place, mode="r")
    return {name: (array[:], dict(array.attrs)) for name, array in group.arrays()}


def objects(url):
    from zarr.core.sync import sync

    async def listed():
        return [name async for name in RemoteStore(url).list_prefix("")]

    return sync(listed())


def test_upload__knows_of_metadata_that_it_keeps_back(url):
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync

    store, value = Upload(url), default_buffer_prototype().buffer.from_bytes(b"{}")
    assert not sync(store.exists("x/zarr.json"))
    sync(store.set("x/zarr.json", value))
    assert sync(store.exists("x/zarr.json"))
    assert not sync(RemoteStore(url).exists("x/zarr.json"))


def test_generate__writes_the_same_group_as_on_disk(url, library, tmp_path):
    written = generate(url, **SMALL)
    generate(tmp_path / "songs.zarr", **SMALL)
    assert (written.path, written.rows) == (url, 3000)
    there, here = arrays(RemoteStore(url)), arrays(tmp_path / "songs.zarr")
    assert there.keys() == here.keys()
    for name, (values, attributes) in here.items():
        assert there[name][0].tobytes() == values.tobytes()
        assert there[name][1] == attributes


def test_convert_table__writes_categories_and_shuffles(url, tmp_path):
    lines = "".join(f"{i},{'ab'[i % 2]}\n" for i in range(100))
    (tmp_path / "t.csv").write_text(f"number,label\n{lines}")
    columns = {"n": ["number"], "l": ["label"]}
    convert_table(tmp_path / "t.csv", url, variables=columns, shuffle=0)
    numbers, labels = open_group(url, ["n", "l"])
    assert labels.categorical
    read = numbers.read(0, 100)[:, 0]
    assert sorted(read) == list(range(100)) != list(read)
    assert {path.name for path in tmp_path.iterdir()} == {"t.csv"}


def test_metadata__is_written_last_and_that_of_the_group_last_of_all(url, proxy, library):
    generate(url, **SMALL)
    written = [path for method, path in proxy.seen if method == "PUT"]
    ends = [path.rpartition("/")[2] == "zarr.json" for path in written]
    assert [last for last, _ in groupby(ends)] == [False, True]
    assert written[-1].endswith("songs.zarr/zarr.json")
    assert len(written) == len(set(written))


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_new_group__removes_what_it_wrote_when_it_fails(url, library, error):
    def half():
        with new_group(url, {"x": 2}) as writer:
            for _ in range(60):
                writer.append(BLOCK)
            raise error

    with pytest.raises(error):
        half()
    assert objects(url) == []


def test_new_group__is_nothing_that_opens_before_it_is_complete(url, library):
    with new_group(url, {"x": 2}) as writer:
        for _ in range(60):
            writer.append(BLOCK)
        with pytest.raises(DataError, match="is not a readable zarr group"):
            open_group(url, ["x", "a=x"])
    assert open_group(url, ["x", "a=x"])[0].shape == (90_000, 2)


def test_new_group__of_no_rows_leaves_nothing(url):
    with pytest.raises(DataError, match=f"no rows to write to {url}"), new_group(url, {"x": 1}):
        pass
    assert objects(url) == []


def test_new_group__refused_by_the_store_says_so(url, proxy, library):
    proxy.fault = lambda method, path, before: DENIED if method == "PUT" else None
    with pytest.raises(StorageError, match=r"does not take s3://.*/c/0/0 \(403 AccessDenied"):
        generate(url, **SMALL)
    assert objects(url) == []


def test_new_group__fails_when_metadata_is_refused(url, proxy, library):
    proxy.fault = lambda method, path, before: (
        DENIED if method == "PUT" and path.endswith("year/zarr.json") else None
    )
    with pytest.raises(StorageError, match=r"year/zarr\.json"):
        generate(url, **SMALL)
    assert objects(url) == []


@pytest.mark.parametrize("overwrite", [False, True])
def test_new_group__leaves_what_is_there(url, overwrite):
    generate(url, **SMALL)
    before = arrays(RemoteStore(url))
    match = "is not overwritten: remove" if overwrite else "holds objects already: choose another"
    with pytest.raises(InvalidArgumentError, match=match):
        generate(url, rows=20, overwrite=overwrite)
    assert arrays(RemoteStore(url)).keys() == before.keys()
    assert open_group(url, ["features", "year"])[0].shape == (3000, 3)


def test_new_group__refuses_what_lies_deeper(url):
    generate(f"{url}/inner", **SMALL)
    with pytest.raises(InvalidArgumentError, match="holds objects already"):
        generate(url, **SMALL)


def test_new_group__needs_the_bucket(s3, library):
    with pytest.raises(StorageError, match=r"NoSuchBucket.*: check the name of the bucket"):
        generate("s3://nowhere-at-all/songs.zarr", **SMALL)


@pytest.mark.parametrize("url", ["http://127.0.0.1/x.zarr", "https://127.0.0.1/x.zarr"])
def test_new_group__refuses_what_can_only_be_read(url):
    with pytest.raises(InvalidArgumentError, match="a path or the URL of an object store, got"):
        generate(url, **SMALL)
