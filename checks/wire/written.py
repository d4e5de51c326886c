"""The identity of what was produced, and where it is in the final log.

A record of a stranger has no mark. A batch is found in the log by the first of these that it has:

| identity | what is equal                                                                                          |
|----------|--------------------------------------------------------------------------------------------------------|
| sequence | producer id, epoch and first sequence (KIP-98): of idempotent producers                                |
| checksum | checksum, number of records and last timestamp: a client's own retry sends the same bytes              |
| position | the acknowledged offset, the number of records, and the timestamp, which the broker says that it wrote |
|          | (LogAppendTime), or which the client gave: a broker that sets timestamps or compresses again changes   |
|          | the checksum                                                                                           |
| hashes   | hash and timestamp of each record: librdkafka without idempotence puts a retry into other batches      |

`written` has one row for each identity that was sent to a partition:

| column                            | meaning                                                                       |
|-----------------------------------|-------------------------------------------------------------------------------|
| topic, partition, identity, key   | `identity` is one of the above, `key` its value as text                       |
| instances, attempts               | who sent it, and how often                                                    |
| acked, unknown, failed, unanswered| attempts by outcome; unanswered are those with acks=0                         |
| first_us, last_us, acked_us       | first and last attempt, first acknowledgement: us by the proxy's clock        |
| acked_offsets                     | base offsets of the acknowledgements                                          |
| records                           | records in the batch                                                          |
| found                             | base offsets in the log; by hashes: the offsets of its records                |
| state                             | `once`, `absent`, `several`, `part` (by hashes: some of its records),         |
|                                   | or `undecided`                                                                |

Undecided are equal twins (sent again after an acknowledgement, without a sequence), and batches that have no checksum
in the log and no records in the capture. A client that bumps its epoch renumbers what is in flight, so one record has
two sequences. Only the hashes show that both are in the log: `several`, with `payloads: all`.

Sources: KIP-98 for sequences; the record batch in Kafka's documentation of the message format.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_PLACE = ("topic", "partition")
_KEY = (*_PLACE, "key")


def written(produced: DataFrame, log: DataFrame) -> DataFrame:
    """Return the identities that were sent, with their place in the log. Both are tables of `checks.wire.tables`.

    Batches in `log` that are markers, or were cut off at the end of an answer, do not count.
    """
    data = log.where("complete and control is null").withColumn("key", _key())
    sent = _sent(produced.withColumn("key", _key()))
    found = data.groupBy(*_KEY).agg(F.sort_array(F.collect_set("base_offset")).alias("at"))
    joined = sent.join(found, list(_KEY), "left").withColumn("at", _or_empty("at"))
    for others in (_by_position(joined, data), _by_hashes(joined, data), _renumbered(joined, data)):
        joined = joined.join(others, list(_KEY), "left")
    first = F.size("at") > 0
    by_position = ~first & F.col("position").isNotNull()
    by_hashes = ~first & ~by_position & F.col("offsets").isNotNull()
    identity = F.when(by_position, "position").when(by_hashes, "hashes").otherwise(F.col("identity"))
    places = F.when(F.col("renumbered").isNotNull(), F.col("renumbered")).when(by_position, F.array("position"))
    places = places.when(by_hashes, F.col("offsets")).otherwise(F.col("at"))
    state = (
        F.when((F.col("identity") != "sequence") & F.col("twins"), "undecided")
        .when(F.col("renumbered").isNotNull() | (F.size("at") > 1), "several")
        .when(first | by_position, "once")
        .when(by_hashes & (F.col("most") > 1), "several")
        .when(by_hashes & (F.col("matched") == F.col("records")), "once")
        .when(by_hashes, "part")
        .when((F.col("identity") == "checksum") & F.col("hashes").isNull(), "undecided")
        .otherwise("absent")
    )
    own = ("instances", "attempts", "acked", "unknown", "failed", "unanswered", "first_us", "last_us", "acked_us")
    return joined.select(
        *_PLACE,
        identity.alias("identity"),
        "key",
        *own,
        "acked_offsets",
        "records",
        places.alias("found"),
        state.alias("state"),
    )


def _key() -> Column:
    sequence = F.concat_ws("/", "producer_id", "producer_epoch", "base_sequence")
    checksum = F.concat_ws("/", F.hex("crc"), "records", "max_timestamp_us")
    return F.when(F.col("producer_id").isNotNull(), sequence).otherwise(checksum)


def _or_empty(name: str) -> Column:
    return F.coalesce(name, F.array().cast("array<bigint>"))


def _sent(produced: DataFrame) -> DataFrame:
    """Return one row for each identity. `twins`: it was sent after it had been acknowledged."""
    ok, seen = F.col("outcome") == "ok", F.col("asked_us")
    grouped = (
        produced.where("topic is not null")
        .groupBy(*_KEY)
        .agg(
            F.when(F.first("producer_id").isNotNull(), "sequence").otherwise("checksum").alias("identity"),
            F.sort_array(F.collect_set("instance")).alias("instances"),
            F.count("*").alias("attempts"),
            *(
                F.count_if(F.col("outcome") == outcome).alias(name)
                for name, outcome in (
                    ("acked", "ok"),
                    ("unknown", "unknown"),
                    ("failed", "fail"),
                    ("unanswered", "none"),
                )
            ),
            F.min("asked_us").alias("first_us"),
            F.max("asked_us").alias("last_us"),
            F.min(F.when(ok, F.col("answered_us"))).alias("acked_us"),
            F.sort_array(F.collect_set(F.when(ok, F.col("base_offset")))).alias("acked_offsets"),
            F.max(F.when(ok, F.col("append_us"))).alias("append_us"),
            F.max("records").alias("records"),
            F.first("producer_id").alias("producer_id"),
            F.max("base_timestamp_us").alias("base_us"),
            F.max("max_timestamp_us").alias("max_us"),
            F.first("hashes", ignorenulls=True).alias("hashes"),
            F.first("timestamps_us", ignorenulls=True).alias("timestamps_us"),
            F.size(F.collect_set("instance")).alias("senders"),
            F.max(seen).alias("last_seen"),
        )
    )
    twins = (F.col("last_seen") > F.col("acked_us")) | (F.col("senders") > 1)
    return grouped.withColumn("twins", F.coalesce(twins, F.lit(False))).drop("senders", "last_seen")


def _renumbered(sent: DataFrame, data: DataFrame) -> DataFrame:
    """Return the base offsets of the batches of identities that are in the log with several epochs of one producer."""
    same = (*_PLACE, "producer_id", "hashes", "timestamps_us")
    several = (
        data.where("producer_id is not null and hashes is not null")
        .groupBy(*same)
        .agg(
            F.count_distinct("producer_epoch").alias("epochs"),
            F.sort_array(F.collect_set("base_offset")).alias("renumbered"),
        )
        .where("epochs > 1")
    )
    return sent.join(several, list(same)).select(*_KEY, "renumbered")


def _by_position(sent: DataFrame, data: DataFrame) -> DataFrame:
    """Return the acknowledged offset of identities that are not in the log by it, if the batch there is theirs."""
    left = sent.where("size(at) = 0 and size(acked_offsets) = 1 and identity = 'checksum'").select(
        *_KEY, F.col("acked_offsets")[0].alias("base_offset"), "append_us", "records", "base_us", "max_us"
    )
    there = data.select(
        *_PLACE,
        "base_offset",
        F.col("records").alias("there"),
        "log_append_time",
        "base_timestamp_us",
        "max_timestamp_us",
    )
    appended = F.col("log_append_time") & (F.col("append_us") == F.col("max_timestamp_us"))
    given = (
        ~F.col("log_append_time")
        & (F.col("base_us") == F.col("base_timestamp_us"))
        & (F.col("max_us") == F.col("max_timestamp_us"))
    )
    same = left.join(there, [*_PLACE, "base_offset"]).where((F.col("records") == F.col("there")) & (appended | given))
    return same.select(*_KEY, F.col("base_offset").alias("position"))


def _by_hashes(sent: DataFrame, data: DataFrame) -> DataFrame:
    """Return the offsets of the records of identities that are not in the log by it."""
    left = sent.where("size(at) = 0 and hashes is not null and identity = 'checksum'").select(
        *_KEY, F.posexplode(F.arrays_zip("hashes", "timestamps_us")).alias("index", "one")
    )
    others = data.join(
        sent.select(*_KEY), list(_KEY), "left_anti"
    )  # a batch that is another one of these is not theirs
    right = others.where("hashes is not null and producer_id is null").select(
        *_PLACE,
        "base_offset",
        "log_append_time",
        F.posexplode(F.arrays_zip("hashes", "timestamps_us")).alias("delta", "there"),
    )
    one, there = F.col("one"), F.col("there")
    same_time = F.col("log_append_time") | (one["timestamps_us"] == there["timestamps_us"])
    pairs = left.withColumn("hash", one["hashes"]).join(right.withColumn("hash", there["hashes"]), [*_PLACE, "hash"])
    records = (
        pairs.where(same_time)
        .groupBy(*_KEY, "index")
        .agg(F.count("*").alias("times"), F.collect_list(F.col("base_offset") + F.col("delta")).alias("offsets"))
    )
    return records.groupBy(*_KEY).agg(
        F.sort_array(F.flatten(F.collect_list("offsets"))).alias("offsets"),
        F.count("*").alias("matched"),
        F.max("times").alias("most"),
    )
