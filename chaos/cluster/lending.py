"""The loan of a cluster: a run uses the cluster of another run, and returns it in its original state.

Without it, a catalogue of scenarios would spend most of its time on starting brokers. The `cluster.json` of the
borrower names the lender. The borrower has a separate reaper, so its clients end in any case. Brokers that its faults
restart belong to the lender, with their files and logs.

A borrower leaves only topics, groups and rights in the cluster, which are removed at the end. An unhealthy cluster is
not lent again.

The settings of topics are removed before the topics. Otherwise a broker that restarts gives a topic the settings of a
deleted topic with the same name (`chaos/bugs/FINDINGS.md`), and the next run gets the settings of this run.
"""

from __future__ import annotations

from pathlib import Path

from chaos.cluster import deployment, state
from chaos.cluster.api import Cluster
from chaos.cluster.secured.settings import client_principal
from chaos.cluster.state import ClusterState
from chaos.errors import ClusterError, WaitTimeout
from chaos.kafka import admin, users
from chaos.kafka.cleanup import list_topics, remove
from chaos.kafka.client import Kafka
from chaos.processes.process import ProcessId
from chaos.run.directory import Run
from chaos.wait import wait_until

INTERNAL = "__"
"""The prefix of Kafka's internal topics."""
HEALTHY_S = 30.0


def lend(cluster: Cluster, borrower: Run, owner: ProcessId | None, deadline_s: float) -> None:
    """Let a run use a cluster. Raises `ClusterError` if the cluster is unhealthy."""
    check_healthy(cluster)
    reaper = deployment.start_reaper(borrower, owner, deadline_s).identity
    cluster.state.model_copy(update={"lender": str(cluster.run.path), "reaper": reaper}).save(borrower.cluster)
    deployment.check_reaper(borrower, reaper)


def lender_or_self(run: Run, cluster_state: ClusterState) -> Run:
    """Return the run that owns the cluster of a run."""
    return Run(Path(cluster_state.lender)) if cluster_state.lender else run


def is_borrowed(run: Run) -> bool:
    """Return whether the run uses the cluster of another run."""
    return run.cluster.exists() and state.load(run).lender is not None


def give_back(cluster: Cluster) -> None:
    """Remove all topics and groups except internal ones, and the rights of the clients.

    Raises `ClusterError` if the cluster is unhealthy, or is no longer what was deployed.
    """
    if not cluster.state.as_deployed:
        raise ClusterError("the run changed the release, the features, the clocks or the disks of the brokers")
    secured = cluster.state.secured
    if secured is not None and secured.spec.acls:
        kafka = Kafka(cluster.bootstrap, access=cluster.state.access())
        try:
            users.withdraw_all(kafka, client_principal(secured.spec))
        finally:
            kafka.close()
    _reset_topics(cluster)
    remove(cluster.bootstrap, _is_ours, cluster.state.access())
    check_healthy(cluster)


def _is_ours(name: str) -> bool:
    return not name.startswith(INTERNAL)


def _reset_topics(cluster: Cluster) -> None:
    """Remove the settings of all topics except internal ones. Raises `ClusterError`."""
    kafka = Kafka(cluster.bootstrap, access=cluster.state.access())
    try:
        for topic in list_topics(kafka, _is_ours) or ():
            admin.reset_settings(kafka, topic)
    finally:
        kafka.close()


def check_healthy(cluster: Cluster) -> None:
    """Wait until every node runs and every partition has a leader and a full ISR. Raises `ClusterError`."""
    if down := [cluster.state.name(node) for node in cluster.node_ids if not cluster.broker_alive(node)]:
        raise ClusterError(f"{', '.join(down)} {'is' if len(down) == 1 else 'are'} down")
    kafka = Kafka(cluster.bootstrap, access=cluster.state.access())
    try:
        wait_until(lambda: not _problems(cluster, kafka), HEALTHY_S, lambda: _problems(cluster, kafka), every_s=0.2)
    except WaitTimeout as e:
        raise ClusterError(f"the cluster is unhealthy: {e}") from None
    finally:
        kafka.close()


def _problems(cluster: Cluster, kafka: Kafka) -> str:
    metadata = kafka.metadata()
    if metadata is None:
        return "no broker answers"
    if sorted(metadata.brokers) != sorted(cluster.broker_ids):
        return f"its brokers are {sorted(metadata.brokers)} instead of {sorted(cluster.broker_ids)}"
    quorum = kafka.quorum() if cluster.controller_ids else None
    if cluster.controller_ids and quorum is None:
        return "no controller is active"
    if quorum is not None and cluster.state.voters and sorted(quorum.ends) != cluster.state.voters:
        return f"the voters are {sorted(quorum.ends)} instead of {cluster.state.voters}"
    return "; ".join(kafka.unhealthy(metadata.partitions)[:3])
