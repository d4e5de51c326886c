"""Anomalies as dots on the lanes of their partitions and readers, with links to their rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from chaos.anomalies import ANOMALIES
from chaos.run.result import Result
from checks.evidence import Row
from checks.report.lanes import Axis, Dot, Lane, Shape
from checks.report.mechanisms import Kind, Mechanism, breaks, broken
from checks.report.text import Clock, duration

SLOTS = 480
"""Number of parts of the axis in which anomalies are counted."""
DOTS = 40
"""Maximum number of dots side by side: anomalies of a kind within 1/40 of the axis share a dot with a number."""
MOST_DOTS = 60


def place_dots(
    lanes: Mapping[str, Lane], result: Result, anomalies: pa.Table, groups: Sequence[Mechanism], axis: Axis
) -> list[Lane]:
    """Add a dot to the lane of each anomaly. Return new lanes for anomalies without one."""
    links, elsewhere, failed, capped = _links(groups, axis), dict[str, Lane](), broken(result), _capped(groups)
    clock = Clock(result.began_us)
    gathered: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in _slots(_table(result, anomalies), axis):
        key = next((key for key in _lane_keys(row) if key in lanes), "")
        if not key:
            scope = row["scope"] or row["check"] or "?"
            key = elsewhere.setdefault(scope, Lane(f"elsewhere:{scope}", scope)).key
        gathered[key, row["check"] or "", row["split"] or ""].append(row)
    reachable = {**lanes, **{lane.key: lane for lane in elsewhere.values()}}
    for (key, check, split), rows in gathered.items():
        name = f"{check} ({split})" if split else check
        shape = _shape(check)
        broke = breaks((check, split), failed)
        for near in _near(rows, axis)[:MOST_DOTS]:
            first, last = near[0]["at_us_min"], max(row["at_us_max"] for row in near)
            at, reach = axis.at(first), round(axis.at(last) - axis.at(first), 3)
            n, more = sum(row["count_all"] for row in near), (check, split, near[0]["scope"]) in capped
            details = f"{n:,}{' or more' * more} {name} at {clock.relative(first)}"
            details += f", within {duration(last - first)}" if last > first else ""
            href = _link(near[0], links, axis)
            reachable[key].dots.append(Dot(at, href, details, n, shape, broke, reach, more))
    for lane in reachable.values():
        if n := sum(dot.count for dot in lane.dots):
            plus = "+" * any(dot.capped for dot in lane.dots)
            total = f"{n:,}{plus} {'anomaly' if n == 1 else 'anomalies'}"
            lane.note = f"{total} · {lane.note}" if lane.note else total
    return list(elsewhere.values())


def _shape(check: str) -> Shape:
    path = ANOMALIES[check].path if check in ANOMALIES else "read"
    return "group" if path == "share" or path == "quorum" else path


def _near(rows: Iterable[Row], axis: Axis) -> list[list[Row]]:
    """Group rows that would have overlapping dots."""
    near: list[list[Row]] = []
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


def _table(result: Result, anomalies: pa.Table) -> pa.Table:
    """Return the rows of the audit, or those of the result if the table is missing."""
    if anomalies.num_rows:
        return anomalies
    columns = {name: [getattr(f, name) for f in result.findings] for name in anomalies.schema.names}
    for name, values in columns.items():  # an error message may contain lone surrogates, which Arrow rejects
        columns[name] = [v.encode("utf-8", "replace").decode("utf-8") if isinstance(v, str) else v for v in values]
    return pa.table(columns, anomalies.schema)


def _slots(table: pa.Table, axis: Axis) -> list[Row]:
    table = table.filter(pc.is_valid(table["at_us"]))
    slot = pc.divide(pc.subtract(table["at_us"], axis.begin_us), _slot_us(axis))
    names = ["check", "split", "scope", "topic", "partition", "slot"]
    grouped = (
        table.append_column("slot", slot)
        .group_by(names)
        .aggregate([("at_us", "min"), ("at_us", "max"), ([], "count_all")])
    )
    rows: list[Row] = grouped.sort_by("at_us_min").to_pylist()
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


def _links(groups: Iterable[Mechanism], axis: Axis) -> dict[Hashable, str]:
    """Return the first evidence by kind, by kind and place, and by kind, place and slot."""
    links: dict[Hashable, str] = {}
    for group in groups:
        for kind in group.kinds:
            links.setdefault((kind.check, kind.split), group.key)
        for key, f in group.rows:
            place = (f.check, f.split, f.scope, f.topic, f.partition)
            links.setdefault(place, key)
            if f.at_us is not None:
                links.setdefault((place, (f.at_us - axis.begin_us) // _slot_us(axis)), key)
    return links


def _link(row: Row, links: Mapping[Hashable, str], axis: Axis) -> str:
    """Return the target of a dot: a row of the same place and time, else of the same kind, else the section."""
    kind = (row["check"] or "", row["split"] or "")
    place = (*kind, row["scope"], row["topic"], row["partition"])
    exact = (place, (row["at_us_min"] - axis.begin_us) // _slot_us(axis))
    return "#" + next((links[key] for key in (exact, place, kind) if key in links), "anomalies")
