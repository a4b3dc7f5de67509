"""The mean over columns of a kernel of one column."""

import numpy as np
import pytest

from dhsic.errors import DataError, InvalidArgumentError
from dhsic.kernels import Columns, Delta, Distance, Gaussian, Laplacian, parse
from dhsic.kernels.shared import tile_work
from tests import oracles


def sample(n=40):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, -2.0]


def test_columns__fits_every_column_by_itself():
    x = sample()
    fitted = Columns(Gaussian()).fit(x)
    assert fitted.parts == tuple(Gaussian().fit(x[:, [j]]) for j in range(3))
    expected = np.mean([k(x[:, [j]]) for j, k in enumerate(fitted.parts)], axis=0)
    np.testing.assert_allclose(fitted(x), expected, rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns__prepares_rows_as_each_kernel_does(dtype):
    x = sample()
    x[:, 1] = 0.1
    kernel = Columns(Laplacian()).fit(x)
    expected = np.hstack([kernel.parts[j].rows(x[:, [j]], dtype) for j in (0, 2)])
    found = kernel.rows(x, dtype)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == dtype
    assert found.flags.c_contiguous
    with pytest.raises(DataError, match="rows must be finite, and smaller than"):
        kernel.rows(x * 1e30, np.float32)


def test_columns__of_one_column_is_its_kernel_to_the_bit():
    x = sample()[:, [1]]
    np.testing.assert_array_equal(Columns(Laplacian()).fit(x)(x), Laplacian().fit(x)(x))


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float32, 4e-6), (np.float64, 4e-14)])
@pytest.mark.parametrize("far", [0.0, 30.0, 1e3, 1e8])
def test_columns__of_laplacians_are_those_of_each_column(dtype, rtol, far):
    x = sample()
    # One row is far from the others, where exponentials of rows would overflow.
    fitted = Columns(Laplacian()).fit(x)
    x[0, 2] += far / fitted.parts[2].gamma
    x[1] = x[2]
    rows, tile, work = (
        fitted.rows(x, dtype),
        np.empty((40, 40), dtype),
        np.empty((2, 40, 40), dtype),
    )
    fitted.tile(rows, fitted.columns(x, dtype), tile, work)
    exact = [k(x[:, [j]]) for j, k in enumerate(fitted.parts)]
    np.testing.assert_allclose(tile, np.mean(exact, axis=0), rtol=rtol)
    np.testing.assert_array_equal(tile, tile.T)
    np.testing.assert_array_equal(tile[1], tile[2])
    points = [part.columns(x[:5, [j]], dtype) for j, part in enumerate(fitted.parts)]
    found = fitted.side_by_side(rows, points)
    expected = np.hstack([gram[:, :5] for gram in exact])
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=np.finfo(dtype).tiny)


def test_columns__of_laplacians_are_planned_as_they_run():
    fitted, guessed = (Columns(Laplacian()).fit(sample()[:, :d]) for d in (3, 1))
    assert fitted.of_laplacians
    assert guessed.of_laplacians
    assert fitted.work_tiles == guessed.work_tiles == 2
    assert not Columns(Gaussian()).fit(sample()).of_laplacians
    some = tile_work(fitted, np.float64, 3)
    assert some["exponentials"] == 0
    assert some == tile_work(guessed, np.float64, 3)


def test_columns__draws_frequencies_for_the_columns_that_count():
    x = sample()
    x[:, 1] = 0.1
    scales = Columns(Laplacian()).fit(x).spectral_scales(np.random.default_rng(0), 300, 3)
    assert ((scales > 0).sum(axis=1) <= 1).all()
    assert ((scales > 0).any(axis=0) == [True, False, True]).all()


def test_columns__takes_a_kernel_for_each_column():
    x = sample()
    kernel = Columns((Gaussian(gamma=1.0), Distance(), Delta())).fit(x)
    expected = np.mean([k(x[:, [j]]) for j, k in enumerate(kernel.parts)], axis=0)
    np.testing.assert_allclose(kernel(x), expected, rtol=1e-14)


@pytest.mark.parametrize("part", [Delta(), Gaussian(), Laplacian(), Distance()], ids=str)
def test_columns__make_hsic_the_mean_of_that_of_the_columns(part):
    x = np.round(sample(), 1)
    y = x[:, :1] + np.random.default_rng(1).normal(size=(40, 1))
    kernel, other = Columns(part).fit(x), Gaussian().fit(y)
    each = [oracles.v_hsic([k(x[:, [j]]), other(y)]) for j, k in enumerate(kernel.parts)]
    assert oracles.v_hsic([kernel(x), other(y)]) == pytest.approx(np.mean(each), rel=1e-10)


@pytest.mark.parametrize("constant", [0, 2])
def test_columns__counts_a_constant_column_as_zero(constant):
    x = sample()
    x[:, constant] = 0.1
    fitted = Columns(Laplacian()).fit(x)
    kept = [j for j in range(3) if j != constant]
    assert fitted.parts[constant] is None
    assert fitted.width(3) == 2
    expected = sum(fitted.parts[j](x[:, [j]]) for j in kept) / 3
    np.testing.assert_allclose(fitted(x), expected, rtol=1e-14)
    assert fitted.fit(x) == fitted


def test_columns__keeps_a_constant_column_whose_kernel_has_no_scale():
    x = np.column_stack([np.zeros(10), np.arange(10)])
    assert None not in Columns(Delta()).fit(x).parts


def test_columns__refuses_a_variable_without_scale():
    with pytest.raises(DataError, match="must have a column that is not constant: drop"):
        Columns(Gaussian()).fit(np.ones((10, 2)))


def test_columns__passes_on_why_a_column_cannot_be_fitted():
    with pytest.raises(DataError, match=r"differ by 1e-100 .* rescale the variable"):
        Columns(Gaussian()).fit(np.array([[0.0, 1.0], [1e-200, 2.0]]))


@pytest.mark.parametrize("parts", [(), (None, None), 3 * (2,)])
def test_columns__refuses_what_are_no_kernels(parts):
    with pytest.raises(InvalidArgumentError, match="columns needs a kernel for all columns"):
        Columns(parts)


def test_columns__refuses_other_columns_than_fitted():
    kernel = Columns(Gaussian()).fit(sample())
    with pytest.raises(InvalidArgumentError, match=r"must have shape \(n, 3\); got \(40, 2\)"):
        kernel(sample()[:, :2])
    with pytest.raises(InvalidArgumentError, match=r"must have shape \(n, 3\); got \(4, 2\)"):
        kernel.fit(np.zeros((4, 2)))


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("columns(gaussian)", Columns(Gaussian())),
        ("columns(gaussian:0.5+delta)", Columns(Gaussian(gamma=0.5) + Delta())),
        (
            "columns(gaussian:0.5,none,laplacian)",
            Columns((Gaussian(gamma=0.5), None, Laplacian())),
        ),
        ("columns(distance:1.0)*delta", Columns(Distance()) * Delta()),
        ("columns(columns(delta))", Columns(Columns(Delta()))),
    ],
)
def test_columns__is_text_and_back(text, kernel):
    assert kernel.spec() == text
    assert parse(text) == kernel


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("columns", "got 'columns'"),
        ("columns(gaussian", r"unexpected '\('"),
        ("columns(gaussian,)", r"got '\)'"),
        ("gaussian,delta", "unexpected ','"),
    ],
)
def test_columns__refuses_malformed_text(text, match):
    with pytest.raises(InvalidArgumentError, match=match):
        parse(text)
