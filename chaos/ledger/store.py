"""A folder for the large tables of a ledger on another file system, by a URL that fsspec and Hadoop know.

Its layout is that of a run directory: `<url>/<run id>/ledger/<table>.parquet/part-*`. Workers put their parts into it,
and Spark's executors read them there, so that no disk has to hold all of them.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from chaos.errors import RunDirError, UsageError
from chaos.file_systems import advice, open_url, reason_of

VARIABLE = "AFTERSHOCK_LEDGER_URL"
"""An environment variable: the URL of the folder for the large tables of runs with workers."""
CHUNK = 1 << 20
UPLOAD = 32 << 20
"""Bytes of one request of an upload: WebHDFS appends with each."""


def configured(run_id: str) -> LedgerStore | None:
    """Return the store of a run as the environment configures it. Raises `UsageError`."""
    url = os.environ.get(VARIABLE, "").strip()
    if not url:
        return None
    if "://" not in url:
        raise UsageError(f"{VARIABLE}={url} is no URL; such as webhdfs://namenode:9870/ledgers")
    if urlsplit(url).password:
        raise UsageError(f"{VARIABLE} has a password, which every run would show; put it into fsspec's configuration")
    try:
        return LedgerStore(f"{url.rstrip('/')}/{run_id}")
    except RunDirError as e:
        raise UsageError(f"{e} ({VARIABLE})") from None


class LedgerStore:
    """The large tables of one run at a URL. All methods raise `RunDirError` if the file system does not do its work.

    Names are relative paths below the URL.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        with self._access("opened"):
            self._fs, self._root = open_url(url)

    def check(self) -> None:
        """Write a small file, read it, and remove it."""
        name = f".check.{secrets.token_hex(4)}"
        with self._access("written"):
            self._fs.makedirs(self._root, exist_ok=True)
            self._fs.pipe_file(self._path(name), b"aftershock")
            found = self._fs.cat_file(self._path(name))
            self._fs.rm_file(self._path(name))
        if found != b"aftershock":
            raise RunDirError(f"{self.url} returned {len(found)} other bytes than were written there")

    def put(self, source: Path, name: str) -> str:
        """Copy a file, read the copy back, and return the SHA-256 of both."""
        with self._access("written"):
            self._fs.makedirs(self._path(name).rpartition("/")[0], exist_ok=True)
            with source.open("rb") as read, self._fs.open(self._path(name), "wb", block_size=UPLOAD) as written:
                digest = copied(read, written.write)
        with self._access("read"), self._fs.open(self._path(name), "rb", block_size=UPLOAD) as read:
            found = copied(read, len)
        if found != digest:
            raise RunDirError(f"{self.url}/{name} is not the file that was put there: the SHA-256 is different")
        return digest

    def size(self, name: str) -> int:
        """Return the bytes of a file."""
        with self._access("read"):
            return int(self._fs.info(self._path(name))["size"])

    def move(self, name: str, to: str) -> None:
        """Rename a file. Raises `RunDirError` if it is not there afterwards."""
        size = self.size(name)
        with self._access("written"):
            self._fs.makedirs(self._path(to).rpartition("/")[0], exist_ok=True)
            if self._fs.exists(self._path(to)):  # HDFS does not replace a file
                self._fs.rm_file(self._path(to))
            self._fs.mv(self._path(name), self._path(to))
        if self.size(to) != size:
            raise RunDirError(f"{self.url}/{to} has not the size of {name}, which was moved there")

    def remove(self, name: str) -> None:
        """Remove a folder, if it exists."""
        with self._access("written"):
            if self._fs.exists(self._path(name)):
                self._fs.rm(self._path(name), recursive=True)

    def names(self, folder: str) -> list[str]:
        """Return the names of the Parquet files in a folder, in order; empty if there is no folder."""
        with self._access("read"):
            if not self._fs.exists(self._path(folder)):
                return []
            found = [str(path).rpartition("/")[2] for path in self._fs.ls(self._path(folder), detail=False)]
        return sorted(f"{folder}/{name}" for name in found if name.endswith(".parquet"))

    def parts(self, folder: str) -> list[str]:
        """Return the URLs of the Parquet files in a folder, in order; empty if there is no folder."""
        return [f"{self.url}/{name}" for name in self.names(folder)]

    @contextmanager
    def opened(self, name: str) -> Iterator[IO[bytes]]:
        """Open a file for reading."""
        with self._access("read"), self._fs.open(self._path(name), "rb") as file:
            yield file

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    @contextmanager
    def _access(self, what: str) -> Iterator[None]:
        try:
            yield
        except RunDirError:
            raise
        except Exception as e:  # noqa: BLE001 - each file system has its errors
            next_step = advice(self.url).rstrip(".")
            raise RunDirError(f"{self.url} cannot be {what}: {reason_of(e)}. {next_step}") from None


def copied(source: IO[bytes], write: Callable[[bytes], object]) -> str:
    """Pass a file on in chunks, and return its SHA-256."""
    digest = hashlib.sha256()
    for chunk in iter(partial(source.read, CHUNK), b""):
        digest.update(chunk)
        write(chunk)
    return digest.hexdigest()
