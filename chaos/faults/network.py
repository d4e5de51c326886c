"""Faults of the network: between brokers, between brokers and clients, and of single connections of clients (wire.*).

A cut is silent, as with a broken switch: connections stay open and hang. Only `BrokerDisconnect` also takes the network
interface away. Containers drop packets with iptables. Between processes there is a switch that holds the data
(`chaos.cluster.process`); it arrives after the cut, as retransmitted TCP data would. Faults of the wire are
rules of the wire proxy (`chaos.relay`).
"""

from __future__ import annotations

import time
from typing import ClassVar, TypeVar

from chaos.cluster.api import Disconnect, Isolate, able
from chaos.errors import FaultError
from chaos.faults import targets
from chaos.faults.base import World
from chaos.faults.targets import BrokerFault
from chaos.kafka import messages
from chaos.kafka.connection import BrokerConnection
from chaos.kafka.metadata_merge import NO_LEADER, PartitionState
from chaos.kafka.partition import TopicPartition
from chaos.relay.control import Proxy
from chaos.relay.cuts import Cut
from chaos.relay.rules import Act, Rule
from chaos.scenario.faults import network as specs
from chaos.scenario.faults.base import FaultSpec

S = TypeVar("S", bound=FaultSpec)
C = TypeVar("C", bound=FaultSpec)
W = TypeVar("W", bound=specs.WireFault)
F = TypeVar("F", bound=specs.FrameFault)

ONE_WAY = {"both": "", "in": ", one way: nothing comes in", "out": ", one way: nothing goes out"}
MIN_RISE_SHARE = 0.8
"""Minimum rise of a round trip, as a share of the delay that was added."""
PROBES = 3
"""Round trips of which the shortest counts."""
PROBE_S = 0.5
"""Time that a probe takes on a link of limited bandwidth."""
PROBE_NAME, MAX_NAMES = "x" * 240, 4000
PROBE_TIMEOUT_S = 15.0


class PeerFault(BrokerFault[S]):
    """A fault that keeps a broker from its peers, which react to it."""

    _before: dict[int, dict[TopicPartition, PartitionState]]
    """The partitions of which a broker was an in-sync replica before."""

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


class BrokerIsolate(CutFault[specs.BrokerIsolate], spec=specs.BrokerIsolate):
    """Cut a broker or a rack off from its peers, its clients, or both.

    Proof if peers are cut: a broker was fenced, or the ISR of a partition shrank, or a broker lost a leadership.
    Proof if only clients are cut: the brokers leave a client's request unanswered.
    """

    def _inject(self, world: World) -> str:
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


class LinkCut(CutFault[specs.LinkCut], spec=specs.LinkCut):
    """Cut two brokers from each other, while both reach all others.

    Proof: the ISR of a partition with both replicas shrank; or else the kernel or the switch counted packets between
    them that did not get through.
    """

    def _inject(self, world: World) -> str:
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


class BrokerDisconnect(PeerFault[specs.BrokerDisconnect], spec=specs.BrokerDisconnect):
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


class RuleFault(BrokerFault[W]):
    """A fault that is one rule of the wire proxy."""

    _rule = 0

    def _add_rule(self, rule: Rule, world: World) -> None:
        self._rule = proxy_of(world).add(rule)
        self.begun = True

    def _undo(self, world: World) -> str:
        """Remove the rule; the proxy sends on the frames that it holds."""
        hits = proxy_of(world).remove(self._rule)
        return f"the wire of {self.resolved} is whole again; {hits} frames were hit in all"


