"""An attached cluster in memory, for tests that ask no broker."""

from __future__ import annotations

from pathlib import Path

from chaos.cluster.attached.driver import AttachedCluster
from chaos.cluster.settings import Verbs
from chaos.cluster.state import Attachment, ClusterState, NodeState
from chaos.kafka.security import Security
from chaos.processes.process import ProcessId
from chaos.run.directory import Run


def with_a_killed_broker(folder: Path, verbs: Verbs) -> AttachedCluster:
    """Return an attached cluster of one broker that was killed. verbs: the commands of its owner."""
    known = ClusterState(
        driver="attached",
        kafka="",
        cluster_id="c",
        bootstrap="h:1",
        heap_bytes=0,
        owner=None,
        reaper=ProcessId.current(),
        attached=Attachment(prefix="p", security=Security(), verbs=verbs),
        brokers=[NodeState(id=1, kafka="", host="h", port=1, state="killed")],
    )
    return AttachedCluster(Run.create(folder, "ours"), known)
