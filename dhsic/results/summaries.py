"""What a result tells of its parts: variables, landmarks, features, kernels and passes."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "FeatureSummary",
    "GridSummary",
    "KernelCombination",
    "LandmarkSummary",
    "PassSummary",
    "StageSummary",
    "StoredArraySummary",
    "VariableSummary",
    "floor_text",
    "is_least",
    "kernel_text",
    "length_of",
    "pvalue_text",
    "rows_text",
    "short_spec",
    "time_text",
]

_NUMBER = re.compile(r"\d+\.\d+(?:e[+-]?\d+)?")
_SCALED = re.compile(r"(gaussian|imq|laplacian|matern\d+|rq:[^:@*,()]+):([^:@*,()]+)")
_ALONE = re.compile(r"^columns\(([^(),]*)\)$")
_MEAN = re.compile(r"columns\(([^()]*)\)")
_RANKED = re.compile(r"(ranks|scores)\((.*)\)")
_UNITS = {"": "", "ranks": " in ranks from 0 to 1", "scores": " in normal scores"}


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
        What was added to the diagonal of the Gram matrix: pivoting needs none.
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
        What they are, as "cos-sin".
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
    """What one combination of kernels says by itself; exploratory, as it ignores the others.

    Parameters
    ----------
    kernels : tuple of str
        One a variable, with the bandwidths used.
    statistic : float
        The test statistic.
    standardised : float
        Its distance from the mean of its replicates, in their standard deviations.
    pvalue : float
        Its p-value, which takes no notice of the choice among combinations.
    """

    kernels: tuple[str, ...]
    statistic: float
    standardised: float
    pvalue: float


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
        Of the weight with "soft", else of the level, that the reference combination has to itself.
    reference : int
        The number of the combination nearest to the median heuristic.
    strongest : int
        The number of the combination that decided.
    combinations : tuple of KernelCombination
        All of them.
    """

    aggregate: str
    reference_share: float
    reference: int
    strongest: int
    combinations: tuple[KernelCombination, ...]

    @property
    def told(self) -> str:
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
        Theirs and its own, with the bandwidths used.
    statistic : float
        The strongest one.
    pvalue : float
        Of the stage, whatever the earlier ones say; it accounts for the choice of the statistic.
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
        What it computed.
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
        Of a variable that it holds.
    chunks : int
        That it should have, or shards where it has such.
    absent : int
        Chunks that are not there, within shards too, and were read as the fill value.
    stored_bytes : int
        Of the others, as they are stored.
    checksums : tuple of str
        Its codecs that notice a damaged chunk.
    digest : str
        Of sizes and ETags, or times of writing, of all chunks: it differs where data were written
        anew.
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


def rows_text(n: int, dropped: int, data: Sequence[StoredArraySummary] = ()) -> str:
    """How many rows were used, how many were not, and how many chunks were absent.

    Examples
    --------
    >>> rows_text(1200, 34)
    '1,200, and 34 with missing values left out'
    """
    rows = f"{n:,}, and {dropped:,} with missing values left out" if dropped else f"{n:,}"
    return "; ".join([rows, *filter(None, (array.told for array in data))])


def pvalue_text(p: float, error: float | None, n_replicates: int, best_rank: int = 1) -> str:
    """A p-value with its error, or as a bound where it is the smallest that there can be.

    Parameters
    ----------
    p : float
        The p-value.
    error : float or None
        Its Monte Carlo standard error; None where nothing is simulated.
    n_replicates : int
        b, of which the smallest is 1 / (b + 1).
    best_rank : int, optional
        Where it is best_rank / (b + 1) instead, see `GridSummary.best_rank`.

    Examples
    --------
    >>> pvalue_text(0.001, 0.001, 999)
    '<= 0.001 (the smallest with 999 replicates; take 9,999 or so to tell a smaller one)'
    >>> pvalue_text(0.25, 0.0137, 999), pvalue_text(0.25, None, 1000)
    ('0.25 ± 0.014', '0.25')
    """
    if error is None:
        return f"{p:.4g}"
    if not is_least(p, n_replicates, best_rank):
        return f"{p:.4g} ± {error:.2g}"
    return f"<= {p:.4g} ({floor_text(n_replicates, best_rank)})"


