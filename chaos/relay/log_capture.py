"""The batches of a log, captured as if a client had fetched them: what the wire ledger is compared with. Also the
producer, epoch and sequence of single batches.

The leader of each partition is asked by raw Fetch requests. The answers go to segments as of any capture, so whatever
decodes those decodes the log, too. Only headers of batches are kept, unless `kept` says otherwise.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka.errors import for_code
from kafka.protocol.consumer import FetchRequest

from chaos.kafka import messages
from chaos.kafka.client import Kafka
from chaos.kafka.partition import TopicPartition
from chaos.kafka.security import Access
from chaos.relay.capture import ANSWER, Entry, Recorder, Tape
from chaos.relay.frames import Head
from chaos.relay.roles import Payloads
from chaos.run.events import now_us

VERSION = 4
"""The version of Fetch: the oldest that brokers of Kafka 4 take. It names topics, and needs no session."""
FETCH_BYTES = 8 * 2**20
SILENCE_S = 30.0
"""Time without an answer that has a batch after which a partition is given up."""
OUT_OF_RANGE = 1
FRONT = "log"
"""The name of the front in the capture."""
_HEADER, _HEADER_V2 = struct.Struct(">qiib"), 27
_BATCH = struct.Struct(">8x4x4xb4x2xi8x8xqhi")  # magic, last offset delta, producer id, producer epoch, base sequence


@dataclass(frozen=True)
class Batch:
    """The origin of the records of a batch (KIP-98); all offsets inclusive. -1 from a producer without idempotence."""

    base_offset: int
    last_offset: int
    producer_id: int
    producer_epoch: int
    base_sequence: int


def batch_at(kafka: Kafka, partition: TopicPartition, offset: int) -> Batch | None:
    """Return the batch with a record of the log; None if the leader does not return it, or if it has an older format.

    The brokers send one whole batch, although it is larger than the one byte that the request allows (KIP-74).
    """
    state = kafka.state(partition)
    answer = kafka.ask(state.leader, _fetch(partition, offset, 1)) if state else None
    part = answer.responses[0].partitions[0] if answer and answer.responses else None
    records = bytes(part.records or b"") if part is not None and not part.error_code else b""
    if len(records) < _BATCH.size:
        return None
    base = int.from_bytes(records[:8], "big")
    magic, delta, producer_id, epoch, sequence = _BATCH.unpack_from(records)
    if magic < 2 or not base <= offset <= base + delta:
        return None
    return Batch(base, base + delta, producer_id, epoch, sequence)


def batches_of(
    bootstrap: str, access: Access | None, offsets: Mapping[TopicPartition, Iterable[int]]
) -> dict[TopicPartition, list[Batch]]:
    """Return the batches of idempotent producers that have these offsets, which ascend in each partition.

    A partition ends at the first batch that its leader does not return: each of them would take the time-out.
    """
    found: dict[TopicPartition, list[Batch]] = {}
    with closing(Kafka(bootstrap, 10.0, access)) as kafka:
        for partition, wanted in offsets.items():
            last = -1
            for offset in wanted:
                if offset <= last:
                    continue
                if (batch := batch_at(kafka, partition, offset)) is None:
                    break
                last = batch.last_offset
                if batch.producer_id >= 0:
                    found.setdefault(partition, []).append(batch)
    return found


def refusal(kafka: Kafka, partition: TopicPartition, offset: int) -> str:
    """Return the name of the error with which the leader refuses to read a record; empty if it does not."""
    state = kafka.state(partition)
    answer = kafka.ask(state.leader, _fetch(partition, offset, 1)) if state else None
    if answer is None or not answer.responses:
        return "no answer"
    code = answer.responses[0].partitions[0].error_code
    return for_code(code).__name__ if code not in (0, OUT_OF_RANGE) else ""


def capture_log(
    folder: Path,
    bootstrap: str,
    access: Access | None,
    ranges: Mapping[TopicPartition, tuple[int, int]],
    kept: Payloads,
) -> dict[TopicPartition, str]:
    """Capture the batches with offsets in these ranges (start, end) into `folder`.

    kept: what is kept of the records, as `payloads` of a capture. Returns why a partition was not read to its end, by
    partition. Raises `OSError` if the folder cannot be written.
    """
    kafka, recorder = Kafka(bootstrap, 10.0, access), Recorder(folder, "none", fetched=kept)
    failures = {}
    try:
        for partition, (start, end) in sorted(ranges.items()):
            if start < end and (why := _capture(kafka, recorder, partition, start, end)):
                failures[partition] = why
    finally:
        kafka.close()
        failure = recorder.seal()["failure"]
    if failure:
        raise OSError(failure)
    return failures


def _capture(kafka: Kafka, recorder: Recorder, partition: TopicPartition, at: int, end: int) -> str:
    """Capture one partition; return why not all of it."""
    number, tape, deadline = 0, None, time.monotonic() + SILENCE_S
    while at < end:
        state = kafka.state(partition)
        answer = kafka.ask(state.leader, _fetch(partition, at)) if state else None
        part = answer.responses[0].partitions[0] if answer and answer.responses else None
        if part is not None and part.error_code == OUT_OF_RANGE:
            return f"its log does not reach from {at} any more"
        reached = _reached(bytes(part.records or b""), at) if part is not None and not part.error_code else at
        if reached == at:
            if time.monotonic() > deadline:
                return f"no batch from offset {at} on within {SILENCE_S:g} s"
            continue
        assert answer is not None and state is not None
        number, tape = number + 1, tape or Tape(recorder, FRONT, state.leader, "")
        answer.with_header(correlation_id=number)
        frame, now = bytes(answer.encode(header=True, framed=True)), now_us()
        head = Head(len(frame), number, FetchRequest.API_KEY, VERSION)
        tape.passed([Entry(ANSWER, number, head, now, frame)], now)
        at, deadline = reached, time.monotonic() + SILENCE_S
    if tape:
        tape.close("client")
    return ""


def _fetch(partition: TopicPartition, at: int, size: int = FETCH_BYTES) -> Any:
    part = {"partition": partition.number, "fetch_offset": at, "partition_max_bytes": size}
    return messages.request(
        FetchRequest[VERSION],
        **{"replica_id": -1, "max_wait_ms": 500, "min_bytes": 1, "max_bytes": size, "isolation_level": 0},
        topics=[{"topic": partition.topic, "partitions": [part]}],
    )


def _reached(records: bytes, at: int) -> int:
    """Return the offset behind the last complete batch; `at` without one."""
    begin = 0
    while begin + _HEADER_V2 <= len(records):
        base, length, _, magic = _HEADER.unpack_from(records, begin)
        begin += 12 + length
        if begin > len(records):
            break
        last = int.from_bytes(records[begin - length + 11 : begin - length + 15], "big") if magic >= 2 else 0
        at = max(at, base + last + 1)
    return at
