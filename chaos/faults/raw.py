"""The fault that sends produce requests as no client library would (wire.produce)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from chaos.errors import FaultError
from chaos.faults.base import Fault, FaultSpec, World
from chaos.kafka.partition import TopicPartition
from chaos.ledger.record import PRODUCER_WIDTH, Identity, encode, run_token
from chaos.run.events import now_us
from chaos.setup.model import Setup

if TYPE_CHECKING:
    from chaos.kafka.raw_producer import Appended, RawProducer
    from chaos.ledger.stream import TableWriter

Sends = Literal["after_abort", "old_epoch", "sequence_gap"]

IN_TRANSACTION: tuple[Sends, ...] = ("after_abort", "old_epoch")

RECORDS: dict[Sends, int] = {"after_abort": 1, "old_epoch": 2, "sequence_gap": 2}
"""Number of records that are sent."""

PAYLOAD = b"sent without a client library"

GAP = 5
"""The sequence of the record after a gap; the record before the gap has 0."""

REFUSED = frozenset(
    {
        *("INVALID_TXN_STATE", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING"),
        *("OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "TRANSACTION_ABORTABLE", "INVALID_RECORD"),
        *("NOT_ENOUGH_REPLICAS", "CONCURRENT_TRANSACTIONS", "TOPIC_AUTHORIZATION_FAILED"),
    }
)
"""Errors that a leader returns before it appends anything. The producer sends each record once, so they are proofs that
it is not in the log. All others are `unknown`."""


class WireProduceSpec(FaultSpec):
    """Send a produce request that a broker has to refuse and that no client library sends; there is nothing to heal.

    A producer without a library sends it, with the name of the fault. The ledger has its records like the records of
    every producer: refused ones are sends that failed (`send_failures`), and an accepted one has to be in the log.
    """

    effects = frozenset()
    left_out = "a request that no client of an application sends"
    run_only = "the ledger of a run"
    targets = frozenset({"partition"})
    breaks_brokers = False
    no_promise = "wire.produce sends what no client of the application sends"

    kind: Literal["wire.produce"]
    sends: Sends = Field(
        description="after_abort: a record of a transaction that is aborted already (KIP-890); old_epoch: one with the "
        "producer epoch of an incarnation that the next one has fenced (KIP-98); sequence_gap: one with a "
        "sequence after which four are missing (KIP-98). The last two follow a record that is in order"
    )

    @property
    def client(self) -> str:
        """The name of its producer in the ledger."""
        return f"{self.name}/1"

    @property
    def topic(self) -> str:
        """The topic that it writes to."""
        return TopicPartition.parse(str(self.target.partition)).topic

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
        topic = self.topic
        config = next((t.config for t in setup.topics if t.name == topic), {})
        if "compact" in str(config.get("cleanup.policy", "")):
            yield f"{where}.target.partition: {topic} is compacted, and the records of {self.kind} have no key"
        if counting := [p.name for p in setup.processors if p.state and topic in p.topics]:
            yield f"{where}.target.partition: {counting[0]} counts by key, and the records of {self.kind} have no key"


class WireProduce(Fault[WireProduceSpec], spec=WireProduceSpec):
    """A produce request that no client library sends. Proof: the broker answered it, whatever the answer is."""

    lasting = "what the broker took stays in the log"
    _answer: Appended

    def _inject(self, world: World) -> str:
        from chaos.kafka.raw_producer import Appended, RawProducer
        from chaos.ledger.stream import TableWriter

        if world.run is None:
            raise FaultError("this run has no ledger for the records")
        partition = TopicPartition.parse(self.resolved)
        ledger, writer = world.run.ledger, f"{self.spec.client}.1"
        name = f"aftershock-{world.run.run_id}-{self.spec.name}" if self.spec.in_transaction else None
        with ExitStack() as stack:
            sender = _Sender(
                self.spec.client,
                run_token(world.run.run_id),
                partition,
                RawProducer(world.kafka, partition, name),
                stack.enter_context(TableWriter(ledger, "sends", writer)),
                stack.enter_context(TableWriter(ledger, "transactions", writer)),
                self.spec.in_transaction,
            )
            self.begun = True
            act = {"after_abort": self._after_abort, "old_epoch": self._old_epoch, "sequence_gap": self._sequence_gap}
            self._answer = Appended(None)
            self._answer = act[self.spec.sends](sender)
        return f"sent {self._request()} to {self.resolved}: {self._answer.describe()}"

    def _after_abort(self, sender: _Sender) -> Appended:
        sender.producer.begin()
        sender.producer.add_partition()
        sender.producer.abort()
        sender.aborted()
        return sender.send(0)

    def _old_epoch(self, sender: _Sender) -> Appended:
        producer = sender.producer
        producer.begin()
        producer.add_partition()
        old = producer.epoch
        self._in_order(sender.send(0))
        producer.begin()
        sender.aborted()
        return sender.send(1, old)

    def _sequence_gap(self, sender: _Sender) -> Appended:
        sender.producer.begin()
        self._in_order(sender.send(0))
        return sender.send(GAP)

    def _in_order(self, answer: Appended) -> None:
        if answer.error != "":
            raise FaultError(f"the leader of {self.resolved} did not take the record before: {answer.describe()}")

    def _request(self) -> str:
        return {
            "after_abort": "a record of an aborted transaction",
            "old_epoch": "a record with a fenced producer epoch",
            "sequence_gap": f"a record with sequence {GAP} after one with sequence 0",
        }[self.spec.sends]

    def _effect(self, world: World) -> str | None:
        answered = self._answer.error is not None
        return (
            f"the leader of {self.resolved} answered {self._request()}: {self._answer.describe()}" if answered else None
        )


@dataclass
class _Sender:
    """The producer of a fault, and its rows in the ledger. seq: of the next record."""

    client: str
    token: str
    partition: TopicPartition
    producer: RawProducer
    sends: TableWriter
    transactions: TableWriter
    in_transaction: bool
    began_us: int = field(default_factory=now_us)
    seq: int = 0

    def send(self, sequence: int, epoch: int | None = None) -> Appended:
        """Send the next record, write its row, and return the answer."""
        invoked_us = now_us()
        value = encode(Identity(self.token, self.client, 1, self.seq, invoked_us), None, PAYLOAD)
        answer = self.producer.produce(value, sequence, epoch)
        row: dict[str, Any] = {
            "producer": self.client,
            "incarnation": 1,
            "seq": self.seq,
            "topic": self.partition.topic,
            "partition": self.partition.number,
            "offset": answer.offset if answer.error == "" else None,
            "outcome": "ok" if answer.error == "" else "fail" if answer.error in REFUSED else "unknown",
            "error": answer.error or (None if answer.error == "" else "no answer"),
            "txn": 0 if self.in_transaction else None,
            "invoked_us": invoked_us,
            "completed_us": now_us(),
        }
        self.sends.append_rows([row])
        self.seq += 1
        return answer

    def aborted(self) -> None:
        """Write the row of the transaction, after its abort."""
        row = {"producer": self.client, "incarnation": 1, "txn": 0, "outcome": "aborted"}
        self.transactions.append_rows([row | {"began_us": self.began_us, "ended_us": now_us()}])


FAULTS: dict[str, type[Fault[Any]]] = {
    "wire.produce": WireProduce,
}
