"""Faults of producers, and of processors, which also produce."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from chaos.clients.protocol import FENCED
from chaos.errors import FaultError, WaitTimeout
from chaos.faults.base import Client, Fault, World
from chaos.faults.clients import ClientFault, ClientFaultSpec, fenced
from chaos.kafka.partition import TopicPartition
from chaos.setup.model import Setup
from chaos.setup.needs import Needs
from chaos.wait import wait_until

UNREPORTED_TIMEOUT_S = 30.0


class ProducerFaultSpec(ClientFaultSpec):
    """A fault of one producer or processor process."""

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the target is a producer or a processor."""
        members = {p.name: p.count for p in setup.producers} | {p.name: p.members for p in setup.processors}
        yield from self.client_problems(where, "producers", members)


class ProducerEntryFaultSpec(ProducerFaultSpec):
    """A fault of one producer process; processors have faults of consumers for it."""

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the target is a producer."""
        if self.client_name() in {p.name for p in setup.processors}:
            other = self.kind.replace("producer", "consumer")
            selector, _ = self.target.selector
            yield f"{where}.target.{selector}: {self.client_name()} also reads, in a group; use {other}"
        else:
            yield from self.client_problems(where, "producers", {p.name: p.count for p in setup.producers})


class ProducerLeaveSpec(ProducerEntryFaultSpec):
    """Stop a producer in order: it flushes, closes and ends; healed by a start of its next incarnation."""

    effects = frozenset({"restarts"})
    left_out = "a planned change; consumer-leave has a rebalance, too"
    kind: Literal["producer.leave"]
    for_good: bool = Field(
        False, examples=[False], description="it does not come back, whatever it has sent; there is nothing to heal"
    )

    @model_validator(mode="after")
    def _check_heal(self) -> Self:
        if self.for_good and self.heal:
            raise ValueError("heal: a producer that leaves for_good does not come back; leave one of the two out")
        return self


class ProducerLeave(ClientFault[ProducerLeaveSpec], spec=ProducerLeaveSpec):
    """A producer that stops in order. Proof: its process ended by itself, and each of its records had an answer."""

    _stopped: Client

    def _inject(self, world: World) -> str:
        self._stopped, self.begun = world.fleet.state(self.resolved), True
        world.fleet.leave(self.resolved, world.scenario.limits.clients)
        return f"{self.resolved} stopped in a controlled way"

    def _effect(self, world: World) -> str | None:
        if self._stopped.alive or self._stopped.exit_code != 0:
            return None
        sent, acked = self._stopped.count("sent"), self._stopped.count("acked")
        return f"{self.resolved} stopped in order, with {acked:,} of {sent:,} records acknowledged"

    def _undo(self, world: World) -> str:
        return f"{self.resolved} stays away" if self.spec.for_good else self._restart(world)


class ProducerJoinSpec(ProducerEntryFaultSpec):
    """Start a producer that was held back until then; it stays."""

    effects = frozenset()
    left_out = "a planned change; consumer-leave has a rebalance, too"
    targets = frozenset({"member"})
    once_per_target = True
    kind: Literal["producer.join"]


class ProducerJoin(ClientFault[ProducerJoinSpec], spec=ProducerJoinSpec):
    """One more producer. Proof: records of it are acknowledged."""

    lasting = "the producer stays"

    def _inject(self, world: World) -> str:
        self.begun = True
        world.fleet.join(self.resolved)
        return f"{self.resolved} started"

    def _effect(self, world: World) -> str | None:
        if self.resolved not in world.fleet.present(self.spec.client_name()):
            return None
        acked = world.fleet.state(self.resolved).count("acked")
        return f"{self.resolved} started, and {acked:,} of its records are acknowledged" if acked else None


class ProducerCrashSpec(ProducerFaultSpec):
    """SIGKILL a producer or a processor; healed by a start of its next incarnation."""

    effects = frozenset({"ends", "restarts", "crashes"})
    kind: Literal["producer.crash"]
    unreported: Annotated[int, Needs("ignore reports")] = Field(
        0,
        ge=0,
        description="make the application ignore delivery reports first, and kill it once this many more records are "
        "in the log: it cannot know of them",
    )

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that unreported records can be counted: the producer is the only writer of its topic."""
        yield from super().problems(setup, where)
        if not self.unreported:
            return
        producer = next((p for p in setup.producers if p.name == self.client_name()), None)
        if producer is None or producer.count != 1 or producer.transactions:
            yield f"{where}.unreported: needs a producer without transactions that is one process"
        elif sum(1 for p in setup.producers if set(p.written) & set(producer.written)) > 1:
            topics = ", ".join(producer.written)
            yield f"{where}.unreported: other producers write to {topics}, so its records cannot be counted"


