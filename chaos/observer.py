"""The observer: samples the state of the cluster from outside, and records every change in the table `cluster`.

Fault proofs, attribution and the pictures of the report read that table. Metadata, groups and offsets have one thread
each, because a request to a dead broker waits for its time-out and must not delay the other samples.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from time import monotonic
from typing import Any, Self

from chaos.kafka.client import Belief, GroupState, Kafka, ask_controller, share_positions
from chaos.kafka.connection import BrokerConnection
from chaos.kafka.metadata import Metadata, PartitionState
from chaos.kafka.partition import TopicPartition
from chaos.kafka.security import Access
from chaos.ledger.stream import TableWriter
from chaos.run.directory import Run
from chaos.run.events import now_us

METADATA_EVERY_S = 0.15
GROUPS_EVERY_S = 0.3
OFFSETS_EVERY_S = 0.5
LATENESS_EVERY_S = 0.3
END_S = 15.0
"""Time for a thread to end its current sample."""
LATE_S = 1.0
"""Age from which on the latest sample of a group is late: other groups, or a broker that does not answer, delay it."""
OFFSETS_TOPIC = "__consumer_offsets"

Observation = tuple[str, str, Any]
"""Entity, key and JSON value; see `cluster` in `chaos.ledger.schemas`."""


class _Sampling:
    """Threads that sample inside a context until `_stopping`. Each ends after its current sample."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def _add_thread(self, name: str, repeat: Callable[..., None], *args: Any) -> None:
        self._threads.append(threading.Thread(target=repeat, args=args, daemon=True, name=name))

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(timeout=END_S)


