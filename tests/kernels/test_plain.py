"""Kernels as plain values, for files."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from dhsic.errors import InvalidArgumentError
from dhsic.kernels import Gaussian, kernel_of_plain, plain_kernel


@dataclass(frozen=True)
class Mine(Gaussian):
    """A kernel that no file could name."""

    name: ClassVar[str] = "mine"


def test_plain__refuses_kernels_of_others():
    with pytest.raises(InvalidArgumentError, match=r"is one of dhsic.kernels, got Mine\("):
        plain_kernel(Mine(gamma=1.0))


@pytest.mark.parametrize(
    "plain", [3, {"gamma": 0.5}, {"kernel": "Nothing"}, {"kernel": "parse"}, "gaussian"]
)
def test_plain__refuses_what_is_no_kernel(plain):
    with pytest.raises(TypeError, match=r"kernel must be a kernel of|dataclass"):
        kernel_of_plain(plain)
