"""What the oracle is given, and the shape in which it answers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from chaos.ledger.schemas import COMMIT_LOG, COMMIT_LOG_RANGE, LOG, LOG_RANGE, TABLES
from chaos.scenario.model import Scenario
from tests.checks.audit.oracle.decided import decide
from tests.checks.audit.oracle.lives import Lives, separate

Row = dict[str, Any]
Rows = Mapping[str, list[Row]]
Place = tuple[str, int]
"""Topic and partition."""

NO_ASSIGNMENT = -1
COLUMNS = {name: schema.names for name, schema in TABLES.items()} | {
    "log": LOG.names,
    "log_range": LOG_RANGE.names,
    "commit_log": COMMIT_LOG.names,
    "commit_log_range": COMMIT_LOG_RANGE.names,
}


class Finding(NamedTuple):
    """One anomaly, as the table `anomalies` names it. scope is a topic, a group or an assign-mode consumer."""

    check: str
    split: str
    scope: str
    topic: str | None
    partition: int | None
    offset: int | None = None
    producer: str | None = None
    incarnation: int | None = None
    seq: int | None = None
    consumer: str | None = None


@dataclass(frozen=True)
class ReaderFacts:
    """What the scenario says of a reader.

    resets_to_earliest: auto.offset.reset. begins_at_earliest: it reads a partition from its first record if it never
    was there. auto: its client commits by itself. pooled: its records may overtake
    each other. checkpoint: an assign consumer goes on where it was after a crash; stores: at the last of its
    checkpoints that are rows. subscribed: of a group, name of an
    entry and topic that its members subscribe to. entries: of a group, by name whether the entry resets to earliest.
    """

    name: str
    mode: str
    topics: frozenset[str]
    resets_to_earliest: bool = False
    begins_at_earliest: bool = False
    commits: bool = False
    auto: bool = False
    checkpoint: bool = True
    stores: bool = False
    grouped: bool = True
    pooled: bool = False
    sees_uncommitted: bool = False
    group: str | None = None
    subscribed: frozenset[tuple[str, str]] = frozenset()
    entries: tuple[tuple[str, bool], ...] = ()

    def of(self, consumer: str) -> ReaderFacts:
        """The same, with the auto.offset.reset of the entry that a member belongs to."""
        for name, earliest in self.entries:
            if consumer.startswith(f"{name}/"):
                return replace(self, resets_to_earliest=earliest, begins_at_earliest=earliest)
        return self

    def sees(self, record: Row) -> bool:
        """Whether its isolation level lets it see a record of the log, or may do so once a transaction has ended."""
        return self.sees_uncommitted or record["committed"] is not False

    def reads(self, record: Row) -> bool:
        """The same, at once."""
        return self.sees_uncommitted or record["committed"] is True


DAY_MS = 86_400_000


def _is_retained(config: Mapping[str, Any], timestamps: Any) -> bool:
    """Whether retention deletes within minutes, by the timestamps that the producer sets."""
    behind_ms = {"seconds": 10**12}.get(timestamps, -1_000 * timestamps if isinstance(timestamps, float) else 0)
    if config.get("message.timestamp.type") != "LogAppendTime" and behind_ms > 0:
        due = 0 <= int(config.get("retention.ms", 7 * DAY_MS)) < behind_ms
        return due and "delete" in str(config.get("cleanup.policy", "delete"))
    limits = "retention.bytes" in config or 0 <= int(config.get("retention.ms", 1 << 40)) < 60_000
    return limits and "delete" in str(config.get("cleanup.policy", "delete"))


def _keeps(config: Mapping[str, Any], value_size: int) -> tuple[int, int, int] | None:
    """For how long a topic keeps a record, in us, and how far the last record of its segment is away: us, offsets."""
    time_ms = int(config.get("retention.ms", 7 * DAY_MS))
    if time_ms < 0 or "delete" not in str(config.get("cleanup.policy", "delete")):
        return None
    least = 4 if config.get("compression.type") else value_size
    records = int(config.get("segment.bytes", 2**30)) // least + 1
    return 1_000 * time_ms, 1_000 * int(config.get("segment.ms", 7 * DAY_MS)), records


def _compacts(config: Mapping[str, Any], value_size: int) -> tuple[int, int, int] | None:
    """The same of a superseded record, where a setting says how long it may stay."""
    lag_ms = int(config.get("max.compaction.lag.ms", -1))
    if lag_ms < 0:
        return None
    least = 4 if config.get("compression.type") else value_size
    records = int(config.get("segment.bytes", 2**30)) // least + 1
    return 1_000 * lag_ms, 1_000 * min(lag_ms, int(config.get("segment.ms", 7 * DAY_MS))), records


@dataclass
class Case:
    """One history to judge: rows with every column, the token of its run, what the scenario says."""

    rows: dict[str, list[Row]]
    run: str
    readers: dict[str, ReaderFacts]
    compacted: frozenset[str]
    retained: frozenset[str] = frozenset()
    keeps: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    check_us: int = 0
    compacts: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    protects: dict[str, int] = field(default_factory=dict)
    offsets_kept_min: int = 7 * 24 * 60
    lost: list[Any] = field(default_factory=list)
    restarts: dict[str, list[Any]] = field(default_factory=dict)
    kip_848: frozenset[str | None] = frozenset()
    lives: Lives = field(default_factory=Lives)
    deleting: dict[str, tuple[int, str]] = field(default_factory=dict)
    tombstones_held_us: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Rows, scenario: Scenario, run: str) -> Case:
        whole = {
            table: [{c: row.get(c) for c in columns} for row in rows.get(table, [])]
            for table, columns in COLUMNS.items()
        }
        for table in ("deliveries", "commits", "assignments"):
            for row in whole[table]:
                row["assignment"] = NO_ASSIGNMENT if row["assignment"] is None else row["assignment"]
        policy = scenario.cluster.config.get("log.cleanup.policy", "delete")
        compacted = {t.name for t in scenario.topics if "compact" in str(t.config.get("cleanup.policy", policy))}
        case = cls(whole, run, readers_of(scenario), frozenset(compacted))
        set_by = {p.topic: p.timestamps for p in scenario.producers}
        case.retained = frozenset(t.name for t in scenario.topics if _is_retained(t.config, set_by.get(t.name)))
        check_ms = int(str(scenario.cluster.config.get("log.retention.check.interval.ms", 300_000)))
        case.check_us = 1_000 * check_ms + 10_000_000  # which may be late by so much
        sizes = {p.topic: p.value_size for p in scenario.producers}
        case.keeps = {t.name: keeps for t in scenario.topics if (keeps := _keeps(t.config, sizes.get(t.name, 4)))}
        found = {t.name: _compacts(t.config, sizes.get(t.name, 4)) for t in scenario.topics if t.name in compacted}
        case.compacts = {topic: limits for topic, limits in found.items() if limits}
        case.protects = {t.name: 1_000 * int(t.config.get("min.compaction.lag.ms", 0)) for t in scenario.topics}
        case.offsets_kept_min = int(str(scenario.cluster.config.get("offsets.retention.minutes", 7 * 24 * 60)))
        case.kip_848 = frozenset(c.group for c in scenario.readers if c.config.get("group.protocol") == "consumer")
        case.deleting = {p.name: (p.tombstone_every, p.topic) for p in scenario.producers if p.tombstone_every}
        for t in scenario.topics:
            if any(t.name == topic for _, topic in case.deleting.values()):
                case.tombstones_held_us[t.name] = 1_000 * int(str(t.config.get("delete.retention.ms", 86_400_000)))
        case.lives = separate(case.rows, case.is_own, case.compacted)
        decide(case.rows, [r.name for r in case.readers.values() if r.auto], case.lives.of)
        return case

    def range_of(self, topic: str, partition: int | None) -> tuple[int, int] | None:
        """Log start and end offset of a partition as read back, None if it was not."""
        for row in self.rows["log_range"]:
            if (row["topic"], row["partition"]) == (topic, partition):
                return row["start"], row["end"]
        return None

    def whole_from(self, topic: str, partition: int | None) -> int | None:
        """The offset from which on the log has to have every record, None if the partition was not read back.

        Below that, something may have deleted them: retention, or a fault that says up to where.
        """
        read_back = self.range_of(topic, partition)
        if read_back is None or topic in self.retained:
            return read_back[0] if read_back else None
        cuts = [f for f in self.rows["faults"] if f["kind"] == "topic.delete_records"]
        cuts = [f for f in cuts if f["target"].split(" ")[-1].split("/")[0] == topic]
        done = {f["fault"]: f for f in cuts if f["phase"] == "proven"}
        if any(f["fault"] not in done for f in cuts):
            return read_back[0]
        own = self.lives.of.get(topic)
        here = [f for f in done.values() if not (own and own[-1].alone_since > f["at_us"])]
        below = [json.loads(f["evidence"] or "{}").get("log_starts", {}).get(f"{topic}/{partition}", 0) for f in here]
        return int(min(read_back[0], max(below, default=0)))

    def read_at(self, topic: str, partition: int | None, what: str = "read_us") -> int | None:
        """When the log of a partition had been read back, or with `read_from_us` when that began."""
        found = [r[what] for r in self.rows["log_range"] if (r["topic"], r["partition"]) == (topic, partition)]
        return found[0] if found else None

    def is_tombstone(self, send: Row) -> bool:
        """Whether the scenario has the producer send this record without a value."""
        every, _ = self.deleting.get(send["producer"].rpartition("/")[0], (0, ""))
        return every > 0 and send["seq"] % every == every - 1

    def torn_tombstones(self) -> set[str]:
        """Topics with tombstones of a producer that did not stop in order in each incarnation."""
        found = set()
        for name, (_, topic) in self.deleting.items():
            lives = [r for r in self.rows["lifecycle"] if r["client"].rpartition("/")[0] == name]
            for one in {(r["client"], r["incarnation"]) for r in lives}:
                events = {r["event"] for r in lives if (r["client"], r["incarnation"]) == one}
                found |= {topic} if "crashed" in events or "stopped" not in events else set()
        return found

    def facts(self, reader: str) -> ReaderFacts:
        """What the scenario says of a reader; of one that it does not know, nothing."""
        return self.readers.get(reader, ReaderFacts(reader, "", frozenset()))

    def fate(self, send: Row) -> str:
        """What became of the transaction of a send: "" if it had none, committed, aborted, or unknown."""
        if send["txn"] is None:
            return ""
        key = send["producer"], send["incarnation"], send["txn"]
        ends = {
            row["outcome"]
            for row in self.rows["transactions"]
            if (row["producer"], row["incarnation"], row["txn"]) == key
        }
        return str(ends.pop()) if len(ends) == 1 and ends <= {"committed", "aborted"} else "unknown"

    def is_own(self, record: Row) -> bool:
        """Whether a log record carries a whole identity of this run."""
        return record["run"] == self.run and None not in (record["producer"], record["incarnation"], record["seq"])


@dataclass
class Judgement:
    """What is wrong with a history, and by (check, scope) what cannot be decided and how much was looked at.

    looked_at: (check, scope) of each row that a rule met on its way, for `reading.count_examined` to count.
    """

    findings: Counter[Finding] = field(default_factory=Counter)
    undecided: Counter[tuple[str, str]] = field(default_factory=Counter)
    examined: Counter[tuple[str, str]] = field(default_factory=Counter)
    looked_at: list[tuple[str, str]] = field(default_factory=list)

    def counts(self) -> Counter[tuple[str, str, str]]:
        """Findings by check, split and scope."""
        total: Counter[tuple[str, str, str]] = Counter()
        for found, number in self.findings.items():
            total[found.check, found.split, found.scope] += number
        return total


def readers_of(scenario: Scenario) -> dict[str, ReaderFacts]:
    """A subscribe group is one reader; each assign consumer is one. Entries of one group are taken together."""
    readers: dict[str, ReaderFacts] = {}
    for c in scenario.readers:
        by_library = "earliest" if c.client.runtime == "franz-go" else "latest"
        earliest = str(c.config.get("auto.offset.reset", by_library)).lower() in ("earliest", "smallest", "beginning")
        uncommitted = str(c.config.get("isolation.level", "read_committed")) == "read_uncommitted"
        commits, auto = c.commit.when != "never", c.commit.kind == "auto"
        if c.mode == "subscribe":
            same = readers.get(c.group)
            entries = ((c.name, earliest), *(same.entries if same else ()))
            mine = frozenset(c.topics_among(t.name for t in scenario.topics))
            if same:
                earliest &= same.resets_to_earliest
                commits, auto = commits or same.commits, auto or same.auto
                uncommitted = uncommitted or same.sees_uncommitted
            topics = mine | (same.topics if same else frozenset())
            subscribed = {(c.name, topic) for topic in mine} | (same.subscribed if same else frozenset())
            pooled = c.workers is not None or (same is not None and same.pooled)
            readers[c.group] = ReaderFacts(
                c.group,
                "subscribe",
                topics,
                earliest,
                earliest,
                commits,
                auto,
                pooled=pooled,
                sees_uncommitted=uncommitted,
                group=c.group,
                subscribed=frozenset(subscribed),
                entries=entries,
            )
        else:
            first = c.start == "earliest" or (c.start == "group" and earliest)
            for n in range(1, c.members + 1):
                name, topics = f"{c.name}/{n}", frozenset(c.topics)
                readers[name] = ReaderFacts(
                    name,
                    "assign",
                    topics,
                    earliest,
                    first,
                    commits,
                    auto,
                    c.checkpoint,
                    c.checkpoint_every is not None,
                    c.group is not None,
                    sees_uncommitted=uncommitted,
                    group=c.group,
                )
    return readers


def reader_name(row: Row) -> str:
    """The reader that a row of deliveries, commits or assignments belongs to."""
    name: str = row["group"] if row["mode"] == "subscribe" else row["consumer"]
    return name
