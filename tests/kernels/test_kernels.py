"""Kernels against their definitions, their parameters, and their texts."""

import dataclasses
import pickle
from itertools import pairwise
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.spatial.distance import pdist
from scipy.stats import norm, rankdata

from dhsic.errors import DataError, InvalidArgumentError
from dhsic.kernels import (
    AndersonDarling,
    Columns,
    Delta,
    Distance,
    Gaussian,
    InverseMultiquadric,
    KernelName,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Product,
    Ranked,
    RationalQuadratic,
    Sum,
    kernel_of_plain,
    median_distance,
    parse,
    plain_kernel,
)
from tests.kernels.cases import CASES

EVERY_CASE = pytest.mark.parametrize("case", CASES, ids=str)
EVERY_DIMENSION = pytest.mark.parametrize("d", [1, 2, 30])
X = np.random.default_rng(0).normal(size=(40, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, -2.0]


def normal_rows(n, d, seed=0):
    """Rows of about unit norm, with ties among them, of numbers that float32 holds."""
    x = (np.random.default_rng(seed).normal(size=(n, d)) / np.sqrt(d)).astype(np.float32)
    x[n // 2] = x[0]
    return x.astype(float)


def tile(kernel, x, y, dtype):
    out = np.full((len(x), len(y)), np.nan, dtype)
    work = np.full((kernel.work_tiles, *out.shape), np.nan, dtype)
    kernel.tile(kernel.rows(x, dtype), kernel.columns(y, dtype), out, work)
    return out


def size(gram_of_x, gram_of_y):
    """sqrt(k(x, x) k(y, y)), what errors are relative to."""
    return np.sqrt(np.outer(np.diag(gram_of_x), np.diag(gram_of_y)))


def test_cases__are_of_every_name():
    named = {type(parse(name)) for name in get_args(KernelName)}
    assert named - {AndersonDarling} <= {type(case.kernel) for case in CASES}


@EVERY_CASE
@EVERY_DIMENSION
def test_gram__agrees_with_the_definition(case, d):
    x, y = normal_rows(23, d, 1), normal_rows(17, d, 2)
    before = x.copy()
    expected, own = case.oracle(x, y), case.oracle(x, x)
    scale = size(own, case.oracle(y, y))
    assert np.max(np.abs(case.kernel(x, y) - expected) / scale) < 1e-12
    assert np.max(np.abs(tile(case.kernel, x, y, np.float32) - expected) / scale) < 1e-5
    at_ties = 1e-12 if d == 1 else case.at_ties
    gram = case.kernel(x)
    assert np.max(np.abs(gram - own) / size(own, own)) < at_ties
    np.testing.assert_allclose(gram, gram.T, rtol=0, atol=1e-12 * np.abs(gram).max())
    eigenvalues = np.linalg.eigvalsh(gram)
    assert eigenvalues[0] >= -max(1e-10, at_ties) * eigenvalues[-1]
    np.testing.assert_array_equal(x, before)
    assert case.kernel(x[:0], x).shape == (0, 23)


@EVERY_CASE
def test_tile__of_slices_is_slice_of_tile(case):
    kernel, x, y = case.kernel, normal_rows(23, 3, 1), normal_rows(17, 3, 2)
    rows, columns = kernel.rows_and_columns(x, np.float64)
    np.testing.assert_array_equal(rows, kernel.rows(x))
    np.testing.assert_array_equal(columns, kernel.columns(x))
    out, work = np.empty((4, 14)), np.empty((kernel.work_tiles, 4, 14))
    kernel.tile(kernel.rows(x)[5:9], kernel.columns(y)[3:], out, work)
    np.testing.assert_allclose(out, kernel(x, y)[5:9, 3:], rtol=1e-12, atol=1e-13)


@EVERY_CASE
def test_rows__take_numbers_in_any_layout_and_refuse_others(case):
    x = np.random.default_rng(0).integers(0, 2, size=(20, 2))
    kernel = case.kernel.fit(x)
    expected = kernel(x.astype(float))
    layouts = (np.asfortranarray(x, float), np.repeat(x, 2, axis=1)[:, ::2].astype(float))
    for same in (x.astype(bool), x.astype(np.uint8), x.astype(np.float32), *layouts):
        np.testing.assert_array_equal(kernel(same), expected)
    for bad in (np.nan, np.inf, -np.inf):
        wrong = x.astype(float)
        wrong[3, 1] = bad
        with pytest.raises(ValueError, match="must be finite"):
            kernel(wrong)
    if "delta" not in kernel.spec():
        with pytest.raises(ValueError, match=r"must be finite, and smaller than .*to ranks"):
            case.kernel.rows(np.full((3, 2), 1e30), np.float32)
    with pytest.raises(
        ValueError, match=r"must have shape \(n, 1\); got \(5,\): pass x\[:, None\]"
    ):
        case.kernel(np.arange(5.0))
    with pytest.raises(ValueError, match=r"equally many columns; got shapes \(4, 2\) and \(4, 3\)"):
        case.kernel(np.ones((4, 2)), np.ones((4, 3)))


DEFAULTS = [
    *(Gaussian(), Laplacian(), Matern(nu=0.5), Matern(nu=1.5), Matern(nu=2.5), Linear(), Delta()),
    *(InverseMultiquadric(), RationalQuadratic(), RationalQuadratic(alpha=0.3), Polynomial()),
    *(Polynomial(degree=2, coef0=3.0), Distance(), Distance(exponent=1.5), Gaussian() + Matern()),
    *(Laplacian() * Delta(), Columns(Laplacian()), Columns(Matern() * Polynomial())),
]


@pytest.mark.parametrize("kernel", DEFAULTS, ids=str)
def test_fit__makes_units_and_location_immaterial_and_sets_every_parameter(kernel):
    for d in (1, 2, 90):
        x = np.random.default_rng(0).integers(0, 9, size=(40, d)).astype(float)
        one, other = kernel.fit(x), kernel.fit(1000 * x - 3000)
        gram, moved = one(x), other(1000 * x - 3000)
        factor = np.trace(moved) / np.trace(gram)
        np.testing.assert_allclose(moved, factor * gram, rtol=1e-10, atol=1e-6 * factor)
        assert "None" not in repr(one)
        assert one.fit(10 * x) == one
        assert hash(one) == hash(kernel.fit(x))
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.origin = (0.0,)


@EVERY_CASE
def test_fit__keeps_given_parameters_and_takes_the_median_as_origin(case):
    fitted = case.kernel.fit(X)
    assert fitted.spec() == case.kernel.spec()
    centred = X - np.median(X, axis=0)
    scale = np.abs(case.oracle(centred, centred)).max()
    np.testing.assert_allclose(fitted(X), case.oracle(centred, centred), atol=1e-6 * scale)


def test_fit__takes_scales_from_median_distances():
    euclidean, cityblock = np.median(pdist(X)), np.median(pdist(X, "cityblock"))
    assert Gaussian().fit(X).gamma == pytest.approx(euclidean**-2)
    assert InverseMultiquadric().fit(X).gamma == pytest.approx(euclidean**-2)
    assert RationalQuadratic().fit(X).gamma == pytest.approx(euclidean**-2)
    assert Laplacian().fit(X).gamma == pytest.approx(1 / cityblock)
    assert Matern().fit(X).length == pytest.approx(euclidean)
    norms = ((X - np.median(X, axis=0)) ** 2).sum(axis=1)
    assert Polynomial().fit(X).gamma == pytest.approx(1 / np.median(norms))
    assert (Matern().nu, RationalQuadratic().alpha, Distance().exponent) == (1.5, 1.0, 1.0)
    assert (Polynomial().degree, Polynomial().coef0) == (3, 1.0)
    rare = np.zeros((100, 1))
    rare[:3] = 4.0
    assert Polynomial().fit(rare).gamma == pytest.approx(1 / 16)
    fitted = (Gaussian() + Matern() * Delta()).fit(X)
    assert fitted.parts == (Gaussian().fit(X), Product((Matern().fit(X), Delta())))


ON_A_LINE = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "heavy tails": lambda rng, n: rng.standard_cauchy(n),
    "two groups": lambda rng, n: rng.standard_normal(n) + 20.0 * (rng.random(n) < 0.5),
    "far from 0": lambda rng, n: 1e9 + rng.standard_normal(n),
    "years": lambda rng, n: rng.integers(1920, 2011, n) + 0.0,
    "few levels": lambda rng, n: rng.integers(9, size=n) + 0.0,
}


@pytest.mark.parametrize("n", [2, 5, 30, 127, 128, 129, 130, 142, 600])  # odd and even pairs
@pytest.mark.parametrize("case", ON_A_LINE)
def test_median_distance__is_to_the_bit_that_of_all_pairs(case, n):
    """Of one column it takes few of them."""
    x = ON_A_LINE[case](np.random.default_rng(n), n)
    x[0] += 1 / 3
    for columns in (x[:, None], np.column_stack([x, np.sort(x) / 7])):
        if expected := np.median(pdist(columns)):
            assert median_distance(columns) == expected


def test_median_distance__has_a_metric_and_leaves_equal_rows_out_where_it_is_0():
    pair = np.array([[0.0, 0.0], [3.0, 4.0]])
    assert [median_distance(pair), median_distance(pair, "cityblock")] == [5.0, 7.0]
    x = np.array([[0.0]] * 8 + [[1.0], [3.0]])
    assert median_distance(x) == pytest.approx(np.mean([1.0] * 8 + [3.0] * 8 + [2.0]))
    x = np.random.default_rng(0).standard_cauchy(size=(300, 1))
    typical = median_distance(x)
    x[:20] *= 1e250  # squared, these overflow
    assert typical < median_distance(np.hstack([x, x])) < 4 * typical


@pytest.mark.parametrize(
    ("x", "match"),
    [
        (np.full((2, 2), 3.0), "two distinct rows; all 2 sampled rows are the same"),
        (1e-180 * X, r"differ by 1e-100 to 1e\+100; .*: rescale the variable"),
        (1e180 * X, r"differ by 1e-100 to 1e\+100; .*: rescale the variable"),
        (np.array([[1e308], [-1e308], *[[0.0]] * 9]), "typical difference is inf"),
        (np.array([[1.0], [np.nan]]), "must hold finite numbers, .*; 1 of 2 rows do not"),
        (np.zeros(5), r"must have shape \(s, d\)"),
        (np.zeros((0, 3)), r"must have shape \(s, d\)"),
    ],
)
def test_fit__refuses_what_has_no_scale(x, match):
    with pytest.raises(DataError, match=match):
        Gaussian().fit(x)


@pytest.mark.parametrize("scale", ["gamma", "alpha", "length"])
@pytest.mark.parametrize("bad", [0, -1, np.nan, np.inf, "abc", 1j])
def test_scale__must_be_finite_and_positive(scale, bad):
    kernels = {"gamma": (Gaussian, Laplacian, InverseMultiquadric, Polynomial)}
    kernels |= {"alpha": (RationalQuadratic,), "length": (Matern,)}
    for kernel in kernels[scale]:
        match = f"{kernel.name}: {scale} must be a finite number > 0, got .*: leave it out for"
        with pytest.raises(InvalidArgumentError, match=match):
            kernel(**{scale: bad})


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: Matern(nu=1.0), r"nu must be 0.5, 1.5 or 2.5, got 1.0: leave it out for 1.5"),
        (
            lambda: Polynomial(degree=0),
            r"degree must be an integer >= 1, got 0: leave it out for 3",
        ),
        (lambda: Polynomial(degree=2.5), r"degree must be an integer >= 1, got 2.5"),
        (lambda: Polynomial(coef0=-0.1), r"coef0 must be a finite number >= 0, got -0.1"),
        (lambda: Distance(exponent=0), r"exponent must be a number in \(0, 2\], got 0"),
        (lambda: Distance(exponent=2.1), r"exponent must be a number in \(0, 2\], got 2.1"),
        (lambda: Gaussian(origin=(np.nan,)), r"origin must be finite; got \(nan,\)"),
        (lambda: Sum((Linear(),)), r"a sum needs two kernels or more"),
        (lambda: Product((Linear(), 2)), r"a product needs two kernels or more"),
        (lambda: Columns((None, None)), "columns needs a kernel for all columns"),
        (lambda: Ranked("gaussian"), "ranks need a kernel"),
        (lambda: Ranked(Gaussian(), "normal"), "scale must be"),
        (lambda: Ranked(Gaussian(gamma=1.0))(X), "knots must be set before use"),
        (lambda: Gaussian()(X), r"must be set before use; .* call fit\(sample\)"),
        (lambda: Gaussian().fit(X)(X[:, :2]), r"must have shape \(n, 3\); got \(40, 2\)"),
        (lambda: Columns(Gaussian()).fit(X)(X[:, :2]), r"have shape \(n, 3\); got \(40, 2\)"),
        (lambda: Ranked(Gaussian()).fit(X)(X[:, :1]), r"rows must have shape \(n, 3\)"),
        (lambda: kernel_of_plain({"kernel": "parse"}), "kernel must be a kernel of|dataclass"),
    ],
)
def test_kernel__refuses(build, match):
    with pytest.raises((InvalidArgumentError, TypeError), match=match):
        build()


