"""Normalised HSIC of Nystrom features: CKA and NOCCO."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import check_number
from dhsic.engine.session import Session
from dhsic.estimators.landmarks import OnLandmarks
from dhsic.kernels import Kernel
from dhsic.linalg import rounding_unit
from dhsic.statistics.moments import Covariances, feature_moments, moments_layout
from dhsic.statistics.sides import (
    Basis,
    Measure,
    Side,
    squared_frobenius_norms,
    whiten,
)

Vector = NDArray[np.float64]
Matrix = NDArray[np.floating[Any]]

_SHARE = 0.3
_LEAST_REGULARISATION = 1e-6  # less would whiten rounding


def _at_most_1(size: float) -> float:
    """CKA but for rounding."""
    return min(size, 1.0)


class _Normalised(OnLandmarks):
    """Nystrom features that a linear map of either variable normalises.

    The maps are made of sums over the rows of one variable, which no permutation changes. So they
    are held fixed in every null distribution, and permutations stay exact.
    """

    measured: ClassVar[bool] = True

    def root(self, covariance: Matrix, n: int) -> Vector:
        """Lower triangular R of the map R^-1 of features that have a covariance over n rows."""
        raise NotImplementedError

    def features(self, session: Session, kernels: Sequence[Kernel]) -> tuple[Basis, Covariances]:
        """With factors that normalise them as well."""
        basis, _ = super().features(session, kernels)
        # Covariances of either variable by itself, which no permutation changes.
        covariances = feature_moments(session, moments_layout(dict(enumerate(basis.sides))))
        session.step("normalise features")
        sides = tuple(
            self._normalised(side, covariances.of(m, m), session.n)
            for m, side in enumerate(basis.sides)
        )
        return replace(basis, sides=sides), covariances

    def _normalised(self, side: Side, covariance: Matrix, n: int) -> Side:
        """With the factor L R of features L^-1 phi, and their mean squared norm.

        Features that differ by rounding alone have no norm to divide by; they are divided by that
        of the kernel, which leaves rounding.
        """
        factor = side.factor
        assert factor is not None
        whitened = whiten(covariance[None], (factor, factor))[0]
        size = float(factor[0, 0]) ** 2  # the first pivot: the largest k(z, z)
        if np.trace(whitened) <= rounding_unit(side.map.dtype) ** 2 * size:
            return side._replace(factor=math.sqrt(size) * factor, known_spread=1.0)
        root = self.root(whitened, n)
        # The trace of R^-1 C R^-T, the mean squared norm of what is summed.
        spread = float(np.trace(whiten(whitened[None], (root, root))[0]))
        # The features become R^-1 L^-1 phi.
        return side._replace(factor=factor @ root, known_spread=spread)


@final
@dataclass(frozen=True)
class CKA(_Normalised):
    """Centred kernel alignment of two variables: HSIC between 0 and 1.

    With C_x, C_y and C_xy the covariances of the features of `NystromHSIC`, it is
    |C_xy|^2 / (|C_x| |C_y|) in Frobenius norms [1]_ [2]_, that is
    HSIC(x, y) / sqrt(HSIC(x, x) HSIC(y, y)): 0 under independence as the rows grow, and 1 where
    the features of one variable are those of the other but for rotation and scale. The landmarks
    of either variable are its own, so that of a variable with itself it reaches 1 as they grow.
    The test statistic is n times it.

    The divisor is made of either variable alone and is held fixed in every null distribution, so
    p-values are those of `NystromHSIC`; what is gained is an estimate that compares across pairs
    of variables. A variable whose features do not differ has CKA 0.

    Parameters
    ----------
    n_landmarks : int or str, optional
        Landmarks to draw for either variable: a number, or a multiple of sqrt(n) as "2sqrt".
    replace : bool, optional
        Draw landmarks with replacement.
    tolerance : float, optional
        As in `NystromHSIC`.

    References
    ----------
    .. [1] C. Cortes, M. Mohri, A. Rostamizadeh. Algorithms for learning kernels based on centered
       alignment. JMLR 13, 2012.
    .. [2] S. Kornblith, M. Norouzi, H. Lee, G. Hinton. Similarity of neural network
       representations revisited. ICML 2019.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 1000))
    >>> [round(dhsic.hsic(x, y, estimator="cka", rng=0).estimate, 2) for y in (2 * x, noise)]
    [1.0, 0.0]
    """

    n_landmarks: int | str = "2sqrt"
    replace: bool = False
    tolerance: float | None = None

    name: ClassVar[str] = "cka"
    measure: ClassVar[Measure] = Measure("CKA", squared_frobenius_norms, _at_most_1, adds=True)

    def root(self, covariance: Matrix, n: int) -> Vector:
        """sqrt(|C|) I."""
        del n
        # |C_xy|^2 / (|C_x| |C_y|) divides the features of either side by sqrt(|C|).
        return math.sqrt(float(np.linalg.norm(covariance))) * np.eye(len(covariance))


@final
@dataclass(frozen=True)
class NOCCO(_Normalised):
    """Squared norm of the normalised cross-covariance operator of two variables.

    With C_x, C_y and C_xy the covariances of the features of `NystromHSIC`, it is
    |(C_x + e_x I)^-1/2 C_xy (C_y + e_y I)^-1/2|^2 in the Frobenius norm [1]_: the sum of the
    squared canonical correlations of the features, those of little variance damped. HSIC weighs
    dependence by the variance that the kernels give it, which is small for functions that change
    fast; NOCCO weighs all well above e alike. So it finds such dependence with fewer rows, and
    needs more for the linear kind. The test statistic is n times it.

    C_x and C_y are made of either variable alone and are held fixed in every null distribution.
    The spectral null does not stand with it: where directions of little variance count as much as
    others, the limit is reached too late. The gamma null has the mean and the variance over all
    permutations; below 0.01, and the more so the smaller e, its p-values claim too much evidence,
    and permutations alone are exact.

    Parameters
    ----------
    n_landmarks : int or str, optional
        Landmarks to draw for either variable: a number, or a multiple of sqrt(n) as "2sqrt".
    replace : bool, optional
        Draw landmarks with replacement.
    tolerance : float, optional
        As in `NystromHSIC`.
    regularisation : float, optional
        e_m as a share of the largest eigenvalue of C_m, so that units and the scale of the kernel
        change nothing. Small shares find dependence of faster functions, large ones tend to the
        p-values of `NystromHSIC`. The default is 0.3 n^(-1/4): for e that tends to 0 while e^3 n
        grows without bound the estimate converges [1]_, and 0.08 at 200 rows or 0.05 at 1,000 costs
        some power for slow functions and gains much for faster ones.

    Raises
    ------
    InvalidArgumentError
        A number of landmarks or a tolerance that cannot be, or a regularisation that is too small.

    References
    ----------
    .. [1] K. Fukumizu, A. Gretton, X. Sun, B. Schoelkopf. Kernel measures of conditional
       dependence. NIPS 20, 2008.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 1000))
    >>> y = np.sin(4 * x) + noise
    >>> dhsic.independence_test(x, y, estimator=NOCCO(), rng=0).pvalue < 0.01
    True
    """

    n_landmarks: int | str = "2sqrt"
    replace: bool = False
    tolerance: float | None = None
    regularisation: float | None = None

    name: ClassVar[str] = "nocco"
    measure: ClassVar[Measure] = Measure("NOCCO", squared_frobenius_norms, adds=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.regularisation is not None:
            check_number(
                "regularisation",
                self.regularisation,
                f"a finite number of at least {_LEAST_REGULARISATION}",
                lambda share: _LEAST_REGULARISATION <= share < math.inf,
                "leave it out for 0.3 n^(-1/4)",
            )

    def root(self, covariance: Matrix, n: int) -> Vector:
        """R of R R' = C + e I, where rounding may have made small eigenvalues of C negative."""
        share = _SHARE * n**-0.25 if self.regularisation is None else self.regularisation
        values, vectors = np.linalg.eigh(covariance)
        # e is a share of the largest eigenvalue, so that units of the kernel do not count.
        scales = np.sqrt(np.maximum(values, 0.0) + share * values[-1])
        # QR makes a triangular root of V diag(scales), with the same R R'.
        lower: Vector = np.linalg.qr((vectors * scales).T).R.T
        return lower
