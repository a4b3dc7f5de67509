"""Certificates for tests: an authority, and what it signs."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dhsic.cluster import TLS

_DAY = datetime.timedelta(days=1)


def make_tls(folder: Path, *, expired: bool = False) -> TLS:
    """Write the files of a new authority, and of a key that it signed."""
    folder.mkdir(parents=True, exist_ok=True)
    authority, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca = _signed("authority", authority, "authority", authority, is_authority=True)
    end = -1 if expired else 1
    certificate = _signed("node", key, "authority", authority, days=end)
    return TLS(
        _written(folder / "ca.pem", ca.public_bytes(serialization.Encoding.PEM)),
        _written(folder / "cert.pem", certificate.public_bytes(serialization.Encoding.PEM)),
        _written(folder / "key.pem", private_pem(key)),
    )


def private_pem(key: ec.EllipticCurvePrivateKey, passphrase: bytes | None = None) -> bytes:
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase is not None:
        encryption = serialization.BestAvailableEncryption(passphrase)
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, encryption)


def _signed(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    signer: ec.EllipticCurvePrivateKey,
    *,
    is_authority: bool = False,
    days: int = 1,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * _DAY)
        .not_valid_after(now + days * _DAY)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(signer, hashes.SHA256())
    )


def _written(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)