@pytest.mark.parametrize(
    ("categories", "dtype", "named"),
    [
        (np.array([[2**24], [2**24 + 1]]), np.float32, "16777217"),
        (np.array([[0.1], [0.2]]), np.float32, "0.1"),
        (np.array([[2**53], [2**53 + 1]]), np.float64, "9007199254740993"),
    ],
)
def test_delta__refuses_to_merge_categories(categories, dtype, named):
    with pytest.raises(ValueError, match=f"delta: categories must be .*{named}.*: "):
        Delta().rows(categories, dtype)
    kept = np.array([[2**24 - 1], [-3]])
    np.testing.assert_array_equal(Delta().rows(kept, np.float32), kept)


@EVERY_CASE
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 10])
def test_rounding__bounds_the_error_near_landmarks_far_from_the_origin(case, dtype, d):
    kernel, rng = case.kernel, np.random.default_rng(d)
    z = (rng.normal(size=(8, d)) / np.sqrt(d) + 20.0).astype(dtype)
    x = z + (rng.normal(size=(8, d)) * 0.01 / np.sqrt(d)).astype(dtype)
    x[:4] = z[:4]
    exact_x, exact_z = x.astype(float), z.astype(float)
    bound = kernel.rounding(kernel.columns(z, dtype))
    scale = size(case.oracle(exact_x, exact_x), case.oracle(exact_z, exact_z))
    error = np.abs(tile(kernel, x, z, dtype) - case.oracle(exact_x, exact_z)) / scale
    digits = 40 * np.sqrt(d) + 2 * np.linalg.norm(z, axis=1).max()
    assert error.max() <= bound + digits * np.finfo(dtype).eps
    assert bound == 0.0 or (d > 1 and bound < 0.1)


