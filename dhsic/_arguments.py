"""What a user passes to the public functions, made into values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np

from dhsic._random import resolve_seed
from dhsic._validation import check_choice, parse_bytes
from dhsic.engine.blocks import Source
from dhsic.engine.runtime import Runtime, current_client
from dhsic.engine.session import Session
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.estimators import Estimator
from dhsic.io.open import open_variables
from dhsic.kernels import Kernel, parse

__all__ = ["Precision", "kernels_to_fit", "open_session", "read_kernels"]

Precision = Literal["float64", "float32"]


def open_session(
    variables: Sequence[Any],
    names: Sequence[str] | None,
    rng: int | np.random.Generator | None,
    precision: str,
    client: Any,
    threads: int | None,
    memory: int | str,
    progress: Any,
) -> Session:
    """Open the variables, check what does not depend on them, and say where it runs."""
    check_choice("precision", precision, get_args(Precision))
    sources = open_variables(variables, names)
    if sources[0].shape[0] < 4:
        msg = f"a test of independence needs at least 4 rows, got {sources[0].shape[0]}"
        raise DataError(msg)
    if client is None and threads is None and any(s.place == "graph" for s in sources):
        client = current_client()
    if not callable(progress) and progress is not None:
        msg = f"progress must be callable with one event, got {progress!r}"
        raise InvalidArgumentError(msg)
    runtime = _runtime(client, threads, parse_bytes(memory))
    return Session(sources, runtime, resolve_seed(rng), precision, progress)


def _runtime(client: Any, threads: int | None, memory: int) -> Runtime:
    if client is None:
        return Runtime.here(threads, memory)
    if threads is not None:
        msg = "threads must be left out where a client is given: its workers have their own"
        raise InvalidArgumentError(msg)
    return Runtime.on(client, memory)


def read_kernels(kernels: Any, m: int) -> tuple[Kernel | None, ...]:
    """What was asked for each variable; None leaves it to the estimator."""
    if kernels is None or isinstance(kernels, (str, Kernel)):
        kernels = [kernels] * m
    if not isinstance(kernels, Sequence):
        msg = f"kernels must be a name, a Kernel, or a sequence of them, got {kernels!r}"
        raise InvalidArgumentError(msg)
    if len(kernels) != m:
        msg = f"kernels must be one, or one for each of {m} variables, got {len(kernels)}"
        raise InvalidArgumentError(msg)
    return tuple(_kernel(kernel) for kernel in kernels)


def kernels_to_fit(
    asked: Sequence[Kernel | None], estimator: Estimator, sources: Sequence[Source]
) -> tuple[Kernel, ...]:
    """The kernels that the estimator will fit."""
    kernels = tuple(estimator.kernel(kernel) for kernel in asked)
    for kernel, source in zip(kernels, sources, strict=True):
        if source.categorical and not kernel.nominal:
            msg = (
                f"variable {source.name!r} holds categories, so its kernel must be 'delta', "
                f"got {kernel.spec()!r}"
            )
            raise InvalidArgumentError(msg)
    return kernels


def _kernel(kernel: Any) -> Kernel | None:
    if isinstance(kernel, str):
        return parse(kernel)
    if kernel is None or isinstance(kernel, Kernel):
        return kernel
    msg = f"kernels must be names or Kernel values, got {kernel!r}"
    raise InvalidArgumentError(msg)
