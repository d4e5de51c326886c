"""Reading the log back from the healed cluster: what it holds is the truth that everything else is held against.

Spark reads every partition from log start to log end with fresh consumers that belong to no group. The identity is cut
out of the value by Spark SQL alone, by the layout in `chaos.ledger.record`.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from pyspark.sql import DataFrame, SparkSession

from chaos.cluster.jars import resolve as resolve_jars
from chaos.errors import ClusterError
from chaos.ledger import record
from chaos.ledger.schemas import LOG, LOG_RANGE
from chaos.rundir import RunDir
from chaos.scenario import Resolved

KAFKA_SOURCE = ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.0.0")
TIMEOUT_S = 30.0
ROWS_PER_TASK = 1 << 20


def kafka_source_jars() -> list[Path]:
    """The jars of Spark's Kafka source that PySpark does not ship itself, for `spark_session(jars=...)`.

    Resolved once, then taken from the cache. Raises `ResolveError` if they cannot be fetched.
    """
    import pyspark

    shipped = {_artifact(jar) for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    found = sorted(resolve_jars(*KAFKA_SOURCE).glob("*.jar"))
    return [jar for jar in found if _artifact(jar) not in shipped]


def _artifact(jar: Path) -> str:
    """`lz4-java` for `lz4-java-1.8.0.jar`: two versions of one artifact must not meet on the class path."""
    return re.sub(r"-\d[^-]*$", "", jar.stem)


def read_back(spark: SparkSession, run: RunDir, resolved: Resolved, bootstrap: str) -> None:
    """Write `ledger/log/` and `ledger/log_range.parquet` from the cluster at `bootstrap`.

    The range is asked for first and then read, so rows and range agree; what lies in it and could not be found is a gap
    that the audit counts. An earlier read-back is replaced; a half-written one is never left under that name. Raises
    `ClusterError` when the cluster does not answer.
    """
    for jar in kafka_source_jars():  # no-op for those that the session was started with
        spark.sql(f"ADD JAR '{jar}'")
    ranges = log_ranges(bootstrap, [topic.name for topic in resolved.scenario.topics])
    half = Path(tempfile.mkdtemp(prefix=".log.", dir=run.ledger))
    try:
        _write_log(spark, bootstrap, ranges, half)
        _write_range(ranges, run.ledger / "log_range.parquet")
        shutil.rmtree(run.ledger / "log", ignore_errors=True)
        half.chmod(0o755)
        half.rename(run.ledger / "log")
    finally:
        shutil.rmtree(half, ignore_errors=True)


Ranges = dict[tuple[str, int], tuple[int, int]]


def log_ranges(bootstrap: str, topics: list[str]) -> Ranges:
    """(topic, partition) -> log start and end offset, asked from the leaders."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    try:
        found = admin.list_topics(timeout=TIMEOUT_S).topics
        missing = [t for t in topics if t not in found or found[t].error is not None]
        if missing:
            raise ClusterError(f"cannot read back {', '.join(missing)}: the cluster at {bootstrap} does not know it")
        places = [TopicPartition(t, p) for t in topics for p in found[t].partitions]
        bounds = [_offsets(admin, places, spec) for spec in (OffsetSpec.earliest(), OffsetSpec.latest())]
    except ClusterError:
        raise
    except Exception as e:  # noqa: BLE001 - librdkafka's errors share no public base that is worth naming
        raise ClusterError(f"cannot read back the log: the cluster at {bootstrap} does not answer ({e})") from None
    return {(p.topic, p.partition): (bounds[0][p.topic, p.partition], bounds[1][p.topic, p.partition]) for p in places}


def _offsets(admin: Any, places: list[TopicPartition], spec: Any) -> dict[tuple[str, int], int]:
    asked = admin.list_offsets(dict.fromkeys(places, spec), request_timeout=TIMEOUT_S)
    return {(place.topic, place.partition): answer.result(TIMEOUT_S).offset for place, answer in asked.items()}


