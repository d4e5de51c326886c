"""The layout of a new cluster of containers: files, `cluster.json`, network, disks, containers."""

from __future__ import annotations

from docker import DockerClient

from chaos.cluster import deployment
from chaos.cluster.brokers.release import Release
from chaos.cluster.brokers.startup import home
from chaos.cluster.deployment import Deployment
from chaos.cluster.docker import container, disk, network
from chaos.cluster.settings import BrokerEndpoints
from chaos.cluster.state import ClusterState
from chaos.processes.ports import HOST

_PEERS_PORT, _CONTROLLER_PORT = 9092, 9093


def create(deploying: Deployment, client: DockerClient, release: Release, image: str) -> ClusterState:
    """Create everything but start no broker; return the state.

    `cluster.json` is written before the first object exists on the engine, so that any process that ends the run finds
    them. Raises `MachineError` if a fixed port is taken, `AddressTaken`, or another `ClusterError`.
    """
    run, spec, owner = deploying.run, deploying.spec, deploying.owner
    subnet = network.choose_subnet()
    ips = [network.address(subnet, broker) for broker in range(1, spec.brokers + 1)]
    endpoints = [
        BrokerEndpoints(HOST, port, f"{ip}:{_CONTROLLER_PORT}", f"{ip}:{_PEERS_PORT}", bind="0.0.0.0")
        for ip, port in zip(ips, deployment.choose_ports(spec, more=0), strict=True)
    ]
    data = disk.DATA if spec.disk_bytes else "data"
    state = deployment.write_cluster(deploying, release, endpoints, "docker", data)
    state.gateway = str(subnet[1])
    state.network = network.create(client, run, subnet, owner)
    if spec.disk_bytes:
        state.keeper = disk.create(client, run, image, spec.brokers, spec.disk_bytes, owner)
    for broker, ip in zip(state.brokers, ips, strict=True):
        if state.keeper:
            disk.put(client, state.keeper, broker.id, home(run, broker.id) / "data")
        broker.ip = ip
        broker.container = container.create(client, deploying, image, state.network, broker)
    state.save(run.cluster)
    return state
