"""From the outcome of one rule in GX to an expectation with its verdict."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.run.result import Expectation, Verdict
from checks.expectations.contract import Term
from checks.expectations.seen import Seen


@dataclass(frozen=True)
class Outcome:
    """What GX said of one rule: whether it held, on which value, and the exception if it could not tell."""

    success: bool
    observed: int | None
    exception: str = ""


def judge(found: list[tuple[Term, Seen, Outcome]]) -> list[Expectation]:
    """A verdict for each term.

    What GX could not evaluate is inconclusive, never a violation. A platform condition that is not met proves nothing
    either way. A demanded anomaly that did not appear fails the run only if all conditions are met: beside a fault
    without effect nothing could be expected to appear.
    """
    unmet = [term.name for term, _, outcome in found if term.condition and not outcome.success]
    return [_expectation(term, seen, outcome, unmet) for term, seen, outcome in found]


def _expectation(term: Term, seen: Seen, outcome: Outcome, unmet: list[str]) -> Expectation:
    verdict, why = _verdict(term, seen, outcome, unmet)
    return Expectation(
        name=term.name,
        check=term.check,
        split=term.split,
        scope=term.scope,
        expected=term.expected,
        seen=seen.words,
        verdict=verdict,
        why=why,
    )


def _verdict(term: Term, seen: Seen, outcome: Outcome, unmet: list[str]) -> tuple[Verdict, str]:
    if seen.value is None:
        return "inconclusive", seen.why
    if outcome.exception or outcome.observed is None:
        reason = outcome.exception or "Great Expectations observed no value"
        return "inconclusive", f"the rule could not be evaluated: {reason}; look at logs/checks.log and validate again"
    if outcome.observed != seen.value:
        return "inconclusive", f"Great Expectations saw {outcome.observed}, not {seen.value}: report this as a bug"
    if outcome.success:
        return "pass", ""
    if term.condition:
        return "inconclusive", seen.why
    if seen.value < term.at_least and unmet:
        return "inconclusive", f"{seen.why}; that was to be expected, for this does not hold: {unmet[0]}"
    return "fail", seen.why
