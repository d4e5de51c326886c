"""What the programs of kafka-python and aiokafka share, on adapters without a broker."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.clients.kafka_python.traits import TRAITS
from chaos.clients.protocol import CommitSpec, GroupConsumerSpec, ProducerSpec
from chaos.clients.python.assignments import ReaderKey
from chaos.clients.python.committer import Committer
from chaos.clients.python.group import GroupConsumer
from chaos.clients.python.library import Batch, ConsumerAdapter, Library, PurePython, Report, ReportingProducer
from chaos.clients.python.program import Channel, Lifecycle
from chaos.clients.python.rows import SendLog
from chaos.clients.python.sender import Producer
from chaos.errors import ClientError
from chaos.ledger.schemas import TABLES
from chaos.ledger.stream import StreamEnd, TableWriter, read_stream

ORDERS = ("orders", 0)


class KafkaError(Exception):
    """The error of the fake library; `errno` is the code of a broker's answer."""

    def __init__(self, errno: int | None = None, *more: object) -> None:
        super().__init__(*more)
        self.errno = errno


class CommitFailedError(KafkaError):
    """A refused member, as the libraries report it."""


class FakeConsumer(ConsumerAdapter):
    """A consumer that answers from attributes, and remembers what is paused."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings, self.paused = settings, set[tuple[str, int]]()
        self.found: int | None = None
        self.stored: int | None = None
        self.error: KafkaError | None = None
        self.later: list[Any] = []

    def membership(self) -> tuple[str, int]:
        return "m-1", 3

    def take(self, partitions: Collection[tuple[str, int]]) -> dict[tuple[str, int], Any]:
        self.paused.update(partitions)
        return {}

    def resume(self, partitions: Collection[tuple[str, int]]) -> None:
        self.paused.difference_update(partitions)

    def poll(self, most: int, idle: Any, wait_s: float = 0) -> list[Any]:
        return []

    def located(self, partitions: Collection[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return {} if self.found is None else dict.fromkeys(partitions, self.found)

    def committed(self, partition: tuple[str, int]) -> int | None:
        return self.stored

    def commit(self, offsets: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], Exception]:
        if self.error:
            raise self.error
        return {}

    def commit_later(self, offsets: Mapping[tuple[str, int], int], done: Any) -> None:
        self.later.append(done)


FakeConsumer.__abstractmethods__ = frozenset()


class FakeProducer(ReportingProducer):
    """A producer without a broker, which remembers what it was asked for."""

    def __init__(self, library: Library, spec: Any, log: SendLog, settings: dict[str, Any]) -> None:
        super().__init__(library, spec, log)
        self.sent: list[int] = []
        self.calls: list[str] = []
        self.answers: list[Report] = []
        """Reports of the next send."""
        self.left: list[Report] = []
        """Reports that only an abort brings."""

    def _hand_over(self, batch: Batch, idle: object) -> int:
        self.sent += [seq for seq, *_ in batch.records()]
        self.reports.extend(self.answers)
        return len(batch.values)

    def wait(self, timeout_s: float) -> None:
        self.calls.append("wait")
        assert len(self.calls) < 100, "it waits for reports that only the abort brings"

    def init_transactions(self) -> None: ...

    def begin(self) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None:
        self.calls.append("abort")
        self.reports.extend(self.left)


OF_PRODUCER = {"acks": 1, "retries": float("inf"), "enable_idempotence": False, "linger_ms": 0}
OF_CONSUMER = {"auto_offset_reset": "latest", "session_timeout_ms": 10, "partition_assignment_strategy": ()}
LIBRARY = PurePython(
    TRAITS,
    "2.3.3",
    errors=(KafkaError, TimeoutError),
    producer=(FakeProducer, OF_PRODUCER),
    consumer=(FakeConsumer, OF_CONSUMER),
    assignors={"range": int, "sticky": str},
)
SHARED: dict[str, Any] = {"run_id": "r", "run_token": "12345678", "bootstrap": "127.0.0.1:1"}


def rows(ledger: Path, table: str) -> list[dict[str, Any]]:
    (path,) = (ledger / table).iterdir()
    return [row for batch in read_stream(path, TABLES[table], StreamEnd()) for row in batch.to_pylist()]


def member(ledger: Path, **commit: Any) -> GroupConsumer:
    spec = GroupConsumerSpec(
        **SHARED,
        ledger=ledger,
        client="billing/1",
        topics=["orders"],
        commit=CommitSpec.model_validate({"when": "after_batch", "kind": "sync", **commit}),
        group="billing",
    )
    channel = Channel()
    return GroupConsumer(LIBRARY, spec, channel, Lifecycle(spec, channel))


def fake(consumer: GroupConsumer) -> FakeConsumer:
    assert isinstance(consumer.consumer, FakeConsumer)
    return consumer.consumer


@pytest.mark.parametrize(
    ("found", "stored", "source"), [(7, 7, "committed"), (0, None, "reset"), (0, 7, "reset")], ids=str
)
def test_a_partition_is_read_only_when_the_library_has_its_position(
    tmp_path: Path, found: int, stored: int | None, source: str
) -> None:
    consumer = member(tmp_path)
    consumer.assigned([ORDERS])
    consumer.between_polls()
    assert fake(consumer).paused == {ORDERS}
    assert rows(tmp_path, "assignments") == []
    fake(consumer).found, fake(consumer).stored = found, stored
    consumer.between_polls()
    assert not fake(consumer).paused
    (row,) = rows(tmp_path, "assignments")
    assert (row["event"], row["position"], row["source"], row["generation"]) == ("assigned", found, source, 3)


def test_partitions_of_one_assignment_that_get_their_positions_one_by_one_have_its_number(tmp_path: Path) -> None:
    other = ("orders", 1)
    consumer = member(tmp_path)
    for first, second in ((ORDERS, other), (other, ORDERS)):
        positions: dict[tuple[str, int], int] = {}
        fake(consumer).located = lambda asked, known=positions: {p: known[p] for p in asked if p in known}  # type: ignore[method-assign]
        consumer.assigned([ORDERS, other])
        for partition in (first, second):
            positions[partition] = 0
            consumer.between_polls()
        consumer.revoked([ORDERS, other])
    begun = [(r["partition"], r["assignment"]) for r in rows(tmp_path, "assignments") if r["event"] == "assigned"]
    assert begun == [(0, 1), (1, 1), (1, 2), (0, 2)]


def test_a_partition_that_is_taken_away_before_has_an_assignment_without_a_position(tmp_path: Path) -> None:
    consumer = member(tmp_path)
    consumer.assigned([ORDERS])
    consumer.revoked([ORDERS])
    found = [(r["event"], r["position"], r["assignment"]) for r in rows(tmp_path, "assignments")]
    assert found == [("assigned", None, 1), ("revoked", None, 1)]


def test_records_of_a_partition_without_a_position_show_where_it_began(tmp_path: Path) -> None:
    consumer = member(tmp_path)
    consumer.assigned([ORDERS])
    record = SimpleNamespace(topic="orders", partition=0, offset=7, value=None, headers=[])
    consumer._process([record], 1)
    consumer.between_polls()
    assert not fake(consumer).paused
    assert [(r["event"], r["position"]) for r in rows(tmp_path, "assignments")] == [("assigned", None)]
    assert [(r["offset"], r["assignment"]) for r in rows(tmp_path, "deliveries")] == [(7, 1)]


def test_offsets_of_a_partition_that_was_taken_away_are_not_committed_later(tmp_path: Path) -> None:
    consumer, other = member(tmp_path, when="periodic", every_s=3600), ("orders", 1)
    fake(consumer).found = 0
    consumer.assigned([ORDERS, other])
    consumer.between_polls()
    consumer._committer.after_batch(fake(consumer), {ORDERS: 5, other: 6})
    consumer.revoked([ORDERS])
    consumer._committer._next = 0.0
    consumer._committer.after_batch(fake(consumer), {})
    assert [(r["partition"], r["offset"]) for r in rows(tmp_path, "commits")] == [(1, 6)]


def test_an_error_of_a_whole_commit_may_concern_one_of_its_partitions_only(tmp_path: Path) -> None:
    commits, consumer = committer(tmp_path, "async"), FakeConsumer({})
    commits.after_batch(consumer, {ORDERS: 5, ("orders", 1): 6})
    consumer.later[0](KafkaError(12), None)  # OFFSET_METADATA_TOO_LARGE
    commits.after_batch(consumer, {ORDERS: 7})
    consumer.later[1](KafkaError(12), None)
    commits.close()
    assert [(r["offset"], r["outcome"]) for r in rows(tmp_path, "commits")] == [
        (5, "unknown"),
        (6, "unknown"),
        (7, "fail"),
    ]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_static_member_of_which_another_process_has_the_place_ends(tmp_path: Path, kind: str) -> None:
    consumer = member(tmp_path, kind=kind)
    for error in (KafkaError(27), KafkaError(82)):
        assert consumer._poll() == []
        fake(consumer).error = error
        consumer._committer.after_batch(fake(consumer), {ORDERS: 5})
        for answered in fake(consumer).later:
            answered(error, None)
        fake(consumer).later.clear()
    with pytest.raises(ClientError, match="FENCED_INSTANCE_ID"):
        consumer._poll()
    assert {r["outcome"] for r in rows(tmp_path, "commits")} == {"fail"}


def committer(ledger: Path, kind: str) -> Committer:
    key = ReaderKey("c/1", 1, "g", "subscribe")
    commit = CommitSpec.model_validate({"when": "after_batch", "kind": kind})
    return Committer(TableWriter(ledger, "commits", "c-1.1"), key, commit, {}, {ORDERS: 1}, LIBRARY)


def test_asynchronous_commits_have_the_answer_that_arrives_or_none(tmp_path: Path) -> None:
    commits, consumer = committer(tmp_path, "async"), FakeConsumer({})
    for end in (5, 6, 7):
        commits.after_batch(consumer, {ORDERS: end})
    consumer.later[1](KafkaError(27), None)
    consumer.later[0](None, None)
    commits.close()
    found = [(r["offset"], r["outcome"], r["error"]) for r in rows(tmp_path, "commits")]
    lost = "no answer before the end"
    assert found == [(6, "fail", "REBALANCE_IN_PROGRESS"), (5, "ok", None), (7, "unknown", lost)]


def test_a_commit_that_is_refused_at_once_failed(tmp_path: Path) -> None:
    commits, consumer = committer(tmp_path, "sync"), FakeConsumer({})
    consumer.error = KafkaError(25)
    commits.after_batch(consumer, {ORDERS: 5})
    assert [(r["outcome"], r["error"]) for r in rows(tmp_path, "commits")] == [("fail", "UNKNOWN_MEMBER_ID")]


@pytest.mark.parametrize(
    ("error", "partitions", "only", "outcome"),
    [
        (None, 2, False, "ok"),
        (KafkaError(22), 2, True, "fail"),
        (KafkaError(22), 2, False, "unknown"),  # an earlier attempt may have reached the broker
        (CommitFailedError(None), 1, True, "fail"),
        (KafkaError(12), 1, True, "fail"),
        (KafkaError(12), 2, True, "unknown"),  # of one partition, and the other may be committed
        (KafkaError(7), 1, True, "unknown"),
        (KafkaError(14), 1, True, "fail"),
        (KafkaError(15), 1, True, "unknown"),
        (KafkaError(16), 1, True, "unknown"),  # a coordinator that stepped down after its append
        (KafkaError(None), 1, True, "unknown"),
    ],
)
def test_the_outcome_of_a_commit(error: KafkaError | None, partitions: int, only: bool, outcome: str) -> None:
    assert LIBRARY.commit_outcome(error, partitions == 1, only) == outcome


def test_a_failed_commit_has_the_name_of_what_the_coordinator_refused() -> None:
    assert LIBRARY.error_name(CommitFailedError(None)) == "CommitFailedError"
    assert LIBRARY.error_name(CommitFailedError(None, KafkaError(22))) == "ILLEGAL_GENERATION"
    try:
        raise CommitFailedError(None, "text") from KafkaError(25)
    except CommitFailedError as e:
        assert LIBRARY.error_name(e) == "UNKNOWN_MEMBER_ID"


@pytest.mark.parametrize(
    ("code", "kept", "outcome"),
    [
        (19, {"attempt"}, "fail"),
        (19, {"settings", "limits", "rights"}, "unknown"),
        (10, {"limits"}, "fail"),
        (10, set(), "unknown"),
        (6, {"attempt"}, "unknown"),
        (29, {"rights"}, "fail"),
    ],
)
def test_the_outcome_of_a_send(code: int, kept: set[str], outcome: str) -> None:
    assert LIBRARY.refuses_send(KafkaError(code), frozenset(kept)) == (outcome == "fail")


def test_one_attempt_is_the_default_of_early_releases_only() -> None:
    def kept_by(config: dict[str, Any], release: str, steady: list[str]) -> frozenset[str]:
        library = PurePython(TRAITS, release, (KafkaError, TimeoutError), (FakeProducer, {}), (FakeConsumer, {}), {})
        return library.kept_by(producer_spec(Path(), config=config, steady=steady))

    assert kept_by({}, "2.1.6", ["limits"]) == {"limits", "attempt"}
    assert kept_by({}, "2.2.0", ["limits"]) == {"limits"}
    assert kept_by({"retries": 0}, "2.2.0", []) == {"attempt"}
    assert kept_by({"retries": 3}, "2.1.6", []) == set()


def test_settings_have_the_names_and_types_of_the_library() -> None:
    config = {"acks": "1", "retries": "5", "enable.idempotence": "true", "linger_ms": 5}
    found = LIBRARY.own_settings(config, OF_PRODUCER)
    assert found == {"acks": 1, "retries": 5, "enable_idempotence": True, "linger_ms": 5}
    found = LIBRARY.own_settings({"partition.assignment.strategy": "range, sticky"}, OF_CONSUMER)
    assert found == {"partition_assignment_strategy": (int, str)}


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"no.such.setting": 1}, r"kafka-python 2\.3\.3 has no setting no\.such\.setting"),
        ({"partition.assignment.strategy": "cooperative-sticky"}, "has no assignor cooperative-sticky"),
    ],
)
def test_a_setting_that_the_release_does_not_have_is_refused(config: dict[str, Any], why: str) -> None:
    with pytest.raises(ClientError, match=why):
        LIBRARY.own_settings(config, OF_CONSUMER)


def producer_spec(ledger: Path, **fields: Any) -> ProducerSpec:
    written = {"client": "shop/1", "topic": "orders", "value_size": 100, "records": 5}
    return ProducerSpec.model_validate({**SHARED, "ledger": ledger, **written, **fields})


def producer(ledger: Path, **fields: Any) -> tuple[Producer, FakeProducer]:
    spec, channel = producer_spec(ledger, **fields), Channel()
    made = Producer(LIBRARY, spec, channel, Lifecycle(spec, channel))
    assert isinstance(made._kafka, FakeProducer)
    return made, made._kafka


def test_reports_become_rows_and_what_has_none_is_unknown(tmp_path: Path) -> None:
    client, kafka = producer(tmp_path)
    kafka.answers = [
        Report(0, 10, 2, 40),
        Report(1, 10, 2, -1),
        Report(2, 10, error=KafkaError(10)),
        Report(3, 10, error=KafkaError(None), taken=False),
    ]
    assert client._send(5) == 5
    client._serve()
    assert kafka.waiting() == 1
    kafka.purge()
    client._log.write(now=True)
    found = [(r["seq"], r["outcome"], r["offset"], r["error"]) for r in rows(tmp_path, "sends")]
    assert kafka.sent == [0, 1, 2, 3, 4]
    assert found == [
        (0, "ok", 40, None),
        (1, "ok", None, None),
        (2, "unknown", None, "MESSAGE_TOO_LARGE"),
        (3, "fail", None, "KafkaError"),
        (4, "unknown", None, "no answer before the end"),
    ]


def test_a_failed_record_ends_the_transaction_though_the_library_answers_nothing_before_the_abort(
    tmp_path: Path,
) -> None:
    client, kafka = producer(tmp_path, records=3, transactions={"id": "shop", "records": 3})
    kafka.answers = [Report(0, 10, error=KafkaError(47))]  # INVALID_PRODUCER_EPOCH
    kafka.left = [Report(seq, 10, error=KafkaError(None)) for seq in (1, 2)]
    assert client._spec.transactions
    client._transaction(client._spec.transactions, None)
    assert "abort" in kafka.calls
    assert [(r["txn"], r["outcome"]) for r in rows(tmp_path, "transactions")] == [(1, "aborted")]
    sends = rows(tmp_path, "sends")
    assert [r["seq"] for r in sends] == [0, 1, 2]
    assert {r["txn"] for r in sends} == {1}
