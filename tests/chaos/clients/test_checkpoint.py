"""The position at which a later incarnation continues, read from ledger rows."""

from __future__ import annotations

from pathlib import Path

from chaos.clients.checkpoint import checkpoint_of, next_seq_of
from chaos.ledger.stream import TableWriter


def write(ledger: Path, table: str, incarnation: int, *rows: dict[str, object]) -> Path:
    if not (ledger / "lifecycle" / f"replay-1.{incarnation}.arrows").exists():
        TableWriter(ledger, "lifecycle", f"replay/1.{incarnation}").close()
    with TableWriter(ledger, table, f"replay/1.{incarnation}") as writer:
        for row in rows:
            writer.append_rows([row])
        return writer.path


def assigned(partition: int, position: int | None) -> dict[str, object]:
    return {"event": "assigned", "topic": "orders", "partition": partition, "position": position}


def delivered(partition: int, offset: int) -> dict[str, object]:
    return {"topic": "orders", "partition": partition, "offset": offset}


def test_without_rows_the_checkpoint_is_empty(tmp_path: Path) -> None:
    assert checkpoint_of(tmp_path, "replay/1") == {}


def test_the_checkpoint_is_the_offset_after_the_last_processed_record(tmp_path: Path) -> None:
    write(tmp_path, "assignments", 1, assigned(0, 0), assigned(1, 40))
    write(tmp_path, "deliveries", 1, delivered(0, 0), delivered(0, 1), delivered(0, 5))
    assert checkpoint_of(tmp_path, "replay/1") == {"orders/0": 6, "orders/1": 40}


def test_a_torn_last_batch_does_not_count(tmp_path: Path) -> None:
    write(tmp_path, "assignments", 1, assigned(0, 0))
    path = write(tmp_path, "deliveries", 1, delivered(0, 0), delivered(0, 1))
    path.write_bytes(path.read_bytes()[:-3])
    assert checkpoint_of(tmp_path, "replay/1") == {"orders/0": 1}


def test_a_later_incarnation_overrides_an_earlier_one_and_ten_follows_nine(tmp_path: Path) -> None:
    for incarnation in (1, 9, 10):
        write(tmp_path, "assignments", incarnation, assigned(0, incarnation * 100))
        write(tmp_path, "deliveries", incarnation, delivered(0, incarnation * 100))
    assert checkpoint_of(tmp_path, "replay/1") == {"orders/0": 1001}


def test_an_incarnation_without_processed_records_is_at_its_start_position(tmp_path: Path) -> None:
    write(tmp_path, "assignments", 1, assigned(0, 0))
    write(tmp_path, "deliveries", 1, delivered(0, 7))
    write(tmp_path, "assignments", 2, assigned(0, 8))
    assert checkpoint_of(tmp_path, "replay/1") == {"orders/0": 8}


def test_only_checkpoints_with_a_row_count_if_they_are_apart_from_the_results(tmp_path: Path) -> None:
    write(tmp_path, "assignments", 1, assigned(0, 0), assigned(1, 40), assigned(0, 2) | {"event": "checkpoint"})
    write(tmp_path, "deliveries", 1, delivered(0, 0), delivered(0, 5))
    assert checkpoint_of(tmp_path, "replay/1", stored=True) == {"orders/0": 2}


def test_a_producer_continues_after_its_highest_seq(tmp_path: Path) -> None:
    assert next_seq_of(tmp_path, "replay/1") == 0
    write(tmp_path, "sends", 1, {"seq": 0}, {"seq": 2}, {"seq": 1})
    assert next_seq_of(tmp_path, "replay/1") == 3
