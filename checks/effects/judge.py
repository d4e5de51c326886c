"""Inputs x effects: what each input was to have and what it has, judged in Spark.

All rows stay in Spark, whatever their number: the driver gets totals, times as a histogram in whole ms, and the first
findings of each kind.
"""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from contextlib import AbstractContextManager
from functools import cached_property
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
from chaos.scenario.effect_rules import input_topic, producers_with_ids
from chaos.scenario.resolve import Resolved
from chaos.setup.effects import Effect, PerInput
from chaos.units import format_duration
from checks.effects.aggregates import Aggregates
from checks.effects.findings import LISTED
from checks.effects.inputs import FOREIGN, KEY, OWN, id_column, kind_of
from checks.effects.judged import MOST_PLACES, Judged, Row, same, total
from checks.effects.ledger import Tables
from checks.effects.story import add_stories
from checks.effects.tables import (
    BEHIND,
    FINDINGS,
    INPUTS,
    OPEN,
    SPANS,
    STATISTICS,
    TOTALS,
    nearest_rank,
    write_table,
)
from checks.evidence import ledger_rows
from checks.spark.remote import Mirror
from checks.spark.session import configured, tuned

FEW = 500_000
"""Rows up to which compiling the joins takes longer than the work."""
LARGE = {"spark.sql.shuffle.partitions": "64"}
EARLY_US = 1_000_000
"""How far an effect may be before the send of its input: the clocks of two programs, and rounding."""
COPIED_US = 1_000
"""How far a timestamp is before the send of an input, at the most, if it is a copy: it is in whole milliseconds."""
MANY = 10
"""Inputs from one sample that would not all lack their effects by chance."""
_FAULT = ["fault", "phase", "at_us"]


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
                judged = Aggregates(tables, effect) if effect.aggregate else _Singles(tables, effect)
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


class _Singles(Judged):
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
            F.count("*").alias("inputs"), total(F.col("effects")).alias("effects")
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
            sums = judged.agg(*(total(F.lit(1), a | b).alias(name) for name, (a, b) in pairs.items())).first()
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
        no_fault = "" if self.fault else "no fault came, so nothing shows what would be lost"
        if why := no_fault or self._misleading:
            base = {"effect": self.effect.name, "kind": BEHIND, "examined": 0, "undecided": 0}
            return [base | {"count": None, "why": why}]
        at_us = self.tables.faults[self.fault]
        acked = (self._due() > 0) & (F.col("state") == "ok") & (F.col("acked_us") <= at_us)
        (row,) = self._counted({BEHIND: acked.cast("long")})
        oldest = self.frame.where(f"{BEHIND} + {BEHIND}{OPEN} > 0").agg(F.min("acked_us").alias("us")).first().us
        age = "" if oldest is None else f", the oldest for {duration(at_us - oldest)}"
        return [row | {"why": f"when {self.fault} came{age}"}]

    @property
    def _done(self) -> DataFrame:
        """The inputs that have all their effects."""
        return self.frame.where((F.col("state") == "ok") & (self._due() > 0) & (F.col("effects") >= self._due()))

    @cached_property
    def _times(self) -> Any:
        """How many of them have times, and how far these are from the times of the inputs."""
        early = F.col("at_us") < F.col("invoked_us") - EARLY_US
        before = F.col("invoked_us") - F.col("after_us")
        return self._done.agg(
            total(F.lit(1), F.col("at_us").isNotNull()).alias("timed"),
            total(F.lit(1), F.col("at_us").isNull()).alias("untimed"),
            total(F.lit(1), early).alias("early"),
            F.max(F.col("invoked_us") - F.col("at_us")).alias("by_us"),
            total(F.lit(1), before.between(1, COPIED_US)).alias("copied"),
        ).first()

    @cached_property
    def _misleading(self) -> str:
        """Why the times of the effects are not when they came about; empty if they are."""
        times = self._times
        if times.early:
            by = format_duration(round(times.by_us / 1e6, 1))
            return (
                f"{times.early:,} effects are before their inputs, by up to {by}: "
                "give the time zone of their times (zone), or mend the clock"
            )
        of_records = bool(self.effect.topics) and self.effect.at is None
        if of_records and times.copied > times.timed / 2:  # the rest was not sent at once when it was noted as sent
            return (
                "its records have the timestamps of their inputs, as Kafka Streams gives them: set "
                "message.timestamp.type of the topic to LogAppendTime, or name the time in a record with `at`"
            )
        return ""

    def _late(self) -> list[Row]:
        """Return the statistics of the times."""
        row, done = self._times, self._done
        why = self._misleading
        if row.untimed and not why:
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
