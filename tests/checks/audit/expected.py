"""What each single-row change of a clean history means, by hand and without the oracle.

`must` are the checks that have to find something, `a|b` either of them; `may` those that find something too where the
row is at an edge (of an epoch, of the log, of a rebalance). A change without an entry means no anomaly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.checks.audit.histories import TOPIC
from tests.checks.audit.mutations import FAR, LATE_US, Rows
from tests.checks.audit.oracle import Row

ILLEGAL = "duplicate_delivery.illegal"
NOT_DELIVERED = "skipped_delivery|lost_processing|stalled_delivery|evicted_delivery"
MISSING = frozenset({"skipped_delivery", "lost_processing", "stalled_delivery", "poll_skip", "overcommit"})
UNLOCATED = frozenset(f"{check}.undetermined" for check in ("lost_write", "lost_key", "torn_transaction"))
UNJUDGED = "overcommit.undetermined"
MISCOUNTED = "miscounted_share|miscounted_share.undetermined"
WHOLE_RUN = frozenset({"competing_controllers"})
"""Checks of the whole run, which no row of one history shows: tests/checks/audit/test_quorum.py has their cases."""
HANGS = frozenset({"hanging_transaction"})
"""Where the row is what ended the wait of the last stable offset."""


@dataclass(frozen=True)
class CleanHistory:
    """A clean history, asked about single rows."""

    rows: Rows

    def record(self, row: Row) -> Row | None:
        """The record of a send."""
        same = [r for r in self.rows["log"] if _sent(r) == _sent(row)]
        return same[0] if same else None

    def number(self, record: Row) -> int | None:
        """The transaction that a record was sent in."""
        return next((s.get("txn") for s in self.rows["sends"] if _sent(s) == _sent(record)), None)

    def end(self, record: Row) -> str:
        """What became of that transaction."""
        mine = [t for t in self.rows.get("transactions", []) if t["txn"] == self.number(record)]
        return str(mine[0]["outcome"]) if mine else ""

    def acked(self, record: Row) -> bool:
        return any(_sent(s) == _sent(record) and s["outcome"] == "ok" for s in self.rows["sends"])

    def acked_with_offset(self, record: Row) -> bool:
        return any(_sent(s) == _sent(record) and s["offset"] is not None for s in self.rows["sends"])

    def unsure(self, record: Row) -> bool:
        """There, though its send is not known to have arrived."""
        return any(_sent(s) == _sent(record) and s["outcome"] != "ok" for s in self.rows["sends"])

    def in_turn(self) -> bool:
        """All sends went to the partitions in turn."""
        count = len(self.rows["log_range"])
        return count > 1 and all(s["partition"] == s["seq"] % count for s in self.rows["sends"])

    def evicted(self, send: Row, by: int = 0) -> bool:
        """Acknowledged (or, so many offsets further on, said to be) below where the log begins."""
        start: int = next(r["start"] for r in self.rows["log_range"] if r["partition"] == send["partition"])
        offset: int | None = send["offset"]
        return offset is not None and offset + by < start

    def absence(self, row: Row, by: int = 0) -> set[str]:
        """What it means that an acknowledged record is not in the log; the last of its key was nowhere superseded."""
        if row.get("key") is None or self.counted():
            return {"lost_write"}
        acked = [s for s in self.rows["sends"] if s["outcome"] == "ok"]
        later = [r for r in (*acked, *self.rows["log"]) if r["offset"] > row["offset"] + by]
        if any(r["key"] == row["key"] for r in later):
            return set()
        record = row if "tombstone" in row else self.record(row)
        if not record or not record.get("tombstone"):
            return {"lost_key"}
        values = [r for r in self.rows["log"] if r["key"] == row["key"] and not r["tombstone"]]
        if values and any(r["read_from_us"] != r["read_us"] for r in self.rows["log_range"]):
            return {"resurrected_key.undetermined"}
        return {"resurrected_key"} if values else set()  # or it has expired

    def counted(self) -> bool:
        """Outputs carry counts: the keys are not those of a compacted topic."""
        return any(r.get("count") is not None for r in self.rows["log"])

    def counts_after(self, row: Row) -> bool:
        """A later input of the key has an output."""
        return any(r["key"] == row["key"] and r.get("input_offset", -1) > row["offset"] for r in self.rows["log"])

    def all_on_record(self, record: Row) -> bool:
        """Its producer stopped in order."""
        ends = [r for r in self.rows["lifecycle"] if (r["client"], r["incarnation"]) == _life(record)]
        return "stopped" in {r["event"] for r in ends}

    def delivered(self, record: Row) -> int:
        return sum(_place(d) == _place(record) for d in self.rows.get("deliveries", []))

    def only_once(self, delivery: Row) -> bool:
        """By its reader."""
        mine = [d for d in self.rows["deliveries"] if _place(d) == _place(delivery)]
        return len([d for d in mine if d["mode"] == "subscribe" or d["consumer"] == delivery["consumer"]]) == 1

    def acquired_later(self, acquisition: Row) -> bool:
        """By whichever member."""
        same = [r for r in self.rows["acquisitions"] if _place(r) == _place(acquisition)]
        return any(r["delivery_count"] > acquisition["delivery_count"] for r in same)

    def in_log(self, partition: int, first: int, last: int) -> bool:
        return any(
            r["partition"] == partition and first <= r["offset"] <= last and r["committed"] for r in self.rows["log"]
        )

    def epoch(self, row: Row, table: str) -> list[Row]:
        """The rows of the same epoch."""
        return [r for r in self.rows.get(table, []) if _epoch(r) == _epoch(row)]

    def went_on(self, delivery: Row) -> bool:
        """Its epoch delivered something after it, and the log still has it."""
        return not self.evicted(delivery) and self.overtaken(delivery)

    def overtaken(self, delivery: Row) -> bool:
        """Its epoch delivered something after it."""
        return any(d["offset"] > delivery["offset"] for d in self.epoch(delivery, "deliveries"))

    def last_before_a_commit(self, delivery: Row) -> bool:
        """Its epoch committed it with nothing after it processed by then."""
        return any(
            c["outcome"] == "ok" and c["offset"] == delivery["offset"] + 1 for c in self.epoch(delivery, "commits")
        )

    def not_from_the_start(self, entity: str) -> bool:
        """Nobody delivered the first record of a partition."""
        partition = int(entity.rpartition("/")[2])
        first = min(r["offset"] for r in self.rows["log"] if r["partition"] == partition)
        return not any(_place(d) == (partition, first) for d in self.rows["deliveries"])

    def sought(self, commit: Row) -> bool:
        """Its epoch began with a seek to where it committed, or below."""
        begun = [a for a in self.epoch(commit, "assignments") if a["event"] == "seek"]
        return any(a["position"] <= commit["offset"] for a in begun)

    def accepted(self, commit: Row) -> bool:
        """Whether its member knows that it was accepted, or the log of offset commits has it."""
        logged = any(r["offset"] == commit["offset"] for r in self.rows.get("commit_log", []))
        return bool(commit["outcome"] == "ok" or (commit["outcome"] == "unknown" and logged))

    def commits_beside(self, commit: Row) -> list[Row]:
        """Other accepted commits that it is compared with."""
        return [
            c
            for c in self.rows["commits"]
            if c is not commit and c["outcome"] == "ok" and c["partition"] == commit["partition"]
            if c["mode"] == "subscribe" or c["consumer"] == commit["consumer"]
        ]


def _sent(row: Row) -> tuple[object, ...]:
    return row["producer"], row["incarnation"], row["seq"]


def _life(row: Row) -> tuple[object, ...]:
    return row["producer"], row["incarnation"]


def _place(row: Row) -> tuple[object, ...]:
    return row["partition"], row["offset"]


def _epoch(row: Row) -> tuple[object, ...]:
    return row["consumer"], row["incarnation"], row["assignment"], row["partition"]


def when(condition: object, *checks: str) -> set[str]:
    return set(checks) if condition else set()


def _unsent(row: Row, clean: CleanHistory) -> set[str]:
    record = clean.record(row)
    return when(record and clean.all_on_record(row), "phantom_write")


def _acked_as_another(row: Row, clean: CleanHistory) -> set[str]:
    must = _unsent(row, clean) | when(row["outcome"] == "ok" and not clean.evicted(row), *clean.absence(row))
    must |= when(row["outcome"] != "ok" and clean.record(row), "unnoticed_failure")
    return must - when(
        row.get("txn") is not None, "lost_write", "lost_key", "resurrected_key"
    )  # sent in a transaction, or in one of nobody's


def _acked_elsewhere(by: int) -> Callable[[Row, CleanHistory], set[str]]:
    def must(row: Row, clean: CleanHistory) -> set[str]:
        found = clean.record(row)
        return when(found, "misplaced_write") | when(not found and not clean.evicted(row, by), *clean.absence(row, by))

    return must


def _lost(row: Row, clean: CleanHistory) -> set[str]:
    """An acknowledged record, unless its transaction was aborted."""
    must = when(clean.acked(row) and clean.end(row) != "aborted", *clean.absence(row))
    must |= when(clean.unsure(row), "unnoticed_failure")
    return must | when(clean.end(row) == "committed", "torn_transaction")


def _not_deleted(row: Row, clean: CleanHistory) -> set[str]:
    """Of a topic that retention deletes from after a week, if nothing came after the last acknowledged record."""
    place = row["topic"], row["partition"]
    acked = [s for s in clean.rows["sends"] if (s["topic"], s["partition"]) == place and s["outcome"] == "ok"]
    last = max((s["offset"] for s in acked if s["offset"] is not None), default=None)
    keys = any(s.get("key") is not None for s in acked) and not clean.counted() and not row["start"]  # only compacted
    due = row["topic"] == TOPIC and last is not None and last + 1 == row["end"] and not keys
    return when(due and any((r["topic"], r["partition"]) == place for r in clean.rows["log"]), "overdue_record")


def _gone(row: Row, clean: CleanHistory) -> set[str]:
    return _lost(row, clean) | when(clean.delivered(row), "dirty_read")


def _moved(row: Row, clean: CleanHistory) -> set[str]:
    return when(clean.acked_with_offset(row), "misplaced_write") | when(
        clean.delivered(row), "dirty_read", NOT_DELIVERED
    )


def _another_record(row: Row, clean: CleanHistory) -> set[str]:
    must = _lost(row, clean) | when(clean.delivered(row), "dirty_read", NOT_DELIVERED) | {"offset_reuse"}
    must -= when(not clean.acked_with_offset(row) and not clean.delivered(row), "offset_reuse")
    return must | when(clean.all_on_record(row), "phantom_write")


def _stranger(row: Row, clean: CleanHistory) -> set[str]:
    return _another_record(row, clean) | {"phantom_write"}


def _nameless(row: Row, clean: CleanHistory) -> set[str]:
    return _stranger(row, clean) - {"offset_reuse"}


def _not_delivered(row: Row, clean: CleanHistory) -> set[str]:
    """Left out within the epoch if it went on, and of the reader if nobody else delivered it."""
    return when(clean.went_on(row), "poll_skip") | when(clean.only_once(row), NOT_DELIVERED)


def _delivered_elsewhere(by: int) -> Callable[[Row, CleanHistory], set[str]]:
    def must(row: Row, clean: CleanHistory) -> set[str]:
        return when(not clean.evicted(row, by), "dirty_read") | when(clean.only_once(row), NOT_DELIVERED)

    return must


def _another_delivered(row: Row, clean: CleanHistory) -> set[str]:
    """Another record than the one that is or was at this offset."""
    if clean.evicted(row):
        return {"offset_reuse"}
    return {"offset_reuse", "dirty_read"} | when(clean.only_once(row), NOT_DELIVERED)


def _in_another_epoch(row: Row, clean: CleanHistory) -> set[str]:
    return when(clean.went_on(row), "poll_skip")


def _committed_further(by: int) -> Callable[[Row, CleanHistory], set[str]]:
    def must(row: Row, clean: CleanHistory) -> set[str]:
        beyond = clean.in_log(row["partition"], row["offset"], row["offset"] + by - 1)
        back = any(
            row["offset"] < c["offset"] < row["offset"] + by
            and c["requested_us"] >= row["completed_us"]
            and not clean.sought(c)
            for c in clean.commits_beside(row)
        )
        return when(row["outcome"] == "ok" and beyond, "overcommit") | when(
            row["outcome"] == "ok" and back, "commit_rewind"
        )

    return must


def _committed_zero(row: Row, clean: CleanHistory) -> set[str]:
    moved = [
        f["at_us"] for f in clean.rows.get("faults", []) if f["kind"].startswith("group.") and f["phase"] == "injected"
    ]
    in_force = [c for c in clean.commits_beside(row) if c["completed_us"] <= row["requested_us"]]
    in_force = [c for c in in_force if not any(c["completed_us"] < at < row["requested_us"] for at in moved)]
    return when(row["outcome"] == "ok" and in_force, "commit_rewind")


def _committed_at_once(row: Row, clean: CleanHistory) -> set[str]:
    covered = [d for d in clean.epoch(row, "deliveries") if d["offset"] < row["offset"]]
    return when(clean.accepted(row) and row["kind"] != "auto" and covered, "overcommit")


def _committed_last(row: Row, clean: CleanHistory) -> set[str]:
    higher = [c for c in clean.commits_beside(row) if c["offset"] > row["offset"]]
    return when(row["outcome"] == "ok" and row["kind"] != "auto" and higher, "commit_rewind")


def _commit_of_no_epoch(row: Row, clean: CleanHistory) -> set[str]:
    return when(clean.accepted(row), UNJUDGED)


def _began_lower(row: Row, clean: CleanHistory) -> set[str]:
    before = row["position"] - 1
    begins = row["event"] in ("assigned", "seek")
    left_out = begins and clean.epoch(row, "deliveries") and clean.in_log(row["partition"], before, before)
    unread = not clean.delivered({"partition": row["partition"], "offset": before})
    return when(left_out, "poll_skip") | when(left_out and unread, "skipped_delivery")


Must = Callable[[Row, CleanHistory], set[str]]


def _failed(row: Row, clean: CleanHistory) -> set[str]:
    """Its send is said to have failed, yet its record is there."""
    record = clean.record(row)
    in_doubt = row.get("txn") is not None and record and not record["committed"]
    return when(record and not in_doubt, "resurrected_write")


def _hidden(row: Row, clean: CleanHistory) -> set[str]:
    """A record is made invisible to read_committed readers."""
    return when(row["committed"] and clean.delivered(row), "aborted_read") | when(
        clean.end(row) == "committed", "torn_transaction"
    )


def _shown(row: Row, clean: CleanHistory) -> set[str]:
    return when(clean.end(row) == "aborted", "torn_transaction") | when(not clean.delivered(row), NOT_DELIVERED)


def _aborted_after_all(row: Row, clean: CleanHistory) -> set[str]:
    inside = [r for r in clean.rows["log"] if clean.number(r) == row["txn"]]
    return when(inside, "torn_transaction") | when(any(clean.delivered(r) for r in inside), "aborted_read")


def _polled_early(row: Row, clean: CleanHistory) -> set[str]:
    acked = [s for s in clean.rows["sends"] if _place(s) == _place(row) and s["outcome"] == "ok"]
    return when(any(s.get("txn") is not None for s in acked), "precommitted_read")


def _made_later(row: Row, clean: CleanHistory) -> set[str]:
    """A partition is seen for the first time when its group has long begun, so all of it is in the group's range."""
    return when(row["key"] == "leader" and clean.not_from_the_start(row["entity"]), NOT_DELIVERED)


