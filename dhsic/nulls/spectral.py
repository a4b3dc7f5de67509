"""The spectral null: the mixture of chi-squares that the statistic follows in the limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from dhsic._random import generator
from dhsic._validation import check_choice, check_integer
from dhsic.nulls.distributions import Distribution, Replicates
from dhsic.nulls.mixture import ChiSquareMixture

MixtureMethod = Literal["inversion", "simulation"]


@dataclass(frozen=True)
class Spectral:
    """The law of a weighted sum of squared normals, with eigenvalues as weights: an approximation.

    The limit of the statistic under the null as n grows. At a few hundred rows its far tail is
    somewhat heavier than that of permutations.

    It fails where values are rare, kernels narrow or tails heavy, and the limit is far away. At
    landmarks, for rows with weights, and for three variables at shared frequencies, it is made of
    the rows as they are paired: at level 5 % and 1,000 rows 66 % of pairs of 2 % dummies are
    rejected. There it also rejects too rarely, or never, where kernels vary in far more directions
    than there are rows. Elsewhere it is made of the marginals: where
    fewer than 4 rows show how the variables vary together it rejects up to 11 %, and 6 % at level
    1 %; by features in more than n^2 / 50 directions, 30 to 40 %. `dhsic.ApproximateNullWarning`
    tells of all this. `Shifts` and `Permutation` are exact.

    Parameters
    ----------
    method : {"inversion", "simulation"}, optional
        Compute the tail of the mixture, accurately however far out; or count draws from it.
    n_resamples : int, optional
        Draws, for "simulation" alone.

    Raises
    ------
    InvalidArgumentError
        `method` is no such name, or `n_resamples` is no positive integer.

    References
    ----------
    .. [1] Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic. Large-scale kernel methods for
       independence testing. Statistics and Computing 28, 2018, theorem 1.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 500))
    >>> null = Spectral()
    >>> result = dhsic.independence_test(x, x**2 + noise, estimator="v-hsic", null=null, rng=0)
    >>> result.pvalue < 0.01
    True
    """

    method: MixtureMethod = "inversion"
    n_resamples: int = 10_000

    name: ClassVar[str] = "spectral"

    def __post_init__(self) -> None:
        check_choice("method", self.method, get_args(MixtureMethod))
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
        # Zhang et al. (2018), section 2.4.2, simulate the law; inversion has no Monte Carlo error.
        return Replicates(mixture.draws(generator(seed, "simulation"), self.n_resamples))
