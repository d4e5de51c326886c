"""How others audit, written down from what they published, on the same ledgers: to compare time, memory and sight.

    python -m tests.bench.others (kafkatest | jepsen | dataframes) RUN_DIR

`kafkatest` is `validate_delivery` of Apache Kafka's own system tests: tests/kafkatest/utils/util.py, called from
tests/kafkatest/tests/produce_consume_validate.py with the values that VerifiableProducer reported as acknowledged and
those that the consumer printed, strings `<producer>.<number>` in Python lists and sets.

`jepsen` is the analysis of jepsen/src/jepsen/tests/kafka.clj: a history of operations, per key (partition) a vector
from offset to value, and indices from value to place, all in the memory of one process. Of the checks that need more
than that (cycles of transactions by Elle, lag, plots) it does none, and it keeps plain ints where Clojure keeps sets of
one: it is cheaper than the original, though Python is slower than the JVM.

`dataframes` is one family of the audit's own rules as a user of Spark writes it first: lost and duplicate writes,
skipped and duplicate deliveries, by joins and groups on the records and on their offsets. Spark has its own settings
and `MOST_HEAP`. `checks/audit/engine` says what this measured.

Neither reads the log as a whole: what they judge is what consumers were given. Jepsen tolerates `poll-skip` and
`nonmonotonic-poll` of consumers that subscribe, for a rebalance explains them; here they are counted.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Found = dict[str, int]
MOST_CHECKED = 1000
"""Of so many missing values kafkatest asks whether the brokers' files have them."""


def kafkatest(run: Path) -> Found:
    """Acknowledged values as a set minus consumed values as a set; duplicates by counting. Per reader, summed up."""
    acked: list[str] = []
    for sends in _parts(run, "sends", "producer", "seq", "outcome"):
        acked += _texts(sends.filter(pc.equal(sends["outcome"], "ok")))
    consumed: dict[str, list[str]] = defaultdict(list)
    for rows in _parts(run, "deliveries", "mode", "group", "consumer", "producer", "seq"):
        reader = pc.if_else(pc.equal(rows["mode"], "subscribe"), rows["group"], rows["consumer"])
        for name in pc.unique(reader).to_pylist():
            consumed[name] += _texts(rows.filter(pc.equal(reader, name)))
    found: Counter[str] = Counter()
    for values in list(consumed.values()) or [[]]:
        missing = set(acked) - set(values)
        found["missing"] += len(missing)
        found["duplicates"] += abs(len(set(values)) - len(values))
        found["missing, not in the data"] += len(_not_in_data(run, list(missing)[:MOST_CHECKED]))
    return _positive(found)


def _texts(rows: pa.Table) -> list[str]:
    """The values as the tools print them, and as their lists hold them."""
    texts: list[str] = pc.binary_join_element_wise(rows["producer"], rows["seq"].cast(pa.string()), ".").to_pylist()
    return [text for text in texts if text is not None]


def _not_in_data(run: Path, values: list[str]) -> set[str]:
    """What `check_lost_data` greps for in the brokers' files, and does not find."""
    left = set(values)
    for rows in _parts(run, "log", "producer", "seq") if left else ():
        left.difference_update(_texts(rows))
    return left


Key = tuple[str, int]
Pair = tuple[int | None, int]
"""An offset and a value."""
Sent = tuple[str, str, Key, Pair]
"""Type, process, key, and what was sent: a `send` operation of one micro-operation."""
Poll = tuple[str, dict[Key, list[tuple[int, int]]]]
"""Process, and by key what was polled: a `poll` operation."""