def _moved_otherwise(row: Row, clean: CleanHistory) -> set[str]:
    """A fault did not put the group's offset where the group began, as far as one knows."""
    return when(row["kind"].startswith("group.") and row["phase"] == "injected", ILLEGAL)


def _never_moved(row: Row, clean: CleanHistory) -> set[str]:
    """Nor did it take back what the group had committed. An offset that it did not delete expired."""
    if row["kind"] == "group.delete_offsets":
        return when(row["phase"] == "injected", "expired_commit")
    return _moved_otherwise(row, clean) | when(_moved_otherwise(row, clean), "commit_rewind")


def _committed_though_deleted(row: Row, clean: CleanHistory) -> set[str]:
    """A fault had deleted what was committed."""
    faults = clean.rows.get("faults", [])
    return when(any(f["kind"] == "group.delete_offsets" and f["at_us"] < row["at_us"] for f in faults), ILLEGAL)


def _gone_after_an_interruption(row: Row, clean: CleanHistory) -> set[str]:
    seen = [r for r in clean.rows["cluster"] if r["at_us"] < row["at_us"]]
    paused = any((r["key"], r["value"]) == ("answers", "false") for r in seen)
    return when(paused and any(r["entity"] == row["entity"] for r in seen), "lost_commit")


def _no_output(row: Row, clean: CleanHistory) -> set[str]:
    """An output that was visible is not any more."""
    return when(row["committed"], "missing_output")


