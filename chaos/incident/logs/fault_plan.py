"""Plan of the scenario: its faults in order with their triggers, and whether a replay has to lose records.

Times of the incident become conditions of a replay. The first fault waits for a number of acknowledged records if the
logs imply one, each later fault for a phase of an earlier fault. Pauses longer than `MAX_PAUSE_S` are shortened; the
order of all faults and heals stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from chaos.incident.logs import events as e
from chaos.incident.logs.broker_failures import (
    Loss,
    Outage,
    OutageKind,
    ShorterLog,
    Truncation,
    find_outages,
    find_shorter_logs,
    find_truncations,
    find_unclean_leaders,
)
from chaos.incident.logs.broker_timeline import Timeline
from chaos.incident.logs.client_settings import ClientSettings
from chaos.incident.logs.cluster_state import ClusterState, client_of, internal
from chaos.incident.logs.entries import Source
from chaos.kafka.partition import TopicPartition
from chaos.units import format_duration

TOGETHER_US = 2 * 10**6
"""Maximum time between the starts of outages that are one fault."""
AFTERMATH_US = 20 * 10**6
"""Time after the return of a coordinator in which its members may time out because of its outage."""
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
NO_GROUP = ""
"""Group of a target that is a producer."""


@dataclass
class PlannedFault:
    """One fault of the scenario. The keys `kind` to `options` are keys of the scenario file.

    `comments` are written above the fault, `todos` are open questions, `signs` are its sources in the logs.
    """

    name: str
    kind: str
    target: dict[str, Any]
    at_us: int
    back_us: int | None = None
    when: dict[str, Any] = field(default_factory=dict)
    heal: dict[str, Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    comments: list[str] = field(default_factory=list)
    todos: list[str] = field(default_factory=list)
    signs: tuple[Source, ...] = ()
    outage: Outage | None = None


def find_faults(
    timeline: Timeline,
    state: ClusterState,
    settings: ClientSettings,
    outages: list[Outage],
    truncations: list[Truncation],
    numbers: Mapping[int, int],
) -> list[PlannedFault]:
    """Return all faults by time. `numbers` are broker numbers of the scenario by broker."""
    faults = [_outage_fault(timeline, outage, state, truncations, numbers) for outage in outages]
    for shorter in find_shorter_logs(timeline, outages):
        _add_disk_loss(shorter, faults)
    faults = _merge_followers(faults)
    members = find_member_faults(timeline, state, settings)
    faults += [member for member in members if not _explained_by_outage(member, outages, state, faults)]
    return sorted(faults + _transaction_faults(timeline), key=lambda fault: fault.at_us)


def _outage_fault(
    timeline: Timeline, outage: Outage, state: ClusterState, truncations: list[Truncation], numbers: Mapping[int, int]
) -> PlannedFault:
    """Return the fault for an outage, with a role of the broker as its target."""
    predicate, kind, name, question = outage.kind.value
    signs = outage.signs
    broker, at_us = outage.broker, outage.at_us
    led, coordinated = state.led_by(broker, at_us), state.coordinated_by(broker, at_us)
    is_controller = state.controller(at_us) == broker
    truncated = [t.partition for t in truncations if t.broker == broker and t.partition in led]
    followed = [p for p in state.followed_by(broker, at_us) if state.topics[p.topic].replicas > 1]
    roles = [f"led {_first_four(led)}"] if led else []
    roles += [f"coordinated group {_first_four(coordinated)}"] if coordinated else []
    roles += ["was the active controller"] if is_controller else []
    target: dict[str, Any]
    if led:
        target = {"leader_of": (truncated or led)[0]}
    elif coordinated:
        target, kind = {"coordinator_of": coordinated[0]}, "coordinator.kill" if kind == "broker.kill" else kind
    elif is_controller:
        target, kind = {"controller": True}, "controller.kill" if kind == "broker.kill" else kind
    elif followed:
        target = {"follower_of": followed[0]}
    else:
        target = {"broker": numbers.get(broker, 1)}
    role = ", and ".join(roles) or (f"followed {_first_four(followed)}" if followed else "led no known partition")
    todos = [*([question] if question else []), *outage.doubts]
    if outage.kind is OutageKind.DISK and not ({"leader_of", "follower_of"} & target.keys()):
        kind = "broker.kill"
        todos.append("the partition with the full log is unknown: a kill replaces the failed disk")
    if len(roles) > 1:
        todos.append("it had several roles: a target by one of them may select another broker in a replay")
    comments = [f"broker {broker} {predicate}; it {role}"]
    if outage.successor is not None:
        comments = [f"broker {broker} {predicate} and broker {outage.successor} is new, from one process; it {role}"]
    if leaderless := _without_leader(timeline, outage, led):
        comments.append(f"then no leader could be elected for {_first_four([x.partition for x in leaderless])}")
        signs += (leaderless[0].source,)
    return PlannedFault(
        name, kind, target, at_us, outage.back_us, comments=comments, todos=todos, signs=signs, outage=outage
    )


def _without_leader(timeline: Timeline, outage: Outage, led: list[TopicPartition]) -> list[e.LeaderNotElected]:
    """Return one event for each partition of the broker for which the controller found no leader in the outage."""
    until_us = timeline.ended_us if outage.back_us is None else outage.back_us + AFTERMATH_US
    events = timeline.select(e.LeaderNotElected, since_us=outage.at_us, until_us=until_us)
    return list({x.partition: x for x in reversed(events) if x.partition in led}.values())[::-1]


def _add_disk_loss(shorter: ShorterLog, faults: list[PlannedFault]) -> None:
    """Change the kill of a broker that returned with a shorter log to a fault that removes records from its disk."""
    earlier = [f for f in faults if f.outage and f.outage.broker == shorter.broker and f.at_us < shorter.at_us]
    if not earlier or earlier[-1].kind != "broker.kill":
        return
    fault = earlier[-1]
    fault.signs += shorter.signs
    if shorter.wiped:
        fault.kind = "broker.wipe"
        fault.comments.append("it returned with an empty disk")
    else:
        fault.kind, fault.target = "log.truncate", {"leader_of": shorter.partition}
        fault.comments.append(f"it returned with a shorter log of {shorter.partition}, as after a power failure")


def _merge_followers(faults: list[PlannedFault]) -> list[PlannedFault]:
    """Return the faults, with simultaneous outages of followers of one partition as a single fault.

    Two faults with one follower each might select the same broker.
    """
    merged: list[PlannedFault] = []
    for fault in faults:
        partition = fault.target.get("follower_of")
        twins = (
            other
            for other in merged
            if other.kind == fault.kind
            and abs(other.at_us - fault.at_us) <= TOGETHER_US
            and other.target.keys() <= {"follower_of", "followers_of"}
            and partition in other.target.values()
        )
        twin = next(twins, None)
        if twin is None:
            merged.append(fault)
            continue
        twin.target = {"followers_of": partition}
        twin.comments += fault.comments
        twin.signs += fault.signs
        if twin.back_us is not None and fault.back_us is not None:
            twin.back_us = max(twin.back_us, fault.back_us)
    return merged


def _explained_by_outage(
    member: PlannedFault, outages: list[Outage], state: ClusterState, faults: list[PlannedFault]
) -> bool:
    """Return whether a member timed out only because its coordinator was away; add a comment to that outage's fault."""
    if member.kind != "consumer.crash":
        return False
    group, _ = member.target["member"]
    for outage in outages:
        until_us = (outage.back_us if outage.back_us is not None else member.at_us) + AFTERMATH_US
        if not outage.at_us <= member.at_us <= until_us:
            continue
        if group in state.coordinated_by(outage.broker, outage.at_us):
            fault = next((f for f in faults if f.outage == outage), None)
            comment = f"members of group {group} timed out because of it"
            if fault and comment not in fault.comments:
                fault.comments.append(comment)
                fault.signs += member.signs[:1]
            return True
    return False