def test_gaussian__stays_in_range_and_next_to_0_far_apart():
    far = tile(Gaussian(gamma=1.0), *[normal_rows(200, 5) + 1e7] * 2, np.float32)
    assert 0.0 <= far.min() <= far.max() <= 1.0
    x = np.array([[0.0], [0.5], [3.0], [30.0]])
    gram = Gaussian(gamma=4.0)(x)
    np.testing.assert_array_equal(gram[0, :3], np.exp([-0.0, -1.0, -36.0]))
    assert gram[0, 3] == np.exp(-500.0) < 1e-217


def test_columns__fits_every_column_by_itself_and_counts_a_constant_one_as_zero():
    fitted = Columns(Gaussian()).fit(X)
    assert fitted.parts == tuple(Gaussian().fit(X[:, [j]]) for j in range(3))
    for constant in (0, 2):
        x = X.copy()
        x[:, constant] = 0.1
        fitted = Columns(Laplacian()).fit(x)
        kept = [j for j in range(3) if j != constant]
        expected = sum(fitted.parts[j](x[:, [j]]) for j in kept) / 3
        np.testing.assert_allclose(fitted(x), expected, rtol=1e-14)
        assert fitted.parts[constant] is None
    mixed = Columns((Gaussian(gamma=1.0), Distance(), Delta())).fit(X)
    expected = np.mean([k(X[:, [j]]) for j, k in enumerate(mixed.parts)], axis=0)
    np.testing.assert_allclose(mixed(X), expected, rtol=1e-14)
    assert None not in Columns(Delta()).fit(np.zeros((9, 2))).parts
    with pytest.raises(DataError, match="must have a column that is not constant: drop"):
        Columns(Gaussian()).fit(np.ones((10, 2)))


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float32, 4e-6), (np.float64, 4e-14)])
@pytest.mark.parametrize("far", [0.0, 30.0, 1e3, 1e8])
def test_columns__of_laplacians_are_exact_where_exponentials_of_rows_would_overflow(
    dtype, rtol, far
):
    x, fitted = X.copy(), Columns(Laplacian()).fit(X)
    x[0, 2] += far / fitted.parts[2].gamma
    x[1] = x[2]
    expected = np.mean([k(x[:, [j]]) for j, k in enumerate(fitted.parts)], axis=0)
    found = tile(fitted, x, x, dtype)
    np.testing.assert_allclose(found, expected, rtol=rtol)
    np.testing.assert_array_equal(found[1], found[2])


