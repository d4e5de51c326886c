"""Anomalies grouped by their cause rather than by kind, so that a page shows how many things went wrong."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from chaos.anomalies import ANOMALIES
from chaos.run.result import Finding, Result
from checks.report.text import count

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
    """Return the mechanisms, those that break the contract first, and the number of those beyond `MOST_GROUPS`."""
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
