"""Inputs x effects: what each input was to have and what it has, judged in Spark.

All rows stay in Spark, whatever their number: the driver gets totals, times as a histogram in whole ms, and the first
findings of each kind.
"""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from contextlib import AbstractContextManager
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from chaos.ledger.schemas import EFFECT_READS
from chaos.report.text import duration
from chaos.run.directory import Run
from chaos.run.events import read_events
from chaos.run.result import EFFECT_KINDS
from chaos.scenario.effect_rules import input_topic, producers_with_ids, samples_of
from chaos.scenario.expect import EffectBound
from chaos.scenario.resolve import Resolved
from chaos.setup.effects import Effect, PerInput
from chaos.units import format_duration
from checks.effects.findings import LISTED
from checks.effects.inputs import FOREIGN, KEY, OWN, id_column, kind_of
from checks.effects.ledger import Tables
from checks.effects.story import add_stories
from checks.effects.tables import (
    BEHIND,
    FINDINGS,
    INPUTS,
    JUDGED,
    OPEN,
    SPANS,
    STATISTICS,
    TOTALS,
    nearest_rank,
    span,
    write_table,
)
from checks.evidence import ledger_rows
from checks.spark.master import is_local
from checks.spark.remote import Mirror
from checks.spark.session import configured, tuned

CAP = 200
"""Most findings that are kept of an effect and a kind."""
FEW = 500_000
"""Rows up to which compiling the joins takes longer than the work."""
LARGE = {"spark.sql.shuffle.partitions": "64"}
EARLY_US = 1_000_000
"""How far an effect may be before the send of its input: the clocks of two programs, and rounding."""
MANY = 10
"""Inputs from one sample that would not all lack their effects by chance."""
MOST_INPUTS = 5_000
"""Most inputs of wrong sums that are looked for on the wire."""
MOST_PLACES = 5
"""Most places of the effects of one finding."""
_FAULT = ["fault", "phase", "at_us"]
Row = dict[str, Any]


def judge_effects(spark: SparkSession, run: Run, resolved: Resolved) -> None:
    """Write `effect_inputs`, `effect_totals` and `effect_findings` of the audit.

    If Spark runs on other machines, `effect_inputs` has the columns that Great Expectations reads, and no others.

    An effect that could not be read has no rows in them.
    """
    reads = {row["effect"]: row for row in ledger_rows(run, "effect_reads", EFFECT_READS.names)}
    crashed = {r["client"] for r in ledger_rows(run, "lifecycle", ["client", "event"]) if r["event"] == "crashed"}
    begins = [e["at_us"] for e in read_events(run) if e.get("stage") == "load" and e.get("state") == "begin"]
    unreadable = {name: row["unreadable"] or 0 for name, row in reads.items()}
    tables = Tables(
        spark,
        run,
        resolved,
        resolved.ids,
        frozenset(crashed),
        min(begins, default=resolved.created_us),
        unreadable,
        {
            (r["topic"], r["partition"]): r["start"]
            for r in ledger_rows(run, "log_range", ["topic", "partition", "start"])
        },
        {r["fault"]: r["at_us"] for r in ledger_rows(run, "faults", _FAULT) if r["phase"] == "injected"},
    )
    totals: list[Row] = []
    findings: list[Row] = []
    shutil.rmtree(run.audit / INPUTS, ignore_errors=True)
    with _sized(spark, run, sum(row["rows"] or 0 for row in reads.values())):
        for effect in resolved.scenario.effects:
            if effect.name in reads and not reads[effect.name]["error"]:
                judged = _Aggregates(tables, effect) if effect.aggregate else _Singles(tables, effect)
                counted = judged.totals()
                totals += counted
                findings += judged.findings({row["kind"] for row in counted if row["count"]})
        add_stories(spark, run, resolved, findings, LISTED)
    write_table(run.audit / "effect_totals", totals, TOTALS)
    write_table(run.audit / "effect_findings", findings, FINDINGS)


def _sized(spark: SparkSession, run: Run, effects: int) -> AbstractContextManager[None]:
    """Return the settings of Spark for the number of rows."""
    if isinstance(run, Mirror):
        return configured(spark, LARGE)
    sends = sum(pq.read_metadata(path).num_rows for path in (run.ledger / "sends.parquet").glob("*.parquet"))
    return tuned(spark) if sends + effects < FEW else configured(spark, LARGE)


