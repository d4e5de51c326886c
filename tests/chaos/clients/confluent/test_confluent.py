"""librdkafka as the programs see it, without a broker: outcomes, columns, commits, errors, seeks."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, Message, TopicPartition

from chaos.clients.confluent import consumer as adapter
from chaos.clients.confluent.consumer import Consumer, consumed
from chaos.clients.confluent.library import LIBRARY
from chaos.clients.confluent.traits import COMMITS, SENDS
from chaos.clients.protocol import (
    AssignConsumerSpec,
    CommitSpec,
    GroupConsumerSpec,
    Outcome,
    ProducerSpec,
    TransactionSpec,
)
from chaos.clients.python.assigned import AssignConsumer
from chaos.clients.python.assignments import ReaderKey
from chaos.clients.python.committer import Committer
from chaos.clients.python.group import GroupConsumer
from chaos.clients.python.program import Channel, Lifecycle
from chaos.clients.python.rows import DeliveryLog
from chaos.clients.python.sender import Producer
from chaos.errors import ClientError
from chaos.ledger.record import Identity, encode
from chaos.ledger.schemas import TABLES
from chaos.ledger.stream import StreamEnd, TableWriter, read_stream

SHARED: dict[str, Any] = {"run_id": "r", "run_token": "12345678", "bootstrap": "127.0.0.1:1"}


def rows(ledger: Path, table: str) -> list[dict[str, Any]]:
    return [
        row
        for path in (ledger / table).iterdir()
        for batch in read_stream(path, TABLES[table], StreamEnd())
        for row in batch.to_pylist()
    ]


def reader_spec(ledger: Path, **fields: Any) -> dict[str, Any]:
    commit = {"when": "after_batch", "kind": "sync"}
    return {**SHARED, "ledger": ledger, "client": "billing/1", "topics": ["orders"], "commit": commit, **fields}


FENCED = "Fatal error: Broker: Static consumer fenced by other consumer with same group.instance.id"


class FailingConsumer:
    """Returns one error, then ends the loop of the reader."""

    def __init__(self, code: int, channel: Channel) -> None:
        self._errors = [Message(topic="", partition=0, error=KafkaError(code, FENCED))]
        self._channel = channel

    def consume(self, limit: int, timeout_s: float) -> list[Message]:
        self._channel.stopping = not self._errors
        return [self._errors.pop()] if self._errors else []


def adapter_of(client: GroupConsumer | AssignConsumer) -> Consumer:
    assert isinstance(client.consumer, Consumer)
    return client.consumer


def reader(tmp_path: Path, code: int) -> GroupConsumer:
    spec = GroupConsumerSpec.model_validate(reader_spec(tmp_path, group="billing"))
    channel = Channel()
    member = GroupConsumer(LIBRARY, spec, channel, Lifecycle(spec, channel))
    adapter_of(member).kafka = FailingConsumer(code, channel)
    return member


def test_a_fenced_static_member_ends(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match="FENCED_INSTANCE_ID: Fatal error: Broker: Static consumer fenced"):
        reader(tmp_path, KafkaError._FATAL).read()


def test_a_member_continues_after_an_error_that_passes(tmp_path: Path) -> None:
    reader(tmp_path, KafkaError._TRANSPORT).read()
    assert [(r["event"], json.loads(r["detail"])["error"]) for r in rows(tmp_path, "lifecycle")] == [
        ("error", f"_TRANSPORT: {FENCED}")
    ]


def test_the_end_of_a_log_shows_where_librdkafka_began_to_read(tmp_path: Path) -> None:
    spec = GroupConsumerSpec.model_validate(reader_spec(tmp_path, group="billing", assign_by="client"))
    channel = Channel()
    member = GroupConsumer(LIBRARY, spec, channel, Lifecycle(spec, channel))
    adapter_of(member).kafka = SimpleNamespace(assign=lambda targets: None, consumer_group_metadata=lambda: None)
    member.assigned([("orders", 0), ("orders", 1)])
    end = KafkaError(KafkaError._PARTITION_EOF)
    member.look_for_starts([message("orders", 1, 7), Message(topic="orders", partition=0, offset=9, error=end)])
    found = [(r["event"], r["partition"], r["position"]) for r in rows(tmp_path, "assignments")]
    assert found == [("assigned", 0, None), ("assigned", 1, None), ("position", 0, 9)]


class AsyncConsumer:
    """Accepts commits and answers none."""

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> None:
        assert asynchronous


def committer(
    ledger: Path, kafka: object, numbers: dict[tuple[str, int], int], **commit: Any
) -> tuple[Committer, Consumer]:
    """Return the commits of a consumer, and the consumer, whose library is `kafka`."""
    key = ReaderKey("c/1", 1, "g", "subscribe")
    setting = CommitSpec.model_validate({"kind": "sync", **commit})
    made = Committer(TableWriter(ledger, "commits", "c-1.1"), key, setting, {}, numbers, LIBRARY)
    spec = GroupConsumerSpec.model_validate(reader_spec(ledger, group="g"))
    consumer = Consumer(LIBRARY, spec, made.unasked, lambda error: None)
    consumer.kafka = kafka
    return made, consumer


def test_a_commit_row_has_the_assignment_of_its_request(tmp_path: Path) -> None:
    numbers = {("orders", 0): 1}
    commits, consumer = committer(tmp_path, AsyncConsumer(), numbers, when="after_batch", kind="async")
    commits.after_batch(consumer, {("orders", 0): 5})
    commits.after_batch(consumer, {("orders", 0): 9})
    numbers["orders", 0] = 2  # revoked and assigned again before the answer is served
    consumer._on_commit(None, [TopicPartition("orders", 0, 5)])
    commits.after_batch(consumer, {("orders", 0): 7})
    commits.close()
    assert [(r["offset"], r["assignment"], r["outcome"]) for r in rows(tmp_path, "commits")] == [
        (5, 1, "ok"),
        (9, 1, "unknown"),
        (7, 2, "unknown"),
    ]


def test_each_partition_of_an_answer_has_its_own_error_or_the_common_one(tmp_path: Path) -> None:
    commits, consumer = committer(tmp_path, AsyncConsumer(), {}, when="after_batch", kind="async")
    commits.after_batch(consumer, {("orders", 0): 5, ("orders", 1): 7})
    refused = KafkaError(KafkaError.ILLEGAL_GENERATION)
    consumer._on_commit(None, [answer(0, 5), answer(1, 7, refused), answer(2, 9)])
    consumer._on_commit(refused, [answer(2, 10)])
    commits.close()
    found = {(r["partition"], r["offset"]): (r["outcome"], r["error"]) for r in rows(tmp_path, "commits")}
    assert found == {
        (0, 5): ("ok", None),
        (1, 7): ("fail", "ILLEGAL_GENERATION"),
        (2, 9): ("ok", None),  # nobody asked for it
        (2, 10): ("unknown", "ILLEGAL_GENERATION"),  # an earlier attempt may have succeeded
    }


def test_partitions_with_the_same_error_failed_each(tmp_path: Path) -> None:
    commits, consumer = committer(tmp_path, AsyncConsumer(), {}, when="after_batch", kind="async")
    commits.after_batch(consumer, {("orders", 0): 5, ("orders", 1): 7})
    too_large = KafkaError(KafkaError.OFFSET_METADATA_TOO_LARGE)
    consumer._on_commit(None, [answer(0, 5, too_large), answer(1, 7, too_large)])
    commits.close()
    assert {r["outcome"] for r in rows(tmp_path, "commits")} == {"fail"}


def answer(partition: int, offset: int, error: KafkaError | None = None) -> Any:
    return SimpleNamespace(topic="orders", partition=partition, offset=offset, error=error)


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
    kafka = RebalancingConsumer()
    commits, consumer = committer(tmp_path, kafka, {}, when=when, on_revoke=True)
    processed = getattr(commits, when)
    processed(consumer, {("orders", 0): 5, ("orders", 1): 3, ("orders", 2): 8})
    kafka.rebalancing = False
    processed(consumer, {("orders", 1): 4})
    assert kafka.offsets == {1: 4}
    commits.revoked(consumer, [("orders", 0), ("orders", 1)])
    assert kafka.offsets == {0: 5, 1: 4}
    commits.revoked(consumer, [("orders", 0), ("orders", 1)])
    commits.close()
    assert [(r["partition"], r["outcome"]) for r in rows(tmp_path, "commits")] == [
        (0, "fail"), (1, "fail"), (2, "fail"), (1, "ok"), (0, "ok")
    ]  # fmt: skip


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


FIRST, SECOND = ("orders", 0), ("orders", 1)


class Assigning:
    """A consumer that keeps what it is assigned, with the time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.acts: list[Any] = []

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.acts.append((self.now, {(p.topic, p.partition): p.offset for p in partitions}))

    def seek(self, partition: TopicPartition) -> None:
        self.acts.append((partition.topic, partition.partition, partition.offset))

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def assigned(tmp_path: Path, kafka: Assigning) -> AssignConsumer:
    spec = AssignConsumerSpec.model_validate(reader_spec(tmp_path))
    channel = Channel()
    found = AssignConsumer(LIBRARY, spec, channel, Lifecycle(spec, channel))
    adapter_of(found).kafka = kafka
    found.assignments.numbers.update({FIRST: 1, SECOND: 1})
    found.assignments.positions.update({FIRST: 40, SECOND: 50})
    return found


