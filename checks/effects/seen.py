"""What the wire saw of findings: fetches, commits and writes of an input, and what the stories of a run share."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from chaos.anomalies.causes import FRAMEWORKS, library_of
from chaos.faults.databases import DatabaseExecuteSpec
from chaos.ledger.schemas import TABLES
from chaos.run.directory import Run, json_object
from chaos.run.events import read_events
from chaos.scenario.model import Scenario
from chaos.setup.postgres import PROMOTE
from checks.audit.facts.offset_changes import OffsetChange, offset_changes_of
from checks.evidence import ledger_rows
from checks.wire.coordination import leaves
from checks.wire.tables import capture_failure, frame, small, table_path

Row = dict[str, Any]
MANY = 40
"""Most fetches, commits and writes of one finding and instance that are looked at."""
FETCHED = ("answered_us", "asked_us", "instance", "broker", "asked_offset", "delivery_count")
COMMITTED = ("asked_us", "answered_us", "instance", "broker", "group", "offset", "error", "transactional_id")
READ = (0, 1)
"""The numbers of Produce and Fetch in Kafka's protocol."""
_WRITTEN = re.compile(r"(.+)/(\d+) offset ([\d,]+)")


ACCEPT, RELEASE, REJECT = 1, 2, 3
"""How a member of a share group acknowledges a record (KIP-932)."""
DELIVERIES = 5
"""The default of `group.share.delivery.count.limit`."""
JOINS = ("JoinGroup", "SyncGroup")
BY_ITSELF = "ended by itself"
IN_A_ROW = 3
"""Ends by itself in a row from which on an instance counts as one that ends again and again."""


@dataclass(frozen=True)
class Life:
    """An incarnation of an instance. how: what ended it, as words; the end of the run ends none."""

    instance: str
    begin_us: int
    end_us: int | None = None
    how: str = ""

    @property
    def by_itself(self) -> bool:
        """Whether it ended without being asked."""
        return self.how.startswith(BY_ITSELF)


def app_of(instance: str) -> str:
    """Return the name of an application from the name of an instance."""
    return instance.partition("/")[0]


def lives_of(rows: Iterable[Row], stop_us: int | None) -> dict[str, list[Life]]:
    """Return the incarnations of each instance from the table `apps`. stop_us: when the run began to stop them."""
    found: dict[str, list[Life]] = defaultdict(list)
    for row in sorted(rows, key=lambda r: r["at_us"]):
        name, lives = f"{row['app']}/{row['instance']}", found[f"{row['app']}/{row['instance']}"]
        if row["event"] == "started":
            lives.append(Life(name, row["at_us"]))
        elif row["event"] == "ready":
            continue
        elif lives and lives[-1].end_us is None and (stop_us is None or row["at_us"] < stop_us):
            detail = json_object(row["detail"])
            asked, code = detail.get("asked", ""), detail.get("exit_code")
            how = {"kill": "was killed", "stop": "was stopped"}.get(asked, f"{BY_ITSELF} (exit code {code})")
            lives[-1] = Life(name, lives[-1].begin_us, row["at_us"], how)
    return found


@dataclass
class Seen:
    """What the wire saw of one input.

    fetches, commits: in the order of time; of a member of a share group, what it acquired and accepted.
    returned: what it released or rejected, if a broker answered that (KIP-932). writes: the writes of its effects, one
    for each that was found. beyond: the first fetch of its partition from behind it. holder: the last fetch from its
    partition before it was acknowledged. begins: the first fetch from behind it on each connection, in order.
    """

    fetches: list[Row] = field(default_factory=list)
    commits: list[Row] = field(default_factory=list)
    writes: list[Row] = field(default_factory=list)
    beyond: Row | None = None
    holder: Row | None = None
    returned: list[Row] = field(default_factory=list)
    begins: list[Row] = field(default_factory=list)


@dataclass(frozen=True)
class Replaced:
    """A database of effects that a standby has replaced, by a fault that was proven at `at_us`."""

    fault: str
    former: str
    standby: str
    at_us: int


def replaced_of(scenario: Scenario, faults: Iterable[Row]) -> dict[str, Replaced]:
    """Return the databases that were replaced, by effect: its database is a standby that was promoted."""
    proven = {row["fault"]: row["at_us"] for row in faults if row["phase"] == "proven"}
    servers = {app.name: app.postgres for app in scenario.apps if app.postgres}
    found = dict[str, Replaced]()
    for fault in scenario.faults:
        if not (isinstance(fault, DatabaseExecuteSpec) and PROMOTE in fault.statement and fault.name in proven):
            continue
        if (former := servers[fault.app_name].standby_of) is not None:
            one = Replaced(fault.name, former, fault.app_name, proven[fault.name])
            found |= {effect.name: one for effect in scenario.effects if effect.app == fault.app_name}
    return found


