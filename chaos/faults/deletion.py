"""Faults that delete a topic: with or without creating it again, which gives it another topic id (KIP-516)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from chaos.errors import FaultError, WaitTimeout
from chaos.faults import targets
from chaos.faults.base import Fault, World
from chaos.kafka import admin
from chaos.kafka.settings import as_text
from chaos.run.events import now_us
from chaos.scenario.faults import admin as specs
from chaos.scenario.faults.base import FaultSpec
from chaos.wait import wait_until

S = TypeVar("S", bound=FaultSpec)

CHANGE_TIMEOUT_S = 30.0
LISTED_TIMEOUT_S = 10.0


class Deletion(Fault[S]):
    """A fault that deletes a topic.

    evidence: `former_id` and `topic_id`, and when the requests were sent and answered (`delete_us`, `create_us`);
    `everywhere_us` is the time when every live broker listed the new id, missing if one did not.
    """

    def _delete(self, world: World) -> None:
        self.evidence["former_id"] = topic_id(self.resolved, world)
        self.begun = True
        asked_us = now_us()
        admin.delete_topics([self.resolved]).apply(world.kafka)
        self.evidence["delete_us"] = [asked_us, now_us()]

    def _create_again(self, partitions: int | None, world: World) -> None:
        """Create the topic once no broker lists it, and wait for its leaders.

        Before it is gone, a request to create it would be refused as that of a topic that exists. Raises `FaultError`.
        """
        name, former = self.resolved, self.evidence["former_id"]

        def gone() -> bool:
            return not targets.led_partitions(name, world) or topic_id(name, world) != former

        _wait(gone, f"{name} is still listed after it was deleted")
        asked_us = now_us()
        create(name, world, partitions)
        self.evidence["create_us"] = [asked_us, now_us()]
        count = partitions or world.scenario.topic(name).partitions
        _wait(lambda: len(targets.led_partitions(name, world)) >= count, f"not all partitions of {name} have a leader")
        self.evidence["topic_id"] = now = topic_id(name, world)
        if now and _listed_everywhere(name, now, world):
            self.evidence["everywhere_us"] = now_us()


class DeleteTopic(Deletion[specs.DeleteTopic], spec=specs.DeleteTopic):
    """A topic deleted while clients run. Proof: the metadata no longer lists the topic id that it had."""

    def _inject(self, world: World) -> str:
        self._delete(world)
        return f"deleted {self.resolved}"

    def _effect(self, world: World) -> str | None:
        if world.observer.metadata is None:
            return None
        if not targets.led_partitions(self.resolved, world):
            return f"{self.resolved} is gone from the metadata"
        former, now = self.evidence["former_id"], topic_id(self.resolved, world)
        return f"{self.resolved} had the id {former} and has {now}" if former and now and former != now else None

    def _undo(self, world: World) -> str:
        if not self.spec.create_again:
            return f"{self.resolved} stays deleted" + (
                "; a client created it again" if targets.led_partitions(self.resolved, world) else ""
            )
        if "create_us" not in self.evidence:
            self._create_again(None, world)
        return f"{self.resolved} exists again, empty"


class RecreateTopic(Deletion[specs.RecreateTopic], spec=specs.RecreateTopic):
    """A topic deleted and created again while clients run. Proof: the metadata lists it with another topic id."""

    lasting = "the new topic stays"

    def _inject(self, world: World) -> str:
        self._delete(world)
        self._create_again(self.spec.partitions, world)
        return f"deleted {self.resolved} and created it again"

    def _undo(self, world: World) -> str:
        if "create_us" not in self.evidence and not targets.led_partitions(self.resolved, world):
            self._create_again(self.spec.partitions, world)
        return super()._undo(world)

    def _effect(self, world: World) -> str | None:
        former, now = self.evidence["former_id"], topic_id(self.resolved, world)
        led = targets.led_partitions(self.resolved, world)
        expected = self.spec.partitions or world.scenario.topic(self.resolved).partitions
        if not former or not now or former == now or len(led) != expected:
            return None
        return f"{self.resolved} had the id {former} and has {now}, with {len(led)} partitions"


def create(name: str, world: World, partitions: int | None = None) -> None:
    """Create a topic as the scenario describes it, or with another number of partitions."""
    topic = world.scenario.topic(name)
    config = {key: as_text(value) for key, value in topic.config.items()}
    admin.create_topic(world.kafka, name, partitions or topic.partitions, topic.replication_factor, config)


def topic_id(name: str, world: World) -> str | None:
    """Return the id of a topic; None if it does not exist, or the brokers give none."""
    metadata = world.kafka.metadata()
    return metadata.topic_ids.get(name) if metadata else None


def _listed_everywhere(name: str, topic_id: str, world: World) -> bool:
    """Wait until every live broker lists a topic under this id; returns False if one does not in time."""
    live = [broker for broker in world.cluster.broker_ids if world.cluster.broker_alive(broker)]
    try:
        return wait_until(lambda: all(world.kafka.topic_id_at(b, name) == topic_id for b in live), LISTED_TIMEOUT_S, "")
    except WaitTimeout:
        return False


def _wait(condition: Callable[[], bool], why: str) -> None:
    try:
        wait_until(condition, CHANGE_TIMEOUT_S, why)
    except WaitTimeout as e:
        raise FaultError(str(e)) from None
