"""The public functions: what every option changes, and data of which hardly any row varies.

The same answer of any chunks, workers and retries is the table of `tests/test_places.py`; refusals
are that of `tests/test_refusals.py`.
"""

import numpy as np
import pandas as pd
import pytest

import dhsic
from dhsic.errors import DataError
from dhsic.kernels import Gaussian

RNG = np.random.default_rng(0)
X = RNG.standard_normal((9000, 3))
Y = 0.1 * X[:, 0] ** 2 + RNG.standard_normal(9000)
# without a share of the reference, scores are numbers that show every change, not ranks
GRID = dhsic.Grid(dhsic.Candidates("gaussian", (0.5, 1.0)), combine="all", reference_share=0)
OPTIONS = {
    "kernels": "gaussian",
    "estimator": dhsic.NystromMHSIC(n_landmarks=40),
    "null": dhsic.Permutation(20),
    "rng": 1,
}
one_and_several = pytest.mark.parametrize("kernels", ["gaussian", GRID], ids=["one", "several"])


def run(**changes):
    return dhsic.independence_test(X, Y, **{**OPTIONS, **changes})


@pytest.fixture(scope="module")
def references():
    return {kernels: run(kernels=kernels) for kernels in ("gaussian", GRID)}


@one_and_several
def test_rng__fixes_the_draws_and_is_recorded(references, kernels):
    expected = references[kernels]
    again = run(kernels=kernels)
    assert again.null_distribution.tobytes() == expected.null_distribution.tobytes()
    other = run(kernels=kernels, rng=2)
    assert other.seed == 2
    assert other.estimate != expected.estimate
    drawn = run(kernels=kernels, rng=np.random.default_rng(3))
    again = run(kernels=kernels, rng=drawn.seed)
    assert (again.statistic, again.estimate) == (drawn.statistic, drawn.estimate)


@one_and_several
def test_n_resamples__is_the_number_of_replicates(kernels):
    options = {"kernels": kernels, "null": "permutation", "n_resamples": 17, "rng": 0}
    result = dhsic.independence_test(X[:300], Y[:300], **options)
    assert len(result.null_distribution) == 17
    assert result.pvalue >= 1 / 18


def test_kernels__one_a_variable_and_each_is_used(references):
    gammas = [0.1, 0.9]
    result, swapped = (run(kernels=[Gaussian(gamma=g) for g in o]) for o in (gammas, gammas[::-1]))
    assert [v.kernel for v in result.variables] == ["gaussian:0.1", "gaussian:0.9"]
    usual = references["gaussian"]
    assert len({usual.statistic, result.statistic, swapped.statistic}) == 3
    widened = dhsic.independence_test(X, 1000.0 * Y, **OPTIONS)
    first, second = (float(v.kernel.split(":")[1]) for v in usual.variables)
    first_again, second_again = (float(v.kernel.split(":")[1]) for v in widened.variables)
    assert first_again == first
    assert second_again == pytest.approx(1e-6 * second, rel=1e-12)
    for left_out in (None, ["gaussian", None]):
        one, other = run(null="gamma"), run(null="gamma", kernels=left_out)
        assert other.grid is None
        assert (one.statistic, one.pvalue) == (other.statistic, other.pvalue)


