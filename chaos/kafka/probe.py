"""A topic with its only replica at one broker, to let this broker write: one record at a time, flushed at once."""

from __future__ import annotations

import time

from kafka.errors import for_code
from kafka.protocol.producer import ProduceRequest
from kafka.record.memory_records import MemoryRecordsBuilder

from chaos.kafka import admin
from chaos.kafka.client import Kafka
from chaos.kafka.messages import request
from chaos.units import format_duration

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
