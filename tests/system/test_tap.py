"""`tap` before a cluster that exists: clients that know nothing of it, SIGINT, SIGKILL, and the verdict."""

from __future__ import annotations

import json
import secrets
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.protocol.producer import ProduceRequest, ProduceResponse
from kafka.record.default_records import DefaultRecordBatchBuilder

from chaos.kafka.messages import request
from chaos.processes.ports import free_ports
from chaos.run.events import now_us
from chaos.wait import wait_until
from tests.chaos.relay.messages import encoded
from tests.support.platform import chaos, left_running, start

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(420)]

READY_S, JUDGED_S = 120.0, 360.0


class Tapped:
    """A tap that records, and what it said so far."""

    def __init__(self, process: subprocess.Popen[str], said: Path, address: str) -> None:
        self.process, self._said, self.address = process, said, address

    @property
    def said(self) -> str:
        return self._said.read_text()

    def wait_said(self, words: str) -> None:
        wait_until(lambda: words in self.said, READY_S, lambda: f"{words!r} was never said:\n{self.said[-3000:]}")

    def end(self) -> tuple[int, dict[str, object]]:
        """Ask the tap to end; return its exit code and the result."""
        self.process.send_signal(signal.SIGINT)
        out, _ = self.process.communicate(timeout=JUDGED_S)
        assert out, self.said[-3000:]
        return self.process.returncode, json.loads(out)


@contextmanager
def tapped(bootstrap: str, folder: Path, port: int | None = None) -> Iterator[Tapped]:
    port = port or free_ports(1)[0]
    said = folder.parent / f"said-{secrets.token_hex(4)}"
    options = ("--bootstrap", bootstrap, "--listen", f"127.0.0.1:{port}", "--into", folder, "--json")
    with said.open("w") as stderr:
        process = start("tap", *options, "--runs-dir", folder.parent, stderr=stderr)
    tap = Tapped(process, said, f"127.0.0.1:{port}")
    try:
        tap.wait_said("recording what passes")
        yield tap
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = f"tap-{secrets.token_hex(4)}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(30)
    return name


def send(bootstrap: str, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "client.id": "shop"})
    for n in range(records):
        producer.produce(topic, f"secret value {n}", str(n))
    assert producer.flush(60) == 0


@contextmanager
def reader(bootstrap: str, group: str, topic: str, client: str = "billing-app") -> Iterator[Consumer]:
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "client.id": client, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings | {"enable.auto.commit": False, "session.timeout.ms": 6000})
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def read(consumer: Consumer, records: int) -> None:
    """Read and commit until so many records have come."""
    found = 0

    def enough() -> bool:
        nonlocal found
        messages = [message for message in consumer.consume(50, 0.2) if message.error() is None]
        found += len(messages)
        if messages:
            consumer.commit(asynchronous=False)
        return found >= records

    wait_until(enough, 90, lambda: f"only {found} of {records} records came")


def test_clients_through_a_tap_are_recorded_and_judged_and_what_was_before_is_no_anomaly(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    send(bootstrap, topic, 100)
    with reader(bootstrap, topic, topic) as before:
        read(before, 40)
    with tapped(bootstrap, tmp_path / "one") as tap:
        with reader(tap.address, topic, topic) as consumer:
            send(tap.address, topic, 300)
            read(consumer, 300)
        tap.wait_said("is gone: its last connection closed")
        code, result = tap.end()
    assert (code, result["verdict"]) == (0, "pass"), result["sentence"]
    assert f"group {topic} is at generation" in tap.said and "billing-app" in tap.said
    counts = result["counts"]
    assert (counts["sent"], counts["acked"], counts["in_log"]) == (300, 300, 300)  # type: ignore[index]
    held = {e["check"]: e for e in result["expectations"] if e["verdict"] == "pass"}  # type: ignore[index, union-attr]
    assert {"lost_write", "duplicate_write", "skipped_delivery", "double_ownership"} <= held.keys()
    files = [path for path in (tmp_path / "one").rglob("*") if path.is_file()]
    assert files and not [path for path in files if b"secret value" in path.read_bytes()]
    assert left_running(tmp_path) == []


def batch(records: int) -> bytes:
    builder = DefaultRecordBatchBuilder(
        **{"magic": 2, "compression_type": 0, "is_transactional": False, "producer_id": -1, "producer_epoch": -1},
        **{"base_sequence": -1, "batch_size": 1_000_000},
    )
    for n in range(records):
        builder.append(n, now_us() // 1000, b"k", b"v%d" % n, [])
    return bytes(builder.build())


def send_twice(address: str, topic: str) -> None:
    """Send a batch again before its answer came, as a client without idempotence does after a time-out.

    Both requests leave in one segment, so that no answer can come between them.
    """
    data = [{"name": topic, "partition_data": [{"index": 0, "records": batch(3)}]}]
    asked = request(ProduceRequest[7], transactional_id=None, acks=-1, timeout_ms=30_000, topic_data=data)
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), 30) as s, s.makefile("rb") as answers:
        s.sendall(b"".join(encoded(asked, number, "shop") for number in (1, 2)))
        for _ in range(2):
            frame = answers.read(int.from_bytes(answers.read(4), "big"))
            answer = ProduceResponse.decode(frame, version=7, header=True)
            assert answer.responses[0].partition_responses[0].error_code == 0


@pytest.mark.landing
def test_a_record_that_a_client_sent_twice_fails_the_tap(bootstrap: str, topic: str, tmp_path: Path) -> None:
    with tapped(bootstrap, tmp_path / "twice") as tap:
        send_twice(tap.address, topic)
        code, result = tap.end()
    assert (code, result["verdict"]) == (1, "fail"), result["sentence"]
    assert "3 records were written more than once" in str(result["sentence"])


@pytest.mark.landing
def test_a_tap_that_was_killed_goes_on_with_its_ports_and_folder_and_passes_nothing(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    with tapped(bootstrap, tmp_path / "killed") as tap:
        send(tap.address, topic, 50)
        tap.process.send_signal(signal.SIGKILL)
        tap.process.wait()
    wait_until(lambda: left_running(tmp_path) == [], 60, "the relay outlives the tap")
    port = int(tap.address.rpartition(":")[2])
    with tapped(bootstrap, tmp_path / "killed", port) as again:
        again.wait_said("the tap goes on after a gap")
        send(again.address, topic, 50)
        code, result = again.end()
    assert (code, result["verdict"]) == (3, "inconclusive")
    assert "the tap did not run from" in str(result["sentence"])
    assert result["counts"]["in_log"] == 100  # type: ignore[index]
    ends = Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    assert sum(ends.get_watermark_offsets(TopicPartition(topic, p))[1] for p in (0, 1)) == 100
    ends.close()


@pytest.mark.landing
def test_a_tap_that_was_killed_after_its_recording_passes_when_it_is_judged_later(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    with tapped(bootstrap, tmp_path / "left") as tap:
        with reader(tap.address, topic, topic) as consumer:
            send(tap.address, topic, 50)
            read(consumer, 50)
        tap.process.send_signal(signal.SIGINT)
        tap.wait_said("finding out who spoke")
        tap.process.send_signal(signal.SIGKILL)
        tap.process.wait()
    wait_until(lambda: left_running(tmp_path) == [], 60, "the relay outlives the tap")
    done = chaos("tap", "--judge", tmp_path / "left", "--json", timeout_s=JUDGED_S)
    assert (done.code, done.result["verdict"]) == (0, "pass"), done.result["sentence"]
    assert done.result["counts"]["in_log"] == 50
