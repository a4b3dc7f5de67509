"""Certificates for tests: an authority, and what it signs."""

import datetime
import ipaddress
import subprocess
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dhsic.cluster import TLS

DEPLOY = Path(__file__).parents[2] / "deploy"
_DAY = datetime.timedelta(days=1)
_PEM = serialization.Encoding.PEM


def make_tls(folder, *, expired=False):
    """Write the files of a new authority, and of a key that it signed."""
    folder.mkdir(parents=True, exist_ok=True)
    authority, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    contents = {
        "ca": _signed("authority", authority, authority, is_authority=True).public_bytes(_PEM),
        "cert": _signed("node", key, authority, days=-1 if expired else 1).public_bytes(_PEM),
        "key": private_pem(key),
    }
    for name, content in contents.items():
        (folder / f"{name}.pem").write_bytes(content)
    return TLS(*(str(folder / f"{name}.pem") for name in contents))


def make_certificates(folder):
    """Those of the script that users are given."""
    subprocess.run([DEPLOY / "tls" / "make-certificates.sh", folder], check=True, timeout=60)
    return folder


def private_pem(key, passphrase=None):
    encryption = serialization.NoEncryption()
    if passphrase is not None:
        encryption = serialization.BestAvailableEncryption(passphrase)
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, encryption)


def _signed(name, key, signer, *, is_authority=False, days=1):
    now = datetime.datetime.now(datetime.UTC)
    here = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    subject, issuer = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one)]) for one in (name, "authority")
    )
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * _DAY)
        .not_valid_after(now + days * _DAY)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([here]), critical=False)
        .sign(signer, hashes.SHA256())
    )
