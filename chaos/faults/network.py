"""Faults of the network between brokers, or between them and their clients.

What is cut here is cut in silence, as by a broken switch: connections stay open and hang. Only `Disconnect` takes the
interface away as well. Containers lose packets, by iptables; between processes stands a switch that holds what is sent
(`chaos.cluster.process.network`), and after a cut it arrives, as what TCP sends again would.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from chaos.cluster.api import Disconnect, Isolate, able
from chaos.errors import FaultError
from chaos.faults import probe, targets
from chaos.faults.world import World
from chaos.kafka.metadata_merge import PartitionState
from chaos.kafka.partition import TopicPartition
from chaos.relay.cuts import Cut
from chaos.scenario.faults import FaultSpec
from chaos.scenario.faults.network import BrokerIsolate as BrokerIsolateSpec
from chaos.scenario.faults.network import LinkCut as LinkCutSpec


@dataclass
class _Followed:
    """What a broker was to its partitions before it was cut off, and what has become of that since.

    Proof that its peers noticed: it was fenced, or the ISR of a partition shrank on either side, or it lost the lead.
    """

    broker: int
    before: dict[TopicPartition, PartitionState]

    @classmethod
    def now(cls, broker: int, world: World) -> _Followed:
        metadata = world.kafka.metadata()
        if metadata is None:
            raise FaultError("no broker answers, so it is not known what the target has")
        return cls(broker, {n: s for n, s in metadata.partitions.items() if broker in s.isr})

    def noticed(self, world: World) -> str | None:
        metadata = world.observer.metadata
        if metadata is None:
            return None
        for name, was in self.before.items():
            state = metadata.partitions.get(name)
            if state is None or state.leader_epoch < was.leader_epoch:
                continue
            if was.leader == self.broker and state.leader not in (self.broker, -1):
                epochs = f"leader epoch {was.leader_epoch} to {state.leader_epoch}"
                return f"{name} went from leader {self.broker} to {state.leader}, {epochs}"
            if len(state.isr) < len(was.isr):
                return f"the ISR of {name} shrank from {list(was.isr)} to {list(state.isr)}"
        return None if self.broker in metadata.brokers else f"broker {self.broker} was fenced"


@dataclass
class _OfACut:
    """What both kinds of cuts have: the cut itself, and its end."""

    healed: ClassVar[str]

    spec: FaultSpec
    resolved: str = ""
    _cut: Cut | None = None

    def heal(self, world: World) -> str:
        """Let everything pass again."""
        if self._cut is None:
            return "nothing to heal"
        able(world.cluster, Isolate).mend_network(self._cut)
        return f"{self.resolved} {self.healed}"


@dataclass
class BrokerIsolate(_OfACut):
    """Cut a broker off from its peers, its clients, or both.

    Proof where peers were cut: it was fenced, or the ISR of a partition shrank on either side, or it lost the lead.
    Where clients alone were: it leaves a client's request unanswered.
    """

    healed = "is reached again"

    _followed: _Followed | None = None

    def inject(self, world: World) -> str:
        """Resolve the target, look at what it has, and cut."""
        assert isinstance(self.spec, BrokerIsolateSpec)
        broker = targets.broker(self.spec.target, world)
        others = tuple(b for b in world.cluster.broker_ids if b != broker)
        peers, clients = self.spec.cut in ("peers", "all"), self.spec.cut in ("clients", "all")
        self.resolved = f"broker {broker}"
        self._followed = _Followed.now(broker, world)
        if clients:
            probe.answered(broker, world)
        self._cut = Cut(broker, others if peers else (), clients, self.spec.direction)
        able(world.cluster, Isolate).cut_network(self._cut)
        return f"cut {self.resolved} off from {_from_whom(self._cut)}{_one_way(self.spec.direction)}"

    def proof(self, world: World) -> str | None:
        """What was cut, shows: for clients at once, for peers when they give it up."""
        if self._cut is None or self._followed is None:
            return None
        if self._cut.others:
            return self._followed.noticed(world)
        silent = probe.is_silent(self._cut.broker, world.cluster, world.access)
        return f"{self.resolved} left a client's request unanswered for {probe.SILENCE_S:g} s" if silent else None


@dataclass
class LinkCut(_OfACut):
    """Cut two brokers from each other, while both reach everybody else.

    Proof: the ISR of a partition that both hold shrank; or, where they hold none or are patient, packets that one sent
    to the other did not get there, as the kernel counts, or the switch.
    """

    healed = "reach each other again"

    _sides: tuple[_Followed, ...] = ()

    def inject(self, world: World) -> str:
        """Resolve both ends, and cut."""
        assert isinstance(self.spec, LinkCutSpec)
        broker, other = targets.broker(self.spec.target, world), targets.broker(self.spec.other, world)
        if broker == other:
            raise FaultError(f"both ends of the link are broker {broker}")
        self.resolved = f"brokers {broker} and {other}"
        self._sides = (_Followed.now(broker, world), _Followed.now(other, world))
        self._cut = Cut(broker, (other,), False, self.spec.direction)
        able(world.cluster, Isolate).cut_network(self._cut)
        return f"cut {self.resolved} from each other{_one_way(self.spec.direction)}"

    def proof(self, world: World) -> str | None:
        """What the cluster shows, else what the kernel counts, or the switch."""
        if self._cut is None:
            return None
        seen = next((words for side in self._sides if (words := side.noticed(world))), None)
        dropped = 0 if seen else able(world.cluster, Isolate).dropped_packets(self._cut)
        return seen or (f"{dropped} packets between {self.resolved} did not get through" if dropped else None)


@dataclass
class BrokerDisconnect:
    """Take a broker off the network.

    Proof: its peers noticed: it was fenced, or the ISR of a partition shrank, or it lost the lead.
    """

    spec: FaultSpec
    resolved: str = ""
    _broker: int = 0
    _followed: _Followed | None = None

    def inject(self, world: World) -> str:
        """Unplug it."""
        broker = targets.broker(self.spec.target, world)
        self.resolved, self._followed = f"broker {broker}", _Followed.now(broker, world)
        self._broker = broker
        able(world.cluster, Disconnect).disconnect_broker(broker)
        return f"took {self.resolved} off the network"

    def proof(self, world: World) -> str | None:
        """Its peers noticed."""
        return self._followed.noticed(world) if self._followed else None

    def heal(self, world: World) -> str:
        """Plug it in again."""
        if not self._broker:
            return "nothing to heal"
        able(world.cluster, Disconnect).reconnect_broker(self._broker)
        return f"{self.resolved} is on the network again"


def _from_whom(cut: Cut) -> str:
    def parts() -> Iterator[str]:
        if cut.others:
            yield f"its peers ({', '.join(map(str, cut.others))})"
        if cut.clients:
            yield "its clients"

    return " and ".join(parts())


def _one_way(direction: str) -> str:
    return {"both": "", "in": ", one way: nothing comes in", "out": ", one way: nothing goes out"}[direction]
