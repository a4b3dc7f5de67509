"""All pairs at once are what every pair is by itself, whatever the rows are."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom

import dhsic
from dhsic.kernels import parse
from tests import oracles
from tests.dependent_rows import CASES, groups_case, strata_case, time_case

N = 120
QUICK = {"n_landmarks": 30, "threads": 1}


@pytest.fixture(scope="module")
def data():
    x, noise, other = np.random.default_rng(0).standard_normal((3, N))
    return [x, x**2 + 0.5 * noise, np.random.default_rng(1).standard_normal((N, 2)), other]


@pytest.fixture(scope="module")
def found(data):
    return dhsic.dependence_matrix(*data, n_landmarks=N, rng=3, names=["x", "y", "wide", "z"])


def grams(found, data):
    columns = [np.reshape(x, (N, -1)) for x in data]
    gammas = [float(v.kernel.split(":")[1]) for v in found.variables]
    return [oracles.gaussian_gram(x, x, g) for x, g in zip(columns, gammas, strict=True)]


def test_hsic_and_cka__are_those_of_gram_matrices(found, data):
    """CKA is the cosine of centred Gram matrices less the mean over all permutations."""
    k = grams(found, data)
    expected = np.array([[oracles.v_hsic([a, b]) for b in k] for a in k])
    np.testing.assert_allclose(found.hsic, expected, rtol=2e-6, atol=1e-9)
    k = [oracles.centred_gram(gram) for gram in k]
    chance = np.outer(*[[np.trace(a) for a in k]] * 2) / (N - 1)
    orders = np.random.default_rng(0).permuted(np.tile(np.arange(N), (4000, 1)), axis=1)
    drawn = np.mean([(k[0] * k[1][np.ix_(order, order)]).sum() for order in orders])
    assert drawn == pytest.approx(chance[0, 1], rel=0.02)
    products = np.array([[(a * b).sum() for b in k] for a in k])
    norms = np.sqrt(np.outer(products.diagonal(), products.diagonal()))
    expected = (products - chance) / (norms - chance)
    np.testing.assert_allclose(found.cka, expected, rtol=1e-5, atol=1e-8)
    np.testing.assert_array_equal(found.cka.diagonal(), 1.0)
    np.testing.assert_array_equal(found.cka, found.cka.T)


def test_cka__of_whole_groups_is_less_that_of_groups_that_change_places():
    found = []
    for seed in range(4):
        columns = np.repeat(np.random.default_rng(seed).standard_normal((4, 20)), 10, axis=1)
        rows = np.repeat(np.arange(20), 10)
        matrix = dhsic.dependence_matrix(*columns, groups=rows, n_resamples=99, rng=seed, threads=1)
        found += matrix.cka[np.triu_indices(4, 1)].tolist()
    # Less the mean over permutations of all rows it is 0.15 on average.
    assert abs(np.mean(found)) < 0.06


@pytest.mark.parametrize("null", ["spectral", "shifts"])
def test_pairs__are_those_of_the_single_test(data, null):
    """By shifts with all landmarks, of which the order does not matter, and the same groups."""
    resamples = {} if null == "spectral" else {"n_resamples": 500}
    found = dhsic.dependence_matrix(*data, n_landmarks=N, null=null, rng=3, **resamples)
    for i, j in itertools.combinations(range(4), 2):
        alone = dhsic.independence_test(
            *(data[i], data[j]),
            kernels=[parse(found.variables[k].kernel) for k in (i, j)],
            estimator=dhsic.NystromHSIC(n_landmarks=N),
            null=null,
            rng=3,
            **resamples,
        )
        assert found.pvalues[i, j] == pytest.approx(alone.pvalue, rel=1e-4)
        assert found.pvalues[j, i] == found.pvalues[i, j]
        assert found.hsic[i, j] == pytest.approx(alone.estimate, rel=1e-6)
        assert (found.null, found.null_reason) == (alone.null, alone.null_reason)
    if null == "shifts":
        np.testing.assert_allclose(found.pvalues.diagonal(), found.pvalues.min())


@pytest.mark.parametrize("case", CASES)
def test_pairs__keep_to_the_rows_as_the_single_test_does(case):
    (x, y), asked = case(np.random.default_rng(0), 0.2)
    variables = [x, y, np.random.default_rng(1).standard_normal(len(x))]
    n = len(x)
    found = dhsic.dependence_matrix(*variables, n_landmarks=n, n_resamples=500, rng=3, **asked)
    for i, j in itertools.combinations(range(3), 2):
        single = dhsic.independence_test(
            *(variables[i], variables[j]),
            kernels=[parse(found.variables[k].kernel) for k in (i, j)],
            estimator=dhsic.NystromHSIC(n_landmarks=n),
            null=dhsic.Shifts(500),
            rng=3,
            **asked,
        )
        assert found.hsic[i, j] == pytest.approx(single.estimate, rel=1e-5)
        assert found.pvalues[i, j] == pytest.approx(single.pvalue, abs=1e-12)
    assert found.null_reason == single.null_reason.removeprefix("as asked; ")


def test_few_landmarks__are_near_all_of_them(data, found):
    few = dhsic.dependence_matrix(*data, n_landmarks=60, rng=3)
    assert few.landmarks.drawn == 60
    np.testing.assert_allclose(few.cka, found.cka, atol=0.03)
    other = dhsic.dependence_matrix(*data, n_landmarks=60, rng=4)
    assert not np.array_equal(few.cka, other.cka)


def test_adjusted__is_holm_over_the_pairs(found):
    above = np.triu_indices(4, 1)
    pvalues = found.pvalues[above]
    running, expected = 0.0, np.empty(6)
    for rank, k in enumerate(np.argsort(pvalues)):
        running = max(running, (6 - rank) * pvalues[k])
        expected[k] = min(running, 1.0)
    np.testing.assert_allclose(found.adjusted[above], expected)
    np.testing.assert_array_equal(found.adjusted, found.adjusted.T)


# Level and power


@pytest.mark.parametrize("null", ["auto", "spectral"])
def test_pvalues__keep_their_level_and_find_what_there_is(null):
    """Three pairs of independent variables a data set, and one of dependent ones."""
    rejected = found = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x, y, z, noise = rng.standard_normal((4, 150))
        matrix = dhsic.dependence_matrix(x, y, z, x**2 + noise, rng=seed, threads=1, null=null)
        rejected += np.count_nonzero(matrix.pvalues[[0, 0, 1], [1, 2, 2]] <= 0.05)
        found += matrix.pvalues[0, 3] <= 0.05
    assert rejected <= binom.isf(0.001, 60, 0.05)
    assert found >= 18


def pvalue(case, seed, effect=0.0, asked=True):
    variables, rows = case(np.random.default_rng([seed, 3]), effect)
    found = dhsic.dependence_matrix(*variables, rng=seed, **QUICK, **(rows if asked else {}))
    return found.pvalues[0, 1]


@pytest.mark.parametrize("case", [strata_case, groups_case, time_case])
@pytest.mark.filterwarnings("ignore::dhsic.errors.DependentRowsWarning")
def test_level__of_dependent_rows_is_kept_by_the_argument_alone(case):
    level = 0.05 if case is not time_case else 0.06
    assert sum(pvalue(case, seed) <= 0.05 for seed in range(40)) <= binom.isf(0.001, 40, level)
    assert sum(pvalue(case, seed, asked=False) <= 0.05 for seed in range(30)) > 5
    assert sum(pvalue(case, seed, effect=1.0) <= 0.05 for seed in range(8)) >= 7


@pytest.mark.nightly
@pytest.mark.parametrize("case", [strata_case, groups_case, time_case])
def test_level__of_dependent_rows_is_kept_in_many_data_sets(case):
    level = 0.05 if case is not time_case else 0.06
    assert sum(pvalue(case, seed) <= 0.05 for seed in range(400)) <= binom.isf(0.001, 400, level)


# The null that is chosen


def test_auto__takes_one_null_whatever_the_number_of_variables():
    variables = np.random.default_rng(0).standard_normal((30, 60))
    groups = np.arange(60) // 2
    for m, rows in ((5, {}), (30, {}), (30, {"groups": groups})):
        found = dhsic.dependence_matrix(*variables[:m], n_landmarks=5, rng=0, **rows)
        assert found.null == "shifts"
        assert found.pvalues.diagonal().min() > 1 / 1100


def test_result__says_which_adjusted_pvalues_can_be_attained():
    """Of 28 pairs none can be rejected at 5 % with 300 shifts, and some with 1,000."""
    variables = np.random.default_rng(0).standard_normal((8, 300))
    variables[1] = variables[0]
    few = dhsic.dependence_matrix(*variables, n_resamples=300, rng=0)
    assert few.least_adjusted == few.adjusted[0, 1] == pytest.approx(28 / 300)
    said = dict(few.summary())["p-values"]
    assert "no pair can be rejected at level 0.05; 3,000 replicates give smaller ones" in said
    assert said in few.findings(0.05, "holm").notes[0]
    default = dhsic.dependence_matrix(*variables, rng=0)
    assert default.least_adjusted == default.adjusted[0, 1] == pytest.approx(28 / 1200)
    assert "rejected" not in dict(default.summary())["p-values"]
    law = dhsic.dependence_matrix(*variables, null="spectral", rng=0)
    assert law.least_adjusted == 0.0
    assert "p-values" not in dict(law.summary())
    series = dhsic.dependence_matrix(*variables, order=dhsic.TimeOrder(lag=10), rng=0)
    assert "a longer series" in dict(series.summary())["p-values"]


def test_dependent__are_the_pairs_whose_adjusted_pvalues_reach_the_level():
    variables = np.random.default_rng(0).standard_normal((6, 300))
    variables[1] += variables[0]
    variables[4] = variables[2] ** 2
    found = dhsic.dependence_matrix(*variables, names=list("abcdef"), rng=0)
    for alpha in (1e-9, 0.05, 0.999):
        i, j = np.nonzero(np.triu(found.adjusted <= alpha, 1))
        expected = {(found.names[a], found.names[b]) for a, b in zip(i, j, strict=True)}
        pairs = found.dependent(alpha)
        assert set(pairs) == expected
        assert found.decision(alpha).startswith(f"{len(pairs)} of 15 pairs at level {alpha:g}")
    assert found.dependent() == found.dependent(0.05)
    assert set(found.dependent()[:2]) == {("a", "b"), ("c", "e")}
    strongest = [(row["x"], row["y"]) for row in found.records()]
    assert list(found.dependent()) == strongest[: len(found.dependent())]
    with pytest.raises(dhsic.errors.InvalidArgumentError, match="alpha must be greater than 0"):
        found.dependent(0.0)


def test_default__is_the_single_test_on_principal_features():
    """Landmarks and directions of a variable are its own, whatever it is tested against."""
    rng = np.random.default_rng(0)
    variables = [rng.standard_normal(700), rng.standard_normal((700, 3)), rng.standard_normal(700)]
    found = dhsic.dependence_matrix(*variables, rng=3)
    alone = dhsic.independence_test(
        *variables[:2],
        kernels=[parse(v.kernel) for v in found.variables[:2]],
        estimator=dhsic.NystromHSIC(256, n_features="auto"),
        null="shifts",
        rng=3,
    )
    assert found.pvalues[0, 1] == alone.pvalue
    assert found.hsic[0, 1] == pytest.approx(alone.estimate, rel=0.1)
    assert "principal features" in found.null_reason


def test_little_memory__takes_more_passes_and_gives_the_same():
    variables = np.random.default_rng(0).standard_normal((6, 2000))
    variables[3] += variables[0]
    options = {"n_landmarks": 30, "rng": 1, "n_resamples": 4000, "threads": 2}
    large = dhsic.dependence_matrix(*variables, memory="8GiB", **options)
    small = dhsic.dependence_matrix(*variables, memory="512MiB", **options)
    assert len(large.passes) == 3 < len(small.passes)
    np.testing.assert_array_equal(small.pvalues, large.pvalues)
    assert large.pvalues[0, 3] < 0.01 < np.sort(large.pvalues[np.triu_indices(6, 1)])[1]


# Options, text and refusals


def test_summary__says_what_was_found(found):
    lines = dict(found.summary())
    assert lines["strongest"].startswith("x and y: CKA 0.")
    assert lines["dependent"].startswith("1 of 6 pairs at level 0.05")
    crossed = found.plot(alpha=1e-300)
    assert sum("×" in text.get_text() for text in crossed.texts) == 12
