"""Encryption between client, scheduler and workers."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import ssl
import time
import warnings

from distributed import Security
from distributed.comm.addressing import parse_address, parse_host_port

from dhsic._files import check_regular
from dhsic.cluster.spec import TLS, refuse
from dhsic.errors import InsecureWarning, InvalidArgumentError, MissingDependencyError

_ENCRYPTED = ("tls", "wss")
NOBODY = "nobody answered"

_PAUSE_SECONDS = 0.1
_SILENT = "what answers there is no Dask scheduler"


def security_of(tls: TLS) -> Security:
    """Security settings of Dask from certificates, whose files are checked first.

    Raises
    ------
    InvalidArgumentError
        A file that cannot be read, is not what it should be, or does not fit the others.
    """
    # Files are read here: Dask would fail in the first connection, with less to say.
    ssl_context(tls)
    return Security(
        # Without it Dask would speak to a peer that asks for plain TCP.
        require_encryption=True,
        tls_ca_file=tls.ca,
        **{
            f"tls_{role}_{name}": getattr(tls, name)
            for role in ("client", "scheduler", "worker")
            for name in ("cert", "key")
        },
    )


def temporary_security(otherwise: str) -> Security:
    """A key and a certificate of one cluster, which admits nobody else.

    They are in memory alone: Dask hands them to workers through the pipe that starts them, so that
    they stand in no command line and no environment, and to OpenSSL by a folder that only the user
    can read, which is removed at once.

    Parameters
    ----------
    otherwise : str
        A way out where none can be made.

    Returns
    -------
    distributed.Security

    Raises
    ------
    MissingDependencyError
        The library that makes them cannot be imported.
    """
    try:
        return Security.temporary()
    except ImportError as error:
        msg = (
            "worker processes are reached with a certificate of the run, since others on this "
            "machine could run code on them otherwise; it needs cryptography, a dependency of "
            f"dhsic that is not installed: pip install cryptography, or {otherwise}"
        )
        raise MissingDependencyError(msg) from error


def check_address(address: str, tls: TLS | None, insecure: bool) -> None:
    """Refuse what would travel over a network unencrypted, unless it is allowed.

    Raises
    ------
    InvalidArgumentError
        An address and certificates that do not go together.
    """
    protocol, location = parse_address(address)
    if protocol in _ENCRYPTED:
        if tls is None:
            msg = (
                f"the scheduler at {address} speaks TLS, which needs certificates: give tls with "
                "the files ca, cert and key"
            )
            raise InvalidArgumentError(msg)
    elif tls is not None:
        msg = (
            f"certificates are given and {address} is not encrypted: write tls://{location}, or "
            "drop them"
        )
        raise InvalidArgumentError(msg)
    # In one process, as in tests of users, nothing travels.
    elif protocol != "inproc" and not stays_here(parse_host_port(location)[0]):
        allow_insecure(f"the way to the scheduler at {address}", insecure)


def allow_insecure(way: str, insecure: bool) -> None:
    """Refuse a way over a network without encryption, or say that it was allowed."""
    if not insecure:
        msg = (
            f"{way} leaves this machine and has no TLS: use tls:// and certificates, or allow it "
            "by insecure where all on the network may read the data and run code"
        )
        raise InvalidArgumentError(msg)
    msg = f"{way} is not encrypted: all on the network can read the data and run code"
    warnings.warn(msg, InsecureWarning, stacklevel=3)


def ssl_context(tls: TLS) -> ssl.SSLContext:
    """As Dask makes it; certificates are of an authority and not of a host name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    contents = {name: _content(name, getattr(tls, name)) for name in ("ca", "cert", "key")}
    if b"ENCRYPTED" in contents["key"]:  # OpenSSL would ask on the terminal
        remedy = "remove it, as with 'openssl rsa'"
        refuse("tls: key", "a private key without a passphrase", tls.key, remedy)
    try:
        context.load_verify_locations(cafile=tls.ca)
    except ssl.SSLError:
        refuse("tls: ca", "a PEM file of certificates", tls.ca, "give that of the authority")
    try:
        context.load_cert_chain(tls.cert, tls.key)
    except ssl.SSLError as error:
        requirement = "PEM files of a certificate and its own private key"
        reason = str(error.reason).lower().replace("_", " ")
        refuse("tls: cert and key", requirement, (tls.cert, tls.key), reason)
    return context


def _content(name: str, path: str) -> bytes:
    try:
        check_regular(path)
        with open(path, "rb") as file:
            # What is no certificate may be of any size.
            return file.read(2**20)
    except OSError as error:
        refuse(f"tls: {name}", "a file that can be read", path, str(error.strerror))


def stays_here(host: str) -> bool:
    """Whether traffic to a host stays on this machine."""
    # Names are not looked up: the answer could be another when the connection is made.
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# --- Who answers at an address: a Dask scheduler that lets us in, or why not. Dask waits for ever
# for the first word of what accepts a connection and is no scheduler, and what it raises where
# encryption fails names neither side. A Dask scheduler speaks first.


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
    with connection, contextlib.suppress(OSError):
        # With TLS the client speaks first, and is answered with the certificate.
        if tls is not None:
            return _encryption_text(connection, tls)
        if connection.recv(1):
            return ""
    # The first connection was silent; on a new one we speak first, as TLS wants.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # The answer is of interest here, not who gives it: no data follow.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with socket.create_connection(place, timeout) as connection:
            context.wrap_socket(connection).close()
    except OSError as error:
        # A refusal in words of TLS comes from one who speaks it.
        if "ALERT" not in str(getattr(error, "reason", "")):
            return _SILENT
    return "it speaks TLS: write tls:// and give certificates"


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