class Jepsen:
    """The analysis of one history. sends and polls are in the order in which their processes made them."""

    def __init__(self, run: Path) -> None:
        self.names: dict[str | None, int] = {}
        self.sends: list[Sent] = list(self._sends(run))
        self.polls: list[Poll] = list(self._polls(run))
        self.logs: dict[Key, list[int | set[int] | None]] = defaultdict(list)
        self.by_value: dict[Key, dict[int, int]] = {}
        self.writer_of: dict[Key, dict[int, Sent]] = defaultdict(dict)
        self.reads: dict[Key, set[int]] = defaultdict(set)

    def found(self) -> Found:
        """Errors by type, as the original's `:errors`."""
        self._index()
        found = Counter({"inconsistent-offsets": sum(isinstance(v, set) for log in self.logs.values() for v in log)})
        for key in self.logs.keys() | self.writer_of.keys():
            found += self._of_key(key)
        found += self._monotonic(
            "poll", ((p, k, [v for _, v in got]) for p, mops in self.polls for k, got in mops.items())
        )
        found += self._monotonic("send", ((p, k, [v]) for _, p, k, (_, v) in self.sends))
        del found["send-skip"]  # of other producers' records: the original does not look for it
        return _positive(found)

    def _values(self, rows: pa.Table) -> list[int]:
        """A number for each identity; what carries none gets one that nobody sent."""
        who = rows["producer"].combine_chunks().dictionary_encode()
        codes = [self.names.setdefault(name, len(self.names)) for name in who.dictionary.to_pylist()]
        numbers = zip(who.indices.to_pylist(), rows["seq"].to_pylist(), rows["offset"].to_pylist(), strict=True)
        return [seq << 10 | codes[c] if c is not None else -1 - offset for c, seq, offset in numbers]

    def _sends(self, run: Path) -> Iterator[Sent]:
        names = ("topic", "partition", "offset", "outcome", "producer", "incarnation", "seq")
        types = {"ok": "ok", "fail": "fail", "unknown": "info"}
        keys: dict[Key, Key] = {}
        for rows in _parts(run, "sends", *names):
            rows = rows.sort_by("seq")
            for topic, p, offset, outcome, who, value in zip(
                *(rows[n].to_pylist() for n in names[:5]), self._values(rows), strict=True
            ):
                key = keys.setdefault((topic, p), (topic, p))
                yield types[outcome], who, key, (offset, value)

    def _polls(self, run: Path) -> Iterator[Poll]:
        names = ("consumer", "polled_us", "topic", "partition", "offset")
        keys: dict[Key, Key] = {}
        last: tuple[str, int] | None = None
        mops: dict[Key, list[tuple[int, int]]] = {}
        for rows in _parts(run, "deliveries", *names, "producer", "seq"):
            values = self._values(rows)
            for who, at, topic, p, offset, value in zip(*(rows[n].to_pylist() for n in names), values, strict=True):
                if last != (who, at):
                    last, mops = (who, at), {}
                    yield who, mops
                mops.setdefault(keys.setdefault((topic, p), (topic, p)), []).append((offset, value))

    def _index(self) -> None:
        """`version-orders`, `writer-of` and `reads-by-type`."""
        for mops in (mops for _, mops in self.polls):
            for key, pairs in mops.items():
                self.reads[key].update(value for _, value in pairs)
                for offset, value in pairs:
                    _put(self.logs[key], offset, value)
        for op in self.sends:
            kind, _, key, (offset, value) = op
            self.writer_of[key][value] = op
            if offset is not None and (kind == "ok" or value in self.reads[key]):
                _put(self.logs[key], offset, value)
        for key, log in self.logs.items():
            firsts = (min(v) if isinstance(v, set) else v for v in log if v is not None)
            self.by_value[key] = {value: index for index, value in enumerate(firsts)}

    def _of_key(self, key: Key) -> Counter[str]:
        """Lost writes, duplicates, reads of failed writes, and what nobody polled."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        copies: Counter[int] = Counter()
        for offset, there in enumerate(self.logs[key]):
            for value in there if isinstance(there, set) else () if there is None else (there,):
                first.setdefault(value, offset)
                last[value] = offset
                copies[value] += 1
        read, writers = self.reads[key], self.writer_of[key]
        acked = {value for value, op in writers.items() if op[0] == "ok"}
        bound = max((first[value] for value in read), default=-1)
        lost = {value for value, offset in last.items() if offset <= bound and value in acked} - read
        return Counter(
            {
                "lost-write": len(lost),
                "duplicate": sum(n > 1 for n in copies.values()),
                "G1a": sum(1 for value in read if value in writers and writers[value][0] == "fail"),
                "unseen": len(acked - read),
            }
        )

    def _monotonic(self, what: str, ops: Iterator[tuple[str, Key, list[int]]]) -> Counter[str]:
        """Pairs of values, inside an operation and from one of a process to its next, that go back or leave out."""
        found: Counter[str] = Counter()
        last: dict[tuple[str, Key], int] = {}
        for process, key, values in ops:
            places = [self.by_value.get(key, {}).get(value) for value in values]
            before = last.get((process, key))
            for where, pairs in (("int-", pairwise(places)), ("", [(before, places[0])])):
                for i, j in pairs:
                    if i is not None and j is not None and j - i != 1:
                        found[f"{where}{what}-skip" if j > i else f"{where}nonmonotonic-{what}"] += 1
            if (reached := places[-1]) is not None:
                last[process, key] = reached
        return found


def _put(log: list[int | set[int] | None], offset: int, value: int) -> None:
    if offset >= len(log):
        log.extend([None] * (offset + 1 - len(log)))
    there = log[offset]
    if there is None:
        log[offset] = value
    elif isinstance(there, set):
        there.add(value)
    elif there != value:
        log[offset] = {there, value}


def jepsen(run: Path) -> Found:
    """See `Jepsen`."""
    return Jepsen(run).found()


MOST_HEAP = "4g"
_RECORD, _PLACE = ("producer", "incarnation", "seq"), ("topic", "partition", "offset")


def started() -> Any:
    """The session of `dataframes`: with the settings that Spark has by itself."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("dataframes").master("local[*]").config("spark.driver.memory", MOST_HEAP)
    return builder.config("spark.ui.enabled", "false").getOrCreate()


