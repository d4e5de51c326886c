"""Topics of one cluster with records of known content, and their comparison in this process."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from chaos.compare.folder import place
from chaos.compare.model import ComparisonResult, Side
from chaos.compare.pairs import Chosen, prepared
from chaos.kafka.security import Security
from chaos.run.directory import Run
from chaos.run.events import read_events
from chaos.wait import wait_until
from checks.compare.stage import compare

FIRST_MS = int(time.time() * 1000) - 600_000
"""Neither so early that retention removes a record, nor so late that a broker refuses it."""


class Sent(NamedTuple):
    """A record to produce. at: milliseconds after the first timestamp."""

    key: str | None
    value: str | None
    partition: int = 0
    at: int = 0

    def to(self, topic: str) -> dict[str, object]:
        """Return the arguments of `Producer.produce`."""
        return {
            "topic": topic,
            "key": self.key,
            "value": self.value,
            "partition": self.partition,
            "timestamp": FIRST_MS + self.at,
        }


def sent(count: int, partitions: int = 2) -> list[Sent]:
    """Return records with different keys, round robin over partitions."""
    return [Sent(f"k{n}", f"v{n}", n % partitions, n) for n in range(count)]


class Topics:
    """The topics A and B of a test, both in one cluster."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bootstrap, self._folder = bootstrap, folder
        self.a = f"compare-{secrets.token_hex(4)}"
        self.b = f"{self.a}-copy"
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def create(self, partitions: tuple[int, int] = (2, 2), config: Mapping[str, str] | None = None) -> None:
        """Create both."""
        topics = [
            NewTopic(t, n, 1, config=dict(config or {})) for t, n in zip((self.a, self.b), partitions, strict=True)
        ]
        for created in self.admin.create_topics(topics).values():
            created.result(30)
        self._await_leaders({self.a, self.b})

    def configure(self, topic: str, config: Mapping[str, str]) -> None:
        """Give a topic these settings, and no others."""
        (done,) = self.admin.alter_configs([ConfigResource("topic", topic, dict(config))]).values()
        done.result(30)

    def create_again(self, topic: str, partitions: int = 2) -> None:
        """Delete a topic and create it again."""
        if topic in self.admin.list_topics(timeout=10).topics:
            self.delete(topic)
        self.admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
        self._await_leaders({topic})

    def delete(self, topic: str) -> None:
        """Delete a topic, and wait until it is gone."""
        self.admin.delete_topics([topic])[topic].result(30)
        wait_until(lambda: topic not in self.admin.list_topics(timeout=10).topics, 30, "the topic is still there")

    def _await_leaders(self, topics: set[str]) -> None:
        def led() -> bool:
            known = self.admin.list_topics(timeout=10).topics
            return all(t in known and all(p.leader >= 0 for p in known[t].partitions.values()) for t in topics)

        wait_until(led, 30, "topics have no leaders")

    def produce(self, topic: str, records: Sequence[Sent]) -> None:
        """Append records in their order."""
        _append(Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True}), topic, records)

    def transaction(self, topic: str, records: Sequence[Sent]) -> Producer:
        """Append records in a transaction that stays open."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": secrets.token_hex(4)})
        producer.init_transactions(30)
        producer.begin_transaction()
        _append(producer, topic, records)
        return producer

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Remove the start of a log."""
        (deleted,) = self.admin.delete_records([TopicPartition(topic, partition, offset)]).values()
        deleted.result(30)

    def compared(self, timestamps: bool = False, settings: bool = False) -> ComparisonResult:
        """Compare A with B and return the result."""
        side = Side(bootstrap=self.bootstrap, security=Security())
        asked = prepared(side, side, Chosen([self.a], self.b), timestamps)
        return self.judged(place(self._folder, None, asked.model_copy(update={"settings": settings})))

    @staticmethod
    def judged(run: Run) -> ComparisonResult:
        """Compare what a folder asks for."""
        compare(run)
        return ComparisonResult.model_validate_json(run.result.read_text(encoding="utf-8"))


def reading(run: Run) -> None:
    """Wait until a comparison reads records."""

    def begun() -> bool:
        return run.events.exists() and any(e.get("stage") == "readback" for e in read_events(run))

    wait_until(begun, 120, "nothing is read")


def _append(producer: Producer, topic: str, records: Sequence[Sent]) -> None:
    errors: list[object] = []
    for record in records:
        producer.produce(**record.to(topic), on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert errors == [None] * len(records)
