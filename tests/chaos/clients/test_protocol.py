"""Specs, orders and events, without a broker."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from chaos.clients.confluent.consumer import membership
from chaos.clients.confluent.runtime import PROGRAMS_IN_PYTHON
from chaos.clients.protocol import AssignConsumerSpec, ProducerSpec, partition_name, partition_of
from chaos.clients.python.load import Pacer
from chaos.clients.python.start import ENTRY
from chaos.run.directory import Run
from tests.support.ledgers import rows

NO_BROKER = "127.0.0.1:1"


def spec(run: Run, **fields: Any) -> Path:
    base = {
        "program": "producer",
        "run_id": run.run_id,
        "run_token": "7f3a91c0",
        "ledger": str(run.ledger),
        "client": "shop/1",
    }
    path = run.path / "spec.json"
    path.write_text(json.dumps({**base, "bootstrap": NO_BROKER, "topic": "orders", "value_size": 128, **fields}))
    return path


def producer(path: Path) -> subprocess.Popen[str]:
    argv = [*PROGRAMS_IN_PYTHON["producer"], str(path)]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def wait_for(process: subprocess.Popen[str], until: str, **fields: Any) -> dict[str, Any]:
    """Read events until one has this kind and these fields, and return it."""
    assert process.stdout is not None
    for line in process.stdout:
        event: dict[str, Any] = json.loads(line)
        if event["event"] == until and all(event[name] == value for name, value in fields.items()):
            return event
    raise AssertionError(f"ended without {until}")


def stop(process: subprocess.Popen[str]) -> None:
    """Order the producer to stop, and wait for its clean exit."""
    assert process.stdin is not None
    process.stdin.write('{"do": "stop"}\n')
    process.stdin.flush()
    wait_for(process, "stopped")
    assert process.wait(30) == 0


BY_APPLICATION = {"partitioner": "round_robin", "partitions": 2}


@pytest.mark.parametrize(
    ("retries", "choice", "outcome"),
    [
        (0, BY_APPLICATION, "fail"),
        (5, BY_APPLICATION, "unknown"),
        (5, {}, "fail"),  # librdkafka never learned the partitions, so no record was in a request
    ],
)
def test_a_stopped_producer_writes_a_row_for_each_send_in_flight(
    run: Run, retries: int, choice: dict[str, Any], outcome: str
) -> None:
    # without a broker, nothing was sent; but if records have partitions, only a producer that never retries proves it
    process = producer(spec(run, records=10, keys=3, stop_within_s=0.1, config={"retries": retries}, **choice))
    wait_for(process, "progress", sent=10)
    stop(process)
    sends = rows(run, "sends")
    assert sorted(s["seq"] for s in sends) == list(range(10))
    assert {(s["outcome"], s["error"], s["offset"]) for s in sends} == {(outcome, "_PURGE_QUEUE", None)}
    assert {s["key"] for s in sends} <= {"k0", "k1", "k2"}
    assert [e["event"] for e in rows(run, "lifecycle")] == ["started", "stopped"]


def test_the_records_of_a_producer_go_to_its_topics_in_turn(run: Run) -> None:
    process = producer(spec(run, records=9, first_seq=4, in_turn=["a", "b", "c"], stop_within_s=0.1))
    wait_for(process, "progress", sent=5)
    stop(process)
    assert {s["seq"]: s["topic"] for s in rows(run, "sends")} == {4: "b", 5: "c", 6: "a", 7: "b", 8: "c"}


def test_a_program_does_not_import_pandas(run: Run) -> None:
    argv = [sys.executable, "-X", "importtime", *ENTRY[1:], "confluent", str(spec(run, records=1))]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "pyarrow.lib" in imported
    assert not {name for name in imported if name.startswith("pandas.")}


def test_a_producer_without_its_fleet_exits_at_once_and_does_not_count_as_stopped(run: Run) -> None:
    process = producer(spec(run, records=10, stop_within_s=1000))
    wait_for(process, "progress", sent=10)
    process.communicate(timeout=30)
    assert process.returncode == 1
    assert [e["event"] for e in rows(run, "lifecycle")] == ["started"]


def test_an_invalid_order_is_reported_as_an_error_and_the_client_continues(run: Run) -> None:
    process = producer(spec(run, records=0, stop_within_s=0.1))
    assert process.stdin is not None
    process.stdin.write('{"do": "dance"}\n')
    process.stdin.flush()
    assert "dance" in wait_for(process, "error")["detail"]
    stop(process)


def test_a_record_that_the_client_library_refuses_has_the_outcome_fail(run: Run) -> None:
    process = producer(spec(run, records=3, value_size=5000, stop_within_s=0.1, config={"message.max.bytes": 1000}))
    wait_for(process, "progress", sent=3, failed=3, done=True)
    stop(process)
    assert {(s["outcome"], s["error"]) for s in rows(run, "sends")} == {("fail", "MSG_SIZE_TOO_LARGE")}


def test_a_spec_refuses_unknown_fields_and_incomplete_start_positions() -> None:
    common = {"run_id": "r", "run_token": "7f3a91c0", "ledger": "x", "client": "a/1", "bootstrap": NO_BROKER}
    with pytest.raises(ValidationError, match="recrods"):
        ProducerSpec.model_validate({**common, "topic": "t", "records": 1, "value_size": 128, "recrods": 2})
    reader = {**common, "topics": ["t"], "commit": {"when": "never", "kind": "sync"}}
    with pytest.raises(ValidationError, match="timestamp_ms"):
        AssignConsumerSpec.model_validate({**reader, "start": "timestamp"})
    with pytest.raises(ValidationError, match="needs a group"):
        AssignConsumerSpec.model_validate({**reader, "start": "group"})


def test_partition_names_can_be_parsed() -> None:
    assert partition_of(partition_name(("orders", 3))) == ("orders", 3)


def test_membership_is_read_from_known_metadata_formats_only() -> None:
    assert membership(b"CGMDv2:" + struct.pack("=i", 7) + b"billing\0billing/1-abc\0\0") == ("billing/1-abc", 7)
    assert membership(b"CGMDv2:" + struct.pack("=i", -1) + b"billing\0\0\0") == (None, None)
    assert membership(b"CGMDv9:whatever") == (None, None)
    assert membership(b"CGMDv2:") == (None, None)
    assert membership(None) == (None, None)


def test_a_pacer_catches_up_a_limited_time_after_a_stall() -> None:
    pacer = Pacer(1000)
    pacer._start -= 60
    pacer._next_tick = 0
    assert pacer.due() == 250
    pacer.sent(250)
    assert pacer.due() == 0
