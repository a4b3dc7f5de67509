"""The permutation null: the pairing is shuffled, the marginals stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator
from dhsic._validation import check_choice, check_integer

Within = Literal["auto", "all", "groups"]


@dataclass(frozen=True)
class Permutation:
    """Replicates by permuting the rows of every variable but the first.

    Parameters
    ----------
    n_resamples : int, optional
        Number of replicates.
    within : {"auto", "all", "groups"}, optional
        Permute over all rows, which must fit in memory; or within groups of rows that lie far apart
        in the data, which streams and is as exact. "auto" takes all rows where they fit and it
        takes no minute.
    group_rows : int, optional
        Rows of a group, about.

    Raises
    ------
    InvalidArgumentError
        `n_resamples` is no positive integer, `group_rows` is less than 2, or `within` is no such
        name.

    References
    ----------
    .. [1] J. Hemerik, J. Goeman. Exact testing with random permutations. TEST 27, 2018.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 500))
    >>> null = Permutation(999, within="groups", group_rows=100)
    >>> result = dhsic.independence_test(x, x**2 + noise, null=null, rng=0)
    >>> result.pvalue < 0.01
    True
    """

    n_resamples: int = 250
    within: Within = "auto"
    group_rows: int = 4096

    name: ClassVar[str] = "permutation"

    def __post_init__(self) -> None:
        check_integer("n_resamples", self.n_resamples, minimum=1)
        check_integer("group_rows", self.group_rows, minimum=2)
        check_choice("within", self.within, get_args(Within))


def draw_permutations(
    seed: int, start: int, rows: int, n_resamples: int, n_variables: int
) -> NDArray[np.intp]:
    """Independent permutations of a group of rows for every variable but the first.

    Parameters
    ----------
    seed : int
        The seed of the test.
    start : int
        First row of the group in the whole data set.
    rows : int
        Rows of the group.
    n_resamples, n_variables : int
        Replicates and variables.

    Returns
    -------
    ndarray of int, shape (n_resamples, n_variables - 1, rows)
        More replicates leave the first ones as they are.

    References
    ----------
    .. [1] N. Pfister, P. Buehlmann, B. Schoelkopf, J. Peters. Kernel-based tests for joint
       independence. Journal of the Royal Statistical Society B 80, 2018, section 3.

    Examples
    --------
    >>> draw_permutations(seed=0, start=0, rows=4, n_resamples=2, n_variables=3).shape
    (2, 2, 4)
    >>> sorted(draw_permutations(0, 0, 4, 1, 2)[0, 0].tolist())
    [0, 1, 2, 3]
    """
    # The key is the first row of the group, so that it draws the same in any task and on any
    # worker.
    rng = generator(seed, "permutation", start)
    order = np.broadcast_to(np.arange(rows), (n_resamples, n_variables - 1, rows))
    # Rows of a variable move as wholes: its columns permuted one by one would lose their own
    # dependence, and the null hypothesis would say more than independence.
    return rng.permuted(order, axis=-1)
