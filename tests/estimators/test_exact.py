"""V-HSIC, U-HSIC and SubHSIC against their definitions."""

import itertools
from types import SimpleNamespace

import dask.array as da
import numpy as np
import pytest
import zarr

import dhsic
from dhsic import UHSIC, VHSIC, DCor, DCov
from dhsic._random import random_signs
from dhsic.engine import passes
from dhsic.engine.events import PassStarted, StepStarted
from dhsic.engine.groups import Groups
from dhsic.engine.runtime import Runtime
from dhsic.engine.session import Session
from dhsic.errors import DataError
from dhsic.estimators.gram import permutations as gram_permutations
from dhsic.estimators.gram import steps as gram_steps
from dhsic.estimators.gram.sums import GramSums, gram_hsic
from dhsic.estimators.null_moments import null_moments
from dhsic.estimators.resample import orbit_of
from dhsic.io.open import open_variables
from dhsic.kernels import Combinations, Gaussian, Laplacian
from dhsic.nulls import ChiSquareMixture
from tests import oracles

GAMMA = 0.5


def setting(n, m, seed=0):
    rng = np.random.default_rng([n, m, seed])
    data = [rng.standard_normal((n, d)) for d in (1, 3, 2, 1)[:m]]
    data[1][:, 0] += 0.5 * data[0][:, 0]
    return data


def orbit_of_rows(null, n):
    return orbit_of(SimpleNamespace(n=n, seed=3, moves=None), null)


def permutations_of(null, n, m=2):
    return oracles.permutations_of_orbit(orbit_of_rows(null, n), m)


def permuted(matrix, order):
    return matrix[np.ix_(order, order)]


def grams_of(data):
    return [oracles.gaussian_gram(x, x, GAMMA) for x in data]


def run(data, null="permutation", estimator="v-hsic", **options):
    return dhsic.independence_test(
        *data, kernels=Gaussian(gamma=GAMMA), estimator=estimator, null=null, rng=3, **options
    )


def estimate(data, estimator="v-hsic", **options):
    return dhsic.hsic(
        *data, kernels=Gaussian(gamma=GAMMA), estimator=estimator, rng=3, **options
    ).estimate


@pytest.fixture
def small_tiles(monkeypatch):
    """Several groups and blocks, with rows left over, so that their borders are crossed."""
    monkeypatch.setattr(passes, "PAIRS", passes.PAIRS._replace(fewest_rows=1))
    monkeypatch.setattr(gram_steps, "_FEWEST", 11)


@pytest.mark.parametrize("m", [2, 3, 4])
def test_v_hsic__equals_equation_5(m, small_tiles):
    data = setting(70, m)
    assert estimate(data) == pytest.approx(oracles.v_hsic(grams_of(data)), rel=1e-10)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("m", [2, 3])
def test_v_hsic__takes_two_rows(m, n, precision):
    data = setting(n, m)
    expected = oracles.v_hsic(grams_of(data))
    assert expected > 1e-3
    assert estimate(data, precision=precision) == pytest.approx(expected, rel=1e-5)
    fitted = dhsic.hsic(*data, estimator="v-hsic", rng=0)
    kernels = [Gaussian().fit(x) for x in data]
    grams = [k(x) for k, x in zip(kernels, data, strict=True)]
    assert fitted.estimate == pytest.approx(oracles.v_hsic(grams), rel=1e-9)
    assert [v.kernel for v in fitted.variables] == [k.spec() for k in kernels]


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", [UHSIC(), DCov(unbiased=True), DCor(unbiased=True)], ids=str)
@pytest.mark.parametrize("dims", [(1, 1), (2, 1)])
def test_unbiased_estimates__need_four_rows(n, kind, dims):
    rng = np.random.default_rng(n)
    data = [rng.standard_normal((n, d)) for d in dims]
    if n == 4:
        assert np.isfinite(dhsic.hsic(*data, estimator=kind, rng=0).estimate)
        return
    fewest, remedy = (2, "add rows") if n == 1 else (4, "take a V-statistic, as 'v-hsic' or unb")
    with pytest.raises(DataError, match=f"needs at least {fewest} rows, got {n}: .*{remedy}"):
        dhsic.hsic(*data, estimator=kind, rng=0)


@pytest.mark.parametrize("estimator", ["nystrom-m", "nystrom-hsic"])
@pytest.mark.parametrize("n", [2, 3])
def test_landmarks__of_all_of_few_rows_give_v_hsic(n, estimator):
    data = setting(n, 2)
    expected = oracles.v_hsic(grams_of(data))
    assert estimate(data, estimator) == pytest.approx(expected, rel=1e-7)


