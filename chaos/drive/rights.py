"""Rights of the clients at clusters with an authorizer, given before any client starts."""

from __future__ import annotations

from collections.abc import Iterable

from chaos.cluster.api import Cluster
from chaos.cluster.secured.settings import client_principal
from chaos.errors import ClusterError
from chaos.kafka import users
from chaos.kafka.client import Kafka
from chaos.kafka.users import Right, rights
from chaos.scenario.model import Scenario
from chaos.setup.names import PRIMARY
from chaos.wait import wait_until

RIGHTS_TIMEOUT_S = 30.0


def rights_of(scenario: Scenario, cluster: str = PRIMARY) -> list[Right]:
    """Return the rights that the clients of a scenario need at a cluster.

    They may use its topics in the scenario, and write in transactions. At the first cluster they may use the groups of
    the scenario. At another one all groups: a run knows neither groups nor topics of applications there.
    """
    at = scenario.at(cluster)
    needed = [*rights("cluster", users.CLUSTER, "idempotent_write")]
    needed += rights("transactional_id", users.ANY_NAME, "write", "describe")
    for topic in at.topics:
        needed += rights("topic", topic.name, "read", "write", "create", "describe", "describe_configs")
    groups = {*at.groups, *at.app_groups} if cluster == PRIMARY else {users.ANY_NAME}
    for group in groups:
        needed += rights("group", group, "read", "describe", "delete")
    for processor in at.processors:
        if processor.state:  # Kafka Streams names its internal topics after the group
            needed += rights("topic", f"{processor.group}-", "all", prefixed=True)
    return needed


def grant_rights(cluster: Cluster, granted: Iterable[Right]) -> None:
    """Give the clients these rights, and wait until every broker knows them. Raises `ClusterError`.

    Without an authorizer there is nothing to do.
    """
    secured = cluster.state.secured
    if secured is None or not secured.spec.acls:
        return
    principal, needed = client_principal(secured.spec), set(granted)
    kafka = Kafka(cluster.bootstrap, access=cluster.state.access())

    def missing() -> list[int]:
        return [b for b in cluster.broker_ids if not needed <= (users.rights_at(kafka, b, principal) or set())]

    def unknown() -> str:
        return f"broker {', '.join(map(str, missing()))} does not know the rights of the clients"

    try:
        users.grant(kafka, principal, needed)
        wait_until(lambda: not missing(), RIGHTS_TIMEOUT_S, unknown, every_s=0.1, error=ClusterError)
    finally:
        kafka.close()
