"""Rows of commits with a late answer, without a broker."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import TopicPartition

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
