"""The stage `readback`: the final log, which the audit compares everything else with, and offset commits in it.

Offset ranges from log start to log end of every partition are read by Spark tasks, one for each core at a time. If
Spark's executors are on other machines, processes of this machine read instead. Spark's Kafka source would take several
times as long: it makes each record a row in the JVM, parses its identity in SQL, and converts the rows to columns.

The commits in `__consumer_offsets` decide commits of unknown outcome. Without them, such commits stay undecided: an
error is a row of the ledger, and never ends the read-back.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import IsolationLevel, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from pyspark.sql import SparkSession

from chaos.errors import AftershockError, ClusterError
from chaos.kafka.offsets_log import read_commits
from chaos.kafka.partition import TopicPartition as Address
from chaos.kafka.security import Access, Security, librdkafka_settings
from chaos.ledger.schemas import BATCHES, COMMIT_LOG, COMMIT_LOG_RANGE, LOG, LOG_RANGE
from chaos.ledger.seal import part_name
from chaos.relay.log_capture import batches_of
from chaos.run.directory import Run
from chaos.run.events import now_us
from chaos.scenario.resolve import Resolved
from chaos.scenario.retention import OFFSETS_TOPIC
from checks.audit.facts.readers import readers_of
from checks.readback.source import ROWS_PER_FILE, OffsetRange, read
from checks.spark.master import is_here

TIMEOUT_S = 30.0
RANGE = "log_range.parquet"
SMALL = 200_000
"""Number of records up to which threads finish before Spark would have started its workers."""
TASKS_PER_CORE = 4


def read_back(
    spark: SparkSession, run: Run, resolved: Resolved, bootstrap: str, security: Security | None = None
) -> Ranges:
    """Write `ledger/log/` and `ledger/log_range.parquet` from the cluster at `bootstrap`; return the ranges.

    The ranges are determined before the records are read, so the audit counts an offset of a range without a record as
    a gap. Each file has rows of one partition in the order of their offsets; the names of the files sort by topic,
    partition and offset. An earlier read-back is replaced only when the new one is complete. Raises `ClusterError` if
    the cluster does not answer.
    """
    topics = _present(bootstrap, resolved, security)
    stable = stable_offsets(bootstrap, topics, security) if resolved.scenario.transactional else {}
    ranges = log_ranges(bootstrap, topics, security)
    half = Path(tempfile.mkdtemp(prefix=".log.", dir=run.ledger))
    try:
        times, copies = _write_log(spark, bootstrap, ranges, stable, half, security, resolved)
        ids = topic_ids(bootstrap, topics, security)
        internal = _offsets_topic(bootstrap, security) if OFFSETS_TOPIC in resolved.scenario.expect.superseded else {}
        _write_batches(bootstrap, copies, security, run.ledger / "batches.parquet")
        _write_range(ranges, times, ids, internal, run.ledger / "log_range.parquet")
        _name_parts(half)
        shutil.rmtree(run.ledger / "log", ignore_errors=True)
        half.chmod(0o755)
        half.rename(run.ledger / "log")
    finally:
        shutil.rmtree(half, ignore_errors=True)
    return ranges


def read_range(
    run: Run,
    topics: list[str],
    bootstrap: str,
    security: Security | None,
    begins: Mapping[str, int],
    finals: Mapping[str, int],
) -> tuple[Ranges, list[str]]:
    """Write the range of offsets of each partition that a tap judges, without the records; return it, and notes.

    begins: the end of the log when the tap began, by partition such as `orders/0`; one that is not named began later.
    finals: the same when it ended. Both are empty without a tap.
    """
    began_us, notes = now_us(), []
    ranges = {}
    for (topic, partition), (start, end) in (log_ranges(bootstrap, topics, security) if topics else {}).items():
        begin = begins.get(f"{topic}/{partition}", 0)
        if (begins or finals) and start > begin:
            notes.append(
                f"retention removed offsets {begin:,} to {start - 1:,} of {topic}/{partition} before the log was read: "
                "records there were written while the tap ran, and whether they were lost is not known"
            )
        last = min(end, finals.get(f"{topic}/{partition}", end))
        ranges[topic, partition] = (min(max(start, begin), last), last)
    times = dict.fromkeys(ranges, (began_us, now_us()))
    _write_range(ranges, times, topic_ids(bootstrap, topics, security) if topics else {}, {}, run.ledger / RANGE)
    (run.ledger / "log").mkdir(exist_ok=True)
    return ranges, notes


def _name_parts(folder: Path) -> None:
    """Give the files of the log their names; without records, write one empty file with the schema."""
    if not any(folder.iterdir()):
        pq.write_table(LOG.empty_table(), folder / part_name(0))
    for i, half in enumerate(sorted(folder.iterdir())):
        half.rename(folder / part_name(i))


Ranges = dict[tuple[str, int], tuple[int, int]]
Offsets = dict[tuple[str, int], int]
Times = dict[tuple[str, int], tuple[int, int]]
"""When reading of a partition began, and when all its records had been read."""
Copies = dict[tuple[str, int], list[int]]
"""The offsets of records that are in a partition more than once."""


def _present(bootstrap: str, resolved: Resolved, security: Security | None) -> list[str]:
    """Return the topics to read: all topics of the scenario, without topics that a fault deleted for good."""
    topics = [topic.name for topic in resolved.scenario.topics]
    absent = resolved.scenario.absent_topics
    if not absent:
        return topics
    admin = AdminClient({"bootstrap.servers": bootstrap, **librdkafka_settings(security)})
    listed = admin.list_topics(timeout=TIMEOUT_S).topics
    return [t for t in topics if t not in absent or t in listed]


def topic_ids(bootstrap: str, topics: list[str], security: Security | None = None) -> dict[str, str]:
    """Return the ids of topics as Kafka's tools print them; empty if the brokers give none (KIP-516)."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **librdkafka_settings(security)})
    answers = admin.describe_topics(TopicCollection(topics), request_timeout=TIMEOUT_S)
    try:
        ids = {topic: str(answer.result(TIMEOUT_S).topic_id) for topic, answer in answers.items()}
    except Exception:  # noqa: BLE001 - the errors of librdkafka have no useful public base class
        return {}
    return {topic: topic_id for topic, topic_id in ids.items() if topic_id.strip("A=")}