def _untraced(row: Row, clean: CleanHistory) -> set[str]:
    """Of which input it is, is not known: it may be of any."""
    return {"duplicate_output.undetermined"} | when(row["committed"], "missing_output.undetermined")


def _maybe_output(row: Row, clean: CleanHistory) -> set[str]:
    return {"missing_output.undetermined"} if row["committed"] else {"duplicate_output.undetermined"}


def _never_acquired(row: Row, clean: CleanHistory) -> set[str]:
    alone = sum(_place(r) == _place(row) for r in clean.rows["acquisitions"]) == 1
    return when(alone, "lost_share|stalled_share") | when(clean.acquired_later(row), MISCOUNTED)


def _uncounted(row: Row, clean: CleanHistory) -> set[str]:
    """An input is gone: what its own output should carry is not known, and later ones of its key carry too much."""
    own = [r for r in clean.rows["log"] if r.get("input_offset") == row["offset"]]
    return when(own, "wrong_count.undetermined") | when(row["committed"] and clean.counts_after(row), "wrong_count")


def both(*rules: Must) -> Must:
    return lambda row, clean: set().union(*(rule(row, clean) for rule in rules))


def _not_consumed(row: Row, clean: CleanHistory) -> set[str]:
    """The last commit of a group of processors, with the outputs of all that it had read."""
    outputs = [r["input_offset"] for r in clean.rows["log"] if r.get("input_topic") and r["committed"]]
    return when(outputs and row["offset"] == max(outputs) + 1, "unconsumed_output|unconsumed_output.undetermined")


