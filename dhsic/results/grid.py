"""The combinations of kernels that a test tried, and the picture of their evidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dhsic._drawing import ORANGE, axes_of, draw_bars, shortened
from dhsic.results.texts import scale_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAME = 34  # characters
_MOST_TRIED = 40
_DISTANCE = "standard deviations above the replicates"
_EVIDENCE = f"Evidence by kernel and length,\n{_DISTANCE}"


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
        axes = axes_of(ax, (6.4, 4.4))
        axes.set_title(_EVIDENCE, fontsize=11)
        count = len(self.combinations[0].kernels)
        if count == 1:  # of samples, whose values have the kernel
            return _evidence_bars(axes, self, ["values"])
        labels = [f"x{number + 1}" for number in range(count)] if names is None else names
        return (_evidence_map if count == 2 else _evidence_bars)(axes, self, labels)

    @property
    def roles(self) -> dict[int, str]:
        """Roles of combinations by their numbers."""
        if self.reference == self.strongest:
            return {self.reference: "reference, strongest"}
        return {self.reference: "reference", self.strongest: "strongest"}

    @property
    def tried(self) -> str:
        """How many there are, how they were judged, and the strongest."""
        tried = f"{len(self.combinations)} kernel combinations tried, judged by {self.judged}"
        return f"{tried}; p-value corrected for the choice. The strongest: {self.told}."

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


def _evidence_bars(axes: Axes, grid: GridSummary, names: Sequence[str]) -> Axes:
    """Bars of kernels, variable by variable: that of the strongest combination with each."""
    best: dict[str, float] = {}
    for variable, name in enumerate(names):
        for scale in _by_length(grid, variable):
            distances = [c.standardised for c in grid.combinations if c.scales[variable] == scale]
            best[f"{name}: {scale.replace(', length', ',')}"] = max(distances)
    names, distances = list(best)[:_MOST_TRIED], list(best.values())
    more = f", {_MOST_TRIED} of {len(best):,}" if len(best) > _MOST_TRIED else ""
    return draw_bars(axes, names, distances, f"{_DISTANCE}{more}")


def _evidence_map(axes: Axes, grid: GridSummary, names: Sequence[str]) -> Axes:
    """Kernels of the first variable down, of the second across, from long to short lengths."""
    rows, columns = (_by_length(grid, variable) for variable in (0, 1))
    values = np.full((len(rows), len(columns)), np.nan)
    for tried in grid.combinations:
        i, j = rows.index(tried.scales[0]), columns.index(tried.scales[1])
        values[i, j] = tried.standardised
    # Without evidence anywhere the map stays pale, rather than show noise in full colour.
    top = max(float(np.nanmax(values)), 1.0)
    axes.imshow(np.ma.masked_invalid(values), cmap="Blues", vmin=0.0, vmax=top, aspect="auto")
    for i, j in np.argwhere(np.isfinite(values)):
        colour = "white" if values[i, j] > 0.6 * top else "black"
        axes.text(j, i, f"{values[i, j]:.1f}", ha="center", va="center", color=colour)
    for number, role in grid.roles.items():
        colour, line = (ORANGE, "-") if number == grid.strongest else ("black", ":")
        scales = grid.combinations[number].scales
        i, j = rows.index(scales[0]), columns.index(scales[1])
        frame = np.array([[-0.5, 0.5, 0.5, -0.5, -0.5], [-0.5, -0.5, 0.5, 0.5, -0.5]])
        axes.plot(j + 0.94 * frame[0], i + 0.94 * frame[1], line, color=colour, label=role)
    across, down = ([scale.replace(", ", "\n") for scale in some] for some in (columns, rows))
    axes.set_xticks(range(len(across)), across, fontsize=8, rotation=30, ha="right")
    axes.set_yticks(range(len(down)), down, fontsize=8)
    axes.set_xlabel(f"kernel of {shortened(names[1], _NAME)}")
    axes.set_ylabel(f"kernel of {shortened(names[0], _NAME)}")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False)
    return axes


def _by_length(grid: GridSummary, variable: int) -> list[str]:
    """The kernels that were tried of a variable, family by family, from long to short lengths."""
    factors = {c.scales[variable]: (*c.factors, None)[variable] for c in grid.combinations}
    families = list(dict.fromkeys(scale.split(",")[0] for scale in factors))

    def place(scale: str) -> tuple[int, float]:
        return families.index(scale.split(",")[0]), -(factors[scale] or 0.0)

    return sorted(factors, key=place)
