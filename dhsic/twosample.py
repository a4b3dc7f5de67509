"""Test whether samples come from one distribution, by tests of independence of their labels."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from typing import Any, ClassVar, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from dhsic._arguments import (
    RowLabels,
    RunArguments,
    RunOptions,
    choose_method,
    takes_run,
    tested_fields,
)
from dhsic._validation import check_choice, name_methods, shown
from dhsic.engine.passes import Source, ValueKind, kinds_of, labels_of, read_whole
from dhsic.engine.plan import plans
from dhsic.engine.runtime import graphs_on
from dhsic.engine.session import Session
from dhsic.engine.units import parse_bytes
from dhsic.errors import DataError, InvalidArgumentError, MemoryBudgetError
from dhsic.estimators import (
    ESTIMATORS,
    RFFHSIC,
    UHSIC,
    VHSIC,
    BlockHSIC,
    Estimate,
    Estimator,
    Null,
    NullName,
    NystromHSIC,
    NystromMHSIC,
)
from dhsic.estimators.choose import Intervals, is_added
from dhsic.io.open import names_of, open_labelled_data, open_sample_data
from dhsic.io.variables import (
    GapTreatment,
    Labels,
    Missing,
    Variable,
    codes_of_rows,
    held_sources,
    pooled_samples,
    rows_of_samples,
)
from dhsic.kernels import Candidates, Combinations, Grid, Kernel, KernelName
from dhsic.kernels.base import Codes
from dhsic.results import GridSummary, IndependenceTestResult
from dhsic.statistics.jackknife import Parts
from dhsic.statistics.orbit import Moves, RowSets, coded, moves_of, read_labels


@dataclass(frozen=True)
class SampleSummary:
    """One sample of a test.

    Parameters
    ----------
    name : str
        Name of the sample.
    n : int
        Number of rows.
    """

    name: str
    n: int


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TwoSampleTestResult(IndependenceTestResult):
    """The outcome of a test of whether samples come from one distribution.

    A test of samples is a test of independence of the value of a row and the sample of the row. All
    fields are as in `IndependenceTestResult`, with one variable, the values, except these.

    Parameters
    ----------
    estimate : float
        Squared MMD of two samples; for more samples, the mean over all pairs (a, b) weighted by n_a
        n_b. If the test tried several kernels, the estimate is that of the reference kernel.
    statistic : float
        The test statistic. For one kernel, the number of rows of all samples times the estimate, or
        for "block-mmd" the estimate over its standard error.
    samples : tuple of SampleSummary
        The samples.

    References
    ----------
    .. [1] A. Gretton, K. Borgwardt, M. Rasch, B. Schoelkopf, A. Smola. A kernel two-sample test.
       JMLR 13, 2012.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> a, b = np.random.default_rng(0).standard_normal((2, 200))
    >>> result = dhsic.two_sample_test(a, b + 1.0, rng=0)
    >>> result.pvalue < 0.01, [sample.n for sample in result.samples]
    (True, [200, 200])
    """

    hypothesis: ClassVar[str] = "one distribution"
    question: ClassVar[str] = "Do {} have one distribution?"

    samples: tuple[SampleSummary, ...] = ()

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        listed = ", ".join(f"{sample.name} ({sample.n:,})" for sample in self.samples)
        return [("samples", listed), *super().summary()]

    @property
    def _asked(self) -> tuple[str, ...]:
        # The question is of samples, where `variables` has their values.
        return tuple(sample.name for sample in self.samples)


MMD_ESTIMATORS: dict[str, type[Estimator]] = {
    "nystrom-mmd": NystromMHSIC,
    "rff-mmd": RFFHSIC,
    "block-mmd": BlockHSIC,
    "v-mmd": VHSIC,
    "u-mmd": UHSIC,
}
name_methods("estimator", MMD_ESTIMATORS)

# NystromHSIC is what "auto" may choose, and bears the name of landmarks here too.
MMD_NAMES = {cls: name for name, cls in MMD_ESTIMATORS.items()} | {NystromHSIC: "nystrom-mmd"}


@contextmanager
def named_as_mmd() -> Iterator[None]:
    """Have errors name estimators as a test of samples does.

    Examples
    --------
    >>> with named_as_mmd():
    ...     raise InvalidArgumentError("'coco' cannot: take one of cka, nystrom-m, v-hsic")
    Traceback (most recent call last):
    dhsic.errors.InvalidArgumentError: 'coco' cannot: take one of nystrom-mmd, v-mmd
    """
    try:
        yield
    except (InvalidArgumentError, MemoryBudgetError) as error:
        # The tests are those of independence, and so are their messages.
        error.args = (_renamed(str(error)),)
        raise


def _renamed(message: str) -> str:
    """Names of estimators in a message; lists lose those that are not for samples."""
    one = "|".join(map(re.escape, sorted(ESTIMATORS, key=len, reverse=True)))
    listed = rf"(?<![\w-])(?:{one})(?:(?:, | or )(?:{one}))*(?![\w-])"

    def renamed(match: re.Match[str]) -> str:
        classes = (ESTIMATORS[name] for name in re.split(", | or ", match[0]))
        names = dict.fromkeys(MMD_NAMES[cls] for cls in classes if cls in MMD_NAMES)
        # One alone may be quoted, and has no name here.
        return ", ".join(names) or match[0]

    return re.sub(rf"; it is for (?:{one})$", "", re.sub(listed, renamed, message))


Indices = NDArray[np.intp]
Vector = NDArray[np.float64]

_FEWEST_WAYS = 20  # with fewer a p-value cannot be below 5 %


def codes_for(estimator: str | Estimator, sizes: Sequence[int]) -> Vector:
    """Codes of the samples, as an estimator of independence needs them."""
    if estimator == BlockHSIC.name:
        estimator = BlockHSIC()
    if isinstance(estimator, BlockHSIC):
        # A block has its share of every sample, not in whole rows: sizes enter the weights alone.
        _, rows = estimator.blocks(sum(sizes))
        return sample_codes([n * (rows / sum(sizes)) for n in sizes], unbiased=True)
    unbiased = estimator == UHSIC.name or isinstance(estimator, UHSIC)
    return sample_codes(sizes, unbiased=unbiased)


def sample_codes(sizes: Sequence[float], *, unbiased: bool) -> Vector:
    """Code of every sample, so that HSIC of value and code is the mean of MMD^2 over the pairs.

    With the kernel l(a, b) = s [a = b] / n_a of samples a and b of n_a rows, N in all, and K the
    Gram matrix of all values, tr(K H L H) is s / N times the sum over pairs a < b of
    n_a n_b MMD^2(a, b). With (N - 1) / (N (n_a - 1)) in the place of 1 / n_a, the same sum of
    unbiased estimates comes of Gram matrices without their diagonals. Centring takes away what is
    the same for all samples, so that K codes of K - 1 columns do, and they may be moved: here to
    equal lengths, about the centre of their circumscribed sphere. A landmark then counts alike
    whatever sample it is of, however unequal they are.

    Parameters
    ----------
    sizes : sequence of float
        Rows n_a of every sample.
    unbiased : bool
        For estimators that leave out the diagonals.

    Returns
    -------
    ndarray, shape (K, K - 1)
        HSIC, as its estimator divides it, is then sum n_a n_b MMD^2(a, b) / sum n_a n_b: of two
        samples their MMD^2.

    Examples
    --------
    >>> sample_codes([50, 50], unbiased=False).round(4)
    array([[ 2.],
           [-2.]])
    """
    n_a = np.asarray(sizes, np.float64)
    n = n_a.sum()
    # The number of pairs of rows of different samples, which weigh the mean of MMD^2 over pairs.
    pairs = (n**2 - (n_a**2).sum()) / 2.0
    # Estimates without diagonals divide by n_a (n_a - 1), which these weights make up for.
    weights = n * (n_a - 1.0) / (n - 1.0) if unbiased else n_a
    scale = n**2 * (n - 3.0) / pairs if unbiased else n**3 / pairs
    corners = np.sqrt(scale) * _contrasts(weights)
    # HSIC is centred, so codes may be moved; about this point all have the same length.
    # |c - corner_0| = |c - corner_j| is linear in c once the squares of c cancel.
    edges = corners[1:] - corners[0]
    from_first = np.linalg.solve(2.0 * edges, (edges**2).sum(axis=1))
    moved: Vector = corners - (corners[0] + from_first)
    return moved


def _contrasts(weights: Vector) -> Vector:
    """V with V V' = diag(1 / w) - 1 1' / sum w, shape (K, K - 1): each against those before it."""
    before = np.cumsum(weights)[:-1]
    later, through = weights[1:], np.cumsum(weights)[1:]
    # Helmert's contrasts with weights: column k sets sample k + 1 against the mean of those before.
    across = np.sqrt(later / (before * through))
    contrasts = np.triu(np.broadcast_to(across, (len(weights), len(later))))
    np.fill_diagonal(contrasts[1:], -np.sqrt(before / (later * through)))
    return contrasts


def moves_between(
    samples: Sequence[Source], labels: Mapping[str, Indices], seed: int
) -> Moves | None:
    """Which pooled rows may change places; None where all may.

    Parameters
    ----------
    samples : sequence of source
        The samples.
    labels : dict of str to ndarray of int, shape (n,)
        "strata" and "groups" of the pooled rows, where they are given.
    seed : int
        The seed of the test.

    Raises
    ------
    DataError
        Hardly any rows can change sample.
    InvalidArgumentError
        A group lies in several samples, or in several strata.
    """
    sizes = [source.shape[0] for source in samples]
    sample, places = rows_of_samples(np.arange(sum(sizes)), sizes)
    strata, groups = labels.get("strata"), labels.get("groups")
    if groups is not None:
        first = np.empty(groups.max() + 1, np.intp)
        # Backwards, since the last of equal indices is kept: the sample of a group's first row.
        first[groups[::-1]] = sample[::-1]
        elsewhere = np.flatnonzero(sample != first[groups])
        if len(elsewhere):
            row = int(elsewhere[0])
            own, other = (samples[k].name for k in (sample[row], first[groups[row]]))
            msg = (
                f"every group must lie within one sample: the group of row {int(places[row])} of "
                f"{own!r} has rows of {other!r}, too. Where rows of a label are in several "
                "samples, as before and after, give the labels as strata; else label the groups of "
                "every sample differently"
            )
            raise InvalidArgumentError(msg)
    # In the pooled data moves are those of any test; only which of them change a sample differs.
    moves = moves_of(len(sample), strata, groups, None, seed)
    if not isinstance(moves, RowSets):
        return moves
    # Labels with which hardly any row gets another sample are refused. In every stratum
    # (sum_k c_k)! / prod_k c_k! ways, with c_k sets of rows of sample k.
    # Logarithms, since factorials leave the range of floats at 171.
    log_ways = 0.0
    for rows, sets in moves.parts:
        pairs = np.stack([sets, sample[rows[:, 0]]], axis=1)
        for counted, sign in ((sets, 1), (pairs, -1)):
            counts = np.unique(counted, axis=0, return_counts=True)[1]
            log_ways += sign * sum(math.lgamma(count + 1) for count in counts.tolist())
    if log_ways < math.log(_FEWEST_WAYS) - 1e-9:
        ways = round(math.exp(log_ways))
        msg = (
            f"with these labels, {moves.what} can be assigned to the samples in {ways} "
            f"way{'s' if ways > 1 else ''}, and a p-value of 5 % takes {_FEWEST_WAYS}: give strata "
            "that have rows of several samples, or more groups of equally many rows"
        )
        raise DataError(msg)
    return moves


MMDName = Literal["auto", "nystrom-mmd", "rff-mmd", "block-mmd", "v-mmd", "u-mmd"]

# With one row a sample has no pair of rows, and the estimate without diagonals divides by n_a - 1.
_FEWEST = 2
_SAMPLE = "sample"  # the variable that says of every row which sample it is of


@takes_run
def two_sample_test(
    *samples: Any,
    kernels: KernelName | str | Kernel | Candidates | Grid | None = None,
    estimator: MMDName | Estimator = "auto",
    null: NullName | Null = "auto",
    n_resamples: int | None = None,
    names: Sequence[str] | None = None,
    data: Any = None,
    between: Any = None,
    missing: Missing = "refuse",
    strata: Any = None,
    groups: Any = None,
    confidence: float | None = None,
    **options: Unpack[RunArguments],
) -> TwoSampleTestResult:
    """Test whether two or more samples come from one distribution.

    Every row of the pooled samples has two variables, its value and its sample. The samples come
    from one distribution if and only if these variables are independent. With a kernel of samples
    whose weights follow their sizes, HSIC of the two variables is the squared maximum mean
    discrepancy of two samples [1]_, and for more samples the mean over all pairs (a, b) weighted by
    n_a n_b. So `independence_test` of the two variables is a test of samples: permutations exchange
    rows between samples, and gamma and spectral nulls are valid, too. The pooled rows are read in a
    fixed order in which samples are mixed evenly.

    Landmarks and bandwidths come from the pooled rows and do not depend on the sample of a row. So
    a permutation test is exact for samples of different sizes, any landmarks and any grid.

    Parameters
    ----------
    *samples : array-like, shapes (n_k,) or (n_k, d)
        Two or more samples with the same columns, as for `independence_test`. Rows and samples are
        assumed to be independent draws, unless `strata` or `groups` is given.
    kernels : str, Kernel, Candidates or Grid, optional
        Kernels of the values. By default estimators that support several kernels try several, see
        `Grid.auto`, and the p-value accounts for the choice. A grid has candidates for one
        variable, the values. "distance" with "v-mmd" gives the energy distance.
    estimator : str or Estimator, optional
        Estimator of the discrepancy:

        - "auto": "v-mmd" if it is fast and fits the memory, otherwise "nystrom-mmd" with principal
          features of the values.
        - "nystrom-mmd": the norm of the difference of the mean embeddings, projected on landmarks
          drawn from the pool [2]_; linear in n.
        - "rff-mmd": the norm of the difference of the mean random Fourier features; linear in n.
        - "block-mmd": the mean of unbiased estimates of blocks of the pool [3]_.
        - "v-mmd", "u-mmd": the biased and the unbiased estimate from all pairs of rows, which are
          read in pairs of row blocks.

        To set options, pass a value of the estimator of independence that computes it:
        `NystromMHSIC`, `RFFHSIC`, `BlockHSIC`, `VHSIC`, `UHSIC`.
    null : str, Shifts, Permutation, Gamma, Spectral, Martingale or Normal, optional
        As for `independence_test`; a null that the estimator supports.
    n_resamples
        As for `independence_test`.
    names : sequence of str, optional
        Names of the samples.
    data : data frame, Dataset, dict, zarr group or path of a table, optional
        Container whose columns or arrays the samples name.
    between : array-like or str, optional
        A label for every row of a single variable, in one or several columns, or names of columns
        of `data`. Rows with equal labels are a sample; samples are in the order of their first
        rows. `strata` and `groups` are then labels of the same rows. The rows are held in memory.
    missing : {"refuse", "drop"}, optional
        As for `independence_test`; "drop" drops rows of each sample separately.
    strata : list of array-like or of str, optional
        Labels of the rows: a list with one array for each sample, or with names in `data`; equal
        labels mean the same stratum. The null permutes rows between samples only within their
        stratum: the test is whether the samples have one distribution in every stratum, exact at
        every n if rows of a stratum are exchangeable, whatever the share of each sample in the
        stratum. Strata are, for example, sites or years, or persons and litters with rows in
        several samples, such as before and after. Numbers are standardised within their stratum
        (strata of two rows share one standard deviation), and the estimated discrepancy is that of
        the standardised numbers.
    groups : list of array-like or of str, optional
        Labels of the rows, in the same form: rows of a group belong together, such as visits of a
        patient, and may depend on each other in any way. Every group must lie in one sample. The
        null permutes whole groups of the same size between samples, within `strata` if these are
        given: exact if such groups are exchangeable, such as independent draws. A group of a unique
        size stays in its sample.
    confidence : float, optional
        As for `independence_test`, of the discrepancy: the level of an interval of the squared MMD
        of the populations, by blocks of rows of all samples that are left out one by one.
    rng, precision, client, threads, memory, time, progress, checkpoint
        As for `independence_test`.

    Returns
    -------
    TwoSampleTestResult

    Raises
    ------
    InvalidArgumentError, DataError, MemoryBudgetError
        As for `independence_test`; fewer than two samples, or samples with different columns;
        labels that are missing for a sample or allow hardly any permutation between samples; or
        groups that lie in several samples.

    References
    ----------
    .. [1] A. Gretton, K. Borgwardt, M. Rasch, B. Schoelkopf, A. Smola. A kernel two-sample test.
       JMLR 13, 2012.
    .. [2] A. Chatalic, N. Schreuder, A. Rudi, L. Rosasco. Nystrom kernel mean embeddings. ICML
       2022, section 5.
    .. [3] W. Zaremba, A. Gretton, M. Blaschko. B-test: a non-parametric, low variance kernel
       two-sample test. NIPS 2013.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.standard_normal(300), rng.laplace(scale=0.5**0.5, size=400)
    >>> dhsic.two_sample_test(x, x[::-1] + 1.0, rng=0).pvalue < 0.01
    True
    >>> dhsic.two_sample_test(x, y, kernels="gaussian", rng=0).samples[1]
    SampleSummary(name='x2', n=400)

    Twenty patients of ten visits each are not 200 draws:

    >>> visits = [np.repeat(rng.standard_normal(20), 10) for _ in range(2)]
    >>> patients = [np.repeat(np.arange(20), 10), np.repeat(np.arange(20, 40), 10)]
    >>> wrong = dhsic.two_sample_test(*visits, rng=0)
    >>> right = dhsic.two_sample_test(*visits, groups=patients, rng=0)
    >>> wrong.pvalue < 0.05 < right.pvalue
    True
    """
    run = RunOptions(**options)
    rows = RowLabels(strata, groups)
    rows.check_confidence(confidence)
    asked, pair = _read_estimator(estimator), _kernels_of_pair(kernels)
    session, sizes = _open_pooled(run, samples, names, data, between, missing, rows.given, asked)
    with named_as_mmd():
        method = choose_method(session, pair, asked, null, n_resamples)
        intervals: list[Intervals] = []
        if confidence is not None:
            measure, (kernel, codes) = method.estimated
            both = Combinations.against((kernel,), codes)
            test = method.planner
            intervals = [_SampleIntervals.of(session, measure, both, confidence, test=test)]
        plan = method.plan(session, intervals)
        named = MMD_NAMES.get(type(method.estimator), plan.estimator)
        fitted = tuple(kernel for kernel in plan.kernels if kernel != Codes().spec())
        session.begin(replace(plan, estimator=named, kernels=fitted))
    session.resume(computes="two-sample test", **method.described, assessed=intervals)
    fields = tested_fields(session, method, intervals)
    # In words of samples.
    grid: GridSummary | None = fields["grid"]
    statistic, estimate = fields["statistic"], fields["estimate"]
    if grid is not None:
        # The statistic of a grid is a score: the estimate is that of the reference.
        statistic = grid.combinations[grid.reference].statistic
        each = (replace(tried, kernels=tried.kernels[:1]) for tried in grid.combinations)
        grid = replace(grid, combinations=tuple(each))
    # That of blocks is in units of its error, all others are n times the estimate.
    if not isinstance(method.estimator, BlockHSIC):
        estimate = statistic / fields["n"]
    # Under the name of the task: the estimator of HSIC is how it is computed.
    name, quantity = MMD_NAMES.get(type(method.estimator)), fields["quantity"]
    if name is not None:
        quantity = "squared MMD" if len(sizes) == 2 else "mean squared MMD of pairs"
    fields |= {
        "estimate": estimate,
        "quantity": quantity if strata is None else f"{quantity} within strata",
        "estimator": name or method.estimator.name,
        # The codes of samples are ours, and no variable of the user.
        "variables": fields["variables"][:1],
        "grid": grid,
    }
    return TwoSampleTestResult(samples=sizes, **fields)


@plans(two_sample_test)
def plan_two_sample() -> None:
    """Plan `two_sample_test`: its steps and their memory; runs nothing.

    Parameters
    ----------
    *samples : array-like, shapes (n_k,) or (n_k, d)
        As for `two_sample_test`.
    kernels, estimator, null, n_resamples, names, data, between, missing, strata, groups
        As for `two_sample_test`.
    confidence
        As for `two_sample_test`.
    precision, client, threads, memory, time
        As for `two_sample_test`.

    Returns
    -------
    Plan

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> dhsic.plan_two_sample(np.zeros((6_000, 3)), np.zeros((4_000, 3)), threads=1).n
    10000
    """


def _open_pooled(
    run: RunOptions,
    samples: Sequence[Any],
    names: Sequence[str] | None,
    data: Any,
    between: Any,
    missing: GapTreatment,
    labels: Mapping[str, Any],
    estimator: str | Estimator,
) -> tuple[Session, tuple[SampleSummary, ...]]:
    """Begin a run over the values of all rows and the codes of their samples."""
    if between is None and len(samples) < 2:
        msg = (
            f"a two-sample test needs at least two samples, got {len(samples)}: give another, "
            "or between=, labels of its rows"
        )
        raise InvalidArgumentError(msg)
    if between is not None and (len(samples) != 1 or names is not None):
        msg = (
            f"between needs one variable, whose samples its labels name, got {len(samples)}"
            f"{'' if names is None else ' and names'}: give one column, or leave between out"
        )
        raise InvalidArgumentError(msg)
    with graphs_on(run.client, run.threads):
        opened: list[Source]
        beside: dict[str, list[Source]]
        if between is None:
            opened, beside, dropped = open_sample_data(samples, names, data, missing, labels)
        else:
            variables = (*samples, between)
            opened, beside, dropped = _samples_by_label(variables, data, missing, labels, run)
        told = tuple(SampleSummary(sample.name, sample.shape[0]) for sample in opened)
        for name, n in map(astuple, told):
            if n < _FEWEST:
                msg = (
                    f"sample {name!r} must have at least {_FEWEST} rows, got {n}: give more, or "
                    "leave it out"
                )
                raise DataError(msg)
        sizes = tuple(sample.n for sample in told)
        # Pooled rows alternate between samples, so that blocks of them hold some of each.
        of, places = rows_of_samples(np.arange(sum(sizes)), sizes)
        at, pooled = np.cumsum([0, *sizes[:-1]])[of] + places, dict[str, Indices]()
        for what, each in beside.items():
            # One label for all samples: equal ones are one stratum, whichever sample has them.
            pooled[what] = coded(np.concatenate([read_labels(one, one.name) for one in each])[at])
        # One name for all, or none: pooled values of different columns have none in common.
        own = {labels_of(sample) if sample.shape[1] == 1 else None for sample in opened}
        label = own.pop()
        common = label[0] if label and not own and label[0] != _SAMPLE else "values"
        values: Source = pooled_samples(common, tuple(opened))
        # MMD is HSIC with the codes of the samples as the second variable, see `sample_codes`.
        codes: Source = codes_of_rows(_SAMPLE, sizes, codes_for(estimator, sizes))
        if pooled:  # rows are then read in any order
            memory = parse_bytes(run.memory)
            (values,) = held_sources([values], memory, pooled.get("strata"))
            (codes,) = held_sources([codes], memory, None)
        session = run.over((values, codes), dropped)
    moves = moves_between(opened, pooled, session.seed)
    return replace(session, moves=moves), told


def _samples_by_label(
    variables: Sequence[Any],
    data: Any,
    missing: GapTreatment,
    labels: Mapping[str, Any],
    run: RunOptions,
) -> tuple[list[Source], dict[str, list[Source]], int]:
    """Samples of the rows of a variable that have equal labels, with those of other labels."""
    names = names_of(variables, ["x1", "between"]) if data is None else None
    sources, beside, dropped = open_labelled_data(variables, names, data, missing, labels)
    values, label = held_sources(sources, parse_bytes(run.memory), None)
    told = read_labels(label, "between")
    code = coded(told)
    if not code.any():
        msg = f"between must have two labels or more, got one of {len(code)} rows: take another"
        raise DataError(msg)
    known, kinds = _categories(sources[1]) or [None] * label.shape[1], kinds_of(label)
    samples = {what: list[Source]() for what in ("", *beside)}
    for k in range(code.max() + 1):
        rows = np.flatnonzero(code == k)
        name = ", ".join(map(_label_text, told[rows[0]], kinds, known))
        for what, source in {"": values, **beside}.items():
            part = Variable(
                f"{what} of {name!r}" if what else name,
                read_whole(source)[rows],
                kinds=kinds_of(source),
                labels=labels_of(source),
                categories=_categories(source),
            )
            samples[what].append(part)
    return samples.pop(""), samples, dropped


def _categories(source: Any) -> tuple[Labels, ...] | None:
    """The labels of codes; of rows that are left they are those of all rows."""
    while not hasattr(source, "categories") and hasattr(source, "inputs"):
        source = source.inputs[0]
    return getattr(source, "categories", None)


def _label_text(value: Any, kind: ValueKind, known: Labels) -> str:
    if known is not None:
        return str(known[int(value)])
    # In full, since dates and numbers of people may differ in their last digit alone.
    return str(bool(value)) if kind == "boolean" else str(value).removesuffix(".0")


@dataclass(frozen=True)
class _SampleIntervals(Intervals):
    """Those of the discrepancy of samples.

    A block of rows need not have its share of every sample. With codes that are fixed, HSIC of the
    values and these is p^2 (1 - p)^2 d^2 MMD^2 of two samples that have the shares p and 1 - p of
    the rows, and d^2 the squared distance of their codes; HSIC of the codes with themselves is
    p^2 (1 - p)^2 d^4. So the quotient of both has the factor of no share.
    """

    own: ClassVar[bool] = True

    def measure(self, part: Session) -> Estimate:
        """The estimate of HSIC of a part of the rows, with that of the codes with themselves."""
        found = self.estimator.test_grid(part, self.combinations, None)
        assert found.own is not None
        estimate, own = found.estimate(0), tuple(found.own[0].tolist())
        parts = estimate.parts
        parts = parts if len(parts) > 1 else [parts[0]._replace(own=own)]
        return replace(estimate, made_of=parts)

    def parts_of(self, estimate: Estimate, whole: Estimate) -> list[Parts]:
        """Those of the discrepancy."""
        scaled, shares = [], whole.parts[0].own[1]
        for one in estimate.parts:
            factor = shares / one.own[1]
            excess = None if one.excess is None else factor * one.excess
            scaled.append(Parts(factor * one.value, factor * one.size, excess=excess))
        return scaled


def _read_estimator(estimator: str | Estimator) -> str | Estimator:
    if isinstance(estimator, str):
        given = {cls.name: name for cls, name in MMD_NAMES.items()}.get(estimator, estimator)
        others = [name for name, cls in ESTIMATORS.items() if is_added(cls)]
        name = check_choice("estimator", given, ("auto", *MMD_ESTIMATORS, *others))
        return MMD_ESTIMATORS[name].name if name in MMD_ESTIMATORS else name
    # By the class itself: one derived from it may be of another statistic, and have no name here.
    if type(estimator) not in MMD_NAMES and not is_added(type(estimator)):
        classes = ", ".join(cls.__name__ for cls in MMD_NAMES)
        msg = f"estimator must be a name or one of {classes}, got {shown(estimator)}"
        raise InvalidArgumentError(msg)
    if isinstance(estimator, RFFHSIC) and estimator.form != "cos-sin":
        msg = (
            f"form must be 'cos-sin' in a test of samples, got {estimator.form!r}: the discrepancy "
            "is the same for both"
        )
        raise InvalidArgumentError(msg)
    return estimator


def _kernels_of_pair(kernels: Any) -> Grid | list[Any]:
    """Those of the values, and of the codes."""
    if not isinstance(kernels, Grid):
        if isinstance(kernels, Sequence) and not isinstance(kernels, str):
            msg = (
                "kernels must be one name or Kernel, Candidates or a Grid, got "
                f"{shown(kernels)}: to try several, give Candidates"
            )
            raise InvalidArgumentError(msg)
        return [kernels, Codes()]
    given = kernels.candidates
    listed = [given] if isinstance(given, Candidates) else list(given)
    if len(listed) != 1:
        msg = f"a grid of a two-sample test needs Candidates of the values, got {len(listed)}"
        raise InvalidArgumentError(msg)
    combine = kernels.combine
    if not isinstance(combine, str):
        # The kernel of samples has one candidate.
        combine = [(*numbers, 0) for numbers in combine]
    return replace(kernels, candidates=(listed[0], Candidates(Codes(), (1.0,))), combine=combine)
