"""The judgement of one effect: what is the same for an effect of each input and for one of all inputs of a key."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from chaos.run.result import EFFECT_KINDS
from chaos.scenario.effect_rules import input_topic, samples_of
from chaos.scenario.expect import EffectBound
from chaos.setup.effects import Effect
from checks.effects.ledger import Tables
from checks.effects.tables import BEHIND, FINDINGS, JUDGED, OPEN, inputs_of, span
from checks.spark.master import is_local
from checks.spark.remote import Mirror

CAP = 200
"""Most findings that are kept of an effect and a kind."""
MOST_PLACES = 5
"""Most places of the effects of one finding."""
Row = dict[str, Any]


def same(one: str, other: str) -> Column:
    """Return whether two texts are the same value; numbers with a fraction are, if they differ by less than 10^-6.

    Two rounded numbers would not do: a sum of floats and an exact sum may lie on both sides of a half.
    """
    first, second = (F.expr(f"try_cast({name} as decimal(38, 10))") for name in (one, other))
    fraction = F.col(one).contains(".") | F.col(other).contains(".")
    near = fraction & (F.abs(first - second) < F.lit(Decimal("0.000001")))
    return F.col(one).eqNullSafe(F.col(other)) | F.coalesce(near, F.lit(False))


def total(value: Column, where: Column | None = None) -> Column:
    """Return a sum that is 0 without rows."""
    return F.coalesce(F.sum(value if where is None else F.when(where, value)), F.lit(0)).cast("long")


class Judged:
    """The judgement of one effect. frame: a row per input, or per key of an aggregate. order: of findings, in SQL."""

    order: tuple[str, ...] = ("id",)

    def __init__(self, tables: Tables, effect: Effect) -> None:
        self.tables, self.effect = tables, effect
        self.topic = input_topic(tables.resolved.scenario, effect)
        self.bound = tables.resolved.scenario.expect.effects.get(effect.name, EffectBound())
        self.of_rows = tables.of_rows(self.topic)
        self.samples = samples_of(tables.resolved.scenario, effect)
        self.rows = tables.effects(effect)
        self.unreadable = tables.unreadable.get(effect.name, 0)
        self.frame = self._kept(self._judged())

    def _judged(self) -> DataFrame:
        raise NotImplementedError

    def _kept(self, frame: DataFrame) -> DataFrame:
        """Return the rows from a table of the audit, or from Spark's memory if it runs on other machines."""
        spark, run = self.tables.spark, self.tables.run
        frame = frame.withColumn("effect", F.lit(self.effect.name))
        folder = inputs_of(run, self.effect)
        if is_local(spark.sparkContext.master) and not isinstance(run, Mirror):
            frame.write.mode("overwrite").parquet(f"file:{folder}", compression="zstd")
            return spark.read.schema(frame.schema).parquet(f"file:{folder}")
        frame = frame.persist()
        judged = frame.select("effect", *JUDGED).toArrow()
        folder.mkdir(parents=True)
        pq.write_table(judged, folder / "part-0.parquet", compression="zstd")
        return frame

    def _counted(self, examined: dict[str, Column]) -> list[Row]:
        """Return the rows of the totals. examined: for each kind that applies, what was examined in a row."""
        sums = [total(F.col(f"{kind}{end}")).alias(f"{kind}{end}") for kind in examined for end in ("", OPEN)]
        row = self.frame.agg(*sums, *(total(of_row).alias(f"{kind} of") for kind, of_row in examined.items())).first()
        found = []
        for kind in examined:
            least, most = span(kind, row[kind], row[f"{kind}{OPEN}"], self.unreadable)
            numbers = {"count": least, "undecided": most - least, "examined": row[f"{kind} of"]}
            found.append({"effect": self.effect.name, "kind": kind, **numbers})
        return found

    def findings(self, kinds: set[str]) -> list[Row]:
        """Return the first findings of these kinds; ids of no input come last."""
        wanted = (kind for kind in (*EFFECT_KINDS, BEHIND) if kind in kinds)
        return [
            row
            for kind in wanted
            for row in self.found(kind, self.frame.where(F.col(kind) > 0), *map(F.expr, self.order))
        ]

    def found(self, kind: str, frame: DataFrame, *order: Column | str) -> list[Row]:
        """Return the first findings of a kind, with where and when the first effects of each are."""
        rows = [row.asDict() for row in frame.orderBy(*order).limit(CAP).collect()]
        ids = [row["id"] for row in rows]
        found = self.rows.where(F.col("id").isin(ids)).groupBy("id") if ids else None
        shown = (-1, 1) if self.effect.aggregate and kind == "wrong" else (1, MOST_PLACES)  # the last one counts
        each = F.slice(F.sort_array(F.collect_list(F.struct("at_us", "number", "where"))), *shown)
        places = {r["id"]: r["each"] for r in found.agg(each.alias("each")).collect()} if found else {}
        return [
            {name: row.get(name) for name in FINDINGS.names}
            | {
                **{"effect": self.effect.name, "kind": kind, "topic": self.topic},
                "places": [place["where"] for place in places.get(row["id"], ())],
                "times_us": [place["at_us"] for place in places.get(row["id"], ())],
                "why": self._why(row),
            }
            for row in rows
        ]

    def _cut(self, partition: int | None) -> bool:
        """Return whether the log of a partition, or of any one if it is not known, begins after its first record."""
        starts = {number: start for (topic, number), start in self.tables.starts.items() if topic == self.topic}
        return bool(starts.get(partition)) if partition in starts else any(starts.values())

    def _deletes(self) -> bool:
        """Return whether the log of the topic may lack records that were in it."""
        return self.topic in self.tables.resolved.scenario.compacted or self._cut(None)

    def _why(self, row: Row) -> str:
        """Return what happened to an input before its application, if that explains a finding."""
        state, copies = row.get("state"), row.get("copies")
        if state == "fail":
            failed = "its producer got an error, or its transaction was aborted"
            return f"{failed}, and yet it is in the log" if copies else failed
        if copies is not None and copies > 1:
            return f"it is in the log {copies} times"
        if copies == 0 and state == "ok" and not self.of_rows:
            start = self.tables.starts.get((self.topic, row["partition"])) or 0
            if row.get("offset") is not None and row["offset"] < start:
                return "it was deleted from the log before the end"
            if row.get("offset") is None and self._cut(row["partition"]):
                unknown = "it may be lost, or deleted by retention"
                return f"it is not in the log, and was acknowledged without an offset: {unknown}"
            if self.topic in self.tables.resolved.scenario.compacted:
                return "it is not in the compacted log at the end"
            return "it is not in the log, so no application could read it (lost_write)"
        return ""
