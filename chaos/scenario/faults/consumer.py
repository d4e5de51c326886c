"""Faults of consumers."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from chaos.scenario.faults.base import CLIENT_TARGETS, FaultSpec
from chaos.scenario.triggers import Partition
from chaos.units import Duration


class ConsumerSlow(FaultSpec):
    """Make a consumer take longer for each record, so that it exceeds max.poll.interval.ms; healed by full speed."""

    targets = CLIENT_TARGETS
    kind: Literal["consumer.slow"]
    per_record: Duration = Field(description="extra processing time of each record")


class ConsumerCrash(FaultSpec):
    """SIGKILL a consumer process; healed by starting its next incarnation."""

    targets = CLIENT_TARGETS
    kind: Literal["consumer.crash"]


class ConsumerSeek(FaultSpec):
    """Order a consumer to read on from elsewhere, as after `seek()` of its application; there is nothing to heal."""

    targets = CLIENT_TARGETS
    kind: Literal["consumer.seek"]
    offsets: dict[Partition, int] | None = Field(None, description="to these offsets, such as orders/0: 100")
    ago: Duration | None = Field(None, gt=0, description="or, on each partition held, to what was written so long ago")

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.offsets is None) == (self.ago is None):
            raise ValueError("give exactly one of offsets, ago")
        return self


class ConsumerPause(FaultSpec):
    """SIGSTOP a consumer past its session: a zombie that does not know; healed by SIGCONT."""

    targets = CLIENT_TARGETS
    kind: Literal["consumer.pause"]


class ConsumerLeave(FaultSpec):
    """Let a consumer leave its group in good order; healed by its next incarnation."""

    targets = CLIENT_TARGETS
    kind: Literal["consumer.leave"]


class ConsumerJoin(FaultSpec):
    """Start a member that was held back until then; it stays."""

    targets = frozenset({"member"})
    kind: Literal["consumer.join"]


class ConsumerChurn(FaultSpec):
    """Let a consumer leave in good order and join again, over and over; healed by its being there."""

    targets = CLIENT_TARGETS
    kind: Literal["consumer.churn"]
    times: int = Field(5, ge=1, le=100, description="how often it leaves")
    every: Duration = Field(1.0, description="how long it stays away, and then in the group")
