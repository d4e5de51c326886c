"""Strips of leaders, owners and coordinators over time; pure functions over rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from checks.evidence import Row
from checks.report.lanes import Axis, Lane, Segment, look
from checks.report.tables import grouped
from checks.report.text import count, natural


def _partition(entity: str) -> tuple[str, int] | None:
    """Split `orders/0` into topic and number; None for other entities and for internal topics of Kafka."""
    topic, _, number = entity.rpartition("/")
    is_partition = topic and number.isdigit() and not topic.startswith(("__", "group:"))
    return (topic, int(number)) if is_partition else None


def leader_lanes(rows: Sequence[Row], axis: Axis, replicas: Mapping[str, int]) -> list[Lane]:
    """Return a strip for each partition. Colour: leader; height: ISR. replicas: replication factor by topic."""
    history = grouped(
        (r for r in rows if r["key"] in ("leader", "isr", "leader_epoch")), lambda r: _partition(r["entity"])
    )
    brokers = _broker_looks(rows)
    return [
        _leader_lane(f"{topic}/{n}", history[topic, n], axis, brokers, replicas.get(topic, 1))
        for topic, n in sorted(filter(None, history))
    ]


def _broker_looks(rows: Iterable[Row]) -> dict[int, str]:
    """Return the colour of each broker that was a leader or coordinator."""
    values = [r["value"] for r in rows if r["key"] in ("leader", "coordinator")]
    brokers = {value for value in values if isinstance(value, int) and value >= 0}
    return {broker: look(i) for i, broker in enumerate(sorted(brokers))}


def _leader_lane(name: str, rows: Sequence[Row], axis: Axis, brokers: Mapping[int, str], replicas: int) -> Lane:
    segments: list[Segment] = []
    for begin, end, state in _periods(rows, axis):
        leader, isr = state.get("leader"), state.get("isr")
        isr = isr if isinstance(isr, list) else []
        in_sync = f"ISR {', '.join(map(str, isr))}" if isr else "ISR not known"
        epoch = f" · epoch {state['leader_epoch']}" if "leader_epoch" in state else ""
        if isinstance(leader, int) and leader in brokers:
            fill = len(isr) / max(replicas, len(isr)) if isr else 1.0
            segments.append(
                Segment(begin, end, str(leader), f"leader {leader}{epoch} · {in_sync}", brokers[leader], round(fill, 2))
            )
        elif "leader" in state:
            segments.append(Segment(begin, end, "none", f"no leader · {in_sync}", "none"))
    changes = sum(a.text != b.text for a, b in pairwise(segments))
    return Lane(f"leader:{name}", name, note=count(changes, "change") if changes else "", segments=segments)


def _periods(rows: Iterable[Row], axis: Axis) -> list[tuple[float, float, dict[str, Any]]]:
    """Convert observed changes to periods without a change: begin, end, values by key."""
    states: dict[float, dict[str, Any]] = {}
    state: dict[str, Any] = {}
    for row in rows:
        if state.get(row["key"], ...) != row["value"]:
            state = state | {row["key"]: row["value"]}
            states[axis.at(row["at_us"])] = state
    return [(at, end, states[at]) for at, end in pairwise([*states, axis.at(axis.end_us)]) if end > at]


def topic_lanes(rows: Sequence[Row], axis: Axis) -> list[Lane]:
    """Return a strip for each topic that was deleted. Colour: one topic of the name; text: the begin of its id."""
    history = grouped((r for r in rows if r["key"] == "id"), lambda r: r["entity"].removeprefix("topic:"))
    lanes = []
    for topic, changes in sorted(history.items()):
        ids = list(dict.fromkeys(r["value"] for r in changes if r["value"] is not None))
        first = next((i for i, r in enumerate(changes) if r["value"] is not None), 0)
        if len({r["value"] for r in changes[first:]}) < 2:
            continue
        segments = []
        for begin, end, state in _periods(changes, axis):
            if (topic_id := state["id"]) is None:
                segments.append(Segment(begin, end, "none", "does not exist", "none"))
            else:
                about = f"id {topic_id}" if topic_id else "the brokers give no id"
                segments.append(Segment(begin, end, topic_id[:6] or "?", about, look(ids.index(topic_id))))
        lanes.append(Lane(f"topic:{topic}", topic, note=f"{count(len(ids), 'topic')} of this name", segments=segments))
    return lanes


def coordinator_lanes(rows: Sequence[Row], axis: Axis) -> dict[str, Lane]:
    """Return a strip for each group. Colour: its coordinator; text: the state of the group."""
    brokers = _broker_looks(rows)
    keys = ("coordinator", "state", "answers")
    of_groups = [r for r in rows if r["entity"].startswith("group:") and r["key"] in keys]
    history = grouped(of_groups, lambda r: r["entity"].removeprefix("group:"))
    lanes = {}
    for group, changes in history.items():
        segments = []
        for begin, end, state in _periods(changes, axis):
            broker, status = state.get("coordinator"), f" · group {state['state']}" if state.get("state") else ""
            if state.get("answers") is False:
                segments.append(Segment(begin, end, "silent", "coordinator does not answer", "none"))
            elif isinstance(broker, int) and broker in brokers:
                segments.append(Segment(begin, end, str(broker), f"broker {broker}{status}", brokers[broker]))
        lanes[group] = Lane(f"coordinator:{group}", "coordinator", segments=_joined(segments))
    return lanes


def instance_lanes(rows: Sequence[Row], axis: Axis) -> dict[str, list[Lane]]:
    """Return by group a strip for each static member (KIP-345). Colour: the member id that its instance has."""
    seen = grouped(
        (r for r in rows if r["key"] == "members" and isinstance(r["value"], list)),
        lambda r: r["entity"].removeprefix("group:"),
    )
    return {group: [_instance_lane(group, i, found, axis) for i in _instances(found)] for group, found in seen.items()}


def _instances(rows: Iterable[Row]) -> list[str]:
    """Return the ids of the static members in observed lists of members."""
    return sorted({m["instance_id"] for r in rows for m in r["value"] if m.get("instance_id")}, key=natural)


def _instance_lane(group: str, instance: str, rows: Sequence[Row], axis: Axis) -> Lane:
    of_instance = [
        row | {"value": next((m for m in row["value"] if m.get("instance_id") == instance), None)} for row in rows
    ]
    ids = list(dict.fromkeys(r["value"]["member_id"] for r in of_instance if r["value"]))
    segments = []
    for begin, end, state in _periods(of_instance, axis):
        member = state["members"]
        if member is None:
            segments.append(Segment(begin, end, "none", "not in the group", "none"))
        else:
            number = ids.index(member["member_id"])
            about = f"{member['client_id']} · member id {member['member_id']}"
            segments.append(Segment(begin, end, f"id {number + 1}", about, look(number)))
    return Lane(
        f"instance:{group}:{instance}", instance, "static", count(len(ids), "member id"), segments=_joined(segments)
    )


def _joined(segments: Iterable[Segment]) -> list[Segment]:
    """Merge adjacent segments with the same text and look."""
    joined: list[Segment] = []
    for s in segments:
        last = joined[-1] if joined else None
        if last and last.end == s.begin and (last.text, last.details, last.look) == (s.text, s.details, s.look):
            joined[-1] = replace(last, end=s.end)
        else:
            joined.append(s)
    return joined


def owner_lanes(group: str, rows: Sequence[Row], axis: Axis) -> list[Lane]:
    """Return a strip for each partition of a group. Colour: owner; seam: rebalance; gap: no owner."""
    by_partition = grouped(rows, lambda r: (r["topic"], r["partition"]))
    members = {name: look(i) for i, name in enumerate(sorted({r["consumer"] for r in rows}, key=natural))}
    return [
        Lane(
            f"owner:{group}:{topic}/{n}",
            f"{topic}/{n}",
            note=f"{len(periods)} assignments" if len(periods) > 1 else "",
            segments=_owned(periods, axis, members),
        )
        for (topic, n), periods in sorted(by_partition.items())
    ]


def _owned(rows: Sequence[Row], axis: Axis, members: Mapping[str, str]) -> list[Segment]:
    """Return segments by owner; two owners at once have a separate look."""
    spans = [(axis.at(r["begin_us"]), axis.at(axis.end_us if r["end_us"] is None else r["end_us"]), r) for r in rows]
    edges = sorted({edge for begin, end, _ in spans for edge in (begin, end)})
    segments = []
    for begin, end in pairwise(edges):
        owners = [r for b, e, r in spans if b <= begin and end <= e]
        if len({r["consumer"] for r in owners}) > 1:
            names = " and ".join(sorted({r["consumer"] for r in owners}))
            segments.append(Segment(begin, end, "two owners", f"owned by {names}", "clash"))
        elif owners:
            owner = owners[-1]
            segments.append(Segment(begin, end, _client(owner), _ownership(owner), members[owner["consumer"]]))
    # a new generation is a seam even if the owner stays: only segments with the same text are merged
    return _joined(segments)


def _client(row: Row) -> str:
    """Return the client, with its incarnation from the second one on."""
    return f"{row['consumer']}" + (f" #{row['incarnation']}" if (row["incarnation"] or 1) > 1 else "")


def _ownership(row: Row) -> str:
    generation = "" if row["generation"] is None else f" · gen {row['generation']}"
    ended = f" → {row['end_reason']}" if row["end_reason"] not in (None, "", "open") else ""
    return f"{_client(row)}{generation}{ended}"


def reader_lanes(rows: Sequence[Row], axis: Axis) -> list[Lane]:
    """Return a strip for each assign-mode consumer: its partitions never move."""
    by_consumer = grouped(rows, lambda r: r["consumer"])
    lanes = []
    for i, name in enumerate(sorted(by_consumer, key=natural)):
        segments = []
        for rows_of in grouped(by_consumer[name], lambda r: r["incarnation"] or 1).values():
            partitions = count(len({(r["topic"], r["partition"]) for r in rows_of}), "partition")
            ends = [axis.end_us if r["end_us"] is None else r["end_us"] for r in rows_of]
            begin, end = axis.at(min(r["begin_us"] for r in rows_of)), axis.at(max(ends))
            segments.append(
                Segment(begin, end, f"{_client(rows_of[0])} · {partitions}", f"reads {partitions}", look(i))
            )
        lanes.append(Lane(f"reader:{name}", name, segments=segments))
    return lanes
