"""The anomalies that the audit can find: the words in which a scenario states its contract.

Each kind has one rule (in `checks.audit`), one violating, one clean and one near-miss ledger in the tests. A kind that
a scenario's `expect` does not name must not appear at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Path = Literal["write", "read", "group"]


@dataclass(frozen=True)
class Anomaly:
    """One kind of finding.

    meaning: the rule in one sentence. prevents: the settings that prevent it, in the field's own names.
    splits: the parts that are counted apart (`duplicate_delivery: {illegal: 0}`).
    """

    path: Path
    meaning: str
    prevents: str
    splits: tuple[str, ...] = ()


ANOMALIES: dict[str, Anomaly] = {
    # the write path, per topic
    "lost_write": Anomaly(
        "write",
        "acknowledged to the producer, yet not in the log",
        "acks=all with min.insync.replicas=2 or more and unclean.leader.election.enable=false",
    ),
    "duplicate_write": Anomaly(
        "write",
        "one record of a producer stands at two offsets",
        "enable.idempotence=true (within one producer session), a stable transactional.id across restarts",
    ),
    "reordered_write": Anomaly(
        "write",
        "in a partition, records of one producer incarnation stand in another order than they were sent",
        "enable.idempotence=true (one request in flight is not enough with librdkafka when the leader changes)",
    ),
    "misplaced_write": Anomaly(
        "write",
        "acknowledged at one partition and offset, found at another",
        "nothing a setting can do: report it as a bug of the broker or the client",
    ),
    "phantom_write": Anomaly(
        "write",
        "in the log, though no producer of this run sent it",
        "a topic that only this run writes to",
    ),
    "corrupt_record": Anomaly(
        "write",
        "key and value do not match the CRC that the producer put into the record",
        "check.crcs=true on consumers; look at the disk and the network",
    ),
    "misrouted_write": Anomaly(
        "write",
        "acknowledged in another partition than the producer's partitioner promises for its key or number",
        "one partitioner for all producers of a topic, and no change of its number of partitions",
    ),
    "unnoticed_failure": Anomaly(
        "write",
        "failed, or never confirmed, and not in the log, of a producer that does not look at delivery reports",
        "look at every delivery report, by a callback or by waiting for it",
    ),
    "resurrected_write": Anomaly(
        "write",
        "reported to the producer as definitely failed, yet in the log",
        "nothing a setting can do: report it as a bug of the client or the broker",
    ),
    "offset_reuse": Anomaly(
        "write",
        "two different records were seen at one offset: acknowledged, delivered or in the log",
        "unclean.leader.election.enable=false, acks=all with min.insync.replicas=2 or more",
    ),
    "torn_transaction": Anomaly(
        "write",
        "of a committed transaction an acknowledged record is not visible, or of an aborted one a record is",
        "nothing a setting can do: report it as a bug of the transaction coordinator or the broker",
    ),
    "hanging_transaction": Anomaly(
        "write",
        "the last stable offset stood still below the end of the partition, and no live transaction explains it",
        "a shorter transaction.timeout.ms; the same transactional.id after a restart, which aborts what was left open",
    ),
    # the read path, per group (subscribe) or per consumer (assign)
    "skipped_delivery": Anomaly(
        "read",
        "in the log within the reader's range, never delivered, though a later record was delivered or committed past",
        "commit after processing; auto.offset.reset=earliest where partitions may appear",
    ),
    "stalled_delivery": Anomaly(
        "read",
        "the tail of a partition was not delivered when the drain ended",
        "a longer drain if the consumer was only slow; otherwise find what held it",
    ),
    "lost_processing": Anomaly(
        "read",
        "polled and committed past, but never processed by any member",
        "commit only after processing (enable.auto.offset.store=false)",
    ),
    "duplicate_delivery": Anomaly(
        "read",
        "delivered again: `legal` from the committed offset after a new assignment, `illegal` otherwise",
        "commit more often, commit on revocation, idempotent processing",
        splits=("legal", "illegal"),
    ),
    "nonmonotonic_poll": Anomaly(
        "read",
        "inside one assignment an offset was delivered that is not above the one before",
        "nothing a setting can do: report it as a bug of the client",
    ),
    "poll_skip": Anomaly(
        "read",
        "inside one assignment an offset that exists in the log was left out",
        "nothing a setting can do: report it as a bug of the client or broker",
    ),
    "dirty_read": Anomaly(
        "read",
        "delivered, yet not in the final log",
        "unclean.leader.election.enable=false, min.insync.replicas=2 or more",
    ),
    "evicted_delivery": Anomaly(
        "read",
        "acknowledged and owed to the reader, but removed from the log before it was delivered",
        "retention.ms and retention.bytes above the longest lag; no delete-records before all groups have read",
    ),
    "aborted_read": Anomaly(
        "read",
        "a read_committed reader was given a record of an aborted transaction",
        "nothing a setting can do: report it as a bug of the client or the broker",
    ),
    "precommitted_read": Anomaly(
        "read",
        "a read_committed reader was given a record before its transaction can have been committed",
        "nothing a setting can do: report it as a bug of the client or the broker",
    ),
    # groups
    "overcommit": Anomaly(
        "group",
        "an offset was committed beyond what its member had processed",
        "commit only after processing (enable.auto.offset.store=false)",
    ),
    "commit_rewind": Anomaly(
        "group",
        "a commit lowered the committed offset, with no seek to explain it",
        "commit from one place, in order; refuse late commits of a member that lost its partition",
    ),
    "double_ownership": Anomaly(
        "group",
        "two members owned one partition in the same generation",
        "nothing a setting can do: report it as a bug of the assignor or the coordinator",
    ),
    "foreign_commit": Anomaly(
        "group",
        "a reader resumed at an offset that another job's commit had put there",
        "one group id per job",
    ),
    "zombie_commit": Anomaly(
        "group",
        "a commit was accepted from a member whose partition another member had taken over",
        "commit through the group's own member, with its generation; stop workers when partitions are revoked",
    ),
    "unbalanced_assignment": Anomaly(
        "group",
        "a settled group's partitions are not spread as its assignor promises",
        "the same partition.assignment.strategy in all members",
    ),
    "misplaced_coordinator": Anomaly(
        "group",
        "the group's coordinator is not the leader of its partition of __consumer_offsets",
        "nothing a setting can do: report it as a bug of the broker",
    ),
}

METRICS: dict[str, str] = {
    "produce_unavailability": "from a fault to the first success of a send invoked after it, less the usual gap",
    "consume_unavailability": "from a fault to the first delivery of a record sent after it, less the usual gap",
    "rebalance_duration": "from the first partition given up to the last one assigned in the next generation",
    "isr_recovery": "from a fault's heal (else its injection) until the ISR of every partition that it shrank is full",
    "election_time": "from a fault's injection until another leader of a higher epoch was seen (sampled every 150 ms)",
    "ack_latency": "from the call of produce to its delivery report",
    "end_to_end_latency": "from the call of produce to the record's processing",
    "commit_latency": "from the request of an offset commit to its answer",
}
"""Times that a scenario may bound; measured in microseconds, stated as durations."""
