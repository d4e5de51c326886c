"""Anomalies of share groups (KIP-932), counted per group."""

from __future__ import annotations

from functools import partial

from chaos.anomalies.model import Anomaly, anomaly

_share = partial(anomaly, "share")

SHARES: dict[str, Anomaly] = {
    "lost_share": _share(
        "in the log within the range of a share group, never acquired by a member, and the group is past it",
        "report it as a bug of the broker, unless somebody altered the offsets of the group",
        "No record is lost to a share group",
        "Records are lost to a share group",
        "records to acquire",
        "{n} {records} {were} never acquired by a share group that is past them",
    ),
    "stalled_share": _share(
        "in the log within the range of a share group, not acquired by a member when the drain ended",
        "more members, or a longer drain; find what holds the locks of the records before them",
        "A share group acquires every record",
        "A share group does not acquire every record",
        "records to acquire",
        "{n} {records} {were} not acquired when the drain ended",
    ),
    "redelivered_share": _share(
        "accepted or rejected with an acknowledgement that the broker confirmed, and acquired again afterwards",
        "share.coordinator.state.topic.replication.factor=3 and min.isr=2, which are the defaults",
        "No record comes back after its accept or reject",
        "Records come back after their accept or reject",
        "confirmed accepts and rejects",
        "{n} {records} {were} acquired again after a confirmed accept or reject",
    ),
    "miscounted_share": _share(
        "the delivery count is not one more than that of the acquisition before, and nothing that resets it happened",
        "nothing a setting can do: report it as a bug of the broker",
        "Every delivery count is one more than the last one",
        "Delivery counts are wrong",
        "acquisitions",
        "{n} {records} had a wrong delivery count",
    ),
    "lock_overrun": _share(
        "acquired while the lock of another acquisition was still in force",
        "nothing a setting can do: report it as a bug of the broker",
        "No record has two locks at once",
        "Records have two locks at once",
        "acquisitions",
        "{n} {records} {were} acquired while another lock was in force",
    ),
    "overlimit_share": _share(
        "delivered more often than the delivery limit of the share group allows",
        "nothing a setting can do, unless the limit was lowered during the run: report it as a bug of the broker",
        "No record is delivered beyond the delivery limit",
        "Records are delivered beyond the delivery limit",
        "acquisitions",
        "{n} {records} {were} delivered beyond the delivery limit",
    ),
    "aborted_share": _share(
        "a record of an aborted transaction was acquired by a share group with share.isolation.level=read_committed",
        "nothing a setting can do: report it as a bug of the broker",
        "No record of an aborted transaction is acquired",
        "Records of aborted transactions are acquired",
        "acquisitions by read_committed groups",
        "{n} {records} of aborted transactions {were} acquired",
    ),
}
