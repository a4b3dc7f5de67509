"""Fitted kernels as plain values, for files."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields
from typing import Any

from dhsic.errors import InvalidArgumentError
from dhsic.kernels.base import Kernel
from dhsic.results import Codec

_INNER = "inner"  # a kernel of a kernel, since "kernel" tells the class


def plain_kernel(kernel: Kernel) -> dict[str, Any]:
    """A fitted kernel of this package, with its origin.

    Parameters
    ----------
    kernel : Kernel
        As fitted.

    Returns
    -------
    dict

    Raises
    ------
    InvalidArgumentError
        The kernel is of another package.

    Examples
    --------
    >>> from dhsic.kernels import Gaussian
    >>> plain_kernel(Gaussian(gamma=0.5, origin=(1.0,)))
    {'kernel': 'Gaussian', 'origin': [1.0], 'gamma': 0.5}
    """
    from dhsic import kernels  # the package that imports this module

    name = type(kernel).__name__
    if getattr(kernels, name, None) is not type(kernel):
        msg = f"a kernel is saved where it is one of dhsic.kernels, got {kernel!r}: take these"
        raise InvalidArgumentError(msg)
    values = {
        _INNER if field.name == "kernel" else field.name: _plain(getattr(kernel, field.name))
        for field in fields(kernel)
    }
    return {"kernel": name, **values}


def kernel_of_plain(plain: Any) -> Kernel:
    """Read what `plain_kernel` made.

    Parameters
    ----------
    plain : dict
        Its class and its fields.

    Returns
    -------
    Kernel

    Raises
    ------
    TypeError
        It is something else.

    Examples
    --------
    >>> kernel_of_plain({"kernel": "Gaussian", "origin": [1.0], "gamma": 0.5})
    Gaussian(origin=(1.0,), gamma=0.5)
    """
    kernel: Any = None
    with suppress(KeyError, AttributeError):  # no class is named, or one that is not there
        kernel = _value(plain)
    if not isinstance(kernel, Kernel):
        msg = f"kernel must be a kernel of dhsic.kernels, got {str(plain)[:40]!r}"
        raise TypeError(msg)
    return kernel


def _plain(value: Any) -> Any:
    if isinstance(value, Kernel):
        return plain_kernel(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return tuple(_value(item) for item in plain)
    if not isinstance(plain, dict):
        return plain
    # Names are looked up in this package alone, so that a file can have nothing else made.
    from dhsic import kernels

    cls = getattr(kernels, plain["kernel"])
    given = {field.name: field.init for field in fields(cls)}
    fields_written = {
        "kernel" if name == _INNER else name: x for name, x in plain.items() if name != "kernel"
    }
    # Fields that are no arguments are made anew.
    return cls(**{name: _value(x) for name, x in fields_written.items() if given.get(name)})


Codec(plain_kernel, kernel_of_plain).register(Kernel)
