"""Which Spark the checks run on: a master's URL, from the command line or from an Airflow connection.

    local, local[4], local[*]           this process, which is the default
    spark://host:7077[,host:7077...]    a standalone cluster
    yarn, k8s://https://host:443        with Spark's and Hadoop's own settings in SPARK_CONF_DIR and HADOOP_CONF_DIR

`python -m checks.spark.master URL` prints what is wrong with the URL and exits with 2, before anything else starts.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import sys

from chaos.errors import AftershockError, MachineError, UsageError

LOCAL = "local[*]"
PORT = 7077
CONNECT_TIMEOUT_S = 10.0

_LOCAL = re.compile(r"local(\[(\d+|\*)(\s*,\s*\d+)?\])?")
_SPARK = re.compile(r"spark://([^\s,/:]+:\d{1,5})(,[^\s,/:]+:\d{1,5})*")
_OTHER = re.compile(r"yarn|k8s://\S+")


def is_local(master: str) -> bool:
    """Whether executors are threads of the driver."""
    return _LOCAL.fullmatch(master) is not None


def is_here(master: str) -> bool:
    """Whether executors are on this machine, because the master has a loopback address."""
    return is_local(master) or (
        _SPARK.fullmatch(master) is not None and all(_loopback(host) for host, _ in _addresses(master))
    )


def check(master: str) -> None:
    """Raise `UsageError` for what is no master's URL, `MachineError` where no standalone master answers."""
    if is_local(master) or _OTHER.fullmatch(master):
        return
    if not _SPARK.fullmatch(master):
        raise UsageError(
            f"{master!r} is not a Spark master; write one like local[4], spark://host:{PORT}, yarn or k8s://https://host:443"
        )
    refused = [words for address in _addresses(master) if (words := _refusal(*address))]
    if len(refused) == len(_addresses(master)):
        raise MachineError(
            f"no Spark master answers at {master} ({'; '.join(refused)}); start it, or name another with --spark-master"
        )


def from_connection(host: str | None, port: int | None) -> str:
    """The master that an Airflow connection of type spark names, as Airflow's own Spark provider reads it.

    `host` is a URL (`spark://h`, `yarn`, `local[*]`) or a bare host, which is then a standalone master's; `port` is
    appended where there is one.
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


def _refusal(host: str, port: int) -> str:
    """Why nothing can be said to it; empty where something listens."""
    try:
        socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S).close()
    except (OSError, OverflowError) as e:
        return f"{host}:{port}: {getattr(e, 'strerror', None) or e}"
    return ""


def main(master: str) -> int:
    """Say what is wrong with it."""
    try:
        check(master)
    except AftershockError as e:
        sys.stderr.write(f"{e}\n")
        return e.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
