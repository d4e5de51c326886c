"""What may be wrong with a run: the registry of anomalies, and the terms in which a scenario states its contract.

An anomaly is what a guarantee of Kafka, or of the applications of a run, forbids. A contract is closed: an anomaly that
a scenario's `expect` does not name must not appear. Each entry below gives the path, the definition (`meaning`), the
settings that prevent it (`prevents`), the phrases of reports, and whether it is decided on the wire alone (`wire`). The
entry with its rule, in `checks.audit.rules` under the same name, is all there is to know about an anomaly: the scopes
in which it is counted, when it applies, the rows it examines and leaves out, how it judges, and how it explains a
finding. The two stand apart because a scenario names anomalies without Spark and NumPy, and `chaos` imports nothing of
`checks`.

The definitions use these terms.

- A *record* is (producer, seq), whichever incarnation of the producer sent it. It is *acknowledged* if a send of it
  ended as `ok`. A send that ended as `unknown`, such as one that timed out, is neither acknowledged nor failed.
- *The log* is what was read back from the healed cluster when the run was over. A record that retention, compaction or
  a fault may have removed by then is not missing in it.
- A *reader* is a group of subscribe consumers, or one assign consumer over all its incarnations. Its *range* in a
  partition begins where it began to read: at the committed offset, by `auto.offset.reset`, or at a given start. A
  record is *visible* to it unless it reads with read_committed and the transaction of the record was aborted.
- A record is *delivered* when a poll returned it and its consumer wrote the row; it is *processed* when the consumer
  was done with it. The *drain* is the time after the load in which readers may come to the end of the log.
- An *assignment* (in the code: epoch) is the time for which a member held a partition, with the generation of its
  group. It *begins legally* at the offset that its group had committed, or at its checkpoint.
- A commit is *in force* from its answer on, until another commit, a fault or Kafka itself replaces or removes it.
- A *transaction* was committed, was aborted, or is of unknown end. It *hangs* if the last stable offset stays below the
  end of the partition although no live transaction is open there.
- A member of a *share group* (KIP-932) acquires a record, which locks it, and accepts, releases or rejects it.
- An *input* is a record that a processor reads, an *output* a record that it writes, with the coordinates of the input.

A rule that cannot decide a row counts it as undecided, with the reason (`checks.audit.findings`). A rule that
examined nothing although the scenario gives it something to examine makes the run inconclusive.

| path | counted per |
|---|---|
| write | topic |
| read | reader |
| group | group |
| share | share group |
| quorum | run: all dedicated controllers together |
"""

from functools import partial

from chaos.anomalies.model import Anomaly, Metric, Path, Phrases, anomaly
from chaos.anomalies.wire import EFFECTS, FETCHED, KEYS, ON_WIRE, REFUSED, RETRIED, SENT_AGAIN

_write, _read = partial(anomaly, "write"), partial(anomaly, "read")
_group, _share, _quorum = partial(anomaly, "group"), partial(anomaly, "share"), partial(anomaly, "quorum")