def same(one: str, other: str) -> Column:
    """Return whether two texts are the same value; numbers with a fraction are, if they differ by less than 10^-6.

    Two rounded numbers would not do: a sum of floats and an exact sum may lie on both sides of a half.
    """
    first, second = (F.expr(f"try_cast({name} as decimal(38, 10))") for name in (one, other))
    fraction = F.col(one).contains(".") | F.col(other).contains(".")
    near = fraction & (F.abs(first - second) < F.lit(Decimal("0.000001")))
    return F.col(one).eqNullSafe(F.col(other)) | F.coalesce(near, F.lit(False))


def _sum(value: Column, where: Column | None = None) -> Column:
    """Return a sum that is 0 without rows."""
    return F.coalesce(F.sum(value if where is None else F.when(where, value)), F.lit(0)).cast("long")


def _plain(number: Column) -> Column:
    """Return a number as text without zeros at its end, as effects have it; Spark writes a zero as 0E-10."""
    text = F.regexp_replace(number.cast("string"), r"(\.\d*?)0+$", "$1")
    return F.when(number == 0, "0").otherwise(F.regexp_replace(text, r"\.$", ""))


class _Judged:
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
        folder = run.audit / INPUTS / self.effect.name
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
        sums = [_sum(F.col(f"{kind}{end}")).alias(f"{kind}{end}") for kind in examined for end in ("", OPEN)]
        row = self.frame.agg(*sums, *(_sum(of_row).alias(f"{kind} of") for kind, of_row in examined.items())).first()
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


