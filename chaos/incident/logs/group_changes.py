"""Members that left their group, failed, or joined later than the others, with the reason if the logs name one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from chaos.incident.logs import events as e
from chaos.incident.logs.broker_timeline import Timeline
from chaos.incident.logs.cluster_state import ClusterState, client_of
from chaos.incident.logs.entries import Source

NEAR_US = 5 * 10**6
"""Maximum time between the entries of a client and of the coordinator for one event."""
END_US = 15 * 10**6
"""Ignore members that leave this close to the end of the logs and do not return: the whole system stops."""


class ChangeReason(Enum):
    """Reason for a rebalance: a sentence about the member, and the kind and the name of the fault."""

    SESSION = "its session timed out", "consumer.crash", "crash"
    POLL = "it did not poll within max.poll.interval.ms", "consumer.slow", "slow"
    LEFT = "it left by itself", "consumer.leave", "leave"
    NEW = "it is new", "consumer.join", "join"


@dataclass(frozen=True)
class GroupChange:
    """One member that left or joined at `at_us`. `back_us` is its return; None if it does not return, or stays."""

    group: str
    client: str
    reason: ChangeReason
    at_us: int
    back_us: int | None
    signs: tuple[Source, ...]
    doubts: tuple[str, ...] = ()


def find_changes(timeline: Timeline, state: ClusterState) -> list[GroupChange]:
    """Return the changes after each group first formed, by time, without members that leave at the end of the logs."""
    late_polls = timeline.select(e.PollTimeExceeded)
    changes: list[GroupChange] = []
    for name, group in state.groups.items():
        events = [x for x in timeline.select(e.GroupEvent) if x.group == name]
        for i, x in enumerate(events):
            if group.formed_us is None or x.at_us <= group.formed_us:
                continue
            following = events[i + 1 :]
            if isinstance(x, e.MemberFailed | e.MemberLeft):
                change = _departure(x, following, late_polls)
                group_continues = any(isinstance(y, e.RebalanceDone) for y in following)
                if change.back_us is not None or (group_continues and x.at_us + END_US <= timeline.ended_us):
                    changes.append(change)
            elif isinstance(x, e.MemberJoined) and _is_new(x, events[:i], group.formed_us):
                signs = (x.source, *_rebalance(following))
                changes.append(GroupChange(name, client_of(x.member), ChangeReason.NEW, x.at_us, None, signs))
    return sorted(changes, key=lambda change: change.at_us)


def _departure(
    x: e.MemberFailed | e.MemberLeft, following: list[e.GroupEvent], late_polls: list[e.PollTimeExceeded]
) -> GroupChange:
    client = client_of(x.member)
    # a member id of KIP-848 has no client id: the next member that joins is taken for the one that left
    joins = (y for y in following if isinstance(y, e.MemberJoined))
    back = next((y for y in joins if client_of(y.member) == client or _has_no_client_id(x)), None)
    late = [y for y in late_polls if y.client == client and abs(y.at_us - x.at_us) <= NEAR_US][:1]
    doubts: tuple[str, ...] = ()
    if late or "poll timeout" in x.reason:
        reason = ChangeReason.POLL
    elif isinstance(x, e.MemberFailed):
        reason = ChangeReason.SESSION
        doubts = ("a crash, a long pause, or a cut network look the same from the coordinator",)
    else:
        reason = ChangeReason.LEFT
        if x.reason in ("", "not provided"):
            doubts = ("its client gave no reason: it closed, or exceeded max.poll.interval.ms (see its own log)",)
    signs = (*(y.source for y in late), x.source, *_rebalance(following), *([back.source] if back else []))
    at_us = late[0].at_us if late else x.at_us
    return GroupChange(x.group, client, reason, at_us, back.at_us if back else None, signs, doubts)


def _has_no_client_id(x: e.MemberEvent) -> bool:
    return client_of(x.member) == x.member and "[GroupId " in x.source.text


def _rebalance(following: list[e.GroupEvent]) -> list[Source]:
    """Return the source of the next rebalance, if there is one."""
    return [y.source for y in following if isinstance(y, e.RebalanceBegan | e.RebalanceDone)][:1]


def _is_new(x: e.MemberJoined, previous: list[e.GroupEvent], formed_us: int) -> bool:
    """Return whether a client joins for the first time, and not together with the others when the group forms."""
    if _has_no_client_id(x) and any(isinstance(y, e.MemberFailed | e.MemberLeft) for y in previous):
        return False
    earlier = {client_of(y.member) for y in previous if isinstance(y, e.MemberEvent)}
    return client_of(x.member) not in earlier and x.at_us > formed_us + NEAR_US
