"""Locations of NFSIC: how many, where they are placed, and that a test leaves out their rows."""

import numpy as np
import pytest

import dhsic
from dhsic import NFSIC, Permutation
from dhsic.errors import DataError
from tests.estimators.cases import draw
from tests.estimators.orbit import training_rows

# Few rows, of which the guard of approximate nulls warns.
pytestmark = pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")


def sine(n, rng, frequency):
    """Joint density proportional to 1 + sin(w x) sin(w y) on a square, by rejection."""
    xy = rng.uniform(-np.pi, np.pi, (8 * n, 2))
    density = 1.0 + np.sin(frequency * xy).prod(axis=1)
    return xy[rng.uniform(0.0, 2.0, 8 * n) < density][:n].T


@pytest.mark.parametrize("null", ["chi-square", Permutation(99), "shifts"])
def test_optimised_locations__find_what_random_ones_do_not(null):
    data, found = sine(1200, np.random.default_rng(3), 3), {}
    for placement in ("optimised", "random"):
        options = {"kernels": "gaussian", "estimator": NFSIC(placement=placement), "rng": 0}
        found[placement] = dhsic.independence_test(*data, null=null, **options).pvalue
    assert found["optimised"] <= 0.01
    assert found["random"] > 0.05


@pytest.mark.parametrize("kernel", ["gaussian", "imq", "laplacian", "matern52", "rq"])
def test_optimised_locations__of_radial_kernels_have_a_larger_estimate(kernel):
    """They climb by the gradient of the kernel, and lie where the data are."""
    data, found = sine(800, np.random.default_rng(0), 2), {}
    for placement in ("optimised", "random"):
        made = NFSIC(n_locations=4, placement=placement)
        found[placement] = np.mean(
            [dhsic.hsic(*data, estimator=made, kernels=kernel, rng=s).estimate for s in range(3)]
        )
    assert found["optimised"] > 1.2 * found["random"]


def test_optimised_locations__of_kernels_without_a_gradient_stay_at_rows():
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=400)
    x = labels**2 + rng.standard_normal(400)
    for kernels in (["gaussian", "delta"], ["linear", "delta"]):
        found = dhsic.independence_test(x, labels, estimator=NFSIC(3), kernels=kernels, rng=0)
        assert found.pvalue <= 0.002


@pytest.mark.parametrize("null", ["chi-square", "shifts"])
def test_training_rows__are_left_out_of_the_test(null):
    """A dependence of these rows alone moves the locations, and is no evidence."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x, y = rng.standard_normal((2, 400))
        trained = training_rows(seed, 400, 200)
        y[trained] = x[trained]
        made = NFSIC(n_locations=3, training_rows=200)
        assert dhsic.independence_test(x, y, estimator=made, null=null, rng=seed).pvalue > 0.01
        y = x.copy()
        y[trained] = rng.permutation(y[trained])
        found = dhsic.independence_test(x, y, estimator=made, null=null, rng=seed)
        assert found.pvalue <= 0.01


def test_training_rows__that_are_all_the_same_are_no_evidence():
    rare = np.zeros(200)
    rare[[0, 1]] = 1.0
    y = np.random.default_rng(0).standard_normal(200)
    made = NFSIC(n_locations=2, training_rows=3)
    for seed in range(4):
        found = dhsic.independence_test(rare, y, estimator=made, null="chi-square", rng=seed)
        assert found.pvalue > 0.01


def test_nan__is_found_in_the_row_of_the_data():
    x, y = np.random.default_rng(0).standard_normal((2, 400))
    row = int(np.setdiff1d(np.arange(300, 400), training_rows(0, 400, 200))[0])
    y[row] = np.nan
    with pytest.raises(DataError, match=f"variable 'x2' has NaN or infinity, first in row {row}"):
        dhsic.independence_test(x, y, estimator="nfsic", rng=0)


@pytest.mark.parametrize(
    ("n", "options", "count"),
    [
        (2000, {}, 10),
        (300, {}, 3),
        (40, {}, 1),
        (300, {"n_locations": 12}, 12),
        (300, {"placement": "random"}, 10),
        (8, {"n_locations": 12}, 4),
        (8, {"n_locations": 12, "placement": "random"}, 8),
    ],
)
def test_n_locations__follows_the_rows_to_train_on(n, options, count):
    found = dhsic.hsic(*draw(n, 2), estimator=NFSIC(**options), kernels="gaussian:0.4", rng=5)
    assert found.features.counts == (count,)
    assert found.quantity == "NFSIC / n"


def test_power__of_three_variables_whichever_depend():
    x, y, z = np.random.default_rng(2).standard_normal((3, 1_000))
    for data in ((x, x + y, z), (x, y, y + z), (x, y, np.sign(x * y) * np.abs(z))):
        assert dhsic.independence_test(*data, estimator="nfsic", rng=0).pvalue <= 0.01
