"""The algorithms of `shrink` and `bisect`. They are pure: what is seen, a function tells them.

Shrinking is delta debugging: A. Zeller and R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE
Transactions on Software Engineering 28(2), 2002 (`ddmin`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

T = TypeVar("T")


def ddmin(parts: Sequence[T], stays: Callable[[Sequence[T]], bool]) -> list[T]:
    """The parts that are needed: leaving out any single one of those returned makes `stays` false (1-minimal).

    `stays` is asked whether what is looked for is still there with only these parts, in their order; with all of them
    it is taken to be. Complements are asked about before the pieces themselves: what an anomaly takes is mostly several
    things at once, so that a small piece alone is mostly a run for nothing. What was asked once is not asked again.
    Whatever `stays` raises ends the search.
    """
    asked: dict[tuple[int, ...], bool] = {}

    def there(numbers: Sequence[int]) -> bool:
        key = tuple(numbers)
        if key not in asked:
            asked[key] = stays([parts[i] for i in numbers])
        return asked[key]

    left = list(range(len(parts)))
    if left and there([]):  # the commonest case, and the cheapest question
        return []
    pieces = 2
    while len(left) > 1:
        cuts = [left[i * len(left) // pieces : (i + 1) * len(left) // pieces] for i in range(pieces)]
        complements = [[n for n in left if n not in set(cut)] for cut in cuts]
        if smaller := next((rest for rest in complements if rest and there(rest)), None):
            left, pieces = smaller, max(pieces - 1, 2)
        elif pieces == len(left):  # 1-minimal
            break
        elif smaller := next((cut for cut in cuts if there(cut)), None):
            left, pieces = smaller, 2
        else:
            pieces = min(len(left), 2 * pieces)
    return [parts[i] for i in left]


def smallest(first: int, low: int, stays: Callable[[int], bool]) -> int:
    """The smallest of the numbers from `low` to `first` with which `stays` holds, if it holds from there on upwards.

    `first` is known to do. Halves first, for whatever is tried is cheaper the smaller it is, and stops where a step
    would save less than an eighth.
    """
    good, bad = first, low - 1
    while good - bad > max(1, good // 8):
        middle = max(low, (good + bad) // 2)
        if stays(middle):
            good = middle
        else:
            bad = middle
    return good


State = Literal["old", "new", "skip"]


@dataclass
class Change:
    """Where something changed in an ordered list: between `last_old` and `first_new`, which are places in the list.

    `between` are those in the middle that could not tell; without any, `first_new` is the first with the change.
    """

    last_old: int
    first_new: int
    between: list[int] = field(default_factory=list)


def first_change(count: int, state: Callable[[int], State]) -> Change:
    """Find the first of `count` places that is new, where the first is known to be old and the last one new.

    One that cannot tell is skipped, and the nearest to the middle that was not tried yet is asked, as `git bisect skip`
    does.
    """
    old, new = 0, count - 1
    skipped: set[int] = set()
    while True:
        open_ = [i for i in range(old + 1, new) if i not in skipped]
        if not open_:
            return Change(old, new, sorted(i for i in skipped if old < i < new))
        middle = (old + new) / 2
        place = min(open_, key=lambda i: (abs(i - middle), i))
        found = state(place)
        if found == "old":
            old = place
        elif found == "new":
            new = place
        else:
            skipped.add(place)