class _Singles(_Judged):
    """Effects of single inputs."""

    order: tuple[str, ...] = ("state = 'stranger'", "coalesce(acked_us, invoked_us)", "first_at_us", "seq")
    fault = ""
    """The fault at which most inputs were behind."""
    left_out: frozenset[int] = frozenset()
    """The samples with inputs that the application leaves out, by their numbers from 0."""

    def _judged(self) -> DataFrame:
        """Return inputs and effects side by side; an effect of this run without an input has a row too."""
        others = F.split("producer", "/").getItem(0).isin(self._others())
        inputs, own, n = self._inputs(), self.rows.where((F.col("origin") == OWN) & ~others), self._due()
        wrong = F.lit(False)
        if self.effect.equals:
            own = own.join(inputs.select(*KEY, "expected"), KEY, "left")
            wrong = F.col("expected").isNotNull() & ~same("value", "expected")
        after = F.coalesce("after_us", F.lit(0))
        at_us, after_us = (self._last(time) for time in (F.col("at_us"), after))
        enough = (n > 0) & (F.count("at_us") >= n)
        effects = own.groupBy(*KEY).agg(
            F.first("id").alias("found_id"),
            F.count("*").alias("effects"),
            F.count(F.when(wrong, 1)).alias("wrong"),
            F.max(F.when(wrong, F.coalesce("value", F.lit("no value")))).alias("found"),
            F.min("at_us").alias("first_at_us"),
            F.min("number").alias("first_number"),
            F.when(enough, at_us).alias("at_us"),
            F.when(enough, after_us).alias("after_us"),
        )
        ids = id_column(self.tables.ids, kind_of(self.tables.resolved.scenario))
        joined = inputs.join(effects, KEY, "full_outer").select(
            F.coalesce("found_id", ids).alias("id"),
            *KEY,
            *("partition", "offset", "copies", "invoked_us", "acked_us", "expected", "found"),
            F.coalesce("state", F.lit("none")).alias("state"),
            *(F.coalesce(name, F.lit(0)).cast("long").alias(name) for name in ("effects", "wrong")),
            *("first_at_us", "first_number", "at_us", "after_us"),
            F.lit(False).alias("unsure"),
        )
        joined = _in_order(joined) if self.effect.copied else joined
        joined = joined.drop("first_number")
        strangers = self.rows.where((F.col("origin") == FOREIGN) & ~F.col("before")).groupBy("id", "unsure")
        strangers = strangers.agg(F.count("*").alias("effects"), F.min("at_us").alias("first_at_us"))
        strangers = strangers.withColumns({"state": F.lit("stranger"), "wrong": F.lit(0).cast("long")})
        return self._judge(joined.unionByName(strangers, allowMissingColumns=True))

    def _others(self) -> list[str]:
        """Return the producers of other inputs, if their effects may be here too, as none is said to be elsewhere."""
        scenario, here = self.tables.resolved.scenario, _places(self.effect)
        places = defaultdict[str, set[tuple[str, str | None]]](set)
        for effect in scenario.effects:
            places[input_topic(scenario, effect)] |= _places(effect)
        others = [p for p in producers_with_ids(scenario) if self.topic not in p.inputs and not self.effect.copied]
        return [p.name for p in others if any(not places[name] or here & places[name] for name in p.inputs)]

    def _due(self) -> Column:
        """Return how many effects an input must have, by its seq."""
        per = self.effect.per
        if not per.samples:
            return F.lit(per.input)
        return F.element_at(F.array(*map(F.lit, per.samples)), (F.col("seq") % len(per.samples)).cast("int") + 1)

    def _last(self, time: Column) -> Column:
        """Return the time of the last effect that an input must have, null if it has fewer."""
        if self.effect.per == PerInput():
            return F.min(time)
        return F.try_element_at(F.sort_array(F.collect_list(time)), F.greatest(F.lit(1), self._due()))

    def _judge(self, joined: DataFrame) -> DataFrame:
        """Add the columns `JUDGED`. unsure: whether an id of no input may have been there before the run."""
        state, effects, n, none = F.col("state"), F.col("effects"), self._due(), F.lit(0).cast("long")
        known, stray = state.isin("ok", "unknown"), state.isin("none", "stranger")
        due = (state == "ok") | ((state == "unknown") & (effects > 0))
        written = (F.col("copies") > 0) | F.lit(self._deletes() or self.of_rows)
        maybe = (state == "unknown") & (effects == 0) & written
        open_ = stray & (F.col("unsure") | F.col("producer").isin(sorted(self.tables.crashed)))
        unknown_value = known & F.col("expected").isNull() if self.effect.equals else F.lit(False)
        done = (state == "ok") & F.col("at_us").isNotNull()
        numbers = {
            "missing": F.when(due, F.greatest(none, n - effects)),
            f"missing{OPEN}": F.when(maybe, n),
            "duplicate": F.when(known, F.greatest(none, effects - n)),
            f"duplicate{OPEN}": none,
            "unexpected": F.when((state == "fail") | (stray & ~F.coalesce(open_, F.lit(False))), effects),
            f"unexpected{OPEN}": F.when(open_, effects),
            "wrong": F.when(known, F.col("wrong")),
            f"wrong{OPEN}": F.when(unknown_value, effects),
        }
        late = {
            name: F.greatest(none, F.col(at) - F.col("acked_us"))
            for name, at in zip(SPANS, ("after_us", "at_us"), strict=True)
        }
        judged = joined.withColumns(
            {name: F.coalesce(number, none).cast("int") for name, number in numbers.items()}
            | {name: F.when(done, time) for name, time in late.items()}
        ).drop("unsure")
        return self._with_behind(judged)

    def _left_out(self) -> frozenset[int]:
        """Return the samples that lead to no effect, though other inputs of the same partitions have some.

        A fault hits inputs by their time or their place, and never each one from a sample.
        """
        due = self.frame.where((F.col("state") == "ok") & (F.col("copies") > 0) & (self._due() > 0))
        of_each = due.groupBy((F.col("seq") % self.samples).alias("sample"), "partition").agg(
            F.count("*").alias("inputs"), _sum(F.col("effects")).alias("effects")
        )
        rows = of_each.collect()
        read = {row["partition"] for row in rows if row["effects"]}
        done = {row["sample"] for row in rows if row["effects"]}
        lacking: Counter[int] = Counter()
        for row in rows:
            lacking[row["sample"]] += row["inputs"] if row["partition"] in read else 0
        return frozenset(sample for sample, inputs in lacking.items() if inputs >= MANY and sample not in done)

    def _why(self, row: Row) -> str:
        sample = row["seq"] % self.samples if self.left_out and self.samples and row.get("seq") is not None else None
        if sample not in self.left_out or row.get("state") != "ok":
            return super()._why(row)
        return (
            f"no input from sample {sample + 1} of {self.samples} has one, whatever fault came: the application leaves "
            "it out, or fails at it; if it may, say so with per: {samples: [1, 0, …]}"
        )

    def _with_behind(self, judged: DataFrame) -> DataFrame:
        """Add what was behind at the fault where it was most; zeros if nothing bounds it, or no fault came."""
        faults = self.tables.faults if self.bound.behind else {}
        pairs = {name: _behind(at_us, self._due()) for name, at_us in faults.items()}
        if pairs:
            sums = judged.agg(*(_sum(F.lit(1), a | b).alias(name) for name, (a, b) in pairs.items())).first()
            self.fault = max(pairs, key=lambda name: sums[name])
        sure, maybe = pairs.get(self.fault, (F.lit(False), F.lit(False)))
        return judged.withColumns({BEHIND: sure.cast("int"), f"{BEHIND}{OPEN}": maybe.cast("int")})

    def _inputs(self) -> DataFrame:
        """Return the inputs with the value that their effects must have, null if it is not known."""
        inputs = self.tables.inputs(self.topic)
        if not self.effect.equals:
            return inputs.withColumn("expected", F.lit(None).cast("string"))
        values = self.tables.values(self.effect, self.topic).groupBy(*KEY)
        return inputs.join(values.agg(F.first("value", True).alias("expected")), KEY, "left")

    def totals(self) -> list[Row]:
        """Return the rows of the totals."""
        state, effects = F.col("state"), F.col("effects")
        due = (self._due() > 0) & ((state == "ok") | ((state == "unknown") & (effects > 0)))
        of_inputs = F.when(state.isin("ok", "unknown"), effects)
        examined = {"missing": due.cast("long"), "duplicate": of_inputs, "unexpected": effects}
        counted = self._counted(examined | ({"wrong": of_inputs} if self.effect.equals else {}))
        return counted + self._behind_total() + self._late()

    def _behind_total(self) -> list[Row]:
        """Return the row of what was behind, if that is bounded."""
        if self.bound.behind is None:
            return []
        if not self.fault:
            base = {"effect": self.effect.name, "kind": BEHIND, "examined": 0, "undecided": 0}
            return [base | {"count": None, "why": "no fault came, so nothing shows what would be lost"}]
        at_us = self.tables.faults[self.fault]
        acked = (self._due() > 0) & (F.col("state") == "ok") & (F.col("acked_us") <= at_us)
        (row,) = self._counted({BEHIND: acked.cast("long")})
        oldest = self.frame.where(f"{BEHIND} + {BEHIND}{OPEN} > 0").agg(F.min("acked_us").alias("us")).first().us
        age = "" if oldest is None else f", the oldest for {duration(at_us - oldest)}"
        return [row | {"why": f"when {self.fault} came{age}"}]

    def _late(self) -> list[Row]:
        """Return the statistics of the times."""
        done = self.frame.where((F.col("state") == "ok") & (self._due() > 0) & (F.col("effects") >= self._due()))
        early = F.col("at_us") < F.col("invoked_us") - EARLY_US
        row = done.agg(
            _sum(F.lit(1), F.col("at_us").isNotNull()).alias("timed"),
            _sum(F.lit(1), F.col("at_us").isNull()).alias("untimed"),
            _sum(F.lit(1), early).alias("early"),
            F.max(F.col("invoked_us") - F.col("at_us")).alias("by_us"),
        ).first()
        why = ""
        if row.early:
            by = format_duration(round(row.by_us / 1e6, 1))
            why = (
                f"{row.early:,} effects are before their inputs, by up to {by}: "
                "give the time zone of their times (zone), or mend the clock"
            )
        elif row.untimed:
            why = f"the run did not see when {row.untimed:,} effects appeared; give at, or look more often (every)"
        elif not row.timed:
            why = "no input has an effect"
        base = {"effect": self.effect.name, "examined": row.timed, "why": why, "undecided": 0}
        if why:
            return [base | {"kind": f"late {stat}", "count": None} for stat in STATISTICS]
        least, most = _percentiles(done, *SPANS)
        spans = ((stat, least[stat], most[stat]) for stat in STATISTICS)
        return [base | {"kind": f"late {s}", "count": lo, "undecided": max(0, hi - lo)} for s, lo, hi in spans]

    def findings(self, kinds: set[str]) -> list[Row]:
        """Return the first findings of these kinds, and the latest effects; what is left out comes behind losses."""
        if "missing" in kinds and (self.samples or 0) > 1:
            self.left_out = self._left_out()
            of_these = ", ".join(map(str, sorted(self.left_out))) or "-1"
            self.order = (f"coalesce(seq % {self.samples} in ({of_these}), false)", *type(self).order)
        found = super().findings(kinds)
        if "late max" not in kinds:
            return found
        slowest = self.frame.where("late_us is not null").orderBy(F.desc("late_us")).limit(MOST_PLACES)
        return found + self.found("late", slowest, F.desc("late_us"))


