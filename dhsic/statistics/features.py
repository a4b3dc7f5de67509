"""Features of kernels, alone and side by side, with the products that passes over the data sum."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.features import FeatureMap, KernelFeatures
from dhsic.kernels import Ranked
from dhsic.kernels.grid import Power, powers_among
from dhsic.kernels.wrap import Found, rows_beside
from dhsic.linalg import consecutive, solve_lower, squared_norms

Matrix = NDArray[np.floating[Any]]
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Features:
    """Features of one variable by one kernel, L^-1 (phi - c) or W (phi - c).

    Parameters
    ----------
    variable : int
        Its number.
    map : FeatureMap
        Makes phi, D numbers a row.
    centre : ndarray, shape (D,)
        Their provisional mean c, so that no digits cancel in sums.
    factor : ndarray, shape (D, D), optional
        Lower triangular L, which whitens sums of phi.
    matrix : ndarray, shape (r, D), optional
        W, by which passes make the features of a row, in place of the factor.
    normed : bool, optional
        Whether the squared norm of the features of a row stands beside them, as the last.
    sample : ndarray, shape (s, d), optional
        Rows of which c is the mean.
    landmarks : ndarray, shape (D, d), optional
        Rows of the variable that are landmarks.
    spanned : bool, optional
        Whether they hold the kernel but for what rounding leaves.
    known_spread : float, optional
        `spread`, where it is known.
    """

    variable: int
    map: FeatureMap
    centre: Matrix
    factor: Vector | None = None
    matrix: Matrix | None = None
    normed: bool = False
    sample: Matrix | None = None
    landmarks: Vector | None = None
    spanned: bool = False
    known_spread: float | None = None

    @classmethod
    def described(
        cls, variable: int, features: FeatureMap, sample: Vector, factor: Vector | None = None
    ) -> Self:
        """About the mean over a sample (s, d)."""
        centre = features(sample).mean(axis=0, dtype=np.float64).astype(features.dtype)
        return cls(variable, features, centre, factor, sample=sample)

    @classmethod
    def unseen(
        cls, variable: int, features: FeatureMap, *, whitened: bool, count: int | None = None
    ) -> Self:
        """With a mean and matrices that take no memory, for plans; `count` are summed."""
        d = features.n_features
        centre = np.broadcast_to(features.dtype.type(0), d)
        factor = np.broadcast_to(0.0, (d, d)) if whitened else None
        matrix = None if count is None else np.broadcast_to(0.0, (count, d))
        return cls(variable, features, centre, factor, matrix)

    @property
    def n_features(self) -> int:
        """D."""
        return self.map.n_features

    @property
    def n_summed(self) -> int:
        """How many are summed."""
        return (self.n_features if self.matrix is None else len(self.matrix)) + self.normed

    @property
    def nbytes(self) -> int:
        """Bytes of the map, the mean and W."""
        matrix = 0 if self.matrix is None else self.matrix.nbytes
        return self.map.nbytes + self.centre.nbytes + matrix

    @property
    def spread(self) -> float:
        """Mean squared norm of the whitened features of the sample."""
        if self.known_spread is not None:
            return self.known_spread
        features = (self.values() - self.centre).astype(np.float64)
        return float(squared_norms(self.whitened(features).T).mean())

    @cached_property
    def inverse(self) -> Vector:
        """L^-1, shape (D, D)."""
        assert self.factor is not None
        if self.factor.strides == (0, 0):  # that of a plan, which takes no memory
            return self.factor
        return solve_lower(self.factor, np.eye(self.n_features))

    @property
    def by_row(self) -> Matrix | None:
        """W, or L^-1 in its place; None where features are phi itself."""
        return self.matrix if self.matrix is not None or self.factor is None else self.inverse

    @property
    def after(self) -> Vector | None:
        """L where it whitens sums; None where W made what is summed."""
        return None if self.matrix is not None else self.factor

    def values(self) -> Matrix:
        """The phi of the sample, shape (s, D)."""
        assert self.sample is not None
        return self.map(self.sample)

    def whitened(self, features: Matrix) -> Matrix:
        """L^-1 phi, of phi (b, D)."""
        # L^-1 stands for K_zz^(-1/2) of Zhang et al. (2018), (28): a rotation, which no inner
        # product sees.
        return features if self.factor is None else solve_lower(self.factor, features.T).T

    def summed(self, features: Matrix) -> Matrix:
        """Those of rows, of phi - c (b, D)."""
        return self.whitened(features) if self.matrix is None else features @ self.matrix.T

    def carried(self, matrix: Matrix | None) -> Self:
        """What a pass needs of them, with a W of its own."""
        return replace(self, factor=None, matrix=matrix, sample=None, landmarks=None)

    def scratch(self, rows: int) -> int:
        """Bytes of phi of so many rows, about the mean too, and of what is made of it."""
        values = 2 * self.n_features + self.n_summed
        return self.map.scratch(rows) + rows * (self.map.dtype.itemsize * values + 8)

    def write(self, raw: Matrix, out: Matrix) -> None:
        """Write those that are summed, shape (b, r), of phi - c (b, D)."""
        made = out[:, :-1] if self.normed else out
        if self.matrix is not None:
            np.matmul(raw, self.matrix.T, out=made)
        else:
            made[...] = raw
        if self.normed:
            out[:, -1] = np.einsum("ij,ij->i", made, made)


class Crossing(NamedTuple):
    """Products of the features of some kernels with those of others, each side by side."""

    firsts: tuple[int, ...]
    """Numbers of kernels."""
    seconds: tuple[int, ...]
    """Numbers of kernels; replicates move the rows of their variables."""
    first: slice
    """Features of the first kernels among those of all."""
    second: slice
    """The same of the second ones."""
    at: slice
    """The products among those of all crossings."""

    @property
    def shape(self) -> tuple[int, int]:
        """Features of either side."""
        return self.first.stop - self.first.start, self.second.stop - self.second.start

    def of(self, products: NDArray[Any]) -> NDArray[Any]:
        """A view (..., D_1, D_2) of the products of all crossings (..., P)."""
        # Without a copy: a pass adds to the sums of all crossings in place.
        return products[..., self.at].reshape(*products.shape[:-1], *self.shape)


class ProductPlace(NamedTuple):
    """Where the products of two kernels are."""

    crossing: Crossing
    first: slice
    """Features of the first kernel among the first ones of the crossing."""
    second: slice

    def of(self, products: NDArray[Any]) -> NDArray[Any]:
        """A view (..., D_1, D_2) of the products of all crossings (..., P)."""
        return self.crossing.of(products)[..., self.first, self.second]


@dataclass(frozen=True)
class Layout:
    """Features of kernels side by side, D in all, and P products of them.

    Parameters
    ----------
    listed : tuple of (int, Features)
        The features of every kernel with its number, in their order.
    crossings : tuple of Crossing
        Every pair of kernels is in one of them.
    """

    listed: tuple[tuple[int, Features], ...]
    crossings: tuple[Crossing, ...]

    @classmethod
    def of(cls, features: Mapping[int, Features], pairs: Sequence[tuple[int, ...]]) -> Self:
        """As few crossings as hold every pair once, and no other."""
        # Pairs by their first kernel, with those that it meets.
        partners: dict[int, set[int]] = {}
        for first, second in pairs:
            partners.setdefault(first, set()).add(second)
        # Kernels with the same partners make one crossing, and so one matrix product.
        alike: dict[tuple[int, ...], list[int]] = {}
        for first, some in partners.items():
            alike.setdefault(tuple(sorted(some)), []).append(first)
        firsts = [first for some in alike.values() for first in some]
        # Firsts stand before seconds, so that what permutations move is at the end.
        moved = sorted({pair[1] for pair in pairs})
        alone = [k for k in features if k not in {*firsts, *moved}]
        order = {k: at for at, k in enumerate(dict.fromkeys([*alone, *firsts, *moved]))}
        kernels = {k: features[k] for k in order}
        places = dict(zip(order, consecutive(f.n_summed for f in kernels.values()), strict=True))
        # Only features that stand side by side are multiplied without a copy.
        blocks = [
            both
            for seconds, some in alike.items()
            for both in product(_runs(some, order), _runs(seconds, order))
        ]
        spans = [
            [slice(places[some[0]].start, places[some[-1]].stop) for some in both]
            for both in blocks
        ]
        sizes = consecutive((a.stop - a.start) * (b.stop - b.start) for a, b in spans)
        crossings = (
            Crossing(*both, a, b, at) for both, (a, b), at in zip(blocks, spans, sizes, strict=True)
        )
        return cls(tuple(kernels.items()), tuple(crossings))

    @cached_property
    def kernels(self) -> dict[int, Features]:
        """The features by the numbers of their kernels."""
        return dict(self.listed)

    @cached_property
    def _crossing_of(self) -> dict[tuple[int, ...], Crossing]:
        """That of every pair."""
        return {pair: c for c in self.crossings for pair in product(c.firsts, c.seconds)}

    @cached_property
    def places(self) -> dict[int, slice]:
        """Where the features of a kernel that are summed are."""
        places = consecutive(features.n_summed for features in self.kernels.values())
        return dict(zip(self.kernels, places, strict=True))

    @cached_property
    def raw_places(self) -> dict[int, slice]:
        """Where all phi of a kernel are."""
        places = consecutive(features.n_features for features in self.kernels.values())
        return dict(zip(self.kernels, places, strict=True))

    @cached_property
    def powers(self) -> dict[int, Power]:
        """Kernels whose features are powers of those of others, see `SharedTiles`."""
        # Kernels of one family at scales of powers of two: a tile of one is the square of
        # another's.
        numbers, each = list(self.kernels), list(self.kernels.items())
        return {
            numbers[k]: Power(numbers[k], numbers[source], squarings)
            for k, source, squarings in powers_among([_as_power(*one) for one in each])
        }

    @cached_property
    def _sources(self) -> frozenset[int]:
        """Kernels that others are powers of."""
        return frozenset(power.source for power in self.powers.values())

    @property
    def n_features(self) -> int:
        """Those that are summed, D."""
        return sum(features.n_summed for features in self.kernels.values())

    @property
    def n_raw(self) -> int:
        """All phi."""
        return sum(features.n_features for features in self.kernels.values())

    @property
    def n_products(self) -> int:
        """P."""
        return int(self.crossings[-1].at.stop) if self.crossings else 0

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the features."""
        return next(iter(self.kernels.values())).map.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the maps and what belongs to them."""
        return sum(features.nbytes for features in self.kernels.values())

    def scratch(self, rows: int) -> int:
        """Bytes of the features of so many rows and of what the costliest kernel needs."""
        each = self.kernels.values()
        largest = max(features.scratch(rows) for features in each)
        # Of every variable that has kernels of ranks its columns, their order, and all scales.
        ranked = {
            (features.variable, scale): len(kernel.knots or ())
            for features in each
            if isinstance(kernel := getattr(features.map, "kernel", None), Ranked)
            for scale in ("columns", "orders", kernel.scale)
        }
        ordered = 8 * sum(ranked.values())
        held = sum(self.kernels[k].n_features for k in self._sources)
        return largest + rows * (ordered + self.dtype.itemsize * (self.n_features + held))

    def place(self, pair: tuple[int, ...]) -> ProductPlace:
        """Where the products of two kernels are."""
        (first, second), crossing = pair, self._crossing_of[pair]
        ends = (self.places[first], crossing.first), (self.places[second], crossing.second)
        return ProductPlace(
            crossing, *(slice(a.start - b.start, a.stop - b.start) for a, b in ends)
        )

    def features(self, values: Sequence[NDArray[Any]], dtype: DTypeLike | None = None) -> Matrix:
        """Those that are summed, of rows of all variables, shape (b, D)."""
        out = np.empty((len(values[0]), self.n_features), dtype or self.dtype)
        for number, features, raw in self.raw(values):
            features.write(raw, out[:, self.places[number]])
        return out

    def raw(self, values: Sequence[NDArray[Any]]) -> Iterator[tuple[int, Features, Matrix]]:
        """All phi - c of every kernel, shape (b, D_k).

        Those of a kernel that is a power of a wider one follow from that one's.
        """
        held: dict[int, Matrix] = {}
        found: dict[int, Found] = {}
        # Each after the one that it is a power of.
        for number in [*(k for k in self.kernels if k not in self.powers), *self.powers]:
            features, power = self.kernels[number], self.powers.get(number)
            whole = power.of(held[power.source]) if power else _mapped(features, values, found)
            if number in self._sources:
                # Powers are taken of the values themselves, before their mean is taken off.
                held[number] = whole
                # A copy, since other kernels are still to be made of these values.
                yield number, features, whole - features.centre
            else:
                whole -= features.centre
                yield number, features, whole


def _mapped(features: Features, values: Sequence[NDArray[Any]], found: dict[int, Found]) -> Matrix:
    """The phi of rows of all variables, whose ranks are found once for all kernels of them."""
    x, phi = values[features.variable], features.map
    if not isinstance(phi, KernelFeatures):
        return phi(x)
    # To find the ranks of a column takes longer than any kernel of them.
    rows = rows_beside(phi.kernel, x, phi.dtype, found.setdefault(features.variable, {}))
    return phi.of_rows(rows, single=x.shape[1] == 1)


def _as_power(number: int, features: Features) -> tuple[Hashable, float]:
    """What features share that are powers of each other, and their exponent."""
    phi = features.map
    # Values are squares of one another at the same landmarks only.
    if not isinstance(phi, KernelFeatures) or phi.rows is None:
        return number, 1.0
    kernel, exponent = phi.kernel.as_power()
    return (features.variable, phi.rows, kernel), exponent


def _runs(numbers: Sequence[int], order: Mapping[int, int]) -> Iterator[tuple[int, ...]]:
    """Numbers that follow each other, by their places in an order."""
    at = [order[number] for number in numbers]
    cuts = [i for i in range(1, len(at)) if at[i] != at[i - 1] + 1]
    for start, stop in pairwise([0, *cuts, len(at)]):
        yield tuple(numbers[start:stop])
