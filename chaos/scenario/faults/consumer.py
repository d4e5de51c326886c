"""Faults of consumers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from chaos.scenario.faults.base import CLIENT_TARGETS, FaultSpec
from chaos.scenario.units import Duration


class ConsumerSlow(FaultSpec):
    """Make a consumer take longer for each record, so that it exceeds max.poll.interval.ms; healed by full speed."""

    targets = CLIENT_TARGETS
    kind: Literal["consumer.slow"]
    per_record: Duration = Field(description="extra processing time of each record")


class ConsumerCrash(FaultSpec):
    """SIGKILL a consumer process; healed by starting its next incarnation."""

    targets = CLIENT_TARGETS
    kind: Literal["consumer.crash"]