def _behind(at_us: int, due: Column) -> tuple[Column, Column]:
    """Return whether an acknowledged input certainly had not all of its effects at a time, and whether that may be."""
    acked = (due > 0) & (F.col("state") == "ok") & (F.col("acked_us") <= at_us)
    sure = acked & ((F.col("effects") < due) | F.coalesce(F.col("after_us") > at_us, F.lit(False)))
    maybe = acked & ~sure & F.coalesce(F.col("at_us") > at_us, F.lit(True))
    return F.coalesce(sure, F.lit(False)), F.coalesce(maybe, F.lit(False))


def _places(effect: Effect) -> set[tuple[str, str | None]]:
    """Return the places of an effect: cluster and topic, without a topic if it is elsewhere."""
    return {(effect.cluster, topic) for topic in effect.topics or [None]}


def _in_order(rows: DataFrame) -> DataFrame:
    """Return the rows of inputs and their copies; a first copy before the one of an earlier input is wrong, too.

    A mirror that goes on at an older offset copies again what it has copied, and the first copies stay in order. An
    input of which the offset is not known is in no order.
    """
    before = Window.partitionBy("partition").orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    number = F.when(F.col("offset").isNotNull(), F.col("first_number"))
    early = (number < F.max(number).over(before)) & (F.col("wrong") == 0)
    return (
        rows.withColumn("early", early)
        .withColumns(
            {
                "wrong": F.when(F.col("early"), F.lit(1)).otherwise(F.col("wrong")).cast("long"),
                "found": F.when(F.col("early"), "a place before the copy of an earlier record").otherwise(
                    F.col("found")
                ),
                "expected": F.when(F.col("early"), "a place after it").otherwise(F.col("expected")),
            }
        )
        .drop("early")
    )


