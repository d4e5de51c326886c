"""Unit: what an assign consumer goes on from, read from its own rows."""

from __future__ import annotations

from pathlib import Path

from chaos.clients.checkpoint import checkpoint_of, next_seq_of
from chaos.ledger.writer import TableWriter


def wrote(ledger: Path, table: str, incarnation: int, *rows: dict[str, object]) -> Path:
    if not (ledger / "lifecycle" / f"replay-1.{incarnation}.arrows").exists():
        TableWriter(ledger, "lifecycle", f"replay/1.{incarnation}").close()
    with TableWriter(ledger, table, f"replay/1.{incarnation}") as writer:
        for row in rows:
            writer.append_rows([row])
        return writer.path


def began(partition: int, position: int | None) -> dict[str, object]:
    return {"event": "assigned", "topic": "orders", "partition": partition, "position": position}


def delivered(partition: int, offset: int) -> dict[str, object]:
    return {"topic": "orders", "partition": partition, "offset": offset}


def test_nothing_written_is_no_checkpoint(tmp_path: Path) -> None:
    assert checkpoint_of(tmp_path, "replay/1") == {}


def test_the_next_offset_follows_the_last_processed_one(tmp_path: Path) -> None:
    wrote(tmp_path, "assignments", 1, began(0, 0), began(1, 40))
    wrote(tmp_path, "deliveries", 1, delivered(0, 0), delivered(0, 1), delivered(0, 5))
    assert checkpoint_of(tmp_path, "replay/1") == {"orders/0": 6, "orders/1": 40}


def test_a_torn_last_batch_was_never_processed(tmp_path: Path) -> None:
    wrote(tmp_path, "assignments", 1, began(0, 0))
    path = wrote(tmp_path, "deliveries", 1, delivered(0, 0), delivered(0, 1))
    path.write_bytes(path.read_bytes()[:-3])
    assert checkpoint_of(tmp_path, "replay/1") == {"orders/0": 1}


def test_a_later_life_overrides_an_earlier_one_and_ten_comes_after_nine(tmp_path: Path) -> None:
    for incarnation in (1, 9, 10):
        wrote(tmp_path, "assignments", incarnation, began(0, incarnation * 100))
        wrote(tmp_path, "deliveries", incarnation, delivered(0, incarnation * 100))
    assert checkpoint_of(tmp_path, "replay/1") == {"orders/0": 1001}


def test_a_life_that_died_before_it_processed_anything_changes_nothing(tmp_path: Path) -> None:
    wrote(tmp_path, "assignments", 1, began(0, 0))
    wrote(tmp_path, "deliveries", 1, delivered(0, 7))
    wrote(tmp_path, "assignments", 2, began(0, 8))
    assert checkpoint_of(tmp_path, "replay/1") == {"orders/0": 8}


def test_a_producer_goes_on_after_its_highest_seq(tmp_path: Path) -> None:
    assert next_seq_of(tmp_path, "replay/1") == 0
    wrote(tmp_path, "sends", 1, {"seq": 0}, {"seq": 2}, {"seq": 1})
    assert next_seq_of(tmp_path, "replay/1") == 3
