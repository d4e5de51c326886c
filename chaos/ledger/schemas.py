"""The tables of the ledger. Times are integer microseconds since the epoch, from the clock of one machine.

The outcome of an operation is `ok`, `fail` (it definitely did not happen) or `unknown` (it may have happened). A
time-out is `unknown`.

Each file names its version of the schema. A ledger of another version is refused.
"""

from __future__ import annotations

import pyarrow as pa

SCHEMA_VERSION = 1
RUN_ENDS = pa.int32()
"""Type of the ends of runs in run-end encoded columns."""

_str, _i32, _i64, _bool = pa.string(), pa.int32(), pa.int64(), pa.bool_()


def _table(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()), metadata={"aftershock.schema": str(SCHEMA_VERSION)})


def version_of(schema: pa.Schema) -> str:
    """Return the version in the metadata of a stream or file; without one, the current version."""
    return (schema.metadata or {}).get(b"aftershock.schema", b"").decode() or str(SCHEMA_VERSION)


_INPUT = {"input_topic": _str, "input_partition": _i32, "input_offset": _i64}
"""Coordinates of the record that an output of a processor was made from; null for other records."""
INPUT_COLUMNS = tuple(_INPUT)
_READER = {"consumer": _str, "incarnation": _i32, "group": _str, "mode": _str}

TABLES: dict[str, pa.Schema] = {
    # One row per completed send. `offset` is null if the client received none (acks=0, failures). A processor gives the
    # input of each record.
    "sends": _table(
        producer=_str,
        incarnation=_i32,
        seq=_i64,
        topic=_str,
        partition=_i32,
        offset=_i64,
        outcome=_str,
        error=_str,
        key=_str,
        txn=_i64,
        invoked_us=_i64,
        completed_us=_i64,
        **_INPUT,
    ),
    # One row per transaction end; outcome is committed, aborted or unknown. `requested_us` is the time directly before
    # the first call that ends the transaction, after its offsets were added; null if the client does not know it.
    "transactions": _table(
        producer=_str,
        incarnation=_i32,
        txn=_i64,
        outcome=_str,
        began_us=_i64,
        ended_us=_i64,
        requested_us=_i64,
    ),
    # One row per processed record. `assignment` is the running number of the assignment of the partition (see
    # `assignments`), `ordinal` the running number of the delivery within the incarnation. `group` is null for an
    # assign-mode consumer without a group id. `producer`, `seq` and `sent_us` (time of the send call) are null if the
    # value has no identity.
    "deliveries": _table(
        **_READER,
        assignment=_i32,
        ordinal=_i64,
        topic=_str,
        partition=_i32,
        offset=_i64,
        leader_epoch=_i32,
        producer=_str,
        producer_incarnation=_i32,
        seq=_i64,
        sent_us=_i64,
        polled_us=_i64,
        processed_us=_i64,
    ),
    # One row per partition of an offset commit. `offset` is the next offset to read. For kind auto, `requested_us` is
    # the time of the result, because librdkafka does not report the time of the request.
    "commits": _table(
        **_READER,
        assignment=_i32,
        topic=_str,
        partition=_i32,
        offset=_i64,
        kind=_str,
        outcome=_str,
        error=_str,
        requested_us=_i64,
        completed_us=_i64,
    ),
    # One row per partition of an assignment event: assigned, revoked, lost, seek, position, checkpoint. Each `assigned`
    # and each `seek` begins an epoch of its partition with the next running number `assignment`; revoked and lost carry
    # the number that they end. checkpoint: a checkpoint is complete, from which a later incarnation restores
    # `position`; a client with a checkpoint at each processed record writes no such row. position: where an epoch
    # without a position began, as soon as the client knows it, if no delivery shows it. `position` is the next offset
    # to read at that moment; null if the client does not know it. `source` is the origin of the position at the start
    # of an epoch: committed, reset (auto.offset.reset), start (set in the scenario), checkpoint, seek. `generation` is
    # null in assign mode and if the client does not know it. `instance_id` is the group.instance.id, null for a dynamic
    # member (KIP-345).
    "assignments": _table(
        **_READER,
        member_id=_str,
        generation=_i32,
        event=_str,
        assignment=_i32,
        topic=_str,
        partition=_i32,
        position=_i64,
        source=_str,
        at_us=_i64,
        instance_id=_str,
    ),
    # One row per record that a member of a share group acquired, written when the poll returned it. `ordinal` is the
    # running number of the acquisition within the incarnation. `delivery_count` is the broker's.
    "acquisitions": _table(
        consumer=_str,
        incarnation=_i32,
        group=_str,
        ordinal=_i64,
        topic=_str,
        partition=_i32,
        offset=_i64,
        delivery_count=_i32,
        producer=_str,
        producer_incarnation=_i32,
        seq=_i64,
        sent_us=_i64,
        acquired_us=_i64,
    ),
    # One row per acknowledgement of an acquired record (`ordinal`): type is accept, release or reject. An
    # acknowledgement without a row has no known outcome.
    "acknowledgements": _table(
        consumer=_str,
        incarnation=_i32,
        group=_str,
        ordinal=_i64,
        topic=_str,
        partition=_i32,
        offset=_i64,
        type=_str,
        outcome=_str,
        error=_str,
        requested_us=_i64,
        completed_us=_i64,
    ),
    # Client events: started, stopped (by order, everything flushed), crashed (written by the fleet), error, slowed,
    # resumed. `role` is producer or consumer. `detail` is a JSON object. The fleet also writes `usage` at the end of
    # each process: CPU time (`start_us`: until it had started), memory, and the records of its last progress.
    "lifecycle": _table(client=_str, role=_str, incarnation=_i32, event=_str, detail=_str, at_us=_i64),
    # One row per event of an instance of an application: started, ready (if the run waited
    # for it), stopped (by order, or with exit code 0), crashed.
    # `detail` is a JSON object: pid, exit_code, asked (why somebody ended it; left out if nobody did), last (its last
    # words).
    "apps": _table(app=_str, instance=_i32, incarnation=_i32, event=_str, detail=_str, at_us=_i64),
    # One row per step of a fault: injecting, injected, proven, healing, healed, failed. `evidence` is a JSON object.
    "faults": _table(fault=_str, kind=_str, target=_str, phase=_str, evidence=_str, at_us=_i64),
    # One row per observed change. `entity` is `orders/0` (keys leader, isr, leader_epoch, end_offset,
    # last_stable_offset, offsets_answer: whether the leader answered with the last two), `group:billing` (answers,
    # late: whether the latest sample is old, coordinator, members, state), `group:billing/orders/0` (committed: null if
    # an observed offset is gone; of a share group share_start, share_lag: the offset before which each record has its
    # final state, and the records from there on that have none), `topic:orders` (id: empty if the brokers give none,
    # null while they do not list the topic), `cluster` (answers, brokers), `__consumer_offsets` (partitions),
    # `__consumer_offsets/7` (leader), `controller:101` (active, active_last: `chaos.observer`), `client:billing`
    # (fetches: number by broker, of entries with a rack). `value` is JSON.
    "cluster": _table(at_us=_i64, entity=_str, key=_str, value=_str),
}
"""Schema of each table that is written during the drive."""
SHARE_TABLES = ("acquisitions", "acknowledgements")
LARGE = ("sends", "deliveries", "commits", *SHARE_TABLES)
"""Tables that grow with the load, in addition to the log."""
TABLES["inserts"] = TABLES["sends"]
"""One row per completed insert of a producer of rows, with the name of the producer as `topic`."""
OPTIONAL = ("apps", "inserts")
"""Tables that a seal may lack: only runs with applications, and with producers of rows, have rows of them."""

