"""The tables of the wire ledger: requests of clients joined with the answers of brokers.

Each row has `instance` (the owner of the front), `broker`, `connection`, `number` (of the request in its connection),
`asked_us` (the proxy saw the request), `sent_us` (the proxy sent it on; null: the broker never got it), `answered_us`
(the proxy sent the answer on; null: the client never got one, so the outcome is unknown), and `made` (the answer is one
of the proxy, by a fault). Columns in `_us` are us since the epoch, by the proxy's clock, but for timestamps in records
and batches (the client's or the broker's clock) and for durations (`session_us`, `rebalance_us`). `error`
is Kafka's code, 0 for none, null without an answer. `topic` is resolved from the id, if an answer to Metadata named it,
and null if none did.

These are joins and groups of as many rows as requests, so they are DataFrames. All come from one decoding of the
segments, which Spark keeps by connection (`Wire`), so that joins by connection move no row; up to `SMALL_BYTES`, the
queries run without compiled code.

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
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from chaos.install.cache import Progress, silent
from chaos.ledger.seal import SEAL
from chaos.run.directory import Run, read_json
from chaos.run.tap import tapped
from checks.spark.session import configured, tuned
from checks.wire import decode

FOLDER, LOG = "wire", "log"
SMALL_BYTES = 4 << 20
"""Bytes of segments up to which compiling the queries takes longer than it saves: 0.4 MB took half the time without
(20 s and 42 s, measured in one process, beside other work), 35 MB takes longer."""
WRITERS = 4
CHOSEN = {"spark.sql.adaptive.enabled": "false", "spark.sql.requireAllClusterKeysForCoPartition": "false"}
"""Rows of one connection are in one partition, so joins by connection and number need no exchange, nor a new plan after
it: 9.7 s of CPU in place of 13.3 s for 13 tables of 400,000 rows, measured in one process."""
MISSING = "missing.json"
"""In the folder of the captured log: why partitions of it were not read to their end, by partition."""
DUPLICATE_SEQUENCE = 46
"""The broker has the batch already, and no longer knows its offset."""
UNSURE = (-1, 7, 20)
"""UNKNOWN_SERVER_ERROR, REQUEST_TIMED_OUT and NOT_ENOUGH_REPLICAS_AFTER_APPEND: the leader may have the batch."""
_JOIN = ("connection", "number")
_WHERE = ("instance", "broker", "connection", "number")


class Wire:
    """The tables of one capture, not yet computed."""

    def __init__(
        self, spark: SparkSession, folder: str, decoder: Any, instances: Mapping[int, str] | None = None
    ) -> None:
        """instances: who spoke on each connection, where all came to one front, as those of a tap."""
        self._rows = decode.decoded(spark, decoder, folder).repartition(F.col("entry.connection")).persist()
        self._speakers = instances and spark.createDataFrame([*instances.items()], "connection int, speaker string")

    def prepare(self) -> None:
        """Decode the segments, and compute what several tables need, so that these can be made in threads."""
        _ = self.found, self._names, self._places

    @cached_property
    def found(self) -> set[str]:
        """The tables of the decoder that have rows."""
        return {row.table for row in self._rows.select("table").distinct().collect()}

    @cached_property
    def _names(self) -> Column:
        """The names of topics by their ids."""
        named = self._raw("topics").select("topic_id", "topic").distinct().collect()
        pairs = [F.lit(value) for row in named for value in (row.topic_id, row.topic)]
        return F.create_map(*pairs) if pairs else F.create_map().cast("map<string,string>")

    @cached_property
    def _places(self) -> DataFrame:
        """Instance and broker of each connection."""
        return self.connections().select("connection", "instance", "broker").cache()

    def connections(self) -> DataFrame:
        """Return the connections."""
        raw = self._raw("connections")
        content = F.from_json("content", "front string, broker int, peer string, by string")
        opened = raw.where("event = 'accepted'").select(
            "connection", F.col("seen_us").alias("opened_us"), content.alias("c")
        )
        closed = raw.where("event = 'closed'").select(
            "connection", F.col("seen_us").alias("closed_us"), content.by.alias("closed_by")
        )
        said = (
            self._raw("announced")
            .groupBy("connection")
            .agg(
                F.max("client_id").alias("client_id"),
                F.max("library").alias("library"),
                F.max("library_version").alias("library_version"),
            )
        )
        own = opened.select(
            "connection",
            F.col("c.front").alias("instance"),
            F.col("c.broker").alias("broker"),
            F.col("c.peer").alias("peer"),
            "opened_us",
        )
        if self._speakers is not None:
            own = own.join(F.broadcast(self._speakers), "connection", "left")
            own = own.withColumn("instance", F.coalesce("speaker", "instance")).drop("speaker")
        return own.join(closed, "connection", "left").join(F.broadcast(said), "connection", "left")

    def produced(self) -> DataFrame:
        """Return the batches that were produced."""
        joined = self._joined("produce_requests", "produce_answers")
        made = F.col("made") & F.col("sent_us").isNotNull()
        outcome = (
            F.when(F.col("acks") == 0, "none")
            .when(F.col("error").isin(0, DUPLICATE_SEQUENCE), "ok")
            .when(F.col("error").isNull() | F.col("error").isin(*UNSURE) | made, "unknown")
            .otherwise("fail")
        )
        return joined.drop("log_start").withColumn("outcome", outcome)

    def fetched(self) -> DataFrame:
        """Return the batches that were fetched."""
        times = self._raw("fetches").select(
            *_JOIN, F.col("seen_us").alias("asked_us"), F.col("passed_us").alias("sent_us")
        )
        answers = self._answers("fetch_answers").withColumn("key", _key())
        joined = answers.join(self._positions_asked(answers), [*_JOIN, "key", "partition"], "left").drop("key")
        return self._placed(self._resolved(joined.join(times, list(_JOIN), "left")))

    def _positions_asked(self, answers: DataFrame) -> DataFrame:
        """Return `asked_offset` and `isolation` for each partition of answers to Fetch, as last asked before.

        A request of a session names only partitions with another position than before.
        """
        asked = self._raw("fetch_requests").select(
            *_JOIN,
            _key().alias("key"),
            "partition",
            F.struct(F.col("offset").alias("asked_offset"), "isolation").alias("asked"),
        )
        answered = answers.select(
            *_JOIN, "key", "partition", F.lit(None).cast(asked.schema["asked"].dataType).alias("asked")
        ).distinct()
        # at one number, the request comes first
        until = Window.partitionBy("connection", "key", "partition").orderBy("number", F.col("asked").isNull())
        last = F.last("asked", ignorenulls=True).over(until.rowsBetween(Window.unboundedPreceding, 0))
        rows = asked.unionByName(answered).withColumn("last", last).where("asked is null")
        return rows.select(*_JOIN, "key", "partition", "last.*")

    def asked(self) -> DataFrame:
        """Return the positions at which records were asked for, each once until it changes."""
        rows = self._asked("fetch_requests").withColumn("key", _key()).withColumnRenamed("offset", "asked_offset")
        before = F.lag("asked_offset").over(Window.partitionBy("connection", "key", "partition").orderBy("number"))
        changed = rows.withColumn("before", before).where("before is null or before != asked_offset")
        own = ("topic", "topic_id", "partition", "asked_offset", "isolation", "asked_us", "sent_us")
        return self._resolved(changed.select(*_WHERE, *own))

    def log(self) -> DataFrame:
        """Return the batches of a log that was captured, without where it was asked for."""
        own = ("connection", "number", "answered_us", "made", "topic_id", "error", "aborted")
        return self._answers("fetch_answers").where("base_offset is not null").drop(*own)

    def commits(self) -> DataFrame:
        """Return the commits of offsets."""
        return self._joined("commit_requests", "commit_answers")

    def positions(self) -> DataFrame:
        """Return the committed offsets that members asked for. Up to version 7, the request alone names the group."""
        asked = self._raw("position_requests").select(*_JOIN, F.col("group").alias("asked_group"))
        answers = self._answers("position_answers").join(asked, list(_JOIN), "left")
        named = answers.withColumn("group", F.coalesce("group", "asked_group")).drop("asked_group")
        return self._placed(self._resolved(named))

    def membership(self) -> DataFrame:
        """Return what members of groups and coordinators said to each other."""
        given = self._answers("membership_answers").withColumnsRenamed(
            {"member_id": "given_member_id", "generation": "given_generation"}
        )
        joined = self._asked("membership_requests").join(given.drop("call"), list(_JOIN), "left")
        return joined.withColumns({name: self._assignment(name) for name in ("owned", "assigned")})

    def transactions(self) -> DataFrame:
        """Return the requests about transactions."""
        names = {"producer_id": "given_producer_id", "producer_epoch": "given_producer_epoch"}
        given = self._answers("transaction_answers").withColumnsRenamed(names)
        joined = self._asked("transaction_requests").join(given.drop("call"), list(_JOIN), "left")
        return joined.withColumn("topics", self._assignment("topics"))

    def acquired(self) -> DataFrame:
        """Return the records that members of share groups acquired."""
        return self._placed(self._resolved(self._answers("acquired").withColumn("topic", F.lit(None).cast("string"))))

    def acknowledged(self) -> DataFrame:
        """Return the acknowledgements of members of share groups."""
        asked = self._asked("acknowledge_requests").withColumn("topic", F.lit(None).cast("string"))
        answers = self._answers("acknowledge_answers")
        whole = answers.where("topic_id is null").select(*_JOIN, F.col("error").alias("error_of_all"))
        parts = answers.where("topic_id is not null").select(*_JOIN, "topic_id", "partition", "error")
        times = self._answers("share_answers").select(*_JOIN, "answered_us", "made")
        joined = asked.join(parts, [*_JOIN, "topic_id", "partition"], "left").join(whole, list(_JOIN), "left")
        joined = joined.join(times, list(_JOIN), "left")
        return self._resolved(joined.withColumn("error", F.coalesce("error_of_all", "error")).drop("error_of_all"))

    def unread(self) -> DataFrame:
        """Return what could not be decoded."""
        return self._raw("unread").groupBy("side", "api", "version", "why").agg(F.count("*").alias("frames"))

    def close(self) -> None:
        """Free what is cached for several tables."""
        if "_places" in vars(self):
            self._places.unpersist()
        self._rows.unpersist()

    def _raw(self, table: str) -> DataFrame:
        return decode.raw(self._rows, table)

    def _asked(self, table: str) -> DataFrame:
        names = {"seen_us": "asked_us", "passed_us": "sent_us"}
        return self._placed(self._raw(table).drop("made").withColumnsRenamed(names))

    def _answers(self, table: str) -> DataFrame:
        """Return answers; one that never passed is none."""
        return (
            self._raw(table)
            .where("passed_us is not null")
            .drop("seen_us")
            .withColumnRenamed("passed_us", "answered_us")
        )

    def _placed(self, rows: DataFrame) -> DataFrame:
        joined = rows.join(F.broadcast(self._places), "connection", "left")
        return joined.select(*_WHERE, *(name for name in joined.columns if name not in _WHERE))

    def _joined(self, requests: str, answers: str) -> DataFrame:
        """Return requests with the answers for the same partition."""
        asked = self._asked(requests).withColumn("key", _key())
        given = self._answers(answers).withColumn("key", _key()).drop("topic", "topic_id")
        return self._resolved(asked.join(given, [*_JOIN, "key", "partition"], "left").drop("key"))

    def _resolved(self, rows: DataFrame) -> DataFrame:
        return rows.withColumn("topic", F.coalesce("topic", F.element_at(self._names, F.col("topic_id"))))

    def _assignment(self, name: str) -> Column:
        def named(a: Column) -> Column:
            topic = F.coalesce(a.topic, F.element_at(self._names, a.topic_id))
            return F.struct(topic.alias("topic"), a.topic_id.alias("topic_id"), a.partitions.alias("partitions"))

        return F.transform(name, named)


def _key() -> Column:
    return F.coalesce("topic_id", "topic")


TABLES: dict[str, tuple[Callable[[Wire], DataFrame], str]] = {
    "connections": (Wire.connections, "connections"),
    "produced": (Wire.produced, "produce_requests"),
    "fetched": (Wire.fetched, "fetch_answers"),
    "asked": (Wire.asked, "fetch_requests"),
    "commits": (Wire.commits, "commit_requests"),
    "positions": (Wire.positions, "position_answers"),
    "membership": (Wire.membership, "membership_requests"),
    "transactions": (Wire.transactions, "transaction_requests"),
    "acquired": (Wire.acquired, "acquired"),
    "acknowledged": (Wire.acknowledged, "acknowledge_requests"),
    "unread": (Wire.unread, "unread"),
}
"""By name: how a table is made, and the table of the decoder without which it is empty."""


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
    with tuned(spark) if is_small(run) else nullcontext(), configured(spark, CHOSEN):
        _write_tables(spark, run, decode.prepare(spark, on_progress))


def is_small(run: Run) -> bool:
    """Return whether a capture is so small that planning its queries takes longer than computing them."""
    return sum(segment.stat().st_size for segment in (run.path / FOLDER).rglob("*.wire")) <= SMALL_BYTES


def _write_tables(spark: SparkSession, run: Run, decoder: Any) -> None:
    """Write the tables at once: most of the time of a small one is planning, which takes one thread each."""
    folder = run.path / FOLDER
    record = tapped(run)
    wire = Wire(spark, f"file:{folder}", decoder, record.instances if record else None)
    tables = [(wire, name, *made) for name, made in TABLES.items()]
    kept = [wire]
    if any((folder / LOG).glob("*.wire")):
        kept.append(Wire(spark, f"file:{folder / LOG}", decoder))
        tables.append((kept[-1], LOG, Wire.log, "fetch_answers"))
    elif (folder / LOG / MISSING).exists():  # no batch was left in it
        tables.append((wire, LOG, Wire.log, ""))
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(Wire.prepare, kept))
        list(pool.map(lambda table: _write(run, *table), tables))
    for one in kept:
        one.close()


def _write(run: Run, wire: Wire, name: str, make: Callable[[Wire], DataFrame], needed: str) -> None:
    """Write a table. An empty one needs no query."""
    folder, rows = table_path(run, name), make(wire)
    shutil.rmtree(folder, ignore_errors=True)
    if needed in wire.found:
        rows.write.parquet(f"file:{folder}")
    else:
        folder.mkdir()
        pq.write_table(to_arrow_schema(rows.schema).empty_table(), folder / "empty.parquet")


def table_path(run: Run, table: str) -> Path:
    """Return the folder of a table."""
    return run.wire / f"{table}.parquet"
