"""Effects of all inputs of a key, such as a sum."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checks.effects.findings import LISTED
from checks.effects.inputs import KEY
from checks.effects.judged import Judged, Row, same
from checks.effects.tables import JUDGED, OPEN, SPANS

MOST_INPUTS = 5_000
"""Most inputs of wrong sums that are looked for on the wire."""


def _plain(number: Column) -> Column:
    """Return a number as text without zeros at its end, as effects have it; Spark writes a zero as 0E-10."""
    text = F.regexp_replace(number.cast("string"), r"(\.\d*?)0+$", "$1")
    return F.when(number == 0, "0").otherwise(F.regexp_replace(text, r"\.$", ""))


class Aggregates(Judged):
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
