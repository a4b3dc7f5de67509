"""The candidates of a ranking: columns of a variable or groups of them, with names and kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dhsic._arguments import check_kernel
from dhsic._validation import nearest
from dhsic.engine.blocks import Source, ValueKind, kinds_of, labels_of
from dhsic.engine.gaps import Gaps
from dhsic.errors import InvalidArgumentError
from dhsic.kernels import Combinations, Gaussian, Kernel, OnColumns, by_type, parse
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
    if kernel is None:
        return by_type(kinds, Gaussian())
    read = _checked_kernel(kernel)
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


def _checked_kernel(kernel: Any) -> Kernel:
    if isinstance(kernel, str):
        return parse(kernel)
    if isinstance(kernel, Kernel):
        return kernel
    msg = f"kernels must be names or Kernel values, got {kernel!r}: as 'gaussian' or 'delta'"
    raise InvalidArgumentError(msg)
