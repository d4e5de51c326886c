"""Fake run directories: a sound run with small tables, in which a test breaks one part."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from chaos.anomalies import ANOMALIES
from chaos.ledger.schemas import LOG_RANGE, TABLES
from chaos.ledger.seal import Seal, SealedTable, Torn, part_name
from chaos.run.directory import Run
from chaos.run.events import EventLog
from chaos.scenario.load import parse
from chaos.scenario.resolve import Resolved, resolve, save

SECOND = 1_000_000
T0 = 1_700_000_000 * SECOND

SCENARIO = """
title: The leader dies
cluster: {brokers: 3}
topics: [{name: orders, partitions: 2, replication_factor: 3}]
producers: [{name: shop, topic: orders, records: 1000}]
consumers:
  - {mode: subscribe, name: billing, group: billing, members: 2, topics: [orders]}
  - {mode: assign, name: replay, members: 1, topics: [orders]}
faults:
  - {name: kill, kind: broker.kill, target: {leader_of: orders/0}, when: {acked: 100}, heal: {after: 1s}}
expect:
  duplicate_delivery: {illegal: 0}
  produce_unavailability: {max: 15s}
  groups: {billing: {members: 2, rebalances: {max: 1}}}
"""

AUDIT = {
    "summary": {
        "check": "s",
        "split": "s",
        "scope": "s",
        "count": "i",
        "examined": "i",
        "undecided": "i",
        "why": "s",
    },
    "undecided": {"check": "s", "scope": "s", "why": "s", "advice": "s", "count": "i"},
    "counts": {"name": "s", "scope": "s", "value": "i"},
    "metrics": {"metric": "s", "scope": "s", "fault": "s", "stat": "s", "value_us": "i"},
    "anomalies": {
        "check": "s",
        "split": "s",
        "scope": "s",
        "topic": "s",
        "partition": "i",
        "offset": "i",
        "producer": "s",
        "incarnation": "i",
        "seq": "i",
        "consumer": "s",
        "at_us": "i",
        "evidence": "s",
        "mechanism": "s",
    },
}
TYPES = {"s": pa.string(), "i": pa.int64()}
Rows = list[dict[str, Any]]


class FakeRun:
    """Tables of a run as lists of dicts: change them, then call `write()`."""

    def __init__(self, folder: Path, scenario: str = SCENARIO) -> None:
        self.run = Run.create(folder, "leader-dies-1")
        self.resolved: Resolved = resolve(
            parse(scenario, "test"), run_id="leader-dies-1", name="leader-dies", created_us=T0, seed=7, overrides=[]
        )
        save(self.run, self.resolved)
        s = self.resolved.scenario
        self.sealed = True
        self.torn: dict[str, int] = {}
        self.refused = ""
        self.wire_rows: dict[str, int] = {}
        """Rows by table of the ledger of the wire, where they are others than the clients'."""
        self.readers = [c.group if c.mode == "subscribe" else f"{c.name}/1" for c in s.readers]
        self.topics = [t.name for t in s.topics]
        sent = sum(p.count * p.records for p in s.producers)
        self.ledger: dict[str, Rows] = {
            "faults": [r for f in s.faults for r in proven(f.name, f.kind)],
            "lifecycle": [life("shop/1", "producer", "started"), life("billing/1", "consumer", "started")],
            "cluster": [{"at_us": T0, "entity": "group:billing", "key": "members", "value": '[{"a":1},{"b":2}]'}],
            "assignments": [assigned(1, T0 - SECOND), assigned(1, T0 - SECOND)],
        }
        self.log_range = [
            {"topic": t.name, "partition": p, "start": 0, "end": 500} for t in s.topics for p in range(t.partitions)
        ]
        shares = [entry.group for entry in s.shares]
        scopes = {"write": self.topics, "read": self.readers, "group": self.readers, "share": shares, "quorum": []}
        self.summary = [
            {"check": k, "split": split, "scope": scope, "count": 0, "examined": sent, "undecided": 0}
            for k, a in ANOMALIES.items()
            for split in a.splits or ("",)
            for scope in scopes[a.path]
        ]
        self.counts = [
            *({"name": n, "scope": t, "value": sent} for n in ("sent", "acked", "in_log") for t in self.topics),
            *({"name": n, "scope": r, "value": sent} for n in ("delivered", "distinct") for r in self.readers),
            *({"name": n, "scope": "assignments", "value": 2} for n in ("rows_read", "rows_audited")),
        ]
        self.metrics = [
            {"metric": m, "scope": "orders", "fault": f.name, "stat": "max", "value_us": us}
            for f in s.faults
            for m, us in (("produce_unavailability", 9_800_000), ("consume_unavailability", 11_000_000))
        ]
        self.anomalies: Rows = []
        self.undecided: Rows = []
        self.stages = [("deploy", "end"), ("load", "end"), ("seal", "end")]

    def found(self, check: str, split: str = "", **change: int | str) -> None:
        """Change the first summary row of a check."""
        row = next(r for r in self.summary if (r["check"], r["split"]) == (check, split))
        row.update(change)

    def examined_nothing(self, check: str) -> None:
        for row in self.summary:
            if row["check"] == check:
                row.update(count=0, examined=0)

    def write(self) -> FakeRun:
        """Write everything to the run directory."""
        for table in AUDIT:
            schema = pa.schema([(name, TYPES[t]) for name, t in AUDIT[table].items()])
            folder = self.run.audit / table
            folder.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist(getattr(self, table), schema), folder / "part-0.parquet")
        for table, schema in TABLES.items():
            folder = self.run.ledger / f"{table}.parquet"
            folder.mkdir(exist_ok=True)
            pq.write_table(pa.Table.from_pylist(self.ledger.get(table, []), schema), folder / part_name(0))
        pq.write_table(pa.Table.from_pylist(self.log_range, LOG_RANGE), self.run.ledger / "log_range.parquet")
        if self.sealed:
            tables = {t: SealedTable(rows=len(self.ledger.get(t, []))) for t in TABLES}
            for file, size in self.torn.items():
                torn = Torn(file=file, bytes=size, reason=self.refused or "cut off", refused=bool(self.refused))
                tables[file.split("/")[0]].torn.append(torn)
            (self.run.ledger / "seal.json").write_text(Seal(tables=tables).model_dump_json())
            if self.resolved.scenario.judged_on_wire:
                own = {t: SealedTable(rows=self.wire_rows.get(t, sealed.rows)) for t, sealed in tables.items()}
                (self.run.wire / "ledger").mkdir(parents=True)
                (self.run.wire / "ledger" / "seal.json").write_text(Seal(tables=own).model_dump_json())
        for stage, state in self.stages:
            EventLog(self.run).emit("stage", stage=stage, state=state, seconds=1.5, detail="broker 2 did not start")
        return self


