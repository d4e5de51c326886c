"""Anomalies of the write path, counted per topic."""

from __future__ import annotations

from functools import partial

from chaos.anomalies.model import Anomaly, anomaly

_write = partial(anomaly, "write")

WRITE_PATH: dict[str, Anomaly] = {
    "lost_write": _write(
        "acknowledged to the producer, yet not in the log",
        "acks=all with min.insync.replicas=2 or more and unclean.leader.election.enable=false",
        "No acknowledged record is lost",
        "Acknowledged records are lost",
        "acknowledged records",
        "{n} acknowledged {records} {were} lost",
    ),
    "lost_key": _write(
        "the last acknowledged record of a key is not in the compacted log, and no later record of the key is; or an "
        "earlier one is gone before min.compaction.lag.ms was over",
        "acks=all with min.insync.replicas=2 or more and unclean.leader.election.enable=false",
        "No last value of a key is lost",
        "Last values of keys are lost",
        "acknowledged records of compacted topics",
        "{n} last {records} of a key {were} lost",
    ),
    "resurrected_key": _write(
        "an acknowledged tombstone is not in the compacted log, yet an earlier value of its key is",
        "delete.retention.ms above the longest time that a replica or a reader lags; acks=all",
        "No deleted key has a value again",
        "Deleted keys have a value again",
        "acknowledged tombstones",
        "{n} {times} a deleted key had a value again",
    ),
    "duplicate_write": _write(
        "one record of a producer is in the log at two offsets",
        "enable.idempotence=true (within one producer session), a stable transactional.id across restarts",
        "No record is written twice",
        "Records are written twice",
        "records in the log",
        "{n} {records} {were} written more than once",
    ),
    "reordered_write": _write(
        "in a partition, records of one producer incarnation are in another order than they were sent",
        "enable.idempotence=true (one request in flight is not enough with librdkafka when the leader changes)",
        "No record is written out of order",
        "Records are written out of order",
        "records in the log",
        "{n} {records} {were} written out of order",
    ),
    "backdated_write": _write(
        "in a partition, at a lower offset than a record of another producer that had been acknowledged before its "
        "send was called; or delivered before its send was called",
        "nothing a setting can do: report it as a bug of the broker or the client",
        "No record is before one that was there when it was sent",
        "Records are before others that were there when they were sent",
        "acknowledgements and deliveries",
        "{n} {records} {were} before others that were there when they were sent",
    ),
    "misplaced_write": _write(
        "acknowledged at one partition and offset, found at another",
        "nothing a setting can do: report it as a bug of the broker or the client",
        "Every acknowledged record is at the acknowledged offset",
        "Acknowledged records are at other offsets than acknowledged",
        "acknowledged records",
        "{n} acknowledged {records} {were} found at another offset",
    ),
    "phantom_write": _write(
        "in the log, though no producer of this run sent it",
        "a topic that only this run writes to",
        "Every record in the log was sent by a producer of this run",
        "Records in the log were sent by no producer of this run",
        "records in the log",
        "{n} {records} in the log {were} sent by no producer of this run",
    ),
    "corrupt_record": _write(
        "key and value do not match the CRC that the producer put into the record",
        "check.crcs=true on consumers; look at the disk and the network",
        "No record is corrupt",
        "Records are corrupt",
        "records in the log",
        "{n} {records} {were} corrupt",
    ),
    "returned_record": _write(
        "deleted from the start of its partition, yet in the log again",
        "replicas that do not fail together: a broker keeps its log start in memory for up to "
        "log.flush.start.offset.checkpoint.interval.ms",
        "No deleted record is in the log again",
        "Deleted records are in the log again",
        "records in the log",
        "{n} deleted {records} {were} in the log again",
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
    ),
    "misrouted_write": _write(
        "acknowledged in another partition than the producer's partitioner promises for its key or number",
        "one partitioner for all producers of a topic, and no change of its number of partitions",
        "Every record is in the partition that its partitioner promises",
        "Records are in other partitions than their partitioner promises",
        "acknowledged records of such partitioners",
        "{n} {records} {were} acknowledged in another partition than promised",
    ),
    "unnoticed_failure": _write(
        "failed, or never confirmed, and not in the log, of a producer that does not look at delivery reports",
        "look at every delivery report, by a callback or by waiting for it",
        "No record fails without its producer noticing",
        "Records fail without their producer noticing",
        "records of producers that look at no delivery report",
        "{n} {records} failed without their producer noticing",
    ),
    "resurrected_write": _write(
        "reported to the producer as definitely failed, yet in the log",
        "nothing a setting can do: report it as a bug of the client or the broker",
        "No record is in the log after its send definitely failed",
        "Records are in the log after their send definitely failed",
        "records in the log",
        "{n} {records} {were} in the log although their send definitely failed",
    ),
    "offset_reuse": _write(
        "two different records were seen at one offset: acknowledged, delivered or in the log",
        "unclean.leader.election.enable=false, acks=all with min.insync.replicas=2 or more",
        "No offset is given to two records",
        "Offsets are given to two records",
        "acknowledgements and deliveries",
        "{n} {times} one offset was given to two records",
    ),
    "torn_transaction": _write(
        "an acknowledged record of a committed transaction is not visible, or a record of an aborted one is; or of a "
        "transaction of unknown end, some acknowledged records are visible and others are not",
        "nothing a setting can do: report it as a bug of the transaction coordinator or the broker",
        "Every transaction is visible as a whole or not at all",
        "Transactions are visible in part",
        "records of transactions",
        "{n} {records} {were} on the wrong side of a transaction's end",
    ),
    "hanging_transaction": _write(
        "the last stable offset stayed below the end of the partition, and no live transaction explains it",
        "a shorter transaction.timeout.ms; the same transactional.id after a restart, which aborts open transactions",
        "No transaction is left hanging",
        "Transactions are left hanging",
        "changes of last stable offsets",
        "{n} {times} a transaction hung: the last stable offset did not move",
    ),
}
