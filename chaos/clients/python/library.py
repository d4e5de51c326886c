"""What a client library in Python offers to the programs: a consumer, a producer, and the meaning of its errors.

`Library` is one library in this process. Its consumer and its producer are adapters with blocking requests, which raise
`Library.Error`. An error is an exception of the library, whether it was raised or came with an answer.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np

from chaos.clients.protocol import (
    AssignConsumerSpec,
    ClientSpec,
    Config,
    GroupConsumerSpec,
    Outcome,
    Partition,
    WriterSpec,
)
from chaos.clients.python.assignments import StartPosition
from chaos.clients.python.program import log
from chaos.clients.python.rows import MISSING, Columns, SendLog
from chaos.clients.python.values import Origins
from chaos.clients.traits import ERROR_CODES, OTHER_NAMES, Traits
from chaos.errors import ClientError
from chaos.kafka.security import python_settings as security_settings
from chaos.kafka.settings import Scalar, as_text
from chaos.ledger.record_columns import headers_of
from chaos.run.events import now_us

END_S = 45.0
"""Longest time in which a transaction ends; afterwards its outcome is unknown, and the producer ends."""
IDLE_POLL_S = 0.1
"""Longest wait of a poll for a record."""
BACKOFF_MS = 100
"""Default of retry_backoff_ms of kafka-python and aiokafka: the time before they repeat a commit."""
ASSIGNORS = "partition_assignment_strategy"

Settings = dict[str, Any]
Done = Callable[[BaseException | None, Collection[Partition] | None], None]
"""Called with the error of a commit, None if it succeeded, and its partitions, None for all; from any thread."""
Answered = Callable[[Mapping[Partition, int], Exception | None], None]
"""Called with the offsets of a commit and the error of each partition, None if it succeeded."""
ReaderSpec = GroupConsumerSpec | AssignConsumerSpec
RecordHeaders = list[tuple[str, bytes]]
EARLIEST = frozenset({"smallest", "earliest", "beginning"})
LATEST = frozenset({"largest", "latest", "end"})


class Batch(NamedTuple):
    """Records to send, in columns. topics, keys and partitions may have no end.

    first: the seq of the first record. invoked_us: the time of the call, which the values contain.
    values: None for a tombstone, which has its identity in its only header.
    identities: the identities of the records if they are not in the values; None for tombstones among other values.
    partitions: `Library.unassigned` where the library chooses. headers: None if no record has any.
    timestamp_ms: None if the library chooses it.
    """

    first: int
    invoked_us: int
    topics: Iterable[str]
    values: list[Any]
    keys: Iterable[bytes | None]
    partitions: Iterable[int | None]
    headers: Sequence[RecordHeaders] | None = None
    timestamp_ms: int | None = None
    identities: Sequence[bytes] | None = None

    def records(self) -> Iterator[tuple[int, str, bytes | None, bytes | None, int | None, RecordHeaders]]:
        """Yield seq, topic, value, key, partition and headers of each record."""
        columns = zip(self.values, self.topics, self.keys, self.partitions, count(self.first), strict=False)
        for i, (value, topic, key, partition, seq) in enumerate(columns):
            yield seq, topic, value, key, partition, self.headers[i] if self.headers else []


class Listener(Protocol):
    """What happens to the assignment of a group member."""

    def assigned(self, partitions: Collection[Partition]) -> None:
        """Take new partitions."""

    def revoked(self, partitions: Collection[Partition]) -> None:
        """Give partitions up, with a commit if the setting says so."""

    def lost(self, partitions: Collection[Partition]) -> None:
        """Give partitions up that others may have already."""

    def offsets_to_commit(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return what `revoked` would commit, and forget it: for a library that cannot commit while it calls."""

    def committed_on_revocation(self, offsets: Mapping[Partition, int], error: BaseException | None) -> None:
        """Record the answer to a commit of `offsets_to_commit`."""


