"""Arguments, the choice of a method and fields of results, which public functions share.

`RowLabels` and `RunOptions` check arguments and open sessions. `choose_measure` and `choose_method`
read kernels and estimators and make what computes a measure or a test. `tested_fields`,
`result_fields` and `run_fields` return the fields that results share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from inspect import Parameter, signature
from time import perf_counter
from typing import (
    Any,
    Literal,
    NamedTuple,
    ParamSpec,
    TypedDict,
    TypeVar,
    cast,
    get_args,
    get_type_hints,
)

import numpy as np

from dhsic._progress import Progress, shows_progress
from dhsic._random import RngLike, generator, resolve_seed
from dhsic._validation import check_choice, check_level, named_arguments, parse_seconds, shown
from dhsic._version import __version__
from dhsic.engine.events import ignore
from dhsic.engine.passes import Source, ValueKind, kinds_of, labels_of
from dhsic.engine.plan import Plan
from dhsic.engine.runtime import Runtime, current_client, graphs_on
from dhsic.engine.session import Session
from dhsic.engine.units import parse_bytes
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.estimators import VHSIC, Estimator, Null
from dhsic.estimators.base import Estimate
from dhsic.estimators.choose import (
    ChainMethod,
    Intervals,
    Method,
    Planner,
    Runner,
    Stages,
    choose_estimator,
    described_plan,
    draws_replicates,
    find_estimator,
    find_null,
    keeping,
    plan_once,
    planned,
    takes_variables,
    usual_grid,
)
from dhsic.io.open import names_of, open_labelled_data
from dhsic.io.urls import Folder
from dhsic.io.variables import GapTreatment, count_gaps, held_sources, read_weights
from dhsic.kernels import (
    Candidates,
    Columns,
    Combinations,
    Gaussian,
    Grid,
    Kernel,
    KernelName,
    by_column,
    by_type,
    parse,
)
from dhsic.kernels.grid import SMOOTH
from dhsic.kernels.wrap import stretched
from dhsic.nulls import Chain, Replicates, TimeOrder, monte_carlo_error, pvalue
from dhsic.results import AS_ASKED, VariableSummary
from dhsic.statistics.neighbours import Neighbours
from dhsic.statistics.orbit import check_codes, check_order, codes_of, moves_of

Given = ParamSpec("Given")
Returned = TypeVar("Returned")
Kernels = KernelName | str | Kernel | Sequence[KernelName | str | Kernel | None]
Precision = Literal["float64", "float32"]
Order = Literal["time"] | TimeOrder


class SharedArguments(TypedDict, total=False):
    """The arguments of `RunOptions` that all functions have."""

    rng: RngLike
    precision: Precision
    client: Any
    threads: int | None
    memory: int | str
    progress: Progress


class UntimedArguments(SharedArguments, total=False):
    """The arguments of `RunOptions` where nothing is chosen by its time."""

    checkpoint: str | None


class UncheckedArguments(SharedArguments, total=False):
    """The arguments of `RunOptions` where no checkpoint is kept."""

    time: float | str | None


class RunArguments(UntimedArguments, UncheckedArguments, total=False):
    """The arguments of `RunOptions`, for the signatures of public functions."""


def takes_run(
    function: Callable[Given, Returned], taken: type[Any] = RunArguments
) -> Callable[Given, Returned]:
    """Make a public function of one whose last parameter, `RunArguments`, says how it runs.

    Its signature lists them, with the defaults of `RunOptions`; it shows progress, see
    `shows_progress`, and says which argument was meant, see `named_arguments`.
    """
    given, made = signature(function), function  # type: Any, Any
    *own, last = given.parameters.values()
    hints = get_type_hints(taken)
    every = [
        Parameter(one.name, Parameter.KEYWORD_ONLY, default=one.default, annotation=hints[one.name])
        for one in fields(RunOptions)
        if one.name in hints
    ]
    made.__signature__ = given.replace(parameters=[*own, *every])
    made = named_arguments(shows_progress(function))
    made.__annotations__ = function.__annotations__ | {one.name: one.annotation for one in every}
    del made.__annotations__[last.name]
    return cast(Callable[Given, Returned], made)


class RowLabels(NamedTuple):
    """Strata, groups, order and weights of the rows, see `dhsic.independence_test`."""

    strata: Any = None
    groups: Any = None
    order: Order | None = None
    weights: Any = None

    @property
    def given(self) -> dict[str, Any]:
        """Those that have one a row, by their arguments."""
        each = {"strata": self.strata, "groups": self.groups, "weights": self.weights}
        return {what: labels for what, labels in each.items() if labels is not None}

    def checked(self, missing: str) -> TimeOrder | None:
        """The order, where none of them excludes another, whatever the data are."""
        beside = [what for what in self.given if what != "weights"]
        beside += ["order"] if self.order is not None else []
        if self.weights is not None and beside:
            msg = (
                f"weights need independent draws, got {' and '.join(beside)} as well: leave "
                "out the weights, or the others"
            )
            raise InvalidArgumentError(msg)
        if self.weights is not None and missing == "pairwise":
            msg = "weights need complete rows, got missing='pairwise' as well: take missing='drop'"
            raise InvalidArgumentError(msg)
        return check_order(self.order, strata=self.strata is not None)

    def check_confidence(self, confidence: float | None, minimum: float | None = None) -> None:
        """Refuse a level or a minimum that is none, or intervals of rows that depend or weigh.

        Raises
        ------
        InvalidArgumentError
            Says which.
        """
        levels = ("confidence", confidence, "as 0.95"), ("minimum", minimum, "as 0.04")
        asked = [what for what, value, _ in levels if value is not None]
        for what, value, usual in levels:
            if value is not None:
                check_level(value, what, usual)
        # Rows of a stratum are standardised together: with strata of two rows 63 % of intervals of
        # 95 % held the truth.
        each = {"order": self.order, **self.given}
        given = [what for what, value in each.items() if value is not None]
        if asked and given:
            msg = (
                f"intervals are for independent rows that count alike, got {' and '.join(given)} "
                f"beside {' and '.join(asked)}: leave either out"
            )
            raise InvalidArgumentError(msg)


ALL_ROWS = RowLabels()
DROP_MISSING = "; missing='drop' drops those with NaN"


@dataclass(frozen=True)
class RunOptions:
    """How a function runs: the arguments that all public functions have, see `independence_test`.

    A plan draws nothing, and has any seed.
    """

    rng: RngLike = None
    precision: str = "float64"
    client: Any = None
    threads: int | None = None
    memory: int | str = "2GiB"
    time: float | str | None = None
    progress: Any = None
    checkpoint: str | None = None
    began: float = field(default_factory=perf_counter)
    """When the function was called."""

    def open(
        self,
        variables: Sequence[Any],
        names: Sequence[str] | None,
        data: Any,
        missing: GapTreatment,
        rows: RowLabels = ALL_ROWS,
        *,
        pairwise: bool = False,
        what: str = "a test of independence",
        fewest: int = 4,
        takes_constants: bool = False,
    ) -> Session:
        """Open variables with what is said of their rows, and begin a run over them.

        `pairwise` says whether rows with a gap may stay, by missing="pairwise". Shifts and
        permutations of fewer than four rows have too few orders, and kernels no spread.
        """
        order, memory = rows.checked(missing), parse_bytes(self.memory)
        with graphs_on(self.client, self.threads):
            sources, labels, dropped = open_labelled_data(
                variables, names, data, missing, rows.given, pairwise=pairwise
            )
            if dropped and order is not None and order.period > 1:
                # Rows that are left out would move those behind them.
                msg = (
                    f"a period of {order.period} rows needs all rows, and {dropped:,} that miss a "
                    "value would be left out: take missing='pairwise', or fill the gaps"
                )
                raise DataError(msg)
            gaps = tuple(map(count_gaps, sources)) if missing == "pairwise" else ()
            # Weights are numbers; the other labels are names, which become codes.
            weights = None
            if "weights" in labels:
                if len(sources) != 2:
                    msg = f"weights are for two variables, got {len(sources)}: test two at a time"
                    raise InvalidArgumentError(msg)
                weights = read_weights(labels.pop("weights"), memory)
            if labels:
                check_codes(list(labels.values()), memory)
            codes = {what: codes_of(source, what) for what, source in labels.items()}
            strata, groups = codes.get("strata"), codes.get("groups")
            if labels:
                # Moves go between any rows, so that chunks could not be read in order.
                sources = held_sources(sources, memory, strata)
        n = sources[0].shape[0]
        if n < fewest:
            left = f", and {dropped:,} that miss a value were left out" if dropped else ""
            # Few rows and many columns, or one array alone, look like a table on its side.
            wide = len(variables) == 1 or any(source.shape[1] > n for source in sources)
            turned = "; rows are observations: pass variables one by one, or transpose them"
            msg = (
                f"{what} needs at least {fewest} rows, got {n}{left}: add rows"
                f"{turned if wide else ''}"
            )
            raise DataError(msg)
        session = self.over(sources, dropped, takes_constants=takes_constants)
        return replace(
            session,
            moves=moves_of(n, strata, groups, order, session.seed),
            weights=weights,
            # Without gaps the variables are read, and their kernels computed, as with "refuse".
            gaps=gaps if any(of_variable.any for of_variable in gaps) else (),
        )

    def over(
        self,
        sources: Sequence[Source],
        dropped: int | None = None,
        *,
        takes_constants: bool = False,
    ) -> Session:
        """Begin a run over variables that are open; `dropped` is None where no rows can be."""
        check_choice("precision", self.precision, get_args(Precision))
        client = self.client
        # A graph of Dask is computed by the client at hand, as Dask itself would.
        if client is None and self.threads is None and any(s.place == "graph" for s in sources):
            client = current_client()
        check_seeded(self.rng, self.checkpoint)
        folder = None if self.checkpoint is None else Folder.at(self.checkpoint, "checkpoint")
        memory = parse_bytes(self.memory)
        runtime = Runtime.of(client, self.threads, memory)
        seconds = None if self.time is None else parse_seconds(self.time)
        runtime = replace(runtime, seconds=seconds)
        return Session(
            tuple(sources),
            runtime,
            resolve_seed(self.rng),  # once: a seed that is drawn is told by the result
            np.dtype(self.precision),
            self.progress or ignore,
            folder,
            takes_constants,
            self.began,
            dropped or 0,
            "" if dropped is None else DROP_MISSING,
        )


def check_seeded(rng: RngLike, checkpoint: str | None) -> None:
    """Refuse a checkpoint of a run that would draw anew when it is called again."""
    if checkpoint is not None and rng is None:
        msg = "rng must be a seed with a checkpoint, or a rerun draws other rows: pass rng=0"
        raise InvalidArgumentError(msg)


def read_given(
    x: Any, y: Any, given: Any, names: Sequence[str] | None, data: Any
) -> tuple[tuple[Any, ...], Sequence[str] | None]:
    """Two variables with the given ones, one or a list of them, and the names of all.

    Raises
    ------
    InvalidArgumentError
        The list is empty.
    """
    conditions = list(given) if isinstance(given, list | tuple) else [given]
    if not conditions:
        msg = "given must hold a variable or more, got none: use dhsic.independence_test"
        raise InvalidArgumentError(msg)
    variables = (x, y, *conditions)
    # A variable without a name of its own is known by its part in the question.
    if names is None and data is None:
        several = [f"z{j}" for j in range(1, len(conditions) + 1)]
        names = names_of(variables, ["x", "y", *(several if len(conditions) > 1 else ["z"])])
    return variables, names


_VARIABLE_BY_VARIABLE = "exact for exchangeable rows, variable after variable"
_USUAL = Candidates()


def _read_kernels(
    kernels: Any, m: int, argument: str = "kernels", of: str = "variables"
) -> Grid | tuple[Kernel | None, ...]:
    """Kernels as given for the variables; None leaves one open."""
    if isinstance(kernels, Grid):
        return kernels
    if kernels is None or isinstance(kernels, (str, Kernel, type)):
        # One kernel for all of them, whatever their number.
        kernels = [kernels] * m
    if not isinstance(kernels, Sequence):
        msg = (
            f"{argument} must be one kernel, or one for each of {m} {of}, got {shown(kernels)}: "
            "write 'gaussian:0.5', for instance"
        )
        raise InvalidArgumentError(msg)
    if len(kernels) != m:
        msg = f"{argument} must be one, or one for each of {m} {of}, got {len(kernels)}"
        raise InvalidArgumentError(msg)
    if any(isinstance(kernel, Candidates) for kernel in kernels):
        # Candidates of any variable make a grid: kernels that are given are those of one candidate.
        return Grid(tuple(k if isinstance(k, Candidates) else _candidates(k) for k in kernels))
    return tuple(read_kernel(kernel) for kernel in kernels)


def read_single_kernels(
    kernels: Any, m: int, what: str, argument: str = "kernels", of: str = "variables"
) -> tuple[Kernel | None, ...]:
    """One kernel a variable as given; None leaves one open.

    Raises
    ------
    InvalidArgumentError
        A grid, which what is asked for does not take, or something else.
    """
    asked = _read_kernels(kernels, m, argument, of)
    if isinstance(asked, Grid):
        msg = (
            f"{what} needs one kernel for each variable, got several as {argument}: name one, as "
            "'gaussian'"
        )
        raise InvalidArgumentError(msg)
    return asked


def choose_measure(
    session: Session, kernels: Any, estimator: str | Estimator, **how: Any
) -> tuple[Estimator, str, tuple[Kernel, ...]]:
    """The estimator, why this one, and the kernel that it will fit to each variable.

    How it is chosen is said as to `choose_estimator`: "auto" is unbiased of two variables, unless
    `unbiased` is false; `planner` and `runner` are of what runs, if not the estimate alone.

    Raises
    ------
    InvalidArgumentError
        A grid, or a kernel that a variable cannot have.
    """
    asked = read_single_kernels(kernels, len(session.sources), "an estimate")
    named = _estimator_as_given(estimator, session)
    fitting = _checked(_single(asked, named, session, Gaussian()), session)
    chosen, _, reason = choose_estimator(estimator, session, fitting, None, None, **how)
    return chosen, reason, fitting.kernels


def plan_measure(
    session: Session,
    estimator: Estimator,
    kernels: Sequence[Kernel],
    asked: Sequence[Intervals] = (),
) -> Plan:
    """The plan of an estimate; a refusal names the largest numbers that fit."""
    once = partial(plan_once, null=None)
    plan = planned(once, estimator, session, Combinations.single(kernels))
    # An interval comes with the estimate.
    alone = all(one.estimator != estimator for one in asked)
    steps = [step for one in asked for step in one.steps(session)]
    return replace(plan, steps=(*(plan.steps if alone else ()), *steps))


def _estimator_as_given(
    estimator: str | Estimator, session: Session, n_variables: int | None = None
) -> Estimator | None:
    """The estimator of so many variables as given; None where it is left open."""
    if isinstance(estimator, str) and estimator == "auto":
        return None
    return find_estimator(estimator, session, n_variables)


def _single(
    asked: Sequence[Kernel | None], named: Estimator | None, session: Session, smooth: Kernel
) -> Combinations:
    """One kernel a variable: what was given, or what suits the values and the estimator."""
    chosen = []
    for kernel, source in zip(asked, session.sources, strict=True):
        kinds = kinds_of(source)
        if named is None:
            suited = kernel or by_type(kinds, smooth)
        else:
            usual = suited = named.kernel(kernel)
            # As the estimator says: distances and linear kernels have no meaning for codes.
            needs_numbers = getattr(named, "needs_numbers", False)
            if kernel is None and needs_numbers and "category" in kinds:
                msg = (
                    f"estimator {named.name!r} compares numbers, and variable {source.name!r} "
                    "holds categories: take estimator='auto', or an indicator of each category"
                )
                raise InvalidArgumentError(msg)
            if kernel is None and not needs_numbers:
                if isinstance(usual, Columns):
                    suited = by_column(kinds, usual)
                # Categories have the kernel of equality; the estimator may refuse it.
                elif (equal := by_type(kinds, usual)) != usual:
                    suited = named.kernel(equal)
        chosen.append(suited)
    return Combinations.single(chosen)


def choose_method(
    session: Session,
    kernels: Any,
    estimator: str | Estimator,
    null: str | Null,
    n_resamples: int | None,
) -> Method:
    """The options that were given, and defaults for the rest.

    Raises
    ------
    InvalidArgumentError
        Options exclude each other.
    """
    m = len(session.sources)
    asked = _read_kernels(kernels, m)
    chained = _takes_chain(session, estimator, null)
    named = _estimator_as_given(estimator, session, 2 if chained else m)
    grid = asked if isinstance(asked, Grid) else Grid(tuple(map(_candidates, asked)))
    given, kinds = isinstance(asked, Grid) or any(asked), tuple(map(kinds_of, session.sources))
    # A grid is corrected for by the replicates that its kernels share: a null of a formula has
    # none, and nor have kernels of weighted rows.
    tries = draws_replicates(null) and (named is None or named.tries_grids)
    tries = tries and session.weights is None
    # Random features exist for kernels of differences alone (Bochner's theorem).
    invariant = getattr(named, "needs_invariance", False)
    if tries and m == 2 and not given and not invariant:
        grid, combinations = usual_grid(kinds)
    elif isinstance(asked, Grid) or (tries and m == 2):
        grid = grid.by_type(kinds, invariant=invariant)
        combinations = grid.combinations(m)
    else:
        smooth = parse(SMOOTH) if chained else Gaussian()
        combinations = _single(asked, named, session, smooth)
    checked = _checked(combinations, session)
    if chained:
        # Tests of two variables, by the estimator that these would have.
        left_open = tries and all(session.finite) and not given
        stages = Stages.of(session, None if left_open else checked)
        asked_null = Chain.name if isinstance(null, str) else null
        pairs = stages.combinations
        law, told = find_null(asked_null, named or VHSIC(), session, n_resamples, pairs)
        assert isinstance(law, Chain)
        told = told if asked_null == null else told.replace(AS_ASKED, _VARIABLE_BY_VARIABLE)
        shifts, batch = stages.null(law), stages.session(session)
        chosen, pairs, reason = choose_estimator(
            estimator, batch, pairs, shifts, None, reducible=left_open
        )
        reference = checked.reference()
        lengths = checked.of(checked.factors, reference)
        single = Combinations.single([*map(stretched, checked.kernels_of(reference), lengths)])
        joint = estimator if named and takes_variables(named, m) else "auto"
        measure, *_ = choose_estimator(joint, session, single, None, None, unbiased=False)
        stages = replace(stages, combinations=pairs)
        return ChainMethod(chosen, reason, pairs, grid, law, told, stages, measure, single.kernels)
    # Kernels that were given are all kept; those that nobody chose may be fewer.
    reducible = not isinstance(asked, Grid)
    chosen, checked, reason = choose_estimator(
        estimator, session, checked, null, n_resamples, reducible=reducible
    )
    law, null_reason = find_null(null, chosen, session, n_resamples, checked)
    return Method(chosen, reason, checked, grid, law, null_reason)


def _takes_chain(session: Session, estimator: str | Estimator, null: str | Null) -> bool:
    """Whether a test is a chain of tests of two variables."""
    if not isinstance(null, str):
        return isinstance(null, Chain)
    if null != "auto" or session.weights is not None:
        return null == Chain.name
    # Rows of a series are permuted by no one, so that a joint statistic has no replicates.
    serial = session.moves is not None and session.moves.serial
    left_open = isinstance(estimator, str) and estimator == "auto"
    return len(session.sources) > 2 and (left_open or serial)


def _candidates(kernel: Any) -> Candidates:
    """A kernel as it is, or the usual ones where none is given."""
    return _USUAL if kernel is None else Candidates(kernel, (1.0,))


def _checked(combinations: Combinations, session: Session) -> Combinations:
    """Refuse what compares the codes of categories as numbers; kernels of rows with gaps."""
    for kernel, variable in zip(combinations.kernels, combinations.variables, strict=True):
        source = session.sources[variable]
        check_kernel(kernel, kinds_of(source), f"variable {source.name!r}")
    missing = [not finite for finite in session.finite]
    return combinations.with_missing(missing) if any(missing) else combinations


def check_kernel(kernel: Kernel, kinds: Sequence[ValueKind], what: str) -> None:
    """Refuse a kernel that compares the codes of categories as numbers.

    Raises
    ------
    InvalidArgumentError
        Names what it is for.
    """
    codes = [j for j, kind in enumerate(kinds) if kind == "category"]
    if not codes or kernel.measured(len(kinds)).isdisjoint(codes):
        return
    suited = by_type(kinds, Gaussian()).spec()
    msg = (
        f"{what} holds categories, which kernel {kernel.spec()!r} would compare as numbers: take "
        f"{suited!r}, or leave the kernel out"
    )
    raise InvalidArgumentError(msg)


def read_kernel(kernel: Any) -> Kernel | None:
    """The kernel of a text, or as it is."""
    if isinstance(kernel, str):
        return parse(kernel)
    if kernel is None or isinstance(kernel, Kernel):
        return kernel
    msg = f"kernels must be names or Kernel values, got {shown(kernel)}"
    raise InvalidArgumentError(msg)


def run_batch(
    session: Session,
    planner: Planner,
    runner: Runner,
    estimator: Estimator,
    combinations: Combinations,
    null: Null,
    kernels: Sequence[Kernel],
    arguments: Sequence[str] = ("order", "groups", "strata"),
    **described: Any,
) -> Any:
    """Plan a batch of pairs of kernels that share replicates, and run it.

    Parameters
    ----------
    session : Session
        The run.
    planner, runner : callable
        What plans and runs an estimator with combinations of kernels.
    estimator, combinations, null, kernels
        What was chosen.
    arguments : sequence of str, optional
        Those that tell of rows, see `Neighbours`.
    **described : object
        What else its checkpoint is of.

    Returns
    -------
    object
        What the runner returns.
    """
    plan = planned(planner, estimator, session, combinations)
    pilot = partial(session.timed, lambda part: runner(estimator, part, combinations))
    session.begin(described_plan(plan, pilot, plan.estimator or estimator.name, null.name, kernels))
    session.resume(estimator=estimator, kernels=kernels, null=null, **described)
    neighbours = Neighbours(session, arguments)
    found = runner(estimator, session, combinations)
    neighbours.warn()
    return found


def tested_fields(session: Session, method: Method, asked: Sequence[Intervals]) -> dict[str, Any]:
    """Run a test, and return the fields that its result has."""
    kept = keeping(session, asked)
    outcome, grid, stages = method.run(kept)
    _, assessed = assess(kept, asked, outcome.estimate)
    distribution = method.law(outcome.distribution)
    p = pvalue(outcome.statistic, distribution, session.dtype, outcome.rounding)
    if isinstance(distribution, Replicates):
        values, error = distribution.values, monte_carlo_error(p, len(distribution.values))
    else:
        # A law has no replicates: draws from it are shown in their place.
        values, error = distribution.draws(generator(session.seed, "simulation"), 1000), None
    fields = {"statistic": float(outcome.statistic), "null_distribution": values}
    if outcome.strength is not None:
        # The statistic is that of the strongest combination; the score accounts for the choice.
        fields = {
            "statistic": outcome.strength.statistic,
            "null_distribution": outcome.strength.replicates,
            "score": float(outcome.statistic),
            "null_scores": values,
        }
    return {
        **fields,
        "pvalue": p,
        "pvalue_error": error,
        "null": method.null.name,
        "null_reason": "; ".join(filter(None, (method.null_reason, outcome.detail))),
        "grid": grid,
        "stages": stages,
        **result_fields(session, method.estimator, method.estimator_reason, outcome.estimate),
        **assessed,
    }


def assess(
    session: Session, asked: Sequence[Intervals], tested: Estimate | None = None
) -> tuple[list[Estimate], dict[str, Any]]:
    """Run what is asked of an estimate; return an estimate each, and the fields of all."""
    told = [one.run(session, tested) for one in asked]
    fields = {name: value for _, some in told for name, value in some.items()}
    return [estimate for estimate, _ in told], fields


def result_fields(
    session: Session, estimator: Any, reason: str, estimate: Estimate
) -> dict[str, Any]:
    """The fields that estimates and tests have."""
    return {
        "estimate": float(estimate.value),
        "quantity": estimate.quantity,
        "estimator": estimator.name,
        "estimator_reason": reason,
        "variables": tuple(map(variable_summary, session.sources, estimate.kernels)),
        "landmarks": estimate.landmarks,
        "features": estimate.features,
        **run_fields(session),
    }


def run_fields(session: Session) -> dict[str, Any]:
    """The fields of `dhsic.results.RunFields`; stored data must not have changed meanwhile."""
    return {
        "n": session.n,
        "dropped": session.dropped,
        "data": session.verify(),
        "missing": tuple(gaps.rows for gaps in session.gaps),
        "precision": session.dtype.name,
        "seed": session.seed,
        "passes": session.passes,
        "seconds": perf_counter() - session.began,
        "version": __version__,
    }


def variable_summary(source: Source, kernel: Kernel) -> VariableSummary:
    """The name of a variable, its columns and the kernel that was taken."""
    d = source.shape[1]
    # The variable has the name of its one column already.
    labels = labels_of(source) if d > 1 else None
    return VariableSummary(source.name, d, kernel.spec(), labels)
