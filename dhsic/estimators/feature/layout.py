"""Features of kernels side by side, and the products of them that passes over the data sum."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dhsic.estimators.feature.basis import Side
from dhsic.features import FeatureMap, KernelFeatures
from dhsic.kernels import Ranked
from dhsic.kernels.ranked import OrderedColumns
from dhsic.kernels.shared import Power, family_of, powers_among
from dhsic.linalg import consecutive

Matrix = NDArray[np.floating[Any]]
Pair = tuple[int, ...]


class KernelSide(NamedTuple):
    """The features of one kernel, as they are summed."""

    variable: int
    """The number of the variable."""
    map: FeatureMap
    """Makes them."""
    centre: Matrix
    """Their provisional mean, shape (D,), so that no digits cancel."""
    rows: slice
    """Those that are summed, of the D or of the whitened ones."""
    whitening: Matrix | None = None
    """These rows of L^-1, shape (r, D), where features are whitened before they are summed."""

    @classmethod
    def plain(cls, variable: int, side: Side) -> KernelSide:
        """All features as they are."""
        return cls(variable, side.map, side.centre, slice(0, side.n_features))

    @property
    def n_summed(self) -> int:
        """Features that are summed."""
        return int(self.rows.stop - self.rows.start)

    @property
    def nbytes(self) -> int:
        """Bytes of the map, the mean and the matrix."""
        matrix = 0 if self.whitening is None else self.whitening.nbytes
        return self.map.nbytes + self.centre.nbytes + matrix

    def scratch(self, rows: int) -> int:
        """Bytes of the features of so many rows, about their mean too, and of those summed."""
        values = 2 * self.map.n_features + self.n_summed
        return self.map.scratch(rows) + rows * (self.map.dtype.itemsize * values + 8)

    def write_summed(self, raw: Matrix, out: Matrix) -> None:
        """Those that are summed, shape (b, r), of all features (b, D)."""
        # L^-1 (f - c): whitened rows alone are summed, of which there are fewer than features.
        if self.whitening is not None:
            np.matmul(raw, self.whitening.T, out=out)
        else:
            out[...] = raw[:, self.rows] if self.n_summed < raw.shape[1] else raw


class Rectangle(NamedTuple):
    """Every kernel of some with every one of others; either are side by side."""

    firsts: tuple[int, ...]
    """Numbers of kernels."""
    seconds: tuple[int, ...]
    """Numbers of kernels; replicates move the rows of their variables."""


class Crossing(NamedTuple):
    """Where the products of a rectangle are."""

    first: slice
    """Its first features among those of all kernels."""
    second: slice
    """Its second ones."""
    at: slice
    """Among the products of all rectangles."""

    @property
    def shape(self) -> tuple[int, int]:
        """Features of either side."""
        return self.first.stop - self.first.start, self.second.stop - self.second.start

    def of(self, products: NDArray[Any]) -> NDArray[Any]:
        """A view (..., D_1, D_2) of the products of all rectangles (..., P)."""
        # Without a copy: a pass adds to the sums of all rectangles in place.
        return products[..., self.at].reshape(*products.shape[:-1], *self.shape)


class ProductPlace(NamedTuple):
    """Where the products of two kernels are."""

    crossing: Crossing
    """Those of their rectangle."""
    first: slice
    """Its features among those of the first side of the rectangle."""
    second: slice
    """The same of the second side."""

    def of(self, products: NDArray[Any]) -> NDArray[Any]:
        """A view (..., D_1, D_2) of the products of all rectangles (..., P)."""
        return self.crossing.of(products)[..., self.first, self.second]


@dataclass(frozen=True)
class Layout:
    """Features of K kernels side by side, D in all, and P products of them.

    Parameters
    ----------
    kernels : tuple of (int, KernelSide)
        Numbers of kernels with their features.
    rectangles : tuple of Rectangle
        The pairs of kernels.
    """

    kernels: tuple[tuple[int, KernelSide], ...]
    rectangles: tuple[Rectangle, ...]

    @classmethod
    def of(cls, kernels: Mapping[int, KernelSide], pairs: Sequence[Pair]) -> Self:
        """As few rectangles as hold every pair once, and no other."""
        # Pairs by their first kernel, with those that it meets.
        partners: dict[int, list[int]] = {}
        for first, second in pairs:
            partners.setdefault(first, []).append(second)
        # Kernels with the same partners make one rectangle, and so one matrix product.
        alike: dict[tuple[int, ...], list[int]] = {}
        for first, seconds in partners.items():
            alike.setdefault(tuple(sorted(seconds)), []).append(first)
        firsts = [first for some in alike.values() for first in some]
        # Firsts stand before seconds, so that what permutations move is at the end.
        seconds_alone = sorted({pair[1] for pair in pairs})
        order = {k: at for at, k in enumerate(dict.fromkeys([*firsts, *seconds_alone]))}
        # Only features that stand side by side are multiplied without a copy.
        rectangles = (
            Rectangle(*both)
            for seconds, some in alike.items()
            for both in product(_runs(some, order), _runs(seconds, order))
        )
        return cls(tuple((k, kernels[k]) for k in order), tuple(rectangles))

    @cached_property
    def places(self) -> dict[int, slice]:
        """Where the features of a kernel that are summed are."""
        places = consecutive(side.n_summed for _, side in self.kernels)
        return dict(zip(dict(self.kernels), places, strict=True))

    @cached_property
    def raw_places(self) -> dict[int, slice]:
        """Where all of its features are."""
        places = consecutive(side.map.n_features for _, side in self.kernels)
        return dict(zip(dict(self.kernels), places, strict=True))

    @cached_property
    def powers(self) -> dict[int, Power]:
        """Kernels whose features are powers of those of others, see `SharedTiles`."""
        # Kernels of one family at scales of powers of two: a tile of one is the square of
        # another's.
        numbers = [number for number, _ in self.kernels]
        maps = [side.map for _, side in self.kernels]
        families = [(side.variable, *_family_of(side.map)) for _, side in self.kernels]
        return {
            numbers[k]: Power(numbers[k], numbers[source], squarings)
            for k, source, squarings in powers_among(maps, _squarings, families)
        }

    @cached_property
    def _sources(self) -> frozenset[int]:
        """Kernels that others are powers of."""
        return frozenset(power.source for power in self.powers.values())

    @property
    def n_held(self) -> int:
        """Features that are held for powers of them."""
        return sum(side.map.n_features for k, side in self.kernels if k in self._sources)

    @cached_property
    def crossings(self) -> tuple[Crossing, ...]:
        """Where the products of every rectangle are."""
        sides = [
            # Rectangles share the features, and each has products of its own.
            (self._span(rectangle.firsts), self._span(rectangle.seconds))
            for rectangle in self.rectangles
        ]
        places = consecutive((a.stop - a.start) * (b.stop - b.start) for a, b in sides)
        return tuple(Crossing(*both, at) for both, at in zip(sides, places, strict=True))

    @cached_property
    def _crossing_of(self) -> dict[Pair, Crossing]:
        """Of every pair, which is in one rectangle, by the way they were made."""
        return {
            pair: crossing
            for rectangle, crossing in zip(self.rectangles, self.crossings, strict=True)
            for pair in product(*rectangle)
        }

    @property
    def n_features(self) -> int:
        """Those that are summed, D."""
        return sum(side.n_summed for _, side in self.kernels)

    @property
    def n_products(self) -> int:
        """P."""
        return int(self.crossings[-1].at.stop)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the features."""
        return self.kernels[0][1].map.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the maps and what belongs to them."""
        return sum(side.nbytes for _, side in self.kernels)

    def scratch(self, rows: int) -> int:
        """Bytes of the features of so many rows and of what the costliest kernel needs."""
        largest = max(side.scratch(rows) for _, side in self.kernels)
        # The order of every variable that has kernels of ranks.
        ranked = {
            side.variable: len(kernel.knots or ())
            for _, side in self.kernels
            if (kernel := _ranked_kernel(side.map)) is not None
        }
        ordered = 2 * 8 * sum(ranked.values())
        return largest + rows * (ordered + self.dtype.itemsize * (self.n_features + self.n_held))

    def place(self, pair: Pair) -> ProductPlace:
        """Where the products of two kernels are."""
        (first, second), crossing = pair, self._crossing_of[pair]
        ends = (self.places[first], crossing.first), (self.places[second], crossing.second)
        return ProductPlace(
            crossing, *(slice(a.start - b.start, a.stop - b.start) for a, b in ends)
        )

    def features(self, values: Sequence[NDArray[Any]]) -> Matrix:
        """Those that are summed, of rows of all variables, shape (b, D)."""
        out = np.empty((len(values[0]), self.n_features), self.dtype)
        for number, side, raw in self.raw(values):
            side.write_summed(raw, out[:, self.places[number]])
        return out

    def raw(self, values: Sequence[NDArray[Any]]) -> Iterator[tuple[int, KernelSide, Matrix]]:
        """All features of every kernel about their provisional mean, shape (b, D_k).

        Those of a kernel that is a power of a wider one follow from that one's.
        """
        held: dict[int, Matrix] = {}
        ordered: dict[int, OrderedColumns] = {}
        sides = dict(self.kernels)
        # Each after the one that it is a power of.
        for number in [*(k for k in sides if k not in self.powers), *self.powers]:
            side, power = sides[number], self.powers.get(number)
            whole = power.of(held[power.source]) if power else _mapped(side, values, ordered)
            if number in self._sources:
                # Powers are taken of the values themselves, before their mean is taken off.
                held[number] = whole
                # A copy, since other kernels are still to be made of these values.
                yield number, side, whole - side.centre
            else:
                whole -= side.centre
                yield number, side, whole

    def _span(self, numbers: Sequence[int]) -> slice:
        """Where the features of kernels are that are side by side."""
        # Side by side, as the order of the kernels was chosen.
        return slice(self.places[numbers[0]].start, self.places[numbers[-1]].stop)


def _mapped(
    side: KernelSide, values: Sequence[NDArray[Any]], ordered: dict[int, OrderedColumns]
) -> Matrix:
    """Features of rows of all variables, whose order is found once for all kernels of ranks."""
    x, kernel = values[side.variable], _ranked_kernel(side.map)
    if kernel is None:
        return side.map(x)
    assert isinstance(side.map, KernelFeatures)
    # Sorting a column takes longer than any kernel of its ranks.
    if side.variable not in ordered:
        ordered[side.variable] = kernel.ordered(x)
    rows = kernel.rows_of(ordered[side.variable], side.map.dtype)
    return side.map.of_rows(rows, single=x.shape[1] == 1)


def _ranked_kernel(features: FeatureMap) -> Ranked | None:
    """The kernel of ranks that features are made of, where it is one."""
    kernel = features.kernel if isinstance(features, KernelFeatures) else None
    return kernel if isinstance(kernel, Ranked) else None


def _squarings(narrow: FeatureMap, wide: FeatureMap) -> int:
    """How often features are to be squared to give others; 0 if never."""
    return narrow.squarings(wide) if isinstance(narrow, KernelFeatures) else 0


def _family_of(features: FeatureMap) -> tuple[Hashable, ...]:
    """The rows, the class and the columns, which features that are powers of these have, too."""
    if not isinstance(features, KernelFeatures):
        return ()
    return features.rows, *family_of(features.kernel)


def _runs(numbers: Sequence[int], order: Mapping[int, int]) -> Iterator[tuple[int, ...]]:
    """Numbers that follow each other, by their places in an order."""
    at = [order[number] for number in numbers]
    cuts = [i for i in range(1, len(at)) if at[i] != at[i - 1] + 1]
    for start, stop in pairwise([0, *cuts, len(at)]):
        yield tuple(numbers[start:stop])
