"""An application of the user, unmodified, between two topics: what it loses or doubles when it is killed."""

import json

import pytest

from tests.support.platform import chaos, left_running

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

SERVICE = """
import os, sys, time
from confluent_kafka import Consumer, Producer

bootstrap = os.environ["KAFKA_BOOTSTRAP"]
consumer = Consumer({{"bootstrap.servers": bootstrap, "group.id": "billing", "auto.offset.reset": "earliest",
                     "enable.auto.commit": False, "session.timeout.ms": 6000}})
producer = Producer({{"bootstrap.servers": bootstrap, "linger.ms": 0}})
consumer.subscribe(["orders"])
while True:
    messages = consumer.consume(100, 0.2)
    for message in messages:
        assert not message.error(), message.error()
    {0}
"""
COMMIT = "if messages: consumer.commit(asynchronous=False)"
WORK = """for message in messages:
        time.sleep(0.002)
        producer.produce("invoices", message.value(), message.key())
    producer.flush()"""
SCENARIO = {
    "title": "Billing is killed",
    "topics": [{"name": name, "partitions": 2, "replication_factor": 1} for name in ("orders", "invoices")],
    "cluster": {"brokers": 1},
    "producers": [
        {"name": "shop", "topic": "orders", "rate": "400/s", "records": 1500, "outlast_faults": True,
         "value": {"samples": "orders.jsonl", "id": "$.order_id"}}
    ],
    "apps": [
        {"name": "billing", "command": ["{python}", "service.py"], "env": {"KAFKA_BOOTSTRAP": "{bootstrap}"},
         "reads": ["orders"], "restart": {"delay": "100ms"}}
    ],
    "effects": [{"name": "invoices", "topic": "invoices", "id": "$.order_id", "settle": "10s"}],
}  # fmt: skip
BEFORE_WORK = {"app": "billing", "api": "Produce", "after": "OffsetCommit response", "nth": 3}
"""The offsets are committed, and the effects have not reached a broker."""
BEFORE_COMMIT = {"app": "billing", "api": "OffsetCommit", "after": "Produce response", "nth": 3}
"""The effects are acknowledged, and the offsets are not committed."""


def run(folder, *steps, when):
    """Run the scenario with a service that takes these steps and is killed at a moment on the wire. Return the exit
    code and the result."""
    crash = {"name": "crash", "kind": "app.kill", "target": {"app": "billing"}, "when": {"wire": when}}
    (folder / "service.py").write_text(SERVICE.format("\n    ".join(steps)))
    (folder / "orders.jsonl").write_text('{"order_id": "x", "amount": 3}\n{"order_id": "y", "amount": 4}\n')
    (folder / "mine.yaml").write_text(json.dumps({**SCENARIO, "faults": [crash]}))
    ended = chaos("run", folder / "mine.yaml", "--json", "--seed", 7, "--runs-dir", folder / "runs")
    assert left_running(folder / "runs") == []
    return ended.code, ended.result


def counts(result):
    (effect,) = result["effects"]
    return {name: effect["counts"][name] for name in ("missing", "duplicate", "unexpected")}


def test_offsets_that_are_committed_before_the_work_lose_what_a_kill_interrupts(tmp_path):
    code, result = run(tmp_path, COMMIT, WORK, when=BEFORE_WORK)
    assert code == 1, result["sentence"]
    assert counts(result)["missing"] > 0
    assert counts(result)["duplicate"] == counts(result)["unexpected"] == 0
    assert all(fault["proven_us"] for fault in result["faults"])
    assert "offsets are committed before the work is done" in result["sentence"]
    told = next(
        s for s in result["effects"][0]["stories"] if s["cause"] == "offsets are committed before the work is done"
    )
    assert "enable.auto.offset.store=false" in told["prevents"] and "rdkafka" in told["library"]


@pytest.mark.nightly(
    twin="system/test_apps.py::test_offsets_that_are_committed_before_the_work_lose_what_a_kill_interrupts"
)
def test_offsets_that_are_committed_after_the_work_repeat_what_a_kill_interrupts(tmp_path):
    code, result = run(tmp_path, WORK, COMMIT, when=BEFORE_COMMIT)
    assert code == 1, result["sentence"]
    assert counts(result)["duplicate"] > 0
    assert counts(result)["missing"] == counts(result)["unexpected"] == 0
    told = result["effects"][0]["stories"][0]
    assert told["cause"] == "the work is not idempotent, or output and offsets need one transaction", told["sentence"]
    assert [frame["label"] for frame in told["frames"] if not frame["target"]] == ["was killed"]
    assert "fetched by billing/1 at" in told["sentence"] and "its effect was acknowledged at" in told["sentence"]
    page = (tmp_path / "runs" / result["run_id"] / "report.html").read_text()
    assert 'class="diagram"' in page and "Group billing" in page and "commits/s" in page
