"""What listeners present, and whether a client that checks it connects: against listeners of this process."""

from __future__ import annotations

import contextlib
import datetime
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.cluster.secured.certificates import Authority
from chaos.kafka.connection import AnyCertificate, certificate_refusal, presented_certificate
from chaos.kafka.security import Access, Security

HOST = "127.0.0.1"
DAY = datetime.timedelta(days=1)


@contextlib.contextmanager
def listening(folder: Path, pem: bytes) -> Iterator[int]:
    """Yield the port of a TLS listener with this key and certificate."""
    store = folder / "store.pem"
    store.write_bytes(pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(store)
    server = socket.create_server((HOST, 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), connection, context.wrap_socket(connection, server_side=True) as made:
                made.recv(1)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(5)


@pytest.fixture
def authority() -> Authority:
    return Authority.create("one-ca")


def trusting(folder: Path, authority: Authority) -> Access:
    ca = folder / "ca.pem"
    ca.write_bytes(authority.pem)
    access = Access.of(Security(protocol="SSL", ca=str(ca)))
    assert access is not None
    return access


def test_a_valid_certificate_is_presented_and_accepted(tmp_path: Path, authority: Authority) -> None:
    certificate, key, serial = authority.issue("node", [HOST], DAY)
    with listening(tmp_path, key + certificate) as port:
        found = presented_certificate(HOST, port, 5)
        assert (found.serial, found.issuer) == (serial, "one-ca")
        left = found.ends - datetime.datetime.now(datetime.UTC)
        assert abs(left - DAY) < datetime.timedelta(minutes=5)
        assert certificate_refusal(HOST, port, 5, trusting(tmp_path, authority)) is None


@pytest.mark.parametrize(
    ("hosts", "valid", "other", "reason"),
    [
        ([HOST], -datetime.timedelta(hours=1), False, "certificate has expired"),
        ([HOST], DAY, True, "unable to get local issuer certificate"),
        (["localhost"], DAY, False, "IP address mismatch"),
    ],
    ids=["expired", "another-authority", "another-host"],
)
def test_a_certificate_that_does_not_match_is_refused_with_its_reason(
    tmp_path: Path, authority: Authority, hosts: list[str], valid: datetime.timedelta, other: bool, reason: str
) -> None:
    certificate, key, serial = authority.issue("node", hosts, valid)
    access = trusting(tmp_path, Authority.create() if other else authority)
    with listening(tmp_path, key + certificate) as port:
        assert reason in (certificate_refusal(HOST, port, 5, access) or "")
        assert presented_certificate(HOST, port, 5).serial == serial
        assert certificate_refusal(HOST, port, 5, AnyCertificate(access.security)) is None


def test_a_listener_that_is_gone_is_an_error(tmp_path: Path, authority: Authority) -> None:
    certificate, key, _ = authority.issue("node", [HOST])
    with listening(tmp_path, key + certificate) as port:
        pass
    for ask in (
        lambda: presented_certificate(HOST, port, 5),
        lambda: certificate_refusal(HOST, port, 5, trusting(tmp_path, authority)),
    ):
        with pytest.raises(OSError, match="refused"):
            ask()
