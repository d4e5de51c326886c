"""The container of one broker, with its CPU and memory limits."""

from __future__ import annotations

import os
import shlex
import time
from datetime import datetime
from typing import Any

from docker import DockerClient
from docker.errors import APIError

from chaos.cluster.brokers import jvm, startup
from chaos.cluster.deployment import Deployment
from chaos.cluster.docker import disk
from chaos.cluster.docker.engine import engine_errors, labels, reason
from chaos.cluster.secured.issuer_process import java_flags
from chaos.cluster.secured.settings import TOKEN_KEYS
from chaos.cluster.settings import ClusterSpec
from chaos.cluster.state import NodeState
from chaos.processes.ports import HOST
from chaos.processes.process import marks_of

_HOME, _LOGS, _MEMORY = "/broker", "/logs", "/memory"
TOKEN_KEYS_URL = f"file://{_HOME}/{TOKEN_KEYS}"
"""The address of the public keys of the issuer of tokens, which listens on the loopback interface of the machine."""
_PERIOD_US = 100_000
_CPUS = "aftershock.cpus"
FREEZE_S = 20.0
"""Timeout for freezing a container on a busy machine."""


def create(
    client: DockerClient, deploying: Deployment, image: str, network: str, node: NodeState, inside_port: int
) -> str:
    """Create the container of a node without starting it, and return its ID. Raises `ClusterError`.

    inside_port: the port that the node binds in the container; its own port is published on this machine.
    """
    run, spec, owner = deploying.run, deploying.spec, deploying.owner
    role, home = startup.role(node.id), startup.home(run, node.id)
    jvm.make_tmp(home)
    job = startup.job(run, node.id, spec.heap_bytes, flags=java_flags(spec.security, TOKEN_KEYS_URL))
    argv = shlex.join(["java", *jvm.arguments(job, _HOME, _LOGS)])
    mounts = {str(home): {"bind": _HOME, "mode": "rw"}, str(run.logs): {"bind": _LOGS, "mode": "rw"}}
    if spec.disk_bytes:
        mounts[disk.volume_name(run, node.id)] = {"bind": disk.MOUNT, "mode": "rw"}
    with engine_errors(f"the container of {role.replace('-', ' ')} cannot be made"):
        endpoint = client.api.create_endpoint_config(ipv4_address=node.ip)
        container = client.containers.create(
            image,
            ["sh", "-c", f"exec {argv} >>{_LOGS}/{role}.log 2>&1"],
            name=f"{run.run_id}-{role}",
            hostname=role,
            labels={**labels(run, role, owner), _CPUS: str(spec.cpus or "")},
            environment=marks_of(run, role, owner),  # `ps` and `gc` find every process by these marks
            user=f"{os.getuid()}:{os.getgid()}",  # so that this user can remove the files
            working_dir=_HOME,
            volumes=mounts,
            network=network,
            networking_config={network: endpoint},
            ports={f"{inside_port}/tcp": (HOST, node.port)},
            cap_add=["NET_ADMIN"],  # used only by root inside the container, to cut the network
            **_limits(spec),
        )
    return str(container.id)


def _limits(spec: ClusterSpec) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    if spec.cpus:
        limits |= {"cpu_period": _PERIOD_US, "cpu_quota": int(spec.cpus * _PERIOD_US)}
    if spec.memory_bytes:
        # a tmpfs counts as memory of the container, so writing to it exhausts the memory
        limits |= {
            "mem_limit": spec.memory_bytes,
            "memswap_limit": spec.memory_bytes,
            "tmpfs": {_MEMORY: f"size={2 * spec.memory_bytes}"},
        }
    return limits


def freeze(container: Any) -> None:
    """Freeze a container. With cgroup v1, runc may need several attempts to catch every thread."""
    until = time.monotonic() + FREEZE_S
    while True:
        try:
            container.pause()
            return
        except APIError as e:
            if "unable to freeze" not in reason(e) or time.monotonic() > until:
                raise


def limit_cpus(container: Any, cpus: float | None) -> None:
    """Limit a container to `cpus` CPUs; None restores the limit of its creation."""
    original = container.labels[_CPUS]
    limit = cpus if cpus is not None else float(original) if original else None
    container.update(cpu_period=_PERIOD_US, cpu_quota=-1 if limit is None else int(limit * _PERIOD_US))


def throttled_s(container: Any) -> float:
    """Return the seconds that a container has waited because of its CPU limit."""
    stats = container.stats(stream=False, one_shot=True)
    return float(stats["cpu_stats"]["throttling_data"]["throttled_time"]) / 1e9


def ran_out_of_memory(client: DockerClient, container: Any) -> bool:
    """Return whether the kernel killed a process of the container since its last start.

    Docker's field `OOMKilled` is no substitute, because it survives a restart.
    """
    began = datetime.fromisoformat(container.attrs["State"]["StartedAt"][:26].rstrip("Z") + "+00:00")
    filters = {"container": container.id, "event": "oom"}
    return any(True for _ in client.events(since=began.timestamp(), until=time.time(), filters=filters, decode=True))


def eat_memory(container: Any) -> None:
    """Start to fill the memory of a container until the kernel intervenes; returns at once."""
    container.exec_run(["sh", "-c", f"exec cat /dev/zero >{_MEMORY}/eaten"], user="root", detach=True)
