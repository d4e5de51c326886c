"""Faults on the wire between clients and a broker: rules of the proxy, see `chaos.relay`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

from kafka.protocol.metadata import MetadataRequest

from chaos.errors import FaultError
from chaos.faults import targets
from chaos.faults.world import World
from chaos.kafka.brokers import METADATA
from chaos.kafka.connection import Link
from chaos.relay.control import Proxy
from chaos.relay.rules import Act, Rule
from chaos.scenario.faults import FaultSpec
from chaos.scenario.faults.wire import FrameFault as FrameFaultSpec
from chaos.scenario.faults.wire import WireDelay as WireDelaySpec
from chaos.scenario.faults.wire import WireSlow as WireSlowSpec

ROSE_BY = 0.8
"""Of what a link was slowed by, the part by which a round trip has to rise at least."""
PROBE_S = 0.5
"""So long a probe is to take on a link of limited bandwidth."""
PROBE_NAME, MOST_NAMES = "x" * 240, 4000
PROBE_TIMEOUT_S = 15.0


@dataclass
class _OfARule:
    """What all have: one rule of the proxy, and its end."""

    spec: FaultSpec
    resolved: str = ""
    _rule: int = 0

    def heal(self, world: World) -> str:
        """Take the rule out of force; what it holds passes."""
        if not self._rule:
            return "nothing to heal"
        matches = proxy_of(world).remove(self._rule)
        return f"the wire of {self.resolved} is sound again; {matches} frames were hit in all"


@dataclass
class _OfFrames(_OfARule):
    """Requests or answers that are picked one by one. Proof: the proxy counted at least one that it hit.

    It counts a frame as it decides about it, which is the damage itself; what clients made of it is for the audit.
    """

    act: ClassVar[Act]
    done: ClassVar[str]

    def inject(self, world: World) -> str:
        """Resolve the target, and put the rule in force."""
        assert isinstance(self.spec, FrameFaultSpec)
        broker = targets.broker(self.spec.target, world)
        self.resolved = f"broker {broker}"
        delay_s = self.spec.delay if isinstance(self.spec, WireDelaySpec) else 0.0
        rule = Rule(self.act, broker, self.spec.api, self.spec.client, self.spec.side, self.spec.count, delay_s)
        self._rule = proxy_of(world).add(rule)
        first = f"the first {self.spec.count} " if self.spec.count else ""
        return f"from now on {first}{self._frames()} are {self.done}"

    def proof(self, world: World) -> str | None:
        """The proxy's own count."""
        matches = proxy_of(world).hits(self._rule) if self._rule else 0
        return f"{matches} {self._frames()} were {self.done} so far" if matches else None

    def _frames(self) -> str:
        assert isinstance(self.spec, FrameFaultSpec)
        frames = "requests" if self.spec.side == "request" else "answers"
        kind = f"{self.spec.api} {frames}" if self.spec.api else frames
        whose = "" if self.spec.client == "*" else f" of {self.spec.client}"
        return f"{kind}{whose} at {self.resolved}"


class WireDrop(_OfFrames):
    """Swallow frames. Proof: the proxy counted at least one that it hit."""

    act, done = "drop", "dropped"


class WireDelay(_OfFrames):
    """Hold frames back. Proof: the proxy counted at least one that it hit."""

    act, done = "delay", "delayed"


class WireCut(_OfFrames):
    """Close the connection in place of a frame. Proof: the proxy counted at least one that it hit."""

    act, done = "cut", "lost with their connection"


@dataclass
class WireSlow(_OfARule):
    """Slow link. Proof: a round trip through the proxy rose by (nearly) what was asked for."""

    _broker: int = 0
    _before_s: float = 0.0

    def inject(self, world: World) -> str:
        """Measure, then put the rule in force."""
        assert isinstance(self.spec, WireSlowSpec)
        self._broker = targets.broker(self.spec.target, world)
        self.resolved = f"broker {self._broker}"
        try:
            self._before_s = max(self._round_trip_s(world) for _ in range(3))
        except OSError as e:
            raise FaultError(f"{self.resolved} did not answer even before the fault: {e or type(e).__name__}") from None
        rule = Rule("slow", self._broker, latency_s=self.spec.latency, bandwidth=self.spec.bandwidth)
        self._rule = proxy_of(world).add(rule)
        latency = [f"{self.spec.latency * 1000:g} ms more for a round trip"] if self.spec.latency else []
        bandwidth = [f"{self.spec.bandwidth:,} bytes/s at most"] if self.spec.bandwidth else []
        return f"made the link of clients with {self.resolved} slow: {', '.join(latency + bandwidth)}"

    def proof(self, world: World) -> str | None:
        """Measure again, as a client would."""
        assert isinstance(self.spec, WireSlowSpec)
        if not self._rule:
            return None
        try:
            now_s = self._round_trip_s(world)
        except TimeoutError:
            now_s = PROBE_TIMEOUT_S
        except OSError:
            return None
        if now_s < self._before_s + ROSE_BY * (self.spec.latency + self._transfer_s()):
            return None
        return f"a round trip with {self.resolved} rose from {self._before_s * 1000:.0f} to {now_s * 1000:.0f} ms"

    def _names(self) -> int:
        """Topic names in a probe: enough bytes to fill a link of limited bandwidth for a while, in both directions."""
        assert isinstance(self.spec, WireSlowSpec)
        bandwidth = self.spec.bandwidth
        return min(MOST_NAMES, max(1, round(bandwidth * PROBE_S / 2 / len(PROBE_NAME)))) if bandwidth else 0

    def _transfer_s(self) -> float:
        """How long the names of a probe take there and back, at least."""
        assert isinstance(self.spec, WireSlowSpec)
        return 2 * self._names() * len(PROBE_NAME) / self.spec.bandwidth if self.spec.bandwidth else 0.0

    def _round_trip_s(self, world: World) -> float:
        """Seconds for a request about topics that nobody has. Raises `OSError`."""
        topics = [MetadataRequest.MetadataRequestTopic(name=f"{PROBE_NAME}{number}") for number in range(self._names())]
        link = Link(*proxy_of(world).address(self._broker), world.access)
        try:
            link.ask(MetadataRequest[METADATA](topics=[], allow_auto_topic_creation=False), PROBE_TIMEOUT_S)
            began = time.monotonic()
            link.ask(MetadataRequest[METADATA](topics=topics, allow_auto_topic_creation=False), PROBE_TIMEOUT_S)
            return time.monotonic() - began
        finally:
            link.close()


def proxy_of(world: World) -> Proxy:
    """The proxy of this run. Raises `FaultError` without one, `ClusterError` where it ended."""
    if world.proxy is None:
        raise FaultError("this run has no wire proxy")
    return world.proxy
