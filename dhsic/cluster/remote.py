"""A Dask scheduler that runs already."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distributed import Client, Security
from distributed.comm.addressing import parse_address, parse_host_port
from distributed.comm.registry import get_backend
from distributed.utils import silence_logging_cmgr

from dhsic._files import check_regular, parse_json
from dhsic.cluster import checks
from dhsic.cluster.probe import NOBODY, refusal
from dhsic.cluster.sections import SchedulerAt
from dhsic.cluster.security import check_address, security_of
from dhsic.cluster.spec import ClusterSpec
from dhsic.errors import InvalidArgumentError

_REQUIREMENT = "scheduler must be the address of a running Dask scheduler, as tcp://10.0.0.1:8786"


@contextmanager
def scheduler_client(spec: ClusterSpec) -> Iterator[Any]:
    """Connect to a scheduler, which keeps running when the block ends."""
    assert spec.scheduler is not None
    # From the file again at every call: a scheduler that was restarted has another address.
    address = _address(spec.scheduler)
    _check_address(address)
    check_address(address, spec.tls, spec.insecure)
    security = None if spec.tls is None else security_of(spec.tls)
    with _connected_client(address, security, spec) as client:
        first_worker(client, spec.patience, f"start some, as with 'dask worker {address}'")
        yield client


def first_worker(client: Any, timeout: float, remedy: str) -> None:
    """Wait until there is a worker.

    Raises
    ------
    InvalidArgumentError
        There was none in time.
    """
    try:
        client.wait_for_workers(1, timeout=timeout)
    except TimeoutError:
        address = client.scheduler.address
        msg = (
            f"the scheduler must have workers, and that at {address} got none within "
            f"{timeout:g} s: {remedy}"
        )
        raise InvalidArgumentError(msg) from None


def _connected_client(address: str, security: Security | None, spec: ClusterSpec) -> Any:
    seconds = spec.answer_seconds
    # A plain socket asks first, for the reasons in the head of `probe`.
    reason = refusal(address, spec.tls, seconds)
    if reason == NOBODY:
        msg = (
            f"{_REQUIREMENT}; {reason} at {address!r} within {seconds:g} s: start it, check the "
            "address, or allow a longer timeout"
        )
        raise InvalidArgumentError(msg)
    if reason:
        msg = f"no connection to the scheduler at {address}: {reason}"
        raise InvalidArgumentError(msg)
    try:
        with silence_logging_cmgr(logging.CRITICAL):  # the error says it once
            return Client(address, timeout=seconds, security=security)
    except (OSError, ImportError, RuntimeError) as error:
        msg = f"no connection to the scheduler at {address}: {' '.join(str(error).split())[:200]}"
        raise InvalidArgumentError(msg) from error


def _check_address(address: str) -> None:
    # As Dask would, and before it waits for an answer.
    try:
        scheme, location = parse_address(address)
        get_backend(scheme)
        parse_host_port(location)
    except ValueError as error:
        msg = f"{_REQUIREMENT}; got {address!r}: write protocol, host and port"
        raise InvalidArgumentError(msg) from error


def _address(at: SchedulerAt) -> str:
    if at.address is not None:
        return at.address
    assert at.scheduler_file is not None
    requirement, remedy = "a file of a running scheduler", "give what --scheduler-file wrote"
    try:
        check_regular(at.scheduler_file)
        with open(at.scheduler_file, encoding="utf-8") as file:
            address = parse_json(file.read())["address"]
    except OSError as error:
        reason = str(error.strerror)
        checks.refuse("scheduler_file", requirement, at.scheduler_file, f"{reason}; {remedy}")
    except (ValueError, LookupError, TypeError):
        checks.refuse("scheduler_file", requirement, at.scheduler_file, remedy)
    return str(address)
