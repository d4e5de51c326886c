"""Certificates for one cluster: an authority, and what it issues for nodes and clients. PEM files with mode 0600."""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from chaos.kafka.security import Access

VALID = datetime.timedelta(days=30)
"""How long a certificate is valid; no cluster of Aftershock lives that long."""
STORES = ".stores"
"""The folder of the stores of an application, among its files."""
_EARLIER = datetime.timedelta(days=1)  # clocks may differ


class Authority:
    """A certificate authority. Its key is kept in memory only, unless `save` writes it."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key, self._certificate = key, certificate

    @classmethod
    def create(cls, name: str = "aftershock-ca", valid: datetime.timedelta = VALID) -> Authority:
        """Make a new authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        public = key.public_key()
        now = datetime.datetime.now(datetime.UTC)
        certificate = (
            _blank(name, name, public, now - _EARLIER, now + valid)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(key, certificate)

    @classmethod
    def load(cls, certificate: Path, key: Path) -> Authority:
        """Return the authority that `save` wrote."""
        loaded = serialization.load_pem_private_key(key.read_bytes(), None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)
        return cls(loaded, x509.load_pem_x509_certificate(certificate.read_bytes()))

    def save(self, certificate: Path, key: Path) -> None:
        """Write the certificate and the key of the authority."""
        write_secret(certificate, self.pem)
        write_secret(key, _pem_of(self._key))

    @property
    def pem(self) -> bytes:
        """The certificate of the authority."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def name(self) -> str:
        """The common name of the authority, which its certificates have as issuer."""
        return common_name(self._certificate.subject)

    def issue(
        self, name: str, hosts: Iterable[str] = (), valid: datetime.timedelta = VALID
    ) -> tuple[bytes, bytes, int]:
        """Issue a certificate for a name and hosts; return it, its key, and its serial number.

        valid: from now on; a negative time, of less than a day, gives an expired certificate.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            _blank(name, self.name, key.public_key(), now - _EARLIER, now + valid)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        names = [_general_name(host) for host in dict.fromkeys(hosts)]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM), _pem_of(key), certificate.serial_number


def common_name(name: x509.Name) -> str:
    """Return the common name in the name of a subject or an issuer; empty without one."""
    return next((str(found.value) for found in name.get_attributes_for_oid(NameOID.COMMON_NAME)), "")


def hosts_of(store: Path) -> list[str]:
    """Return the hosts for which the certificate in the store of a node is valid."""
    pem = store.read_bytes()
    certificate = x509.load_pem_x509_certificate(pem[pem.index(b"-----BEGIN CERTIFICATE") :])
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = names.get_values_for_type(x509.IPAddress)
    return [*map(str, addresses), *names.get_values_for_type(x509.DNSName)]


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read, atomically."""
    half = path.with_name(f".{path.name}.half")
    half.unlink(missing_ok=True)
    with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    half.replace(path)


def write_stores(folder: Path, password: str, access: Access) -> dict[str, Path]:
    """Write what a client trusts and its certificate as PKCS#12, which Java reads; return the files by their names.

    A store is left out if the settings have nothing for it.
    """
    s, found = access.security, {}
    encryption, folder_of = serialization.BestAvailableEncryption(password.encode()), folder / STORES
    folder_of.mkdir(mode=0o700, parents=True, exist_ok=True)
    if s.ca:
        trusted = x509.load_pem_x509_certificates(Path(s.ca).read_bytes())
        named = [pkcs12.PKCS12Certificate(one, b"ca-%d" % number) for number, one in enumerate(trusted)]
        found["truststore"] = folder_of / "truststore.p12"
        write_secret(found["truststore"], pkcs12.serialize_java_truststore(named, encryption))
    if s.certificate and s.key:
        secret = access.key_password.encode() or None
        key = serialization.load_pem_private_key(Path(s.key).read_bytes(), secret)
        own, *chain = x509.load_pem_x509_certificates(Path(s.certificate).read_bytes())
        found["keystore"] = folder_of / "keystore.p12"
        store = pkcs12.serialize_key_and_certificates(b"client", key, own, chain or None, encryption)  # type: ignore[arg-type]
        write_secret(found["keystore"], store)
    return found


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _blank(
    name: str, issuer: str, key: ec.EllipticCurvePublicKey, begins: datetime.datetime, ends: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
    )


def _usage(signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    none = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, none)
