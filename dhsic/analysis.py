"""Compute effective dimensions, laws of estimates, and bounds on errors with explicit constants.

The spectrum of a covariance operator comes first, then the law of estimates under dependence, then
bounds on errors, each a class with the function that returns it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from dhsic._validation import check_integer, check_number, check_numbers, named_arguments, shown
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.kernels import Kernel, parse
from dhsic.linalg import hadamard, spectrum, u_centred
from dhsic.results import BarResult

__all__ = [
    "CovarianceSpectrum",
    "DependenceLaw",
    "EmbeddingBound",
    "HSICBound",
    "MMDBound",
    "VStatisticBound",
    "covariance_spectrum",
    "dependence_law",
    "landmarks_for_exponential_decay",
    "landmarks_for_polynomial_decay",
    "least_landmarks",
    "mean_embedding_bound",
    "nystrom_m_bound",
    "nystrom_mmd_bound",
    "rff_hsic_bound",
    "v_statistic_bound",
]

Vector = NDArray[np.float64]

_SMALLEST_DELTA = 1e-200  # divided by landmarks it is still a normal number
# Chatalic et al. (2022), theorem 4.1; Kalinke and Szabo (2023), proposition 4.1.
_LEAST = 67.0


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

    eigenvalues: Vector
    supremum: float

    def __post_init__(self) -> None:
        # The largest first, which is the norm.
        values = np.sort(np.asarray(self.eigenvalues, np.float64))[::-1]
        if values.ndim != 1 or not len(values) or values[0] <= 0 or not values[-1] >= 0:
            msg = "eigenvalues must be an array (r,) of numbers >= 0, one of them above 0"
            raise InvalidArgumentError(msg)
        _check_positive("supremum", self.supremum)
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
        above = _check_positive("ridge", ridge, "as 0.01")
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
    gram = hadamard(_grams_of_pilot(pilot, kernels))
    # K of the bounds is sup sqrt(k(x, x)); a pilot sees it where k(x, x) is constant.
    supremum = float(np.sqrt(gram.diagonal().max()))
    # Eigenvalues of a Gram matrix over n are those of the covariance operator of the sample;
    # rounding may leave some below 0.
    return CovarianceSpectrum(spectrum(gram).clip(min=0.0) / len(gram), supremum)


@dataclass(frozen=True, repr=False)
class DependenceLaw(BarResult):
    """The law of estimates of squared HSIC of two variables, normal where they are dependent.

    The unbiased estimate of n rows has the mean `squared_hsic` and the variance sigma^2 / n +
    tau^2 / (n (n - 1)) + O(n^-3), by its Hoeffding decomposition [2]_; the mean over blocks of b
    rows has sigma^2 / n + tau^2 / (n (b - 1)). Where sigma^2 is above 0, n^1/2 times the error
    converges to the normal law of variance sigma^2 ([1]_, equation 12), and so does that of the
    V-statistic, whose difference from the unbiased estimate is O(1 / n). An estimate that is HSIC
    of approximate kernels has the law of these kernels.

    Parameters
    ----------
    squared_hsic : float
        The mean.
    variance : float
        sigma^2, that of [1]_, equation 13. It is 0 at independence.
    degenerate_variance : float
        tau^2, which is left at independence: there it is 2 E k^2 E l^2 of the centred kernels, the
        variance of [1]_, equations 17 and 18, and the law is normal for means over blocks alone.

    References
    ----------
    .. [1] Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic. Large-scale kernel methods for
       independence testing. Statistics and Computing 28, 2018, equations 12 and 13.
    .. [2] R. Serfling. Approximation theorems of mathematical statistics. Wiley, 1980, section
       5.2.1, lemma A.

    Examples
    --------
    >>> law = DependenceLaw(squared_hsic=0.02, variance=0.01, degenerate_variance=0.04)
    >>> round(law.standard_error(10_000), 5), round(law.quantile(0.975, 10_000), 5)
    (0.001, 0.02196)
    >>> round(law.standard_error(10_000, block_rows=5), 5)
    0.00141
    """

    _tabular: ClassVar[bool] = False

    squared_hsic: float
    variance: float
    degenerate_variance: float

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        return [(name.replace("_", " "), f"{value:.4g}") for name, value in asdict(self).items()]

    def records(self) -> list[dict[str, Any]]:
        """One row."""
        return [asdict(self)]

    def _bars(self) -> tuple[Sequence[str], Sequence[float], str]:
        errors = {f"{n:,} rows": self.standard_error(n) for n in (10**3, 10**4, 10**5, 10**6)}
        return list(errors), list(errors.values()), "standard errors"

    def standard_error(self, n: int, block_rows: int | None = None) -> float:
        """Standard deviation of the unbiased estimate of n rows.

        Parameters
        ----------
        n : int
            Rows, at least 4.
        block_rows : int, optional
            Rows b of a block, from 4 to n, for the mean over blocks; one of all n rows where not
            given.

        Returns
        -------
        float

        Raises
        ------
        InvalidArgumentError
            A number is not in its range.
        """
        # Song et al. (2012), equation 5: the unbiased estimate divides by n (n - 3).
        check_integer("n", n, minimum=4)
        b = n if block_rows is None else block_rows
        check_integer("block_rows", b, minimum=4, maximum=n)
        # Variance of a mean of n / b independent terms sigma^2 / b + tau^2 / (b (b - 1)).
        return math.sqrt(self.variance / n + self.degenerate_variance / (n * (b - 1.0)))

    def quantile(self, level: float, n: int, block_rows: int | None = None) -> float:
        """Quantile of the normal law of the unbiased estimate of n rows.

        Parameters
        ----------
        level : float
            Between 0 and 1.
        n, block_rows
            As for `standard_error`.

        Returns
        -------
        float

        Raises
        ------
        InvalidArgumentError
            A number is not in its range.
        """
        check_number("level", level, "between 0 and 1", lambda x: 0.0 < x < 1.0, "as 0.95")
        # Zhang et al. (2018), equation 12.
        errors = float(scipy.special.ndtri(level))
        return self.squared_hsic + errors * self.standard_error(n, block_rows)


@named_arguments
def dependence_law(
    x: ArrayLike,
    y: ArrayLike,
    *,
    kernels: str | Kernel | Sequence[str | Kernel] = "gaussian",
) -> DependenceLaw:
    """Estimate the law of estimates of HSIC from a pilot sample.

    With the centred kernels k and l and g(x, y) = E k(x, X) l(y, Y), the mean of the kernel h of
    the U-statistic over all rows but one is (g + HSIC^2) / 2, so that sigma^2 = 16 Var E h
    ([1]_, equation 13) is 4 Var g(X, Y): no sum over four rows is left.

    Parameters
    ----------
    x, y : array-like, shape (s,) or (s, d)
        The same rows of both variables, 4 or more; a few thousand, drawn at random. Matrices
        (s, s) are held.
    kernels : str, Kernel or a sequence of two, optional
        As for `covariance_spectrum`.

    Returns
    -------
    DependenceLaw
        Its errors are of order s^-1/2. Estimates of sigma^2 below 0 become 0, so that at
        independence it is of order tau^2 / s in the mean: standard errors of as many rows as the
        pilot has, or more, are then too large.

    Raises
    ------
    DataError
        The rows do not align, are fewer than 4, or have NaN or infinity; or values of kernels are
        1e70 or more.
    InvalidArgumentError
        Two kernels are needed, or one for both variables.

    References
    ----------
    .. [1] Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic. Large-scale kernel methods for
       independence testing. Statistics and Computing 28, 2018, equations 12 and 13.

    Examples
    --------
    >>> import numpy as np
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 1000))
    >>> law = dependence_law(x, x + noise, kernels="gaussian:0.5")
    >>> round(law.squared_hsic, 3), round(law.standard_error(100_000), 5)
    (0.024, 0.0002)
    """
    grams = list(_grams_of_pilot((x, y), kernels))
    s = len(grams[0])
    # The fourth power of 1e70, summed over pairs of rows, is finite.
    if s < 4 or not all(np.abs(gram).max() < 1e70 for gram in grams):
        msg = f"a pilot needs 4 rows and kernels below 1e70, got {s} rows: add rows, or rescale"
        raise DataError(msg)
    # With a diagonal and row sums of 0 (Szekely and Rizzo 2014, definition 2).
    k, q = map(u_centred, grams)
    carried, products = k @ q / s, k * q
    # g of every row; the mean is the unbiased estimate (Szekely and Rizzo 2014, proposition 1).
    slopes = products.sum(axis=1) / (s - 3.0)
    hsic = float(slopes.mean())
    # The part of h of two rows i, j that no single row explains is (k l - g_i - g_j + HSIC^2 -
    # c_ij - c_ji) / 6, c_ij = E k(x_i, X) l(Y, y_j); its variance enters 72 / (n (n - 1)) times.
    rest = products - slopes[:, None] - slopes + hsic - carried - carried.T
    np.fill_diagonal(rest, 0.0)
    degenerate = 2.0 * float(np.square(rest).sum()) / (s * (s - 1.0))
    # Estimates of g vary by more than g does: twice the second term of the variance of s rows.
    variance = 4.0 * float(slopes.var(ddof=1)) - 2.0 * degenerate / s
    return DependenceLaw(hsic, max(0.0, variance), degenerate)


@dataclass(frozen=True, repr=False)
class EmbeddingBound(BarResult):
    """A bound on |mu - mu_p|, term by term.

    Parameters
    ----------
    rows : float
        c_1 / sqrt(n), which all n rows would leave.
    landmarks : float
        c_2 / p.
    dimension : float
        c_3 sqrt(log(p / delta) N(lambda)) / p, at lambda = 12 K^2 log(p / delta) / p.

    References
    ----------
    .. [1] A. Chatalic, N. Schreuder, A. Rudi, L. Rosasco. Nystrom kernel mean embeddings. ICML
       2022, theorem 4.1.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.analysis import CovarianceSpectrum, mean_embedding_bound
    >>> spectrum = CovarianceSpectrum(np.array([0.6, 0.3, 0.1]), supremum=1.0)
    >>> bound = mean_embedding_bound(10**6, 10**4, 0.1, spectrum)
    >>> bound.rows + bound.landmarks + bound.dimension == bound.total
    True
    """

    _tabular: ClassVar[bool] = False

    rows: float
    landmarks: float
    dimension: float

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        terms = [(f"by the {name}", f"{value:.4g}") for name, value in asdict(self).items()]
        return [("bound", f"{self.total:.4g}"), *terms]

    def records(self) -> list[dict[str, Any]]:
        """One row."""
        return [{**asdict(self), "total": self.total}]

    def _bars(self) -> tuple[Sequence[str], Sequence[float], str]:
        return list(asdict(self)), list(asdict(self).values()), "terms of the bound"

    @property
    def total(self) -> float:
        """The bound."""
        return self.rows + self.landmarks + self.dimension


class _EmbeddingBounds(BarResult):
    """What bounds by those of several embeddings have in common."""

    def _parts(self) -> dict[str, EmbeddingBound]:
        raise NotImplementedError

    def records(self) -> list[dict[str, Any]]:
        """The terms of every embedding."""
        return [{"embedding": name, **b.records()[0]} for name, b in self._parts().items()]

    def _bars(self) -> tuple[Sequence[str], Sequence[float], str]:
        parts = self._parts()
        return list(parts), [bound.total for bound in parts.values()], "bounds of the embeddings"


@dataclass(frozen=True, repr=False)
class HSICBound(_EmbeddingBounds):
    """A bound on the error of HSIC (not squared), part by part.

    Parameters
    ----------
    joint : EmbeddingBound
        Bound of the joint embedding.
    marginals : tuple of EmbeddingBound
        Bounds of those of the M variables.
    suprema : tuple of float
        a_m, the bounds of sqrt(k_m(x, x)).

    References
    ----------
    .. [1] F. Kalinke, Z. Szabo. Nystrom M-Hilbert-Schmidt independence criterion. UAI 2023,
       proposition 4.1.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.analysis import CovarianceSpectrum, nystrom_m_bound
    >>> one = CovarianceSpectrum(np.array([0.6, 0.3, 0.1]), supremum=1.0)
    >>> bound = nystrom_m_bound(10**6, 10**4, 0.1, one, [one, one])
    >>> len(bound.marginals), bound.total > bound.joint.total
    (2, True)
    """

    joint: EmbeddingBound
    marginals: tuple[EmbeddingBound, ...]
    suprema: tuple[float, ...]

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        return [("bound", f"{self.total:.4g} of HSIC, of {len(self.marginals)} variables")]

    def _parts(self) -> dict[str, EmbeddingBound]:
        return {"joint": self.joint} | {f"variable {m}": b for m, b in enumerate(self.marginals, 1)}

    @property
    def total(self) -> float:
        """The bound."""
        # Kalinke and Szabo (2023), lemma 4.3: prod_m (a_m + d_m) - prod_m a_m, how errors of the
        # marginal embeddings grow in their tensor product.
        grown = (a + bound.total for a, bound in zip(self.suprema, self.marginals, strict=True))
        return self.joint.total + math.prod(grown) - math.prod(self.suprema)


@dataclass(frozen=True, repr=False)
class MMDBound(_EmbeddingBounds):
    """A bound on the error of the maximum mean discrepancy (not squared) of two samples.

    Parameters
    ----------
    first, second : EmbeddingBound
        Bounds of the embeddings of the samples.

    References
    ----------
    .. [1] A. Chatalic, N. Schreuder, A. Rudi, L. Rosasco. Nystrom kernel mean embeddings. ICML
       2022, theorem 5.1.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.analysis import CovarianceSpectrum, nystrom_mmd_bound
    >>> one = CovarianceSpectrum(np.array([0.6, 0.3, 0.1]), supremum=1.0)
    >>> bound = nystrom_mmd_bound((10**6, 10**5), (10**4, 10**4), 0.05, (one, one))
    >>> bound.second.rows > bound.first.rows, bound.total == bound.first.total + bound.second.total
    (True, True)
    """

    first: EmbeddingBound
    second: EmbeddingBound

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        return [("bound", f"{self.total:.4g} of MMD")]

    def _parts(self) -> dict[str, EmbeddingBound]:
        return {"first sample": self.first, "second sample": self.second}

    @property
    def total(self) -> float:
        """The bound."""
        # Chatalic et al. (2022), proof of theorem D.1: |MMD - MMD'| <= sum_k |mu_k - P_k mu'_k|.
        return self.first.total + self.second.total


@dataclass(frozen=True, repr=False)
class VStatisticBound(BarResult):
    """A bound on the error of the V-statistic of squared HSIC, term by term.

    Parameters
    ----------
    joint, product, cross : float
        Of the mean of the product kernel over pairs of rows, over pairs of independent copies, and
        of twice that over a row and an independent copy: A, B and 2 C of [1]_, lemma A.4.
    hsic : float
        HSIC of the law (not squared).

    References
    ----------
    .. [1] F. Kalinke, Z. Szabo. Nystrom M-Hilbert-Schmidt independence criterion. UAI 2023,
       lemma 4.4.

    Examples
    --------
    >>> from dhsic.analysis import v_statistic_bound
    >>> bound = v_statistic_bound(10**6, 0.1, hsic=0.2)
    >>> bound.total == bound.squared / 0.2
    True
    """

    _tabular: ClassVar[bool] = False

    joint: float
    product: float
    cross: float
    hsic: float

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        return [("bound", f"{self.total:.4g} of HSIC"), ("squared", f"{self.squared:.4g}")]

    def records(self) -> list[dict[str, Any]]:
        """One row."""
        return [{**asdict(self), "squared": self.squared, "total": self.total}]

    def _bars(self) -> tuple[Sequence[str], Sequence[float], str]:
        return ["joint", "product", "cross"], [self.joint, self.product, self.cross], "terms"

    @property
    def squared(self) -> float:
        """The bound on the error of squared HSIC, which needs no dependence."""
        return self.joint + self.product + self.cross

    @property
    def total(self) -> float:
        """The bound on the error of HSIC."""
        # Kalinke and Szabo (2023), end of A.2.5: |V - HSIC| HSIC <= |V^2 - HSIC^2|.
        return self.squared / self.hsic


@named_arguments
def least_landmarks(delta: float, *spectra: CovarianceSpectrum) -> int:
    """Compute the fewest landmarks for which the bounds are stated.

    The least p from which p >= c log(p / delta), where c is the largest of 67 and 12 K^2 / |C|:
    -c W(-delta / c), on the lower branch of the Lambert W function.

    Parameters
    ----------
    delta : float
        Between 0 and 1.
    *spectra : CovarianceSpectrum
        That of the kernel [1]_; or those of the product kernel and of the kernels of all
        variables [2]_.

    Returns
    -------
    int

    Raises
    ------
    InvalidArgumentError
        `delta` is not between 0 and 1, or a spectrum is no `CovarianceSpectrum`.

    References
    ----------
    .. [1] A. Chatalic, N. Schreuder, A. Rudi, L. Rosasco. Nystrom kernel mean embeddings. ICML
       2022, theorem 4.1.
    .. [2] F. Kalinke, Z. Szabo. Nystrom M-Hilbert-Schmidt independence criterion. UAI 2023,
       proposition 4.1.

    Examples
    --------
    >>> import numpy as np
    >>> least_landmarks(0.1, CovarianceSpectrum(np.array([0.6, 0.3]), 1.0))
    581
    """
    _check_delta(delta, 1.0)
    others = [spectrum for spectrum in spectra if not isinstance(spectrum, CovarianceSpectrum)]
    if others:
        msg = (
            f"a spectrum must be a CovarianceSpectrum, got {shown(others[0])}: make one of a pilot"
        )
        raise InvalidArgumentError(msg)
    # Chatalic et al. (2022), theorem 4.1: m >= max(67, 12 K^2 / |C|) log(m / delta).
    c = max(_LEAST, *(12.0 * spectrum.supremum**2 / spectrum.norm for spectrum in spectra))
    return math.ceil(-c * float(scipy.special.lambertw(-delta / c, k=-1).real))


@named_arguments
def mean_embedding_bound(
    n: int, p: int, delta: float, spectrum: CovarianceSpectrum
) -> EmbeddingBound:
    """Bound the error of a mean embedding by p landmarks, with probability 1 - delta or more.

    For n independent rows, landmarks drawn from them with replacement, and weights as in
    equation 5 of [1]_. The constants are those of its proof and of [2]_, theorem A.1; theorem 5.1
    of [1]_ has a smaller c_3, which the proof does not give.

    Parameters
    ----------
    n, p : int
        Rows and landmarks, p at most n.
    delta : float
        Between 0 and 1.
    spectrum : CovarianceSpectrum
        Spectrum of the kernel.

    Returns
    -------
    EmbeddingBound

    Raises
    ------
    InvalidArgumentError
        There are fewer landmarks than `least_landmarks`, or more than rows.

    References
    ----------
    .. [1] A. Chatalic, N. Schreuder, A. Rudi, L. Rosasco. Nystrom kernel mean embeddings. ICML
       2022, theorem 4.1.
    .. [2] F. Kalinke, Z. Szabo. Nystrom M-Hilbert-Schmidt independence criterion. UAI 2023.

    Examples
    --------
    >>> import numpy as np
    >>> known = CovarianceSpectrum(np.array([0.6, 0.3, 0.1]), supremum=1.0)
    >>> round(mean_embedding_bound(10**6, 1000, 0.1, known).total, 4)
    0.2365
    """
    _check_counts(n, p, delta, (spectrum,))
    k, noise = spectrum.supremum, math.log(p / delta) / p
    # Kalinke and Szabo (2023), theorem A.1: c_1 / sqrt(n) + c_2 / p + c_3 sqrt(log(p / delta)
    # N(lambda)) / p, at lambda = 12 K^2 log(p / delta) / p.
    confidence = math.log(12.0 / delta)
    dimension = spectrum.effective_dimension(12.0 * k**2 * noise)
    return EmbeddingBound(
        rows=2.0 * k * math.sqrt(2.0 * math.log(6.0 / delta) / n),
        landmarks=4.0 * math.sqrt(3.0) * k * confidence / p,
        dimension=12.0 * k * math.sqrt(3.0 * confidence * noise * dimension / p),
    )


@named_arguments
def nystrom_m_bound(
    n: int,
    p: int,
    delta: float,
    joint: CovarianceSpectrum,
    marginals: Sequence[CovarianceSpectrum],
) -> HSICBound:
    """Bound the error of Nystrom M-HSIC, with probability 1 - (M + 1) delta or more.

    For the root of the estimate of `NystromMHSIC` with joint landmarks drawn with replacement.

    Parameters
    ----------
    n, p : int
        Rows and landmarks, p at most n.
    delta : float
        Between 0 and 1 / (M + 1).
    joint : CovarianceSpectrum
        Spectrum of the product kernel.
    marginals : sequence of CovarianceSpectrum
        Spectra of the kernels of the M variables, two or more.

    Returns
    -------
    HSICBound

    Raises
    ------
    InvalidArgumentError
        There are fewer landmarks than `least_landmarks`, or more than rows.

    References
    ----------
    .. [1] F. Kalinke, Z. Szabo. Nystrom M-Hilbert-Schmidt independence criterion. UAI 2023,
       proposition 4.1.

    Examples
    --------
    >>> import numpy as np
    >>> one = CovarianceSpectrum(np.array([0.6, 0.3, 0.1]), supremum=1.0)
    >>> both = CovarianceSpectrum(np.kron(one.eigenvalues, one.eigenvalues), supremum=1.0)
    >>> round(nystrom_m_bound(10**6, 10**5, 0.03, both, (one, one)).total, 4)
    0.0335
    """
    if not isinstance(marginals, Sequence) or len(marginals) < 2:
        msg = f"HSIC needs the spectra of two variables or more, got {shown(marginals)}"
        raise InvalidArgumentError(msg)
    # Each of the M + 1 bounds may fail with probability delta.
    _check_delta(delta, 1.0 / (len(marginals) + 1))
    _check_counts(n, p, delta, (joint, *marginals))
    suprema = tuple(spectrum.supremum for spectrum in marginals)
    # sup sqrt(k) of a product of kernels is at most the product of theirs.
    whole = replace(joint, supremum=math.prod(suprema))
    bounds = [mean_embedding_bound(n, p, delta, spectrum) for spectrum in (whole, *marginals)]
    return HSICBound(bounds[0], tuple(bounds[1:]), suprema)


@named_arguments
def nystrom_mmd_bound(
    n: Sequence[int], p: Sequence[int], delta: float, spectra: Sequence[CovarianceSpectrum]
) -> MMDBound:
    """Bound the error of `mmd` of two Nystrom embeddings, with probability 1 - 2 delta or more.

    For samples that are independent, each embedded on landmarks drawn from it with replacement. The
    constants are those of `mean_embedding_bound`. The statement of [1]_ has c_3 =
    6 K sqrt(log(12 / delta)); its proof, lemma D.1 at lambda = 12 K^2 log(p / delta) / p, gives
    sqrt(12) times as much, as theorem 4.1 has it, and this is taken.

    Parameters
    ----------
    n, p : sequence of int, of length 2
        Rows and landmarks of either sample, landmarks at most as many as rows.
    delta : float
        Between 0 and 1/2.
    spectra : sequence of CovarianceSpectrum, of length 2
        Spectra of the kernel under the law of either sample.

    Returns
    -------
    MMDBound

    Raises
    ------
    InvalidArgumentError
        There are not two of each, or fewer landmarks than `least_landmarks`, or more than rows.

    References
    ----------
    .. [1] A. Chatalic, N. Schreuder, A. Rudi, L. Rosasco. Nystrom kernel mean embeddings. ICML
       2022, theorem 5.1.

    Examples
    --------
    >>> import numpy as np
    >>> one = CovarianceSpectrum(np.array([0.6, 0.3, 0.1]), supremum=1.0)
    >>> round(nystrom_mmd_bound((10**6, 10**6), (1000, 1000), 0.1, (one, one)).total, 4)
    0.473
    """
    for name, pair in (("n", n), ("p", p), ("spectra", spectra)):
        if not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
            msg = f"{name} must be a pair, one of each sample, got {shown(pair)}: as (a, b)"
            raise InvalidArgumentError(msg)
    # Each of the bounds may fail with probability delta.
    _check_delta(delta, 0.5)
    return MMDBound(*map(mean_embedding_bound, n, p, (delta, delta), spectra))


@named_arguments
def v_statistic_bound(
    n: int, delta: float, hsic: float, *, n_variables: int = 2, spread: float = 1.0
) -> VStatisticBound:
    """Bound the error of the V-statistic of HSIC, with probability 1 - delta or more.

    Lemma 4.4 of [1]_ is of order n^-1/2 without constants. Here its proof is done with them: each
    of the U-statistics A, B and C, of 2, 2 M and M + 1 rows, is off by more than Hoeffding's bound
    [2]_ with probability delta / 3, and the V-statistic is off from the U-statistic by at most the
    share of tuples that have a row twice, for which the proof has Markov's inequality and a
    constant C that it does not give.

    Parameters
    ----------
    n : int
        Rows, at least 2 M.
    delta : float
        Between 0 and 1.
    hsic : float
        HSIC of the law (not squared), greater than 0: at independence the error of HSIC is of
        another order. The bound with the smallest HSIC that matters holds of all larger ones.
    n_variables : int, optional
        M, at least 2.
    spread : float, optional
        b - a where the product of the kernels is between a and b; 1 of Gaussian kernels.

    Returns
    -------
    VStatisticBound

    Raises
    ------
    InvalidArgumentError
        A number is not in its range.

    References
    ----------
    .. [1] F. Kalinke, Z. Szabo. Nystrom M-Hilbert-Schmidt independence criterion. UAI 2023,
       lemma 4.4, proofs in A.2.4 and A.2.5.
    .. [2] R. Serfling. Approximation theorems of mathematical statistics. Wiley, 1980, section
       5.6, theorem A.

    Examples
    --------
    >>> bound = v_statistic_bound(10**6, 0.1, hsic=0.2)
    >>> round(bound.squared, 4), round(bound.total, 3)
    (0.0099, 0.049)
    """
    check_integer("n_variables", n_variables, minimum=2)
    check_integer("n", n, minimum=2 * n_variables)
    _check_delta(delta, 1.0)
    for name, value in (("hsic", hsic), ("spread", spread)):
        check_number(name, value, "from 1e-99 to 1e99", lambda x: 1e-99 <= x <= 1e99, "as 1.0")

    def off(order: int) -> float:
        # Kalinke and Szabo (2023), theorem A.2: 2 exp(-2 [n / order] u^2 / (b - a)^2) = delta / 3.
        sampling = math.sqrt(math.log(6.0 / delta) / (2.0 * (n // order)))
        # V = s U + (1 - s) W, s the share of tuples of distinct rows and W from a to b.
        repeated = 1.0 - math.prod(1.0 - place / n for place in range(order))
        return spread * (sampling + repeated)

    return VStatisticBound(off(2), off(2 * n_variables), 2.0 * off(n_variables + 1), hsic)


@named_arguments
def rff_hsic_bound(n: int, n_features: int) -> float:
    """Bound the mean error of the product of two Gram matrices by random Fourier features.

    E |K'_x K'_y - K_x K_y| / n^2 in the operator norm, for centred Gram matrices of
    translation-invariant kernels with k(x, x) = 1 and D features of either, is at most
    2 sqrt(3 log(n) / D) + 4 log(n) / D. Equation 12 of [1]_ states one half of it, by a proof that
    takes the D summands K'_x K'_y^(i) as independent, while all have the factor K'_x. The value
    here is proved by |K'_x K'_y - K_x K_y| <= n |K'_y - K_y| + n |K'_x - K_x|, and a matrix
    Bernstein inequality for each [2]_ [3]_.

    Parameters
    ----------
    n : int
        Rows, at least 4.
    n_features : int
        D, the frequencies of a variable; the fewer of both.

    Returns
    -------
    float
        Both products have norms of at most 1, so that a bound of 2 or more says nothing. It bounds
        the error of HSIC by n times itself, as a trace is at most n norms.

    Raises
    ------
    InvalidArgumentError
        A number is not in its range.

    References
    ----------
    .. [1] A. Perez-Suay, G. Camps-Valls. Sensitivity maps of the Hilbert-Schmidt independence
       criterion. Applied Soft Computing 70, 2018, equation 12.
    .. [2] D. Lopez-Paz, S. Sra, A. Smola, Z. Ghahramani, B. Schoelkopf. Randomized nonlinear
       component analysis. ICML 2014, theorem 1.
    .. [3] J. Tropp. An introduction to matrix concentration inequalities. Foundations and Trends in
       Machine Learning 8, 2015, theorem 6.1.1.

    Examples
    --------
    >>> round(rff_hsic_bound(1000, 1000), 4)
    0.3155
    """
    check_integer("n", n, minimum=4)
    check_integer("n_features", n_features, minimum=1)
    # Perez-Suay and Camps-Valls (2018), equation 12, over n^2 and twice.
    return 2.0 * math.sqrt(3.0 * math.log(n) / n_features) + 4.0 * math.log(n) / n_features


@named_arguments
def landmarks_for_polynomial_decay(n: int, delta: float, gamma: float) -> int:
    """Count landmarks to keep the rate 1 / sqrt(n) if N(lambda) <= c lambda^-gamma.

    Chatalic et al. (2022), corollary 4.1: n^(1 / (2 - gamma)) log(n / delta), where eigenvalues
    decay as i^(-1 / gamma). For gamma = 1 it holds of any bounded kernel, and asks for more
    landmarks than rows.

    Parameters
    ----------
    n : int
        Rows.
    delta : float
        Between 0 and 1.
    gamma : float
        Greater than 0, at most 1.

    Returns
    -------
    int

    Raises
    ------
    InvalidArgumentError
        A number is not in its range.

    References
    ----------
    .. [1] A. Chatalic, N. Schreuder, A. Rudi, L. Rosasco. Nystrom kernel mean embeddings. ICML
       2022, corollary 4.1.

    Examples
    --------
    >>> landmarks_for_polynomial_decay(10**6, 0.1, gamma=0.5)
    161181
    """
    check_integer("n", n, minimum=1)
    _check_delta(delta, 1.0)
    check_number("gamma", gamma, "greater than 0 and at most 1", lambda x: 0.0 < x <= 1.0, "as 0.5")
    # Chatalic et al. (2022), corollary 4.1, for polynomial decay.
    return math.ceil(math.pow(n, 1.0 / (2.0 - gamma)) * math.log(n / delta))


@named_arguments
def landmarks_for_exponential_decay(
    n: int, delta: float, scale: float, *, supremum: float = 1.0
) -> int:
    """Count landmarks to keep the rate 1 / sqrt(n) if N(lambda) <= log(1 + c / lambda) / beta.

    Chatalic et al. (2022), corollary 4.1: sqrt(n) log(sqrt(n) max(1 / delta, c / (6 K^2))), where
    eigenvalues decay exponentially, as those of a Gaussian kernel do under light tails.

    Parameters
    ----------
    n : int
        Rows.
    delta : float
        Between 0 and 1.
    scale : float
        c, greater than 0.
    supremum : float, optional
        K.

    Returns
    -------
    int

    Raises
    ------
    InvalidArgumentError
        A number is not in its range.

    References
    ----------
    .. [1] A. Chatalic, N. Schreuder, A. Rudi, L. Rosasco. Nystrom kernel mean embeddings. ICML
       2022, corollary 4.1.

    Examples
    --------
    >>> landmarks_for_exponential_decay(10**6, 0.1, scale=1.0)
    9211
    """
    check_integer("n", n, minimum=1)
    _check_delta(delta, 1.0)
    _check_positive("scale", scale)
    _check_positive("supremum", supremum)
    root = math.sqrt(n)
    # Chatalic et al. (2022), corollary 4.1, for exponential decay.
    # Sums of logarithms, since the square of a small supremum is 0.
    largest = max(-math.log(delta), math.log(scale) - math.log(6.0) - 2.0 * math.log(supremum))
    return math.ceil(root * (math.log(root) + largest))


def _grams_of_pilot(
    pilot: Sequence[ArrayLike], kernels: str | Kernel | Sequence[str | Kernel]
) -> Iterator[NDArray[np.float64]]:
    """Gram matrices of the variables of a pilot sample, as `covariance_spectrum` takes it."""
    rows = [_matrix(x) for x in pilot]
    listed: Any = [kernels] * len(rows) if isinstance(kernels, str | Kernel) else kernels
    known = isinstance(listed, Sequence) and all(isinstance(k, str | Kernel) for k in listed)
    if not known or not rows or len(listed) != len(rows):
        msg = (
            "a pilot needs one variable or more, and one kernel or as many as variables, got "
            f"{len(rows)} variables and kernels {shown(kernels)}: as kernels='gaussian'"
        )
        raise InvalidArgumentError(msg)
    if len({len(x) for x in rows}) > 1 or len(rows[0]) < 2:
        counts = ", ".join(str(len(x)) for x in rows)
        msg = f"a pilot needs the same rows of every variable, two or more; got {counts} rows"
        raise DataError(msg)
    fitted = [
        (parse(k) if isinstance(k, str) else k).fit(x) for k, x in zip(listed, rows, strict=True)
    ]
    return (kernel(x) for kernel, x in zip(fitted, rows, strict=True))


def _matrix(values: ArrayLike) -> NDArray[np.float64]:
    """Rows of a variable; a vector is one column."""
    with suppress(ValueError):  # rows of several lengths are refused below
        values = np.reshape(values, (-1, 1)) if np.ndim(values) == 1 else values
    return check_numbers("variables of a pilot", values, None, None, error=DataError)


def _check_positive(name: str, value: float, remedy: str = "as 1.0") -> float:
    return check_number(name, value, "greater than 0", lambda x: 0.0 < x < math.inf, remedy)


def _check_delta(delta: float, below: float) -> None:
    check_number(
        "delta",
        delta,
        f"at least {_SMALLEST_DELTA:g} and less than {below:.3g}",
        lambda x: _SMALLEST_DELTA <= x < below,
        "as 0.01",
    )


def _check_counts(n: int, p: int, delta: float, spectra: Sequence[CovarianceSpectrum]) -> None:
    check_integer("n", n, minimum=1)
    check_integer("p", p, minimum=1)
    least = least_landmarks(delta, *spectra)
    if p < least or p > n:
        msg = (
            f"the bound is stated for {least} landmarks or more and no more than rows, got {p} "
            f"landmarks and {n} rows: take more of them, or a larger delta"
        )
        raise InvalidArgumentError(msg)
