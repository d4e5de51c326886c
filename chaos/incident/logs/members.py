"""Members that left their group, failed, or came later than the others, with the reason where one is given."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from chaos.incident.logs import events as e
from chaos.incident.logs.events import Source
from chaos.incident.logs.history import History
from chaos.incident.logs.inventory import Group, Inventory, client_of

NEAR_US = 5 * 10**6
"""Lines of a client and of the coordinator about one thing are not further apart."""
END_US = 15 * 10**6
"""Who leaves so shortly before the logs end and does not come back leaves because everything ends."""


class Why(Enum):
    """Why a group rebalanced."""

    SESSION = "its session timed out"
    POLL = "it did not poll within max.poll.interval.ms"
    LEFT = "it left by itself"
    NEW = "it is new"


@dataclass(frozen=True)
class Change:
    """One member came or went, from `at_us` until `back_us` (None: not seen again, or it stays)."""

    group: str
    client: str
    why: Why
    at_us: int
    back_us: int | None
    signs: tuple[Source, ...]
    doubts: tuple[str, ...] = ()


def find(history: History, inventory: Inventory) -> list[Change]:
    """All changes after each group had first formed, but for the members that leave when everything ends."""
    late = [x for x in history.events if isinstance(x, e.PollTimeExceeded)]
    found: list[Change] = []
    for name, group in inventory.groups.items():
        events = [x for x in history.events if getattr(x, "group", None) == name]
        for i, x in enumerate(events):
            if group.formed_us is None or x.at_us <= group.formed_us:
                continue
            if isinstance(x, e.MemberFailed | e.MemberLeft):
                change = _gone(x, events[i + 1 :], late)
                at_the_end = x.at_us + END_US > history.ended_us
                if change.back_us is not None or (_others_stay(events[i + 1 :]) and not at_the_end):
                    found.append(change)
            elif isinstance(x, e.MemberJoined) and _is_new(x, events[:i], group):
                signs = (x.source, *_rebalance(events[i:]))
                found.append(Change(name, client_of(x.member), Why.NEW, x.at_us, None, signs))
    return sorted(found, key=lambda change: change.at_us)


def _gone(x: e.MemberFailed | e.MemberLeft, after: list[e.Event], late: list[e.PollTimeExceeded]) -> Change:
    client = client_of(x.member)
    joined = [y for y in after if isinstance(y, e.MemberJoined)]
    # by the protocol of KIP-848 a member id tells no client: whoever comes next is taken for the one that left
    back = next((y for y in joined if client_of(y.member) == client or _nameless(x)), None)
    slow = [y for y in late if y.client == client and abs(y.at_us - x.at_us) <= NEAR_US][:1]
    signs = [y.source for y in slow] + [x.source, *_rebalance(after)] + ([back.source] if back else [])
    doubts: tuple[str, ...] = ()
    if slow or "poll timeout" in x.reason:
        why = Why.POLL
    elif isinstance(x, e.MemberFailed):
        why = Why.SESSION
        doubts = ("a crash, a long pause, or a cut network look the same from the coordinator",)
    else:
        why = Why.LEFT
        if x.reason in ("", "not provided"):
            doubts = ("its client gave no reason: closing, or max.poll.interval.ms exceeded (its own log tells)",)
    at_us = slow[0].at_us if slow else x.at_us
    return Change(x.group, client, why, at_us, back.at_us if back else None, tuple(signs), doubts)


def _nameless(x: e.MemberJoined | e.MemberFailed | e.MemberLeft) -> bool:
    return client_of(x.member) == x.member and "[GroupId " in x.source.text


def _rebalance(after: list[e.Event]) -> tuple[Source, ...]:
    """The rebalance that follows."""
    return tuple(y.source for y in [y for y in after if isinstance(y, e.RebalanceBegan | e.RebalanceDone)][:1])


def _others_stay(after: list[e.Event]) -> bool:
    """Whether the group went on: a later generation was formed."""
    return any(isinstance(y, e.RebalanceDone) for y in after)


def _is_new(x: e.MemberJoined, before: list[e.Event], group: Group) -> bool:
    """Whether it is a client that was not there before, and not one of those that come together at the start."""
    known = {client_of(m) for y in before if (m := getattr(y, "member", None))}
    if _nameless(x) and any(isinstance(y, e.MemberFailed | e.MemberLeft) for y in before):
        return False
    return client_of(x.member) not in known and group.formed_us is not None and x.at_us > group.formed_us + NEAR_US