def test_u_hsic__equals_its_means_over_distinct_rows():
    data = setting(14, 2)
    assert estimate(data, "u-hsic") == pytest.approx(oracles.u_hsic(*grams_of(data)), rel=1e-10)


def test_u_hsic__is_unbiased():
    rng = np.random.default_rng(0)
    values = [estimate(rng.standard_normal((2, 12)), "u-hsic") for _ in range(400)]
    biased = [estimate(rng.standard_normal((2, 12)), "v-hsic") for _ in range(400)]
    error = np.std(values) / 20
    assert abs(np.mean(values)) < 4 * error
    assert np.mean(biased) > 20 * error


def test_v_hsic__is_the_mean_of_centred_products():
    data = setting(50, 2)
    first, second = grams_of(data)
    h = np.eye(50) - 1 / 50
    assert estimate(data) == pytest.approx(np.mean((h @ first @ h) * (h @ second @ h)), rel=1e-12)


@pytest.mark.parametrize("null", [dhsic.Permutation(4), dhsic.Multiplier(4), "gamma", "spectral"])
@pytest.mark.parametrize("m", [2, 3])
def test_statistic__is_n_times_the_estimate(m, null):
    result = run(setting(40, m), null)
    assert result.statistic == pytest.approx(40 * result.estimate, rel=1e-10)


@pytest.mark.parametrize("null", [dhsic.Permutation(4), dhsic.Multiplier(4), "spectral"])
def test_u_statistic__is_n_times_the_estimate(null):
    result = run(setting(40, 2), null, "u-hsic")
    assert result.statistic == pytest.approx(40 * result.estimate, rel=1e-10)


@pytest.fixture
def small_strips(monkeypatch):
    """Several strips, chunks, batches and blocks, so that their borders are crossed."""
    monkeypatch.setattr(passes, "PAIRS", passes.PAIRS._replace(fewest_rows=1))
    monkeypatch.setattr(gram_permutations, "_STRIP", 9 * 25)
    monkeypatch.setattr(gram_permutations, "_CHUNK", 7 * 36)
    monkeypatch.setattr(gram_permutations, "BATCH", 3)


WITHIN = {
    "all": dhsic.Permutation(4, within="all"),
    "groups": dhsic.Permutation(4, within="groups", group_rows=23),
    "left over": dhsic.Permutation(4, within="groups", group_rows=33),
}


@pytest.mark.parametrize("within", WITHIN)
@pytest.mark.parametrize("m", [2, 3, 4])
def test_v_hsic__permutes_as_it_is_told(m, within, small_strips):
    data, null = setting(71, m), WITHIN[within]
    result = run(data, null)
    grams = grams_of(data)
    orders = permutations_of(null, 71, m)
    for order, value in zip(orders, result.null_distribution, strict=True):
        moved = [permuted(k, o) for k, o in zip(grams[1:], order, strict=True)]
        assert value == pytest.approx(71 * oracles.v_hsic([grams[0], *moved]), rel=1e-9)
    assert result.statistic == pytest.approx(71 * oracles.v_hsic(grams), rel=1e-9)


@pytest.mark.parametrize("within", WITHIN)
def test_u_hsic__permutes_as_it_is_told(within, small_strips):
    data, null = setting(71, 2), WITHIN[within]
    result = run(data, null, "u-hsic")
    first, second = (oracles.u_centred(k) for k in grams_of(data))
    orders = permutations_of(null, 71)
    for (order,), value in zip(orders, result.null_distribution, strict=True):
        assert value == pytest.approx(np.sum(first * permuted(second, order)) / 68, rel=1e-9)


@pytest.mark.parametrize(
    ("within", "detail", "groups"),
    [
        ("all", "all rows shuffled", (71, 1, 0)),
        ("groups", "shuffled in groups of 23 rows", (23, 3, 2)),
        ("left over", "shuffled in groups of 35 rows", (35, 2, 1)),
    ],
)
def test_permutations__are_within_what_they_say(within, detail, groups):
    """All rows, or groups of about so many; those left over stay."""
    result = run(setting(71, 2), WITHIN[within])
    assert result.null_reason.endswith(detail)
    found = orbit_of_rows(WITHIN[within], 71).groups
    assert (found.size, found.count, found.n_left) == groups
    passes = [] if within == "all" else ["permutation null"]
    assert [done.name for done in result.passes] == passes


