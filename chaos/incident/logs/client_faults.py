"""Faults of clients: members that left their group, failed, or joined later than the others, and transactions."""

from __future__ import annotations

from chaos.incident.logs import events as e
from chaos.incident.logs.broker_timeline import Timeline
from chaos.incident.logs.client_settings import ClientSettings
from chaos.incident.logs.cluster_state import ClusterState, client_of
from chaos.incident.logs.entries import Source
from chaos.incident.logs.planned_faults import NO_GROUP, PlannedFault
from chaos.units import format_duration

NEAR_US = 5 * 10**6
"""Maximum time between the entries of a client and of the coordinator for one event."""
END_US = 15 * 10**6
"""Ignore members that leave this close to the end of the logs and do not return: the whole system stops."""
_REASONS = {
    "consumer.crash": "its session timed out",
    "consumer.slow": "it did not poll within max.poll.interval.ms",
    "consumer.leave": "it left by itself",
    "consumer.join": "it is new",
}
"""Reasons for a rebalance, by kind of fault."""


def find_member_faults(timeline: Timeline, state: ClusterState, settings: ClientSettings) -> list[PlannedFault]:
    """Return the changes after each group first formed, by time, without members that leave at the end of the logs."""
    late_polls = timeline.select(e.PollTimeExceeded)
    faults: list[PlannedFault] = []
    for name, group in state.groups.items():
        events = [x for x in timeline.select(e.GroupEvent) if x.group == name]
        for i, x in enumerate(events):
            if group.formed_us is None or x.at_us <= group.formed_us or not isinstance(x, e.MemberEvent):
                continue
            following = events[i + 1 :]
            number = group.member_number(client_of(x.member))
            if isinstance(x, e.MemberFailed | e.MemberLeft):
                fault = _departure(x, number, following, late_polls, settings)
                group_continues = any(isinstance(y, e.RebalanceDone) for y in following)
                if fault.back_us is not None or (group_continues and x.at_us + END_US <= timeline.ended_us):
                    faults.append(fault)
            elif isinstance(x, e.MemberJoined) and _is_new(x, events[:i], group.formed_us):
                faults.append(_fault("consumer.join", x, number, x.source, *_rebalance(following)))
    return sorted(faults, key=lambda fault: fault.at_us)


def _fault(kind: str, x: e.MemberEvent, number: int, *signs: Source) -> PlannedFault:
    comment = f"member {client_of(x.member)} of group {x.group}: {_REASONS[kind]}"
    name, target = kind.removeprefix("consumer."), {"member": (x.group, number)}
    return PlannedFault(name, kind, target, x.at_us, comments=[comment], signs=signs)


def _departure(
    x: e.MemberFailed | e.MemberLeft,
    number: int,
    following: list[e.GroupEvent],
    late_polls: list[e.PollTimeExceeded],
    settings: ClientSettings,
) -> PlannedFault:
    client = client_of(x.member)
    # a member id of KIP-848 has no client id: the next member that joins is taken for the one that left
    joins = (y for y in following if isinstance(y, e.MemberJoined))
    back = next((y for y in joins if client_of(y.member) == client or _has_no_client_id(x)), None)
    late = [y for y in late_polls if y.client == client and abs(y.at_us - x.at_us) <= NEAR_US][:1]
    is_slow = bool(late) or "poll timeout" in x.reason
    kind = "consumer.slow" if is_slow else "consumer.crash" if isinstance(x, e.MemberFailed) else "consumer.leave"
    fault = _fault(kind, x, number, *(y.source for y in [*late, x]), *_rebalance(following))
    if late:
        fault.at_us = late[0].at_us
    if back:
        fault.back_us = back.at_us
        fault.signs += (back.source,)
    if is_slow:
        fault.options["per_record"] = format_duration(max(0.5, settings.poll_interval_s / 12))
        fault.todos.append("how slow was it? per_record is chosen so that some records exceed max.poll.interval.ms")
    elif isinstance(x, e.MemberFailed):
        fault.todos.append("a crash, a long pause, or a cut network look the same from the coordinator")
    elif x.reason in ("", "not provided"):
        fault.todos.append("its client gave no reason: it closed, or exceeded max.poll.interval.ms (see its own log)")
    return fault


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


def find_transaction_faults(timeline: Timeline) -> list[PlannedFault]:
    """Return a fault for the first transaction that timed out, and one for the first producer that was fenced."""
    target = {"member": (NO_GROUP, 1)}
    faults: list[PlannedFault] = []
    for timed_out in timeline.select(e.TransactionTimedOut)[:1]:
        fault = PlannedFault("producer-crash", "producer.crash", target, timed_out.at_us, signs=(timed_out.source,))
        fault.comments.append(f"transaction of {timed_out.transactional_id} was aborted by its timeout")
        fault.todos.append("it crashed, hung, or was cut off: a crash is assumed")
        faults.append(fault)
    for fenced in timeline.select(e.ProducerFenced)[:1]:
        fault = PlannedFault("fence", "producer.fence", target, fenced.at_us, signs=(fenced.source,))
        fault.comments.append(f"a producer with an old epoch was fenced (producer id {fenced.producer_id})")
        fault.todos.append("the log does not name its transactional id")
        faults.append(fault)
    return faults
