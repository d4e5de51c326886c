"""The layout of a new cluster of processes: ports, the switch or ZooKeeper if needed, and every file."""

from __future__ import annotations

from chaos.cluster import deployment
from chaos.cluster.brokers.release import Release
from chaos.cluster.deployment import Deployment
from chaos.cluster.process import network, zookeeper
from chaos.cluster.settings import on_this_host
from chaos.cluster.state import ClusterState


def create(deploying: Deployment, release: Release) -> ClusterState:
    """Choose ports, start the switch if the cluster has one, write all files, and return the state."""
    run, spec = deploying.run, deploying.spec
    if spec.switch:
        return _create_behind_switch(deploying, release)
    ports = deployment.choose_ports(spec, more=1 if spec.zookeeper else spec.brokers)
    clients, more = ports[: spec.brokers], ports[spec.brokers :]
    if spec.zookeeper:
        server = zookeeper.write_files(run, more[0])
        return deployment.write_cluster(deploying, release, on_this_host(clients), zookeeper=server)
    state = deployment.write_cluster(deploying, release, on_this_host(clients, more))
    for broker, port in zip(state.brokers, more, strict=True):
        broker.controller_port = port
    state.save(run.cluster)
    return state


def _create_behind_switch(deploying: Deployment, release: Release) -> ClusterState:
    run, spec = deploying.run, deploying.spec
    ports = deployment.choose_ports(spec, more=2 * spec.brokers)
    clients, more = ports[: spec.brokers], ports[spec.brokers :]
    bound = [[clients[i], more[2 * i], more[2 * i + 1]] for i in range(spec.brokers)]
    switch, endpoints = network.start(run, bound, deploying.owner)
    state = deployment.write_cluster(deploying, release, endpoints)
    state.switch = switch.identity
    for broker, own_ports in zip(state.brokers, bound, strict=True):
        broker.behind = own_ports
    state.save(run.cluster)
    return state
