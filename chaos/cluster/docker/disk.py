"""Disks with a fixed size: one volume in memory for each broker, so that a full disk affects only its broker.

Such a volume exists only while a running container mounts it. So one container of the run, the keeper, mounts all of
them: the data of a broker survives the end of its container, as on a real disk.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from docker import DockerClient

from chaos.cluster.docker.engine import engine_errors, execute, labels
from chaos.errors import ClusterError
from chaos.processes.process import ProcessId
from chaos.run.directory import Run

MOUNT = "/disk"
DATA = f"{MOUNT}/data"
_BALLAST = "ballast"


def volume_name(run: Run, broker: int) -> str:
    """Return the name of the volume of a broker."""
    return f"{run.run_id}-disk-{broker}"


def create(
    client: DockerClient, run: Run, image: str, nodes: Sequence[int], size_bytes: int, owner: ProcessId | None
) -> str:
    """Create the volumes, start the keeper, and return the ID of the keeper. Raises `ClusterError`."""
    options = f"size={size_bytes},uid={os.getuid()},gid={os.getgid()}"
    with engine_errors("the brokers' disks cannot be made"):
        for broker in nodes:
            client.volumes.create(
                volume_name(run, broker),
                driver="local",
                driver_opts={"type": "tmpfs", "device": "tmpfs", "o": options},
                labels=labels(run, f"disk-{broker}", owner),
            )
        keeper = client.containers.run(
            image,
            ["sleep", "infinity"],
            name=f"{run.run_id}-keeper",
            detach=True,
            network_mode="none",
            stop_signal="SIGKILL",
            labels=labels(run, "keeper", owner),
            volumes={volume_name(run, b): {"bind": f"{MOUNT}-{b}", "mode": "rw"} for b in nodes},
        )
    return str(keeper.id)


def put(client: DockerClient, keeper: str, broker: int, data: Path) -> None:
    """Copy the formatted storage of a broker to its disk. Raises `ClusterError`."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(data, "data")
    with engine_errors(f"storage cannot be copied to the disk of broker {broker}"):
        client.containers.get(keeper).put_archive(f"{MOUNT}-{broker}", packed.getvalue())


def fill(keeper: Any, broker: int, free_bytes: int) -> None:
    """Fill a disk until `free_bytes` are left. Raises `ClusterError` if less is free already."""
    ballast = room(keeper, broker) - free_bytes
    if ballast <= 0:
        raise ClusterError(f"the disk of broker {broker} has less than {free_bytes} bytes left already")
    # with 0 bytes to leave, `head` may fail: the broker also writes, so the measured room may be gone
    _run(keeper, ["sh", "-c", f"head -c {ballast} /dev/zero >{MOUNT}-{broker}/{_BALLAST} || test {free_bytes} -eq 0"])


def free(keeper: Any, broker: int) -> None:
    """Remove what `fill` wrote, if anything."""
    _run(keeper, ["rm", "-f", f"{MOUNT}-{broker}/{_BALLAST}"])


def room(keeper: Any, broker: int) -> int:
    """Return the free bytes on a disk."""
    return int(_run(keeper, ["df", "--output=avail", "-B1", f"{MOUNT}-{broker}"]).split()[-1])


def _run(keeper: Any, argv: list[str]) -> str:
    code, output = execute(keeper, argv)
    if code:
        raise ClusterError(f"{' '.join(argv)} failed: {output}")
    return output
