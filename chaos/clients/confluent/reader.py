"""What both kinds of consumers do with the records they poll: process, write, commit, in the order their setting says.

A record is processed when its delivery row is in the ledger. With a processing time, rows are written as it passes, a
few at a time, so a SIGKILL in the middle of a batch leaves exactly the rows of what was processed. While it
processes, a consumer does not poll: one that takes longer than max.poll.interval.ms is really late.

Where nothing is committed after each batch, the rows of several polls are written together: when they are many, when
the first has waited for `WRITE_EVERY_US`, when there is nothing more to poll, and before a rebalance.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from chaos.clients.channel import Channel, listen_for
from chaos.clients.confluent import seeking
from chaos.clients.confluent.assignments import AssignmentLog, Beginning
from chaos.clients.confluent.columns import consumed
from chaos.clients.confluent.commits import Committer
from chaos.clients.confluent.deliveries import DeliveryLog
from chaos.clients.confluent.lifecycle import Lifecycle, life, log
from chaos.clients.protocol import AssignConsumerSpec, GroupConsumerSpec, Partition, partition_name
from chaos.errors import ClientError
from chaos.ledger.writer import TableWriter
from chaos.run.events import now_us

IDLE_POLL_S = 0.1
ROWS_EVERY_S = 0.02
NAP_S = 0.05
WRITE_EVERY_US = 20_000
WRITE_ROWS = 4096

Spec = TypeVar("Spec", bound=GroupConsumerSpec | AssignConsumerSpec)


class Reader:
    """One incarnation of a consumer, but for how it comes to its partitions."""

    def __init__(
        self,
        spec: GroupConsumerSpec | AssignConsumerSpec,
        mode: Literal["subscribe", "assign"],
        channel: Channel,
        lifecycle: Lifecycle,
    ) -> None:
        self._spec, self._channel, self._lifecycle = spec, channel, lifecycle
        who = {"consumer": spec.client, "incarnation": spec.incarnation, "group": spec.group, "mode": mode}
        self.assignments = AssignmentLog(
            TableWriter(spec.ledger, "assignments", spec.writer), spec.client, spec.incarnation, spec.group, mode
        )
        self._deliveries = DeliveryLog(
            TableWriter(spec.ledger, "deliveries", spec.writer),
            spec.client,
            spec.incarnation,
            spec.group,
            mode,
            spec.topics,
        )
        commits = TableWriter(spec.ledger, "commits", spec.writer)
        self._committer = Committer(commits, who, spec.commit, spec.config, self.assignments.last_numbers)
        when, kind = spec.commit.when, spec.commit.kind
        self._gathers = when in ("never", "periodic") or (when == "after_batch" and kind == "auto")
        self._slow_s = 0.0
        self._sought: list[tuple[str, int | None, int]] = []
        self.between_polls: Callable[[Consumer], None] = lambda _: None
        """What its owner has to do between two polls."""

    def settings(self, group_id: str) -> dict[str, Any]:
        """The settings of its consumer; the user's win, but for those that are the scenario's own keys."""
        return {
            **self._spec.connection(),
            "group.id": group_id,
            "on_commit": self._committer.on_commit,
            "error_cb": lambda e: log(f"{e.name()}: {e.str()}"),
            **self._spec.config,
            **self._committer.settings(),
        }

    def read(self, consumer: Consumer) -> None:
        """Poll and process until the order to stop. Raises `ClientError` when the consumer cannot go on."""
        while not self._channel.stopping:
            # what is there already, or else the next record as soon as it comes: a batch is never waited for
            batch = consumer.consume(self._spec.max_poll_records, 0.0)
            if not batch:
                self.write_all(consumer)
                batch = consumer.consume(1, IDLE_POLL_S)
            polled_us = now_us()
            if batch:
                self._process(consumer, batch, polled_us)
            self._notice_speed()
            self._obey_seeks(consumer)
            self.between_polls(consumer)
            if self._channel.progress_due():
                self.progress()
        self.settle(consumer)

    def settle(self, consumer: Consumer) -> None:
        """Finish what was polled: its partitions may be about to be taken away, or read from elsewhere."""
        self.write_all(consumer)

    def ended(self, consumer: Consumer, event: Literal["revoked", "lost"], partitions: Sequence[Partition]) -> None:
        """Partitions are taken away: the last moment for their rows, and unless they are lost, for their commits."""
        self.settle(consumer)
        if event == "revoked":
            self._committer.revoked(consumer, partitions)
        else:
            self._committer.forget(partitions)
        self.assignments.ended(event, partitions)
        self.progress()

    def _obey_seeks(self, consumer: Consumer) -> None:
        while self._channel.seeks and self.assignments.numbers:
            order = self._channel.seeks.popleft()
            self.settle(consumer)
            try:
                targets = seeking.targets(order, list(self.assignments.numbers), consumer)
                before = dict(self.assignments.positions)
                seeking.seek(consumer, targets)
            except KafkaException as e:
                self._lifecycle.error(f"seek failed: {e}")
                continue
            self._committer.forget(targets)
            self.assignments.sought({p: Beginning(offset, "seek") for p, offset in targets.items()})
            self._sought += [(partition_name(p), before.get(p), offset) for p, offset in targets.items()]
            self.progress()

    def write_all(self, consumer: Consumer) -> None:
        """Write the rows of records that still wait for it, and then let their offsets go."""
        self._committer.after_batch(consumer, self._write())

    def _write(self) -> dict[Partition, int]:
        ends = self._deliveries.write(self.assignments.numbers)
        self.assignments.processed(ends)
        return ends

    def close(self) -> None:
        """After the consumer was closed: write what is left to write."""
        self._committer.close()
        self.progress()

    def progress(self) -> None:
        """Tell how far it is."""
        sought = {"sought": self._sought} if self._sought else {}
        self._channel.progress(delivered=self._deliveries.delivered, **self.assignments.told(), **sought)

    def _without_errors(self, batch: Sequence[Message]) -> list[Message]:
        for message in batch:
            error = message.error()
            if error is None or error.code() == KafkaError._PARTITION_EOF:
                continue
            words = f"{error.name()}: {error.str()}"
            if error.fatal():
                raise ClientError(words)
            self._lifecycle.error(words)
        return [m for m in batch if m.error() is None]

    def _process(self, consumer: Consumer, batch: Sequence[Message], polled_us: int) -> None:
        records = consumed(batch, self._deliveries.needs_topics)
        if records is None:
            self.write_all(consumer)
            batch = self._without_errors(batch)
            records = consumed(batch, self._deliveries.needs_topics) if batch else None
        if records is None:
            return
        if self._spec.commit.when == "before_processing":
            self._committer.before_processing(consumer, self._deliveries.next_offsets(records))
        if self._gathers and not self._per_record_s():
            self._deliveries.add(records, polled_us)
            if self._deliveries.waiting >= WRITE_ROWS or polled_us - self._deliveries.waiting_since_us > WRITE_EVERY_US:
                self.write_all(consumer)
            return
        self.write_all(consumer)
        done: dict[Partition, int] = {}
        start = 0
        while start < len(records):
            group = records.cut(start, self._group_size(len(records)))
            if not self._work(len(group)):
                break
            self._deliveries.add(group, polled_us)
            ends = self._write()
            self._committer.after_record(consumer, ends)
            done |= ends
            start += len(group)
        self._committer.after_batch(consumer, done)

    def _per_record_s(self) -> float:
        return self._spec.per_record_s + self._channel.per_record_s

    def _group_size(self, batch: int) -> int:
        if self._spec.commit.when == "after_record":
            return 1
        per_record_s = self._per_record_s()
        return max(1, int(ROWS_EVERY_S / per_record_s)) if per_record_s else batch

    def _work(self, records: int) -> bool:
        """Let the processing time of some records pass; False if the order to stop came before its end."""
        began = time.monotonic()
        while (left := began + records * self._per_record_s() - time.monotonic()) > 0:
            time.sleep(min(left, NAP_S))
            if self._channel.stopping:
                return False
            self._notice_speed()
            if self._channel.progress_due():
                self.progress()
        return not self._channel.orphaned

    def _notice_speed(self) -> None:
        ordered = self._channel.per_record_s
        if ordered != self._slow_s:
            self._slow_s = ordered
            self._lifecycle.event("slowed" if ordered else "resumed", per_record_s=ordered)


class Consuming(Protocol):
    """A consumer of either kind."""

    def run(self) -> None:
        """Read until the order to stop."""


def run_consumer(spec: Spec, build: Callable[[Spec, Channel, Lifecycle], Consuming], **started: object) -> int:
    """Run one life of a consumer; returns the exit code. `started` goes into the detail of its first event."""
    channel = Channel()
    _live(spec, build, channel, **started)
    if channel.orphaned:
        os._exit(1)
    return 0


def run_threads(specs: Sequence[Spec], build: Callable[[Spec, Channel, Lifecycle], Consuming]) -> int:
    """Run one life of several consumers, each in a thread of its own; returns the exit code."""
    channels = [Channel(spec.client) for spec in specs]
    failed: list[str] = []

    def live(spec: Spec, channel: Channel) -> None:
        try:
            _live(spec, build, channel)
        except Exception:
            failed.append(spec.client)
            raise

    threads = [threading.Thread(target=live, args=one, name=one[0].client) for one in zip(specs, channels, strict=True)]
    for thread in threads:
        thread.start()
    listen_for(channels)
    for thread in threads:
        thread.join()
    if any(channel.orphaned for channel in channels):
        os._exit(1)
    return 1 if failed else 0


def _live(
    spec: Spec, build: Callable[[Spec, Channel, Lifecycle], Consuming], channel: Channel, **started: object
) -> None:
    with life(spec, "consumer", channel) as lifecycle:
        consumer = build(spec, channel, lifecycle)
        lifecycle.event("started", **started)
        gc.disable()  # messages by the hundred thousand, none in a cycle
        consumer.run()
    if not channel.orphaned:
        lifecycle.event("stopped")
