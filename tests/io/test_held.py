"""Variables held in memory, and their numbers within strata."""

import numpy as np
import pytest

from dhsic.errors import DataError
from dhsic.io.held import HeldSource, within_strata
from dhsic.io.sources import ArraySource

STRATA = np.arange(200) % 2
X = np.random.default_rng(0).standard_normal((200, 1))


@pytest.mark.parametrize("unit", [1e-300, 1e300])
def test_within_strata__takes_numbers_of_any_unit(unit):
    np.testing.assert_allclose(within_strata(X * unit, STRATA), within_strata(X, STRATA))


def test_within_strata__keeps_the_spread_of_a_stratum_with_one_huge_value():
    x = X.copy()
    x[0] = 1e160
    scaled = within_strata(x, STRATA)
    assert scaled[0] == pytest.approx(np.sqrt(99))
    np.testing.assert_array_equal(scaled[1::2], within_strata(X, STRATA)[1::2])


def test_within_strata__keeps_a_spread_far_from_zero():
    np.testing.assert_allclose(within_strata(X + 1e12, STRATA), within_strata(X, STRATA), atol=1e-3)


@pytest.mark.parametrize("rows", [10, 200_000])
def test_within_strata__takes_rounding_for_no_spread(rows):
    x = np.where(np.arange(rows) % 4 < 2, 0.1 + 0.2, 0.3)[:, None]
    assert not within_strata(x, np.arange(rows) % 2).any()


def test_held__integers_that_lose_digits_are_refused():
    source = ArraySource("x", 2**60 + np.arange(200)[:, None])
    with pytest.raises(DataError, match="'x' has integers beyond 2"):
        _ = HeldSource(source, STRATA).array
