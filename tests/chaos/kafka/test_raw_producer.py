"""A producer that sends what its caller says: the bytes of its requests, and what it waits for."""

from types import SimpleNamespace

import pytest
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
)
from kafka.record import MemoryRecords

from chaos.errors import ClusterError
from chaos.kafka import raw_producer
from chaos.kafka.messages import request
from chaos.kafka.partition import TopicPartition
from chaos.kafka.raw_producer import Appended, RawProducer

ORDERS = TopicPartition("orders", 1)
CONCURRENT, INVALID_STATE, NOT_COORDINATOR = 51, 48, 16


class Kafka:
    """A cluster that keeps the requests. codes: of the next answers, by the kind of request; then all succeed."""

    def __init__(self, **codes):
        self.codes, self.asked = {kind: list(some) for kind, some in codes.items()}, []
        self.silent = False

    def transaction_coordinator(self, name):
        return 3 if name == "stray" else None

    def metadata(self):
        return SimpleNamespace(controller=1)

    def is_silent(self, broker):
        return False

    def state(self, partition):
        return SimpleNamespace(leader=2)

    def ask(self, broker, message, timeout_s):
        kind = type(message).__name__.partition("Request")[0]
        self.asked.append((broker, message))
        if self.silent:
            return None
        code = next(iter(self.codes.get(kind, [])), 0)
        self.codes[kind] = self.codes.get(kind, [])[1:]
        if kind == "AddPartitionsToTxn":
            parts = [{"partition_index": ORDERS.number, "partition_error_code": code}]
            topics = [{"name": "orders", "results_by_partition": parts}]
            return request(AddPartitionsToTxnResponse[1], results_by_topic_v3_and_below=topics)
        if kind == "Produce":
            answer = SimpleNamespace(error_code=code, base_offset=-1 if code else 40)
            return SimpleNamespace(responses=[SimpleNamespace(partition_responses=[answer])])
        return SimpleNamespace(error_code=code, producer_id=7000, producer_epoch=4)

    def kinds(self):
        return [(broker, type(message).__name__.partition("Request")[0]) for broker, message in self.asked]


def batch_of(kafka):
    message = kafka.asked[-1][1]
    assert isinstance(message, ProduceRequest)
    data = message.topic_data[0].partition_data[0]
    assert (message.topic_data[0].name, data.index, message.acks) == ("orders", 1, -1)
    return message, MemoryRecords(data.records).next_batch()


@pytest.mark.parametrize("name", ["stray", None])
def test_a_record_has_the_epoch_and_the_sequence_that_the_caller_gives(name):
    kafka = Kafka()
    producer = RawProducer(kafka, ORDERS, name)
    producer.begin()
    assert producer.produce(b"value", 5, epoch=3) == Appended("", 40)
    message, batch = batch_of(kafka)
    assert message.transactional_id == name
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7000, 3, 5)
    assert batch.is_transactional is (name is not None)
    assert batch.validate_crc()
    assert [record.value for record in batch] == [b"value"]
    producer.produce(b"value", 6)
    assert batch_of(kafka)[1].producer_epoch == 4, "the current epoch, unless another one is given"
    assert kafka.kinds() == [(3 if name else 1, "InitProducerId"), (2, "Produce"), (2, "Produce")]


def test_a_refusal_is_sent_once_and_silence_is_no_refusal():
    kafka = Kafka(Produce=[INVALID_STATE])
    producer = RawProducer(kafka, ORDERS, "stray")
    assert producer.produce(b"value", 0) == Appended("INVALID_TXN_STATE", -1)
    assert len(kafka.asked) == 1
    kafka.silent = True
    assert producer.produce(b"value", 0) == Appended(None)
    assert [a.describe() for a in (Appended("", 40), Appended("INVALID_TXN_STATE"), Appended(None))] == [
        "taken at offset 40",
        "refused with INVALID_TXN_STATE",
        "no answer",
    ]


def test_an_abort_waits_until_the_coordinator_has_written_all_markers():
    kafka = Kafka(EndTxn=[NOT_COORDINATOR, 0, CONCURRENT, CONCURRENT, 0])
    producer = RawProducer(kafka, ORDERS, "stray")
    producer.begin()
    producer.add_partition()
    producer.abort()
    assert kafka.kinds() == [(3, "InitProducerId"), (3, "AddPartitionsToTxn"), *[(3, "EndTxn")] * 5]
    ends = [m for _, m in kafka.asked if isinstance(m, EndTxnRequest)]
    assert {(m.producer_id, m.producer_epoch, m.committed) for m in ends} == {(7000, 4, False)}
    added = next(m for _, m in kafka.asked if isinstance(m, AddPartitionsToTxnRequest))
    assert added.v3_and_below_topics[0].partitions == [1]
    assert isinstance(kafka.asked[0][1], InitProducerIdRequest)


def test_a_refused_transaction_and_a_silent_cluster_are_errors(monkeypatch):
    monkeypatch.setattr(raw_producer, "TIMEOUT_S", 0.0)
    producer = RawProducer(Kafka(AddPartitionsToTxn=[INVALID_STATE]), ORDERS, "stray")
    with pytest.raises(ClusterError, match="refused to add orders/1 to a transaction: INVALID_TXN_STATE"):
        producer.add_partition()
    with pytest.raises(ClusterError, match="did not give a producer id: no broker answers"):
        RawProducer(Kafka(), ORDERS, "unknown").begin()
    with pytest.raises(ClusterError, match="did not end an aborted transaction: CONCURRENT_TRANSACTIONS"):
        RawProducer(Kafka(EndTxn=[0, CONCURRENT]), ORDERS, "stray").abort()
