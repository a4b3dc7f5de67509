"""Summaries in results: variables, landmarks, features, kernels and passes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

from dhsic.results.texts import is_least, kernel_text, scale_text

_KERNEL_WIDTH = 66


@dataclass(frozen=True)
class VariableSummary:
    """One variable of a test.

    Parameters
    ----------
    name : str
        Its name.
    columns : int
        Its dimension.
    kernel : str
        Its kernel with the bandwidth used, as `dhsic.kernels.parse` reads it.
    column_names : tuple of str or None
        The names of its columns, of several that have names.
    """

    name: str
    columns: int
    kernel: str
    column_names: tuple[str, ...] | None = None

    @property
    def told(self) -> str:
        """The variable with its columns and its kernel, in a line."""
        kernel = kernel_text(self.kernel)
        if len(kernel) > _KERNEL_WIDTH:
            kernel = f"{kernel[:_KERNEL_WIDTH]}..."
        columns = f"{self.columns:,} column{'' if self.columns == 1 else 's'}"
        return f"{self.name} ({columns}, {kernel})"


@dataclass(frozen=True)
class LandmarkSummary:
    """The landmarks of an estimate.

    Parameters
    ----------
    drawn : int
        Landmark tuples before pruning.
    kept : int or tuple of int
        The rank kept: tuples that span the others; one a variable where each has landmarks of its
        own.
    pairing : str
        "independent" or "joint".
    replace : bool
        Whether they were drawn with replacement.
    tolerance : float
        Relative squared distance to the span below which a tuple is dropped.
    jitter : float
        Constant added to the diagonal of the Gram matrix: pivoting needs none.
    selection : str
        How they were chosen from a pool.
    pool : int or None
        Rows of the pool; None where they were drawn uniformly.
    choice : str
        Why so many, where their number was not given.
    """

    drawn: int
    kept: int | tuple[int, ...]
    pairing: str
    replace: bool
    tolerance: float
    jitter: float = 0.0
    selection: str = "uniform"
    pool: int | None = None
    choice: str = ""


@dataclass(frozen=True)
class FeatureSummary:
    """The features of an estimate.

    Parameters
    ----------
    kind : str
        Kind of the features, as "cos-sin".
    counts : tuple of int
        Features of each variable.
    orthogonal : bool
        Whether their frequencies are orthogonal.
    """

    kind: str
    counts: tuple[int, ...]
    orthogonal: bool = False


@dataclass(frozen=True)
class KernelCombination:
    """Result of one combination of kernels by itself; exploratory, as it ignores the others.

    Parameters
    ----------
    kernels : tuple of str
        One a variable, with the bandwidths used; of a stage of a chain, that of the variables
        before it and its own.
    statistic : float
        The test statistic.
    standardised : float
        Its distance from the mean of its replicates, in their standard deviations.
    pvalue : float
        Its p-value, which takes no notice of the choice among combinations.
    factors : tuple of float or None
        Multiple of the length of each kernel: that of the median heuristic, where its
        bandwidth was not given. None of a kernel without a length, as "delta".
    """

    kernels: tuple[str, ...]
    statistic: float
    standardised: float
    pvalue: float
    factors: tuple[float | None, ...] = ()

    @property
    def scales(self) -> tuple[str, ...]:
        """One a variable: what the kernel is of, and its length beside that which was fitted.

        Examples
        --------
        >>> kernels = ("scores(gaussian:1.07)", "gaussian:6.8", "delta")
        >>> KernelCombination(kernels, 1.0, 2.0, 0.01, (1.0, 0.5, None)).scales
        ('scores(gaussian), length x 1', 'gaussian, length x 1/2', 'delta')
        """
        factors = self.factors or (None,) * len(self.kernels)
        return tuple(map(scale_text, self.kernels, factors))


@dataclass(frozen=True)
class GridSummary:
    """The combinations of kernels that a test tried.

    The p-value of the test accounts for all of them; what is said of a single one is exploratory.

    Parameters
    ----------
    aggregate : str
        "soft" maximum of the standardised statistics, "max" for the largest of them, or "min-p" for
        the smallest of their p-values.
    reference_share : float
        Share of the weight with "soft", else of the level, that the reference combination has to
        itself, or those that lead in its place, see `dhsic.Grid`.
    reference : int
        The number of the combination nearest to the median heuristic, whose estimate is reported.
    strongest : int
        The number of the combination that decided: that with the largest share of the evidence.
    combinations : tuple of KernelCombination
        All of them.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 200))
    >>> grid = dhsic.independence_test(x, np.sin(8.0 * x) + noise, rng=0).grid
    >>> grid.told
    'ranks(gaussian), length x 1/8 and ranks(anderson-darling), 12.0 sd above the null mean'
    """

    aggregate: str
    reference_share: float
    reference: int
    strongest: int
    combinations: tuple[KernelCombination, ...]

    @property
    def told(self) -> str:
        """The kernels that decided, with their lengths beside those of the median heuristic."""
        strongest = self.combinations[self.strongest]
        z = strongest.standardised
        distance = f"{abs(z):.1f} sd {'above' if z >= 0.0 else 'below'} the null mean"
        return f"{' and '.join(strongest.scales)}, {distance}"

    def plot(self, ax: Axes | None = None, *, names: Sequence[str] | None = None) -> Axes:
        """How far the statistic of every combination lies above its replicates.

        For two variables it is a map, a row a kernel of the first and a column one of the second,
        from long to short lengths; of more it has a bar a kernel of every variable, of the
        strongest combination with it. Combinations that were not tried are left blank.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure where not given.
        names : sequence of str, optional
            Names of the variables.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        MissingDependencyError
            matplotlib is not installed.
        """
        from dhsic.results.picture import draw_evidence  # with NumPy alone, but for its axes

        return draw_evidence(ax, self, names)

    @property
    def judged(self) -> str:
        """How they became one score."""
        return {
            "soft": "their soft maximum",
            "max": "the largest standardised statistic",
            "min-p": "the smallest p-value",
        }[self.aggregate]

    @property
    def best_rank(self) -> int:
        """The smallest numerator of a p-value, where the strongest alone lies above all replicates.

        It is 1 but where ranks are weighed by shares of the level, see `dhsic.nulls.aggregate`:
        rank k of a replicate by the others is as good as rank 1 by the share of the strongest where
        (k - 1/2) / (1 - share) <= 1 / (2 share).
        """
        if self.aggregate == "soft" or not 0.0 < self.reference_share < 1.0:
            return 1
        reference = self.strongest == self.reference
        share = self.reference_share if reference else 1.0 - self.reference_share
        return 1 + math.floor(0.5 + 0.5 * (1.0 - share) / share)


@dataclass(frozen=True)
class StageSummary:
    """One stage of a chain: whether a variable depends on those before it.

    Parameters
    ----------
    variable : str
        Its name.
    others : tuple of str
        Those of the earlier ones that the strongest statistic has, all together or one.
    kernels : tuple of str
        The one of these, together, and its own, with the bandwidths used.
    statistic : float
        The strongest one.
    pvalue : float
        P-value of the stage, whatever the earlier ones say; it accounts for the choice of the
        statistic.
    """

    variable: str
    others: tuple[str, ...]
    kernels: tuple[str, ...]
    statistic: float
    pvalue: float

    def told(self, n_replicates: int) -> str:
        """The stage and its p-value, as a bound where it is the smallest that there can be."""
        compared = "<=" if is_least(self.pvalue, n_replicates) else "="
        return f"{self.variable} on {', '.join(self.others)}: p {compared} {self.pvalue:.4g}"


@dataclass(frozen=True)
class PassSummary:
    """One pass over the data.

    Parameters
    ----------
    name : str
        Name of its result.
    blocks : int
        Row blocks.
    bytes_read : int
        Bytes read from the data, uncompressed.
    seconds : float
        Wall time.
    """

    name: str
    blocks: int
    bytes_read: int
    seconds: float


@dataclass(frozen=True)
class StoredArraySummary:
    """A stored array as a run found it, the same from its start to its end.

    Parameters
    ----------
    name : str
        Name of a variable that it holds.
    chunks : int
        That it should have, or shards where it has such.
    absent : int
        Chunks that are not there, within shards too, and were read as the fill value.
    stored_bytes : int
        Bytes of the others, as they are stored.
    checksums : tuple of str
        Its codecs that notice a damaged chunk.
    digest : str
        Digest of sizes and ETags, or times of writing, of all chunks: it differs where data were
        written anew.
    """

    name: str
    chunks: int
    absent: int
    stored_bytes: int
    checksums: tuple[str, ...]
    digest: str

    @property
    def told(self) -> str:
        """That chunks were absent; empty where none was."""
        count = f"{self.absent:,} chunk{'s' if self.absent > 1 else ''}"
        return f"{count} of {self.name} absent, read as the fill value" if self.absent else ""


def rows_text(
    n: int,
    dropped: int,
    data: Sequence[StoredArraySummary] = (),
    missing: Sequence[int] = (),
) -> str:
    """How many rows were used, how many were not or miss a value, and how many chunks were absent.

    Examples
    --------
    >>> rows_text(1200, 34)
    '1,200, and 34 with missing values left out'
    >>> rows_text(1200, 0, missing=(200, 0))
    '1,200, pairwise, with up to 200 missing in a variable'
    """
    rows = f"{n:,}, and {dropped:,} with missing values left out" if dropped else f"{n:,}"
    if missing:
        rows += f", pairwise, with up to {max(missing):,} missing in a variable"
    return "; ".join([rows, *filter(None, (array.told for array in data))])
