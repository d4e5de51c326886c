"""Anomalies as dots on the lanes of their partitions and readers, with links to their rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from chaos.anomalies import ANOMALIES
from chaos.run.result import Result
from checks.report.lanes import Axis, Dot, Lane, Shape
from checks.report.mechanisms import Kind, Mechanism, breaks, broken
from checks.report.text import Clock, duration

_Row = dict[str, Any]
SLOTS = 480
"""Number of parts of the axis in which anomalies are counted."""
DOTS = 40
"""Maximum number of dots side by side: anomalies of a kind within 1/40 of the axis share a dot with a number."""
MOST_DOTS = 60


def place_dots(
    lanes: Mapping[str, Lane],
    result: Result,
    anomalies: pa.Table,
    groups: Iterable[Mechanism],
    axis: Axis,
    clock: Clock,
) -> list[Lane]:
    """Add a dot to the lane of each anomaly. Return new lanes for anomalies without one."""
    groups = list(groups)
    links, elsewhere, failed, capped = _Links(groups, axis), dict[str, Lane](), broken(result), _capped(groups)
    gathered: dict[tuple[str, str, str], list[_Row]] = defaultdict(list)
    for row in _slots(_table(result, anomalies), axis):
        key = next((key for key in _lane_keys(row) if key in lanes), "")
        if not key:
            scope = row["scope"] or row["check"] or "?"
            key = elsewhere.setdefault(scope, Lane(f"elsewhere:{scope}", scope)).key
        gathered[key, row["check"] or "", row["split"] or ""].append(row)
    reachable = {**lanes, **{lane.key: lane for lane in elsewhere.values()}}
    for (key, check, split), rows in gathered.items():
        broke = breaks((check, split), failed)
        for cluster in _near(rows, axis)[:MOST_DOTS]:
            more = (check, split, cluster[0]["scope"]) in capped
            reachable[key].dots.append(_dot(cluster, check, split, broke, more, links.find(cluster[0]), axis, clock))
    for lane in reachable.values():
        if n := sum(dot.count for dot in lane.dots):
            plus = "+" * any(dot.capped for dot in lane.dots)
            total = f"{n:,}{plus} {'anomaly' if n == 1 else 'anomalies'}"
            lane.note = f"{total} · {lane.note}" if lane.note else total
    return list(elsewhere.values())


def _near(rows: Iterable[_Row], axis: Axis) -> list[list[_Row]]:
    """Group rows whose dots would overlap."""
    near: list[list[_Row]] = []
    for row in rows:
        if near and row["at_us_max"] - near[-1][0]["at_us_min"] <= _slot_us(axis) * SLOTS // DOTS:
            near[-1].append(row)
        else:
            near.append([row])
    return near


def _capped(groups: Iterable[Mechanism]) -> set[Kind]:
    """Return the kinds with more anomalies than rows."""
    kept: Counter[Kind] = Counter()
    counts: dict[Kind, int] = {}
    for kind in (kind for group in groups for kind in group.kinds):
        key = (kind.check, kind.split, kind.scope)
        kept[key] += kind.evidence
        counts[key] = kind.known
    return {kind for kind, n in counts.items() if n > kept[kind]}


def _dot(
    rows: list[_Row], check: str, split: str, broke: bool, capped: bool, href: str, axis: Axis, clock: Clock
) -> Dot:
    first, last, n = rows[0]["at_us_min"], max(row["at_us_max"] for row in rows), sum(row["count_all"] for row in rows)
    name = f"{check} ({split})" if split else check
    details = f"{n:,}{' or more' * capped} {name} at {clock.relative(first)}"
    if last > first:
        details += f", within {duration(last - first)}"
    shape: Shape = ANOMALIES[check].path if check in ANOMALIES else "read"
    return Dot(axis.at(first), href, details, n, shape, broke, round(axis.at(last) - axis.at(first), 3), capped)


def _table(result: Result, anomalies: pa.Table) -> pa.Table:
    """Return the rows of the audit, or those of the result if the table is missing."""
    if anomalies.num_rows:
        return anomalies
    rows = [{name: _plain(getattr(f, name)) for name in anomalies.schema.names} for f in result.findings]
    return pa.Table.from_pylist(rows, anomalies.schema)


def _plain(value: str | int | None) -> str | int | None:
    """Replace lone surrogates, which an error message may contain and Arrow rejects."""
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value


def _slots(table: pa.Table, axis: Axis) -> list[_Row]:
    table = table.filter(pc.is_valid(table["at_us"]))
    slot = pc.divide(pc.subtract(table["at_us"], axis.begin_us), _slot_us(axis))
    names = ["check", "split", "scope", "topic", "partition", "slot"]
    grouped = (
        table.append_column("slot", slot)
        .group_by(names)
        .aggregate([("at_us", "min"), ("at_us", "max"), ([], "count_all")])
    )
    rows: list[_Row] = grouped.sort_by("at_us_min").to_pylist()
    return rows


def _slot_us(axis: Axis) -> int:
    return max(1, (axis.end_us - axis.begin_us) // SLOTS)


def _lane_keys(row: Mapping[str, Any]) -> list[str]:
    """Return the keys of the lanes on which an anomaly belongs, the best first."""
    scope, partition = row["scope"], f"{row['topic']}/{row['partition']}"
    on_partition, on_reader = f"leader:{partition}", [f"owner:{scope}:{partition}", f"reader:{scope}"]
    anomaly = ANOMALIES.get(row["check"] or "")
    if anomaly and anomaly.path == "write":
        return [on_partition, f"acked:{row['topic']}"]
    return [*on_reader, f"coordinator:{scope}", f"delivered:{scope}", on_partition]


class _Links:
    """Targets of the dots: a row of the same place and time, else of the same kind, else the section."""

    def __init__(self, groups: Iterable[Mechanism], axis: Axis) -> None:
        self._axis = axis
        self._exact: dict[tuple[Any, ...], str] = {}
        self._coordinates: dict[tuple[Any, ...], str] = {}
        self._kind: dict[tuple[str, str], str] = {}
        for group in groups:
            for kind in group.kinds:
                self._kind.setdefault((kind.check, kind.split), group.key)
            for key, f in group.rows:
                coordinates = (f.check, f.split, f.scope, f.topic, f.partition)
                self._coordinates.setdefault(coordinates, key)
                if f.at_us is not None:
                    self._exact.setdefault((*coordinates, self._slot(f.at_us)), key)

    def _slot(self, at_us: int) -> int:
        return (at_us - self._axis.begin_us) // _slot_us(self._axis)

    def find(self, row: Mapping[str, Any]) -> str:
        check, split = row["check"] or "", row["split"] or ""
        coordinates = (check, split, row["scope"], row["topic"], row["partition"])
        exact = self._exact.get((*coordinates, self._slot(row["at_us_min"])))
        return "#" + (exact or self._coordinates.get(coordinates) or self._kind.get((check, split)) or "anomalies")
