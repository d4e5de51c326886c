"""Histories written by hand, each with a separate topic and group, so that one audit judges them all."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from chaos.ledger.record import run_token
from chaos.ledger.schemas import COMMIT_LOG, COMMIT_LOG_RANGE, LOG, LOG_RANGE, TABLES
from chaos.ledger.seal import Seal, SealedTable, part_name
from chaos.run.directory import Run
from chaos.scenario.model import Scenario
from chaos.scenario.resolve import Resolved

RUN_ID = "audit-tests"
TOKEN = run_token(RUN_ID)
STEP_US = 1_000
SHARE_SETTINGS: dict[str, Any] = {
    "share.auto.offset.reset": "earliest",
    "share.record.lock.duration.ms": 60_000,
    "share.delivery.count.limit": 10,
}
STRATEGY = "partition.assignment.strategy"
CLASSES = {
    "mine": "org.example.Mine",
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
}
Rows = dict[str, list[dict[str, Any]]]


@dataclass
class Story:
    """A history on one topic. Each call happens one millisecond after the one before.

    second_entry: settings of a second entry of the same group, or of `second_group`; its first consumer is reader 0.
    added: partitions of the topic in addition to the number in the scenario.
    """

    name: str
    number: int = 0
    now: int = 1_000_000
    partitions: int = 1
    added: int = 0
    log_start: int = 0
    log_end: int | None = None
    read_from_us: int | None = None
    read_us: int | None = None
    topic_config: dict[str, Any] = field(default_factory=dict)
    producer_config: dict[str, Any] = field(default_factory=lambda: {"acks": "all"})
    sending: dict[str, Any] = field(default_factory=dict)
    mode: str = ""
    members: int = 1
    consumer_config: dict[str, Any] = field(default_factory=lambda: {"auto.offset.reset": "earliest"})
    consumer: dict[str, Any] = field(default_factory=dict)
    second_entry: dict[str, Any] = field(default_factory=dict)
    second_group: str = ""
    rows: Rows = field(default_factory=lambda: defaultdict(list))
    assignment: int = 0
    ordinal: int = 0
    exists: bool = True
    processes: bool = False
    spans: bool = False
    counts: bool = False
    out_start: int = 0

    @property
    def out(self) -> str:
        """The output topic of a processor, or the second topic of a producer."""
        return f"{self.name}-out"

    @property
    def producer(self) -> str:
        return f"p{self.number}/1"

    @property
    def transactional(self) -> bool:
        """Whether the producer writes in transactions: the ledger has some, or the observer looks after them."""
        seen = any(row["key"] == "last_stable_offset" for row in self.rows["cluster"])
        return seen or bool(self.rows["transactions"]) or any(row.get("txn") for row in self.rows["sends"])

    def reader(self, n: int = 1) -> str:
        """The n-th consumer process; 0 is the process of the second entry."""
        return f"c{self.number}/{n}" if n else f"d{self.number}/1"

    def group_of(self, consumer: str) -> str:
        return self.second_group if self.second_group and consumer == self.reader(0) else self.name

    def sent_us(self, seq: int | None) -> int | None:
        """When a record was sent first, as its value says; a minute ago if no row of `sends` knows it."""
        if seq is None:
            return None
        return next((r["invoked_us"] for r in self.rows["sends"] if r["seq"] == seq), self.now - 60_000_000)

    def tick(self, us: int = STEP_US) -> int:
        self.now += us
        return self.now

    def send(self, seq: int, offset: int | None = None, outcome: str = "ok", **more: Any) -> Story:
        row = {"producer": self.producer, "incarnation": 1, "seq": seq, "topic": self.name, "partition": 0}
        row |= {"offset": offset, "outcome": outcome, "invoked_us": self.now, "completed_us": self.tick()}
        self.rows["sends"].append(row | more)
        return self

    def log(self, offset: int, seq: int | None, **more: Any) -> Story:
        row = {"topic": self.name, "partition": 0, "offset": offset, "timestamp_us": self.now, "run": TOKEN}
        row |= {"producer": self.producer, "incarnation": 1, "seq": seq, "crc_ok": True, "committed": True}
        if every := self.sending.get("tombstone_every"):
            row["tombstone"] = seq is not None and (seq + 1) % every == 0
        if seq is None:
            row |= {"run": None, "producer": None, "incarnation": None, "crc_ok": None}
        self.rows["log"].append(row | more)
        return self

    def wrote(self, *seqs: int, **more: Any) -> Story:
        """Acknowledged and in the log, at the offset of the same number."""
        for seq in seqs:
            self.send(seq, seq, **more).log(seq, seq, **more)
        return self

    def keyed(self, *keys: str) -> Story:
        """Acknowledged and in the log: at offset 0, 1, ... a record of each key, which processors count."""
        self.counts, self.sending = True, {"keys": 9} | self.sending
        for offset, key in enumerate(keys):
            self.send(offset, offset).log(offset, offset, key=key)
        return self

    def compacted(self) -> Story:
        self.sending = {"keys": 9} | self.sending
        return self._cleaned("compact")

    def evicted(self, below: int) -> Story:
        """Size retention deleted the records below an offset."""
        self.log_start = below
        self.topic_config["retention.bytes"] = 1000
        return self._cleaned("delete")

    def _cleaned(self, policy: str) -> Story:
        before = self.topic_config.get("cleanup.policy")
        self.topic_config["cleanup.policy"] = f"{before},{policy}" if before else policy
        return self

    def read_back(self, took_us: int = 0) -> Story:
        """The log has been read by now."""
        self.read_us = self.tick(STEP_US + took_us)
        self.read_from_us = self.read_us - took_us
        return self

    def deleting(self, held_ms: int = 1_000) -> Story:
        """In a compacted topic, seq 1, 3, 5, ... are tombstones."""
        self.compacted()
        self.topic_config |= {"delete.retention.ms": held_ms}
        self.sending |= {"tombstone_every": 2}
        return self

    def life(self, client: str, *events: str, incarnation: int = 1, role: str = "producer") -> Story:
        for event in events:
            row = {"client": client, "role": role, "incarnation": incarnation, "event": event, "detail": "{}"}
            self.rows["lifecycle"].append(row | {"at_us": self.tick()})
        return self

    def observed(self, key: str, value: Any, entity: str | None = None) -> Story:
        entity = entity or f"{self.name}/0"
        self.rows["cluster"].append({"at_us": self.tick(), "entity": entity, "key": key, "value": str(value)})
        return self

    def output(
        self,
        seq: int,
        of: int | None,
        seen: bool | None = True,
        life: int = 1,
        by: str | None = None,
        partition: int = 0,
        **counted: Any,
    ) -> Story:
        """A processor's output of the record at an offset, acknowledged and in the log; seen: by readers.

        Its own offset is the seq. of: None for an output without coordinates. by: another producer.
        counted: the count that it carries, and its key.
        """
        self.processes, offset = True, seq
        source: dict[str, Any] = {"input_topic": self.name, "input_partition": 0, "input_offset": of}
        source = source if of is not None else {}
        who = {"producer": by or self.reader(), "incarnation": life, "topic": self.out, "partition": partition}
        return self.send(seq, offset, **who, **source).log(offset, seq, committed=seen, **who, **source, **counted)

    def transaction(self, txn: int, outcome: str, began_us: int, **more: Any) -> Story:
        row = {"producer": self.producer, "incarnation": 1, "txn": txn, "outcome": outcome, "began_us": began_us}
        self.rows["transactions"].append(row | {"ended_us": self.tick()} | more)
        return self

    def in_transaction(self, txn: int, outcome: str, *seqs: int, seen: bool | None = None) -> Story:
        """Acknowledged in one transaction, which then ended; seen: by read_committed readers."""
        began = self.now
        for seq in seqs:
            self.wrote(seq, txn=txn)
            self.rows["log"][-1].pop("txn")
            self.rows["log"][-1]["committed"] = outcome == "committed" if seen is None else seen
        return self.transaction(txn, outcome, began)

    def in_both(self, txn: int, outcome: str, *seqs: int) -> Story:
        """Acknowledged in one transaction, the records in turn in this topic and in the second one."""
        self.spans, began = True, self.now
        for seq in seqs:
            place = {"topic": (self.name, self.out)[seq % 2]}
            self.send(seq, seq // 2, txn=txn, **place).log(seq // 2, seq, committed=outcome == "committed", **place)
        return self.transaction(txn, outcome, began)

    def offsets_observed(self, stable: int, end: int) -> Story:
        """What the observer saw of partition 0."""
        return self.observed("end_offset", end).observed("last_stable_offset", stable)

    def group_seen(self, **values: Any) -> Story:
        """What the observer saw of the group."""
        for key, value in values.items():
            self.observed(key, json.dumps(value), f"group:{self.name}")
        return self

    def tick_on(self, us: int) -> Story:
        self.tick(us)
        return self

    def saw_committed(self, offset: int | None) -> Story:
        return self.observed("committed", json.dumps(offset), f"group:{self.name}/{self.name}/0")

    def commits_read_back(self, whole: bool = True, error: str | None = None) -> Story:
        """The log of offset commits was read back. whole: compaction has removed nothing."""
        group = self.consumer.get("group", self.name)
        self.rows["commit_log_range"].append({"group": group, "whole": whole, "error": error})
        return self

    def fault(self, phase: str, name: str | None = None) -> Story:
        row = {"fault": name or f"f{self.number}", "kind": "broker.kill", "target": "", "phase": phase}
        self.rows["faults"].append(row | {"evidence": "{}", "at_us": self.tick()})
        return self

    def moved(
        self, *offsets: int | None, kind: str = "group.reset_offsets", group: str = "", end: str = "injected"
    ) -> Story:
        """A fault sets the group's offset in partition 0, 1, ..., or deletes it (None)."""
        by_partition = {f"{self.name}/{partition}": offset for partition, offset in enumerate(offsets)}
        row = {
            "fault": f"m{len(self.rows['faults'])}",
            "kind": kind,
            "target": f"group {group or self.name}",
        }
        for phase, evidence in (("injecting", {}), (end, {"offsets": by_partition})):
            self.rows["faults"].append(row | {"phase": phase, "evidence": json.dumps(evidence), "at_us": self.tick()})
        return self

    def cut(self, below: int, partition: int = 0, phase: str = "proven") -> Story:
        """A fault deletes the records of a partition below an offset."""
        row = {"fault": f"c{self.number}-{len(self.rows['faults'])}", "kind": "topic.delete_records", "phase": phase}
        row |= {"target": f"{self.name}/{partition}", "at_us": self.tick()}
        self.rows["faults"].append(row | {"evidence": json.dumps({"log_starts": {f"{self.name}/{partition}": below}})})
        return self

    def deleted(
        self,
        former_id: str = "A",
        again: bool = True,
        steady: bool = True,
        wait_us: int = 2_000_000,
        listed: bool = True,
    ) -> Story:
        """A fault deletes the topic and creates it again.

        steady: its leader does not change after that. listed: all brokers list the new one soon.
        """
        evidence: dict[str, Any] = {"former_id": former_id, "delete_us": [self.tick(), self.tick()]}
        if again:
            evidence |= {
                "create_us": [self.tick(), self.tick()],
                "topic_id": former_id + "+",
            }
        if again and listed:
            evidence["everywhere_us"] = self.tick()
        row = {
            "fault": f"d{self.number}-{len(self.rows['faults'])}",
            "kind": "topic.delete",
            "target": f"topic {self.name}",
        }
        row |= {"phase": "healed", "evidence": json.dumps(evidence), "at_us": self.tick()}
        self.rows["faults"].append(row)
        for epoch in (0,) if steady else (0, 1):
            self.observed("leader_epoch", epoch)
        self.tick(wait_us)
        return self

    def again(self, first_seq: int, *offsets: int) -> Story:
        """Acknowledged and in the log of a topic that was created again, whose offset 0 has the given seq."""
        for offset in offsets:
            self.send(first_seq + offset, offset).log(offset, first_seq + offset)
        return self

    def acquires(self, n: int, *offsets: int, count: int = 1, life: int = 1) -> Acquired:
        """A member of a share group acquires offsets; the record at an offset has the seq of the same number."""
        self.mode = "share"
        first = self.ordinal
        for offset in offsets:
            row = {"consumer": self.reader(n), "incarnation": life, "group": self.name, "ordinal": self.ordinal}
            row |= {"topic": self.name, "partition": 0, "offset": offset, "delivery_count": count, "seq": offset}
            row |= {"producer": self.producer, "producer_incarnation": 1, "sent_us": self.sent_us(offset)}
            self.rows["acquisitions"].append(row | {"acquired_us": self.tick()})
            self.ordinal += 1
        return Acquired(self, self.reader(n), life, first, offsets)

    def share_seen(self, start: int | None = None, lag: int | None = None) -> Story:
        """What the observer saw of the share group in partition 0."""
        for key, value in (("share_start", start), ("share_lag", lag)):
            if value is not None:
                self.observed(key, value, f"group:{self.name}/{self.name}/0")
        return self

    def assigned(self, n: int = 1, position: int | None = 0, source: str | None = "reset", **more: Any) -> Epoch:
        """A consumer is given partition 0 (subscribe mode unless the story says otherwise)."""
        self.mode = self.mode or "subscribe"
        self.assignment += 1
        epoch = Epoch(self, self.reader(n), self.assignment, more.pop("partition", 0), more.pop("incarnation", 1))
        epoch.row("seek" if source == "seek" else "assigned", position=position, source=source, **more)
        return epoch