class Observer(_Sampling):
    """Samples the cluster inside its context.

    metadata: the latest metadata, or None before the first answer.
    groups: the latest state of each group.
    broken: why nothing can be recorded any more, such as a full disk; else None.
    """

    def __init__(
        self,
        run: Run,
        connect: Callable[[], Kafka],
        partitions: Sequence[TopicPartition],
        groups: Sequence[str],
        later: Collection[str] | None = (),
    ) -> None:
        """`partitions` exist from the start. All partitions of the topics in `later` are added when they appear; None:
        of all topics that are not internal.
        """
        super().__init__()
        self.metadata: Metadata | None = None
        self.groups: dict[str, GroupState] = {}
        self.broken: OSError | None = None
        self._connect = connect
        self._partitions = list(partitions)
        self._topics = {partition.topic for partition in partitions} | set(later or ())
        self._follows_all = later is None
        self._group_ids = list(groups)
        self._sampled_s: dict[str, float] = {}
        self._ids: dict[str, str | None] = {}
        self._writer = TableWriter(run.ledger, "cluster", "observer")
        self._recorded: dict[tuple[str, str], str] = {}
        self._recorded_s: dict[tuple[str, str], float] = {}
        self._lock = threading.Lock()
        self._samples: list[tuple[float, Callable[[Kafka], None]]] = [
            (METADATA_EVERY_S, self._sample_metadata),
            (GROUPS_EVERY_S, self._sample_groups),
            (OFFSETS_EVERY_S, self._sample_offsets),
            (LATENESS_EVERY_S, self._record_lateness),
        ]
        for every_s, sample in self._samples:
            self._add_thread(f"observer-{sample.__name__}", self._repeat, every_s, sample)

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        kafka = self._connect()
        for _, sample in self._samples:  # records changes after the last samples of the threads
            sample(kafka)
        kafka.close()
        with self._lock:
            self._writer.close()

    def partition(self, partition: TopicPartition) -> PartitionState | None:
        """Return the latest state of a partition; None before the first answer."""
        return self.metadata.partitions.get(partition) if self.metadata else None

    def partitions(self, topics: Collection[str] | None = None) -> list[TopicPartition]:
        """Return the partitions observed so far, of all topics of the run or only of `topics`."""
        return [partition for partition in self._partitions if topics is None or partition.topic in topics]

    def note(self, entity: str, key: str, value: object) -> None:
        """Record something that was observed elsewhere, if it changed."""
        self._record([(entity, key, value)])

    def unchanged_s(self, group: str) -> float:
        """Return for how long a group has answered with the same state and members, in s; 0 before an answer."""
        with self._lock:
            since_s = [self._recorded_s.get((f"group:{group}", key)) for key in ("state", "members", "answers")]
        return min(monotonic() - at_s if at_s is not None else 0.0 for at_s in since_s)

    def _repeat(self, every_s: float, sample: Callable[[Kafka], None]) -> None:
        kafka = self._connect()
        try:
            while not self._stopping.is_set():
                sample(kafka)
                self._stopping.wait(every_s)
        except OSError as e:  # from the ledger: requests to brokers do not raise it
            self.broken = e
        kafka.close()

    def _sample_metadata(self, kafka: Kafka) -> None:
        metadata = kafka.metadata()
        if metadata is None:
            self._record([("cluster", "answers", False)])
            return
        observations: list[Observation] = [
            ("cluster", "answers", True),
            ("cluster", "brokers", list(metadata.brokers)),
        ]
        observations += self._sample_topics(metadata)
        if self._follows_all:
            self._topics |= {p.topic for p in metadata.partitions if not p.topic.startswith("__")}
        present = set(self._partitions)
        new = [p for p in metadata.partitions if p not in present and p.topic in self._topics]
        self._partitions = [*self._partitions, *new]  # a new list, because other threads iterate over the old one
        for partition in self._partitions:
            if (state := metadata.partitions.get(partition)) is not None:
                name = str(partition)
                observations += [
                    (name, "leader", state.leader),
                    (name, "isr", list(state.isr)),
                    (name, "leader_epoch", state.leader_epoch),
                ]
        if self._group_ids:
            observations += _offsets_topic(metadata)
        self._record(observations)
        self.metadata = metadata

    def _sample_topics(self, metadata: Metadata) -> list[Observation]:
        """Return the ids of the topics, and forget the partitions of a topic that was deleted.

        A topic that the brokers list without an id has the empty id, one that they do not list has none.
        """
        listed = {partition.topic for partition in metadata.partitions}
        ids = {t: metadata.topic_ids.get(t, "") if t in listed else None for t in sorted(self._topics)}
        ended = {t for t, topic_id in self._ids.items() if topic_id is not None and ids[t] != topic_id}
        self._partitions = [p for p in self._partitions if p.topic not in ended]
        self._ids = ids
        if ended:  # what is observed of a topic that takes the place is recorded, even if it is the same
            with self._lock:
                of_ended = [key for key in self._recorded if key[0].rpartition("/")[0].rpartition("/")[2] in ended]
                for key in of_ended:
                    del self._recorded[key]
        return [(f"topic:{topic}", "id", topic_id) for topic, topic_id in ids.items()]

    def _sample_groups(self, kafka: Kafka) -> None:
        for group in self._group_ids:
            entity, asked_s = f"group:{group}", monotonic()
            state = kafka.group(group)
            if state is not None:
                self.groups[group] = state
            positions = self._positions(kafka, group, state) if state else None
            if state is None or positions is None:  # a sample is whole, or it is none
                self._record([(entity, "answers", False)])
                continue
            self._sampled_s[group] = asked_s
            self._record([*_of_group(entity, state), *positions])

    def _positions(self, kafka: Kafka, group: str, state: GroupState) -> list[Observation] | None:
        """Return how far a group is in each partition; None without an answer."""
        entity = f"group:{group}"
        if not state.shares:
            committed = kafka.committed_or_none(group, self._partitions, state.coordinator)
            return None if committed is None else [*self._committed(entity, committed)]
        shared = share_positions(kafka, group, self._partitions, state.coordinator)
        return (
            None
            if shared is None
            else [
                (f"{entity}/{partition}", key, value)
                for partition, at in shared.items()
                for key, value in (("share_start", at.start), ("share_lag", at.lag))
                if value is not None
            ]
        )

    def _record_lateness(self, _: Kafka) -> None:
        """Record which groups have a late sample: their values may have changed since."""
        late_s = monotonic() - LATE_S
        self._record([(f"group:{g}", "late", True) for g, sampled_s in self._sampled_s.items() if sampled_s < late_s])

    def _committed(self, entity: str, committed: dict[TopicPartition, int | None]) -> Iterator[Observation]:
        """Yield the committed offsets of a group, and null for an offset that was observed before and is gone."""
        for partition, offset in committed.items():
            name = f"{entity}/{partition}"
            if offset is not None or (name, "committed") in self._recorded:
                yield name, "committed", offset

    def _sample_offsets(self, kafka: Kafka) -> None:
        offsets = kafka.stable_offsets(self._partitions)
        observations: list[Observation] = []
        for partition in self._partitions:
            name = str(partition)
            observations.append((name, "offsets_answer", partition in offsets))
            if partition in offsets:
                end, stable = offsets[partition]
                observations += [(name, "end_offset", end), (name, "last_stable_offset", stable)]
        self._record(observations)

    def _record(self, observations: list[Observation]) -> None:
        """Write the observations with another value than the last one recorded."""
        with self._lock:
            at_us, rows = now_us(), []
            for entity, key, value in observations:
                text = json.dumps(value, separators=(",", ":"))
                if self._recorded.get((entity, key)) != text:
                    self._recorded[entity, key], self._recorded_s[entity, key] = text, monotonic()
                    rows.append({"at_us": at_us, "entity": entity, "key": key, "value": text})
            if rows:
                self._writer.append_rows(rows)


