"""What to change when a run could not tell, where the expectation itself does not say."""

from __future__ import annotations

from chaos.run.result import Expectation, Result
from checks.report.tables import Tables

ADVICE: dict[str, str] = {
    "fault_proof": "Let the fault last longer (heal), give its proof more time (limits.proof), or aim elsewhere.",
    "ledger_complete": "See which file was torn or unread, and why, under “How it was measured”; then run again.",
    "clients_lived": "Read the log of the client that died unasked; its death proves nothing about Kafka.",
    "log_read_back": "The cluster must be healed and reachable for the read-back: see the brokers' logs.",
    "something_happened": "Send more records, or send them slower, so that some pass while the fault is in effect.",
    "client_errors": "The clients were not started, or their ledger is missing: see events.jsonl; then run again.",
    "groups": "Give the group more time to form (limits.clients), or start fewer members.",
}
_METRIC = "The time could not be measured: no operation before, or none after the fault. Send longer, or heal earlier."
_ANOMALY = "The check could not run to its end: see its reason, and the stages that failed."


def advice(expectation: Expectation, metrics: frozenset[str]) -> str:
    """What to change so that an expectation can be decided."""
    return ADVICE.get(expectation.check, _METRIC if expectation.check in metrics else _ANOMALY)


def undecided(result: Result) -> list[Expectation]:
    """The expectations that could not be decided."""
    return [e for e in result.expectations if e.verdict == "inconclusive"]


def gaps(result: Result, tables: Tables) -> list[str]:
    """What was missing altogether: the problems of the run, then the tables that the report could not read."""
    told = {e.why for e in undecided(result)}
    return [*(p for p in result.problems if p not in told), *tables.missing]
