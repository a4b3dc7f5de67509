"""The median heuristic."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from dhsic.errors import DataError
from dhsic.kernels import Gaussian, median_distance
from dhsic.kernels.bandwidth import median_distances


def test_median_distance__is_the_median_over_pairs():
    x = np.random.default_rng(0).normal(size=(31, 4))
    pairs = [np.linalg.norm(x[i] - x[j]) for i in range(31) for j in range(i)]
    assert median_distance(x) == pytest.approx(np.median(pairs))


@pytest.mark.parametrize("n", [2, 3, 4, 5, 30, 31])
@pytest.mark.parametrize("levels", [2, 3, 2**40])
def test_median_distance__is_to_the_bit_that_of_numpy(n, levels):
    for seed in range(20):
        x = np.random.default_rng(seed).integers(levels, size=(n, 2)) / 7
        x[0] += 1 / 3
        if median := np.median(pdist(x)):
            assert median_distance(x) == median


@pytest.mark.parametrize("n", [140, 141, 142])  # odd and even numbers of many pairs
@pytest.mark.parametrize("levels", [2, 3, 9, 2**40])
def test_median_distance__of_many_pairs_is_to_the_bit_that_of_numpy(n, levels):
    drawn = np.random.default_rng(n).integers(levels, size=(n, 2)) / 7
    for x in (drawn, np.sort(drawn, axis=0), drawn**5, np.tile(drawn[:2], (n, 1))[:n]):
        if median := np.median(pdist(x)):
            assert median_distance(x) == median


ON_A_LINE = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "heavy tails": lambda rng, n: rng.standard_cauchy(n),
    "skewed": lambda rng, n: np.exp(3.0 * rng.standard_normal(n)),
    "two groups": lambda rng, n: rng.standard_normal(n) + 20.0 * (rng.random(n) < 0.5),
    "far from 0": lambda rng, n: 1e9 + rng.standard_normal(n),
    "years": lambda rng, n: rng.integers(1920, 2011, n) + 0.0,
    "rounded": lambda rng, n: rng.standard_normal(n).round(2),
    "few levels": lambda rng, n: rng.integers(9, size=n) + 0.0,
}


@pytest.mark.parametrize("n", [127, 128, 129, 130, 131, 1000])  # odd and even numbers of pairs
@pytest.mark.parametrize("case", ON_A_LINE)
def test_median_distance__of_one_column_is_to_the_bit_that_of_all_pairs(case, n):
    x = ON_A_LINE[case](np.random.default_rng(n), n)
    assert median_distance(x[:, None]) == np.median(pdist(x[:, None]))


def test_median_distance__of_one_column_takes_few_pairs(monkeypatch):
    monkeypatch.setattr("scipy.spatial.distance.pdist", lambda *_: pytest.fail("all pairs"))
    for case in ("normal", "heavy tails", "far from 0", "years"):
        median_distance(ON_A_LINE[case](np.random.default_rng(0), 1000)[:, None])


def test_median_distance__takes_the_cityblock_metric():
    assert median_distance(np.array([[0.0, 0.0], [3.0, 4.0]])) == 5.0
    assert median_distance(np.array([[0.0, 0.0], [3.0, 4.0]]), "cityblock") == 7.0


def test_median_distance__of_a_rare_binary_variable_is_its_gap():
    x = np.zeros((500, 1))
    x[7] = 2.5
    assert median_distance(x) == pytest.approx(2.5)


def test_median_distance__with_ties_is_the_mean_of_what_differs():
    x = np.array([[0.0]] * 8 + [[1.0], [3.0]])
    distances = [1.0] * 8 + [3.0] * 8 + [2.0]
    assert median_distance(x) == pytest.approx(np.mean(distances))


@pytest.mark.parametrize("n", [1, 2, 50])
def test_median_distance__refuses_a_constant_sample(n):
    with pytest.raises(DataError, match=f"two distinct rows; all {n} sampled rows are the same"):
        median_distance(np.full((n, 2), 3.0))


def test_median_distance__is_robust_to_heavy_tails():
    x = np.random.default_rng(0).standard_cauchy(size=(300, 1))
    typical = median_distance(x)
    x[:20] *= 1e150
    assert typical < median_distance(x) < 2 * typical
    x[:20] *= 1e100  # squared, these overflow
    assert typical < median_distance(np.hstack([x, x])) < 4 * typical


@pytest.mark.parametrize("scale", [1e-180, 1e-120, 1e120, 1e180])
def test_median_distance__refuses_what_leaves_the_range(scale):
    x = scale * np.random.default_rng(0).normal(size=(30, 2))
    with pytest.raises(DataError, match=r"differ by 1e-100 to 1e\+100; .*: rescale the variable"):
        median_distance(x)


def test_median_distance__refuses_an_infinite_mean():
    x = np.zeros((30, 1))
    x[:3] = [[1e308], [-1e308], [1.0]]
    with pytest.raises(DataError, match="typical difference is inf"):
        median_distance(x)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_median_distance__refuses_what_is_not_finite(bad):
    x = np.zeros((5, 2))
    x[2:4, 1] = bad
    with pytest.raises(DataError, match="must be finite; 2 of 5 rows are not"):
        median_distance(x)


@pytest.mark.parametrize("x", [np.zeros(5), np.zeros((0, 3)), np.zeros((2, 2, 2))])
def test_fit__refuses_what_is_not_a_sample(x):
    with pytest.raises(DataError, match=r"must have shape \(s, d\)"):
        Gaussian().fit(x)


def test_fit__takes_the_median_as_origin():
    x = np.array([[0.0, 5.0], [1.0, 6.0], [100.0, 7.0]])
    assert Gaussian().fit(x).origin == (1.0, 6.0)


@pytest.mark.parametrize("n", [2, 31, 127, 128, 300])
@pytest.mark.parametrize("levels", [2, 2**40])
def test_median_distances__are_those_of_the_columns_to_the_bit(n, levels):
    x = np.random.default_rng(n).integers(levels, size=(n, 6)) / 7
    x[0] += 1 / 3
    x[:, 4] = 2.0
    found = median_distances(x)
    for metric in ("euclidean", "cityblock"):
        each = [median_distance(x[:, j : j + 1], metric) for j in range(6) if j != 4]
        assert found == [*each[:4], 0.0, *each[4:]]
