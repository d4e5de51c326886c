"""Faults of leaders and replicas: operations of an administrator, which every driver can do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from chaos.scenario.faults.base import FaultSpec
from chaos.scenario.references import broker_problems
from chaos.scenario.setup import Setup

TOPIC_OR_PARTITION = frozenset({"topic", "partition"})


class ElectPreferred(FaultSpec):
    """Elect the preferred replica, the first in the replica list; it stays the leader."""

    targets = TOPIC_OR_PARTITION
    kind: Literal["election.preferred"]


class ElectUnclean(FaultSpec):
    """Elect a replica outside the ISR if no other is available: records that it lacks are lost; it stays the leader."""

    targets = TOPIC_OR_PARTITION
    kind: Literal["election.unclean"]


class Reassign(FaultSpec):
    """Move a partition to other brokers while clients write to it; it stays there."""

    targets = frozenset({"partition"})
    kind: Literal["partition.reassign"]
    to: list[int] | None = Field(
        None,
        min_length=1,
        description="the replicas, the preferred leader first; if left out: each replica moves to the next broker",
    )

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check the broker ids."""
        yield from super().problems(setup, where)
        yield from broker_problems(setup, f"{where}.to", self.to or [])


LeaderFaults = ElectPreferred | ElectUnclean | Reassign
