"""Expectations with links to their evidence and advice for undecided ones, and the measured times as rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from chaos.anomalies import ANOMALIES, METRICS
from chaos.run.result import WORST_FIRST, Expectation, Metric, Result
from checks.report.mechanisms import Mechanism
from checks.report.tables import Tables
from checks.report.text import count
from checks.report.timeline import Picture


def worst_first(expectations: Sequence[Expectation]) -> list[Expectation]:
    """Return failed expectations first, then inconclusive ones."""
    return sorted(expectations, key=lambda e: WORST_FIRST.index(e.verdict))


def evidence_link(e: Expectation, result: Result, groups: Sequence[Mechanism], picture: Picture) -> tuple[str, str]:
    """Return the address and the text of the link from an expectation to its evidence."""
    if e.check in ANOMALIES:
        for group in groups:
            if any(k.check == e.check and (not e.split or k.split == e.split) for k in group.kinds):
                return f"#{group.key}", "rows"
        examined = [t.examined for t in result.totals if t.check == e.check and e.split in ("", t.split)]
        return "#counted", f"{count(sum(examined), 'row')} examined" if examined else "counts"
    if e.check in METRICS:
        name = {"ack_latency": "latency:ack", "end_to_end_latency": "latency:end_to_end"}.get(e.check)
        lane = next((lane for lane in picture.lanes() if name and lane.key.startswith(name)), None)
        return (f"#lane-{lane.number}", "lane") if lane else ("#times", "times")
    if e.check == "fault_proof":
        fault = next((i for i, f in enumerate(result.faults) if f.name in (e.scope, e.name)), None)
        return ("#faults", "faults") if fault is None else (f"#fault-{fault}", "proof")
    if e.check == "groups":
        lane = next((lane for lane in picture.lanes() if lane.key.startswith(f"owner:{e.scope}:")), None)
        return (f"#lane-{lane.number}", "lane") if lane else ("#story", "story")
    return "#measured", "measurement"


@dataclass
class Times:
    """Statistics of one metric in one scope, in microseconds."""

    metric: str
    scope: str
    fault: str
    stats: dict[str, int] = field(default_factory=dict)


def measured(metrics: Sequence[Metric]) -> list[Times]:
    """Return the times, one row for each metric, scope and fault."""
    rows: dict[tuple[str, str, str], Times] = {}
    for m in metrics:
        row = rows.setdefault((m.metric, m.scope, m.fault), Times(m.metric, m.scope, m.fault))
        row.stats[m.stat] = m.value_us
    return list(rows.values())


ADVICE: dict[str, str] = {
    "fault_proof": "Let the fault last longer (heal), give its proof more time (limits.proof), or change its target.",
    "ledger_complete": "See under “How it was measured” which file was torn or unread, and why; then run again.",
    "clients_lived": "Read the log of the client that died; no fault killed it, so its death shows nothing of Kafka.",
    "log_read_back": "The cluster must be healed and reachable for the read-back: see the brokers' logs.",
    "something_happened": "Send more records, or send them slower, so that some pass while the fault is in effect.",
    "client_errors": "The clients were not started, or their ledger is missing: see events.jsonl; then run again.",
    "groups": "Give the group more time to form (limits.clients), or start fewer members.",
}
_METRIC = (
    "The time could not be measured: no operation before the fault, or none after it. Send longer, or heal earlier."
)
_ANOMALY = "The check could not be completed: see its reason, and the stages that failed."


def advice(e: Expectation) -> str:
    """Return what to change so that an expectation can be decided, where its reason does not include it."""
    return ADVICE.get(e.check, _METRIC if e.check in METRICS else _ANOMALY)


def undecided(result: Result) -> list[Expectation]:
    """Return the expectations that could not be decided."""
    return [e for e in result.expectations if e.verdict == "inconclusive"]


def gaps(result: Result, tables: Tables) -> list[str]:
    """Return the problems of the run that no expectation mentions, then the tables that could not be read."""
    mentioned = {e.why for e in undecided(result)}
    return [*(p for p in result.problems if p not in mentioned), *tables.missing]