def always(*checks: str) -> Must:
    return lambda row, clean: set(checks)


def _polled_before_it_was_sent(row: Row, clean: CleanHistory) -> set[str]:
    return _polled_early(row, clean) | when(row["sent_us"] is not None and row["sent_us"] > 0, "backdated_write")


def _sent_later(row: Row, clean: CleanHistory) -> set[str]:
    return when(row["polled_us"] < row["sent_us"] + LATE_US, "backdated_write")


NOTHING = always()
EXPECTED: dict[str, tuple[Must, frozenset[str]]] = {
    "log_range: read back a week later": (_not_deleted, frozenset()),
    "sends: left out": (_unsent, frozenset()),
    "sends: offset + 1": (_acked_elsewhere(1), frozenset({"offset_reuse", "torn_transaction"})),
    "sends: offset - 1": (_acked_elsewhere(-1), frozenset({"offset_reuse"})),
    "sends: offset not recorded": (
        NOTHING,
        UNLOCATED,
    ),
    "sends: another partition": (
        lambda row, clean: (
            when(row["offset"] is not None and clean.record(row), "misplaced_write")
            | when(row["outcome"] == "ok" and clean.in_turn(), "misrouted_write")
        ),
        frozenset({"offset_reuse", "evicted_delivery.undetermined"}),
    ),
    "sends: another seq": (_acked_as_another, frozenset({"offset_reuse", "torn_transaction", "lost_write"})),
    "sends: another incarnation": (_acked_as_another, frozenset({"offset_reuse", "torn_transaction", "lost_write"})),
    "sends: another key and error": (
        lambda row, clean: when(row.get("key") and row["outcome"] == "ok" and not clean.record(row), "lost_key"),
        frozenset(),
    ),
    "sends: unknown made ok": (lambda row, clean: when(not clean.record(row), "lost_write"), frozenset()),
    "sends: fail made ok": (lambda row, clean: when(not clean.record(row), "lost_write"), frozenset()),
    "log: left out": (_gone, frozenset()),
    "log: once more behind the end": (
        lambda row, clean: when(row["committed"], "duplicate_write"),
        MISSING - {"poll_skip"},
    ),
    "log: moved behind the end": (_moved, MISSING | {"reordered_write"}),
    "log: another partition": (_moved, MISSING | {"reordered_write"}),
    "log: another seq": (_another_record, MISSING | {"reordered_write"}),
    "log: another incarnation": (_stranger, frozenset()),
    "log: without identity": (_nameless, frozenset()),
    "log: of another run": (
        lambda row, clean: {"phantom_write"} | _lost(row, clean),
        frozenset(),
    ),
    "sends: ok made fail": (_failed, frozenset()),
    "sends: later": (NOTHING, frozenset({"precommitted_read", "backdated_write"})),
    "log: not committed": (_hidden, frozenset({"aborted_share"})),
    "log: made committed": (_shown, MISSING),
    "log: committed or not is not known": (
        lambda row, clean: when(clean.end(row), "torn_transaction.undetermined"),
        frozenset({"poll_skip", "skipped_delivery"}),
    ),
    "acquisitions: left out": (_never_acquired, frozenset()),
    "acquisitions: again": (always("redelivered_share|redelivered_share.undetermined"), frozenset()),
    "acquisitions: delivery count + 1": (always(MISCOUNTED), frozenset()),
    "acquisitions: delivery count far too high": (always(MISCOUNTED, "overlimit_share"), frozenset()),
    "acquisitions: another incarnation": (
        lambda row, clean: when(clean.acquired_later(row), "lock_overrun"),
        frozenset(),
    ),
    "acknowledgements: left out": (lambda row, clean: when(row["type"] == "release", "lock_overrun"), frozenset()),
    "acknowledgements: late": (lambda row, clean: when(row["type"] == "release", "lock_overrun"), frozenset()),
    "transactions: committed made aborted": (_aborted_after_all, frozenset()),
    "transactions: aborted made committed": (always("torn_transaction"), frozenset()),
    "deliveries: polled before everything": (_polled_before_it_was_sent, frozenset()),
    "deliveries: polled early": (NOTHING, frozenset({"backdated_write", "precommitted_read"})),
    "deliveries: sent later than delivered": (_sent_later, frozenset()),
    "cluster: committed made null": (_gone_after_an_interruption, frozenset()),
    "cluster: last stable offset - 1": (NOTHING, HANGS),
    "cluster: left out": (NOTHING, HANGS),
    "faults: left out": (_never_moved, frozenset()),
    "faults: of another group": (_never_moved, frozenset()),
    "faults: to another offset": (_moved_otherwise, frozenset()),
    "faults: deleted further": (always("returned_record"), frozenset()),
    "cluster: later": (_made_later, HANGS),
    "cluster: another coordinator": (always("misplaced_coordinator"), frozenset()),
    "cluster: all partitions to one member": (NOTHING, frozenset({"unbalanced_assignment"})),
    "commits: fail made ok": (NOTHING, frozenset({"zombie_commit"})),
    "log: CRC wrong": (always("corrupt_record"), frozenset()),
    "deliveries: left out": (_not_delivered, MISSING),
    "deliveries: repeated": (always(ILLEGAL, "nonmonotonic_poll"), frozenset()),
    "deliveries: again": (always(ILLEGAL, "nonmonotonic_poll"), frozenset()),
    "deliveries: offset + 1": (_delivered_elsewhere(1), MISSING | {"nonmonotonic_poll", "offset_reuse"}),
    "deliveries: offset - 1": (_delivered_elsewhere(-1), MISSING | {"nonmonotonic_poll", "offset_reuse"}),
    "deliveries: offset beyond the end": (_delivered_elsewhere(FAR), MISSING | {"nonmonotonic_poll", "offset_reuse"}),
    "deliveries: another partition": (_delivered_elsewhere(0), MISSING | {"double_ownership", "offset_reuse"}),
    "deliveries: another seq": (
        _another_delivered,
        frozenset(),
    ),
    "deliveries: another producer incarnation": (
        _another_delivered,
        frozenset(),
    ),
    "deliveries: last in order": (
        lambda row, clean: when(clean.overtaken(row), "nonmonotonic_poll"),
        frozenset(),
    ),
    "deliveries: processed late": (
        lambda row, clean: when(clean.last_before_a_commit(row) and _not_auto(row, clean), "overcommit"),
        frozenset({"overcommit"}),
    ),
    "deliveries: under another assignment": (_in_another_epoch, frozenset({"overcommit", "double_ownership", ILLEGAL})),
    "deliveries: under no assignment": (_in_another_epoch, frozenset({"overcommit", "double_ownership", ILLEGAL})),
    "deliveries: by another incarnation": (_in_another_epoch, frozenset({"overcommit", "double_ownership", ILLEGAL})),
    "deliveries: by another consumer": (_in_another_epoch, MISSING | {"double_ownership", ILLEGAL}),
    "commits: left out": (NOTHING, frozenset({ILLEGAL})),
    "commits: offset + 1": (_committed_further(1), frozenset({ILLEGAL})),
    "commits: offset + 3": (_committed_further(3), frozenset({ILLEGAL})),
    "commits: offset - 1": (NOTHING, frozenset({ILLEGAL})),
    "commits: offset 0": (_committed_zero, frozenset({ILLEGAL})),
    "commits: ok made fail": (NOTHING, frozenset({ILLEGAL})),
    "commits: requested before everything": (_committed_at_once, frozenset()),
    "commits: later": (_committed_last, frozenset({ILLEGAL, "zombie_commit"})),
    "commits: another partition": (_commit_of_no_epoch, frozenset({"commit_rewind"})),
    "commits: under no assignment": (_commit_of_no_epoch, frozenset()),
    "commits: under another assignment": (_commit_of_no_epoch, frozenset()),
    "commits: by another consumer": (_commit_of_no_epoch, frozenset({"commit_rewind", "foreign_commit"})),
    "assignments: left out": (NOTHING, frozenset({"double_ownership"})),
    "assignments: position + 1": (NOTHING, frozenset({ILLEGAL})),
    "assignments: position - 1": (_began_lower, frozenset({ILLEGAL, "evicted_delivery"})),
    "assignments: said to be committed": (_committed_though_deleted, frozenset()),
    "assignments: said to be a reset": (NOTHING, frozenset({ILLEGAL})),
    "assignments: said to be a given start": (NOTHING, frozenset({ILLEGAL})),
    "assignments: generation + 1": (NOTHING, frozenset({"double_ownership"})),
    "assignments: generation - 1": (NOTHING, frozenset({"double_ownership"})),
    "assignments: another instance": (always("double_ownership"), frozenset()),
    "assignments: dynamic": (always("double_ownership"), frozenset()),
    "assignments: later": (NOTHING, frozenset({ILLEGAL})),
    "assignments: another partition": (NOTHING, frozenset({"double_ownership"})),
    "assignments: another number": (NOTHING, frozenset({"double_ownership"})),
    "assignments: of another consumer": (
        NOTHING,
        frozenset({"double_ownership", "stalled_delivery", "foreign_commit"}),
    ),
    "lifecycle: crashed made stopped": (
        lambda row, clean: when(
            any(not clean.acked(r) for r in clean.rows["log"]) and row["role"] == "producer", "phantom_write"
        ),
        frozenset(),
    ),
    "cluster: committed + 1": (NOTHING, frozenset({ILLEGAL})),
}