@dataclass
class Epoch:
    """What one consumer does with one partition under one assignment."""

    story: Story
    consumer: str
    assignment: int
    partition: int
    incarnation: int
    generation: int | None = None

    @property
    def identity(self) -> dict[str, Any]:
        s = self.story
        return {
            "consumer": self.consumer,
            "incarnation": self.incarnation,
            "assignment": self.assignment,
            "topic": s.name,
            "partition": self.partition,
            "group": s.group_of(self.consumer) if s.mode == "subscribe" or s.consumer.get("group") else None,
            "mode": s.mode,
        }

    def row(self, event: str, **more: Any) -> Epoch:
        self.generation = more.setdefault("generation", self.generation)
        at_us = more.pop("at_us", None) or self.story.tick()
        self.story.rows["assignments"].append(
            {
                **self.identity,
                "member_id": f"{self.consumer}-{self.incarnation}",
                "event": event,
                "at_us": at_us,
                **more,
            }
        )
        return self

    def got(self, *offsets: int, seq: Callable[[int], int | None] = lambda offset: offset, **more: Any) -> Epoch:
        """Deliver offsets; the record at an offset has the seq of the same number unless `seq` says otherwise."""
        for offset in offsets:
            self.story.ordinal += 1
            known = seq(offset)
            row = {**self.identity, "ordinal": self.story.ordinal, "offset": offset, "seq": known, "leader_epoch": 0}
            row |= {"producer": None if known is None else self.story.producer}
            row |= {"producer_incarnation": None if known is None else 1, "polled_us": self.story.now}
            row["sent_us"] = self.story.sent_us(known)
            self.story.rows["deliveries"].append(row | {"processed_us": self.story.tick()} | more)
        return self

    def commit(self, offset: int, outcome: str = "ok", kind: str = "sync", **more: Any) -> Epoch:
        at = {"requested_us": self.story.now, "completed_us": self.story.tick()}
        self.story.rows["commits"].append(
            {**self.identity, "offset": offset, "kind": kind, "outcome": outcome, **at, **more}
        )
        return self

    def logged(self, offset: int | None, at_us: int | None = None, **more: Any) -> Epoch:
        """The log of offset commits has a record, now if not said otherwise."""
        row = {name: self.identity[name] for name in ("group", "topic", "partition")}
        row |= {"offset": offset, "appended_us": self.story.now if at_us is None else at_us}
        self.story.rows["commit_log"].append(row | more)
        return self

    def revoked(self, **more: Any) -> Epoch:
        return self.row("revoked", **more)

    def lost(self, **more: Any) -> Epoch:
        return self.row("lost", **more)

    def stored(self, offset: int) -> Epoch:
        """A checkpoint is complete."""
        return self.row("checkpoint", position=offset)

    def died(self) -> Epoch:
        self.story.life(self.consumer, "crashed", incarnation=self.incarnation, role="consumer")
        return self


