"""Rules: which frames are meant, and what becomes of them. Pure; see the package for what each act does."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

from kafka.protocol.api_key import ApiKey

SOCKET, ADDRESSES = "proxy.sock", "proxy.json"
"""In the run directory: where the proxy is controlled, and at which addresses it stands for which broker."""
SWITCH_SOCKET, SWITCH_ADDRESSES = "switch.sock", "switch.json"
"""The same of the switch between brokers."""

Act = Literal["drop", "delay", "cut", "slow"]
Side = Literal["request", "response"]
APIS: dict[str, int] = {key.name: int(key) for key in ApiKey}
"""The names of Kafka's requests, as its protocol guide writes them, with their keys."""


@dataclass(frozen=True)
class Rule:
    """What is done to which frames. None and `*` mean any."""

    act: Act
    broker: int
    api: str | None = None
    client: str = "*"
    """A shell pattern for the client id, such as `shop/*`."""
    side: Side = "request"
    count: int | None = None
    delay_s: float = 0.0
    latency_s: float = 0.0
    """Of a link, added to the round trip."""
    bandwidth: float | None = None
    """Of a link, bytes a second in each direction."""

    def __post_init__(self) -> None:
        if self.api is not None and self.api not in APIS:
            raise ValueError(f"there is no api {self.api!r}")
        if min(self.delay_s, self.latency_s) < 0 or (self.bandwidth is not None and self.bandwidth <= 0):
            raise ValueError("a delay, latency or bandwidth is below zero")

    def to_json(self) -> dict[str, Any]:
        """As it goes over the control socket."""
        return asdict(self)


@dataclass
class Active:
    """A rule that is in force, and how many frames it hit."""

    id: int
    rule: Rule
    matches: int = 0

    @property
    def used_up(self) -> bool:
        """Whether it hit as many as it may."""
        return self.rule.count is not None and self.matches >= self.rule.count


@dataclass
class RuleBook:
    """All rules in force, in the order in which they were made."""

    active: dict[int, Active] = field(default_factory=dict)
    _last_id: int = 0

    def add(self, rule: Rule) -> Active:
        """Put a rule in force."""
        self._last_id += 1
        self.active[self._last_id] = Active(self._last_id, rule)
        return self.active[self._last_id]

    def remove(self, rule_id: int) -> Active | None:
        """Take it out of force; None if it is not any more."""
        return self.active.pop(rule_id, None)

    def slowing(self, broker: int) -> list[Active]:
        """The rules that make the link to a broker slow."""
        if not self.active:
            return []
        return [one for one in self.active.values() if one.rule.act == "slow" and one.rule.broker == broker]

    def hit(self, broker: int, side: Side, api: int, client: str) -> Active | None:
        """The rule that decides about a frame, which counts it; None if it may pass."""
        for one in self.active.values():
            rule = one.rule
            if rule.act == "slow" or rule.broker != broker or rule.side != side or one.used_up:
                continue
            if rule.api is not None and APIS[rule.api] != api:
                continue
            if fnmatchcase(client, rule.client):
                one.matches += 1
                return one
        return None
