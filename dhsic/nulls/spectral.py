"""The spectral null: the mixture of chi-squares that the statistic follows in the limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from dhsic._random import generator
from dhsic._validation import check_choice, check_integer
from dhsic.nulls.distributions import Distribution, Replicates
from dhsic.nulls.mixture import ChiSquareMixture

__all__ = ["Method", "Spectral"]

Method = Literal["inversion", "simulation"]


@dataclass(frozen=True)
class Spectral:
    """The weighted sum of squared normals whose weights are the eigenvalues of a covariance.

    The limit of the statistic under the null as n grows. At a few hundred rows its far tail is
    somewhat heavier than that of permutations. Where tails are heavy or a category is rare the
    limit is far away, and permutations alone are exact.

    Parameters
    ----------
    method : {"inversion", "simulation"}, optional
        Compute the tail of the mixture, accurately however far out; or count draws from it.
    n_resamples : int, optional
        Draws, for "simulation" alone.

    References
    ----------
    .. [1] Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic. Large-scale kernel methods for
       independence testing. Statistics and Computing 28, 2018, theorem 1.

    Examples
    --------
    >>> Spectral()
    Spectral(method='inversion', n_resamples=10000)
    """

    method: Method = "inversion"
    n_resamples: int = 10_000

    name: ClassVar[str] = "spectral"

    def __post_init__(self) -> None:
        check_choice("method", self.method, get_args(Method))
        check_integer("n_resamples", self.n_resamples, minimum=1)

    def distribution(self, mixture: ChiSquareMixture, seed: int) -> Distribution:
        """The mixture itself, or draws from it.

        Parameters
        ----------
        mixture : ChiSquareMixture
            The limit of the statistic.
        seed : int
            The seed of the test.

        Returns
        -------
        Distribution
        """
        if self.method == "inversion":
            return mixture
        return Replicates(mixture.draws(generator(seed, "simulation"), self.n_resamples))
