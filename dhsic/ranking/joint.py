"""The sensitivity of the dependence of all columns together to each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.blocks import kinds_of
from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators import Estimator
from dhsic.kernels import Kernel
from dhsic.ranking.ranked_columns import kernel_for_columns
from dhsic.ranking.result import By
from dhsic.sensitivity.maps import column_sensitivities, map_passes


class JointMap(NamedTuple):
    """The sensitivity map of the features as one variable, against the target."""

    estimator: Estimator
    """The one of the ranking."""
    kernels: tuple[Kernel, Kernel]
    """Kernels of the features as one variable, and of the target."""

    @classmethod
    def read(
        cls, session: Session, estimator: Estimator, feature_kernels: Any, target_kernel: Any
    ) -> JointMap:
        """The map for kernels as they were given.

        Raises
        ------
        InvalidArgumentError
            There are several kernels of features, or the one has no derivative.
        """
        # The map is of one kernel on all columns together, so that a list of kernels has no meaning
        # here.
        if not isinstance(feature_kernels, str | Kernel | None):
            msg = (
                "by='sensitivity' takes all columns as one variable, so feature_kernels must be "
                f"one kernel, got {feature_kernels!r}: give one, or rank by something else"
            )
            raise InvalidArgumentError(msg)
        if session.gaps:
            msg = (
                "by='sensitivity' needs rows without gaps, got missing='pairwise': take "
                "missing='drop', or rank by 'pvalue'"
            )
            raise InvalidArgumentError(msg)
        first, second = session.sources
        kernels = (
            kernel_for_columns(feature_kernels, kinds_of(first), f"variable {first.name!r}"),
            kernel_for_columns(target_kernel, kinds_of(second), f"target {second.name!r}"),
        )
        # Refused before the first pass, which would be for nothing.
        if not kernels[0].differentiable:
            msg = (
                "features ranked by 'sensitivity' must have a differentiable kernel to be varied, "
                f"got {kernels[0].spec()!r}: leave out those of labels, or rank by 'pvalue'"
            )
            raise InvalidArgumentError(msg)
        return cls(estimator, kernels)

    def steps(self, session: Session) -> tuple[DriverStep | PassPlan, ...]:
        """The steps of `measure`."""
        # By the statistic and not the estimate, as the p-values of the ranking.
        return tuple(map_passes(session, self.estimator, "statistic", self.kernels, (0,)).steps)

    def measure(self, session: Session, columns: Sequence[Sequence[int]]) -> NDArray[np.float64]:
        """Sums of the sensitivities of the columns of every feature, shape (k,)."""
        _, sensitivities = column_sensitivities(
            session, self.estimator, "statistic", self.kernels, (0,)
        )
        return np.array([sensitivities[list(numbers)].sum() for numbers in columns])


JointReader = Callable[[Session, Estimator], JointMap | None]


def joint_reader(by: By, feature_kernels: Any, target_kernel: Any) -> JointReader:
    """The maker of the map of all columns by an estimator; None where no map is wanted."""

    # Not made at once: a plan asks for the map of every estimator that it tries.
    def read(session: Session, estimator: Estimator) -> JointMap | None:
        if by != "sensitivity":
            return None
        return JointMap.read(session, estimator, feature_kernels, target_kernel)

    return read
