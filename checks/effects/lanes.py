"""What applications did over time, for the lanes of the report: small tables of `audit/` from the wire.

| table         | one row per                                                                                  |
|---------------|----------------------------------------------------------------------------------------------|
| app_ownership | time for which an instance held a partition, as in `ownership`: from the answer that gave it |
|               | to the frame that took or returned it, or to the end of the instance                         |
| app_series    | bucket of `checks.audit.engine.time_buckets`, as in `series`: `commits` of an instance          |
|               | (partitions of accepted commits), and `effects` of an effect (first ones of inputs)          |
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.dataset import dataset

from chaos.ledger.schemas import TABLES
from chaos.run.directory import Run
from chaos.scenario.resolve import Resolved
from checks.audit.engine.time_buckets import BUCKET_US
from checks.effects.seen import Life, app_of, lives_of
from checks.effects.tables import inputs_of, write_table
from checks.evidence import ledger_rows
from checks.spark.master import is_local
from checks.spark.remote import Mirror
from checks.wire.tables import scanned, small, table_path

Row = dict[str, Any]
GONE = frozenset({25, 82, 110})
"""UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID and FENCED_MEMBER_EPOCH: the group goes on without the member."""
_str, _i64 = pa.string(), pa.int64()
OWNERSHIP = pa.schema(
    [
        *((name, _str) for name in ("group", "topic", "consumer", "end_reason")),
        *((name, _i64) for name in ("partition", "incarnation", "generation", "begin_us", "end_us")),
    ]
)
SERIES = pa.schema([("series", _str), ("scope", _str), ("at_us", _i64), ("value", pa.float64())])


def write_lanes(run: Run, resolved: Resolved, master: str) -> None:
    """Write both tables, as far as there is a wire ledger, and all of `effect_inputs`.

    master: of the Spark that wrote these.
    """
    series: list[Row] = []
    here = is_local(master) and not isinstance(run, Mirror)
    for effect in resolved.scenario.effects:
        inputs = inputs_of(run, effect)
        if inputs.exists() and not effect.aggregate and here:
            at = dataset(inputs, format="parquet").to_table(["first_at_us"])["first_at_us"].drop_null()
            series += _buckets("effects", pa.repeat(effect.name, len(at)), at)
    if resolved.scenario.apps and table_path(run, "commits").exists():
        apps = [app.name for app in resolved.scenario.apps]
        commits = scanned(run, "commits", ["instance", "answered_us"], pc.field("error") == 0)
        commits = commits.filter(pc.is_in(pc.replace_substring_regex(commits["instance"], "/.*", ""), pa.array(apps)))
        series += _buckets("commits", commits["instance"], commits["answered_us"])
        said = [row for row in small(run, "membership") if app_of(row["instance"]) in apps and _tells(row)]
        lives = lives_of(ledger_rows(run, "apps", TABLES["apps"].names), None)
        write_table(run.audit / "app_ownership", list(ownership(said, lives)), OWNERSHIP)
    write_table(run.audit / "app_series", series, SERIES)


def _tells(row: Row) -> bool:
    """Return whether a request of a member, or its answer, says what it holds or that it holds nothing."""
    return row["assigned"] is not None or row["call"] in ("JoinGroup", "LeaveGroup") or (row["error"] or 0) > 0


def _buckets(series: str, scopes: pa.Array, times: pa.Array) -> list[Row]:
    """Return the number of rows by scope and bucket."""
    buckets = pc.multiply(pc.divide(times, BUCKET_US), BUCKET_US)  # of integers, so the division rounds down
    counted = pa.table({"scope": scopes, "at_us": buckets}).group_by(["scope", "at_us"]).aggregate([([], "count_all")])
    return [{"series": series} | row for row in counted.rename_columns(["scope", "at_us", "value"]).to_pylist()]


def ownership(said: Iterable[Row], lives: Mapping[str, Sequence[Life]]) -> Iterator[Row]:
    """Yield the times for which instances held partitions, as each instance knew it.

    A member that joins again keeps what it says that it owns (KIP-429), and nothing else.
    """
    events: dict[tuple[str, str], list[tuple[int, str, Row]]] = defaultdict(list)
    for row in said:
        at = row["asked_us"] if row["call"] in ("JoinGroup", "LeaveGroup") else row["answered_us"]
        if at is not None:
            events[row["instance"], row["group"]].append((at, row["call"], row))
    for (instance, group), of_member in events.items():
        incarnations = lives.get(instance, ())
        of_member += [(life.end_us, "end", {}) for life in incarnations if life.end_us is not None]
        held: dict[tuple[str, int], Row] = {}
        for at, call, row in sorted(of_member, key=lambda event: event[0]):
            kept, reason = _kept(call, row, held.keys())
            for place in [place for place in held if place not in kept]:
                yield held.pop(place) | {"end_us": at, "end_reason": reason}
            for topic, partition in sorted(kept - held.keys()):
                given = row["given_generation"]
                generation = row["generation"] if given is None else given
                number = sum(life.begin_us <= at for life in incarnations) or 1
                held[topic, partition] = {
                    **{"group": group, "topic": topic, "partition": partition, "consumer": instance},
                    **{"incarnation": number, "generation": generation, "begin_us": at},
                }
        for row in held.values():
            yield row | {"end_us": None, "end_reason": "open"}


def _kept(call: str, row: Row, held: Iterable[tuple[str, int]]) -> tuple[set[tuple[str, int]], str]:
    """Return what an instance holds after an event, and why it no longer holds the rest."""
    if call == "end":
        return set(), "crashed"
    if row["error"] in GONE:
        return set(), "lost"
    if call == "LeaveGroup":
        return set(), "revoked"
    if call == "JoinGroup":
        return _places(row["owned"]) & set(held), "revoked"
    return (_places(row["assigned"]) if row["assigned"] is not None and not row["error"] else set(held)), "revoked"


def _places(topics: Iterable[Row] | None) -> set[tuple[str, int]]:
    return {(one["topic"], n) for one in topics or () if one["topic"] is not None for n in one["partitions"] or ()}