OUTPUTS: dict[str, tuple[Must, frozenset[str]]] = {
    "log: left out": (both(_gone, _no_output), frozenset()),
    "log: once more behind the end": (
        lambda row, clean: when(row["committed"], "duplicate_write", "duplicate_output.illegal"),
        frozenset(),
    ),
    "log: without identity": (both(_nameless, _no_output), frozenset()),
    "log: of another run": (both(always("phantom_write"), _lost, _no_output), frozenset()),
    "log: not committed": (both(_hidden, _no_output), frozenset()),
    "log: made committed": (always("duplicate_output.illegal"), frozenset()),
    "log: committed or not is not known": (_maybe_output, frozenset()),
    "log: of the next input": (
        both(_no_output, lambda row, clean: when(row["committed"], "duplicate_output.illegal|unconsumed_output")),
        frozenset(),
    ),
    "log: of no input": (_untraced, frozenset()),
    "log: counted once more": (lambda row, clean: when(row["committed"], "wrong_count"), frozenset()),
    "log: without a count": (always("wrong_count.undetermined"), frozenset()),
}
"""The same of an output, where it differs."""
COUNTED: dict[str, Must] = {
    "log: left out": _uncounted,
    "log: moved behind the end": _uncounted,
    "log: made committed": lambda row, clean: when(clean.counts_after(row), "wrong_count"),
    "log: not committed": always("wrong_count"),
    "log: committed or not is not known": always("wrong_count.undetermined"),
}
"""What else a change of an input means where a processor counts."""
COUNTS = frozenset({"wrong_count", "wrong_count.undetermined"})
INPUTS: dict[str, frozenset[str]] = {
    "deliveries: offset + 1": frozenset({"missing_output.undetermined"}),
    "deliveries: offset - 1": frozenset({"missing_output.undetermined"}),
    "deliveries: another seq": frozenset({"missing_output.undetermined"}),
    "deliveries: another producer incarnation": frozenset({"missing_output.undetermined"}),
}
"""What else a change means to the outputs of the inputs there."""
SHARED = frozenset({"lost_share", "stalled_share"})
"""What a record at another offset may mean to a share group."""
UNCOMMITTED = {
    *("commits: left out", "commits: offset - 1", "commits: offset 0", "commits: ok made unknown"),
    *("commits: ok made fail", "commits: another partition", "commits: under no assignment"),
    *("commits: under another assignment", "commits: by another consumer"),
}
"""Changes by which a commit does not count as one of the group."""


