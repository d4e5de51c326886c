"""Disks with a size: one volume for each broker, held in memory, so that full means full and nothing else suffers.

A volume of this kind lasts as long as a container that runs has it mounted. So one container of the run, the keeper,
holds all of them: a broker that dies comes back to its data, as it would with a disk.
"""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import Any

from docker import DockerClient

from chaos.cluster.docker.engine import asking, execute, labels
from chaos.errors import ClusterError
from chaos.processes.process import ProcessId
from chaos.run.directory import Run

MOUNT = "/disk"
DATA = f"{MOUNT}/data"
_BALLAST = "ballast"


def volume_name(run: Run, broker: int) -> str:
    """The name of a broker's volume."""
    return f"{run.run_id}-disk-{broker}"


def create(client: DockerClient, run: Run, image: str, brokers: int, size_bytes: int, owner: ProcessId | None) -> str:
    """Make the volumes and start the keeper; returns the keeper's id. Raises `ClusterError`."""
    options = f"size={size_bytes},uid={os.getuid()},gid={os.getgid()}"
    with asking("the brokers' disks cannot be made"):
        for broker in range(1, brokers + 1):
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
            volumes={volume_name(run, b): {"bind": f"{MOUNT}-{b}", "mode": "rw"} for b in range(1, brokers + 1)},
        )
    return str(keeper.id)


def put(client: DockerClient, keeper: str, broker: int, data: Path) -> None:
    """Copy a broker's formatted storage onto its disk. Raises `ClusterError`."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(data, "data")
    with asking(f"storage cannot be copied onto the disk of broker {broker}"):
        client.containers.get(keeper).put_archive(f"{MOUNT}-{broker}", packed.getvalue())


def fill(keeper: Any, broker: int, free_bytes: int) -> None:
    """Leave so many bytes. Raises `ClusterError` where there are fewer already."""
    ballast = room(keeper, broker) - free_bytes
    if ballast <= 0:
        raise ClusterError(f"the disk of broker {broker} has less than {free_bytes} bytes left already")
    # written to the end of the disk: the broker writes too, so what was free a moment ago may not be any more
    _run(keeper, ["sh", "-c", f"head -c {ballast} /dev/zero >{MOUNT}-{broker}/{_BALLAST} || test {free_bytes} -eq 0"])


def free(keeper: Any, broker: int) -> None:
    """Remove what filled it, if anything did."""
    _run(keeper, ["rm", "-f", f"{MOUNT}-{broker}/{_BALLAST}"])


def room(keeper: Any, broker: int) -> int:
    """Bytes that are free."""
    return int(_run(keeper, ["df", "--output=avail", "-B1", f"{MOUNT}-{broker}"]).split()[-1])


def _run(keeper: Any, argv: list[str]) -> str:
    code, said = execute(keeper, argv)
    if code:
        raise ClusterError(f"{' '.join(argv)} failed: {said}")
    return said