def test_partitions_are_assigned_without_offsets_and_then_all_of_them_where_reading_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = Assigning()
    monkeypatch.setattr(adapter.time, "sleep", kafka.sleep)
    order = {"do": "seek", "offsets": {"orders/0": 9, "other/0": 3}, "lookup_first_s": 0.5}
    starts = assigned(tmp_path, kafka)._seek(order)
    assert starts == {FIRST: 9, SECOND: 50}, "each assignment begins, the second one at its position"
    assert kafka.acts == [(0.0, dict.fromkeys(starts, OFFSET_INVALID)), (0.5, starts)]


def test_another_order_to_seek_assigns_nothing(tmp_path: Path) -> None:
    kafka = Assigning()
    assert assigned(tmp_path, kafka)._seek({"do": "seek", "offsets": {"orders/0": 9}}) == {FIRST: 9}
    assert kafka.acts == [("orders", 0, 9)]


NOTHING, ATTEMPT = frozenset(), frozenset({"attempt"})
STEADY = frozenset({"settings", "limits", "rights"})
ALL = STEADY | {"batch"}


def send_outcome(error: KafkaError, kept: frozenset[str]) -> Outcome:
    return "fail" if LIBRARY.refuses_send(KafkaException(error), kept) else "unknown"


def commit_outcome(error: KafkaError | None, took_s: float | None) -> Outcome:
    only = LIBRARY.is_only_attempt(True, took_s, {"retry.backoff.ms": 100})
    return LIBRARY.commit_outcome(error and KafkaException(error), True, only)