@dataclass(frozen=True)
class Facts:
    """What the stories of a run share.

    lives: by instance. failed: sends that failed for good, by topic and instance. writers: the instances that wrote to
    a topic. left: when instances left their groups, by instance. libraries: as announced, by instance. certain: whether
    all Produce requests and Fetch answers were captured and read, so that a fetch that is not there was not made.
    changed: when an instance first got records that a fault of the run changed or doubled. synced: when instances got
    their assignments, in order. begun: of these, when they kept no partition, so that they began at committed offsets.
    """

    lives: Mapping[str, Sequence[Life]]
    failed: Mapping[tuple[str, str], Sequence[Row]]
    writers: Mapping[str, frozenset[str]]
    left: Mapping[str, Sequence[Row]]
    libraries: Mapping[str, str]
    certain: bool
    changed: Mapping[str, int] = field(default_factory=dict)
    synced: Mapping[str, Sequence[int]] = field(default_factory=dict)
    begun: Mapping[str, Sequence[int]] = field(default_factory=dict)
    changes: Sequence[OffsetChange] = ()
    """Changes of the committed offsets of groups by faults."""
    only_doubled: bool = False
    """Whether the faults of the run that change answers only give batches twice."""
    copies: frozenset[str] = frozenset()
    """The effects that are to be copies of their inputs."""
    replaced: Mapping[str, Replaced] = field(default_factory=dict)
    """The databases that a standby has replaced, by effect."""
    outside: frozenset[str] = frozenset()
    """The effects that are in no topic."""
    mirrors: frozenset[str] = frozenset()
    """The applications that only copy records to topics."""
    elsewhere: bool = False
    """Whether an application connects to other clusters than the first one only, so that nothing sees what it reads."""
    failed_tasks: frozenset[str] = frozenset()
    """The applications of Kafka Connect with a connector or task that was failed at the end."""
    deliveries: int = DELIVERIES
    """How often share groups deliver a record (`group.share.delivery.count.limit` of the brokers)."""

    def change(self, finding: Row, after_us: int, until_us: float, past: bool) -> OffsetChange | None:
        """Return the first certain change by a fault that moved a group in a time span: past an input, or back to it.

        A deleted offset may do both: `auto.offset.reset` decides.
        """
        for one in self.changes:
            if not (one.sure and one.touches(finding["topic"], finding["partition"])):
                continue
            offset = one.offset(finding["topic"], finding["partition"])
            if after_us <= one.from_us <= until_us and (offset is None or (offset > finding["offset"]) == past):
                return one
        return None

    def handed_over(self, first: Row, commit: Row, second: Row) -> bool:
        """Return whether a commit was in force only after the next reader got its assignment.

        That may be the instance of the first fetch and of the commit, with an assignment in between.
        """
        itself = commit["instance"] == second["instance"]
        assigned = self.begun if itself else self.synced
        times = [at for at in assigned.get(second["instance"], ()) if at <= second["answered_us"]]
        if not times or (itself and times[-1] <= first["answered_us"]):
            return False
        return times[-1] <= (commit["answered_us"] or 0)

    def life(self, instance: str, at_us: int) -> Life | None:
        """Return the incarnation of an instance at a time; None if it is not known."""
        return next((e for e in reversed(self.lives.get(instance, ())) if e.begin_us <= at_us), None)

    def same(self, row: Row, life: Life | None, instance: str) -> bool:
        """Return whether a fetch is one of an instance, in a certain incarnation."""
        return row["instance"] == instance and self.life(instance, row["answered_us"]) == life

    def failed_sends(self, topics: Sequence[str], instance: str) -> list[Row]:
        """Return the sends of an instance to topics that failed for good, in their order."""
        rows = [row for topic in topics for row in self.failed.get((topic, instance), ())]
        return sorted(rows, key=lambda row: row["asked_us"])

    def end(self, instance: str, at_us: int) -> Life | None:
        """Return the incarnation at a time, if it ended before the run did."""
        life = self.life(instance, at_us)
        return life if life and life.end_us is not None and life.end_us >= at_us else None

    def of(self, effect: str) -> Facts:
        """Return the facts about the applications that may do an effect: a mirror does none outside of topics."""
        if effect not in self.outside or not self.mirrors:
            return self
        return replace(self, lives={name: of for name, of in self.lives.items() if app_of(name) not in self.mirrors})

    @property
    def all_failed(self) -> bool:
        """Whether each application had a failed connector or task at the end."""
        return {app_of(name) for name in self.lives} <= self.failed_tasks != frozenset()

    @property
    def left_off(self) -> bool:
        """Whether no instance ran when the run began to stop them, and the last ones had ended by themselves."""
        last = [lives[-1] for lives in self.lives.values() if lives]
        return bool(last) and all(life.end_us is not None and life.by_itself for life in last)

    @property
    def keeps_ending(self) -> bool:
        """Whether each instance ended by itself some times in a row, and was started again in between."""
        ended = [[life for life in lives if life.end_us is not None][-IN_A_ROW:] for lives in self.lives.values()]
        return bool(ended) and all(len(last) == IN_A_ROW and all(life.by_itself for life in last) for last in ended)


