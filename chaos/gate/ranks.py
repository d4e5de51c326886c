"""Whether times are more than a margin above what they were: a one-sided rank test, with the margin in the null.

Let x be the times of the runs now, y those of the runs before, and y' = margin · y + resolution (below which a
difference means nothing). The statistic is Mann and Whitney's U, the number of pairs with x > y', with its exact
distribution. Ranks, for times are skewed and scatter by a factor, and a mean moves with one bad run; exact, for
there are few runs. A tie counts against what is to be shown.

- *slower*: U is so large that a time within the margin would give it in fewer than alpha of cases, Holm's way over all
  times of the gate (S. Holm, Scand. J. Statist. 6, 1979), so that the chance to call any of them slower that is not, in
  the whole gate, is below alpha = 1 - confidence.
- *within*: the same test the other way round says that it is not beyond the margin, at alpha for this time alone.
- *undecided*: neither.
- *too few*: so few values that not even all of them being worse would show it: C(n + m, n) < times of the gate / alpha.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

EXACT = 40
"""Up to how many values on each side the exact distribution is used; beyond, the normal one is as good."""


def greater(high: Sequence[float], low: Sequence[float]) -> float:
    """The chance of such a U or a larger one if `high` is not stochastically above `low`. Both have values."""
    from scipy.stats import mannwhitneyu  # on use: it takes a while, and most commands need no statistics

    # ranks without ties: of equal values, those of `low` are taken for the larger ones
    ordered = sorted([(value, 0, i) for i, value in enumerate(high)] + [(value, 1, i) for i, value in enumerate(low)])
    ranks: tuple[list[int], list[int]] = ([], [])
    for rank, (_, side, _) in enumerate(ordered):
        ranks[side].append(rank)
    method = "exact" if max(len(high), len(low)) <= EXACT else "asymptotic"
    return float(mannwhitneyu(*ranks, alternative="greater", method=method).pvalue)


def beyond(now: Sequence[int], then: Sequence[int], margin: float, resolution: int) -> tuple[float, float]:
    """How compatible the times are with being within the margin, and with being beyond it: two p-values."""
    bound = [margin * value + resolution for value in then]
    return greater(now, bound), greater(bound, now)


def smallest(now: int, then: int) -> float:
    """The smallest p-value that so many values can give."""
    return 1 / math.comb(now + then, now) if now and then else 1.0


def needed(alpha: float, tests: int) -> int:
    """How many values it takes on each side for one of so many tests to be able to show anything."""
    n = 1
    while smallest(n, n) > alpha / tests:
        n += 1
    return n


def holm(values: Sequence[float], alpha: float) -> list[bool]:
    """Which of the p-values are shown, so that the chance of any wrong one is below alpha."""
    shown = [False] * len(values)
    for i, place in enumerate(sorted(range(len(values)), key=lambda k: values[k])):
        if values[place] > alpha / (len(values) - i):
            break
        shown[place] = True
    return shown