ANOMALIES: dict[str, Anomaly] = {
    # the write path
    "lost_write": _write(
        "acknowledged to the producer, yet not in the log",
        "acks=all with min.insync.replicas=2 or more and unclean.leader.election.enable=false",
        "No acknowledged record is lost",
        "Acknowledged records are lost",
        "acknowledged records",
        "{n} acknowledged {records} {were} lost",
        wire=ON_WIRE,
    ),
    "lost_key": _write(
        "the last acknowledged record of a key is not in the compacted log, and no later record of the key is; or an "
        "earlier one is gone before min.compaction.lag.ms was over",
        "acks=all with min.insync.replicas=2 or more and unclean.leader.election.enable=false",
        "No last value of a key is lost",
        "Last values of keys are lost",
        "acknowledged records of compacted topics",
        "{n} last {records} of a key {were} lost",
        wire=KEYS,
    ),
    "resurrected_key": _write(
        "an acknowledged tombstone is not in the compacted log, yet an earlier value of its key is",
        "delete.retention.ms above the longest time that a replica or a reader lags; acks=all",
        "No deleted key has a value again",
        "Deleted keys have a value again",
        "acknowledged tombstones",
        "{n} {times} a deleted key had a value again",
        wire=KEYS,
    ),
    "duplicate_write": _write(
        "one record of a producer is in the log at two offsets",
        "enable.idempotence=true (within one producer session; with librdkafka also "
        "max.in.flight.requests.per.connection=1), a stable transactional.id across restarts",
        "No record is written twice",
        "Records are written twice",
        "records in the log",
        "{n} {records} {were} written more than once",
        wire=ON_WIRE,
        fewer=SENT_AGAIN,
    ),
    "reordered_write": _write(
        "in a partition, records of one producer incarnation are in another order than they were sent",
        "enable.idempotence=true (one request in flight is not enough with librdkafka when the leader changes)",
        "No record is written out of order",
        "Records are written out of order",
        "records in the log",
        "{n} {records} {were} written out of order",
        wire=ON_WIRE,
        fewer=RETRIED,
    ),
    "backdated_write": _write(
        "in a partition, at a lower offset than a record of another producer that had been acknowledged before its "
        "send was called; or delivered before its send was called",
        "nothing a setting can do: report it as a bug of the broker or the client",
        "No record is before one that was there when it was sent",
        "Records are before others that were there when they were sent",
        "acknowledgements and deliveries",
        "{n} {records} {were} before others that were there when they were sent",
        prevented_by="nothing",
        wire=ON_WIRE,
    ),
    "misplaced_write": _write(
        "acknowledged at one partition and offset, found at another",
        "nothing a setting can do: report it as a bug of the broker or the client",
        "Every acknowledged record is at the acknowledged offset",
        "Acknowledged records are at other offsets than acknowledged",
        "acknowledged records",
        "{n} acknowledged {records} {were} found at another offset",
        prevented_by="nothing",
        wire=ON_WIRE,
    ),
    "phantom_write": _write(
        "in the log, though no producer of this run sent it",
        "a topic that only this run writes to",
        "Every record in the log was sent by a producer of this run",
        "Records in the log were sent by no producer of this run",
        "records in the log",
        "{n} {records} in the log {were} sent by no producer of this run",
        wire=ON_WIRE,
    ),
    "corrupt_record": _write(
        "key and value do not match the CRC that the producer put into the record",
        "check.crcs=true on consumers; look at the disk and the network",
        "No record is corrupt",
        "Records are corrupt",
        "records in the log",
        "{n} {records} {were} corrupt",
        wire="not visible on the wire: the checksum is in the payload",
    ),
    "returned_record": _write(
        "deleted from the start of its partition, yet in the log again",
        "replicas that do not fail together: a broker keeps its log start in memory for up to "
        "log.flush.start.offset.checkpoint.interval.ms",
        "No deleted record is in the log again",
        "Deleted records are in the log again",
        "records in the log",
        "{n} deleted {records} {were} in the log again",
        wire=ON_WIRE,
    ),
    "overdue_record": _write(
        "still in the log when the settings of its topic should have removed it: retention.ms after the end of its "
        "segment, or superseded for max.compaction.lag.ms in a segment that has ended, and after the next check",
        "message.timestamp.after.max.ms, or message.timestamp.type=LogAppendTime: retention goes by timestamps, and "
        "producers set these; right clocks",
        "No record is kept beyond its time",
        "Records are kept beyond their time",
        "acknowledged records",
        "{n} {records} {were} kept beyond their time",
        wire=KEYS,
    ),
    "misrouted_write": _write(
        "acknowledged in another partition than the producer's partitioner promises for its key or number",
        "one partitioner for all producers of a topic, and no change of its number of partitions",
        "Every record is in the partition that its partitioner promises",
        "Records are in other partitions than their partitioner promises",
        "acknowledged records of such partitioners",
        "{n} {records} {were} acknowledged in another partition than promised",
        wire=KEYS,
    ),
    "unnoticed_failure": _write(
        "failed, or never confirmed, and not in the log, of a producer that does not look at delivery reports",
        "look at every delivery report, by a callback or by waiting for it",
        "No record fails without its producer noticing",
        "Records fail without their producer noticing",
        "records of producers that look at no delivery report",
        "{n} {records} failed without their producer noticing",
        prevented_by="advice",
        wire="not visible on the wire: whether an application looks at delivery reports",
    ),
    "resurrected_write": _write(
        "reported to the producer as definitely failed, yet in the log",
        "nothing a setting can do: report it as a bug of the client or the broker",
        "No record is in the log after its send definitely failed",
        "Records are in the log after their send definitely failed",
        "records in the log",
        "{n} {records} {were} in the log although their send definitely failed",
        prevented_by="nothing",
        wire=ON_WIRE,
    ),
    "offset_reuse": _write(
        "two different records were seen at one offset: acknowledged, delivered or in the log",
        "unclean.leader.election.enable=false, acks=all with min.insync.replicas=2 or more",
        "No offset is given to two records",
        "Offsets are given to two records",
        "acknowledgements and deliveries",
        "{n} {times} one offset was given to two records",
        wire=ON_WIRE,
        more=FETCHED,
    ),
    "torn_transaction": _write(
        "an acknowledged record of a committed transaction is not visible, or a record of an aborted one is; or of a "
        "transaction of unknown end, some acknowledged records are visible and others are not",
        "nothing a setting can do: report it as a bug of the transaction coordinator or the broker",
        "Every transaction is visible as a whole or not at all",
        "Transactions are visible in part",
        "records of transactions",
        "{n} {records} {were} on the wrong side of a transaction's end",
        prevented_by="nothing",
        wire=ON_WIRE,
        fewer=REFUSED,
    ),
    "hanging_transaction": _write(
        "the last stable offset stayed below the end of the partition, and no live transaction explains it",
        "a shorter transaction.timeout.ms; the same transactional.id after a restart, which aborts open transactions",
        "No transaction is left hanging",
        "Transactions are left hanging",
        "changes of last stable offsets",
        "{n} {times} a transaction hung: the last stable offset did not move",
        wire=ON_WIRE,
    ),
    # the read path
    "skipped_delivery": _read(
        "in the log within the reader's range, never delivered; the reader delivered, committed or moved beyond it",
        "commit after processing; auto.offset.reset=earliest where partitions may appear or nothing may be committed",
        "No record is skipped",
        "Records are skipped",
        "records to deliver",
        "{n} {records} {were} skipped",
        wire=ON_WIRE,
        fewer=FETCHED,
    ),
    "stalled_delivery": _read(
        "the tail of a partition was not delivered when the drain ended",
        "find what kept the reader from the end; a longer drain helps only a reader that held the partition to the end",
        "Every partition is read to its end",
        "Partitions are not read to their end",
        "records to deliver",
        "{n} {records} {were} not delivered when the drain ended",
        prevented_by="advice",
        wire=ON_WIRE,
        fewer=FETCHED,
    ),
    "lost_processing": _read(
        "polled and committed past, but never processed by any member",
        "commit only after processing (enable.auto.offset.store=false)",
        "No record is committed past without being processed",
        "Records are committed past without being processed",
        "records to deliver",
        "{n} {records} {were} committed past, yet never processed",
        wire=EFFECTS,
    ),
    "duplicate_delivery": Anomaly(
        "read",
        "delivered again: `legal` from the committed offset or the checkpoint where a new assignment began, `illegal` "
        "otherwise",
        "commit more often, commit on revocation, idempotent processing",
        {
            "legal": Phrases(
                "No record is delivered again from a committed offset or a checkpoint",
                "Records are delivered again from a committed offset or a checkpoint",
                "deliveries",
                "{n} {records} {were} delivered again, from {origin}",
            ),
            "illegal": Phrases(
                "No record is delivered again without a legal start position",
                "Records are delivered again without a legal start position",
                "deliveries",
                "{n} {records} {were} delivered again without a legal start position",
            ),
        },
        wire=EFFECTS,
    ),
    "nonmonotonic_poll": _read(
        "inside one assignment an offset was delivered that is not above the one before",
        "nothing a setting can do: report it as a bug of the client",
        "Within an assignment offsets only rise",
        "Within an assignment offsets fall",
        "deliveries",
        "{n} {records} {were} delivered below an earlier offset of the same assignment",
        prevented_by="nothing",
        wire="not visible on the wire: a client may throw an answer away and ask again",
    ),
    "poll_skip": _read(
        "inside one assignment an offset that exists in the log was left out",
        "nothing a setting can do: report it as a bug of the client or broker",
        "Within an assignment no offset is left out",
        "Within an assignment offsets are left out",
        "deliveries",
        "{n} {records} {were} left out within an assignment",
        prevented_by="nothing",
        wire="not visible on the wire: a seek looks the same",
    ),
    "dirty_read": _read(
        "delivered, yet not in the final log",
        "unclean.leader.election.enable=false, min.insync.replicas=2 or more",
        "Every delivered record is in the final log",
        "Records are delivered that are not in the final log",
        "deliveries",
        "{n} delivered {records} {were} not in the final log",
        wire=ON_WIRE,
        more=FETCHED,
    ),
    "evicted_delivery": _read(
        "acknowledged and owed to the reader, but removed from the log before it was delivered",
        "retention.ms and retention.bytes above the longest lag; no delete-records before all groups have read",
        "No record is evicted before it was read",
        "Records are evicted before they were read",
        "records to deliver",
        "{n} {records} {were} evicted before any member read them",
        wire=ON_WIRE,
        fewer=FETCHED,
    ),
    "aborted_read": _read(
        "a record of an aborted transaction was delivered to a read_committed reader",
        "nothing a setting can do: report it as a bug of the client or the broker",
        "No record of an aborted transaction is delivered",
        "Records of aborted transactions are delivered",
        "delivered records of transactions",
        "{n} {records} of aborted transactions {were} delivered",
        prevented_by="nothing",
        wire=ON_WIRE,
        more=FETCHED,
    ),
    "precommitted_read": _read(
        "a record was delivered to a read_committed reader before its transaction can have been committed",
        "nothing a setting can do: report it as a bug of the client or the broker",
        "No record is delivered before its transaction is committed",
        "Records are delivered before their transaction is committed",
        "delivered records of transactions",
        "{n} {records} {were} delivered before their transaction was committed",
        prevented_by="nothing",
        wire=ON_WIRE,
    ),
    "missing_output": _read(
        "an input that processors processed and their group committed past has no output for read_committed readers",
        "transactions that contain output and offsets; without them, commit only after the output is acknowledged",
        "Every input has an output",
        "Inputs have no output",
        "inputs traced",
        "{n} input {records} {were} committed past without a visible output",
        wire=EFFECTS,
    ),
    "duplicate_output": Anomaly(
        "read",
        "a visible output of an input with another visible output: `legal` where the group had committed past "
        "the input and its committed offset was then set back, deleted, expired or lost, `illegal` otherwise",
        "transactions that contain output and offsets (`send_offsets_to_transaction`)",
        {
            "legal": Phrases(
                "No input has another output after its group was set back",
                "Inputs have another output after their group was set back",
                "inputs traced",
                "{n} output {records} {were} written again after the group was set back",
            ),
            "illegal": Phrases(
                "No input has two outputs",
                "Inputs have more than one output",
                "inputs traced",
                "{n} output {records} {were} written again for the same input",
            ),
        },
        wire=EFFECTS,
    ),
    "wrong_count": _read(
        "a visible output of a processor that counts carries another number than the number of inputs of its key, "
        "in its partition and up to its input, that the group gets",
        "exactly-once processing (exactly_once_v2), which keeps state, outputs and offsets together",
        "Every output carries the count of its key",
        "Outputs carry a wrong count of their key",
        "outputs with a count",
        "{n} output {records} {were} written with a wrong count of the key",
        wire=EFFECTS,
    ),
    "unconsumed_output": _read(
        "an input with a visible output was never committed past by its group, which will process it again",
        "transactions that contain output and offsets; without them, commit after the last output before a stop",
        "Every input with an output is committed past",
        "Inputs with an output are not committed past",
        "inputs traced",
        "{n} input {records} with a visible output {were} never committed past",
        wire=EFFECTS,
    ),
    # groups
    "overcommit": _group(
        "an offset was committed beyond what its member had processed",
        "commit only after processing (enable.auto.offset.store=false)",
        "No offset is committed beyond what was processed",
        "Offsets are committed beyond what was processed",
        "commits",
        "{n} {commits} {were} beyond what was processed",
        wire=EFFECTS,
    ),
    "commit_rewind": _group(
        "a commit lowered the committed offset, and no seek or restored checkpoint explains it",
        "commit from one place, in order; refuse late commits of a member that lost its partition",
        "No commit lowers the committed offset",
        "Commits lower the committed offset",
        "commits",
        "{n} {commits} lowered the committed offset",
        wire=ON_WIRE,
    ),
    "expired_commit": _group(
        "committed offsets expired while their group had no members; counted once for each life of the group",
        "an offsets.retention.minutes longer than a group may be without members",
        "No committed offset expires",
        "Committed offsets expire",
        "commits",
        "{n} {times} the committed offsets of a group expired",
        wire=ON_WIRE,
    ),
    "lost_commit": _group(
        "acknowledged commits are no longer in force, nor in their log if it was read, though nobody deleted or "
        "lowered them and they were not due to expire; counted once for each life of the group",
        "offsets.topic.replication.factor=3 and unclean.leader.election.enable=false",
        "No acknowledged offset commit is lost",
        "Acknowledged offset commits are lost",
        "commits",
        "{n} {times} a group lost acknowledged offset commits",
        wire=ON_WIRE,
    ),
    "double_ownership": _group(
        "two members owned one partition in the same generation",
        "nothing a setting can do: report it as a bug of the assignor or the coordinator",
        "No partition has two owners at once",
        "Partitions have two owners at once",
        "assignments",
        "{n} {times} a partition had two owners at once",
        prevented_by="nothing",
        wire=ON_WIRE,
    ),
    "foreign_commit": _group(
        "a reader resumed at an offset that another job had committed",
        "one group id per job",
        "No reader resumes where another job committed",
        "Readers resume where another job committed",
        "assignments",
        "{n} {times} a reader resumed where another job had committed",
        wire=ON_WIRE,
    ),
    "zombie_commit": _group(
        "a commit was accepted from a member after another member had taken over its partition",
        "commit through the group's own member, with its generation; stop workers when partitions are revoked",
        "No commit is accepted from a member that lost the partition",
        "Commits are accepted from members that lost the partition",
        "commits",
        "{n} {commits} {were} accepted from a member that had lost the partition",
        wire=ON_WIRE,
    ),
    "unbalanced_assignment": _group(
        "a settled group's partitions are not spread as its assignor promises",
        "the same partition.assignment.strategy in all members",
        "Partitions are spread as the assignor promises",
        "Partitions are not spread as the assignor promises",
        "settled assignments",
        "{n} {times} a settled group's partitions were not spread as its assignor promises",
        wire=ON_WIRE,
    ),
    "misplaced_coordinator": _group(
        "the group's coordinator is not the leader of its partition of __consumer_offsets",
        "nothing a setting can do: report it as a bug of the broker",
        "The coordinator is where the group's id puts it",
        "The coordinator is not where the group's id puts it",
        "observed coordinators",
        "{n} {times} a group's coordinator was not the leader of its offsets partition",
        prevented_by="nothing",
        wire=ON_WIRE,
    ),
    # share groups
    "lost_share": _share(
        "in the log within the range of a share group, never acquired by a member, and the group is past it",
        "report it as a bug of the broker, unless somebody altered the offsets of the group",
        "No record is lost to a share group",
        "Records are lost to a share group",
        "records to acquire",
        "{n} {records} {were} never acquired by a share group that is past them",
        prevented_by="advice",
        wire=ON_WIRE,
        fewer=FETCHED,
    ),
    "stalled_share": _share(
        "in the log within the range of a share group, not acquired by a member when the drain ended",
        "more members, or a longer drain; find what holds the locks of the records before them",
        "A share group acquires every record",
        "A share group does not acquire every record",
        "records to acquire",
        "{n} {records} {were} not acquired when the drain ended",
        prevented_by="advice",
        wire=ON_WIRE,
        fewer=FETCHED,
    ),
    "redelivered_share": _share(
        "accepted or rejected with an acknowledgement that the broker confirmed, and acquired again afterwards",
        "share.coordinator.state.topic.replication.factor=3 and min.isr=2, which are the defaults",
        "No record comes back after its accept or reject",
        "Records come back after their accept or reject",
        "confirmed accepts and rejects",
        "{n} {records} {were} acquired again after a confirmed accept or reject",
        wire=ON_WIRE,
    ),
    "miscounted_share": _share(
        "the delivery count is not one more than the count of the acquisition before, and nothing that resets it "
        "happened",
        "nothing a setting can do: report it as a bug of the broker",
        "Every delivery count is one more than the last one",
        "Delivery counts are wrong",
        "acquisitions",
        "{n} {records} had a wrong delivery count",
        prevented_by="nothing",
        wire=ON_WIRE,
    ),
    "lock_overrun": _share(
        "acquired while the lock of another acquisition was still in force",
        "nothing a setting can do: report it as a bug of the broker",
        "No record has two locks at once",
        "Records have two locks at once",
        "acquisitions",
        "{n} {records} {were} acquired while another lock was in force",
        prevented_by="nothing",
        wire=ON_WIRE,
    ),
    "overlimit_share": _share(
        "delivered more often than the delivery limit of the share group allows",
        "nothing a setting can do, unless the limit was lowered during the run: report it as a bug of the broker",
        "No record is delivered beyond the delivery limit",
        "Records are delivered beyond the delivery limit",
        "acquisitions",
        "{n} {records} {were} delivered beyond the delivery limit",
        prevented_by="nothing",
        wire=ON_WIRE,
    ),
    "aborted_share": _share(
        "a record of an aborted transaction was acquired by a share group with share.isolation.level=read_committed",
        "nothing a setting can do: report it as a bug of the broker",
        "No record of an aborted transaction is acquired",
        "Records of aborted transactions are acquired",
        "acquisitions by read_committed groups",
        "{n} {records} of aborted transactions {were} acquired",
        prevented_by="nothing",
        wire=ON_WIRE,
    ),
    # the quorum of controllers
    "competing_controllers": _quorum(
        "a controller goes on as the active one together with one of a later epoch, for longer than "
        "controller.quorum.fetch.timeout.ms",
        "Kafka 3.7 or later, where an active controller gives up when a majority does not follow it (KAFKA-15489)",
        "Only one controller is active",
        "Several controllers are active at a time",
        "terms of active controllers",
        "{n} {times} a controller went on as the active one together with another one",
        wire=ON_WIRE,
    ),
}

