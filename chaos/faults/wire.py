"""Faults of single connections of clients (wire.*): rules of the wire proxy (`chaos.relay`)."""

from __future__ import annotations

import time
from typing import ClassVar, TypeVar

from chaos.errors import FaultError
from chaos.faults.base import World
from chaos.faults.targets import BrokerFault
from chaos.kafka import messages
from chaos.kafka.connection import BrokerConnection
from chaos.relay.control import Hits, Proxy
from chaos.relay.rules import Act, Frames, Rule
from chaos.scenario.faults import wire as specs
from chaos.scenario.faults.wire_errors import CODES

W = TypeVar("W", bound=specs.WireFault)
F = TypeVar("F", bound=specs.FrameFault)

MIN_RISE_SHARE = 0.8
"""Minimum rise of a round trip, as a share of the delay that was added."""
PROBES = 3
"""Round trips of which the shortest counts."""
PROBE_S = 0.5
"""Time that a probe takes on a link of limited bandwidth."""
PROBE_NAME, MAX_NAMES = "x" * 240, 4000
PROBE_TIMEOUT_S = 15.0


class RuleFault(BrokerFault[W]):
    """A fault that is one rule of the wire proxy."""

    _rule = 0

    def _add_rule(self, rule: Rule, world: World) -> None:
        self._rule = proxy_of(world).add(rule)
        self.begun = True

    def _undo(self, world: World) -> str:
        """Remove the rule; the proxy sends on the frames that it holds."""
        counts = proxy_of(world).remove(self._rule)
        late = f", {counts.outlived} connections outlived their clients" if counts.outlived else ""
        return f"the wire of {self.resolved} is whole again; {counts.hits} frames were hit in all{late}"


class FrameFault(RuleFault[F]):
    """A fault of single requests or responses. Proof: the proxy counted at least one frame that it hit.

    The proxy counts a frame when it applies the rule, which is the damage itself. The audit judges the reaction of
    clients.
    """

    act: ClassVar[Act]
    result: ClassVar[str]

    def _inject(self, world: World) -> str:
        frames = _frames(self.spec, tuple(self.brokers))
        self._add_rule(self._rule_for(frames), world)
        first = f"the first {self.spec.count} " if self.spec.count else ""
        return f"from now on {first}{self._describe()} are {self._result()}"

    def _rule_for(self, frames: Frames) -> Rule:
        return Rule(self.act, frames, self.spec.count)

    def _result(self) -> str:
        return self.result

    def _effect(self, world: World) -> str | None:
        return self._proved(proxy_of(world).counts(self._rule))

    def _proved(self, counts: Hits) -> str | None:
        """Return the counts as evidence, if they prove the fault."""
        return f"{counts.hits} {self._describe()} were {self._result()} so far" if counts.hits else None

    def _describe(self) -> str:
        return f"{_describe(self.spec)} at {self.resolved}"


class WireDrop(FrameFault[specs.WireDrop], spec=specs.WireDrop):
    """Drop frames. Proof: the proxy counted at least one frame that it dropped."""

    act, result = "drop", "dropped"


class WireDelay(FrameFault[specs.WireDelay], spec=specs.WireDelay):
    """Delay frames. Proof: the proxy counted at least one frame that it delayed."""

    act, result = "delay", "delayed"

    def _rule_for(self, frames: Frames) -> Rule:
        return Rule(self.act, frames, self.spec.count, delay_s=self.spec.delay)


class WireCut(FrameFault[specs.WireCut], spec=specs.WireCut):
    """Close the connection instead of sending a frame on. Proof: the proxy counted at least one such frame."""

    act, result = "cut", "lost with their connection"


class WireHold(FrameFault[specs.WireHold], spec=specs.WireHold):
    """Hold frames until another one has passed. Proof: the proxy sent on a frame that it held, after the other one.

    A frame that passed because its time was over is no proof.
    """

    act = "hold"

    def _rule_for(self, frames: Frames) -> Rule:
        return Rule(self.act, frames, self.spec.count, delay_s=self.spec.at_most, until=_frames(self.spec.until, None))

    def _result(self) -> str:
        return f"held until one of the {_describe(self.spec.until)} has passed"

    def _proved(self, counts: Hits) -> str | None:
        if not counts.released:
            return None
        late = f"; {counts.outlived} connections had outlived their clients by then" if counts.outlived else ""
        until = f"one of the {_describe(self.spec.until)} had passed"
        return f"{counts.hits} {self._describe()} were held so far, {counts.released} of them until {until}{late}"


class WireError(FrameFault[specs.WireError], spec=specs.WireError):
    """Errors in place of answers. Proof: the proxy gave at least one answer with the error code.

    A broker's answer that the code did not change does not count.
    """

    act = "error"

    def _rule_for(self, frames: Frames) -> Rule:
        return Rule(self.act, frames, self.spec.count, error=CODES[self.spec.error])

    def _result(self) -> str:
        if self.spec.side == "response":
            return f"changed to {self.spec.error}, after the broker had carried the requests out"
        return f"answered with {self.spec.error} and not passed on"


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
        self._add_rule(
            Rule("slow", Frames((self.broker,)), latency_s=self.spec.latency, bandwidth=self.spec.bandwidth), world
        )
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


def _frames(spec: specs.FrameSet, brokers: tuple[int, ...] | None) -> Frames:
    topic, partition = spec.names
    return Frames(brokers, spec.api, spec.client, spec.side, topic, partition)


def _describe(spec: specs.FrameSet) -> str:
    """Return a set of frames as text, such as `Produce requests of shop/* for orders/0`."""
    frames = f"{spec.api} {spec.side}s" if spec.api else f"{spec.side}s"
    clients = "" if spec.client == "*" else f" of {spec.client}"
    name = spec.partition or spec.topic
    return f"{frames}{clients}" + (f" for {name}" if name else "")
