"""The search algorithms of `shrink` and `bisect`: pure functions that test candidates through a callback.

Shrinking is delta debugging: A. Zeller and R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE
Transactions on Software Engineering 28(2), 2002 (`ddmin`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

T = TypeVar("T")


def ddmin(parts: Sequence[T], remains: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return a 1-minimal list of parts: removing any single one makes `remains` false.

    remains: tests an ordered subset of the parts; it is assumed to hold for all of them. Each subset is tested once.
    Complements are tested before the pieces themselves: most anomalies need several parts at once, so a small piece
    rarely shows one. Exceptions of `remains` pass through.
    """
    results: dict[tuple[int, ...], bool] = {}

    def holds(numbers: Sequence[int]) -> bool:
        key = tuple(numbers)
        if key not in results:
            results[key] = remains([parts[i] for i in numbers])
        return results[key]

    left = list(range(len(parts)))
    if left and holds([]):  # the most frequent case, and the cheapest test
        return []
    pieces = 2
    while len(left) > 1:
        cuts = [left[i * len(left) // pieces : (i + 1) * len(left) // pieces] for i in range(pieces)]
        complements = [[n for n in left if n not in set(cut)] for cut in cuts]
        if smaller := next((rest for rest in complements if rest and holds(rest)), None):
            left, pieces = smaller, max(pieces - 1, 2)
        elif pieces == len(left):  # 1-minimal
            break
        elif smaller := next((cut for cut in cuts if holds(cut)), None):
            left, pieces = smaller, 2
        else:
            pieces = min(len(left), 2 * pieces)
    return [parts[i] for i in left]


def smallest(first: int, low: int, remains: Callable[[int], bool]) -> int:
    """Return the smallest number in `low` to `first` for which a monotonic `remains` holds; it holds for `first`.

    The search halves the range and stops when a step would save less than an eighth: the result is approximate.
    """
    good, bad = first, low - 1
    while good - bad > max(1, good // 8):
        middle = max(low, (good + bad) // 2)
        if remains(middle):
            good = middle
        else:
            bad = middle
    return good


State = Literal["old", "new", "skip"]


@dataclass
class Change:
    """The location of a change in an ordered list: between the indices `last_old` and `first_new`.

    between: the skipped indices between them; if empty, `first_new` is the first with the change.
    """

    last_old: int
    first_new: int
    between: list[int] = field(default_factory=list)


def first_change(count: int, state: Callable[[int], State]) -> Change:
    """Find the first new one of `count` indices; the first index is old, and the last one is new.

    After a skipped index, the untested one nearest to the middle follows, as with `git bisect skip`.
    """
    old, new = 0, count - 1
    skipped: set[int] = set()
    while True:
        untested = [i for i in range(old + 1, new) if i not in skipped]
        if not untested:
            return Change(old, new, sorted(i for i in skipped if old < i < new))
        middle = (old + new) / 2
        index = min(untested, key=lambda i: (abs(i - middle), i))
        match state(index):
            case "old":
                old = index
            case "new":
                new = index
            case "skip":
                skipped.add(index)
