"""Nulls by a law: their definitions, and the guard that warns where they mislead."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

import dhsic
import dhsic.causal
from dhsic.errors import ApproximateNullWarning, InvalidArgumentError
from tests import oracles
from tests.estimators.cases import (
    CASES,
    GAMMA,
    SEED,
    crossed,
    draw,
    frobenius,
    gaussian,
    landmarks_of,
    normalised,
    nystrom_features,
    split_waves,
    standardised,
)
from tests.estimators.levels import Check
from tests.estimators.test_every_pair import OWN_KERNELS, STANDS, kept

FEW_ROWS = pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
PRECISIONS = pytest.mark.parametrize("precision", ["float64", "float32"])


def mixture_tail(weights, x):
    """P(sum_k w_k chi^2_1 >= x), by the inverse of its Laplace transform along c + i t."""
    largest = weights.max()
    weights, x, c = weights / largest, x / largest, 0.25
    t = np.linspace(0.0, 2000.0, 400_001)  # of one large weight the integral falls as t^-1.5
    s = c + 1j * t
    logs = sum(-0.5 * np.log1p(-2.0 * w * s) for w in weights[weights > 1e-5])
    rest = weights[weights <= 1e-5].sum()
    return integrate.simpson((np.exp(logs + (rest - x) * s) / s).real, x=t) / math.pi


def gamma_tail(mean, variance, x):
    return stats.gamma.sf(x, mean**2 / variance, scale=variance / mean)


@FEW_ROWS
@PRECISIONS
@pytest.mark.parametrize("m", [2, 3, 4])
def test_laws_at_landmarks__are_those_of_the_covariance(m, precision):
    data, case = draw(60, m), CASES["nystrom-m" if m == 2 else f"nystrom-m of {m}"]
    z = landmarks_of(data)
    joint = np.prod([gaussian(p, p) for p in z], axis=0)
    crosses = [gaussian(p, x) for p, x in zip(z, data, strict=True)]
    weights = oracles.nystrom_spectrum(joint, crosses)
    statistic = oracles.nystrom_statistic(joint, crosses)
    found = {null: case.test(data, null, precision=precision) for null in ("gamma", "spectral")}
    rel = 1e-6 if precision == "float64" else 1e-2
    for result in found.values():
        assert result.statistic == pytest.approx(statistic, rel=rel)
        assert result.estimate == pytest.approx(case.estimate(data), rel=rel)
    expected = gamma_tail(weights.sum(), 2 * (weights**2).sum(), statistic)
    assert found["gamma"].pvalue == pytest.approx(expected, rel=rel)
    expected = mixture_tail(weights[weights > 0], statistic)
    assert found["spectral"].pvalue == pytest.approx(expected, rel=rel, abs=1e-7)
    drawn = found["spectral"].null_distribution
    assert drawn.shape == (1000,)
    assert drawn.mean() == pytest.approx(weights.sum(), rel=0.1)


FEATURES = {
    "nystrom-hsic": nystrom_features,
    "cka": lambda data: normalised("cka", data),
    "nocco": lambda data: normalised("nocco", data),
    "rff-hsic": split_waves,
    "sub-corr": standardised,
}


@FEW_ROWS
@pytest.mark.parametrize("case", [case for case in FEATURES if case != "nocco"])
def test_spectral__has_products_of_the_eigenvalues_of_features_as_weights(case):
    data = draw(200, 2)
    found = CASES[case].test(data, "spectral")
    spectra = [np.linalg.eigvalsh(np.cov(f.T, bias=True)) for f in FEATURES[case](data)]
    weights = np.outer(*spectra).ravel()
    statistic = crossed(FEATURES[case], frobenius, data)([np.arange(200)] * 2)
    assert found.statistic == pytest.approx(statistic, rel=1e-8)
    expected = mixture_tail(weights[weights > 1e-12], statistic)
    assert found.pvalue == pytest.approx(expected, rel=1e-4, abs=1e-7)


def of_all_permutations(statistic, n):
    """Mean and variance over every permutation of one variable."""
    rows = np.arange(n)
    values = [statistic([rows, np.array(one)]) for one in itertools.permutations(range(n))]
    return np.mean(values), np.var(values)


@FEW_ROWS
@pytest.mark.parametrize("case", ["sub-corr", "rff-hsic", "v-hsic", "dcov, gamma"])
def test_gamma__has_the_moments_of_all_permutations(case):
    """Of seven rows, which are permuted in 5,040 ways."""
    data = draw(7, 2)
    asked = CASES["dcov"] if case.startswith("dcov") else CASES[case]
    statistic = asked.statistic(data)
    found = asked.test(data, "gamma")
    mean, variance = of_all_permutations(statistic, 7)
    expected = gamma_tail(mean, variance, statistic([np.arange(7)] * 2))
    assert found.pvalue == pytest.approx(expected, rel=1e-6)


@FEW_ROWS
@pytest.mark.parametrize(
    ("case", "m"),
    [("v-hsic", 2), ("v-hsic of 3", 3), ("cka", 2), ("nocco", 2), ("nystrom-hsic", 2)],
)
def test_gamma__has_the_moments_of_permutations_of_many_rows(case, m):
    data, asked = draw(300, m), CASES[case]
    wide = {"kernels": "gaussian:0.3"} if m == 3 else {}
    replicates = asked.test(data, dhsic.Permutation(1000, "all"), **wide).null_distribution
    drawn = asked.test(data, "gamma", **wide).null_distribution
    assert len(drawn) == 1000
    assert drawn.mean() == pytest.approx(replicates.mean(), rel=0.03)
    assert drawn.std() == pytest.approx(replicates.std(), rel=0.2)


def centred_spectra(data):
    """Of the Gram matrices of two variables, over n."""
    n = len(data[0])
    grams = [oracles.centred_gram(gaussian(x, x)) for x in data]
    return [np.linalg.eigvalsh(gram / n) for gram in grams]


@FEW_ROWS
@pytest.mark.parametrize("case", ["v-hsic", "u-hsic", "u-cka"])
def test_spectral__of_all_pairs_keeps_weights_within_the_variance(case):
    """The largest weights within the variance; a constant makes up for the mean of the others."""
    n = 7 if case == "v-hsic" else 30
    data = draw(n, 2)
    statistic = CASES[case].statistic(data)
    observed, scale = statistic([np.arange(n)] * 2), 1.0
    if case == "v-hsic":
        mean, variance = of_all_permutations(statistic, n)
    else:
        own = [oracles.u_centred(gaussian(x, x)) for x in data]
        norms = [np.sum(a * a) / (n * (n - 3)) for a in own]
        scale = 1.0 / np.sqrt(np.prod(norms)) if case == "u-cka" else 1.0
        mean, variance = 0.0, scale**2 * 2.0 * n / (n - 3) * np.prod(norms)
    weights = scale * np.sort(np.outer(*centred_spectra(data)).ravel())[::-1]
    kept_ones = np.cumsum(2 * weights**2) <= variance
    kept_ones[0] = True
    weights = weights[kept_ones]
    expected = mixture_tail(weights, observed - mean + weights.sum())
    assert CASES[case].test(data, "spectral").pvalue == pytest.approx(expected, rel=1e-3)


@FEW_ROWS
def test_spectral__of_three_variables_has_the_tail_of_permutations():
    data = list(np.random.default_rng(1).standard_normal((3, 300, 1)))
    options = {"kernels": "gaussian:0.5", "estimator": "v-hsic", "rng": 3}
    replicates, law = (
        dhsic.independence_test(*data, null=null, **options)
        for null in (dhsic.Permutation(1000), dhsic.Spectral("simulation", 5_000))
    )
    exact = dhsic.independence_test(*data, null="spectral", **options)
    assert exact.pvalue == pytest.approx(replicates.pvalue, abs=0.06)
    assert law.pvalue == pytest.approx(exact.pvalue, abs=0.05)
    threshold = np.quantile(replicates.null_distribution, 0.95)
    assert np.mean(law.null_distribution >= threshold) == pytest.approx(0.05, abs=0.02)


@FEW_ROWS
@pytest.mark.parametrize("regularisation", [1e-8, 0.1])
def test_chi_square__has_a_degree_of_freedom_for_every_location(regularisation):
    data = draw(300, 2)
    made = dhsic.NFSIC(5, placement="random", regularisation=regularisation)
    options = {"kernels": f"gaussian:{GAMMA}", "rng": SEED, "estimator": made}
    found = dhsic.independence_test(*data, null="chi-square", **options)
    crosses = [gaussian(x, z) for x, z in zip(data, landmarks_of(data, 5), strict=True)]
    values = np.linalg.eigvalsh(oracles.nfsic_covariance(crosses))
    weights = values / (values + regularisation * values.mean())
    statistic = oracles.nfsic_statistic(crosses, regularisation)
    assert found.statistic == pytest.approx(statistic, rel=1e-6)
    assert found.pvalue == pytest.approx(mixture_tail(weights, statistic), rel=1e-4)


@pytest.mark.parametrize("null", ["gamma", "spectral"])
@pytest.mark.parametrize("estimator", ["nystrom-m", "nystrom-hsic", "v-hsic"])
def test_laws__give_tiny_p_values_for_strong_dependence(estimator, null):
    x = np.random.default_rng(0).standard_normal(300)
    options = {"estimator": estimator, "null": null, "kernels": "gaussian", "rng": 0}
    assert 0.0 < dhsic.independence_test(x, x, **options).pvalue < 1e-15


# Blocks, whose mean is normal.

VARIANCES = ("permutation", "direct", "empirical")


def u_hsic(k, q):
    """Zhang et al. (2018), equation 6."""
    n = len(k)
    k, q = k - np.diag(np.diag(k)), q - np.diag(np.diag(q))
    total = k.sum() * q.sum() / ((n - 1) * (n - 2))
    cross = k.sum(axis=0) @ q.sum(axis=0)
    return (np.trace(k @ q) + total - 2.0 / (n - 2) * cross) / (n * (n - 3))


def blocks_test(data, variance="direct", **options):
    given = {"kernels": "gaussian:0.5", "rng": 3, "estimator": "block-hsic", **options}
    return dhsic.independence_test(*data, null=dhsic.Normal(variance), **given)


@FEW_ROWS
@PRECISIONS
@pytest.mark.parametrize("variance", VARIANCES)
def test_blocks__have_the_statistic_of_the_definition(variance, precision):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((83, 2))
    y = x[:, :1] + rng.standard_normal((83, 1))
    found = blocks_test(
        (x, y), variance, estimator=dhsic.BlockHSIC(block_rows=9), precision=precision
    )
    m, b = 9, 9
    blocks = [
        [gaussian(z[i : i + b], z[i : i + b], 0.5) for z in (x, y)] for i in range(0, m * b, b)
    ]
    assert u_hsic(*blocks[0]) == pytest.approx(oracles.u_hsic(*blocks[0]), rel=1e-10)
    values = [u_hsic(k, q) for k, q in blocks]
    rel = 1e-8 if precision == "float64" else 1e-4
    assert found.estimate == pytest.approx(np.mean(values), rel=rel)
    norms = [np.mean([u_hsic(pair[v], pair[v]) for pair in blocks]) for v in (0, 1)]
    expected = {
        "direct": 2.0 * norms[0] * norms[1] / (b * (b - 3)),
        "empirical": np.var(values, ddof=1),
    }
    if variance in expected:
        statistic = np.mean(values) / math.sqrt(expected[variance] / m)
        assert found.statistic == pytest.approx(statistic, rel=rel)
    freedom = {"permutation": m, "direct": math.inf, "empirical": m - 1}[variance]
    tail = stats.norm.sf if freedom == math.inf else lambda t: stats.t.sf(t, freedom)
    assert found.pvalue == pytest.approx(tail(found.statistic), rel=100 * rel)
    assert found.null_reason.endswith("9 blocks of 9 rows, 2 rows left out")


def test_blocks__that_are_alike_have_no_empirical_variance():
    x, noise = np.random.default_rng(0).standard_normal((2, 50))
    data = np.tile([x, x**2 + noise], 40)
    found = blocks_test(data, "empirical", estimator=dhsic.BlockHSIC(block_rows=50))
    assert (found.statistic, found.pvalue) == (0.0, 1.0)
    assert "of which none can show dependence" in found.null_reason


def test_blocks__have_variances_that_agree_where_there_are_many():
    x, y = np.random.default_rng(0).standard_normal((2, 40_000))
    estimator = dhsic.BlockHSIC(block_rows=8)
    found = {v: blocks_test((x, y), v, estimator=estimator).statistic for v in VARIANCES}
    other = {v: blocks_test((x, y), v, estimator=estimator, rng=4).statistic for v in VARIANCES}
    for variance in ("permutation", "empirical"):
        assert found[variance] == pytest.approx(found["direct"], rel=0.05)
    assert abs(found["permutation"] / other["permutation"] - 1) > 1e-6
    for variance in ("direct", "empirical"):
        assert found[variance] == pytest.approx(other[variance], rel=1e-9)


@FEW_ROWS
@pytest.mark.parametrize(
    ("estimator", "n", "blocks", "rows"),
    [
        (dhsic.BlockHSIC(), 400, 20, 20),
        (dhsic.BlockHSIC(exponent=0.4), 400, 36, 11),
        (dhsic.BlockHSIC(block_rows=150), 400, 2, 200),
        (dhsic.BlockHSIC(), 9, 2, 4),
    ],
)
def test_blocks__have_the_rows_asked_for_or_a_few_more(estimator, n, blocks, rows):
    found = blocks_test(np.random.default_rng(0).standard_normal((2, n)), estimator=estimator)
    told = f"{blocks} blocks of {rows} rows, {n - blocks * rows} rows left out"
    assert told in found.null_reason


@FEW_ROWS
@pytest.mark.parametrize("variance", VARIANCES)
def test_blocks__of_rounding_are_no_evidence(variance):
    rng = np.random.default_rng(0)
    x = 0.1 + np.repeat(rng.standard_normal(50), 8)
    options = {"estimator": dhsic.BlockHSIC(block_rows=8), "kernels": ["linear", "gaussian:0.5"]}
    assert blocks_test((x, rng.standard_normal(400)), variance, **options).pvalue > 0.9


@pytest.mark.parametrize("variance", VARIANCES)
def test_blocks__keep_the_level(variance):
    check = Check.of(100, 0.1, least=0.02)
    assert check.failure(0.3)[1] > 0.85
    assert kept(
        check,
        lambda rng: rng.standard_normal((2, 200)),
        0.1,
        lambda data, seed: blocks_test(data, variance, rng=seed, threads=1),
    )


# The guard.

FEW = "rows show how independent variables vary together"
CROWDED = "kernels vary in about .* directions"


def dummies(share, n, m=2):
    return lambda rng: [(rng.random(n) < share).astype(float) for _ in range(m)]


def normals(d, n, m=2):
    return lambda rng: [rng.standard_normal((n, d)) for _ in range(m)]


def zeros(share, n):
    return lambda rng: [(rng.random(n) >= share) * rng.exponential(size=n) for _ in range(2)]


# Rejected at level 5 %, in order: 67, 90, 52, 48 % by one kernel; 45 to 56, 67 % by a grid.
MISLEADS = {
    "2% dummies": (dummies(0.02, 1000), "gaussian"),
    "0.3% dummies": (dummies(0.003, 16_000), "gaussian"),
    "Poisson(0.03)": (lambda r: [r.poisson(0.03, 1000) * 1.0 for _ in range(2)], "gaussian"),
    "97% zeros": (zeros(0.97, 1000), "gaussian"),
    "three of 3 columns": (normals(3, 1000, 3), "gaussian:2"),
}
HOLDS = {
    "normal": normals(1, 300),
    "20 columns": normals(20, 1000),
    "three of 3 columns": normals(3, 300, 3),
    "20% dummies": dummies(0.2, 2000),
    "3% dummies, many rows": dummies(0.03, 100_000),
    "70% zeros": zeros(0.7, 1000),
    "Cauchy": lambda rng: [rng.standard_cauchy(300) for _ in range(2)],
    "5 categories": lambda rng: [np.eye(5)[rng.integers(5, size=300)] for _ in range(2)],
}


@pytest.mark.parametrize("case", MISLEADS)
def test_guard__fires_where_laws_mislead(case):
    sample, kernels = MISLEADS[case]
    options = {"kernels": kernels, "null": "spectral", "estimator": "nystrom-m", "threads": 1}
    with pytest.warns(ApproximateNullWarning, match=FEW):
        found = dhsic.independence_test(*sample(np.random.default_rng(3)), rng=0, **options)
    assert FEW in found.null_reason


@pytest.mark.parametrize("null", ["gamma", "spectral"])
@pytest.mark.parametrize("case", HOLDS)
def test_guard__is_silent_where_the_level_holds(case, null):
    """Warnings are errors here."""
    data = HOLDS[case](np.random.default_rng(4))
    options = {"kernels": "gaussian", "null": null, "rng": 0, "memory": "8GiB"}
    assert dhsic.independence_test(*data, **options).null_reason == "as asked"


RARE = dummies(0.04, 150)(np.random.default_rng(1))
THREE = dummies(0.04, 150, 3)(np.random.default_rng(1))
LAWS = [
    (name, null)
    for name, nulls in STANDS.items()
    for null in nulls.split()
    if null in ("gamma", "spectral", "normal", "chi-square", "martingale")
]


@pytest.mark.parametrize(("name", "null"), LAWS)
def test_guard__looks_at_every_pair(name, null):
    kernels = None if name in OWN_KERNELS else "gaussian"
    options = {"estimator": name, "null": null, "kernels": kernels, "rng": 0}
    with pytest.warns(ApproximateNullWarning, match=f"null '{null}' .* {FEW}"):
        dhsic.independence_test(*RARE, **options)
    plain = normals(1, 900)(np.random.default_rng(2))
    assert FEW not in dhsic.independence_test(*plain, **options).null_reason


SPECTRAL = {"null": "spectral", "rng": 0, "kernels": "gaussian"}
CALLS = {
    "three variables at landmarks": lambda: dhsic.independence_test(
        *THREE, **SPECTRAL, estimator="nystrom-m"
    ),
    "three variables, all pairs": lambda: dhsic.independence_test(
        *THREE, **SPECTRAL, estimator="v-hsic"
    ),
    "locations of three variables": lambda: dhsic.independence_test(
        *dummies(0.04, 300, 3)(np.random.default_rng(1)),
        null="chi-square",
        estimator=dhsic.NFSIC(placement="random"),
    ),
    "a matrix of pairs": lambda: dhsic.dependence_matrix(*RARE, null="spectral", rng=0),
    "two samples": lambda: dhsic.two_sample_test(
        np.arange(200.0), np.arange(2.0), null="gamma", rng=0
    ),
    "graphs": lambda: dhsic.causal.score_dags(*RARE, null="gamma", estimator="v-hsic", rng=0),
}


@pytest.mark.parametrize("call", CALLS)
def test_guard__looks_at_every_call(call):
    with pytest.warns(ApproximateNullWarning, match=FEW):
        CALLS[call]()


@pytest.mark.parametrize("name", [name for name in STANDS if name != "block-hsic"])
def test_guard__has_nothing_to_say_of_exact_nulls(name):
    """Warnings are errors here."""
    for null in (dhsic.Permutation(9), dhsic.Shifts(9)):
        dhsic.independence_test(*RARE, estimator=name, null=null, rng=0)
    dhsic.sensitivity_map(*RARE, of="statistic", rng=0)  # by which nothing is rejected


def test_guard__refuses_kernels_so_narrow_that_no_row_is_near_another():
    data = normals(12, 300)(np.random.default_rng(3))
    options = {"null": "spectral", "estimator": "nystrom-m", "rng": 0, "kernels": "gaussian:2"}
    with pytest.raises(InvalidArgumentError, match="none of 300 does: take null='auto'"):
        dhsic.independence_test(*data, **options)


def test_guard__tells_of_more_directions_than_rows():
    data = normals(2, 300, 4)(np.random.default_rng(4))
    with pytest.warns(ApproximateNullWarning, match=f"{CROWDED}.*rejects too rarely"):
        dhsic.independence_test(
            *data, kernels="gaussian:0.7", estimator="nystrom-m", null="gamma", rng=0
        )
    data = normals(20, 200)(np.random.default_rng(4))
    with pytest.warns(ApproximateNullWarning, match=f"{CROWDED}.*far too small"):
        dhsic.independence_test(
            *data, kernels="gaussian:0.1", estimator="nystrom-hsic", null="spectral", rng=0
        )


LEVELS = {
    "tuples": (dhsic.NystromMHSIC(40), "spectral", dummies(0.25, 800)),
    "tuples, gamma": ("nystrom-m", "gamma", normals(2, 150)),
    "features": ("nystrom-hsic", "spectral", dummies(0.15, 500)),
    "features, gamma": ("nystrom-hsic", "gamma", lambda r: list(r.standard_cauchy((2, 150)))),
    "waves": (dhsic.RFFHSIC(20), "gamma", normals(3, 150)),
    "pairs": ("v-hsic", "gamma", dummies(0.15, 300)),
    "locations": (dhsic.NFSIC(placement="random"), "chi-square", normals(1, 300)),
    "blocks": ("block-hsic", "normal", normals(2, 200)),
}
LEVEL = Check.of(60, 0.05)


@pytest.mark.parametrize("case", LEVELS)
def test_level__holds_where_the_guard_is_silent(case):
    """Of 60 data sets, which see the 45 % and more that laws reject where the guard fires."""
    assert LEVEL.failure(0.05)[1] < 0.001
    assert LEVEL.failure(0.3)[1] > 0.95
    estimator, null, sample = LEVELS[case]
    options = {"kernels": "gaussian", "estimator": estimator, "null": null, "threads": 1}
    assert kept(
        LEVEL, sample, 0.05, lambda data, seed: dhsic.independence_test(*data, rng=seed, **options)
    )


@pytest.mark.nightly
@pytest.mark.parametrize("case", LEVELS)
def test_level__holds_over_300_data_sets(case):
    estimator, null, sample = LEVELS[case]
    options = {"kernels": "gaussian", "estimator": estimator, "null": null, "threads": 1}
    assert kept(
        Check.of(300, 0.05),
        sample,
        0.05,
        lambda data, seed: dhsic.independence_test(*data, rng=seed, **options),
    )
