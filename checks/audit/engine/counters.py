"""The aggregates of the two passes. A rule that examines another kind of rows declares a counter at the rule."""

from __future__ import annotations

import operator
from dataclasses import dataclass

import numpy as np

from checks.audit.arrays import Ints, Mask
from checks.audit.engine.group import runs, sections
from checks.audit.engine.tally import (
    Aggregate,
    Sparse,
    Tally,
    collection,
    digest,
    distribution,
    extent,
    highest,
    lowest,
    maximum,
    minimum,
    numbers,
    total,
    union,
)
from checks.audit.facts.commit_log import Acknowledged

# rows, by table
ROWS = total("rows")
PART_ROWS = maximum("part_rows")
"""By table and path."""
UNREADABLE = collection("unreadable")
"""(path, error) of the parts that could not be read."""

# sends, by topic
SENT, ACKED, FAILED, UNKNOWN = total("sent"), total("acked"), total("failed"), total("unknown")
REFUSED_TIMESTAMPS = total("refused_timestamps")
"""Sends that brokers refused for a record of their batch, whatever their outcome: with wrong timestamps, for these."""
LOCATED = total("located")
"""Acknowledged records with an offset."""
EVICTED = total("evicted")
"""Acknowledged records below the log start at read-back."""
SUPERSEDED = total("superseded")
"""Acknowledged records that are not in the log because a later record has their key."""
EXPIRED = total("expired_tombstones")
"""Acknowledged tombstones that are not in the log because delete.retention.ms was over."""
UNSENT_PRESENT = total("unsent_present")
"""Records in the log for which the send row was lost with the producer."""

GONE = total("gone")
"""Acknowledged records of a topic that was deleted."""

# records in the log, by topic
IN_LOG = total("in_log")
OWN_RECORDS = total("own_records")
"""Records that carry an identity of this run."""
CRC_CHECKED = total("crc_checked")

# deliveries and commits, by reader
DELIVERED = total("delivered")
DELIVERED_FROM = total("delivered_from")
"""Deliveries by topic."""
COMMITTED = total("committed")
IN_RANGE = total("in_range")
"""Log records that the reader has to deliver."""
EPOCHS = total("epochs")

# share groups, by group
ACQUIRED = total("acquired")
ACKNOWLEDGED = total("acknowledged")
"""Acknowledgements by group, type (accept, release, reject) and outcome (see `blocks.ACKNOWLEDGED`)."""
SHARE_RANGE = total("share_range")
"""Log records that the group has to acquire."""
JUDGED = total("judged_acquisitions")
"""Acquisitions in partitions that were read back."""
CONFIRMED = total("confirmed")
"""Accepts and rejects that the broker confirmed."""
DISTINCT = total("distinct_acquired")
LOWEST_ACQUIRED = minimum("lowest_acquired")
"""By group, topic and partition."""
LAST_ACTIVE = maximum("last_active")
"""The latest time in the rows of a member, by consumer, incarnation and group."""

# what exists
TOPICS = union("topics")
SENDERS = union("senders")
COMMITTERS = union("committers")
TRANSACTION_WRITERS = union("transaction_writers")
"""(topic, partition, producer, incarnation) with a send in a transaction."""

# positions and ends
DRIVE_END_US = maximum("drive_end_us")
LOG_END = maximum("log_end")
"""The offset after the last record, by topic and partition."""
COMMITTED_TO = maximum("committed_to")
"""The highest offset committed, by key of the epoch."""
COMMITTED_BY_ANY = maximum("committed_by_any")
"""The highest offset of a commit that did not fail, whoever committed it, by group, topic and partition."""
SEGMENTS = collection("segments")
"""Segments by key of the epoch; see `summaries`."""
COMMITS_AT_BEGIN = collection("commits_at_begin")
"""By index of the epoch; see `commits.commits_at_begin`."""
LOWEST_OFFSETS = lowest("lowest_offsets")
"""By producer, incarnation, topic and partition: block of seqs -> lowest offset."""
LAST_INVOKED = highest("last_invoked")
"""By producer and incarnation: transaction -> time of its last send."""
ACKED_DIGEST, LOG_DIGEST = digest("acked_digest"), digest("log_digest")
"""By topic, partition and block of offsets; see `summaries`."""
CLOCK_BACKWARDS = total("clock_backwards")
"""Rows that end before they begin, by `<table> of <client>`."""

UNSETTLED = numbers("unsettled")
"""The seqs of records that time does not assign to a life of their topic, by table and identity."""
SETTLED = highest("settled")
"""Offset -> seq of those records in the log, by identity and partition."""
UNANSWERED = union("unanswered")
"""Places and offsets of commits without an outcome."""
ATTEMPTS = collection("attempts")
"""The commits of those offsets that did not fail."""
COMPARED: Aggregate[Acknowledged] = Aggregate("compared", operator.add)
"""How acknowledged commits compare with the log of offset commits, by group."""
COMMITS_UNKNOWN = total("commits_unknown")
"""Commits of unknown outcome, by reader."""
COMMITS_BY_LOG = total("commits_by_log")
"""Commits of unknown outcome that the log of offset commits decides, by reader and outcome."""

BETWEEN = collection("between")
"""Acknowledgements that may belong to several lives that have ended; see `topic_lives.Ack`."""
UNLOCATED = union("unlocated")
"""Records that may be in several lives that have ended, at an offset that is not known."""
EXTENTS = extent("extents")
"""Lowest and highest offset of the acknowledgements of a life, by label and partition."""

# curves and times
ACKED_CURVE, DELIVERED_CURVE = distribution("acked_curve"), distribution("delivered_curve")
"""Time bucket -> records, by topic and by reader."""
CALLED_CURVE, UNACKED_CURVE = distribution("called_curve"), distribution("unacked_curve")
"""Time bucket of the call -> sends, and sends without an acknowledgement, by topic."""
ACKED_REACHED, DELIVERED_REACHED = highest("acked_reached"), highest("delivered_reached")
"""Partition and time bucket -> highest offset + 1, by topic and by (reader, topic)."""
HEAT = distribution("heat")
"""Time cell and latency bin -> records, by series and scope."""
LATENCIES: dict[str, Aggregate[Sparse]] = {
    name: distribution(name) for name in ("ack_latency", "end_to_end_latency", "commit_latency")
}
"""us -> number, by scope."""
SENT_AFTER, ACKED_AFTER = distribution("sent_after"), distribution("acked_after")
"""Partition -> sends after a fault, by fault and topic."""


@dataclass(frozen=True)
class Successes:
    """Successful operations around faults, by fault and scope.

    before: partition and time -> operations before the fault. first: partition -> first success after it.
    """

    before: Aggregate[Sparse]
    first: Aggregate[Sparse]


PRODUCED = Successes(distribution("produced_before"), lowest("produced_first"))
CONSUMED = Successes(distribution("consumed_before"), lowest("consumed_first"))


def add_senders(codes: Ints, names: list[str], incarnation: Ints, tally: Tally) -> None:
    """Add every producer incarnation that occurs."""
    starts = runs(codes, incarnation)
    pairs = set(zip(codes[starts].tolist(), incarnation[starts].tolist(), strict=True))
    tally.add(SENDERS, value={(names[c] if c >= 0 else None, n) for c, n in pairs})


def count_backwards(tally: Tally, table: str, codes: Ints, clients: list[str], wrong: Mask) -> None:
    """Count the rows that end before they begin: the clock of their client was set back between."""
    for (code,), rows in sections(codes[np.flatnonzero(wrong)]):
        tally.add(CLOCK_BACKWARDS, f"{table} of {clients[code]}", value=len(rows))
