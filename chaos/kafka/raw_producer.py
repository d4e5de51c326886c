"""A producer that sends each request once, with the producer epoch and the sequence that its caller gives.

Client libraries choose both, and hold back a request that no broker would take. So a request that a broker must refuse
needs a producer without them. It speaks the protocol of clients before transaction version 2 (KIP-890), which every
release understands.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from kafka.errors import for_code
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
)
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecordsBuilder

from chaos.errors import ClusterError
from chaos.kafka import admin
from chaos.kafka.admin import any_broker
from chaos.kafka.client import Kafka
from chaos.kafka.messages import request
from chaos.kafka.partition import TopicPartition
from chaos.units import format_duration
from chaos.wait import wait_until

TIMEOUT_S = 30.0
ANSWER_S = 12.0
_TIMEOUT_MS = 10_000
_TRANSACTION_MS = 60_000
_COORDINATOR_MOVES, _ENDING = frozenset({14, 15, 16}), 51
"""Error codes of a coordinator that loads or moves, and of one that still ends the transaction before."""


@dataclass(frozen=True)
class Appended:
    """The answer to a produce request. error: its name in the protocol, empty if the broker took the record.

    Both are None without an answer in time.
    """

    error: str | None
    offset: int | None = None

    def describe(self) -> str:
        """Return the answer as text."""
        if self.error is None:
            return "no answer"
        return f"refused with {self.error}" if self.error else f"taken at offset {self.offset}"


class RawProducer:
    """A producer of one partition, in transactions if it has a transactional id.

    `begin` gives it a producer id and an epoch. All methods but `produce` raise `ClusterError` if the cluster refuses,
    or does not answer within `TIMEOUT_S`.
    """

    def __init__(self, kafka: Kafka, partition: TopicPartition, transactional_id: str | None) -> None:
        self._kafka, self._partition, self._id = kafka, partition, transactional_id
        self.producer_id = self.epoch = -1

    def begin(self) -> None:
        """Get a producer id and an epoch. A transaction that is open is aborted; the earlier epoch is fenced."""
        message = InitProducerIdRequest[1](transactional_id=self._id, transaction_timeout_ms=_TRANSACTION_MS)
        answer = self._ask("give a producer id", message, {*_COORDINATOR_MOVES, _ENDING})
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def add_partition(self) -> None:
        """Add the partition to the transaction, which begins with it."""
        topics = [{"name": self._partition.topic, "partitions": [self._partition.number]}]
        message = request(
            AddPartitionsToTxnRequest[1],
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=topics,
        )
        self._ask(f"add {self._partition} to a transaction", message, {*_COORDINATOR_MOVES, _ENDING, 3})

    def abort(self) -> None:
        """Abort the transaction. Returns when its markers are written, and the coordinator says so once more."""
        message = EndTxnRequest[1](
            transactional_id=self._id, producer_id=self.producer_id, producer_epoch=self.epoch, committed=False
        )
        self._ask("abort a transaction", message, _COORDINATOR_MOVES)
        # until the markers are written, the coordinator answers CONCURRENT_TRANSACTIONS; then an abort is done already
        self._ask("end an aborted transaction", message, {*_COORDINATOR_MOVES, _ENDING})

    def produce(self, value: bytes, sequence: int, epoch: int | None = None) -> Appended:
        """Send one record, once. epoch: instead of the current one."""
        batch = DefaultRecordBatchBuilder(
            2, 0, self._id is not None, self.producer_id, self.epoch if epoch is None else epoch, sequence, 1 << 20
        )
        batch.append(0, time.time_ns() // 1_000_000, None, value, [])
        data = [{"index": self._partition.number, "records": bytes(batch.build())}]
        message = request(
            ProduceRequest[8],
            transactional_id=self._id,
            acks=-1,
            timeout_ms=_TIMEOUT_MS,
            topic_data=[{"name": self._partition.topic, "partition_data": data}],
        )
        state = self._kafka.state(self._partition)
        answer = None if state is None else self._kafka.ask(state.leader, message, ANSWER_S)
        if answer is None:
            return Appended(None)
        found = answer.responses[0].partition_responses[0]
        return Appended(_name(found.error_code) if found.error_code else "", found.base_offset)

    def _ask(self, act: str, message: Any, passing: frozenset[int] | set[int]) -> Any:
        """Repeat a request until it succeeds, and return the answer. passing: error codes that may pass."""
        state = "no broker answers"

        def answered() -> Any:
            nonlocal state
            coordinator = self._kafka.transaction_coordinator
            broker = any_broker(self._kafka) if self._id is None else coordinator(self._id)
            answer = None if broker is None else self._kafka.ask(broker, message, ANSWER_S)
            code = 0 if answer is None else _code(answer)
            if code and code not in passing:
                raise ClusterError(f"the cluster refused to {act}: {_name(code)}")
            state = _name(code) if code else state
            return None if code else answer

        return wait_until(
            answered, TIMEOUT_S, lambda: f"the cluster did not {act}: {state}", every_s=0.1, error=ClusterError
        )


def _code(answer: Any) -> int:
    """Return the error code of an answer, or of its only partition if codes are by partition."""
    if isinstance(answer, AddPartitionsToTxnResponse):
        return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
    return int(answer.error_code)


def _name(code: int) -> str:
    return str(for_code(code).message)


FLUSHED = {"flush.messages": "1"}
_MAGIC, _PLAIN, _BATCH_BYTES, _LEADER = 2, 0, 4096, 1


def create_probe(kafka: Kafka, topic: str, broker: int) -> None:
    """Create the topic at a broker, unless it exists. Raises `ClusterError`."""
    admin.create_topic_at(kafka, topic, broker, FLUSHED)


def probe(kafka: Kafka, topic: str, broker: int, timeout_s: float) -> str | None:
    """Let the broker write and flush one record; return None if it acknowledges it in time, else its answer."""
    records = MemoryRecordsBuilder(_MAGIC, _PLAIN, _BATCH_BYTES)
    records.append(timestamp=int(time.time() * 1000), key=None, value=b"probe")
    records.close()
    partition = {"index": 0, "records": records.buffer()}
    message = request(
        ProduceRequest[7],
        transactional_id=None,
        acks=_LEADER,
        timeout_ms=int(timeout_s * 1000),
        topic_data=[{"name": topic, "partition_data": [partition]}],
    )
    answer = kafka.ask(broker, message, timeout_s)
    if answer is None:
        return f"no answer within {format_duration(timeout_s)}"
    codes = [p.error_code for t in answer.responses for p in t.partition_responses if p.error_code]
    return str(for_code(codes[0]).__name__) if codes else None


def remove_probe(kafka: Kafka, topic: str) -> bool:
    """Try once to delete the topic; return whether it is gone."""
    return admin.delete_topics([topic]).attempt(kafka) == []
