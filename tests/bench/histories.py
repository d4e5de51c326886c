"""Whole run directories of any size, made without a cluster: what the audit of a long run has to read.

Two producers of keyed records, a group of three members with a rebalance every few seconds, and an assign consumer
that reads everything. Batches, stretches, acknowledgements and commits lie in the files as real clients leave them: a
producer's rows by partition within a tick, a member's in stretches of one partition. `Plan.rich` plants loss (1 % of
the records, by batches at offsets that others have now), duplicates (5 %, a batch written again by a retry) and a
partition without its log.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chaos.ledger.record import run_token
from chaos.ledger.schemas import LOG, LOG_RANGE, OPTIONAL, SHARE_TABLES, TABLES
from chaos.ledger.seal import SEAL, Seal, SealedTable, part_name
from chaos.run.directory import Run, write_atomically
from chaos.scenario.model import Scenario
from chaos.scenario.resolve import Resolved
from checks.readback.source import ROWS_PER_FILE
from tests.bench.parts import Columns, Ints, Named, Parts
from tests.bench.written import BEGIN_US, PARTITIONS, PRODUCERS, TICK_US, TOPIC, Kind, Plan, Planted, Slice, Writing

GROUP, READER = "billing", "replay"
MEMBERS = 3
STRETCH = 10
"""Ticks with records of a partition that are polled together, and committed together."""
REBALANCE_EVERY = 2
"""Slices (of `Plan.ticks` ticks) between rebalances."""
NAMES = [f"shop/{p + 1}" for p in range(PRODUCERS)]
FEW_KEYS, MANY_KEYS = 997, 200_003


@dataclass
class Consumer:
    """One consumer process, and its deliveries so far. held: the number of the assignment of each partition it has."""

    name: str
    group: str
    mode: str
    rows: Parts
    member_id: str | None = None
    assignments: int = 0
    ordinal: int = 0
    held: dict[int, int] = field(default_factory=dict)

    def identity(self, polled: Polled) -> Columns:
        """Who it is, and what it reads under which assignment."""
        numbers = np.zeros(PARTITIONS, np.int64)
        numbers[list(self.held)] = list(self.held.values())
        who = {"consumer": self.name, "incarnation": 1, "group": self.group, "mode": self.mode}
        return who | {
            "assignment": numbers[polled.partition],
            "topic": TOPIC,
            "partition": polled.partition,
            "offset": polled.offset,
        }

    def deliver(self, s: Slice, polled: Polled) -> None:
        rows, n = polled.row, len(polled.row)
        mine = {**self.identity(polled), "ordinal": self.ordinal + np.arange(n), "leader_epoch": 0}
        record = {"producer": Named(s.producer[rows], NAMES), "producer_incarnation": 1, "seq": s.seq[rows]}
        times = {"sent_us": s.invoked_us[rows], "polled_us": polled.done_us - 900, "processed_us": polled.done_us}
        self.rows.append(n, mine | record | times)
        self.ordinal += n


@dataclass
class Polled:
    """Records in the order in which a consumer polls them. row: in the slice. done_us: when their stretch is done."""

    partition: Ints
    offset: Ints
    row: Ints
    stretch: Ints
    done_us: Ints

    @classmethod
    def of(cls, s: Slice, partitions: Iterable[int]) -> Polled:
        """What a holder of these partitions gets of a slice: stretch by stretch, in each by partition."""
        logs = [(p, *s.log[p]) for p in sorted(partitions)]
        partition = np.concatenate([np.full(len(rows), p) for p, _, rows in logs])
        offset = np.concatenate([first + np.arange(len(rows)) for _, first, rows in logs])
        row = np.concatenate([rows for _, _, rows in logs])
        stretch = (s.tick[row] - s.tick[0]) // STRETCH
        end = s.zero_us + (s.tick[0] + (stretch + 1) * STRETCH) * TICK_US
        order = np.lexsort((offset, partition, stretch))
        return cls(*(c[order] for c in (partition, offset, row, stretch, end + 25_000 + partition * 1_000)))

    def take(self, rows: Ints) -> Polled:
        return Polled(*(c[rows] for c in (self.partition, self.offset, self.row, self.stretch, self.done_us)))


class Kept:
    """What compaction leaves of the log: by partition and key, the columns of the last record."""

    def __init__(self, keys: int) -> None:
        names = ("offset", "producer", "seq", "timestamp_us")
        self._columns = {name: np.full((PARTITIONS, keys), -1, np.int64) for name in names}

    def add(self, p: int, key: Ints, columns: dict[str, Ints]) -> None:
        for name, column in columns.items():
            self._columns[name][p][key] = column  # numpy keeps the last value of a repeated index

    def records(self) -> Iterator[tuple[int, Ints, dict[str, Ints]]]:
        """Yield each partition with records, their keys and their columns, by offset."""
        for p, offset in enumerate(self._columns["offset"]):
            key = np.argsort(offset, kind="stable")[(offset < 0).sum() :]
            if len(key):
                yield p, key, {name: column[p][key] for name, column in self._columns.items()}


class History:
    """Writes one run directory."""

    def __init__(self, run: Run, plan: Plan) -> None:
        self.ledger, self.plan, self.planted = run.ledger, plan, Planted()
        self.sends = [self._stream("sends", p) for p in range(PRODUCERS)]
        self.log = [Parts(run.ledger / "log", LOG, f"{TOPIC}-{p:05}", ROWS_PER_FILE) for p in range(PARTITIONS)]
        given = [self._stream("deliveries", c) for c in range(MEMBERS + 1)]
        self.members = [Consumer(f"{GROUP}/{m + 1}", GROUP, "subscribe", given[m], f"m-{m}") for m in range(MEMBERS)]
        self.reader = Consumer(f"{READER}/1", READER, "assign", given[MEMBERS])
        self.commits = self._stream("commits", 0)
        self.assignments: list[dict[str, Any]] = []
        self.ends = [0] * PARTITIONS
        self.keys = [f"k{i}" for i in range(MANY_KEYS if plan.kind == "compacted" else FEW_KEYS)]
        self.kept = Kept(len(self.keys))
        self.events: dict[str, list[dict[str, Any]]] = {"faults": [], "cluster": []}
        self.uncommitted: dict[int, tuple[Slice, Polled]] = {}
        """By partition: what was delivered to the group and not committed before the coming rebalance."""
        self.now = BEGIN_US

    def write(self) -> Planted:
        for nth, s in enumerate(Writing(self.plan, self.planted).slices()):
            if nth == self.plan.recreated_at:
                self._recreate(int(s.invoked_us.min()))
            if nth % REBALANCE_EVERY == 0:
                self._rebalance(nth // REBALANCE_EVERY, s, recreated=nth == self.plan.recreated_at)
            self._sends(s)
            if nth >= (self.plan.recreated_at or 0):
                self._log(s)
            for member in self.members:
                self._deliver(member, s, before_rebalance=self._is_last_stretch(nth))
            self.reader.deliver(s, Polled.of(s, self.reader.held))
            self.now = int(s.completed_us.max()) + 50_000
        self._compact()
        self._revoke(None)
        self._seal()
        return self.planted

    def _stream(self, table: str, number: int) -> Parts:
        return Parts(self.ledger / f"{table}.parquet", TABLES[table], f"stream-{number}")

    def _sends(self, s: Slice) -> None:
        for p, stream in enumerate(self.sends):
            mine = np.flatnonzero(s.producer == p)
            mine = mine[np.lexsort((s.seq[mine], s.partition[mine], s.tick[mine]))]
            record = {"producer": NAMES[p], "incarnation": 1, "seq": s.seq[mine]}
            place = {"topic": TOPIC, "partition": s.partition[mine], "offset": s.acked_offset[mine], "outcome": "ok"}
            times = {"invoked_us": s.invoked_us[mine], "completed_us": s.completed_us[mine]}
            key = Named(self._keys(s.seq[mine]), self.keys)
            stream.append(len(mine), record | place | times | {"key": key})

    def _keys(self, seq: Ints) -> Ints:
        numbers: Ints = seq * 31 % len(self.keys)
        return numbers

    def _is_last_stretch(self, nth: int) -> bool:
        """Whether a slice ends with a rebalance, in which what it did not commit is read again."""
        return (nth + 1) % REBALANCE_EVERY == 0 and nth + 1 != self.plan.recreated_at

    def _log(self, s: Slice) -> None:
        for p, (first, rows) in s.log.items():
            self.ends[p] = first + len(rows)
            columns = {"offset": first + np.arange(len(rows)), "producer": s.producer[rows], "seq": s.seq[rows]}
            columns["timestamp_us"] = s.invoked_us[rows] // 1000 * 1000
            if self.plan.kind == "compacted":
                self.kept.add(p, self._keys(columns["seq"]), columns)
            else:
                self._append_log(p, columns)

    def _append_log(self, p: int, columns: dict[str, Ints], key: Ints | None = None) -> None:
        place = {"topic": TOPIC, "partition": p, "incarnation": 1}
        seen = {"run": run_token(self.plan.run_id), "crc_ok": True, "committed": True}
        keyed = {} if key is None else {"key": Named(key, self.keys), "tombstone": False}
        record = columns | {"producer": Named(columns["producer"], NAMES)}
        self.log[p].append(len(key if key is not None else columns["seq"]), place | record | seen | keyed)

    def _compact(self) -> None:
        """Write the log of a compacted topic: the last record of each key in each partition."""
        for p, key, columns in self.kept.records():
            self._append_log(p, columns, key)
            self.planted.superseded -= len(key)
        if self.plan.kind == "compacted":
            self.planted.superseded += self.plan.records

    def _recreate(self, at_us: int) -> None:
        """Delete the topic and create it again, shortly before `at_us`; its leaders do not change."""
        gone_us, created_us = at_us - 3_000, at_us - 1_000
        evidence = {"former_id": "A", "delete_us": [at_us - 4_000, gone_us], "topic_id": "B"}
        evidence |= {"create_us": [gone_us, created_us], "everywhere_us": created_us}
        fault = {"fault": "again", "kind": "topic.recreate", "target": f"topic {TOPIC}", "phase": "injected"}
        self.events["faults"].append(fault | {"evidence": json.dumps(evidence), "at_us": at_us - 500})
        for p in range(PARTITIONS):
            seen = {"entity": f"{TOPIC}/{p}", "key": "leader_epoch", "value": "0"}
            self.events["cluster"] += [seen | {"at_us": at} for at in (BEGIN_US, at_us + 1_000_000)]
        self._revoke(None)
        self.now = at_us

    def _rebalance(self, generation: int, s: Slice, recreated: bool) -> None:
        """Each partition moves on; the new owner begins at the last commit, before the end of the last stretch.

        recreated: in a topic that was created again; the group has committed nothing of it.
        """
        if generation:
            self._revoke(generation)
        for p in range(PARTITIONS):
            member, again = self.members[(p + generation) % MEMBERS], self.uncommitted.pop(p, None)
            position = s.log[p][0] - (len(again[1].row) if again else 0)
            source = "committed" if generation and not recreated else "reset"
            self._assign(member, p, position, source, generation + 1)
            if again:
                then, polled = again
                polled.done_us = np.full(len(polled.row), self.now + 2_000)
                member.deliver(then, polled)
                self.planted.redelivered += len(polled.row)
            if not generation or recreated:
                self._assign(self.reader, p, 0, "start", None)

    def _assign(self, c: Consumer, p: int, position: int, source: str, generation: int | None) -> None:
        c.assignments += 1
        c.held[p] = c.assignments
        self._event(c, p, "assigned", position, source, generation)

    def _revoke(self, generation: int | None) -> None:
        for member in self.members:
            for p in sorted(member.held):
                self._event(member, p, "revoked", self.ends[p], None, generation)
            member.held.clear()

    def _event(self, c: Consumer, p: int, event: str, position: int, source: str | None, gen: int | None) -> None:
        self.now += 1
        who = {"consumer": c.name, "incarnation": 1, "group": c.group, "mode": c.mode, "member_id": c.member_id}
        what = {"generation": gen, "event": event, "assignment": c.held[p], "topic": TOPIC, "partition": p}
        self.assignments.append({**who, **what, "position": position, "source": source, "at_us": self.now})

    def _deliver(self, member: Consumer, s: Slice, before_rebalance: bool) -> None:
        """A member's records of a slice. Each stretch is committed, but for the last one before a rebalance."""
        polled = Polled.of(s, member.held)
        if not len(polled.row):
            return
        member.deliver(s, polled)
        ends = np.flatnonzero(np.diff(polled.partition + PARTITIONS * polled.stretch, append=-1))
        if before_rebalance:
            last = polled.stretch == polled.stretch.max()
            ends = ends[~last[ends]]
            for p in member.held:
                if len(rows := np.flatnonzero(last & (polled.partition == p))):
                    self.uncommitted[p] = s, polled.take(rows)
        done = polled.take(ends)
        asked = {"offset": done.offset + 1, "requested_us": done.done_us + 100, "completed_us": done.done_us + 900}
        self.commits.append(len(ends), member.identity(done) | asked | {"kind": "sync", "outcome": "ok"})

    def _seal(self) -> None:
        small = self._small()
        streams = {name: [self._stream(name, 0)] for name in (*SHARE_TABLES, *OPTIONAL)}
        streams |= {name: [Parts(self.ledger / f"{name}.parquet", TABLES[name], "stream-0")] for name in small}
        for name, rows in small.items():
            streams[name][0].append_table(pa.Table.from_pylist(rows, TABLES[name]))
        streams |= {"sends": self.sends, "commits": [self.commits]}
        streams["deliveries"] = [c.rows for c in (*self.members, self.reader)]
        for parts in chain(self.log, *streams.values()):
            parts.close()
        ranges = [{"topic": TOPIC, "partition": p, "start": 0, "end": self.ends[p]} for p in range(PARTITIONS)]
        pq.write_table(pa.Table.from_pylist(ranges, LOG_RANGE), self.ledger / "log_range.parquet")
        seal = Seal(tables={name: _sealed(those) for name, those in streams.items()})
        write_atomically(self.ledger / SEAL, seal.model_dump_json(indent=1))

    def _small(self) -> dict[str, list[dict[str, Any]]]:
        clients = [(name, "producer") for name in NAMES]
        clients += [(c.name, "consumer") for c in (*self.members, self.reader)]
        life = [
            {"client": c, "role": role, "incarnation": 1, "event": e, "detail": "{}", "at_us": at}
            for c, role in clients
            for e, at in (("started", BEGIN_US - 1_000_000), ("stopped", self.now + 1_000_000))
        ]
        kill = {"fault": "kill", "kind": "broker.kill", "target": "", "evidence": "{}"}
        middle = (BEGIN_US + self.now) // 2
        faults = [
            kill | {"phase": "injected", "at_us": middle},
            kill | {"phase": "healed", "at_us": middle + 900_000},
        ]
        found = {"assignments": self.assignments, "lifecycle": life, "faults": faults + self.events["faults"]}
        return found | {"cluster": self.events["cluster"], "transactions": []}


