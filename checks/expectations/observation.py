"""The observed value of one term of the contract."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Observation:
    """The value that GX compares with the bounds of a term, and its explanation.

    value: None if nothing was observed. text: the value for people. reason: the evidence behind the value, shown if
    the bounds do not hold; without a value, what is missing and what to change.
    """

    value: int | None
    text: str
    reason: str = ""

    @classmethod
    def missing(cls, text: str, reason: str) -> Observation:
        """Return an observation without a value."""
        return cls(None, text, reason)