LOG = _table(
    topic=_str,
    partition=_i32,
    offset=_i64,
    timestamp_us=_i64,
    run=_str,
    producer=_str,
    incarnation=_i32,
    seq=_i64,
    crc_ok=_bool,
    committed=_bool,
    key=_str,
    tombstone=_bool,
    **_INPUT,
    count=_i64,
)
"""Schema of `log`: one row per record in the final log, read back from the healed cluster. `producer`, `incarnation`
and `seq` are null if the value has no identity; `timestamp_us` is the record's timestamp. `key` is the key of a
record in a compacted topic and in one that a processor counts, null in other topics and for a record without a key.
`tombstone`: whether a record of such a topic has no value, null in other topics; its identity is then in a record
header. The input is that in the record header `aftershock-input`, `count` that in `aftershock-count`."""

LOG_RANGE = _table(
    topic=_str,
    partition=_i32,
    start=_i64,
    end=_i64,
    topic_id=_str,
    read_from_us=_i64,
    read_us=_i64,
    records=_i64,
)
"""Schema of `log_range`: log start offset and end offset of each partition at read-back. `topic_id` is the id of the
topic at that moment; null if the brokers give none. `read_from_us`, `read_us`: when reading of the partition began, and
when all its records had been read. `records`: the number of records, only of `__consumer_offsets` and only if the
scenario bounds its compaction."""

EFFECTS = _table(
    effect=_str,
    id=_str,
    value=_str,
    at_us=_i64,
    after_us=_i64,
    where=_str,
    number=_i64,
    mark=_str,
    problem=_str,
)
"""Schema of `effects`: one row per effect that an application had, read at the end: its id and value as texts, and
where it is. It appeared between `after_us` and `at_us`; both are null for one that the drive saw first (`mark`, see
`chaos.effects.watch`). `number` orders the effects of one source. `problem`: why the row has no id, else null."""

EFFECT_INPUTS = _table(effect=_str, partition=_i32, offset=_i64, key=_str, value=_str)
"""Schema of `effect_inputs`: one row per record in the input topic of an effect that compares values: the key by which
inputs are aggregated, and the value, both as texts."""