def kept_by(config: dict[str, Any], transactional: bool, steady: list[Any]) -> frozenset[str]:
    spec = producer_spec(Path(), config=config, steady=steady)
    return LIBRARY.kept_by(
        spec.model_copy(update={"transactions": TransactionSpec(id="t", records=1)}) if transactional else spec
    )


def producer_spec(ledger: Path, **fields: Any) -> ProducerSpec:
    written = {"client": "shop/1", "topic": "orders", "value_size": 100, "records": 3}
    return ProducerSpec.model_validate({**SHARED, "ledger": ledger, **written, **fields})


def test_a_send_is_unknown_after_a_time_out_or_a_lost_connection() -> None:
    for code in (
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TIMED_OUT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError._TRANSPORT,
        KafkaError._PURGE_INFLIGHT,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.UNKNOWN,
        KafkaError._FATAL,
    ):
        assert send_outcome(KafkaError(code), ATTEMPT) == "unknown"
        assert send_outcome(KafkaError(code), ALL) == "unknown"


def test_a_refused_send_failed_only_if_there_was_no_earlier_attempt() -> None:
    refused = KafkaError(KafkaError.NOT_ENOUGH_REPLICAS)
    assert send_outcome(refused, ATTEMPT) == "fail"
    assert send_outcome(refused, ALL) == "unknown"


def test_a_record_that_no_broker_accepts_was_never_appended_unless_the_topic_changed() -> None:
    refused = KafkaError(KafkaError.INVALID_RECORD)
    assert send_outcome(refused, frozenset({"settings"})) == "fail"
    assert send_outcome(refused, frozenset({"batch", "limits", "rights"})) == "unknown"


def test_a_timestamp_may_have_been_in_time_at_an_earlier_attempt() -> None:
    assert send_outcome(KafkaError(KafkaError.INVALID_TIMESTAMP), ALL) == "unknown"
    assert send_outcome(KafkaError(KafkaError.INVALID_TIMESTAMP), ATTEMPT) == "fail"
    assert send_outcome(KafkaError(KafkaError.INVALID_TIMESTAMP), frozenset({"timestamps"})) == "fail"


def test_a_timestamp_of_one_record_of_a_batch_is_named_as_such() -> None:
    """As librdkafka reports it if a broker refused several records of a batch."""
    text = "Timestamp 9 of message with offset 4 is out of range. The timestamp should be within [1, 2]"
    refused = KafkaError(KafkaError.INVALID_RECORD, text)
    assert LIBRARY.error_name(KafkaException(refused)) == "INVALID_TIMESTAMP"
    assert send_outcome(refused, frozenset({"timestamps"})) == "fail"
    assert send_outcome(refused, frozenset({"settings"})) == "unknown"
    other = KafkaException(KafkaError(KafkaError.INVALID_RECORD, "One or more records have been rejected"))
    assert LIBRARY.error_name(other) == "INVALID_RECORD"


