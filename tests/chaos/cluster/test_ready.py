"""The readiness of a broker, according to its metadata."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from chaos.cluster.brokers.startup import BrokerDied, StartingBroker, wait_ready
from chaos.cluster.state import NodeState
from chaos.errors import ClusterError
from chaos.kafka.connection import BrokerConnection
from chaos.run.directory import Run


def answer(controller: int, *brokers: int) -> Any:
    return SimpleNamespace(controller_id=controller, brokers=[SimpleNamespace(node_id=b) for b in brokers])


@pytest.fixture
def views(monkeypatch: pytest.MonkeyPatch) -> dict[int, Any]:
    """The answers by port; other ports refuse the connection."""
    views: dict[int, Any] = {}

    def ask(self: BrokerConnection, request: Any, timeout_s: float) -> Any:
        if self.port not in views:
            raise ConnectionRefusedError
        return views[self.port]

    monkeypatch.setattr(BrokerConnection, "ask", ask)
    return views


def broker(run: Run, number: int) -> StartingBroker:
    return StartingBroker(run, NodeState(id=number, kafka="4.3.1", host="127.0.0.1", port=number))


@pytest.mark.parametrize("view", [None, answer(-1, 1, 2), answer(1, 1)])
def test_a_broker_is_not_ready_if_it_is_unreachable_or_lacks_a_controller_or_a_peer(
    run: Run, views: dict[int, Any], view: Any
) -> None:
    views.update({2: view} if view else {})
    assert not broker(run, 2).ready([1, 2])
    views[2] = answer(1, 1, 2, 3)
    assert broker(run, 2).ready([1, 2])


def test_metadata_of_other_brokers_does_not_make_a_broker_ready(run: Run, views: dict[int, Any]) -> None:
    views.update({1: answer(1, 1, 2), 2: answer(1, 2)})
    both = [broker(run, 1), broker(run, 2)]
    with pytest.raises(ClusterError, match="broker 2 did not get ready"):
        wait_ready(both, 0.1)
    views[2] = answer(1, 1, 2)
    wait_ready(both, 0.1)


def test_a_dead_broker_is_reported_at_once(run: Run, views: dict[int, Any]) -> None:
    views[1] = answer(1, 1)
    both = [broker(run, 1), broker(run, 2)]
    both[1].ended = lambda: "was killed by signal 9"
    with pytest.raises(BrokerDied, match="broker 2 did not start: it was killed by signal 9"):
        wait_ready(both, 60)