def _sealed(streams: list[Parts]) -> SealedTable:
    """What the seal says of a table; its parts get the names that sealing gives them."""
    paths = [path for stream in streams for path in stream.paths()]
    for nth, path in enumerate(paths):
        path.rename(path.with_name(part_name(nth)))
    rows = [n for stream in streams for n in stream.rows]
    return SealedTable(rows=sum(rows), files=len(streams), parts=rows)


def resolved(plan: Plan) -> Resolved:
    """The scenario of such a run, resolved."""
    compacted = plan.kind == "compacted"
    shop = {"name": "shop", "topic": TOPIC, "count": PRODUCERS, "config": {"acks": "all"}}
    topic = {"name": TOPIC, "partitions": PARTITIONS, "replication_factor": 3}
    group = {"mode": "subscribe", "name": GROUP, "group": GROUP, "members": MEMBERS, "topics": [TOPIC]}
    reader = {"mode": "assign", "name": READER, "group": READER, "members": 1, "topics": [TOPIC], "start": "earliest"}
    scenario = Scenario.model_validate(
        {
            "title": "a generated history",
            "topics": [topic | ({"config": {"cleanup.policy": "compact"}} if compacted else {})],
            "producers": [shop | ({"keys": MANY_KEYS} if compacted else {})],
            "consumers": [
                group | {"config": {"auto.offset.reset": "earliest"}},
                reader | {"commit": {"when": "never"}},
            ],
        }
    )
    about = {"run_id": plan.run_id, "name": "bench", "seed": plan.seed, "versions": {}, "created_us": BEGIN_US}
    return Resolved.model_validate({**about, "scenario": scenario})


def make(folder: Path, plan: Plan) -> Planted:
    """A run directory of this plan, to be audited."""
    run = Run(folder)
    run.ledger.mkdir(parents=True, exist_ok=True)
    return History(run, plan).write()


def main() -> None:
    parser = argparse.ArgumentParser(description="Make a run directory to be audited; print what is planted in it.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("records", type=int)
    parser.add_argument("kind", nargs="?", choices=get_args(Kind), default="clean")
    options = parser.parse_args()
    planted = make(options.folder, Plan(options.records, options.kind))
    print(json.dumps({"phase": "generated", "planted": asdict(planted)}))


if __name__ == "__main__":
    main()
