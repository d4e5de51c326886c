"""The result of a run: one object, from which the report, JUnit and `result.json` are made."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel

Verdict = Literal["pass", "fail", "inconclusive"]

_RANK: dict[Verdict, int] = {"pass": 0, "inconclusive": 1, "fail": 2}


def merge(verdicts: list[Verdict]) -> Verdict:
    """fail > inconclusive > pass. Nothing to merge proves nothing, so it is inconclusive."""
    return max(verdicts, key=_RANK.__getitem__, default="inconclusive")


class Expectation(BaseModel):
    """One expectation: what was expected, what was seen, and where the evidence is.

    check is an anomaly kind, a metric, `groups`, or one of the platform's own (`fault_proof`, `ledger_complete`,
    `clients_lived`, `log_read_back`, `something_happened`); split and scope narrow it.
    """

    name: str
    check: str
    split: str = ""
    scope: str = ""
    expected: str
    seen: str
    verdict: Verdict
    why: str = ""


class FaultOutcome(BaseModel):
    """One fault as it went: target as written and as resolved, phases in us, the proof as a sentence."""

    name: str
    kind: str
    trigger: str
    target: str
    resolved: str = ""
    injected_us: int | None = None
    proven_us: int | None = None
    healed_us: int | None = None
    proof: str = ""
    error: str = ""
    produce_unavailability_us: int | None = None
    consume_unavailability_us: int | None = None


class Finding(BaseModel):
    """One anomaly with every coordinate that is known. Evidence is capped, the counts beside it are exact."""

    check: str
    split: str = ""
    scope: str
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    producer: str | None = None
    incarnation: int | None = None
    seq: int | None = None
    consumer: str | None = None
    at_us: int | None = None
    evidence: dict[str, Any] = {}
    mechanism: str = "not determined"


class ReaderCount(BaseModel):
    """What one reader (a group, or an assign-mode consumer) got: rows, and distinct records."""

    reader: str
    mode: str
    delivered: int
    distinct: int


class Counts(BaseModel):
    """The numbers beside the verdict. rows_read = rows_audited + rows_unreadable, or the run is inconclusive."""

    sent: int = 0
    acked: int = 0
    failed: int = 0
    unknown: int = 0
    in_log: int = 0
    readers: list[ReaderCount] = []
    rows_read: int = 0
    rows_audited: int = 0
    torn_bytes: int = 0


class Count(BaseModel):
    """An exact count of one check in one scope, with the number of rows that were examined for it."""

    check: str
    split: str = ""
    scope: str
    count: int
    examined: int


class Metric(BaseModel):
    """One measured time: statistic (count, p50, p95, p99, max) of a metric in a scope, for a fault where it has one."""

    metric: str
    scope: str
    fault: str = ""
    stat: str
    value_us: int


class Judged(BaseModel):
    """What is judged, whether one run or several side by side: which, how it ended, and how it is run again."""

    run_id: str
    run_dir: str
    scenario: str
    title: str
    verdict: Verdict
    sentence: str
    seed: int
    command: str


class Result(Judged):
    """`result.json` of a run: everything a person or a script wants to know of it."""

    versions: dict[str, str]
    began_us: int
    ended_us: int
    stages_s: dict[str, float] = {}
    counts: Counts = Counts()
    expectations: list[Expectation] = []
    faults: list[FaultOutcome] = []
    totals: list[Count] = []
    findings: list[Finding] = []
    metrics: list[Metric] = []
    tolerated: list[str] = []
    problems: list[str] = []
