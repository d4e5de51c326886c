"""The situation of the KRaft quorum: its release, and the faults that cut controllers off."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.cluster.settings import line_of
from chaos.contract import faults
from chaos.contract.writers import Situation
from chaos.promise.settings import setting
from chaos.scenario.model import Scenario

RESIGNS_SINCE = (3, 7)
"""The first release with an active controller that gives up without a majority (KAFKA-15489)."""


def governing(scenario: Scenario) -> Iterator[Situation]:
    """Yield the situation of dedicated controllers; nothing if there are none."""
    cluster = scenario.cluster
    if cluster.controllers is None:
        return
    resigns = "true" if line_of(cluster.kafka) >= RESIGNS_SINCE else "false"
    facts = {"quorum.resigns": setting("resigns", resigns, f"Kafka {cluster.kafka}", given=False)}
    yield Situation("the controllers", facts | faults.fact("isolates", faults.of_class(scenario.faults, "isolates")))
