"""From the observed value of a term and the outcome of its GX rule to its verdict; pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from chaos.run.result import NOT_APPLICABLE, Expectation, Verdict
from checks.expectations.contract import Term

LIVED, COMPLETED = "clients_lived", "drive_completed"
PLATFORM = (COMPLETED, "something_happened", "rack_fetches", "fault_proof", "ledger_complete")
"""Conditions that a client's death may leave unmet."""
FOLLOWS = "follows from the death of "
"""How the reason of an expectation begins that is not decided because clients died."""
_APART = {("log_read_back", ""), ("ledger_complete", "rows"), ("ledger_complete", "incarnations")}
"""Conditions with causes apart from a client's death."""


@dataclass(frozen=True)
class Observation:
    """The value that GX compares with the bounds of a term, and its explanation.

    value: None if nothing was observed. text: the value for people. reason: the evidence behind the value, shown if
    the bounds do not hold; without a value, what is missing and what to change. proven: whether the evidence shows that
    the case did not occur in which the settings would allow the anomaly; see `Term.undecided`. applies: whether the
    scenario has anything to examine; GX does not see the term if not.
    """

    value: int | None
    text: str
    reason: str = ""
    proven: bool = False
    applies: bool = True

    @classmethod
    def nothing(cls, reason: str) -> Observation:
        """Return the observation of a term about what the scenario does not contain."""
        return cls(None, "nothing to examine", reason, applies=False)

    @classmethod
    def missing(cls, text: str, reason: str) -> Observation:
        """Return an observation without a value."""
        return cls(None, text, reason)


@dataclass(frozen=True)
class Outcome:
    """Outcome of one GX rule. observed: the value that GX compared; exception: why the rule could not be evaluated."""

    success: bool
    observed: int | None
    exception: str = ""


def judge(evaluated: list[tuple[Term, Observation, Outcome]]) -> list[Expectation]:
    """Return the expectation of each term, with its verdict.

    A rule that GX could not evaluate is inconclusive, never a violation. So is a condition of the platform that does
    not hold. A term that does not apply has no verdict. A demanded anomaly that did not appear fails the run only if
    all conditions hold: if a fault had no effect, there was nothing to expect. A pass that the settings do not promise
    says so.
    """
    unmet = [term.name for term, _, outcome in evaluated if term.condition and not outcome.success]
    expectations = []
    for term, observation, outcome in evaluated:
        verdict, why = _verdict(term, observation, outcome, unmet)
        expectations.append(
            Expectation(
                name=term.name,
                check=term.check,
                split=term.split,
                scope=term.scope,
                expected=term.expected,
                seen=observation.text,
                verdict=verdict,
                why=why,
            )
        )
    return _fold(expectations)


def death(expectations: Iterable[Expectation]) -> str:
    """Return the words of the clients with a death that ended the drive; empty if none did."""
    unmet = {e.check: e.why for e in expectations if e.verdict == "inconclusive"}
    return unmet[LIVED] if {LIVED, COMPLETED} <= unmet.keys() else ""


def _fold(expectations: list[Expectation]) -> list[Expectation]:
    """Replace the reasons, and the advice in them, that only follow from the death of clients that ended the drive."""
    if not (died := death(expectations)):
        return expectations
    follows = f"{FOLLOWS}{died.partition(' died:')[0]}"
    undecided = [e for e in expectations if e.verdict == "inconclusive"]
    sound = not any((e.check, e.split) in _APART or "clock" in e.why for e in undecided)
    for e in undecided:
        platform = e.check in PLATFORM
        own_cause = e.seen == "failed" and " died" not in e.why  # a fault that could not be injected
        if e.check != LIVED and (e.check, e.split) not in _APART and (platform or sound) and not own_cause:
            e.why = follows
    return expectations


def _verdict(
    term: Term, observation: Observation, outcome: Outcome, unmet: list[str]
) -> tuple[Verdict | Literal["not applicable"], str]:
    value, reason = observation.value, observation.reason
    if not observation.applies:
        return NOT_APPLICABLE, reason
    if value is None:
        return "inconclusive", reason
    if outcome.exception or outcome.observed is None:
        error = outcome.exception or "Great Expectations returned no value"
        return "inconclusive", f"the rule could not be evaluated: {error}; look at logs/checks.log and validate again"
    if outcome.observed != value:
        return "inconclusive", f"Great Expectations compared {outcome.observed}, not {value}: report this as a bug"
    if outcome.success:
        return "pass", term.unpromised
    if term.condition:
        return "inconclusive", reason
    if value < term.at_least and unmet:
        return "inconclusive", f"{reason}; this is no violation, because a condition does not hold: {unmet[0]}"
    if term.undecided and not observation.proven:
        advice = f"to decide it, give {term.check} in `expect`, as in expect: {{promised: true, {term.check}: 0}}"
        return "inconclusive", f"{reason}; the settings do not say whether this is legal: {term.undecided}; {advice}"
    return "fail", reason


def listed(items: list[str], most: int = 3) -> str:
    """Join the first `most` items and add the number of the others."""
    more = len(items) - most
    return ", ".join(items[:most]) + (f" and {more} more" if more > 0 else "")
