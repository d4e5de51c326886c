"""The story of each finding that is shown: what the wire saw of an input, in order, and the cause that this shows.

    seen    the tables of the wire ledger, joined with the findings in Spark: few rows for each finding
    tell    one finding: its frames in order, how its sentence ends, and a key of `chaos.anomalies.causes`

A frame is an arrow between an instance and a broker, or an event of an instance (`target` is empty). A frame with
`words` is a clause of the sentence. A story has no cause if a step that decides it is not seen on the wire.

| kind      | cause                       | what was seen                                                             |
|-----------|-----------------------------|---------------------------------------------------------------------------|
| missing   | commit_first                | fetched, committed past, and its instance ended before another commit     |
|           | commit_first_or_passed_over | the same, but the instance committed further before it ended              |
|           | send_failed                 | fetched, committed past, and a send to the topic of the effect failed     |
|           | passed_over                 | fetched, committed past, and its instance went on                         |
|           | not_owner                   | committed past by an instance that had not fetched it                     |
|           | skipped                     | never fetched: committed past, or its partition was read from behind it |
|           | unread, unfinished          | never fetched; fetched, and never committed past                          |
| duplicate | not_idempotent              | fetched, its instance ended before a commit past it, fetched again        |
|           | moved                       | fetched again by another instance before a commit past it                 |
|           | repeated                    | fetched again by the same process before a commit past it                 |
|           | went_back                   | fetched again after a commit past it                                      |
|           | sent_twice                  | two writes after one fetch                                                |

Fetched is not processed: a Fetch answer is the most that an application can have seen, a commit is what it claims.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka.errors import for_code
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from chaos.ledger.schemas import TABLES
from chaos.run.directory import Run, json_object
from chaos.run.events import read_events
from chaos.scenario.resolve import Resolved
from checks.evidence import ledger_rows
from checks.wire.tables import capture_failure, table_path

Row = dict[str, Any]
KINDS = ("missing", "duplicate")
"""The kinds of findings that have a story."""
MANY = 40
"""Most fetches, commits and writes of one finding and instance that are looked at."""
UNSEEN = "what its application did with it is not seen on the wire"
FETCH = 1
"""The number of Fetch in Kafka's protocol."""
_WRITTEN = re.compile(r"(.+)/(\d+) offset ([\d,]+)")


@dataclass(frozen=True)
class Life:
    """An incarnation of an instance. how: what ended it, as words; the end of the run ends none."""

    instance: str
    begin_us: int
    end_us: int | None = None
    how: str = ""


def lives_of(rows: Iterable[Row], stop_us: int | None) -> dict[str, list[Life]]:
    """Return the incarnations of each instance from the table `apps`. stop_us: when the run began to stop them."""
    found: dict[str, list[Life]] = defaultdict(list)
    for row in sorted(rows, key=lambda r: r["at_us"]):
        name, lives = f"{row['app']}/{row['instance']}", found[f"{row['app']}/{row['instance']}"]
        if row["event"] == "started":
            lives.append(Life(name, row["at_us"]))
        elif lives and lives[-1].end_us is None and (stop_us is None or row["at_us"] < stop_us):
            detail = json_object(row["detail"])
            asked, code = detail.get("asked", ""), detail.get("exit_code")
            how = {"kill": "was killed", "stop": "was stopped"}.get(asked, f"ended by itself (exit code {code})")
            lives[-1] = Life(name, lives[-1].begin_us, row["at_us"], how)
    return found


@dataclass
class Seen:
    """What the wire saw of one input.

    fetches, commits: in the order of time. writes: the writes of its effects, one for each that was found. beyond: the
    first fetch of its partition from behind it.
    """

    fetches: list[Row] = field(default_factory=list)
    commits: list[Row] = field(default_factory=list)
    writes: list[Row] = field(default_factory=list)
    beyond: Row | None = None


