"""The versions that a run used, as its ledger recorded them: Kafka, clients, Python and Java."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from chaos.ledger.schemas import TABLES
from chaos.ledger.stream import StreamEnd, read_stream
from chaos.run.directory import Run
from chaos.scenario.resolve import Resolved

_CLIENT_KEYS = {"confluent_kafka": "confluent-kafka", "librdkafka": "librdkafka"}


def recorded_versions(run: Run, resolved: Resolved) -> dict[str, str]:
    """Return versions by name: those resolved before the run, overridden by those that the clients reported."""
    reported: dict[str, set[str]] = {}
    started = (row["detail"] for rows in _lifecycle(run) for row in rows.to_pylist() if row["event"] == "started")
    for detail in map(json.loads, started):
        for key, name in _CLIENT_KEYS.items():
            if isinstance(version := detail.get(key), str):
                reported.setdefault(name, set()).add(version)
    return {**resolved.versions, **{name: ", ".join(sorted(versions)) for name, versions in reported.items()}}


def _lifecycle(run: Run) -> Iterator[pa.Table | pa.RecordBatch]:
    """Yield the sealed lifecycle table, or the streams of its writers if the drive broke off before sealing."""
    sealed = sorted((run.ledger / "lifecycle.parquet").glob("*.parquet"))
    for path in sealed:
        yield pq.read_table(path, columns=["event", "detail"])
    if not sealed:
        for path in sorted((run.ledger / "lifecycle").glob("*.arrows")):
            yield from read_stream(path, TABLES["lifecycle"], StreamEnd())
