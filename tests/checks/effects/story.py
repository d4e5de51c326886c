"""Hand-written runs with effects: rows of sends, of the log and of effects, and what the judgement says of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from great_expectations.execution_engine import PandasExecutionEngine

from chaos.effects.watch import SIGHTS
from chaos.ledger.ids import Ids
from chaos.ledger.schemas import EFFECT_INPUTS, EFFECT_READS, EFFECTS, LOG
from chaos.ledger.seal import part_name
from chaos.setup.names import PRIMARY
from checks.effects.findings import sentence
from checks.effects.judge import judge_effects
from checks.effects.tables import INPUTS, JUDGED
from checks.evidence import audit_rows
from checks.expectations import bounds
from tests.support.fake_runs import SECOND, T0, FakeRun, life

SCENARIO = """
title: Billing
topics: [{{name: orders, partitions: 2}}, {{name: invoices}}]
producers: [{{name: shop, topic: orders, records: 1000, count: 2, value: {{template: 'order {{id}}'}}}}]
effects: [{{name: invoices, {effect}}}]
expect: {{effects: {{invoices: {bounds}}}}}
"""
TOPIC = "topic: invoices, id: $.order_id"
COMPACTED = SCENARIO.replace("partitions: 2}}", "partitions: 2, config: {{cleanup.policy: compact}}}}").replace(
    "{{id}}'}}", "{{id}}', key: one}}"
)


class Story:
    """A run with inputs and effects. `input` and `effect` add rows, `judge` returns the totals by kind."""

    def __init__(self, folder: Path, effect: str = TOPIC, bounds: str = "{}", scenario: str = SCENARIO) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.fake = FakeRun(folder, scenario.format(effect=effect, bounds=bounds))
        self.run, self.resolved = self.fake.run, self.fake.resolved
        self.ids: Ids = self.resolved.ids
        self.sends: list[dict[str, Any]] = []
        self.log: list[dict[str, Any]] = []
        self.effects: list[dict[str, Any]] = []
        self.values: list[dict[str, Any]] = []
        self.sights: list[dict[str, Any]] = []
        self.reads: dict[str, Any] = {"effect": "invoices", "unreadable": 0}
        self.fake.stages = [("deploy", "end"), ("settle", "end"), ("seal", "end")]
        self.loads = [T0 - SECOND]

    def id(self, seq: int, client: str = "shop/1", kind: Any = "text") -> Any:
        return self.ids.of(client, seq, kind)

    def input(self, seq: int, outcome: str = "ok", client: str = "shop/1", copies: int | None = None, **more: Any):
        """Add an input: a send at second `seq`, acknowledged 0.1 s later, and its copies in the log."""
        at, value = T0 + seq * SECOND, more.pop("value", None)
        row = {"producer": client, "incarnation": 1, "seq": seq, "topic": "orders", "partition": 0}
        row |= {"offset": seq if outcome == "ok" else None, "outcome": outcome, "invoked_us": at}
        self.sends.append(row | {"completed_us": at + SECOND // 10} | more)
        for copy in range((outcome == "ok") if copies is None else copies):
            self.logged(seq, client, offset=seq + 1000 * copy, value=value)

    def logged(self, seq: int, client: str = "shop/1", offset: int | None = None, value: Any = None, **more: Any):
        place = {"topic": "orders", "partition": 0, "offset": seq if offset is None else offset}
        row = place | {"run": self.ids.run_token, "producer": client, "incarnation": 1, "seq": seq, "committed": True}
        self.log.append(row | more)
        if value is not None:
            amount, key = value if isinstance(value, tuple) else (value, None)
            place = {"partition": 0, "offset": place["offset"]}
            self.values.append({"effect": "invoices", "key": key, "value": amount} | place)

    def effect(self, of: Any, at: float | None = None, **more: Any):
        """Add an effect of an input by its seq, or with an id as text; `at` in seconds."""
        id_ = self.id(of) if isinstance(of, int) else of
        at_us = None if at is None and isinstance(of, str) else T0 + round((of + 0.5 if at is None else at) * SECOND)
        number = len(self.effects)
        row = {"effect": "invoices", "id": id_, "at_us": at_us, "after_us": at_us, "number": number}
        self.effects.append(row | {"where": f"invoices/0 offset {number}", "mark": f"{number}"} | more)

    def seen(self, at: float, after: float | None) -> None:
        """Say when the run first saw the last effect, which then has no time."""
        self.effects[-1] |= {"at_us": None, "after_us": None}
        times = [None if s is None else T0 + round(s * SECOND) for s in (at, after)]
        self.sights.append({"mark": self.effects[-1]["mark"], "at_us": times[0], "after_us": times[1]})

    def write(self) -> None:
        self.fake.ledger["inserts" if self.resolved.scenario.producers[0].rows else "sends"] = self.sends
        stages = [("deploy", "begin", T0 - 9 * SECOND), *(("load", "begin", at_us) for at_us in self.loads)]
        stages.append(("load", "end", self.loads[-1] + SECOND))
        with self.run.events.open("a") as events:
            for stage, state, at_us in stages:
                events.write(json.dumps({"at_us": at_us, "kind": "stage", "stage": stage, "state": state}) + "\n")
        self.fake.write()
        ledger = self.run.ledger
        self.reads |= {"rows": len(self.effects) + self.reads["unreadable"]}
        for folder, schema, rows in (
            ("log", LOG, self.log),
            ("effects.parquet", EFFECTS, self.effects),
            ("effect_inputs.parquet", EFFECT_INPUTS, self.values),
        ):
            (ledger / folder).mkdir(exist_ok=True)
            pq.write_table(pa.Table.from_pylist(rows, schema), ledger / folder / part_name(0))
        pq.write_table(pa.Table.from_pylist([self.reads], EFFECT_READS), ledger / "effect_reads.parquet")
        (ledger / SIGHTS).mkdir(exist_ok=True)
        lines = "".join(json.dumps(row) + "\n" for row in self.sights)
        if self.sights:
            (ledger / SIGHTS / "invoices.jsonl").write_text(lines)
        if (cluster := self.resolved.scenario.cluster_of(self.resolved.scenario.producers[0])) != PRIMARY:
            there = self.run.beside(cluster).ledger
            there.mkdir(parents=True)
            for name in ("sends.parquet", "transactions.parquet", "log"):
                (ledger / name).rename(there / name)

    def judge(self, spark: Any) -> dict[str, Any]:
        """Return the numbers by kind: one, or a range as a pair; None if there is none. The times are left out."""
        self.write()
        judge_effects(spark, self.run, self.resolved)
        self.totals = {row["kind"]: row for row in audit_rows(self.run, "effect_totals")}
        self.findings = audit_rows(self.run, "effect_findings")
        self.compare()
        return {kind: _range(row) for kind, row in self.totals.items() if not kind.startswith("late")}

    def compare(self) -> None:
        """Compare the totals with the numbers that the expectations find in the joined table."""
        joined = pd.read_parquet(self.run.audit / INPUTS, columns=["effect", *JUDGED], dtype_backend="pyarrow")
        engine = PandasExecutionEngine(batch_data_dict={"run": joined})
        for kind, total in self.totals.items():
            if total["count"] is None:
                continue
            of_kind = {"effect": "invoices", "kind": kind, "without_id": self.reads["unreadable"]}
            expectation: Any = bounds.ExpectEffectsToBeBetween(**of_kind)
            provider: Any = bounds.NumbersOfAnEffect
            if kind.startswith("late "):
                expectation = bounds.ExpectTimeToEffectToBeBetween(effect="invoices", stat=kind.removeprefix("late "))
                provider = bounds.TimesToAnEffect
            asked = {name: getattr(expectation, name) for name in provider.value_keys}
            found = expectation.range_of(provider._pandas(None, engine, {"batch_id": "run"}, asked, {}, {}))
            assert found == (None if joined.empty else (total["count"], total["count"] + total["undecided"])), kind

    def late(self, stat: str = "max") -> Any:
        """Return a time in seconds, or a range of it, or why there is none."""
        row = self.totals[f"late {stat}"]
        if row["count"] is None:
            return row["why"]
        least, most = row["count"] / SECOND, (row["count"] + row["undecided"]) / SECOND
        return least if least == most else (least, most)

    def crash(self, client: str) -> None:
        self.fake.ledger["lifecycle"].append(life(client, "producer", "crashed"))


def _range(row: dict[str, Any]) -> Any:
    return (row["count"], row["count"] + row["undecided"]) if row["undecided"] else row["count"]


def words(story: Story, kind: str) -> list[str]:
    """Return the sentences of the findings of a kind."""
    return [sentence(f, T0) for f in story.findings if f["kind"] == kind]


def transaction(s: Story, txn: int, outcome: str, committed: bool | None) -> None:
    """Put the last input into a transaction: how its producer saw it end, and what the log says of the record."""
    s.sends[-1]["txn"], s.log[-1]["committed"] = txn, committed
    row = {"producer": "shop/1", "incarnation": 1, "txn": txn, "outcome": outcome, "began_us": T0, "ended_us": T0}
    s.fake.ledger.setdefault("transactions", []).append(row)
