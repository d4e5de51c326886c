"""Power failures: a log loses whole batches, no flushed records, and nothing after a clean shutdown."""

import struct

import pytest

from chaos.cluster.api import LogTail
from chaos.cluster.process.partition_log import batches, cut_tail, recovery_point
from chaos.errors import ClusterError
from chaos.kafka.partition import TopicPartition

PARTITION = TopicPartition("orders", 0)


def batch(first, records, filling=40):
    body = struct.pack(">ibIhi", 0, 2, 0, 0, records - 1) + b"\0" * (61 - 12 - 15) + b"x" * filling
    return struct.pack(">qi", first, len(body)) + body


@pytest.fixture
def data(tmp_path):
    """orders-0: offsets 0 to 99 in one segment, 100 to 149 in the active one, in batches of 10."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    for base, end in ((0, 100), (100, 150)):
        text = b"".join(batch(first, 10) for first in range(base, end, 10))
        (folder / f"{base:020d}.log").write_bytes(text)
        (folder / f"{base:020d}.index").write_bytes(b"")
    flushed(tmp_path, 100)
    return tmp_path


def flushed(data, offset):
    lines = ["0", "2", f"other topic-like 0 {offset}", f"orders 0 {offset}"]
    (data / "recovery-point-offset-checkpoint").write_text("\n".join(lines) + "\n")


def offsets(data):
    return [(first, last) for path in sorted((data / "orders-0").glob("*.log")) for _, first, last in batches(path)]


def test_the_tail_is_cut_in_whole_batches(data):
    assert cut_tail(data, PARTITION, 15) == LogTail(130, 150)
    assert offsets(data)[-1] == (120, 129)


def test_flushed_records_are_never_cut(data):
    assert recovery_point(data, PARTITION) == 100
    assert cut_tail(data, PARTITION, 1000) == LogTail(100, 150)
    assert offsets(data)[-1] == (90, 99)


def test_without_a_number_all_unflushed_records_are_cut(data):
    flushed(data, 120)
    assert cut_tail(data, PARTITION, None) == LogTail(120, 150)


def test_a_cut_in_an_earlier_segment_removes_later_segments_and_indexes(data):
    (data / "recovery-point-offset-checkpoint").unlink()
    assert cut_tail(data, PARTITION, 60) == LogTail(90, 150)
    assert sorted(p.name for p in (data / "orders-0").iterdir()) == [f"{0:020d}.index", f"{0:020d}.log"]


def test_nothing_is_cut_if_everything_is_flushed(data):
    flushed(data, 150)
    assert cut_tail(data, PARTITION, 10) == LogTail(150, 150)
    assert offsets(data)[-1] == (140, 149)


def test_an_incomplete_last_batch_is_ignored(data):
    active = data / "orders-0" / f"{100:020d}.log"
    active.write_bytes(active.read_bytes() + batch(150, 10)[:70])
    assert cut_tail(data, PARTITION, 10) == LogTail(140, 150)


def test_nothing_is_cut_after_a_clean_shutdown(data):
    (data / ".kafka_cleanshutdown").touch()
    with pytest.raises(ClusterError, match="had a clean shutdown"):
        cut_tail(data, PARTITION, 10)


def test_a_missing_partition_is_named(data):
    with pytest.raises(ClusterError, match="no replica of orders/1"):
        cut_tail(data, TopicPartition("orders", 1), 10)
