"""Faults of consumers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Self

from pydantic import Field, model_validator

from chaos.scenario.faults.base import ClientFault
from chaos.scenario.setup import Setup
from chaos.scenario.triggers import Partition, check_one_of
from chaos.units import Duration


class ConsumerFault(ClientFault):
    """A fault of one consumer process."""

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the target is a consumer."""
        selector, _ = self.target.selector
        name = self.client_name()
        if name in {p.name for p in setup.producers} | {p.name for p in setup.processors}:
            yield f"{where}.target.{selector}: {name!r} writes; {self.kind} is for consumers"
        else:
            members = {c.name: c.members for c in setup.consumers}
            yield from self.client_problems(f"{where}.target", "consumers", members)


class ConsumerSlow(ConsumerFault):
    """Slow a consumer down per record, so that it exceeds max.poll.interval.ms; healed by full speed."""

    kind: Literal["consumer.slow"]
    per_record: Duration = Field(description="extra processing time of each record")


class ConsumerCrash(ConsumerFault):
    """SIGKILL a consumer process; healed by a start of its next incarnation."""

    kind: Literal["consumer.crash"]


class ConsumerSeek(ConsumerFault):
    """Make a consumer seek to another position, as its application would; there is nothing to heal."""

    kind: Literal["consumer.seek"]
    offsets: dict[Partition, int] | None = Field(None, description="to these offsets, such as orders/0: 100")
    ago: Duration | None = Field(
        None, gt=0, description="or, on each assigned partition, to the records written this long ago"
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        check_one_of(self, "offsets", "ago")
        return self


class ConsumerPause(ConsumerFault):
    """SIGSTOP a consumer for longer than its session: it becomes a zombie; healed by SIGCONT."""

    kind: Literal["consumer.pause"]


class ConsumerLeave(ConsumerFault):
    """Make a consumer leave its group in a controlled way; healed by a start of its next incarnation."""

    kind: Literal["consumer.leave"]


class ConsumerJoin(ConsumerFault):
    """Start a member that was held back until then; it stays."""

    targets = frozenset({"member"})
    once_per_target = True
    kind: Literal["consumer.join"]


class ConsumerChurn(ConsumerFault):
    """Make a consumer leave and rejoin repeatedly; healed by a start if it is down."""

    kind: Literal["consumer.churn"]
    times: int = Field(5, ge=1, le=100, description="how often it leaves")
    every: Duration = Field(1.0, description="time that it stays away, and then in the group")


ConsumerFaults = (
    ConsumerSlow | ConsumerCrash | ConsumerSeek | ConsumerPause | ConsumerLeave | ConsumerJoin | ConsumerChurn
)