def ranks_of(x):
    """Mid-ranks of every column, as shares."""
    return (np.column_stack([rankdata(column) for column in x.T]) - 0.5) / len(x)


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("kernel", [Gaussian(), Laplacian(), Columns(Gaussian())], ids=str)
def test_ranked__is_the_kernel_of_ranks_or_scores(rng, kernel, d):
    x = rng.standard_t(1.5, size=(300, d)) * 10.0 ** np.arange(d)
    x[:60] = x[0]
    ranks = ranks_of(x)
    spread = ranks_of(np.abs(np.round(2 * len(x) * ranks) - len(x)))
    for scale, expected in (("ranks", ranks), ("scores", norm.ppf(ranks)), ("spread", spread)):
        fitted = Ranked(kernel, scale).fit(x)
        np.testing.assert_allclose(fitted(x), kernel.fit(expected)(expected), rtol=0, atol=1e-12)
        grown = np.arctan(x / 1e3)
        np.testing.assert_allclose(Ranked(kernel, scale).fit(grown)(grown), fitted(x), rtol=1e-12)
    line = Ranked(Gaussian(gamma=1.0)).fit(np.arange(10.0)[:, None])
    between = np.array([0.05, 0.05, 0.5, 0.95, 0.95])
    found = line(np.array([[-5.0], [0.0], [4.5], [9.0], [80.0]]))
    np.testing.assert_allclose(found, np.exp(-((between[:, None] - between) ** 2)), rtol=1e-12)


