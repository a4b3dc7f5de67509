"""A chain of two-sided tests as one test of joint independence."""

from __future__ import annotations

from typing import NamedTuple

from dhsic.engine.session import Session
from dhsic.estimators.outcomes import ChainOutcome, ChainStage, Outcome
from dhsic.estimators.resample import TwoSided
from dhsic.kernels import Grid
from dhsic.nulls import (
    Aggregated,
    Chain,
    Replicates,
    Strength,
    aggregate,
    combine_pvalues,
    pvalue,
)
from dhsic.results import GridSummary, KernelCombination, StageSummary


class Chained(NamedTuple):
    """Result of a chain of tests."""

    outcome: Outcome
    """Outcome of the combined p-values of all stages."""
    grid: GridSummary | None
    """The combinations of kernels at the stage that decided, where there were several."""
    stages: tuple[StageSummary, ...]
    """Every stage by itself."""


class _StageTest(NamedTuple):
    """A stage with its p-value."""

    stage: ChainStage
    whole: Aggregated
    pvalue: float


def combine_chain(session: Session, chain: ChainOutcome, grid: Grid, null: Chain) -> Chained:
    """Combine the stages of a chain.

    Parameters
    ----------
    session : Session
        The run.
    chain : ChainOutcome
        Its stages.
    grid : Grid
        How the statistics of a stage become one.
    null : Chain
        How stages become one.

    Returns
    -------
    Chained
    """
    tested = [_test_of_stage(session, chain, stage, grid) for stage in chain.stages]
    # Fisher's or Sidak's combination of p-values that are independent or larger given those before.
    statistic, law = combine_pvalues([stage_test.pvalue for stage_test in tested], null.combined_by)
    # The stage that decided tells which kernels showed the dependence.
    strongest = min(tested, key=lambda stage_test: stage_test.pvalue)
    # Its estimate would be that of kernels which the same data chose.
    estimate = chain.estimate(chain.combinations.reference())
    summary = _summary_of_stage(chain, strongest, grid) if len(chain.combinations) > 1 else None
    stages = tuple(_summary(session, chain, stage_test) for stage_test in tested)
    strength = Strength.largest([stage_test.whole.strength for stage_test in tested])
    outcome = Outcome(statistic, law, estimate, chain.detail, strength=strength)
    return Chained(outcome, summary, stages)


def _test_of_stage(
    session: Session, chain: ChainOutcome, stage: ChainStage, grid: Grid
) -> _StageTest:
    """The p-value of a stage accounts for the choice among its statistics."""
    statistics, replicates, rounding = stage.resampled
    combination = chain.combinations.chosen[chain.combinations.reference()]
    m = chain.combinations.variables[stage.pairs[0].right]
    # The combination nearest to the median heuristic has a share of the weight to itself.
    # Of that combination the kernels up to this variable make the statistic.
    reference = stage.pairs.index(TwoSided.of(combination[: m + 1]))
    whole = aggregate(
        statistics,
        replicates,
        grid.aggregate,
        rounding,
        session.dtype,
        reference=reference,
        share=grid.reference_share,
    )
    # One statistic needs no score: its replicates are compared with it as they are.
    if len(stage.pairs) == 1:
        law, tie = Replicates(replicates[:, 0]), float(rounding[0])
        return _StageTest(stage, whole, pvalue(float(statistics[0]), law, session.dtype, tie))
    return _StageTest(
        stage, whole, pvalue(whole.statistic, whole.distribution, session.dtype, whole.rounding)
    )


def _combination_of(chain: ChainOutcome, tested: _StageTest) -> int:
    """A combination of kernels that has those of the statistic that decided."""
    pair = tested.stage.pairs[tested.whole.strongest]
    # Combinations share the statistics of their first variables: any that has these kernels will
    # do.
    kernels = {*pair.left, pair.right}
    return next(
        c for c, combination in enumerate(chain.combinations.chosen) if kernels <= set(combination)
    )


def _summary(session: Session, chain: ChainOutcome, tested: _StageTest) -> StageSummary:
    pair = tested.stage.pairs[tested.whole.strongest]
    variables, kernels = chain.combinations.variables, chain.combinations.kernels
    return StageSummary(
        variable=session.names[variables[pair.right]],
        others=tuple(session.names[variables[k]] for k in pair.left),
        kernels=tuple(kernels[k].spec() for k in (*pair.left, pair.right)),
        statistic=float(tested.stage.resampled.statistics[tested.whole.strongest]),
        pvalue=tested.pvalue,
    )


def _summary_of_stage(chain: ChainOutcome, tested: _StageTest, grid: Grid) -> GridSummary:
    """Every combination by the statistic of all its kernels at a stage."""
    m = chain.combinations.variables[tested.stage.pairs[0].right]
    places = {(pair.left, pair.right): c for c, pair in enumerate(tested.stage.pairs)}
    at = [places[combination[:m], combination[m]] for combination in chain.combinations.chosen]
    combinations = tuple(
        KernelCombination(
            tuple(kernel.spec() for kernel in chain.combinations.kernels_of(c)),
            float(tested.stage.resampled.statistics[place]),
            float(tested.whole.standardised[place]),
            float(tested.whole.pvalues[place]),
            chain.combinations.factors_of(c),
        )
        for c, place in enumerate(at)
    )
    return GridSummary(
        grid.aggregate,
        grid.reference_share,
        chain.combinations.reference(),
        _combination_of(chain, tested),
        combinations,
    )