class ConsumerAdapter(ABC):
    """A consumer.

    incremental: whether partitions are assigned and revoked one by one: cooperative assignors and KIP-848.
    origins: finds the identities of records.
    """

    incremental: bool = False
    origins = Origins()

    @abstractmethod
    def subscribe(self, topics: Sequence[str], pattern: str | None, listener: Listener) -> None:
        """Join the group, with topics or with a pattern."""

    @abstractmethod
    def take(self, partitions: Collection[Partition]) -> dict[Partition, StartPosition]:
        """Begin to read partitions of an assignment. Returns where, of those for which it is known at once.

        The others are paused until they are located.
        """

    def starts(self, partitions: Collection[Partition]) -> dict[Partition, StartPosition]:
        """Return the committed offset of each partition, or the reset position; null if no broker answers."""
        raise NotImplementedError

    @abstractmethod
    def located(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the next offset of each paused partition for which the library has determined it. Asks no broker."""

    @abstractmethod
    def resume(self, partitions: Collection[Partition]) -> None:
        """Return records of these partitions again."""

    @abstractmethod
    def assign(self, starts: Mapping[Partition, int], held: Collection[Partition]) -> None:
        """Read partitions from an offset, without a group; held partitions keep their positions."""

    def assign_again(self, offsets: Mapping[Partition, int], after_s: float) -> None:
        """Assign partitions without offsets, and assign them again at these offsets after a delay."""
        raise NotImplementedError

    @abstractmethod
    def poll(self, most: int, idle: Callable[[], None], wait_s: float = IDLE_POLL_S) -> Sequence[Any]:
        """Return up to `most` records that are there, or the first ones that arrive within `wait_s`.

        Listeners are called within it and within `close`, in the thread that calls these. idle: called before it waits.
        """

    def columns(self, batch: Sequence[Any], with_topics: bool) -> Columns | None:
        """Return the columns of a batch; None if the batch has errors."""
        values = [self.origins.of(r.topic, r.value, r.headers) for r in batch]
        epochs = [getattr(r, "leader_epoch", None) for r in batch]
        return Columns(
            headers_of(values),
            np.array([r.partition for r in batch], np.int64),
            np.array([r.offset for r in batch], np.int64),
            np.array([MISSING if epoch is None else epoch for epoch in epochs], np.int64),
            [r.topic for r in batch] if with_topics else None,
        )

    def without_errors(self, batch: Sequence[Any]) -> tuple[Sequence[Any], list[Exception]]:
        """Return the records of a batch and its errors."""
        return batch, []

    def starts_in(self, batch: Sequence[Any]) -> dict[Partition, int | None]:
        """Return the partitions that a batch shows to be read: the end of a log without records, else None."""
        return {(r.topic, r.partition): None for r in batch}

    @abstractmethod
    def seek(self, partition: Partition, offset: int) -> None:
        """Continue at an offset."""

    @abstractmethod
    def committed(self, partition: Partition) -> int | None:
        """Return the committed offset; None without one."""

    @abstractmethod
    def partitions_of(self, topic: str) -> Collection[int]:
        """Return the partitions of a topic, asked for now; empty if it has none."""

    @abstractmethod
    def watermarks(self, partition: Partition) -> tuple[int, int]:
        """Return log start offset and high watermark."""

    @abstractmethod
    def offsets_at(self, partitions: Collection[Partition], timestamp_ms: int) -> dict[Partition, int | None]:
        """Return the first offset at or after a time; None without one."""

    @abstractmethod
    def commit(self, offsets: Mapping[Partition, int]) -> Mapping[Partition, Exception]:
        """Commit, and wait for the answer. Returns the errors of single partitions; raises one of all partitions."""

    @abstractmethod
    def commit_later(self, offsets: Mapping[Partition, int], done: Done) -> None:
        """Commit without waiting."""

    def store(self, offsets: Mapping[Partition, int]) -> None:
        """Store offsets for the automatic commit; a library that takes its positions needs none."""
        return

    @abstractmethod
    def membership(self) -> tuple[str | None, int | None]:
        """Return member id and generation; None outside of a group."""

    def throttled(self) -> dict[str, list[int]]:
        """Return the number of throttled responses and the longest time in ms, by side; empty if there was none."""
        return {}

    @abstractmethod
    def close(self) -> None:
        """Close the consumer; a group member leaves its group."""


class ProducerAdapter(ABC):
    """A producer. Each record that it takes or refuses gets a row in the log that it was created with."""

    @abstractmethod
    def send(self, batch: Batch, idle: Callable[[], None]) -> int:
        """Hand records over. Returns their number; fewer than given if the library has no room or no metadata for now.

        idle: called now and then while it waits for room.
        """

    @abstractmethod
    def waiting(self) -> int:
        """Return the number of records without a report."""

    @abstractmethod
    def wait(self, timeout_s: float) -> None:
        """Let reports arrive for at most `timeout_s`."""

    @abstractmethod
    def collect(self) -> None:
        """Put the reports that have arrived in the log."""

    @abstractmethod
    def purge(self) -> None:
        """Give up the records without a report, so that each gets one."""

    @abstractmethod
    def init_transactions(self) -> None:
        """Fence earlier producers with the same transactional.id."""

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction."""

    def send_offsets(self, offsets: Mapping[Partition, int], consumer: ConsumerAdapter) -> None:
        """Add the offsets of a consumer to the transaction."""
        raise NotImplementedError

    @abstractmethod
    def commit(self) -> None:
        """Commit the transaction."""

    @abstractmethod
    def abort(self) -> None:
        """Abort the transaction."""

    def throttled(self) -> dict[str, list[int]]:
        """Return the throttled responses; see `ConsumerAdapter.throttled`."""
        return {}

    def close(self, timeout_s: float) -> None:
        """Close the producer within a time; the end of the process is enough if it has no thread."""
        return


class Report(NamedTuple):
    """The answer to a send. taken: whether the library took the record; one that it refused never left the process."""

    seq: int
    at_us: int
    partition: int | None = None
    offset: int | None = None
    error: BaseException | None = None
    taken: bool = True


class ReportingProducer(ProducerAdapter):
    """A producer with answers that name a record by its seq. reports: appended by any thread."""

    def __init__(self, library: Library, spec: WriterSpec, log: SendLog) -> None:
        self._library, self._log = library, log
        self._kept = library.kept_by(spec)
        self.reports: deque[Report] = deque()
        self._invoked_us: dict[int, int] = {}
        """Time of the call, by the seq of each record without a report."""

    @abstractmethod
    def _hand_over(self, batch: Batch, idle: Callable[[], None]) -> int:
        """Hand records over; see `send`."""

    def send(self, batch: Batch, idle: Callable[[], None]) -> int:
        """Hand records over, and keep the time of the call."""
        seqs = range(batch.first, batch.first + len(batch.values))
        self._invoked_us.update(dict.fromkeys(seqs, batch.invoked_us))
        taken = self._hand_over(batch, idle)
        for seq in seqs[taken:]:  # sent later with a new time
            del self._invoked_us[seq]
        return taken

    def waiting(self) -> int:
        """Return the number of records without a report."""
        return len(self._invoked_us)

    def collect(self) -> None:
        """Put the reports that have arrived in the log."""
        while self.reports:
            self._answered(self.reports.popleft())

    def _answered(self, report: Report) -> None:
        invoked_us = self._invoked_us.pop(report.seq, None)
        if invoked_us is None:  # it was given up
            return
        if report.error is None:
            offset = report.offset if report.offset is not None and report.offset >= 0 else None
            self._log.add(report.seq, invoked_us, report.at_us, "ok", report.partition, offset)
            return
        refused = not report.taken or self._library.refuses_send(report.error, self._kept)
        self._log.last_failure = self._library.describe(report.error)
        log(f"seq {report.seq}: {self._log.last_failure}")
        outcome: Outcome = "fail" if refused else "unknown"
        name = self._library.error_name(report.error)
        self._log.add(report.seq, invoked_us, report.at_us, outcome, report.partition, error=name)

    def purge(self) -> None:
        """Give up the records without a report."""
        for seq, invoked_us in self._invoked_us.items():
            self._log.add(seq, invoked_us, now_us(), "unknown", error="no answer before the end")
        self._invoked_us.clear()


class Library(ABC):
    """A library in this process.

    reported: the detail of the event `started`, with the release. Error: the base class of what its requests raise.
    unassigned: the partition of a record for which the library chooses. gathers: whether rows of several polls may be
    written together; a library may call listeners where a commit, which these rows precede, cannot wait for its answer.
    """

    traits: Traits
    release: str
    reported: Mapping[str, str]
    Error: type[Exception]
    unassigned: ClassVar[int | None] = None
    gathers: ClassVar[bool] = False

    @abstractmethod
    def producer(self, spec: WriterSpec, log: SendLog, on_error: Callable[[Exception], None]) -> ProducerAdapter:
        """Return a producer. on_error: called with errors that concern no single record."""

    @abstractmethod
    def consumer(self, spec: ReaderSpec, answered: Answered, on_error: Callable[[Exception], None]) -> ConsumerAdapter:
        """Return a consumer. answered: called with the answers to commits that nobody asked for."""

    @abstractmethod
    def error_name(self, error: BaseException) -> str:
        """Return the name of an error, as its row has it."""

    def refusal_name(self, error: BaseException) -> str:
        """Return the name of an error in the refusals of the traits."""
        return self.error_name(error)

    @abstractmethod
    def describe(self, error: BaseException) -> str:
        """Return the name and the text of an error."""

    @abstractmethod
    def passes(self, error: BaseException) -> bool:
        """Return whether a request with this error may succeed if it is tried again."""

    @abstractmethod
    def fatal(self, error: BaseException) -> bool:
        """Return whether the client is unusable after an error that concerns no single request."""

    @abstractmethod
    def after_end(self, error: BaseException) -> Literal["again", "abort", "unusable"]:
        """Return what follows an error at the end of a transaction."""

    @abstractmethod
    def is_only_attempt(self, asynchronous: bool, took_s: float | None, config: Config) -> bool:
        """Return whether the answer to a commit is the answer to its only attempt. took_s: None if nobody knows."""

    def probe_group_id(self, spec: AssignConsumerSpec) -> str:
        """Return how the library reacts to the group.id `no_group_id` of the spec."""
        raise NotImplementedError

    def common(self, config: Config) -> Config:
        """Return the settings that are in force, by their common names."""
        named = self.traits.common(config).items()
        return self.traits.defaults(self.release) | {OTHER_NAMES.get(name, name): value for name, value in named}

    def has_offsets(self, spec: WriterSpec) -> bool:
        """Return whether brokers answer with offsets: not with acks=0."""
        return as_text(self.common(spec.config)["acks"]) != "0"

    def reset(self, config: Config) -> Literal["earliest", "latest"] | None:
        """Return what auto.offset.reset means; None if it is an error."""
        name = as_text(self.common(config)["auto.offset.reset"]).lower()
        return "earliest" if name in EARLIEST else "latest" if name in LATEST else None

    def kept_by(self, spec: WriterSpec) -> frozenset[str]:
        """Return what all attempts of a send have in common; see `chaos.clients.traits.Refusal`."""
        config = self.common(spec.config)
        kept = {*spec.steady, *(("attempt",) if as_text(config.get("retries", "")) == "0" else ())}
        if spec.transactions is not None or as_text(config.get("enable.idempotence", "")).lower() == "true":
            kept.add("batch")
        return frozenset(kept)

    def refuses_send(self, error: BaseException, kept: frozenset[str]) -> bool:
        """Return whether an error proves that a send did not happen. kept: what all its attempts have in common."""
        refusal = self.traits.sends.get(self.refusal_name(error))
        return refusal is not None and ("attempt" in kept or refusal.needs <= kept)

    def commit_outcome(self, error: BaseException | None, of_one_partition: bool, only_attempt: bool) -> Outcome:
        """Return the outcome of a commit. of_one_partition: whether the error is known to concern the partition."""
        if error is None:
            return "ok"
        name = self.refusal_name(error)
        proves = of_one_partition or name not in OF_ONE_PARTITION
        return "fail" if only_attempt and proves and name in self.traits.commits else "unknown"


OF_ONE_PARTITION = frozenset(
    {
        *("TOPIC_AUTHORIZATION_FAILED", "OFFSET_METADATA_TOO_LARGE", "INVALID_COMMIT_OFFSET_SIZE"),
        "UNKNOWN_TOPIC_OR_PARTITION",
    }
)
"""Errors of single partitions: kafka-python and aiokafka report the first one for the whole commit, so others may be
committed."""
_QUOTED = re.compile(r"\[Error (\d+)\]")


class PurePython(Library):
    """A library with the names of the Java client with underscores, as kafka-python and aiokafka.

    Timeout: what a request raises without an answer in time. settings_of: settings by program, with their defaults.
    assignors: classes by their names in the protocol. quotes_names: whether it quotes names for SCRAM (RFC 5802).
    """

    def __init__(
        self,
        traits: Traits,
        release: str,
        errors: tuple[type[Exception], type[Exception]],
        producer: tuple[Callable[[Library, WriterSpec, SendLog, Settings], ProducerAdapter], Mapping[str, Any]],
        consumer: tuple[Callable[[Settings], ConsumerAdapter], Mapping[str, Any]],
        assignors: Mapping[str, type],
        quotes_names: bool = False,
    ) -> None:
        """producer, consumer: their adapters, and the settings that they have, with the defaults."""
        (key,) = traits.reported
        self.traits, self.release, self.reported = traits, release, {key: release}
        self.Error, self.Timeout = errors
        self._producer, self._consumer = producer, consumer
        self._assignors, self._quotes_names = assignors, quotes_names

    def producer(self, spec: WriterSpec, log: SendLog, on_error: Callable[[Exception], None]) -> ProducerAdapter:
        """Return a producer; every error concerns a record or a request."""
        make, known = self._producer
        settings = {**self.connection(spec), **self.own_settings(spec.config, known)}
        if txns := spec.transactions:
            settings |= {"transactional_id": txns.id, "transaction_timeout_ms": round(txns.timeout_s * 1000)}
        return make(self, spec, log, settings)

    def consumer(self, spec: ReaderSpec, answered: Answered, on_error: Callable[[Exception], None]) -> ConsumerAdapter:
        """Return a consumer. With kind auto, the library commits by itself and says nothing."""
        make, known = self._consumer
        auto = spec.commit.kind == "auto" and spec.commit.when != "never"
        own = self.own_settings(spec.config, known)
        return make({**self.connection(spec), "group_id": spec.group, **own, "enable_auto_commit": auto})

    def connection(self, spec: ClientSpec) -> Settings:
        """Return the connection settings of a client. Raises `UsageError` if a secret is missing."""
        servers, security = spec.bootstrap.split(","), security_settings(spec.security, self._quotes_names)
        return {"bootstrap_servers": servers, "client_id": spec.client, **security}

    def own_settings(self, config: Config, known: Mapping[str, Any]) -> Settings:
        """Return settings of a scenario by the names of the library. Raises `ClientError` for an unknown one."""
        settings: Settings = {}
        for name, value in config.items():
            own = name.replace(".", "_")
            if own not in known:
                raise ClientError(f"{self.traits.library} {self.release} has no setting {name}")
            settings[own] = self._assignors_of(value) if own == ASSIGNORS else _typed(own, value, known[own])
        return settings

    def _assignors_of(self, value: Scalar) -> tuple[type, ...]:
        names = str(self.traits.common({ASSIGNORS: value})["partition.assignment.strategy"]).split(",")
        if unknown := [name for name in names if name not in self._assignors]:
            raise ClientError(f"{self.traits.library} {self.release} has no assignor {unknown[0]} ({ASSIGNORS})")
        return tuple(self._assignors[name] for name in names)

    def error_name(self, error: BaseException) -> str:
        """Return the name of an error in the protocol, or the class of an error of the client."""
        causes = [error.__cause__, *error.args[:1]] if type(error).__name__ == "CommitFailedError" else []
        for cause in causes:  # it names what the coordinator refused, in some releases
            if isinstance(cause, Exception):
                return self.error_name(cause)
        return ERROR_CODES.get(getattr(error, "errno", None) or 0, type(error).__name__)

    def describe(self, error: BaseException) -> str:
        """Return the name and the text of an error, and the name of another one that the text quotes."""
        name, quoted = self.error_name(error), _QUOTED.search(str(error))
        cause = ERROR_CODES.get(int(quoted[1]), name) if quoted else name
        return f"{name}: {error}" if cause == name else f"{name} ({cause}): {error}"

    def passes(self, error: BaseException) -> bool:
        """Return whether a request with this error may succeed if it is tried again."""
        return isinstance(error, self.Timeout) or bool(getattr(error, "retriable", False))

    def fatal(self, error: BaseException) -> bool:
        """Return whether the client is unusable: its polls would go on after it lost its place in the group."""
        return self.error_name(error) == "FENCED_INSTANCE_ID"

    def after_end(self, error: BaseException) -> Literal["again", "abort", "unusable"]:
        """Return what follows. A commit that is refused is followed by an abort, which proves that it failed."""
        return "unusable" if isinstance(error, self.Timeout) else "abort"

    def is_only_attempt(self, asynchronous: bool, took_s: float | None, config: Config) -> bool:
        """Return whether the library had no time to repeat a commit; it never repeats an asynchronous one."""
        backoff_s = float(config.get("retry_backoff_ms", BACKOFF_MS)) / 1000
        return asynchronous or (took_s is not None and took_s < backoff_s)


def _typed(name: str, value: Scalar, default: object) -> object:
    """Return a value in the type of the default; a scenario may write numbers and booleans as texts."""
    if name == "acks":
        return value if str(value) == "all" else int(value)
    if isinstance(default, bool):
        return str(value).lower() == "true"
    if isinstance(default, int | float) and isinstance(value, str):
        return int(value)
    return value
