"""What was seen of one term."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Seen:
    """A number and what it says.

    value: what GX compares, None where there is nothing. words: the number as a person reads it. why: what is behind
    it, shown where the term does not hold; for None, what was missing and what to change.
    """

    value: int | None
    words: str
    why: str = ""


def unseen(words: str, why: str) -> Seen:
    """Nothing was seen."""
    return Seen(None, words, why)
