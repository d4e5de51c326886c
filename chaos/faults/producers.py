"""Faults of producers, and of processors, which also produce."""

from __future__ import annotations

from chaos.clients.protocol import FENCED
from chaos.errors import FaultError, WaitTimeout
from chaos.faults.base import World
from chaos.faults.clients import ClientFault, fenced
from chaos.fleet.roster import ClientState
from chaos.kafka.partition import TopicPartition
from chaos.scenario.faults import clients as specs
from chaos.wait import wait_until

UNREPORTED_TIMEOUT_S = 30.0


class ProducerCrash(ClientFault[specs.ProducerCrash], spec=specs.ProducerCrash):
    """A producer that crashes, on request with records in the log that were not reported to it.

    Proof: its process is gone.
    """

    _killed: ClientState

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


class ProducerFence(ClientFault[specs.ProducerFence], spec=specs.ProducerFence):
    """Two processes with one transactional.id: the broker accepts the later one and fences the earlier one.

    Proof: the earlier one ended with an error that says that it was fenced.
    """

    _fenced: ClientState

    def _inject(self, world: World) -> str:
        self._fenced = world.fleet.state(self.resolved)
        self.begun = True
        world.fleet.take_over(self.resolved)
        return f"started the next incarnation of {self.resolved} while it runs"

    def _effect(self, world: World) -> str | None:
        return fenced(self._fenced, self.resolved, *FENCED)


class ProducerLeave(ClientFault[specs.ProducerLeave], spec=specs.ProducerLeave):
    """A producer that stops in order. Proof: its process ended by itself, and each of its records had an answer."""

    _stopped: ClientState

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


class ProducerJoin(ClientFault[specs.ProducerJoin], spec=specs.ProducerJoin):
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