class FrameFault(RuleFault[F]):
    """A fault of single requests or responses. Proof: the proxy counted at least one frame that it hit.

    The proxy counts a frame when it applies the rule, which is the damage itself. The audit judges the reaction of
    clients.
    """

    act: ClassVar[Act]
    result: ClassVar[str]

    def _inject(self, world: World) -> str:
        spec = self.spec
        self._add_rule(
            Rule(self.act, tuple(self.brokers), spec.api, spec.client, spec.side, spec.count, self._delay_s()), world
        )
        first = f"the first {spec.count} " if spec.count else ""
        return f"from now on {first}{self._frames()} are {self.result}"

    def _delay_s(self) -> float:
        return 0.0

    def _effect(self, world: World) -> str | None:
        hits = proxy_of(world).hits(self._rule)
        return f"{hits} {self._frames()} were {self.result} so far" if hits else None

    def _frames(self) -> str:
        frames = f"{self.spec.api} {self.spec.side}s" if self.spec.api else f"{self.spec.side}s"
        clients = "" if self.spec.client == "*" else f" of {self.spec.client}"
        return f"{frames}{clients} at {self.resolved}"


class WireDrop(FrameFault[specs.WireDrop], spec=specs.WireDrop):
    """Drop frames. Proof: the proxy counted at least one frame that it dropped."""

    act, result = "drop", "dropped"


class WireDelay(FrameFault[specs.WireDelay], spec=specs.WireDelay):
    """Delay frames. Proof: the proxy counted at least one frame that it delayed."""

    act, result = "delay", "delayed"

    def _delay_s(self) -> float:
        return self.spec.delay


class WireCut(FrameFault[specs.WireCut], spec=specs.WireCut):
    """Close the connection instead of sending a frame on. Proof: the proxy counted at least one such frame."""

    act, result = "cut", "lost with their connection"


class WireSlow(RuleFault[specs.WireSlow], spec=specs.WireSlow):
    """Slow link. Proof: round trips through the proxy take longer by at least 80 % of the added delay.

    The shortest of several round trips before is compared with the shortest of several now, because a busy machine only
    adds time to single ones.
    """

    _before_s: float
    _names: tuple[str, ...] = ()
    """The topic names in a probe: enough bytes to fill a link of limited bandwidth in both directions."""

    def _inject(self, world: World) -> str:
        if self.spec.bandwidth:
            count = max(1, round(self.spec.bandwidth * PROBE_S / 2 / len(PROBE_NAME)))
            self._names = tuple(f"{PROBE_NAME}{number}" for number in range(min(MAX_NAMES, count)))
        try:
            self._before_s = min(self._round_trip_s(world) for _ in range(PROBES))
        except OSError as e:
            raise FaultError(f"{self.resolved} did not answer even before the fault: {e or type(e).__name__}") from None
        self._add_rule(Rule("slow", (self.broker,), latency_s=self.spec.latency, bandwidth=self.spec.bandwidth), world)
        latency = [f"{self.spec.latency * 1000:g} ms more for a round trip"] if self.spec.latency else []
        bandwidth = [f"{self.spec.bandwidth:,} bytes/s at most"] if self.spec.bandwidth else []
        return f"slowed the link between clients and {self.resolved}: {', '.join(latency + bandwidth)}"

    def _effect(self, world: World) -> str | None:
        transfer_s = 2 * len(self._names) * len(PROBE_NAME) / self.spec.bandwidth if self.spec.bandwidth else 0.0
        least_s = self._before_s + MIN_RISE_SHARE * (self.spec.latency + transfer_s)
        shortest_s = PROBE_TIMEOUT_S
        for _ in range(PROBES):
            try:
                shortest_s = min(shortest_s, self._round_trip_s(world))
            except TimeoutError:
                break
            except OSError:
                return None
            if shortest_s < least_s:
                return None
        return f"a round trip with {self.resolved} rose from {self._before_s * 1000:.0f} to {shortest_s * 1000:.0f} ms"

    def _round_trip_s(self, world: World) -> float:
        """Return the seconds of a request for topics that do not exist. Raises `OSError`."""
        link = BrokerConnection(*proxy_of(world).address(self.broker), world.access)
        try:
            link.ask(messages.metadata(), PROBE_TIMEOUT_S)
            began = time.monotonic()
            link.ask(messages.metadata(self._names), PROBE_TIMEOUT_S)
            return time.monotonic() - began
        finally:
            link.close()


def proxy_of(world: World) -> Proxy:
    """Return the wire proxy of the run. Raises `FaultError` if it has none."""
    if world.proxy is None:
        raise FaultError("this run has no wire proxy")
    return world.proxy