def test_a_refused_commit_failed_if_the_answer_came_before_a_retry_was_possible() -> None:
    refused = KafkaError(KafkaError.ILLEGAL_GENERATION)
    assert commit_outcome(refused, took_s=0.01) == "fail"
    assert commit_outcome(refused, took_s=0.09) == "unknown"
    assert commit_outcome(refused, took_s=None) == "unknown"


def test_a_commit_without_an_answer_is_unknown() -> None:
    for code in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._WAIT_COORD, KafkaError.REQUEST_TIMED_OUT):
        assert commit_outcome(KafkaError(code), took_s=0.01) == "unknown"
    assert commit_outcome(None, took_s=None) == "ok"


def test_a_batch_that_is_too_large_failed_if_every_attempt_was_the_same_batch() -> None:
    refused = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    assert send_outcome(refused, ATTEMPT) == "fail"
    assert send_outcome(refused, frozenset({"batch", "limits"})) == "fail"
    assert send_outcome(refused, STEADY) == "unknown"
    assert send_outcome(refused, ALL - {"limits"}) == "unknown"


@pytest.mark.parametrize(("timed_out", "outcome"), [(False, "fail"), (True, "unknown")])
def test_after_a_time_out_batches_may_differ_also_with_idempotence(
    tmp_path: Path, timed_out: bool, outcome: str
) -> None:
    spec, channel = producer_spec(tmp_path, config={"enable.idempotence": True}, steady=["limits"]), Channel()
    producer = Producer(LIBRARY, spec, channel, Lifecycle(spec, channel))
    values = [encode(Identity("12345678", "shop/1", 1, seq, 5), None, b"") for seq in (0, 1)]
    reports = [SimpleNamespace(partition=lambda: 0, value=lambda v=value: v) for value in values]
    if timed_out:
        producer._kafka._failed(KafkaError(KafkaError._MSG_TIMED_OUT), reports[0])
    producer._kafka._failed(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), reports[1])
    producer._log.write(now=True)
    assert {r["outcome"] for r in rows(tmp_path, "sends") if r["seq"] == 1} == {outcome}


def test_a_client_without_the_right_appended_nothing_unless_its_rights_changed() -> None:
    for code in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED):
        assert send_outcome(KafkaError(code), frozenset({"rights"})) == "fail"
        assert send_outcome(KafkaError(code), ALL - {"rights"}) == "unknown"


@pytest.mark.parametrize("error", [KafkaError._UNKNOWN_TOPIC, KafkaError._MSG_TIMED_OUT, KafkaError._PURGE_QUEUE])
@pytest.mark.parametrize(("partition", "outcome"), [(-1, "fail"), (0, "unknown")])
def test_a_record_that_never_had_a_partition_was_in_no_request(
    tmp_path: Path, error: int, partition: int, outcome: str
) -> None:
    spec, channel = producer_spec(tmp_path), Channel()
    producer = Producer(LIBRARY, spec, channel, Lifecycle(spec, channel))
    report = SimpleNamespace(
        partition=lambda: partition, value=lambda: encode(Identity("12345678", "shop/1", 1, 0, 5), None, b"")
    )
    producer._kafka._failed(KafkaError(error), report)
    producer._log.write(now=True)
    (row,) = rows(tmp_path, "sends")
    assert (row["seq"], row["outcome"], row["partition"]) == (0, outcome, None if partition < 0 else 0)


def test_only_a_producer_that_never_retries_makes_single_attempts() -> None:
    assert kept_by({"retries": 0}, transactional=False, steady=[]) == ATTEMPT
    assert kept_by({"message.send.max.retries": "0"}, transactional=False, steady=["rights"]) == {"attempt", "rights"}
    assert kept_by({}, transactional=False, steady=[]) == NOTHING
    assert kept_by({"retries": 1, "acks": 0}, transactional=False, steady=[]) == NOTHING


def test_only_an_idempotent_producer_repeats_the_same_batch() -> None:
    assert kept_by({"enable.idempotence": True}, transactional=False, steady=["limits"]) == {"batch", "limits"}
    assert kept_by({}, transactional=True, steady=[]) == {"batch"}
    assert kept_by({"enable.idempotence": "false"}, transactional=False, steady=[]) == NOTHING


def test_each_entry_of_the_tables_has_a_reason() -> None:
    assert all(refusal.why for refusal in (*SENDS.values(), *COMMITS.values()))
