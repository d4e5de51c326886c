"""Lending: one run's cluster serves another run, and is given back as it was.

A catalogue of scenarios would otherwise spend most of its time on starting brokers. The borrower has a `cluster.json`
that names the lender, and a reaper of its own, so that its clients end however it ends. Brokers that its faults restart
belong to the lender: their files and their logs are there.

What a borrower leaves in the cluster are topics and groups. They are removed at the end, so that the next one finds
none; a cluster that is not well by then is not lent again.
"""

from __future__ import annotations

from pathlib import Path

from chaos.cluster import deploy, state
from chaos.cluster.api import Cluster
from chaos.cluster.state import ClusterState, ProcessState
from chaos.errors import ClusterError, WaitTimeout
from chaos.kafka.cleanup import remove
from chaos.kafka.client import Kafka
from chaos.processes.process import ProcessId
from chaos.run.directory import Run
from chaos.wait import wait_until

INTERNAL = "__"
"""What the names of the brokers' own topics begin with."""
WELL_S = 30.0


def lend(cluster: Cluster, borrower: Run, owner: ProcessId | None, deadline_s: float) -> None:
    """Give a run the use of a cluster. Raises `ClusterError` if that is not well."""
    check_well(cluster)
    reaper = deploy.start_reaper(borrower, owner, deadline_s)
    found = cluster.state.model_copy(
        update={"lender": str(cluster.run.path), "reaper": ProcessState.of(reaper.identity)}
    )
    found.save(borrower.cluster)
    deploy.check_reaper(borrower, reaper.identity)


def home(run: Run, found: ClusterState) -> Run:
    """The run whose cluster it is."""
    return Run(Path(found.lender)) if found.lender else run


def is_borrowed(run: Run) -> bool:
    """Whether the run uses the cluster of another one."""
    return run.cluster.exists() and state.load(run).lender is not None


def give_back(cluster: Cluster) -> None:
    """Remove all topics and groups but the brokers' own. Raises `ClusterError` if the cluster is not as it was."""
    remove(cluster.bootstrap, lambda name: not name.startswith(INTERNAL), cluster.state.access())
    check_well(cluster)


def check_well(cluster: Cluster) -> None:
    """Raise `ClusterError` unless every broker runs and every partition has, or soon gets, leader and full ISR."""
    if down := [broker for broker in cluster.broker_ids if not cluster.broker_alive(broker)]:
        raise ClusterError(f"brokers {', '.join(map(str, down))} are down")
    kafka = Kafka(cluster.bootstrap, access=cluster.state.access())
    try:
        wait_until(lambda: not _missing(cluster, kafka), WELL_S, lambda: _missing(cluster, kafka), every_s=0.2)
    except WaitTimeout as e:
        raise ClusterError(f"the cluster is not well: {e}") from None
    finally:
        kafka.close()


def _missing(cluster: Cluster, kafka: Kafka) -> str:
    metadata = kafka.metadata()
    if metadata is None:
        return "no broker answers"
    if sorted(metadata.brokers) != sorted(cluster.broker_ids):
        return f"its brokers are {sorted(metadata.brokers)} instead of {sorted(cluster.broker_ids)}"
    return "; ".join(kafka.unhealthy(metadata.partitions)[:3])
