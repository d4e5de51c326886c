"""URL of the Spark master, from the command line or from an Airflow connection.

    local, local[4], local[*]           this process (default)
    spark://host:7077[,host:7077...]    a standalone cluster
    yarn, k8s://https://host:443        with Spark's and Hadoop's own settings in SPARK_CONF_DIR and HADOOP_CONF_DIR

`python -m checks.spark.master URL` checks a URL: it prints what is wrong with it and exits with 2.
"""

from __future__ import annotations

import ipaddress
import os
import re
import shlex
import socket
import sys

from chaos.errors import AftershockError, MachineError, UsageError

LOCAL = "local[*]"
PORT = 7077
CONNECT_TIMEOUT_S = 10.0
CONF = "AFTERSHOCK_SPARK_CONF"
"""Settings of Spark from the user, as a shell would split them: `spark.executor.memory=2g spark.cores.max=8`."""

_LOCAL = re.compile(r"local(\[(\d+|\*)(\s*,\s*\d+)?\])?")
_SPARK = re.compile(r"spark://([^\s,/:]+:\d{1,5})(,[^\s,/:]+:\d{1,5})*")
_OTHER = re.compile(r"yarn|k8s://\S+")


def user_settings() -> dict[str, str]:
    """Return the settings in the environment variable `CONF`. Raises `UsageError` for anything else in it."""
    try:
        found = [text.partition("=") for text in shlex.split(os.environ.get(CONF, ""))]
    except ValueError as e:
        raise UsageError(f"{CONF}: {e}") from None
    for name, _, value in found:
        if not name.startswith("spark.") or not value:
            raise UsageError(f"{CONF}: {name!r} is not a setting; write spark.NAME=VALUE, separated by blanks")
    return {name: value for name, _, value in found}


def is_local(master: str) -> bool:
    """Return whether executors are threads of the driver."""
    return _LOCAL.fullmatch(master) is not None


def is_here(master: str) -> bool:
    """Return whether executors run on this machine: the master is local or has a loopback address."""
    return is_local(master) or (
        _SPARK.fullmatch(master) is not None and all(_loopback(host) for host, _ in _addresses(master))
    )


def check(master: str) -> None:
    """Raise `UsageError` if it is not the URL of a master, `MachineError` if no standalone master answers."""
    if is_local(master) or _OTHER.fullmatch(master):
        return
    if not _SPARK.fullmatch(master):
        raise UsageError(
            f"{master!r} is not a Spark master; write one like local[4], spark://host:{PORT}, yarn or k8s://https://host:443"
        )
    refused = [reason for address in _addresses(master) if (reason := refusal(*address))]
    if len(refused) == len(_addresses(master)):
        raise MachineError(
            f"no Spark master answers at {master} ({'; '.join(refused)}); start it, or name another with --spark-master"
        )


def from_connection(host: str | None, port: int | None) -> str:
    """Return the master of an Airflow connection of type spark, read as Airflow's Spark provider reads it.

    host: a URL (`spark://h`, `yarn`, `local[*]`), or the bare host of a standalone master; port: appended if there is
    one. Raises `UsageError` if the connection has no host.
    """
    if not host:
        raise UsageError("the Airflow connection names no Spark master; set its host, such as spark://host or local[*]")
    if is_local(host) or host == "yarn":
        return host
    if "://" not in host:
        host, port = f"spark://{host}", port or PORT
    return f"{host}:{port}" if port else host


def _addresses(master: str) -> list[tuple[str, int]]:
    pairs = (address.rsplit(":", 1) for address in master.removeprefix("spark://").split(","))
    return [(host, int(port)) for host, port in pairs]


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(socket.gethostbyname(host)).is_loopback
    except (OSError, ValueError):
        return False


def refusal(host: str, port: int, timeout_s: float = CONNECT_TIMEOUT_S) -> str:
    """Return why the address does not accept a connection; empty if it does."""
    try:
        socket.create_connection((host, port), timeout=timeout_s).close()
    except (OSError, OverflowError) as e:
        return f"{host}:{port}: {getattr(e, 'strerror', None) or e}"
    return ""


def main(master: str) -> int:
    """Check the URL and print what is wrong with it."""
    try:
        check(master)
    except AftershockError as e:
        sys.stderr.write(f"{e}\n")
        return e.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
