"""From a scenario to the terms of its contract: the values that GX checks, with their bounds and names.

Terms of the scenario (`expect:`) fail the run if they do not hold. Terms of the platform (`condition`) say whether the
run can prove anything, and make it inconclusive if they do not hold: every fault took effect, the ledger is complete,
no client died unexpectedly, the log was read back, records were sent and delivered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from chaos.anomalies import METRICS, PHRASES
from chaos.contract import contract, unpromised
from chaos.scenario.expect import Bound
from chaos.scenario.faults.clients import ProducerLeave
from chaos.scenario.faults.raw import RECORDS
from chaos.scenario.model import Scenario
from chaos.scenario.resolve import Resolved
from chaos.units import format_percent

PERCENTILES = {"p50": "median", "p95": "95th percentile", "p99": "99th percentile", "max": "longest"}


@dataclass(frozen=True)
class Term:
    """One value of the contract: its column in the summary row, and its bounds.

    rule: stem of the name of the GX class; check, split, scope: as in `chaos.run.result.Expectation`; expected: the
    bounds as text; undecided: why the settings do not say whether the value is legal where it is out of its bounds;
    unpromised: why the settings do not promise the zero that is demanded.
    """

    rule: str
    column: str
    name: str
    check: str
    expected: str = ""
    split: str = ""
    scope: str = ""
    at_least: int = 0
    at_most: int | None = None
    condition: bool = False
    undecided: str = ""
    unpromised: str = ""


def terms(resolved: Resolved) -> list[Term]:
    """Return all terms: those of the scenario first, then those of the platform."""
    s = resolved.scenario
    return [*_counts(s), *_times(s), *_sends(s), *_groups(s), *_client_errors(s), *_superseded(s), *_conditions(s)]


def planned_sends(s: Scenario) -> int:
    """Return the number of records that the producers and the faults send in total, at least.

    A producer that leaves for good may have sent none.
    """
    gone = Counter(f.client_name() for f in s.faults if isinstance(f, ProducerLeave) and f.for_good)
    sent = sum(max(0, p.count - gone[p.name]) * p.records for p in s.producers)
    return sent + sum(RECORDS[f.sends] for f in s.raw_writes)


def partition_count(s: Scenario) -> int:
    """Return the number of partitions of the final log."""
    return sum(s.partitions_at_end().values())


def readers(s: Scenario) -> dict[str, str]:
    """Return the mode of each reader by name: a group is one reader, and so is each assign-mode consumer."""
    modes: dict[str, str] = {entry.group: entry.mode for entry in s.shares}
    for c in s.readers:
        if c.mode == "subscribe":
            modes[c.group] = c.mode
        else:
            modes.update({f"{c.name}/{i}": c.mode for i in range(1, c.members + 1)})
    return modes


def _counts(s: Scenario) -> Iterator[Term]:
    open_zeros = unpromised(s)
    for line in contract(s).lines:
        kind, split = line.kind, line.split
        phrases = PHRASES[kind, split]
        name = phrases.absent if line.bound.max == 0 else phrases.present
        term = Term(phrases.rule, f"{kind}_{split}" if split else kind, name, kind, split=split)
        undecided = line.reason if line.state == "not decided" else ""
        term = replace(term, undecided=undecided, unpromised=open_zeros.get((kind, split), ""))
        yield from _bounded(line.bound, term)


def _times(s: Scenario) -> Iterator[Term]:
    for (metric, stat), limit_s in s.expect.times().items():
        limit_us = round(limit_s * 1_000_000)
        yield Term(
            METRICS[metric].rule,
            f"{metric}_{stat}",
            f"{METRICS[metric].name}, {PERCENTILES[stat]}",
            check=metric,
            split=stat,
            expected=f"{stat} ≤ {duration(limit_us)}",
            at_most=limit_us,
        )


def _sends(s: Scenario) -> Iterator[Term]:
    for outcome, name, bound in (
        ("fail", "Sends that failed", s.expect.send_failures.fail),
        ("unknown", "Sends of unknown outcome", s.expect.send_failures.unknown),
    ):
        term = Term("SendFailures", f"send_failures_{outcome}", name, "send_failures", split=outcome)
        yield from _bounded(bound, term)
    if (success := s.expect.send_success) is not None:
        share, window = format_percent(success.min), duration(round(success.per * 1_000_000))
        name, expected = f"Share of acknowledged sends, lowest of all windows of {window}", f"at least {share}"
        yield Term("SendSuccess", "send_success", name, "send_success", expected, at_least=success.min)


def _groups(s: Scenario) -> Iterator[Term]:
    """Columns have numbers, because a group id may contain characters that a column name may not."""
    for i, (group, bound) in enumerate(s.expect.groups.items(), start=1):
        for rule, split, name, limit in (
            ("GroupMembers", "members", "most members at once", bound.members),
            ("Rebalances", "rebalances", "rebalances", bound.rebalances),
        ):
            term = Term(rule, f"group_{i}_{split}", f"Group {group}: {name}", "groups", split=split, scope=group)
            yield from _bounded(limit, term)


def _client_errors(s: Scenario) -> Iterator[Term]:
    """Columns have numbers, because an error may contain any character. `split` is the text of the error."""
    for i, (entry, bounds) in enumerate(s.expect.client_errors.items(), start=1):
        for j, (text, bound) in enumerate(bounds.items(), start=1):
            name, column = f"Clients of {entry} that report {text}", f"client_errors_{i}_{j}"
            yield from _bounded(bound, Term("ClientErrors", column, name, "client_errors", split=text, scope=entry))


def _superseded(s: Scenario) -> Iterator[Term]:
    """Yield a term for each compacted topic: the bound of the scenario, else a condition that compaction took place."""
    for i, topic in enumerate(sorted(s.compacted | set(s.expect.superseded)), start=1):
        name = f"Compaction removed superseded records of {topic}"
        term = Term("SupersededRecords", f"superseded_{i}", name, "superseded", scope=topic)
        if topic in s.expect.expired_tombstones:
            name = f"Tombstones of {topic} expired"
            expired = Term("ExpiredTombstones", f"expired_{i}", name, "expired_tombstones", scope=topic)
            yield from _bounded(s.expect.expired_tombstones[topic], expired)
        if topic in s.expect.superseded:
            yield from _bounded(s.expect.superseded[topic], term)
        else:
            yield replace(term, expected="at least 1", at_least=1, condition=True)


def _racks(s: Scenario) -> Iterator[Term]:
    """Yield a condition for each entry with a rack: it read from the replicas there."""
    for i, entry in enumerate([c for c in s.readers if c.rack], start=1):
        name = f"Consumer {entry.name} read from rack {entry.rack}"
        expected = "more than half of its fetches"
        yield Term(
            "RackFetches", f"rack_{i}_fetches", name, "rack_fetches", expected, "", entry.name, 51, condition=True
        )


def _bounded(bound: Bound, term: Term) -> Iterator[Term]:
    """Yield the term with a bound of the scenario; nothing if any value is within the bound."""
    if bound.min or bound.max is not None:
        yield replace(term, expected=bound.describe(), at_least=bound.min, at_most=bound.max)


def _conditions(s: Scenario) -> Iterator[Term]:
    for i, fault in enumerate(s.faults, start=1):
        name = f"Fault {fault.name} took effect"
        yield Term("FaultProofs", f"fault_{i}_proofs", name, "fault_proof", "proven", "", fault.name, 1, condition=True)
    yield from _racks(s)
    whole, read, happened, total = "ledger_complete", "log_read_back", "something_happened", partition_count(s)
    rows = (
        ("StagesBrokenOff", "stages_broken_off", "The drive completed", "drive_completed", "", 0, 0),
        ("RowsMissingFromAudit", "rows_missing", "Every row of the ledger was audited", whole, "rows", 0, 0),
        ("UnexplainedTornBytes", "torn_bytes", "No ledger file is torn unexpectedly", whole, "torn", 0, 0),
        ("UnexpectedClientDeaths", "client_deaths", "No client died unexpectedly", "clients_lived", "", 0, 0),
        ("DoubledIncarnations", "doubled_incarnations", "Each incarnation is one process", whole, "incarnations", 0, 0),
        ("PartitionsReadBack", "partitions_read_back", "The final log was read back", read, "", total, total),
        ("RecordsSent", "records_sent", "The producers sent all records", happened, "sent", planned_sends(s), None),
        ("RecordsAcknowledged", "records_acked", "Every topic has acknowledged records", happened, "acked", 1, None),
        ("RecordsDelivered", "records_delivered", "Every reader received records", happened, "delivered", 1, None),
    )
    for rule, column, name, check, split, least, most in rows if s.consumers else rows[:-1]:
        expected = f"at least {least:,}" if most is None else f"{most:,}"
        yield Term(rule, column, name, check, expected, split, "", least, most, condition=True)


def duration(us: int) -> str:
    """Format microseconds, such as `812 ms`, `9.8 s`, `15 s` or `2 min 5 s`."""
    if us < 1_000:
        return f"{us} us"
    if us < 999_500:
        return f"{us / 1_000:.3g} ms"
    if us < 119_950_000:
        return f"{round(us / 1_000_000, 1 if us >= 10_000_000 else 2):g} s"
    minutes, seconds = divmod(round(us / 1_000_000), 60)
    return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"
