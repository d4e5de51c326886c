"""Layout of the timeline: its lanes, their order, and which of them are folded.

If a table is missing, its lanes are absent; the page names the missing tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from chaos.run.result import FaultOutcome, Result
from chaos.scenario.resolve import Resolved
from checks.evidence import is_late
from checks.report.curves import BUCKET_US, lag_lanes, rate_lanes
from checks.report.dots import place_dots
from checks.report.group_lives import group_lanes
from checks.report.heatmap import latency_lanes
from checks.report.lanes import Axis, Band, Lane, Segment, fold
from checks.report.mechanisms import Mechanism
from checks.report.strips import coordinator_lanes, instance_lanes, leader_lanes, owner_lanes, reader_lanes, topic_lanes
from checks.report.tables import Tables, grouped
from checks.report.text import duration

_STEPS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 28800)
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
    cut_off = any(text.endswith("↑") for lane in rates for _, text in lane.ticks)
    rate_hint = "records per second, by topic and by reader" + " · ↑ bursts exceed the scale" * cut_off
    lags = lag_lanes(series, axis)
    latencies = [*latency_lanes(latency, "ack", axis), *latency_lanes(latency, "end_to_end", axis)]
    everything = [*leaders, *(lane for _, _, lanes in readers for lane in lanes), *rates, *lags, *latencies]
    elsewhere = place_dots({lane.key: lane for lane in everything}, result, tables.anomalies, groups, axis)
    bands = [
        fold("Faults", "bar: injected to healed · ◆ proof of effect", [_fault_lane(f, axis) for f in result.faults]),
        fold("Topics", "colour: one topic of the name · number: its id (KIP-516)", topic_lanes(tables.cluster, axis)),
        fold(
            "Groups",
            "colour: one life of the group · number: which one",
            group_lanes(tables.group_lives, axis),
        ),
        fold("Leaders", "number: the leader · height: in-sync replicas", leaders),
        *(fold(*reader) for reader in readers),
        fold("Throughput", rate_hint, rates, CURVES, CURVES),
        fold("Lag", "records behind the end of the log, by reader", lags, CURVES, CURVES),
        fold("Latency", "depth: number of records · lines: median and 99th percentile", latencies, CURVES, CURVES),
        fold("Other anomalies", "anomalies without a lane above", elsewhere),
    ]
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
    """Return the axis from the first to the last event, with a margin; without events, the axis of the run."""
    moments = [row["at_us"] for row in (*tables.lifecycle, *tables.faults)]
    moments += [at for f in result.faults for _, at in _moments(f)]
    moments += [at for row in tables.ownership for at in (row["begin_us"], row["end_us"]) if at is not None]
    for table, width in ((tables.series, BUCKET_US), (tables.latency, BUCKET_US), (tables.anomalies, 0)):
        ends = pc.min_max(table["at_us"]).as_py()
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


def _fault_lane(fault: FaultOutcome, axis: Axis) -> Lane:
    lane = Lane(f"fault:{fault.name}", fault.name, sub=fault.kind, kind="fault")
    if fault.injected_us is None:
        lane.note = "never injected" if fault.begun_us is None else "the drive ended during its injection"
        return lane
    end_us = axis.end_us if fault.healed_us is None else fault.healed_us
    proven_us = end_us if fault.proven_us is None else fault.proven_us
    begin, proven, end = axis.at(fault.injected_us), axis.at(proven_us), axis.at(end_us)
    target = fault.resolved or fault.target
    open_end = " open" if fault.healed_us is None else ""
    segments = [
        Segment(begin, min(proven, end), target, "injected, not yet proven", "pending" + open_end),
        Segment(min(proven, end), end, target, "in effect, proven", "proven" + open_end),
    ]
    lane.segments = [s for s in segments if s.width > 0]
    lane.proven = None if fault.proven_us is None else proven
    lane.note = duration(end_us - fault.injected_us) if fault.healed_us is not None else "not healed"
    lane.note += " · healed late" if is_late(fault) else ""
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