class Wire:
    """The wire ledger, joined with findings."""

    def __init__(
        self, spark: SparkSession, run: Run, findings: Sequence[Row], outputs: Sequence[str], apps: list[str]
    ) -> None:
        self._spark, self._run, self._findings, self._outputs = spark, run, findings, outputs
        self._apps = apps
        names = ("topic", "partition", "offset", "acked_us")
        places = [(i, *map(row.get, names)) for i, row in enumerate(findings) if row["offset"] is not None]
        self._asked = spark.createDataFrame(places, "nth int, topic string, partition int, at bigint, acked_us bigint")

    def table(self, name: str) -> DataFrame:
        """Return a table of the wire ledger; of those with instances the rows of applications."""
        rows = frame(self._spark, self._run, name)
        return rows.where(F.split("instance", "/")[0].isin(self._apps)) if "instance" in rows.columns else rows

    def _small(self, name: str) -> list[Row]:
        """Return the rows of applications of a table that does not grow with the records."""
        return [row for row in small(self._run, name) if app_of(row["instance"]) in self._apps]

    def facts(self) -> Facts:
        """Return what the stories of the run share."""
        stages = [e for e in read_events(self._run) if e.get("stage") == "stop" and e.get("state") == "begin"]
        apps = ledger_rows(self._run, "apps", TABLES["apps"].names)
        said = defaultdict[str, set[tuple[str | None, str | None, str | None]]](set)
        for row in self._small("connections"):
            said[row["instance"]].add((row["library"], row["library_version"], row["client_id"]))
        changed = self.table("fetched").where("made and base_offset is not null and answered_us is not null")
        changed = changed.groupBy("instance").agg(F.min("answered_us").alias("at_us"))
        produced = self.table("produced").where(F.col("topic").isin(list(self._outputs)))
        writers = produced.groupBy("topic").agg(F.collect_set("instance").alias("who")).collect()
        members = self._small("membership")
        left = sorted((row for row in members if leaves(row)), key=lambda row: row["asked_us"])
        joins = [row for row in members if row["call"] in JOINS and row["answered_us"] is not None]
        synced, begun = assigned(sorted(joins, key=lambda row: row["answered_us"]))
        return Facts(
            lives_of(apps, min((e["at_us"] for e in stages), default=None)),
            _grouped((row.asDict() for row in _failed(produced).collect()), "topic", "instance"),
            {row.topic: frozenset(row.who) for row in writers},
            {name: rows for (name,), rows in _grouped(left, "instance").items()},
            {name: announced(rows) for name, rows in said.items()},
            not any(row["api"] in READ for row in small(self._run, "unread")) and not capture_failure(self._run),
            {row.instance: row.at_us for row in changed.collect()},
            synced,
            begun,
            offset_changes_of(ledger_rows(self._run, "faults", TABLES["faults"].names)),
        )

    def seen(self) -> list[Seen]:
        """Return what was seen of each finding."""
        found = [Seen() for _ in self._findings]
        for row in self._fetches().collect():
            found[row.nth].fetches += [one.asDict() for one in row.rows]
        for row in self._commits().collect():
            of = [one.asDict() for one in row.rows]
            found[row.nth].commits += [one for one in of if one["type"] in (None, ACCEPT)]
            found[row.nth].returned += [one for one in of if one["type"] in (RELEASE, REJECT) and one["state"] == "ok"]
        for row in self._beyond().collect():
            found[row.nth].begins.append(row.first.asDict())
        if any(row["kind"] == "late" for row in self._findings):
            for row in self._holders().collect():
                found[row.nth].holder = row.last.asDict()
        writes = self._writes()
        for row in writes.collect() if writes is not None else ():
            found[row.nth].writes.append(row.last.asDict())
        for one in found:
            for rows in (one.fetches, one.commits, one.returned, one.writes, one.begins):
                rows.sort(key=lambda r: r["answered_us"] or r["asked_us"])
            one.beyond = next(iter(one.begins), None)
        return found

    def _fetches(self) -> DataFrame:
        """Return the answers with an input: batches that the client did not skip, and ranges of share groups."""
        whole = F.col("complete") & F.col("control").isNull() & (F.coalesce("asked_offset", F.lit(0)) <= F.col("at"))
        columns = (*FETCHED, "made", "isolation")
        inside = F.col("at").between(F.col("base_offset"), F.col("last_offset"))
        within = F.col("at").between(F.col("first_offset"), F.col("last_offset"))
        empty = {"made": F.lit(False), "isolation": F.lit(None).cast("int")}
        acquired = self._acquired().where(within).withColumns(empty)
        fetched = self._fetched().where(whole & inside).select("nth", *columns)
        return _first(fetched.unionByName(acquired.select("nth", *columns)), columns)

    def _fetched(self) -> DataFrame:
        """Return the answers to Fetch from the partitions of the findings."""
        fetched = self.table("fetched").join(F.broadcast(self._asked), ["topic", "partition"])
        return fetched.withColumn("delivery_count", F.lit(None).cast("int"))

    def _acquired(self) -> DataFrame:
        """Return what members of share groups acquired from the partitions of the findings, as answers to Fetch."""
        acquired = self.table("acquired").join(F.broadcast(self._asked), ["topic", "partition"])
        return acquired.withColumns({"asked_us": F.col("answered_us"), "asked_offset": F.col("first_offset")})

    def _beyond(self) -> DataFrame:
        """Return the first fetch from behind an input on each connection, or of a share group that began there."""
        behind = self._fetched().where("asked_offset > at and answered_us is not null")
        least = F.min("asked_offset").over(Window.partitionBy("nth"))
        begun = self._acquired().withColumn("least", least).where("least > at")
        begun = begun.withColumn("connection", F.lit(None).cast("int"))
        columns = ("nth", "connection", *FETCHED)
        both = behind.select(*columns).unionByName(begun.select(*columns))
        return both.groupBy("nth", "instance", "broker", "connection").agg(F.min(F.struct(*FETCHED)).alias("first"))

    def _holders(self) -> DataFrame:
        """Return the last fetch from the partition of an input before it was acknowledged."""
        before = self._fetched().where("answered_us <= acked_us")
        return before.groupBy("nth").agg(F.max(F.struct("answered_us", "instance", "broker")).alias("last"))

    def _commits(self) -> DataFrame:
        """Return the commits past an input with their state: ok, open (no answer), refused or aborted.

        What members of share groups did with the input is among them. type: how they acknowledged it; else null.
        A transaction ends with the first EndTxn that is answered without an error. An InitProducerId of its
        transactional id aborts it, unless it had been asked to commit before: then that is open.
        """
        past = self.table("commits").join(F.broadcast(self._asked), ["topic", "partition"])
        past = past.where("offset > at and sent_us is not null")
        calls = self.table("transactions").where("call in ('EndTxn', 'InitProducerId')")
        calls = calls.select(
            F.col("transactional_id").alias("ended_id"),
            F.col("asked_us").alias("end_us"),
            (F.col("call") == "InitProducerId").alias("begins"),
            F.coalesce("committed", F.lit(False)).alias("kept"),
            F.col("error").eqNullSafe(0).alias("done"),
        )
        ended = (F.col("transactional_id") == F.col("ended_id")) & (F.col("end_us") >= F.col("asked_us"))
        of_commit = past.join(calls, ended, "left").groupBy("nth", "connection", "number", *COMMITTED)
        decided = of_commit.agg(
            F.min(F.when(F.col("done"), F.struct("end_us", "begins", "kept"))).alias("end"),
            F.min(F.when(~F.col("done") & F.col("kept"), F.col("end_us"))).alias("tried_us"),
        )
        tried = F.col("end.begins") & (F.col("tried_us") < F.col("end.end_us"))
        state = (
            F.when(F.col("error").isNull(), "open")
            .when(F.col("error") != 0, "refused")
            .when(F.col("transactional_id").isNull() | F.col("end.kept"), "ok")
            .otherwise(F.when(F.col("end").isNull() | tried, "open").otherwise("aborted"))
        )
        columns = ("nth", *COMMITTED, "state", "type")
        decided = decided.withColumns({"state": state, "type": F.lit(None).cast("int")}).select(*columns)
        return _first(decided.unionByName(self._acknowledged()), columns[1:])

    def _acknowledged(self) -> DataFrame:
        """Return what members of share groups did with an input, as commits."""
        within = F.col("at").between(F.col("first_offset"), F.col("last_offset"))
        given = self.table("acknowledged").join(F.broadcast(self._asked), ["topic", "partition"]).where(within)
        place = F.when(F.size("types") == 1, 0).otherwise((F.col("at") - F.col("first_offset")).cast("int"))
        state = F.when(F.col("error").isNull(), "open").when(F.col("error") == 0, "ok").otherwise("refused")
        named = {
            "offset": F.col("at") + 1,
            "state": state,
            "type": F.get("types", place).cast("int"),
            "transactional_id": F.lit(None).cast("string"),
        }
        return given.withColumns(named).select("nth", *COMMITTED, "state", "type")

    def _writes(self) -> DataFrame | None:
        """Return the last attempt of the write of each effect in a topic; None if there is no such effect."""
        places = []
        for i, row in enumerate(self._findings):
            for number, where in enumerate(row["places"]):
                if match := _WRITTEN.fullmatch(where):
                    places.append((i, number, match[1], int(match[2]), int(match[3].replace(",", ""))))
        if not places:
            return None
        asked = self._spark.createDataFrame(places, "nth int, place int, topic string, partition int, written bigint")
        produced = self.table("produced")
        same = ["topic", "partition", "producer_id", "producer_epoch", "base_sequence"]
        acked = F.when(F.col("outcome") == "ok", F.col("base_offset"))
        if table_path(self._run, "log").exists():
            log = self.table("log").where("control is null and producer_id is not null")
            log = log.groupBy(*same).agg(F.max("base_offset").alias("in_log"))
            produced = produced.join(log, same, "left")
            acked = F.coalesce(acked, "in_log")
        found = produced.withColumn("begin", acked).join(F.broadcast(asked), ["topic", "partition"])
        found = found.where("written >= begin and written < begin + records")
        names = ("asked_us", "answered_us", "instance", "broker", "outcome", "topic", "partition", "written", "error")
        return found.groupBy("nth", "place").agg(F.max(F.struct(*names)).alias("last"))