def _percentiles(frame: DataFrame, *columns: str) -> list[dict[str, int]]:
    """Return the nearest-rank percentiles of each column in us, rounded up to whole ms."""
    each = F.array(
        *(F.struct(F.lit(n).alias("of"), F.ceil(F.col(c) / 1000).alias("ms")) for n, c in enumerate(columns))
    )
    rows = frame.select(F.explode(each).alias("at")).select("at.*").where("ms is not null")
    counted, found = rows.groupBy("of", "ms").count().toArrow().sort_by("ms"), []
    for n in range(len(columns)):
        ms = counted.filter(pc.equal(counted["of"], n))
        values, counts = ms["ms"].to_numpy(), np.cumsum(ms["count"].to_numpy())
        ranks = {stat: nearest_rank(share, counts[-1]) + 1 for stat, share in STATISTICS.items()}
        found.append({stat: 1000 * int(values[np.searchsorted(counts, rank)]) for stat, rank in ranks.items()})
    return found


class _Aggregates(_Judged):
    """Effects of all inputs of a key: the last one of a key counts."""

    def _judged(self) -> DataFrame:
        """Return a row per key.

        open: its inputs that may count, of unknown outcome or failed, and in the log. Aborted ones do not.
        Nor is known how an application counts an amount that is no number. written: the inputs of unknown outcome that
        an application could read. new, unsure: effects that were not there before the run, and that perhaps were not.
        """
        function = {"sum": F.try_sum, "count": F.count, "min": F.min, "max": F.max}[self.effect.function[0]]
        inputs = self.tables.inputs(self.topic)
        values = self.tables.values(self.effect, self.topic).dropDuplicates(KEY)
        number = F.expr("try_cast(amount as decimal(38, 10))")
        sure, unknown, readable = F.col("state") == "ok", F.col("state") == "unknown", F.col("copies") > 0
        expected = inputs.join(values.withColumnRenamed("value", "amount"), KEY).where("key is not null")
        expected = expected.groupBy("key").agg(
            _plain(function(F.when(sure, number))).alias("expected"),
            F.count(F.when(sure, 1)).alias("inputs"),
            F.count_if((~sure & readable) | (sure & number.isNull())).alias("open"),
            F.count(F.when(unknown & readable, 1)).alias("written"),
            F.min("acked_us").alias("acked_us"),
            F.max("copies").alias("copies"),
        )
        row = F.struct("at_us", "number", "value")
        effects = self.rows.groupBy(F.col("id").alias("key")).agg(
            F.count("*").alias("effects"),
            F.max(row)["value"].alias("found"),
            F.max("at_us").alias("at_us"),
            F.count_if(~F.col("before") & ~F.col("unsure")).alias("new"),
            F.count_if("unsure").alias("unsure"),
        )
        columns = ("expected", "found", "acked_us", "copies", "at_us")
        counted = ("inputs", "open", "written", "effects", "new", "unsure")
        counts = (F.coalesce(name, F.lit(0)).cast("long").alias(name) for name in counted)
        return self._judge(
            expected.join(effects, "key", "full_outer").select(F.col("key").alias("id"), *columns, *counts)
        )

    def _judge(self, joined: DataFrame) -> DataFrame:
        """Add the columns `JUDGED`.

        Only rows of a query can be duplicates: elsewhere, a later one takes over. Rows of a key without an input are
        unexpected, unless they were there before the run.
        """
        effects, due, none = F.col("effects"), F.col("inputs") > 0, F.lit(0).cast("long")
        known = (F.col("inputs") + F.col("open")) > 0
        wrong = due & (effects > 0) & ~same("found", "expected")
        blind, new, unsure = self._blind(), F.col("new"), F.col("unsure")
        is_open = (F.col("open") > 0) | F.lit(blind) | F.col("expected").isNull()
        numbers = {
            "missing": (due & (effects == 0)).cast("long"),
            f"missing{OPEN}": (~due & (F.col("written") > 0) & (effects == 0)).cast("long"),
            "duplicate": F.when(known, F.greatest(none, effects - 1)) if self.effect.sql else none,
            "unexpected": F.when(~known, none if blind else new),
            f"unexpected{OPEN}": F.when(~known, unsure + new if blind else unsure),
            "wrong": (wrong & ~is_open).cast("long"),
            f"wrong{OPEN}": (wrong & is_open).cast("long"),
        }
        numbers = {name: F.coalesce(numbers.get(name, none), none).cast("int") for name in JUDGED if name not in SPANS}
        none_timed = dict.fromkeys(SPANS, F.lit(None).cast("long"))
        return joined.withColumns(numbers | none_timed).drop("new", "unsure", "written")

    def _blind(self) -> bool:
        """Return whether there may be inputs with a key and a value that nobody knows.

        These are acknowledged inputs that are not in the log, and inputs of unknown outcome if records were deleted.
        """
        states = ["ok", "unknown"] if self._deletes() else ["ok"]
        gone = F.col("state").isin(states) & (F.col("copies") == 0)
        return bool(self.tables.inputs(self.topic).where(gone).limit(1).count())

    def totals(self) -> list[Row]:
        """Return the rows of the totals."""
        effects, due = F.col("effects"), F.col("inputs") > 0
        examined = {"missing": due.cast("long"), "unexpected": effects, "wrong": (due & (effects > 0)).cast("long")}
        return self._counted(examined | ({"duplicate": effects} if self.effect.sql else {}))

    def findings(self, kinds: set[str]) -> list[Row]:
        """Return the first findings of these kinds; wrong sums with `inputs`: place and amount of each of the key.

        Aborted ones are left out: the expected sum is without them.
        """
        found = super().findings(kinds)
        wrong = {row["id"]: row for row in found if row["kind"] == "wrong" and not row["why"]}
        wrong = dict(list(wrong.items())[:LISTED])
        if not wrong or self.effect.function[0] not in ("sum", "count"):
            return found
        values = self.tables.values(self.effect, self.topic).where(F.coalesce("committed", F.lit(True)))
        values = values.dropDuplicates(KEY).where(F.col("key").isin(list(wrong)))
        amount = F.expr("try_cast(value as decimal(38, 10))").alias("amount")
        rows = values.select("key", "partition", "offset", amount).limit(MOST_INPUTS + 1).collect()
        for row in rows if len(rows) <= MOST_INPUTS else ():
            wrong[row.key].setdefault("inputs", []).append(row.asDict())
        return found
