"""The synthetic songs: shape, prefix property, known dependence."""

import numpy as np
import pytest
import zarr

from dhsic.errors import InvalidArgumentError
from dhsic.io.synthetic import generate, synthetic, synthetic_block


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def gaussian(x):
    squares = np.sum(x.astype(float) ** 2, axis=1)
    distances = np.maximum(squares[:, None] + squares - 2 * x.astype(float) @ x.T, 0)
    return np.exp(-distances / np.median(distances))


def permutation_pvalue(x, y, replicates=49):
    rng = np.random.default_rng(0)
    k, l_ = gaussian(x), gaussian(y)
    k -= k.mean(axis=0) + k.mean(axis=1)[:, None] - k.mean()
    observed = np.sum(k * l_)
    orders = (rng.permutation(len(x)) for _ in range(replicates))
    null = [np.sum(k * l_[np.ix_(order, order)]) for order in orders]
    return (1 + np.sum(np.array(null) >= observed)) / (replicates + 1)


def test_synthetic__is_shaped_like_the_songs():
    features, year = synthetic(20_000)
    assert features.shape == (20_000, 90)
    assert year.shape == (20_000, 1)
    assert features.dtype == year.dtype == np.float32
    assert (year == np.rint(year)).all()
    assert year.min() >= 1922
    assert year.max() <= 2011
    assert abs(np.median(year) - 2002) <= 1
    assert year.mean() < np.median(year)
    assert abs(year.std() - 11) < 1


def test_synthetic__has_correlated_columns_of_different_scales():
    features, _ = synthetic(20_000)
    scales = features.std(axis=0)
    assert scales.max() / scales.min() > 30
    correlations = np.corrcoef(features.T)[np.triu_indices(90, 1)]
    assert np.abs(correlations).mean() > 0.15
    assert np.abs(correlations).max() < 0.75


def test_synthetic__shares_factors_as_documented():
    features, _ = synthetic(20_000)
    variances = np.linalg.eigvalsh(np.corrcoef(features.T))
    assert abs(variances[:-6].sum() / 90 - 0.3 * 84 / 90) < 0.02


@pytest.mark.parametrize("rows", [1, 4095, 4096, 4097, 9000])
def test_synthetic__begins_with_the_shorter_data_set(rows):
    short, long = synthetic(rows, seed=3, features=4), synthetic(12_000, seed=3, features=4)
    for part, whole in zip(short, long, strict=True):
        np.testing.assert_array_equal(part, whole[:rows])


@pytest.mark.parametrize(("start", "stop"), [(0, 1), (4000, 4200), (4096, 8192), (8191, 12_289)])
def test_synthetic_block__cuts_the_same_data(start, stop):
    cut = synthetic_block(3, start, stop, 4, 0.5)
    for part, whole in zip(cut, synthetic(13_000, seed=3, features=4, dependence=0.5), strict=True):
        np.testing.assert_array_equal(part, whole[start:stop])


@pytest.mark.parametrize("name", ["seed", "dependence"])
def test_synthetic__follows_its_options(name):
    _, year = synthetic(100, **{name: 1})
    _, other = synthetic(100)
    assert not np.array_equal(year, other)


def test_synthetic__draws_new_rows_in_every_block():
    features, _ = synthetic(8192, features=2)
    assert not np.array_equal(features[:4096], features[4096:])


def test_synthetic__gives_the_same_numbers_in_either_dtype():
    narrow, wide = synthetic(100), synthetic(100, dtype="float64")
    assert wide[0].dtype == wide[1].dtype == np.float64
    np.testing.assert_array_equal(narrow[0], wide[0])
    np.testing.assert_array_equal(narrow[1], wide[1])


def test_synthetic__keeps_the_features_whatever_the_dependence():
    np.testing.assert_array_equal(synthetic(50, dependence=0)[0], synthetic(50, dependence=1)[0])


