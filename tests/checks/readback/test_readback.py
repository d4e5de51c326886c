"""Read-back from a real broker: the same records as `chaos.ledger.record` parses one by one."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from chaos.errors import ClusterError
from chaos.ledger.record import CRC_AT, SEQ_AT, Identity, crc_ok, encode, parse, run_token
from chaos.ledger.schemas import COMMIT_LOG, COMMIT_LOG_RANGE, LOG, LOG_RANGE
from chaos.run.directory import Run
from chaos.scenario.model import Scenario
from chaos.scenario.resolve import Resolved
from chaos.wait import wait_until
from checks.readback.source import OffsetRange, read
from checks.readback.stage import log_ranges, read_back, read_commit_log

RUN_ID = "read-back"
TOKEN = run_token(RUN_ID)
GOOD = encode(Identity(TOKEN, "shop/1", 1, 7, 1_763_697_600_000_000), b"k", b"payload")
KEYLESS = encode(Identity(TOKEN, "shop/12345678901234567"[:20], 2, 8, 1_763_697_600_000_000), None, b"")
RECORDS: list[tuple[bytes | None, bytes | None]] = [
    (b"k", GOOD),
    (None, KEYLESS),
    (b"", encode(Identity(TOKEN, "p", 1, 999_999_999_999, 0), b"", bytes(range(256)))),
    (b"other key", GOOD),
    (b"k", GOOD[:-1] + b"!"),
    (b"k", GOOD[:SEQ_AT] + b"x" + GOOD[SEQ_AT + 1 :]),
    (b"k", GOOD[:CRC_AT] + GOOD[CRC_AT : CRC_AT + 8].upper() + GOOD[CRC_AT + 8 :]),
    (None, b"not one of ours, though it is long enough to have had a header of the right length, if it only had one"),
    (None, b"short"),
    (None, b""),
    (b"k", None),
    (None, "AS1 ünïcödé header that is long enough to be one, but is not one by any means at all, is it now".encode()),
]


def resolved(*topics: str) -> Resolved:
    scenario = Scenario.model_validate(
        {
            "title": "read back",
            "cluster": {"brokers": 1},
            "topics": [{"name": t, "partitions": 2, "replication_factor": 1} for t in topics],
            "producers": [{"name": "shop", "topic": topics[0]}],
        }
    )
    return Resolved(run_id=RUN_ID, name="read-back", seed=1, scenario=scenario, versions={}, created_us=0)


def make(bootstrap: str, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic(t, 2, 1) for t in topics]).values():
        future.result(30)


READ = """
import sys
from pathlib import Path
from chaos.run.directory import Run
from chaos.scenario.resolve import Resolved
from chaos.wait import wait_until
from checks.readback.stage import read_back
from checks.spark.session import spark_session
run = Run(Path(sys.argv[1]))
read_back(spark_session(), run, Resolved.model_validate_json(sys.stdin.read()), sys.argv[2])
"""


def read_back_elsewhere(run: Run, what: Resolved, bootstrap: str) -> None:
    """Read back in a separate process, as the command line does: the test session lacks the jars."""
    done = subprocess.run(
        [sys.executable, "-c", READ, str(run.path), bootstrap],
        input=what.model_dump_json(), capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.kafka
def test_every_record_is_read_back_as_the_ledger_reads_it(bootstrap: str, tmp_path: Path) -> None:
    make(bootstrap, "log-orders", "log-empty")
    producer = Producer({"bootstrap.servers": bootstrap})
    for key, value in RECORDS:
        producer.produce("log-orders", value, key, partition=1)
    producer.flush(30)
    run = Run.create(tmp_path, RUN_ID)
    began = time.time_ns() // 1000
    read_back_elsewhere(run, resolved("log-orders", "log-empty"), bootstrap)

    log = pq.read_table(run.ledger / "log")
    assert [(f.name, f.type) for f in log.schema] == [(f.name, f.type) for f in LOG]
    rows = sorted(log.to_pylist(), key=lambda r: r["offset"])
    assert [(r["topic"], r["partition"], r["offset"]) for r in rows] == [
        ("log-orders", 1, i) for i in range(len(RECORDS))
    ]
    for (key, value), row in zip(RECORDS, rows, strict=True):
        known = parse(value)
        expected = (known.run, known.producer, known.incarnation, known.seq) if known else (None,) * 4
        assert (row["run"], row["producer"], row["incarnation"], row["seq"]) == expected, value
        has_header = value is not None and value.startswith(b"AS1 ") and len(value) > CRC_AT + 8
        assert row["crc_ok"] == (crc_ok(key, value) if has_header and value else None), value
        assert row["committed"] and abs(row["timestamp_us"] - began) < 600_000_000
    ranges = pq.read_table(run.ledger / "log_range.parquet")
    assert ranges.schema.equals(LOG_RANGE)
    bounds = {(r["topic"], r["partition"]): (r["start"], r["end"]) for r in ranges.to_pylist()}
    assert bounds == {
        ("log-empty", 0): (0, 0),
        ("log-empty", 1): (0, 0),
        ("log-orders", 0): (0, 0),
        ("log-orders", 1): (0, 12),
    }
    assert not list(run.ledger.glob(".*"))


@pytest.mark.kafka
@pytest.mark.parametrize("small", [True, False], ids=["threads", "spark"])
def test_each_file_has_one_partition_and_files_sort_by_partition_and_offset(
    bootstrap: str, tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    topic = f"many-{small}"
    make(bootstrap, topic)
    producer = Producer({"bootstrap.servers": bootstrap})
    for i in range(250):
        value = encode(Identity(TOKEN, "shop/1", 1, i, 1), None, b"")
        producer.produce(topic, value, partition=int(i >= 200))
    producer.flush(30)
    if not small:
        monkeypatch.setattr("checks.readback.stage.SMALL", 0)
    monkeypatch.setattr("checks.readback.stage.ROWS_PER_FILE", 80)  # of a stretch; Spark's workers keep to their own
    run = Run.create(tmp_path, RUN_ID)
    read_back(spark, run, resolved(topic), bootstrap)
    read = [pq.read_table(path) for path in sorted((run.ledger / "log").iterdir())]
    assert [set(zip(*t.select(["topic", "partition"]).to_pydict().values(), strict=True)) for t in read] == [
        {(topic, 0)}, {(topic, 0)}, {(topic, 0)}, {(topic, 1)},
    ]  # fmt: skip
    offsets = [t["offset"].to_pylist() for t in read]
    assert offsets == [[*range(80)], [*range(80, 160)], [*range(160, 200)], [*range(50)]]
    assert [seq for t in read for seq in t["seq"].to_pylist()] == list(range(250))


@pytest.mark.kafka
def test_a_file_is_full_before_the_next_begins(bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(bootstrap, "log-full")
    producer = Producer({"bootstrap.servers": bootstrap})
    for i in range(100):
        producer.produce("log-full", b"%d" % i, partition=0)
    producer.flush(30)
    monkeypatch.setattr("checks.readback.source.ROWS_PER_FILE", 30)
    monkeypatch.setattr("checks.readback.source.ROWS_PER_BATCH", 13)
    assert read(OffsetRange(bootstrap, "log-full", 0, 5, 95, tmp_path, 2)).rows == 90
    files = sorted(tmp_path.iterdir())
    assert [path.name for path in files] == [f"part-00002-{i:05}.parquet" for i in range(3)]
    assert [pq.read_table(path)["offset"].to_pylist() for path in files] == [
        [*range(5, 35)], [*range(35, 65)], [*range(65, 95)],
    ]  # fmt: skip


@pytest.mark.kafka
def test_offsets_without_a_record_are_skipped(bootstrap: str, tmp_path: Path) -> None:
    """With control records and aborted transactions, no client gets the last offset of the log."""
    make(bootstrap, "log-txn")
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "readback"})
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce("log-txn", b"value", partition=0)
        producer.flush(30)
        end(30)
    bounds = log_ranges(bootstrap, ["log-txn"])["log-txn", 0]
    assert bounds == (0, 4)
    assert read(OffsetRange(bootstrap, "log-txn", 0, *bounds, tmp_path, 0)).rows == 2
    assert read(OffsetRange(bootstrap, "log-txn", 0, 1, 2, tmp_path, 1)).rows == 0


@pytest.mark.kafka
def test_a_deleted_range_is_an_error(bootstrap: str, tmp_path: Path) -> None:
    make(bootstrap, "log-gone")
    with pytest.raises(ClusterError, match="log-gone/0, offsets 7 to 9"):
        read(OffsetRange(bootstrap, "log-gone", 0, 7, 9, tmp_path, 0))


@pytest.mark.kafka
def test_a_missing_topic_is_named(bootstrap: str, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="nowhere"):
        log_ranges(bootstrap, ["nowhere"])
    shutil.rmtree(tmp_path)


def committed(consumer: Consumer, offset: TopicPartition) -> bool:
    """Commit an offset; return whether the coordinator took it. A new cluster has no coordinator at first."""
    try:
        consumer.commit(offsets=[offset], asynchronous=False)
    except KafkaException as e:
        if not e.args[0].retriable():
            raise
        return False
    return True


@pytest.mark.kafka
def test_offset_commits_are_read_back_with_the_end_of_their_transaction(bootstrap: str, tmp_path: Path) -> None:
    make(bootstrap, "log-inputs")
    what = resolved("log-inputs")
    groups = ("log-billing", "log-idle")
    consumers = [{"mode": "subscribe", "name": group, "group": group, "topics": ["log-inputs"]} for group in groups]
    document = what.scenario.model_dump(include={"title", "cluster", "topics", "producers"}, exclude_unset=True)
    what = what.model_copy(update={"scenario": Scenario.model_validate(document | {"consumers": consumers})})
    server = {"bootstrap.servers": bootstrap}
    consumer = Consumer({**server, "group.id": "log-billing", "enable.auto.commit": False})
    wait_until(lambda: committed(consumer, TopicPartition("log-inputs", 1, 7)), 30, "the coordinator takes no commit")
    producer = Producer({**server, "transactional.id": "log-reader"})
    producer.init_transactions(30)
    for offset, end in ((8, producer.commit_transaction), (9, producer.abort_transaction)):
        producer.begin_transaction()
        sent = [TopicPartition("log-inputs", 1, offset)]
        producer.send_offsets_to_transaction(sent, consumer.consumer_group_metadata(), 30)
        end(30)
    consumer.close()
    run = Run.create(tmp_path, RUN_ID)
    run.ledger.mkdir(exist_ok=True)
    read_commit_log(run, what, bootstrap, None)
    rows = pq.read_table(run.ledger / "commit_log.parquet", schema=COMMIT_LOG).to_pylist()
    assert [(r["group"], r["topic"], r["partition"], r["offset"], r["transaction"]) for r in rows] == [
        ("log-billing", "log-inputs", 1, 7, None),
        ("log-billing", "log-inputs", 1, 8, "committed"),
        ("log-billing", "log-inputs", 1, 9, "aborted"),
    ]
    reads = pq.read_table(run.ledger / "commit_log_range.parquet", schema=COMMIT_LOG_RANGE).to_pylist()
    assert sorted((r["group"], r["start"], r["whole"], r["error"]) for r in reads) == [
        ("log-billing", 0, True, None),
        ("log-idle", 0, True, None),
    ]
