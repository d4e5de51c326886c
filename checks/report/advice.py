"""Advice for expectations that could not be decided, where their reason does not include it."""

from __future__ import annotations

from chaos.run.result import Expectation, Result
from checks.report.tables import Tables

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


def advice(expectation: Expectation, metrics: frozenset[str]) -> str:
    """Return what to change so that an expectation can be decided. metrics: the names of all metrics."""
    return ADVICE.get(expectation.check, _METRIC if expectation.check in metrics else _ANOMALY)


def undecided(result: Result) -> list[Expectation]:
    """Return the expectations that could not be decided."""
    return [e for e in result.expectations if e.verdict == "inconclusive"]


def gaps(result: Result, tables: Tables) -> list[str]:
    """Return the problems of the run that no expectation mentions, then the tables that could not be read."""
    mentioned = {e.why for e in undecided(result)}
    return [*(p for p in result.problems if p not in mentioned), *tables.missing]
