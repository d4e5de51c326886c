"""The certificates that listeners present, seen from outside, and connections that accept any certificate."""

from __future__ import annotations

import socket
import ssl
import time
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from chaos.kafka.access import Access
from chaos.kafka.connection import connect, seconds_left


@dataclass(frozen=True)
class Presented:
    """The certificate that a listener presents in a TLS handshake."""

    serial: int
    issuer: str
    ends: datetime

    def describe(self) -> str:
        """Return the end of the serial number, the issuer and the end of validity."""
        return f"{short(self.serial)} of {self.issuer}, valid until {self.ends:%Y-%m-%dT%H:%M:%SZ}"


class AnyCertificate(Access):
    """Credentials for a broker of which the certificate is not checked: one that a fault has made invalid."""

    @cached_property
    def context(self) -> ssl.SSLContext:
        """The TLS context, which verifies nothing."""
        context = Access(self.security, self.password, self.key_password).context
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context


def short(serial: int) -> str:
    """Return the last eight hexadecimal digits of a serial number."""
    return f"{serial:08x}"[-8:]


def presented(host: str, port: int, timeout_s: float) -> Presented:
    """Return the certificate that a listener presents, valid or not. Raises `OSError` without a handshake."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    deadline = time.monotonic() + timeout_s
    with socket.create_connection((host, port), timeout_s) as plain:
        plain.settimeout(seconds_left(deadline))
        with context.wrap_socket(plain, server_hostname=host) as encrypted:
            der = encrypted.getpeercert(binary_form=True)
    if der is None:
        raise ConnectionError(f"{host}:{port} presents no certificate")
    certificate = x509.load_der_x509_certificate(der)
    names = certificate.issuer.get_attributes_for_oid(NameOID.COMMON_NAME)
    issuer = str(names[0].value) if names else ""
    return Presented(certificate.serial_number, issuer, certificate.not_valid_after_utc)


def refusal(host: str, port: int, timeout_s: float, access: Access) -> str | None:
    """Return why a client that checks the certificate of a listener does not connect; None if it does.

    Raises `OSError` if no handshake is possible for another reason.
    """
    try:
        connect(host, port, time.monotonic() + timeout_s, access).close()
    except ssl.SSLCertVerificationError as e:
        return e.verify_message
    return None
