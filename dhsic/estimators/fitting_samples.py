"""Samples that kernels are fitted to, which vary wherever the data do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.gaps import filled
from dhsic.engine.scan import Differing, Still
from dhsic.engine.session import Session
from dhsic.errors import DataError
from dhsic.kernels import Kernel

_FEWEST = 5

Sample = NDArray[Any]
ColumnNumbers = tuple[int, ...]


@dataclass(frozen=True)
class FittingSamples:
    """Drawn rows of every variable, and others for columns that are the same in all of them.

    Such columns are rare flags, as a rule: few rows of the data hold anything else, and none of
    these was drawn. They are looked for among all rows of that variable, whatever the others hold
    there, so that kernels do not come to know of the pairing.

    Parameters
    ----------
    drawn : tuple of ndarray, shapes (s, d_m)
        One a variable.
    n : int
        Rows of the data.
    found : mapping of (int, tuple of int) to Differing
        Rows that differ, by the variable and the columns.
    """

    drawn: tuple[Sample, ...]
    n: int
    found: Mapping[tuple[int, ColumnNumbers], Differing]

    @classmethod
    def of(
        cls, session: Session, kernels: Iterable[tuple[Kernel, int]], drawn: Sequence[Sample]
    ) -> FittingSamples:
        """For kernels with the numbers of their variables; takes a pass where a sample is the same.

        Raises
        ------
        DataError
            A variable is constant, where the session does not take constants.
        """
        there = list(map(filled, drawn))  # a column is the same where its values are
        same = [(sample == sample[0]).all(axis=0) for sample in there]
        whole = [
            (m, tuple(range(len(columns_same))))
            for m, columns_same in enumerate(same)
            if columns_same.all()
        ]
        parts = [(m, at) for kernel, m in kernels for at in _still(kernel, same[m])]
        beyond_samples = beyond(session, there, list(dict.fromkeys([*whole, *parts])))
        for m, columns in whole:
            if not (beyond_samples[m, columns].total or session.takes_constants):
                within = getattr(session.sources[m], "strata", None) is not None
                where = "in every stratum all" if within else f"all {session.n}"
                msg = (
                    f"variable {session.names[m]!r} is constant: {where} rows are the same, so it "
                    "is independent of everything; leave it out"
                )
                raise DataError(msg)
        return cls(tuple(drawn), session.n, beyond_samples)

    def of_kernel(self, kernel: Kernel, m: int) -> Sample:
        """The sample of a variable as one of its kernels is to be fitted to it."""
        sample = self.drawn[m]
        if m in self._constant:
            # A constant: any scale will do, and the median stays what the rows hold.
            # The added row is another value, so that the kernel finds a scale.
            value = filled(sample)[0]
            return np.vstack([sample, value + np.maximum(1.0, np.abs(value))])
        d = sample.shape[1]
        sets = kernel.scale_columns(d) or (tuple(range(d)),)
        missed = {at: self.found[m, at] for at in sets if (m, at) in self.found}
        return _completed(sample, missed, self.n)

    @cached_property
    def _constant(self) -> frozenset[int]:
        """Variables all rows of which are the same."""
        return frozenset(
            m
            for (m, at), rows in self.found.items()
            if len(at) == self.drawn[m].shape[1] and not rows.total
        )


def beyond(
    session: Session, drawn: Sequence[Sample], still: Sequence[tuple[int, ColumnNumbers]]
) -> dict[tuple[int, ColumnNumbers], Differing]:
    """Rows that differ from samples in columns that are the same there, by variable and columns."""
    sought = [Still(m, at, np.array(drawn[m][0, list(at)], np.float64)) for m, at in still]
    return dict(zip(still, session.differing(sought), strict=True))


def _completed(sample: Sample, missed: Mapping[ColumnNumbers, Differing], n: int) -> Sample:
    """A sample (s, d) with rows that differ in columns that are the same in it.

    They are as many as their share of the n rows, and five where that is less, which is enough for
    a typical distance; each set of columns has them in other rows of the sample.
    """
    if not any(differing.total for differing in missed.values()):
        return sample
    sample, start = sample.copy(), 0
    for columns, differing in missed.items():
        share = round(len(sample) * differing.total / n)
        # One row stays as it was, or the column would be the same in all again.
        count = min(max(share, _FEWEST), len(differing.values), len(sample) - 1)
        rows = np.arange(start, start + count) % len(sample)
        sample[rows[:, None], np.array(columns)] = differing.values[:count]
        start += count
    return sample


def _still(kernel: Kernel, same: NDArray[np.bool_]) -> list[ColumnNumbers]:
    """The sets of columns from which a kernel takes a scale, and which are the same in a sample."""
    known = (at for at in kernel.scale_columns(len(same)) if max(at) < len(same))
    return [at for at in known if same[list(at)].all()]
