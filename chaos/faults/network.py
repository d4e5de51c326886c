"""Faults of the network between brokers, and between brokers and clients. For single connections, see `wire`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import Field

from chaos.cluster.api import Disconnect, Isolate, able
from chaos.errors import FaultError
from chaos.faults import targets
from chaos.faults.base import ONE_BROKER, Direction, Fault, FaultSpec, World
from chaos.faults.targets import BrokerFault
from chaos.kafka.metadata import NO_LEADER, PartitionState
from chaos.kafka.partition import TopicPartition
from chaos.setup.model import Setup
from chaos.setup.triggers import Target

if TYPE_CHECKING:
    from chaos.relay.cuts import Cut

ONE_WAY = {"both": "", "in": ", one way: nothing comes in", "out": ", one way: nothing goes out"}


class CutFaultSpec(FaultSpec):
    """A fault that drops packets at a broker."""

    needs = frozenset({"isolate"})

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the cluster runs without ZooKeeper, which every broker would still reach."""
        if setup.cluster.metadata == "zookeeper":
            yield f"{where}: {self.kind} needs a cluster without ZooKeeper, which every broker would still reach"


class BrokerIsolateSpec(CutFaultSpec):
    """Drop the packets between a broker or a rack and its peers, its clients, or both; healed by letting them pass.

    The peers are all other nodes, also dedicated controllers. The brokers of a rack reach each other.
    """

    effects = frozenset({"outage", "isolates", "late", "connections"})
    targets = ONE_BROKER | {"rack"}
    kind: Literal["broker.isolate"]
    cut: Literal["peers", "clients", "all"] = Field("peers", description="the connections that are cut")
    direction: Direction = "both"

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that there is a peer: without one, the proof could never come."""
        yield from super().problems(setup, where)
        cluster = setup.cluster
        if self.cut != "clients" and cluster.brokers == 1 and not cluster.controllers and not setup.attached:
            yield f"{where}.cut: the only broker has no peers; write clients, or cluster.brokers: 2 or more"


S = TypeVar("S", bound=FaultSpec)


class PeerFault(BrokerFault[S]):
    """A fault that keeps a broker from its peers, which react to it."""

    _before: dict[int, dict[TopicPartition, PartitionState]]
    """The partitions with the broker as an in-sync replica before."""

    def _watch(self, world: World, *broker_ids: int) -> None:
        """Keep the current partitions of these brokers. Raises `FaultError` if no broker answers."""
        metadata = world.kafka.metadata()
        if metadata is None:
            raise FaultError("no broker answers, so the replicas of the target are unknown")
        states = metadata.partitions.items()
        self._before = {broker: {name: s for name, s in states if broker in s.isr} for broker in broker_ids}

    def _effect(self, world: World) -> str | None:
        """Look for the first reaction of a peer: a new leader, a smaller ISR, or a fenced broker."""
        metadata = world.observer.metadata
        if metadata is None:
            return None
        for broker, partitions in self._before.items():
            for name, before in partitions.items():
                now = metadata.partitions.get(name)
                if now is None or now.leader_epoch < before.leader_epoch:
                    continue
                if before.leader == broker and now.leader not in (broker, NO_LEADER):
                    epochs = f"leader epoch {before.leader_epoch} to {now.leader_epoch}"
                    return f"{name} went from leader {broker} to {now.leader}, {epochs}"
                if len(now.isr) < len(before.isr):
                    return f"the ISR of {name} shrank from {list(before.isr)} to {list(now.isr)}"
            if broker not in metadata.brokers:
                return f"broker {broker} was fenced"
        return None


C = TypeVar("C", bound=FaultSpec)


class CutFault(PeerFault[C]):
    """A fault that cuts the network."""

    _cuts: list[Cut]

    def _cut_network(self, cuts: list[Cut], world: World) -> None:
        self._cuts, self.begun = cuts, True
        for cut in cuts:
            able(world.cluster, Isolate).cut_network(cut)

    def _undo(self, world: World) -> str:
        for cut in self._cuts:
            able(world.cluster, Isolate).mend_network(cut)
        return f"{self.resolved}: the network is whole again"


class BrokerIsolate(CutFault[BrokerIsolateSpec], spec=BrokerIsolateSpec):
    """Cut a broker or a rack off from its peers, its clients, or both.

    Proof if peers are cut: a broker was fenced, or the ISR of a partition shrank, or a broker lost a leadership.
    Proof if only clients are cut: the brokers leave a client's request unanswered.
    """

    def _inject(self, world: World) -> str:
        from chaos.relay.cuts import Cut

        peers = tuple(n for n in world.cluster.node_ids if n not in self.brokers) if self.spec.cut != "clients" else ()
        clients = self.spec.cut != "peers"
        self._watch(world, *self.brokers)
        for broker in self.brokers if clients else ():
            targets.answered(broker, world)
        self._cut_network([Cut(broker, peers, clients, self.spec.direction) for broker in self.brokers], world)
        owner = "its" if len(self.brokers) == 1 else "their"
        others = [f"{owner} peers ({', '.join(map(str, peers))})"] * bool(peers) + [f"{owner} clients"] * clients
        return f"cut {self.resolved} off from {' and '.join(others)}{ONE_WAY[self.spec.direction]}"

    def _effect(self, world: World) -> str | None:
        if self.spec.cut != "clients":
            return super()._effect(world)
        silent = targets.all_silent(self.brokers, world)
        return f"{self.resolved} left a client's request unanswered for {targets.SILENCE_S:g} s" if silent else None


class LinkCutSpec(CutFaultSpec):
    """Drop the packets between two brokers; healed by letting them pass."""

    effects = frozenset({"outage", "isolates", "late", "connections"})
    left_out = "one of the links that leader-isolated cuts"
    example = 'other={"broker":3}'
    kind: Literal["link.cut"]
    other: Target = Field(description="the broker at the other end")
    direction: Direction = "both"

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check the other end of the link."""
        yield from super().problems(setup, where)
        yield from setup.target_problems(f"{where}.other", self.other)
        selector, _ = self.other.selector
        if selector not in ONE_BROKER:
            yield f"{where}.other: {selector} does not name one broker; {', '.join(sorted(ONE_BROKER))} do"


