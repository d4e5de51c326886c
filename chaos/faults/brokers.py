"""Operations on brokers that several faults share: controlled shutdown, and the start of brokers that are down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chaos.cluster.api import Start, Stop, able
from chaos.errors import FaultError, WaitTimeout
from chaos.faults.base import World
from chaos.kafka.partition import TopicPartition
from chaos.wait import wait_until

HANDOVER_TIMEOUT_S = 2.0
"""Time after its exit until the metadata shows the handover of a stopped broker: far shorter than a broker session."""


def led_by(broker: int, world: World) -> dict[TopicPartition, int]:
    """Return the partitions of the scenario's topics that a broker leads, with their leader epochs."""
    metadata = world.kafka.metadata()
    topics = {t.name for t in world.scenario.topics}
    if metadata is None:
        raise FaultError("no broker answers, so the partitions that the target leads are unknown")
    return {
        name: state.leader_epoch
        for name, state in sorted(metadata.partitions.items())
        if state.leader == broker and name.topic in topics
    }


def stop_controlled(broker: int, world: World) -> list[TopicPartition]:
    """Stop a broker and return the partitions that it handed over.

    Raises `FaultError` if it still leads one of them: the shutdown was not controlled, and its session has to expire.
    """
    led = led_by(broker, world)
    able(world.cluster, Stop).stop_broker(broker)

    def still_led() -> list[TopicPartition]:
        metadata = world.kafka.metadata()
        states = metadata.partitions if metadata else {}
        return [name for name, epoch in led.items() if name not in states or states[name].leader_epoch <= epoch]

    try:
        wait_until(lambda: not still_led(), HANDOVER_TIMEOUT_S, lambda: abbreviate(still_led()))
    except WaitTimeout as e:
        raise FaultError(f"broker {broker} ended, but still leads {e}: that was no controlled shutdown") from None
    return sorted(led)


def start_down(brokers: Iterable[int], world: World) -> None:
    """Start those brokers that are down, all at once: one of them alone may be no quorum."""
    if down := [broker for broker in brokers if not world.cluster.broker_alive(broker)]:
        able(world.cluster, Start).start_brokers(down)


def abbreviate(names: Sequence[TopicPartition], limit: int = 4) -> str:
    """Return the first names and the number of the others."""
    rest = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(map(str, names[:limit])) + rest