EFFECT_READS = _table(effect=_str, rows=_i64, unreadable=_i64, example=_str, error=_str, read_us=_i64)
"""Schema of `effect_reads`: for each effect how many rows were read, and how many of them have no id, with the first of
these. `error`: why nothing could be read, else null."""

BATCHES = _table(
    topic=_str,
    partition=_i32,
    base_offset=_i64,
    last_offset=_i64,
    producer_id=_i64,
    producer_epoch=_i32,
    base_sequence=_i32,
)
"""Schema of `batches`: batches with records that a producer incarnation has more than once in a partition, as the
leader returns them; only of idempotent producers (KIP-98), and not all of them if there are many."""

COMMIT_LOG = _table(
    group=_str,
    topic=_str,
    partition=_i32,
    offset=_i64,
    metadata=_str,
    commit_us=_i64,
    appended_us=_i64,
    log_partition=_i32,
    log_offset=_i64,
    transaction=_str,
    ended_us=_i64,
)
"""Schema of `commit_log`: one row per offset commit in the log of `__consumer_offsets`, for the groups of the scenario
and the time of the run. `offset` is null if the record deletes the committed offset. `commit_us` is the coordinator's
time of the commit, `appended_us` the time of the record, both by the clock of a broker, in ms. `log_partition` and
`log_offset` are its position in `__consumer_offsets`. `transaction` is committed, aborted or open (no marker yet), null
without a transaction; `ended_us` is the time of the marker."""

COMMIT_LOG_RANGE = _table(group=_str, log_partition=_i32, start=_i64, end=_i64, read_us=_i64, whole=_bool, error=_str)
"""Schema of `commit_log_range`: for each group, the offsets of its partition of `__consumer_offsets` that were read.
`whole`: whether the log had all records there. If not, compaction may have removed commits, and a missing row proves
nothing. `error`: why nothing could be read, else null."""

_RUNS = {
    "sends": ("producer", "incarnation", "topic", "outcome", "error", "txn", "completed_us", *_INPUT),
    "deliveries": (
        *("consumer", "incarnation", "group", "mode", "assignment", "topic", "leader_epoch"),
        *("producer", "producer_incarnation", "polled_us", "processed_us"),
    ),
}
"""Columns with values that repeat row after row."""


def _streamed(table: str, schema: pa.Schema) -> pa.Schema:
    recurring = _RUNS.get(table, ())
    types = {f.name: pa.run_end_encoded(RUN_ENDS, f.type) if f.name in recurring else f.type for f in schema}
    return pa.schema(list(types.items()), schema.metadata)


STREAMS: dict[str, pa.Schema] = {table: _streamed(table, schema) for table, schema in TABLES.items()}
"""Schemas that `TableWriter` writes: run-end encoded columns reduce the bytes of a client at full speed to a quarter.
Readers accept the plain types of `TABLES` as well."""


REQUIRED: dict[str, tuple[str, ...]] = {
    "sends": ("producer", "incarnation", "seq", "topic", "outcome", "invoked_us", "completed_us"),
    "transactions": ("producer", "incarnation", "txn", "outcome", "began_us", "ended_us"),
    "deliveries": (
        *("consumer", "incarnation", "mode", "ordinal", "topic", "partition", "offset"),
        *("polled_us", "processed_us"),
    ),
    "commits": (
        *("consumer", "incarnation", "mode", "topic", "partition", "offset", "kind", "outcome"),
        *("requested_us", "completed_us"),
    ),
    "assignments": ("consumer", "incarnation", "mode", "event", "assignment", "topic", "partition", "at_us"),
    "acquisitions": (
        *("consumer", "incarnation", "group", "ordinal", "topic", "partition", "offset", "delivery_count"),
        "acquired_us",
    ),
    "acknowledgements": (
        *("consumer", "incarnation", "group", "ordinal", "topic", "partition", "offset", "type", "outcome"),
        *("requested_us", "completed_us"),
    ),
    "lifecycle": ("client", "role", "incarnation", "event", "detail", "at_us"),
}
"""Columns that are never null, for the tables that clients write. All other columns may be null."""

OUTCOMES = ("ok", "fail", "unknown")
MODES = ("subscribe", "assign")

VALUES: dict[str, dict[str, tuple[str, ...]]] = {
    "sends": {"outcome": OUTCOMES},
    "transactions": {"outcome": ("committed", "aborted", "unknown")},
    "deliveries": {"mode": MODES},
    "commits": {"mode": MODES, "outcome": OUTCOMES, "kind": ("sync", "async", "auto", "transaction")},
    "assignments": {
        "mode": MODES,
        "event": ("assigned", "revoked", "lost", "seek", "position", "checkpoint"),
        "source": ("committed", "reset", "start", "checkpoint", "seek"),
    },
    "acquisitions": {},
    "acknowledgements": {"type": ("accept", "release", "reject"), "outcome": OUTCOMES},
    "lifecycle": {
        "role": ("producer", "consumer"),
        "event": ("started", "stopped", "crashed", "error", "slowed", "resumed"),
    },
}
"""Columns with a closed set of values, null aside where the column may be null."""
