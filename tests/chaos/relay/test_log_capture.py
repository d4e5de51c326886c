"""Tests of the capture of a log, with a stand-in for the brokers."""

from types import SimpleNamespace

from kafka.protocol.consumer import FetchResponse

from chaos.kafka.partition import TopicPartition
from chaos.relay import log_capture
from chaos.relay.capture import ANSWER
from chaos.relay.frames import LENGTH_BYTES
from chaos.relay.segments import Tail
from tests.chaos.relay.messages import encoded
from tests.checks.wire.story import batch, fetched

ORDERS = TopicPartition("orders", 0)


class Brokers:
    """Brokers with one partition, which answer a fetch with the batches from its offset on, the last one cut off."""

    def __init__(self, batches, error=0):
        self.batches, self.error, self.asked = batches, error, []

    def __call__(self, *_):
        return self

    def state(self, partition):
        return SimpleNamespace(leader=3)

    def ask(self, leader, request):
        at = request.topics[0].partitions[0].fetch_offset
        self.asked.append(at)
        if len(self.asked) == 2:
            return None  # an answer is late
        there = [records for offset, records in self.batches if offset >= at]
        data = b"".join(there[:1]) + b"".join(there[1:2])[:-5]
        frame = encoded(fetched(data, version=4, error=self.error))
        return FetchResponse.decode(memoryview(frame)[LENGTH_BYTES:], version=4, header=True)

    def close(self):
        pass


def captured(tmp_path, monkeypatch, brokers, end, kept="none"):
    monkeypatch.setattr(log_capture, "Kafka", brokers)
    failures = log_capture.capture_log(tmp_path / "log", "", None, {ORDERS: (0, end)}, kept)
    return failures, [e for e in Tail(tmp_path / "log").new() if e.kind == ANSWER]


def test_each_batch_is_asked_for_until_it_is_complete(tmp_path, monkeypatch):
    batches = [(base, batch((b"a secret", b"b"), (7, 0, base), base=base)) for base in (0, 2, 4)]
    brokers = Brokers(batches)
    failures, found = captured(tmp_path, monkeypatch, brokers, 6)
    assert failures == {} and brokers.asked == [0, 2, 2, 4]
    assert len(found) == 3 and b"secret" not in b"".join(entry.data for entry in found)
    _, whole = captured(tmp_path, monkeypatch, Brokers(batches), 6, kept="all")
    assert b"secret" in whole[0].data


def test_a_partition_whose_log_does_not_reach_back_is_named(tmp_path, monkeypatch):
    failures, found = captured(tmp_path, monkeypatch, Brokers([], error=1), 6)
    assert failures == {ORDERS: "its log does not reach from 0 any more"} and found == []


def test_an_empty_range_is_not_asked_for(tmp_path, monkeypatch):
    brokers = Brokers([])
    assert captured(tmp_path, monkeypatch, brokers, 0) == ({}, []) and brokers.asked == []


def test_a_batch_has_the_sequence_of_its_producer() -> None:
    brokers = Brokers([(4, batch((b"a", b"b"), (7, 3, 11), base=4)), (6, batch(base=6))])
    assert log_capture.batch_at(brokers, ORDERS, 4) == log_capture.Batch(4, 5, 7, 3, 11)
    assert log_capture.batch_at(brokers, ORDERS, 6) is None  # the answer is late
    plain = log_capture.batch_at(brokers, ORDERS, 6)
    assert plain is not None and plain.producer_id == -1


def test_a_batch_is_asked_for_once_and_without_an_id_left_out(monkeypatch):
    brokers = Brokers([(0, batch(base=0)), (2, batch((b"a", b"b"), (7, 3, 11), base=2))])
    brokers.asked = [-1, -1]  # no answer is late
    monkeypatch.setattr(log_capture, "Kafka", brokers)
    found = log_capture.batches_of("", None, {ORDERS: [0, 1, 2, 3, 9, 10]})
    assert found == {ORDERS: [log_capture.Batch(2, 3, 7, 3, 11)]}
    assert brokers.asked[2:] == [0, 2, 9]  # the partition ends with what is not there


def test_a_batch_that_does_not_have_the_offset_is_not_taken_for_it() -> None:
    assert log_capture.batch_at(Brokers([(4, batch(base=4))]), ORDERS, 3) is None
    assert log_capture.batch_at(Brokers([(4, batch(base=4))], error=1), ORDERS, 4) is None
