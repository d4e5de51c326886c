"""The point at which a later incarnation of a client continues, read from the ledger rows of the earlier ones.

A delivery row is written when its record is processed, so the offset is stored together with the result, in one write,
as an application does that keeps both in one database. A client that stores its offsets apart from its results, as
Flink and Spark do, writes rows of its checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from chaos.clients.protocol import Partition, partition_name
from chaos.ledger.files import ledger_files, read_file
from chaos.ledger.schemas import TABLES
from chaos.ledger.stream import StreamEnd


def checkpoint_of(ledger: Path, client: str, stored: bool = False) -> dict[str, int]:
    """Return the next offset of each `topic/partition` that earlier incarnations read; empty if they read nothing.

    A partition without processed records is at its start position. Rows of a torn last batch do not count. stored:
    whether only rows of checkpoints count.
    """
    positions: dict[Partition, int] = {}
    events = ("checkpoint",) if stored else ("assigned", "seek")
    for incarnation in incarnations(ledger, client):
        for batch in _batches(ledger, "assignments", client, incarnation):
            for row in batch.to_pylist():
                if row["event"] in events and row["position"] is not None:
                    positions[row["topic"], row["partition"]] = row["position"]
        if stored:
            continue
        for batch in _batches(ledger, "deliveries", client, incarnation):
            columns = (batch.column(name).to_pylist() for name in ("topic", "partition", "offset"))
            positions.update({(topic, number): offset + 1 for topic, number, offset in zip(*columns, strict=True)})
    return {partition_name(partition): offset for partition, offset in sorted(positions.items())}


def next_seq_of(ledger: Path, client: str, table: str = "sends") -> int:
    """Return the seq after the highest one in the rows of a producer; 0 without rows. table: of the ledger."""
    return max((seq for seq, _ in _sends(ledger, client, table)), default=-1) + 1


def first_unacked_of(ledger: Path, client: str) -> int:
    """Return the first seq of a producer without an acknowledged row: a producer that resends starts there."""
    acked = {seq for seq, outcome in _sends(ledger, client, "sends") if outcome == "ok"}
    return next(seq for seq in range(len(acked) + 1) if seq not in acked)


def _sends(ledger: Path, client: str, table: str) -> Iterator[tuple[int, str]]:
    """Yield seq and outcome of each send."""
    for incarnation in incarnations(ledger, client):
        for batch in _batches(ledger, table, client, incarnation):
            yield from zip(batch.column("seq").to_pylist(), batch.column("outcome").to_pylist(), strict=True)


def incarnations(ledger: Path, client: str) -> list[int]:
    """Return the numbers of the incarnations of a client that wrote rows."""
    files = ledger_files(ledger / "lifecycle", f"{client.replace('/', '-')}.*")
    return sorted({int(path.stem.rpartition(".")[2]) for path in files})


def _batches(ledger: Path, table: str, client: str, incarnation: int) -> Iterator[pa.RecordBatch]:
    for path in ledger_files(ledger / table, f"{client.replace('/', '-')}.{incarnation}"):
        yield from read_file(path, TABLES[table], StreamEnd())
