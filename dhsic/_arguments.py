"""What a user passes to the public functions, made into values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from dhsic._random import resolve_seed
from dhsic._validation import check_choice, parse_bytes, parse_seconds
from dhsic.engine.blocks import Source
from dhsic.engine.plan import Plan
from dhsic.engine.runtime import Runtime, current_client
from dhsic.engine.session import Session
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.estimators import (
    Estimator,
    Null,
    choose_estimator,
    draws_replicates,
    find_estimator,
    find_null,
    tries_grids,
)
from dhsic.estimators.reach import Planner, plan_once, planned
from dhsic.io.folder import Folder
from dhsic.io.open import open_variables
from dhsic.kernels import Candidates, Combinations, Gaussian, Grid, Kernel, parse
from dhsic.nulls import Distribution, FromReplicates, Replicates

__all__ = [
    "Method",
    "Precision",
    "choose_measure",
    "choose_method",
    "open_session",
    "plan_measure",
    "read_kernel",
    "session_over",
]

Precision = Literal["float64", "float32"]


def open_session(
    variables: Sequence[Any],
    names: Sequence[str] | None,
    rng: int | np.random.Generator | None,
    precision: str,
    client: Any,
    threads: int | None,
    memory: int | str,
    progress: Any,
    checkpoint: str | None = None,
    *,
    time: float | str | None = None,
    tests: bool = True,
) -> Session:
    """Open the variables, check what does not depend on them, and say where it runs.

    Estimates without a test take two rows, and constants.
    """
    sources = open_variables(variables, names)
    what, fewest = ("a test of independence", 4) if tests else ("an estimate of dependence", 2)
    if sources[0].shape[0] < fewest:
        msg = f"{what} needs at least {fewest} rows, got {sources[0].shape[0]}: add rows"
        raise DataError(msg)
    where = client, threads, memory, progress, checkpoint
    return session_over(sources, rng, precision, *where, time=time, takes_constants=not tests)


def session_over(
    sources: Sequence[Source],
    rng: int | np.random.Generator | None,
    precision: str,
    client: Any,
    threads: int | None,
    memory: int | str,
    progress: Any,
    checkpoint: str | None = None,
    *,
    time: float | str | None = None,
    takes_constants: bool = False,
) -> Session:
    """A session over variables that are open, as `open_session`."""
    check_choice("precision", precision, get_args(Precision))
    if client is None and threads is None and any(s.place == "graph" for s in sources):
        client = current_client()
    if not callable(progress) and progress is not None:
        msg = f"progress must be callable with one event, got {progress!r}"
        raise InvalidArgumentError(msg)
    if checkpoint is not None and rng is None:
        msg = "rng must be a seed where a checkpoint is given, or a rerun draws anew: as rng=0"
        raise InvalidArgumentError(msg)
    folder = None if checkpoint is None else Folder.at(checkpoint, "checkpoint")
    runtime = _runtime(client, threads, parse_bytes(memory))
    if time is not None:
        runtime = replace(runtime, seconds=parse_seconds(time))
    seed, constants = resolve_seed(rng), takes_constants
    return Session(sources, runtime, seed, precision, progress, folder, takes_constants=constants)


def _runtime(client: Any, threads: int | None, memory: int) -> Runtime:
    if client is None:
        return Runtime.here(threads, memory)
    if threads is not None:
        msg = "threads must be left out where a client is given: its workers have their own"
        raise InvalidArgumentError(msg)
    return Runtime.on(client, memory)


def _read_kernels(kernels: Any, m: int) -> Grid | tuple[Kernel | None, ...]:
    """What was asked for the variables; None leaves one open."""
    if isinstance(kernels, Grid):
        return kernels
    if kernels is None or isinstance(kernels, (str, Kernel)):
        kernels = [kernels] * m
    if not isinstance(kernels, Sequence):
        msg = f"kernels must be a name, a Kernel, a sequence of them, or a Grid, got {kernels!r}"
        raise InvalidArgumentError(msg)
    if len(kernels) != m:
        msg = f"kernels must be one, or one for each of {m} variables, got {len(kernels)}"
        raise InvalidArgumentError(msg)
    if any(isinstance(kernel, Candidates) for kernel in kernels):
        return Grid(tuple(k if isinstance(k, Candidates) else _candidates(k) for k in kernels))
    return tuple(read_kernel(kernel) for kernel in kernels)


def choose_measure(
    session: Session,
    kernels: Any,
    estimator: str | Estimator,
    *,
    unbiased: bool = True,
    planner: Planner | None = None,
) -> tuple[Estimator, str, tuple[Kernel, ...]]:
    """The estimator, why this one, and the kernel that it will fit to each variable.

    "auto" is unbiased of two variables, unless it is to be one that tests are made of. `planner`
    tells what would run, where that is not the estimate alone.

    Raises
    ------
    InvalidArgumentError
        A grid, or a kernel that a variable cannot have.
    """
    asked = _read_kernels(kernels, len(session.sources))
    if isinstance(asked, Grid):
        msg = "an estimate needs one kernel for each variable, got a Grid: that is for tests"
        raise InvalidArgumentError(msg)
    fitting = _checked(_single(asked, _named(estimator, session)), session.sources)
    chosen, _, reason = choose_estimator(
        estimator, session, fitting, None, None, unbiased=unbiased, planner=planner
    )
    return chosen, reason, fitting.kernels


def plan_measure(session: Session, estimator: Estimator, kernels: Sequence[Kernel]) -> Plan:
    """What an estimate would run; where that is refused it tells what would fit."""
    return planned(_plan_estimate, estimator, session, Combinations.single(kernels))


def _plan_estimate(estimator: Estimator, session: Session, combinations: Combinations) -> Plan:
    return plan_once(estimator, session, combinations, None)


def _named(estimator: str | Estimator, session: Session) -> Estimator | None:
    """What was asked for; None where that is left open."""
    if isinstance(estimator, str) and estimator == "auto":
        return None
    return find_estimator(estimator, session)[0]


def _single(asked: Sequence[Kernel | None], named: Estimator | None) -> Combinations:
    """One kernel a variable: what was given, or what the estimator takes."""
    return Combinations.single(
        [kernel or Gaussian() if named is None else named.kernel(kernel) for kernel in asked]
    )


@dataclass(frozen=True)
class Method:
    """How a test is run.

    Parameters
    ----------
    estimator : Estimator
        The statistic.
    estimator_reason : str
        Why this one.
    combinations : Combinations
        Kernels to fit.
    grid : Grid
        How several combinations become one test.
    null : Null
        The null distribution.
    null_reason : str
        Why this one.
    """

    estimator: Estimator
    estimator_reason: str
    combinations: Combinations
    grid: Grid
    null: Null
    null_reason: str

    @property
    def drawn(self) -> Null:
        """The null that the estimator sees: the replicates, of a law that is made of them."""
        return self.null.replicates if isinstance(self.null, FromReplicates) else self.null

    def law(self, found: Distribution) -> Distribution:
        """The distribution of the statistic, from the one that the estimator returns."""
        if not isinstance(self.null, FromReplicates):
            return found
        assert isinstance(found, Replicates)
        return self.null.distribution(found.values)

    @property
    def described(self) -> dict[str, Any]:
        """All of it, for a checkpoint."""
        return {
            "estimator": self.estimator,
            "null": self.null,
            "kernels": self.combinations.kernels,
            "variables_of_kernels": self.combinations.variables,
            "combinations": self.combinations.chosen,
            "factors": self.combinations.factors,
            "grid": self.grid,
        }

    def plan(self, session: Session) -> Plan:
        """What would run; where that is refused it tells what would fit."""

        def planner(estimator: Estimator, some: Session, combinations: Combinations) -> Plan:
            return plan_once(estimator, some, combinations, self.drawn)

        return planned(planner, self.estimator, session, self.combinations)


def choose_method(
    session: Session,
    kernels: Any,
    estimator: str | Estimator,
    null: str | Null,
    n_resamples: int | None,
) -> Method:
    """What was asked for, and for the rest what dhsic takes.

    Raises
    ------
    InvalidArgumentError
        What was asked for does not go together.
    """
    asked = _read_kernels(kernels, len(session.sources))
    named = _named(estimator, session)
    if isinstance(asked, Grid):
        grid, combinations = asked, asked.combinations(len(session.sources))
    else:
        draws = draws_replicates(null)
        grid = Grid(tuple(map(_candidates, asked))) if draws else Grid()
        if draws and (named is None or tries_grids(named)):
            combinations = grid.combinations(len(session.sources))
        else:
            combinations = _single(asked, named)
    chosen, checked, reason = choose_estimator(
        estimator,
        session,
        _checked(combinations, session.sources),
        null,
        n_resamples,
        reducible=not isinstance(asked, Grid),
    )
    found, null_reason = find_null(null, chosen, session, n_resamples, checked)
    return Method(chosen, reason, checked, grid, found, null_reason)


def _candidates(kernel: Any) -> Candidates:
    """A kernel as it is, or the usual ones where none is given."""
    return Candidates() if kernel is None else Candidates(kernel, (1.0,))


def _checked(combinations: Combinations, sources: Sequence[Source]) -> Combinations:
    """Refuse what compares the codes of categories as numbers."""
    for kernel, variable in zip(combinations.kernels, combinations.variables, strict=True):
        source = sources[variable]
        if source.categorical and not kernel.nominal:
            msg = (
                f"variable {source.name!r} holds categories, so its kernel must be 'delta', "
                f"got {kernel.spec()!r}"
            )
            raise InvalidArgumentError(msg)
    return combinations


def read_kernel(kernel: Any) -> Kernel | None:
    """The kernel of a text, or as it is."""
    if isinstance(kernel, str):
        return parse(kernel)
    if kernel is None or isinstance(kernel, Kernel):
        return kernel
    msg = f"kernels must be names or Kernel values, got {kernel!r}"
    raise InvalidArgumentError(msg)
