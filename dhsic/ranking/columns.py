"""The features of a ranking or a selection: columns of a variable, or groups of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dhsic._arguments import RunOptions, check_kernel, read_kernel
from dhsic._rows import RowLabels
from dhsic._validation import nearest
from dhsic.engine.blocks import Source, ValueKind, kinds_of, labels_of
from dhsic.engine.gaps import Gaps, filled
from dhsic.engine.session import Session
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.estimators import Estimator, Null, choose_estimator, find_estimator
from dhsic.estimators.base import bandwidth_rows, check_gaps
from dhsic.estimators.fitting_samples import beyond
from dhsic.estimators.reach import Planner
from dhsic.io.missing import GapTreatment
from dhsic.io.open import names_of
from dhsic.kernels import Combinations, Gaussian, Kernel, OnColumns, by_type
from dhsic.kernels.wrap import with_missing

ColumnKernels = str | Kernel | Sequence[str | Kernel | None] | None
ColumnGroups = Mapping[str, Sequence[int | str]] | Sequence[Sequence[int | str]]


@dataclass(frozen=True)
class RankedColumns:
    """Columns of the first variable, or groups of them.

    Parameters
    ----------
    names : tuple of str
        One a feature.
    columns : tuple of tuple of int
        The columns of each.
    kernels : tuple of Kernel
        To fit to each.
    kinds : tuple of {"number", "boolean", "category"} or None
        Kinds of the columns of the variable, where they decide on kernels.
    missing : bool, optional
        Whether rows may miss values.
    """

    names: tuple[str, ...]
    columns: tuple[tuple[int, ...], ...]
    kernels: tuple[Kernel, ...]
    kinds: tuple[ValueKind, ...] | None = None
    missing: bool = False

    def with_missing(self, finite: Sequence[bool]) -> RankedColumns:
        """With kernels of rows that may be missing, where the first variable is not finite."""
        return replace(self, missing=not finite[0])

    def missing_of(self, gaps: Sequence[Gaps]) -> tuple[int, ...]:
        """Missing values of every feature and rows of the target, if any are missing."""
        if not gaps:
            return ()
        features, target = gaps
        each = (sum(features.values[j] for j in columns) for columns in self.columns)
        return (*each, target.rows)

    def on(self, subset: Sequence[int]) -> Kernel:
        """The kernel on all columns of some features, in units of their standard deviation."""
        # A column of several features counts once.
        columns = tuple(dict.fromkeys(j for feature in subset for j in self.columns[feature]))
        kernel = self.kernels[subset[0]]
        # A set may hold numbers and categories: no kernel of one feature suits all of its columns.
        if self.kinds is not None:
            kernel = by_type([self.kinds[j] for j in columns], Gaussian())
        scaled = OnColumns(kernel, columns, scaled=True)
        return with_missing(scaled) if self.missing else scaled

    def __len__(self) -> int:
        return len(self.names)

    def against(self, target: Kernel) -> Combinations:
        """Every feature with the target."""
        # Kernels on columns of the one variable, so that all are fitted and read together.
        pairs = zip(self.kernels, self.columns, strict=True)
        combinations = Combinations.against([OnColumns(kernel, at) for kernel, at in pairs], target)
        return combinations.with_missing([self.missing, False])


def open_columns(
    run: RunOptions, features: Any, target: Any, data: Any, missing: GapTreatment, rows: RowLabels
) -> Session:
    """Open features and target; they are x and y where they have no names."""
    given, usual = (features, target), ("x", "y")
    # Columns of data have names of their own; arrays are x and y.
    if data is None:
        names = names_of(given, usual)
    else:
        # One column has its name; a list of columns has none of its own.
        names = [x if isinstance(x, str) else y for x, y in zip(given, usual, strict=True)]
    return run.open(given, names, data, missing, rows, pairwise=True)


def read_columns(
    source: Source,
    names: Sequence[str] | None,
    groups: ColumnGroups | None,
    kernels: ColumnKernels,
) -> RankedColumns:
    """The features that were asked for.

    Parameters
    ----------
    source : Source
        The variable.
    names : sequence of str or None
        Names of the columns; their own where not given.
    groups : mapping, sequence or None
        Columns of every group, by number or name.
    kernels : str, Kernel or a sequence of them, or None
        For all features, or one a feature; by what the columns hold where not given.

    Raises
    ------
    InvalidArgumentError
        Names, groups or kernels that do not fit.
    """
    columns = _column_names(source, names)
    chosen: dict[str, tuple[int, ...]]
    if groups is None:
        chosen = {name: (j,) for j, name in enumerate(columns)}
    else:
        chosen = {
            name: _columns_of(name, at, columns) for name, at in _named_groups(groups).items()
        }
    kinds = kinds_of(source)
    read = _kernels_of_features(kernels, chosen, kinds)
    # Kernels that were given are those of sets of features too: their kinds decide nothing then.
    return RankedColumns(tuple(chosen), tuple(chosen.values()), read, None if kernels else kinds)


def kernel_for_columns(kernel: Any, kinds: Sequence[ValueKind], what: str) -> Kernel:
    """A kernel that the values of columns allow: from its name, as it is, or by what they hold."""
    read = read_kernel(kernel)
    if read is None:
        return by_type(kinds, Gaussian())
    check_kernel(read, kinds, what)
    return read


def _column_names(source: Source, names: Sequence[str] | None) -> list[str]:
    d = source.shape[1]
    if names is None:
        labels = labels_of(source)
        if labels is None:
            # Some columns of an array keep the numbers that they have in it.
            numbers = getattr(source, "columns", None) or range(d)
            return [f"{source.name.split('[')[0]}[{j}]" for j in numbers]
        names = list(labels)
    listed = list(names) if _is_list(names) else []
    different = all(isinstance(name, str) for name in listed) and len(set(listed)) == d
    if len(listed) != d or not different:
        msg = f"names must be {d} different words, one a column of the features; got {names!r}"
        raise InvalidArgumentError(msg)
    return listed


def _named_groups(groups: ColumnGroups) -> Mapping[str, Sequence[int | str]]:
    named = groups
    if not isinstance(groups, Mapping):
        listed = groups if isinstance(groups, Sequence) and not isinstance(groups, str) else ()
        # From 1 on, as a person counts.
        named = {f"group {number}": at for number, at in enumerate(listed, 1)}
    assert isinstance(named, Mapping)
    if not named or not all(isinstance(name, str) for name in named):
        msg = (
            "groups must be columns by the name of their group, or a list of lists of columns; got "
            f"{groups!r}: as {{'timbre': [0, 1, 2], 'rest': [3, 4]}}"
        )
        raise InvalidArgumentError(msg)
    return named


def _columns_of(group: str, listed: Any, names: list[str]) -> tuple[int, ...]:
    """Columns by number or name."""
    given = list(listed) if _is_list(listed) else []
    # An unknown name stays a text, which the check below refuses.
    at = [names.index(x) if isinstance(x, str) and x in names else x for x in given]
    known = [
        # True is 1 to Python; as a column it is a mask by mistake.
        isinstance(x, int | np.integer) and not isinstance(x, bool) and 0 <= x < len(names)
        for x in at
    ]
    if not at or not all(known) or len(set(at)) < len(at):
        unknown = [x for x, there in zip(at, known, strict=True) if not there]
        # All are known where one is there twice.
        hint = nearest(str(unknown[0]), names) if unknown else ""
        msg = (
            f"group {group!r} must list different columns, one or more, by numbers from 0 to "
            f"{len(names) - 1} or by name; got {listed!r}{hint}"
        )
        raise InvalidArgumentError(msg)
    return tuple(map(int, at))


def _is_list(given: Any) -> bool:
    """Whether these are several values, and not a word, which is a sequence too."""
    is_word = isinstance(given, str | bytes)
    return not is_word and (isinstance(given, Sequence) or np.ndim(given) == 1)


def _kernels_of_features(
    given: ColumnKernels, chosen: Mapping[str, tuple[int, ...]], kinds: Sequence[ValueKind]
) -> tuple[Kernel, ...]:
    single = given is None or isinstance(given, str | Kernel)
    listed: Any = [given] * len(chosen) if single else given
    if not isinstance(listed, Sequence) or len(listed) != len(chosen):
        msg = (
            f"feature_kernels must be one, or one for each of {len(chosen)} features; got {given!r}"
        )
        raise InvalidArgumentError(msg)
    return tuple(
        kernel_for_columns(kernel, [kinds[j] for j in columns], f"feature {name!r}")
        for kernel, (name, columns) in zip(listed, chosen.items(), strict=True)
    )


def target_kernel_of(session: Session, kernel: str | Kernel | None) -> Kernel:
    """The kernel of the target: as given, or by what it holds; of rows that may be missing."""
    target = session.sources[1]
    read = kernel_for_columns(kernel, kinds_of(target), f"target {target.name!r}")
    return read if session.finite[1] else with_missing(read)


def without_constants(session: Session, features: RankedColumns) -> RankedColumns:
    """The features that are not constant.

    Only where some do not vary among the rows that set bandwidths, all rows are looked at. Those
    that vary in other rows, such as rare flags, are kept.

    Raises
    ------
    DataError
        All are constant, or a value is NaN or infinite.
    """
    sample = filled(session.take(bandwidth_rows(session))[0])
    same = (sample == sample[0]).all(axis=0)
    still = [bool(same[list(columns)].all()) for columns in features.columns]
    if not any(still):
        return features
    # Only those that do not vary in the sample are looked for in all rows.
    sets = {
        (0, at)
        for at, same_in_sample in zip(features.columns, still, strict=True)
        if same_in_sample
    }
    differing = beyond(session, [sample], sorted(sets))
    pairs = enumerate(zip(features.columns, still, strict=True))
    kept = [k for k, (at, same_in_sample) in pairs if not same_in_sample or differing[0, at].total]
    if not kept:
        msg = (
            f"a ranking needs a feature that varies, and all {len(features)} of "
            f"{session.names[0]!r} are constant: they are independent of everything"
        )
        raise DataError(msg)
    return replace(
        features,
        names=tuple(features.names[k] for k in kept),
        columns=tuple(features.columns[k] for k in kept),
        kernels=tuple(features.kernels[k] for k in kept),
    )


def column_estimator(
    estimator: str | Estimator,
    session: Session,
    combinations: Combinations,
    null: str | Null | None,
    n_resamples: int | None,
    planner: Planner | None = None,
    *,
    tuples: bool = False,
) -> tuple[Estimator, str]:
    """The estimator, one that takes many features, and why this one."""
    auto = isinstance(estimator, str) and estimator == "auto"
    # Looked up before anything is planned, so that the error says which estimators take many
    # features and not which sizes would fit.
    named = None if auto else find_estimator(estimator, session)[0]
    if named is not None and not named.ranks:
        msg = (
            "many features against one target need estimator 'nystrom-m', 'nystrom-hsic', 'v-hsic' "
            f"or 'auto', got {named.name!r}: take one of them, or test column by column"
        )
        raise InvalidArgumentError(msg)
    chosen, _, reason = choose_estimator(
        estimator, session, combinations, null, n_resamples, planner=planner, tuples=tuples
    )
    check_gaps(session, chosen)
    return chosen, reason
