"""The blocks of the second pass: their names and the columns of the rows in them.

Writes meet by sender: a block is 2^20 seqs of one producer, with its sends and its records in the log. Reads meet by
position: a block is 2^20 offsets of one partition, with its log records and all deliveries of them. Commits meet by
partition.
"""

from __future__ import annotations

import json

SEND = ("seq", "incarnation", "topic", "partition", "offset", "outcome", "end", "invoked_us", "completed_us")
COPY = ("seq", "incarnation", "topic", "partition", "offset", "timestamp", "committed")
RECORD = ("offset", "sender", "seq", "timestamp", "committed")
DELIVERY = ("epoch", "ordinal", "offset", "sender", "seq", "sent_us", "polled_us", "processed_us")
ACK = ("offset", "sender", "seq", "end", "last_us", "completed_us")
GAP = ("epoch", "begin", "end", "expected", "next_offset", "processed_us", "polled")
COMMIT = ("committer", "offset", "kind", "outcome", "requested_us", "completed_us")
PROGRESS = ("epoch", "at_us", "reached")
RUN = ("first", "last")
"""The columns of each kind of rows. Topics, senders, epochs and committers are indexes into those of `RunFacts`.

`end` is the end of the transaction (`run_facts.NO_TXN`, …), `last_us` when its last send was invoked, `committed` 1, 0
or NONE if unknown, `polled` 1 for a gap whose records were polled and never done, `reached` the highest offset + 1.
"""

OK, FAIL, UNKNOWN = 0, 1, 2
OUTCOMES = {"ok": OK, "fail": FAIL, "unknown": UNKNOWN}
"""Outcomes of sends."""
COMMIT_KINDS = ("sync", "async", "auto", "transaction")
COMMIT_OK, COMMIT_UNKNOWN, COMMIT_FAILED = 0, 1, 2


def write_block(producer: str, block: int) -> str:
    """Return the name of a block of seqs."""
    return json.dumps(["write", producer, block])


def read_block(topic: str, partition: int, block: int) -> str:
    """Return the name of a block of offsets."""
    return json.dumps(["read", topic, partition, block])


def commit_block(topic: str, partition: int) -> str:
    """Return the name of the block of all commits on a partition."""
    return json.dumps(["commits", topic, partition])
