"""Where an assign consumer stood: its own checkpoint, which is nothing but its own rows.

A delivery row is written when its record is processed, so the offsets in them are kept with the sink, in one write:
what Flink and Spark do with offsets that they store beside their results.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from chaos.clients.protocol import Partition, partition_name
from chaos.ledger.reader import StreamEnd, read_stream
from chaos.ledger.schemas import TABLES
from chaos.ledger.writer import SUFFIX


def checkpoint_of(ledger_dir: Path, client: str) -> dict[str, int]:
    """Next offset by `topic/partition`, from all earlier lives of a client; empty if it never got to read.

    A partition from which nothing was processed is where it began. A torn last batch was never processed.
    """
    position: dict[Partition, int] = {}
    for incarnation in _incarnations(ledger_dir, client):
        for batch in _batches(ledger_dir, "assignments", client, incarnation):
            for row in batch.to_pylist():
                if row["event"] in ("assigned", "seek") and row["position"] is not None:
                    position[row["topic"], row["partition"]] = row["position"]
        for batch in _batches(ledger_dir, "deliveries", client, incarnation):
            columns = (batch.column(name).to_pylist() for name in ("topic", "partition", "offset"))
            position.update({(topic, partition): offset + 1 for topic, partition, offset in zip(*columns, strict=True)})
    return {partition_name(partition): offset for partition, offset in sorted(position.items())}


def next_seq_of(ledger_dir: Path, client: str) -> int:
    """The seq after the highest that a producer has a row for; 0 if it has none."""
    highest = -1
    for incarnation in _incarnations(ledger_dir, client):
        for batch in _batches(ledger_dir, "sends", client, incarnation):
            highest = max(highest, *batch.column("seq").to_pylist())
    return highest + 1


def first_unacked_of(ledger_dir: Path, client: str) -> int:
    """The first seq of a producer that no row calls acknowledged: where one that resends begins again."""
    acked: set[int] = set()
    for incarnation in _incarnations(ledger_dir, client):
        for batch in _batches(ledger_dir, "sends", client, incarnation):
            columns = (batch.column(name).to_pylist() for name in ("seq", "outcome"))
            acked.update(seq for seq, outcome in zip(*columns, strict=True) if outcome == "ok")
    return next(seq for seq in range(len(acked) + 1) if seq not in acked)


def _incarnations(ledger_dir: Path, client: str) -> list[int]:
    stem = client.replace("/", "-")
    files = (ledger_dir / "lifecycle").glob(f"{stem}.*{SUFFIX}")
    return sorted(int(path.name.removesuffix(SUFFIX).rpartition(".")[2]) for path in files)


def _batches(ledger_dir: Path, table: str, client: str, incarnation: int) -> Iterator[pa.RecordBatch]:
    path = ledger_dir / table / f"{client.replace('/', '-')}.{incarnation}{SUFFIX}"
    if path.exists():
        yield from read_stream(path, TABLES[table], StreamEnd())
