"""Whether the clocks of the brokers agree: one change of a leader is seen by several of them, at nearly one instant.

A difference alone proves nothing, for a broker that stood still learns of everything late. Only where all differences
between two brokers, at several moments, are the same, a clock is off (or a log is in another time zone): then its times
are put right, and that is said. Where they are large and vary, it is said and nothing is done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from statistics import median

from chaos.incident.logs.events import Event, FollowerStarted, LeaderStarted

TOLERANCE_US = 2 * 10**6
"""What brokers may differ by: metadata takes its time to reach all of them."""
APART_US = 5 * 10**6
"""Two sightings that lie so far from each other are of two moments."""


def disagreement(
    events: Iterable[Event], late: Callable[[int, int, int], bool] = lambda node, at_us, by_us: False
) -> tuple[dict[int, int], list[str]]:
    """By how many microseconds the clock of each node is ahead of that of the lowest one, and what is to be told.

    `late` says whether a node had just been silent for so long that it may have seen something so much too late.
    """
    seen: dict[tuple[str, int, int], dict[int, int]] = defaultdict(dict)
    for event in events:
        # without an epoch before, a broker may have learned of it at its start, long after the others
        if not isinstance(event, LeaderStarted | FollowerStarted) or event.previous_epoch < 0:
            continue
        key = (event.partition, event.leader_epoch, event.previous_epoch)
        at = seen[key].get(event.node)
        seen[key][event.node] = event.at_us if at is None else min(at, event.at_us)
    nodes = sorted({node for times in seen.values() for node in times})
    shifts, words = {node: 0 for node in nodes}, []
    for node in nodes[1:]:
        pairs = [(times[nodes[0]], times[node]) for times in seen.values() if {nodes[0], node} <= times.keys()]
        pairs = [(a, b) for a, b in pairs if not late(*((node, b) if b > a else (nodes[0], a)), abs(b - a))]
        differences = [there - here for here, there in pairs]
        if not differences or min(map(abs, differences)) <= TOLERANCE_US:
            continue
        ahead = round(median(differences))
        steady = max(differences) - min(differences) <= TOLERANCE_US
        moments = max(here for here, _ in pairs) - min(here for here, _ in pairs) >= APART_US
        if steady and moments:
            shifts[node] = ahead
            words.append(
                f"the clock of broker {node} is {_words(ahead)} that of broker {nodes[0]}, by {len(pairs)} changes of "
                "leaders that both saw: its times were put right by that"
            )
        else:
            words.append(
                f"the times of brokers {nodes[0]} and {node} differ by {abs(ahead) / 1e6:,.1f} s where both saw one "
                "change, but not steadily, or only once: a clock is off or one stood still; nothing was put right"
            )
    return shifts, words


def _words(ahead_us: int) -> str:
    return f"{abs(ahead_us) / 1e6:,.1f} s {'ahead of' if ahead_us > 0 else 'behind'}"
