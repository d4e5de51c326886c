"""What was at work in a run, as the run itself put it on record: versions of broker, clients, Python and Java."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from chaos.ledger.reader import StreamEnd, read_stream
from chaos.ledger.schemas import TABLES
from chaos.run.directory import Run
from chaos.scenario.resolve import Resolved

_OF_CLIENTS = {"confluent_kafka": "confluent-kafka", "librdkafka": "librdkafka"}


def versions(run: Run, resolved: Resolved) -> dict[str, str]:
    """What was resolved, and over it what the clients said when they started: that is what ran."""
    told: dict[str, set[str]] = {}
    for detail in _started(run):
        for key, name in _OF_CLIENTS.items():
            if isinstance(said := detail.get(key), str):
                told.setdefault(name, set()).add(said)
    return {**resolved.versions, **{name: ", ".join(sorted(found)) for name, found in told.items()}}


def _started(run: Run) -> Iterator[dict[str, object]]:
    for rows in _lifecycle(run):
        for event, detail in zip(rows.column("event").to_pylist(), rows.column("detail").to_pylist(), strict=True):
            if event == "started":
                yield json.loads(detail)


def _lifecycle(run: Run) -> Iterator[pa.Table]:
    """The table as it is: sealed, or what its writers left of a drive that broke off."""
    sealed = sorted((run.ledger / "lifecycle.parquet").glob("*.parquet"))
    for path in sealed:
        yield pq.read_table(path, columns=["event", "detail"])
    if not sealed:
        for path in sorted((run.ledger / "lifecycle").glob("*.arrows")):
            batches = list(read_stream(path, TABLES["lifecycle"], StreamEnd()))
            yield pa.Table.from_batches(batches, TABLES["lifecycle"])
