"""Certificates that are valid for a day, as PEM files: an authority, brokers and clients."""

from __future__ import annotations

import datetime
from pathlib import Path

from cryptography.hazmat.primitives import serialization

from chaos.cluster.secured import certificates

LOCAL = ("127.0.0.1", "localhost")
DAY = datetime.timedelta(days=1)


class Authority:
    """A certificate authority; `ca` is the file of its certificate."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder, self._authority = folder, certificates.Authority.create(name)
        self.ca = folder / f"{name}.pem"
        self.ca.write_bytes(self._authority.pem)

    def issue(self, name: str, password: str | None = None) -> tuple[Path, Path]:
        """Issue a certificate; return its file and the file of its key, which the password encrypts."""
        certificate, key, _ = self._authority.issue(name, LOCAL, DAY)
        files = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        files[0].write_bytes(certificate)
        files[1].write_bytes(_encrypted(key, password) if password else key)
        return files


def _encrypted(key: bytes, password: str) -> bytes:
    how = serialization.BestAvailableEncryption(password.encode())
    loaded = serialization.load_pem_private_key(key, None)
    return loaded.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)
