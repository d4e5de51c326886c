"""Rules of the proxy: the frames that a rule matches, and what happens to them. See `chaos.relay` for each act."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

from kafka.protocol.api_key import ApiKey

from chaos.relay.roles import Active, Book

Act = Literal["drop", "delay", "cut", "slow"]
Side = Literal["request", "response"]
APIS: dict[str, int] = {key.name: int(key) for key in ApiKey}
"""The API keys by the names in Kafka's protocol guide."""


@dataclass(frozen=True)
class Rule:
    """An act for the frames that match. None and `*` match every frame."""

    act: Act
    brokers: tuple[int, ...]
    api: str | None = None
    client: str = "*"
    """Shell pattern for the client id, such as `shop/*`."""
    side: Side = "request"
    count: int | None = None
    """Number of frames, at all brokers together, after which the rule matches no more."""
    delay_s: float = 0.0
    latency_s: float = 0.0
    """Latency of the link, added to a round trip."""
    bandwidth: float | None = None
    """Bandwidth of the link in bytes per second, for each direction."""

    def __post_init__(self) -> None:
        if self.api is not None and self.api not in APIS:
            raise ValueError(f"there is no api {self.api!r}")
        if min(self.delay_s, self.latency_s) < 0 or (self.bandwidth is not None and self.bandwidth <= 0):
            raise ValueError("a delay or latency is negative, or a bandwidth is not positive")


@dataclass
class RuleBook(Book[Rule]):
    """The rules in force, and the use of the links that they slow down."""

    _busy_until: dict[tuple[int, Side], float] = field(default_factory=dict)
    """Time at which the last byte leaves a link with limited bandwidth, by rule and direction."""

    def hit(self, broker: int, side: Side, api: int, client: str) -> Active[Rule] | None:
        """Return the rule that decides about a frame, and count the hit. None: the frame may pass."""
        for active in self.active.values():
            rule = active.item
            if rule.act == "slow" or broker not in rule.brokers or rule.side != side:
                continue
            if rule.count is not None and active.hits >= rule.count:
                continue
            if rule.api is not None and APIS[rule.api] != api:
                continue
            if fnmatchcase(client, rule.client):
                active.hits += 1
                return active
        return None

    def transit(self, broker: int, side: Side, size: int, begin: float) -> tuple[float, int]:
        """Send `size` bytes over the link to a broker at time `begin`, and count the hit of each `slow` rule.

        Returns the time at which they leave the link, and the id of the last rule that slows it down (0: none).
        """
        slowed_by = 0
        for active in self.active.values():
            rule = active.item
            if rule.act != "slow" or broker not in rule.brokers:
                continue
            active.hits += 1
            slowed_by = active.id
            if rule.bandwidth:
                begin = max(begin, self._busy_until.get((active.id, side), 0.0)) + size / rule.bandwidth
                self._busy_until[active.id, side] = begin
            begin += rule.latency_s / 2
        return begin, slowed_by
