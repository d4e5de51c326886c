"""The stage `effects`: all effects of a run, from their sources into the ledger.

Topics, files and logs are read in parts, by Spark tasks if they are large, else by threads. A source that cannot be
read is a row of `effect_reads`, and never ends the read-back.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message
from pyspark.sql import SparkSession

from chaos.databases import by_spark, scrubber, without_values
from chaos.effects.payload import Extractor, Record, Unreadable, at_place, canonical, decoder
from chaos.effects.receiver import LEFT, call_of
from chaos.effects.sources import (
    READ_S,
    FilePart,
    Item,
    Query,
    Repeated,
    SourceError,
    files_of,
    kept_file,
    kept_rows,
    patient,
    read_whole,
    url_of,
)
from chaos.effects.watch import SIGHTS, read_sights
from chaos.errors import AftershockError, ClusterError
from chaos.kafka.security import Endpoint, Security
from chaos.ledger.schemas import EFFECT_INPUTS, EFFECT_READS, EFFECTS
from chaos.ledger.seal import parquet_options, part_name
from chaos.run.directory import Run
from chaos.run.events import EventLog, now_us
from chaos.scenario.effect_rules import input_format, input_topic
from chaos.scenario.resolve import Resolved
from chaos.setup.effects import Effect, Format, Place
from chaos.setup.names import PRIMARY
from checks.readback.source import ROWS_PER_BATCH, ROWS_PER_FILE, OffsetRange, PartReader
from checks.readback.stage import SMALL, log_ranges, stable_offsets
from checks.spark.master import is_here

SMALL_BYTES = 64 << 20
"""Bytes of files up to which threads finish before Spark would have started its workers."""
Row = dict[str, Any]
Ranges = dict[str, list[tuple[int, int, int]]]
"""By topic, each partition with its start and end offset."""


@dataclass(frozen=True)
class TopicPart:
    """A range of a topic: the effects in it, or the values of the inputs. inputs: their format.

    hidden: whether no text of the run may have a part of a payload (`capture.payloads: none`).
    """

    effect: Effect
    range: OffsetRange
    inputs: Format | None = None
    hidden: bool = False

    def rows(self) -> Iterator[Row]:
        """Yield a row for each record, committed ones only if they are effects."""
        isolation = "read_uncommitted" if self.inputs else "read_committed"
        topic, partition = self.range.topic, self.range.partition
        rows_of = _input_rows(self.effect, self.inputs) if self.inputs else _topic_rows(self.effect, self.hidden)
        of_cluster = "" if self.inputs else self.effect.elsewhere
        with contextlib.closing(PartReader(self.range, isolation)) as reader:
            while reader.reached < self.range.end:
                for message in reader.poll(ROWS_PER_BATCH):
                    if message.offset() >= self.range.end:
                        return
                    yield from rows_of(message, f"{topic}/{partition} offset {message.offset():,}{of_cluster}")


@dataclass
class SourcePart:
    """A file, or the whole of a database. hidden: as in `TopicPart`. torn: where its last line is only begun."""

    effect: Effect
    items: Callable[[], Iterator[Item]]
    hidden: bool
    torn: str | None = None

    def rows(self) -> Iterator[Row]:
        """Yield a row for each item."""
        extract, marks = Extractor(self.effect, self.hidden), Repeated()
        for number, item in enumerate(self.items()):
            if item.torn:
                self.torn = item.where
                continue
            for found in extract(item.read):
                row = {"effect": self.effect.name, "where": item.where + found.item, "number": number}
                if found.id is None:
                    yield row | {"mark": item.mark, "problem": found.problem}
                    continue
                mark = item.mark + found.item if item.mark else marks.mark(found.id)
                times = {} if found.at_us is None else {"at_us": found.at_us, "after_us": found.at_us}
                yield row | {"id": found.id, "value": found.value, "mark": mark} | times


@dataclass(frozen=True)
class CallPart:
    """The calls that a receiver accepted."""

    effect: Effect
    sights: Path

    def rows(self) -> Iterator[Row]:
        """Yield a row for each call; its place says so if its caller did not wait for the answer."""
        left = {s["mark"]: s["left_after_us"] for s in read_sights(self.sights) if "left_after_us" in s}
        for number, sight in enumerate(s for s in read_sights(self.sights) if "left_after_us" not in s):
            row: Row = {"effect": self.effect.name, "number": number} | sight
            if (after_us := left.get(call_of(sight))) is not None:
                row["where"] += f" ({LEFT} after {after_us / 1e6:,.1f} s, without an answer)"
            yield row


Part = TopicPart | SourcePart | CallPart


@dataclass
class Outcome:
    """What reading a part gave. torn: see `SourcePart`."""

    effect: str
    rows: int = 0
    unreadable: int = 0
    example: str | None = None
    error: str | None = None
    torn: str | None = None


@dataclass
class Plan:
    """The parts of all effects. weight: records, or bytes in records' terms; errors: of sources that have no part."""

    parts: list[Part] = field(default_factory=list)
    weight: int = 0
    errors: list[Outcome] = field(default_factory=list)


