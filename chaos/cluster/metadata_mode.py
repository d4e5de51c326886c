"""Where a cluster keeps its metadata: with its own brokers (KRaft), or in ZooKeeper. Pure."""

from __future__ import annotations

import re
from typing import Literal

from chaos.errors import UsageError

Metadata = Literal["kraft", "zookeeper"]

OLDEST = (2, 8)
"""Aftershock's questions and faults were seen to work from here on."""

KRAFT_SINCE, ZOOKEEPER_BEFORE = (3, 3), (4, 0)
"""KRaft is meant for use since the one, and the other brought its end for ZooKeeper; in between there is a choice."""


def choose(kafka: str, asked: Metadata | None = None, driver: str = "process") -> Metadata:
    """What a release is run with: as asked, else KRaft where it can. Raises `UsageError` for what does not go."""
    numbers = re.match(r"(\d+)\.(\d+)", kafka)
    release = (int(numbers.group(1)), int(numbers.group(2))) if numbers else ZOOKEEPER_BEFORE
    if release < OLDEST:
        raise UsageError(f"Kafka {kafka} is too old; choose 2.8 or newer")
    if asked == "zookeeper" and release >= ZOOKEEPER_BEFORE:
        raise UsageError(f"Kafka {kafka} has no ZooKeeper mode, 4.0 took it away; choose an older release, or kraft")
    if asked == "kraft" and release < KRAFT_SINCE:
        raise UsageError(f"KRaft is for use since Kafka 3.3, and this is {kafka}; choose a newer one, or zookeeper")
    chosen = asked or ("kraft" if release >= KRAFT_SINCE else "zookeeper")
    if chosen == "zookeeper" and driver != "process":
        raise UsageError(
            f"Kafka {kafka} would run with ZooKeeper, which the {driver} driver cannot do; "
            "choose the process driver, or a release from 3.3 on with kraft"
        )
    return chosen
