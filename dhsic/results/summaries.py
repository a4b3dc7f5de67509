"""Summaries in results: variables, landmarks, features, stages, passes and stored arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dhsic.results.texts import is_least, kernel_text

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
