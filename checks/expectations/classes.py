"""The GX expectation classes: one for each kind of term, so that a suite and its Data Docs read as the contract.

Each bounds one column of the summary row. The maximum of a column of one row is its value, and GX bundles all column
aggregates of a batch into one Spark job. The logic stays in the audit; GX states, runs and publishes the rules.
"""

from __future__ import annotations

from typing import Any

from great_expectations.expectations.core import ExpectColumnMaxToBeBetween

from chaos.anomalies import ANOMALIES, METRICS
from checks.expectations.words import FINDINGS, TIMES

_STATED = {
    **{words.rule: f"How often: {ANOMALIES[kind].meaning}." for (kind, _), words in FINDINGS.items()},
    **{rule: f"Time {METRICS[metric]}." for metric, (rule, _) in TIMES.items()},
    "GroupMembers": "The most members that the coordinator showed at once.",
    "Rebalances": "Generations of a group after it had first formed.",
    "ClientErrors": "Clients of an entry that reported an error with the given words.",
    "FaultProofs": "A fault took effect: a change was seen from outside the injector.",
    "StagesBrokenOff": "Stages of the drive that failed or never ended.",
    "RowsMissingFromAudit": "Rows of the ledger that the audit did not take in.",
    "UnexplainedTornBytes": "Torn bytes in ledger files of clients that nobody killed on purpose.",
    "UnexpectedClientDeaths": "Clients that died though no fault asked for it.",
    "DoubledIncarnations": "Incarnations of a client that were started more than once.",
    "PartitionsReadBack": "Partitions of the final log that were read back.",
    "RecordsSent": "Records that the producers sent, whatever became of them.",
    "RecordsAcknowledged": "Acknowledged records, in the topic that has the fewest.",
    "RecordsDelivered": "Delivered records, of the reader that got the fewest.",
}


def _named(rule: str, meaning: str) -> Any:
    name = f"Expect{rule}ToBeBetween"
    return type(name, (ExpectColumnMaxToBeBetween,), {"__module__": __name__, "__doc__": meaning})


CLASSES: dict[str, Any] = {cls.__name__: cls for cls in (_named(*item) for item in _STATED.items())}
"""Each GX class by its name, which `Term.gx_class` gives."""