def _not_auto(delivery: Row, clean: CleanHistory) -> bool:
    return all(c["kind"] != "auto" for c in clean.epoch(delivery, "commits"))


def unexpected(change: str, row: Row, rows: Rows, found: set[str]) -> str:
    """In what the checks that found something are not those that the change means; empty if they are."""
    rule, may = EXPECTED.get(change, (NOTHING, frozenset()))
    if row.get("input_topic"):
        rule, may = OUTPUTS.get(change, (rule, may))
    elif any(r.get("input_topic") for r in rows["log"]):
        may |= INPUTS.get(change, frozenset())
        rule = both(rule, _not_consumed) if change in UNCOMMITTED else rule
    if rows.get("acquisitions") and change.startswith("log: "):
        may |= SHARED
    clean = CleanHistory(rows)
    if clean.counted() and change.startswith(("log", "deliveries", "assignments")):
        may |= COUNTS
        rule = rule if row.get("input_topic") else both(rule, COUNTED.get(change, NOTHING))
    must = rule(row, clean)
    lacking = {check for check in must if not found & set(check.split("|"))}
    surplus = found - may - {one for check in must for one in check.split("|")}
    messages = [f"{', '.join(sorted(lacking))} not found"] if lacking else []
    return "; ".join(messages + ([f"{', '.join(sorted(surplus))} found"] if surplus else []))
