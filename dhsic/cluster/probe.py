"""Who answers at an address: a Dask scheduler that lets us in, or why not.

Dask waits for ever for the first word of what accepts a connection and is no scheduler, and what
it raises where encryption fails names neither side. A Dask scheduler speaks first.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time

from distributed.comm.addressing import parse_address, parse_host_port

from dhsic.cluster.security import ssl_context
from dhsic.cluster.spec import TLS

NOBODY = "nobody answered"

_PAUSE_SECONDS = 0.1
_SILENT = "what answers there is no Dask scheduler"


def refusal(address: str, tls: TLS | None, timeout: float) -> str:
    """Say why a scheduler cannot be talked to; empty where it can.

    Parameters
    ----------
    address : str
        Address of the scheduler.
    tls : TLS or None
        Our certificates.
    timeout : float
        Seconds to wait for a first word.

    Returns
    -------
    str
        The reason, without a full stop.
    """
    protocol, location = parse_address(address)
    # Other protocols are for programs that know them, and are left to Dask.
    if protocol not in ("tcp", "tls"):
        return ""
    place = parse_host_port(location)
    connection = _connected_socket(place, timeout)
    if connection is None:
        return NOBODY
    with connection:
        # With TLS the client speaks first, and is answered with the certificate.
        if tls is not None:
            return _encryption_text(connection, tls)
        if _speaks(connection):
            return ""
    # The first connection was silent; on a new one we speak first, as TLS wants.
    if _asks_for_tls(place, timeout):
        return "it speaks TLS: write tls:// and give certificates"
    return _SILENT


def _connected_socket(place: tuple[str, int], timeout: float) -> socket.socket | None:
    """Wait for a scheduler that is about to start."""
    # A scheduler that was started a moment ago may not listen yet.
    end = time.monotonic() + timeout
    while True:
        try:
            return socket.create_connection(place, timeout)
        except OSError:
            if time.monotonic() + _PAUSE_SECONDS > end:
                return None
            time.sleep(_PAUSE_SECONDS)


def _encryption_text(connection: socket.socket, tls: TLS) -> str:
    try:
        with ssl_context(tls).wrap_socket(connection) as encrypted:
            # With TLS 1.3 a refusal of our certificate comes only now.
            return "" if encrypted.recv(1) else _SILENT
    except ssl.SSLCertVerificationError as error:
        return f"its certificate is refused ({error.verify_message}): is ca the right file?"
    except ssl.SSLError as error:
        if "ALERT" in str(error.reason):
            reason = str(error.reason).lower().replace("_", " ")
            return f"it refuses our certificate ({reason}): is cert of its own authority?"
        return "it does not speak TLS"
    except ConnectionError:
        return "it does not speak TLS, or refuses our certificate"
    except OSError:
        return _SILENT


def _speaks(connection: socket.socket) -> bool:
    with contextlib.suppress(OSError):
        return bool(connection.recv(1))
    return False


def _asks_for_tls(place: tuple[str, int], timeout: float) -> bool:
    """Whether the first word of TLS is answered, if only by asking for a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # The answer is of interest here, not who gives it: no data follow.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with socket.create_connection(place, timeout) as connection:
            context.wrap_socket(connection).close()
    except ssl.SSLError as error:
        # A refusal in words of TLS comes from one who speaks it.
        return "ALERT" in str(error.reason)
    except OSError:
        return False
    return True
