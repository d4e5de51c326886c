"""The observer: samples what the cluster shows to the outside, and records every change.

Its table `cluster` is what proofs of faults, attribution and the pictures stand on. Three threads, because a question
to a dead broker waits for its time-out and must not hold up the others: metadata, groups, offsets.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from typing import Any

from chaos.kafka.client import Kafka
from chaos.kafka.groups import GroupState
from chaos.kafka.metadata_merge import Metadata, PartitionState
from chaos.kafka.partition import TopicPartition
from chaos.ledger.writer import TableWriter
from chaos.run.directory import Run
from chaos.run.events import now_us

METADATA_EVERY_S = 0.15
GROUPS_EVERY_S = 0.3
OFFSETS_EVERY_S = 0.5
OFFSETS_TOPIC = "__consumer_offsets"


class Observer:
    """Samples while it is started; `metadata` and `groups` hold the latest answers."""

    def __init__(
        self,
        run: Run,
        connect: Callable[[], Kafka],
        partitions: Sequence[TopicPartition],
        groups: Sequence[str],
        later: Collection[str] = (),
    ) -> None:
        """`partitions` are there from the start; `later` are topics that may appear, of which all are followed too."""
        self.metadata: Metadata | None = None
        self.groups: dict[str, GroupState] = {}
        self.broken: OSError | None = None
        """Why it can record no more, such as a full disk: the run is blind from then on."""
        self._connect = connect
        self._partitions = list(partitions)
        self._topics = {partition.topic for partition in partitions} | set(later)
        self._group_ids = list(groups)
        self._writer = TableWriter(run.ledger, "cluster", "observer")
        self._known: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._samples: list[tuple[float, Callable[[Kafka], None]]] = [
            (METADATA_EVERY_S, self._sample_metadata),
            (GROUPS_EVERY_S, self._sample_groups),
            (OFFSETS_EVERY_S, self._sample_offsets),
        ]
        self._threads = [
            threading.Thread(target=self._every, args=one, daemon=True, name=f"observer-{one[1].__name__}")
            for one in self._samples
        ]

    def __enter__(self) -> Observer:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(timeout=15)
        kafka = self._connect()
        for _, sample in self._samples:  # a last look: what changed since the threads' own
            sample(kafka)
        kafka.close()
        with self._lock:
            self._writer.close()

    def partition(self, name: TopicPartition) -> PartitionState | None:
        """A partition as last seen."""
        return self.metadata.partitions.get(name) if self.metadata else None

    def partitions(self, topics: Collection[str] | None = None) -> list[TopicPartition]:
        """All partitions of the run's topics, or of some of these, that have been seen: more may appear meanwhile."""
        return [name for name in self._partitions if topics is None or name.topic in topics]

    def _every(self, seconds: float, sample: Callable[[Kafka], None]) -> None:
        kafka = self._connect()
        try:
            while not self._stopping.is_set():
                sample(kafka)
                self._stopping.wait(seconds)
        except OSError as e:  # of the ledger: questions to brokers never raise
            self.broken = e
        kafka.close()

    def _sample_metadata(self, kafka: Kafka) -> None:
        metadata = kafka.metadata()
        if metadata is None:
            self._record([("cluster", "answers", False)])
            return
        seen: list[tuple[str, str, Any]] = [
            ("cluster", "answers", True),
            ("cluster", "brokers", list(metadata.brokers)),
        ]
        known = set(self._partitions)
        new = [n for n in metadata.partitions if n not in known and n.topic in self._topics]
        self._partitions = [*self._partitions, *new]  # a new list: the other threads go through the old one
        for name in self._partitions:
            if (state := metadata.partitions.get(name)) is not None:
                seen += [(str(name), "leader", state.leader), (str(name), "isr", list(state.isr))]
                seen.append((str(name), "leader_epoch", state.leader_epoch))
        if self._group_ids:
            seen += _offsets_topic(metadata)
        self._record(seen)
        self.metadata = metadata

    def _sample_groups(self, kafka: Kafka) -> None:
        for group in self._group_ids:
            state = kafka.group(group)
            if state is None:
                self._record([(f"group:{group}", "answers", False)])
                continue
            members = [{**asdict(m), "partitions": list(map(str, m.partitions))} for m in state.members]
            seen: list[tuple[str, str, Any]] = [
                (f"group:{group}", "answers", True),
                (f"group:{group}", "state", state.state),
                (f"group:{group}", "coordinator", state.coordinator),
                (f"group:{group}", "members", members),
            ]
            committed = kafka.committed(group, self._partitions) or {}
            seen += [(f"group:{group}/{p}", "committed", offset) for p, offset in committed.items()]
            self._record(seen)
            self.groups[group] = state

    def _sample_offsets(self, kafka: Kafka) -> None:
        found = kafka.stable_offsets(self._partitions)
        seen: list[tuple[str, str, Any]] = []
        for name in self._partitions:
            seen.append((str(name), "offsets_answer", name in found))
            if name in found:
                end, stable = found[name]
                seen += [(str(name), "end_offset", end), (str(name), "last_stable_offset", stable)]
        self._record(seen)

    def _record(self, seen: list[tuple[str, str, Any]]) -> None:
        """Write what changed since it was last seen."""
        with self._lock:
            at, rows = now_us(), []
            for entity, key, value in seen:
                text = json.dumps(value, separators=(",", ":"))
                if self._known.get((entity, key)) != text:
                    self._known[entity, key] = text
                    rows.append({"at_us": at, "entity": entity, "key": key, "value": text})
            if rows:
                self._writer.append_rows(rows)


def _offsets_topic(metadata: Metadata) -> list[tuple[str, str, Any]]:
    """How many partitions `__consumer_offsets` has and who leads them: group coordinators hang on that."""
    mine = {name: p for name, p in metadata.partitions.items() if name.topic == OFFSETS_TOPIC}
    if not mine:
        return []
    return [(OFFSETS_TOPIC, "partitions", len(mine)), *((str(name), "leader", p.leader) for name, p in mine.items())]
