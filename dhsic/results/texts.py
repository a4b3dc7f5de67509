"""How p-values, kernels and times are written for people."""

from __future__ import annotations

import math
import re

MOST_SHIFTS = "about as many as the lag allows"
"""How the null of a series says that there are no more shifts of it."""

_NUMBER = re.compile(r"\d+\.\d+(?:e[+-]?\d+)?")
_SCALED = re.compile(r"(gaussian|imq|laplacian|matern\d+|rq:[^:@*,()]+):([^:@*,()]+)")
_PARAMETERS = re.compile(r":[^:@*,()+ ]+")
_ALONE = re.compile(r"^columns\(([^(),]*)\)$")
_MEAN = re.compile(r"columns\(([^()]*)\)")
_RANKED = re.compile(r"(ranks|scores)\((.*)\)")
_UNITS = {"": "", "ranks": " in ranks from 0 to 1", "scores": " in normal scores"}


def pvalue_text(
    p: float, error: float | None, n_replicates: int, best_rank: int = 1, reason: str = ""
) -> str:
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
    reason : str, optional
        How the replicates were made.

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
    return f"<= {p:.4g} ({floor_text(n_replicates, best_rank, reason)})"


def is_least(p: float, n_replicates: int, best_rank: int = 1) -> bool:
    """Whether a p-value is the smallest that there can be, best_rank / (b + 1)."""
    # The product of a float may miss the whole number by a digit.
    return p * (n_replicates + 1) <= best_rank + 1e-9


def floor_text(n_replicates: int, best_rank: int = 1, reason: str = "") -> str:
    """Say that a p-value is the smallest, and how many replicates would tell more.

    Where the reason of the null says that a series has no more shifts, longer ones would.

    Examples
    --------
    >>> floor_text(250)
    'the smallest with 250 replicates; take 2,509 or so to tell a smaller one'
    >>> floor_text(250, best_rank=2)
    'the smallest of one combination with 250 replicates; take 2,509 or so to tell a smaller one'
    >>> floor_text(49, reason=f"all 50 shifts, {MOST_SHIFTS}")
    'the smallest with 49 replicates; a longer series has more shifts, to tell a smaller one'
    """
    # Ten times as many with the data among them, so that the smallest p-value is a tenth of it.
    more = 10 * (n_replicates + 1) - 1
    alone = " of one combination" if best_rank > 1 else ""
    how = f"take {more:,} or so"
    if MOST_SHIFTS in reason:
        how = "a longer series has more shifts,"
    return f"the smallest{alone} with {n_replicates:,} replicates; {how} to tell a smaller one"


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
    # Matern kernels are written by their length; the others by gamma.
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


def scale_text(kernel: str, factor: float | None) -> str:
    """A kernel without its bandwidth, and its length beside that which was fitted.

    Examples
    --------
    >>> scale_text("scores(gaussian:1.07)", 0.5), scale_text("delta", None)
    ('scores(gaussian), length x 1/2', 'delta')
    """
    name = _PARAMETERS.sub("", short_spec(kernel))
    return name if factor is None else f"{name}, length x {_as_fraction(factor)}"


def _as_fraction(factor: float) -> str:
    """1/16 rather than 0.0625."""
    inverse = 1.0 / factor
    return f"1/{inverse:.0f}" if factor < 1.0 and inverse.is_integer() else f"{factor:.4g}"


def short_spec(kernel: str) -> str:
    """The text of a kernel to be read: with numbers of four digits, and columns counted.

    Examples
    --------
    >>> short_spec("gaussian:0.0045657788937916525")
    'gaussian:0.004566'
    >>> short_spec("columns(laplacian:0.5,none,laplacian:2.0)")
    'columns(laplacian) of 3'
    """
    counted = _MEAN.sub(_kernel_counts_text, kernel)
    return _NUMBER.sub(lambda number: f"{float(number[0]):.4g}", counted)


def _kernel_counts_text(mean: re.Match[str]) -> str:
    """A mean over columns by the names of its kernels and how many columns there are."""
    parts = mean[1].split(",")
    names = dict.fromkeys(part.split(":")[0] for part in parts if part != "none")
    return f"columns({','.join(names)}) of {len(parts)}" if len(parts) > 1 else mean[0]
