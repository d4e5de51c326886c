"""librdkafka's consumer for the programs of `chaos.clients.python`, and what it shares with the producer."""

from __future__ import annotations

import struct
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

import confluent_kafka
import numpy as np
from confluent_kafka import OFFSET_END, KafkaError, KafkaException, Message, ThrottleEvent, TopicPartition

from chaos.clients.protocol import ClientSpec, Partition
from chaos.clients.python.assignments import StartPosition
from chaos.clients.python.library import (
    IDLE_POLL_S,
    Answered,
    ConsumerAdapter,
    Done,
    Library,
    Listener,
    ReaderSpec,
)
from chaos.clients.python.program import log
from chaos.clients.python.rows import MISSING, Columns
from chaos.clients.python.values import Origins
from chaos.kafka.security import librdkafka_settings
from chaos.ledger.record_columns import Ints, headers_of, own_headers

TIMEOUT_S = 5.0
"""Longest wait for an answer."""
HAS_EPOCHS = hasattr(Message, "leader_epoch")
"""Whether records carry their leader epoch: from confluent-kafka 2.1.0 on."""


class Throttled:
    """The responses to one Kafka client that contain a throttle time: the client is above a quota (KIP-13).

    librdkafka reports those to produce and fetch requests, while the client polls.
    """

    def __init__(self, side: Literal["producer", "consumer"]) -> None:
        self._side = side
        self._responses = 0
        self._longest_s = 0.0

    def __call__(self, event: ThrottleEvent) -> None:
        """Count a response; librdkafka also reports the first one that is no longer throttled."""
        if event.throttle_time > 0:
            self._responses += 1
            self._longest_s = max(self._longest_s, event.throttle_time)

    def progress(self) -> dict[str, list[int]]:
        """Return the number of responses and the longest time in ms, by side; empty if there was none."""
        return {self._side: [self._responses, round(self._longest_s * 1000)]} if self._responses else {}


def connection(spec: ClientSpec) -> dict[str, Any]:
    """Return the connection settings of a client. Raises `UsageError` if a secret is missing."""
    return {"bootstrap.servers": spec.bootstrap, "client.id": spec.client, **librdkafka_settings(spec.security)}


def consumer_settings(spec: ReaderSpec) -> dict[str, Any]:
    """Return the settings of a consumer. The scenario wins, except over its own commit setting.

    librdkafka requires a group id; without a group in the scenario, nothing is committed to it.
    """
    auto = spec.commit.kind == "auto" and spec.commit.when != "never"
    at_poll = spec.commit.when == "before_processing"
    # without it, a start at the end of the log would never show
    at_end = {"enable.partition.eof": True} if getattr(spec, "assign_by", None) == "client" else {}
    return {
        **connection(spec),
        "group.id": f"aftershock-none-{spec.client.replace('/', '-')}" if spec.group is None else spec.group,
        **at_end,
        **spec.config,
        "enable.auto.commit": auto,
        "enable.auto.offset.store": auto and at_poll,
    }


