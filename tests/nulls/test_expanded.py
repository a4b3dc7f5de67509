"""Products of centred tiles lose no digits near one: no public result shows what they lose."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhsic.nulls import expanded


def centred_product(tiles, means):
    about = [tile - mean for tile, mean in zip(tiles, means, strict=True)]
    return expanded(about, means)[0]


@settings(max_examples=60)
@given(
    m=st.integers(2, 5),
    b=st.integers(1, 6),
    c=st.integers(1, 4),
    seed=st.integers(0, 1000),
    centred=st.booleans(),
)
def test_centred_product__equals_its_formula(m, b, c, seed, centred):
    rng = np.random.default_rng(seed)
    tiles = rng.random((m, b, c))
    means = tiles.mean(axis=1) if centred else rng.random((m, c))
    expected = np.prod(tiles, axis=0) + (m - 1) * np.prod(means, axis=0)
    for k in range(m):
        expected -= tiles[k] * np.prod(np.delete(means, k, axis=0), axis=0)
    np.testing.assert_allclose(centred_product(tiles, means), expected, atol=1e-13)


@pytest.mark.parametrize("m", [2, 3, 4, 5])
def test_centred_product__has_mean_u_and_loses_no_digits_near_one(m):
    common, *own = np.random.default_rng(m).random((m + 1, 400, 3))
    tiles = 1.0 - 1e-6 * (common + np.array(own))
    result = centred_product(tiles, tiles.mean(axis=1))
    exact = tiles.astype(np.longdouble)
    u = np.prod(exact, axis=0).mean(axis=0) - np.prod(exact.mean(axis=1), axis=0)
    np.testing.assert_allclose(result.mean(axis=0), u.astype(float), rtol=3e-5)
