"""Test whether three variables interact beyond their pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal, NamedTuple, Unpack

import numpy as np

from dhsic._arguments import (
    Kernels,
    RowLabels,
    RunArguments,
    RunOptions,
    choose_measure,
    result_fields,
    run_batch,
    takes_run,
)
from dhsic._validation import check_choice, name_methods, shown
from dhsic.engine.plan import DriverStep, Plan, plans
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError, printable
from dhsic.estimators import VHSIC, Estimate, Estimator, GridOutcome, Null, NystromMHSIC, plan_of
from dhsic.estimators.base import Guess, Prepared, fit_combinations_on_sample, fitting_step
from dhsic.estimators.choose import find_null
from dhsic.io.variables import Missing
from dhsic.kernels import Combinations
from dhsic.kernels.grid import SharedTiles
from dhsic.linalg import centre
from dhsic.nulls import Permutation, Resampling, Shifts, monte_carlo_error, pvalues
from dhsic.results import IndependenceTestResult, pvalue_text
from dhsic.statistics.gram import BATCH, Matrix, PermutedGrams
from dhsic.statistics.orbit import (
    Orbit,
    Pair,
    measure,
    orbit_of,
    replicate_steps,
    tile_error,
    transform_error,
)
from dhsic.statistics.pointwise import means_of


@dataclass(frozen=True)
class Factorisation:
    """One way in which the distribution of three variables may factorise.

    Parameters
    ----------
    separated : str
        The variable that is independent of the two others.
    together : tuple of str
        The two others.
    pvalue : float
        P-value of this factorisation alone.
    pvalue_error : float
        Monte Carlo standard error of the p-value.
    """

    separated: str
    together: tuple[str, str]
    pvalue: float
    pvalue_error: float

    def __str__(self) -> str:
        return printable(f"{self.separated} independent of ({', '.join(self.together)})")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class InteractionTestResult(IndependenceTestResult):
    """The outcome of a test of whether the distribution of three variables factorises.

    All fields are as in `IndependenceTestResult`, but for these.

    Parameters
    ----------
    estimate : float
        Squared norm of the embedding of the Lancaster interaction, or of its projection on
        landmarks.
    statistic : float
        Number of rows times the estimate.
    pvalue : float
        The largest of the three p-values: of the hypothesis that some factorisation holds.
    null_distribution : ndarray, shape (b,)
        Replicates under the factorisation with the largest p-value.
    factorisations : tuple of Factorisation
        The three factorisations, in the order of the variables that they separate.

    References
    ----------
    .. [1] D. Sejdinovic, A. Gretton, W. Bergsma. A kernel test for three-variable interactions.
       NeurIPS 2013.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, y = np.random.default_rng(0).standard_normal((2, 300))
    >>> result = dhsic.interaction_test(x, y, np.sign(x * y), rng=0)
    >>> result.pvalue < 0.01, len(result.factorisations)
    (True, 3)
    """

    hypothesis: ClassVar[str] = "factorisation"
    question: ClassVar[str] = "Does the distribution of {} factorise?"

    factorisations: tuple[Factorisation, ...] = ()

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        lines, count = [], len(self.null_distribution)
        for label, text in super().summary():
            if label == "p-value":
                for factorisation in self.factorisations:
                    # A bound has its sign in the text.
                    p = pvalue_text(factorisation.pvalue, factorisation.pvalue_error, count)
                    lines.append(
                        ("factorisation", f"{factorisation}: p {'' if p[0] == '<' else '= '}{p}")
                    )
                # No interaction where any one factorisation holds: it is rejected if all three are
                # (intersection and union, Berger 1982).
                text += ", the largest of the three"
            lines.append((label, text))
        return lines

    def records(self) -> list[dict[str, Any]]:
        each = {
            # A variable may be called "value", and p_value is the largest of the three.
            f"p_factor_{factorisation.separated}": factorisation.pvalue
            for factorisation in self.factorisations
        }
        return [{**super().records()[0], **each}]


# The variables a and b that stay together, and the one s that is independent of both.
FACTORISATIONS: Final = ((1, 2, 0), (0, 2, 1), (0, 1, 2))

QUANTITY = "squared interaction"
_PAIRS = tuple(Pair((a, b), s) for a, b, s in FACTORISATIONS)
_STRIP = 2**15  # entries of a Gram matrix that are gathered at a time


@dataclass(frozen=True)
class LandmarkLancaster(Estimator):
    """The squared norm of the embedding of the Lancaster interaction, projected on landmarks.

    T = n v' K_J^-1 v with v_j = <mu_L, k_J(z_j)> the mean of the centred products. Under
    (a, b) _||_ s, with d_m centred and c_ab the mean of d_a d_b, the means of d_a d_s and d_b d_s
    are O(n^-1/2), as are the errors of the centring, so that v is the mean of
    xi = (d_a d_b - c_ab) d_s but for O(1/n): the cross-covariance of d_a d_b and d_s. Permuting s,
    which leaves d_a d_b and every mean as they are, gives v of the permuted data exactly.

    Parameters
    ----------
    landmarks : NystromMHSIC
        Options of the landmarks.
    """

    landmarks: NystromMHSIC = NystromMHSIC()  # noqa: RUF009, a frozen value

    name: ClassVar[str] = "nystrom-lancaster"
    most_variables: ClassVar[int | None] = 3
    remedy: ClassVar[str] = "take fewer landmarks, resamples or threads"

    def guess(self, session: Session, combinations: Combinations, null: Null | None) -> Guess:
        """With the landmarks as drawn: how many pruning keeps is known only when they are."""
        p = self.landmarks.most_landmarks(session)
        statistic = self.landmarks.guessed(session, combinations, _PAIRS)
        statistic = replace(statistic, tuples=replace(statistic.tuples, form="centred"))
        means = replicate_steps(session, statistic, statistic.orbit(session, None))
        steps = [*self.landmarks.drawing_steps(session, combinations, 8 * p * p), *means]
        return Guess(steps, statistic, n_landmarks=p)

    def prepare(self, session: Session, combinations: Combinations, null: Null | None) -> Prepared:
        """Draw landmarks of every variable by itself, and find the means of kernels there."""
        basis = self.landmarks.draw(session, combinations, tests=True)
        # The three factorisations have one basis: their statistics are one norm of one vector.
        statistic = basis.statistic(_PAIRS, session.dtype)
        tuples = replace(statistic.tuples, form="centred")
        moments = measure(session, replace(statistic, tuples=tuples)).told
        # About the means, products of small numbers lose no digits of their covariance.
        statistic = replace(statistic, tuples=tuples.about(means_of(tuples, moments)))
        kernels = basis.combinations.kernels_of(0)
        summary = self.landmarks.summary(session, basis, basis.factor(0).rank)
        return Prepared(
            basis.combinations,
            statistic,
            lambda found, c: Estimate(
                float(found.statistics[c]) / session.n, kernels, summary, quantity=QUANTITY
            ),
        )


@dataclass(frozen=True)
class PairLancaster(Estimator):
    """T = n |mu_L|^2 = (1/n) sum_ij A_ij B_ij C_ij of centred Gram matrices, which are held.

    Under (a, b) _||_ s it is n HSIC of s and of a variable whose Gram matrix is the product of
    those of a and b, centred (Rubenstein et al. 2016): what permutes s is that of two variables.
    """

    name: ClassVar[str] = "v-lancaster"
    most_variables: ClassVar[int | None] = 3
    nulls: ClassVar[tuple[type[Any], ...]] = (Permutation,)
    remedy: ClassVar[str] = "take estimator='nystrom-lancaster', fewer rows, or fewer resamples"

    def plan(self, session: Session, combinations: Combinations, null: Null | None) -> Plan:
        """Hold three Gram matrices, and permute one after another."""
        n, size, rows = session.n, session.dtype.itemsize, 8 * session.n * sum(session.dims)
        gram = size * n * n
        work = max(kernel.work_tiles for kernel in combinations.guessed(session.dims).kernels)
        # Two working matrices, and in every thread what is gathered, in the orders of a batch.
        gathered = 6 * size * max(_STRIP, 8 * n) + 32 * n * BATCH
        working = 3 * gram + session.runtime.threads * gathered
        steps = [
            fitting_step(session),
            DriverStep("read all rows", 3 * rows, rows),
            DriverStep("Gram matrices", (1 + work) * gram, 3 * gram),
            DriverStep("permutation null", working + 16 * n * getattr(null, "n_resamples", 0)),
        ]
        return plan_of(session, steps, self.remedy)

    def test_grid(
        self, session: Session, combinations: Combinations, null: Resampling | None
    ) -> GridOutcome:
        """The statistic beside the replicates of each factorisation."""
        assert isinstance(null, Permutation)
        fitted, _ = fit_combinations_on_sample(session, combinations)
        orbit, n = orbit_of(session, null), session.n
        session.step("read all rows")
        order = orbit.groups.members(0, orbit.groups.count)
        values = session.take([order] * len(session.sources))
        session.step("Gram matrices")
        dtype, pairs = session.dtype, zip(fitted.kernels_of(0), values, strict=True)
        grams = [kernel.gram(*kernel.rows_and_columns(x, dtype), dtype) for kernel, x in pairs]
        del values
        # Largest values of the kernels, before their matrices are centred.
        peaks = [float(np.abs(gram).max()) for gram in grams]
        grams = list(map(_centred, grams))
        statistics, replicates, errors = [], [], []
        tile = tile_error(dtype)
        unit, norms = transform_error(dtype, 1) + tile, [np.linalg.norm(g) for g in grams]
        moved: Any = _Moved(orbit, range(1, null.n_resamples + 1))
        # One after another, so that two working matrices are held and not six.
        for a, b, s in FACTORISATIONS:
            # The product of two centred matrices is not centred itself; HSIC with s needs it to be.
            product = _centred(grams[a] * grams[b])
            norm = np.linalg.norm(product)
            # Four times the bound; errors of tiles are relative to the kernels, but independent.
            apart = (peaks[a] * norms[b] + peaks[b] * norms[a]) * norms[s] + norm * n * peaks[s]
            errors.append(4.0 * (unit * norm * norms[s] + 2.0 * tile * apart / n) / n)
            statistics.append(float(np.vdot(product, grams[s])) / n)
            permuted = PermutedGrams(moved, [product, grams[s]])
            parts: list[Any] = session.map("permutation null", permuted, null.n_resamples)
            replicates.append(np.concatenate(parts)[:, 0] / n)
        return GridOutcome(
            fitted,
            np.array(statistics),
            np.column_stack(replicates),
            lambda c: Estimate(statistics[c] / n, fitted.kernels_of(0), quantity=QUANTITY),
            orbit.detail,
            np.array(errors),
        )


class _Moved(NamedTuple):
    """Of two Gram matrices, the first held and the second permuted, as `GramPass` says it."""

    orbit: Orbit
    drawn: range
    variables: tuple[int, ...] = (0, 1)
    chosen: tuple[tuple[int, ...], ...] = ((0, 1),)
    shared: SharedTiles = SharedTiles((), ())


def _centred(gram: Matrix) -> Matrix:
    """A symmetric matrix, doubly centred in place."""
    return centre(gram, gram.mean(axis=0, dtype=np.float64))


INTERACTION_ESTIMATORS: dict[str, type[NystromMHSIC | VHSIC]] = {
    LandmarkLancaster.name: NystromMHSIC,
    PairLancaster.name: VHSIC,
}
name_methods("estimator", INTERACTION_ESTIMATORS)

InteractionEstimator = Literal["nystrom-lancaster", "v-lancaster", "nystrom-m", "v-hsic"]
InteractionNull = Literal["auto", "shifts", "permutation"]

_NAMES: dict[type[Estimator], str] = {cls: name for name, cls in INTERACTION_ESTIMATORS.items()}


@takes_run
def interaction_test(
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
    **options: Unpack[RunArguments],
) -> InteractionTestResult:
    """Test whether three variables interact: no one of them is independent of the two others.

    The Lancaster interaction of (X, Y, Z) is the signed measure

        L = P_XYZ - P_XY P_Z - P_XZ P_Y - P_YZ P_X + 2 P_X P_Y P_Z,

    which is 0 if X is independent of (Y, Z), or Y of (X, Z), or Z of (X, Y) [1]_. The statistic T
    is n times the squared norm of the embedding mu_L of L, from the product of the three centred
    kernels. The null hypothesis is that one of these factorisations holds. Each factorisation has
    its own null distribution, from shifts or permutations of the variable that it separates.

    The p-value is the largest of the three p-values. The test rejects if all three are at most the
    level. If the null hypothesis is true, one of the p-values is that of a true factorisation, so
    that the level holds without a correction for three tests [2]_. Shifts and permutations are
    exact for each factorisation.

    The converse is not true: L may be 0 although no factorisation holds, as for three fair signs
    that are correlated in pairs and whose product has mean 0; the test then has no power. It is
    powerful if two variables jointly determine a third that hardly depends on either alone [1]_.

    Parameters
    ----------
    *variables : array-like, shapes (n,) or (n, d_m)
        Three variables, as for `independence_test`.
    kernels : str, Kernel or a sequence of them, optional
        One kernel for all variables, or one for each variable. The default is "gaussian".
    estimator : str, NystromMHSIC or VHSIC, optional
        Estimator of |mu_L|^2:

        - "nystrom-lancaster": the squared norm of the projection of mu_L on landmarks, which are
          drawn independently for each variable; linear in n. To set options, pass a `NystromMHSIC`.
          With many columns the landmarks cover little of the space, and the power is less than that
          of "v-lancaster".
        - "v-lancaster": from all pairs of rows, (1/n^2) times the sum of the product of the three
          centred Gram matrices, which are held in memory.
    null : str, Shifts or Permutation, optional
        "shifts", the default, exact and at little cost; or "permutation", exact, the default of
        "v-lancaster", which has no shifts.
    n_resamples, names, data, missing
        As for `independence_test`.
    strata, groups
        As for `independence_test`: the null permutes the separated variable only within strata, so
        that the factorisations are those given the stratum, or in whole groups of rows. Shifts and
        permutations are exact if such rows or groups are exchangeable, of the separated variable or
        of the two others.
    rng, precision, client, threads, memory, time, progress, checkpoint
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
    run = RunOptions(**options)
    session = run.open(variables, names, data, missing, RowLabels(strata, groups))
    if len(session.sources) != len(FACTORISATIONS):
        msg = (
            f"an interaction test takes three variables, got {len(session.sources)}: "
            "independence_test takes any number"
        )
        raise InvalidArgumentError(msg)
    asked = _read_estimator(estimator)
    law, why = _read_null(null, asked, session, n_resamples)

    def planner(one: Estimator, some: Session, combinations: Combinations) -> Plan:
        of_three = _lancaster(one)
        return replace(of_three.plan(some, combinations, law), estimator=of_three.name)

    def runner(one: Estimator, some: Session, combinations: Combinations) -> GridOutcome:
        return _lancaster(one).test_grid(some, combinations, law)

    sized = asked.name if isinstance(estimator, str) else asked
    both: Any = {"planner": planner, "runner": runner}
    chosen, reason, fitting = choose_measure(session, kernels, sized, **both)
    of = {"computes": "interaction test", "arguments": ("groups", "strata")}
    single = Combinations.single(fitting)
    found = run_batch(session, planner, runner, chosen, single, law, fitting, **of)
    names, count = session.names, len(found.replicates)
    ps = pvalues(found.statistics, found.replicates, session.dtype, found.rounding).tolist()
    errors = [monte_carlo_error(p, count) for p in ps]
    each = zip(FACTORISATIONS, ps, errors, strict=True)
    # All three have to be rejected, so that the largest p-value decides, without a correction.
    largest = int(np.argmax(ps))
    fields = result_fields(session, chosen, reason, found.estimate(largest))
    fields["estimator"] = _NAMES[type(chosen)]
    return InteractionTestResult(
        statistic=float(found.statistics[largest]),
        pvalue=ps[largest],
        pvalue_error=errors[largest],
        null_distribution=found.replicates[:, largest],
        null=law.name,
        null_reason="; ".join(filter(None, (why, found.detail))),
        factorisations=tuple(
            Factorisation(names[s], (names[a], names[b]), p, error) for (a, b, s), p, error in each
        ),
        **fields,
    )


