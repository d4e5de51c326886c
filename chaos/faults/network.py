"""Faults of the network between brokers, or between brokers and clients.

A cut is silent, as with a broken switch: connections stay open and hang. Only `BrokerDisconnect` also takes the network
interface away. Containers drop packets with iptables. Between processes there is a switch that holds the data
(`chaos.cluster.process.network`); it arrives after the cut, as retransmitted TCP data would.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from chaos.cluster.api import Disconnect, Isolate, able
from chaos.errors import FaultError
from chaos.faults import probe, targets
from chaos.faults.base import Fault, World
from chaos.kafka.metadata_merge import NO_LEADER, PartitionState
from chaos.kafka.partition import TopicPartition
from chaos.relay.cuts import Cut
from chaos.scenario.faults import network as specs

C = TypeVar("C", specs.BrokerIsolate, specs.LinkCut)

ONE_WAY = {"both": "", "in": ", one way: nothing comes in", "out": ", one way: nothing goes out"}


@dataclass
class Replicas:
    """The partitions of which a broker was an in-sync replica before it was cut off."""

    broker: int
    before: dict[TopicPartition, PartitionState]

    @classmethod
    def of(cls, broker: int, world: World) -> Replicas:
        """Return the current partitions of a broker. Raises `FaultError` if no broker answers."""
        metadata = world.kafka.metadata()
        if metadata is None:
            raise FaultError("no broker answers, so the replicas of the target are unknown")
        return cls(broker, {name: state for name, state in metadata.partitions.items() if broker in state.isr})

    def change(self, world: World) -> str | None:
        """Describe how peers reacted: a new leader, a smaller ISR, or a fenced broker. Return None before that."""
        metadata = world.observer.metadata
        if metadata is None:
            return None
        for name, before in self.before.items():
            now = metadata.partitions.get(name)
            if now is None or now.leader_epoch < before.leader_epoch:
                continue
            if before.leader == self.broker and now.leader not in (self.broker, NO_LEADER):
                epochs = f"leader epoch {before.leader_epoch} to {now.leader_epoch}"
                return f"{name} went from leader {self.broker} to {now.leader}, {epochs}"
            if len(now.isr) < len(before.isr):
                return f"the ISR of {name} shrank from {list(before.isr)} to {list(now.isr)}"
        return None if self.broker in metadata.brokers else f"broker {self.broker} was fenced"


class CutFault(Fault[C]):
    """A fault that is one cut of the network."""

    _cut: Cut
    _replicas: tuple[Replicas, ...] = ()

    def cut(self, cut: Cut, world: World) -> None:
        """Cut the network."""
        self._cut, self.begun = cut, True
        able(world.cluster, Isolate).cut_network(cut)

    def peers_reaction(self, world: World) -> str | None:
        """Describe the first reaction of a peer."""
        return next((change for replicas in self._replicas if (change := replicas.change(world))), None)

    def undo(self, world: World) -> str:
        """Let all packets pass again."""
        able(world.cluster, Isolate).mend_network(self._cut)
        return f"{self.resolved}: the network is whole again"


class BrokerIsolate(CutFault[specs.BrokerIsolate], spec=specs.BrokerIsolate):
    """Cut a broker off from its peers, its clients, or both.

    Proof if peers are cut: the broker was fenced, or the ISR of a partition shrank, or the broker lost a leadership.
    Proof if only clients are cut: the broker leaves a client's request unanswered.
    """

    def inject(self, world: World) -> str:
        """Resolve the target, read its replicas, and cut."""
        broker = targets.broker(self.spec.target, world)
        peers = tuple(b for b in world.cluster.broker_ids if b != broker) if self.spec.cut != "clients" else ()
        clients = self.spec.cut != "peers"
        self.resolved = f"broker {broker}"
        self._replicas = (Replicas.of(broker, world),)
        if clients:
            probe.answered(broker, world)
        self.cut(Cut(broker, peers, clients, self.spec.direction), world)
        others = [f"its peers ({', '.join(map(str, peers))})"] * bool(peers) + ["its clients"] * clients
        return f"cut {self.resolved} off from {' and '.join(others)}{ONE_WAY[self.spec.direction]}"

    def effect(self, world: World) -> str | None:
        """Look for the reaction of peers, or else send a request as a client."""
        if self._cut.others:
            return self.peers_reaction(world)
        silent = probe.is_silent(self._cut.broker, world.cluster, world.access)
        return f"{self.resolved} left a client's request unanswered for {probe.SILENCE_S:g} s" if silent else None


class LinkCut(CutFault[specs.LinkCut], spec=specs.LinkCut):
    """Cut two brokers from each other, while both reach all others.

    Proof: the ISR of a partition with both replicas shrank; or else the kernel or the switch counted packets between
    them that did not get through.
    """

    def inject(self, world: World) -> str:
        """Resolve both ends, and cut."""
        broker, other = targets.broker(self.spec.target, world), targets.broker(self.spec.other, world)
        if broker == other:
            raise FaultError(f"both ends of the link are broker {broker}")
        self.resolved = f"brokers {broker} and {other}"
        self._replicas = (Replicas.of(broker, world), Replicas.of(other, world))
        self.cut(Cut(broker, (other,), False, self.spec.direction), world)
        return f"cut {self.resolved} from each other{ONE_WAY[self.spec.direction]}"

    def effect(self, world: World) -> str | None:
        """Look for the reaction of either broker, then at the packet counter."""
        if reaction := self.peers_reaction(world):
            return reaction
        dropped = able(world.cluster, Isolate).dropped_packets(self._cut)
        return f"{dropped} packets between {self.resolved} did not get through" if dropped else None


class BrokerDisconnect(Fault[specs.BrokerDisconnect], spec=specs.BrokerDisconnect):
    """Disconnect a broker from the network.

    Proof: the broker was fenced, or the ISR of a partition shrank, or the broker lost a leadership.
    """

    _replicas: Replicas

    def inject(self, world: World) -> str:
        """Disconnect the broker."""
        self._replicas = Replicas.of(targets.broker(self.spec.target, world), world)
        self.resolved = f"broker {self._replicas.broker}"
        self.begun = True
        able(world.cluster, Disconnect).disconnect_broker(self._replicas.broker)
        return f"disconnected {self.resolved} from the network"

    def effect(self, world: World) -> str | None:
        """Look for the reaction of peers."""
        return self._replicas.change(world)

    def undo(self, world: World) -> str:
        """Reconnect the broker."""
        able(world.cluster, Disconnect).reconnect_broker(self._replicas.broker)
        return f"{self.resolved} is on the network again"
