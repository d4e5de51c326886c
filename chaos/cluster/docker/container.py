"""The container of one broker: its CPU and memory limits, its disk, and its network.

Disks with a fixed size are volumes in memory, one for each broker, so that a full disk affects only its broker. Such a
volume exists only while a running container mounts it. So one container of the run, the keeper, mounts all of them: the
data of a broker survives the end of its container, as on a real disk.

The network of a run has broker addresses that survive a restart. A cut consists of iptables rules inside the network
namespace of one broker, so no other broker loses a packet. Clients reach a broker through the port that Docker
publishes; their packets come from the gateway of the network.
"""

from __future__ import annotations

import io
import ipaddress
import os
import random
import shlex
import tarfile
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from docker import DockerClient
from docker.errors import APIError
from docker.types import IPAMConfig, IPAMPool

from chaos.cluster.brokers import startup
from chaos.cluster.brokers.release import arguments, make_tmp
from chaos.cluster.brokers.startup import AddressTaken
from chaos.cluster.deployment import Deployment
from chaos.cluster.docker.engine import engine_errors, execute, labels, reason
from chaos.cluster.secured.issuer import java_flags
from chaos.cluster.secured.settings import TOKEN_KEYS
from chaos.cluster.settings import ClusterSpec
from chaos.cluster.state import NodeState
from chaos.errors import ClusterError
from chaos.processes.ports import HOST
from chaos.processes.process import ProcessId, marks_of
from chaos.relay.cuts import Cut
from chaos.run.directory import Run

_HOME, _LOGS, _MEMORY = "/broker", "/logs", "/memory"
TOKEN_KEYS_URL = f"file://{_HOME}/{TOKEN_KEYS}"
"""The address of the public keys of the issuer of tokens, which listens on the loopback interface of the machine."""
_PERIOD_US = 100_000
_CPUS = "aftershock.cpus"
FREEZE_S = 20.0
"""Timeout for freezing a container on a busy machine."""


def create_container(
    client: DockerClient, deploying: Deployment, image: str, network: str, node: NodeState, inside_port: int
) -> str:
    """Create the container of a node without starting it, and return its ID. Raises `ClusterError`.

    inside_port: the port that the node binds in the container; its own port is published on this machine.
    """
    run, spec, owner = deploying.run, deploying.spec, deploying.owner
    role, home = startup.role(node.id), startup.home(run, node.id)
    make_tmp(home)
    job = startup.job(run, node.id, spec.heap_bytes, flags=java_flags(spec.security, TOKEN_KEYS_URL))
    argv = shlex.join(["java", *arguments(job, _HOME, _LOGS)])
    mounts = {str(home): {"bind": _HOME, "mode": "rw"}, str(run.logs): {"bind": _LOGS, "mode": "rw"}}
    if spec.disk_bytes:
        mounts[volume_name(run, node.id)] = {"bind": MOUNT, "mode": "rw"}
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


MOUNT = "/disk"
DATA = f"{MOUNT}/data"
_BALLAST = "ballast"


def volume_name(run: Run, broker: int) -> str:
    """Return the name of the volume of a broker."""
    return f"{run.run_id}-disk-{broker}"