def log_ranges(bootstrap: str, topics: list[str], security: Security | None = None) -> Ranges:
    """Return the start and end offset of each partition, from the leaders."""
    starts, ends = _ask(bootstrap, topics, security, (OffsetSpec.earliest(), OffsetSpec.latest()))
    return {partition: (start, ends[partition]) for partition, start in starts.items()}


def stable_offsets(bootstrap: str, topics: list[str], security: Security | None = None) -> Offsets:
    """Return the last stable offset of each partition: records below it belong to no open transaction."""
    (offsets,) = _ask(bootstrap, topics, security, (OffsetSpec.latest(),), IsolationLevel.READ_COMMITTED)
    return offsets


def _ask(
    bootstrap: str,
    topics: list[str],
    security: Security | None,
    specs: Sequence[OffsetSpec],
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> list[Offsets]:
    """Return the offsets of each spec in every partition of the topics."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **librdkafka_settings(security)})
    try:
        metadata = admin.list_topics(timeout=TIMEOUT_S).topics
        missing = [t for t in topics if t not in metadata or metadata[t].error is not None]
        if missing:
            raise ClusterError(f"cannot read back {', '.join(missing)}: the cluster at {bootstrap} does not know it")
        partitions = [TopicPartition(t, p) for t in topics for p in metadata[t].partitions]
        found = []
        for spec in specs:
            request = dict.fromkeys(partitions, spec)
            answers = admin.list_offsets(request, isolation_level=isolation, request_timeout=TIMEOUT_S)
            found.append({(p.topic, p.partition): a.result(TIMEOUT_S).offset for p, a in answers.items()})
        return found
    except ClusterError:
        raise
    except Exception as e:  # noqa: BLE001 - the errors of librdkafka have no useful public base class
        raise ClusterError(f"cannot read back the log: the cluster at {bootstrap} does not answer ({e})") from None


def _write_log(
    spark: SparkSession,
    bootstrap: str,
    ranges: Ranges,
    stable: Offsets,
    folder: Path,
    security: Security | None,
    resolved: Resolved,
) -> tuple[Times, Copies]:
    """Write the records of the ranges as Parquet files; return when each partition was read, and copies in it."""
    keyed, producers = resolved.scenario.keyed, resolved.scenario.producers
    marked = {topic for p in producers if p.in_headers for topic in p.written}
    began_us = now_us()
    total = sum(end - start for start, end in ranges.values())
    cores = spark.sparkContext.defaultParallelism
    share = total // (TASKS_PER_CORE * cores)
    parts = [
        OffsetRange(
            *(bootstrap, topic, partition, start, end, folder, i, security),
            stable=stable.get((topic, partition)),
            keyed=topic in keyed,
            marked=topic in marked,
            unmarked=tuple(p.value for p in producers if p.value and p.unmarked and topic in p.written),
            ids=resolved.ids,
        )
        for i, (topic, partition, start, end) in enumerate(split(ranges, share))
    ]
    if total > SMALL and is_here(spark.sparkContext.master):
        done = spark.sparkContext.parallelize(parts, len(parts)).map(_read).collect()
    else:
        few = total <= SMALL
        with ThreadPoolExecutor() if few else ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
            done = list(pool.map(_read, parts))
    if errors := "; ".join(error for error, _, _, _ in done if error):
        raise ClusterError(errors)
    times = dict.fromkeys(ranges, (began_us, now_us()))
    found: Times = {}
    copies: Copies = {}
    for part, (_, from_us, to_us, of_part) in zip(parts, done, strict=True):
        first, last = found.get((part.topic, part.partition), (from_us, to_us))
        found[part.topic, part.partition] = min(first, from_us), max(last, to_us)
        copies.setdefault((part.topic, part.partition), []).extend(of_part)
    return times | found, copies


def _offsets_topic(bootstrap: str, security: Security | None) -> dict[tuple[int, int, int], int]:
    """Return the number of records of each partition of `__consumer_offsets`, by its number and its range."""
    records = {}
    with tempfile.TemporaryDirectory() as folder:
        for (topic, partition), (start, end) in log_ranges(bootstrap, [OFFSETS_TOPIC], security).items():
            part = OffsetRange(bootstrap, topic, partition, start, end, Path(folder), partition, security)
            records[partition, start, end] = read(part).rows
    return records


def split(ranges: Ranges, share: int) -> Iterator[tuple[str, int, int, int]]:
    """Yield parts of about a share each, so that several tasks read a large partition: topic, partition, start, end.

    A part is at least as large as a file, or its partition: each consumer fetches a little beyond its part.
    """
    step = max(1, -(-share // ROWS_PER_FILE)) * ROWS_PER_FILE
    for (topic, partition), (start, end) in sorted(ranges.items()):
        for at in range(start, end, step):
            yield topic, partition, at, min(at + step, end)


def _read(part: OffsetRange) -> tuple[str, int, int, tuple[int, ...]]:
    """Read a part and return its error, empty without one, when reading began and ended, and the offsets of copies.

    The error would be lost in the trace of a Spark job.
    """
    began_us = now_us()
    try:
        copies = read(part).copies
    except AftershockError as e:
        return str(e), began_us, now_us(), ()
    return "", began_us, now_us(), copies


def _write_batches(bootstrap: str, copies: Copies, security: Security | None, path: Path) -> None:
    """Write the batches of records that are in a partition more than once, as far as their leaders return them."""
    asked = {Address(topic, partition): offsets for (topic, partition), offsets in copies.items()}
    found = batches_of(bootstrap, Access.of(security), asked)
    rows = [{"topic": p.topic, "partition": p.number} | asdict(batch) for p, of_p in found.items() for batch in of_p]
    pq.write_table(pa.Table.from_pylist(rows, BATCHES), path)


def _write_range(
    ranges: Ranges, times: Times, ids: dict[str, str], internal: dict[tuple[int, int, int], int], path: Path
) -> None:
    rows: list[dict[str, object]] = [
        {"topic": OFFSETS_TOPIC, "partition": partition, "start": start, "end": end, "records": records}
        for (partition, start, end), records in sorted(internal.items())
    ]
    rows += [
        {"topic": topic, "partition": partition, "start": start, "end": end, "topic_id": ids.get(topic)}
        | dict(zip(("read_from_us", "read_us"), times[topic, partition], strict=True))
        for (topic, partition), (start, end) in sorted(ranges.items())
    ]
    half = path.with_name(f".{path.name}.half")
    pq.write_table(pa.Table.from_pylist(rows, LOG_RANGE), half)
    half.replace(path)


def read_commit_log(
    run: Run,
    resolved: Resolved,
    bootstrap: str,
    security: Security | None,
    within_us: tuple[int, int] | None = None,
) -> None:
    """Write `ledger/commit_log.parquet` and then `commit_log_range.parquet`; nothing if no reader has a group.

    within_us: the first and last time of commits, by the clock of their coordinator; any since the run began if left
    out.
    """
    groups = {reader.group for reader in readers_of(resolved.scenario) if reader.group and reader.commits}
    if not groups:
        return
    commits, reads = read_commits(bootstrap, security, groups, resolved.created_us)
    if within_us is not None:
        first, last = within_us
        commits = [commit for commit in commits if first <= (commit.commit_us or commit.appended_us) <= last]
    _write(commits, COMMIT_LOG, run.ledger / "commit_log.parquet")
    _write(reads, COMMIT_LOG_RANGE, run.ledger / "commit_log_range.parquet")


def _write(rows: Sequence[Any], schema: pa.Schema, path: Path) -> None:
    half = path.with_name(f".{path.name}.half")
    columns = {name: [getattr(row, name) for row in rows] for name in schema.names}
    pq.write_table(pa.Table.from_pydict(columns, schema), half)
    half.replace(path)