@dataclass(frozen=True)
class Facts:
    """What the stories of a run share.

    lives: by instance. failed: sends that failed for good, by topic and instance. writers: the instances that wrote to
    a topic. left: when instances left their groups, by instance. libraries: as announced, by instance. certain: whether
    all Fetch answers were captured and read, so that a fetch that is not there was not made.
    """

    lives: Mapping[str, Sequence[Life]]
    failed: Mapping[tuple[str, str], Sequence[Row]]
    writers: Mapping[str, frozenset[str]]
    left: Mapping[str, Sequence[Row]]
    libraries: Mapping[str, str]
    certain: bool

    def life(self, instance: str, at_us: int) -> Life | None:
        """Return the incarnation of an instance at a time; None if it is not known."""
        return next((e for e in reversed(self.lives.get(instance, ())) if e.begin_us <= at_us), None)

    def same(self, row: Row, life: Life | None, instance: str) -> bool:
        """Return whether a fetch is one of an instance, in a certain incarnation."""
        return row["instance"] == instance and self.life(instance, row["answered_us"]) == life

    def end(self, instance: str, at_us: int) -> Life | None:
        """Return the incarnation at a time, if it ended before the run did."""
        life = self.life(instance, at_us)
        return life if life and life.end_us is not None and life.end_us >= at_us else None


def add_stories(spark: SparkSession, run: Run, resolved: Resolved, findings: Sequence[Row], most: int) -> None:
    """Add `frames`, `ending`, `cause` and `library` to the first `most` findings of each effect and kind.

    Findings that the write path explains have no story. Without a wire ledger, the ending says that it was not seen.
    """
    chosen, counts = [], defaultdict[tuple[str, str], int](int)
    for row in findings:
        counts[row["effect"], row["kind"]] += 1
        if row["kind"] in KINDS and not row["why"] and row["offset"] is not None:
            chosen += [row] if counts[row["effect"], row["kind"]] <= most else []
    if not chosen or not resolved.scenario.apps:
        return
    if not table_path(run, "fetched").exists():
        for row in chosen:
            row["ending"] = UNSEEN
        return
    effects = {e.name: e.topic for e in resolved.scenario.effects}
    apps = [app.name for app in resolved.scenario.apps]
    wire = _Wire(spark, run, chosen, [topic for topic in effects.values() if topic], apps)
    facts, seen = wire.facts(), wire.seen()
    for row, of_row in zip(chosen, seen, strict=True):
        row.update(tell(row, of_row, facts, effects[row["effect"]] or ""))