def test_synthetic__is_detectable_by_default_at_2000_rows():
    assert permutation_pvalue(*synthetic(2000)) == 0.02


def test_synthetic__is_not_trivial_by_default_at_200_rows():
    pvalues = [permutation_pvalue(*synthetic(200, seed=seed)) for seed in range(20)]
    assert np.mean(np.array(pvalues) <= 0.04) < 0.6


def test_synthetic__is_independent_at_0():
    pvalues = [permutation_pvalue(*synthetic(200, dependence=0, seed=s)) for s in range(40)]
    assert np.mean(np.array(pvalues) <= 0.1) <= 0.25
    assert 0.3 < np.mean(pvalues) < 0.7


def test_synthetic__hides_the_dependence_from_correlation():
    features, year = synthetic(20_000)
    each = [abs(np.corrcoef(column, year[:, 0])[0, 1]) for column in features.T]
    assert max(each) < 0.15


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": 0}, "rows must be an integer >= 1, got 0"),
        ({"rows": 2.5}, "rows must be an integer >= 1, got 2.5"),
        ({"features": 0}, "features must be an integer >= 1, got 0"),
        ({"seed": -1}, "seed must be an integer >= 0, got -1"),
        ({"dependence": 1.5}, "dependence must be from 0 to 1, got 1.5"),
        ({"dependence": float("nan")}, "dependence must be from 0 to 1, got nan"),
        ({"dtype": "int8"}, "dtype must be float32 or float64, not 'int8'"),
        ({"dtype": {"a": [1]}}, "dtype must be float32 or float64"),
    ],
)
def test_generate__refuses_options_out_of_range(tmp_path, options, message):
    with pytest.raises(InvalidArgumentError, match=message):
        generate(tmp_path / "s.zarr", **{"rows": 10, **options})
    with pytest.raises(InvalidArgumentError, match=message):
        synthetic(**{"rows": 10, **options})
    assert names(tmp_path) == []


@pytest.mark.parametrize(("start", "stop"), [(-1, 5), (5, 5), (6, 5)])
def test_synthetic_block__refuses_empty_ranges(start, stop):
    with pytest.raises(InvalidArgumentError, match="must be an integer >="):
        synthetic_block(0, start, stop)


def test_generate__writes_the_rows_of_synthetic(tmp_path):
    options = {"rows": 9000, "features": 7, "dependence": 0.8, "seed": 5, "dtype": "float64"}
    written = generate(tmp_path / "s.zarr", **options)
    group = zarr.open_group(tmp_path / "s.zarr", mode="r")
    features, year = synthetic(**options)
    assert written.shapes == {"features": (9000, 7), "year": (9000, 1)}
    assert group["features"].dtype == group["year"].dtype == np.float64
    np.testing.assert_array_equal(group["features"][:], features)
    np.testing.assert_array_equal(group["year"][:], year)
    assert group["year"].attrs["synthetic"] == {"dependence": 0.8, "seed": 5}


def test_generate__stores_float32_by_default(tmp_path):
    generate(tmp_path / "s.zarr", rows=10)
    assert zarr.open_group(tmp_path / "s.zarr", mode="r")["features"].dtype == np.float32


def test_generate__overwrites_when_told(tmp_path):
    generate(tmp_path / "s.zarr", rows=10)
    with pytest.raises(InvalidArgumentError, match="overwrite=True"):
        generate(tmp_path / "s.zarr", rows=20)
    assert generate(tmp_path / "s.zarr", rows=20, overwrite=True).rows == 20


def test_generate__reports_progress(tmp_path):
    seen = []
    generate(tmp_path / "s.zarr", rows=9000, progress=seen.append)
    assert seen == [4096, 8192, 9000]


def test_generate__leaves_nothing_behind_when_interrupted(tmp_path):
    def interrupt(rows):
        if rows > 100_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate(tmp_path / "s.zarr", rows=200_000, features=9, progress=interrupt)
    assert names(tmp_path) == []
