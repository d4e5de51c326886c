"""What a client library in Python has to offer to the programs: adapters with blocking requests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from chaos.clients.protocol import Partition
from chaos.clients.traits import Traits

END_S = 45.0
"""Longest time in which a transaction ends; afterwards its outcome is unknown, and the producer ends."""

Settings = dict[str, Any]
Done = Callable[[BaseException | None], None]
"""Called with the error of a request, or with None if it succeeded; from any thread."""


class Outgoing(NamedTuple):
    """A record to send. partition, timestamp_ms: None if the library chooses it."""

    seq: int
    topic: str
    value: bytes | None
    key: bytes | None
    partition: int | None
    headers: list[tuple[str, bytes]]
    timestamp_ms: int | None = None


class Report(NamedTuple):
    """The answer to a send. taken: whether the library took the record; one that it refused never left the process."""

    seq: int
    at_us: int
    partition: int | None = None
    offset: int | None = None
    error: BaseException | None = None
    taken: bool = True


class Listener(Protocol):
    """What happens to the assignment of a group member."""

    def assigned(self, partitions: Collection[Partition]) -> None:
        """Record new partitions."""

    def revoked(self, partitions: Collection[Partition]) -> None:
        """Give partitions up, with a commit if the setting says so."""

    def lost(self, partitions: Collection[Partition]) -> None:
        """Give partitions up that others may have already."""

    def offsets_to_commit(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return what `revoked` would commit, and forget it: for a library that cannot commit while it calls."""

    def committed_on_revocation(self, offsets: Mapping[Partition, int], error: BaseException | None) -> None:
        """Record the answer to a commit of `offsets_to_commit`."""


class ConsumerAdapter(ABC):
    """A consumer. Its requests raise the library's error."""

    @abstractmethod
    def subscribe(self, topics: Sequence[str], pattern: str | None, listener: Listener) -> None:
        """Join the group, with topics or with a pattern."""

    @abstractmethod
    def assign(self, partitions: Collection[Partition]) -> None:
        """Read these partitions, without a group. Those that are assigned already keep their positions."""

    @abstractmethod
    def poll(self, most: int) -> Sequence[Any]:
        """Return up to `most` records that are there, or the first ones that arrive within `IDLE_POLL_S`.

        Listeners are called within it and within `close`, in the thread that calls these.
        """

    @abstractmethod
    def seek(self, partition: Partition, offset: int) -> None:
        """Continue at an offset."""

    @abstractmethod
    def pause(self, partitions: Collection[Partition]) -> None:
        """Return no records of these partitions."""

    @abstractmethod
    def resume(self, partitions: Collection[Partition]) -> None:
        """Return records of these partitions again."""

    @abstractmethod
    def position(self, partition: Partition) -> int | None:
        """Return the next offset; None if the library has not determined it yet. Asks no broker."""

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
    def offset_at(self, partition: Partition, timestamp_ms: int) -> int | None:
        """Return the first offset at or after a time; None without one."""

    @abstractmethod
    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit, and wait for the answer."""

    @abstractmethod
    def commit_later(self, offsets: Mapping[Partition, int], done: Done) -> None:
        """Commit without waiting."""

    @abstractmethod
    def membership(self) -> tuple[str | None, int | None]:
        """Return member id and generation; None outside of a group."""

    @abstractmethod
    def close(self) -> None:
        """Close the consumer; a group member leaves its group."""


class ProducerAdapter(ABC):
    """A producer. Its requests raise the library's error. reports: answers to sends, appended by any thread."""

    def __init__(self) -> None:
        self.reports: deque[Report] = deque()

    @abstractmethod
    def send(self, records: Sequence[Outgoing], idle: Callable[[], None]) -> int:
        """Hand records over. Returns the number; fewer than given if the library has no room or no metadata for now.

        idle: called now and then while it waits for room.
        """

    @abstractmethod
    def wait(self, timeout_s: float) -> None:
        """Let reports arrive for at most `timeout_s`."""

    @abstractmethod
    def init_transactions(self) -> None:
        """Fence earlier producers with the same transactional.id."""

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction."""

    @abstractmethod
    def commit(self) -> None:
        """Commit the transaction. Raises `Library.Timeout` after `END_S`."""

    @abstractmethod
    def abort(self) -> None:
        """Abort the transaction. Raises as `commit`."""

    @abstractmethod
    def close(self, timeout_s: float) -> None:
        """Close the producer within a time."""


@dataclass(frozen=True)
class Library:
    """A library in this process.

    Error: the base class of what its requests raise. Timeout: what a request raises without an answer in time.
    producer_settings, consumer_settings: with their defaults. assignors: classes by their names in the protocol.
    quotes_names: whether it quotes names for SCRAM (RFC 5802).
    """

    traits: Traits
    release: str
    Error: type[Exception]
    Timeout: type[Exception]
    producer_settings: Mapping[str, Any]
    consumer_settings: Mapping[str, Any]
    assignors: Mapping[str, type]
    producer: Callable[[Settings], ProducerAdapter]
    consumer: Callable[[Settings], ConsumerAdapter]
    quotes_names: bool = False

    def passes(self, error: Exception) -> bool:
        """Return whether a request with this error may succeed if it is tried again."""
        return isinstance(error, self.Timeout) or bool(getattr(error, "retriable", False))
