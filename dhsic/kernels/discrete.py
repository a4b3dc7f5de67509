"""The kernel of categories."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.errors import DataError, InvalidArgumentError
from dhsic.kernels.base import Kernel, Matrix


@dataclass(frozen=True)
class Delta(Kernel):
    """Kernel of categories: 1 where all columns of two rows are equal, else 0.

    References
    ----------
    .. [1] L. Song, A. Smola, A. Gretton, J. Bedo, K. Borgwardt. Feature selection via dependence
       maximization. JMLR 13, 2012, for kernels of labels.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels import Delta
    >>> Delta()(np.array([[1], [2], [1]]))
    array([[1., 0., 1.],
           [0., 1., 0.],
           [1., 0., 1.]])
    """

    origin: tuple[float, ...] | None = field(default=None, init=False, repr=False)

    name: ClassVar[str] = "delta"

    def fit(self, sample: NDArray[np.float64]) -> Self:
        return self

    def measured(self, d: int) -> frozenset[int]:
        return frozenset()

    @property
    def work_tiles(self) -> int:
        return 1

    def rows(self, x: NDArray[Any], dtype: DTypeLike = np.float64) -> Matrix:
        x = np.asarray(x)
        self._check_shape(x)
        with np.errstate(over="ignore", invalid="ignore"):
            codes = x.astype(dtype, order="C", copy=False)
            # A code that the precision does not hold would fall together with another: 2^24 + 1 is
            # 2^24 in float32.
            kept = codes.astype(x.dtype, copy=False) == x
        if not np.isfinite(codes).all():
            msg = "delta: categories must be finite; got NaN or inf: give missing values a number"
            raise DataError(msg)
        if not kept.all():
            msg = (
                f"delta: categories must be numbers that {np.dtype(dtype)} holds exactly; got "
                f"{x[~kept][0].item()!r}: recode them as small integers, or use float64"
            )
            raise InvalidArgumentError(msg)
        return codes

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        # The copy makes the inner loop contiguous.
        np.equal(rows[:, :1], columns[:, 0].copy(), out=out)
        for j in range(1, rows.shape[1]):
            np.equal(rows[:, j : j + 1], columns[:, j].copy(), out=work[0])
            np.multiply(out, work[0], out=out)