def read_effects(
    spark: SparkSession,
    run: Run,
    resolved: Resolved,
    bootstrap: str,
    security: Security | None = None,
    others: Mapping[str, Endpoint] | None = None,
) -> None:
    """Write `ledger/effects.parquet/`, `effect_inputs.parquet/` and `effect_reads.parquet`, the last one last.

    others: the clusters beside the first one, by name.
    """
    effects, read_us = resolved.scenario.effects, now_us()
    plan = _plan(spark, run, resolved, Endpoint(bootstrap, platform=security), others or {})
    half = Path(tempfile.mkdtemp(prefix=".effects.", dir=run.ledger))
    try:
        for name, schema in (("effects", EFFECTS), ("effect_inputs", EFFECT_INPUTS)):
            (half / name).mkdir()
            pq.write_table(schema.empty_table(), half / name / part_name(0))
        outcomes = plan.errors + _read_parts(spark, plan, half)
        for name in ("effects", "effect_inputs"):
            shutil.rmtree(run.ledger / f"{name}.parquet", ignore_errors=True)
            (half / name).rename(run.ledger / f"{name}.parquet")
        _write_reads(run.ledger / "effect_reads.parquet", effects, outcomes, read_us)
        for outcome in (outcome for outcome in outcomes if outcome.torn):
            words = f"effect {outcome.effect}: the last line is only begun, and no effect: {outcome.torn}"
            EventLog(run).note(words)
    finally:
        shutil.rmtree(half, ignore_errors=True)


def _plan(spark: SparkSession, run: Run, resolved: Resolved, first: Endpoint, others: Mapping[str, Endpoint]) -> Plan:
    """Return the parts to read."""
    plan = Plan()
    effects = resolved.scenario.effects
    ranges = _ranges(run, first.bootstrap, {topic for e in effects for topic in e.own_topics}, first.platform)
    places = {PRIMARY: _Topics(first.bootstrap, first.platform, ranges)}
    for name, other in others.items():
        topics = {topic for e in effects if e.cluster == name for topic in e.topics}
        topics |= {topic.name for topic in resolved.scenario.topics if topic.cluster == name}
        found = _existing(other.bootstrap, sorted(topics), other.platform)
        places[name] = _Topics(other.bootstrap, other.platform, found)
    hidden = resolved.scenario.hides_payloads
    for effect in resolved.scenario.effects:
        try:
            parts, weight = _parts_of(spark, run, effect, hidden)
            for topic in effect.topics:
                parts += [replace(part, hidden=hidden) for part in places[effect.cluster].parts(effect, topic)]
            plan.parts += parts
            plan.weight += weight
            if effect.compares:
                topic, form = input_topic(resolved.scenario, effect), input_format(resolved.scenario, effect)
                at = resolved.scenario.cluster_of_topics([topic])
                plan.parts += places[at].parts(effect, topic, form)
        except AftershockError as e:
            plan.errors.append(Outcome(effect.name, error=str(e)))
    plan.weight += sum(p.range.end - p.range.start for p in plan.parts if isinstance(p, TopicPart))
    return plan


def _parts_of(spark: SparkSession, run: Run, effect: Effect, hidden: bool) -> tuple[list[Part], int]:
    """Return the parts of an effect that is no topic, and their weight."""
    if effect.app is not None:
        file = kept_file(run.ledger, effect.name)
        return [SourcePart(effect, lambda: kept_rows(file, effect), hidden)], 0
    if effect.sql is not None:
        jdbc = by_spark(url_of(effect))
        items = (lambda: patient(_jdbc(spark, effect, hidden), READ_S, effect)) if jdbc else Query(effect, hidden).items
        return [SourcePart(effect, items, hidden)], 0
    if effect.http is not None:
        return [CallPart(effect, run.ledger / SIGHTS / f"{effect.name}.jsonl")], 0
    if effect.topic is not None:
        return [], 0
    files = files_of(effect, run.logs)
    return [_file_part(effect, part, hidden) for part in files], sum(f.size for f in files) * SMALL // SMALL_BYTES


