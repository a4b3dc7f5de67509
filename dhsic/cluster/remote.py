"""A Dask scheduler that runs already."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distributed import Client

from dhsic.errors import InvalidArgumentError

__all__ = ["connect"]


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
    # The client logs every failed attempt; the error says it once.
    logger = logging.getLogger("distributed")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        return Client(address, timeout=timeout, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        msg = (
            f"scheduler must be the address of a running Dask scheduler, such as "
            f"tcp://10.0.0.1:8786; nobody answered at {address!r} within {timeout:g} s"
        )
        raise InvalidArgumentError(msg) from error
    finally:
        logger.setLevel(level)
