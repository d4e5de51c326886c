"""The loan of a cluster: what a run changed for good is not lent on."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from chaos.cluster import lending
from chaos.cluster.state import ClusterState, NodeState
from chaos.errors import ClusterError
from chaos.processes.process import ProcessId


def state(releases: list[str], **changes: object) -> ClusterState:
    brokers = [NodeState(id=i, kafka=r, host="127.0.0.1", port=i) for i, r in enumerate(releases, start=1)]
    values = {"kafka": "3.9.2", "cluster_id": "", "bootstrap": "", "heap_bytes": 1, "owner": None}
    return ClusterState(**values | {"reaper": ProcessId.current(), "brokers": brokers} | changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "lent"),
    [
        (state(["3.9.2"] * 3), True),
        (state(["3.9.2", "4.3.1", "3.9.2"]), False),
        (state(["4.3.1"] * 3), False),
        (state(["3.9.2"] * 3, refinalized=True), False),
        (state(["3.9.2"] * 3, clocks=True), True),
        (state(["3.9.2"] * 3, clocks=True, skewed=True), False),
        (state(["3.9.2"] * 3, disks=True, slow=True), False),
    ],
    ids=[
        *("deployed", "one broker was upgraded", "all were", "with other features"),
        *("with clocks", "with a wrong clock", "with a slow disk"),
    ],
)
def test_a_cluster_is_lent_on_only_as_it_was_deployed(
    monkeypatch: pytest.MonkeyPatch, found: ClusterState, lent: bool
) -> None:
    done: list[str] = []
    monkeypatch.setattr(lending, "_reset_topics", lambda _: done.append("settings"))
    monkeypatch.setattr(lending, "remove", lambda *_: done.append("topics"))
    monkeypatch.setattr(lending, "check_healthy", lambda _: None)
    cluster = SimpleNamespace(state=found, bootstrap="")
    if lent:
        lending.give_back(cluster)  # type: ignore[arg-type]
        assert done == ["settings", "topics"], "a restarted broker gives a topic the settings of a deleted namesake"
        return
    with pytest.raises(ClusterError, match="the release, the features, the clocks or the disks"):
        lending.give_back(cluster)  # type: ignore[arg-type]