def _write_log(spark: SparkSession, bootstrap: str, ranges: Ranges, folder: Path) -> None:
    """The records in the ranges as Parquet. No records, no file but an empty one, so that the schema is on record."""
    read = {place: bounds for place, bounds in ranges.items() if bounds[1] > bounds[0]}
    if read:
        out = parse_log(_source(spark, bootstrap, read)).write.mode("overwrite")
        out.option("compression", "zstd").parquet(str(folder / "rows"))
        for i, part in enumerate(sorted((folder / "rows").glob("*.parquet"))):
            part.rename(folder / f"part-{i:05}.parquet")
        shutil.rmtree(folder / "rows")
    if not any(folder.glob("*.parquet")):
        pq.write_table(LOG.empty_table(), folder / "part-00000.parquet")


def _source(spark: SparkSession, bootstrap: str, ranges: Ranges) -> DataFrame:
    """Spark's Kafka source over exactly these ranges, committed or not."""
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for (topic, partition), (start, end) in ranges.items():
        starts.setdefault(topic, {})[str(partition)] = start
        ends.setdefault(topic, {})[str(partition)] = end
    assign = {topic: sorted(int(p) for p in partitions) for topic, partitions in starts.items()}
    return (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("assign", json.dumps(assign))
        .option("startingOffsets", json.dumps(starts))
        .option("endingOffsets", json.dumps(ends))
        .option("kafka.isolation.level", "read_uncommitted")
        .option("failOnDataLoss", "true")
        .option("maxRecordsPerPartition", ROWS_PER_TASK)
        .option("kafka.max.poll.records", 10_000)
        .load()
    )


def parse_log(source: DataFrame) -> DataFrame:
    """Rows of Spark's Kafka source as rows of `log`, by the same rules as `record.parse` and `record.crc_ok`."""
    text = {
        "run": _field(record.RUN_AT, record.RUN_WIDTH),
        "producer": f"rtrim({_field(record.PRODUCER_AT, record.PRODUCER_WIDTH)})",
        "incarnation": _field(record.INCARNATION_AT, record.INCARNATION_WIDTH),
        "seq": _field(record.SEQ_AT, record.SEQ_WIDTH),
    }
    head = f"CAST(substring(value, 1, {record.HEADER_BYTES}) AS STRING)"
    crc = f"""crc32(concat(coalesce(key, X''), substring(value, 1, {record.CRC_AT}),
                    substring(value, {record.HEADER_BYTES + 1})))"""
    carried = _field(record.CRC_AT, record.CRC_WIDTH)
    version = f"substring(value, 1, {len(record.VERSION)}) = CAST('{record.VERSION.decode()}' AS BINARY)"
    ours = f"length(value) >= {record.HEADER_BYTES} AND {version}"
    whole = f"{ours} AND {head} RLIKE '{_layout()}'"
    return source.selectExpr(
        "topic",
        "partition",
        "offset",
        "unix_micros(timestamp) AS timestamp",
        f"CASE WHEN {whole} THEN {text['run']} END AS run",
        f"CASE WHEN {whole} THEN {text['producer']} END AS producer",
        f"CASE WHEN {whole} THEN try_cast({text['incarnation']} AS INT) END AS incarnation",
        f"CASE WHEN {whole} THEN try_cast({text['seq']} AS BIGINT) END AS seq",
        # separators count too: the value must be what `seal_value` would make of its parts
        f"""CASE WHEN {ours} THEN {carried} = lower(lpad(hex({crc}), {record.CRC_WIDTH}, '0'))
             AND substring(value, {record.HEADER_BYTES}, 1) = X'20' END AS crc_ok""",
        "true AS committed",
    )


def _field(at: int, width: int) -> str:
    """A fixed-width field of the value, as text. SQL counts from 1."""
    return f"CAST(substring(value, {at + 1}, {width}) AS STRING)"


def _layout() -> str:
    """The header as a regular expression: what `record.parse` can read."""
    digits = f"[0-9]{{{record.INCARNATION_WIDTH}}} [0-9]{{{record.SEQ_WIDTH}}} [0-9]{{{record.TIME_WIDTH}}}"
    return f"^{record.VERSION.decode()} .{{{record.RUN_WIDTH}}} .{{{record.PRODUCER_WIDTH}}} {digits} "


def _write_range(ranges: Ranges, path: Path) -> None:
    rows = [
        {"topic": topic, "partition": partition, "start": start, "end": end}
        for (topic, partition), (start, end) in sorted(ranges.items())
    ]
    half = path.with_name(f".{path.name}.half")
    pq.write_table(pa.Table.from_pylist(rows, LOG_RANGE), half)
    half.replace(path)
