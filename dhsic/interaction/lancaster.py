"""The Lancaster test of the interaction of three variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from dhsic._arguments import Precision, RunOptions, choose_measure
from dhsic._fields import result_fields
from dhsic._progress import Progress, shows_progress
from dhsic._random import RngLike
from dhsic._rows import RowLabels
from dhsic._spec import name_methods
from dhsic._validation import check_choice, named_arguments
from dhsic.engine.plan import Plan
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators import VHSIC, Estimator, GridOutcome, NystromMHSIC, find_null
from dhsic.estimators.reach import Planner, planned
from dhsic.interaction.result import Factorisation, InteractionTestResult
from dhsic.interaction.statistics import (
    FACTORISATIONS,
    LandmarkLancaster,
    PairLancaster,
)
from dhsic.io.missing import Missing
from dhsic.kernels import Candidates, Combinations, Grid, Kernel, KernelName
from dhsic.nulls import Permutation, Replicates, Resampling, Shifts, monte_carlo_error, pvalue
from dhsic.statistics.neighbours import Neighbours

Kernels = KernelName | str | Kernel | Sequence[KernelName | str | Kernel | None]

INTERACTION_ESTIMATORS: dict[str, type[NystromMHSIC | VHSIC]] = {
    LandmarkLancaster.name: NystromMHSIC,
    PairLancaster.name: VHSIC,
}
name_methods("estimator", INTERACTION_ESTIMATORS)

InteractionEstimator = Literal["nystrom-lancaster", "v-lancaster", "nystrom-m", "v-hsic"]
InteractionNull = Literal["auto", "shifts", "permutation"]

_NAMES: dict[type[Estimator], str] = {cls: name for name, cls in INTERACTION_ESTIMATORS.items()}


@named_arguments
@shows_progress
def interaction_test(
    *variables: Any,
    kernels: Kernels | None = None,
    estimator: InteractionEstimator | NystromMHSIC | VHSIC = "nystrom-lancaster",
    null: InteractionNull | Shifts | Permutation = "auto",
    n_resamples: int | None = None,
    rng: RngLike = None,
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: Missing = "refuse",
    strata: Any = None,
    groups: Any = None,
    precision: Precision = "float64",
    client: Any = None,
    threads: int | None = None,
    memory: int | str = "2GiB",
    time: float | str | None = None,
    progress: Progress = None,
    checkpoint: str | None = None,
) -> InteractionTestResult:
    """Test whether three variables interact: no one of them is independent of the two others.

    The Lancaster interaction of (X, Y, Z) is the signed measure

        L = P_XYZ - P_XY P_Z - P_XZ P_Y - P_YZ P_X + 2 P_X P_Y P_Z,

    which is 0 where X is independent of (Y, Z), or Y of (X, Z), or Z of (X, Y) [1]_. The statistic
    T is n times the squared norm of its embedding mu_L, from the product of the three centred
    kernels. The null hypothesis is that one of these factorisations holds. Each has its own null
    distribution, for which the variable that is by itself is shifted or permuted.

    The p-value is the largest of the three. The hypothesis is rejected where all three are at most
    the level, and where it is true one of them is that of a true factorisation, so that the level
    holds without any correction for three tests [2]_. Shifts and permutations are exact for each.

    The converse is not true: L may be 0, and the test blind, where no factorisation holds, as for
    three fair signs that are correlated in pairs and whose product has mean 0. It is sensitive
    where two variables together decide a third that hardly depends on either [1]_.

    Parameters
    ----------
    *variables : array-like, shapes (n,) or (n, d_m)
        Three, as for `independence_test`.
    kernels : str, Kernel or a sequence of them, optional
        One for all variables, or one a variable; "gaussian" where not given.
    estimator : str, NystromMHSIC or VHSIC, optional
        Estimator of |mu_L|^2:

        - "nystrom-lancaster": of the projection of mu_L on landmarks that are drawn for every
          variable by itself; linear in n. With options, the `NystromMHSIC` that has them. In many
          columns landmarks are few, and it finds less than "v-lancaster".
        - "v-lancaster": from all pairs of rows, (1/n^2) times the sum of the product of the three
          centred Gram matrices, which are held in memory.
    null : str, Shifts or Permutation, optional
        "shifts", the default, exact and nearly free; or "permutation", exact, the default of
        "v-lancaster", which has no shifts.
    n_resamples, rng, names, data, missing
        As for `independence_test`.
    strata, groups
        As for `independence_test`: the variable that is by itself changes places within strata
        alone, so that the factorisations are those given the stratum, or as whole groups of rows.
        Shifts and permutations are exact where such rows or groups are exchangeable, of the
        variable that is by itself or of the two others.
    precision, client, threads, memory, time, progress, checkpoint
        As for `independence_test`.

    Returns
    -------
    InteractionTestResult
        With the three p-values in `factorisations`.

    Raises
    ------
    InvalidArgumentError, DataError, MemoryBudgetError
        As for `independence_test`; several kernels for a variable.

    References
    ----------
    .. [1] D. Sejdinovic, A. Gretton, W. Bergsma. A kernel test for three-variable interactions.
       NIPS 2013.
    .. [2] P. K. Rubenstein, K. Chwialkowski, A. Gretton. A kernel test for three-variable
       interactions with random processes. UAI 2016.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.standard_normal((2, 500))
    >>> z = np.sign(x * y) * np.abs(rng.standard_normal(500))
    >>> dhsic.interaction_test(x, y, z, rng=0).pvalue < 0.01
    True
    >>> found = dhsic.interaction_test(x, x + rng.standard_normal(500), z, rng=0)
    >>> [one.separated for one in found.factorisations]
    ['x1', 'x2', 'x3']
    """
    run = RunOptions(rng, precision, client, threads, memory, time, progress, checkpoint)
    session = run.open(variables, names, data, missing, RowLabels(strata, groups))
    method = _choose_method(session, kernels, estimator, null, n_resamples)
    session.begin(method.plan(session))
    session.resume(computes="interaction test", **method.described)
    neighbours = Neighbours(session, ("groups", "strata"))
    found = method.run(session)
    neighbours.warn()
    return _interaction_result(session, method, found)


@named_arguments
def plan_interaction(
    *variables: Any,
    kernels: Kernels | None = None,
    estimator: InteractionEstimator | NystromMHSIC | VHSIC = "nystrom-lancaster",
    null: InteractionNull | Shifts | Permutation = "auto",
    n_resamples: int | None = None,
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: Missing = "refuse",
    strata: Any = None,
    groups: Any = None,
    precision: Precision = "float64",
    client: Any = None,
    threads: int | None = None,
    memory: int | str = "2GiB",
    time: float | str | None = None,
) -> Plan:
    """Plan `interaction_test`: its steps and their memory; runs nothing.

    Parameters
    ----------
    *variables : array-like, shapes (n,) or (n, d_m)
        As for `interaction_test`.
    kernels, estimator, null, n_resamples, names, data, missing, strata, groups
        As for `interaction_test`.
    precision, client, threads, memory, time
        As for `interaction_test`.

    Returns
    -------
    Plan

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> dhsic.plan_interaction(*np.zeros((3, 10_000)), threads=1).n_landmarks
    800
    """
    run = RunOptions(0, precision, client, threads, memory, time)
    session = run.open(variables, names, data, missing, RowLabels(strata, groups))
    return _choose_method(session, kernels, estimator, null, n_resamples).plan(session)


@dataclass(frozen=True)
class _LancasterMethod:
    """How a test is run: statistic, kernels to fit, null distribution and why this one."""

    estimator: Estimator
    estimator_reason: str
    kernels: tuple[Kernel, ...]
    null: Resampling
    null_reason: str

    @property
    def described(self) -> dict[str, Any]:
        """All of it, for a checkpoint."""
        return {"estimator": self.estimator, "kernels": self.kernels, "null": self.null}

    def plan(self, session: Session) -> Plan:
        """The plan of the run; a refusal names the largest numbers that fit."""
        combinations = Combinations.single(self.kernels)
        plan = planned(_planner(self.null), self.estimator, session, combinations)
        return replace(plan, pilot=partial(session.timed, self.run))

    def run(self, session: Session) -> GridOutcome:
        """The statistics of the three factorisations and their replicates."""
        single = Combinations.single(self.kernels)
        return _lancaster(self.estimator).test_grid(session, single, self.null)


def _lancaster(estimator: Estimator) -> LandmarkLancaster | PairLancaster:
    """The estimator of the interaction by what has its options."""
    return LandmarkLancaster(estimator) if isinstance(estimator, NystromMHSIC) else PairLancaster()


def _planner(null: Resampling) -> Planner:
    return lambda one, session, combinations: _lancaster(one).plan(session, combinations, null)


def _choose_method(
    session: Session, kernels: Any, estimator: Any, null: Any, n_resamples: int | None
) -> _LancasterMethod:
    """Check what the user passed, and choose the rest."""
    if len(session.sources) != len(FACTORISATIONS):
        msg = (
            f"an interaction test takes three variables, got {len(session.sources)}: "
            "independence_test takes any number"
        )
        raise InvalidArgumentError(msg)
    each = kernels if isinstance(kernels, list | tuple) else [kernels]
    if any(isinstance(kernel, Grid | Candidates) for kernel in each):
        msg = (
            f"an interaction test takes one kernel for each variable, got {kernels!r}: name one, "
            "as 'gaussian'"
        )
        raise InvalidArgumentError(msg)
    asked = _read_estimator(estimator)
    _check_null(null, asked)
    # Before the estimator is settled, since its plan is that of a null.
    left_open = isinstance(null, str) and null == "auto"
    # Three variables of which one is moved: shifts, where joint independence takes a chain.
    exact = Shifts.name if isinstance(asked, NystromMHSIC) else Permutation.name
    single = Combinations.single([asked.kernel(None)] * len(session.sources))
    law, why = find_null(exact if left_open else null, asked, session, n_resamples, single)
    assert isinstance(law, Resampling)
    if left_open:
        moves = session.moves
        why = "exact for exchangeable rows" if moves is None else moves.assumption
    chosen, reason, fitting = choose_measure(
        session,
        kernels,
        asked.name if isinstance(estimator, str) else asked,
        planner=_planner(law),
        runner=lambda one, run, some: _lancaster(one).test_grid(run, some, law),
    )
    return _LancasterMethod(chosen, reason, fitting, law, why)


def _check_null(null: Any, estimator: NystromMHSIC | VHSIC) -> None:
    """Refuse what no factorisation has, or what would not be done."""
    if isinstance(estimator, VHSIC) and (null == Shifts.name or isinstance(null, Shifts)):
        msg = (
            f"estimator 'v-lancaster' has no null 'shifts', got {null!r}: take 'permutation', "
            "which is exact as well"
        )
        raise InvalidArgumentError(msg)
    if not isinstance(null, Shifts | Permutation):
        check_choice("null", null, ("auto", Shifts.name, Permutation.name))
    elif isinstance(null, Permutation) and null.within == "groups" and isinstance(estimator, VHSIC):
        msg = (
            "estimator 'v-lancaster' permutes all rows, got within='groups': take within='all', or "
            "estimator='nystrom-lancaster'"
        )
        raise InvalidArgumentError(msg)


def _read_estimator(estimator: Any) -> NystromMHSIC | VHSIC:
    if isinstance(estimator, str):
        given = {cls.name: name for cls, name in _NAMES.items()}.get(estimator, estimator)
        return INTERACTION_ESTIMATORS[check_choice("estimator", given, [*_NAMES.values()])]()
    if type(estimator) not in (NystromMHSIC, VHSIC):
        msg = f"estimator must be a name, a NystromMHSIC or a VHSIC, got {estimator!r}"
        raise InvalidArgumentError(msg)
    # Landmarks that are rows of the data carry which values stand together, and a permutation that
    # keeps them fixed is no draw from the null.
    if isinstance(estimator, NystromMHSIC) and estimator.pairing == "joint":
        msg = (
            "pairing must be 'independent' in an interaction test, got 'joint': rows of the data "
            "know of the pairing that is tested"
        )
        raise InvalidArgumentError(msg)
    asked: NystromMHSIC | VHSIC = estimator
    return asked


def _interaction_result(
    session: Session, method: _LancasterMethod, found: GridOutcome
) -> InteractionTestResult:
    """The result of three tests: that of the factorisation which is hardest to reject."""
    names, count = session.names, len(found.replicates)
    pvalues = [
        pvalue(statistic, Replicates(replicates), session.dtype, rounding)
        for statistic, replicates, rounding in zip(
            found.statistics, found.replicates.T, found.rounding.tolist(), strict=True
        )
    ]
    errors = [monte_carlo_error(p, count) for p in pvalues]
    each = zip(FACTORISATIONS, pvalues, errors, strict=True)
    # All three have to be rejected, so that the largest p-value decides, without a correction.
    largest = int(np.argmax(pvalues))
    estimate = found.estimate(largest)
    fields = result_fields(session, method.estimator, method.estimator_reason, estimate)
    fields["estimator"] = _NAMES[type(method.estimator)]
    return InteractionTestResult(
        statistic=float(found.statistics[largest]),
        pvalue=pvalues[largest],
        pvalue_error=errors[largest],
        null_distribution=found.replicates[:, largest],
        null=method.null.name,
        null_reason="; ".join(filter(None, (method.null_reason, found.detail))),
        factorisations=tuple(
            Factorisation(names[s], (names[a], names[b]), p, error) for (a, b, s), p, error in each
        ),
        **fields,
    )