class Consumer(ConsumerAdapter):
    """A consumer of librdkafka."""

    def __init__(
        self, library: Library, spec: ReaderSpec, answered: Answered, on_error: Callable[[Exception], None]
    ) -> None:
        self._library, self._config, self._answered = library, spec.config, answered
        self._left_to_library = getattr(spec, "assign_by", None) == "client"
        strategy = str(spec.config.get("partition.assignment.strategy", ""))
        self.incremental = "cooperative" in strategy or spec.config.get("group.protocol") == "consumer"
        self._pending: dict[tuple[Partition, int], deque[Done]] = defaultdict(deque)
        self._throttled = Throttled("consumer")
        callbacks: dict[str, Any] = {
            "on_commit": self._on_commit,
            "error_cb": lambda error: on_error(KafkaException(error)),
            "throttle_cb": self._throttled,
        }
        self.kafka = confluent_kafka.Consumer(callbacks | consumer_settings(spec))

    def subscribe(self, topics: Sequence[str], pattern: str | None, listener: Listener) -> None:
        """Join the group; a topic that begins with ^ is a pattern."""
        self.kafka.subscribe(
            list(topics),
            on_assign=lambda _, partitions: listener.assigned(_plain(partitions)),
            on_revoke=lambda _, partitions: listener.revoked(_plain(partitions)),
            on_lost=lambda _, partitions: listener.lost(_plain(partitions)),
        )

    def take(self, partitions: Collection[Partition]) -> dict[Partition, StartPosition]:
        """Assign partitions at the offsets that the brokers give; without an answer, librdkafka chooses.

        With `assign_by: client`, it chooses always, as in applications that leave it to the library.
        """
        targets, starts = _left_to_library(partitions) if self._left_to_library else self._starts(partitions)
        (self.kafka.incremental_assign if self.incremental else self.kafka.assign)(targets)
        return starts

    def starts(self, partitions: Collection[Partition]) -> dict[Partition, StartPosition]:
        """Return the committed offset of each partition, or the reset position; null if no broker answers."""
        return self._starts(partitions)[1]

    def _starts(self, partitions: Collection[Partition]) -> tuple[list[TopicPartition], dict[Partition, StartPosition]]:
        """Return where reading starts, for librdkafka and for the ledger."""
        if not partitions:
            return [], {}
        try:
            answers = self.kafka.committed([TopicPartition(*p) for p in partitions], timeout=TIMEOUT_S)
        except KafkaException as e:
            log(f"committed offsets unknown, librdkafka chooses the positions: {e}")
            return _left_to_library(partitions)
        starts: dict[Partition, StartPosition] = {}
        for answer in answers:
            partition = answer.topic, answer.partition
            starts[partition] = StartPosition()
            if answer.error is None and answer.offset >= 0:
                starts[partition] = StartPosition(answer.offset, "committed")
            elif answer.error is None and (offset := self._reset_position(partition)) is not None:
                starts[partition] = StartPosition(offset, "reset")
                answer.offset = offset
        # an answer also carries the leader epoch of the commit, with which librdkafka detects a truncated log
        targets = [a if a.offset >= 0 and a.error is None else TopicPartition(a.topic, a.partition) for a in answers]
        return targets, starts

    def _reset_position(self, partition: Partition) -> int | None:
        """Return the offset that auto.offset.reset means now; None without an answer, or if it is `error`."""
        reset = self._library.reset(self._config)
        if reset is None:
            return None
        try:
            return self.watermarks(partition)[reset == "latest"]
        except KafkaException as e:
            log(f"watermarks of {partition} unknown, librdkafka chooses the position: {e}")
            return None

    def located(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return nothing: no partition is paused."""
        return {}

    def resume(self, partitions: Collection[Partition]) -> None:
        """Resume partitions."""
        self.kafka.resume([TopicPartition(*p) for p in partitions])

    def assign(self, starts: Mapping[Partition, int], held: Collection[Partition]) -> None:
        """Read partitions from an offset."""
        targets = [TopicPartition(*p, offset) for p, offset in starts.items()]
        (self.kafka.incremental_assign if held else self.kafka.assign)(targets)

    def assign_again(self, offsets: Mapping[Partition, int], after_s: float) -> None:
        """Assign partitions without offsets, so that librdkafka looks them up, and after a time at these offsets."""
        self.kafka.assign([TopicPartition(*p) for p in offsets])
        time.sleep(after_s)
        self.kafka.assign([TopicPartition(*p, offset) for p, offset in offsets.items()])

    def poll(self, most: int, idle: Callable[[], None], wait_s: float = IDLE_POLL_S) -> Sequence[Message]:
        """Return the records that are there, or the next record when it arrives: never wait for a full batch."""
        batch: list[Message] = self.kafka.consume(most, 0.0)
        if not batch:
            idle()
            batch = self.kafka.consume(1, wait_s)
        return batch

    def columns(self, batch: Sequence[Message], with_topics: bool) -> Columns | None:
        """Return the columns of a batch, read in one pass while it is in the processor's cache."""
        return consumed(batch, with_topics, self.origins)

    def without_errors(self, batch: Sequence[Message]) -> tuple[Sequence[Message], list[Exception]]:
        """Return the records of a batch and its errors; the end of a partition is none."""
        errors = [e for m in batch if (e := m.error()) is not None and e.code() != KafkaError._PARTITION_EOF]
        return [m for m in batch if m.error() is None], [KafkaException(e) for e in errors]

    def starts_in(self, batch: Sequence[Message]) -> dict[Partition, int | None]:
        """Return the partitions in a batch; with the offset of the end where that comes before a record."""
        shown: dict[Partition, int | None] = {}
        for message in batch:
            error = message.error()
            if error is None or error.code() == KafkaError._PARTITION_EOF:
                partition = str(message.topic()), int(message.partition() or 0)
                shown.setdefault(partition, None if error is None else int(message.offset() or 0))
        return shown

    def seek(self, partition: Partition, offset: int) -> None:
        """Continue at an offset."""
        self.kafka.seek(TopicPartition(*partition, offset))

    def committed(self, partition: Partition) -> int | None:
        """Return the committed offset; None without one."""
        (answer,) = self.kafka.committed([TopicPartition(*partition)], timeout=TIMEOUT_S)
        if answer.error is not None:
            raise KafkaException(answer.error)
        return int(answer.offset) if answer.offset >= 0 else None

    def partitions_of(self, topic: str) -> Collection[int]:
        """Return the partitions of a topic."""
        found = self.kafka.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
        if found.error is not None:
            raise KafkaException(found.error)
        numbers: Collection[int] = found.partitions
        return numbers

    def watermarks(self, partition: Partition) -> tuple[int, int]:
        """Return log start offset and high watermark."""
        offsets: tuple[int, int] | None = self.kafka.get_watermark_offsets(
            TopicPartition(*partition), timeout=TIMEOUT_S, cached=False
        )
        if offsets is None:  # confluent-kafka returns None after the timeout
            raise KafkaException("no answer in time")
        return offsets

    def offsets_at(self, partitions: Collection[Partition], timestamp_ms: int) -> dict[Partition, int | None]:
        """Return the first offset at or after a time; None without one."""
        offsets: dict[Partition, int | None] = {}
        requests = [TopicPartition(*p, timestamp_ms) for p in partitions]
        for answer in self.kafka.offsets_for_times(requests, timeout=TIMEOUT_S):
            if answer.error is not None:
                raise KafkaException(answer.error)
            missing = answer.offset < 0 or answer.offset == OFFSET_END
            offsets[answer.topic, answer.partition] = None if missing else int(answer.offset)
        return offsets

    def commit(self, offsets: Mapping[Partition, int]) -> Mapping[Partition, Exception]:
        """Commit, and wait for the answer, which names the partitions."""
        try:
            answers = self.kafka.commit(offsets=targets_of(offsets), asynchronous=False)
        except KafkaException as e:
            return dict.fromkeys(offsets, e)
        return {(a.topic, a.partition): KafkaException(a.error) for a in answers if a.error is not None}

    def commit_later(self, offsets: Mapping[Partition, int], done: Done) -> None:
        """Commit without waiting. librdkafka answers during a later poll."""
        for end in offsets.items():
            self._pending[end].append(done)
        try:
            self.kafka.commit(offsets=targets_of(offsets), asynchronous=True)
        except KafkaException as e:
            for partition, offset in offsets.items():
                self._pop_request(partition, offset)
            done(e, offsets)

    def _on_commit(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        """Pass on the answer to a commit that nobody waits for. A partition has its own error or the common one."""
        if error is not None and error.code() == KafkaError._NO_OFFSET:
            return  # there was nothing to commit, and no request was sent
        answers: dict[tuple[Done | None, int], tuple[Exception | None, dict[Partition, int]]] = {}
        for o in partitions:
            if o.offset < 0:
                continue
            partition, found = (o.topic, o.partition), o.error or error
            key = self._pop_request(partition, o.offset), 0 if found is None else found.code()
            answer = None if found is None else KafkaException(found)
            answers.setdefault(key, (answer, {}))[1][partition] = o.offset
        for (done, _), (answer, ends) in answers.items():
            if done is not None:
                done(answer, ends)
            else:
                self._answered(ends, answer)

    def _pop_request(self, partition: Partition, offset: int) -> Done | None:
        """Remove and return the oldest request for this offset."""
        requests = self._pending.get((partition, offset))
        if not requests:
            return None
        first = requests.popleft()
        if not requests:
            del self._pending[partition, offset]
        return first

    def store(self, offsets: Mapping[Partition, int]) -> None:
        """Store offsets for the automatic commit."""
        try:
            self.kafka.store_offsets(offsets=targets_of(offsets))
        except KafkaException as e:
            log(f"offsets not stored: {self._library.describe(e)}")

    def membership(self) -> tuple[str | None, int | None]:
        """Return member id and generation; None outside of a group."""
        return membership(self.kafka.consumer_group_metadata())

    def throttled(self) -> dict[str, list[int]]:
        """Return the throttled responses."""
        return self._throttled.progress()

    def close(self) -> None:
        """Close the consumer; a group member leaves its group."""
        self.kafka.close()


def _plain(partitions: Iterable[TopicPartition]) -> list[Partition]:
    return [(p.topic, p.partition) for p in partitions]


def targets_of(offsets: Mapping[Partition, int]) -> list[TopicPartition]:
    """Return offsets in the form of the library."""
    return [TopicPartition(*p, offset) for p, offset in offsets.items()]


def _left_to_library(
    partitions: Collection[Partition],
) -> tuple[list[TopicPartition], dict[Partition, StartPosition]]:
    """Return where reading starts if librdkafka chooses: no offset, and null in the ledger."""
    return [TopicPartition(*p) for p in partitions], {p: StartPosition() for p in partitions}


def membership(metadata: object) -> tuple[str | None, int | None]:
    """Return member id and generation from `Consumer.consumer_group_metadata()`; None if the format is unknown.

    confluent-kafka 2.x returns librdkafka's serialized form: `CGMDv2:`, the generation as a native int32, the group id
    and the member id, each with a trailing zero byte.
    """
    magic = b"CGMDv2:"
    if not isinstance(metadata, bytes) or not metadata.startswith(magic):
        return None, None
    rest = metadata[len(magic) :]
    names = rest[4:].split(b"\0")
    if len(rest) < 4 or len(names) < 3:
        return None, None
    (generation,) = struct.unpack("=i", rest[:4])
    return names[1].decode("utf-8", "replace") or None, generation if generation >= 0 else None


def consumed(messages: Sequence[Message], topics: bool, origins: Origins = Consumer.origins) -> Columns | None:
    """Return the columns of consumed records; None if one of the messages is an error."""
    values = list(map(Message.value, messages))
    headers = own_headers(values)
    if headers is None:  # the value of an error is its text: if all values are ours, none is an error
        if any(map(Message.error, messages)):
            return None
        if origins.elsewhere or None in values:
            values = [origins.of(m.topic(), v, m.headers()) for m, v in zip(messages, values, strict=True)]
        headers = headers_of(values)
    partitions = mostly_same(Message.partition, messages)
    names = list(map(Message.topic, messages)) if topics else None
    epochs = _epochs(messages, partitions, names)
    return Columns(headers, partitions, numbers(Message.offset, messages), epochs, names)


Getter = Callable[[Message], int | None]


def mostly_same(getter: Getter, messages: Sequence[Message]) -> Ints:
    """Return a number of each message. They are usually equal, and then one conversion serves for all."""
    distinct = set(map(getter, messages))
    if len(distinct) > 1:
        return numbers(getter, messages)
    return _repeated(distinct.pop(), len(messages))


def _repeated(number: int | None, times: int) -> Ints:
    return np.full(times, MISSING if number is None else number, np.int64)


def _epochs(messages: Sequence[Message], partitions: Ints, topics: list[str] | None) -> Ints:
    """Return leader epochs. They never decrease along a partition (KIP-101): if both ends agree, all do."""
    if not HAS_EPOCHS:
        return _repeated(None, len(messages))
    epoch = messages[0].leader_epoch()
    if epoch == messages[-1].leader_epoch() and (partitions == partitions[0]).all() and len(set(topics or ())) < 2:
        return _repeated(epoch, len(messages))
    return numbers(Message.leader_epoch, messages)


def numbers(getter: Getter, messages: Sequence[Message]) -> Ints:
    """Return a number of each message; `MISSING` where there is none."""
    try:
        return np.fromiter(map(getter, messages), np.int64, len(messages))
    except TypeError:  # one is None
        return np.array([MISSING if number is None else number for number in map(getter, messages)], np.int64)
