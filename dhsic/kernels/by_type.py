"""The kernel that suits what the columns of a variable hold."""

from __future__ import annotations

from collections.abc import Sequence

from dhsic.kernels.base import Kernel, Product
from dhsic.kernels.columns import Columns
from dhsic.kernels.discrete import Delta
from dhsic.kernels.wrap import OnColumns


def by_type(kinds: Sequence[str], smooth: Kernel) -> Kernel:
    """A smooth kernel of the numbers, times a delta kernel of the categories and booleans.

    Booleans alone, two columns or more, take the smooth kernel: of 0 and 1 it is a product of
    kernels that ask whether a column is equal, and does not ask all of them at once as delta does.

    Parameters
    ----------
    kinds : sequence of {"number", "boolean", "category"}
        Kinds of the columns.
    smooth : Kernel
        Kernel of numbers.

    Returns
    -------
    Kernel

    Examples
    --------
    >>> from dhsic.kernels import Gaussian
    >>> by_type(("number", "category", "number"), Gaussian()).spec()
    'gaussian@0,2*delta@1'
    >>> by_type(("boolean",), Gaussian()).spec()
    'delta'
    """
    numbers = tuple(j for j, kind in enumerate(kinds) if kind == "number")
    others = tuple(j for j, kind in enumerate(kinds) if kind != "number")
    if not others or (len(others) > 1 and set(kinds) == {"boolean"}):
        return smooth
    if not numbers:
        return Delta()
    # A product of characteristic kernels is characteristic for both together, a sum would not be.
    return Product((OnColumns(smooth, numbers), OnColumns(Delta(), others)))


def by_column(kinds: Sequence[str], smooth: Columns) -> Columns:
    """The mean over columns of a smooth kernel of numbers, or delta of categories and booleans.

    Parameters
    ----------
    kinds : sequence of {"number", "boolean", "category"}
        Kinds of the columns.
    smooth : Columns
        Kernel of numbers.

    Returns
    -------
    Columns

    Examples
    --------
    >>> from dhsic.kernels import Gaussian
    >>> by_column(("number", "category"), Columns(Gaussian())).spec()
    'columns(gaussian,delta)'
    """
    if set(kinds) == {"number"}:
        return smooth
    part = smooth.parts[0] if isinstance(smooth.parts, tuple) else smooth.parts
    return Columns(tuple(part if kind == "number" else Delta() for kind in kinds))
