"""The fault that sends produce requests as no client library would (wire.produce)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from chaos.kafka.partition import TopicPartition
from chaos.ledger.record import PRODUCER_WIDTH
from chaos.scenario.faults.base import FaultSpec
from chaos.setup.model import Setup

Sends = Literal["after_abort", "old_epoch", "sequence_gap"]
IN_TRANSACTION: tuple[Sends, ...] = ("after_abort", "old_epoch")
RECORDS: dict[Sends, int] = {"after_abort": 1, "old_epoch": 2, "sequence_gap": 2}
"""Number of records that are sent."""


class WireProduce(FaultSpec):
    """Send a produce request that a broker has to refuse and that no client library sends; there is nothing to heal.

    A producer without a library sends it, with the name of the fault. The ledger has its records as those of every
    producer: refused ones are sends that failed (`send_failures`), and an accepted one has to be in the log.
    """

    run_only = "the ledger of a run"
    targets = frozenset({"partition"})
    breaks_brokers = False
    no_promise = "wire.produce sends what no client of the application sends"

    kind: Literal["wire.produce"]
    sends: Sends = Field(
        description="after_abort: a record of a transaction that is aborted already (KIP-890); old_epoch: one with the "
        "producer epoch before that of the next incarnation, which has fenced it (KIP-98); sequence_gap: one with a "
        "sequence after which four are missing (KIP-98). The last two follow a record that is in order"
    )

    @property
    def client(self) -> str:
        """The name of its producer in the ledger."""
        return f"{self.name}/1"

    @property
    def in_transaction(self) -> bool:
        """Whether its records belong to a transaction."""
        return self.sends in IN_TRANSACTION

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the ledger can name its producer, and that the topic takes records without a key."""
        yield from super().problems(setup, where)
        if self.name in {entry.name for entry in setup.entries}:
            yield f"{where}.name: {self.name} is a client entry; the producer of the fault needs another name"
        if len(self.client) > PRODUCER_WIDTH:
            yield f"{where}.name: at most {PRODUCER_WIDTH - 2} characters, because records carry their producer's name"
        topic = TopicPartition.parse(str(self.target.partition)).topic
        config = next((t.config for t in setup.topics if t.name == topic), {})
        if "compact" in str(config.get("cleanup.policy", "")):
            yield f"{where}.target.partition: {topic} is compacted, and the records of {self.kind} have no key"
        if counting := [p.name for p in setup.processors if p.state and topic in p.topics]:
            yield f"{where}.target.partition: {counting[0]} counts by key, and the records of {self.kind} have no key"