def _first_four(names: Sequence[object]) -> str:
    return ", ".join(map(str, names[:4])) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


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
    # a member id of KIP-848 has no client id: the next member that joins is taken for the member that left
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


def _transaction_faults(timeline: Timeline) -> list[PlannedFault]:
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


MAX_FAULTS = 12
MAX_PAUSE_S = 30.0
MAX_RECORDS = 20_000
"""Largest number of records that a replay writes before the first fault."""
DEFAULT_RECORDS = 4000


@dataclass
class Plan:
    """The faults by time, and the number of records before the first one if it is known.

    `loses_records`: the incident lost acknowledged records. `left_out`: number of faults beyond `MAX_FAULTS`.
    """

    faults: list[PlannedFault]
    loses_records: bool
    records_sources: list[Source]
    left_out: int


def make_plan(timeline: Timeline, state: ClusterState, settings: ClientSettings, numbers: Mapping[int, int]) -> Plan:
    """Return the plan for the outages, group changes and losses in the logs. `numbers` are broker numbers by broker."""
    outages = find_outages(timeline)
    truncations = find_truncations(timeline)
    unclean_leaders = find_unclean_leaders(timeline)
    faults = find_faults(timeline, state, settings, outages, truncations, numbers)
    left_out = max(0, len(faults) - MAX_FAULTS)
    faults = faults[:MAX_FAULTS]
    _make_names_unique(faults)
    records, sources = _records_before(timeline, faults[0].at_us) if faults else (None, [])
    _set_triggers(faults, state, records)
    for election in unclean_leaders:
        _let_leader_die_alone(election, faults)
    lost = [t for t in truncations if _was_leader(t, outages, state)]
    loses_by_acks = settings.loses_by_acks and bool(lost)
    if loses_by_acks:
        faults = _add_lagging_followers(faults, lost, state)
    loses_records = loses_by_acks or bool(unclean_leaders)
    _isolate(faults, state)
    return Plan(faults, loses_records, sources, left_out)


