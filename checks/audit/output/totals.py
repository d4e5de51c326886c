"""The tables `summary` (findings and rows examined of each check), `anomalies` (the findings to show, each with its
mechanism as one sentence) and `counts` (plain counts of records).

A mechanism states what was observed, never what is likely.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from chaos.anomalies import ANOMALIES
from checks.audit.engine import counters
from checks.audit.engine.blocks import ACKNOWLEDGEMENTS, OK, REFUSED
from checks.audit.engine.commits import BY_LOG
from checks.audit.engine.tally import BY_REASON, FINDINGS, Aggregate, Tally
from checks.audit.facts.commit_log import Decisions
from checks.audit.facts.observed import OFFSETS_TOPIC
from checks.audit.facts.readers import Reader
from checks.audit.facts.starts import LogRange
from checks.audit.findings import COMMITS, STALLED, UNDECIDED, WIRE, Finding, Reason, rank
from checks.audit.load import Ledger
from checks.audit.rules.registry import RULES
from checks.audit.rules.rule import Parties, RunData

OUTSIDE_US = 60_000_000
"""How far a clock of a client may be from the times of a run."""


def summary_rows(parties: Parties, tally: Tally) -> list[dict[str, Any]]:
    """Return table `summary`: a row for every check, split and scope, including scopes with findings only."""
    counts: dict[tuple[Any, ...], int] = {key: count for key, (count, _) in tally.each(FINDINGS)}
    wanted = {
        (check, split, scope)
        for check, rule in RULES.items()
        for split in ANOMALIES[check].splits or ("",)
        for scope in rule.scopes.of(parties)[0]
    }
    for check, split, scope in counts:
        splits = (split,) if split != UNDECIDED else (ANOMALIES[check].splits or ("",))
        wanted |= {(check, s, scope) for s in splits}
    order = list(ANOMALIES)
    rows = []
    for check, split, scope in sorted(wanted, key=lambda k: (order.index(k[0]), k[1], k[2])):
        rule, count = RULES[check], counts.get((check, split, scope), 0)
        undecided = counts.get((check, UNDECIDED, scope), 0)
        examined = sum(tally.count(counter, scope) for counter in rule.examines)
        examined -= undecided if rule.counts_undecided else 0
        left_out = {why: n for counter, why in rule.leaves_out.items() if (n := tally.count(counter, scope))}
        examined = max(examined - sum(left_out.values()), count)
        row = {"check": check, "split": split, "scope": scope, "count": count, "examined": examined}
        rows.append(row | {"undecided": undecided, "why": "" if examined else "; ".join(left_out)})
    return rows


def undecided_rows(tally: Tally) -> list[dict[str, Any]]:
    """Return table `undecided`."""
    found = sorted(tally.each(BY_REASON), key=lambda entry: (entry[0][:2], -entry[1], entry[0][2].why))
    return [_undecided(check, scope, reason, count) for (check, scope, reason), count in found]


def undecided_commits(decisions: Decisions) -> list[dict[str, Any]]:
    """Return the rows of table `undecided` about commits, with `COMMITS` in place of a check."""
    found = sorted(decisions.undecided.items(), key=lambda entry: (entry[0][0], -entry[1], entry[0][1].why))
    return [_undecided(COMMITS, reader, reason, count) for (reader, reason), count in found]


def _undecided(check: str, scope: str, reason: Reason, count: int) -> dict[str, Any]:
    return {"check": check, "scope": scope, "why": reason.why, "advice": reason.advice, "count": count}


def visible(
    tables: Mapping[str, list[Finding]], undecided: Iterable[Finding], tapped: bool = False
) -> dict[str, list[Finding]]:
    """Return `summary`, `anomalies` and `undecided` with nothing but undecided rows of checks that are not decided on
    the wire. undecided: the rows that the ledger of the wire leaves out. tapped: whether applications went on."""
    hidden = {check: kind.hidden for check, kind in ANOMALIES.items() if kind.hidden}
    hidden |= dict.fromkeys(STALLED, "a tap ends while its applications read") if tapped else {}
    summary, more = [], [row | {"advice": ""} for row in undecided if row["check"] == WIRE]
    for row in tables["summary"]:
        if (why := hidden.get(row["check"])) is not None:
            rows = row["examined"] + row["undecided"]
            more += [_undecided(row["check"], row["scope"], Reason(why), rows)] * bool(rows)
            row = row | {"count": 0, "examined": 0, "undecided": rows, "why": why}
        summary.append(row)
    return {
        "summary": summary,
        "anomalies": [row for row in tables["anomalies"] if row["check"] not in hidden],
        "undecided": [row for row in tables["undecided"] if row["check"] not in hidden] + more,
    }


def anomaly_rows(tally: Tally, run: RunData, within_us: tuple[int, int]) -> list[Finding]:
    """Return table `anomalies`. within_us: when the run began and ended."""
    findings = sorted((f for _, (_, rows) in tally.each(FINDINGS) for f in rows), key=rank)
    return [_in_time(_explained(f, run), within_us) for f in findings if f["split"] != UNDECIDED]


def _in_time(finding: Finding, within_us: tuple[int, int]) -> Finding:
    """Return a finding without its time if that is a timestamp from outside of the run, which is then evidence.

    Producers set timestamps, in wrong units too, and a topic may have records from before the run.
    """
    at_us, (begin_us, end_us) = finding["at_us"], within_us
    if at_us is None or begin_us - OUTSIDE_US <= at_us <= end_us + OUTSIDE_US:
        return finding
    return finding | {"at_us": None, "evidence": json.dumps({"timestamp_us": at_us} | json.loads(finding["evidence"]))}


def _explained(finding: Finding, run: RunData) -> Finding:
    evidence = json.loads(finding["evidence"])
    sentence = RULES[finding["check"]].explanation(finding, evidence, run)
    if sentence and evidence.get(BY_LOG):
        sentence += f"; the client did not learn the outcome, the log of {OFFSETS_TOPIC} shows it"
    if sentence and (libraries := _libraries(finding, run)):
        sentence += f" ({libraries})"
    return finding | {"mechanism": sentence or "not determined", "evidence": json.dumps(evidence)}


def _libraries(finding: Finding, run: RunData) -> str:
    """Return the client library and release of each client in a finding, unless all clients have the default one."""
    if not run.names_libraries:
        return ""
    found = []
    for client in dict.fromkeys([finding["producer"], finding["consumer"]]):
        if library := run.library(client) if client else None:
            found.append(f"{client}: {library.traits.library} {run.release(client)}")
    return ", ".join(found)


_OF_TOPIC: dict[str, tuple[Aggregate[int], ...]] = {
    "sent": (counters.SENT,),
    "acked": (counters.ACKED,),
    "failed": (counters.FAILED,),
    "unknown": (counters.UNKNOWN, counters.UNSENT_PRESENT),
    "in_log": (counters.IN_LOG,),
    "evicted": (counters.EVICTED,),
    "refused_timestamps": (counters.REFUSED_TIMESTAMPS,),
    "gone": (counters.GONE,),
    "superseded": (counters.SUPERSEDED,),
    "expired_tombstones": (counters.EXPIRED,),
}


def offsets_rows(removed: int | None) -> list[dict[str, Any]]:
    """Return the row of `counts` of what compaction removed from `__consumer_offsets`; none if it was not counted."""
    return [] if removed is None else [{"name": "superseded", "scope": OFFSETS_TOPIC, "value": removed}]


_OF_SHARES = {
    "accepted": ("accept", OK),
    "released": ("release", OK),
    "rejected": ("reject", OK),
    "refused": (None, REFUSED),
}
"""Counts of acknowledgements, each with its type (None: any) and outcome."""


def share_rows(groups: list[str], tally: Tally) -> list[dict[str, Any]]:
    """Return the rows of `counts` of share groups: acquisitions, distinct records, acknowledgements by their end."""
    rows = []
    for group in groups:
        rows += [("delivered", group, tally.count(counters.ACQUIRED, group))]
        rows += [("distinct", group, tally.count(counters.DISTINCT, group))]
        for name, (kind, outcome) in _OF_SHARES.items():
            kinds = [kind] if kind else list(ACKNOWLEDGEMENTS)
            rows.append((name, group, sum(tally.count(counters.ACKNOWLEDGED, group, k, outcome) for k in kinds)))
    return [{"name": name, "scope": scope, "value": value} for name, scope, value in rows]


def count_rows(
    topics: list[str],
    readers: list[Reader],
    tally: Tally,
    ledger: Ledger,
    ranges: dict[tuple[str, int], LogRange],
    unrecovered: dict[tuple[str, str], int],
    tapped: bool = False,
) -> list[dict[str, Any]]:
    """Return table `counts`.

    ranges: start and end of the log by (topic, partition). unrecovered: see `metrics.statistics`. tapped: whether
    others write to the topics, whose records are no sends of unknown outcome.
    """
    rows: list[tuple[str, str, int]] = []
    offsets, repeated = Counter[str](), Counter[str]()
    for (topic, _), (start, end) in ranges.items():
        offsets[topic] += (end or 0) - (start or 0)
    for (check, _, scope), (count, _) in tally.each(FINDINGS):
        repeated[scope] += count if check == "duplicate_delivery" else 0
    for topic in topics:
        rows += [(name, topic, sum(tally.count(c, topic) for c in counts)) for name, counts in _OF_TOPIC.items()]
        if tapped:
            rows = [(n, s, tally.count(counters.UNKNOWN, s) if n == "unknown" else value) for n, s, value in rows]
        rows.append(("log_gaps", topic, offsets[topic] - tally.count(counters.IN_LOG, topic)))
    for name in sorted({r.name for r in readers} | {scope for (scope,), _ in tally.each(counters.DELIVERED)}):
        delivered = tally.count(counters.DELIVERED, name)
        rows += [("delivered", name, delivered), ("distinct", name, delivered - repeated[name])]
        if unknown := tally.count(counters.COMMITS_UNKNOWN, name):
            by_log = [(o, tally.count(counters.COMMITS_BY_LOG, name, o)) for o in ("ok", "fail")]
            rows += [("commits_unknown", name, unknown), *((f"commits_by_log_{o}", name, n) for o, n in by_log)]
    rows += [(name, scope, value) for (name, scope), value in sorted(unrecovered.items())]
    rows += [("clock_backwards", scope, value) for (scope,), value in sorted(tally.each(counters.CLOCK_BACKWARDS))]
    for table, read in ledger.rows.items():
        audited = len(ledger.small[table]) if table in ledger.small else tally.count(counters.ROWS, table)
        rows += [("rows_read", table, read), ("rows_audited", table, audited)]
        rows.append(("torn_bytes", table, ledger.torn_bytes.get(table, 0)))
    return [{"name": name, "scope": scope, "value": value} for name, scope, value in rows]
