"""Offsets between the clocks of brokers, from leader changes that several brokers logged.

One difference alone proves nothing, because a paused broker logs everything late. If all differences between two
brokers, at several moments, are equal, a clock is wrong or a log is in another time zone: the times are corrected and
the user is informed. If the differences are large but vary, the user is informed and nothing is corrected.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from statistics import median

from chaos.incident.logs.events import Event, FollowerStarted, LeaderStarted
from chaos.kafka.partition import TopicPartition

TOLERANCE_US = 2 * 10**6
"""Normal difference between brokers: the time that metadata takes to reach all of them."""
APART_US = 5 * 10**6
"""Minimum time between the first and the last change for a correction."""


def clock_offsets(
    events: Iterable[Event], after_silence: Callable[[int, int, int], bool]
) -> tuple[dict[int, int], list[str]]:
    """Return the offset of each node to the lowest node in microseconds (positive: ahead), and notes for the user.

    `after_silence(node, at_us, length_us)` returns whether the node was silent for that long just before that time: it
    may then have logged the change late.
    """
    times: dict[tuple[TopicPartition, int, int], dict[int, int]] = defaultdict(dict)
    for event in events:
        # without a previous epoch, a broker may have learned of the leader when it started, long after the others
        if not isinstance(event, LeaderStarted | FollowerStarted) or event.previous_epoch < 0:
            continue
        change = times[event.partition, event.leader_epoch, event.previous_epoch]
        change[event.node] = min(event.at_us, change.get(event.node, event.at_us))
    nodes = sorted({node for change in times.values() for node in change})
    offsets: dict[int, int] = dict.fromkeys(nodes, 0)
    problems: list[str] = []
    for node in nodes[1:]:
        pairs = [(change[nodes[0]], change[node]) for change in times.values() if {nodes[0], node} <= change.keys()]
        pairs = [(a, b) for a, b in pairs if not after_silence(*((node, b) if b > a else (nodes[0], a)), abs(b - a))]
        differences = [there - here for here, there in pairs]
        if not differences or min(map(abs, differences)) <= TOLERANCE_US:
            continue
        ahead = round(median(differences))
        is_steady = max(differences) - min(differences) <= TOLERANCE_US
        span_us = max(here for here, _ in pairs) - min(here for here, _ in pairs)
        seconds = f"{abs(ahead) / 1e6:,.1f} s"
        if is_steady and span_us >= APART_US:
            offsets[node] = ahead
            problems.append(
                f"the clock of broker {node} is {seconds} {'ahead of' if ahead > 0 else 'behind'} that of broker "
                f"{nodes[0]}, from {len(pairs)} leader changes that both logged: its times are corrected by that"
            )
        else:
            problems.append(
                f"the times of brokers {nodes[0]} and {node} differ by {seconds} for the same leader change, but the "
                "difference varies or occurred only once: a clock is wrong or a broker was paused; nothing is corrected"
            )
    return offsets, problems
