"""Whole run directories of any size, made without a cluster: what the audit of a long run has to read.

Two producers of keyed records, a group of three members with a rebalance every few seconds, and an assign consumer
that reads everything. Batches, stretches, acknowledgements and commits lie in the files as real clients leave them: a
producer's rows by partition within a tick, a member's in stretches of one partition. `Plan.rich` plants loss (1 % of
the records, by batches), duplicates (5 %, a batch written again by a retry) and a partition whose log is gone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from chaos.ledger import TABLES, Seal, SealedTable
from chaos.ledger.record import run_token
from chaos.ledger.schemas import LOG, LOG_RANGE
from chaos.rundir import RunDir, write_atomically
from chaos.scenario import Resolved, Scenario

TOPIC, GROUP, READER = "orders", "billing", "replay"
PARTITIONS, PRODUCERS, MEMBERS = 12, 2, 3
PER_TICK = 500
TICK_US = 5_000
TICKS = 1000
"""Ticks made at once: 1,000,000 records."""
BEGIN_US = 1_700_000_000_000_000
STRETCH = 10
"""Ticks whose records of a partition are polled together, and committed together."""
REBALANCE_EVERY = 2
"""Slices (of TICKS ticks) between rebalances."""
ROWS_PER_PART = 1 << 20

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Plan:
    """How large, and with what planted in it. records: sent in all."""

    records: int
    rich: bool = False
    seed: int = 1

    @property
    def run_id(self) -> str:
        return f"bench-{self.records}-{'rich' if self.rich else 'clean'}"


@dataclass
class Planted:
    """What a correct audit has to find."""

    lost: int = 0
    duplicated: int = 0
    redelivered: int = 0


class Parts:
    """A table as a folder of Parquet parts, written as rows come."""

    def __init__(self, folder: Path, schema: pa.Schema, prefix: str = "part") -> None:
        self.folder, self.schema, self.prefix, self.rows, self.parts = folder, schema, prefix, 0, 0
        folder.mkdir(parents=True, exist_ok=True)
        self._pending: list[pa.Table] = []
        self._count = 0
        self.part_rows: list[int] = []

    def append(self, **columns: Any) -> None:
        arrays = []
        n = next(len(c) for c in columns.values() if isinstance(c, np.ndarray))
        for f in self.schema:
            value = columns.get(f.name)
            if isinstance(value, tuple):  # (numbers, names)
                names = pa.array(value[1], f.type)
                arrays.append(names.take(pa.array(value[0])))
            elif isinstance(value, np.ndarray):
                arrays.append(pa.array(value, f.type))
            else:
                arrays.append(pa.repeat(pa.scalar(value, f.type), n))
        self._pending.append(pa.Table.from_arrays(arrays, schema=self.schema))
        self._count += n
        while self._count >= ROWS_PER_PART:
            self._write(ROWS_PER_PART)

    def _write(self, rows: int) -> None:
        table = pa.concat_tables(self._pending)
        pq.write_table(
            table.slice(0, rows), self.folder / f"{self.prefix}-{self.parts:05}.parquet",
            compression="zstd", compression_level=1,
        )
        self.part_rows.append(min(rows, len(table)))
        self.parts += 1
        self.rows += min(rows, len(table))
        rest = table.slice(rows)
        self._pending, self._count = ([rest] if len(rest) else []), len(rest)

    def close(self) -> None:
        if self._pending or not self.parts:
            self._pending = self._pending or [self.schema.empty_table()]
            self._write(ROWS_PER_PART)


@dataclass
class Slice:
    """Records of some ticks, sorted by (tick, producer, seq). offset is -1 for what never reached the log."""

    tick: Ints
    producer: Ints
    seq: Ints
    partition: Ints
    invoked_us: Ints
    completed_us: Ints
    acked_offset: Ints
    log: dict[int, tuple[Ints, Ints]] = field(default_factory=dict)
    """By partition: the first offset, and of each log record which of these it is."""


def slices(plan: Plan, planted: Planted) -> Iterator[Slice]:
    rng = np.random.default_rng(plan.seed)
    heads = np.zeros(PARTITIONS, np.int64)
    per_slice = TICKS * PER_TICK * PRODUCERS
    for nth in range(-(-plan.records // per_slice)):
        n = min(per_slice, plan.records - nth * per_slice)
        index = np.arange(n, dtype=np.int64)
        tick = index // (PER_TICK * PRODUCERS) + nth * TICKS
        producer = index // PER_TICK % PRODUCERS
        seq = tick * PER_TICK + index % PER_TICK
        partition = rng.integers(0, PARTITIONS, n)
        invoked = BEGIN_US + tick * TICK_US + (index % PER_TICK) // 100 * 200
        batch = (tick * PRODUCERS + producer) * PARTITIONS + partition
        latency = rng.integers(1_500, 20_000, int(batch.max() - batch.min()) + 1)
        completed = BEGIN_US + tick * TICK_US + 1_000 + latency[batch - batch.min()]
        s = Slice(tick, producer, seq, partition, invoked, completed, np.full(n, -1, np.int64))
        fate = rng.random(len(latency))[batch - batch.min()] if plan.rich else np.ones(n)
        for p in range(PARTITIONS):
            mine = np.flatnonzero(partition == p)
            copies = np.ones(len(mine), np.int64)
            if plan.rich:
                gone = fate[mine] < 0.01
                copies[gone] = 0
                copies[(fate[mine] >= 0.01) & (fate[mine] < 0.06)] = 2
                if p == PARTITIONS - 1:
                    copies[:] = 0
                planted.lost += int((copies == 0).sum())
                planted.duplicated += int((copies == 2).sum())
            order = _twice(mine, copies, batch[mine])
            s.log[p] = int(heads[p]), order
            first = np.full(n, -1, np.int64)
            places = heads[p] + np.arange(len(order))
            first[order[::-1]] = places[::-1]  # of two copies the first was acknowledged
            found = first[mine]
            if (found < 0).any():  # a lost batch was acknowledged where another stands now
                nxt = heads[p] + np.concatenate([[0], np.cumsum(copies)[:-1]])
                found = np.where(found < 0, nxt, found)
            s.acked_offset[mine] = found
            heads[p] += len(order)
        yield s


def _twice(mine: Ints, copies: Ints, batch: Ints) -> Ints:
    """Log order: as sent, and a batch written twice stands again right behind itself."""
    if (copies == 1).all():
        return mine
    again = copies == 2
    keep = copies > 0
    rows = np.concatenate([mine[keep], mine[again]])
    nth = np.concatenate([np.zeros(keep.sum(), np.int64), np.ones(again.sum(), np.int64)])
    number = np.concatenate([batch[keep], batch[again]])
    return rows[np.lexsort((rows, nth, number))]


class History:
    """Writes one run directory."""

    def __init__(self, run: RunDir, plan: Plan) -> None:
        self.run, self.plan, self.planted = run, plan, Planted()
        ledger = run.ledger
        self.sends = [Parts(ledger / "sends.parquet", TABLES["sends"], f"part-{p}") for p in range(PRODUCERS)]
        clients = MEMBERS + 1
        self.delivered = [
            Parts(ledger / "deliveries.parquet", TABLES["deliveries"], f"part-{c}") for c in range(clients)
        ]
        self.commits = Parts(ledger / "commits.parquet", TABLES["commits"])
        self.assignments: list[dict[str, Any]] = []
        self.log = [Parts(ledger / "log", LOG, f"{TOPIC}-{p:05}") for p in range(PARTITIONS)]
        self.ordinal = [0] * clients
        self.heads = [0] * PARTITIONS
        self.names = [f"shop/{p + 1}" for p in range(PRODUCERS)]
        self.consumers = [f"{GROUP}/{m + 1}" for m in range(MEMBERS)] + [f"{READER}/1"]
        self.tail: dict[int, tuple[int, Ints, Slice]] = {}
        self.assignment = [0] * clients
        self.given: dict[tuple[int, int], int] = {}
        self.now = BEGIN_US

    def write(self) -> Planted:
        last = None
        for nth, s in enumerate(slices(self.plan, self.planted)):
            if nth % REBALANCE_EVERY == 0:
                self._rebalance(nth // REBALANCE_EVERY, s, last)
            self._sends(s)
            self._log(s)
            self._deliver(s, last_before_rebalance=(nth + 1) % REBALANCE_EVERY == 0)
            self.now = int(s.completed_us.max()) + 50_000
            last = s
        self._revoke()
        self._close()
        return self.planted

    def _sends(self, s: Slice) -> None:
        for p in range(PRODUCERS):
            mine = np.flatnonzero(s.producer == p)
            mine = mine[np.lexsort((s.seq[mine], s.partition[mine], s.tick[mine]))]
            self.sends[p].append(
                producer=self.names[p], incarnation=1, seq=s.seq[mine], topic=TOPIC, partition=s.partition[mine],
                offset=s.acked_offset[mine], outcome="ok", invoked_us=s.invoked_us[mine],
                completed_us=s.completed_us[mine], key=(s.seq[mine] * 31 % 997, [f"k{i}" for i in range(997)]),
            )  # fmt: skip

    def _log(self, s: Slice) -> None:
        for p, (first, rows) in s.log.items():
            if not len(rows):
                continue
            self.log[p].append(
                topic=TOPIC, partition=p, offset=first + np.arange(len(rows)), timestamp=s.invoked_us[rows] // 1000 * 1000,
                run=run_token(self.plan.run_id), producer=(s.producer[rows], self.names), incarnation=1,
                seq=s.seq[rows], crc_ok=True, committed=True,
            )  # fmt: skip
            self.heads[p] = first + len(rows)

    def _owner(self, partition: int, generation: int) -> int:
        return (partition + generation) % MEMBERS

    def _rebalance(self, generation: int, s: Slice, last: Slice | None) -> None:
        """Each partition moves on; the new owner begins at the last commit, before the end of the last stretch."""
        if generation:
            self._revoke(generation)
        for p in range(PARTITIONS):
            first = s.log[p][0]
            back = len(self.tail[p][1]) if generation and p in self.tail else 0
            self._assign(self._owner(p, generation), p, first - back, "committed" if generation else "reset", generation)
            if back:
                start, rows, old = self.tail[p]
                self._rows(self._owner(p, generation), p, start, rows, old, self.now)
                self.planted.redelivered += back
            if not generation:
                self._assign(MEMBERS, p, 0, "start", None)

    def _assign(self, c: int, p: int, position: int, source: str, generation: int | None) -> None:
        self.assignment[c] += 1
        self.given[c, p] = self.assignment[c]
        self._event(c, p, "assigned", position, source, generation)

    def _event(self, c: int, p: int, event: str, position: int, source: str | None, generation: int | None) -> None:
        subscribe = c < MEMBERS
        self.now += 1
        self.assignments.append(
            {"consumer": self.consumers[c], "incarnation": 1, "group": GROUP if subscribe else READER,
             "mode": "subscribe" if subscribe else "assign", "member_id": f"m-{c}" if subscribe else None,
             "generation": None if generation is None else generation + 1, "event": event,
             "assignment": self.given[c, p], "topic": TOPIC, "partition": p, "position": position, "source": source,
             "at_us": self.now}
        )  # fmt: skip

    def _revoke(self, generation: int | None = None) -> None:
        for (c, p), _ in sorted(self.given.items()):
            if c < MEMBERS:
                self._event(c, p, "revoked", self.heads[p], None, None if generation is None else generation - 1)
        self.given = {key: number for key, number in self.given.items() if key[0] == MEMBERS}

    def _deliver(self, s: Slice, last_before_rebalance: bool) -> None:
        owner = {p: c for (c, p) in self.given if c < MEMBERS}
        stretches = np.arange(s.tick[0], s.tick[-1] + 1, STRETCH)
        for c in range(MEMBERS + 1):
            for p, (first, rows) in s.log.items():
                if not len(rows) or (c < MEMBERS and owner[p] != c):
                    continue
                self._stage(c, p, first, rows, s, stretches)
            self._flush(c, s, last_before_rebalance)

    def _stage(self, c: int, p: int, first: int, rows: Ints, s: Slice, stretches: Ints) -> None:
        stretch = np.searchsorted(stretches, s.tick[rows], "right") - 1
        done = BEGIN_US + (stretches[stretch] + STRETCH) * TICK_US + 25_000 + p * 1_000
        self.staged = [*getattr(self, "staged", []), (p, first, rows, stretch, done)]

    def _flush(self, c: int, s: Slice, last_before_rebalance: bool) -> None:
        """The stretches of all partitions of one consumer, in the order in which they were polled."""
        staged, self.staged = getattr(self, "staged", []), []
        if not staged:
            return
        part = np.concatenate([np.full(len(r), p) for p, _, r, _, _ in staged])
        offset = np.concatenate([first + np.arange(len(r)) for _, first, r, _, _ in staged])
        rows = np.concatenate([r for _, _, r, _, _ in staged])
        stretch = np.concatenate([x for *_, x, _ in staged])
        done = np.concatenate([d for *_, d in staged])
        order = np.lexsort((offset, part, stretch))
        self._append(c, part[order], offset[order], rows[order], s, done[order])
        if c == MEMBERS:
            return
        last = int(stretch.max())
        ends = np.flatnonzero(np.diff(part[order] + PARTITIONS * stretch[order], append=-1))
        keep = ends[stretch[order][ends] < last] if last_before_rebalance else ends
        for p, first, r, x, _ in staged:
            if last_before_rebalance and (x == last).any():
                at = int(np.flatnonzero(x == last)[0])
                self.tail[p] = first + at, r[at:], s
            else:
                self.tail.pop(p, None)
        if len(keep):
            p, at = part[order][keep], done[order][keep]
            number = np.array([self.given[c, q] for q in range(PARTITIONS) if (c, q) in self.given])
            which = np.zeros(PARTITIONS, np.int64)
            which[[q for q in range(PARTITIONS) if (c, q) in self.given]] = number
            self.commits.append(
                consumer=self.consumers[c], incarnation=1, group=GROUP, mode="subscribe", assignment=which[p],
                topic=TOPIC, partition=p, offset=offset[order][keep] + 1, kind="sync", outcome="ok",
                requested_us=at + 100, completed_us=at + 900,
            )  # fmt: skip

    def _rows(self, c: int, p: int, first: int, rows: Ints, s: Slice, at_us: int) -> None:
        n = len(rows)
        self._append(c, np.full(n, p), first + np.arange(n), rows, s, np.full(n, at_us + 2_000))

    def _append(self, c: int, part: Ints, offset: Ints, rows: Ints, s: Slice, done: Ints) -> None:
        n = len(rows)
        which = np.zeros(PARTITIONS, np.int64)
        for (owner, p), number in self.given.items():
            if owner == c:
                which[p] = number
        self.delivered[c].append(
            consumer=self.consumers[c], incarnation=1, group=GROUP if c < MEMBERS else READER,
            mode="subscribe" if c < MEMBERS else "assign", assignment=which[part],
            ordinal=self.ordinal[c] + np.arange(n), topic=TOPIC, partition=part, offset=offset, leader_epoch=0,
            producer=(s.producer[rows], self.names), producer_incarnation=1, seq=s.seq[rows],
            sent_us=s.invoked_us[rows], polled_us=done - 900, processed_us=done,
        )  # fmt: skip
        self.ordinal[c] += n

    def _close(self) -> None:
        ledger = self.run.ledger
        clients = [(n, "producer") for n in self.names] + [(c, "consumer") for c in self.consumers]
        life = [
            {"client": c, "role": role, "incarnation": 1, "event": e, "detail": "{}", "at_us": at}
            for c, role in clients
            for e, at in (("started", BEGIN_US - 1_000_000), ("stopped", self.now + 1_000_000))
        ]
        faults = [
            {"fault": "kill", "kind": "broker.kill", "target": "", "phase": phase, "evidence": "{}", "at_us": at}
            for phase, at in (("injected", (BEGIN_US + self.now) // 2), ("healed", (BEGIN_US + self.now) // 2 + 900_000))
        ]
        small = {"assignments": self.assignments, "lifecycle": life, "faults": faults, "cluster": [], "transactions": []}
        seal: dict[str, SealedTable] = {}
        for name, rows in small.items():
            parts = Parts(ledger / f"{name}.parquet", TABLES[name])
            parts._pending = [pa.Table.from_pylist(rows, TABLES[name])]
            parts.close()
            seal[name] = SealedTable(rows=len(rows), files=1)
        for name, group in (("sends", self.sends), ("deliveries", self.delivered), ("commits", [self.commits])):
            for p in group:
                p.close()
            seal[name] = SealedTable(rows=sum(p.rows for p in group), files=len(group))
        for p in self.log:
            p.close()
        ranges = [{"topic": TOPIC, "partition": p, "start": 0, "end": self.heads[p]} for p in range(PARTITIONS)]
        pq.write_table(pa.Table.from_pylist(ranges, LOG_RANGE), ledger / "log_range.parquet")
        write_atomically(ledger / "seal.json", Seal(tables=seal).model_dump_json())


def scenario() -> Scenario:
    return Scenario.model_validate(
        {
            "title": "a generated history",
            "topics": [{"name": TOPIC, "partitions": PARTITIONS, "replication_factor": 3}],
            "producers": [{"name": "shop", "topic": TOPIC, "count": PRODUCERS, "config": {"acks": "all"}}],
            "consumers": [
                {"mode": "subscribe", "name": GROUP, "group": GROUP, "members": MEMBERS, "topics": [TOPIC],
                 "config": {"auto.offset.reset": "earliest"}},
                {"mode": "assign", "name": READER, "group": READER, "members": 1, "topics": [TOPIC],
                 "start": "earliest", "commit": {"when": "never"}},
            ],
        }
    )  # fmt: skip


def make(folder: Path, plan: Plan) -> tuple[RunDir, Resolved, Planted]:
    """A run directory of this plan, to be audited."""
    run = RunDir(folder)
    run.ledger.mkdir(parents=True, exist_ok=True)
    planted = History(run, plan).write()
    resolved = Resolved(run_id=plan.run_id, name="bench", seed=plan.seed, scenario=scenario(), versions={}, created_us=BEGIN_US)
    return run, resolved, planted


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("records", type=int)
    parser.add_argument("--rich", action="store_true")
    options = parser.parse_args()
    print(make(options.folder, Plan(options.records, options.rich))[2])
