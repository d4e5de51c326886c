"""The rights of a run's clients on a cluster with ACLs."""

from __future__ import annotations

from chaos.cluster.api import Cluster
from chaos.cluster.secured.settings import client_principal
from chaos.errors import ClusterError
from chaos.kafka import users
from chaos.kafka.client import Kafka
from chaos.kafka.users import Right, rights
from chaos.scenario.model import Scenario
from chaos.wait import wait_until

TIMEOUT_S = 30.0


def rights_of(scenario: Scenario) -> list[Right]:
    """Return the rights that the clients of a scenario need: to its topics and groups, and to write in transactions."""
    needed = [*rights("cluster", users.CLUSTER, "idempotent_write")]
    needed += rights("transactional_id", users.ANY_NAME, "write", "describe")
    for topic in scenario.topics:
        needed += rights("topic", topic.name, "read", "write", "create", "describe", "describe_configs")
    for group in scenario.groups:
        needed += rights("group", group, "read", "describe", "delete")
    for processor in scenario.processors:
        if processor.state:  # Kafka Streams names its internal topics after the group
            needed += rights("topic", f"{processor.group}-", "all", prefixed=True)
    return needed


def grant(cluster: Cluster, scenario: Scenario) -> None:
    """Give the clients their rights, and wait until every broker knows them. Raises `ClusterError`."""
    secured = cluster.state.secured
    if secured is None or not secured.spec.acls:
        return
    principal, needed = client_principal(secured.spec), set(rights_of(scenario))
    kafka = Kafka(cluster.bootstrap, access=cluster.state.access())

    def missing() -> list[int]:
        return [b for b in cluster.broker_ids if not needed <= (users.rights_at(kafka, b, principal) or set())]

    def unknown() -> str:
        return f"broker {', '.join(map(str, missing()))} does not know the rights of the clients"

    try:
        users.grant(kafka, principal, needed)
        wait_until(lambda: not missing(), TIMEOUT_S, unknown, every_s=0.1, error=ClusterError)
    finally:
        kafka.close()
