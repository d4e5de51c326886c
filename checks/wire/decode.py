"""Segments of a capture as rows: the class in Java, compiled at first use, and the columns of its tables."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from chaos.errors import ResolveError
from chaos.install.cache import Progress, cached, silent
from chaos.install.jars import CLIENTS, compile_java, compiler, digest, first_error, kafka_jars, pack

KAFKA = "4.4.0"
"""The release of kafka-clients with which frames are decoded: the newest that brokers here may have."""
SOURCES = Path(__file__).with_name("java")
CLASS = "aftershock.wire.Decode"
_ENTRY = "connection: int, number: int, seen_us: bigint, passed_us: bigint, made: boolean"
"""The first columns of each table. passed_us is null for a frame that was never sent on."""
_PRODUCER = "producer_id bigint, producer_epoch int, base_sequence int"
_TOPIC = "topic string, topic_id string, partition int"
_ASSIGNED = "array<struct<topic: string, topic_id: string, partitions: array<int>>>"

RAW: dict[str, str] = {
    "connections": "event string, content string",
    "announced": "client_id string, library string, library_version string",
    "fetches": "version int",
    "share_answers": "version int",
    "topics": "topic string, topic_id string",
    "produce_requests": f"batch int, client_id string, acks int, transactional_id string, {_TOPIC}, {_PRODUCER}, "
    "records int, transactional boolean, base_timestamp_us bigint, max_timestamp_us bigint, crc bigint, magic int, "
    "compression string, bytes int, hashes binary, timestamps_us binary",
    "produce_answers": f"{_TOPIC}, error int, base_offset bigint, append_us bigint, log_start bigint",
    "fetch_requests": "session int, session_epoch int, complete boolean, isolation int, "
    f"{_TOPIC}, offset bigint, leader_epoch int",
    "fetch_answers": f"{_TOPIC}, error int, high_watermark bigint, last_stable bigint, log_start bigint, "
    "aborted array<struct<producer_id: bigint, first_offset: bigint>>, base_offset bigint, last_offset bigint, "
    f"records int, leader_epoch int, {_PRODUCER}, transactional boolean, control string, crc bigint, magic int, "
    "compression string, base_timestamp_us bigint, max_timestamp_us bigint, log_append_time boolean, complete boolean, "
    "hashes binary, timestamps_us binary",
    "commit_requests": "group string, member_id string, instance_id string, generation int, transactional_id string, "
    f"producer_id bigint, producer_epoch int, {_TOPIC}, offset bigint, leader_epoch int, metadata string",
    "commit_answers": f"{_TOPIC}, error int",
    "position_requests": "group string",
    "position_answers": f"group string, {_TOPIC}, offset bigint, error int",
    "membership_requests": "call string, group string, member_id string, instance_id string, generation int, "
    f"session_us bigint, rebalance_us bigint, subscribed array<string>, owned {_ASSIGNED}",
    "membership_answers": "call string, error int, member_id string, generation int, protocol string, leads boolean, "
    f"members array<string>, assigned {_ASSIGNED}",
    "transaction_requests": "call string, transactional_id string, producer_id bigint, producer_epoch int, "
    f"group string, committed boolean, topics {_ASSIGNED}",
    "transaction_answers": "call string, error int, producer_id bigint, producer_epoch int",
    "acquired": "topic_id string, partition int, first_offset bigint, last_offset bigint, delivery_count int",
    "acknowledge_requests": "call string, group string, member_id string, session_epoch int, topic_id string, "
    "partition int, first_offset bigint, last_offset bigint, types array<int>",
    "acknowledge_answers": "topic_id string, partition int, error int",
    "unread": "side string, api int, version int, why string",
}
"""The columns of each table of the class in Java after the common ones, in the class's order. `checks.wire.tables` has
what they mean."""
ALL = tuple(RAW)


def prepare(spark: SparkSession, on_progress: Progress = silent) -> Any:
    """Add the class to the session, compiled if it is not, and return it. Raises `ResolveError`."""
    jars = [_compiled(on_progress), next(kafka_jars(KAFKA, on_progress, CLIENTS).glob("kafka-clients-*.jar"))]
    for jar in jars:
        spark.sql(f"ADD JAR '{jar}'")
    jvm: Any = spark._jvm
    return jvm.aftershock.wire.Decode


def parts(spark: SparkSession, decoder: Any, folder: str, tasks: int = 1, tables: Sequence[str] = ALL) -> DataFrame:
    """Return parts of tables from the segments in a folder, a path or URI: only frames of these tables are decoded.

    Columns: `task`, the same for all rows of a connection; `name` of the table; `rows`, an Arrow stream (see `raw`).
    """
    files = spark.read.format("binaryFile").load(f"{folder}/*.wire").select("content")
    ddl = ", ".join(f"{name} struct<{_ENTRY}, {RAW[name]}>" for name in tables)
    return DataFrame(decoder.parts(files._jdf, ddl, tasks), spark)


def schemas() -> dict[str, pa.Schema]:
    """Return the columns of the tables of the decoder."""
    return {name: to_arrow_schema(StructType.fromDDL(f"{_ENTRY}, {columns}")) for name, columns in RAW.items()}


def streams(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.Buffer]]:
    """Yield name and stream of each part in a batch of `parts`."""
    for name, rows in zip(batch["name"].to_pylist(), batch["rows"], strict=True):
        yield name, rows.as_buffer()


def raw(schemas: Mapping[str, pa.Schema], found: Iterable[tuple[str, pa.Buffer]]) -> dict[str, pa.Table]:
    """Return the tables of the decoder from their columns, and the names and streams of their parts."""
    tables = {name: [schema.empty_table()] for name, schema in schemas.items()}
    for name, rows in found:
        tables[name].append(pa.ipc.open_stream(rows).read_all().cast(schemas[name]))
    return {name: pa.concat_tables(parts) for name, parts in tables.items()}


def _compiled(on_progress: Progress) -> Path:
    """Return the jar of the class."""

    def fill(target: Path) -> None:
        ecj, clients = compiler(on_progress), kafka_jars(KAFKA, on_progress, CLIENTS)
        on_progress("compiling the decoder of the wire ledger, once")
        jars = [*clients.glob("*.jar"), *_spark_jars()]
        done = compile_java(ecj, (SOURCES,), jars, target / "classes")
        if done.returncode:
            raise ResolveError(f"the decoder of the wire ledger does not compile: {first_error(done)}")
        pack(target / "classes", target / "wire.jar")

    waiting = "another run compiles the decoder of the wire ledger; waiting for it"
    return cached(f"wire/{KAFKA}-{digest((SOURCES,))}", fill, waiting, on_progress) / "wire.jar"


def _spark_jars() -> list[Path]:
    spec = importlib.util.find_spec("pyspark")
    folders = (spec.submodule_search_locations or []) if spec else []
    return [
        jar
        for f in folders
        for pattern in ("spark-*.jar", "scala-library*.jar", "lz4-java*.jar", "arrow-*.jar")
        for jar in Path(f, "jars").glob(pattern)
    ]
