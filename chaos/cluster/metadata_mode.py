"""The metadata mode of a cluster: KRaft or ZooKeeper. Pure functions."""

from __future__ import annotations

import re
from typing import Literal

from chaos.errors import UsageError

Metadata = Literal["kraft", "zookeeper"]

OLDEST = (2, 8)
"""The oldest release that Aftershock was tested with."""

KRAFT_SINCE, ZOOKEEPER_BEFORE = (3, 3), (4, 0)
"""The first release with production-ready KRaft, and the first without ZooKeeper. Between them there is a choice."""


def choose(kafka: str, asked: Metadata | None = None, driver: str = "process") -> Metadata:
    """Return the metadata mode of a release: as asked, else KRaft if possible. Raises `UsageError` if impossible."""
    numbers = re.match(r"(\d+)\.(\d+)", kafka)
    release = (int(numbers.group(1)), int(numbers.group(2))) if numbers else ZOOKEEPER_BEFORE
    if release < OLDEST:
        raise UsageError(f"Kafka {kafka} is too old; choose 2.8 or newer")
    if asked == "zookeeper" and release >= ZOOKEEPER_BEFORE:
        raise UsageError(f"Kafka {kafka} has no ZooKeeper mode, 4.0 removed it; choose an older release, or kraft")
    if asked == "kraft" and release < KRAFT_SINCE:
        raise UsageError(f"KRaft is supported since Kafka 3.3, and this is {kafka}; choose a newer one, or zookeeper")
    chosen = asked or ("kraft" if release >= KRAFT_SINCE else "zookeeper")
    if chosen == "zookeeper" and driver != "process":
        raise UsageError(
            f"Kafka {kafka} would run with ZooKeeper, which the {driver} driver does not support; "
            "choose the process driver, or a release from 3.3 on with kraft"
        )
    return chosen
