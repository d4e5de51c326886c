"""The connection between a drive and the agent of a worker: mutual proof of a secret, then JSON frames.

Frames are neither encrypted nor signed: put the machines of a fleet on a network that you trust.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import socket
import threading
from contextlib import suppress
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from chaos.errors import ClientError, RunDirError
from chaos.run.directory import Run, read_model, write_atomically

TIMEOUT_S = 300.0
"""How long a drive waits for its workers, and a worker for its drive, unless somebody says otherwise."""
SILENCE_S = 15.0
"""After so many seconds without a frame from the other side, it is gone."""
MAX_HELLO = 4096
_NONCE = 32

Frame = dict[str, Any]


class Address(BaseModel):
    """`workers/address.json`: where the drive listens."""

    host: str
    port: int


class Channel:
    """Sends and receives frames. Sending is thread-safe."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def send(self, frame: Frame) -> None:
        """Send a frame. Raises `OSError` if the other side is gone."""
        data = json.dumps(frame).encode()
        with self._lock:
            self._connection.send_bytes(data)

    def receive(self, timeout_s: float) -> Frame | None:
        """Return the next frame, None after the time. Raises `EOFError` or `OSError` if the other side is gone."""
        if not self._connection.poll(timeout_s):
            return None
        frame: Frame = json.loads(self._connection.recv_bytes())
        return frame

    def prove(self, secret: bytes, side: str, other: str) -> None:
        """Prove to know the secret, and let the other side prove it. Raises `ClientError`, `EOFError`, `OSError`.

        side, other: names of the two sides, so that no side can return the proof that it got.
        """
        mine = secrets.token_bytes(_NONCE)
        self._connection.send_bytes(mine)
        theirs = self._receive_small()
        self._connection.send_bytes(_proof(secret, side, mine, theirs))
        if not hmac.compare_digest(self._receive_small(), _proof(secret, other, theirs, mine)):
            raise ClientError("the other side of the connection does not know the secret of the run")

    def hello(self, frame: Frame | None = None) -> Frame:
        """Send the first frame, or receive it from a side that has proven itself, in time."""
        if frame is not None:
            self.send(frame)
            return frame
        received: Frame = json.loads(self._receive_small())
        return received

    def _receive_small(self) -> bytes:
        if not self._connection.poll(SILENCE_S):
            raise ClientError(f"the other side of the connection was silent for {SILENCE_S:g} s")
        return self._connection.recv_bytes(MAX_HELLO)

    def close(self) -> None:
        """Close the connection; a `receive` in another thread ends."""
        with suppress(OSError):
            duplicate = socket.socket(fileno=os.dup(self._connection.fileno()))
            with duplicate, suppress(OSError):
                duplicate.shutdown(socket.SHUT_RDWR)  # a close alone does not end a receive that waits
        with suppress(OSError):
            self._connection.close()


def _proof(secret: bytes, side: str, own: bytes, other: bytes) -> bytes:
    return hmac.new(secret, b"|".join([b"aftershock", side.encode(), own, other]), hashlib.sha256).digest()


def folder(run: Run) -> Path:
    """Return the folder of the workers in a run directory."""
    return run.path / "workers"


def publish(run: Run, address: Address) -> bytes:
    """Write a new secret, then the address, into the run directory. Returns the secret."""
    secret = secrets.token_bytes(_NONCE)
    place = folder(run)
    place.mkdir(exist_ok=True)
    withdraw(run)
    handle = os.open(place / "secret", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as f:
        f.write(secret)
    write_atomically(place / "address.json", address.model_dump_json())
    return secret


def withdraw(run: Run) -> None:
    """Remove address and secret from the run directory."""
    for name in ("address.json", "secret"):
        (folder(run) / name).unlink(missing_ok=True)


def published(run: Run) -> Address | None:
    """Return the address of the drive, None if it is not there (yet)."""
    path = folder(run) / "address.json"
    return read_model(path, Address, "address of the drive", "run again") if path.exists() else None


def connect(run: Run, address: Address) -> Channel:
    """Connect to the drive of a run as a worker. Raises `ClientError`."""
    try:
        secret = (folder(run) / "secret").read_bytes()
        channel = Channel(Client((address.host, address.port)))
        channel.prove(secret, "worker", "drive")
    except (OSError, EOFError, RunDirError) as e:
        raise ClientError(
            f"the drive at {address.host}:{address.port} cannot be reached ({e or 'it closed the connection'}): the "
            "worker needs the files of the run directory and a way to this address (AFTERSHOCK_FLEET_ADDRESS)"
        ) from None
    return channel