def test_ranked__of_many_values_keeps_those_that_many_rows_share(rng):
    x = rng.standard_normal((5_000, 1))
    x[:2_000] = 0.25
    some = x[::10]
    found = Ranked(Gaussian(gamma=1.0)).fit(x)(some)
    ranks = ranks_of(x)[::10]
    assert np.quantile(np.abs(found - np.exp(-((ranks - ranks.T) ** 2))), 0.99) < 2 / 512


def test_anderson_darling__is_the_integral_that_defines_it(rng):
    def integral(u, v):
        def product(t):
            return ((u <= t) - t) * ((v <= t) - t) / (t * (1 - t))

        ends = [0.0, *sorted((u, v)), 1.0]
        return sum(quad(product, a, b)[0] for a, b in pairwise(ends) if a < b)

    x = rng.uniform(0.02, 0.98, size=(7, 2))
    expected = np.mean([[[integral(a, b) for b in c] for a in c] for c in x.T], axis=0)
    np.testing.assert_allclose(AndersonDarling()(x), expected, rtol=1e-6, atol=1e-6)
    found = tile(AndersonDarling(), x, x, np.float32)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    with pytest.raises(DataError, match=r"take 'ranks\(anderson-darling\)'"):
        AndersonDarling().fit(np.array([[0.5], [1.0]]))


