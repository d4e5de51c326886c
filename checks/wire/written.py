"""The identity of what was produced, and where it is in the final log: of one partition, as columns of pandas.

A record of a stranger has no mark. A batch is found in the log by the first of these that it has:

| identity | what is equal                                                                                          |
|----------|--------------------------------------------------------------------------------------------------------|
| sequence | producer id, epoch and first sequence (KIP-98): of idempotent producers                                |
| checksum | checksum, number of records and last timestamp: a client's own retry sends the same bytes              |
| position | the acknowledged offset, the number of records, and the timestamp, which the broker says that it wrote |
|          | (LogAppendTime), or which the client gave: a broker that sets timestamps or compresses again changes   |
|          | the checksum                                                                                           |
| hashes   | hash and timestamp of each record: librdkafka without idempotence puts a retry into other batches      |

A client that bumps its epoch renumbers what is in flight, and librdkafka puts records into other batches, so one record
may have two identities. Records of one content of a process, outside of transactions, are one record if an attempt with
them was not acknowledged before the other one, and their batches are not two of one session of an idempotent producer.
This needs hashes.

Undecided are equal twins (sent again after an acknowledgement, without a sequence), and batches that have no checksum
in the log and no records in the capture.

Sources: KIP-98 for sequences; the record batch in Kafka's documentation of the message format.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from checks.audit.arrays import NONE, Ints

KEY = ["a", "b", "c", "d"]
"""The columns of a key: producer id, epoch, sequence; or checksum, records, timestamp after `NONE`."""
_RECORD = ["hash", "sent_us"]
Lives = Callable[["pd.Series[Any]", "pd.Series[Any]"], Ints]
"""Return the incarnations of instances at some times."""
NUMBER = np.dtype("<i8")
"""A number in `hashes` and `timestamps_us`."""


@dataclass
class Written:
    """What was sent to a partition, and the batches that are known of it.

    sent: one row for each identity, in the order of its first attempt: instance, attempts, acked, unknown, failed,
    unanswered, first_us, last_us, acked_us, answered_us, acked_offset, records, producer_id, producer_epoch,
    transactional, connection, hashes, timestamps_us, `life` (the incarnation of its process), and `first`, the number
    of its first record in the partition.
    `identity`, `twins` and `copies` (batches of the log that are it). batches: the batches with `owner`, the row of
    `sent` that they are, NONE if it is not known. singles: offset, owner and index of records that are found by hash.
    same: owner and index of records that are another record, with its number, NONE where that is not decided.
    """

    sent: pd.DataFrame
    batches: pd.DataFrame
    singles: pd.DataFrame
    same: pd.DataFrame

    @property
    def unfound(self) -> Any:
        """Whether it is not decided that an identity is absent from the log: it may have another checksum there."""
        s = self.sent
        return (s.identity == "checksum") & (s.copies == 0) & s.hashes.isna() & ~s.twins

    def number(self, owner: Ints, index: Ints) -> Ints:
        """Return the number of records of identities; records of one content that are one record have one number."""
        numbers = self.sent["first"].to_numpy()[owner] + index
        known = self.same[self.same.number != NONE]
        if len(known):
            own = known["first"].to_numpy() + known["index"].to_numpy()
            order = np.argsort(own)
            at = np.minimum(np.searchsorted(own[order], numbers), len(own) - 1)
            numbers = np.where(own[order][at] == numbers, known.number.to_numpy()[order][at], numbers)
        found: Ints = numbers.astype(np.int64)
        return found


def identify(produced: pd.DataFrame, batches: pd.DataFrame, lives: Lives) -> Written:
    """Return what was sent to one partition, compared with batches of records: of the log (`in_log`), or fetched.

    Null numbers are NONE. No batch is a marker, or cut off at the end of an answer. lives: the incarnations of
    instances at some times.
    """
    sent = _sent(produced.assign(**_key(produced)))
    batches = batches.assign(**_key(batches)).reset_index(drop=True)
    batches["owner"] = _looked_up(sent, batches)
    sent["copies"] = _counted(batches[batches.in_log], len(sent))
    _by_position(sent, batches)
    sent["copies"] = _counted(batches[batches.in_log], len(sent))
    singles = _by_hashes(sent, batches)
    sent["life"] = lives(sent.instance, sent.first_us)
    places = _places(sent, batches, singles)
    sent["first"] = _first_numbers(sent, places)
    same = _same(sent)
    moved = _with_retries(places, same)
    if moved.count() > places.count():
        sent["first"] = _first_numbers(sent, moved)
        same = _same(sent)
    return Written(sent, batches, singles, same)


def _key(rows: pd.DataFrame) -> dict[str, Any]:
    known = (rows.producer_id >= 0).to_numpy()
    names = (("producer_id", None), ("producer_epoch", "crc"), ("base_sequence", "records"), (None, "max_timestamp_us"))
    columns = [np.where(known, rows[a] if a else NONE, rows[b] if b else NONE).astype(np.int64) for a, b in names]
    return dict(zip(KEY, columns, strict=True))


def _sent(produced: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each key. `twins`: it was sent after it had been acknowledged, or by several instances."""
    ordered = produced.sort_values(["asked_us", "connection", "number", "batch"], kind="stable")
    ok = ordered.outcome == "ok"
    # several batches of a partition in one request, as of old clients: the answer has the offset of the first one
    ordered["acked_offset"] = np.where(ok & (ordered.batch == 0), ordered.base_offset, NONE)
    ordered["acked_us"] = ordered.answered_us.where(ok)
    groups = ordered.groupby(KEY, sort=False)
    sent = groups.agg(
        **{name: (name, "first") for name in ("instance", "producer_id", "producer_epoch", "transactional", "records")},
        **{name: (name, "first") for name in ("base_timestamp_us", "max_timestamp_us", "hashes", "timestamps_us")},
        connection=("connection", "first"),
        attempts=("outcome", "size"),
        first_us=("asked_us", "min"),
        last_us=("asked_us", "max"),
        acked_us=("acked_us", "min"),
        answered_us=("answered_us", "max"),
        acked_offset=("acked_offset", "max"),
        append_us=("append_us", "max"),
        senders=("instance", "nunique"),
    ).reset_index()
    numbers = groups.ngroup().to_numpy()
    for name, outcome in (("acked", "ok"), ("unknown", "unknown"), ("failed", "fail"), ("unanswered", "none")):
        sent[name] = np.bincount(numbers, ordered.outcome == outcome, len(sent)).astype(np.int64)
    sent["identity"] = np.where(sent.producer_id >= 0, "sequence", "checksum")
    again = (sent.last_us > sent.acked_us) | (sent.senders > 1)
    sent["twins"] = (sent.producer_id < 0) & again
    sent["acked_us"] = sent.acked_us.fillna(NONE).astype(np.int64)
    return sent


