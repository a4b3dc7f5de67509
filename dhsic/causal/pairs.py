"""Which of two variables is the cause: residuals of either regression, and what they depend on."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dhsic._drawing import BLUE, ORANGE, axes_of, shortened
from dhsic._progress import Progress, shows_progress
from dhsic._random import RngLike, generator, resolve_seed
from dhsic._validation import check_integer, named_arguments
from dhsic._version import __version__
from dhsic.causal.decisions import CausalDirection, CausalDirections, Criterion
from dhsic.causal.measure import Measure
from dhsic.causal.nodes import open_nodes
from dhsic.causal.regression import Regression, RegressionName, find_regression
from dhsic.engine.events import StepStarted
from dhsic.errors import DataError, DhsicError, InvalidArgumentError
from dhsic.estimators import Estimator, EstimatorName, Null, NullName
from dhsic.io.missing import Missing
from dhsic.kernels import Kernel, KernelName
from dhsic.results import Result, rows_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PairResiduals", "direction", "directions", "pair_residuals"]

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class PairResiduals(Result):
    """Two standardised variables, and what the regression of each on the other leaves.

    Parameters
    ----------
    names : tuple of str
        Of the variables.
    first, second : ndarray, shapes (n, d_1) and (n, d_2)
        The variables, each column of mean 0 and variance 1.
    of_second : ndarray, shape (n, d_2)
        Residuals of the second given the first: the direction forward.
    of_first : ndarray, shape (n, d_1)
        Residuals of the first given the second: the direction backward.
    regression : str
        Its name.
    seed : int
        Fixes every draw.
    dropped : int, optional
        Rows that were left out since a value was missing.
    """

    _tabular: ClassVar[bool] = True

    names: tuple[str, str]
    first: Vector
    second: Vector
    of_second: Vector
    of_first: Vector
    regression: str
    seed: int
    dropped: int = 0

    def records(self) -> list[dict[str, Any]]:
        """Every row: both variables, and the residuals of each."""
        one, two = self.names
        parts = {
            one: self.first,
            two: self.second,
            f"residual of {two}": self.of_second,
            f"residual of {one}": self.of_first,
        }
        columns = {
            name if values.shape[1] == 1 else f"{name}[{j}]": column.tolist()
            for name, values in parts.items()
            for j, column in enumerate(values.T)
        }
        rows = zip(*columns.values(), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        one, two = self.names
        return [
            ("residuals", f"{two} given {one}, and {one} given {two}"),
            ("regression", self.regression),
            ("n", rows_text(len(self.first), self.dropped)),
            ("seed", str(self.seed)),
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Residuals of either first column against that of the other variable.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure where not given.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        MissingDependencyError
            matplotlib is not installed.
        """
        axes = axes_of(ax, (6.0, 4.2))
        one, two = (shortened(name, 24) for name in self.names)
        sides = (
            (one, two, self.first, self.of_second, BLUE),
            (two, one, self.second, self.of_first, ORANGE),
        )
        for cause, effect, values, left, color in sides:
            label = f"{effect} given {cause}"
            axes.scatter(values[:, 0], left[:, 0], s=8, alpha=0.5, color=color, label=label)
        axes.set(xlabel="the given variable, standardised", ylabel="residual")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(loc="best", fontsize=9, frameon=False)
        return axes

    def decide(self, measure: Measure) -> CausalDirection:
        """Compare both directions.

        Parameters
        ----------
        measure : Measure
            What is compared.

        Returns
        -------
        CausalDirection
        """
        began = time.perf_counter()
        one, two = self.names
        measure, reason = measure.settled(self.first, self.second)
        forward = measure.side(self.first, self.of_second, (one, f"residuals of {two}"), self.seed)
        backward = measure.side(self.second, self.of_first, (two, f"residuals of {one}"), self.seed)
        return CausalDirection(
            names=self.names,
            score=measure.score(forward.side, backward.side),
            forward=forward.side,
            backward=backward.side,
            criterion=measure.criterion,
            estimator=forward.estimator,
            estimator_reason=reason,
            null=forward.null,
            regression=self.regression,
            n=len(self.first),
            seed=self.seed,
            seconds=time.perf_counter() - began,
            version=__version__,
            dropped=self.dropped,
        )