def create_disks(
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


def put_storage(client: DockerClient, keeper: str, broker: int, data: Path) -> None:
    """Copy the formatted storage of a broker to its disk. Raises `ClusterError`."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(data, "data")
    with engine_errors(f"storage cannot be copied to the disk of broker {broker}"):
        client.containers.get(keeper).put_archive(f"{MOUNT}-{broker}", packed.getvalue())


def fill_disk(keeper: Any, broker: int, free_bytes: int) -> None:
    """Fill a disk until `free_bytes` are left. Raises `ClusterError` if less is free already."""
    ballast = free_bytes_of(keeper, broker) - free_bytes
    if ballast <= 0:
        raise ClusterError(f"the disk of broker {broker} has less than {free_bytes} bytes left already")
    # with 0 bytes to leave, `head` may fail: the broker also writes, so the measured room may be gone
    _run(keeper, ["sh", "-c", f"head -c {ballast} /dev/zero >{MOUNT}-{broker}/{_BALLAST} || test {free_bytes} -eq 0"])


def empty_disk(keeper: Any, broker: int) -> None:
    """Remove what `fill` wrote, if anything."""
    _run(keeper, ["rm", "-f", f"{MOUNT}-{broker}/{_BALLAST}"])


def free_bytes_of(keeper: Any, broker: int) -> int:
    """Return the free bytes on a disk."""
    return int(_run(keeper, ["df", "--output=avail", "-B1", f"{MOUNT}-{broker}"]).split()[-1])


def _run(keeper: Any, argv: list[str]) -> str:
    code, output = execute(keeper, argv)
    if code:
        raise ClusterError(f"{' '.join(argv)} failed: {output}")
    return output


_FIRST_HOST = 10


def choose_subnet() -> ipaddress.IPv4Network:
    """Return a random subnet, so that two runs rarely choose the same."""
    return ipaddress.IPv4Network(f"10.{random.randint(64, 191)}.{random.randint(0, 255)}.0/24")


def address(subnet: ipaddress.IPv4Network, broker: int) -> str:
    """Return the address of a broker."""
    return str(subnet[_FIRST_HOST + broker])


def create_network(client: DockerClient, run: Run, subnet: ipaddress.IPv4Network, owner: ProcessId | None) -> str:
    """Create the network of the run, and return its name. Raises `AddressTaken`, or another `ClusterError`."""
    name = f"aftershock-{run.run_id}"
    pool = IPAMConfig(pool_configs=[IPAMPool(subnet=str(subnet), gateway=str(subnet[1]))])
    with engine_errors(f"network {name} cannot be made"):
        try:
            client.networks.create(
                name, driver="bridge", ipam=pool, labels=labels(run, "network", owner), check_duplicate=True
            )
        except APIError as e:
            if "overlap" in reason(e).lower():
                raise AddressTaken(reason(e)) from None
            raise
    return name


def drop(container: Any, cut: Cut, addresses: Sequence[str]) -> None:
    """Drop the packets of a cut. Raises `ClusterError` after it removed its rules."""
    done: list[list[str]] = []
    try:
        for rule in _rules(cut, addresses):
            _iptables(container, "-I", rule)
            done.append(rule)
    except ClusterError:
        for rule in done:
            _iptables(container, "-D", rule)
        raise


def let_pass(container: Any, cut: Cut, addresses: Sequence[str]) -> None:
    """Remove the rules of a cut, if any. Raises `ClusterError`."""
    for rule in _rules(cut, addresses):
        if execute(container, ["iptables", "-w", "-C", *rule], user="root")[0] == 0:
            _iptables(container, "-D", rule)


def dropped(container: Any, addresses: Sequence[str]) -> int:
    """Return the number of dropped packets from or to these addresses. Raises `ClusterError`."""
    packets = 0
    for chain, column in (("INPUT", 7), ("OUTPUT", 8)):
        code, output = execute(container, ["iptables", "-w", "-nvxL", chain], user="root")
        if code:
            raise ClusterError(f"iptables -L {chain} failed in {container.name}: {output}")
        # pkts bytes target prot opt in out source destination
        fields = [line.split() for line in output.splitlines()[2:]]
        packets += sum(int(f[0]) for f in fields if f[2] == "DROP" and f[column] in addresses)
    return packets


def _rules(cut: Cut, addresses: Sequence[str]) -> Iterator[list[str]]:
    for ip in addresses:
        if cut.direction in ("both", "in"):
            yield ["INPUT", "-s", ip, "-j", "DROP"]
        if cut.direction in ("both", "out"):
            yield ["OUTPUT", "-d", ip, "-j", "DROP"]


def _iptables(container: Any, action: str, rule: Sequence[str]) -> None:
    code, output = execute(container, ["iptables", "-w", action, *rule], user="root")
    if code:
        raise ClusterError(f"iptables {action} {' '.join(rule)} failed in {container.name}: {output}")