def _places(sent: pd.DataFrame, batches: pd.DataFrame, singles: pd.DataFrame) -> pd.Series[Any]:
    """Return the first offset in the log of each identity, null if it is not there."""
    in_batches = batches.loc[batches.in_log, ["owner", "base_offset"]].set_axis(["owner", "offset"], axis=1)
    found = pd.concat([in_batches, singles[["owner", "offset"]]], ignore_index=True)
    return found[found.owner != NONE].groupby("owner").offset.min().reindex(sent.index)


def _with_retries(places: pd.Series[Any], same: pd.DataFrame) -> pd.Series[Any]:
    """Return the places, and for an identity that is not in the log the place of its records under another identity."""
    known = same[same.number != NONE]
    found = known.assign(place=places[known.row].to_numpy())
    found["place"] = found.groupby("number").place.transform("min")
    return places.fillna(found.groupby("row").place.min())


def _first_numbers(sent: pd.DataFrame, places: pd.Series[Any]) -> Ints:
    """Return the number of the first record of each identity: numbers rise in the order of the first attempts.

    A process may have several producers, as Kafka Streams has one for each thread, and nothing says in which order
    their records are to be in the log. Their numbers rise in the order of the log, unless one of the producers has
    records there in another order than it sent them.
    """
    order = np.arange(len(sent))
    known = sent.producer_id >= 0
    producer = np.where(known, sent.producer_id, NONE - 1 - sent.connection)
    # without an id, a retry on another connection is no producer more
    until_us = sent.last_us.where(known, sent.first_us)
    for _, rows in sent.assign(producer=producer, until_us=until_us).groupby(["instance", "life"]):
        spans = rows.groupby("producer").agg(begin=("first_us", "min"), end=("until_us", "max")).sort_values("begin")
        if not (spans.begin.to_numpy()[1:] < spans.end.cummax().to_numpy()[:-1]).any():
            continue  # one after the other: a producer that got another id, or another connection
        at = rows[places[rows.index].notna()]
        in_log = at.assign(place=places[at.index]).sort_values("place", kind="stable")
        for _, of_one in in_log.assign(slot=at.index.to_numpy()).groupby("producer"):
            order[of_one.slot.to_numpy()] = np.sort(of_one.index.to_numpy())
    records = sent.records.to_numpy()[order]
    numbers = np.zeros(len(sent), np.int64)
    numbers[order] = np.cumsum(records) - records
    return numbers