def pair_residuals(
    x: Any,
    y: Any,
    *,
    regression: RegressionName | Regression = "splines",
    max_rows: int | None = None,
    rng: RngLike = None,
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: Missing = "refuse",
) -> PairResiduals:
    """Residuals of either variable given the other, for `PairResiduals.decide` by several measures.

    Parameters
    ----------
    x, y, regression, max_rows, rng, names, data, missing
        As for `direction`.

    Returns
    -------
    PairResiduals

    Raises
    ------
    InvalidArgumentError, DataError, MissingDependencyError
        As for `direction`.

    Examples
    --------
    >>> import numpy as np
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 200))
    >>> found = pair_residuals(x, np.tanh(x) + 0.2 * noise, rng=0)
    >>> found.decide(Measure(criterion="hsic", estimator="rff-hsic")).estimator
    'rff-hsic'
    """
    fitted = find_regression(regression)
    session = open_nodes((x, y), names, data, missing, rng)
    rows = np.arange(session.n)
    if max_rows is not None and check_integer("max_rows", max_rows, minimum=4) < session.n:
        draw = generator(session.seed, "selection")
        rows = np.sort(draw.choice(session.n, max_rows, replace=False))
    one, two = session.names
    first, second = (
        _standardised(name, values)
        for name, values in zip(session.names, session.take([rows, rows]), strict=True)
    )
    # The same draws for both, so that exchanged variables give the opposite answer.
    of_second, of_first = (
        fitted.residuals(target, [given], generator(session.seed, "regression"))
        for target, given in ((second, first), (first, second))
    )
    for left, target, given in ((of_second, two, one), (of_first, one, two)):
        _check_left(left, target, given)
    session.verify()
    return PairResiduals(
        (one, two), first, second, of_second, of_first, fitted.name, session.seed, session.dropped
    )


@named_arguments
def direction(
    x: Any,
    y: Any,
    *,
    criterion: Criterion = "p-value",
    estimator: EstimatorName | Estimator = "auto",
    regression: RegressionName | Regression = "splines",
    null: NullName | Null | None = None,
    n_resamples: int | None = None,
    kernel: KernelName | str | Kernel | None = "gaussian",
    max_rows: int | None = None,
    rng: RngLike = None,
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: Missing = "refuse",
    threads: int | None = None,
    memory: int | str = "2GiB",
) -> CausalDirection:
    """Which of two variables is the cause of the other, under additive noise.

    If y = f(x) + noise with noise independent of x, the residuals of y given x are independent of
    x, while those of x given y depend on y but for exceptions, such as linear f with normal noise
    [1]_. So the direction with the less dependent residuals is preferred. That one of them is the
    cause is taken for granted: neither a common cause nor feedback is looked for.

    Parameters
    ----------
    x, y : array-like, shapes (n,) or (n, d)
        As for `independence_test`; the rows that are used are held in memory, each column
        standardised.
    criterion : {"p-value", "larger-p-value", "hsic", "sensitivity"}, optional
        What is compared. "p-value": the score is the difference of the logarithms of both
        p-values; "larger-p-value": the larger p-value, with the sign of its direction, which is
        small where neither direction fits; see [2]_ for what such scores are worth. "hsic": the
        difference of HSIC, -C of [3]_. "sensitivity": the difference of the norms of the
        sensitivity maps, C_s of [3]_, each norm the root mean square over the rows of the
        derivatives of n HSIC.
    estimator : str or Estimator, optional
        "v-hsic", "rff-hsic", "nystrom-m", or another one that has what the criterion needs. "auto"
        takes "v-hsic" where all pairs of rows fit the memory and ten minutes of one thread, and
        "nystrom-m" beyond, for both directions alike.
    regression : str or Regression, optional
        "splines", "random-forest", "gaussian-process", or a value.
    null : str or Null, optional
        Of the p-values, for criteria that compare them: "gamma" where not given. Residuals are
        estimates, so that p-values are approximate in any case; those of permutations cannot rank
        what is far below 1 / n_resamples. None is below 2.2e-308: where both directions are
        rejected as strongly, as heteroscedastic noise does to thousands of rows, the score is 0,
        and "hsic" still ranks.
    n_resamples : int, optional
        As for `independence_test`.
    kernel : str, Kernel or None, optional
        Of variables and residuals; None for estimators with a kernel of their own, as "dcov".
    max_rows : int, optional
        Rows at most, drawn at random; all where not given.
    rng, names, data, missing, threads, memory
        As for `independence_test`.

    Returns
    -------
    CausalDirection
        Exchanging x and y changes the sign of the score and nothing else.

    Raises
    ------
    InvalidArgumentError
        An option cannot be used.
    DataError
        The data cannot be used: NaN, unequal lengths, a constant column, or a variable that is
        a function of the other without noise.
    MissingDependencyError
        The regression needs a library that is not installed.

    References
    ----------
    .. [1] P. Hoyer, D. Janzing, J. Mooij, J. Peters, B. Schoelkopf. Nonlinear causal discovery with
       additive noise models. NIPS 2008.
    .. [2] J. Mooij, J. Peters, D. Janzing, J. Zscheischler, B. Schoelkopf. Distinguishing cause
       from effect using observational data: methods and benchmarks. JMLR 17(32), 2016.
    .. [3] A. Perez-Suay, G. Camps-Valls. Sensitivity maps of the Hilbert-Schmidt independence
       criterion. Applied Soft Computing 70, 2018, section 4.5.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic import causal
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-1.0, 1.0, 300)
    >>> y = x + x**3 + rng.uniform(-0.5, 0.5, 300)
    >>> causal.direction(x, y, names=["x", "y"], rng=0).direction
    'x -> y'
    """
    began = time.perf_counter()
    measure = Measure(
        criterion=criterion,
        estimator=estimator,
        null=null,
        n_resamples=n_resamples,
        kernel=kernel,
        memory=memory,
        threads=threads,
    )
    found = pair_residuals(
        x,
        y,
        regression=regression,
        max_rows=max_rows,
        rng=rng,
        names=names,
        data=data,
        missing=missing,
    )
    return replace(found.decide(measure), seconds=time.perf_counter() - began)


