"""The plain numbers: how much of everything there is, and how many rows each check had to look at."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from chaos.anomalies import ANOMALIES
from checks.audit.epochs import Epochs, Row
from checks.audit.findings import UNDETERMINED
from checks.audit.large.tally import Tally
from checks.audit.load import Ledger
from checks.audit.readers import Reader

Totals = dict[tuple[str, str], int]
"""(name, scope) -> number."""


def small_totals(tables: dict[str, list[Row]], ranges: dict[tuple[str, int], tuple[int | None, int | None]]) -> Totals:
    """How many rows each of the smaller tables has, and how many offsets each topic had at read-back."""
    found: Totals = {("rows", table): len(rows) for table, rows in tables.items()}
    for (topic, _), (start, end) in ranges.items():
        found["offsets", topic] = found.get(("offsets", topic), 0) + (end or 0) - (start or 0)
    return found


def sums(tally: Tally, counted: dict[tuple[Any, ...], int]) -> Totals:
    """What executors summed up, by (name, scope), and how often each reader was given a record again."""
    found: Totals = {(name, *scope): value for (name, *scope), value in tally.each("sum")}
    for (check, _, scope), count in counted.items():
        if check == "duplicate_delivery":
            found["redelivered", scope] = found.get(("redelivered", scope), 0) + count
    for whole, parts in (("sighted", ("located", "delivered_of")), ("owed", ("in_range", "evictable"))):
        for name, scope in [key for key in found if key[0] in parts]:
            found[whole, scope] = found.get((whole, scope), 0) + found[name, scope]
    return found


def examined(check: str, scope: str, totals: Totals) -> int:
    """How many rows a check looked at in a scope."""
    return totals.get((_EXAMINED[check], scope), 0)


_EXAMINED = {
    "lost_write": "acked",
    "duplicate_write": "own",
    "reordered_write": "own",
    "misplaced_write": "located",
    "misrouted_write": "routed",
    "unnoticed_failure": "unwatched",
    "phantom_write": "in_log",
    "corrupt_record": "checked",
    "skipped_delivery": "in_range",
    "stalled_delivery": "in_range",
    "lost_processing": "in_range",
    "duplicate_delivery": "delivered",
    "nonmonotonic_poll": "delivered",
    "poll_skip": "delivered",
    "dirty_read": "delivered",
    "overcommit": "committed",
    "commit_rewind": "committed",
    "double_ownership": "epochs",
    "foreign_commit": "epochs",
    "resurrected_write": "own",
    "offset_reuse": "sighted",
    "torn_transaction": "in_transactions",
    "hanging_transaction": "stable_offsets",
    "evicted_delivery": "owed",
    "aborted_read": "read_of_transactions",
    "precommitted_read": "read_of_transactions",
    "zombie_commit": "committed",
    "unbalanced_assignment": "settled",
    "misplaced_coordinator": "coordinators",
}
_AMONG = ("lost_write", "overcommit", "dirty_read", "evicted_delivery", "unbalanced_assignment")
assert set(_EXAMINED) == set(ANOMALIES), "every check has to say what it looks at"


def epoch_totals(epochs: Epochs) -> Totals:
    """How many epochs each reader had."""
    totals: Totals = defaultdict(int)
    for e in epochs.all:
        totals["epochs", e.reader] += 1
    return dict(totals)


def scopes_of(check: str, topics: list[str], readers: list[Reader]) -> list[str]:
    """The scopes that a check applies to: topics, or the readers that can show it."""
    if ANOMALIES[check].path == "write":
        return topics
    if check == "double_ownership":
        return [r.name for r in readers if r.mode == "subscribe"]
    if check == "foreign_commit":
        return [r.name for r in readers if r.group is not None and r.commits]
    if check in ("zombie_commit", "unbalanced_assignment"):
        wanted = (r for r in readers if r.mode == "subscribe")
        return [r.name for r in wanted if r.commits or check == "unbalanced_assignment"]
    if check == "misplaced_coordinator":
        return sorted({r.group for r in readers if r.group is not None})
    if check in ("aborted_read", "precommitted_read"):
        return [r.name for r in readers if r.committed_only]
    if check in ("overcommit", "commit_rewind"):
        return [r.name for r in readers if r.commits]
    return [r.name for r in readers]


def summary_rows(
    topics: list[str], readers: list[Reader], totals: Totals, counted: dict[tuple[str, str, str], int]
) -> list[dict[str, Any]]:
    """Table `summary`: a row for every check, split and scope, whether or not there was anything to find.

    counted: findings by (check, split, scope). A finding in a scope that the scenario does not name gets its row too.
    """
    wanted = {
        (check, split, scope): None
        for check, anomaly in ANOMALIES.items()
        for split in anomaly.splits or ("",)
        for scope in scopes_of(check, topics, readers)
    }
    for check, split, scope in counted:
        splits = (split,) if split != UNDETERMINED else (ANOMALIES[check].splits or ("",))
        wanted |= {(check, s, scope): None for s in splits}
    rows = []
    for check, split, scope in sorted(wanted, key=lambda k: (list(ANOMALIES).index(k[0]), k[1], k[2])):
        undetermined = counted.get((check, UNDETERMINED, scope), 0)
        seen = examined(check, scope, totals)
        if check in _AMONG:  # their undetermined rows are among those counted
            seen -= undetermined
        count = counted.get((check, split, scope), 0)
        rows.append(
            {
                "check": check,
                "split": split,
                "scope": scope,
                "count": count,
                "examined": max(seen, count),
                "undetermined": undetermined,
            }
        )
    return rows


def count_rows(
    topics: list[str], readers: list[Reader], totals: Totals, ledger: Ledger, unrecovered: Totals
) -> list[dict[str, Any]]:
    """Table `counts`. unrecovered: see `times.statistics`."""
    rows: list[tuple[str, str, int]] = []
    for topic in topics:
        number = {
            name: totals.get((name, topic), 0)
            for name in ("sent", "acked", "failed", "unknown", "in_log", "evicted", "offsets", "unsent_present")
        }
        number["unknown"] += number["unsent_present"]
        rows += [(name, topic, number[name]) for name in ("sent", "acked", "failed", "unknown", "in_log", "evicted")]
        rows.append(("log_gaps", topic, number["offsets"] - number["in_log"]))
    for name in sorted({r.name for r in readers} | {scope for name, scope in totals if name == "delivered"}):
        delivered = totals.get(("delivered", name), 0)
        rows += [("delivered", name, delivered), ("distinct", name, delivered - totals.get(("redelivered", name), 0))]
    rows += [(name, scope, value) for (name, scope), value in sorted(unrecovered.items())]
    rows += [(name, scope, value) for (name, scope), value in sorted(totals.items()) if name == "clock_backwards"]
    for table, read in ledger.rows.items():
        rows += [("rows_read", table, read), ("rows_audited", table, totals.get(("rows", table), 0))]
        rows.append(("torn_bytes", table, ledger.torn_bytes.get(table, 0)))
    return [{"name": name, "scope": scope, "value": value} for name, scope, value in rows]
