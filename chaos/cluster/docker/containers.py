"""One broker's container: how it is made, and its share of CPU and memory."""

from __future__ import annotations

import os
import shlex
import time
from datetime import datetime
from typing import Any

from docker import DockerClient
from docker.errors import APIError

from chaos.cluster.brokers import broker, jvm
from chaos.cluster.docker import disk
from chaos.cluster.docker.engine import asking, labels, reason
from chaos.cluster.settings import ClusterSpec
from chaos.cluster.state import BrokerState
from chaos.processes.ports import HOST
from chaos.processes.process import ProcessId, marks_of
from chaos.run.directory import Run

_HOME, _LOGS, _MEMORY = "/broker", "/logs", "/memory"
_PERIOD_US = 100_000
_CPUS = "aftershock.cpus"
FREEZE_S = 20.0
"""How long a busy machine is given to freeze a container."""


def create(
    client: DockerClient,
    run: Run,
    spec: ClusterSpec,
    image: str,
    network: str,
    known: BrokerState,
    owner: ProcessId | None,
) -> str:
    """Make a broker's container, and return its id; it does not run yet. Raises `ClusterError`."""
    role, home = broker.role(known.id), broker.home(run, known.id)
    jvm.make_tmp(home)
    argv = shlex.join(["java", *jvm.arguments(broker.job(run, known.id, spec.heap_bytes), _HOME, _LOGS)])
    mounts = {str(home): {"bind": _HOME, "mode": "rw"}, str(run.logs): {"bind": _LOGS, "mode": "rw"}}
    if spec.disk_bytes:
        mounts[disk.volume_name(run, known.id)] = {"bind": disk.MOUNT, "mode": "rw"}
    with asking(f"the container of broker {known.id} cannot be made"):
        at = client.api.create_endpoint_config(ipv4_address=known.ip)
        made = client.containers.create(
            image,
            ["sh", "-c", f"exec {argv} >>{_LOGS}/{role}.log 2>&1"],
            name=f"{run.run_id}-{role}",
            hostname=role,
            labels={**labels(run, role, owner), _CPUS: str(spec.cpus or "")},
            environment=marks_of(run, role, owner),  # by which `ps` and `gc` find the process as they find any other
            user=f"{os.getuid()}:{os.getgid()}",  # who may remove what it writes
            working_dir=_HOME,
            volumes=mounts,
            network=network,
            networking_config={network: at},
            ports={f"{known.port}/tcp": (HOST, known.port)},
            cap_add=["NET_ADMIN"],  # for root in it only, who cuts its network
            **_limits(spec),
        )
    return str(made.id)


def _limits(spec: ClusterSpec) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    if spec.cpus:
        limits |= {"cpu_period": _PERIOD_US, "cpu_quota": int(spec.cpus * _PERIOD_US)}
    if spec.memory_bytes:
        # what is written to a tmpfs counts as memory of the container, which is how it can be used up
        limits |= {
            "mem_limit": spec.memory_bytes,
            "memswap_limit": spec.memory_bytes,
            "tmpfs": {_MEMORY: f"size={2 * spec.memory_bytes}"},
        }
    return limits


def freeze(container: Any) -> None:
    """Stop it where it stands. A container of cgroup v1 may need several goes to catch every thread, says runc."""
    until = time.monotonic() + FREEZE_S
    while True:
        try:
            container.pause()
            return
        except APIError as e:
            if "unable to freeze" not in reason(e) or time.monotonic() > until:
                raise


def limit_cpus(container: Any, cpus: float | None) -> None:
    """Give it so many CPUs; None: what it was made with."""
    first = container.labels[_CPUS]
    wanted = cpus if cpus is not None else float(first) if first else None
    container.update(cpu_period=_PERIOD_US, cpu_quota=-1 if wanted is None else int(wanted * _PERIOD_US))


def throttled_s(container: Any) -> float:
    """Seconds that it has waited for CPU time that its limit kept from it."""
    seen = container.stats(stream=False, one_shot=True)
    return float(seen["cpu_stats"]["throttling_data"]["throttled_time"]) / 1e9


def ran_out_of_memory(client: DockerClient, container: Any) -> bool:
    """Whether the kernel has stepped in since it was last started; its `OOMKilled` outlives a start."""
    began = datetime.fromisoformat(container.attrs["State"]["StartedAt"][:26].rstrip("Z") + "+00:00")
    wanted = {"container": container.id, "event": "oom"}
    return any(True for _ in client.events(since=began.timestamp(), until=time.time(), filters=wanted, decode=True))


def eat_memory(container: Any) -> None:
    """Begin to write to its memory until the kernel steps in; returns at once."""
    container.exec_run(["sh", "-c", f"exec cat /dev/zero >{_MEMORY}/eaten"], user="root", detach=True)