@shows_progress
def directions(
    pairs: Sequence[tuple[Any, Any]] | Mapping[str, tuple[Any, Any]],
    *,
    rng: RngLike = None,
    progress: Progress = None,
    **options: Any,
) -> CausalDirections:
    """The direction of each of many pairs.

    Parameters
    ----------
    pairs : sequence or mapping of pairs of array-like
        Each (x, y) as for `direction`; the keys of a mapping are names of the pairs.
    rng : int, SeedSequence, BitGenerator, Generator or None, optional
        One seed for all. Every pair draws from a seed of its own, which is in its result.
    progress : bool or callable, optional
        As for `dhsic.independence_test`; a callable hears of a step a pair.
    **options : object
        As for `direction`.

    Returns
    -------
    CausalDirections

    Raises
    ------
    InvalidArgumentError, DataError, MissingDependencyError
        As for `direction`; the message names the pair.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic import causal
    >>> rng = np.random.default_rng(0)
    >>> x, noise = rng.uniform(-1.0, 1.0, (2, 300))
    >>> y = x + x**3 + 0.5 * noise
    >>> found = causal.directions({"up": (x, y), "down": (y, x)}, criterion="hsic", rng=0)
    >>> found.scores > 0
    array([ True, False])
    """
    began = time.perf_counter()
    named = _named(pairs)
    seed = resolve_seed(rng)
    results = []
    for number, (name, (x, y)) in enumerate(named.items()):
        if callable(progress):
            progress(StepStarted(f"{name}, pair {number + 1} of {len(named)}"))
        try:
            results.append(direction(x, y, rng=_own_seed(seed, number), **options))
        except DhsicError as error:
            msg = f"pair {name!r}: {error}"
            raise type(error)(msg) from error
    return CausalDirections(
        pairs=tuple(named),
        results=tuple(results),
        seed=seed,
        seconds=time.perf_counter() - began,
    )


def _own_seed(seed: int, number: int) -> int:
    """The seed of one of many pairs."""
    return int(np.random.SeedSequence(seed, spawn_key=(number,)).generate_state(1, np.uint64)[0])


def _named(pairs: Any) -> dict[str, tuple[Any, Any]]:
    if isinstance(pairs, Mapping):
        named = {str(name): pair for name, pair in pairs.items()}
        if len(named) < len(pairs):
            msg = f"names of pairs must differ as text, got {list(pairs)}: rename those that do not"
            raise InvalidArgumentError(msg)
    elif isinstance(pairs, Sequence) and not isinstance(pairs, str):
        named = {f"pair{number}": pair for number, pair in enumerate(pairs, 1)}
    else:
        named = {}
    wrong = [
        name for name, pair in named.items() if not isinstance(pair, tuple | list) or len(pair) != 2
    ]
    if wrong or not named:
        got = f"{wrong[0]!r} without" if wrong else f"{type(pairs).__name__} without any"
        msg = f"pairs must be one or more pairs (x, y) of arrays, got {got}: give a list of tuples"
        raise InvalidArgumentError(msg)
    return named


def _standardised(name: str, values: Vector) -> Vector:
    """Columns of mean 0 and variance 1."""
    centred = values - values.mean(axis=0)
    constant = np.flatnonzero((values == values[0]).all(axis=0))
    if len(constant):
        msg = f"variable {name!r} is constant in column {int(constant[0])}: leave the column out"
        raise DataError(msg)
    # By powers of two, which are exact, so that no square overflows or vanishes.
    _, exponents = np.frexp(np.abs(centred).max(axis=0))
    even = np.ldexp(centred, -exponents)
    scaled: Vector = even / np.sqrt(np.mean(even**2, axis=0))
    return scaled


def _check_left(residuals: Vector, target: str, given: str) -> None:
    """Refuse residuals that are rounding errors: of them nothing can be said."""
    if not np.sqrt(np.mean(residuals**2)) > math.sqrt(np.finfo(np.float64).eps):
        msg = (
            f"variable {target!r} must be a function of {given!r} with noise added, and the "
            "regression leaves none: such a pair tells no direction, leave it out"
        )
        raise DataError(msg)
