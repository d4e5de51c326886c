"""Explorations of real applications: the wrong way is found without a hint, a lock that a crash leaves hangs."""

import json
import signal
from pathlib import Path

import pytest
import yaml

from chaos.run.exploration import ExploreResult
from chaos.wait import wait_until
from tests.support.platform import ROOT, chaos, left_running, start

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.nightly(twin="chaos/campaign/test_explore.py"),
    pytest.mark.timeout(1500),  # each run is up to 2 min
]

STALE_LOCK = """
import json, os, signal, time
from pathlib import Path
from confluent_kafka import Consumer, Producer

lock = Path(os.environ["DATA_DIR"]) / "lock"
while lock.exists():
    time.sleep(0.2)
lock.touch()
servers = {"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"]}
group = {"group.id": "billing", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
consumer = Consumer({**servers, **group, "session.timeout.ms": 6000})
producer = Producer({**servers, "enable.idempotence": True})
consumer.subscribe(["orders"])
ending = []
signal.signal(signal.SIGTERM, lambda *_: ending.append(1))
while not ending:
    message = consumer.poll(0.2)
    if message is None or message.error():
        continue
    producer.produce("invoices", message.value())
    producer.flush()
    consumer.commit(message, asynchronous=False)
consumer.close()
lock.unlink()
"""
"""A program with a lock file, which only an orderly end removes."""


SMALL = [
    *("--set", "producers.shop.records=1000", "--set", "effects.invoices.settle=10s", "--set", "cluster.brokers=1"),
    *(f"--set=topics.{topic}.{of}" for topic in ("orders", "invoices") for of in ("replication_factor=1", "config={}")),
]
"""One broker, and a run of half a minute: its windows are those of three brokers."""


def stored(folder: Path) -> list[dict]:
    file = folder / "runs.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_an_application_that_commits_first_loses_in_a_window_and_the_bundle_of_it_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "found"
    done = chaos(
        "explore", "app-commit-order", "--variant", "before", *SMALL, "--seed", 7, "--for", 4,
        "--into", folder, "--json", timeout_s=1200,
    )  # fmt: skip
    result = ExploreResult.model_validate(done.result)
    assert done.code == 1 and result.verdict == "fail"
    (filed,) = result.filed
    assert filed.mechanism.cause == "offsets are committed before the work is done" and filed.mechanism.prevents
    assert (folder / filed.bundle).is_file()
    states = {(window.moment, window.after): window.states for window in result.windows}
    assert states["an instance leaves and comes back", ""] == {"stop": "lost"}
    assert states["OffsetCommit request", "Produce response"] == {"kill": "held"}
    assert states["OffsetCommit response", "OffsetCommit request"] == {"kill": "lost"}
    assert f"python -m chaos replay {folder / filed.bundle}" in (folder / "report.html").read_text()
    assert left_running(folder) == []


def test_an_application_that_does_not_go_on_after_a_crash_hung(tmp_path: Path) -> None:
    (tmp_path / "service.py").write_text(STALE_LOCK)
    scenario = {
        "title": "A lock that a crash leaves behind",
        "cluster": {"brokers": 1},
        "topics": [{"name": name, "partitions": 2, "replication_factor": 1} for name in ("orders", "invoices")],
        "producers": [
            {"name": "shop", "topic": "orders", "rate": "100/s", "records": 400, "outlast_faults": True,
             "value": {"samples": str(ROOT / "chaos/examples/orders.jsonl"), "id": "$.order_id"}}
        ],
        "apps": [
            {"name": "billing", "command": ["{python}", "service.py"], "group": "billing", "reads": ["orders"],
             "env": {"KAFKA_BOOTSTRAP_SERVERS": "{bootstrap}", "DATA_DIR": "{data}"}}
        ],
        "effects": [{"name": "invoices", "topic": "invoices", "id": "$.order_id", "settle": "10s"}],
        "limits": {"drain": "20s"},
    }  # fmt: skip
    (tmp_path / "hung.yaml").write_text(yaml.safe_dump(scenario))
    done = chaos("explore", tmp_path / "hung.yaml", "--seed", 5, "--for", 2, "--json", "--runs-dir", tmp_path / "runs")
    result = ExploreResult.model_validate(done.result)
    assert done.code == 1
    assert [state for window in result.windows for state in window.states.values()] == ["hung"]
    assert result.filed[0].mechanism.stopped


def test_a_search_at_random_goes_on_as_it_would_have_gone_on(tmp_path: Path) -> None:
    folder = tmp_path / "found"
    records = ("--set", "producers.shop.records=1000")
    process = start(
        "explore", "app-commit-order", "--variant", "after", *records, "--random", "--seed", 3, "--into", folder
    )  # fmt: skip
    wait_until(lambda: len(stored(folder)) >= 2, 600, "no two runs are stored")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=200)
    assert process.returncode == 130 and f"continue with --resume {folder}" in err
    assert left_running(folder) == []
    before = stored(folder)
    done = chaos("explore", "--resume", folder, "--for", 1, "--json", timeout_s=600)
    result = ExploreResult.model_validate(done.result)
    after = stored(folder)
    assert after[: len(before)] == before and len(after) == len(before) + 1
    assert {run["seed"] for run in after} and len({run["run_id"] for run in after}) == len(after)
    assert result.covered and result.open > 1000
    assert result.verdict != "fail", result.sentence
