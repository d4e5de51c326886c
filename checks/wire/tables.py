"""The tables of the wire ledger: requests of clients joined with the answers of brokers.

Each row has `instance` (the owner of the front), `broker`, `connection`, `number` (of the request in its connection),
`asked_us` (the proxy saw the request), `sent_us` (the proxy sent it on; null: the broker never got it), `answered_us`
(the proxy sent the answer on; null: the client never got one, so the outcome is unknown), and `made` (the answer is one
of the proxy, by a fault). Columns in `_us` are us since the epoch, by the proxy's clock, but for timestamps in records
and batches (the client's or the broker's clock) and for durations (`session_us`, `rebalance_us`). `error`
is Kafka's code, 0 for none, null without an answer. `topic` is resolved from the id, if an answer to Metadata named it,
and null if none did.

Spark looks through the segments for the names of topics, then decodes them once, brings the rows of a connection
together, and gives them to `Connections`, which joins them: each task writes a part of each table.

| table        | one row per                                                                                           |
|--------------|-------------------------------------------------------------------------------------------------------|
| connections  | connection: `peer`, `opened_us`, `closed_us` and `closed_by` (client, broker or proxy; null: open at  |
|              | the end), `client_id`, `library` and `library_version` as ApiVersions announces them                  |
| produced     | batch of a Produce request: `batch` (its index in its partition), `acks`, `transactional_id`,         |
|              | `producer_id`, `producer_epoch`, `base_sequence` (null without an id), `records`, `transactional`,    |
|              | `base_timestamp_us`, `max_timestamp_us`, `crc`, `magic`, `compression`, `bytes`, `hashes` and         |
|              | `timestamps_us` of its records (int64, little endian, one after the other; null if not kept);         |
|              | `base_offset` and `append_us` of the answer; `outcome`: ok, fail (certainly not written), unknown,    |
|              | or none (acks=0)                                                                                      |
| fetched      | batch of a Fetch answer, or error of a partition: `asked_offset` and `isolation` (as last asked in    |
|              | the connection; 1: read_committed), `high_watermark`, `last_stable`, `log_start`, `aborted` (producer |
|              | id, first offset), `base_offset`, `last_offset`, `records`, `leader_epoch`, the identity as in        |
|              | produced, `log_append_time` (whether the timestamps are the broker's), `control` (commit or abort of  |
|              | a marker), `complete` (false: cut off at the end of the answer, so the client skips it)               |
| asked        | position of a partition in Fetch requests that differs from the one before in its connection:         |
|              | `asked_offset`, `isolation`                                                                           |
| commits      | partition of OffsetCommit or TxnOffsetCommit: `group`, `member_id`, `instance_id`, `generation` (or   |
|              | member epoch), `transactional_id`, `producer_id`, `producer_epoch`, `offset`, `metadata`              |
| positions    | partition of an answer to OffsetFetch: `group`, committed `offset` (null: none)                       |
| membership   | JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ConsumerGroupHeartbeat, ShareGroupHeartbeat (`call`):    |
|              | `group`, `member_id`, `instance_id`, `generation` as sent, `session_us`, `rebalance_us`,              |
|              | `subscribed`, `owned`; `given_member_id`, `given_generation`, `protocol`, `leads`, `members`,         |
|              | `assigned` (topic, partitions; null: the answer says nothing about it) of the answer                  |
| transactions | InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn (`call`): `transactional_id`,             |
|              | `producer_id`, `producer_epoch`, `group`, `committed`, `topics`; `given_producer_id` and              |
|              | `given_producer_epoch` of the answer                                                                  |
| acquired     | range of offsets of an answer to ShareFetch: `first_offset`, `last_offset`, `delivery_count`          |
| acknowledged | range of offsets in ShareFetch or ShareAcknowledge: `group`, `member_id`, `first_offset`,             |
|              | `last_offset`, `types` (0 gap, 1 accept, 2 release, 3 reject, 4 renew; one for all, or one each)      |
| log          | batch of the final log, read back by raw Fetch requests: as fetched; only with a cluster to read from |
| unread       | `side`, `api`, `version` and `why`: number of `frames` that could not be decoded or were not kept     |

Sources: Kafka's protocol guide; KIP-98 (ids and sequences), KIP-227 (sessions), KIP-848, KIP-932.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.dataset import dataset
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from chaos.install.cache import Progress, silent
from chaos.ledger.seal import SEAL
from chaos.run.directory import Run, read_json
from chaos.run.tap import tapped
from checks.spark.parts import begin_task
from checks.spark.session import tuned
from checks.wire import decode
from checks.wire.connections import TABLES, Connections

FOLDER, LOG = "wire", "log"
PART_BYTES = 32 << 20
"""Bytes of segments for each task, which holds the rows of its connections: 440,000 batches in 86 MB took 0.8 GB."""
MISSING = "missing.json"
"""In the folder of the captured log: why partitions of it were not read to their end, by partition."""
Makers = Mapping[str, Callable[[Connections], pa.Table]]


def has_capture(run: Run) -> bool:
    """Return whether the run has a capture."""
    return any((run.path / FOLDER).glob("*.wire"))


def capture_failure(run: Run) -> str:
    """Return why the capture does not have all that passed; empty if it has."""
    seal = run.path / FOLDER / SEAL  # a capture and a ledger have a seal of one name
    if not seal.exists():
        return "the capture of the wire was never sealed: its proxy was killed"
    failure = read_json(seal, "seal of the capture")["failure"]
    return f"the capture of the wire is not complete: {failure}" if failure else ""


def write_tables(spark: SparkSession, run: Run, on_progress: Progress = silent) -> None:
    """Decode the capture of a run into `wire/<table>.parquet`. Raises `ResolveError` without a decoder."""
    folder, record = run.path / FOLDER, tapped(run)
    with tuned(spark):
        decoder = decode.prepare(spark, on_progress)
        _write(spark, run, decoder, folder, TABLES, record.instances if record else None)
        if any((folder / LOG).glob("*.wire")):
            _write(spark, run, decoder, folder / LOG, {LOG: Connections.log})
        elif (folder / LOG / MISSING).exists():  # no batch was left in it
            _write_empty(run, LOG, Connections.log)


def _write(
    spark: SparkSession,
    run: Run,
    decoder: Any,
    folder: Path,
    makers: Makers,
    speakers: Mapping[int, str] | None = None,
) -> None:
    """Write tables from the segments in a folder. Each task writes a part of each table that has rows in it."""
    for name in makers:
        shutil.rmtree(table_path(run, name), ignore_errors=True)
        table_path(run, name).mkdir()
    tasks = 1 + sum(segment.stat().st_size for segment in folder.glob("*.wire")) // PART_BYTES
    schemas, named = decode.schemas(), decode.parts(spark, decoder, f"file:{folder}", tables=["topics"]).toArrow()
    topics = decode.raw(schemas, (part for batch in named.to_batches() for part in decode.streams(batch)))["topics"]
    paths = {name: str(table_path(run, name)) for name in makers}
    names = dict(zip(topics["topic_id"].to_pylist(), topics["topic"].to_pylist(), strict=True))
    parts = decode.parts(spark, decoder, f"file:{folder}", tasks)
    parts = parts.coalesce(1) if tasks == 1 else parts.repartition(tasks, "task")
    found = Counter[str]()
    work = partial(_each_part, paths, makers, schemas, names, speakers)
    for row in parts.mapInArrow(work, "name string, rows bigint").collect():
        found[row.name] += row.rows
    for name, make in makers.items():
        if not found[name]:
            _write_empty(run, name, make)


def _each_part(
    paths: Mapping[str, str],
    makers: Makers,
    schemas: Mapping[str, pa.Schema],
    names: Mapping[str, str],
    speakers: Mapping[int, str] | None,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Write the part of a task of each table, and yield how many rows each has. Runs in a Python worker."""
    begin_task()
    found = [part for batch in batches for part in decode.streams(batch)]
    if not found:
        return
    context, wire = TaskContext.get(), Connections(decode.raw(schemas, found), names, speakers)
    number = context.partitionId() if context else 0
    counts = {}
    for name, make in makers.items():
        table = make(wire)
        counts[name] = len(table)
        if len(table):
            pq.write_table(table, f"{paths[name]}/part-{number:05}.parquet")
    yield pa.record_batch({"name": [*counts], "rows": [*counts.values()]})


