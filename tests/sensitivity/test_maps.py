"""What `sensitivity_map` takes and returns: its numbers, names, points, options and files."""

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import zarr
from matplotlib import pyplot as plt

import dhsic
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.kernels import Gaussian

N = 9000  # three blocks of memory
FEW = 300
FEATURES = dhsic.RFFHSIC(n_features=15)
ESTIMATORS = ["nystrom-m", "rff-hsic", "v-hsic"]


def dependent(n=FEW, seed=0):
    rng = np.random.default_rng(seed)
    x, z = rng.standard_normal((2, n, 3))
    return x, np.sin(2 * x[:, 1:2]) + 0.3 * rng.standard_normal((n, 1)), z


def single_columns(n=FEW):
    x, y, _ = dependent(n)
    return x[:, 1], y[:, 0]


def run(*data, **options):
    """A map, of the first two variables where none are given."""
    data = data or dependent()[:2]
    return dhsic.sensitivity_map(*data, **{"rng": 0, "threads": 2, **options})


def computed(found):
    return dict(zip(found.names, dask.compute(*found.maps.values()), strict=True))


# What is returned


def test_sensitivities__are_the_mean_squares_of_the_map():
    found = run(*dependent())
    maps = computed(found)
    assert {name: values.shape for name, values in maps.items()} == {
        "x1": (FEW, 3),
        "x2": (FEW, 1),
        "x3": (FEW, 3),
    }
    for name, values in maps.items():
        np.testing.assert_allclose(found.features[name], (values**2).mean(axis=0), rtol=1e-12)
    whole = np.hstack(list(maps.values()))
    np.testing.assert_allclose(found.samples, (whole**2).mean(axis=1), rtol=1e-12)


def test_sensitivities__mark_the_column_that_matters():
    found = run()
    assert found.top("x1") == [1, *found.top("x1")[1:]]
    assert found.features["x1"][1] > 3 * found.features["x1"][[0, 2]].max()
    lines = dict(found.summary(2))
    assert lines["columns of x1"].startswith("1 (")
    assert lines["columns of x1"].endswith("), 1 more")
    assert lines["columns of x2"] == "x2 (100.0%)"
    with pytest.raises(ValueError, match="read-only"):
        found.features["x1"][0] = 1.0
    with pytest.raises(TypeError):
        found.features["x1"] = 1.0


def test_maps__are_lazy_chunked_as_the_row_blocks_and_say_what_cannot_be_read(tmp_path):
    x, y, _ = dependent(N)
    stored = zarr.create_array(tmp_path / "x.zarr", data=x, chunks=(4500, 3))
    found = run(stored, y, estimator=FEATURES)
    assert found.maps["x1"].chunks == ((4500, 4500), (3,))
    assert found.samples.chunks == ((4500, 4500),)
    assert found.maps["x1"].dtype == np.float64
    (tmp_path / "x.zarr" / "c" / "1" / "0").write_bytes(b"")
    assert np.isfinite(found.maps["x1"][:4500].compute()).all()
    with pytest.raises(DataError, match="rows 4500 to 8999 of variable 'x1' cannot be read"):
        found.maps["x1"].compute()
    with pytest.raises(DataError, match="rows 4500 to 8999 of variable 'x1' cannot be read"):
        found.to_zarr(tmp_path / "map.zarr")
    assert not (tmp_path / "map.zarr").exists()


def test_names__of_columns_are_those_of_the_data(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((200, 3)), columns=["depth", "wind", "haze"])
    target = pd.Series(np.sin(2 * frame["wind"]), name="AT")
    found = run(frame, target)
    assert dict(found.columns) == {"x1": ("depth", "wind", "haze"), "AT": ("AT",)}
    assert dict(found.summary())["columns of x1"].startswith("wind (")
    axes = found.plot()
    assert {label.get_text() for label in axes.get_yticklabels()} == {"depth", "wind", "haze"}
    plt.close("all")
    found.to_zarr(tmp_path / "map.zarr")
    stored = zarr.open_group(tmp_path / "map.zarr", mode="r")["x1"]
    assert stored.attrs["columns"] == ["depth", "wind", "haze"]


# The number behind a map


@pytest.mark.parametrize(
    ("estimator", "m"), [*((name, 2) for name in ESTIMATORS), ("nystrom-m", 3), ("v-hsic", 3)]
)
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_value__is_that_of_the_test_and_of_the_estimate_with_the_same_seed(estimator, m, precision):
    data = dependent()[:m]
    options = {"kernels": "gaussian", "estimator": estimator, "rng": 5, "precision": precision}
    tested = dhsic.independence_test(*data, **options, null="permutation", n_resamples=3)
    rel = 1e-11 if precision == "float64" else 1e-5
    assert run(*data, **options).value == pytest.approx(tested.statistic, rel=rel)
    estimated = dhsic.hsic(*data, **options)
    found = run(*data, **options, of="estimate")
    assert found.value == estimated.estimate
    assert found.measured.variables == estimated.variables
    assert found.measured.landmarks == estimated.landmarks


@pytest.mark.parametrize(
    "estimator", [dhsic.NystromMHSIC(30, tolerance=1e-4), "rff-hsic", "v-hsic"]
)
def test_precision__of_the_map_is_as_asked(estimator):
    options = {"estimator": estimator, "kernels": "gaussian"}
    single, double = (run(**options, precision=one) for one in ("float32", "float64"))
    assert single.measured.precision == "float32"
    assert single.samples.dtype == np.float32
    for name, values in computed(single).items():
        assert values.dtype == np.float32
        expected = double.maps[name].compute()
        assert np.abs(values - expected).max() < 2e-3 * np.abs(expected).max()