@pytest.mark.parametrize("kernel", [Laplacian(gamma=0.3), Matern(nu=0.5, length=2.0), Distance()])
def test_gradient__is_that_of_the_other_points_at_a_kink(kernel):
    def gradient(x, z, weights):
        gram, work = kernel(x, z), np.empty((kernel.gradient_tiles, len(x), len(z)))
        return kernel.gradient(kernel.rows(x), kernel.columns(z), gram, weights, work)

    x, z, weights = normal_rows(1, 2, 7), normal_rows(6, 2, 8), normal_rows(1, 7, 9)
    others = gradient(x, z, weights[:, :-1])
    if isinstance(kernel, Distance):  # |x| / 2 has no kink there
        others += 0.5 * x / np.linalg.norm(x) * weights[0, -1]
    np.testing.assert_allclose(gradient(x, np.vstack([z, x]), weights), others, rtol=1e-10)


COUNT = 40_000


@pytest.mark.parametrize(
    "kernel",
    [
        *(case.kernel for case in CASES[:8]),
        Laplacian(gamma=0.3) * Matern(nu=2.5, length=2.0),
        Gaussian(gamma=0.2) * Gaussian(gamma=0.4) * InverseMultiquadric(gamma=0.5),
        Columns(Laplacian(gamma=0.4)),
    ],
    ids=str,
)
def test_spectral_scales__give_frequencies_whose_cosines_average_to_the_kernel(kernel):
    rng = np.random.default_rng(3)
    frequencies = kernel.spectral_scales(rng, COUNT, 3) * rng.standard_normal((COUNT, 3))
    x = rng.normal(size=(20, 3)) * np.geomspace(0.1, 3.0, 20)[:, None]
    found = np.cos(x @ frequencies.T).mean(axis=1)
    assert np.abs(found - kernel(x, np.zeros((1, 3)))[:, 0]).max() < 5 / np.sqrt(COUNT)


@pytest.mark.parametrize("kernel", [Linear(), Distance(), Delta(), Gaussian() + Gaussian()])
def test_spectral_scales__say_which_kernels_have_a_law_and_what_to_take(kernel):
    with pytest.raises(InvalidArgumentError, match=r"gaussian, laplacian.*take estimator='nystr"):
        kernel.spectral_scales(np.random.default_rng(0), 3, 2)


def test_operators__flatten_and_leave_other_operands_alone():
    a, b, c = Gaussian(gamma=1.0), Linear(), Delta()
    assert (a + b) + c == a + (b + c) == Sum((a, b, c))
    assert (a * b) * c == a * (b * c) == Product((a, b, c))
    assert (a + b) * c == Product((Sum((a, b)), c))
    for operate in (lambda: a + 1, lambda: a * 2):
        with pytest.raises(TypeError):
            operate()
    number = Gaussian(gamma=np.float32(0.5), origin=np.array([1, 2]))
    assert (number, type(number.gamma)) == (Gaussian(gamma=0.5, origin=(1.0, 2.0)), float)


