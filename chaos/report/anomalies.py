"""Anomalies on the page of a run: grouped by their cause, and as dots on the lanes of their partitions and readers.

Mechanisms show how many things went wrong, which kinds of anomalies do not. A dot links to its rows.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from chaos.anomalies import ANOMALIES
from chaos.report.charts import Axis, Dot, Lane, Shape
from chaos.report.tables import Row
from chaos.report.text import Clock, count, duration
from chaos.run.result import Finding, Result

SHOWN_ROWS, MOST_ROWS, MOST_GROUPS = 5, 100, 40
"""Rows of a mechanism at least and at most, and mechanisms on a page."""
ALL_ROWS = 600
"""Rows on a page; with many mechanisms each shows fewer, down to `SHOWN_ROWS`."""
ALIKE = 3
"""Number of sentences that may differ in numbers only before they are merged."""
Kind = tuple[str, str, str]
"""check, split, scope"""


@dataclass(frozen=True)
class KindCount:
    """The anomalies of one kind that a mechanism explains.

    evidence: the rows kept. known: the exact count over all mechanisms. sole: whether all rows kept of this kind have
    this mechanism.
    """

    check: str
    split: str
    scope: str
    evidence: int
    known: int
    sole: bool

    @property
    def count(self) -> int:
        """The number to show."""
        return max(self.known, self.evidence) if self.sole else self.evidence

    @property
    def label(self) -> str:
        """`37 lost_write in orders`, with the number of rows kept if the evidence was capped."""
        name = f"{self.check} ({self.split})" if self.split else self.check
        if self.sole:
            kept = f", by the evidence of {self.evidence:,}" if 0 < self.evidence < self.known else ""
            return f"{self.count:,} {name} in {self.scope}{kept}"
        return f"{self.evidence:,} of {self.known:,} {name} in {self.scope}"


@dataclass
class Mechanism:
    """One cause: its sentence, the anomalies it explains, some rows, and the settings that prevent it.

    broke: whether it breaks the contract. unshown: the number of rows left out. merged: whether it represents several
    causes that differ in numbers only, so that each row shows its own.
    """

    key: str
    title: str
    broke: bool
    kinds: list[KindCount] = field(default_factory=list)
    rows: list[tuple[str, Finding]] = field(default_factory=list)
    unshown: int = 0
    prevents: dict[str, str] = field(default_factory=dict)
    merged: bool = False

    @property
    def total(self) -> int:
        """The number of anomalies it explains."""
        return sum(kind.count for kind in self.kinds)

    @cached_property
    def shared(self) -> dict[str, Any]:
        """The evidence that all rows share."""
        first, *others = (f.evidence for _, f in self.rows)
        return {k: v for k, v in first.items() if all(k in o and o[k] == v for o in others)} if others else {}

    def own(self, finding: Finding) -> dict[str, Any]:
        """Return the evidence of one row that not all rows share."""
        shared = self.shared
        return {name: value for name, value in finding.evidence.items() if name not in shared}

    @property
    def capped(self) -> str:
        """The rows not shown, as text; empty if all are shown."""
        return f"{count(self.unshown, 'more row')} in audit/anomalies" if self.unshown > 0 else ""


def broken(result: Result) -> set[tuple[str, str]]:
    """Return the (check, split) of the failed expectations."""
    return {(e.check, e.split) for e in result.expectations if e.verdict == "fail"}


def breaks(kind: tuple[str, str], failed: set[tuple[str, str]]) -> bool:
    """Return whether an anomaly breaks the contract; an expectation without a split covers all splits."""
    return kind in failed or (kind[0], "") in failed


def mechanisms(result: Result, anomalies: pa.Table) -> tuple[list[Mechanism], int]:
    """Return the mechanisms, breaks of the contract first, and the number of mechanisms beyond `MOST_GROUPS`."""
    counted = _counted(result, anomalies)
    known: dict[Kind, int] = {(t.check, t.split, t.scope): t.count for t in result.totals if t.check in ANOMALIES}
    without_rows = known.keys() - {k for kinds in counted.values() for k in kinds}
    if unkept := {kind: 0 for kind in without_rows if known[kind]}:
        counted["No evidence rows were kept"] = Counter(unkept)
    titles = families(counted)
    failed = broken(result)
    rows: dict[str, list[tuple[str, Finding]]] = defaultdict(list)
    for i, finding in enumerate(result.findings):
        rows[titles[finding.mechanism]].append((f"row-{i}", finding))
    gathered: dict[str, Counter[Kind]] = defaultdict(Counter)
    for sentence, kinds in counted.items():
        gathered[titles[sentence]].update(kinds)
    kept = sum(gathered.values(), Counter[Kind]())
    most = max(SHOWN_ROWS, min(MOST_ROWS, ALL_ROWS // max(1, len(gathered))))
    groups = [
        Mechanism(
            key="",
            title=title,
            broke=any(breaks(kind[:2], failed) for kind in kinds),
            merged=title not in counted,
            kinds=[KindCount(*kind, n, known.get(kind, n), n == kept[kind]) for kind, n in sorted(kinds.items())],
            rows=rows[title][:most],
            unshown=sum(kinds.values()) - min(len(rows[title]), most),
            prevents={kind[0]: ANOMALIES[kind[0]].prevents for kind in sorted(kinds) if kind[0] in ANOMALIES},
        )
        for title, kinds in gathered.items()
    ]
    groups.sort(key=lambda g: (not g.broke, -g.total))
    for i, group in enumerate(groups[:MOST_GROUPS], start=1):
        group.key = f"mechanism-{i}"
    return groups[:MOST_GROUPS], max(0, len(groups) - MOST_GROUPS)


def families(sentences: Iterable[str]) -> dict[str, str]:
    """Return the title of each sentence. More than `ALIKE` that differ in numbers only share one, with … for them."""
    alike: dict[tuple[str, ...], list[list[str]]] = defaultdict(list)
    for sentence in sentences:
        parts = re.split(r"(\d+)", sentence)
        alike[tuple(parts[::2])].append(parts)
    titles = {}
    for members in alike.values():
        shared = "".join(at[0] if len(set(at)) == 1 else "…" for at in zip(*members, strict=True))
        for parts in members:
            titles["".join(parts)] = shared if len(members) > ALIKE else "".join(parts)
    return titles


def _counted(result: Result, anomalies: pa.Table) -> dict[str, Counter[Kind]]:
    """Return by mechanism the rows of evidence of each kind; the table may hold more of them than the result."""
    in_table: dict[str, Counter[Kind]] = defaultdict(Counter)
    in_result: dict[str, Counter[Kind]] = defaultdict(Counter)
    names = ["mechanism", "check", "split", "scope"]
    for row in anomalies.group_by(names).aggregate([([], "count_all")]).to_pylist():
        kind = (row["check"] or "", row["split"] or "", row["scope"] or "")
        in_table[row["mechanism"] or "not determined"][kind] = row["count_all"]
    for f in result.findings:
        in_result[f.mechanism][f.check, f.split, f.scope] += 1
    return {sentence: in_table[sentence] | in_result[sentence] for sentence in (in_table | in_result)}


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
    for row in _slots(_rows(result, anomalies), axis):
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


def _rows(result: Result, anomalies: pa.Table) -> pa.Table:
    """Return the rows of the audit, or of the result if the table is missing."""
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