def _was_leader(truncation: Truncation, outages: list[Outage], state: ClusterState) -> bool:
    """Return whether the broker led the partition before an outage.

    Only then may the removed records be acknowledged: a follower removes what it has beyond the next leader.
    """
    earlier = (o for o in outages if o.broker == truncation.broker and o.at_us <= truncation.at_us)
    return any(truncation.partition in state.led_by(o.broker, o.at_us) for o in earlier)


def _isolate(faults: list[PlannedFault], state: ClusterState) -> None:
    """Isolate brokers that were cut off; keep a pause where the driver cannot, which is with ZooKeeper."""
    for fault in faults:
        if not (fault.outage and fault.outage.kind is OutageKind.CUT_OFF):
            continue
        if state.zookeeper:
            fault.todos.append("a pause replaces the cut: brokers with ZooKeeper cannot be isolated")
        else:
            fault.kind = "broker.isolate"
            fault.todos.append(
                "was it cut off from its peers only, or from clients too, and both ways? see `cut` and `direction`"
            )


def _make_names_unique(faults: list[PlannedFault]) -> None:
    counts: Counter[str] = Counter()
    for fault in faults:
        counts[fault.name] += 1
        if counts[fault.name] > 1:
            fault.name = f"{fault.name}-{counts[fault.name]}"


def _records_before(timeline: Timeline, at_us: int) -> tuple[int | None, list[Source]]:
    """Return the estimated number of records in all partitions at about that time, and its sources.

    The number is None if no partition is known from its first offset on.
    """
    new: set[TopicPartition] = set()
    ends: dict[TopicPartition, tuple[int, Source]] = {}
    for x in (x for x in timeline.select(e.PartitionEvent) if not internal(x.partition.topic)):
        match x:
            case e.LeaderStarted(offset=0) if x.at_us <= at_us:
                new.add(x.partition)
            case e.LeaderStarted(offset=end) | e.IsrShrunk(end_offset=end) if end > 0 and x.at_us >= at_us:
                ends.setdefault(x.partition, (end, x.source))
    known = [end for partition, end in ends.items() if partition in new]
    if not known:
        return None, []
    # the logs do not name the end of a partition that keeps its leader: it is taken to have as many records
    total = sum(offset for offset, _ in known) * len(new) // len(known)
    return total, [source for _, source in known[:3]]