def is_least(p: float, n_replicates: int, best_rank: int = 1) -> bool:
    """Whether a p-value is the smallest that there can be, best_rank / (b + 1)."""
    return p * (n_replicates + 1) <= best_rank + 1e-9


def floor_text(n_replicates: int, best_rank: int = 1) -> str:
    """Say that a p-value is the smallest, and how many replicates would tell more.

    Examples
    --------
    >>> floor_text(250)
    'the smallest with 250 replicates; take 2,509 or so to tell a smaller one'
    >>> floor_text(250, best_rank=2)
    'the smallest of one combination with 250 replicates; take 2,509 or so to tell a smaller one'
    """
    more = 10 * (n_replicates + 1) - 1
    alone = " of one combination" if best_rank > 1 else ""
    return (
        f"the smallest{alone} with {n_replicates:,} replicates; "
        f"take {more:,} or so to tell a smaller one"
    )


def length_of(kernel: str) -> float | None:
    """The bandwidth of a kernel as a length; None where it has no single one.

    It is 1 / sqrt(gamma) of gaussian, imq and rq kernels, exp(-gamma |x - y|^2) say, 1 / gamma of
    laplacian ones, exp(-gamma |x - y|_1), and the length of matern ones: the median distance of the
    rows, where the bandwidth follows from it. Its units are those of the data; of a kernel of ranks
    or normal scores, those of ranks or scores.

    Parameters
    ----------
    kernel : str
        As `dhsic.kernels.parse` reads it.

    Examples
    --------
    >>> length_of("gaussian:0.25"), length_of("laplacian:0.25"), length_of("delta")
    (2.0, 4.0, None)
    >>> length_of("scores(gaussian:0.25)")
    2.0
    """
    _, inner = _unranked(kernel)
    scaled = _SCALED.fullmatch(_ALONE.sub(r"\1", inner))
    if scaled is None:
        return None
    name, scale = scaled[1], float(scaled[2])
    if name.startswith("matern"):
        return scale
    return 1.0 / (scale if name == "laplacian" else math.sqrt(scale))


def kernel_text(kernel: str) -> str:
    """A kernel to be read, with its length beside gamma.

    Examples
    --------
    >>> kernel_text("gaussian:0.0045657788937916525"), kernel_text("delta")
    ('gaussian:0.004566, length 14.8', 'delta')
    >>> kernel_text("scores(gaussian:0.25)"), kernel_text("ranks(gaussian:16.0)")[20:]
    ('scores(gaussian:0.25), length 2 in normal scores', 'length 0.25 in ranks from 0 to 1')
    """
    length = length_of(kernel)
    if length is None:
        return short_spec(kernel)
    return f"{short_spec(kernel)}, length {length:.4g}{_UNITS[_unranked(kernel)[0]]}"


def _unranked(kernel: str) -> tuple[str, str]:
    """Whether a kernel is of ranks or scores, and the kernel of these; "" where it is of values."""
    ranked = _RANKED.fullmatch(kernel)
    return (ranked[1], ranked[2]) if ranked else ("", kernel)


def time_text(seconds: float, passes: int, precision: str = "") -> str:
    """How long it took.

    Examples
    --------
    >>> time_text(1.5, 1, "float32"), time_text(0.25, 0)
    ('1.50 s, 1 pass, float32', '0.25 s')
    """
    read = f"{passes:,} pass{'' if passes == 1 else 'es'}" if passes else ""
    return ", ".join(filter(None, (f"{seconds:.2f} s", read, precision)))


def short_spec(kernel: str) -> str:
    """The text of a kernel to be read: with numbers of four digits, and columns counted.

    Examples
    --------
    >>> short_spec("gaussian:0.0045657788937916525")
    'gaussian:0.004566'
    >>> short_spec("columns(laplacian:0.5,none,laplacian:2.0)")
    'columns(laplacian) of 3'
    """
    counted = _MEAN.sub(_counted, kernel)
    return _NUMBER.sub(lambda number: f"{float(number[0]):.4g}", counted)


def _counted(mean: re.Match[str]) -> str:
    """A mean over columns by the names of its kernels and how many columns there are."""
    parts = mean[1].split(",")
    names = dict.fromkeys(part.split(":")[0] for part in parts if part != "none")
    return f"columns({','.join(names)}) of {len(parts)}" if len(parts) > 1 else mean[0]
