"""Ledger rows of sends: one for each record passed to librdkafka, from its delivery report."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, Message

from chaos.clients.columns import Columns, joined, nullable
from chaos.clients.confluent.columns import sent
from chaos.clients.confluent.outcomes import Kept, send_error, send_outcome
from chaos.clients.keys import Keys
from chaos.clients.protocol import WriterSpec
from chaos.ledger.record import Input, parse
from chaos.ledger.record_columns import Identities
from chaos.ledger.stream import TableWriter, runs, same
from chaos.run.events import now_us

WRITE_EVERY_S = 0.1
WRITE_ROWS = 8192
READ_ROWS = 512
"""Reports to read at a time: few enough to be still in the processor's cache."""

_OK, _NULL = same("ok", pa.string()), same(None, pa.string())
_NO_INPUT = None, None, None
_INPUT_TYPES = pa.string(), pa.int32(), pa.int64()


class SendLog:
    """Writes `sends` for one incarnation of a client.

    seq and the time of the call are read from the value in the delivery report, so a record in flight needs no memory
    and none is forgotten. `completed_us` is the time at which the report was read, together with the other reports of
    the same `poll`.

    acked, failed, unknown: records by outcome.
    inputs: by seq, the input of each record of a processor that has no row yet.
    txn: number of the transaction of the records that are reported now; set it only right after a `write`.
    """

    def __init__(self, writer: TableWriter, spec: WriterSpec, keys: Keys | None, kept: Kept) -> None:
        self._writer, self._spec, self._keys, self._kept = writer, spec, keys, kept
        self._client, self._topic = same(spec.client, pa.string()), same(spec.topic, pa.string())
        self._in_turn = np.array(spec.in_turn)
        self._incarnation = same(spec.incarnation, pa.int32())
        self._reports: list[Message] = []
        self._tombstones: dict[int, bytes] = {}
        self._read: list[Columns] = []
        self._read_us: list[int] = []
        self._waiting = 0
        self._refused: list[dict[str, object]] = []
        self._next_write = 0.0
        # with acks=0 no broker answers with an offset, but librdkafka counts up from OFFSET_INVALID (-1001) within a
        # batch, so records after the first 1,001 of a batch appear to have offsets
        self._has_offsets = str(spec.config.get("acks", spec.config.get("request.required.acks"))) != "0"
        self.acked = self.failed = self.unknown = 0
        self.txn: int | None = None
        self.inputs: dict[int, Input] = {}
        reports = self._reports

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                reports.append(message)
                if len(reports) >= READ_ROWS:
                    self.served()
            else:
                self._failed(error, message)

        self.on_delivery = on_delivery

    def on_delivery_of(self, tombstone: bytes) -> Callable[[KafkaError | None, Message], None]:
        """Return the callback for a tombstone: the message in its delivery report has neither value nor headers."""

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self._tombstones[len(self._reports)] = tombstone
                self.on_delivery(error, message)
            else:
                self._failed(error, message, tombstone)

        return on_delivery

    @property
    def rows(self) -> int:
        """Records that have a row or get one with the next `write`."""
        return self.acked + self.failed + self.unknown

    def served(self) -> None:
        """Read and stamp the reports since the last call. Call it after each `poll`."""
        new = len(self._reports)
        if new:
            self._read.append(sent(self._reports, self._tombstones))
            self._read_us.append(now_us())
            self._reports.clear()
            self._tombstones.clear()
            self._waiting += new
            self.acked += new

    def refused_at_once(self, seq: int, invoked_us: int, error: KafkaError) -> None:
        """Record a send that `produce` refused: it never left this process."""
        self.failed += 1
        self._refused.append(self._row(seq, invoked_us, "fail", error.name(), None))

    def _failed(self, error: KafkaError, message: Message, tombstone: bytes | None = None) -> None:
        identity = parse(tombstone or message.value())
        assert identity is not None  # this process made the value
        if error.code() == KafkaError._MSG_TIMED_OUT:
            self._kept -= {"batch"}  # librdkafka may send the rest of its batch again in another batch
        outcome = send_outcome(error, self._kept, message.partition())
        self.failed += outcome == "fail"
        self.unknown += outcome == "unknown"
        row = self._row(identity.seq, identity.sent_us, outcome, send_error(error), message.partition())
        self._refused.append(row)

    def _row(self, seq: int, invoked_us: int, outcome: str, error: str, partition: int | None) -> dict[str, object]:
        topic, number, offset = self.inputs.pop(seq, _NO_INPUT)
        return {
            "producer": self._spec.client,
            "incarnation": self._spec.incarnation,
            "seq": seq,
            "topic": self._spec.topic_of(seq),
            "partition": None if partition is None or partition < 0 else partition,
            "outcome": outcome,
            "error": error,
            "txn": self.txn,
            "key": self._keys and self._keys.texts[int(self._keys.of(np.array([seq]))[0])],
            "invoked_us": invoked_us,
            "completed_us": now_us(),
            "input_topic": topic,
            "input_partition": number,
            "input_offset": offset,
        }

    def write(self, *, now: bool = False) -> None:
        """Write the rows that wait, if there are many, if the last write is long ago, or if `now` is set."""
        if not now and self._waiting < WRITE_ROWS and time.monotonic() < self._next_write:
            return
        self._next_write = time.monotonic() + WRITE_EVERY_S
        if self._waiting:
            self._write_acked()
        if self._refused:
            self._writer.append_rows(self._refused)
            self._refused.clear()

    def _write_acked(self) -> None:
        records, n = joined(self._read), self._waiting
        identities = Identities(records.headers)
        self._writer.append(
            [
                self._client.slice(0, n),
                self._incarnation.slice(0, n),
                identities.seq,
                pa.array(self._in_turn[identities.seq.to_numpy() % len(self._in_turn)], pa.string())
                if len(self._in_turn)
                else self._topic.slice(0, n),
                pa.array(records.partitions.astype(np.int32)),
                # an idempotent producer has none if the answer to a later batch implied this one
                nullable(records.offsets, np.int64) if self._has_offsets else pa.nulls(n, pa.int64()),
                _OK.slice(0, n),
                _NULL.slice(0, n),
                pa.nulls(n, pa.string())
                if self._keys is None
                else self._keys.column(self._keys.of(identities.seq.to_numpy())),
                same(self.txn, pa.int64()).slice(0, n),
                identities.sent_us,
                runs(np.cumsum([len(part) for part in self._read]), pa.array(self._read_us)),
                *self._inputs_of(identities.seq),
            ]
        )
        self._read.clear()
        self._read_us.clear()
        self._waiting = 0

    def _inputs_of(self, seqs: pa.Array) -> list[pa.Array]:
        """Return the columns of the inputs of these seqs, and forget them."""
        if not self.inputs:
            return [same(None, kind).slice(0, len(seqs)) for kind in _INPUT_TYPES]
        inputs = [self.inputs.pop(seq, _NO_INPUT) for seq in seqs.to_pylist()]
        return [pa.array(column, kind) for column, kind in zip(zip(*inputs, strict=True), _INPUT_TYPES, strict=True)]
