"""The ledger of the wire: the tables of the wire in the form of a ledger, which the one audit judges.

    <run>/wire/<table>.parquet -> <run>/wire/ledger/, as `<run>/ledger/` (`chaos.ledger.schemas`)

Each instance is a client. What its frames do not show is not invented: a send begins when the proxy saw the first
request with the record. Rules about what frames do not show are not decided (`chaos.anomalies`, field `wire`).

| in the ledger  | on the wire                                                                                         |
|----------------|-----------------------------------------------------------------------------------------------------|
| producer, seq  | instance, and number of the record among its records of the partition, by their first requests      |
| outcome        | ok: an answer without error has reached the client, or acks=0; fail: each attempt was refused; else |
|                | unknown                                                                                             |
| log            | batches of the final log, with `committed` by the markers, and the last timestamp of each batch     |
| incarnation    | by the ends of processes that the fleet has recorded                                                |

`checks.wire.written` has the identity of records. A row that it does not decide is in the table `undecided` (check,
scope, why, count), and neither a send nor the record of a producer. Threads of this process make the partitions: their
rows are of batches, so they are few, Arrow and NumPy run at once, and tasks of Spark took twice the CPU time.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from kafka.protocol.api_key import ApiKey

from chaos.faults import SPECS
from chaos.ledger.record import run_token
from chaos.ledger.schemas import LOG as LOG_SCHEMA
from chaos.ledger.schemas import TABLES
from chaos.ledger.seal import ROWS_PER_PART, SEAL, Seal, SealedTable, parquet_options, part_name
from chaos.run.directory import Run, read_json, write_atomically
from chaos.run.events import UNSEEN, read_events
from chaos.run.tap import TapRecord, tapped
from chaos.scenario.model import Scenario
from chaos.scenario.resolve import Seen
from checks.audit.arrays import NONE
from checks.audit.findings import WIRE
from checks.wire.coordination import Holds, Sessions, holds, transactions
from checks.wire.partition import COMPACTED, OF_IDENTITY, SOUGHT, UNKNOWN, Partition, life_of
from checks.wire.tables import FOLDER, LOG, MISSING, capture_failure, scanned, small, table_path

OBSERVED = ("faults", "cluster", "lifecycle", "apps")
"""Tables that say what the platform saw."""
READ_BACK = ("log_range", "commit_log", "commit_log_range")
UNDECIDED = pa.schema([("check", pa.string()), ("scope", pa.string()), ("why", pa.string()), ("count", pa.int64())])
WRITTEN = ("sends", "log", "deliveries", "commits", "assignments", "acquisitions", "acknowledgements")
"""The tables of the ledger with rows of a partition."""
PARTS = ("produced", "log", "fetched", "asked", "positions", "commits", "acquired", "acknowledged")
"""The tables of the wire with rows of a partition."""
OF_RECORDS = ("produced", "log", "fetched")
"""Those with batches, which may have hashes and timestamps of their records."""
ROW_BYTES, RECORD_BYTES, BATCH_BYTES = 300, 16, 1 << 29
"""What a row takes, about, and a record with hash and timestamp; and what may be read at once."""
THREADS = 4
_SCHEMAS = {**TABLES, "log": LOG_SCHEMA}


def folder_of(run: Run) -> Path:
    """Return the folder of the ledger of the wire."""
    return run.path / FOLDER / "ledger"


def write_ledger(run: Run, scenario: Scenario) -> None:
    """Write the ledger of the wire of a run from the tables that `tables.write_tables` has written."""
    folder = folder_of(run)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()

    ends, tap = _ends(run), tapped(run)
    lived = partial(life_of, ends)
    held = holds(small(run, "membership"), lived)
    ended, sessions = transactions(small(run, "transactions"), lived, _first_sent(run))
    topics = [topic.name for topic in scenario.topics]  # others, as of Kafka Streams, are not read back
    task = _Task(
        str(folder),
        ends,
        run_token(run.run_id),
        scenario.compacted,
        held,
        sessions,
        _ranges(run),
        tap is not None,
        frozenset(fault.topic for fault in scenario.raw_writes),
        tuple(topics),
    )
    found = _written(run, task, topics)
    whys = [*incomplete(run), *_nameless(run), *_unread(held), *_in_two_groups(held, topics)]
    whys += _mixed(run, {app.name for app in scenario.apps})
    whys += tap.ambiguous if tap else []
    gaps = [{"check": WIRE, "scope": "", "why": why, "count": 1} for why in whys]
    whole = pa.concat_tables([found.cast(UNDECIDED), pa.Table.from_pylist(gaps, UNDECIDED)])
    pq.write_table(whole, folder / "undecided.parquet")
    for name in READ_BACK:
        if (source := run.ledger / f"{name}.parquet").exists():
            shutil.copyfile(source, folder / source.name)
    for name in OBSERVED:
        if (source := run.ledger / f"{name}.parquet").exists():
            shutil.copytree(source, folder / source.name)
    (folder / "transactions.parquet").mkdir()
    own = pa.Table.from_pylist(ended, TABLES["transactions"])
    pq.write_table(own, folder / "transactions.parquet" / part_name(0))
    others = topics if tap else {*found["scope"].to_pylist()} & {*topics}
    _add_unknown(folder / "lifecycle.parquet", sorted(others))
    if tap:
        _add_tapped(run, folder, tap)
    _seal(folder)


def _written(run: Run, task: _Task, topics: list[str]) -> pa.Table:
    """Write the rows of the partitions of some topics, several at once; return the rows of table `undecided`."""
    found = [UNDECIDED.empty_table()]
    with ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1)) as pool:
        for places in _batches(_sizes(run, topics)):
            found += pool.map(task.write, _by_partition(run, places))
    return pa.concat_tables(found)


def _sizes(run: Run, topics: list[str]) -> dict[tuple[str, int], int]:
    """Return about how many bytes the rows of each partition take."""
    sizes: Counter[tuple[str, int]] = Counter()
    for part in PARTS:
        keys = ["topic", "partition", *(["records"] if part in OF_RECORDS else [])]
        rows = scanned(run, part, keys, pc.field("topic").isin(topics)).group_by(keys[:2])
        for row in rows.aggregate([("partition", "count"), *((name, "sum") for name in keys[2:])]).to_pylist():
            of_records = RECORD_BYTES * max(row.get("records_sum") or 0, 0)
            sizes[row["topic"], row["partition"]] += ROW_BYTES * row["partition_count"] + of_records
    return sizes


def _batches(sizes: Mapping[tuple[str, int], int]) -> Iterator[list[tuple[str, int]]]:
    """Yield partitions to read at once: as many as fit into `BATCH_BYTES`, or one that is larger."""
    batch: list[tuple[str, int]] = []
    taken = 0
    for place, size in sorted(sizes.items()):
        if batch and taken + size > BATCH_BYTES:
            yield batch
            batch, taken = [], 0
        batch.append(place)
        taken += size
    if batch:
        yield batch


def _by_partition(run: Run, places: list[tuple[str, int]]) -> list[pa.Table]:
    """Return the rows of each partition from all tables together: column `part` names the table."""
    topic, partition = pc.field("topic"), pc.field("partition")
    (first, lowest), (last, highest) = places[0], places[-1]  # all between them are in it, too
    within = topic.isin(sorted({name for name, _ in places}))
    within &= ((topic != first) | (partition >= lowest)) & ((topic != last) | (partition <= highest))
    parts = []
    for part in PARTS:
        rows = scanned(run, part, None, within)
        parts.append(rows.append_column("part", pa.repeat(pa.scalar(part), len(rows))))
    rows = pa.concat_tables(parts, promote_options="permissive")
    rows = rows.sort_by([("topic", "ascending"), ("partition", "ascending")])
    names, numbers = rows["topic"].to_numpy(), rows["partition"].to_numpy()
    begins = [0, *(np.flatnonzero((names[1:] != names[:-1]) | (numbers[1:] != numbers[:-1])) + 1), len(rows)]
    return [rows.slice(at, end - at) for at, end in pairwise(map(int, begins))]


def bypasses(run: Run, scenario: Scenario) -> list[str]:
    """Return sentences about what the brokers have of applications, and no front has seen: commits, and batches.

    A broker gives producer ids to clients that ask for one, so a batch with an id that no front has seen is of a client
    that connected past its front; only a cluster that others use has such batches of others. Nothing is said if the
    capture lacks frames.
    """
    found: list[str] = []
    if capture_failure(run) or small(run, "unread"):
        return found
    commits = run.ledger / "commit_log.parquet"
    moved = any("resets" in SPECS[fault.kind].effects for fault in scenario.faults)
    if commits.exists() and not moved:
        key = ["group", "topic", "partition", "offset"]
        asked = {tuple(row.values()) for row in scanned(run, "commits", key, pc.field("offset").is_valid()).to_pylist()}
        rows = pq.read_table(commits, columns=[*key, "transaction"]).to_pylist()
        for group in scenario.app_groups:
            own = [row for row in rows if row["group"] == group and row["offset"] is not None]
            past = [row for row in own if tuple(row[name] for name in key) not in asked]
            if past:
                at = f"{past[0]['topic']}/{past[0]['partition']} offset {past[0]['offset']:,}"
                found.append(f"group {group} committed {at}, and no front has seen that{_PAST}")
    if scenario.apps and not scenario.attached and table_path(run, "log").is_dir():
        known = set[int](
            scanned(run, "produced", ["producer_id"], pc.field("producer_id") >= 0)[0].unique().to_pylist()
        )
        known |= {row["given_producer_id"] for row in small(run, "transactions")}
        topics = pa.array(sorted(scenario.app_topics), pa.string())  # empty if effects are elsewhere
        strange = pc.field("topic").isin(topics) & (pc.field("producer_id") >= 0)
        batches = scanned(run, "log", ["topic", "producer_id"], strange & pc.field("control").is_null())
        for row in batches.group_by(["topic", "producer_id"]).aggregate([]).to_pylist():
            if row["producer_id"] not in known:
                found.append(
                    f"{row['topic']} has records of producer id {row['producer_id']}, which no front has seen{_PAST}"
                )
    return found


_PAST = (
    ": a client of an application connects past its address, so the relay does not see it; give {bootstrap} to each of "
    "its clients, and let them connect to the addresses that the brokers announce"
)


def incomplete(run: Run) -> list[str]:
    """Return why the wire does not show all that passed, so that nothing is decided on it."""
    whys = [why] if (why := capture_failure(run)) else []
    whys += dict.fromkeys(event["words"] for event in read_events(run) if event["kind"] == UNSEEN)
    unread = small(run, "unread")
    if frames := sum(row["frames"] for row in unread):
        row = max(unread, key=lambda row: row["frames"])
        what = f"{row['side']} {ApiKey(row['api']).name} version {row['version']}: {row['why']}"
        whys.append(f"{frames:,} frames of the capture could not be read ({what})")
    missing = run.path / FOLDER / LOG / MISSING
    if not missing.exists():
        return [*whys, "the batches of the final log were not captured"]
    named = read_json(missing, "gaps of the captured log").items()
    return [*whys, *(f"the batches of {partition} were not all captured: {why}" for partition, why in named)]


def _unread(held: Holds) -> list[str]:
    return [f"the assignments of group {group} are not in the form of consumers" for group in sorted(held.unread)]


def _in_two_groups(held: Holds, topics: Container[str]) -> list[str]:
    """Return which processes read a partition in two groups at once: a Fetch does not name its group."""
    found: set[tuple[str, ...]] = set()
    for (topic, _), of in held.of.items():
        ends: dict[tuple[str, int], dict[str, int]] = defaultdict(dict)
        for hold in sorted(of if topic in topics else (), key=attrgetter("begin_us")):
            own = ends[hold.instance, hold.incarnation]
            others = (group for group, end_us in own.items() if group != hold.group and end_us > hold.begin_us)
            found.update((hold.instance, topic, *sorted((group, str(hold.group)))) for group in others)
            own[str(hold.group)] = hold.end_us
    return [
        f"{who} reads {topic} in groups {a} and {b} at once, so which of them a record is for is not known"
        for who, topic, a, b in sorted(found)
    ]


def _first_sent(run: Run) -> dict[tuple[str, int, int], int]:
    """Return when the first Produce in a transaction was sent, by instance, producer id and epoch."""
    key = ["instance", "producer_id", "producer_epoch"]
    rows = scanned(run, "produced", [*key, "asked_us"], pc.field("transactional"))
    first = rows.group_by(key).aggregate([("asked_us", "min")])
    return {tuple(row[name] for name in key): row["asked_us_min"] for row in first.to_pylist()}


def seen(run: Run) -> Seen:
    """Return what the tables of the wire show of how applications read and write; nothing without the tables."""
    if not table_path(run, "fetched").is_dir():
        return Seen()
    written = scanned(run, "produced", ["topic"], pc.field("transactional") & pc.field("topic").is_valid())
    readers = _isolations(run).items()
    uncommitted = frozenset(group for group, levels in readers if 0 in levels)
    return Seen(uncommitted, frozenset(written["topic"].unique().to_pylist()))


def _isolations(run: Run) -> dict[str, set[int]]:
    """Return the isolation levels with which the processes of each entry asked for records."""
    key = ["instance", "isolation"]
    found: dict[str, set[int]] = defaultdict(set)
    rows = scanned(run, "fetched", key, pc.field("isolation").is_valid()).group_by(key).aggregate([])
    for row in rows.to_pylist():
        found[row["instance"].rpartition("/")[0]].add(row["isolation"])
    return found


def _nameless(run: Run) -> list[str]:
    """Return why records may be missing: a row has the id of a topic that no answer to Metadata has named."""
    nameless = {part: pc.field("topic").is_null() for part in PARTS}
    nameless["fetched"] &= pc.field("base_offset").is_valid()  # else it is an error
    found = {part: len(scanned(run, part, ["partition"], rows)) for part, rows in nameless.items()}
    return [f"the topic of rows of table {part} is not known ({n:,})" for part, n in found.items() if n]


def _mixed(run: Run, apps: Container[str]) -> list[str]:
    why = "reads committed records only in some requests, and uncommitted ones too in others"
    found = sorted(_isolations(run).items())
    return [f"{app} {why}" for app, levels in found if app in apps and len(levels) > 1]


def _ends(run: Run) -> dict[str, list[int]]:
    """Return the ends of the incarnations of each instance, but the last one, in their order.

    One without an end on record had ended when the next one began, or else before the run.
    """
    begins: dict[tuple[str, int], int] = {}
    ends: dict[tuple[str, int], int] = {}
    rows = pq.read_table(run.ledger / "lifecycle.parquet", partitioning=None).to_pylist()
    if (apps := run.ledger / "apps.parquet").exists():
        of_apps = pq.read_table(apps, partitioning=None).to_pylist()
        rows += [row | {"client": f"{row['app']}/{row['instance']}"} for row in of_apps]
    for row in rows:
        life, at_us = (row["client"], row["incarnation"]), row["at_us"]
        if row["event"] == "started":
            begins[life] = min(at_us, begins.get(life, at_us))
        elif row["event"] in ("stopped", "crashed"):
            ends[life] = max(at_us, ends.get(life, 0))
    last: Counter[str] = Counter()
    for client, number in (*begins, *ends):
        last[client] = max(last[client], number)
    return {c: [ends.get((c, n), begins.get((c, n + 1), 0)) for n in range(1, most)] for c, most in last.items()}


def _add_unknown(folder: Path, topics: list[str]) -> None:
    """Add the producers of records that may be of several ones: each crashed, so a record needs no send."""
    own = {"role": "producer", "incarnation": 1, "event": "crashed", "detail": "{}", "at_us": 0}
    rows = [own | {"client": f"{UNKNOWN} {topic}"} for topic in topics]
    pq.write_table(pa.Table.from_pylist(rows, TABLES["lifecycle"]), folder / "unknown.parquet")


def _add_tapped(run: Run, folder: Path, tap: TapRecord) -> None:
    """Add what a tap knows of processes and of offsets from before: their begin and end, and first answers about them.

    The first committed offset that a coordinator names, before anything was committed here, is a commit from before.
    """
    began: dict[str, int] = {}
    for row in small(run, "connections"):
        began[row["instance"]] = min(row["opened_us"], began.get(row["instance"], row["opened_us"]))
    own = {"role": "consumer", "incarnation": 1, "detail": "{}"}
    rows = [own | {"client": name, "event": "started", "at_us": at_us} for name, at_us in began.items()]
    rows += [own | {"client": name, "event": "stopped", "at_us": at_us} for name, at_us in tap.ends.items()]
    pq.write_table(pa.Table.from_pylist(rows, TABLES["lifecycle"]), folder / "lifecycle.parquet" / "tapped.parquet")
    key = ["group", "topic", "partition"]
    commits = scanned(run, "commits", [*key, "asked_us"], pc.field("topic").is_valid()).group_by(key)
    earliest: list[dict[str, Any]] = commits.aggregate([("asked_us", "min")]).to_pylist()
    first = {tuple(row[name] for name in key): row["asked_us_min"] for row in earliest}
    known = scanned(run, "positions", [*key, "offset", "answered_us"], pc.field("offset") >= 0).to_pylist()
    seen: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in sorted(known, key=lambda row: row["answered_us"]):
        named = tuple(row[name] for name in key)
        if row["answered_us"] < first.get(named, 1 << 62):
            seen.setdefault(named, row)
    found = [
        {
            **{"entity": f"group:{group}/{topic}/{partition}", "key": "committed", "value": str(row["offset"])},
            "at_us": row["answered_us"],
        }
        for (group, topic, partition), row in seen.items()
    ]
    pq.write_table(pa.Table.from_pylist(found, TABLES["cluster"]), folder / "cluster.parquet" / "tapped.parquet")


@dataclass(frozen=True)
class _Task:
    """What a task writes of one partition. ends: see `_ends`. token: the token of the run. ranges: start and end of the
    log at read-back, by topic and partition. tapped: whether others, who did not pass, may have written to it.
    by_faults: the topics to which faults of the run write. topics: all that the tasks have."""

    folder: str
    ends: Mapping[str, list[int]]
    token: str
    compacted: frozenset[str]
    held: Holds = field(default_factory=Holds)
    sessions: Sessions = field(default_factory=dict)
    ranges: Mapping[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    tapped: bool = False
    by_faults: frozenset[str] = frozenset()
    topics: tuple[str, ...] = ()

    def write(self, rows: pa.Table) -> pa.Table:
        """Write the parts of one partition, and return its rows of table `undecided`."""
        topic, number = rows["topic"][0].as_py(), rows["partition"][0].as_py()
        frame = _frame(rows)
        of = {part: frame[frame.part == part] for part in PARTS}
        undecided: Counter[tuple[str, str]] = Counter()
        if topic in self.compacted:
            for check in OF_IDENTITY:
                undecided[check, COMPACTED] += int(of["log"].records.clip(lower=0).sum()) or 1
            return _undecided(topic, undecided)
        start, end = self.ranges.get((topic, number), (0, 0))
        ledger = Partition(
            topic,
            number,
            of,
            self.ends,
            self.token,
            self.held,
            self.sessions,
            start,
            end if self.tapped else None,
            topic in self.by_faults,
            self.topics.index(topic),
        )
        name = f"{self.topics.index(topic):05}-{number:05}"  # with the topic it may be too long for a file system
        for table in WRITTEN:
            _write_parts(getattr(ledger, table)(), table, Path(self.folder), name)
        readers = [_undecided(name, {("commit_rewind", SOUGHT): n}) for name, n in ledger.set_back.items()]
        return pa.concat_tables([_undecided(topic, ledger.undecided), *readers])


def _ranges(run: Run) -> dict[tuple[str, int], tuple[int, int]]:
    rows = pq.read_table(run.ledger / "log_range.parquet").to_pylist()
    return {(row["topic"], row["partition"]): (row["start"], row["end"]) for row in rows}


def _frame(rows: pa.Table) -> pd.DataFrame:
    """Return a table with NONE for null numbers, and False for null booleans."""
    columns = {}
    for name in rows.column_names:
        column = rows[name]
        if pa.types.is_integer(column.type):
            column = pc.fill_null(column, NONE)
        elif pa.types.is_boolean(column.type):
            column = pc.fill_null(column, False)
        columns[name] = column
    return pa.table(columns).to_pandas()


def _undecided(topic: str, rows: Mapping[tuple[str, str], int]) -> pa.Table:
    found = [{"check": c, "scope": topic, "why": why, "count": n} for (c, why), n in rows.items() if n]
    return pa.Table.from_pylist(found, UNDECIDED)


def _write_parts(columns: dict[str, Any], table: str, folder: Path, name: str) -> None:
    """Write the rows of a partition as parts of a table; missing columns, and NONE, are null."""
    schema, rows = _SCHEMAS[table], max(len(c) for c in columns.values() if not isinstance(c, str | int))
    arrays = [_array(columns.get(field.name), field.type, rows) for field in schema]
    whole = pa.Table.from_arrays(arrays, schema=schema)
    target = folder / (table if table == "log" else f"{table}.parquet")
    target.mkdir(exist_ok=True)
    for n in range(0, rows, ROWS_PER_PART):
        path = target / f"{name}-{n // ROWS_PER_PART:05}.parquet"
        pq.write_table(whole.slice(n, ROWS_PER_PART), path, **parquet_options(schema))


def _array(values: Any, kind: pa.DataType, rows: int) -> pa.Array:
    if values is None:
        return pa.nulls(rows, kind)
    if isinstance(values, str | int):
        return pa.repeat(pa.scalar(values, kind), rows)
    if isinstance(values, pd.Categorical):
        return pa.array(values).cast(kind)
    integer = pa.types.is_integer(kind)
    return pa.array(values, kind, mask=np.asarray(values) == NONE if integer else None, from_pandas=True)


def _seal(folder: Path) -> None:
    """Give each table a part, and write the seal."""
    tables = {}
    for name, schema in _SCHEMAS.items():
        parts = folder / (name if name == "log" else f"{name}.parquet")
        parts.mkdir(exist_ok=True)
        if not any(parts.glob("*.parquet")):
            pq.write_table(schema.empty_table(), parts / part_name(0))
        rows = [pq.read_metadata(path).num_rows for path in sorted(parts.glob("*.parquet"))]
        if name in TABLES:
            tables[name] = SealedTable(rows=sum(rows), files=len(rows), parts=rows)
    write_atomically(folder / SEAL, Seal(tables=tables).model_dump_json(indent=1))
