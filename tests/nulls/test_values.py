"""Null distributions as values: options, names, and which law a spectrum gives."""

import numpy as np
import pytest

from dhsic._random import generator
from dhsic.errors import InvalidArgumentError
from dhsic.nulls import (
    ChiSquare,
    ChiSquareMixture,
    Gamma,
    Normal,
    Replicates,
    Sequential,
    Spectral,
    TimeOrder,
)


@pytest.mark.parametrize(
    ("null", "name"),
    [
        (Gamma(), "gamma"),
        (Spectral(), "spectral"),
        (Normal(), "normal"),
        (ChiSquare(), "chi-square"),
        (Sequential(), "sequential"),
    ],
)
def test_null__is_a_frozen_value_with_a_name(null, name):
    assert null.name == name
    assert null == type(null)()
    assert hash(null) == hash(type(null)())
    with pytest.raises(AttributeError):
        null.name = "other"


@pytest.mark.parametrize(
    ("null", "options", "match"),
    [
        (Spectral, {"method": "davies"}, "method must be one of 'inversion', 'simulation'"),
        (Spectral, {"n_resamples": 0}, "n_resamples must be an integer >= 1, got 0"),
        (TimeOrder, {"lag": 5, "period": 10}, "lag must be at least the period, got 5 and 10"),
        (TimeOrder, {"lag": 0}, "lag must be an integer >= 1, got 0"),
        (TimeOrder, {"period": 0}, "period must be an integer >= 1, got 0"),
        (Normal, {"variance": "bootstrap"}, "variance must be one of 'direct', 'permutation', 'em"),
    ],
)
def test_null__checks_its_options(null, options, match):
    with pytest.raises(InvalidArgumentError, match=match):
        null(**options)


def test_spectral__inverts_or_simulates():
    mixture = ChiSquareMixture(np.array([2.0, 1.0]))
    assert Spectral().distribution(mixture, 3) is mixture
    drawn = Spectral("simulation", n_resamples=700).distribution(mixture, 3)
    assert isinstance(drawn, Replicates)
    np.testing.assert_array_equal(drawn.values, mixture.draws(generator(3, "simulation"), 700))
