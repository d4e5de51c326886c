"""The rows of a ledger of one partition, from what passed on the wire: columns by table of the ledger.

Names that repeat by the million are categories, so that only their codes are selected and copied.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd

from chaos.ledger.schemas import TABLES
from checks.audit.arrays import NONE, Ints, Mask
from checks.wire.coordination import OPEN_US, Hold, Holds, Sessions
from checks.wire.written import identify

NUMBER_BITS, PARTITION_BITS = 38, 13
"""Bits of a seq for the number of a record in its partition, and for the partition; those above are of the topic."""
UNKNOWN = "?"
"""The producer of records that may be of several ones."""
_COMMITS = {"committed": "ok", "aborted": "fail", "unknown": "unknown"}
"""The outcome of a commit in a transaction, by the end of the transaction."""
_NO_END: tuple[list[int], list[int], list[str]] = ([OPEN_US], [0], ["unknown"])
_TYPES = {1: "accept", 2: "release", 3: "reject"}
_ERRORS = {6: "NOT_LEADER_OR_FOLLOWER", 74: "FENCED_LEADER_EPOCH", 121: "INVALID_RECORD_STATE"}
"""Errors of acknowledgements that the audit tells apart."""
_UNSURE_COMMITS = (-1, 7, 15, 16)
"""UNKNOWN_SERVER_ERROR, REQUEST_TIMED_OUT, COORDINATOR_NOT_AVAILABLE (the answer if the append was not replicated in
time) and NOT_COORDINATOR (also of a coordinator that steps down after its append, `CoordinatorRuntime` of Kafka): the
log of offsets may have the commit. In a transaction, the client sends it again before it commits."""
_BATCH = ["base_offset", "producer_id", "producer_epoch", "base_sequence", "crc", "records"]
_IN_TIME = ["answered_us", "connection", "number"]
OF_IDENTITY = ("lost_write", "duplicate_write", "reordered_write", "misplaced_write", "resurrected_write")

TWINS = "equal records were sent again after an acknowledgement, and no identity tells them apart"
UNMATCHED = "their checksum is in no request, and the broker may have changed the checksum of a batch that was sent"
ABSENT = "their batch is not in the log by its checksum, and its records were not kept (`capture: {payloads: needed}`)"
DELETED = "retention, or a fault, deleted the log up to behind the place where they were acknowledged"
REBATCHED = (
    "they were not acknowledged, and their client may have sent them again in other batches, but their records were "
    "not kept (`capture: {payloads: all}`)"
)
BY_FAULT = "a fault of the run writes to the topic itself, past the addresses at which the wire is captured"
SOUGHT = (
    "a Fetch went back below what the reader had committed: a seek of the application looks the same as an offset that "
    "its library set back"
)
COMPACTED = "compaction removes records from batches, and only the records show which ones"
UNCOUNTED = "a message of an old format holds several records, and the wire does not show how many"


def life_of(ends: Mapping[str, list[int]], instance: str, at_us: int) -> int:
    """Return the incarnation of an instance at a time."""
    return 1 + bisect_left(ends.get(instance, []), at_us)


class Partition:
    """The rows of the ledger of one partition, from its batches. Null numbers are NONE."""

    def __init__(
        self,
        topic: str,
        partition: int,
        of: Mapping[str, pd.DataFrame],
        ends: Mapping[str, list[int]],
        token: str,
        held: Holds,
        sessions: Sessions,
        start: int = 0,
        until: int | None = None,
        by_fault: bool = False,
        topic_number: int = 0,
    ) -> None:
        """of: the rows of the partition by table of the wire. start: of its log at read-back. until: where the offsets
        end that are judged, if others write to the partition, who were not seen. by_fault: whether a fault of the run
        writes to it, past the fronts. topic_number: another one for each topic of the run."""
        self._first_seq = (topic_number << PARTITION_BITS | partition) << NUMBER_BITS
        self._start, self._until, self._by_fault = start, until, by_fault
        self.topic, self.ends, self.token = topic, ends, token
        self.sessions = sessions
        self.place = {"topic": topic, "partition": partition}
        self.undecided: Counter[tuple[str, str]] = Counter()
        """Rows by check and reason."""
        self.set_back: Counter[str] = Counter()
        """By reader, the number of commits that may go back (`SOUGHT`)."""
        log, fetched = of["log"], of["fetched"]
        self._markers, self._stable = log[log.control.notna()], log.last_stable.max()
        self._fetched = fetched[(fetched.base_offset >= 0) & (fetched.error == 0)].sort_values(_IN_TIME)
        data = pd.concat([log.assign(in_log=True), self._fetched.assign(in_log=False)], ignore_index=True)
        data = self._counted(data[data.complete & data.control.isna() & (data.base_offset >= 0)])
        self.written = identify(self._counted(of["produced"]), data.drop_duplicates(_BATCH), self._lived)
        self._incarnations = self.written.sent.life.to_numpy()
        self._count_undecided()
        self._asked = of["asked"].sort_values(["asked_us", "connection", "number"])
        self._positions, self._commits = of["positions"].sort_values(_IN_TIME), of["commits"]
        self._acquired, self._acknowledged = of["acquired"].sort_values(_IN_TIME), of["acknowledged"]
        self._shares = held.shares
        whole = [*held.of.get((topic, partition), ()), *self._assigned(held.members)]
        self.holds = _numbered([part for hold in whole for part in self._divided(hold)])

    def _counted(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the batches with a known number of records."""
        known = rows.records >= 0
        for check in OF_IDENTITY:
            self.undecided[check, UNCOUNTED] += int((~known).sum())
        return rows[known]

    def _lived(self, instance: pd.Series[Any], at_us: pd.Series[Any]) -> Ints:
        """Return the incarnation of instances at some times."""
        found = np.ones(len(at_us), np.int64)
        for name in instance.unique():
            of_one = (instance == name).to_numpy()
            found[of_one] += np.searchsorted(self.ends.get(name, []), at_us.to_numpy()[of_one])
        return found

    def _count_undecided(self) -> None:
        w = self.written
        sent, records = w.sent, w.sent.records.to_numpy()
        for check in OF_IDENTITY:
            self.undecided[check, TWINS] += int((records * sent.attempts)[sent.twins].sum())
            self.undecided[check, TWINS] += int((w.same.number == NONE).sum())
        acked = (sent.acked > 0) | (sent.unanswered > 0)
        deleted = (sent.acked_offset >= 0) & (sent.acked_offset + sent.records <= self._start)
        for why, missing in (DELETED, deleted), (ABSENT, acked & ~deleted):
            self.undecided["lost_write", why] += int(records[w.unfound & missing].sum())
        for check in ("phantom_write", "duplicate_write"):
            self.undecided[check, UNMATCHED] += int(w.batches.records[self._unmatched].sum())
        if self._by_fault:
            self.undecided["phantom_write", BY_FAULT] += int(
                w.batches.records[w.batches.in_log & self._ownerless].sum()
            )
        self.undecided["duplicate_write", REBATCHED] += int(records[self._rebatched()].sum())

    @property
    def _ownerless(self) -> Mask:
        """The batches that are no identity, nor begin with a record that was found by hash."""
        w = self.written
        ownerless: Mask = np.asarray(w.batches.owner == NONE) & ~np.asarray(
            w.batches.base_offset.isin(w.singles.offset)
        )
        return ownerless

    @property
    def _unmatched(self) -> Mask:
        """The batches that may be one that was sent, with another checksum."""
        w = self.written
        unsure = bool((w.unfound & (w.sent.unknown > 0)).any())
        unmatched: Mask = self._ownerless & np.asarray(w.batches.producer_id < 0) & unsure
        return unmatched

    def _rebatched(self) -> Mask:
        """Return which identities are in the log, unacknowledged, and may be in later batches, too."""
        sent = self.written.sent
        session = sent.producer_id * (1 << 16) + sent.producer_epoch
        lives = sent.groupby(["instance", self._incarnations])
        last = lives.first_us.transform("idxmax").to_numpy()
        same = (sent.producer_id >= 0).to_numpy() & (session == session.to_numpy()[last]).to_numpy()
        left = sent.hashes.isna() & (sent.acked + sent.unanswered == 0) & (sent.copies > 0)
        found: Mask = left.to_numpy() & ~same & (last != sent.index.to_numpy())
        return found

    def sends(self) -> dict[str, Any]:
        """Return the columns of table `sends`."""
        w = self.written
        sent = w.sent[~w.sent.twins]
        owner, index = _records(sent.index.to_numpy(), sent.records.to_numpy())
        outcome = np.where(sent.unknown > 0, "unknown", "fail").astype(object)
        outcome[((sent.acked > 0) | (sent.unanswered > 0)).to_numpy()] = "ok"
        outcome[w.unfound[~w.sent.twins].to_numpy()] = "unknown"
        place = np.repeat(np.arange(len(sent)), sent.records)
        acked = sent.acked_offset.to_numpy()[place]
        ended = sent.acked_us.where(sent.acked_us >= 0, np.maximum(sent.answered_us, sent.last_us))
        found = {
            "producer": pd.Categorical(sent.instance)[place],
            "incarnation": self._incarnations[owner],
            "seq": self._number(owner, index),
            "offset": np.where((acked >= 0) & (outcome == "ok")[place], acked + index, NONE),
            "outcome": pd.Categorical(outcome)[place],
            "invoked_us": sent.first_us.to_numpy()[place],
            "completed_us": np.maximum(ended, sent.first_us).to_numpy()[place],
            "txn": self._transactions(sent)[place],
        }
        kept = _once(found["seq"], found["outcome"] == "ok")
        return self.place | {n: c[kept] for n, c in found.items()}

    def _transactions(self, sent: pd.DataFrame) -> Ints:
        """Return the number of the transaction of each identity, NONE without one."""
        found = np.full(len(sent), NONE, np.int64)
        lives = self._incarnations[sent.index.to_numpy()]
        for (name, life, producer), (times, numbers, _) in self.sessions.items():
            own = (sent.instance == name) & (lives == life) & (sent.producer_id == producer) & sent.transactional
            of = np.flatnonzero(own)
            found[of] = np.array(numbers)[np.searchsorted(times, sent.first_us.to_numpy()[of])]
        return found

    def _number(self, owner: Ints, index: Ints) -> Ints:
        """Return the seqs of records. No other partition has them, of any topic, so a partition has its own blocks of
        the audit."""
        return self._first_seq + self.written.number(owner, index)

    def log(self) -> dict[str, Any]:
        """Return the columns of table `log`, in the order of offsets."""
        batches = self.written.batches
        batches = batches[batches.in_log].sort_values("base_offset")
        row, index = _records(np.arange(len(batches)), batches.records.to_numpy())
        found = self._identified(batches, row, index) | self._logged(batches, row)
        kept = found["offset"] >= self._start  # an answer has whole batches, also what is before the start of the log
        if self._until is not None:
            kept &= found["offset"] < self._until
        found = {name: column[kept] for name, column in found.items()}
        of_run = np.where(found["seq"] >= 0, 0, NONE)
        return self.place | found | {"run": pd.Categorical.from_codes(of_run, [self.token])}

    def _identified(self, batches: pd.DataFrame, row: Ints, index: Ints) -> dict[str, Any]:
        """Return offset, producer, incarnation, seq and first request of the records of batches, by row and index."""
        offset, owner = batches.base_offset.to_numpy()[row] + index, batches.owner.to_numpy()[row]
        singles = self.written.singles.sort_values("offset")
        if len(singles):
            at = np.minimum(np.searchsorted(singles.offset, offset), len(singles) - 1)
            found = (singles.offset.to_numpy()[at] == offset) & (owner == NONE)
            owner = np.where(found, singles.owner.to_numpy()[at], owner)
            index = np.where(found, singles["index"].to_numpy()[at], index)
        known = owner >= 0
        twins = known & self.written.sent.twins.to_numpy()[owner] if len(self.written.sent) else known
        unsure = twins | (self._unmatched[batches.index.to_numpy()][row] & ~known)
        unsure |= ~known & (self._by_fault or self._until is not None)
        sender, incarnation, seq, first_us = np.full((4, len(offset)), NONE, np.int64)
        instances, of = pd.Categorical(self.written.sent.instance), owner[known]
        sender[known], first_us[known] = instances.codes[of], self.written.sent.first_us.to_numpy()[of]
        incarnation[known], seq[known] = self._incarnations[of], self._number(of, index[known])
        sender[unsure], incarnation[unsure] = len(instances.categories), 1
        seq[unsure] = self._first_seq + offset[unsure]
        producer = pd.Categorical.from_codes(sender, [*instances.categories, f"{UNKNOWN} {self.topic}"])
        return {"offset": offset, "producer": producer, "incarnation": incarnation, "seq": seq, "first_us": first_us}

    def _logged(self, batches: pd.DataFrame, row: Ints) -> dict[str, Any]:
        """Return timestamp and committed of the records of batches: by the next marker of their producer.

        Readers see nothing from the last stable offset on, though it be of no transaction.
        """
        ends = self._markers[["base_offset", "producer_id", "control"]].sort_values("base_offset")
        own = batches[["base_offset", "producer_id"]]
        end = pd.merge_asof(own, ends, on="base_offset", by="producer_id", direction="forward").control
        seen = np.full(len(batches), None, object)
        seen[end.notna()] = (end == "commit")[end.notna()]
        seen[~batches.transactional.to_numpy()] = True
        if self._stable >= 0:
            seen[batches.base_offset.to_numpy() >= self._stable] = None
        return {"timestamp_us": batches.max_timestamp_us.to_numpy()[row], "committed": seen[row]}

    def _assigned(self, members: set[str]) -> list[Hold]:
        """Return the holds of the instances that read without a group."""
        found = []
        asked = self._asked[~self._asked.instance.isin(members)]
        for (name, life), rows in asked.groupby(["instance", self._lived(asked.instance, asked.asked_us)]):
            groups = [of[of.instance == name].group for of in (self._commits, self._positions)]
            group = next((str(of.iloc[0]) for of in groups if len(of)), None)
            begin_us = self._asked_before((name, group), life, int(rows.asked_us.min()))
            found.append(Hold(name, life, group, "assign", None, None, None, begin_us))
        return found

    def _divided(self, hold: Hold) -> list[Hold]:
        """Return a hold, divided where its reader went back by a seek.

        A Fetch below an earlier one is such a seek if it is also below the reader's own last commit: a client that only
        throws an answer away asks again from its position, which is not below what it committed.
        """
        first, answers = self._first(hold)
        highest = int(answers.offset.where(answers.error == 0, NONE).max()) if len(answers) else NONE
        back = first is not None and first < highest
        reader = hold.group if hold.mode == "subscribe" and hold.group is not None else hold.instance
        found, reached, committed = [hold], NONE, NONE
        for at_us, is_commit, offset in self._steps(hold):
            if is_commit:
                self.set_back[reader] += back and offset < highest
                committed, highest = max(committed, offset), max(highest, offset)
            elif offset < min(reached, committed):
                found[-1] = replace(found[-1], how="")  # what ends it is no answer of the coordinator
                found.append(replace(hold, begin_us=at_us, sought=offset))
                reached, committed, back = offset, NONE, True
            else:
                reached = max(reached, offset)
        return found

    def _steps(self, hold: Hold) -> list[tuple[int, bool, int]]:
        """Return time, kind (Fetch, commit) and offset of what the reader of a hold asked for and committed, in order.

        Only commits that were in force.
        """
        asked, commits = self._asked, self._commits
        made = commits[(commits.group == hold.group) & (commits.error == 0) & (commits.answered_us >= 0)]
        found = []
        for is_commit, rows, offset in ((False, asked, "asked_offset"), (True, made, "offset")):
            own = rows[(rows.instance == hold.instance) & rows.asked_us.between(hold.begin_us, hold.end_us)]
            own = own[self._lived(own.instance, own.asked_us) == hold.incarnation]
            found += [(int(at), is_commit, int(o)) for at, o in zip(own.asked_us, own[offset], strict=True)]
        return sorted(found)

    def _asked_before(self, reader: tuple[str, str | None], life: int, fetched_us: int) -> int:
        """Return when a process had its last answer to OffsetFetch before its first Fetch, or the time of that Fetch.

        reader: instance and group. An answer without an error comes before others.
        """
        asked = self._positions
        own = asked[(asked.instance == reader[0]) & (asked.group == reader[1]) & (asked.answered_us <= fetched_us)]
        own = own[self._lived(own.instance, own.answered_us) == life]
        found = own[own.error == 0] if (own.error == 0).any() else own
        return int(found.answered_us.max()) if len(found) else fetched_us

    def deliveries(self) -> dict[str, Any]:
        """Return the columns of table `deliveries`: the records that were fetched while their partition was held."""
        fetched = self._fetched[self._fetched.complete & self._fetched.control.isna() & (self._fetched.records >= 0)]
        fetched = fetched[~self._filtered(fetched)]
        hold = self._held_at(fetched.instance, fetched.answered_us, strictly=True)
        fetched, hold = fetched[hold >= 0].reset_index(drop=True), hold[hold >= 0]
        batches = self.written.batches
        batch = fetched[_BATCH].merge(batches[_BATCH].assign(batch=batches.index), on=_BATCH, how="left").batch
        row, index = _records(np.arange(len(fetched)), fetched.records.to_numpy())
        found = self._identified(batches.loc[batch], row, index)
        kept = found["offset"] >= fetched.asked_offset.to_numpy()[row]
        row, found = row[kept], {name: column[kept] for name, column in found.items()}
        at_us, of = fetched.answered_us.to_numpy()[row], self._of_holds(hold)
        return (
            self.place
            | {name: (pd.Categorical(column) if column.dtype == object else column)[row] for name, column in of.items()}
            | {
                "ordinal": self._first_seq + np.arange(len(row)),
                "offset": found["offset"],
                "leader_epoch": fetched.leader_epoch.to_numpy()[row],
                "producer": found["producer"],
                "producer_incarnation": found["incarnation"],
                "seq": found["seq"],
                "sent_us": found["first_us"],
                "polled_us": at_us,
                "processed_us": at_us,
            }
        )

    def _filtered(self, fetched: pd.DataFrame) -> Mask:
        """Return the batches that a client with read_committed leaves out, by the list of aborted transactions."""
        found = np.zeros(len(fetched), np.bool_)
        aborts = self._fetched[self._fetched.control == "abort"]
        some = fetched.transactional & (fetched.isolation == 1) & fetched.aborted.map(len, na_action="ignore").gt(0)
        ends: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        for answer in zip(aborts.connection, aborts.number, aborts.producer_id, aborts.base_offset, strict=True):
            ends[answer[:3]].append(answer[3])
        names = ("connection", "number", "producer_id", "base_offset", "aborted")
        rows = zip(*(fetched[name][some] for name in names), strict=True)
        for at, (connection, number, producer, offset, listed) in zip(np.flatnonzero(some), rows, strict=True):
            begun = sum(a["producer_id"] == producer and a["first_offset"] <= offset for a in listed)
            found[at] = begun > sum(end < offset for end in ends[connection, number, producer])
        return found

    def _held_at(self, instance: pd.Series[Any], at_us: pd.Series[Any], strictly: bool) -> Ints:
        """Return the hold of an instance at some times, NONE without one. strictly: not one that has ended."""
        found = np.full(len(instance), NONE, np.int64)
        names, times = instance.to_numpy(), at_us.to_numpy()
        for number, hold in sorted(enumerate(self.holds), key=lambda pair: pair[1].begin_us):
            within = (names == hold.instance) & (times >= hold.begin_us)
            if strictly:
                within &= times <= hold.end_us
            found[within] = number
        return found

    def _of_holds(self, hold: Ints) -> dict[str, Any]:
        """Return the columns of the readers of some holds."""
        rows = [self.holds[number] for number in hold]
        return {
            "consumer": np.array([one.instance for one in rows], object),
            "incarnation": np.array([one.incarnation for one in rows], np.int64),
            "group": np.array([one.group for one in rows], object),
            "mode": np.array([one.mode for one in rows], object),
            "assignment": np.array([one.number for one in rows], np.int64),
        }

    def commits(self) -> dict[str, Any]:
        """Return the columns of table `commits`. A commit belongs to the last hold of its instance before it."""
        rows = self._once_committed(self._commits.sort_values(["asked_us", "connection", "number"]))
        hold = self._held_at(rows.instance, rows.asked_us, strictly=False)
        outcome = np.where(rows.error == 0, "ok", "fail").astype(object)
        outcome[((rows.answered_us < 0) | _unsure(rows)).to_numpy()] = "unknown"
        lives = self._lived(rows.instance, rows.asked_us)
        for at in np.flatnonzero(rows.transactional_id.notna() & (outcome != "fail")):
            times, _, ends = self.sessions.get((rows.instance.iloc[at], lives[at], rows.producer_id.iloc[at]), _NO_END)
            outcome[at] = _COMMITS[ends[bisect_left(times, rows.asked_us.iloc[at])]]
        of = {name: column.copy() for name, column in self._of_holds(np.maximum(hold, 0)).items()} if self.holds else {}
        loose = hold < 0
        own = {
            "consumer": rows.instance.to_numpy(object),
            "incarnation": lives,
            "group": rows.group.to_numpy(object),
            "mode": np.where(rows.generation >= 0, "subscribe", "assign").astype(object),
            "assignment": np.full(len(rows), NONE, np.int64),
        }
        for name in ("incarnation", "mode", "assignment") if of else ():
            own[name] = np.where(loose, own[name], of[name])
        return (
            self.place
            | own
            | {
                "offset": rows.offset.to_numpy(),
                "kind": np.where(rows.transactional_id.notna(), "transaction", "sync").astype(object),
                "outcome": outcome,
                "error": np.array(
                    [None if ok else str(e) for ok, e in zip(outcome == "ok", rows.error, strict=True)], object
                ),
                "requested_us": rows.asked_us.to_numpy(),
                "completed_us": np.maximum(rows.answered_us, rows.asked_us).to_numpy(),
            }
        )

    def _once_committed(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return commits, in the order of their first requests, with one row for those that a client sent again.

        A client sends a commit again, and each one behind it, if a connection brought no answer, or one that another
        try may heal. That is one commit, in flight from its first request on. A later commit that was answered in
        between shows that the application itself asks for the offset again.
        """
        unsure = _unsure(rows)
        if not unsure.any():
            return rows
        rows = rows.assign(life=self._lived(rows.instance, rows.asked_us), unsure=unsure).reset_index(drop=True)
        first = np.arange(len(rows))
        for _, own in rows.groupby(["instance", "life", "group", "generation"]):
            _join_attempts(own, first)
        last = pd.Series(first).drop_duplicates(keep="last").index
        found = rows.loc[last].assign(asked_us=rows.asked_us.to_numpy()[first[last]], first=first[last])
        return found.sort_values("first").drop(columns=["life", "unsure", "first"])

    def assignments(self) -> dict[str, Any]:
        """Return the columns of table `assignments`: begin and end of each hold."""
        rows = []
        for hold in self.holds:
            reader = {
                **{"consumer": hold.instance, "incarnation": hold.incarnation, "group": hold.group, "mode": hold.mode},
                **{"member_id": hold.member, "instance_id": hold.static, "assignment": hold.number},
                **{"generation": hold.generation},
            }
            position, source, at_us = self._began(hold)
            event = "assigned" if hold.sought is None else "seek"
            rows.append(reader | {"event": event, "position": position, "source": source, "at_us": at_us})
            if hold.how and hold.end_us < OPEN_US:
                rows.append(reader | {"event": hold.how, "at_us": max(hold.end_us, at_us)})
        names = [*TABLES["assignments"].names]
        found = pd.DataFrame(rows, columns=names, dtype=object).drop(columns=[*self.place])
        return self.place | {name: found[name].to_numpy(object) for name in found}

    def _began(self, hold: Hold) -> tuple[int | None, str | None, int]:
        """Return the position at which a hold began, its source, and when both were known."""
        if hold.sought is not None:
            return hold.sought, "seek", hold.begin_us
        first, asked = self._first(hold)
        if asked.empty and hold.mode == "assign" and hold.group is not None:
            return first, "seek", hold.begin_us  # it did not ask, so the offset is its own choice
        asked = asked[asked.error == 0]  # an error has no offset either, such as that a transaction is still open
        if asked.empty:
            return first, None, hold.begin_us
        committed, at_us = int(asked.offset.iloc[0]), int(asked.answered_us.iloc[0])
        if committed < 0:
            return first, "reset", at_us
        return (committed, "committed", at_us) if first in (None, committed) else (first, "seek", at_us)

    def _first(self, hold: Hold) -> tuple[int | None, pd.DataFrame]:
        """Return the first offset that a hold asked for, and the answers to OffsetFetch before that."""
        own = self._asked[(self._asked.instance == hold.instance) & (self._asked.asked_offset >= 0)]
        own = own[(own.asked_us >= hold.begin_us) & (own.asked_us <= hold.end_us)]
        asked = self._positions[(self._positions.instance == hold.instance) & (self._positions.group == hold.group)]
        until_us = int(own.asked_us.iloc[0]) if len(own) else hold.end_us
        asked = asked[(asked.answered_us >= hold.begin_us) & (asked.answered_us <= until_us)]
        return int(own.asked_offset.iloc[0]) if len(own) else None, asked

    def acquisitions(self) -> dict[str, Any]:
        """Return the columns of table `acquisitions`: a row for each record of a range."""
        rows = self._acquired[self._acquired.instance.isin(self._shares.keys())]
        counts = (rows.last_offset - rows.first_offset + 1).to_numpy()
        row, index = _records(np.arange(len(rows)), counts)
        offset = rows.first_offset.to_numpy()[row] + index
        batches = self.written.batches
        batches = batches[batches.in_log].sort_values("base_offset")
        of, within = _records(np.arange(len(batches)), batches.records.to_numpy())
        log = self._identified(batches, of, within)
        at = np.minimum(np.searchsorted(log["offset"], offset), max(0, len(log["offset"]) - 1))
        known = log["offset"][at] == offset if len(log["offset"]) else np.zeros(len(offset), np.bool_)
        names = np.full(len(offset), None, object)
        names[known] = log["producer"][at[known]]
        numbers = {
            n: np.where(known, log[n][at] if known.any() else NONE, NONE) for n in ("incarnation", "seq", "first_us")
        }
        life = self._lived(rows.instance, rows.answered_us)
        return self.place | {
            "consumer": rows.instance.to_numpy(object)[row],
            "incarnation": life[row],
            "group": np.array([self._shares.get(name) for name in rows.instance], object)[row],
            "ordinal": self._first_seq + np.arange(len(row)),
            "offset": offset,
            "delivery_count": rows.delivery_count.to_numpy()[row],
            "producer": names,
            "producer_incarnation": numbers["incarnation"],
            "seq": numbers["seq"],
            "sent_us": numbers["first_us"],
            "acquired_us": rows.answered_us.to_numpy()[row],
        }

    def acknowledgements(self) -> dict[str, Any]:
        """Return the columns of table `acknowledgements`, each with the last acquisition before it."""
        taken = self.acquisitions()
        held: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        for key in zip(taken["consumer"], taken["offset"], taken["acquired_us"], taken["ordinal"], strict=True):
            held[key[0], int(key[1])].append((int(key[2]), int(key[3])))
        found = []
        for row in self._acknowledged.sort_values(["asked_us", "connection", "number"]).itertuples():
            outcome = "unknown" if row.answered_us < 0 else "ok" if row.error == 0 else "fail"
            life = life_of(self.ends, row.instance, row.asked_us)
            for offset in range(row.first_offset, row.last_offset + 1):
                kind = _TYPES.get(int(row.types[0 if len(row.types) == 1 else offset - row.first_offset]))
                before = [n for at, n in held[row.instance, offset] if at <= row.asked_us]
                if kind and before:
                    error = None if outcome == "ok" else _ERRORS.get(row.error, str(row.error))
                    times = (row.asked_us, max(row.asked_us, row.answered_us))
                    found.append((row.instance, life, row.group, before[-1], offset, kind, outcome, error, *times))
        names = ("consumer", "incarnation", "group", "ordinal", "offset", "type", "outcome", "error")
        frame = pd.DataFrame(found, columns=[*names, "requested_us", "completed_us"], dtype=object)
        return self.place | {name: frame[name].to_numpy(object) for name in frame}


def _numbered(holds: list[Hold]) -> list[Hold]:
    """Return the holds of a partition with the number of each among those of its process."""
    numbers, found = Counter[tuple[str, int]](), []
    for hold in sorted(holds, key=attrgetter("begin_us")):
        numbers[hold.instance, hold.incarnation] += 1
        found.append(replace(hold, number=numbers[hold.instance, hold.incarnation]))
    return found


def _unsure(commits: pd.DataFrame) -> pd.Series[Any]:
    """Return which commits outside of transactions may be in force or not, whatever was answered."""
    by_fault = commits.made & (commits.sent_us >= 0)  # an error in place of the answer of the coordinator
    failed = (commits.error != 0) & (commits.error.isin(_UNSURE_COMMITS) | by_fault)
    return commits.transactional_id.isna() & ((commits.answered_us < 0) | failed)


def _join_attempts(commits: pd.DataFrame, first: Ints) -> None:
    """Set the first attempt of each commit of one process, in the order of their requests; see `_once_committed`.

    first: by the label of a row, the label of its first attempt.
    """
    place, asked, answered = (c.to_numpy() for c in (commits.index, commits.asked_us, commits.answered_us))
    connections, ok = commits.connection.to_numpy(), (commits.error == 0).to_numpy() & (answered >= 0)
    doubtful: dict[int, int] = {}
    for at, (offset, unsure) in enumerate(zip(commits.offset, commits.unsure, strict=True)):
        before = doubtful.pop(offset, None)
        if unsure:
            doubtful[offset] = at
        if before is None:
            continue
        over = answered[before] <= asked[at] if answered[before] >= 0 else connections[before] != connections[at]
        later = ok[:at] & (first[place[:at]] > first[place[before]]) & (answered[:at] <= asked[at])
        if over and not later.any():
            first[place[at]] = first[place[before]]


def _once(seq: Ints, ok: Mask) -> Ints:
    """Return one row of each seq: the first one, or the first one that is acknowledged."""
    order = np.lexsort((~ok, seq))
    first = np.ones(len(order), np.bool_)
    first[1:] = seq[order][1:] != seq[order][:-1]
    found: Ints = np.sort(order[first])
    return found


def _records(rows: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Return the row and the index in it of each record of batches."""
    begins = np.cumsum(counts) - counts
    return np.repeat(rows, counts), np.arange(counts.sum()) - np.repeat(begins, counts)
