"""Which rules judge which block."""

from __future__ import annotations

import json

from checks.audit.commits import judge_commits
from checks.audit.committed import known_of_commits
from checks.audit.large.case import Case
from checks.audit.large.cut import ACK, COMMIT, COPY, DELIVERY, DONE, GAP, RECORD, RUN, SEND
from checks.audit.large.scan import columns_of
from checks.audit.large.tally import Tally
from checks.audit.read_path import judge_reads
from checks.audit.write_path import judge_writes


def judge_block(block: str, kinds: dict[str, list[bytes]], case: Case, tally: Tally) -> None:
    """Judge one block; see `large.cut` for its name and what is packed in it."""
    what, *place = json.loads(block)
    if what == "write":
        producer, number = place
        judge_writes(producer, number, columns_of(kinds, "sends", SEND), columns_of(kinds, "log", COPY), case, tally)
    elif what == "commits":
        topic, partition = place
        commits, done = columns_of(kinds, "commits", COMMIT), columns_of(kinds, "done", DONE)
        logs = {k: columns_of(kinds, k, RUN) for k in ("runs", "committed_runs")}
        judge_commits(topic, partition, commits, done, logs, case, tally)
    else:
        topic, partition, _ = place
        log, deliveries = columns_of(kinds, "records", RECORD), columns_of(kinds, "deliveries", DELIVERY)
        gaps, acks = columns_of(kinds, "gaps", GAP), columns_of(kinds, "acks", ACK)
        judge_reads(topic, partition, log, deliveries, gaps, acks, case, tally)


def know_block(block: str, kinds: dict[str, list[bytes]], case: Case, tally: Tally) -> None:
    """What the commits of a block say of the beginnings of epochs."""
    _, topic, partition = json.loads(block)
    known_of_commits(topic, partition, columns_of(kinds, "commits", COMMIT), case, tally)