def proven(fault: str, kind: str) -> Rows:
    """Return the rows of a fault that took effect and was healed."""
    phases = {"injecting": "", "injected": "killed", "proven": "orders/0 moved from broker 2 to 3", "healed": "started"}
    return [fault_row(fault, kind, phase, text, T0 + i * SECOND) for i, (phase, text) in enumerate(phases.items())]


def fault_row(fault: str, kind: str, phase: str, text: str, at_us: int, **more: str) -> dict[str, Any]:
    evidence = json.dumps({"words": text, "resolved": "broker 2", **more})
    return {
        "fault": fault,
        "kind": kind,
        "target": "leader of orders/0",
        "phase": phase,
        "evidence": evidence,
        "at_us": at_us,
    }


def life(client: str, role: str, event: str, *, at_us: int = T0, **detail: Any) -> dict[str, Any]:
    return {
        "client": client,
        "role": role,
        "incarnation": 1,
        "event": event,
        "detail": json.dumps(detail),
        "at_us": at_us,
    }


def assigned(generation: int, at_us: int, group: str = "billing") -> dict[str, Any]:
    row = {"consumer": f"{group}/1", "incarnation": 1, "group": group, "mode": "subscribe", "generation": generation}
    return row | {
        "event": "assigned",
        "assignment": 1,
        "topic": "orders",
        "partition": 0,
        "position": 0,
        "at_us": at_us,
    }


def finding(check: str, mechanism: str, **known: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"check": check, "split": "", "scope": "orders", "mechanism": mechanism, "evidence": "{}"}
    return row | known
