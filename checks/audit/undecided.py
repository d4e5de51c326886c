"""Reasons for which a rule cannot decide a row, each with what decides it in another run, if anything does.

These are the reasons of several modules. A reason of one module stands there.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """A reason. why: why rows are undecided, as a clause; advice: what to change, empty if nothing helps."""

    why: str
    advice: str = ""


COMMITS = "commits"
"""In table `undecided`, in place of a check: the commits of unknown outcome that every check leaves out."""

UNREAD = Reason("their partition is not in the log that was read back")
SEVERAL_LIVES = Reason(
    "their topic was deleted and created again at that time, and neither the final log nor offsets show which of the "
    "topics they belong to"
)
NO_END = Reason("their producer did not learn the end of a transaction that may concern them")
OPEN = Reason(
    "a transaction was open when the log was read back, so whether readers see its records is unknown",
    "set a transaction.timeout.ms that ends it before the run does",
)
NO_BEGIN = Reason("where their reader began is unknown")