# Points and pictures


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_points__are_rows_of_the_data_with_their_derivatives(estimator):
    x, y = single_columns(600)
    found = run(x, da.from_array(y, chunks=170), names=["x", "y"], estimator=estimator)
    maps = computed(found)
    for most, step in ((600, 1), (599, 2), (100, 6), (7, 86)):
        points = found.points(most)
        np.testing.assert_array_equal(points.x, x[::step])
        np.testing.assert_array_equal(points.y, y[::step])
        np.testing.assert_allclose(points.in_x, maps["x"][::step, 0], rtol=1e-12)
        np.testing.assert_allclose(points.in_y, maps["y"][::step, 0], rtol=1e-12)


def test_plot__draws_points_of_two_columns_and_bars_of_more():
    x, y = single_columns()
    flat = run(x, y, names=["time", "wave"]).plot()
    assert (flat.get_xlabel(), flat.get_ylabel()) == ("time", "wave")
    assert len(flat.collections[0].get_offsets()) == FEW
    wide = run(names=["x", "y"])
    bars = wide.plot()
    assert bars.patches[0].get_width() == pytest.approx(wide.features["x"].max())
    assert len(wide.plot(of="y").patches) == 1
    assert len(wide.plot(most=2).patches) == 2
    with pytest.raises(InvalidArgumentError, match="of must be one of 'x', 'y'"):
        wide.plot(of="z")
    plt.close("all")


# Options


def test_wrt__chooses_the_variables_whose_entries_are_varied():
    data = dependent()
    found, everything = run(*data, wrt=["x3", "x1"]), run(*data)
    assert found.names == ("x1", "x3")
    for name in found.names:
        np.testing.assert_allclose(found.maps[name], everything.maps[name], rtol=1e-12)
    whole = np.hstack(list(computed(found).values()))
    np.testing.assert_allclose(found.samples, (whole**2).mean(axis=1), rtol=1e-12)


def test_wrt__leaves_categories_alone():
    x, y, _ = dependent()
    found = run(x, np.round(y), kernels=["gaussian", "delta"], wrt=["x1"])
    assert found.names == ("x1",)
    assert found.top("x1")[0] == 1
    label = pd.Series(np.where(x[:, 0] > 0.0, "a", "b"), name="kind")
    assert run(label, x[:, 0]).names == ("x2",)
    with pytest.raises(InvalidArgumentError, match=r"differentiable kernel .*take another kernel"):
        run(label, x[:, 0], wrt=["kind"])


def test_options__are_those_asked_for():
    one, same, other = (
        run(rng=seed, estimator="nystrom-m").maps["x1"].compute() for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    found = run(kernels=[Gaussian(gamma=0.5), "linear"])
    assert [v.kernel for v in found.measured.variables] == ["gaussian:0.5", "linear"]
    found = run(estimator=dhsic.NystromMHSIC(n_landmarks=17, pairing="joint"))
    assert (found.measured.landmarks.drawn, found.measured.landmarks.pairing) == (17, "joint")
    assert [one.name for one in found.measured.passes] == ["kernel sums", "sensitivities"]
    assert run(estimator="auto").measured.estimator == "v-hsic"


# Files


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_to_zarr__writes_the_map_with_its_sensitivities(precision, tmp_path):
    found = run(*dependent(N)[:2], estimator=FEATURES, names=["x", "y"], precision=precision)
    written = found.to_zarr(tmp_path / "map.zarr")
    assert (written.rows, set(written.shapes)) == (N, {"x", "y", "sample_sensitivity"})
    group = zarr.open_group(tmp_path / "map.zarr", mode="r")
    for name in ("x", "y"):
        assert group[name].dtype == precision
        np.testing.assert_array_equal(group[name][:], found.maps[name].compute())
        assert group[name].attrs["sensitivity"] == found.features[name].tolist()
        assert (group[name].attrs["of"], group[name].attrs["value"]) == ("statistic", found.value)
    np.testing.assert_array_equal(group["sample_sensitivity"][:, 0], found.samples.compute())
    with pytest.raises(InvalidArgumentError, match="already exists"):
        found.to_zarr(tmp_path / "map.zarr")
    found.to_zarr(tmp_path / "map.zarr", overwrite=True, compress=False)
    group = zarr.open_group(tmp_path / "map.zarr", mode="r")
    assert "Zstd" not in str(group["x"].compressors)


def test_to_zarr__leaves_nothing_where_it_is_interrupted(tmp_path):
    def hear(event):
        if type(event).__name__ == "BlockFinished" and event.name == "sensitivity map":
            raise KeyboardInterrupt

    found = run(*dependent(N)[:2], estimator=FEATURES, progress=hear)
    with pytest.raises(KeyboardInterrupt):
        found.to_zarr(tmp_path / "map.zarr")
    assert not list(tmp_path.iterdir())


def test_to_zarr__from_workers_is_the_same(client, tmp_path):
    data = dependent(N)[:2]
    found = run(*data, estimator=FEATURES, client=client, threads=None)
    found.to_zarr(tmp_path / "map.zarr")
    here = run(*data, estimator=FEATURES)
    group = zarr.open_group(tmp_path / "map.zarr", mode="r")
    np.testing.assert_allclose(group["x1"][:], here.maps["x1"].compute(), rtol=1e-9, atol=1e-13)
