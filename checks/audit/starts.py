"""Where an epoch may begin: the legal start (DESIGN, "What the words of the checks mean exactly").

`committed` is legal at the group's last committed offset of that moment. What the ledger knows of that moment is a set:
the last commit that had surely been made (settled), those in flight beside or after it, those with outcome unknown, and
what the observer saw, since the row of an automatic commit, or of one whose member died, may be missing.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from checks.audit.epochs import KEY, Epoch, Epochs, Life
from checks.audit.readers import EARLIEST, Reader

Range = tuple[int | None, int | None]


@dataclass
class Known:
    """What may have been committed when an epoch asked. none: that nothing may have been.

    makers: by offset, the (consumer, mode) that committed it; empty for an offset only the observer saw.
    own: the reader's own last commit. seen: the highest offset observed while the epoch was the latest one.
    foreign: whether assign-mode consumers commit to this group too, so that `seen` may be of their making.
    """

    none: bool = True
    makers: dict[int, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))
    own: int | None = None
    seen: int | None = None
    foreign: bool = False


def commit_history(commits: DataFrame, epoch_begins: DataFrame) -> DataFrame:
    """Commits that happened or may have: as `commits`, with from_us and to_us between which they took effect.

    An automatic commit is told after the fact, so it may have been made at any time since the one before it, or since
    its epoch began. A commit with outcome unknown may take effect until another one settles the matter.
    """
    before = f"lag(completed_us) OVER (PARTITION BY {', '.join(KEY)} ORDER BY completed_us)"
    return (
        commits.filter("outcome IN ('ok', 'unknown')")
        .join(F.broadcast(epoch_begins), list(KEY), "left")
        .withColumn(
            "from_us", F.expr(f"CASE WHEN kind = 'auto' THEN coalesce({before}, begin_us + 1, 0) ELSE requested_us END")
        )
        .withColumn("to_us", F.col("completed_us"))
    )


def observed_commits(cluster: DataFrame) -> DataFrame:
    """What the observer saw committed, from entities `group:<id>/<topic>/<partition>`: these three, at_us, offset."""
    return (
        cluster.filter("key = 'committed' AND entity LIKE 'group:%/%/%'")
        .selectExpr("split(substring(entity, 7), '/') AS part", "try_cast(value AS BIGINT) AS offset", "at_us")
        .filter("offset >= 0 AND size(part) = 3")
        .selectExpr(
            "part[0] AS `group`", "part[1] AS topic", "try_cast(part[2] AS INT) AS partition", "at_us", "offset"
        )
    )


def known_at_begin(
    spark: SparkSession, epochs: Epochs, lives: dict[tuple[str, int], Life], history: DataFrame, observed: DataFrame
) -> dict[int, Known]:
    """What is known of the committed offset for each epoch of a consumer with a group id, by index in `epochs.all`."""
    asked = spark.createDataFrame(_questions(epochs, lives))
    known: dict[int, Known] = defaultdict(Known)
    observed_rows = (
        asked.join(observed, ["group", "topic", "partition"])
        .groupBy("epoch")
        .agg(
            F.expr("max(struct(at_us, offset)) FILTER (WHERE at_us <= fetched_us) AS last_seen"),
            F.expr("min(struct(at_us, offset)) FILTER (WHERE at_us > fetched_us) AS next_seen"),
            F.expr("max(offset) FILTER (WHERE at_us >= begin_us AND at_us < next_begin_us) AS seen"),
        )
    )
    sightings = {row["epoch"]: row for row in observed_rows.toArrow().to_pylist()}
    for row in _relevant_commits(asked, history).toArrow().to_pylist():
        _learn(known[row["epoch"]], epochs.all[row["epoch"]], row, sightings.pop(row["epoch"], {}))
    for index, sighting in sightings.items():  # no commit row at all, only what the observer saw
        _learn(known[index], epochs.all[index], {}, sighting)
    return known


def _questions(epochs: Epochs, lives: dict[tuple[str, int], Life]) -> pa.Table:
    """One row per epoch that has a group: between fetched_us and begin_us the client asked for the committed offset."""
    rows = []
    following = {a.key: b.begin_us for turns in epochs.by_place().values() for a, b in pairwise(turns)}
    for index, e in enumerate(epochs.all):
        if e.group is None:
            continue
        # A group fences everybody else while it hands out partitions; assign mode asks at any time since its start.
        life = lives.get(e.holder)
        asked_since = life.started_us if e.mode == "assign" and life and life.started_us is not None else e.begin_us
        rows.append(
            (
                index,
                e.group,
                e.topic,
                e.partition,
                e.consumer,
                min(asked_since, e.begin_us),
                e.begin_us,
                following.get(e.key, 1 << 62),
            )
        )
    names = [("epoch", pa.int32()), ("group", pa.string()), ("topic", pa.string()), ("partition", pa.int32())]
    names += [("asking", pa.string())] + [(name, pa.int64()) for name in ("fetched_us", "begin_us", "next_begin_us")]
    return pa.Table.from_pylist([dict(zip([n for n, _ in names], row, strict=True)) for row in rows], pa.schema(names))


def _relevant_commits(asked: DataFrame, history: DataFrame) -> DataFrame:
    """Per epoch: settled, the commits that overlap or follow it, the asking consumer's own last, the next one's end."""
    made = history.select("group", "topic", "partition", "from_us", "to_us", "offset", "outcome", "consumer", "mode")
    both = asked.join(made, ["group", "topic", "partition"])
    made_before = "outcome = 'ok' AND to_us <="
    settled = both.groupBy("epoch").agg(
        F.expr(f"max(struct(to_us, from_us, offset)) FILTER (WHERE {made_before} fetched_us) AS settled"),
        F.expr(f"max(struct(to_us, offset)) FILTER (WHERE {made_before} begin_us AND consumer = asking) AS own"),
        F.expr("min(to_us) FILTER (WHERE from_us > begin_us) AS next_done"),
        F.expr("max(mode = 'assign') AS foreign"),
    )
    # whatever had ended before the settled commit was even requested has been overwritten
    open_ones = (
        both.join(settled.select("epoch", "settled"), "epoch")
        .filter("from_us <= begin_us AND (settled IS NULL OR to_us >= settled.from_us)")
        .groupBy("epoch")
        .agg(F.expr("collect_set(struct(offset, consumer, mode)) AS candidates"))
    )
    return settled.join(open_ones, "epoch", "left")


def _learn(known: Known, epoch: Epoch, row: dict[str, Any], sighting: dict[str, Any]) -> None:
    settled, own = row.get("settled"), row.get("own")
    known.own = own["offset"] if own else None
    known.foreign = bool(row.get("foreign"))
    known.seen = sighting.get("seen")
    known.none = settled is None
    for c in row.get("candidates") or []:
        known.makers[c["offset"]].add((c["consumer"], c["mode"]))
    last, following = sighting.get("last_seen"), sighting.get("next_seen")
    if last and (settled is None or last["at_us"] >= settled["from_us"]):
        if settled and last["offset"] > settled["offset"] and last["at_us"] >= settled["to_us"]:
            known.makers.pop(settled["offset"], None)  # seen further on since: the settled one is no longer the last
        known.makers[last["offset"]]
        known.none = False
    next_done = row.get("next_done")
    if following and (next_done is None or following["at_us"] < next_done):
        known.makers[following["offset"]]


def judge(epochs: Epochs, known: dict[int, Known], readers: list[Reader], ranges: dict[tuple[str, int], Range]) -> None:
    """Fill in start, legal and why of every epoch."""
    by_name = {r.name: r for r in readers}
    index = {e.key: i for i, e in enumerate(epochs.all)}
    for turns in epochs.by_place().values():
        for e in turns:
            reader = by_name.get(e.reader) or Reader(e.reader, e.mode, e.group, (), 1, "latest", "", commits=False)
            log = ranges.get((e.topic, e.partition), (None, None))
            _judge(e, turns[: e.turn], known.get(index[e.key], Known()), reader, log)


def _judge(e: Epoch, earlier: list[Epoch], known: Known, reader: Reader, log: Range) -> None:
    if e.source == "seek":
        e.start, e.legal, e.why = _position(e), True, "a seek"
    elif e.source == "checkpoint":
        expected = _checkpoint(e, earlier)
        e.start = _position(e)
        e.legal = expected is None or e.start is None or e.start == expected
        e.why = "its checkpoint" if e.legal else f"its checkpoint was {expected}, not {e.start}"
    elif e.source == "start":
        mine = [
            p
            for p in earlier
            if p.consumer == e.consumer and (p.incarnation == e.incarnation or not reader.fresh_start)
        ]
        e.start, e.legal = _position(e), not mine
        e.why = "the given start" if e.legal else "began at its given start again"
    elif e.source == "reset":
        _judge_reset(e, known, reader, log)
    elif e.position is not None:
        _judge_committed(e, earlier, known, reader)
    else:
        _judge_unknown(e, known, reader, log)


def _position(e: Epoch) -> int | None:
    return e.position if e.position is not None else e.first


def _checkpoint(e: Epoch, earlier: list[Epoch]) -> int | None:
    """After the last record that the consumer processed here before; else where it began. None if it never was here."""
    mine = sorted((p for p in earlier if p.consumer == e.consumer), key=lambda p: (p.incarnation, p.assignment))
    for p in reversed(mine):
        if p.last is not None:
            return p.last + 1
    return mine[0].start if mine else None


def _judge_reset(e: Epoch, known: Known, reader: Reader, log: Range) -> None:
    """auto.offset.reset applies where nothing is committed, or what is committed is outside the log."""
    start, end = log
    outside = [o for o in known.makers if (start is not None and o < start) or (end is not None and o > end)]
    e.legal = known.none or bool(outside)
    e.why = "auto.offset.reset" if e.legal else f"auto.offset.reset, although {sorted(known.makers)} was committed"
    e.start = start if reader.reset == EARLIEST and start is not None else _position(e)
    if reader.reset == EARLIEST and e.position is not None and start is not None and e.position > start:
        e.why += f" (recorded at {e.position}, above the log start {start})"


def _judge_committed(e: Epoch, earlier: list[Epoch], known: Known, reader: Reader) -> None:
    e.start = e.position
    assert e.start is not None
    last = max(known.makers, default=None)
    e.legal = e.start in known.makers
    e.why = "the committed offset"
    if e.legal:
        return
    # Above all commits on record, yet within what was processed: the row of that commit died with its member, or it
    # was an automatic one that nobody was told of. It repeats less than the recorded commits would allow.
    unrecorded = reader.auto or any(p.end_reason == "crashed" for p in earlier)
    processed = max((p.high + 1 for p in earlier if p.high is not None), default=None)
    if unrecorded and processed is not None and (last is None or last < e.start) and e.start <= processed:
        e.legal, e.why = True, "a commit without a row: its member died, or it was automatic"
        return
    found = f"{sorted(known.makers)} was" if known.makers else "nothing was"
    e.why = f"said to be the committed offset, but {found} committed"


def _judge_unknown(e: Epoch, known: Known, reader: Reader, log: Range) -> None:
    """No position on record: it is taken to be legal unless its first delivery lies below every legal one."""
    below = [o for o in known.makers if e.first is None or o <= e.first]
    if below:
        e.start, e.legal, e.why = max(below), True, "the committed offset (no position on record)"
    elif known.none:
        e.start = log[0] if reader.first == EARLIEST else e.first
        e.legal, e.why = True, "auto.offset.reset (no position on record)"
    else:
        e.start, e.legal = e.first, False
        e.why = f"began at {e.first}, below the committed {sorted(known.makers)}"
