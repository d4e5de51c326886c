"""The process of a PostgreSQL server of a run: `python postgres.py SETTINGS`. It imports nothing of the platform.

SETTINGS is a JSON object: bin (folder of the programs), data, port, user, database, setup (statements), config. The
server makes its data once, then it is started, and ends with this process: the title that PostgreSQL gives its
processes removes the marks by which a run finds what it started, and this process has them.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NEW_USER, SET_DEATH_SIGNAL = 0x10000000, 1
"""CLONE_NEWUSER of unshare(2), and PR_SET_PDEATHSIG of prctl(2)."""
ORDINARY = 1000
STARTED_S, ENDED_S = 60.0, 10.0


def main(argv: Sequence[str]) -> int:
    """Run the server until it ends, or until this process is asked to end."""
    settings: dict[str, Any] = json.loads(argv[1])
    programs, data = Path(settings["bin"]), Path(settings["data"]) / "postgres"
    if os.geteuid() == 0:
        _become_ordinary()
    if not data.exists():
        _make(programs, data, settings)
    _wait_ended(data)
    server = subprocess.Popen(_command(programs, data, settings), stdin=subprocess.DEVNULL, preexec_fn=_end_with_parent)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.send_signal(signal.SIGINT))  # ends sessions, and writes all data
    return server.wait()


def _become_ordinary() -> None:
    """Become another user than root for PostgreSQL, which refuses root, with the rights that root has on files."""
    user, group = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_USER) != 0:
        reason = os.strerror(ctypes.get_errno())
        sys.exit(f"PostgreSQL does not run as root, and there are no user namespaces ({reason}): run as another user")
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{ORDINARY} {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{ORDINARY} {group} 1", encoding="ascii")


def _make(programs: Path, data: Path, settings: dict[str, Any]) -> None:
    """Make the data with the database and its tables, all of it or nothing.

    A server executes the statements: tables that PostgreSQL makes without one (`--single`) have the numbers of
    system tables, and no publication has them.
    """
    half = data.with_name("postgres.half")
    shutil.rmtree(half, ignore_errors=True)
    words = ["-D", half, "-U", settings["user"], "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
    made = subprocess.run([programs / "initdb", *words], capture_output=True, text=True, check=False)
    if made.returncode:
        sys.exit(f"initdb: {made.stderr.strip()}")
    with (data.with_name("setup.log")).open("wb") as log:
        server = subprocess.Popen(
            _command(programs, half, settings), stdin=subprocess.DEVNULL, stderr=log, preexec_fn=_end_with_parent
        )
    try:
        _set_up(server, settings)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait()
    half.rename(data)


def _set_up(server: subprocess.Popen[bytes], settings: dict[str, Any]) -> None:
    """Make the database, and execute the statements in it."""
    import psycopg2

    where = f"host=127.0.0.1 port={settings['port']} user={settings['user']} dbname="
    until, connection = time.monotonic() + STARTED_S, None
    while connection is None:
        try:
            connection = psycopg2.connect(f"{where}postgres")
        except psycopg2.OperationalError as e:
            if server.poll() is not None or time.monotonic() > until:
                sys.exit(f"PostgreSQL does not start: {e}; see setup.log in the folder of the instance")
            time.sleep(0.05)
    for database, statements in (
        ("postgres", [f"create database {settings['database']}"]),
        (settings["database"], settings["setup"]),
    ):
        with contextlib.closing(psycopg2.connect(f"{where}{database}")) as connection:
            connection.autocommit = True
            for statement in statements:
                try:
                    connection.cursor().execute(statement)
                except psycopg2.Error as e:
                    sys.exit(f"setup: {statement}: {str(e).strip().splitlines()[0]}")


def _command(programs: Path, data: Path, settings: dict[str, Any]) -> list[str | Path]:
    options = {"port": settings["port"], "listen_addresses": "127.0.0.1", "unix_socket_directories": ""}
    words = [word for name, value in {**options, **settings["config"]}.items() for word in ("-c", f"{name}={value}")]
    return [programs / "postgres", "-D", data, *words]


def _wait_ended(data: Path) -> None:
    """Wait for the end of a server that was killed, and remove its lock file.

    PostgreSQL does not start as long as the process of that file is there, also one that nobody has waited for.
    """
    lock = data / "postmaster.pid"
    until = time.monotonic() + ENDED_S
    while lock.exists() and time.monotonic() < until:
        number = lock.read_text(encoding="ascii").partition("\n")[0]
        try:
            status = Path(f"/proc/{number}/stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            status = ""  # it is gone
        if status.rpartition(")")[2].strip()[:1] in ("", "Z"):
            lock.unlink()
        else:
            time.sleep(0.05)


def _end_with_parent() -> None:
    """Let the server end at once, with its sessions, when this process is killed."""
    ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, signal.SIGQUIT)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