def _file_part(effect: Effect, part: FilePart, hidden: bool) -> SourcePart:
    return SourcePart(effect, lambda: read_whole(part), hidden)


def _ranges(run: Run, bootstrap: str, topics: set[str], security: Security | None) -> Ranges:
    """Return the ranges of the log that was read back, and of topics of effects that only applications write to.

    A topic that does not exist is left out.
    """
    found: Ranges = {}
    for row in pq.read_table(run.ledger / "log_range.parquet").to_pylist():
        if row["records"] is None:
            found.setdefault(row["topic"], []).append((row["partition"], row["start"], row["end"]))
    return found | _existing(bootstrap, sorted(topics - found.keys()), security)


def _existing(bootstrap: str, topics: Sequence[str], security: Security | None) -> Ranges:
    """Return the ranges of topics as they are now. A topic that does not exist is left out."""
    found: Ranges = {}
    for topic in topics:
        with contextlib.suppress(ClusterError):
            offsets = log_ranges(bootstrap, [topic], security)
            found[topic] = [(partition, start, end) for (_, partition), (start, end) in sorted(offsets.items())]
    return found


@dataclass(frozen=True)
class _Topics:
    """The topics of a cluster, with their ranges."""

    bootstrap: str
    security: Security | None
    ranges: Ranges

    def parts(self, effect: Effect, topic: str, inputs: Format | None = None) -> list[TopicPart]:
        """Return the ranges of a topic; several of a large partition. Effects end before an open transaction.

        inputs: the format of the records if they are inputs. Raises `SourceError` if the topic does not exist.
        """
        if topic not in self.ranges:
            where = "" if inputs else effect.elsewhere
            raise SourceError(f"topic {topic}{where} cannot be read: it does not exist at the end")
        stable = {} if inputs else stable_offsets(self.bootstrap, [topic], self.security)
        parts: list[TopicPart] = []
        for partition, start, last in self.ranges[topic]:
            readable = min(last, stable.get((topic, partition), last))
            for at in range(start, readable, ROWS_PER_FILE):
                end, known = min(at + ROWS_PER_FILE, readable), None if inputs else readable
                part = OffsetRange(self.bootstrap, topic, partition, at, end, Path(), 0, self.security, stable=known)
                parts.append(TopicPart(effect, part, inputs))
        return parts


def _read_parts(spark: SparkSession, plan: Plan, folder: Path) -> list[Outcome]:
    """Read the parts, in Spark tasks if they have many rows. A query stays here: no secret passes through Spark."""
    here = [(i, part) for i, part in enumerate(plan.parts, 1)]
    done: list[Outcome] = []
    if plan.weight > SMALL and is_here(spark.sparkContext.master):
        large = [(i, part) for i, part in here if _is_sent(part)]
        here = [(i, part) for i, part in here if not _is_sent(part)]
        done = spark.sparkContext.parallelize(large, len(large)).map(partial(_read, folder)).collect()
    with ThreadPoolExecutor() as pool:
        return done + list(pool.map(partial(_read, folder), here))


def _is_sent(part: Part) -> bool:
    """Return whether a Spark task may read a part."""
    return isinstance(part, TopicPart) or not part.effect.sql


def _read(folder: Path, numbered: tuple[int, Part]) -> Outcome:
    """Write the rows of a part to a file with its number."""
    index, part = numbered
    inputs = isinstance(part, TopicPart) and part.inputs
    name, schema = ("effect_inputs", EFFECT_INPUTS) if inputs else ("effects", EFFECTS)
    outcome = Outcome(part.effect.name)
    try:
        rows, writer = part.rows(), None
        try:
            while batch := list(islice(rows, ROWS_PER_BATCH)):
                table = pa.Table.from_pylist(batch, schema)
                writer = writer or pq.ParquetWriter(folder / name / part_name(index), schema, **parquet_options(schema))
                writer.write_table(table)
                if not inputs:
                    _count(outcome, batch)
        finally:
            if writer is not None:
                writer.close()
    except AftershockError as e:
        prefix = "" if str(e).startswith("effect ") else f"effect {part.effect.name} cannot be read: "
        outcome.error = f"{prefix}{e}"
    outcome.torn = part.torn if isinstance(part, SourcePart) else None
    return outcome


def _count(outcome: Outcome, rows: Sequence[Row]) -> None:
    outcome.rows += len(rows)
    bad = [row for row in rows if row.get("problem")]
    outcome.unreadable += len(bad)
    if bad and outcome.example is None:
        outcome.example = f"{bad[0]['where']}: {bad[0]['problem']}"