def _of_group(entity: str, state: GroupState) -> list[Observation]:
    """Return what a sample shows of a group as a whole."""
    members = [{**asdict(m), "partitions": [*map(str, m.partitions)]} for m in state.members]
    return [
        (entity, "answers", True),
        (entity, "late", False),
        (entity, "state", state.state),
        (entity, "coordinator", state.coordinator),
        (entity, "members", members),
    ]


def _offsets_topic(metadata: Metadata) -> list[Observation]:
    """Return the number of partitions of `__consumer_offsets` and their leaders, which determine the coordinators."""
    partitions = {p: state for p, state in metadata.partitions.items() if p.topic == OFFSETS_TOPIC}
    if not partitions:
        return []
    leaders = [(str(p), "leader", state.leader) for p, state in partitions.items()]
    return [(OFFSETS_TOPIC, "partitions", len(partitions)), *leaders]


QUORUM_EVERY_S = 0.2
QUORUM_TIMEOUT_S = 1.0

Note = Callable[[str, str, object], None]
"""Records an entity, a key and a value if it changed."""


class QuorumWatch(_Sampling):
    """Asks each dedicated controller inside its context whether it believes to be active.

    Brokers name one active controller only. A controller that is cut off from the others may go on as the active one,
    and only its own answers show that. The table `cluster` gets, for the entity `controller:<id>`:

    - `active`: the epoch in which it believes to be active; null if it does not, or does not answer;
    - `active_last`: `{"epoch": …, "asked_us": …}` when it ends: the time of the last request answered as active.

    The first answer after silence does not count: a process that was paused may answer before it looks at its clock.
    """

    def __init__(
        self, controllers: Mapping[int, tuple[str, int]], note: Note, access: Callable[[int], Access | None]
    ) -> None:
        """`controllers` are the addresses by node id; without any, nothing is watched. access: how to log in to one."""
        super().__init__()
        self._access = access
        self._note = note
        for node, at in controllers.items():
            self._add_thread(f"quorum-watch-{node}", self._repeat, node, at)

    def _repeat(self, node: int, at: tuple[str, int]) -> None:
        link, track = BrokerConnection(*at, self._access(node)), Track(node, self._note)
        while not self._stopping.is_set():
            track.add(ask_controller(node, link, QUORUM_TIMEOUT_S))
            self._stopping.wait(QUORUM_EVERY_S)
        track.end()
        link.close()


class Track:
    """The answers of one controller in order, and what is recorded of them."""

    def __init__(self, node: int, note: Note) -> None:
        self.belief: Belief | None = None
        self._entity, self._note = f"controller:{node}", note
        self._silent = True

    def add(self, answer: Belief | None) -> None:
        """Take the next answer; None if there was none."""
        ignored, self._silent = self._silent and answer is not None, answer is None
        if ignored:
            return
        if self.belief is not None and (answer is None or answer.epoch != self.belief.epoch):
            self.end()
        self.belief = answer
        self._note(self._entity, "active", answer.epoch if answer else None)

    def end(self) -> None:
        """Record the last answer as the active one, if there is one."""
        if self.belief is not None and self.belief.epoch is not None:
            last = {"epoch": self.belief.epoch, "asked_us": self.belief.asked_us}
            self._note(self._entity, "active_last", last)