class LinkCut(CutFault[LinkCutSpec], spec=LinkCutSpec):
    """Cut two brokers from each other, while both reach all others.

    Proof: the ISR of a partition with both replicas shrank; or else the kernel or the switch counted packets between
    them that did not get through.
    """

    def _inject(self, world: World) -> str:
        from chaos.relay.cuts import Cut

        broker, (other,) = self.broker, targets.brokers(self.spec.other, world)
        if broker == other:
            raise FaultError(f"both ends of the link are broker {broker}")
        self.resolved = f"brokers {broker} and {other}"
        self._watch(world, broker, other)
        self._cut_network([Cut(broker, (other,), False, self.spec.direction)], world)
        return f"cut {self.resolved} from each other{ONE_WAY[self.spec.direction]}"

    def _effect(self, world: World) -> str | None:
        if reaction := super()._effect(world):
            return reaction
        dropped = able(world.cluster, Isolate).dropped_packets(self._cuts[0])
        return f"{dropped} packets between {self.resolved} did not get through" if dropped else None


class BrokerDisconnectSpec(FaultSpec):
    """Disconnect a broker from the network; healed by reconnecting it."""

    effects = frozenset({"outage", "late", "connections"})
    left_out = "only containers can be detached from a network; leader-isolated is its like"
    needs = frozenset({"disconnect"})
    kind: Literal["broker.disconnect"]


class BrokerDisconnect(PeerFault[BrokerDisconnectSpec], spec=BrokerDisconnectSpec):
    """Disconnect a broker from the network.

    Proof: the broker was fenced, or the ISR of a partition shrank, or the broker lost a leadership.
    """

    def _inject(self, world: World) -> str:
        self._watch(world, self.broker)
        self.begun = True
        able(world.cluster, Disconnect).disconnect_broker(self.broker)
        return f"disconnected {self.resolved} from the network"

    def _undo(self, world: World) -> str:
        able(world.cluster, Disconnect).reconnect_broker(self.broker)
        return f"{self.resolved} is on the network again"


FAULTS: dict[str, type[Fault[Any]]] = {
    "broker.isolate": BrokerIsolate,
    "link.cut": LinkCut,
    "broker.disconnect": BrokerDisconnect,
}
