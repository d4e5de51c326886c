"""The rules of share groups on real brokers that do what no setting of the scenario explains.

Nothing of Kafka breaks these rules on request. So somebody else changes the groups while they work, and the run does
not know of it: the delivery limit is raised, the lock shortened, and the state of the share coordinator initialized
again, as if its log were lost.
"""

from __future__ import annotations

import base64
import json
import subprocess
import uuid
from pathlib import Path
from types import new_class
from typing import Any

import pytest
from kafka.protocol.api_message import ApiMessage

from chaos.kafka import admin, messages
from chaos.kafka.client import Kafka, share_coordinator
from chaos.kafka.partition import TopicPartition
from chaos.wait import wait_until
from tests.support.platform import left_running, start

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(400),
    pytest.mark.nightly(twin="checks/audit/test_stories.py::test_story[delivered_beyond_the_limit]"),
]

ORDERS = TopicPartition("orders", 0)
_SCHEMAS = {"load_json": "tests.system.schemas"}
InitializeShareGroupStateRequest: Any = new_class("InitializeShareGroupStateRequest", (ApiMessage,), _SCHEMAS)
InitializeShareGroupStateResponse: Any = new_class("InitializeShareGroupStateResponse", (ApiMessage,), _SCHEMAS)
SCENARIO = """
title: Three share groups that somebody else changes
cluster: {brokers: 1, config: {group.share.min.record.lock.duration.ms: 1000}}
topics: [{name: orders, replication_factor: 1}]
producers: [{name: shop, topic: orders, records: 900, rate: 100}]
consumers:
  - mode: share
    name: limited
    group: limited
    topics: [orders]
    client: java
    release_every: 10
    release_times: 10
    settings: {share.auto.offset.reset: earliest, share.delivery.count.limit: 3}
  - mode: share
    name: locked
    group: locked
    members: 2
    topics: [orders]
    client: java
    max_poll_records: 100
    per_record: 30ms  # two members need longer for the records than they are sent in, so polls return full batches
    config: {share.acquire.mode: record_limit}
    settings: {share.auto.offset.reset: earliest, share.delivery.count.limit: 2}
  - mode: share
    name: forgetful
    group: forgetful
    topics: [orders]
    client: java
    release_every: 10
    settings: {share.auto.offset.reset: earliest}
"""


CHANGED_AT = 300
"""Number of records in the log at which the groups are changed."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], int]:
    """Return the number of findings by check and group."""
    folder = tmp_path_factory.mktemp("runs")
    scenario = folder / "scenario.yaml"
    scenario.write_text(SCENARIO)
    running = start("run", scenario, "--json", "--runs-dir", folder, stderr=subprocess.STDOUT)
    try:
        _change_groups(Kafka(wait_until(lambda: _bootstrap(folder), 120, "the run has no cluster")))
    except BaseException:
        running.kill()
        raise
    out, _ = running.communicate(timeout=300)
    assert left_running(folder) == []
    result = json.loads(next(folder.glob("*/result.json")).read_text())
    assert running.returncode == 1, out[-3000:]
    return {(total["check"], total["scope"]): total["count"] for total in result["totals"] if total["count"]}


def _bootstrap(folder: Path) -> str:
    """Return the bootstrap servers of the only run in a folder, empty before its brokers are there."""
    states = [json.loads(path.read_text()) for path in folder.glob("*/cluster.json")]
    return str(states[0]["bootstrap"]) if states else ""


def _change_groups(kafka: Kafka) -> None:
    def has_records() -> bool:
        return kafka.end_offsets([ORDERS]).get(ORDERS, 0) >= CHANGED_AT

    wait_until(has_records, 120, "the producer does not write")
    settings = {"share.auto.offset.reset": "earliest"}
    admin.set_group_settings(kafka, "limited", settings | {"share.delivery.count.limit": "8"})
    locks = {"share.delivery.count.limit": "2", "share.record.lock.duration.ms": "1000"}
    admin.set_group_settings(kafka, "locked", settings | locks)
    _forget(kafka, "forgetful")
    kafka.close()


def _forget(kafka: Kafka, group: str) -> None:
    """Make the share coordinator begin the state of a group again, at the begin of the log."""
    coordinator, metadata = share_coordinator(kafka, group, ORDERS), kafka.metadata()
    assert coordinator is not None and metadata is not None
    topic_id = uuid.UUID(bytes=base64.urlsafe_b64decode(metadata.topic_ids[ORDERS.topic] + "=="))
    state = {"partition": ORDERS.number, "state_epoch": 1000, "start_offset": 0}
    topics = [{"topic_id": topic_id, "partitions": [state]}]
    request = messages.request(InitializeShareGroupStateRequest[0], group_id=group, topics=topics)
    answer = kafka.ask(coordinator, request)
    assert answer.results[0].partitions[0].error_code == 0, answer


def test_a_raised_limit_is_found(found: dict[tuple[str, str], int]) -> None:
    assert found["overlimit_share", "limited"] >= 1


def test_a_shortened_lock_is_found(found: dict[tuple[str, str], int]) -> None:
    assert found["lock_overrun", "locked"] >= 1


def test_a_lost_state_is_found(found: dict[tuple[str, str], int]) -> None:
    assert found["redelivered_share", "forgetful"] >= CHANGED_AT // 2
    assert found["miscounted_share", "forgetful"] >= 1


def test_nothing_else_is_found(found: dict[tuple[str, str], int]) -> None:
    rest = {"overlimit_share": "limited", "lock_overrun": "locked"}
    rest |= dict.fromkeys(("redelivered_share", "miscounted_share"), "forgetful")
    assert {check: group for check, group in found if check.endswith(("_share", "_overrun"))} == rest