def _write_empty(run: Run, name: str, make: Callable[[Connections], pa.Table]) -> None:
    """Write a table without rows."""
    table_path(run, name).mkdir(exist_ok=True)
    pq.write_table(make(Connections(decode.raw(decode.schemas(), ()), {})), table_path(run, name) / "empty.parquet")


def scanned(run: Run, name: str, columns: Sequence[str] | None, where: pc.Expression | None = None) -> pa.Table:
    """Return columns of a table that may be large, all if None."""
    found = dataset(table_path(run, name), format="parquet", partitioning=None)
    return found.to_table(columns=None if columns is None else [*columns], filter=where)


def small(run: Run, name: str) -> list[dict[str, Any]]:
    """Return the rows of a table that does not grow with the records."""
    rows: list[dict[str, Any]] = scanned(run, name, None).to_pylist()
    return rows


def frame(spark: SparkSession, run: Run, name: str) -> DataFrame:
    """Return a table as a DataFrame. Spark would read its columns in a job."""
    columns = dataset(table_path(run, name), format="parquet", partitioning=None).schema
    return spark.read.schema(from_arrow_schema(columns)).parquet(f"file:{table_path(run, name)}")


def table_path(run: Run, table: str) -> Path:
    """Return the folder of a table."""
    return run.wire / f"{table}.parquet"
