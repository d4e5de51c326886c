"""Faults of producers, and of processors, which also produce."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from chaos.scenario.faults.base import ClientFault
from chaos.scenario.setup import Setup


class ProducerFault(ClientFault):
    """A fault of one producer or processor process."""

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the target is a producer or a processor."""
        members = {p.name: p.count for p in setup.producers} | {p.name: p.members for p in setup.processors}
        yield from self.client_problems(f"{where}.target", "producers", members)


class ProducerCrash(ProducerFault):
    """SIGKILL a producer or a processor; healed by a start of its next incarnation."""

    kind: Literal["producer.crash"]
    unreported: int = Field(
        0,
        ge=0,
        description="make the application ignore delivery reports first, and kill it once this many more records are "
        "in the log: it cannot know of them",
    )

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that unreported records can be counted: the producer is the only writer of its topic."""
        yield from super().problems(setup, where)
        if not self.unreported:
            return
        producer = next((p for p in setup.producers if p.name == self.client_name()), None)
        if producer is None or producer.count != 1 or producer.transactions:
            yield f"{where}.unreported: needs a producer without transactions that is one process"
        elif sum(1 for p in setup.producers if p.topic == producer.topic) > 1:
            yield f"{where}.unreported: other producers write to {producer.topic}, so its records cannot be counted"


class ProducerFence(ProducerFault):
    """Start the next incarnation of a transactional client while the current one runs, which fences the current one.

    There is nothing to heal: the next incarnation continues.
    """

    kind: Literal["producer.fence"]

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the target writes in transactions."""
        yield from super().problems(setup, where)
        if self.client_name() in {p.name for p in setup.producers if not p.transactions}:
            selector, _ = self.target.selector
            yield f"{where}.target.{selector}: {self.client_name()} has no transactions, so nothing can fence it"


ProducerFaults = ProducerCrash | ProducerFence
