"""Workers of a Dask Gateway."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

from dhsic._validation import nearest
from dhsic.cluster.remote import first_worker
from dhsic.cluster.sections import Adaptive, Gateway
from dhsic.cluster.security import allow_insecure, stays_here
from dhsic.cluster.spec import ClusterSpec
from dhsic.errors import ClusterError, DhsicError, InvalidArgumentError, needing


@contextmanager
def gateway_client(spec: ClusterSpec) -> Iterator[Any]:
    """Ask a gateway for a cluster, which it stops when the block ends.

    The way to the scheduler is always encrypted, by certificates that the gateway hands out.
    """
    section = spec.gateway
    assert section is not None
    url = urlsplit(section.address)
    # The gateway hands out certificates on this way: plain http is for this machine alone.
    if url.scheme == "http" and not stays_here(url.hostname or ""):
        allow_insecure(f"the way to the gateway at {section.address}", spec.insecure)
    with needing("dask-gateway", "gateway", "a cluster of Dask Gateway"):
        from dask_gateway import Gateway as Client
    with ExitStack() as stack:
        try:
            gateway = stack.enter_context(Client(address=section.address, auth=section.auth))
            options = _gateway_options(gateway.cluster_options(), section)
            # The gateway would keep the cluster for other sessions otherwise.
            cluster = stack.enter_context(gateway.new_cluster(options, shutdown_on_close=True))
            _scale_gateway(cluster, spec)
            client = stack.enter_context(cluster.get_client())
        except DhsicError:
            # What comes from here has its remedy already, and is not wrapped again.
            raise
        except Exception as error:  # of any of the libraries below it
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            msg = f"the gateway at {section.address} starts no cluster: {reason}"
            raise ClusterError(msg) from error
        first_worker(client, spec.patience, "ask who runs the gateway, or allow a longer timeout")
        yield client


def _gateway_options(options: Any, section: Gateway) -> Any:
    """The options that the gateway offers, with the values that were asked for."""
    chosen = dict(section.options)
    if section.image is not None:
        chosen["image"] = section.image
    for name, value in chosen.items():
        if name not in options:
            msg = (
                f"the gateway at {section.address} has no option {name!r}{nearest(name, options)}"
                f"; there are: {', '.join(options) or 'none'}"
            )
            raise InvalidArgumentError(msg)
        options[name] = value
    return options


def _scale_gateway(cluster: Any, spec: ClusterSpec) -> None:
    if isinstance(spec.workers, Adaptive):
        cluster.adapt(minimum=spec.workers.minimum, maximum=spec.workers.maximum)
    else:
        cluster.scale(spec.workers)
