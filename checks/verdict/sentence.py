"""The sentence next to the verdict: violations and missing evidence first, then what the run proved; and the findings
that break nothing, each with its reason. No other module tolerates a finding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from chaos.anomalies import PHRASES, STOPPED_US, UNAVAILABILITY
from chaos.guarantees.contract import contract
from chaos.run.result import EFFECTS, Count, Counts, EffectCount, Expectation, FaultOutcome, Finding, Metric, Verdict
from chaos.scenario.model import Scenario
from checks.effects.findings import describe
from checks.expectations.contract import duration

MOST = 3
NOUNS = frozenset({"kill", "pause", "stop", "crash", "leave", "cut", "jump", "skew", "drift", "upgrade", "downgrade"})
"""Kinds of faults with a last part that is a noun."""
Partitions = Mapping[tuple[str, str], int]
NOTHING: Mapping[tuple[str, str], str] = MappingProxyType({})
LOST = ("lost_write", "")
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
    unpromised: Mapping[tuple[str, str], str] = NOTHING,
    remarks: Sequence[str] = (),
    effects: Sequence[EffectCount] = (),
) -> str:
    """Return the sentence.

    reasons: why the run is inconclusive, if it is. counts: the numbers of sends, if counted. unpromised: see
    `chaos.guarantees.contract.unpromised`. remarks: the longest times without writes or reads, and instances that
    ended by themselves, as sentences. effects: what applications did.
    """
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
        words = f"No verdict: {reason}{more}"
        parts.append(words if words.endswith("?") else f"{words}.")
    passed = {(e.check, e.split): e for e in expectations if e.verdict == "pass"}
    if LOST in passed and sums.get(LOST, 0) == 0:
        parts.append(PHRASES[LOST].describe(0) + ".")
    parts += [text for effect in effects for text in _effect(effect, expectations)]
    if verdict == "pass":
        parts += _unpromised(unpromised, passed, totals)
    if faults:
        proven = sum(f.proven_us is not None for f in faults)
        parts.append(f"{proven} of {len(faults)} fault{'s' if len(faults) > 1 else ''} took effect.")
        late = [f.name for f in faults if f.is_late]
        unhealed = [f.name for f in faults if f.heal_error and f.healed_us is None]
        parts += [f"{', '.join(late)} healed late."] if late else []
        parts += [f"{', '.join(unhealed)} did not heal."] if unhealed else []
    parts += remarks
    parts += _unacknowledged(counts) if counts else []
    reported = {(e.check, e.split) for e in failed}
    parts += [
        _finding(kind, split, count, passed.get((kind, split)), findings)
        for (kind, split), count in sums.items()
        if count and (kind, split) not in reported
    ]
    return " ".join(parts)


def _effect(effect: EffectCount, expectations: Sequence[Expectation]) -> Iterator[str]:
    """Yield what an application did and the scenario allows, or that it did all of its work; nothing of violations."""
    of_effect = [e for e in expectations if e.check == EFFECTS and e.scope == effect.name]
    met = {e.split: e for e in of_effect if e.verdict == "pass"}
    found = [kind for kind, count in effect.counts.items() if count]
    if met and len(met) == len(of_effect) and not (found or effect.undecided or effect.error):
        yield f"Each of {effect.inputs:,} inputs has its effect {effect.name}, once and right."
    for kind in found:
        if kind in met:
            text = describe(kind, effect.counts[kind], effect.inputs, effect.name, (), 0)
            yield f"{text}{_shared_cause(effect, kind)}{_allowed(met[kind])}."


def _shared_cause(effect: EffectCount, kind: str) -> str:
    """Return the cause of effects in brackets, if the wire shows the same one for all listed findings."""
    stories = [s for s in effect.stories if s.kind == kind]
    shared = len(stories) == 1 and stories[0].cause and stories[0].number == len(effect.findings.get(kind, ()))
    return f" ({stories[0].cause})" if shared else ""


def longest_outages(faults: Sequence[FaultOutcome], metrics: Sequence[Metric], partitions: Partitions) -> list[str]:
    """Return the longest time without writes, and that without reads, after a fault that took effect, as a sentence.

    partitions: the counts of `checks.audit.output.metrics.statistics`. Times below `STOPPED_US` are left out.
    """
    proven = {f.name: f for f in faults if f.proven_us is not None}
    found = []
    for metric, what in zip(UNAVAILABILITY, ("writes to", "reads of"), strict=True):
        of_metric = [m for m in metrics if m.metric == metric and m.fault.partition(":")[0] in proven]
        stopped = [m for m in of_metric if m.stat == "max" and m.value_us >= STOPPED_US]
        if not stopped:
            continue
        worst = max(stopped, key=lambda m: m.value_us)
        key = f"{worst.fault}:{worst.scope}"
        total = sum(m.value_us for m in of_metric if (m.stat, m.fault, m.scope) == ("count", worst.fault, worst.scope))
        number = partitions.get((f"{metric}_stopped", key), 0)
        which = f"{number} of {total} partitions" if number else "the partitions"
        where = f"{what} {which} of {worst.scope}" if what == "writes to" else f"{what} {worst.scope} from {which}"
        open_ended = ", until the drive ended," if partitions.get((f"{metric}_unrecovered", key)) else ""
        name, _, step = worst.fault.partition(": ")
        after = _fault(proven[name]) + (f", at broker {step}" if step else "")
        found.append((where, f"for {duration(worst.value_us)}{open_ended}", f" after {after}"))
    if len(found) == 2 and found[0][2] == found[1][2]:
        (where, time, after), (other, other_time, _) = found
        found = [(where, f"{time} and {other} {other_time}", after)]
    return [f"{where[0].upper()}{where[1:]} stood still {time}{after}." for where, time, after in found]


def _fault(fault: FaultOutcome) -> str:
    """Return a fault as text, such as `the kill of broker 2`, or `certificate.rotate of all brokers`."""
    verb = fault.kind.rpartition(".")[2]
    name = f"the {verb}" if verb in NOUNS else fault.kind
    return f"{name} of {fault.resolved or fault.target}"


def _unpromised(
    unpromised: Mapping[tuple[str, str], str],
    passed: Mapping[tuple[str, str], Expectation],
    totals: Iterable[Count],
) -> list[str]:
    """Return that a zero is due to the course of this run, for one kind in full; empty if the settings promise all."""
    counts = Counter[tuple[str, str]]()
    for total in totals:
        if total.examined:
            counts[total.check, total.split] += total.count
    shown = [key for key in unpromised if counts.get(key) == 0 and (key in passed or key == LOST)]
    if not shown:
        return []
    first, *others = shown
    if first == LOST and first in passed:
        parts = [f"That {unpromised[first]}."]
    else:
        parts = [f"{PHRASES[first].absent}: that {unpromised[first]}."]
    if others:
        named = [PHRASES[key].absent[0].lower() + PHRASES[key].absent[1:] for key in others[:MOST]]
        more = f", and {len(others) - MOST} more" if len(others) > MOST else ""
        parts.append(f"Not promised either: {', '.join(named)}{more}.")
    return parts


def _unacknowledged(counts: Counts) -> list[str]:
    """Return sentences about the sends without an acknowledgement, and about timestamps out of bounds."""
    parts = [
        f"{counts.failed:,} failed for good" if counts.failed else "",
        f"{counts.unknown:,} {'has' if counts.unknown == 1 else 'have'} an unknown outcome" if counts.unknown else "",
    ]
    text = " and ".join(filter(None, parts))
    found = [f"Of the records sent, {text}."] if text else []
    if refused := counts.refused_timestamps:
        found.append(f"The brokers refused {refused:,} records: timestamp out of bounds (INVALID_TIMESTAMP).")
    if counts.evicted_by:
        found.append(f"Retention deleted {counts.evicted:,} acknowledged records early ({counts.evicted_by}).")
    return found


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
    if e.check == EFFECTS and e.split.startswith("late"):
        return f"{e.name}: {e.seen}, expected {e.expected}; {e.why}."
    if e.check == EFFECTS:
        return f"{e.why[0].upper()}{e.why[1:]}." if e.expected == "0" else f"{e.why}; expected {e.expected}."
    if (e.check, e.split) not in PHRASES:
        return f"{e.name}: {e.seen}, expected {e.expected}."
    count = sums.get((e.check, e.split), 0)
    text = _described(e.check, e.split, count, findings) + _cause(e.check, e.split, findings)
    return f"{text}." if e.expected == "0" else f"{text}; expected {e.expected}."


def _finding(kind: str, split: str, count: int, met: Expectation | None, findings: list[Finding]) -> str:
    """Return findings that do not fail the run as a sentence."""
    allowed = _allowed(met) if met is not None else ""
    return f"{_described(kind, split, count, findings)}{_cause(kind, split, findings)}{allowed}."


def _allowed(met: Expectation) -> str:
    """Return that a bound which was met allows what was found, or demands it."""
    return ", as the scenario allows" if met.expected.startswith("at most") else ", as the scenario demands"


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
