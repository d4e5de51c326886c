"""Faults of the connections between clients and a broker: rules of the wire proxy (`chaos.relay`)."""

from __future__ import annotations

import time
from typing import ClassVar, TypeVar

from chaos.errors import FaultError
from chaos.faults import targets
from chaos.faults.base import Fault, World
from chaos.kafka import messages
from chaos.kafka.connection import BrokerConnection
from chaos.relay.control import Proxy
from chaos.relay.rules import Act, Rule
from chaos.scenario.faults import wire as specs

W = TypeVar("W", bound=specs.WireFault)
F = TypeVar("F", bound=specs.FrameFault)

MIN_RISE_SHARE = 0.8
"""Minimum rise of a round trip, as a share of the delay that was added."""
PROBE_S = 0.5
"""Time that a probe takes on a link of limited bandwidth."""
PROBE_NAME, MAX_NAMES = "x" * 240, 4000
PROBE_TIMEOUT_S = 15.0


class RuleFault(Fault[W]):
    """A fault that is one rule of the wire proxy."""

    _rule = 0

    def add(self, rule: Rule, world: World) -> None:
        """Put a rule in force."""
        self._rule = proxy_of(world).add(rule)
        self.begun = True

    def undo(self, world: World) -> str:
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

    def inject(self, world: World) -> str:
        """Resolve the target, and put the rule in force."""
        spec, broker = self.spec, targets.broker(self.spec.target, world)
        self.resolved = f"broker {broker}"
        self.add(Rule(self.act, broker, spec.api, spec.client, spec.side, spec.count, self.delay_s()), world)
        first = f"the first {spec.count} " if spec.count else ""
        return f"from now on {first}{self._frames()} are {self.result}"

    def delay_s(self) -> float:
        """Return the delay of each frame in seconds."""
        return 0.0

    def effect(self, world: World) -> str | None:
        """Read the proxy's counter."""
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

    def delay_s(self) -> float:
        """Return the delay of each frame in seconds."""
        return self.spec.delay


class WireCut(FrameFault[specs.WireCut], spec=specs.WireCut):
    """Close the connection instead of sending a frame on. Proof: the proxy counted at least one such frame."""

    act, result = "cut", "lost with their connection"


class WireSlow(RuleFault[specs.WireSlow], spec=specs.WireSlow):
    """Slow link. Proof: a round trip through the proxy takes longer by at least 80 % of the added delay."""

    _broker = 0
    _before_s = 0.0

    def inject(self, world: World) -> str:
        """Measure the round trip, then put the rule in force."""
        self._broker = targets.broker(self.spec.target, world)
        self.resolved = f"broker {self._broker}"
        try:
            self._before_s = max(self._round_trip_s(world) for _ in range(3))
        except OSError as e:
            raise FaultError(f"{self.resolved} did not answer even before the fault: {e or type(e).__name__}") from None
        self.add(Rule("slow", self._broker, latency_s=self.spec.latency, bandwidth=self.spec.bandwidth), world)
        latency = [f"{self.spec.latency * 1000:g} ms more for a round trip"] if self.spec.latency else []
        bandwidth = [f"{self.spec.bandwidth:,} bytes/s at most"] if self.spec.bandwidth else []
        return f"slowed the link between clients and {self.resolved}: {', '.join(latency + bandwidth)}"

    def effect(self, world: World) -> str | None:
        """Measure the round trip again."""
        try:
            now_s = self._round_trip_s(world)
        except TimeoutError:
            now_s = PROBE_TIMEOUT_S
        except OSError:
            return None
        if now_s < self._before_s + MIN_RISE_SHARE * (self.spec.latency + self._transfer_s()):
            return None
        return f"a round trip with {self.resolved} rose from {self._before_s * 1000:.0f} to {now_s * 1000:.0f} ms"

    def _name_count(self) -> int:
        """Return the number of topic names in a probe: enough bytes to fill a limited link in both directions."""
        bandwidth = self.spec.bandwidth
        return min(MAX_NAMES, max(1, round(bandwidth * PROBE_S / 2 / len(PROBE_NAME)))) if bandwidth else 0

    def _transfer_s(self) -> float:
        """Return the minimum time that the names of a probe take in both directions."""
        return 2 * self._name_count() * len(PROBE_NAME) / self.spec.bandwidth if self.spec.bandwidth else 0.0

    def _round_trip_s(self, world: World) -> float:
        """Return the seconds of a request for topics that do not exist. Raises `OSError`."""
        names = [f"{PROBE_NAME}{number}" for number in range(self._name_count())]
        link = BrokerConnection(*proxy_of(world).address(self._broker), world.access)
        try:
            link.ask(messages.metadata(), PROBE_TIMEOUT_S)
            began = time.monotonic()
            link.ask(messages.metadata(names), PROBE_TIMEOUT_S)
            return time.monotonic() - began
        finally:
            link.close()


def proxy_of(world: World) -> Proxy:
    """Return the wire proxy of the run. Raises `FaultError` if it has none."""
    if world.proxy is None:
        raise FaultError("this run has no wire proxy")
    return world.proxy