def dataframes(run: Path) -> Found:
    """Lost and duplicate writes, skipped and duplicate deliveries; every reader has to read the whole log."""
    from pyspark.sql import functions as F

    spark, ledger = started(), f"file:{run}/ledger"
    sends, log, deliveries = (
        spark.read.parquet(f"{ledger}/{name}") for name in ("sends.parquet", "log", "deliveries.parquet")
    )
    copies = log.where("producer is not null").groupBy(*_RECORD).agg(F.count("*").alias("copies"))
    lost = sends.where("outcome = 'ok'").select(*_RECORD).join(copies, list(_RECORD), "left_anti")
    reader = F.when(F.col("mode") == "subscribe", F.col("group")).otherwise(F.col("consumer")).alias("reader")
    times = deliveries.groupBy(reader, *_PLACE).agg(F.count("*").alias("times"))
    to_read = log.select(*_PLACE).crossJoin(F.broadcast(deliveries.select(reader).distinct()))
    more = {
        "duplicate_write": copies.agg(F.sum(F.col("copies") - 1).alias("n")),
        "duplicate_delivery": times.agg(F.sum(F.col("times") - 1).alias("n")),
    }
    found = {name: rows.first().n or 0 for name, rows in more.items()}
    found |= {"lost_write": lost.count()}
    return _positive(Counter(found | {"skipped": to_read.join(times, ["reader", *_PLACE], "left_anti").count()}))


SIGHTED: dict[str, Callable[[Path], Found]] = {"kafkatest": kafkatest, "jepsen": jepsen}
"""Those that are shown beside the audit for what they see."""
METHODS = SIGHTED | {"dataframes": dataframes}

