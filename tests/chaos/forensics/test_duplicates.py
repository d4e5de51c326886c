"""Duplicates by sequence and by content, from batches as a broker returns them."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from chaos.forensics import duplicates
from chaos.forensics.duplicates import Contents, Search
from chaos.forensics.model import Findings, Topic
from chaos.kafka.offsets_log import Fetched
from chaos.kafka.partition import TopicPartition
from tests.chaos.kafka.test_offsets_log import marker

Record = tuple[bytes | None, bytes | None]


def batch(
    base: int,
    *records: Record,
    producer: int = -1,
    sequence: int = -1,
    epoch: int = 0,
    transactional: bool = False,
    at_ms: int = 1_000,
    headers: tuple[tuple[str, bytes], ...] = (),
) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, transactional, producer, epoch, sequence, 1 << 16)
    for i, (key, value) in enumerate(records):
        assert builder.append(i, at_ms, key, value, list(headers)) is not None
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, base)
    return bytes(data)


def compressed(plain: bytes, codec: int) -> bytes:
    """Return a batch with its records compressed as clients do: Snappy in blocks of snappy-java, LZ4 in frames."""
    body = plain[61:]
    if codec == 3:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "lz4") as stream:
            stream.write(body)
        packed = sink.getvalue().to_pybytes()
    else:
        blocks = [bytes(pa.Codec("snappy").compress(body[i : i + 16])) for i in range(0, len(body), 16)]
        packed = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
        packed += b"".join(struct.pack(">i", len(b)) + b for b in blocks)
    head = bytearray(plain[:61])
    head[22] |= codec
    struct.pack_into(">i", head, 8, 49 + len(packed))
    return bytes(head) + packed


ABORTED = 2
"""Offsets from the first record of an aborted transaction to its marker."""


def search(*batches: bytes, aborted: tuple[tuple[int, int], ...] = (), most: int = 100) -> tuple[Findings, Topic]:
    findings, topic = Findings(), Topic(name="orders")
    found = Search(TopicPartition("orders", 0), topic, Contents(most), findings)
    at = 0
    for data in batches:  # an answer each, which has the aborted transactions that it begins or goes on with
        ended = [first for _, first in aborted if at > first + ABORTED]
        at = found.take(Fetched(data, () if ended else aborted), at, 1_000)
    return findings, topic


def test_different_records_are_no_duplicates() -> None:
    found, topic = search(
        batch(0, (b"a", b"1"), (b"b", b"1"), producer=1, sequence=0), batch(2, (b"a", b"2"), producer=1, sequence=2)
    )
    assert (found.counts, topic.records) == ({}, 3)


def test_equal_contents_are_named_with_both_offsets() -> None:
    found, _ = search(batch(0, (b"a", b"1")), batch(1, (b"a", b"1")))
    assert found.counts == {"content": 1}
    assert found.named[0].words == "offset 1 has what orders/0@0 has, with the same timestamp; key 'a'"
    assert found.named[0].place == "orders/0@1"


def test_a_record_sent_again_later_has_another_timestamp() -> None:
    found, _ = search(batch(0, (b"a", b"1")), batch(1, (b"a", b"1"), at_ms=2_000))
    assert "with another timestamp" in found.named[0].words


@pytest.mark.parametrize("other", [(b"b", b"1"), (b"a", b"2"), (None, b"1"), (b"", b"1"), (b"a1", b"")])
def test_key_and_value_both_count(other: Record) -> None:
    assert search(batch(0, (b"a", b"1")), batch(1, other))[0].counts == {}


def test_headers_count() -> None:
    assert search(batch(0, (b"a", b"1")), batch(1, (b"a", b"1"), headers=(("h", b""),)))[0].counts == {}


def test_tombstones_of_a_key_are_no_duplicates() -> None:
    assert search(batch(0, (b"a", None)), batch(1, (b"a", None)))[0].counts == {}


def test_a_sequence_that_comes_again_is_named_with_the_first_batch() -> None:
    first = batch(0, (b"a", b"1"), (b"b", b"1"), producer=1, sequence=5)
    again = bytearray(first)
    struct.pack_into(">q", again, 0, 9)
    found, _ = search(first, batch(2, (b"c", b"1"), producer=1, sequence=7), bytes(again))
    assert found.counts == {"sequence": 1, "content": 2}
    words = "offsets 9 to 10: sequence 5 of producer id 1, epoch 0, again; the batch at offset 0 has it, with the same"
    assert found.of("sequence")[0].words == f"{words} bytes"


def test_a_sequence_of_other_bytes_says_so_and_a_part_of_a_batch_counts() -> None:
    first = batch(0, (b"a", b"1"), (b"b", b"1"), producer=1, sequence=5)
    found, _ = search(first, batch(2, (b"x", b"1"), producer=1, sequence=5))
    assert found.named[0].words.endswith("the batch at offset 0 has it, with other bytes")
    found, _ = search(first, batch(2, (b"x", b"1"), producer=1, sequence=6))
    assert found.named[0].words.endswith("an earlier batch has it; where is not remembered")


@pytest.mark.parametrize(
    "following",
    [
        batch(2, (b"x", b"1"), producer=1, sequence=7),
        batch(2, (b"x", b"1"), producer=1, sequence=90),  # a hole: other records are gone
        batch(2, (b"x", b"1"), producer=1, sequence=5, epoch=1),
        batch(2, (b"x", b"1"), producer=2, sequence=5),
        batch(2, (b"x", b"1")),
    ],
)
def test_other_sequences_are_no_repetition(following: bytes) -> None:
    assert search(batch(0, (b"a", b"1"), (b"b", b"1"), producer=1, sequence=5), following)[0].counts == {}


def test_sequences_begin_again_behind_the_largest_number() -> None:
    last = batch(0, (b"a", b"1"), (b"b", b"1"), producer=1, sequence=2**31 - 2)
    assert search(last, batch(2, (b"c", b"1"), producer=1, sequence=0))[0].counts == {}


def test_records_of_an_aborted_transaction_are_no_records() -> None:
    def of(base: int, sequence: int) -> bytes:
        return batch(base, (b"a", b"1"), producer=9, sequence=sequence, transactional=True)

    log = of(0, 0), of(1, 1), marker(2, 9, committed=False), of(3, 2), marker(4, 9, committed=True)
    found, topic = search(*log, aborted=((9, 0),))
    assert (found.counts, topic.records) == ({}, 1)
    found, topic = search(*log)  # both committed
    assert (found.counts, topic.records) == ({"content": 2}, 3)


def test_an_abort_that_only_its_marker_shows_ends_there() -> None:
    later = batch(2, (b"a", b"1"), producer=9, sequence=1, transactional=True)
    _, topic = search(marker(1, 9, committed=False) + later, aborted=((9, 0),))
    assert topic.records == 1


def test_what_is_farther_apart_than_the_bound_is_not_seen() -> None:
    log = [batch(n, (b"%d" % n, b"1")) for n in range(5)]
    again = batch(5, (b"0", b"1"))
    assert search(*log, again, most=5)[0].counts == {"content": 1}
    assert search(*log, again, most=4)[0].counts == {}


@pytest.mark.parametrize("codec", [2, 3])
def test_compressed_batches_are_read(codec: int) -> None:
    plain = batch(0, (b"a", b"1" * 100), (b"b", b"1" * 100))
    packed = compressed(plain, codec)
    assert packed != plain
    found, topic = search(packed, batch(2, (b"b", b"1" * 100)))
    assert (found.counts, topic.records) == ({"content": 1}, 3)


def test_a_batch_that_is_cut_off_is_left_for_the_next_answer() -> None:
    findings, topic = Findings(), Topic(name="orders")
    found = Search(TopicPartition("orders", 0), topic, Contents(), findings)
    data = batch(0, (b"a", b"1")) + batch(1, (b"b", b"1"))
    assert found.take(Fetched(data[:-3]), 0, 10) == 1
    assert topic.records == 1


def test_a_batch_that_begins_before_the_asked_offset_counts_from_there_on() -> None:
    topic = Topic(name="orders")
    found = Search(TopicPartition("orders", 0), topic, Contents(), Findings())
    assert found.take(Fetched(batch(0, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"))), 1, 2) == 3
    assert topic.records == 1


def test_the_producers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "MOST_PRODUCERS", 2)
    found = Search(TopicPartition("orders", 0), Topic(name="orders"), Contents(), Findings())
    for producer in range(3):
        found.take(Fetched(batch(producer, (b"%d" % producer, b"1"), producer=producer, sequence=0)), producer, 10)
    assert found.sequences.forgotten