@one_and_several
def test_precision__is_that_of_the_tiles(references, kernels):
    single, double = run(kernels=kernels, precision="float32"), references[kernels]
    assert single.precision == "float32"
    assert single.null_distribution.tobytes() != double.null_distribution.tobytes()
    np.testing.assert_allclose(
        single.null_distribution, double.null_distribution, rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("null", ["gamma", "spectral"])
def test_fitted_null__has_no_monte_carlo_error_and_draws_to_look_at(null):
    result = run(null=null)
    assert result.pvalue_error is None
    assert result.null == null
    assert len(result.null_distribution) == 1000
    draws = (result.null_distribution >= result.statistic).mean()
    assert draws == pytest.approx(result.pvalue, abs=0.05)
    simulated = run(null=dhsic.Spectral("simulation", n_resamples=400))
    p = simulated.pvalue
    assert simulated.pvalue_error == pytest.approx(np.sqrt(p * (1 - p) / 400))


def test_plan__reads_nothing_and_says_what_would_run():
    class Untouchable(np.ndarray):
        def __getitem__(self, key):
            pytest.fail("the plan must not read the data")

    options = {key: OPTIONS[key] for key in ("kernels", "estimator", "null")}
    plan = dhsic.plan(X.view(Untouchable), Y, **options, threads=1)
    assert str(plan).startswith("rows         9,000 of x1, x2\nestimator    nystrom-m\nnull ")
    assert (plan.estimator, plan.null) == ("nystrom-m", "permutation")
    assert dhsic.plan_two_sample(np.zeros(9), np.zeros(9)).estimator == "v-mmd"
    large = np.zeros(900_000)
    few = {"kernels": "gaussian", "estimator": dhsic.NystromMHSIC(n_landmarks=4), "threads": 1}
    assert "shifts" in str(dhsic.plan(large, large, **few).check())


def test_hsic__is_the_estimate_of_the_test(references):
    estimator = dhsic.NystromMHSIC(n_landmarks=40, pairing="independent")
    found = dhsic.hsic(X, Y, estimator=estimator, rng=1)
    assert found.estimate == pytest.approx(references["gaussian"].estimate, rel=1e-9)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("estimator", ["nystrom-m", "v-hsic", "auto"])
def test_hsic__of_three_variables_is_zero_where_two_are_constant(estimator, precision):
    data = np.full(9000, 0.1), Y, np.full((9000, 2), -3.0)
    found = dhsic.hsic(*data, estimator=estimator, rng=0, precision=precision)
    assert abs(found.estimate) < {"float64": 1e-12, "float32": 1e-9}[precision]


def test_witness_functions__have_the_covariance_that_they_say():
    rng = np.random.default_rng(0)
    x, noise = rng.standard_normal((2, 400))
    y = np.column_stack([x**2 + 0.5 * noise, rng.standard_normal(400)])
    options = {"estimator": dhsic.COCO(n_landmarks=300), "rng": 1, "kernels": "laplacian"}
    found = dhsic.witness_functions(x, y, **options)
    f, g = found.first(x[:, None]), found.second(y)
    assert np.cov(f, g, bias=True)[0, 1] == pytest.approx(found.coco, rel=1e-6)
    assert found.coco == pytest.approx(dhsic.hsic(x, y, **options).estimate, rel=1e-12)
    assert found.first.kernel.spec().startswith("laplacian")


# Values so rare that the rows which set bandwidths have none


def rare(rows, values=1.0, n=9000):
    """A variable that is 0 but in a few rows, of which the seeds below draw none."""
    x = np.zeros(n)
    x[rows] = values
    return x


@pytest.mark.parametrize("kernels", ["gaussian", "matern32", "laplacian", None])
def test_rare_events__have_a_bandwidth_of_their_own(kernels):
    """The mean of the distances that are not 0, for most are."""
    result = dhsic.independence_test(X, rare([0, 1], [3.0, 5.0]), kernels=kernels, rng=0)
    assert result.passes[0].name == "scan"
    assert 0 < result.pvalue <= 1
    if kernels is None:
        assert np.isfinite([c.standardised for c in result.grid.combinations]).all()
    else:
        length = float(result.variables[1].kernel.split(":")[1])
        length = {"gaussian": length**-0.5, "matern32": length, "laplacian": 1 / length}[kernels]
        assert length == pytest.approx(4.0, rel=1e-3)
    assert "scan" not in [one.name for one in run().passes]
    assert [one.name for one in dhsic.plan(X, Y, threads=1).possible] == ["scan"]


@pytest.mark.parametrize("estimator", ["nystrom-hsic", "nystrom-m", "v-hsic"])
def test_pass_of_an_estimate__is_not_called_one_of_replicates(estimator):
    found = dhsic.hsic(X[:1000], Y[:1000], estimator=estimator, rng=0)
    assert [one.name.endswith(" sums") for one in found.passes] == [True]


def test_rare_events__that_matter_are_found():
    y = Y + 30.0 * rare(np.arange(0, 9000, 1500))
    x = rare(np.arange(0, 9000, 1500))
    for estimator in (dhsic.NystromMHSIC(50), dhsic.NystromHSIC(20), dhsic.RFFHSIC(50)):
        result = dhsic.independence_test(
            x, y, kernels="gaussian", estimator=estimator, null=dhsic.Permutation(99), rng=0
        )
        assert result.pvalue <= 0.05


def test_rare_events__go_through_everything_that_fits_kernels():
    x, z = X[:, 0], X[:, 1]
    y = rare([0, 1, 5000])
    options = {"rng": 0, "threads": 1}
    matrix = dhsic.dependence_matrix(x, y, z, **options)
    assert np.isfinite(matrix.pvalues).all()
    values = [
        dhsic.interaction_test(x, y, z, n_resamples=9, **options).pvalue,
        dhsic.two_sample_test(y[:4000], y[4000:], kernels="gaussian", **options).pvalue,
        dhsic.witness_functions(x, y, **options).coco,
        dhsic.mean_embedding(y, **options).kernel.gamma,
        *dhsic.sensitivity_map(x, y, **options).features.values(),
    ]
    assert np.isfinite(np.hstack(values)).all()
    assert values[3] == 1.0


def test_balanced_numbers__of_two_values_are_tested_beside_others():
    rng = np.random.default_rng(0)
    first, second = np.tile([0.0, 1.0], 30), np.repeat([0.0, 1.0], 30)  # of which all spreads are 0
    beside_labels = pd.DataFrame({"a": first, "b": pd.Categorical(rng.integers(0, 3, 60))})
    for x in (np.column_stack([first, 1.0 - first]), np.column_stack([first, second])):
        assert dhsic.independence_test(x, first + rng.random(60), rng=0).pvalue < 0.01
    assert dhsic.independence_test(beside_labels, first + rng.random(60), rng=0).pvalue < 0.01
    with pytest.raises(DataError, match="rescale the variable"):
        dhsic.independence_test(1e-200 * first, second, kernels="linear", rng=0)
