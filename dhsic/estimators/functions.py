"""Base class of estimators from functions of rows, which users can write in a few lines."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic._random import generator
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.base import (
    BANDWIDTH_ROWS,
    Estimate,
    Estimator,
    Guess,
    Null,
    Prepared,
    fit_combinations_on_sample,
    fitting_step,
)
from dhsic.kernels import Combinations, Kernel, OnColumns
from dhsic.nulls import Chain, Permutation, Shifts
from dhsic.statistics.orbit import Pair, Replicated
from dhsic.statistics.pointwise import Pointwise, Tuples

Matrix = NDArray[Any]
Vector = NDArray[np.float64]
RowFunction = Callable[[Matrix], Matrix]


class Functions(Estimator):
    """Base class of estimators that compare r functions of each variable.

    With f_mj function j of variable m, u_j = mean prod_m f_mj - prod_m mean f_mj has expectation 0
    under independence; the estimate is a squared norm of u, and the test statistic n times the
    estimate. A derived class is a frozen dataclass with a name and the method `function`. The base
    class provides plans, shifts and permutations, strata and groups of rows, several kernels,
    chains of tests, rankings, bounds on rounding, threads and clusters.

    Examples
    --------
    Of one column how often both values are at most some others.

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import dhsic
    >>> from dhsic.estimators import Functions
    >>> @dhsic.register
    ... @dataclass(frozen=True)
    ... class Hoeffding(Functions):
    ...     name = "hoeffding"
    ...     def function(self, kernel, sample, rng):
    ...         points = rng.choice(sample[:, 0], 100)
    ...         return lambda x: x[:, :1] <= points
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 300))
    >>> dhsic.independence_test(x, x + noise, estimator="hoeffding", rng=0).pvalue < 0.01
    True
    >>> dhsic.unregister("hoeffding")
    """

    most_variables: ClassVar[int | None] = None
    ranks: ClassVar[bool] = True
    nulls: ClassVar[tuple[type[Any], ...]] = Shifts, Permutation, Chain
    cost: ClassVar[str] = "n"
    quantity: ClassVar[str] = "dependence"
    """What the estimate measures, in words."""
    has_intervals: ClassVar[bool] = True

    @abstractmethod
    def function(self, kernel: Kernel, sample: Vector, rng: np.random.Generator) -> RowFunction:
        """Return r functions of a variable, from a sample of its rows.

        Parameters
        ----------
        kernel : Kernel
            The fitted kernel of the variable, which the method may ignore.
        sample : ndarray, shape (s, d)
            At most 1,000 rows of the variable, drawn independently of the samples of other
            variables.
        rng : Generator
            Random stream of this variable.

        Returns
        -------
        callable
            Maps rows (b, d) to values (b, r), with the same r for all variables.
        """

    def norm(self, u: Vector) -> Vector:
        """The squares (N,) of the norms of N functions (r, N); by default the mean over r."""
        squares: Vector = np.square(u).mean(axis=0)
        return squares

    def guess(self, session: Session, combinations: Combinations, null: Null | None) -> Guess:
        """With functions of rows that are none of the data."""
        rng, rows = np.random.default_rng(0), min(session.n, BANDWIDTH_ROWS)
        samples = [rng.standard_normal((rows, d)) for d in session.dims]
        guessed = combinations.guessed(session.dims)
        return Guess([fitting_step(session)], self._statistic(session, guessed, samples))

    def prepare(self, session: Session, combinations: Combinations, null: Null | None) -> Prepared:
        """Make the functions of each variable by itself."""
        fitted, samples = fit_combinations_on_sample(session, combinations)

        def estimate(found: Replicated, c: int) -> Estimate:
            value = float(found.statistics[c]) / session.n
            return Estimate(value, fitted.kernels_of(c), quantity=self.quantity)

        return Prepared(fitted, self._statistic(session, fitted, samples), estimate, own=self._own)

    def _own(self, found: Replicated) -> Vector:
        """The estimate of every variable with itself, shape (G, M)."""
        moments = found.told
        return np.array([self.norm((m.squares - m.means**2).T) for m in moments])

    def _statistic(
        self, session: Session, combinations: Combinations, samples: Sequence[Vector]
    ) -> Pointwise:
        made = [
            _Function(self, kernel, samples[m], (session.seed, m))
            for kernel, m in zip(combinations.kernels, combinations.variables, strict=True)
        ]
        sizes = {one.size for one in made}
        if len(sizes) > 1:
            msg = (
                f"the functions of {self.name!r} must have as many values for all variables, got "
                f"{' and '.join(map(str, sorted(sizes)))}: make {min(sizes)} of each, for instance"
            )
            raise InvalidArgumentError(msg)
        numbers, pairs = np.arange(sizes.pop()), list(map(Pair.of, combinations.chosen))
        points: list[Matrix] = [numbers[:, None]] * len(made)
        kept = [numbers] * len(pairs)
        of = combinations.variables
        tuples = Tuples.at(made, of, points, pairs, kept, samples, session.dtype)
        return Pointwise(tuples, (self.norm,) * len(pairs))


@dataclass(frozen=True, eq=False)
class _Function:
    """Functions of the columns that a kernel sees, as a kernel at the numbers of their values.

    They are made of what a checkpoint can compare, since a lambda says nothing of what it does.
    """

    estimator: Functions
    kernel: Kernel
    sample: Vector
    seeds: tuple[int, int]
    work_tiles: ClassVar[int] = 0

    def seen(self, x: Matrix) -> Vector:
        """The columns that the kernel sees, in its units."""
        if not isinstance(self.kernel, OnColumns):
            return x.astype(np.float64)
        seen: Vector = x[:, self.kernel.at] / np.array(self.kernel.scales or 1.0)
        return seen

    @cached_property
    def function(self) -> RowFunction:
        seed, m = self.seeds
        kernel = self.kernel.kernel if isinstance(self.kernel, OnColumns) else self.kernel
        rng = generator(seed, "landmarks", m)
        return self.estimator.function(kernel, self.seen(self.sample), rng)

    @cached_property
    def size(self) -> int:
        rows = self.seen(self.sample[:2])
        shape = np.shape(self.function(rows))
        if len(shape) != 2 or shape[0] != 2:
            msg = (
                f"a function of {self.estimator.name!r} must take rows (b, d) to values (b, r), "
                f"got {shape} of {rows.shape}: return an array of one row for each"
            )
            raise InvalidArgumentError(msg)
        return int(shape[1])

    def as_power(self) -> tuple[_Function, float]:
        return self, 1.0

    def rows(self, x: Matrix, dtype: DTypeLike) -> Matrix:
        return x

    def columns(self, x: Matrix, dtype: DTypeLike) -> Matrix:
        return np.asarray(self.function(self.seen(x)), dtype)

    def width(self, d: int) -> int:
        return self.size + d

    def tile(self, rows: Matrix, columns: Matrix, out: Matrix, work: Matrix) -> None:
        out[:] = columns.T[rows[:, 0]]
