"""Faults of producers and processors: death, and a successor that takes over while they still run."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.clients.state import ClientState
from chaos.errors import FaultError, WaitTimeout
from chaos.faults import targets
from chaos.faults.world import World
from chaos.kafka.partition import TopicPartition
from chaos.scenario.faults import FaultSpec
from chaos.scenario.faults.producer import ProducerCrash as ProducerCrashSpec
from chaos.wait import wait_until

UNREPORTED_TIMEOUT_S = 30.0


@dataclass
class ProducerCrash:
    """A producer that dies without a word, at will with records in the log of which it was never told.

    Proof: its process is gone.
    """

    spec: FaultSpec
    resolved: str = ""
    _dead: ClientState | None = None
    _restarted: bool = False

    def inject(self, world: World) -> str:
        """SIGKILL it."""
        assert isinstance(self.spec, ProducerCrashSpec)
        self.resolved = targets.client(self.spec.target, world)
        words = self._leave_unreported(world, self.spec.unreported) if self.spec.unreported else ""
        self._dead = world.fleet.state(self.resolved)
        world.fleet.crash(self.resolved)
        return f"killed {self.resolved}{words}"

    def _leave_unreported(self, world: World, records: int) -> str:
        """Wait until so many records are in the log behind the last that the producer may have been told of."""
        entry = next(p for p in world.scenario.producers if p.name == self.resolved.partition("/")[0])
        partitions = [TopicPartition(entry.topic, n) for n in range(world.scenario.topic(entry.topic).partitions)]

        def in_log() -> int:
            ends = world.kafka.end_offsets(partitions)
            return sum(ends.values()) if len(ends) == len(partitions) else 0

        world.fleet.order(self.resolved, {"do": "ignore_reports"})
        heard = 0

        def heard_the_order() -> bool:
            # it goes on to tell how far it is: no report is looked at any more once two of them in turn count the same
            nonlocal heard
            before, heard = heard, world.fleet.state(self.resolved).count("acked")
            return before == heard and heard > 0

        try:
            wait_until(heard_the_order, UNREPORTED_TIMEOUT_S, "it still looks at reports", every_s=0.3)
            more = wait_until(
                lambda: max(0, in_log() - heard - records + 1), UNREPORTED_TIMEOUT_S, "nothing is written"
            )
        except WaitTimeout as e:
            raise FaultError(f"{self.resolved} does not get {records} records into the log: {e}") from None
        return f", which had not been told of at least {records + more - 1} records in the log"

    def proof(self, world: World) -> str | None:
        """Its process is gone."""
        dead = self._dead
        return f"the process of {self.resolved} is gone" if dead is not None and not dead.alive else None

    def heal(self, world: World) -> str:
        """Start its next incarnation."""
        if self._dead is None or self._restarted or self._dead.alive:
            return "nothing to heal"
        world.fleet.restart(self.resolved)
        self._restarted = True
        return f"{self.resolved} started again"


@dataclass
class ProducerFence:
    """Two processes with one transactional.id: the later one is let in, and the earlier one shut out.

    Proof: the earlier one ended, and said that it was fenced.
    """

    spec: FaultSpec
    resolved: str = ""
    _fenced: ClientState | None = None

    def inject(self, world: World) -> str:
        """Start the next incarnation beside the one that runs."""
        self.resolved = targets.client(self.spec.target, world)
        self._fenced = world.fleet.state(self.resolved)
        world.fleet.take_over(self.resolved)
        return f"started the next incarnation of {self.resolved} while it runs"

    def proof(self, world: World) -> str | None:
        """The earlier one ended because it was fenced."""
        state = self._fenced
        if state is None or state.alive:
            return None
        why = next((e for e in state.errors if "FENCED" in e.upper() or "PRODUCER_EPOCH" in e.upper()), None)
        return f"incarnation {state.incarnation} of {self.resolved} was fenced: {why}" if why else None

    def heal(self, world: World) -> str:
        """The next incarnation is there already."""
        return "nothing to heal"
