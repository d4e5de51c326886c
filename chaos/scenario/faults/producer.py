"""Faults of producers, and of processors, which produce too."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from chaos.scenario.faults.base import CLIENT_TARGETS, FaultSpec


class ProducerCrash(FaultSpec):
    """SIGKILL a producer or a processor; healed by starting its next incarnation."""

    targets = CLIENT_TARGETS
    kind: Literal["producer.crash"]
    unreported: int = Field(
        0,
        ge=0,
        description="let the application stop looking at delivery reports first, and kill it once so many more records "
        "are in the log: it cannot know of them",
    )


class ProducerFence(FaultSpec):
    """Start the next incarnation of a transactional client while this one still runs, which fences this one.

    Healed with it: the next incarnation goes on.
    """

    targets = CLIENT_TARGETS
    kind: Literal["producer.fence"]
