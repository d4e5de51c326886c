"""Rules of the proxy: the frames that a rule matches, and what happens to them. See `chaos.relay` for each act."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal, Self, get_args

from kafka.protocol.api_key import ApiKey

from chaos.relay.contents import TOPIC_APIS, Names
from chaos.relay.refusals import ERROR_APIS
from chaos.relay.roles import Active, Book, MomentApi, StepApi

Act = Literal["drop", "delay", "cut", "slow", "hold", "error", "repeat", "duplicate", "corrupt"]
Side = Literal["request", "response"]
_SIDES: dict[Act, tuple[tuple[str | None, Side], ...]] = {
    "duplicate": (("Fetch", "response"),),
    "corrupt": (("Fetch", "response"), ("Produce", "request")),
}
"""The frames with records: what an act on records is done to."""
APIS: dict[str, int] = {key.name: int(key) for key in ApiKey}
"""The API keys by the names in Kafka's protocol guide."""
STEPS = frozenset(APIS[name] for name in get_args(StepApi))
"""The API keys of requests that are steps."""
MOMENTS = {(APIS[name], side): f"{name} {side}" for name in get_args(MomentApi) for side in get_args(Side)}
"""How a moment, and the last step before it, is written, such as `OffsetCommit request`, by API key and side."""


@dataclass(frozen=True)
class Frames:
    """A set of frames. None and `*` match every frame."""

    brokers: tuple[int, ...] | None = None
    api: str | None = None
    client: str = "*"
    """Shell pattern for the client id, such as `shop/*`."""
    side: Side = "request"
    topic: str | None = None
    """A topic that the request names."""
    partition: int | None = None
    """A partition of the topic that the request names."""
    front: str | None = None
    """Shell pattern for the front at which the client speaks, such as `billing/*`; None: the proxy's own ports, too."""
    after: str | None = None
    """The last step at the same front before the frame, such as `Produce response`; empty: none came before it."""

    def __post_init__(self) -> None:
        if self.api is not None and self.api not in APIS:
            raise ValueError(f"there is no api {self.api!r}")
        if self.topic is not None and (self.api is None or APIS[self.api] not in TOPIC_APIS):
            raise ValueError(f"{self.api or 'a request of any kind'} is not read for topics")
        if self.partition is not None and self.topic is None:
            raise ValueError("a partition without a topic")

    def may_match(self, broker: int, api: int, client: str, front: str = "") -> bool:
        """Return whether frames of a request match, apart from their side, and from the topics that it names."""
        if not self.on_link(broker, front):
            return False
        return (self.api is None or APIS[self.api] == api) and fnmatchcase(client, self.client)

    def on_link(self, broker: int, front: str) -> bool:
        """Return whether a connection to a broker, at a front, is one of those that the set is about."""
        if self.brokers is not None and broker not in self.brokers:
            return False
        return self.front is None or fnmatchcase(front, self.front)

    def named(self, names: Names | None) -> bool:
        """Return whether a request that names these partitions (None: unknown) names partitions of the set."""
        if self.topic is None:
            return True
        return any(t == self.topic and self.partition in (None, number) for t, number in names or ())

    def match(
        self, broker: int, side: Side, api: int, client: str, names: Names | None, front: str = "", last: str = ""
    ) -> bool:
        """Return whether a frame is in the set.

        names: the partitions that its request names, None if unknown. last: the last step at the front before it.
        """
        if side != self.side or self.after not in (None, last):
            return False
        return self.may_match(broker, api, client, front) and self.named(names)


@dataclass(frozen=True)
class Rule:
    """An act for the frames that match."""

    act: Act
    frames: Frames
    count: int | None = None
    """Number of frames, at all brokers together, after which the rule matches no more."""
    delay_s: float = 0.0
    """Time for which a frame is delayed, or at most held."""
    latency_s: float = 0.0
    """Latency of the link, added to a round trip."""
    bandwidth: float | None = None
    """Bandwidth of the link in bytes per second, for each direction."""
    until: Frames | None = None
    """The frames for which the frames of a `hold` wait."""
    error: int = 0
    """The error code in answers."""
    valid: bool = False
    """Whether changed records get a checksum that fits them."""
    skip: int = 0
    """Number of frames that match before the first hit, also of frames about which another rule decides."""
    share: float = 1.0
    """Share of the frames that match to which the act is done."""
    seed: int = 0
    """Fixes which frames are in the share, and which bytes change."""

    def __post_init__(self) -> None:
        if min(self.delay_s, self.latency_s) < 0 or (self.bandwidth is not None and self.bandwidth <= 0):
            raise ValueError("a delay or latency is negative, or a bandwidth is not positive")
        if not 0 < self.share <= 1:
            raise ValueError("a share is above 0, and 1 at most")
        if (self.act == "hold") != (self.until is not None):
            raise ValueError("a hold needs `until`, and no other act takes it")
        if (self.act == "error") != (self.error != 0):
            raise ValueError("an error needs a code, and no other act takes one")
        if self.act == "error" and (self.frames.api is None or APIS[self.frames.api] not in ERROR_APIS):
            raise ValueError(f"{self.frames.api or 'a request of any kind'} cannot be answered with an error")
        if self.act == "repeat" and self.frames.side != "response":
            raise ValueError("only a response can be repeated")
        if self.act in _SIDES and (self.frames.api, self.frames.side) not in _SIDES[self.act]:
            raise ValueError(f"a {self.frames.side} {self.frames.api or 'of any kind'} has no records for {self.act}")

    @classmethod
    def parse(cls, item: dict[str, Any]) -> Self:
        """Read a rule from an order. Raises `TypeError`, `ValueError`, `KeyError`."""
        until = item.get("until")
        return cls(**{**item, "frames": _frames(item["frames"]), "until": _frames(until) if until else None})

    def reads(self, broker: int, api: int, client: str, front: str = "") -> bool:
        """Return whether the rule needs the contents of such a request."""
        changes = self.act in ("error", "corrupt") and self.frames.side == "request"
        if changes and self.frames.may_match(broker, api, client, front):
            return True
        sets = (self.frames, self.until) if self.until else (self.frames,)
        return any(frames.topic is not None and frames.may_match(broker, api, client, front) for frames in sets)


