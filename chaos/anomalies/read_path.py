"""Anomalies of the read path, counted per reader: a subscribe group, or one assign-mode consumer."""

from __future__ import annotations

from functools import partial

from chaos.anomalies.model import Anomaly, Phrases, anomaly

_read = partial(anomaly, "read")

READ_PATH: dict[str, Anomaly] = {
    "skipped_delivery": _read(
        "in the log within the reader's range, never delivered; the reader delivered, committed or moved beyond it",
        "commit after processing; auto.offset.reset=earliest where partitions may appear or nothing may be committed",
        "No record is skipped",
        "Records are skipped",
        "records to deliver",
        "{n} {records} {were} skipped",
    ),
    "stalled_delivery": _read(
        "the tail of a partition was not delivered when the drain ended",
        "find what kept the reader from the end; a longer drain helps only a reader that held the partition to the end",
        "Every partition is read to its end",
        "Partitions are not read to their end",
        "records to deliver",
        "{n} {records} {were} not delivered when the drain ended",
    ),
    "lost_processing": _read(
        "polled and committed past, but never processed by any member",
        "commit only after processing (enable.auto.offset.store=false)",
        "No record is committed past without being processed",
        "Records are committed past without being processed",
        "records to deliver",
        "{n} {records} {were} committed past, yet never processed",
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
    ),
    "nonmonotonic_poll": _read(
        "inside one assignment an offset was delivered that is not above the one before",
        "nothing a setting can do: report it as a bug of the client",
        "Within an assignment offsets only rise",
        "Within an assignment offsets fall",
        "deliveries",
        "{n} {records} {were} delivered below an earlier offset of the same assignment",
    ),
    "poll_skip": _read(
        "inside one assignment an offset that exists in the log was left out",
        "nothing a setting can do: report it as a bug of the client or broker",
        "Within an assignment no offset is left out",
        "Within an assignment offsets are left out",
        "deliveries",
        "{n} {records} {were} left out within an assignment",
    ),
    "dirty_read": _read(
        "delivered, yet not in the final log",
        "unclean.leader.election.enable=false, min.insync.replicas=2 or more",
        "Every delivered record is in the final log",
        "Records are delivered that are not in the final log",
        "deliveries",
        "{n} delivered {records} {were} not in the final log",
    ),
    "evicted_delivery": _read(
        "acknowledged and owed to the reader, but removed from the log before it was delivered",
        "retention.ms and retention.bytes above the longest lag; no delete-records before all groups have read",
        "No record is evicted before it was read",
        "Records are evicted before they were read",
        "records to deliver",
        "{n} {records} {were} evicted before any member read them",
    ),
    "aborted_read": _read(
        "a record of an aborted transaction was delivered to a read_committed reader",
        "nothing a setting can do: report it as a bug of the client or the broker",
        "No record of an aborted transaction is delivered",
        "Records of aborted transactions are delivered",
        "delivered records of transactions",
        "{n} {records} of aborted transactions {were} delivered",
    ),
    "precommitted_read": _read(
        "a record was delivered to a read_committed reader before its transaction can have been committed",
        "nothing a setting can do: report it as a bug of the client or the broker",
        "No record is delivered before its transaction is committed",
        "Records are delivered before their transaction is committed",
        "delivered records of transactions",
        "{n} {records} {were} delivered before their transaction was committed",
    ),
    "missing_output": _read(
        "an input that processors processed and their group committed past has no output for read_committed readers",
        "transactions that contain output and offsets; without them, commit only after the output is acknowledged",
        "Every input has an output",
        "Inputs have no output",
        "inputs traced",
        "{n} input {records} {were} committed past without a visible output",
    ),
    "duplicate_output": Anomaly(
        "read",
        "a visible output of an input, of which another output is visible: `legal` where the group had committed past "
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
    ),
    "wrong_count": _read(
        "a visible output of a processor that counts carries another number than that of the inputs of its key, in its "
        "partition and up to its input, that the group gets",
        "exactly-once processing (exactly_once_v2), which keeps state, outputs and offsets together",
        "Every output carries the count of its key",
        "Outputs carry a wrong count of their key",
        "outputs with a count",
        "{n} output {records} {were} written with a wrong count of the key",
    ),
    "unconsumed_output": _read(
        "an input with a visible output was never committed past by its group, which will process it again",
        "transactions that contain output and offsets; without them, commit after the last output before a stop",
        "Every input with an output is committed past",
        "Inputs with an output are not committed past",
        "inputs traced",
        "{n} input {records} with a visible output {were} never committed past",
    ),
}
