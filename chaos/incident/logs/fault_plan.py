"""Plan of the scenario: its faults in order, and whether a replay has to lose records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from chaos.cluster.drivers import capabilities
from chaos.incident.logs.broker_timeline import Timeline
from chaos.incident.logs.client_settings import ClientSettings
from chaos.incident.logs.cluster_state import ClusterState
from chaos.incident.logs.entries import Source
from chaos.incident.logs.fault_triggers import (
    add_lagging_followers,
    let_leader_die_alone,
    records_before,
    set_triggers,
)
from chaos.incident.logs.group_changes import find_changes
from chaos.incident.logs.losses import Truncation, find_shorter_logs, find_truncations, find_unclean_leaders
from chaos.incident.logs.outages import Outage, OutageKind, find_outages
from chaos.incident.logs.planned_faults import (
    PlannedFault,
    add_disk_loss,
    change_fault,
    explained_by_outage,
    merge_followers,
    outage_fault,
    transaction_faults,
)

MAX_FAULTS = 12
ONLY_PROCESSES = ("disk.limit", "broker.wipe", "log.truncate")
"""Faults that the Docker driver does not support."""


@dataclass
class Plan:
    """The faults by time, and the number of records before the first one if it is known.

    `loses_records`: the incident lost acknowledged records. `left_out`: number of faults beyond `MAX_FAULTS`.
    `containers`: the faults need the Docker driver.
    """

    faults: list[PlannedFault]
    loses_records: bool
    records_sources: list[Source]
    left_out: int
    containers: bool


def make_plan(timeline: Timeline, state: ClusterState, settings: ClientSettings, numbers: Mapping[int, int]) -> Plan:
    """Return the plan for the outages, group changes and losses in the logs. `numbers` are broker numbers by broker."""
    outages = find_outages(timeline)
    truncations = find_truncations(timeline)
    unclean_leaders = find_unclean_leaders(timeline)
    faults = [outage_fault(outage, state, truncations, numbers) for outage in outages]
    for shorter in find_shorter_logs(timeline, outages):
        add_disk_loss(shorter, faults)
    faults = merge_followers(faults)
    changes = [c for c in find_changes(timeline, state) if not explained_by_outage(c, outages, state, faults)]
    faults += [change_fault(change, state, settings) for change in changes]
    faults += transaction_faults(timeline)
    faults.sort(key=lambda fault: fault.at_us)
    left_out = max(0, len(faults) - MAX_FAULTS)
    faults = faults[:MAX_FAULTS]
    _make_names_unique(faults)
    records, sources = records_before(timeline, faults[0].at_us) if faults else (None, [])
    set_triggers(faults, state, records)
    for election in unclean_leaders:
        let_leader_die_alone(election, faults)
    lost = [t for t in truncations if _was_leader(t, outages, state)]
    loses_by_acks = settings.loses_by_acks and bool(lost)
    if loses_by_acks:
        faults = add_lagging_followers(faults, lost, state)
    loses_records = loses_by_acks or bool(unclean_leaders)
    return Plan(faults, loses_records, sources, left_out, _isolate(faults, state))


def _was_leader(truncation: Truncation, outages: list[Outage], state: ClusterState) -> bool:
    """Return whether the broker led the partition before an outage.

    Only then may the removed records be acknowledged: a follower removes what it has beyond the next leader.
    """
    earlier = (o for o in outages if o.broker == truncation.broker and o.at_us <= truncation.at_us)
    return any(truncation.partition in state.led_by(o.broker, o.at_us) for o in earlier)


def _isolate(faults: list[PlannedFault], state: ClusterState) -> bool:
    """Isolate brokers that were cut off if a driver can; else keep a pause. Return whether that needs containers."""
    cut_off = [f for f in faults if f.outage and f.outage.kind is OutageKind.CUT_OFF]
    with_processes = "isolate" in capabilities("process")
    is_possible = not state.zookeeper and (with_processes or not any(f.kind in ONLY_PROCESSES for f in faults))
    for fault in cut_off:
        if is_possible:
            fault.kind = "broker.isolate"
            fault.todos.append(
                "was it cut off from its peers only, or from clients too, and both ways? see `cut` and `direction`"
            )
        else:
            fault.todos.append(
                "a pause replaces the cut: containers do not support disk.limit, broker.wipe, log.truncate or ZooKeeper"
            )
    return bool(cut_off) and is_possible and not with_processes


def _make_names_unique(faults: list[PlannedFault]) -> None:
    counts: Counter[str] = Counter()
    for fault in faults:
        counts[fault.name] += 1
        if counts[fault.name] > 1:
            fault.name = f"{fault.name}-{counts[fault.name]}"