def _frames(item: dict[str, Any]) -> Frames:
    brokers = item.get("brokers")
    return Frames(**{**item, "brokers": None if brokers is None else tuple(brokers)})


@dataclass(frozen=True, slots=True)
class Waiting:
    """A frame that a rule holds until another one has passed."""

    until: float
    """The time (of the event loop) at which it passes in any case."""
    release: Callable[[int], bool]
    """Let what the rule with this id holds pass. Returns whether there was anything."""


@dataclass
class RuleBook(Book[Rule]):
    """The rules in force, the frames that wait for others, and the use of the links that are slowed down."""

    sessions: bool = False
    """Whether to read all Fetch requests, so that the partitions of each session are known from its begin on."""
    _draws: dict[int, random.Random] = field(default_factory=dict)
    """The random choices of the rules, by id."""
    _busy_until: dict[tuple[int, Side], float] = field(default_factory=dict)
    """Time at which the last byte leaves a link with limited bandwidth, by rule and direction."""
    _waiting: dict[int, list[Waiting]] = field(default_factory=dict)
    """The held frames, by the id of their rule."""

    def reads(self, broker: int, api: int, client: str, front: str = "") -> bool:
        """Return whether a rule needs the contents of such a request."""
        return (self.sessions and api == ApiKey.Fetch) or any(
            active.item.reads(broker, api, client, front) for active in self.active.values()
        )

    def moment(self, front: str, side: Side, api: int) -> str:
        """Count a frame at a front as a moment, if it is one, and return the last step before it."""
        last = self.steps.get(front, "")
        if front and (name := MOMENTS.get((api, side))):
            self.moments.setdefault(front, Counter())[last, name] += 1
            if api in STEPS:
                self.steps[front] = name
        return last

    def begin(self, front: str) -> None:
        """Forget the last step at a front, at which a new process begins, and the members that the last one was."""
        self.steps.pop(front, None)
        self.members.pop(front, None)

    def hit(
        self,
        broker: int,
        side: Side,
        api: int,
        client: str,
        names: Names | None = None,
        front: str = "",
        last: str = "",
    ) -> Active[Rule] | None:
        """Return the rule that decides about a frame, and count the hit. None: the frame may pass."""
        decides: Active[Rule] | None = None
        for active in self.active.values():
            rule, skips = active.item, active.skipped < active.item.skip
            if rule.act == "slow" or (rule.count is not None and active.hits >= rule.count):
                continue
            if decides is not None and not skips:
                continue
            if not rule.frames.match(broker, side, api, client, names, front, last) or not self._drawn(active):
                continue
            if skips:
                active.skipped += 1
                continue
            active.hits, active.front, active.broker = active.hits + 1, front, broker
            decides = active
        return decides

    def _drawn(self, active: Active[Rule]) -> bool:
        """Return whether a frame that matches is one of the share of the rule."""
        if active.item.share == 1:
            return True
        return self.draws(active).random() < active.item.share

    def draws(self, active: Active[Rule]) -> random.Random:
        """Return what makes the random choices of a rule."""
        return self._draws.setdefault(active.id, random.Random(active.item.seed))

    def remove(self, number: int) -> bool:
        """Take a rule out of force. Returns whether it was in force."""
        self._waiting.pop(number, None)
        return super().remove(number)

    def hold(self, active: Active[Rule], waiting: Waiting) -> None:
        """Keep a frame that a rule holds."""
        self._waiting.setdefault(active.id, []).append(waiting)

    def awaits(
        self, broker: int, side: Side, api: int, client: str, names: Names | None, front: str = ""
    ) -> list[Active[Rule]]:
        """Return the rules that hold frames until such a one has passed."""
        waiting = [active for number in self._waiting if (active := self.active.get(number))]
        return [a for a in waiting if a.item.until and a.item.until.match(broker, side, api, client, names, front)]

    def passed(self, awaiting: list[Active[Rule]], now: float) -> None:
        """Let the frames pass that these rules hold, since what they wait for has passed, and count them."""
        for active in awaiting:
            held = [waiting for waiting in self._waiting.pop(active.id, ()) if waiting.until > now]
            there = {release for release in {waiting.release for waiting in held} if release(active.id)}
            active.released += sum(waiting.release in there for waiting in held)

    def transit(self, broker: int, side: Side, size: int, begin: float, front: str = "") -> tuple[float, int]:
        """Send `size` bytes over the link of a front to a broker at time `begin`; count the hit of each `slow` rule.

        Returns the time at which they leave the link, and the id of the last rule that slows it down (0: none).
        """
        slowed_by = 0
        for active in self.active.values():
            rule = active.item
            if rule.act != "slow" or not rule.frames.on_link(broker, front):
                continue
            active.hits += 1
            slowed_by = active.id
            if rule.bandwidth:
                begin = max(begin, self._busy_until.get((active.id, side), 0.0)) + size / rule.bandwidth
                self._busy_until[active.id, side] = begin
            begin += rule.latency_s / 2
        return begin, slowed_by
