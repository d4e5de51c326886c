"""A cluster, its clients and its observer in miniature: a sequence of random steps, and the ledger they leave behind.

Nothing goes wrong here that does not go wrong in a real run: retried batches, restarts that send again, members that
die, are thrown out or go on with their batch, commits in flight and without an answer, rows that died with their
writer, a leader lost with records that only it had.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.checks.audit.histories import TOPIC
from tests.checks.audit.oracle import Row
from tests.checks.audit.story import TOKEN

STEP_US = 1_000
KEYS = 5


@dataclass
class Partition:
    """The log of one partition at the moment: records by offset, its start, and the offset of the next record."""

    number: int
    start: int = 0
    end: int = 0
    records: dict[int, Row] = field(default_factory=dict)

    def after(self, position: int, most: int) -> list[int]:
        """The next offsets that a reader gets from a position."""
        return sorted(o for o in self.records if o >= position)[:most]


@dataclass
class Brokers:
    """What the cluster knows, and the ledger that everybody writes. Time passes by one step with every row."""

    rng: random.Random
    partitions: list[Partition]
    markers: bool = False
    keyed: bool = False
    tombstone_every: int = 0
    now: int = 1_000_000
    rows: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    committed: dict[tuple[str, int], int] = field(default_factory=dict)
    sent_us: dict[tuple[str, int, int], int] = field(default_factory=dict)
    later: list[tuple[int, Callable[[], None]]] = field(default_factory=list)

    def tick(self, us: int = STEP_US) -> int:
        """Let time pass; what was in flight arrives."""
        self.now += us
        due = [entry for entry in self.later if entry[0] <= self.now]
        self.later = [entry for entry in self.later if entry[0] > self.now]
        for _, arrive in due:
            arrive()
        return self.now

    def maybe(self, probability: float) -> bool:
        return self.rng.random() < probability

    def append(self, partition: Partition, producer: str, incarnation: int, seq: int) -> int:
        """Write a record to the log; now and then a transaction marker takes the offset before it."""
        if self.markers and self.maybe(0.2):
            partition.end += 1
        offset = partition.end
        partition.records[offset] = {
            "topic": TOPIC,
            "partition": partition.number,
            "offset": offset,
            "timestamp_us": self.now,
            "run": TOKEN,
            "producer": producer,
            "incarnation": incarnation,
            "seq": seq,
            "crc_ok": True,
            "committed": True,
            "key": self.key(producer, seq),
            "tombstone": self.tombstone_every > 0 and (seq + 1) % self.tombstone_every == 0 if self.keyed else None,
        }
        partition.end += 1
        return offset

    def key(self, producer: str, seq: int) -> str | None:
        """The key of a record, the same in every incarnation."""
        return f"k{(seq // 2 + len(producer)) % KEYS}" if self.keyed else None

    def life(self, client: str, role: str, incarnation: int, event: str) -> None:
        row = {"client": client, "role": role, "incarnation": incarnation, "event": event, "detail": "{}"}
        self.rows["lifecycle"].append(row | {"at_us": self.tick()})

    def observe(self) -> None:
        """What a sampling observer writes: leaders, and committed offsets where there are any."""
        place = self.rng.choice(self.partitions).number
        row = {"entity": f"{TOPIC}/{place}", "key": "leader", "value": str(self.rng.randint(1, 3))}
        self.rows["cluster"].append(row | {"at_us": self.tick()})
        for (group, partition), offset in sorted(self.committed.items()):
            if self.maybe(0.7):
                entity = f"group:{group}/{TOPIC}/{partition}"
                row = {"entity": entity, "key": "committed", "value": str(offset)}
                self.rows["cluster"].append(row | {"at_us": self.tick()})

    def fail_over(self) -> None:
        """A leader dies with the last records that no follower had."""
        partition = self.rng.choice(self.partitions)
        keep = max(partition.start, partition.end - self.rng.randint(0, 2))
        partition.records = {o: r for o, r in partition.records.items() if o < keep}
        partition.end = keep
        row = {"fault": f"f{len(self.rows['faults'])}", "kind": "broker.kill", "target": "", "phase": "injected"}
        self.rows["faults"].append(row | {"evidence": "{}", "at_us": self.tick()})

    def retain(self) -> None:
        """Retention removes the oldest records of a partition."""
        partition = self.rng.choice(self.partitions)
        partition.start = min(partition.end, partition.start + self.rng.randint(1, 2))
        partition.records = {o: r for o, r in partition.records.items() if o >= partition.start}
        if self.maybe(0.5):
            self._deleted(partition)

    def _deleted(self, partition: Partition) -> None:
        """An administrator did."""
        evidence = json.dumps({"log_starts": {f"{TOPIC}/{partition.number}": partition.start}})
        row = {"fault": f"f{len(self.rows['faults'])}", "kind": "topic.delete_records", "target": f"topic {TOPIC}"}
        self.rows["faults"].append(row | {"phase": "proven", "evidence": evidence, "at_us": self.tick()})

    def compact(self) -> None:
        """Compaction removes superseded records, then tombstones; now and then, something is gone that must not be."""
        for partition in self.partitions:
            last = {record["key"]: offset for offset, record in sorted(partition.records.items())}
            for offset, record in sorted(partition.records.items())[:-1]:
                if self.maybe(0.5 if last[record["key"]] > offset else 0.05):
                    del partition.records[offset]
            kept = [record["key"] for record in partition.records.values()]
            for offset, record in sorted(partition.records.items())[:-1]:
                alone = kept.count(record["key"]) == 1
                if record["tombstone"] and self.maybe(0.5 if alone else 0.25):
                    del partition.records[offset]

    def read_back(self) -> None:
        """The tables `log` and `log_range`."""
        for partition in self.partitions:
            self.rows["log"] += partition.records.values()
            place = {"topic": TOPIC, "partition": partition.number}
            place["read_from_us"] = place["read_us"] = self.now
            self.rows["log_range"].append(place | {"start": partition.start, "end": partition.end})
        for group in sorted({row["group"] for row in self.rows["commits"] if row["group"]}):
            self._read_commits_back(group)

    def _read_commits_back(self, group: str) -> None:
        """The tables `commit_log` and `commit_log_range`, which an attached cluster may refuse."""
        whole, error = self.maybe(0.7), "the user may not read it" if self.maybe(0.1) else None
        self.rows["commit_log_range"].append({"group": group, "whole": whole, "error": error})
        late_us = 1_000_000 if self.maybe(0.05) else 0  # the clock of the coordinator
        for row in self.rows["commit_log"]:
            row["appended_us"] += late_us if row["group"] == group else 0
        if not whole:
            kept = [r for r in self.rows["commit_log"] if r["group"] != group or self.maybe(0.5)]
            self.rows["commit_log"] = kept


@dataclass
class Producer:
    """A producer over all its incarnations. unsure: seqs it sends again after a restart."""

    brokers: Brokers
    name: str
    acks: str
    incarnation: int = 0
    seq: int = 0
    alive: bool = False
    unsure: list[int] = field(default_factory=list)

    def start(self) -> None:
        self.incarnation += 1
        self.alive = True
        self.brokers.life(self.name, "producer", self.incarnation, "started")
        again, self.unsure = self.unsure, []
        for seq in again:
            self._send([seq])

    def step(self) -> None:
        if not self.alive:
            self.start()
            return
        count = self.brokers.rng.randint(1, 3)
        self._send(list(range(self.seq, self.seq + count)))
        self.seq += count

    def _send(self, seqs: list[int]) -> None:
        """One batch. It is retried now and then: in another order, or once more although it had arrived."""
        b, rng = self.brokers, self.brokers.rng
        partition = rng.choice(b.partitions)
        invoked = {seq: b.tick(1) for seq in seqs}
        for seq, at_us in invoked.items():
            b.sent_us[self.name, self.incarnation, seq] = at_us
        order = list(seqs)
        if b.maybe(0.05):
            rng.shuffle(order)
        outcome = rng.choices(["ok", "unknown", "fail"], [85, 9, 6])[0]
        arrived = outcome == "ok" or (outcome == "unknown" and b.maybe(0.5))
        offsets: dict[int, int] = {}
        if arrived:
            if b.maybe(0.04):
                for seq in order:
                    b.append(partition, self.name, self.incarnation, seq)
            offsets = {seq: b.append(partition, self.name, self.incarnation, seq) for seq in order}
        for seq in seqs:
            reported = outcome == "ok" and self.acks != "0"
            b.rows["sends"].append(
                {
                    "producer": self.name,
                    "incarnation": self.incarnation,
                    "seq": seq,
                    "topic": TOPIC,
                    "partition": partition.number if outcome != "fail" or b.maybe(0.5) else None,
                    "offset": offsets[seq] if reported else None,
                    "outcome": outcome,
                    "key": b.key(self.name, seq),
                    "error": None if outcome == "ok" else "_MSG_TIMED_OUT",
                    "invoked_us": invoked[seq],
                    "completed_us": b.tick(),
                }
            )
            if outcome != "ok":
                self.unsure.append(seq)

    def crash(self) -> None:
        """SIGKILL: the last rows it wrote are torn, and some records are on their way that it never has a row of."""
        b = self.brokers
        mine = [r for r in b.rows["sends"] if (r["producer"], r["incarnation"]) == (self.name, self.incarnation)]
        for row in mine[len(mine) - b.rng.randint(0, 2) :]:
            b.rows["sends"].remove(row)
            self.unsure.append(row["seq"])
        if b.maybe(0.5):
            b.append(b.rng.choice(b.partitions), self.name, self.incarnation, self.seq)
            self.unsure.append(self.seq)
            self.seq += 1
        self.unsure = sorted(set(self.unsure))
        b.life(self.name, "producer", self.incarnation, "crashed")
        self.alive = False

    def stop(self) -> None:
        if self.alive:
            self.brokers.life(self.name, "producer", self.incarnation, "stopped")
