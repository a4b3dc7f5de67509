"""A Dask scheduler that runs already."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distributed import Client
from distributed.comm.addressing import parse_address, parse_host_port
from distributed.comm.registry import get_backend
from distributed.utils import silence_logging_cmgr

from dhsic.errors import InvalidArgumentError

__all__ = ["connect"]

_REQUIREMENT = "scheduler must be the address of a running Dask scheduler, as tcp://10.0.0.1:8786"


@contextmanager
def connect(address: str, timeout: float = 5.0) -> Iterator[Any]:
    """Connect to a Dask scheduler; the cluster keeps running when the block ends.

    Parameters
    ----------
    address : str
        Such as ``tcp://10.0.0.1:8786``.
    timeout : float, optional
        Seconds to wait for an answer, and then for a first worker.

    Yields
    ------
    distributed.Client
        For the `client` of `dhsic.independence_test`.

    Raises
    ------
    InvalidArgumentError
        Nobody answers at the address, or the scheduler has no workers.
    """
    with _connected(address, timeout) as client:
        try:
            client.wait_for_workers(1, timeout=timeout)
        except TimeoutError:
            msg = (
                f"the scheduler must have workers, and that at {address} got none within "
                f"{timeout:g} s: start some, as with 'dask worker {address}'"
            )
            raise InvalidArgumentError(msg) from None
        yield client


def _connected(address: str, timeout: float) -> Any:
    try:
        scheme, location = parse_address(address)
        get_backend(scheme)
        parse_host_port(location)
    except ValueError as error:
        msg = f"{_REQUIREMENT}; got {address!r}: write protocol, host and port"
        raise InvalidArgumentError(msg) from error
    try:
        with silence_logging_cmgr(logging.CRITICAL):  # the error says it once
            return Client(address, timeout=timeout)
    except (OSError, ImportError) as error:
        msg = f"{_REQUIREMENT}; nobody answered at {address!r} within {timeout:g} s: is it running?"
        raise InvalidArgumentError(msg) from error
