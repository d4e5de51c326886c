"""`forensics` on a cluster of `up`: what was planted is found and named, and nothing else; and its refusals."""

from __future__ import annotations

import csv
import json
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from chaos.cluster import state
from chaos.kafka import admin
from chaos.kafka.client import Kafka
from chaos.kafka.partition import TopicPartition as Address
from chaos.kafka.raw_producer import RawProducer
from chaos.run.directory import Run
from chaos.wait import wait_until
from tests.support.platform import chaos, start

pytestmark = [pytest.mark.kafka, pytest.mark.landing]

FIRST_MS = int(time.time() * 1000) - 600_000
"""The first timestamp, not so early that retention removes the record."""
VERIFIES = "transaction.partition.verification.enable"


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One broker with topics, the history of groups, duplicates, an open transaction, and one that hangs."""
    runs = tmp_path_factory.mktemp("runs")
    began = chaos("up", "--brokers", "1", "--runs-dir", runs)
    (run_dir,) = runs.glob("up-*")
    address = state.load(Run(run_dir)).bootstrap
    assert began.code == 0, began.err
    try:
        held = plant(address)
        yield address
        del held  # the end of this producer would abort its transaction
    finally:
        chaos("down", run_dir)


def plant(address: str) -> Producer:
    """Make what is to be found; return a producer with an open transaction."""
    client = AdminClient({"bootstrap.servers": address})
    topics = ("orders", "clean", "held", "stuck")
    for created in client.create_topics([NewTopic(t, 1, 1) for t in topics]).values():
        created.result(30)
    produce(address, "orders", [(f"k{n}", f"v{n}") for n in range(100)] + [("k7", "v7")])
    produce(address, "clean", [(f"k{n}", f"v{n}") for n in range(100)])
    consume(address, "billing", "orders", [10, 20, 30, 12, 40])
    consume(address, "steady", "clean", [10, 20, 30])
    reset(client, "billing", "orders", 90)
    held = Producer({"bootstrap.servers": address, "transactional.id": "shop-1", "transaction.timeout.ms": 600_000})
    held.init_transactions(30)
    held.begin_transaction()
    held.produce("held", b"v")
    assert held.flush(30) == 0
    hang(address, "stuck")
    return held


def produce(address: str, topic: str, records: Sequence[tuple[str, str]]) -> None:
    producer = Producer(
        {"bootstrap.servers": address, "enable.idempotence": True, "compression.type": "lz4", "log_level": 0}
    )
    for at, (key, value) in enumerate(records, FIRST_MS):
        producer.produce(topic, value, key, timestamp=at)
    assert producer.flush(30) == 0


def consume(address: str, group: str, topic: str, offsets: Sequence[int]) -> None:
    """Commit offsets as a member of a group, which then leaves."""
    config = {"bootstrap.servers": address, "group.id": group, "client.id": f"{group}-app", "enable.auto.commit": False}
    with closing(Consumer({**config, "auto.offset.reset": "earliest"})) as consumer:
        consumer.subscribe([topic])
        wait_until(lambda: consumer.poll(1.0) is not None, 60, "no record arrives")
        for offset in offsets:
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)


def reset(client: AdminClient, group: str, topic: str, offset: int) -> None:
    """Set an offset of a group without members, as kafka-consumer-groups does."""

    def empty() -> bool:
        return client.describe_consumer_groups([group])[group].result(30).state.name == "EMPTY"

    wait_until(empty, 60, f"{group} is not empty")
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, offset)])
    client.alter_consumer_group_offsets([wanted])[group].result(30)


def hang(address: str, topic: str) -> None:
    """Leave a record of a transaction on a partition that its coordinator does not know (KAFKA-14402)."""
    with closing(Kafka(address, 10)) as kafka:
        broker = next(iter(kafka.metadata().brokers))
        admin.set_of_broker(kafka, broker, {VERIFIES: "false"})
        producer = RawProducer(kafka, Address(topic, 0), "late")
        producer.begin()
        # the broker refuses it until the setting is in force there
        wait_until(lambda: producer.produce(b"late", 0).error == "", 60, "the record is not taken", every_s=0.2)


def examined(bootstrap: str, into: Path, *more: object) -> tuple[int, dict[str, Any]]:
    done = chaos("forensics", "--bootstrap", bootstrap, "--into", into, "--json", *more)
    return done.code, done.result


def test_what_was_planted_is_found_and_named(bootstrap: str, tmp_path: Path) -> None:
    code, found = examined(bootstrap, tmp_path / "all", "--topic", "orders", "--topic", "clean")
    assert code == 1
    assert found["problems"] == []
    assert found["findings"]["counts"] == {"rewind": 1, "foreign": 1, "hanging": 1, "content": 1}
    named = {f["kind"]: f for f in found["findings"]["named"]}
    assert named["rewind"]["where"] == "billing on orders/0"
    assert named["rewind"]["words"].startswith("fell from 30 (")
    assert named["rewind"]["words"].endswith(" to 12; committed by: billing-app at 127.0.0.1")
    assert named["foreign"]["words"].startswith("committed 90 (before: 40), and the group had no members since 20")
    assert named["hanging"]["where"] == "stuck/0 from offset 0"
    assert named["content"]["words"] == "offset 100 has what orders/0@7 has, with another timestamp; key 'k7'"
    states = [(t["state"], t["partition"], t["transactional_id"]) for t in found["transactions"]]
    assert states == [("open", "held/0", "shop-1"), ("hanging", "stuck/0", None)]
    lags = {g["name"]: (g["state"], [p["end"] - p["offset"] for p in g["places"]]) for g in found["groups"]}
    assert lags == {"billing": ("Empty", [11]), "steady": ("Empty", [70])}
    assert [(t["records"], t["notes"]) for t in found["topics"]] == [(101, []), (100, [])]
    assert 0 < found["reading"]["bytes"] <= found["reading"]["rate"] * found["reading"]["seconds"]
    with (tmp_path / "all" / "commits.csv").open(newline="", encoding="utf-8") as table:
        rows = [row for row in csv.DictReader(table) if row["group"] == "billing"]
    assert [int(row["offset"]) for row in rows] == [10, 20, 30, 12, 40, 90]
    page = (tmp_path / "all" / "report.html").read_text(encoding="utf-8")
    assert "1 rewind, 1 foreign commit, 1 hanging transaction, 1 repeated content" in page


def test_one_group_and_a_clean_topic_show_only_what_is_not_theirs(bootstrap: str, tmp_path: Path) -> None:
    _, found = examined(bootstrap, tmp_path / "one", "--group", "steady", "--topic", "clean")
    assert found["findings"]["counts"] == {"hanging": 1}
    assert [g["name"] for g in found["groups"]] == ["steady"]


def test_the_cluster_is_as_before(bootstrap: str, tmp_path: Path) -> None:
    def seen() -> object:
        with closing(Kafka(bootstrap, 10)) as kafka:
            metadata = kafka.metadata()
            assert metadata is not None
            return sorted(map(str, metadata.partitions)), kafka.end_offsets(sorted(metadata.partitions))

    before = seen()
    done = chaos("forensics", "--bootstrap", bootstrap, "--topic", "orders", "--runs-dir", tmp_path)
    assert done.out.startswith("found: 1 rewind, 1 foreign commit, 1 hanging transaction, 1 repeated content; seen: ")
    assert seen() == before


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--bootstrap", "127.0.0.1:1"), "nothing listens at 127.0.0.1:1"),
        (("--topic", "ordres"), "the cluster has no topic 'ordres'; did you mean orders?"),
        (("--group", "biling"), "the cluster has no group 'biling'; did you mean billing?"),
        (("--rate", "fast"), "--rate: 'fast' is not understood"),
        (("--since", "yesterday"), "--since: 'yesterday' is not understood"),
        (("--logs", "nowhere"), "nowhere"),
    ],
)
def test_a_refusal_is_one_line_and_leaves_no_folder(
    bootstrap: str, tmp_path: Path, argv: Sequence[str], said: str
) -> None:
    place = () if argv[0] == "--bootstrap" else ("--bootstrap", bootstrap)
    done = chaos("forensics", *place, *argv, "--runs-dir", tmp_path / "runs")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1].startswith(f"error: {said}")
    assert "Traceback" not in done.err
    assert not list((tmp_path / "runs").glob("*/*"))


def test_ctrl_c_leaves_what_was_found_so_far(bootstrap: str, tmp_path: Path) -> None:
    into = tmp_path / "broken-off"
    began = start("forensics", "--bootstrap", bootstrap, "--topic", "orders", "--rate", "20B", "--into", into)
    wait_until(lambda: (into / "commits.csv").exists(), 60, "it does not begin")
    began.send_signal(signal.SIGINT)
    out, err = began.communicate(timeout=60)
    assert began.returncode == 130, err
    assert "Traceback" not in err
    assert json.loads((into / "result.json").read_text(encoding="utf-8"))["interrupted"] is True
    assert "interrupted: what is below was found before" in (into / "report.html").read_text(encoding="utf-8")
    assert out.startswith("incomplete: ")