class _Wire:
    """The wire ledger, joined with findings."""

    def __init__(
        self, spark: SparkSession, run: Run, findings: Sequence[Row], outputs: Sequence[str], apps: list[str]
    ) -> None:
        self._spark, self._run, self._findings, self._outputs = spark, run, findings, outputs
        self._apps = apps
        places = [(i, row["topic"], row["partition"], row["offset"]) for i, row in enumerate(findings)]
        self._asked = spark.createDataFrame(places, "nth int, topic string, partition int, at bigint")

    def table(self, name: str) -> DataFrame:
        """Return a table of the wire ledger; of those with instances the rows of applications."""
        rows = self._spark.read.parquet(f"file:{table_path(self._run, name)}")
        return rows.where(F.split("instance", "/")[0].isin(self._apps)) if "instance" in rows.columns else rows

    def facts(self) -> Facts:
        stages = [e for e in read_events(self._run) if e.get("stage") == "stop" and e.get("state") == "begin"]
        apps = ledger_rows(self._run, "apps", TABLES["apps"].names)
        said = (
            self.table("connections")
            .groupBy("instance")
            .agg(*(F.max(name).alias(name) for name in ("library", "library_version", "client_id")))
        )
        unread = self.table("unread").where(F.col("api") == FETCH).limit(1).collect()
        produced = self.table("produced").where(F.col("topic").isin(list(self._outputs)))
        writers = produced.groupBy("topic").agg(F.collect_set("instance").alias("who")).collect()
        left = self.table("membership").where("call = 'LeaveGroup'").select("instance", "broker", "asked_us", "group")
        return Facts(
            lives_of(apps, min((e["at_us"] for e in stages), default=None)),
            _grouped(_failed(produced).collect(), "topic", "instance"),
            {row.topic: frozenset(row.who) for row in writers},
            {name: rows for (name,), rows in _grouped(left.orderBy("asked_us").collect(), "instance").items()},
            {row.instance: _announced(row) for row in said.collect()},
            not unread and not capture_failure(self._run),
        )

    def seen(self) -> list[Seen]:
        found = [Seen() for _ in self._findings]
        for row in self._fetches().collect():
            found[row.nth].fetches += [one.asDict() for one in row.rows]
        for row in self._commits().collect():
            found[row.nth].commits += [one.asDict() for one in row.rows]
        for row in self._beyond().collect():
            found[row.nth].beyond = row.first.asDict()
        writes = self._writes()
        for row in writes.collect() if writes is not None else ():
            found[row.nth].writes.append(row.last.asDict())
        for one in found:
            for rows in (one.fetches, one.commits, one.writes):
                rows.sort(key=lambda r: r["answered_us"] or r["asked_us"])
        return found

    def _fetches(self) -> DataFrame:
        """Return the answers with an input: batches that the client did not skip, and ranges of share groups."""
        whole = F.col("complete") & F.col("control").isNull() & (F.coalesce("asked_offset", F.lit(0)) <= F.col("at"))
        columns = ("answered_us", "asked_us", "instance", "broker", "asked_offset")
        inside = F.col("at").between(F.col("base_offset"), F.col("last_offset"))
        fetched = self.table("fetched").join(F.broadcast(self._asked), ["topic", "partition"]).where(whole & inside)
        within = F.col("at").between(F.col("first_offset"), F.col("last_offset"))
        acquired = self.table("acquired").join(F.broadcast(self._asked), ["topic", "partition"]).where(within)
        shared = acquired.select(
            "nth",
            "answered_us",
            F.col("answered_us").alias("asked_us"),
            "instance",
            "broker",
            F.col("first_offset").alias("asked_offset"),
        )
        return _first(fetched.select("nth", *columns).unionByName(shared), columns)

    def _beyond(self) -> DataFrame:
        asked = self.table("fetched").join(F.broadcast(self._asked), ["topic", "partition"])
        behind = asked.where("asked_offset > at and answered_us is not null")
        return behind.groupBy("nth").agg(
            F.min(F.struct("answered_us", "asked_us", "instance", "broker", "asked_offset")).alias("first")
        )

    def _commits(self) -> DataFrame:
        """Return the commits past an input with their state: ok, open (no answer), refused or aborted."""
        past = self.table("commits").join(F.broadcast(self._asked), ["topic", "partition"])
        past = past.where("offset > at and sent_us is not null")
        done = (
            self.table("transactions")
            .where("call = 'EndTxn'")
            .select(
                F.col("transactional_id").alias("ended_id"),
                F.col("asked_us").alias("end_us"),
                (F.col("committed") & (F.col("error") == 0)).alias("kept"),
            )
        )
        ended = (F.col("transactional_id") == F.col("ended_id")) & (F.col("end_us") >= F.col("asked_us"))
        columns = ("asked_us", "answered_us", "instance", "broker", "group", "offset", "error", "transactional_id")
        of_commit = past.join(done, ended, "left").groupBy("nth", "connection", "number", *columns)
        state = (
            F.when(F.col("error").isNull(), "open")
            .when(F.col("error") != 0, "refused")
            .when(F.col("transactional_id").isNull() | F.col("end.kept"), "ok")
            .otherwise(F.when(F.col("end").isNull() | F.col("end.kept").isNull(), "open").otherwise("aborted"))
        )
        decided = of_commit.agg(F.min(F.struct("end_us", "kept")).alias("end")).withColumn("state", state)
        return _first(decided.unionByName(self._accepted(decided)), (*columns, "state"))

    def _accepted(self, like: DataFrame) -> DataFrame:
        """Return the acceptances of share groups as commits."""
        within = F.col("at").between(F.col("first_offset"), F.col("last_offset"))
        given = self.table("acknowledged").join(F.broadcast(self._asked), ["topic", "partition"]).where(within)
        place = F.when(F.size("types") == 1, 0).otherwise((F.col("at") - F.col("first_offset")).cast("int"))
        accepted = given.where(F.get("types", place) == 1)
        state = F.when(F.col("error").isNull(), "open").when(F.col("error") == 0, "ok").otherwise("refused")
        named = {"offset": F.col("at") + 1, "state": state}
        others = [name for name in like.columns if name not in accepted.columns and name not in named]
        empty = {name: F.lit(None).cast(like.schema[name].dataType) for name in others}
        return accepted.withColumns(named | empty).select(*like.columns)

    def _writes(self) -> DataFrame | None:
        """Return the last attempt of the write of each effect in a topic; None if there is no such effect."""
        places = []
        for i, row in enumerate(self._findings):
            for number, where in enumerate(row["places"] or ()):
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
        names = ("asked_us", "answered_us", "instance", "broker", "outcome", "topic", "partition", "written")
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


