"""Unit: specs, orders and events, without a broker."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from chaos.clients.confluent.group import membership
from chaos.clients.confluent.producer import Pacer
from chaos.clients.protocol import AssignConsumerSpec, ProducerSpec, partition_name, partition_of
from chaos.run.directory import Run
from tests.support.ledgers import rows

NOBODY = "127.0.0.1:1"


def spec(run: Run, **fields: Any) -> Path:
    base = {"run_id": run.run_id, "run_token": "7f3a91c0", "ledger": str(run.ledger), "client": "shop/1"}
    path = run.path / "spec.json"
    path.write_text(json.dumps({**base, "bootstrap": NOBODY, "topic": "orders", "value_size": 128, **fields}))
    return path


def producer(path: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "chaos.clients.confluent.producer", str(path)]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def heard(process: subprocess.Popen[str], until: str, **fields: Any) -> dict[str, Any]:
    """Read events until one is of this kind and has these fields."""
    assert process.stdout is not None
    for line in process.stdout:
        event: dict[str, Any] = json.loads(line)
        if event["event"] == until and all(event[name] == value for name, value in fields.items()):
            return event
    raise AssertionError(f"ended without {until}")


def stop(process: subprocess.Popen[str]) -> None:
    """Order it to stop, and hear that it did."""
    assert process.stdin is not None
    process.stdin.write('{"do": "stop"}\n')
    process.stdin.flush()
    heard(process, "stopped")
    assert process.wait(30) == 0


@pytest.mark.parametrize(("retries", "outcome"), [(0, "fail"), (5, "unknown")])
def test_a_stopped_producer_leaves_a_row_for_each_send_that_was_on_its_way(
    run: Run, retries: int, outcome: str
) -> None:
    # nobody listens there, so nothing was sent; but only a producer that never repeats can know that from its report
    process = producer(spec(run, records=10, keys=3, stop_within_s=0.1, config={"retries": retries}))
    heard(process, "progress", sent=10)
    stop(process)
    sends = rows(run, "sends")
    assert sorted(s["seq"] for s in sends) == list(range(10))
    assert {(s["outcome"], s["error"], s["offset"]) for s in sends} == {(outcome, "_PURGE_QUEUE", None)}
    assert {s["key"] for s in sends} <= {"k0", "k1", "k2"}
    assert [e["event"] for e in rows(run, "lifecycle")] == ["started", "stopped"]


def test_a_producer_whose_owner_is_gone_ends_at_once_and_does_not_count_as_stopped(run: Run) -> None:
    process = producer(spec(run, records=10, stop_within_s=1000))
    heard(process, "progress", sent=10)
    process.communicate(timeout=30)
    assert process.returncode == 1
    assert [e["event"] for e in rows(run, "lifecycle")] == ["started"]


def test_an_order_that_makes_no_sense_is_told_and_survived(run: Run) -> None:
    process = producer(spec(run, records=0, stop_within_s=0.1))
    assert process.stdin is not None
    process.stdin.write('{"do": "dance"}\n')
    process.stdin.flush()
    assert "dance" in heard(process, "error")["detail"]
    stop(process)


def test_a_record_that_the_client_itself_refuses_failed(run: Run) -> None:
    process = producer(spec(run, records=3, value_size=5000, stop_within_s=0.1, config={"message.max.bytes": 1000}))
    heard(process, "progress", sent=3, failed=3, done=True)
    stop(process)
    assert {(s["outcome"], s["error"]) for s in rows(run, "sends")} == {("fail", "MSG_SIZE_TOO_LARGE")}


def test_a_spec_has_no_unknown_fields_and_start_positions_are_complete() -> None:
    common = {"run_id": "r", "run_token": "7f3a91c0", "ledger": "x", "client": "a/1", "bootstrap": NOBODY}
    with pytest.raises(ValidationError, match="recrods"):
        ProducerSpec.model_validate({**common, "topic": "t", "records": 1, "value_size": 128, "recrods": 2})
    reader = {**common, "topics": ["t"], "commit": {"when": "never", "kind": "sync"}}
    with pytest.raises(ValidationError, match="timestamp_ms"):
        AssignConsumerSpec.model_validate({**reader, "start": "timestamp"})
    with pytest.raises(ValidationError, match="needs a group"):
        AssignConsumerSpec.model_validate({**reader, "start": "group"})


def test_partition_names_go_back_and_forth() -> None:
    assert partition_of(partition_name(("orders", 3))) == ("orders", 3)


def test_membership_is_read_from_the_groups_metadata_and_nothing_is_guessed() -> None:
    assert membership(b"CGMDv2:" + struct.pack("=i", 7) + b"billing\0billing/1-abc\0\0") == ("billing/1-abc", 7)
    assert membership(b"CGMDv2:" + struct.pack("=i", -1) + b"billing\0\0\0") == (None, None)
    assert membership(b"CGMDv9:whatever") == (None, None)
    assert membership(b"CGMDv2:") == (None, None)
    assert membership(None) == (None, None)


def test_a_pacer_catches_up_a_little_and_forgets_the_rest() -> None:
    pacer = Pacer(1000)
    pacer._start -= 60
    pacer._next_tick = 0
    assert pacer.due() == 250
    pacer.sent(250)
    assert pacer.due() == 0
