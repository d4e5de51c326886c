"""The table `anomalies`: the findings to show, each with its mechanism as one sentence.

A sentence states what was observed, never what is likely. Only capped findings are explained, on the driver.
"""

from __future__ import annotations

import json

from checks.audit.engine.tally import FINDINGS, Tally
from checks.audit.findings import UNDETERMINED, Finding, rank
from checks.audit.rules.registry import RULES
from checks.audit.rules.rule import Context

UNKNOWN = "not determined"


def anomaly_rows(tally: Tally, context: Context) -> list[Finding]:
    """Return table `anomalies`."""
    findings = sorted((f for _, (_, rows) in tally.each(FINDINGS) for f in rows), key=rank)
    return [_explained(f, context) for f in findings if f["split"] != UNDETERMINED]


def _explained(finding: Finding, context: Context) -> Finding:
    evidence = json.loads(finding["evidence"])
    sentence = RULES[finding["check"]].explain(finding, evidence, context)
    return finding | {"mechanism": sentence or UNKNOWN, "evidence": json.dumps(evidence)}
