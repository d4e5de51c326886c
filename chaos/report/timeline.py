"""The timeline of a run: its bands of lanes, and its events in order as text.

    draw        the bands in their order, each with the lanes of one subject
    storyline   the same events as text, for screen readers and for close reading

A band comes from pure functions over rows: the strips of leaders, owners, coordinators and lives from the tables of the
ledger and the audit. If a table is missing, its lanes are absent; the page names the missing tables.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pyarrow.compute as pc

from chaos.report.anomalies import Mechanism, place_dots
from chaos.report.charts import BUCKET_US, Axis, Band, Lane, Segment, colour, fold, lag_lanes, latency_lanes, rate_lanes
from chaos.report.tables import Row, Tables
from chaos.report.text import count, duration, natural
from chaos.run.directory import json_object
from chaos.run.result import FaultOutcome, Result
from chaos.scenario.resolve import Resolved

_STEPS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 28800)
NEAR_US = 60_000_000
"""How far from the run an anomaly extends the axis."""
CURVES = 8
"""Number of visible curves of a band, and maximum number of folded ones."""


@dataclass
class Picture:
    """The complete timeline.

    zero: position of the start of the run; guides: position and kind of injections and heals, drawn through all lanes;
    windows: zoom ranges of the faults.
    """

    axis: Axis
    zero: float
    bands: list[Band]
    guides: list[tuple[float, str]]
    windows: list[tuple[str, float, float]]

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Marks of the axis without a script: position, and time since the start as text."""
        step = next((s for s in _STEPS if self.axis.total / s <= 10), _STEPS[-1])
        first = math.ceil((self.zero + self.axis.total * 0.02) / step) * step
        moments = range(first, int(self.zero + self.axis.total * 0.975) + 1, step)
        return [(t - self.zero, f"{t} s" if self.axis.total < 600 else f"{t // 60}:{t % 60:02} min") for t in moments]

    def lanes(self) -> list[Lane]:
        """Return all drawn lanes in order."""
        return [lane for band in self.bands for lane in band.drawn()]

    def data(self) -> dict[str, Any]:
        """Return the data of the script: the axis, the position of zero, and the values under the crosshair."""
        return {
            "total": self.axis.total,
            "zero": self.zero,
            "beginMs": self.axis.begin_us / 1000,
            "lanes": [lane.readout() for lane in self.lanes()],
        }


def draw(tables: Tables, result: Result, resolved: Resolved, groups: Sequence[Mechanism]) -> Picture:
    """Return the timeline of a run."""
    axis, series, latency = _axis(tables, result), tables.series, tables.latency
    leaders = leader_lanes(tables.cluster, axis, {t.name: t.replication_factor for t in resolved.scenario.topics})
    readers = _readers(tables, axis, resolved)
    rates = [*rate_lanes(series, "acked", "acked/s", axis), *rate_lanes(series, "delivered", "delivered/s", axis)]
    rates += rate_lanes(series, "effects", "effects/s", axis)
    cut_off = any(text.endswith("↑") for lane in rates for _, text in lane.ticks)
    rate_hint = "records per second, by topic, reader and effect" + " · ↑ bursts exceed the scale" * cut_off
    lags = lag_lanes(series, axis)
    latencies = [*latency_lanes(latency, "ack", axis), *latency_lanes(latency, "end_to_end", axis)]
    everything = [*leaders, *(lane for _, _, lanes in readers for lane in lanes), *rates, *lags, *latencies]
    elsewhere = place_dots({lane.key: lane for lane in everything}, result, tables.anomalies, groups, axis)
    strips = [
        ("Faults", "bar: injected to healed · ◆ proof of effect", [_fault_lane(f, axis) for f in result.faults]),
        ("Topics", "colour: one topic of the name · number: its id (KIP-516)", topic_lanes(tables.cluster, axis)),
        ("Groups", "colour: one life of the group · number: which one", group_lanes(tables.group_lives, axis)),
        (
            "Applications",
            "number: the process of the instance · hatched: none · at the right: library as announced on the wire",
            app_lanes(tables, axis),
        ),
        ("Leaders", "number: the leader · height: in-sync replicas", leaders),
        *readers,
    ]
    curves = [
        ("Throughput", rate_hint, rates),
        ("Lag", "records behind the end of the log, by reader", lags),
        ("Latency", "depth: number of records · lines: median and 99th percentile", latencies),
    ]
    bands = [fold(*strip) for strip in strips] + [fold(*curve, CURVES, CURVES) for curve in curves]
    bands.append(fold("Other anomalies", "anomalies without a lane above", elsewhere))
    picture = Picture(
        axis=axis,
        zero=round((axis.begin_us - result.began_us) / 1e6, 3),
        bands=[band for band in bands if band.lanes],
        guides=[(axis.at(at), kind) for f in result.faults for kind, at in _moments(f)],
        windows=[_window(f, axis) for f in result.faults if f.injected_us is not None],
    )
    for i, lane in enumerate(picture.lanes()):
        lane.number = i
    return picture