@dataclass
class Acquired:
    """Records that a member of a share group acquired together."""

    story: Story
    consumer: str
    life: int
    first: int
    offsets: tuple[int, ...]

    def ends(self, kind: str = "accept", outcome: str = "ok", error: str | None = None) -> Story:
        """The member acknowledges them."""
        for nth, offset in enumerate(self.offsets):
            row = {"consumer": self.consumer, "incarnation": self.life, "group": self.story.name}
            row |= {"ordinal": self.first + nth, "topic": self.story.name, "partition": 0, "offset": offset}
            row |= {"type": kind, "outcome": outcome, "error": error, "requested_us": self.story.tick()}
            self.story.rows["acknowledgements"].append(row | {"completed_us": self.story.tick()})
        return self.story

    def too_late(self) -> Story:
        """The member acknowledges them when it does not hold them any more."""
        return self.ends(outcome="unknown", error="INVALID_RECORD_STATE")


def scenario_of(stories: Iterable[Story]) -> Scenario:
    """One scenario in which every story is a topic with its own producer and, if it reads, its own consumers.

    A story whose ledger has transactions, or faults that delete records, has them in the scenario, too.
    """
    topics, producers, consumers, processors, faults = [], [], [], [], []
    for s in stories:
        topics.append({"name": s.name, "partitions": s.partitions, "replication_factor": 1, "config": s.topic_config})
        written = {"topics": [s.name, s.out]} if s.spans else {"topic": s.name}
        entry = {"name": f"p{s.number}", "config": s.producer_config} | written | s.sending
        producers.append(entry | ({"transactions": {}} if s.transactional else {}))
        cuts = {row["fault"]: row["kind"] for row in s.rows["faults"] if row["kind"] == "topic.delete_records"}
        target = {"target": {"topic": s.name}, "leave": 0, "when": {"at": "1s"}}
        faults += [{"name": name, "kind": kind} | target for name, kind in cuts.items()]
        if s.processes or s.spans:
            topics.append({"name": s.out, "replication_factor": 1})
        if s.processes:
            processor = {"name": f"c{s.number}", "group": s.name, "topics": [s.name], "to": s.out}
            counting = {"state": "count", "client": "streams"} if s.counts else {}
            processors.append(processor | {"members": s.members, "consumer_config": s.consumer_config} | counting)
        elif s.mode == "subscribe":
            consumers.append({"group": s.name} | _consumer(s))
            if s.second_entry:
                second_entry = {"name": f"d{s.number}", "members": 1, "config": s.second_entry}
                consumers.append({"group": s.second_group or s.name} | _consumer(s) | second_entry)
        elif s.mode == "share":
            consumers.append(_share(s))
        elif s.mode:
            consumers.append(_consumer(s))
    return Scenario.model_validate(
        {
            "title": "stories",
            "cluster": {
                "config": {
                    "offsets.retention.minutes": 1,
                    "log.retention.check.interval.ms": 1_000,
                    "log.initial.task.delay.ms": 0,
                }
            },
            "topics": topics,
            "producers": producers,
            "consumers": [with_assignors(entry) for entry in consumers],
            "processors": processors,
            "faults": faults,
        }
    )


