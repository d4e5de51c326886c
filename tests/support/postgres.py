"""A PostgreSQL server without a network, which a test may stop."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class Postgres:
    """A server in a folder."""

    def __init__(self, home: str, programs: Path) -> None:
        self._home, self._programs = home, programs
        self._user = "nobody" if os.geteuid() == 0 else None  # PostgreSQL does not run as root
        if self._user:
            shutil.chown(home, self._user)
        self.running = False

    def url(self, database: str) -> str:
        """Return the URL of a database."""
        return f"postgresql+psycopg2://tester@/{database}?host={self._home}"

    def start(self) -> None:
        """Make the data and start the server."""
        self._call("initdb", "-U", "tester", "-A", "trust", "--no-sync")
        options = f"-c listen_addresses='' -c unix_socket_directories={self._home} -c fsync=off"
        self._call("pg_ctl", "-w", "-l", f"{self._home}/log", "-o", options, "start")
        self.running = True

    def stop(self) -> None:
        """Stop the server at once, with its connections."""
        if self.running:
            self._call("pg_ctl", "-w", "-m", "immediate", "stop")
            self.running = False

    def _call(self, program: str, *arguments: str) -> None:
        argv = [str(self._programs / program), "-D", f"{self._home}/data", *arguments]
        subprocess.run(argv, check=True, user=self._user, cwd=self._home, stdout=subprocess.DEVNULL)


@contextmanager
def postgres_server() -> Iterator[Postgres]:
    """Start a server, and stop it at the end; skip the test if the Debian package is not installed."""
    initdb = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not initdb:
        pytest.skip("no PostgreSQL on this machine: apt-get install postgresql")
    pytest.importorskip("psycopg2")
    # not in the folder of pytest, which is closed to other users, and closed again by each new pytest
    with tempfile.TemporaryDirectory(prefix="aftershock-postgres-") as home:
        server = Postgres(home, initdb[-1].parent)
        server.start()
        try:
            yield server
        finally:
            server.stop()