def _axis(tables: Tables, result: Result) -> Axis:
    """Return the axis from the first to the last event, with a margin; without events, the axis of the run.

    An anomaly has the timestamp of its record, which a producer sets at will: far from the run it is not on the axis.
    """
    moments = [row["at_us"] for row in (*tables.lifecycle, *tables.faults)]
    moments += [at for f in result.faults for _, at in _moments(f)]
    moments += [at for row in tables.ownership for at in (row["begin_us"], row["end_us"]) if at is not None]
    found = pc.drop_null(tables.anomalies["at_us"])
    near = pc.and_(pc.greater(found, result.began_us - NEAR_US), pc.less(found, result.ended_us + NEAR_US))
    measured = ((tables.series["at_us"], BUCKET_US), (tables.latency["at_us"], BUCKET_US))
    for times, width in (*measured, (found.filter(near), 0)):
        ends = pc.min_max(times).as_py()
        moments += [] if ends["min"] is None else [ends["min"], ends["max"] + width]
    if not tables.series.num_rows:
        moments += [row["at_us"] for row in tables.cluster]
    begin, end = min(moments, default=result.began_us), max(moments, default=result.ended_us)
    room = max((end - begin) // 100, 100_000)
    return Axis(begin - room, end + room)


def _moments(fault: FaultOutcome) -> list[tuple[str, int]]:
    times = (("injected", fault.injected_us), ("healed", fault.healed_us))
    return [(kind, at) for kind, at in times if at is not None]


def _window(fault: FaultOutcome, axis: Axis) -> tuple[str, float, float]:
    """Return the zoom range of a fault: name, begin before the injection, end after the heal."""
    begin = axis.at(fault.injected_us or axis.begin_us)
    end = axis.at(fault.healed_us) if fault.healed_us is not None else axis.total
    room = max(1.0, (end - begin) * 0.25)
    return fault.name, round(max(0.0, begin - room), 3), round(min(axis.total, end + room), 3)


_ROLLING = frozenset({"app.restart"})
"""Faults that go from instance to instance, and are over when they are proven."""


def _fault_lane(fault: FaultOutcome, axis: Axis) -> Lane:
    lane = Lane(f"fault:{fault.name}", fault.name, sub=fault.kind, kind="fault")
    if fault.injected_us is None:
        lane.note = "never injected" if fault.begun_us is None else "the drive ended during its injection"
        return lane
    begin_us, end_us = fault.injected_us, axis.end_us if fault.healed_us is None else fault.healed_us
    proven_us = end_us if fault.proven_us is None else fault.proven_us
    if fault.kind in _ROLLING and fault.proven_us is not None:  # its injection is all of it; the heal has nothing to do
        begin_us, end_us = fault.begun_us or begin_us, fault.proven_us
    begin, proven, end = axis.at(begin_us), axis.at(proven_us), axis.at(end_us)
    target = fault.resolved or fault.target
    open_end = " open" if fault.healed_us is None else ""
    segments = [
        Segment(begin, min(proven, end), target, "injected, not yet proven", "pending" + open_end),
        Segment(min(proven, end), end, target, "in effect, proven", "proven" + open_end),
    ]
    lane.segments = [s for s in segments if s.width > 0]
    lane.proven = None if fault.proven_us is None else proven
    lane.note = duration(end_us - begin_us) if fault.healed_us is not None else "not healed"
    lane.note += " · healed late" if fault.is_late else ""
    lane.note += (
        " · no proof" if fault.proven_us is None else f" · proven after {duration(proven_us - fault.injected_us)}"
    )
    return lane


def _readers(tables: Tables, axis: Axis, resolved: Resolved) -> list[tuple[str, str, list[Lane]]]:
    """Return title, hint and lanes of the band of each group, then of all assign-mode consumers."""
    assign = {c.name for c in resolved.scenario.readers if c.mode == "assign"}
    groups = grouped(tables.ownership, lambda r: None if r["consumer"].rpartition("/")[0] in assign else r["group"])
    alone = groups.pop(None, [])
    coordinators, instances = coordinator_lanes(tables.cluster, axis), instance_lanes(tables.cluster, axis)
    bands = []
    for name in sorted(groups.keys() | {name for name, lane in coordinators.items() if lane.segments}):
        owned = owner_lanes(name, groups.get(name, []), axis)
        static = instances.get(name, [])
        hint = "name: the member that owns the partition · hatched: no owner" if owned else ""
        hint += " · static: the member ids of a group.instance.id (KIP-345)" if static else ""
        bands.append((f"Group {name}", hint, [*filter(None, [coordinators.get(name)]), *static, *owned]))
    if alone:
        bands.append(("Assign-mode readers", "independent readers without a group", reader_lanes(alone, axis)))
    return bands


def grouped(rows: Iterable[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    """Return the rows by key, in their order."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


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
    return {broker: colour(i) for i, broker in enumerate(sorted(brokers))}


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
                segments.append(Segment(begin, end, topic_id[:6] or "?", about, colour(ids.index(topic_id))))
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
            segments.append(Segment(begin, end, f"id {number + 1}", about, colour(number)))
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
    members = {name: colour(i) for i, name in enumerate(sorted({r["consumer"] for r in rows}, key=natural))}
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
                Segment(begin, end, f"{_client(rows_of[0])} · {partitions}", f"reads {partitions}", colour(i))
            )
        lanes.append(Lane(f"reader:{name}", name, segments=segments))
    return lanes


def group_lanes(rows: Sequence[Row], axis: Axis) -> list[Lane]:
    """Return a strip for each group that ended. Colour: one life of the group; text: its number.

    rows: table `group_lives`; none in results of an audit that did not write it.
    """
    lanes = []
    for group, lives in sorted(grouped(rows, lambda r: r["group"]).items()):
        if len(lives) == 1 and lives[0]["end_us"] is None:
            continue
        segments = []
        begins = [life["begin_us"] for life in lives[1:]]
        for life, next_us in zip(lives, [*begins, None], strict=True):
            begin, end = axis.at(life["begin_us"]), axis.at(_end_us(life["end_us"], axis))
            if end > begin:
                about = f"life {life['life']} of the group{_generations(life)}"
                segments.append(Segment(begin, end, str(life["life"]), about, colour(life["life"] - 1)))
            until = axis.at(_end_us(next_us, axis))
            if until > end:
                segments.append(Segment(end, until, "none", "the coordinator does not know the group", "none"))
        note = f"{len(lives)} lives" if len(lives) > 1 else "1 life"
        lanes.append(Lane(f"life:{group}", group, note=note, segments=segments))
    return lanes


def _end_us(at_us: int | None, axis: Axis) -> int:
    return axis.end_us if at_us is None else at_us


def _generations(life: Row) -> str:
    first, last = life["first_generation"], life["last_generation"]
    return "" if first is None else f" · generations {first} to {last}"


def app_lanes(tables: Tables, axis: Axis) -> list[Lane]:
    """Return for each instance of an application a strip of its processes, and a lane of its commits per second."""
    commits = {lane.label: lane for lane in rate_lanes(tables.series, "commits", "commits/s", axis)}
    announced = {row["instance"]: _announced(row) for row in tables.connections if _announced(row)}
    by_instance = grouped(tables.apps, lambda r: f"{r['app']}/{r['instance']}")
    lanes = []
    for name in sorted(by_instance.keys() | commits.keys(), key=natural):
        segments = []
        for number, rows in grouped(by_instance.get(name, ()), lambda r: r["incarnation"]).items():
            ended = next((r for r in rows if r["event"] not in ("started", "ready")), None)
            ready = next((r["at_us"] for r in rows if r["event"] == "ready"), None)
            asked = json_object(ended["detail"]).get("asked") if ended else None
            how = f" → {ended['event']}{f' ({asked})' if asked else ''}" if ended else ""
            begin, end = axis.at(rows[0]["at_us"]), axis.at(_end_us(ended["at_us"] if ended else None, axis))
            after = "" if ready is None else f", ready after {duration(ready - rows[0]['at_us'])}"
            segments.append(Segment(begin, end, str(number), f"process {number}{after}{how}", colour(number - 1)))
        restarts = len(segments) - 1
        parts = [announced.get(name, ""), count(restarts, "restart") if restarts > 0 else ""]
        note = " · ".join(filter(None, parts))
        lanes.append(Lane(f"app:{name}", name, note=note, segments=[s for s in segments if s.width > 0]))
        lanes += [commits[name]] if name in commits else []
    return lanes


def _announced(row: Row) -> str:
    """Return library and release as announced on the wire; empty if a connection announced none."""
    return f"{row['library']} {row['library_version'] or ''}".strip() if row["library"] else ""


MOST_MOMENTS = 120
_NOTABLE = {"crashed", "slowed", "resumed", "error"}


@dataclass(frozen=True, order=True)
class Moment:
    """One event. subject: the fault, partition, group or client."""

    at_us: int
    subject: str
    text: str


def storyline(tables: Tables, picture: Picture) -> tuple[list[Moment], int]:
    """Return the first `MOST_MOMENTS` events in order, and the number of the others."""
    of_tables = (_fault_moments, _rebalance_moments, _client_moments, _app_moments)
    moments = sorted([*_leader_moments(picture), *(moment for find in of_tables for moment in find(tables))])
    return moments[:MOST_MOMENTS], max(0, len(moments) - MOST_MOMENTS)


def _fault_moments(tables: Tables) -> Iterator[Moment]:
    for row in tables.faults:
        if row["phase"] not in ("injecting", "healing"):
            evidence = json_object(row.get("evidence"))
            reason = f": {evidence['words']}" if evidence.get("words") else ""
            yield Moment(row["at_us"], f"fault {row['fault']}", f"{row['phase']}{reason}")


def _leader_moments(picture: Picture) -> Iterator[Moment]:
    """Yield the changes of leaders and coordinators; simultaneous equal changes are one event."""
    changes: dict[tuple[int, str, str], list[str]] = defaultdict(list)
    for lane in picture.lanes():
        what, _, name = lane.key.partition(":")
        if what in ("leader", "coordinator"):
            for before, after in pairwise(lane.segments):
                if before.text != after.text:
                    at_us = picture.axis.begin_us + round(after.begin * 1e6)
                    changes[at_us, what, f"{before.text} → {after.text}"].append(name)
    for (at_us, what, change), names in changes.items():
        subject = names[0] if len(names) == 1 else count(len(names), "partition" if what == "leader" else "group")
        members = f" ({', '.join(names[:8])}{', …' if len(names) > 8 else ''})" if len(names) > 1 else ""
        yield Moment(at_us, subject, f"{what} {change}{members}")


def _rebalance_moments(tables: Tables) -> Iterator[Moment]:
    begun: dict[tuple[str, int], list[tuple[int, str]]] = defaultdict(list)
    for row in tables.ownership:
        if row["group"] is not None and row["generation"] is not None:
            begun[row["group"], row["generation"]].append((row["begin_us"], row["consumer"]))
    for (group, generation), grants in begun.items():
        owners = sorted({consumer for _, consumer in grants}, key=natural)
        yield Moment(
            min(at for at, _ in grants),
            f"group {group}",
            f"generation {generation}: {count(len(grants), 'partition')} to {', '.join(owners[:6])}",
        )


def _client_moments(tables: Tables) -> Iterator[Moment]:
    for row in tables.lifecycle:
        again = row["event"] == "started" and (row["incarnation"] or 1) > 1
        if row["event"] in _NOTABLE or again:
            details = ", ".join(f"{k} {v}" for k, v in json_object(row["detail"]).items())
            event = f"{row['event']}: {details}" if details else row["event"]
            text = f"started again (incarnation {row['incarnation']})" if again else event
            yield Moment(row["at_us"], row["client"], text)


def _app_moments(tables: Tables) -> Iterator[Moment]:
    for row in tables.apps:
        detail = json_object(row["detail"])
        shown = ", ".join(f"{k} {v}" for k, v in detail.items() if k != "pid")
        yield Moment(
            row["at_us"],
            f"{row['app']}/{row['instance']}",
            f"{row['event']} (process {row['incarnation']}){f': {shown}' if shown else ''}",
        )
