"""Errors that a poll returns, without a broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message

from chaos.clients.confluent.group import GroupConsumer
from chaos.clients.program import Channel, Lifecycle
from chaos.clients.protocol import CommitSpec, GroupConsumerSpec
from chaos.errors import ClientError
from chaos.ledger.schemas import TABLES
from chaos.ledger.stream import StreamEnd, read_stream

FENCED = "Fatal error: Broker: Static consumer fenced by other consumer with same group.instance.id"


class FailingConsumer:
    """Returns one error, then ends the loop of the reader."""

    def __init__(self, code: int, channel: Channel) -> None:
        self._errors = [Message(topic="", partition=0, error=KafkaError(code, FENCED))]
        self._channel = channel

    def consume(self, limit: int, timeout_s: float) -> list[Message]:
        self._channel.stopping = not self._errors
        return [self._errors.pop()] if self._errors else []


def reader(tmp_path: Path, code: int) -> GroupConsumer:
    spec = GroupConsumerSpec(
        run_id="r",
        run_token="12345678",
        ledger=tmp_path,
        client="billing/1",
        bootstrap="127.0.0.1:1",
        topics=["orders"],
        commit=CommitSpec(when="after_batch", kind="sync"),
        group="billing",
    )
    channel = Channel()
    member = GroupConsumer(spec, channel, Lifecycle(spec, channel))
    member.consumer = FailingConsumer(code, channel)  # type: ignore[assignment]
    return member


def test_a_fenced_static_member_ends(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match="FENCED_INSTANCE_ID: Fatal error: Broker: Static consumer fenced"):
        reader(tmp_path, KafkaError._FATAL).read()


def test_a_member_continues_after_an_error_that_passes(tmp_path: Path) -> None:
    reader(tmp_path, KafkaError._TRANSPORT).read()
    rows = [
        row
        for path in (tmp_path / "lifecycle").iterdir()
        for batch in read_stream(path, TABLES["lifecycle"], StreamEnd())
        for row in batch.to_pylist()
    ]
    assert [(r["event"], json.loads(r["detail"])["error"]) for r in rows] == [("error", f"_TRANSPORT: {FENCED}")]
