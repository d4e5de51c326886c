"""What the judgement of effects reads of a run, as DataFrames."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from chaos.effects.watch import SIGHTS, read_sights
from chaos.ledger.ids import Ids
from chaos.ledger.schemas import EFFECT_INPUTS, EFFECTS, LOG, TABLES
from chaos.run.directory import Run
from chaos.scenario.effect_rules import producers_with_ids
from chaos.scenario.resolve import Resolved
from chaos.setup.effects import Effect
from chaos.setup.names import PRIMARY
from checks.effects.inputs import KEY, identified, inputs_of
from checks.spark.master import is_local
from checks.spark.remote import Mirror

_SIGHT_NAMES = ("mark", "id", "at_us", "after_us")
_SIGHT = "mark string, id string, at_us long, after_us long"
_SCHEMAS = TABLES | {"log": LOG, "effects": EFFECTS, "effect_inputs": EFFECT_INPUTS}
"""Schemas of the tables: with them, Spark runs no job to look into the files."""


@dataclass(frozen=True)
class Tables:
    """The tables of a run in Spark, and the facts that the judgement needs.

    crashed: the clients that were killed, which may have sent more than their rows say. unreadable: rows without an id.
    """

    spark: SparkSession
    run: Run
    resolved: Resolved
    ids: Ids
    crashed: frozenset[str]
    load_us: int
    unreadable: dict[str, int]
    starts: dict[tuple[str, int], int]
    faults: dict[str, int]
    """When each fault came, in us."""

    def table(self, name: str, cluster: str = PRIMARY) -> DataFrame:
        """Return a table of the ledger; of another cluster, what producers wrote there."""
        folder = "log" if name == "log" else f"{name}.parquet"
        run = self.run if cluster == PRIMARY else self.run.beside(cluster)
        if isinstance(self.run, Mirror):
            inside = run.ledger.relative_to(self.run.path)
            paths = self.run.parts(f"{inside}/{folder}")
        else:
            paths = [f"file:{path}" for path in sorted((run.ledger / folder).glob("*.parquet"))]
        return self.spark.read.schema(from_arrow_schema(_SCHEMAS[name])).parquet(*paths)

    def effects(self, effect: Effect) -> DataFrame:
        """Return the effects with an id, with origin, input and times.

        before: it was there before the first input; unsure: that is not known.
        """
        rows = self.table("effects").where((F.col("effect") == effect.name) & F.col("id").isNotNull())
        sights = self.run.ledger / SIGHTS / f"{effect.name}.jsonl"
        if effect.polled and sights.exists():
            if is_local(self.spark.sparkContext.master):
                seen = self.spark.read.schema(_SIGHT).json(f"file:{sights}")
            else:
                rows_seen = [tuple(map(row.get, _SIGHT_NAMES)) for row in read_sights(sights)]
                seen = self.spark.createDataFrame(rows_seen, _SIGHT)
            seen = seen.groupBy("mark").agg(F.min(F.struct("at_us", "after_us")).alias("seen"))
            rows = rows.join(seen, "mark", "left").withColumns(
                {"at_us": F.coalesce("at_us", "seen.at_us"), "after_us": F.coalesce("after_us", "seen.after_us")}
            )
            first, early = F.col("seen.after_us").isNull(), F.col("seen.at_us") < self.load_us
            flags = {"before": first & early, "unsure": first & ~early}
        else:
            flags = {"before": F.lit(False), "unsure": F.lit(effect.polled)}
        flags = {name: F.coalesce(flag, F.lit(False)) for name, flag in flags.items()}
        return identified(rows.withColumns(flags), self.ids)

    def values(self, effect: Effect, topic: str) -> DataFrame:
        """Return the values of the inputs of an effect that compares them, by producer and seq."""
        values = self.table("effect_inputs").where(F.col("effect") == effect.name)
        log = self.table("log", self.cluster_of(topic)).where(
            (F.col("run") == self.ids.run_token) & (F.col("topic") == topic)
        )
        return log.select(*KEY, "partition", "offset", "committed").join(values, ["partition", "offset"])

    def of_rows(self, topic: str) -> bool:
        """Return whether inputs are rows, and `topic` is the name of their producer."""
        return any(p.rows for p in self.resolved.scenario.producers if topic in p.inputs)

    def cluster_of(self, topic: str) -> str:
        """Return the cluster of the inputs of a topic."""
        return self.resolved.scenario.cluster_of_topics([topic])

    def inputs(self, topic: str) -> DataFrame:
        """Return the inputs of a topic."""
        names = [p.name for p in producers_with_ids(self.resolved.scenario)]
        sent = "inserts" if self.of_rows(topic) else "sends"
        at = self.cluster_of(topic)
        sends, log, transactions = (self.table(name, at) for name in (sent, "log", "transactions"))
        return inputs_of(sends, log, transactions, names, topic, self.ids.run_token)
