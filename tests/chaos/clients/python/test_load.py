"""Partitioners of the application, and the first seq of a producer that resends."""

from pathlib import Path

import numpy as np

from chaos.clients.checkpoint import first_unacked_of, next_seq_of
from chaos.clients.python.load import partitioner
from chaos.ledger.stream import TableWriter


def test_each_partitioner_chooses_by_its_rule() -> None:
    assert list(partitioner("round_robin", 3)(7, 4, None)) == [1, 2, 0, 1]
    assert list(partitioner("by_key_number", 3)(0, 3, np.array([5, 6, 7]))) == [2, 0, 1]
    assert next(iter(partitioner(None, 3, -1)(0, 4, None))) == -1


def test_resending_starts_at_the_first_seq_without_an_acknowledged_row(tmp_path: Path) -> None:
    assert first_unacked_of(tmp_path, "shop/1") == 0
    for incarnation, outcomes in ((1, {0: "ok", 1: "ok", 2: "unknown", 3: "ok"}), (2, {2: "ok", 4: "ok"})):
        key = {"producer": "shop/1", "incarnation": incarnation}
        TableWriter(tmp_path, "lifecycle", f"shop/1.{incarnation}")
        sends = TableWriter(tmp_path, "sends", f"shop/1.{incarnation}")
        sends.append_rows([{**key, "seq": seq, "outcome": outcome} for seq, outcome in outcomes.items()])
        assert first_unacked_of(tmp_path, "shop/1") == {1: 2, 2: 5}[incarnation]
    assert next_seq_of(tmp_path, "shop/1") == 5