def _first(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return the first rows of each finding and instance, in the order of the columns."""
    listed = F.sort_array(F.collect_list(F.struct(*columns)))
    return rows.groupBy("nth", "instance").agg(F.slice(listed, 1, MANY).alias("rows"))


def _failed(produced: DataFrame) -> DataFrame:
    """Return sends that failed for good. Only a sequence shows that no later attempt is the same send (KIP-98)."""
    identity = ("topic", "partition", "producer_id", "producer_epoch", "base_sequence", "instance")
    attempts = (
        produced.where("producer_id is not null")
        .groupBy(*identity)
        .agg(
            F.max(F.struct("asked_us", "answered_us", "broker", "error")).alias("last"),
            F.count_if(F.col("outcome") != "fail").alias("others"),
        )
    )
    return attempts.where("others = 0").select("topic", "partition", "instance", "last.*").orderBy("asked_us")


def _grouped(rows: Iterable[Row], *names: str) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        found[tuple(row[name] for name in names)].append(row)
    return found


def assigned(rows: Iterable[Row]) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Return when instances got assignments, and of these, when they had kept no partition in their JoinGroup."""
    synced, begun = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
    kept: dict[str, int] = {}
    for row in rows:
        if row["call"] == "JoinGroup":
            kept[row["instance"]] = len(row["owned"] or ())
            continue
        synced[row["instance"]].append(row["answered_us"])
        if not kept.get(row["instance"]):
            begun[row["instance"]].append(row["answered_us"])
    return synced, begun


def announced(said: Iterable[tuple[str | None, str | None, str | None]]) -> str:
    """Return libraries and releases as announced, with the client id of a framework; the client id if nothing is said.

    said: library, release and client id of each connection of an instance, which may have several libraries.
    """
    rows = list(said)
    ids = sorted({client_id for _, _, client_id in rows if client_id}, reverse=True)
    libraries = sorted({f"{library} {release or ''}".strip() for library, release, _ in rows if library})
    framework = next((one for one in ids if library_of(one) in FRAMEWORKS), "")
    if libraries:
        return " and ".join(libraries) + (f" (client id {framework})" if framework else "")
    known = framework or next(filter(library_of, ids), "") or next(iter(ids), "")
    return f"client id {known}" if known else ""
