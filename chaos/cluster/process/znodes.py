"""Reads and deletes znodes, in ZooKeeper's own protocol: each call is one session with one request."""

from __future__ import annotations

import socket
import struct

from chaos.cluster.state import ZooKeeperState
from chaos.errors import ClusterError

_TIMEOUT_S = 10.0
_DELETE, _GET_DATA, _CLOSE = 2, 4, -11
_XID = 1
_NO_NODE = -101
_ANY_VERSION = -1


def read(server: ZooKeeperState, path: str) -> str | None:
    """Return the data of a znode; None if there is none. Raises `ClusterError` if the server does not answer."""
    answer = _request(server, _GET_DATA, _string(path) + b"\x00", f"read {path}")  # without a watch
    if answer is None:
        return None
    (size,) = struct.unpack_from(">i", answer)
    return answer[4 : 4 + max(0, size)].decode("utf-8", errors="replace")


def delete(server: ZooKeeperState, path: str) -> bool:
    """Delete a znode, and return whether there was one. Raises `ClusterError` if the server does not do it."""
    return _request(server, _DELETE, _string(path) + struct.pack(">i", _ANY_VERSION), f"delete {path}") is not None


def _request(server: ZooKeeperState, kind: int, body: bytes, what: str) -> bytes | None:
    """Return the answer without its header; None if the znode does not exist. Raises `ClusterError`."""
    try:
        with socket.create_connection((server.host, server.port), timeout=_TIMEOUT_S) as connection:
            _send(connection, struct.pack(">iqiqi16s?", 0, 0, int(_TIMEOUT_S * 1000), 0, 16, b"", False))
            _receive(connection)
            _send(connection, struct.pack(">ii", _XID, kind) + body)
            answer = _receive(connection)
            _send(connection, struct.pack(">ii", _XID + 1, _CLOSE))  # else the session lasts until its time-out
    except (OSError, struct.error) as e:
        raise ClusterError(f"ZooKeeper did not {what}: {e or type(e).__name__}; see {server.log}") from None
    _, _, error = struct.unpack_from(">iqi", answer)
    if error == _NO_NODE:
        return None
    if error:
        raise ClusterError(f"ZooKeeper did not {what}: error {error}; see {server.log}")
    return answer[16:]


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">i", len(encoded)) + encoded


def _send(connection: socket.socket, message: bytes) -> None:
    connection.sendall(struct.pack(">i", len(message)) + message)


def _receive(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise ConnectionResetError("the server closed the connection")
        received += part
    return received