@plans(interaction_test)
def plan_interaction() -> None:
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


def _lancaster(estimator: Estimator) -> LandmarkLancaster | PairLancaster:
    """The estimator of the interaction by what has its options."""
    return LandmarkLancaster(estimator) if isinstance(estimator, NystromMHSIC) else PairLancaster()


def _read_null(
    null: Any, estimator: NystromMHSIC | VHSIC, session: Session, n_resamples: int | None
) -> tuple[Resampling, str]:
    """The null and why, before the estimator is settled, since its plan is that of a null."""
    by_landmarks = isinstance(estimator, NystromMHSIC)
    nulls = (Shifts, Permutation) if by_landmarks else (Permutation,)
    if not isinstance(null, nulls):
        check_choice("null", null, ("auto", *(cls.name for cls in nulls)))
    elif isinstance(null, Permutation) and null.within == "groups" and not by_landmarks:
        msg = (
            "estimator 'v-lancaster' permutes all rows, got within='groups': take within='all', or "
            "estimator='nystrom-lancaster'"
        )
        raise InvalidArgumentError(msg)
    left_open = null == "auto"
    # Three variables of which one is moved: shifts, where joint independence takes a chain.
    asked = nulls[0].name if left_open else null
    single = Combinations.single([estimator.kernel(None)] * len(session.sources))
    law, why = find_null(asked, estimator, session, n_resamples, single)
    assert isinstance(law, Resampling)
    if left_open:
        moves = session.moves
        why = "exact for exchangeable rows" if moves is None else moves.assumption
    return law, why


def _read_estimator(estimator: Any) -> NystromMHSIC | VHSIC:
    if isinstance(estimator, str):
        given = {cls.name: name for cls, name in _NAMES.items()}.get(estimator, estimator)
        return INTERACTION_ESTIMATORS[check_choice("estimator", given, [*_NAMES.values()])]()
    if type(estimator) not in (NystromMHSIC, VHSIC):
        msg = f"estimator must be a name, a NystromMHSIC or a VHSIC, got {shown(estimator)}"
        raise InvalidArgumentError(msg)
    # Landmarks that are rows of the data carry which values stand together, and a permutation that
    # keeps them fixed is no draw from the null.
    if isinstance(estimator, NystromMHSIC) and estimator.pairing == "joint":
        msg = (
            "pairing must be 'independent' in an interaction test, got 'joint': joint landmarks "
            "depend on the pairing that is tested"
        )
        raise InvalidArgumentError(msg)
    asked: NystromMHSIC | VHSIC = estimator
    return asked
