"""The Great Expectations classes: one per kind of term, so that a suite and its Data Docs read as the contract.

Each class bounds one column of the summary row. The maximum of a column of one row is its value, and GX computes all
column aggregates of a batch in one Spark job. The audit holds the logic; GX states, runs and publishes the rules.
"""

from __future__ import annotations

from typing import Any

from great_expectations.expectations.core import ExpectColumnMaxToBeBetween

from chaos.anomalies import ANOMALIES, METRICS, PHRASES

_MEANINGS = {
    **{phrases.rule: f"Number of findings: {ANOMALIES[check].meaning}." for (check, _), phrases in PHRASES.items()},
    **{metric.rule: f"Time {metric.meaning}." for metric in METRICS.values()},
    "GroupMembers": "Highest number of members that the coordinator reported at one time.",
    "Rebalances": "Generations of a group after it had first formed.",
    "ClientErrors": "Clients of an entry that reported an error with the given text.",
    "FaultProofs": "A fault took effect: a change was observed from outside the injector.",
    "StagesBrokenOff": "Stages of the drive that failed or never ended.",
    "RowsMissingFromAudit": "Rows of the ledger that the audit did not read.",
    "UnexplainedTornBytes": "Torn bytes in ledger files of clients that were not killed on purpose.",
    "UnexpectedClientDeaths": "Clients that died although no fault killed them.",
    "DoubledIncarnations": "Incarnations of a client that were started more than once.",
    "PartitionsReadBack": "Partitions of the final log that were read back.",
    "RecordsSent": "Records that the producers sent, whatever their outcome.",
    "RecordsAcknowledged": "Acknowledged records of the topic with the fewest.",
    "RecordsDelivered": "Delivered records of the reader with the fewest.",
}


def _expectation_class(rule: str, meaning: str) -> Any:
    name = f"Expect{rule}ToBeBetween"
    return type(name, (ExpectColumnMaxToBeBetween,), {"__module__": __name__, "__doc__": meaning})


CLASSES: dict[str, Any] = {cls.__name__: cls for cls in (_expectation_class(*item) for item in _MEANINGS.items())}
"""The GX classes by name; `Term.gx_class` gives the name."""