def _write_reads(path: Path, effects: Sequence[Effect], outcomes: Sequence[Outcome], read_us: int) -> None:
    rows = []
    for effect in effects:
        of_effect = [outcome for outcome in outcomes if outcome.effect == effect.name]
        rows.append(
            {
                "effect": effect.name,
                "rows": sum(outcome.rows for outcome in of_effect),
                "unreadable": sum(outcome.unreadable for outcome in of_effect),
                "example": next((outcome.example for outcome in of_effect if outcome.example), None),
                "error": next((outcome.error for outcome in of_effect if outcome.error), None),
                "read_us": read_us,
            }
        )
    half = path.with_name(f".{path.name}.half")
    pq.write_table(pa.Table.from_pylist(rows, EFFECT_READS), half)
    half.replace(path)


def _topic_rows(effect: Effect, hidden: bool) -> Callable[[Any, str], Iterator[Row]]:
    extract, decode = Extractor(effect, hidden), decoder(effect.format)
    if effect.format == "json" and not effect.reads_values:
        decode = _unread  # the value may be anything

    def rows(message: Any, where: str) -> Iterator[Row]:
        kind, at_ms = message.timestamp()
        for found in extract(lambda: Record(decode(message.value()), message.key(), message.headers())):
            row = {"effect": effect.name, "where": where + found.item, "number": message.offset()}
            if found.id is None:
                yield row | {"problem": found.problem}
                continue
            times: tuple[int | None, int | None] = (found.at_us, found.at_us)
            if found.at_us is None and (effect.cluster == PRIMARY or kind == TIMESTAMP_LOG_APPEND_TIME):
                # a timestamp is in whole ms, so the record was made within 1 ms from it on
                times = at_ms * 1000 + 999, at_ms * 1000
            value = fingerprint(message) if effect.copied else found.value
            yield row | {"id": found.id, "value": value, "at_us": times[0], "after_us": times[1]}

    return rows


def _unread(value: bytes | None) -> None:
    """Pass a value over."""


def fingerprint(message: Message) -> str:
    """Return what a copy of a record has, too, as a text without any part of the record."""
    headers = repr(message.headers()).encode() if message.headers() else None
    parts = (("key", message.key()), ("value", message.value()), ("headers", headers))
    hashes = (f"{name} {'none' if part is None else blake2b(part, digest_size=8).hexdigest()}" for name, part in parts)
    return ", ".join([f"partition {message.partition()}", *hashes])


def _input_rows(effect: Effect, form: Format) -> Callable[[Any, str], Iterator[Row]]:
    path = "" if effect.copied else effect.input_value
    decode = decoder(form)
    value_place, by = (Place.parse(path) if path else None), Place.parse(effect.by)

    def rows(message: Any, where: str) -> Iterator[Row]:
        try:
            record = Record(decode(message.value()), message.key(), message.headers())
        except Unreadable:
            record = Record(None, message.key(), message.headers())
        value = fingerprint(message) if effect.copied else "1"
        yield {
            "effect": effect.name,
            "partition": message.partition(),
            "offset": message.offset(),
            "key": canonical(at_place(by, record)),
            "value": canonical(at_place(value_place, record)) if value_place else value,
        }

    return rows


def _driver(spark: SparkSession, url: str) -> dict[str, str]:
    """Return the option with the driver that accepts a URL: Java's own search does not see the jars of `spark.jars`."""
    jvm: Any = spark._jvm
    loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    for driver in jvm.java.util.ServiceLoader.load(loader.loadClass("java.sql.Driver"), loader).iterator():
        if driver.acceptsURL(url):
            return {"driver": str(driver.getClass().getName())}
    return {}


def _jdbc(spark: SparkSession, effect: Effect, hidden: bool) -> Iterator[Item]:
    """Yield the rows of a query through Spark's JDBC source."""
    url = url_of(effect)
    try:
        options = {"url": url, "query": effect.query or "", "fetchsize": "10000", **_driver(spark, url)}
        rows = spark.read.format("jdbc").options(**options).load().toLocalIterator()
        for number, row in enumerate(rows, 1):
            yield Item(Record(row.asDict()), f"row {number:,} of the query", "")
    except Exception as e:  # noqa: BLE001 - every error in the JVM arrives as the same type
        from checks.spark.remote import reason_of

        reason = scrubber(url).text(reason_of(e))
        if "No suitable driver" in reason or "ClassNotFound" in reason:
            reason += "; name the jar of the driver as spark.jars in AFTERSHOCK_SPARK_CONF"
        reason = without_values(reason) if hidden else reason
        raise SourceError(f"effect {effect.name} cannot be read: {reason}") from None