SCALES = st.none() | st.floats(min_value=0, exclude_min=True, allow_infinity=False)
POSITIVE = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
SIMPLE = st.one_of(
    *(st.builds(kind, gamma=SCALES) for kind in (Gaussian, Laplacian, InverseMultiquadric)),
    st.builds(RationalQuadratic, alpha=POSITIVE, gamma=SCALES),
    st.builds(Matern, nu=st.sampled_from([0.5, 1.5, 2.5]), length=SCALES),
    st.builds(Polynomial, degree=st.integers(1, 50), coef0=POSITIVE, gamma=SCALES),
    st.builds(Distance, exponent=st.floats(min_value=0, max_value=2, exclude_min=True)),
    st.sampled_from([Linear(), Delta(), Ranked(Gaussian(), "spread"), Columns((None, Delta()))]),
)
EXPRESSIONS = st.recursive(
    SIMPLE,
    lambda k: st.tuples(k, k).flatmap(lambda p: st.sampled_from([p[0] + p[1], p[0] * p[1]])),
    max_leaves=8,
)


@given(EXPRESSIONS)
def test_parse__reads_what_spec_writes(kernel):
    assert parse(kernel.spec()) == kernel


def test_kernels__are_the_same_from_pickles_and_plain_values():
    for case in (*CASES, *map(parse, ("scores(gaussian+laplacian)", "columns(ranks(gaussian))"))):
        kernel = getattr(case, "kernel", case).fit(X)
        for other in (pickle.loads(pickle.dumps(kernel)), kernel_of_plain(plain_kernel(kernel))):
            np.testing.assert_array_equal(other(X), kernel(X))


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("matern52:3", Matern(nu=2.5, length=3.0)),
        ("imq:1e-3", InverseMultiquadric(gamma=0.001)),
        ("rq:0.5", RationalQuadratic(alpha=0.5)),
        ("polynomial:2:0.5", Polynomial(degree=2, coef0=0.5)),
        ("gaussian+linear*delta", Gaussian() + Linear() * Delta()),
        ("(gaussian+linear)*delta", (Gaussian() + Linear()) * Delta()),
        ("gaussian:1e+5+linear", Gaussian(gamma=1e5) + Linear()),
        (" Gaussian : 0.5  + LINEAR ", Gaussian(gamma=0.5) + Linear()),
        ("((delta))", Delta()),
        ("columns(gaussian:0.5,none,laplacian)", Columns((Gaussian(0.5), None, Laplacian()))),
        ("scores(gaussian)", Ranked(Gaussian(), "scores")),
    ],
)
def test_parse__reads(text, kernel):
    assert parse(text) == kernel


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("gausian", r"one of gaussian, laplacian, .*; got 'gausian': did you mean 'gaussian'"),
        ("xyzzy", r"got 'xyzzy': write 'gaussian'"),
        ("", r"must be one of .*; got ''"),
        ("gaussian+", r"must be one of .*; got ''"),
        ("gaussian:-1", r"gaussian: gamma must be a finite number > 0, got -1.0: leave it out"),
        ("gaussian:", "must have fields of gamma, each once and with a value; got ''$"),
        ("rq:gama=1", "fields of alpha, gamma, .* got 'gama=1'; did you mean 'gamma'"),
        ("polynomial:2.5", r"degree must be an integer >= 1, got 2.5"),
        ("gaussian:1:2", "gaussian must have fields of gamma, .* got '2'"),
        ("delta:a=1", r"kernel delta must have no fields; got 'a=1'$"),
        ("delta:1", r"kernel delta must have no fields"),
        ("gaussian@x", "got an unexpected '@x'"),
        ("(gaussian", r"parentheses must pair; got an unexpected '\('"),
        ("(gaussian)linear", r"joined by \+ or \*.* got an unexpected 'linear'"),
        ("columns(gaussian,)", r"got '\)'"),
        ("gaussian,delta", "unexpected ','"),
    ],
)
def test_parse__refuses(text, match):
    with pytest.raises(InvalidArgumentError, match=match):
        parse(text)
