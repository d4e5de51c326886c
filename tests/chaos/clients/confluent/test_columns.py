"""Columns of messages have the values of the messages, and rows have the values of the columns."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message

from chaos.clients.assignments import ReaderKey
from chaos.clients.confluent.columns import consumed
from chaos.clients.deliveries import DeliveryLog
from chaos.ledger.record import Identity, encode
from chaos.ledger.schemas import TABLES
from chaos.ledger.stream import StreamEnd, TableWriter, read_stream

READER = ReaderKey("billing/1", 1, "billing", "subscribe")


def message(topic: str, partition: int, offset: int, epoch: int = 3, value: bytes | None = None) -> Message:
    own = encode(Identity("7f3a91c0", "shop/1", 1, offset, 5), None, b"payload")
    return Message(
        topic=topic, partition=partition, offset=offset, value=own if value is None else value, leader_epoch=epoch
    )


def test_an_error_among_records_is_detected_whatever_the_values_are() -> None:
    error = Message(
        topic="a", value=b"Broker: Unknown topic or partition", error=KafkaError(KafkaError._ALL_BROKERS_DOWN)
    )
    assert consumed([message("a", 0, 1), error], topics=False) is None
    assert consumed([message("a", 0, 1), message("a", 0, 2, value=b"foreign")], topics=False) is not None


@pytest.mark.parametrize("epochs", [(3, 3, 3), (3, 3, 4), (3, 4, 5), (-1, -1, -1), (-1, 3, 3)])
@pytest.mark.parametrize("partitions", [(0, 0, 0), (0, 1, 0)])
def test_each_record_keeps_its_leader_epoch(epochs: tuple[int, ...], partitions: tuple[int, ...]) -> None:
    records = consumed([message("a", p, i, e) for i, (p, e) in enumerate(zip(partitions, epochs, strict=True))], False)
    assert records is not None and records.epochs is not None
    assert records.epochs.tolist() == list(epochs)


def test_epochs_of_two_partitions_or_topics_differ_although_first_and_last_agree() -> None:
    for partition in (("a", 1), ("b", 0)):
        records = consumed([message("a", 0, 1, 3), message(*partition, 1, 7), message("a", 0, 2, 3)], topics=True)
        assert records is not None and records.epochs is not None
        assert records.epochs.tolist() == [3, 7, 3]


def test_rows_of_several_polls_are_written_together_with_their_poll_times(tmp_path: Path) -> None:
    writer = TableWriter(tmp_path, "deliveries", "billing/1.1")
    log = DeliveryLog(writer, READER, ["a", "b"])
    polls = [
        [message("a", 0, 7), message("b", 0, 3, epoch=-1)],
        [message("a", 1, 9), message("a", 0, 8, value=b"foreign")],
    ]
    for polled_us, poll in enumerate(polls):
        records = consumed(poll, log.needs_topics)
        assert records is not None
        log.add(records, polled_us)
    assert (log.waiting, log.delivered) == (4, 0)
    assert log.write({("a", 0): 1, ("b", 0): 2}) == {("a", 0): 9, ("a", 1): 10, ("b", 0): 4}
    assert (log.waiting, log.delivered, log.write({})) == (0, 4, {})
    (batch,) = read_stream(writer.path, TABLES["deliveries"], StreamEnd())
    columns = ("ordinal", "topic", "partition", "offset", "assignment", "leader_epoch", "seq", "polled_us")
    assert list(zip(*(batch.column(name).to_pylist() for name in columns), strict=True)) == [
        (0, "a", 0, 7, 1, 3, 7, 0),
        (1, "b", 0, 3, 2, None, 3, 0),
        (2, "a", 1, 9, None, 3, 9, 1),
        (3, "a", 0, 8, 1, 3, None, 1),
    ]


@pytest.mark.parametrize(("epochs", "written"), [((-1, -1), [None, None]), ((4, 4), [4, 4]), ((-1, 4), [None, 4])])
def test_a_missing_leader_epoch_is_null(tmp_path: Path, epochs: tuple[int, ...], written: list[int | None]) -> None:
    writer = TableWriter(tmp_path, "deliveries", "billing/1.1")
    log = DeliveryLog(writer, READER, ["a"])
    records = consumed([message("a", 0, i, epoch) for i, epoch in enumerate(epochs)], log.needs_topics)
    assert records is not None
    log.add(records, 1)
    log.write({("a", 0): 1})
    (batch,) = read_stream(writer.path, TABLES["deliveries"], StreamEnd())
    assert batch["leader_epoch"].to_pylist() == written
