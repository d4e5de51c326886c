"""The tables of the wire ledger from the decoded rows of some connections: requests joined with answers.

All rows of a connection are there, so no join and no window needs others. Tables are Arrow tables, because bytes and
lists stay as they are; only keys are taken into pandas, which finds the places of what belongs together.
`checks.wire.tables` has what the columns mean.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

DUPLICATE_SEQUENCE = 46
"""The broker has the batch already, and no longer knows its offset."""
UNSURE = (-1, 7, 20)
"""UNKNOWN_SERVER_ERROR, REQUEST_TIMED_OUT and NOT_ENOUGH_REPLICAS_AFTER_APPEND: the leader may have the batch."""
_JOIN = ("connection", "number")
_WHERE = ("instance", "broker", "connection", "number")
_OF_PARTITION = ("connection", "key", "partition")


class Connections:
    """The tables of some connections."""

    def __init__(
        self, raw: Mapping[str, pa.Table], names: Mapping[str, str], speakers: Mapping[int, str] | None = None
    ) -> None:
        """raw: the tables of the decoder. names: of topics by their ids.

        speakers: who spoke on each connection, where all came to one front, as with a tap.
        """
        self._raw, self._speakers = raw, speakers
        self._ids, self._topics = (pa.array([*texts], pa.string()) for texts in (names, names.values()))

    def connections(self) -> pa.Table:
        """Return the connections."""
        return self._connections

    @cached_property
    def _connections(self) -> pa.Table:
        raw = self._raw["connections"].select(["connection", "seen_us", "event", "content"]).to_pandas()
        raw = raw.join(pd.DataFrame([json.loads(content) for content in raw["content"]], raw.index, [*_CONTENT]))
        opened, closed = raw[raw["event"] == "accepted"], raw[raw["event"] == "closed"]
        said = self._raw["announced"].select(["connection", *_SAID]).to_pandas().groupby("connection").max()
        ended = closed.set_index("connection")[["seen_us", "by"]]
        ended.columns = ["closed_us", "closed_by"]
        names = {"front": "instance", "seen_us": "opened_us"}
        own = opened.rename(columns=names)[["connection", "instance", "broker", "peer", "opened_us"]]
        if self._speakers is not None:
            own["instance"] = own["connection"].map(self._speakers).fillna(own["instance"])
        found = own.join(ended, "connection").join(said, "connection")
        return pa.Table.from_pandas(found, _CONNECTIONS, preserve_index=False)

    def produced(self) -> pa.Table:
        """Return the batches that were produced."""
        joined = self._joined("produce_requests", "produce_answers").drop_columns(["log_start"])
        error, made = joined["error"], pc.and_(joined["made"].fill_null(False), joined["sent_us"].is_valid())
        unknown = pc.or_(pc.or_(error.is_null(), _is_in(error, UNSURE)), made)
        answered = pc.if_else(_is_in(error, (0, DUPLICATE_SEQUENCE)), "ok", pc.if_else(unknown, "unknown", "fail"))
        return joined.append_column("outcome", pc.if_else(pc.equal(joined["acks"], 0), "none", answered))

    def fetched(self) -> pa.Table:
        """Return the batches that were fetched."""
        times = _renamed(self._raw["fetches"], {"seen_us": "asked_us", "passed_us": "sent_us"})
        answers = _keyed(self._answers("fetch_answers"))
        asked = _renamed(_keyed(self._raw["fetch_requests"]), {"offset": "asked_offset"})
        last = _taken(asked.select(["asked_offset", "isolation"]), _last_before(answers, asked))
        joined = _beside(answers.drop_columns(["key"]), last)
        return self._placed(self._resolved(_left(joined, times.select([*_JOIN, "asked_us", "sent_us"]), _JOIN)))

    def asked(self) -> pa.Table:
        """Return the positions at which records were asked for, each once until it changes."""
        rows = _renamed(_keyed(self._asked("fetch_requests")), {"offset": "asked_offset"})
        keys = rows.select([*_OF_PARTITION, "number", "asked_offset"]).to_pandas().sort_values("number", kind="stable")
        before = keys.groupby([*_OF_PARTITION])["asked_offset"].shift()  # null, which differs, at the first one
        changed = (before != keys["asked_offset"]).sort_index().to_numpy(bool)
        own = ("topic", "topic_id", "partition", "asked_offset", "isolation", "asked_us", "sent_us")
        return self._resolved(rows.filter(pa.array(changed)).select([*_WHERE, *own]))

    def log(self) -> pa.Table:
        """Return the batches of a log that was captured, without where it was asked for."""
        own = ["connection", "number", "answered_us", "made", "topic_id", "error", "aborted"]
        answers = self._answers("fetch_answers")
        return answers.filter(answers["base_offset"].is_valid()).drop_columns(own)

    def commits(self) -> pa.Table:
        """Return the commits of offsets."""
        return self._joined("commit_requests", "commit_answers")

    def positions(self) -> pa.Table:
        """Return the committed offsets that members asked for. Up to version 7, the request alone names the group."""
        asked = _renamed(self._raw["position_requests"].select([*_JOIN, "group"]), {"group": "asked_group"})
        named = _left(self._answers("position_answers"), asked, _JOIN)
        named = _with(named, "group", pc.coalesce(named["group"], named["asked_group"])).drop_columns(["asked_group"])
        return self._placed(self._resolved(named))

    def membership(self) -> pa.Table:
        """Return what members of groups and coordinators said to each other."""
        names = {"member_id": "given_member_id", "generation": "given_generation"}
        return self._called("membership", names, ("owned", "assigned"))

    def transactions(self) -> pa.Table:
        """Return the requests about transactions."""
        names = {"producer_id": "given_producer_id", "producer_epoch": "given_producer_epoch"}
        return self._called("transaction", names, ("topics",))

    def acquired(self) -> pa.Table:
        """Return the records that members of share groups acquired."""
        return self._placed(self._resolved(_nameless(self._answers("acquired"))))

    def acknowledged(self) -> pa.Table:
        """Return the acknowledgements of members of share groups."""
        asked, answers = _nameless(self._asked("acknowledge_requests")), self._answers("acknowledge_answers")
        of_all = answers["topic_id"].is_null()
        whole = _renamed(answers.filter(of_all).select([*_JOIN, "error"]), {"error": "error_of_all"})
        parts = answers.filter(pc.invert(of_all)).select([*_JOIN, "topic_id", "partition", "error"])
        times = self._answers("share_answers").select([*_JOIN, "answered_us", "made"])
        joined = _left(_left(asked, parts, (*_JOIN, "topic_id", "partition")), whole, _JOIN)
        error = pc.coalesce(joined["error_of_all"], joined["error"])
        return self._resolved(_left(_with(joined, "error", error).drop_columns(["error_of_all"]), times, _JOIN))

    def unread(self) -> pa.Table:
        """Return what could not be decoded."""
        groups = self._raw["unread"].group_by(["side", "api", "version", "why"]).aggregate([([], "count_all")])
        return _renamed(groups, {"count_all": "frames"})

    def _asked(self, table: str) -> pa.Table:
        rows = self._raw[table].drop_columns(["made"])
        return self._placed(_renamed(rows, {"seen_us": "asked_us", "passed_us": "sent_us"}))

    def _answers(self, table: str) -> pa.Table:
        """Return answers; one that never passed is none."""
        rows = self._raw[table]
        return _renamed(
            rows.filter(rows["passed_us"].is_valid()).drop_columns(["seen_us"]), {"passed_us": "answered_us"}
        )

    def _placed(self, rows: pa.Table) -> pa.Table:
        at = pc.index_in(rows["connection"], self._connections["connection"].combine_chunks())
        joined = _beside(rows, self._connections.select(["instance", "broker"]).take(at))
        return joined.select([*_WHERE, *(name for name in joined.column_names if name not in _WHERE)])

    def _joined(self, requests: str, answers: str) -> pa.Table:
        """Return requests with the answers for the same partition."""
        given = _keyed(self._answers(answers)).drop_columns(["topic", "topic_id"])
        joined = _left(_keyed(self._asked(requests)), given, (*_JOIN, "key", "partition"))
        return self._resolved(joined.drop_columns(["key"]))

    def _called(self, calls: str, given: Mapping[str, str], assigned: Sequence[str]) -> pa.Table:
        """Return requests of several kinds with their answers. given: the names of columns of the answers."""
        answers = _renamed(self._answers(f"{calls}_answers").drop_columns(["call"]), given)
        joined = _left(self._asked(f"{calls}_requests"), answers, _JOIN)
        for name in assigned:
            joined = _with(joined, name, self._assignment(joined[name].combine_chunks()))
        return joined

    def _resolved(self, rows: pa.Table) -> pa.Table:
        return _with(rows, "topic", self._named(rows["topic"], rows["topic_id"]))

    def _named(self, topic: pa.Array, topic_id: pa.Array) -> pa.Array:
        return pc.coalesce(topic, self._topics.take(pc.index_in(topic_id, self._ids)))

    def _assignment(self, lists: pa.ListArray) -> pa.ListArray:
        """Return lists of topics and partitions with names for the ids."""
        inside = lists.flatten()
        topic, topic_id, partitions = inside.flatten()
        named = pa.StructArray.from_arrays([self._named(topic, topic_id), topic_id, partitions], fields=[*inside.type])
        ends = np.cumsum(pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False))
        return pa.ListArray.from_arrays(pa.array([0, *ends], pa.int32()), named, mask=lists.is_null())


def _left(rows: pa.Table, others: pa.Table, on: Sequence[str]) -> pa.Table:
    """Return each row with each of the others with the same keys, or else with nulls."""
    keys = [side.select([*on]).to_pandas() for side in (rows, others)]
    places = keys[0].assign(row=range(len(rows))).merge(keys[1].assign(other=range(len(others))), "left", [*on])
    return _beside(rows.take(pa.array(places["row"])), _taken(others.drop_columns([*on]), places["other"]))


def _last_before(answers: pa.Table, asked: pa.Table) -> pd.Series:
    """Return the place of the last request for the partition of each answer: its own one, or one before.

    A request of a session names only partitions with another position than before (KIP-227).
    """
    keys = [side.select([*_OF_PARTITION, "number"]).to_pandas() for side in (asked, answers)]
    both = pd.concat([keys[0].assign(other=range(len(asked))), keys[1].assign(row=range(len(answers)))])
    both = both.sort_values("number", kind="stable")  # at one number, the request comes first
    both["other"] = both.groupby([*_OF_PARTITION])["other"].ffill()
    return both[both["row"].notna()].sort_values("row")["other"]


def _taken(rows: pa.Table, places: pd.Series) -> pa.Table:
    """Return the rows at these places, and nulls at none."""
    return rows.take(pa.array(places.astype("Int64"), pa.int64()))


def _beside(rows: pa.Table, others: pa.Table) -> pa.Table:
    """Return the columns of both."""
    return pa.table([*rows.columns, *others.columns], pa.schema([*rows.schema, *others.schema]))


def _keyed(rows: pa.Table) -> pa.Table:
    """Return rows with what identifies their topic on the wire: its id, or before that its name."""
    return rows.append_column("key", pc.coalesce(rows["topic_id"], rows["topic"]))


def _nameless(rows: pa.Table) -> pa.Table:
    """Return rows of requests that know topics by ids only."""
    return rows.append_column("topic", pa.nulls(len(rows), pa.string()))


def _renamed(rows: pa.Table, names: Mapping[str, str]) -> pa.Table:
    return rows.rename_columns([names.get(name, name) for name in rows.column_names])


def _with(rows: pa.Table, name: str, column: pa.ChunkedArray | pa.Array) -> pa.Table:
    return rows.set_column(rows.column_names.index(name), name, column)


def _is_in(numbers: pa.ChunkedArray, chosen: Sequence[int]) -> pa.ChunkedArray:
    return pc.is_in(numbers, pa.array(chosen, numbers.type))


_CONTENT = ("front", "broker", "peer", "by")
_SAID = ("client_id", "library", "library_version")
_CONNECTIONS = pa.schema(
    {
        "connection": pa.int32(),
        "instance": pa.string(),
        "broker": pa.int32(),
        "peer": pa.string(),
        "opened_us": pa.int64(),
        "closed_us": pa.int64(),
        "closed_by": pa.string(),
        **dict.fromkeys(_SAID, pa.string()),
    }
)
TABLES: dict[str, Callable[[Connections], pa.Table]] = {
    "connections": Connections.connections,
    "produced": Connections.produced,
    "fetched": Connections.fetched,
    "asked": Connections.asked,
    "commits": Connections.commits,
    "positions": Connections.positions,
    "membership": Connections.membership,
    "transactions": Connections.transactions,
    "acquired": Connections.acquired,
    "acknowledged": Connections.acknowledged,
    "unread": Connections.unread,
}
"""By name: how a table is made."""
