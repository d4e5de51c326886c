"""The process of a PostgreSQL server of a run: `python postgres.py SETTINGS`. It imports nothing of the platform.

SETTINGS is a JSON object: bin (folder of the programs), data, port, user, name, database, setup (statements), config,
follows (the port of the server that a standby follows, or empty). The server makes its data once, then it is started,
and ends with this process: the title that PostgreSQL gives its processes removes the marks by which a run finds what it
started, and this process has them.
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
STANDBY = "standby"
"""The role of servers that follow this one: who locks it out cuts them off."""
NOT_COPIED = {"": {"postmaster.pid", "postmaster.opts"}, "pg_wal": None, "pg_replslot": None}
"""What a standby does not take over, by folder; None: everything in it."""


def main(argv: Sequence[str]) -> int:
    """Run the server until it ends, or until this process is asked to end."""
    settings: dict[str, Any] = json.loads(argv[1])
    programs, data = Path(settings["bin"]), Path(settings["data"]) / "postgres"
    if os.geteuid() == 0:
        _become_ordinary()
    if not data.exists():
        half = data.with_name("postgres.half")
        shutil.rmtree(half, ignore_errors=True)
        (_copy if settings["follows"] else _make)(programs, half, settings)
        half.rename(data)
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
    """Make the data with the database and its tables.

    A server executes the statements: tables that PostgreSQL makes without one (`--single`) have the numbers of
    system tables, and no publication has them.
    """
    words = ["-D", data, "-U", settings["user"], "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
    made = subprocess.run([programs / "initdb", *words], capture_output=True, text=True, check=False)
    if made.returncode:
        sys.exit(f"initdb: {made.stderr.strip()}")
    with (data.with_name("setup.log")).open("wb") as log:
        server = subprocess.Popen(
            _command(programs, data, settings), stdin=subprocess.DEVNULL, stderr=log, preexec_fn=_end_with_parent
        )
    try:
        _set_up(server, settings)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait()


def _set_up(server: subprocess.Popen[bytes], settings: dict[str, Any]) -> None:
    """Make the database and the role of standbys, and execute the statements."""
    import psycopg2

    until, connection = time.monotonic() + STARTED_S, None
    while connection is None:
        try:
            connection = _connected(settings, settings["port"], "postgres")
        except psycopg2.OperationalError as e:
            if server.poll() is not None or time.monotonic() > until:
                sys.exit(f"PostgreSQL does not start: {e}; see setup.log in the folder of the instance")
            time.sleep(0.05)
    connection.close()
    for database, statements in (
        ("postgres", [f"create database {settings['database']}", f"create role {STANDBY} login replication"]),
        (settings["database"], settings["setup"]),
    ):
        with contextlib.closing(_connected(settings, settings["port"], database)) as connection:
            for statement in statements:
                try:
                    connection.cursor().execute(statement)
                except psycopg2.Error as e:
                    sys.exit(f"setup: {statement}: {str(e).strip().splitlines()[0]}")


def _connected(settings: dict[str, Any], port: str | int, database: str) -> Any:
    """Return a connection that commits each statement, and does not wait for a standby, which is not there yet."""
    import psycopg2

    where = f"host=127.0.0.1 port={port} user={settings['user']} dbname={database}"
    connection = psycopg2.connect(where, options="-c synchronous_commit=local")
    connection.autocommit = True
    return connection


def _copy(_: Path, data: Path, settings: dict[str, Any]) -> None:
    """Make the data as a copy of the server that this one follows, once that server has made its own.

    These are the functions for a program without pg_basebackup, which the installed release lacks.
    """
    import psycopg2

    until = time.monotonic() + STARTED_S
    while True:
        try:
            with contextlib.closing(_connected(settings, settings["follows"], settings["database"])) as connection:
                cursor = connection.cursor()
                cursor.execute("select current_setting('data_directory')")
                folder = Path(cursor.fetchone()[0])
                if folder.name == "postgres":  # and not the half-made data of the first start
                    _back_up(cursor, folder, data)
                    return
        except psycopg2.Error as e:
            if time.monotonic() > until:
                sys.exit(f"the server at port {settings['follows']} cannot be followed: {e}")
        time.sleep(0.1)


def _back_up(cursor: Any, folder: Path, copy: Path) -> None:
    """Copy the data of a server that runs, so that a standby can begin with the copy."""

    def left_out(inside: str, names: list[str]) -> set[str]:
        found = NOT_COPIED.get(str(Path(inside).relative_to(folder)).strip("."), set())
        return set(names) if found is None else found

    def copied(source: str, target: str) -> None:
        with contextlib.suppress(FileNotFoundError):  # the server removes files while it is copied
            shutil.copy2(source, target)

    shutil.rmtree(copy, ignore_errors=True)
    cursor.execute("select pg_backup_start('standby', true)")
    shutil.copytree(folder, copy, ignore=left_out, copy_function=copied)
    cursor.execute("select labelfile from pg_backup_stop(false)")
    (copy / "backup_label").write_text(cursor.fetchone()[0], encoding="utf-8")
    (copy / "standby.signal").touch()


def _command(programs: Path, data: Path, settings: dict[str, Any]) -> list[str | Path]:
    options = {"port": settings["port"], "listen_addresses": "127.0.0.1", "unix_socket_directories": ""}
    if settings["follows"]:
        primary = f"host=127.0.0.1 port={settings['follows']} user={STANDBY} application_name={settings['name']}"
        options["primary_conninfo"] = primary
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
