"""The network of a run: broker addresses that survive a restart, and cuts.

A cut consists of iptables rules inside the network namespace of one broker, so no other broker loses a packet. Clients
reach a broker through the port that Docker publishes; their packets come from the gateway of the network.
"""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterator, Sequence
from typing import Any

from docker import DockerClient
from docker.errors import APIError
from docker.types import IPAMConfig, IPAMPool

from chaos.cluster.brokers.startup import AddressTaken
from chaos.cluster.docker.engine import engine_errors, execute, labels, reason
from chaos.errors import ClusterError
from chaos.processes.process import ProcessId
from chaos.relay.cuts import Cut
from chaos.run.directory import Run

_FIRST_HOST = 10


def choose_subnet() -> ipaddress.IPv4Network:
    """Return a random subnet, so that two runs rarely choose the same."""
    return ipaddress.IPv4Network(f"10.{random.randint(64, 191)}.{random.randint(0, 255)}.0/24")


def address(subnet: ipaddress.IPv4Network, broker: int) -> str:
    """Return the address of a broker."""
    return str(subnet[_FIRST_HOST + broker])


def create(client: DockerClient, run: Run, subnet: ipaddress.IPv4Network, owner: ProcessId | None) -> str:
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
