"""TLS that the relay ends: clients, the relay in a process of its own, and a broker that answers what it gets."""

import os
import socket
import ssl
import struct
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from chaos.cluster.secured.certificates import Authority
from chaos.processes.process import ProcessId, end_run
from chaos.relay.control import Proxy, start_proxy
from chaos.relay.roles import Encryption
from chaos.run.directory import Run

HEARTBEAT = struct.pack(">hhih", 12, 0, 7, 1) + b"c" + os.urandom(8)
FRAME = struct.pack(">i", len(HEARTBEAT)) + HEARTBEAT
ANSWER = struct.pack(">iih", 6, 7, 0)


@pytest.fixture
def made(tmp_path):
    """The files of an authority, a broker (and relay), and a client."""
    authority = Authority.create()
    authority.save(tmp_path / "ca.pem", tmp_path / "ca.key")
    certificate, key, _ = authority.issue("node", ["127.0.0.1"])
    (tmp_path / "node.pem").write_bytes(key + certificate)
    certificate, key, _ = authority.issue("client")
    (tmp_path / "client.pem").write_bytes(certificate)
    (tmp_path / "client.key").write_bytes(key)
    return {name: str(tmp_path / name) for name in ("ca.pem", "node.pem", "client.pem", "client.key")}


def broker(made, mutual, requests):
    """Start a broker that answers every connection's first request; return its address."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=made["ca.pem"])
    context.load_cert_chain(made["node.pem"])
    context.verify_mode = ssl.CERT_REQUIRED if mutual else ssl.CERT_NONE
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            accepted, _ = listening.accept()
            with suppress(OSError), context.wrap_socket(accepted, server_side=True) as connection:
                requests.append((connection.recv(len(FRAME)), connection.getpeercert()))
                connection.sendall(ANSWER)

    threading.Thread(target=serve, daemon=True).start()
    return listening.getsockname()


def asked(address, context):
    """Return the answer to a request; empty if the connection ends before it."""
    host, _, port = address.partition(":")
    plain = socket.create_connection((host, int(port)), 10)
    with plain, suppress(OSError), context.wrap_socket(plain, server_hostname=host) as connection:
        connection.sendall(FRAME)
        return connection.recv(len(ANSWER))
    return b""


@pytest.mark.parametrize("mutual", [False, True])
def test_the_relay_ends_tls_and_identifies_itself_where_clients_do(made, tmp_path, mutual):
    requests, run = [], Run.create(tmp_path / "runs", "r1")
    own = (made["client.pem"], made["client.key"]) if mutual else ()
    address = broker(made, mutual, requests)
    try:
        encryption = Encryption(made["node.pem"], made["ca.pem"], *own)
        start_proxy(run, {1: address}, ProcessId.current(), payloads="none", encryption=encryption)
        anonymous = ssl.create_default_context(cafile=made["ca.pem"])
        known = ssl.create_default_context(cafile=made["ca.pem"])
        known.load_cert_chain(made["client.pem"], made["client.key"])
        with Proxy(run) as proxy:
            for front in (proxy.bootstrap, proxy.front("billing/1")):
                assert asked(front, known) == ANSWER
                assert asked(front, anonymous) == (b"" if mutual else ANSWER)
                assert asked(front, ssl.create_default_context()) == b"", "a stranger's authority did not sign it"
            assert proxy.seal()["failure"] in (None, "")
        assert {request for request, _ in requests} == {FRAME}
        assert all(bool(peer) == mutual for _, peer in requests)
    finally:
        end_run(run.path)


@pytest.mark.parametrize("password", ["", "key-Bn8c\n$HOME'\"\\ \u20ac"])
def test_a_relay_identifies_itself_for_clients_whose_certificates_cannot_pass(made, tmp_path, password):
    requests, run = [], Run.create(tmp_path / "runs", "r1")
    address = broker(made, True, requests)
    try:
        own = [made["client.pem"], made["client.key"]]
        if password:
            key = serialization.load_pem_private_key(Path(own[1]).read_bytes(), None)
            how = serialization.BestAvailableEncryption(password.encode())
            pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)
            Path(own[1]).write_bytes(pem)
            (tmp_path / "secret").write_text(password)
            own.append(f"file:{tmp_path / 'secret'}")
        encryption = Encryption(made["node.pem"], made["ca.pem"], *own, asked=False)
        start_proxy(run, {1: address}, ProcessId.current(), payloads="none", encryption=encryption)
        with Proxy(run) as proxy:
            front = proxy.front("tap")
            assert asked(front, ssl.create_default_context(cafile=made["ca.pem"])) == ANSWER
        assert [bool(peer) for _, peer in requests] == [True]
    finally:
        end_run(run.path)
