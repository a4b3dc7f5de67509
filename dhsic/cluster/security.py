"""Encryption between client, scheduler and workers."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from distributed import Security
from distributed.comm import connect
from distributed.comm.addressing import parse_address, parse_host_port

from dhsic._files import check_regular
from dhsic.cluster.spec import TLS, refuse
from dhsic.errors import InsecureWarning, InvalidArgumentError

_ENCRYPTED = ("tls", "wss")


def security_of(tls: TLS) -> Security:
    """Security settings of Dask from certificates, whose files are checked first.

    Raises
    ------
    InvalidArgumentError
        A file that cannot be read, is not what it should be, or does not fit the others.
    """
    # Files are read here: Dask would fail in the first connection, with less to say.
    for name in ("ca", "cert", "key"):
        file = getattr(tls, name)
        try:
            check_regular(file)
            content = Path(file).read_bytes()
        except OSError as error:
            refuse(f"tls: {name}", "a file that can be read", file, str(error.strerror))
        if name == "key" and b"ENCRYPTED" in content:  # OpenSSL would ask on the terminal
            requirement = "a private key without a passphrase"
            refuse("tls: key", requirement, file, "remove it, as with 'openssl rsa'")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cafile=tls.ca)
    except ssl.SSLError:
        refuse("tls: ca", "a PEM file of certificates", tls.ca, "give that of the authority")
    try:
        context.load_cert_chain(tls.cert, tls.key)
    except ssl.SSLError as error:
        requirement = "PEM files of a certificate and its own private key"
        reason = _reason(error)
        refuse("tls: cert and key", requirement, (tls.cert, tls.key), reason)
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
            remedy = "give the files ca, cert and key"
            refuse("tls", f"given for {address}, which is encrypted", None, remedy)
    elif tls is not None:
        remedy = f"write tls://{location}, or drop it"
        refuse("tls", f"left out for {address}, which is not encrypted", tls.ca, remedy)
    # In one process, as in tests of users, nothing travels.
    elif protocol != "inproc" and not stays_here(parse_host_port(location)[0]):
        allow_insecure(f"the way to the scheduler at {address}", insecure)


def allow_insecure(way: str, insecure: bool) -> None:
    """Refuse a way over a network without encryption, or say that it was allowed."""
    if not insecure:
        msg = (
            f"{way} leaves this machine and has no TLS: use tls:// and certificates, or allow it "
            "by insecure if everyone on the network may read the data and run code"
        )
        raise InvalidArgumentError(msg)
    msg = f"{way} is not encrypted: all on the network can read the data and run code"
    warnings.warn(msg, InsecureWarning, stacklevel=3)


def stays_here(host: str) -> bool:
    """Whether traffic to a host stays on this machine."""
    # Names are not looked up: the answer could be another when the connection is made.
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def refusal(address: str, security: Security | None, timeout: float) -> str:
    """Say why a scheduler cannot be talked to; empty where it can.

    Dask waits for ever for the first word of what accepts a connection and is no scheduler, and
    what it raises where encryption fails names neither side.

    Parameters
    ----------
    address : str
        Address of the scheduler.
    security : Security or None
        Our certificates.
    timeout : float
        Seconds to wait for it, and for its first word.

    Returns
    -------
    str
        The reason, without a full stop.
    """
    arguments = {} if security is None else security.get_connection_args("client")

    async def greet() -> None:
        greeted = connect(address, timeout=timeout, **arguments)
        await (await asyncio.wait_for(greeted, timeout * 1.25)).close()

    try:
        with ThreadPoolExecutor(1) as pool:  # this thread may have an event loop that runs
            pool.submit(asyncio.run, greet()).result()
    except TimeoutError:
        return "what answers there is no Dask scheduler"
    except OSError as error:
        cause = error.__cause__
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is refused ({cause.verify_message}): is ca the right file?"
        if isinstance(cause, ssl.SSLError) and cause.reason == "WRONG_VERSION_NUMBER":
            return "it does not speak TLS"
        if isinstance(cause, ssl.SSLError):
            reason = _reason(cause)
            return f"it refuses our certificate ({reason}): is cert of its own authority?"
        if str(error).startswith("Timed out"):
            remedy = "start it, check the address, or allow a longer timeout"
            return f"nobody answered within {timeout:g} s: {remedy}"
        return "it ends the connection; if it speaks TLS: write tls:// and give certificates"
    return ""


def _reason(error: ssl.SSLError) -> str:
    """What OpenSSL says of an error, in plain words."""
    return str(error.reason or error).lower().replace("_", " ")
