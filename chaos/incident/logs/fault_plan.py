"""Plan of the scenario: its faults in order with their triggers, and whether a replay has to lose records.

Times of the incident become conditions of a replay. The first fault waits for a number of acknowledged records if the
logs imply one, each later fault for a phase of an earlier fault. Pauses longer than `MAX_PAUSE_S` are shortened; the
order of all faults and heals stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from chaos.incident.logs import events as e
from chaos.incident.logs.broker_failures import (
    Loss,
    Outage,
    OutageKind,
    Truncation,
    find_outages,
    find_truncations,
    find_unclean_leaders,
)
from chaos.incident.logs.broker_timeline import Timeline
from chaos.incident.logs.client_settings import ClientSettings
from chaos.incident.logs.cluster_state import ClusterState, internal
from chaos.incident.logs.entries import Source
from chaos.incident.logs.planned_faults import PlannedFault, find_faults
from chaos.kafka.partition import TopicPartition
from chaos.units import format_duration

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
    """Set `when` and `heal` of all faults, which are in order of time. `records` is that of `_records_before`."""
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
