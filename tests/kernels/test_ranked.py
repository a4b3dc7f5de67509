"""Kernels of ranks, by their definitions."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm, rankdata

from dhsic.errors import DataError, InvalidArgumentError
from dhsic.kernels import AndersonDarling, Columns, Gaussian, Laplacian, Ranked, parse
from dhsic.kernels.plain import kernel_of_plain, plain_kernel


def ranks_of(x):
    """Mid-ranks of every column, as shares."""
    return (np.column_stack([rankdata(column) for column in x.T]) - 0.5) / len(x)


def heavy(rng, n, d):
    """Columns of unlike units, with ties."""
    x = rng.standard_t(1.5, size=(n, d)) * 10.0 ** np.arange(d)
    x[: n // 5] = x[0]
    return x


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("kernel", [Gaussian(), Laplacian(), Columns(Gaussian())], ids=str)
def test_ranked__is_the_kernel_of_ranks_or_scores(rng, kernel, d):
    x = heavy(rng, 300, d)
    ranks = ranks_of(x)
    spread = ranks_of(np.abs(np.round(2 * len(x) * ranks) - len(x)))
    for scale, expected in (("ranks", ranks), ("scores", norm.ppf(ranks)), ("spread", spread)):
        found = Ranked(kernel, scale).fit(x)(x)
        np.testing.assert_allclose(found, kernel.fit(expected)(expected), rtol=0, atol=1e-12)


def test_ranked__does_not_change_with_increasing_transformations(rng):
    x = heavy(rng, 200, 2)
    y = np.column_stack([np.arctan(x[:, 0]), x[:, 1] ** 3])
    kernel = Ranked(Gaussian(), "scores")
    np.testing.assert_array_equal(kernel.fit(x)(x), kernel.fit(y)(y))


@pytest.mark.parametrize("n", [1, 2, 9, 10])
def test_spread__is_the_same_of_both_tails_and_lies_within_0_and_1(n):
    x = np.arange(float(n))[:, None] ** 3
    spread = Ranked(AndersonDarling(), "spread").fit(x)._changed(x)[:, 0]
    np.testing.assert_array_equal(spread, spread[::-1])
    assert (np.diff(spread[n // 2 :]) > 0.0).all()
    assert 0.0 < spread.min() <= spread.max() < 1.0


def test_ranked__of_new_rows_lies_between_those_of_the_sample_and_ends_with_them(rng):
    x = np.arange(10.0)[:, None]
    kernel = Ranked(Gaussian(gamma=1.0)).fit(x)
    rows = np.array([[-5.0], [0.0], [4.5], [9.0], [80.0]])
    ranks = np.array([0.05, 0.05, 0.5, 0.95, 0.95])
    np.testing.assert_allclose(kernel(rows), np.exp(-((ranks[:, None] - ranks) ** 2)), rtol=1e-12)


def test_ranked__takes_numbers_of_more_than_double_precision(rng):
    x = rng.standard_normal((300, 2))
    kernel = Ranked(Gaussian()).fit(x)
    np.testing.assert_array_equal(kernel(x.astype(np.longdouble)), kernel(x))


def test_ranked__of_many_values_keeps_few_of_them_and_those_that_many_rows_share(rng):
    x = rng.standard_normal((20_000, 1))
    x[:8_000] = 0.25
    kernel = Ranked(Gaussian(gamma=1.0)).fit(x)
    ((values, _),) = kernel.knots
    assert len(values) <= 512
    assert 0.25 in values
    found = kernel._changed(x)
    assert np.quantile(np.abs(found - ranks_of(x)), 0.99) < 2 / 512


def test_ranked__survives_text_pickle_and_files(rng):
    x = heavy(rng, 50, 2)
    for text in (
        "ranks(gaussian)",
        "scores(gaussian+laplacian)",
        "columns(ranks(gaussian))",
        "spread(imq)",
    ):
        kernel = parse(text)
        assert kernel.spec() == text
        fitted = kernel.fit(x)
        for other in (pickle.loads(pickle.dumps(fitted)), kernel_of_plain(plain_kernel(fitted))):
            np.testing.assert_array_equal(other(x), fitted(x))
        assert "knots" not in repr(fitted)


def test_ranked__tiles_of_narrow_kernels_follow_from_wide_ones(rng):
    x = heavy(rng, 50, 2)
    wide = Ranked(Gaussian(), "scores").fit(x)
    narrow = wide.widened(0.5)
    assert narrow.squarings(wide) == 2
    np.testing.assert_allclose(narrow(x), wide(x) ** 4, rtol=1e-12)
    assert narrow.squarings(Ranked(Gaussian()).fit(x)) == 0
    assert narrow.squarings(Gaussian().fit(x)) == 0


def test_ranked__refuses_what_it_cannot_transform(rng):
    x = rng.standard_normal((9, 2))
    with pytest.raises(InvalidArgumentError, match="knots must be set before use"):
        Ranked(Gaussian(gamma=1.0))(x)
    with pytest.raises(InvalidArgumentError, match=r"rows must have shape \(n, 2\)"):
        Ranked(Gaussian()).fit(x)(x[:, :1])
    with pytest.raises(InvalidArgumentError, match="ranks need a kernel"):
        Ranked("gaussian")
    with pytest.raises(InvalidArgumentError, match="scale must be"):
        Ranked(Gaussian(), "normal")


def integral(u, v):
    """The inner product of two weighted indicators."""

    def product(t):
        return ((u <= t) - t) * ((v <= t) - t) / (t * (1 - t))

    low, high = sorted((u, v))
    ends = [0.0, low, high, 1.0]
    return sum(quad(product, a, b)[0] for a, b in pairwise(ends) if a < b)


def test_anderson_darling__is_the_integral_that_defines_it(rng):
    x = rng.uniform(0.02, 0.98, size=(7, 2))
    expected = np.mean([[[integral(a, b) for b in c] for a in c] for c in x.T], axis=0)
    np.testing.assert_allclose(AndersonDarling()(x), expected, rtol=1e-6, atol=1e-6)
    single = AndersonDarling().rows(x, np.float32), AndersonDarling().columns(x, np.float32)
    out = np.empty((7, 7), np.float32)
    AndersonDarling().tile(*single, out, np.empty((1, 7, 7), np.float32))
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-5)
    assert np.linalg.eigvalsh(AndersonDarling()(x)).min() > 0


def test_anderson_darling__refuses_numbers_that_are_no_ranks():
    with pytest.raises(DataError, match=r"take 'ranks\(anderson-darling\)'"):
        AndersonDarling().fit(np.array([[0.5], [1.0]]))
    with pytest.raises(InvalidArgumentError, match=r"rows must have shape \(n, d\)"):
        AndersonDarling().rows(np.array([0.5]))