def _grouped(rows: Iterable[Any], *names: str) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        found[tuple(row[name] for name in names)].append(row.asDict())
    return found


def _announced(row: Any) -> str:
    """Return library and release as announced, else the client id, which many libraries set by themselves."""
    if row.library:
        return f"{row.library} {row.library_version or ''}".strip()
    return f"client id {row.client_id}" if row.client_id else ""


def tell(finding: Row, seen: Seen, facts: Facts, output: str) -> Row:
    """Return the story of a finding. output: the topic of the effect, if it has one."""
    story = _Story(finding, facts, output)
    readers = {_app(r) for r in (*seen.fetches, *seen.commits)}
    writers = {name.partition("/")[0] for name in facts.writers.get(output, ())}
    if len(readers) > 1 and (readers & writers):
        readers &= writers
    fetches, commits = ([r for r in rows if _app(r) in readers] for rows in (seen.fetches, seen.commits))
    if finding["kind"] == "missing":
        ending, cause = _missing(story, fetches, commits, seen.beyond)
    else:
        ending, cause = _duplicate(story, fetches, commits, seen.writes)
    if len(readers) > 1:
        ending, cause = f"{ending}; {' and '.join(sorted(readers))} read it, and which has the effect is not seen", ""
    story.frames.sort(key=lambda frame: frame["at_us"])
    library = next((facts.libraries[n] for n in story.instances if facts.libraries.get(n)), "")
    return {"frames": story.frames, "ending": ending, "cause": cause, "library": library}


def _app(row: Row) -> str:
    return str(row["instance"]).partition("/")[0]


