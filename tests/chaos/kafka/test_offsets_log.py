"""The log of offset commits, from batches as a broker returns them."""

import struct

from kafka.record.default_records import DefaultRecordBatchBuilder

from chaos.kafka.offsets_log import OFFSETS_TOPIC, Part
from chaos.kafka.partition import TopicPartition
from tests.chaos.kafka.test_offset_records import VALUES, key


def batch(base, *records, producer=None, control=False):
    """Return a batch from an offset on; with a producer, in its transaction."""
    builder = DefaultRecordBatchBuilder(2, 0, producer is not None, -1 if producer is None else producer, 0, 0, 1 << 16)
    for i, (k, v) in enumerate(records):
        assert builder.append(i, 1_000 + base + i, k, v, []) is not None
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, base)
    if control:
        (attributes,) = struct.unpack_from(">h", data, 21)
        struct.pack_into(">h", data, 21, attributes | 0x20)
    return bytes(data)


def marker(base, producer, committed):
    return batch(base, (struct.pack(">hh", 0, int(committed)), bytes(6)), producer=producer, control=True)


def commit(group="billing"):
    return key(1, group), VALUES[3]


def read(*batches, start=0, end=100, at=0):
    part = Part(TopicPartition(OFFSETS_TOPIC, 7), frozenset({"billing"}), start=start, end=end)
    reached = part._add(b"".join(batches), at)
    return part, reached


def test_a_commit_has_its_values_and_its_position_in_the_log():
    part, reached = read(batch(0, commit("other"), commit(), (key(2), b"a member")))
    (found,) = part.commits
    assert (found.group, found.topic, found.partition, found.offset, found.metadata) == (
        "billing",
        "orders",
        3,
        17,
        "m",
    )
    assert (found.commit_us, found.appended_us, found.log_partition, found.log_offset) == (5_000, 1_001_000, 7, 1)
    assert (found.transaction, part.whole, reached) == (None, True, 3)


def test_a_record_without_a_value_deletes_the_offset():
    part, _ = read(batch(0, (key(1), None)))
    assert [(c.offset, c.commit_us) for c in part.commits] == [(None, None)]


def test_markers_end_the_transactions_of_their_producer():
    part, _ = read(
        batch(0, commit(), producer=1),
        batch(1, commit(), producer=2),
        marker(2, 2, committed=True),
        marker(3, 1, committed=False),
        batch(4, commit()),
    )
    ended = [(c.log_offset, c.transaction, c.ended_us) for c in part.commits]
    assert ended == [(0, "aborted", 1_003_000), (1, "committed", 1_002_000), (4, None, None)]
    assert part.whole, "markers are records of the log"


def test_a_log_with_missing_batches_is_not_whole():
    assert not read(batch(1, commit()))[0].whole
    assert not read(batch(0, commit()), batch(2, commit()))[0].whole
    assert read(batch(0, commit()), batch(1, commit()))[0].whole


def test_a_batch_with_missing_records_is_not_whole():
    data = bytearray(batch(0, commit(), commit()))
    struct.pack_into(">i", data, 23, 5)  # the last offset of the batch: compaction keeps it
    part, reached = read(bytes(data))
    assert not part.whole and reached == 6


def test_records_before_the_start_only_show_that_none_is_missing():
    part, _ = read(batch(3, commit(), commit()), start=4, at=3)
    assert [c.log_offset for c in part.commits] == [4] and part.whole
    assert not read(batch(4, commit()), start=4, at=3)[0].whole


def test_batches_from_the_end_on_are_left_out():
    part, reached = read(batch(0, commit()), batch(1, commit()), end=1)
    assert len(part.commits) == 1 and reached == 1