SHOWN = {
    "acked_and_gone": "acked, gone from the log, another record at its offset",
    "acks_0_and_gone": "acked without an offset, gone from the log",
    "acked_and_evicted": "acked, read by nobody, evicted by retention: no anomaly",
    "written_three_times": "one record written three times",
    "acked_elsewhere": "acked at one offset, found at another",
    "out_of_order": "two records in the log in the wrong order",
    "bits_flipped": "a record with a wrong CRC",
    "of_another_run": "a record in the log that nobody of this run sent",
    "left_out_between_two_owners": "in the log, left out by the group between two owners",
    "skipped_by_one_of_two_readers": "left out by one reader, read by another",
    "committed_then_died": "committed, then died before processing: two records",
    "again_from_the_committed_offset": "redelivered from the committed offset: legal",
    "again_from_below_the_committed_offset": "redelivered from below it: illegal",
    "twice_in_one_assignment": "delivered twice in one assignment: illegal",
    "another_record_is_there_now": "delivered, then another record was there",
    "not_in_the_log_any_more": "delivered, then gone from the log",
    "committed_ahead": "committed beyond what was processed",
    "committed_back": "a commit that lowers the committed offset",
    "two_owners_in_one_generation": "two owners in one generation",
    "moved_by_another_job": "resumed where another job's commit put the group",
}
"""Small histories of `tests.checks.audit.stories` (and one of here), and what happens in them."""


def compare(folder: Path) -> dict[str, dict[str, Found]]:
    """What each method finds in each of `SHOWN`, the audit last. Raises if the audit is not exactly right.

    A history without a reader gets one that reads the whole log, for the others see nothing else.
    """
    from checks.audit import audit
    from checks.spark.session import spark_session
    from tests.checks.audit.stories import STORIES
    from tests.checks.audit.story import Story, make_run, read_audit, resolved_of

    spark, result = spark_session(), {}
    for name in SHOWN:
        write, expected = STORIES.get(name, (_skipped_by_one, {"skipped_delivery": 1, "poll_skip": 1}))
        story = Story(name, 1)
        write(story)
        if not story.mode:
            _read_all(story)
        run = make_run(folder / name, [story])
        audit(spark, run, resolved_of([story]))
        found = found_by_audit(read_audit(run, "summary"))
        if found != expected:
            raise AssertionError(f"{name}: the audit finds {found}, not {expected}")
        result[name] = {method: find(run.path) for method, find in SIGHTED.items()} | {"aftershock": found}
    spark.stop()
    return result


def found_by_audit(summary: list[dict[str, Any]]) -> Found:
    """What the audit's table `summary` counts, by check and split."""
    found: Counter[str] = Counter()
    for row in summary:
        check = f"{row['check']}.{row['split']}" if row["split"] else row["check"]
        found[check] += row["count"]
        found[f"{row['check']}.undecided"] += row["undecided"]
    return _positive(found)


def _skipped_by_one(story: Any) -> None:
    story.mode, story.members, story.consumer = "assign", 2, {"start": "earliest"}
    story.wrote(0, 1, 2).assigned(1, source="start").got(0, 2)
    story.assigned(2, source="start").got(0, 1, 2)


def _read_all(story: Any) -> None:
    epoch = story.assigned(generation=1, position=story.log_start)
    seqs = {row["offset"]: row["seq"] for row in story.rows["log"]}
    epoch.got(*sorted(seqs), seq=seqs.get).commit(max(seqs) + 1)


def _parts(run: Path, table: str, *columns: str) -> Iterator[pa.Table]:
    folder = run / "ledger" / ("log" if table == "log" else f"{table}.parquet")
    for path in sorted(folder.glob("*.parquet")):
        yield pq.read_table(path, columns=list(columns), use_threads=False)


def _positive(found: Counter[str]) -> Found:
    return {name: count for name, count in found.items() if count}


def main() -> None:
    parser = argparse.ArgumentParser(description="One published method on one run directory.")
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("run", type=Path)
    options = parser.parse_args()
    if options.method == "dataframes":
        started()
        print(json.dumps({"phase": "session"}), flush=True)
    began = time.monotonic()
    found = METHODS[options.method](options.run)
    print(json.dumps({"phase": "audit", "seconds": time.monotonic() - began, "found": found}), flush=True)


if __name__ == "__main__":
    main()
