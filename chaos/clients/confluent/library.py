"""confluent-kafka (librdkafka) for the programs of `chaos.clients.python`: the meaning of its errors, its producer."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import repeat
from operator import length_hint
from typing import Any, Literal

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message

from chaos.clients.confluent.consumer import (
    Consumer,
    Throttled,
    connection,
    consumer_settings,
    mostly_same,
    numbers,
    targets_of,
)
from chaos.clients.confluent.traits import RECORD_OF_BATCH, TRAITS
from chaos.clients.protocol import AssignConsumerSpec, Config, Outcome, Partition, WriterSpec
from chaos.clients.python.library import (
    Answered,
    Batch,
    ConsumerAdapter,
    Library,
    ProducerAdapter,
    ReaderSpec,
)
from chaos.clients.python.rows import Columns, SendLog
from chaos.clients.traits import ERROR_CODES
from chaos.ledger.record import parse
from chaos.ledger.record_columns import headers_of
from chaos.run.events import now_us

CALL_S = 1.0
"""Longest time in one call about a transaction; between calls the client checks for the order to stop."""
PROBE_TIMEOUT_S = 20.0
READ_ROWS = 512
"""Reports to read at a time: few enough to be still in the processor's cache."""
BACKOFF_MS, MAX_BACKOFF_MS = 100, 1000
"""librdkafka's defaults of retry.backoff.ms and retry.backoff.max.ms."""
OUT_OF_RANGE = "is out of range"


