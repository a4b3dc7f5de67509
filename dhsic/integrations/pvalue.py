"""The p-value that two variables are independent, given others or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dhsic._random import RngLike
from dhsic.api import independence_test
from dhsic.conditional import conditional_independence_test

__all__ = ["PValue"]


@dataclass(frozen=True)
class PValue:
    """A test of independence, given variables or none, as a function that returns its p-value.

    DoWhy takes it as `independence_test` and as `conditional_independence_test`.

    Parameters
    ----------
    rng : int, SeedSequence, BitGenerator or None, optional
        Seed of every test, so that the same question has the same answer.
    client, threads, memory
        As for `dhsic.independence_test`.
    marginal : mapping of str to object, optional
        Other options of `dhsic.independence_test`, for tests where nothing is given, as
        ``{"null": "gamma"}``.
    conditional : mapping of str to object, optional
        Other options of `dhsic.conditional_independence_test`, where something is.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.integrations import PValue
    >>> z, a, b = np.random.default_rng(0).standard_normal((3, 400))
    >>> pvalue = PValue(conditional={"kernels": "gaussian"})
    >>> pvalue(z + a, z + b) < 0.01 < pvalue(z + a, z + b, z)
    True
    """

    rng: RngLike = 0
    client: Any = None
    threads: int | None = None
    memory: int | str = "2GiB"
    marginal: Mapping[str, Any] = field(default_factory=dict)
    conditional: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, x: Any, y: Any, z: Any = None) -> float:
        """The p-value that x and y are independent given z.

        Parameters
        ----------
        x, y : array-like, shapes (n,) or (n, d)
            As for `dhsic.independence_test`.
        z : array-like, shape (n,) or (n, d), optional
            The variables given; none where it is None or has no columns.

        Returns
        -------
        float
        """
        run_options: dict[str, Any] = {
            "rng": self.rng,
            "client": self.client,
            "threads": self.threads,
            "memory": self.memory,
            "progress": False,
        }
        # causal-learn gives an array without columns where there is no condition.
        if z is None or 0 in getattr(z, "shape", ()):
            return independence_test(x, y, **run_options, **self.marginal).pvalue
        return conditional_independence_test(
            x, y, given=z, **run_options, **self.conditional
        ).pvalue
