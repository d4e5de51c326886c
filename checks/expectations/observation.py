"""The observed value of a term, and counts, durations and lists in the form that expectations show."""

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


def count_of(count: int, examined: int, noun: str) -> str:
    """Return a count beside the number of rows examined, such as `0 of 40,000 acknowledged records`."""
    return f"{count:,} of {examined:,} {noun}"


def duration(us: int) -> str:
    """Format microseconds, such as `812 ms`, `9.8 s`, `15 s` or `2 min 5 s`."""
    if us < 1_000:
        return f"{us} us"
    if us < 999_500:
        return f"{us / 1_000:.3g} ms"
    if us < 119_950_000:
        return f"{round(us / 1_000_000, 1 if us >= 10_000_000 else 2):g} s"
    minutes, seconds = divmod(round(us / 1_000_000), 60)
    return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"


def listed(items: list[str], most: int = 3) -> str:
    """Join the first `most` items and add the number of the others."""
    more = len(items) - most
    return ", ".join(items[:most]) + (f" and {more} more" if more > 0 else "")