def _looked_up(sent: pd.DataFrame, batches: pd.DataFrame) -> Ints:
    """Return the row of `sent` with the key of each batch."""
    rows = sent[KEY].assign(owner=sent.index)
    found: Ints = batches[KEY].merge(rows, on=KEY, how="left").owner.fillna(NONE).astype(np.int64).to_numpy()
    return found


def _counted(batches: pd.DataFrame, size: int) -> Ints:
    owner = batches.owner.to_numpy()
    return np.bincount(owner[owner >= 0], minlength=size)


def _by_position(sent: pd.DataFrame, batches: pd.DataFrame) -> None:
    """Set the owner of batches at the acknowledged offset of identities that are not in the log by their key."""
    left = sent[(sent.copies == 0) & (sent.identity == "checksum") & (sent.acked_offset >= 0)]
    there = batches[batches.owner == NONE].reset_index()
    pairs = left.reset_index().merge(there, left_on="acked_offset", right_on="base_offset", suffixes=("", "_there"))
    given = (pairs.base_timestamp_us == pairs.base_timestamp_us_there) & (
        pairs.max_timestamp_us == pairs.max_timestamp_us_there
    )
    appended = pairs.log_append_time & (pairs.append_us == pairs.max_timestamp_us_there)
    pairs = pairs[(pairs.records == pairs.records_there) & (appended | (~pairs.log_append_time & given))]
    batches.loc[pairs.index_there, "owner"] = pairs["index"].to_numpy()
    sent.loc[pairs["index"], "identity"] = "position"


def _by_hashes(sent: pd.DataFrame, batches: pd.DataFrame) -> pd.DataFrame:
    """Return columns offset, owner and index: records in the log that match a record sent by hash and timestamp.

    Only records of batches without a producer id that no batch in the log matches as a whole.
    """
    left = _records(sent[(sent.copies == 0) & (sent.identity == "checksum")])
    right = _records(batches[(batches.owner == NONE) & batches.in_log & (batches.producer_id < 0)])
    pairs = left.merge(right, on="hash", suffixes=("", "_there"))
    appended = batches.log_append_time.to_numpy()[pairs.row_there]
    pairs = pairs[appended | (pairs.sent_us == pairs.sent_us_there)]
    offset = batches.base_offset.to_numpy()[pairs.row_there] + pairs.index_there
    return pd.DataFrame({"offset": offset, "owner": pairs.row, "index": pairs["index"]}).drop_duplicates("offset")


def _records(rows: pd.DataFrame) -> pd.DataFrame:
    """Return row, index, hash and timestamp of each record of batches with hashes."""
    rows = rows[rows.hashes.notna()]
    counts = rows.hashes.map(len).to_numpy().astype(np.int64) // NUMBER.itemsize
    columns: dict[str, Any] = {"row": np.repeat(rows.index.to_numpy(), counts), "index": _within(counts)}
    for name, of in (("hash", "hashes"), ("sent_us", "timestamps_us")):
        columns[name] = np.frombuffer(b"".join(rows[of]), NUMBER)
    return pd.DataFrame(columns)


def _within(counts: Ints) -> Ints:
    """Return 0, 1, … for each of some counts, one after the other."""
    found: Ints = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return found


def _same(sent: pd.DataFrame) -> pd.DataFrame:
    """Return the records with content that was sent in several identities of a process, one of them not acknowledged
    at once: first and index, and `number`, the number of the first one, NONE if it is not decided.

    A transactional producer renumbers nothing in flight: it aborts, and what its application sends then is new.
    """
    sent = sent[~sent.transactional.astype(bool)]
    doubtful = sent[((sent.acked == 0) & (sent.unanswered == 0)) | (sent.attempts > 1)]
    wanted = _records(doubtful)[_RECORD].drop_duplicates()
    found = _records(sent).merge(wanted, on=_RECORD) if len(wanted) else _records(sent[:0])
    for name in ("instance", "life", "first", "first_us", "acked_us", "producer_id", "producer_epoch"):
        found[name] = sent[name].loc[found.row].to_numpy()
    found["own"] = found["first"] + found["index"]
    found["acked_us"] = found.acked_us.where(found.acked_us >= 0, np.iinfo(np.int64).max)
    found = found.sort_values("own")
    found["session"] = found.producer_id * (1 << 16) + found.producer_epoch
    groups = found.groupby(["instance", "life", *_RECORD])
    times = groups.own.transform("size")
    sessions = np.where(found.producer_id < 0, times, groups.session.transform("nunique"))
    one = (groups.row.transform("nunique") == times) & (sessions == times)
    one &= groups.first_us.transform("max") <= groups.acked_us.transform("min")
    found["number"] = groups.own.transform("min").where(one, NONE)
    return found[times > 1][["row", "first", "index", "number"]]