def _set_triggers(faults: list[PlannedFault], state: ClusterState, records: int | None) -> None:
    """Set `when` and `heal` of all faults, which are in order of time. `records` is the result of `_records_before`."""
    instants = sorted({t for f in faults for t in (f.at_us, f.back_us) if t is not None})
    replay_s = dict.fromkeys(instants[:1], 0.0)
    for earlier, later in pairwise(instants):
        replay_s[later] = replay_s[earlier] + min((later - earlier) / 1e6, MAX_PAUSE_S)
    previous: PlannedFault | None = None
    for fault in faults:
        if previous is None:
            fault.when = _first_trigger(state, fault, records)
        else:
            has_healed = previous.back_us is not None and previous.back_us <= fault.at_us
            since_us = previous.back_us if has_healed and previous.back_us is not None else previous.at_us
            delay_s = replay_s[fault.at_us] - replay_s[since_us]
            phase = f"{previous.name}.healed" if has_healed else previous.name
            fault.when = {"after": f"{phase} + {_duration(delay_s)}" if delay_s >= 0.1 else phase}
            incident_s = (fault.at_us - since_us) / 1e6
            if incident_s > delay_s + 1:
                fault.comments.append(f"{incident_s:,.0f} s after that in the incident; shortened")
        if fault.back_us is not None and fault.kind != "consumer.join":
            length_s = replay_s[fault.back_us] - replay_s[fault.at_us]
            length = _duration(max(length_s, 0.1))
            # the logs name the time at which a member was removed, not the start of its problem
            is_removal = fault.kind in ("consumer.slow", "consumer.crash")
            fault.heal = {"when": {"after": f"{fault.name}.proven + {length}"}} if is_removal else {"after": length}
            incident_s = (fault.back_us - fault.at_us) / 1e6
            if incident_s > length_s + 1:
                fault.comments.append(f"it returned after {incident_s:,.0f} s in the incident; shortened")
        previous = fault


def _first_trigger(state: ClusterState, fault: PlannedFault, records: int | None) -> dict[str, Any]:
    if records is not None:
        if records > MAX_RECORDS:
            fault.comments.append(f"the incident had {records:,} records before; a replay needs fewer")
        return {"acked": min(max(records, 100), MAX_RECORDS)}
    begins = [t.created_us for t in state.topics.values() if t.created_us is not None]
    begins += [g.formed_us for g in state.groups.values() if g.formed_us is not None]
    since_s = (fault.at_us - max((b for b in begins if b <= fault.at_us), default=0)) / 1e6
    if 2 <= since_s <= 60:
        fault.comments.append("the number of records before it is unknown, so it waits as long as in the incident")
        return {"at": _duration(since_s)}
    fault.todos.append("the number of records before it is unknown")
    return {"acked": DEFAULT_RECORDS}


def _let_leader_die_alone(election: Loss, faults: list[PlannedFault]) -> None:
    """Change the triggers so that the unclean leader is away until the previous leader is dead."""
    behind = next(
        (f for f in faults if f.outage and f.outage.broker == election.broker and f.at_us < election.at_us), None
    )
    targets = {"leader_of": election.partition}
    led = [f for f in faults if f.target == targets and f is not behind and f.at_us <= election.at_us]
    if behind is None or not led or faults.index(behind) > faults.index(led[-1]):
        return
    last = led[-1]
    behind.heal = {"when": {"after": last.name}}
    last.when = {"after": f"{behind.name}.proven + 2s"}
    last.heal = {"when": {"after": f"{last.name}.proven + 1s"}}
    last.comments.append(
        f"it led {election.partition} alone; then broker {election.broker}, which was behind, was elected"
    )
    last.signs += election.signs


def _add_lagging_followers(
    faults: list[PlannedFault], truncations: list[Truncation], state: ClusterState
) -> list[PlannedFault]:
    """Return the faults with a pause of the followers before the first kill of a leader that lost records.

    A leader can lose records only if its followers lag when it dies.
    """
    for i, fault in enumerate(faults):
        partition = fault.target.get("leader_of")
        truncation = next((t for t in truncations if t.partition == partition and t.at_us > fault.at_us), None)
        if fault.kind != "broker.kill" or partition is None or truncation is None:
            continue
        if state.topics[partition.topic].replicas < 2:
            continue
        target = {"followers_of": partition}
        freeze = PlannedFault("freeze", "broker.pause", target, fault.at_us, when=fault.when, signs=truncation.signs)
        freeze.heal = {"when": {"after": fault.name}}
        records = "records" if truncation.records is None else f"{truncation.records:,} records"
        freeze.comments.append(
            f"not in the logs, but inferred: broker {truncation.broker} truncated {records} from offset "
            f"{truncation.offset} on, so the followers of {partition} lagged when it died; they are paused for less "
            "than a session"
        )
        freeze.todos.append("why did they lag? (slow disks or network, replica.lag.time.max.ms)")
        fault.when = {"after": f"{freeze.name}.proven + 500ms"}
        return [*faults[:i], freeze, *faults[i:]]
    return faults


def _duration(seconds: float) -> str:
    return format_duration(round(seconds, 1))
