"""Sends as rows: every record that was given to librdkafka gets one, from its delivery report."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, Message

from chaos.clients.confluent.columns import Columns, joined, nullable, sent
from chaos.clients.confluent.outcomes import send_outcome
from chaos.clients.protocol import ProcessorSpec, ProducerSpec
from chaos.ledger.record_columns import Identities, Ints, headers_of
from chaos.ledger.runs import runs, same
from chaos.ledger.writer import TableWriter
from chaos.run.events import now_us

WRITE_EVERY_S = 0.1
WRITE_ROWS = 8192
READ_ROWS = 512
"""So many reports are read at a time: few enough to be in the processor's cache still."""


_OK, _NOTHING = same("ok", pa.string()), same(None, pa.string())


class Keys:
    """Which of the keys `k0`, `k1`, ... each seq has: scattered by the seed, and the same in every incarnation."""

    def __init__(self, count: int, seed: int) -> None:
        self.texts = [f"k{i}" for i in range(count)]
        self.bytes = [text.encode() for text in self.texts]
        self._column = pa.array(self.texts, pa.string())
        self._seed = np.uint64(seed)

    def of(self, seqs: Ints) -> Ints:
        """The numbers of the keys of some seqs."""
        x = seqs.astype(np.uint64) + (self._seed << np.uint64(32))
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)  # the finalizer of splitmix64
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return ((x ^ (x >> np.uint64(31))) % np.uint64(len(self.texts))).astype(np.int64)

    def column(self, numbers: Ints) -> pa.Array:
        """Their texts."""
        return self._column.take(pa.array(numbers))


class SendLog:
    """Writes `sends` for one incarnation.

    seq and the time of the call are read back from the value that the delivery report carries, so nothing has to be
    remembered for a record in flight, and none can be forgotten. `completed_us` is the time at which the report was
    read, with others of the same call of `poll`.
    """

    def __init__(
        self, writer: TableWriter, spec: ProducerSpec | ProcessorSpec, keys: Keys | None, single_attempt: bool
    ) -> None:
        self._writer, self._spec, self._keys, self._single_attempt = writer, spec, keys, single_attempt
        self._client, self._topic = same(spec.client, pa.string()), same(spec.topic, pa.string())
        self._incarnation = same(spec.incarnation, pa.int32())
        self._reports: list[Message] = []
        self._read: list[Columns] = []
        self._read_us: list[int] = []
        self._waiting = 0
        self._refused: list[dict[str, object]] = []
        self._next_write = 0.0
        # with acks=0 no broker tells an offset, but librdkafka counts up from OFFSET_INVALID (-1001) within a batch, so
        # that records behind the first 1,001 of one seem to have offsets
        self._told_offsets = str(spec.config.get("acks", spec.config.get("request.required.acks"))) != "0"
        self.acked = self.failed = self.unknown = 0
        self.txn: int | None = None
        """The transaction that all records are of whose reports come in; to be changed only right after a `write`."""
        reports = self._reports

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                reports.append(message)
                if len(reports) >= READ_ROWS:
                    self.served()
            else:
                self._failed(error, message)

        self.on_delivery = on_delivery

    @property
    def rows(self) -> int:
        """Records that have a row, or will have one with the next `write`."""
        return self.acked + self.failed + self.unknown

    def served(self) -> None:
        """Read and stamp the reports that came in since the last call; to be called after each `poll`."""
        new = len(self._reports)
        if new:
            self._read.append(sent(self._reports))
            self._read_us.append(now_us())
            self._reports.clear()
            self._waiting += new
            self.acked += new

    def refused_at_once(self, seq: int, invoked_us: int, error: KafkaError) -> None:
        """A record that `produce` did not take: it never left this process."""
        self.failed += 1
        self._refused.append(self._row(seq, invoked_us, "fail", error.name(), None))

    def _failed(self, error: KafkaError, message: Message) -> None:
        identity = Identities(headers_of([message.value()]))
        outcome = send_outcome(error, self._single_attempt)
        self.failed += outcome == "fail"
        self.unknown += outcome == "unknown"
        partition = message.partition()
        row = self._row(identity.seq()[0].as_py(), identity.sent_us()[0].as_py(), outcome, error.name(), partition)
        self._refused.append(row)

    def _row(self, seq: int, invoked_us: int, outcome: str, error: str, partition: int | None) -> dict[str, object]:
        return {
            "producer": self._spec.client,
            "incarnation": self._spec.incarnation,
            "seq": seq,
            "topic": self._spec.topic,
            "partition": None if partition is None or partition < 0 else partition,
            "outcome": outcome,
            "error": error,
            "txn": self.txn,
            "key": self._keys and self._keys.texts[int(self._keys.of(np.array([seq]))[0])],
            "invoked_us": invoked_us,
            "completed_us": now_us(),
        }

    def write(self, *, now: bool = False) -> None:
        """Write what has come in, if it is much, or the last time is long ago, or `now` is asked for."""
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
        seqs = identities.seq()
        self._writer.append(
            [
                self._client.slice(0, n),
                self._incarnation.slice(0, n),
                seqs,
                self._topic.slice(0, n),
                pa.array(records.partitions.astype(np.int32)),
                # none where the answer to a later batch of an idempotent producer implied this one
                nullable(records.offsets, np.int64) if self._told_offsets else pa.nulls(n, pa.int64()),
                _OK.slice(0, n),
                _NOTHING.slice(0, n),
                pa.nulls(n, pa.string()) if self._keys is None else self._keys.column(self._keys.of(seqs.to_numpy())),
                same(self.txn, pa.int64()).slice(0, n),
                identities.sent_us(),
                runs(np.cumsum([len(part) for part in self._read]), pa.array(self._read_us)),
            ]
        )
        self._read.clear()
        self._read_us.clear()
        self._waiting = 0