def _missing(story: _Story, fetches: Sequence[Row], commits: Sequence[Row], beyond: Row | None) -> tuple[str, str]:
    """Return how the sentence ends, and the cause."""
    past = _past(commits)
    if not fetches:
        if not story.facts.certain:
            return "its fetch is not seen on the wire", ""
        if past:
            story.commit(past)
        if beyond:
            story.fetch(beyond, f"{beyond['instance']} read on from offset {beyond['asked_offset']:,}")
        return "no member fetched it", "skipped" if past or beyond else "unread"
    if past is None:
        last = fetches[-1]
        story.all_fetches(fetches)
        end = story.end(last["instance"], last["answered_us"])
        return ("no member fetched it again" if end else "no commit passed it"), "unfinished"
    instance, at_us = past["instance"], past["asked_us"]
    life = story.facts.life(instance, at_us)
    own = [r for r in fetches if story.facts.same(r, life, instance) and r["answered_us"] <= at_us]
    again = [r for r in fetches if r["answered_us"] > at_us]
    story.all_fetches([*(own[-1:] or fetches[:1]), *again])
    story.commit(past)
    if not own:
        return f"{instance} is not seen to have fetched it", "not_owner"
    if again:
        return "its effect is missing after that too", "passed_over"
    end = story.facts.end(instance, at_us)
    later = [r for r in commits if r["instance"] == instance and r["asked_us"] > at_us and r["offset"] > past["offset"]]
    later = [r for r in later if r["state"] == "ok" and (end is None or r["asked_us"] < end.end_us)]
    until_us = later[0]["asked_us"] if later else None
    failed = [
        r
        for r in story.facts.failed.get((story.output, instance), ())
        if own[-1]["answered_us"] <= r["asked_us"] and (until_us is None or r["asked_us"] <= until_us)
    ]
    if failed and (later or end is None):  # else its end explains it as well
        story.write(failed[-1], f"a send of it to {story.output} failed ({error(failed[-1]['error'])})")
        return "it went on", "send_failed"
    if later:
        story.commit(later[0], f"it committed on to {later[0]['offset']:,}")
    if end is None:
        return "it was not interrupted", "passed_over"
    story.end(instance, at_us)
    return "no member fetched it again", "commit_first_or_passed_over" if later else "commit_first"


def _past(commits: Sequence[Row]) -> Row | None:
    """Return the first commit past the input: acknowledged, else without an answer: it may be in force."""
    for state in ("ok", "open"):
        for row in commits:
            if row["state"] == state:
                return row
    return None


def _duplicate(story: _Story, fetches: Sequence[Row], commits: Sequence[Row], writes: Sequence[Row]) -> tuple[str, str]:
    """Return how the sentence ends, and the cause."""
    if not fetches:
        return "its fetch is not seen on the wire", ""
    first, second = _pair(story.facts, fetches, writes)
    story.fetch(first, f"fetched by {first['instance']}")
    for n, write in enumerate(writes[:2]):
        how = "its effect was acknowledged" if write["outcome"] == "ok" else "its effect was sent, and not acknowledged"
        story.write(write, "" if n else how)
    unseen = "" if writes else "; its effects are not seen on the wire"
    if second is None:
        if not story.facts.certain:
            return f"no other fetch of it is seen{unseen}", ""
        return f"no member fetched it again{unseen}", "sent_twice"
    instance, from_us, to_us = first["instance"], first["answered_us"], second["answered_us"]
    between = [r for r in commits if from_us <= r["asked_us"] < to_us]
    again = f"fetched again by {second['instance']}"
    again += f" from {second['asked_offset']:,}" if second["asked_offset"] is not None else ""
    story.fetch(second, again)
    if kept := next((r for r in between if r["state"] == "ok"), None):
        story.commit(kept)
        return "", "went_back"
    for row in (r for r in between if r["instance"] == instance):
        ends = {"refused": f"refused ({error(row['error'])})", "open": "sent, and not answered"}
        story.commit(row, f"the commit past it was {ends.get(row['state'], 'aborted')}")
        break
    end = story.facts.end(instance, from_us)
    if end and end.end_us is not None and end.end_us <= to_us:
        story.end(instance, from_us, " before a commit past it" if not between else "")
        return unseen.removeprefix("; "), "not_idempotent"
    left = next((r for r in story.facts.left.get(instance, ()) if from_us <= r["asked_us"] <= to_us), None)
    if left:
        story.leave(left)
    if second["instance"] == instance:
        return f"no commit had passed it{unseen}", "repeated"
    return f"no commit had passed it{unseen}", "moved"


