"""Checks of options."""

import numpy as np
import pytest

from dhsic._validation import (
    check_choice,
    check_integer,
    check_number,
    nearest,
    shown,
)
from dhsic.errors import InvalidArgumentError, require


@pytest.mark.parametrize("value", [2, 3, np.int32(2)])
def test_check_integer__returns_integers_from_the_minimum_on(value):
    clean = check_integer("n", value, minimum=2)
    assert clean == value
    assert type(clean) is int


@pytest.mark.parametrize("value", [1, np.int32(1), -3, True, 2.0, "2", None])
def test_check_integer__refuses_the_rest(value):
    with pytest.raises(InvalidArgumentError, match=r"^n must be an integer >= 2, got") as caught:
        check_integer("n", value, minimum=2)
    assert str(caught.value).endswith(repr(value))


def test_check_integer__refuses_what_numpy_cannot_count():
    assert check_integer("n", 2**63 - 1, minimum=2) == 2**63 - 1
    with pytest.raises(InvalidArgumentError, match=r"at most 9,223,372,036,854,775,807, got"):
        check_integer("n", 2**63, minimum=2)


def positive(value):
    return check_number("q", value, "positive", lambda q: q > 0.0, "take 1")


@pytest.mark.parametrize("value", [2, 0.5, np.float32(0.5), np.int64(3)])
def test_check_number__returns_numbers_that_are_allowed(value):
    clean = positive(value)
    assert clean == value
    assert type(clean) is float


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), True, "2", None, 1j, np.ones(2), 10**400])
def test_check_number__refuses_the_rest(value):
    with pytest.raises(InvalidArgumentError) as caught:
        positive(value)
    assert str(caught.value) == f"q must be positive, got {shown(value)}: take 1"


def test_check_choice__returns_what_is_among_the_choices():
    assert check_choice("mode", "joint", ("joint", "single")) == "joint"


def test_check_choice__lists_the_choices_and_the_nearest():
    match = "mode must be one of 'joint', 'single', got 'joined'; did you mean 'joint'?"
    with pytest.raises(InvalidArgumentError) as caught:
        check_choice("mode", "joined", ("joint", "single"))
    assert str(caught.value) == match


@pytest.mark.parametrize("value", [None, 3, "zzz"])
def test_check_choice__suggests_nothing_for_what_is_far_off(value):
    with pytest.raises(InvalidArgumentError, match=f"got {value!r}$"):
        check_choice("mode", value, ("joint", "single"))


def test_nearest__takes_any_iterable():
    assert nearest("timbr", iter(["year", "timbre"])) == "; did you mean 'timbre'?"
    assert nearest("q", iter(["year", "timbre"])) == ""


def test_require__names_the_purpose_the_module_and_the_extra():
    error = require("matplotlib", "plot", "Plotting")
    assert isinstance(error, ImportError)
    assert str(error) == (
        "Plotting needs matplotlib, which is not installed: pip install 'dhsic[plot]'"
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("short", "'short'"),
        ("x" * 100, "a str"),
        (np.zeros((3, 2)), "an ndarray of shape (3, 2)"),
        (np.ones(1), "an ndarray of shape (1,)"),
        (list(range(100)), "a list"),
        (np.float64(1.5), "np.float64(1.5)"),
    ],
)
def test_shown__is_no_longer_than_a_line(value, said):
    assert shown(value) == said
