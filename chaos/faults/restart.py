"""The restart of a whole cluster, broker by broker, as an upgrade does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from chaos.cluster.api import Start, able
from chaos.errors import FaultError, WaitTimeout
from chaos.faults.broker import stop_in_order
from chaos.faults.world import World
from chaos.scenario.faults import FaultSpec
from chaos.wait import wait_until

IN_SYNC_TIMEOUT_S = 60.0


@dataclass
class RollingRestart:
    """Stop each broker in order, start it, wait for full ISRs, then the next.

    Proof: every broker left the metadata, with what it led handed over before, and is listed and in sync again.
    """

    spec: FaultSpec
    resolved: str = ""
    _begun: list[int] = field(default_factory=list)
    _restarted: dict[int, int] = field(default_factory=dict)
    """By broker: how many partitions it had handed over."""

    def inject(self, world: World) -> str:
        """Restart all; raises `FaultError` where one does not hand over, or replicas do not come back in sync."""
        brokers = list(world.cluster.broker_ids)
        self.resolved = f"brokers {', '.join(map(str, brokers))}"
        self._wait_in_sync("before the restart", world)
        for broker in brokers:
            self._begun.append(broker)
            handed_over = stop_in_order(broker, world)
            _wait(partial(_is_gone, broker, world), f"broker {broker} is still listed")
            able(world.cluster, Start).start_broker(broker)
            self._wait_in_sync(f"after the restart of broker {broker}", world)
            self._restarted[broker] = len(handed_over)
        return f"restarted {self.resolved} one after another"

    def proof(self, world: World) -> str | None:
        """All were seen to go in order; all are there again."""
        metadata = world.observer.metadata
        if metadata is None or not set(metadata.brokers) >= set(world.cluster.broker_ids):
            return None
        if set(self._restarted) != set(world.cluster.broker_ids) or self._behind(world):
            return None
        shares = ", ".join(f"broker {b} handed over {n}" for b, n in self._restarted.items())
        return f"each left the metadata in order and came back in sync; {shares} partitions"

    def heal(self, world: World) -> str:
        """Start what a restart that failed has left down."""
        down = [b for b in self._begun if not world.cluster.broker_alive(b)]
        if down:
            able(world.cluster, Start).start_brokers(down)
        return f"{self.resolved} are up" if self._begun else "nothing to heal"

    def _wait_in_sync(self, when: str, world: World) -> None:
        _wait(lambda: not self._behind(world), lambda: f"{when}: {'; '.join(self._behind(world)[:4])}")

    def _behind(self, world: World) -> list[str]:
        """Of all partitions that are known, also those of the cluster's own topics: coordinators move with them."""
        metadata = world.kafka.metadata()
        return world.kafka.unhealthy(metadata.partitions) if metadata else ["no broker answers"]


def _is_gone(broker: int, world: World) -> bool:
    metadata = world.kafka.metadata()
    return metadata is not None and broker not in metadata.brokers


def _wait(condition: Callable[[], bool], why: Callable[[], str] | str) -> None:
    try:
        wait_until(condition, IN_SYNC_TIMEOUT_S, why, every_s=0.2)
    except WaitTimeout as e:
        raise FaultError(str(e)) from None