PHRASES: dict[tuple[str, str], Phrases] = {
    (check, split): phrases for check, kind in ANOMALIES.items() for split, phrases in kind.phrases.items()
}
"""The phrases by (check, split); the split is empty for an anomaly that is counted as a whole."""

UNAVAILABILITY = ("produce_unavailability", "consume_unavailability")
STOPPED_US = 1_000_000
"""A partition without writes or reads for this long after a fault stood still: a sentence names it."""

METRICS: dict[str, Metric] = {
    "produce_unavailability": Metric(
        "from a fault to the first success of a send invoked after it, less the usual gap between successes",
        "Produce unavailability",
    ),
    "consume_unavailability": Metric(
        "from a fault to the first delivery of a record sent after it, less the usual gap between deliveries",
        "Consume unavailability",
    ),
    "rebalance_duration": Metric(
        "from the first partition given up to the last one assigned in the next generation",
        "Rebalance duration",
    ),
    "isr_recovery": Metric(
        "from a fault's heal (without a heal: its injection) until the ISR of every partition that it shrank is full",
        "ISR recovery",
    ),
    "election_time": Metric(
        "from a fault's injection until the observer saw another leader of a higher epoch (sampled every 150 ms)",
        "Election time",
    ),
    "ack_latency": Metric(
        "from the call of produce to its delivery report",
        "Acknowledgement latency",
    ),
    "end_to_end_latency": Metric(
        "from the call of produce to the record's processing",
        "End-to-end latency",
    ),
    "commit_latency": Metric(
        "from the request of an offset commit to its answer",
        "Commit latency",
    ),
}
"""The times that a scenario may bound."""

__all__ = ["ANOMALIES", "METRICS", "PHRASES", "STOPPED_US", "UNAVAILABILITY", "Anomaly", "Metric", "Path", "Phrases"]
