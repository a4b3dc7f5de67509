"""Maps in zarr groups: whole or not there."""

import numpy as np
import pytest
import zarr

import dhsic
from dhsic.engine.events import BlockFinished, PassFinished, PassStarted
from dhsic.errors import DataError, InvalidArgumentError

N = 9000


@pytest.fixture(scope="module")
def data():
    x = np.random.default_rng(0).standard_normal((N, 3))
    return x, np.sin(2 * x[:, 1])


def run(data, **options):
    options = {
        "rng": 0,
        "threads": 2,
        "estimator": dhsic.RFFHSIC(15),
        "names": ["x", "y"],
        **options,
    }
    return dhsic.sensitivity_map(*data, **options)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_to_zarr__writes_the_map_with_its_sensitivities(data, precision, tmp_path):
    found = run(data, precision=precision)
    written = found.to_zarr(tmp_path / "map.zarr")
    assert (written.rows, set(written.shapes)) == (N, {"x", "y", "sample_sensitivity"})
    group = zarr.open_group(tmp_path / "map.zarr", mode="r")
    for name in ("x", "y"):
        assert group[name].dtype == precision
        np.testing.assert_array_equal(group[name][:], found.maps[name].compute())
        assert group[name].attrs["sensitivity"] == found.features[name].tolist()
        assert (group[name].attrs["of"], group[name].attrs["value"]) == ("statistic", found.value)
    np.testing.assert_array_equal(group["sample_sensitivity"][:, 0], found.samples.compute())


def test_to_zarr__compresses_where_asked(data, tmp_path):
    found = run(data)
    for compress in (True, False):
        found.to_zarr(tmp_path / f"{compress}.zarr", compress=compress)
    codecs = [
        str(zarr.open_group(tmp_path / f"{compress}.zarr", mode="r")["x"].compressors)
        for compress in (True, False)
    ]
    assert "Zstd" in codecs[0]
    assert "Zstd" not in codecs[1]


def test_to_zarr__tells_of_its_blocks(data, tmp_path):
    told = []
    found = run(data, progress=told.append)
    told.clear()
    found.to_zarr(tmp_path / "map.zarr")
    assert told[0] == PassStarted("sensitivity map", 3, N, "rows", told[0].bytes_read)
    assert sum(event.amount for event in told if isinstance(event, BlockFinished)) == N
    assert isinstance(told[-1], PassFinished)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_to_zarr__leaves_nothing_where_it_is_interrupted(data, error, tmp_path):
    def hear(event):
        if isinstance(event, BlockFinished) and event.name == "sensitivity map":
            raise error

    found = run(data, progress=hear)
    with pytest.raises(error):
        found.to_zarr(tmp_path / "map.zarr")
    assert not list(tmp_path.iterdir())


def test_to_zarr__replaces_only_where_told(data, tmp_path):
    found = run(data)
    path = tmp_path / "map.zarr"
    found.to_zarr(path)
    with pytest.raises(InvalidArgumentError, match="already exists"):
        found.to_zarr(path)
    other = run(data, rng=1)
    other.to_zarr(path, overwrite=True)
    group = zarr.open_group(path, mode="r")
    np.testing.assert_array_equal(group["x"][:], other.maps["x"].compute())


def test_to_zarr__refuses_names_that_no_array_can_have(data, tmp_path):
    with pytest.raises(InvalidArgumentError, match="'a/b' cannot name an array"):
        run(data, names=["a/b", "y"]).to_zarr(tmp_path / "map.zarr")
    with pytest.raises(InvalidArgumentError, match="must not be called 'sample_sensitivity'"):
        run(data, names=["sample_sensitivity", "y"]).to_zarr(tmp_path / "map.zarr")


def test_to_zarr__says_what_cannot_be_read(data, tmp_path):
    stored = zarr.create_array(tmp_path / "x.zarr", data=data[0], chunks=(3000, 3))
    found = run((stored, data[1]))
    (tmp_path / "x.zarr" / "c" / "2" / "0").write_bytes(b"")
    with pytest.raises(DataError, match="rows 6000 to 8999 of variable 'x' cannot be read"):
        found.to_zarr(tmp_path / "map.zarr")
    assert not (tmp_path / "map.zarr").exists()


def test_to_zarr__from_workers_is_the_same(data, client, tmp_path):
    found = run(data, client=client, threads=None)
    found.to_zarr(tmp_path / "map.zarr")
    here = run(data)
    group = zarr.open_group(tmp_path / "map.zarr", mode="r")
    np.testing.assert_allclose(group["x"][:], here.maps["x"].compute(), rtol=1e-9, atol=1e-13)