def _pair(facts: Facts, fetches: Sequence[Row], writes: Sequence[Row]) -> tuple[Row, Row | None]:
    """Return the fetches behind two effects: before each write, by its instance; else the first two of processes."""
    before = [
        [r for r in fetches if r["instance"] == write["instance"] and r["answered_us"] <= write["asked_us"]]
        for write in writes[:2]
    ]
    if len(before) == 2 and all(before):
        first, second = (rows[-1] for rows in before)
        if first is not second:
            return first, second
        return (before[0][-2], first) if len(before[0]) > 1 else (first, None)
    first, later = fetches[0], fetches[1:]
    life = facts.life(first["instance"], first["answered_us"])
    return first, next((r for r in later if not facts.same(r, life, first["instance"])), next(iter(later), None))


class _Story:
    """The frames of one finding."""

    def __init__(self, finding: Row, facts: Facts, output: str) -> None:
        self.facts, self.output, self.at = facts, output, finding["offset"]
        self.frames: list[Row] = []
        self.instances: list[str] = []

    def _add(self, at_us: int | None, source: str, target: str, label: str, words: str = "") -> None:
        if at_us is not None:
            self.frames.append({"at_us": at_us, "source": source, "target": target, "label": label, "words": words})

    def _call(self, row: Row, peer: str, asked: str, answered: str, words: str, by_answer: bool) -> None:
        """Add a request and its answer; the words belong to one of them."""
        self.instances.append(row["instance"])
        self._add(row["asked_us"], row["instance"], peer, asked, "" if by_answer else words)
        if row["answered_us"] is not None:
            self._add(row["answered_us"], peer, row["instance"], answered, words if by_answer else "")

    def fetch(self, row: Row, words: str) -> None:
        """Add a Fetch with its answer."""
        start = f" from {row['asked_offset']:,}" if row["asked_offset"] is not None else ""
        self._call(row, f"broker {row['broker']}", f"Fetch{start}", f"with {self.at:,}", words, True)

    def all_fetches(self, rows: Sequence[Row]) -> None:
        """Add the first fetch, and the last one if there are several."""
        self.fetch(rows[0], f"fetched by {rows[0]['instance']}")
        if len(rows) > 1:
            again, times = rows[-1], f" (the last of {len(rows)} fetches)" if len(rows) > 2 else ""
            self.fetch(again, f"fetched again by {again['instance']}{times}")

    def commit(self, row: Row, words: str = "") -> None:
        """Add a commit."""
        known = self.instances and self.instances[-1] == row["instance"]
        words = words or "committed past" + ("" if known else f" by {row['instance']}")
        words += " (no answer)" if row["state"] == "open" and "answer" not in words else ""
        answer = {"ok": "ok", "aborted": "aborted"}.get(row["state"], error(row["error"]) if row["error"] else "ok")
        asked = f"{'TxnOffsetCommit' if row.get('transactional_id') else 'OffsetCommit'} {row['offset']:,}"
        self._call(row, f"coordinator (broker {row['broker']})", asked, answer, words, False)

    def write(self, row: Row, words: str) -> None:
        """Add a Produce of an effect."""
        ok = row.get("outcome", "fail") == "ok"
        answer = f"ok, offset {row['written']:,}" if ok else error(row.get("error"))
        asked = f"Produce {row['topic']}/{row['partition']}"
        self._call(row, f"broker {row['broker']}", asked, answer, words, row["answered_us"] is not None)

    def end(self, instance: str, at_us: int, more: str = "") -> Life | None:
        """Add the end of an instance, if it ended before the run did, and return it."""
        life = self.facts.end(instance, at_us)
        if life:
            self._add(life.end_us, instance, "", life.how, f"{instance} {life.how}{more}")
        return life

    def leave(self, row: Row) -> None:
        """Add that an instance left its group."""
        coordinator = f"coordinator (broker {row['broker']})"
        self._add(row["asked_us"], row["instance"], coordinator, "LeaveGroup", f"{row['instance']} left the group")


def error(code: int | None) -> str:
    """Return the name of Kafka's error; that there was no answer, if there is none."""
    if code is None:
        return "no answer"
    known = for_code(code)
    return str(getattr(known, "message", "") or known.__name__)