@pytest.mark.parametrize("within", ["all", "groups"])
def test_permutations__of_few_are_the_first_of_many(within):
    """So that whoever stops early has what a longer run has."""
    data = setting(200, 3)
    few, many = (
        run(data, dhsic.Permutation(count, within, 50)).null_distribution for count in (7, 150)
    )
    np.testing.assert_allclose(few, many[:7], rtol=1e-12)


@pytest.mark.parametrize("within", ["all", "groups"])
@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("n", [12, 60])
def test_permutations__count_the_ties_that_there_are(n, unbiased, precision, within):
    """Distances of integers have integer sums, which Python compares exactly."""
    null, estimator = dhsic.Permutation(60, within, n // 3), DCov(0.9999999999, unbiased)
    for seed in range(4):
        rng = np.random.default_rng([n, seed])
        x, y = rng.integers(0, 2, (2, n))
        x[:2] = y[:2] = 0, 1
        found = dhsic.independence_test(
            x, y, estimator=estimator, null=null, rng=3, precision=precision
        )
        tables = np.array([np.sum(x * y[o]) for (o,) in permutations_of(null, n)])
        far = abs(tables - np.sum(x) * np.sum(y) / n)
        expected = far >= abs(np.sum(x * y) - np.sum(x) * np.sum(y) / n) - 1e-9
        assert found.pvalue == pytest.approx((1 + expected.sum()) / 61)


@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
@pytest.mark.parametrize("m", [2, 3])
def test_v_hsic__multiplier_equals_its_definition(m, small_tiles):
    data = setting(24, m)
    result = run(data, dhsic.Multiplier(5))
    h = oracles.centred_product_gram(grams_of(data))
    signs = np.empty((24, 5))
    signs[oracles.rows_of_groups(Groups.of(24, 11, 3))] = random_signs(3, 0, 24, 5)
    w = signs - signs.mean(axis=0)
    expected = 24 / 22 * np.einsum("ib,ij,jb->b", w, h, w) / 24
    np.testing.assert_allclose(result.null_distribution, expected, rtol=1e-9)


@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
def test_u_hsic__multiplier_equals_its_definition(small_tiles):
    data = setting(24, 2)
    result = run(data, dhsic.Multiplier(5), "u-hsic")
    h = np.prod([oracles.u_centred(k) for k in grams_of(data)], axis=0)
    signs = np.empty((24, 5))
    signs[oracles.rows_of_groups(Groups.of(24, 11, 3))] = random_signs(3, 0, 24, 5)
    w = signs - signs.mean(axis=0)
    expected = np.einsum("ib,ij,jb->b", w, h, w) / 21
    np.testing.assert_allclose(result.null_distribution, expected, rtol=1e-9)


@pytest.mark.parametrize("m", [2, 3])
def test_v_hsic__gamma_has_the_moments_of_permutations(m):
    data = setting(300, m)
    permuted = run(data, dhsic.Permutation(2000)).null_distribution
    drawn = run(data, "gamma").null_distribution
    assert len(drawn) == 1000
    assert drawn.mean() == pytest.approx(permuted.mean(), rel=0.03)
    assert drawn.std() == pytest.approx(permuted.std(), rel=0.12)


@pytest.mark.parametrize(("estimator", "m"), [("v-hsic", 2), ("v-hsic", 3), ("u-hsic", 2)])
def test_spectral__has_the_tail_of_permutations(estimator, m):
    rng = np.random.default_rng(1)
    data = list(rng.standard_normal((m, 300, 1)))
    permuted = run(data, dhsic.Permutation(2000), estimator)
    spectral = run(data, "spectral", estimator)
    threshold = np.quantile(permuted.null_distribution, 0.95)
    drawn = run(data, dhsic.Spectral("simulation", 20_000), estimator).null_distribution
    assert np.mean(drawn >= threshold) == pytest.approx(0.05, abs=0.02)
    assert spectral.pvalue == pytest.approx(permuted.pvalue, abs=0.06)


@pytest.mark.parametrize("estimator", ["v-hsic", "u-hsic"])
def test_spectral__weights_are_products_of_eigenvalues(estimator):
    data = setting(30, 2)
    h = np.eye(30) - 1 / 30
    grams = grams_of(data)
    first, second = (np.linalg.eigvalsh(h @ k @ h / 30) for k in grams)
    mean, variance = null_moments(GramSums.of(grams), unbiased=estimator == "u-hsic")
    mixture = ChiSquareMixture.of_products(first, second)
    result = run(data, "spectral", estimator)
    expected = mixture.with_moments(mean, variance)
    assert result.pvalue == pytest.approx(expected.sf(result.statistic), rel=1e-6)


def test_spectral__weights_of_three_are_eigenvalues_of_centred_products():
    data = setting(30, 3)
    grams = grams_of(data)
    h = oracles.centred_product_gram([k[:20, :20] for k in grams])
    small = [x[:20] for x in data]
    sums = GramSums.of([k[:20, :20] for k in grams])
    mixture = ChiSquareMixture.of(np.linalg.eigvalsh(h / 20).clip(min=0.0))
    result = run(small, "spectral")
    expected = mixture.with_moments(*null_moments(sums, unbiased=False)).sf(result.statistic)
    assert result.pvalue == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("m", [3, 4])
def test_null_moments__are_those_of_independent_draws(m):
    """The mean over data sets of n V-HSIC and of its square."""
    rng = np.random.default_rng(0)
    statistics, moments = [], []
    for _ in range(1500):
        grams = [np.exp(-((x - x.T) ** 2)) for x in rng.standard_normal((m, 40, 1))]
        sums = GramSums.of(grams)
        statistics.append(40 * gram_hsic(sums, unbiased=False))
        moments.append(null_moments(sums, unbiased=False))
    mean, variance = np.mean(moments, axis=0)
    assert mean == pytest.approx(np.mean(statistics), rel=0.02)
    assert variance == pytest.approx(np.var(statistics), rel=0.2)


@pytest.mark.parametrize("null", ["gamma", "spectral"])
def test_v_hsic__finds_p_values_far_below_those_of_resamples(null):
    x = np.random.default_rng(0).standard_normal(300)
    assert run([x, x], null).pvalue < 1e-20


@pytest.mark.parametrize(
    "null", [dhsic.Multiplier(9), dhsic.Permutation(9, within="groups", group_rows=200)]
)
def test_v_hsic__is_the_same_anywhere(null, client, tmp_path):
    rng = np.random.default_rng(0)
    data = [rng.standard_normal((1500, 2)), rng.standard_normal(1500)]
    stored = [
        zarr.create_array(tmp_path / f"{i}", data=x, chunks=(700, *x.shape[1:]))
        for i, x in enumerate(data)
    ]
    lazy = [da.from_array(x, chunks=600) for x in data]
    one = run(data, null, threads=1)
    assert one.passes[0].blocks > 1
    for result in (run(data, null, threads=3), run(data, null, client=client)):
        assert result.statistic == one.statistic
        np.testing.assert_array_equal(result.null_distribution, one.null_distribution)
    for variables in (stored, lazy):
        result = run(variables, null, client=client)
        assert result.statistic == one.statistic
        np.testing.assert_array_equal(result.null_distribution, one.null_distribution)


@pytest.mark.parametrize("m", [2, 3])
def test_v_hsic__permutes_all_rows_anywhere(m, client, tmp_path):
    data = setting(200, m)
    stored = [
        zarr.create_array(tmp_path / f"{i}", data=x, chunks=(70, *x.shape[1:]))
        for i, x in enumerate(data)
    ]
    one = run(data, "permutation", threads=1)
    for variables, where in [(data, {"client": client}), (data, {"threads": 3}), (stored, {})]:
        result = run(variables, "permutation", **where)
        assert result.statistic == one.statistic
        np.testing.assert_array_equal(result.null_distribution, one.null_distribution)


@pytest.mark.parametrize("null", ["permutation", "multiplier", "gamma", "spectral"])
def test_precision__changes_little(null):
    data = setting(200, 3)
    single, double = (run(data, null, precision=p) for p in ("float32", "float64"))
    assert 0 < abs(single.statistic / double.statistic - 1) < 1e-3
    assert single.pvalue == pytest.approx(double.pvalue, rel=0.05)


def test_sub_hsic__is_the_mean_over_pairs_of_columns():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((60, 3)) * [1.0, 10.0, 0.1], rng.standard_normal((60, 2))
    y[:, 1] += x[:, 0] ** 2
    parts = [
        dhsic.hsic(x[:, i], y[:, j], estimator="v-hsic", rng=3).estimate
        for i in range(3)
        for j in range(2)
    ]
    whole = dhsic.independence_test(x, y, estimator="sub-hsic", null="permutation", rng=3)
    assert whole.estimate == pytest.approx(np.mean(parts), rel=1e-9)
    assert whole.quantity == "mean squared HSIC of columns"
    other = dhsic.hsic(x, y, kernels=Laplacian(), estimator="sub-hsic", rng=3).estimate
    assert abs(other / whole.estimate - 1) > 0.01


def test_v_hsic__agrees_with_the_test_on_landmarks():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((800, 2))
    y = x[:, :1] ** 2 + rng.standard_normal((800, 1))
    exact = run([x, y])
    landmarks = dhsic.independence_test(x, y, kernels=Gaussian(gamma=GAMMA), rng=3)
    assert exact.pvalue < 0.01
    assert landmarks.pvalue < 0.01
    assert landmarks.statistic == pytest.approx(exact.statistic, rel=0.1)


@pytest.mark.parametrize("null", [dhsic.Permutation(99, within="all"), "spectral"])
def test_v_hsic__refuses_what_memory_cannot_hold(null):
    x = np.arange(4000.0)
    with pytest.raises(dhsic.errors.MemoryBudgetError, match=r"nystrom-m"):
        run([x, x], null, memory="400MB")


@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
@pytest.mark.filterwarnings("ignore::dhsic.errors.DependentRowsWarning")  # signs alternate
def test_v_hsic__streams_what_memory_cannot_hold():
    x = np.arange(4000.0)
    x[::2] *= -1
    result = run([x, x], "multiplier", memory="400MB", n_resamples=9)
    assert result.statistic == pytest.approx(4000 * result.estimate, rel=1e-9)
    assert [done.name for done in result.passes] == ["Gram sums", "multiplier null"]


@pytest.mark.parametrize("n", [100, 50_000])
def test_v_hsic__chooses_shifts_however_many_rows_there_are(n):
    plan = dhsic.plan(*np.zeros((2, n)), kernels="gaussian", estimator="v-hsic")
    assert [step.name for step in plan.steps] == ["fit kernels", "shifts", "statistics"]


def test_v_hsic__counts_ties_where_all_is_rounding():
    x = np.tile([1.0, -1.0], 50)
    y = np.repeat([1.0, -1.0], 50)
    options = {"kernels": "polynomial:2:0:1", "estimator": "v-hsic", "rng": 0}
    assert dhsic.independence_test(x, y, **options).pvalue == 1.0


def test_sub_hsic__takes_categories_with_the_delta_kernel(tmp_path):
    codes = np.random.default_rng(0).integers(0, 3, (80, 2))
    stored = zarr.create_array(tmp_path / "codes", data=codes)
    stored.attrs["kind"] = "categorical"
    y = codes[:, 0] + np.random.default_rng(1).standard_normal(80)
    options = {"estimator": "sub-hsic", "null": "permutation", "rng": 0}
    result = dhsic.independence_test(stored, y, kernels=["delta", None], **options)
    assert result.pvalue < 0.05
    assert dhsic.independence_test(stored, y, **options).statistic == result.statistic
    with pytest.raises(dhsic.errors.InvalidArgumentError, match="as numbers: take 'delta'"):
        dhsic.independence_test(stored, y, kernels="gaussian", **options)


PLANNED = [
    (VHSIC(), 3, None),
    (VHSIC(), 2, dhsic.Gamma()),
    (VHSIC(), 3, dhsic.Spectral()),
    (VHSIC(), 2, dhsic.Multiplier(9)),
    (VHSIC(), 2, dhsic.Shifts(20)),
    (VHSIC(), 3, dhsic.Permutation(9)),
    (UHSIC(), 2, dhsic.Permutation(9, "groups", 20)),
    (DCov(), 2, dhsic.Permutation(9)),
    (DCor(exponent=0.5), 2, dhsic.Permutation(9)),
]


@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
@pytest.mark.parametrize(("estimator", "m", "null"), PLANNED)
@pytest.mark.parametrize("single", [False, True])
def test_plan__is_that_of_what_runs(estimator, m, null, single):
    """Step by step; single columns have a faster way at times."""
    told = []
    data = [x[:, :1] if single else x for x in setting(70, m)]
    here = Session(open_variables(data, None), Runtime.here(2, 2**30), 3)
    here.listener = lambda event: (
        told.append(event.name) if isinstance(event, PassStarted | StepStarted) else None
    )
    kernels = [estimator.kernel(None)] * m
    plan = estimator.plan(here, Combinations.single(kernels), null)
    if null is None:
        estimator.estimate(here, kernels)
    else:
        estimator.test(here, kernels, null)
    assert [name for name, _ in itertools.groupby(told)] == [step.name for step in plan.steps]
