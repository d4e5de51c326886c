"""A wire ledger written by hand: frames of clients and brokers, captured as the proxy captures them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kafka.protocol.producer import ProduceRequest, ProduceResponse
from kafka.record.default_records import DefaultRecordBatchBuilder

from chaos.kafka.messages import request
from chaos.relay.capture import ANSWER, FOLDER, MADE, REQUEST, Entry, Recorder, Tape
from chaos.relay.frames import Head, request_head
from chaos.relay.roles import Payloads
from tests.chaos.relay.messages import TOPIC_ID, encoded

BY_ID = 13
"""The first version of Produce and Fetch with ids of topics."""


def batch(values=(b"a", b"b"), producer=(-1, -1, -1), base=0, control=b"", transactional=False, at_ms=1000):
    """Return a batch.

    producer: id, epoch and first sequence; base: the first offset, as a broker sets it; control: the key of a marker.
    """
    builder = DefaultRecordBatchBuilder(
        **{"magic": 2, "compression_type": 0, "is_transactional": transactional, "producer_id": producer[0]},
        **{"producer_epoch": producer[1], "base_sequence": producer[2], "batch_size": 1_000_000},
    )
    for i, value in enumerate(values):
        builder.append(i, at_ms + i, control or b"key", value, [("h", b"1")])
    made = bytearray(builder.build())
    made[0:8] = base.to_bytes(8, "big")
    if control:
        made[22] |= 0x20
    return bytes(made)


def topic(version, name="orders", field="name"):
    return {"topic_id": TOPIC_ID} if version >= BY_ID else {field: name}


def produce(records, version=9, partition=0, acks=-1):
    parts = [{"index": partition, "records": records}]
    return request(
        ProduceRequest[version],
        acks=acks,
        timeout_ms=1,
        topic_data=[{**topic(version), "partition_data": parts}],
        **({"transactional_id": None} if version >= 3 else {}),
    )


def produced(version=9, partition=0, error=0, offset=0):
    parts = [{"index": partition, "error_code": error, "base_offset": offset, "log_append_time_ms": -1}]
    return request(ProduceResponse[version], responses=[{**topic(version), "partition_responses": parts}])


def fetch(offset, version=12, partition=0, session=(0, -1)):
    at = [{"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1}]
    more = {"forgotten_topics_data": [], "session_id": session[0], "session_epoch": session[1]} if version >= 7 else {}
    topics = [] if offset is None else [{**topic(version, field="topic"), "partitions": at}]
    return request(FetchRequest[version], max_wait_ms=1, min_bytes=1, topics=topics, **more)


def fetched(records, version=12, partition=0, error=0, end=100, aborted=()):
    found = [{"producer_id": one, "first_offset": at} for one, at in aborted]
    part = {
        **{"partition_index": partition, "error_code": error, "high_watermark": end, "last_stable_offset": end},
        **{"aborted_transactions": found, "records": records, "log_start_offset": 0},
    }
    if version < 5:
        del part["log_start_offset"]
    top = {"error_code": 0, "session_id": 5} if version >= 7 else {}
    return request(FetchResponse[version], responses=[{**topic(version, field="topic"), "partitions": [part]}], **top)


def commit(offset, version=8, epoch=3, member="m", partition=0):
    parts = [{"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}]
    topics = [{"name": "orders", "partitions": parts}]
    return request(
        OffsetCommitRequest[version], group_id="g", generation_id_or_member_epoch=epoch, member_id=member, topics=topics
    )


def committed(version=8, error=0, partition=0):
    parts = [{"partition_index": partition, "error_code": error}]
    return request(OffsetCommitResponse[version], topics=[{"name": "orders", "partitions": parts}])


def asks_offsets(version=8, group="g"):
    topics = {"topics": [{"name": "orders", "partition_indexes": [0]}]}
    asked = {"group_id": group} | topics
    return request(OffsetFetchRequest[version], **({"groups": [asked]} if version >= 8 else asked))


def answers_offsets(offset, version=8, group="g"):
    part = {"partition_index": 0, "committed_offset": offset, "metadata": "", "error_code": 0}
    answer = {"topics": [{"name": "orders", "partitions": [part]}]}
    in_groups = {"groups": [answer | {"group_id": group, "error_code": 0}]}
    return request(OffsetFetchResponse[version], **(in_groups if version >= 8 else answer))


def metadata():
    return request(MetadataRequest[12], topics=None)


def described():
    named = {"name": "orders", "topic_id": TOPIC_ID, "error_code": 0, "partitions": []}
    return request(MetadataResponse[12], brokers=[], topics=[named])


def join():
    own = {"group_id": "g", "session_timeout_ms": 6000, "rebalance_timeout_ms": 60_000, "member_id": ""}
    return request(JoinGroupRequest[5], **own, group_instance_id=None, protocol_type="consumer", protocols=[])


def joined(error=0, member="m", leader="m"):
    own = {"error_code": error, "generation_id": 3, "protocol_name": "range", "leader": leader, "member_id": member}
    return request(JoinGroupResponse[5], **own, members=[])


def sync(member="m"):
    return request(
        SyncGroupRequest[3], group_id="g", generation_id=3, member_id=member, group_instance_id=None, assignments=[]
    )


def synced(assignment, error=0):
    return request(SyncGroupResponse[3], error_code=error, assignment=assignment)


@dataclass
class Story:
    """A capture. Each frame is 10 us after the one before."""

    path: Path
    payloads: Payloads = "all"
    segment_bytes: int = 2**24
    steps: list[tuple[Any, ...]] = field(default_factory=list)
    connections: int = 0
    numbers: dict[int, int] = field(default_factory=dict)

    def connect(self, front: str = "shop/1", broker: int = 1) -> int:
        self.connections += 1
        self.steps.append(("connect", front, broker))
        return self.connections

    def ask(self, connection: int, message: Any, lost: bool = False) -> int:
        """Send a request, which is lost on its way if `lost`. Returns its number."""
        number = self.numbers[connection] = self.numbers.get(connection, 0) + 1
        frame = encoded(message, number)
        self.steps.append(("frame", connection, Entry(REQUEST, number, request_head(frame, 0), 0, frame, 0, lost)))
        return number

    def answer(self, connection: int, number: int, message: Any, lost: bool = False, made: bool = False) -> None:
        frame = encoded(message, number)
        head = Head(len(frame), number, message.API_KEY, message.API_VERSION)
        entry = Entry(ANSWER, number, head, 0, frame, MADE * made, lost)
        self.steps.append(("frame", connection, entry))

    def call(self, connection: int, asked: Any, answered: Any) -> int:
        number = self.ask(connection, asked)
        self.answer(connection, number, answered)
        return number

    def close(self, connection: int, by: str = "client") -> None:
        self.steps.append(("close", connection, by))

    def write(self) -> Path:
        """Write the segments, and return the folder of the run."""
        asyncio.run(self._write())
        return self.path

    async def _write(self) -> None:
        recorder, tapes = Recorder(self.path / FOLDER, self.payloads, self.segment_bytes), {}
        for i, (kind, *what) in enumerate(self.steps):
            if kind == "connect":
                tapes[len(tapes) + 1] = Tape(recorder, what[0], what[1], "127.0.0.1:1")
            elif kind == "close":
                tapes[what[0]].close(what[1])
            else:
                tapes[what[0]].passed([replace(what[1], seen_us=10 * i)], 10 * i + 1)
            recorder.flush()
        recorder.seal()
