"""Kernels that see some columns."""

import numpy as np
import pytest

from dhsic.errors import DataError, InvalidArgumentError
from dhsic.kernels import Columns, Combinations, Delta, Gaussian, Laplacian, OnColumns, parse


@pytest.mark.parametrize("kernel", [Gaussian(), Laplacian(), Delta(), Columns(Gaussian())])
@pytest.mark.parametrize("at", [(1,), (0, 2)])
def test_on_columns__is_the_kernel_of_these_columns(rng, kernel, at):
    x, z = np.round(rng.standard_normal((2, 20, 3)), 1)
    there, here = OnColumns(kernel, at).fit(x), kernel.fit(x[:, at])
    np.testing.assert_array_equal(there(x, z), here(x[:, at], z[:, at]))
    assert there.spec() == f"{here.spec()}@{','.join(map(str, at))}"
    assert parse(there.spec()).spec() == there.spec()
    assert there.width(3) == there.rows(x).shape[1] == here.width(len(at))
    assert (there.nominal, there.has_length) == (here.nominal, here.has_length)
    assert there.work_tiles == here.work_tiles
    assert there.rounding(there.columns(z)) == here.rounding(here.columns(z[:, at]))


def test_on_columns__scaled_takes_no_notice_of_units(rng):
    x = rng.standard_normal((30, 3))
    scaled, plain = (OnColumns(Gaussian(), (0, 2), scaled=s) for s in (True, False))
    units = np.array([1e3, 1.0, 1e-3])
    np.testing.assert_allclose(scaled.fit(x)(x), scaled.fit(x * units)(x * units), rtol=1e-12)
    assert np.abs(plain.fit(x)(x) - plain.fit(x * units)(x * units)).max() > 0.1


def test_on_columns__scaled_leaves_constant_columns(rng):
    x = np.column_stack([rng.standard_normal(30), np.ones(30)])
    assert OnColumns(Gaussian(), (0, 1), scaled=True).fit(x).scales[1] == 1.0


def test_on_columns__follow_from_wider_ones_of_the_same_columns():
    narrow, wide = Gaussian(gamma=4.0), Gaussian(gamma=1.0)
    assert OnColumns(narrow, (1,)).squarings(OnColumns(wide, (1,))) == 2
    assert OnColumns(narrow, (1,)).squarings(OnColumns(wide, (2,))) == 0
    assert OnColumns(narrow, (1,)).squarings(wide) == 0
    assert OnColumns(wide, (1,)).widened(0.5).kernel == narrow


@pytest.mark.parametrize("at", [(), (-1,), (1, 1), (0.5,), (True,)])
def test_on_columns__refuses_other_numbers(at):
    with pytest.raises(InvalidArgumentError, match="columns must be different numbers >= 0"):
        OnColumns(Gaussian(), at)


def test_on_columns__refuses_rows_without_them():
    with pytest.raises(InvalidArgumentError, match=r"shape \(n, d\) with d > 3; got \(5, 3\)"):
        OnColumns(Gaussian(gamma=1.0), (3,))(np.zeros((5, 3)))
    with pytest.raises(DataError, match="columns 0, 1: a bandwidth needs"):
        OnColumns(Gaussian(), (0, 1)).fit(np.zeros((5, 3)))


def test_part__keeps_what_its_combinations_use():
    kernels = [OnColumns(Gaussian(), (j,)) for j in range(4)]
    whole = Combinations.against(kernels, Delta())
    part = whole.part([2, 3])
    assert part == Combinations.against(kernels[2:], Delta())
    assert whole.part(range(4)) == whole
