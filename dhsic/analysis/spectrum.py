"""The spectrum of a kernel's covariance operator, and the effective dimension by it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dhsic._validation import check_number, named_arguments, shown
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.kernels import Kernel, parse
from dhsic.linalg import hadamard, spectrum
from dhsic.results import BarResult

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class CovarianceSpectrum(BarResult):
    """Eigenvalues of the uncentred covariance operator C = E phi(X) (x) phi(X).

    Parameters
    ----------
    eigenvalues : ndarray, shape (r,)
        At least 0, at least one above.
    supremum : float
        K, the least upper bound of |phi(x)| = sqrt(k(x, x)).

    Raises
    ------
    InvalidArgumentError
        The eigenvalues are no array of numbers of at least 0 with one above 0, or `supremum` is not
        greater than 0.

    References
    ----------
    .. [1] A. Chatalic, N. Schreuder, A. Rudi, L. Rosasco. Nystrom kernel mean embeddings. ICML
       2022, section 4.

    Examples
    --------
    >>> known = CovarianceSpectrum(np.array([0.5, 0.25, 0.25]), supremum=1.0)
    >>> known.norm
    0.5
    >>> known.effective_dimension(0.25)
    1.6666666666666665
    """

    _tabular: ClassVar[bool] = True

    eigenvalues: Vector
    supremum: float

    def __post_init__(self) -> None:
        # The largest first, which is the norm.
        values = np.sort(np.asarray(self.eigenvalues, np.float64))[::-1]
        if values.ndim != 1 or not len(values) or values[0] <= 0 or not values[-1] >= 0:
            msg = "eigenvalues must be an array (r,) of numbers >= 0, one of them above 0"
            raise InvalidArgumentError(msg)
        check_number(
            "supremum", self.supremum, "greater than 0", lambda x: 0.0 < x < np.inf, "as 1.0"
        )
        object.__setattr__(self, "eigenvalues", values)
        super().__post_init__()

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        return [
            ("eigenvalues", f"{len(self.eigenvalues):,}, the largest {self.norm:.4g}"),
            ("supremum", f"{self.supremum:.4g}"),
        ]

    def records(self) -> list[dict[str, Any]]:
        """Every eigenvalue, the largest first."""
        values = enumerate(self.eigenvalues.tolist(), 1)
        return [{"number": place, "eigenvalue": value} for place, value in values]

    def _bars(self) -> tuple[Sequence[str], Sequence[float], str]:
        names = [str(place) for place in range(1, len(self.eigenvalues) + 1)]
        return names, self.eigenvalues.tolist(), "eigenvalues"

    @property
    def norm(self) -> float:
        """The operator norm, the largest eigenvalue."""
        return float(self.eigenvalues[0])

    def effective_dimension(self, ridge: float) -> float:
        """tr(C (C + ridge)^-1), Chatalic et al. (2022), equation 6b.

        Parameters
        ----------
        ridge : float
            lambda, greater than 0.

        Returns
        -------
        float
        """
        above = check_number(
            "ridge", ridge, "greater than 0", lambda x: 0.0 < x < np.inf, "as 0.01"
        )
        # N(lambda) = tr C (C + lambda)^-1, Chatalic et al. (2022), section 4.
        return float((self.eigenvalues / (self.eigenvalues + above)).sum())


@named_arguments
def covariance_spectrum(
    *pilot: ArrayLike, kernels: str | Kernel | Sequence[str | Kernel] = "gaussian"
) -> CovarianceSpectrum:
    """Estimate the spectrum of a kernel, or of a product of kernels, from a pilot sample.

    Its eigenvalues are those of the Gram matrix over the number of rows. The effective dimension
    by them is at most the true one in expectation, as it is concave in C.

    Parameters
    ----------
    *pilot : array-like, shapes (s,) or (s, d_m)
        The same rows of every variable; a few thousand, drawn at random.
    kernels : str, Kernel or a sequence of them, optional
        One for all variables, or one a variable. Bandwidths that are not given follow the median
        heuristic of the pilot.

    Returns
    -------
    CovarianceSpectrum
        Its supremum is that of the pilot rows, which is K where k(x, x) is constant.

    Raises
    ------
    DataError
        The rows do not align, are fewer than two, or have NaN or infinity.
    InvalidArgumentError
        As many kernels as variables are needed.

    References
    ----------
    .. [1] A. Chatalic, N. Schreuder, A. Rudi, L. Rosasco. Nystrom kernel mean embeddings. ICML
       2022, section 4.

    Examples
    --------
    >>> x = np.random.default_rng(0).standard_normal(500)
    >>> found = covariance_spectrum(x, kernels="gaussian:0.5")
    >>> round(found.norm, 2), round(found.effective_dimension(0.01), 1)
    (0.62, 5.0)
    """
    gram = hadamard(grams_of_pilot(pilot, kernels))
    # K of the bounds is sup sqrt(k(x, x)); a pilot sees it where k(x, x) is constant.
    supremum = float(np.sqrt(gram.diagonal().max()))
    # Eigenvalues of a Gram matrix over n are those of the covariance operator of the sample;
    # rounding may leave some below 0.
    return CovarianceSpectrum(spectrum(gram).clip(min=0.0) / len(gram), supremum)


def grams_of_pilot(
    pilot: Sequence[ArrayLike], kernels: str | Kernel | Sequence[str | Kernel]
) -> Iterator[NDArray[np.float64]]:
    """Gram matrices of the variables of a pilot sample, as `covariance_spectrum` takes it.

    Examples
    --------
    >>> [gram.shape for gram in grams_of_pilot([[1.0, 2.0, 4.0]], "gaussian")]
    [(3, 3)]
    """
    rows = [_matrix(x) for x in pilot]
    listed: Any = kernels if isinstance(kernels, Sequence) else [kernels]
    if not all(isinstance(kernel, str | Kernel) for kernel in listed):
        msg = f"kernels must be names or values of kernels, got {shown(kernels)}: as 'gaussian'"
        raise InvalidArgumentError(msg)
    given = [kernels] * len(rows) if isinstance(kernels, str | Kernel) else list(listed)
    if not rows or len(given) != len(rows):
        msg = (
            "a pilot needs one variable or more and as many kernels, got "
            f"{len(rows)} variables and {len(given)} kernels: give one kernel for each, or one "
            "that is no list for all"
        )
        raise InvalidArgumentError(msg)
    if len({len(x) for x in rows}) > 1 or len(rows[0]) < 2:
        counts = ", ".join(str(len(x)) for x in rows)
        msg = f"a pilot needs the same rows of every variable, two or more; got {counts} rows"
        raise DataError(msg)
    fitted = [
        (parse(k) if isinstance(k, str) else k).fit(x) for k, x in zip(given, rows, strict=True)
    ]
    return (kernel(x) for kernel, x in zip(fitted, rows, strict=True))


def _matrix(values: ArrayLike) -> NDArray[Any]:
    try:
        x = np.asarray(values)
        if x.dtype.kind == "c":
            raise TypeError  # only their real parts would be left
        x = x.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        msg = f"a pilot needs arrays (s,) or (s, d) of finite numbers, got {shown(values)}"
        raise DataError(msg) from error
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2 or not np.isfinite(x).all():
        got = f"shape {x.shape}" if x.ndim != 2 else "NaN or infinity: leave such rows out"
        msg = f"a pilot needs arrays (s,) or (s, d) of finite numbers, got {got}"
        raise DataError(msg)
    return x
