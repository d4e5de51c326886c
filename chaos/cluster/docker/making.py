"""Everything of a cluster of containers but its start: files, `cluster.json`, network, disks, containers."""

from __future__ import annotations

from docker import DockerClient

from chaos.cluster import deploy
from chaos.cluster.brokers.broker import home
from chaos.cluster.brokers.release import Release
from chaos.cluster.docker import containers, disk, network
from chaos.cluster.settings import ClusterSpec, Place
from chaos.cluster.state import ClusterState
from chaos.processes.ports import HOST
from chaos.processes.process import ProcessId
from chaos.run.directory import Run

_PEERS_PORT, _CONTROLLER_PORT = 9092, 9093


def lay_out(
    client: DockerClient,
    run: Run,
    spec: ClusterSpec,
    release: Release,
    image: str,
    owner: ProcessId | None,
    reaper: ProcessId,
    deadline_s: float,
) -> ClusterState:
    """Make it all. Raises `MachineError` if a fixed port is taken, `AddressesTaken`, or another `ClusterError`.

    `cluster.json` is written before the first thing is made on the engine: by it, whoever ends the run knows to look.
    """
    subnet = network.choose_subnet()
    ips = [network.address(subnet, broker) for broker in range(1, spec.brokers + 1)]
    places = [
        Place(HOST, port, f"{ip}:{_CONTROLLER_PORT}", f"{ip}:{_PEERS_PORT}", bind="0.0.0.0")
        for ip, port in zip(ips, deploy.choose_ports(spec, more=0), strict=True)
    ]
    data = disk.DATA if spec.disk_bytes else "data"
    found = deploy.lay_out(run, spec, release, owner, reaper, deadline_s, places, "docker", data)
    found.gateway = str(subnet[1])
    found.network = network.create(client, run, subnet, owner)
    if spec.disk_bytes:
        found.keeper = disk.create(client, run, image, spec.brokers, spec.disk_bytes, owner)
    for broker, ip in zip(found.brokers, ips, strict=True):
        if found.keeper:
            disk.put(client, found.keeper, broker.id, home(run, broker.id) / "data")
        broker.ip = ip
        broker.container = containers.create(client, run, spec, image, found.network, broker, owner)
    found.save(run.cluster)
    return found
