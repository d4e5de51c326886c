"""The sentence beside the verdict: violations and missing evidence first, then what the run proved; and the findings
that break nothing, each with its reason. No other module tolerates a finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chaos.anomalies import PHRASES
from chaos.contract import contract
from chaos.run.result import Count, Counts, Expectation, FaultOutcome, Finding, Verdict
from chaos.scenario.model import Scenario
from checks.evidence import is_late

MOST = 3
REASONS = {
    ("duplicate_delivery", "legal"): "a group resumes at its committed offset, a job at its checkpoint, so later "
    "records are delivered again (at least once)",
}
"""Findings that the guarantees of Kafka allow; the scenario alone allows all others."""
ORIGINS = ("the committed offset", "its checkpoint", "the given start", "auto.offset.reset", "a seek")
"""Where a reader may begin, as `Epoch.why` says it; the first one without evidence."""
BY_SCENARIO = "the scenario may cause it"

UNKNOWN = "the producer got no response, so their presence in the log is no anomaly, nor is their absence"


def sentence(
    verdict: Verdict,
    expectations: list[Expectation],
    faults: list[FaultOutcome],
    totals: list[Count],
    findings: list[Finding],
    reasons: list[str],
    counts: Counts | None = None,
) -> str:
    """Return the sentence. reasons: why the run is inconclusive, if it is. counts: the numbers of sends, if counted."""
    sums = _sums(totals)
    parts: list[str] = []
    failed = [e for e in expectations if e.verdict == "fail"]
    parts += [_violation(e, sums, findings) for e in failed[:MOST]]
    if len(failed) > MOST:
        parts.append(f"{len(failed) - MOST} more expectations are not met.")
    if verdict == "inconclusive":
        others = len(reasons) - 1
        more = f" (and {others} more reason{'s' if others > 1 else ''})" if others > 0 else ""
        reason = " ".join(reasons[0].split()) if reasons else "nothing was validated"  # it may have several lines
        parts.append(f"No verdict: {reason}{more}.")
    passed = {(e.check, e.split): e for e in expectations if e.verdict == "pass"}
    if ("lost_write", "") in passed and sums.get(("lost_write", ""), 0) == 0:
        parts.append(PHRASES["lost_write", ""].describe(0) + ".")
    if faults:
        proven = sum(f.proven_us is not None for f in faults)
        parts.append(f"{proven} of {len(faults)} fault{'s' if len(faults) > 1 else ''} took effect.")
        late = [f.name for f in faults if is_late(f)]
        unhealed = [f.name for f in faults if f.heal_error and f.healed_us is None]
        parts += [f"{', '.join(late)} healed late."] if late else []
        parts += [f"{', '.join(unhealed)} did not heal."] if unhealed else []
    parts += _unacknowledged(counts) if counts else []
    reported = {(e.check, e.split) for e in failed}
    parts += [
        _finding(kind, split, count, passed.get((kind, split)), findings)
        for (kind, split), count in sums.items()
        if count and (kind, split) not in reported
    ]
    return " ".join(parts)


def _unacknowledged(counts: Counts) -> list[str]:
    """Return the sends without an acknowledgement as a sentence; empty if every send was acknowledged."""
    parts = [
        f"{counts.failed:,} failed for good" if counts.failed else "",
        f"{counts.unknown:,} {'has' if counts.unknown == 1 else 'have'} an unknown outcome" if counts.unknown else "",
    ]
    text = " and ".join(filter(None, parts))
    return [f"Of the records sent, {text}."] if text else []


def _sums(totals: Iterable[Count]) -> dict[tuple[str, str], int]:
    """Return the counts over all scopes, in the order of the registry."""
    sums: dict[tuple[str, str], int] = {}
    for kind in PHRASES:
        counts = [t.count for t in totals if (t.check, t.split) == kind]
        if counts:
            sums[kind] = sum(counts)
    return sums


def _violation(e: Expectation, sums: dict[tuple[str, str], int], findings: list[Finding]) -> str:
    """Return a failed expectation as a sentence."""
    if (e.check, e.split) not in PHRASES:
        return f"{e.name}: {e.seen}, expected {e.expected}."
    count = sums.get((e.check, e.split), 0)
    text = _described(e.check, e.split, count, findings) + _cause(e.check, e.split, findings)
    return f"{text}." if e.expected == "0" else f"{text}; expected {e.expected}."


def _finding(kind: str, split: str, count: int, met: Expectation | None, findings: list[Finding]) -> str:
    """Return findings that do not fail the run as a sentence."""
    allowed = ""
    if met is not None:
        allowed = ", as the scenario allows" if met.expected.startswith("at most") else ", as the scenario demands"
    return f"{_described(kind, split, count, findings)}{_cause(kind, split, findings)}{allowed}."


def _described(kind: str, split: str, count: int, findings: list[Finding]) -> str:
    """Return findings as a sentence without its end, with the start of the readers from the kept ones."""
    whys = {str(f.evidence.get("start_why", "")) for f in findings if (f.check, f.split) == (kind, split)}
    origins = [origin for origin in ORIGINS if any(why.startswith(origin) for why in whys)]
    return PHRASES[kind, split].describe(count, " or ".join(origins) or ORIGINS[0])


def _cause(kind: str, split: str, findings: list[Finding]) -> str:
    """Return the mechanism in brackets, if all kept findings have the same one."""
    causes = {f.mechanism.rstrip(". ") for f in findings if (f.check, f.split) == (kind, split)}
    causes.discard("not determined")
    return f" ({causes.pop()})" if len(causes) == 1 else ""


def tolerated(scenario: Scenario, totals: Sequence[Count], counts: Counts) -> list[str]:
    """Return a line for each kind that was found and is optional, and one for writes of unknown outcome."""
    lines = []
    for term in contract(scenario).lines:
        kind, split, bound = term.kind, term.split, term.bound
        count = sum(t.count for t in totals if (t.check, t.split) == (kind, split))
        if count and not bound.min and bound.holds(count):
            name = f"{kind}: {split}" if split else kind
            by = "the settings" if term.state == "allowed" else "`expect`"
            reason = (term.reason if term.state == "allowed" else "") or REASONS.get((kind, split), BY_SCENARIO)
            lines.append(f"{name}, {count:,} ({bound.describe()} allowed by {by}): {reason}.")
    if counts.unknown:
        lines.append(f"Writes of unknown outcome, {counts.unknown:,}: {UNKNOWN}.")
    return lines