def _consumer(s: Story) -> dict[str, Any]:
    entry = {"mode": s.mode, "name": f"c{s.number}", "members": s.members, "topics": [s.name]}
    return entry | {"config": s.consumer_config} | s.consumer


def with_assignors(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry with an assignor of the application's own runs the Java client, which knows assignors by their class."""
    config = entry.get("config", {})
    names = str(config.get(STRATEGY, "")).split(",")
    if "mine" not in names:
        return entry
    config = {"isolation.level": "read_committed"} | config | {STRATEGY: ",".join(map(CLASSES.__getitem__, names))}
    return entry | {"client": "java", "config": config}


def _share(s: Story) -> dict[str, Any]:
    entry = {"mode": "share", "name": f"c{s.number}", "group": s.name, "members": s.members, "topics": [s.name]}
    return entry | {"client": "java", "settings": SHARE_SETTINGS | s.consumer}


def resolved_of(stories: list[Story]) -> Resolved:
    return Resolved(
        run_id=RUN_ID, name="stories", seed=1, scenario=scenario_of(stories), versions={}, created_us=1_000_000
    )


def rows_of(stories: Iterable[Story]) -> Rows:
    """All rows of all stories. A producer that nothing is said of lived and stopped in order."""
    rows: Rows = defaultdict(list)
    for s in stories:
        if not any(r["client"] == s.producer for r in s.rows["lifecycle"]):
            s.life(s.producer, "started", "stopped")
        for table, found in s.rows.items():
            rows[table] += found
        for partition in range(s.partitions + s.added if s.exists else 0):
            here = [r for r in s.rows["log"] if r["topic"] == s.name and r["partition"] == partition]
            ends = [r["offset"] + 1 for r in here]
            end = s.log_end if s.log_end is not None else max(ends, default=s.log_start)
            place = {"topic": s.name, "partition": partition}
            place |= {"read_from_us": s.read_from_us, "read_us": s.read_us}
            rows["log_range"].append(place | {"start": s.log_start, "end": end})
        if s.processes or s.spans:
            for partition in range(s.partitions):
                here = [r for r in s.rows["log"] if r["topic"] == s.out and r["partition"] == partition]
                end = max([r["offset"] + 1 for r in here], default=s.out_start)
                place = {"topic": s.out, "partition": partition}
                rows["log_range"].append(place | {"start": s.out_start, "end": end})
    return rows


def write_ledger(run: Run, *parts: Rows) -> None:
    """A sealed ledger with these rows, and the log: of each table a file for each part of the rows."""
    run.ledger.mkdir(parents=True, exist_ok=True)
    for table, schema in TABLES.items():
        folder = run.ledger / f"{table}.parquet"
        folder.mkdir(exist_ok=True)
        for number, rows in enumerate(parts):
            pq.write_table(pa.Table.from_pylist(rows.get(table, []), schema), folder / part_name(number))
    counts = {table: [len(rows.get(table, [])) for rows in parts] for table in TABLES}
    seal = Seal(tables={table: SealedTable(rows=sum(n), files=1, parts=n) for table, n in counts.items()})
    (run.ledger / "seal.json").write_text(seal.model_dump_json())
    (run.ledger / "log").mkdir(exist_ok=True)
    for number, rows in enumerate(parts):
        pq.write_table(pa.Table.from_pylist(rows.get("log", []), LOG), run.ledger / "log" / f"part-{number}.parquet")
    ranges = [row for rows in parts for row in rows.get("log_range", [])]
    pq.write_table(pa.Table.from_pylist(ranges, LOG_RANGE), run.ledger / "log_range.parquet")
    for table, schema in {"commit_log": COMMIT_LOG, "commit_log_range": COMMIT_LOG_RANGE}.items():
        found = [row for rows in parts for row in rows.get(table, [])]
        pq.write_table(pa.Table.from_pylist(found, schema), run.ledger / f"{table}.parquet")


def read_audit(run: Run, table: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(run.audit / table).to_pylist()
    return rows


def make_run(path: Path, stories: list[Story]) -> Run:
    run = Run(path)
    write_ledger(run, rows_of(stories))
    return run
