"""Audit and oracle side by side, and from a history on which they differ to the smallest one that still shows it.

An audit costs seconds however many histories are in it, so a history is not shrunk step by step: all the smaller ones
that can be made of it are judged at once, and what could be left out alone is then left out together.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tests.checks.audit.histories import History, by_audit, by_oracle, differences
from tests.checks.audit.oracle import Row

AT_ONCE = 300
ROUNDS = 12
CRASH = "crash:"
Judge = Callable[[Sequence[History]], list[list[str]]]


def compare(spark: Any, histories: Sequence[History]) -> list[list[str]]:
    """For each history in what the audit differs from the oracle.

    An audit that breaks off is traced to the first history that makes it do so; nothing is said of the others then.
    """
    try:
        audited = by_audit(spark, histories)
    except Exception as e:  # noqa: BLE001 - whatever breaks the audit has to be traced to a history
        at, reason = _breaking(spark, histories, e)
        return [[f"{CRASH} {reason}"] if n == at else [] for n in range(len(histories))]
    return [differences(a, by_oracle(h)) for a, h in zip(audited, histories, strict=True)]


def _breaking(spark: Any, histories: Sequence[History], error: Exception) -> tuple[int, str]:
    """The number of a history that makes the audit break off, and how, by halving."""
    first, last = 0, len(histories)
    while last - first > 1:
        middle = (first + last) // 2
        try:
            by_audit(spark, histories[first:middle])
            first = middle
        except Exception as e:  # noqa: BLE001 - see `compare`
            last, error = middle, e
    where = "".join(traceback.format_tb(error.__traceback__, limit=-2))
    return first, f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}\n{where}"


def shrink(history: History, judge: Judge) -> History:
    """The smallest history found on which audit and oracle still differ in one of the same checks."""
    checks = _checks(judge([history])[0])
    if CRASH in checks:
        return history  # the traceback says more, and every candidate would need a separate audit

    def differs(candidates: Sequence[History]) -> list[bool]:
        return [bool(checks & _checks(found)) for found in judge(candidates)]

    for _ in range(ROUNDS):
        smaller = _fewer_rows(history, differs)
        if smaller is history:
            break
        history = smaller
    for simpler in (_calm_times, _plain_settings):
        candidate = simpler(history)
        if differs([candidate])[0]:
            history = candidate
    return history


def _checks(found: list[str]) -> set[str]:
    """The names of the checks in messages of `differences`."""
    if any(line.startswith(CRASH) for line in found):
        return {CRASH}
    parts = " ".join(found).replace("'", " ").replace(".", " ").replace("(", " ").replace(",", " ").split()
    return {part for part in parts if "_" in part}


def _fewer_rows(history: History, differs: Callable[[Sequence[History]], list[bool]]) -> History:
    """Leave out what can be left out alone; then as much of that as possible at once."""
    keys = [(table, n) for table, table_rows in history.rows.items() for n in range(len(table_rows))]
    chunks = list(_chunks(len(keys)))[:AT_ONCE]
    removable = [set(keys[a:b]) for a, b in chunks]
    works = differs([_without(history, gone) for gone in removable])
    useful = sorted((gone for gone, good in zip(removable, works, strict=True) if good), key=len, reverse=True)
    if not useful:
        return history
    together: list[set[tuple[str, int]]] = [useful[0]]
    for gone in useful[1:]:
        if not gone <= together[-1]:
            together.append(together[-1] | gone)
    backwards: list[set[tuple[str, int]]] = []
    for gone in reversed(useful):
        backwards.append((backwards[-1] if backwards else set()) | gone)
    candidates = (together + backwards)[:AT_ONCE]
    works = differs([_without(history, gone) for gone in candidates])
    best = max((gone for gone, good in zip(candidates, works, strict=True) if good), key=len, default=useful[0])
    return _without(history, best)


def _chunks(length: int) -> Iterator[tuple[int, int]]:
    """Halves, quarters, ... single rows."""
    size = max(1, length // 2)
    while True:
        yield from ((start, min(start + size, length)) for start in range(0, length, size))
        if size == 1:
            return
        size //= 2


def _without(history: History, gone: set[tuple[str, int]]) -> History:
    rows = {
        table: [row for n, row in enumerate(table_rows) if (table, n) not in gone]
        for table, table_rows in history.rows.items()
    }
    return replace(history, rows=rows)


def _calm_times(history: History) -> History:
    """Times in thousands, in the same order."""
    times = sorted(
        {v for table_rows in history.rows.values() for row in table_rows for k, v in row.items() if _is_time(k, v)}
    )
    rank = {at_us: 1_000 * (n + 1) for n, at_us in enumerate(times)}
    rows = {
        table: [{k: rank[v] if _is_time(k, v) else v for k, v in row.items()} for row in table_rows]
        for table, table_rows in history.rows.items()
    }
    return replace(history, rows=rows)


def _is_time(column: str, value: Any) -> bool:
    return value is not None and column.endswith("_us")


def _plain_settings(history: History) -> History:
    """Without the scenario's entries of consumers that are in no row."""
    clients = {row.get("consumer", "").partition("/")[0] for table_rows in history.rows.values() for row in table_rows}
    kept = tuple(entry for entry in history.consumers if entry["name"] in clients)
    return replace(history, consumers=kept, producer_config={}, sending={})


QUIET = (
    "detail",
    "evidence",
    "run",
    "committed",
    "topic",
    "leader_epoch",
    "member_id",
    "sent_us",
    "error",
    "polled_us",
)


def written(history: History, found: list[str]) -> str:
    """A history for a person: what differs, the settings, and the rows without what says nothing."""
    lines = ["the audit and the oracle differ:", *(f"  {line}" for line in found), "scenario:"]
    lines += [f"  topic: {history.partitions} partitions {history.topic_config or ''}"]
    lines += [f"  producer: {history.sending}"] if history.sending else []
    lines += [f"  {entry}" for entry in history.consumers]
    for table, table_rows in history.rows.items():
        if table_rows:
            lines.append(f"{table}:")
            lines += ["  " + _row(row) for row in table_rows]
    return "\n".join(lines)


def _row(row: Row) -> str:
    shown = {k: v for k, v in row.items() if v is not None and (k not in QUIET or (k == "committed" and not v))}
    return " ".join(f"{name}={value}" for name, value in shown.items())