class Librdkafka(Library):
    """confluent-kafka in this process.

    For each error, librdkafka says whether the call can be retried, whether the transaction must be aborted, or whether
    the producer is unusable (fenced by its next incarnation, for example). A call that timed out continues in the
    background; calling again only waits for it.
    """

    traits = TRAITS if hasattr(KafkaError, "_INVALID_DIFFERENT_RECORD") else replace(TRAITS, sends=RECORD_OF_BATCH)
    release = confluent_kafka.__version__
    reported = {"confluent_kafka": release, "librdkafka": confluent_kafka.libversion()[0]}
    Error = KafkaException
    unassigned = -1
    gathers = True

    def producer(self, spec: WriterSpec, log: SendLog, on_error: Callable[[Exception], None]) -> ProducerAdapter:
        """Return a producer."""
        return Producer(self, spec, log, on_error)

    def consumer(self, spec: ReaderSpec, answered: Answered, on_error: Callable[[Exception], None]) -> ConsumerAdapter:
        """Return a consumer."""
        return Consumer(self, spec, answered, on_error)

    def common(self, config: Config) -> Config:
        """Return the settings that are in force; a setting of a topic may have a prefix."""
        of_topic = {n.removeprefix("topic."): value for n, value in config.items() if n.startswith("topic.")}
        return super().common(of_topic | config)

    def error_name(self, error: BaseException) -> str:
        """Return librdkafka's name of an error."""
        found = error_of(error)
        if found is None:
            return type(error).__name__
        return "INVALID_TIMESTAMP" if refuses_time(found) else str(found.name())

    def refusal_name(self, error: BaseException) -> str:
        """Return the name of an error in the protocol; librdkafka has other names for some."""
        found = error_of(error)
        name = self.error_name(error)
        return name if found is None or name == "INVALID_TIMESTAMP" else ERROR_CODES.get(found.code(), name)

    def describe(self, error: BaseException) -> str:
        """Return the name and the text of an error. The text of a fatal error holds its cause, which is named."""
        found = error_of(error)
        if found is None:
            return str(error)
        if found.code() != KafkaError._FATAL:
            return f"{found.name()}: {found.str()}"
        codes = {code for name, code in vars(KafkaError).items() if name.isupper() and isinstance(code, int)}
        causes = (cause for cause in map(KafkaError, sorted(c for c in codes if c > 0)) if cause.str() in found.str())
        return f"{next((cause.name() for cause in causes), found.name())}: {found.str()}"

    def passes(self, error: BaseException) -> bool:
        """Return whether the call can be retried."""
        found = error_of(error)
        return found is not None and found.retriable()

    def fatal(self, error: BaseException) -> bool:
        """Return whether the client is unusable; a poll returns _FATAL without the fatal flag."""
        found = error_of(error)
        return found is not None and (found.fatal() or found.code() == KafkaError._FATAL)

    def after_end(self, error: BaseException) -> Literal["again", "abort", "unusable"]:
        """Return what follows an error at the end of a transaction."""
        found = error_of(error)
        if found is None or found.fatal():
            return "unusable"
        return "abort" if found.txn_requires_abort() else "again" if found.retriable() else "unusable"

    def is_only_attempt(self, asynchronous: bool, took_s: float | None, config: Config) -> bool:
        """Return whether librdkafka had no time to repeat a commit: it waits retry.backoff.ms, less 20 % of jitter."""
        backoff_ms = float(config.get("retry.backoff.ms", BACKOFF_MS))
        backoff_ms = min(backoff_ms, float(config.get("retry.backoff.max.ms", MAX_BACKOFF_MS)))
        return took_s is not None and took_s < 0.8 * backoff_ms / 1000

    def probe_group_id(self, spec: AssignConsumerSpec) -> str:
        """Return how the library reacts to no group.id or an empty one.

        The probe creates a consumer in another process, because the library may abort; it connects to no broker.
        """
        settings = consumer_settings(spec) | {"group.id": "", "bootstrap.servers": "", "enable.auto.commit": True}
        if spec.no_group_id == "absent":
            del settings["group.id"]
        done = subprocess.run(
            [sys.executable, "-c", "import json, sys, confluent_kafka as c; c.Consumer(json.load(sys.stdin))"],
            input=json.dumps(settings),
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
        last = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        if done.returncode == 0:
            return f"with group.id {spec.no_group_id}: the client takes it"
        reaction = f"aborted with signal {-done.returncode}" if done.returncode < 0 else "refused"
        return f"with group.id {spec.no_group_id}: {reaction}: {last}"


def error_of(error: BaseException) -> KafkaError | None:
    """Return librdkafka's error in an exception; None if it has a text only."""
    found = error.args[0] if isinstance(error, KafkaException) and error.args else None
    return found if isinstance(found, KafkaError) else None


def refuses_time(error: KafkaError) -> bool:
    """Return whether a broker refused a record for its timestamp.

    If it refused several records of a batch, librdkafka reports INVALID_RECORD for each, with the broker's reason as
    text: `LogValidator.validateTimestamp` says that the timestamp is out of range.
    """
    of_one = error.code() == KafkaError.INVALID_RECORD and OUT_OF_RANGE in error.str()
    return of_one or error.code() == KafkaError.INVALID_TIMESTAMP


class Producer(ProducerAdapter):
    """A producer of librdkafka.

    seq and the time of the call are read from the value in the delivery report, so a record in flight needs no memory
    and none is forgotten. The reports that are read together share a time, `completed_us`. librdkafka also reports the
    records that are purged at the end.
    """

    def __init__(
        self, library: Librdkafka, spec: WriterSpec, sends: SendLog, on_error: Callable[[Exception], None]
    ) -> None:
        self._library, self._sends, self._on_error = library, sends, on_error
        self._kept = library.kept_by(spec)
        self._drops_if_full = getattr(spec, "mode", "") == "fire_and_forget"
        self._throttled = Throttled("producer")
        self._marks: dict[int, bytes] = {}
        reports: list[Message] = []
        self._reports = reports

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                reports.append(message)
                if len(reports) >= READ_ROWS:
                    self.collect()
            else:
                self._failed(error, message)

        self._on_delivery = on_delivery
        callbacks = {"error_cb": lambda error: on_error(KafkaException(error)), "throttle_cb": self._throttled}
        settings: dict[str, Any] = {**connection(spec), **callbacks, **spec.config}
        if txns := spec.transactions:
            settings |= {"transactional.id": txns.id, "transaction.timeout.ms": round(txns.timeout_s * 1000)}
        self._kafka = confluent_kafka.Producer(settings)

    def _on_marked(self, identity: bytes, error: KafkaError | None, message: Message) -> None:
        """Take the delivery report of a record with its identity elsewhere: its message has no headers."""
        if error is None:
            self._marks[len(self._reports)] = identity
            self._on_delivery(error, message)
        else:
            self._failed(error, message, identity)

    def send(self, batch: Batch, idle: Callable[[], None]) -> int:
        """Hand records over, without Python code for each. Returns the number that librdkafka took or refused."""
        count, values = len(batch.values), iter(batch.values)
        calls = map(self._kafka.produce, batch.topics, values, batch.keys, batch.partitions, *self._more(batch))
        while True:
            try:
                deque(calls, maxlen=0)
                return count
            except BufferError:  # the local queue is full: nothing was sent, the seq is sent later with a new time
                taken = count - length_hint(values) - 1
                if not self._drops_if_full:
                    return taken
                self._refused(batch, taken, KafkaError(KafkaError._QUEUE_FULL))
            except KafkaException as e:
                self._refused(batch, count - length_hint(values) - 1, e.args[0])
                self._on_error(e)

    def _more(self, batch: Batch) -> tuple[Iterable[Any], ...]:
        """Return the arguments of `produce` from the callback on."""
        callback, timestamps = repeat(self._on_delivery), repeat(batch.timestamp_ms or 0)
        if batch.headers is None:
            return (callback, repeat(None), timestamps) if batch.timestamp_ms else (callback,)
        callbacks: Iterable[Any] = callback
        if batch.identities is not None:
            callbacks = [partial(self._on_marked, identity) for identity in batch.identities]
        elif None in batch.values:
            callbacks = [
                self._on_delivery if value is not None else partial(self._on_marked, headers[0][1])
                for value, headers in zip(batch.values, batch.headers, strict=True)
            ]
        return callbacks, repeat(None), timestamps, (headers or None for headers in batch.headers)

    def _refused(self, batch: Batch, index: int, error: KafkaError) -> None:
        """Record a send that `produce` refused: it never left this process."""
        self._sends.add(batch.first + index, batch.invoked_us, now_us(), "fail", error=error.name())

    def waiting(self) -> int:
        """Return the number of records without a report."""
        return len(self._kafka)

    def wait(self, timeout_s: float) -> None:
        """Let reports arrive for at most `timeout_s`."""
        self._kafka.poll(timeout_s)

    def collect(self) -> None:
        """Read and stamp the reports of acknowledged records that have arrived."""
        if self._reports:
            records = sent(self._reports, self._marks)
            self._reports.clear()
            self._marks.clear()
            self._sends.add_acked(records, now_us())

    def _failed(self, error: KafkaError, message: Message, mark: bytes | None = None) -> None:
        """Record a report with an error.

        librdkafka sets the partition of a record when it chooses it, and keeps it (`rd_kafka_msg_partitioner`). Only
        records of partitions are put in requests, so a record without one was never sent, also after a time-out or a
        purge.
        """
        identity = parse(mark or message.value())
        assert identity is not None  # this process made the value
        if error.code() == KafkaError._MSG_TIMED_OUT:
            self._kept -= {"batch"}  # librdkafka may send the rest of its batch again in another batch
        partition = message.partition()
        if partition is None or partition < 0:
            partition, refused = None, True
        else:
            refused = self._library.refuses_send(KafkaException(error), self._kept)
        outcome: Outcome = "fail" if refused else "unknown"
        name = self._library.error_name(KafkaException(error))
        self._sends.add(identity.seq, identity.sent_us, now_us(), outcome, partition, error=name)

    def purge(self) -> None:
        """Give up the records without a report."""
        self._kafka.purge()
        self._kafka.flush(1)

    def init_transactions(self) -> None:
        """Fence earlier producers with the same transactional.id."""
        self._kafka.init_transactions(CALL_S)

    def begin(self) -> None:
        """Begin a transaction."""
        self._kafka.begin_transaction()

    def send_offsets(self, offsets: Mapping[Partition, int], consumer: ConsumerAdapter) -> None:
        """Add the offsets of a consumer to the transaction."""
        assert isinstance(consumer, Consumer)
        group = consumer.kafka.consumer_group_metadata()
        self._kafka.send_offsets_to_transaction(targets_of(offsets), group, CALL_S)

    def commit(self) -> None:
        """Commit the transaction."""
        self._kafka.commit_transaction(CALL_S)

    def abort(self) -> None:
        """Abort the transaction."""
        self._kafka.abort_transaction(CALL_S)

    def throttled(self) -> dict[str, list[int]]:
        """Return the throttled responses."""
        return self._throttled.progress()


def sent(messages: Sequence[Message], marks: Mapping[int, bytes]) -> Columns:
    """Return the columns of acknowledged sends. marks: identities that are not in the values, by index."""
    values = list(map(Message.value, messages))
    for index, identity in marks.items():
        values[index] = identity
    headers = headers_of(values)
    return Columns(headers, mostly_same(Message.partition, messages), numbers(Message.offset, messages))


LIBRARY = Librdkafka()
