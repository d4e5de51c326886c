"""Commits with a late answer or a refusal, without a broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from chaos.clients.assignments import ReaderKey
from chaos.clients.confluent.commits import Committer
from chaos.clients.protocol import CommitSpec
from chaos.ledger.schemas import TABLES
from chaos.ledger.stream import StreamEnd, TableWriter, read_stream


class AsyncConsumer:
    """Accepts commits and answers none."""

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> None:
        assert asynchronous


def test_a_commit_row_has_the_assignment_of_its_request(tmp_path: Path) -> None:
    numbers = {("orders", 0): 1}
    key = ReaderKey("c/1", 1, "g", "subscribe")
    writer = TableWriter(tmp_path, "commits", "c-1.1")
    committer = Committer(writer, key, CommitSpec(when="after_batch", kind="async"), {}, numbers)
    committer.after_batch(AsyncConsumer(), {("orders", 0): 5})
    committer.after_batch(AsyncConsumer(), {("orders", 0): 9})
    numbers["orders", 0] = 2  # revoked and assigned again before the answer is served
    committer.on_commit(None, [TopicPartition("orders", 0, 5)])
    committer.after_batch(AsyncConsumer(), {("orders", 0): 7})
    committer.close()
    rows = [r for batch in read_stream(writer.path, TABLES["commits"], StreamEnd()) for r in batch.to_pylist()]
    assert [(r["offset"], r["assignment"], r["outcome"]) for r in rows] == [
        (5, 1, "ok"),
        (9, 1, "unknown"),
        (7, 2, "unknown"),
    ]


class RebalancingConsumer:
    """Refuses commits until the group has its next generation."""

    def __init__(self) -> None:
        self.rebalancing = True
        self.offsets: dict[int, int] = {}

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        if self.rebalancing:
            raise KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION))
        self.offsets |= {o.partition: o.offset for o in offsets}
        return offsets


@pytest.mark.parametrize("when", ["after_batch", "after_record"])
def test_a_refused_commit_is_repeated_on_revocation_and_a_done_one_is_not(tmp_path: Path, when: str) -> None:
    key = ReaderKey("c/1", 1, "g", "subscribe")
    writer = TableWriter(tmp_path, "commits", "c-1.1")
    committer = Committer(
        writer, key, CommitSpec.model_validate({"when": when, "kind": "sync", "on_revoke": True}), {}, {}
    )
    processed = getattr(committer, when)
    consumer = RebalancingConsumer()
    processed(consumer, {("orders", 0): 5, ("orders", 1): 3, ("orders", 2): 8})
    consumer.rebalancing = False
    processed(consumer, {("orders", 1): 4})
    assert consumer.offsets == {1: 4}
    committer.revoked(consumer, [("orders", 0), ("orders", 1)])
    assert consumer.offsets == {0: 5, 1: 4}
    committer.revoked(consumer, [("orders", 0), ("orders", 1)])
    committer.close()
    rows = [r for batch in read_stream(writer.path, TABLES["commits"], StreamEnd()) for r in batch.to_pylist()]
    assert [(r["partition"], r["outcome"]) for r in rows] == [
        (0, "fail"), (1, "fail"), (2, "fail"), (1, "ok"), (0, "ok")
    ]  # fmt: skip