class ProducerCrash(ClientFault[ProducerCrashSpec], spec=ProducerCrashSpec):
    """A producer that crashes, on request with records in the log that were not reported to it.

    Proof: its process is gone.
    """

    _killed: Client

    def _inject(self, world: World) -> str:
        unreported = self._leave_unreported(world, self.spec.unreported) if self.spec.unreported else ""
        self._killed = world.fleet.state(self.resolved)
        self.begun = True
        world.fleet.crash(self.resolved)
        return f"killed {self.resolved}{unreported}"

    def _leave_unreported(self, world: World, records: int) -> str:
        """Wait until the log has this many records more than the producer has reports for."""
        topics = next(p.written for p in world.scenario.producers if p.name == self.spec.client_name())
        counts = {topic: world.scenario.topic(topic).partitions for topic in topics}
        partitions = [TopicPartition(topic, number) for topic in topics for number in range(counts[topic])]
        acked = 0

        def ignores_reports() -> bool:
            # the producer still reports its progress: it ignores reports once two counts in a row are equal
            nonlocal acked
            before, acked = acked, world.fleet.state(self.resolved).count("acked")
            return before == acked and acked > 0

        def surplus() -> int:
            ends = world.kafka.end_offsets(partitions)
            unreported = sum(ends.values()) - acked if len(ends) == len(partitions) else 0
            return unreported if unreported >= records else 0

        world.fleet.order(self.resolved, {"do": "ignore_reports"})
        try:
            wait_until(ignores_reports, UNREPORTED_TIMEOUT_S, "it still processes reports", every_s=0.3)
            unreported = wait_until(surplus, UNREPORTED_TIMEOUT_S, "nothing is written")
        except WaitTimeout as e:
            raise FaultError(f"{self.resolved} does not get {records} records into the log: {e}") from None
        return f", which had no report of at least {unreported} records in the log"

    def _effect(self, world: World) -> str | None:
        return None if self._killed.alive else f"the process of {self.resolved} is gone"

    def _undo(self, world: World) -> str:
        return self._restart(world)


class ProducerFenceSpec(ProducerFaultSpec):
    """Start the next incarnation of a transactional client while the current one runs, which fences the current one.

    There is nothing to heal: the next incarnation continues.
    """

    effects = frozenset({"ends", "restarts", "crashes"})
    abilities = ("fencing",)
    kind: Literal["producer.fence"]

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the target writes in transactions."""
        yield from super().problems(setup, where)
        plain = {p.name for p in setup.producers if not p.transactions}
        plain |= {p.name for p in setup.processors if not p.transactions}
        if self.client_name() in plain:
            selector, _ = self.target.selector
            yield f"{where}.target.{selector}: {self.client_name()} has no transactions, so nothing can fence it"


class ProducerFence(ClientFault[ProducerFenceSpec], spec=ProducerFenceSpec):
    """Two processes with one transactional.id: the broker accepts the later one and fences the earlier one.

    Proof: the earlier one ended with an error that says that it was fenced.
    """

    _fenced: Client

    def _inject(self, world: World) -> str:
        self._fenced = world.fleet.state(self.resolved)
        self.begun = True
        world.fleet.take_over(self.resolved)
        return f"started the next incarnation of {self.resolved} while it runs"

    def _effect(self, world: World) -> str | None:
        return fenced(self._fenced, self.resolved, *FENCED)


FAULTS: dict[str, type[Fault[Any]]] = {
    "producer.leave": ProducerLeave,
    "producer.join": ProducerJoin,
    "producer.crash": ProducerCrash,
    "producer.fence": ProducerFence,
}
