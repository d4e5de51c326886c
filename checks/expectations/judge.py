"""From what Great Expectations found about a term to its verdict; pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from chaos.run.result import FOLLOWS, NOT_APPLICABLE, Expectation, Verdict
from checks.expectations.contract import Term

LIVED, COMPLETED = "clients_lived", "drive_completed"
PLATFORM = (COMPLETED, "something_happened", "rack_fetches", "fault_proof", "ledger_complete")
"""Conditions that a client's death may leave unmet."""
NOTHING_ACKED = "no record was acknowledged"
SAW_NOTHING = "the check saw nothing"
NEVER_INJECTED = "was never injected: its trigger (at "
"""How reasons begin, or what they contain, that may follow from the failure of all sends."""
_APART = {("log_read_back", ""), ("ledger_complete", "rows"), ("ledger_complete", "incarnations")}
"""Conditions with causes apart from a client's death."""


@dataclass(frozen=True)
class Observation:
    """What is known about the value of a term before it is compared with its bounds.

    value: for the table `observations`; the other tables hold their own. text: the value for people. reason: the
    evidence behind the value, shown if the bounds do not hold. unsettled: the reason if rows that could not be decided
    make the difference. unknown: why the tables do not give the value, and what to change. proven: whether the evidence
    shows that the case did not occur in which the settings would allow the anomaly; see `Term.undecided`. applies:
    whether the scenario has anything to examine; the term is in no suite if not. without_id: rows without an id among
    which an effect may be.
    """

    value: int | None
    text: str
    reason: str = ""
    unsettled: str = ""
    unknown: str = ""
    proven: bool = False
    applies: bool = True
    without_id: int = 0

    @classmethod
    def nothing(cls, reason: str) -> Observation:
        """Return the observation of a term about what the scenario does not contain."""
        return cls(None, "nothing to examine", reason, applies=False)

    @classmethod
    def missing(cls, text: str, reason: str) -> Observation:
        """Return an observation without a value."""
        return cls(None, text, unknown=reason)


@dataclass(frozen=True)
class Outcome:
    """The result of one expectation.

    success: the value lies between its bounds. violated: it certainly does not. breaks: a violation breaks the contract
    (the severity `critical`); otherwise it makes the run inconclusive. least: the least possible value, if known.
    exception: why the expectation could not be evaluated.
    """

    success: bool = False
    violated: bool = False
    breaks: bool = True
    least: int | None = None
    exception: str = ""


def judge(evaluated: list[tuple[Term, Observation, Outcome]]) -> list[Expectation]:
    """Return the expectation of each term, with its verdict.

    What could not be evaluated is inconclusive, never a violation. So is a condition of the platform that does not
    hold. A term that does not apply has no verdict. A demanded anomaly that did not appear fails the run only if
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
    """Replace the reasons, and the advice in them, that only follow from one cause.

    That is the death of clients that ended the drive, else its end before the first send, else the failure of all
    sends.
    """
    undecided = [e for e in expectations if e.verdict == "inconclusive"]
    seen = {(e.check, e.split): e.seen for e in undecided}
    if died := death(expectations):
        root, follows = LIVED, f"{FOLLOWS}the death of {died.partition(' died:')[0]}"
    elif (COMPLETED, "") in seen and seen.get(("something_happened", "sent")) == "0":
        root, follows = COMPLETED, f"{FOLLOWS}the early end of the drive"
    else:
        return _fold_unsent(expectations)
    sound = not any((e.check, e.split) in _APART or "clock" in e.why for e in undecided)
    for e in undecided:
        platform = e.check in PLATFORM
        own_cause = e.seen == "failed" and " died" not in e.why  # a fault that could not be injected
        if e.check != root and (e.check, e.split) not in _APART and (platform or sound) and not own_cause:
            e.why = follows
    return expectations


def _fold_unsent(expectations: list[Expectation]) -> list[Expectation]:
    """Replace the reasons that only follow from the failure of all sends: nothing to examine, to read and to await."""
    undecided = [e for e in expectations if e.verdict == "inconclusive"]
    if any(e.why.startswith(NOTHING_ACKED) for e in undecided):
        for e in undecided:
            unread = (e.check, e.split) == ("something_happened", "delivered")
            if unread or e.why.startswith(SAW_NOTHING) or (NEVER_INJECTED in e.why and " acknowledged " in e.why):
                e.why = f"{FOLLOWS}the failure of all sends"
    return expectations


def _verdict(
    term: Term, observation: Observation, outcome: Outcome, unmet: list[str]
) -> tuple[Verdict | Literal["not applicable"], str]:
    reason = observation.reason
    if not observation.applies:
        return NOT_APPLICABLE, reason
    if observation.unknown:
        return "inconclusive", observation.unknown
    if outcome.success:
        return "pass", term.unpromised
    if not outcome.violated:
        error = outcome.exception or "the tables of the audit have no value of it"
        evaluate = f"the rule could not be evaluated: {error}; look at logs/checks.log and validate again"
        return "inconclusive", observation.unsettled if outcome.least is not None else evaluate
    if term.condition:
        return "inconclusive", reason
    if unmet and outcome.least is not None and outcome.least < term.at_least:
        return "inconclusive", f"{reason}; this is no violation, because a condition does not hold: {unmet[0]}"
    if not outcome.breaks:
        advice = f"to decide it, give {term.check} in `expect`, as in expect: {{promised: true, {term.check}: 0}}"
        return "inconclusive", f"{reason}; the settings do not say whether this is legal: {term.undecided}; {advice}"
    return "fail", reason


def listed(items: list[str], most: int = 3) -> str:
    """Join the first `most` items and add the number of the others."""
    more = len(items) - most
    return ", ".join(items[:most]) + (f" and {more} more" if more > 0 else "")
