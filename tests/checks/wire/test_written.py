"""Stories of identity: what was sent, and where it is in the final log. Each is a trap, or the near miss of one.

`records` has one entry for each record of an instance: its outcome (empty without a send), and its offsets in the log.
"""

from __future__ import annotations

import json
import zlib

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.run.directory import Run
from checks.audit.output.totals import visible
from checks.wire.coordination import OPEN_US, Hold, Holds, holds, transactions
from checks.wire.ledger import _Task, bypasses, incomplete
from checks.wire.partition import (
    ABSENT,
    BY_FAULT,
    COMPACTED,
    DELETED,
    REBATCHED,
    TWINS,
    UNCOUNTED,
    UNMATCHED,
    Partition,
    life_of,
)
from checks.wire.tables import table_path
from checks.wire.written import NUMBER
from tests.support.fake_runs import FakeRun

MS = 1000


def sent(values="a", producer=(-1, -1, -1), outcome="ok", offset=0, at=None, kept=True, instance="app/1", **more):
    """Return a batch of a Produce request; values: a letter for each record, which has the time of its letter."""
    row = body(values, producer, kept) | {"instance": instance, "connection": 1, "batch": 0, "outcome": outcome}
    row |= {"asked_us": at, "answered_us": None if at is None or outcome == "unknown" else at + 5, "append_us": -1}
    return row | {"base_offset": offset if outcome == "ok" else -1} | more


def body(values, producer, kept=True):
    stamps = [ord(value) * MS for value in values]
    row = dict(zip(("producer_id", "producer_epoch", "base_sequence"), producer, strict=True))
    row |= {"records": len(values), "base_timestamp_us": stamps[0], "max_timestamp_us": stamps[-1]}
    row |= {"crc": zlib.crc32(repr((values, producer)).encode()), "transactional": False}
    kept_of = {
        name: np.array(of, NUMBER).tobytes()
        for name, of in (("hashes", [*map(ord, values)]), ("timestamps_us", stamps))
    }
    return row | (kept_of if kept else dict.fromkeys(kept_of))


def logged(offset, values="a", producer=(-1, -1, -1), kept=True, **more):
    row = body(values, producer, kept) | {"base_offset": offset, "control": None, "complete": True}
    return row | {"log_append_time": False, "last_stable": 99} | more


def ledger(requests, *log, ends=None):
    """Return the ledger of some requests, 10 us after one another unless they say when."""
    asked = [row | _times(row, 10 * n) for n, row in enumerate(requests, start=1)]
    return partition(produced=asked, log=log, ends=ends)


def partition(
    produced=(), log=(), fetched=(), ends=None, held=None, sessions=None, judged=None, start=0, by_fault=False, **rows
):
    """Return the ledger of a partition from rows of tables of the wire. judged: the offsets that a tap judges."""
    start, until = judged or (start, None)
    of = tables(produced, log, fetched, rows)
    return Partition("orders", 0, of, ends or {}, "token", held or Holds(), sessions or {}, start, until, by_fault)


def tables(produced, log, fetched, rows):
    return {
        "produced": frame(produced, sent(at=0) | {"number": 0}),
        "log": frame(log, logged(0)),
        "fetched": frame(fetched, got(0)),
        "asked": frame(rows.get("fetches", [fetch_of(row) for row in fetched]), fetch_of(got(0))),
        "positions": frame(rows.get("positions", ()), asked(0, 0)),
        "commits": frame(rows.get("commits", ()), asked(0, 0)),
        "acquired": frame(rows.get("acquired", ()), taken(0, 0)),
        "acknowledged": frame(rows.get("acknowledged", ()), settled(0, 0)),
    }


def frame(rows, sample):
    """Return rows with the types of a sample."""
    return pd.DataFrame([sample, *rows]).iloc[1:]


def got(offset, values="a", producer=(-1, -1, -1), asked=0, at=100, instance="billing/1", isolation=1, **more):
    """Return a batch of an answer to Fetch, asked 5 us before."""
    row = logged(offset, values, producer, kept=False) | {"instance": instance, "asked_us": at - 5, "answered_us": at}
    row |= {"connection": 1, "number": at, "error": 0, "leader_epoch": 0, "aborted": []}
    return row | {"asked_offset": asked, "isolation": isolation} | more


def fetch_of(row):
    """Return the request for a fetched batch."""
    return {n: row[n] for n in ("instance", "connection", "number", "asked_us", "asked_offset", "isolation")}


def _times(row, at):
    at = row["asked_us"] if row["asked_us"] is not None else at
    return {"asked_us": at, "answered_us": -1 if row["outcome"] == "unknown" else at + 5, "number": at}


def producers(rows):
    return [None if pd.isna(name) else name for name in rows["producer"]]


def records(ledger):
    found = {}
    rows = ledger.sends()
    for seq, outcome in zip(rows["seq"], rows["outcome"], strict=True):
        found[int(seq)] = (outcome, [])
    rows = ledger.log()
    for seq, offset, producer in zip(rows["seq"], rows["offset"], producers(rows), strict=True):
        key = int(seq) if producer is not None and not producer.startswith("?") else f"{producer}@{offset}"
        found.setdefault(key, ("", []))[1].append(int(offset))
    return [found[key] for key in sorted(found, key=str)]


def undecided(ledger):
    return {key: count for key, count in ledger.undecided.items() if count}


def test_an_idempotent_batch_is_found_by_its_sequence_once_twice_or_not_at_all():
    one, two, three = (7, 0, 0), (7, 0, 2), (7, 0, 4)
    requests = [sent("ab", one), sent("cd", two, "unknown"), sent("cd", two, offset=2), sent("ef", three, offset=6)]
    found = ledger(requests, logged(0, "ab", one), logged(2, "cd", two), logged(4, "cd", two))
    assert records(found) == [("ok", [0]), ("ok", [1]), ("ok", [2, 4]), ("ok", [3, 5]), ("ok", []), ("ok", [])]
    assert found.sends()["offset"].tolist() == [0, 1, 2, 3, 6, 7]
    assert not undecided(found)


def test_the_same_sequence_of_another_producer_or_epoch_is_another_identity():
    found = ledger([sent("x", (7, 0, 0))], logged(0, "y", (8, 0, 0)), logged(1, "z", (7, 1, 0)))
    assert records(found) == [("ok", []), ("", [0]), ("", [1])]
    assert producers(found.log()) == [None, None], "nobody sent them"


def test_a_renumbered_batch_that_is_in_the_log_twice_is_seen_by_its_records():
    """A client bumps its epoch and sends what was in flight again, with new numbers (trap)."""
    old, new = (7, 0, 40), (7, 1, 0)
    log = [logged(0, "a", old), logged(1, "a", new)]
    found = ledger([sent("a", old, "unknown"), sent("a", new, offset=1)], *log)
    assert records(found) == [("ok", [0, 1])]
    without = ledger([sent("a", old, "unknown", kept=False), sent("a", new, kept=False)], *log)
    assert undecided(without) == {("duplicate_write", REBATCHED): 1}, "never a pass"


def test_a_renumbered_batch_that_another_process_sent_is_another_record():
    """The near miss: the instance was restarted, and what it sends is new."""
    requests = [sent("a", (7, 0, 40), "unknown", kept=False), sent("b", (9, 0, 0), kept=False, offset=1)]
    found = ledger(requests, logged(0, "a", (7, 0, 40)), logged(1, "b", (9, 0, 0)), ends={"app/1": [15]})
    assert not undecided(found)
    assert found.sends()["incarnation"].tolist() == [1, 2]


def test_a_batch_of_the_same_session_is_numbered_after_the_one_before_and_does_not_have_its_records():
    """The near miss: the producer kept its epoch, so that its brokers know what it sent again."""
    requests = [sent("a", (7, 0, 0), "unknown", kept=False), sent("b", (7, 0, 1), kept=False, offset=1)]
    assert not undecided(ledger(requests, logged(0, "a", (7, 0, 0)), logged(1, "b", (7, 0, 1))))


def test_acknowledgements_that_are_assumed_are_no_records_in_other_batches():
    """The near miss: with acks=0, nothing is sent again."""
    requests = [sent(value, outcome="none", kept=False) for value in "ab"]
    assert not undecided(ledger(requests, logged(0, "a", kept=False), logged(1, "b", kept=False)))


def test_equal_records_that_were_acknowledged_one_after_the_other_are_two_records():
    requests = [sent("a", (7, 0, seq), offset=seq) for seq in (0, 1)]
    found = ledger(requests, *(logged(seq, "a", (7, 0, seq)) for seq in (0, 1)))
    assert records(found) == [("ok", [0]), ("ok", [1])] and not undecided(found)


def test_a_record_that_is_sent_after_the_acknowledgement_of_an_equal_one_may_be_another():
    """The first one was sent twice, and acknowledged before the second one began, in a new epoch."""
    old, new = (7, 0, 40), (7, 1, 0)
    requests = [sent("a", old, "unknown", at=10), sent("a", old, at=20), sent("a", new, at=60, offset=1)]
    found = ledger(requests, logged(0, "a", old), logged(1, "a", new))
    assert records(found) == [("ok", [0]), ("ok", [1])]
    assert undecided(found)["duplicate_write", TWINS] == 2


def test_the_first_producer_of_a_cluster_has_the_id_0():
    requests = [sent("a", (0, 0, 0)), sent("a", (0, 0, 1), offset=1)]
    found = ledger(requests, *(logged(seq, "a", (0, 0, seq)) for seq in (0, 1)))
    assert records(found) == [("ok", [0]), ("ok", [1])] and not undecided(found)
    one = (0, 0, 0)
    again = ledger([sent("a", one, kept=False), sent("a", one, kept=False)], logged(0, "a", one))
    assert records(again) == [("ok", [0])] and not undecided(again), "its sequence says that it is no twin"
    lost = ledger([sent("a", one, kept=False)])
    assert records(lost) == [("ok", [])] and not undecided(lost), "and that it is not there under another checksum"
    session = [sent("a", one, "unknown", kept=False), sent("b", (0, 0, 1), kept=False, offset=1)]
    kept = ledger(session, logged(0, "a", one), logged(1, "b", (0, 0, 1)))
    assert not undecided(kept), "and that the first one was not sent again with another number"


@pytest.mark.parametrize(("start", "why"), [(0, ABSENT), (1, DELETED)])
def test_an_acknowledged_record_that_is_not_found_may_have_been_deleted_only_below_the_start(start, why):
    requests = [sent(value, at=10 * n, offset=n - 1, kept=False) | {"number": n} for n, value in enumerate("ab", 1)]
    found = partition(requests, start=start)
    assert undecided(found)["lost_write", why] == 2 - start


def test_a_batch_of_which_an_answer_has_a_part_is_not_in_the_log():
    log = partition(log=[logged(0), logged(1, "b", complete=False)]).log()
    assert log["offset"].tolist() == [0]


def test_a_send_belongs_to_a_transaction_of_its_own_process_and_session():
    first, second = ((7, 0, 0), (8, 0, 0)), ((9, 0, 0), (9, 0, 1))
    requests = [sent(value, producer, transactional=True) for value, producer in zip("ab", first, strict=True)]
    requests += [sent("c", second[0], transactional=True, instance="app/2"), sent("d", second[1], instance="app/2")]
    requests += [sent("e", (7, 1, 0), transactional=True), sent("f", (7, 2, 0), transactional=True, instance="app/2")]
    rows = [row | {"asked_us": 10 * n, "answered_us": 10 * n + 5, "number": n} for n, row in enumerate(requests, 1)]
    keys = (("app/1", 1, 7), ("app/1", 1, 8), ("app/2", 1, 9), ("app/1", 2, 7), ("app/2", 1, 7))
    sessions = {key: ([], [number], []) for number, key in enumerate(keys, start=1)}
    found = partition(rows, sessions=sessions, ends={"app/1": [45]}).sends()
    assert found["invoked_us"].tolist() == [10, 20, 30, 40, 50, 60]
    assert found["txn"].tolist() == [1, 2, 3, -1, 4, 5]


def test_a_fetch_of_another_member_is_no_seek_of_the_holder():
    steps = [*fetches((60, 0), (80, 9)), *(row | {"instance": "billing/2"} for row in fetches((120, 4)))]
    found = partition(fetches=steps, commits=[asked(90, 9)], held=held((50, 200))).assignments()
    assert "seek" not in found["event"].tolist()


def test_a_transaction_that_was_aborted_began_before_its_records():
    one = (7, 0, 0)
    for first, kept in ((0, []), (1, [0])):
        answer = {"aborted": [{"producer_id": 7, "first_offset": first}], "transactional": True, "number": 9}
        log, fetched = [logged(0, "a", one, transactional=True)], [got(0, "a", one, **answer)]
        assert [offset for *_, offset in delivered(partition(log=log, fetched=fetched, held=held((0, 500))))] == kept


def test_a_record_of_nobody_is_a_phantom_if_all_sends_of_unknown_outcome_were_found():
    log = [logged(0, "a"), logged(1, "b")]
    assert not undecided(ledger([sent("a", outcome="unknown")], *log))
    lost = undecided(ledger([sent("c", outcome="unknown", kept=False)], *log))
    assert lost["phantom_write", UNMATCHED] == 2, "one of them may be what was sent"


def test_the_log_is_stable_up_to_the_last_answer_of_its_reader():
    log = partition(log=[logged(0, last_stable=1), logged(1, "b", last_stable=2), logged(2, "c", last_stable=2)]).log()
    assert log["committed"].tolist() == [True, True, None]


def test_a_process_ends_with_the_microsecond_of_its_end():
    found = ledger([sent("a", (7, 0, 0), at=10), sent("b", (7, 0, 1), at=11, offset=1)], ends={"app/1": [10]})
    assert found.sends()["incarnation"].tolist() == [1, 2] == [life_of({"app/1": [10]}, "app/1", at) for at in (10, 11)]


@pytest.mark.parametrize("producer", [0, 7])
def test_equal_records_with_two_numbers_of_one_epoch_are_two_records(producer):
    """The near miss: the application has sent the same twice."""
    requests = [sent("a", (producer, 0, seq), "unknown") for seq in (0, 1)]
    found = ledger(requests, *(logged(seq, "a", (producer, 0, seq)) for seq in (0, 1)))
    assert records(found) == [("unknown", [0]), ("unknown", [1])]
    assert undecided(found)["duplicate_write", TWINS] == 2, "an epoch bump may have renumbered one of them"


def test_a_retry_without_idempotence_is_the_same_bytes_and_so_is_its_copy_in_the_log():
    found = ledger([sent("a", outcome="unknown"), sent("a", offset=1)], logged(0, "a"), logged(1, "a"))
    assert records(found) == [("ok", [0, 1])] and not undecided(found)


def test_equal_twins_are_undecided():
    """Sent again after the acknowledgement: a new record for Kafka, or a retry of the application (trap)."""
    found = ledger([sent("a"), sent("a", offset=1)], logged(0, "a"), logged(1, "a"))
    assert records(found) == [("", [0]), ("", [1])]
    assert undecided(found)["lost_write", TWINS] == undecided(found)["duplicate_write", TWINS] == 2
    others = [sent("a", outcome="unknown", at=10), sent("a", outcome="unknown", at=11, instance="app/2")]
    found = ledger(others, logged(0, "a"), logged(1, "a"))
    assert undecided(found)["duplicate_write", TWINS] == 2, "two processes may have sent one each, or one of them both"
    absent = undecided(ledger([sent("a", kept=False), sent("a", kept=False)]))
    assert absent["lost_write", TWINS] == 2 and ("lost_write", ABSENT) not in absent, "each is counted once"


def test_an_acknowledgement_that_came_after_the_application_gave_up_is_one():
    """It has reached the socket, and what the application sends then is a new record for Kafka (trap)."""
    found = ledger([sent("a", (7, 0, 0), at=10), sent("b", (7, 0, 1), offset=1, at=60)], logged(0, "a", (7, 0, 0)))
    assert records(found) == [("ok", [0]), ("ok", [])]


def test_records_of_a_retry_in_other_batches_are_the_same_records():
    """librdkafka without idempotence puts a retry into other batches (trap)."""
    requests = [sent("ab", outcome="unknown"), sent("a", offset=2), sent("bc", offset=3)]
    found = ledger(requests, logged(0, "ab"), logged(2, "a"), logged(3, "bc"))
    assert records(found) == [("ok", [0, 2]), ("ok", [1, 3]), ("ok", [4])] and not undecided(found)
    without = [row | {"hashes": None} for row in requests]
    log = [logged(0, "ab"), logged(2, "a"), logged(3, "bc")]
    assert undecided(ledger(without, *log)) == {("duplicate_write", REBATCHED): 2}


def in_turn(*batches):
    """Return the requests of several producers, one a time unit: producer id (-1: none), connection and offset."""
    found = []
    for n, (producer, at, offset) in enumerate(batches):
        identity = (producer, 0, n) if producer >= 0 else (-1, -1, -1)
        found.append(sent(chr(97 + n), identity, "ok", offset, 10 * n + 10) | {"connection": at})
    return found


@pytest.mark.parametrize(
    ("batches", "seqs"),
    [
        (((7, 1, 0), (8, 2, 2), (7, 1, 1), (8, 2, 3)), [0, 1, 2, 3]),  # each is in order, and the log merges them
        (((7, 1, 1), (8, 2, 2), (7, 1, 0), (8, 2, 3)), [1, 0, 2, 3]),  # the second batch of 7 is before its first
        (((7, 1, 1), (7, 1, 0), (8, 2, 2)), [1, 0, 2]),  # one producer after the other
        (((7, 1, 1), (8, 1, 0)), [1, 0]),  # a producer that got another id
        (((0, 1, 1), (0, 2, 0), (0, 1, 2)), [1, 0, 2]),  # the first id of a cluster is one producer on two connections
        (((-1, 1, 0), (-1, 2, 2), (-1, 1, 1), (-1, 2, 3)), [0, 1, 2, 3]),  # without idempotence, by connection
        (((-1, 1, 1), (-1, 2, 2), (-1, 1, 0), (-1, 2, 3)), [1, 0, 2, 3]),
    ],
)
def test_producers_of_one_process_are_each_in_order_and_not_among_each_other(batches, seqs):
    """Kafka Streams has a producer for each thread (trap)."""
    requests = in_turn(*batches)
    log = [{**logged(r["base_offset"]), **{n: r[n] for n in body("a", (-1, -1, -1))}} for r in requests]
    found = ledger(requests, *sorted(log, key=lambda row: row["base_offset"]))
    assert found.log()["seq"].tolist() == seqs


def test_a_producer_that_retries_beside_another_one_is_not_behind_it():
    """The first attempts of one come before those of the other, and its records are appended after them."""
    late, other = (7, 0, 0), (8, 0, 0)
    requests = [sent("a", late, "fail", at=10), sent("b", other, offset=0, at=20), sent("a", late, offset=1, at=30)]
    assert ledger(requests, logged(0, "b", other), logged(1, "a", late)).log()["seq"].tolist() == [0, 1]
    loose = [row | {"connection": at} for at, row in enumerate([sent("a", at=10, outcome="unknown"), sent("b", at=20)])]
    again = sent("a", offset=1, at=30) | {"connection": 1}
    found = ledger([*loose, again], logged(0, "b"), logged(1, "a"))
    assert found.log()["seq"].tolist() == [1, 0], "a retry on the next connection, behind the batch after it"


NO_ID = (-1, -1, -1)


@pytest.mark.parametrize(
    ("first", "again", "other", "life", "seqs"),
    [
        (NO_ID, NO_ID, NO_ID, [], [0, 1, 3]),  # librdkafka without idempotence puts a retry into another batch
        ((7, 0, 40), (7, 1, 0), (8, 0, 0), [], [0, 1, 3]),  # an epoch bump numbers it again
        ((7, 0, 40), (7, 1, 0), (8, 0, 0), [15], [1, 2, 3]),  # another process sends a record of its own
        ((7, 0, 40), (7, 0, 41), (8, 0, 0), [], [1, 2, 3]),  # and one session numbers no record twice
    ],
)
def test_a_record_that_is_sent_again_in_another_batch_is_not_behind_another_producer(first, again, other, life, seqs):
    """Its first batch is not in the log, and the other producer is between both (trap)."""
    requests = [sent("a", first, "unknown", at=10), sent("c", other, at=20) | {"connection": 2}]
    requests.append(sent("ab", again, offset=1, at=30))
    found = ledger(requests, logged(0, "c", other), logged(1, "ab", again), ends={"app/1": life})
    assert found.log()["seq"].tolist() == seqs


def test_a_producer_that_overtakes_the_retry_of_its_own_record_is_before_it():
    """The near miss: one producer, so its numbers stay in the order in which it sent them."""
    requests = [sent("a", outcome="unknown", at=10), sent("c", at=20) | {"connection": 2}]
    requests += [sent("b", offset=1, at=30), sent("ad", offset=2, at=40)]
    found = ledger(requests, logged(0, "c"), logged(1, "b"), logged(2, "ad"))
    assert found.log()["seq"].tolist() == [0, 2, 1, 4]


def test_a_record_that_is_twice_in_the_log_in_other_batches_is_where_it_is_first():
    requests = [sent("a", outcome="unknown", at=10), sent("c", offset=2, at=20) | {"connection": 2}]
    requests += [sent("ab", outcome="unknown", at=30), sent("ax", offset=3, at=40)]
    found = ledger(requests, logged(0, "ab"), logged(2, "c"), logged(3, "ax"))
    assert found.log()["seq"].tolist() == [0, 2, 3, 0, 5]


def test_a_record_is_not_in_the_log_where_it_was_fetched_before_another_one_took_its_offset():
    """The broker compressed its batch again, and the log was truncated behind the fetch."""
    batch = sent("ab", outcome="unknown", at=10) | {"number": 1}
    read = {**got(0, "ab"), **body("ab", NO_ID), "crc": 1}
    of_others = logged(0, "xy")
    assert records(partition([batch], [of_others], [read])) == [("unknown", []), ("unknown", []), ("", [0]), ("", [1])]
    assert records(partition([batch], [read | {"last_stable": 99}], [read])) == [("unknown", [0]), ("unknown", [1])]


AGAIN = [sent("a", (7, 0, 40), outcome="unknown", at=10), sent("a", (7, 1, 0), at=60)]


@pytest.mark.parametrize(
    ("ends", "more", "seqs"),
    [
        ({}, {}, [[0], [0]]),  # an epoch that was bumped: one record of two identities
        ({"app/1": [30]}, {}, [[0], [1]]),  # the next process sends a record of its own
        ({}, {"transactional": True}, [[0], [1]]),  # and so does an application after an abort
    ],
)
def test_equal_content_is_one_record_only_within_a_process_and_outside_of_transactions(ends, more, seqs):
    log = [logged(0, "a", (7, 0, 40), **more), logged(1, "a", (7, 1, 0), **more)]
    found = ledger([row | more for row in AGAIN], *log, ends=ends)
    assert [[seq] for seq in found.log()["seq"].tolist()] == seqs


def test_a_refused_batch_of_which_the_records_are_sent_in_another_one_has_not_failed():
    found = ledger([sent("ab", outcome="fail"), sent("abc", offset=0)], logged(0, "abc"))
    assert records(found) == [("ok", [0]), ("ok", [1]), ("ok", [2])]


def test_equal_records_in_one_batch_that_is_sent_again_in_parts_are_undecided():
    found = ledger([sent("aa", outcome="unknown"), sent("ab", offset=0)], logged(0, "ab"))
    assert undecided(found)["lost_write", TWINS] == 3


def test_a_record_is_another_one_if_it_has_another_time_or_if_its_own_batch_is_in_the_log():
    """The near misses: what a stranger wrote has the same content."""
    late = logged(0, "ax") | {"timestamps_us": np.array([1, 2], NUMBER).tobytes()}
    assert records(ledger([sent("a", outcome="unknown")], late)) == [("unknown", []), ("", [0]), ("", [1])]
    appended = late | {"log_append_time": True}
    assert records(ledger([sent("a", outcome="unknown")], appended)) == [("unknown", [0]), ("", [1])]
    found = ledger([sent("a", outcome="unknown")], logged(0, "a"), logged(1, "ab"))
    assert records(found) == [("unknown", [0]), ("", [1]), ("", [2])]


def test_a_batch_that_the_broker_split_is_found_by_its_records():
    found = ledger([sent("ab", outcome="unknown")], logged(0, "a"), logged(1, "bc"))
    assert records(found) == [("unknown", [0]), ("unknown", [1]), ("", [2])]
    one = sent("ab", outcome="unknown", at=10)
    split = partition([one | _times(one, 10)], [logged(0, "a"), logged(1, "b")], by_fault=True)
    assert not undecided(split), "no batch of it is one that the fault may have written"


def test_without_the_records_a_batch_that_is_not_there_by_its_checksum_is_undecided():
    found = ledger([sent("a", kept=False)], logged(0, "b", kept=False))
    assert undecided(found) == {("lost_write", ABSENT): 1} and found.sends()["outcome"].tolist() == ["unknown"]
    found = ledger([sent("a", outcome="unknown", kept=False)], logged(0, "b", kept=False))
    assert undecided(found) == {("phantom_write", UNMATCHED): 1, ("duplicate_write", UNMATCHED): 1}
    assert found.log()["producer"].tolist() == ["? orders"]


@pytest.mark.parametrize(("start", "why"), [(0, ABSENT), (6, ABSENT), (7, DELETED), (99, DELETED)])
def test_a_batch_that_was_acknowledged_before_the_start_of_the_log_is_missing_for_another_reason(start, why):
    batch = sent("ab", kept=False, offset=5, at=10) | {"number": 1}
    assert undecided(partition([batch], [logged(100, "c", kept=False)], start=start)) == {("lost_write", why): 2}


def test_a_batch_to_which_the_broker_gave_its_time_is_found_where_it_was_acknowledged():
    """LogAppendTime changes timestamps and checksum (trap). The answer has that time."""
    appended = {"log_append_time": True, "max_timestamp_us": 9000, "crc": 1}
    found = ledger([sent("a", offset=8, append_us=9000, kept=False)], logged(8, "a", kept=False, **appended))
    assert records(found) == [("ok", [8])] and not undecided(found)


@pytest.mark.parametrize("at", [0, 8])
def test_a_batch_that_the_broker_compressed_again_is_found_where_it_was_acknowledged(at):
    found = ledger([sent("ab", offset=at, kept=False)], logged(at, "ab", kept=False, crc=1))
    assert records(found) == [("ok", [at]), ("ok", [at + 1])]


def test_another_batch_at_the_acknowledged_offset_is_not_the_one_that_was_sent():
    """The near miss: the log was truncated, and another record took the offset."""
    taken = logged(8, "b", log_append_time=True, max_timestamp_us=9001)
    found = ledger([sent("a", offset=8, append_us=9000)], taken)
    assert records(found) == [("ok", []), ("", [8])]
    for values in ("cb", "ac"):  # with the last, and the first timestamp of the batch that was sent
        found = ledger([sent("ab", offset=8, kept=False)], logged(8, values, kept=False))
        assert records(found) == [("unknown", []), ("unknown", []), ("", [8]), ("", [9])]


def test_a_batch_has_failed_if_each_attempt_was_refused_and_is_complete_with_the_last_answer():
    one = (7, 0, 0)
    refused = [sent("a", one, "fail", at=10), sent("a", one, "fail", at=20)]
    for requests, outcome, complete_us in (
        (refused, "fail", 25),
        ([*refused, sent("a", one, "unknown", at=30)], "unknown", 30),
        ([*refused, sent("a", one, at=30), sent("a", one, at=40)], "ok", 35),
    ):
        found = ledger(requests).sends()
        assert (found["outcome"].tolist(), found["completed_us"].tolist()) == ([outcome], [complete_us])
        assert found["invoked_us"].tolist() == [10]


def test_without_an_answer_an_acknowledgement_is_assumed_for_acks_0_only():
    """An answer is late, lost with its connection, or for acks=0 never due (trap)."""
    found = ledger([sent("a", outcome="none"), sent("b", outcome="unknown")], logged(0, "a"))
    assert records(found) == [("ok", [0]), ("unknown", [])]
    assert found.sends()["offset"].tolist() == [-1, -1]


def test_messages_of_an_old_format_have_a_checksum_and_no_producer():
    """Several of them are in one request, and the answer has the offset of the first one (trap)."""
    requests = [sent("a", at=10, offset=4), sent("b", at=10, offset=4, batch=1)]
    found = ledger(requests, logged(4, "a"), logged(5, "b"))
    assert records(found) == [("ok", [4]), ("ok", [5])] and found.sends()["offset"].tolist() == [4, -1]
    packed = ledger([sent("a", records=-1)])
    assert undecided(packed)["lost_write", UNCOUNTED] == 1


def test_a_marker_takes_an_offset_and_ends_the_transaction_of_its_producer():
    """Markers have a producer id (trap). The end of another producer does not count."""
    one, two = (7, 0, 0), (8, 0, 0)
    requests = [sent("a", one), sent("b", two, offset=1), sent("c", (7, 0, 1), offset=4)]
    log = [logged(0, "a", one, transactional=True), logged(1, "b", two, transactional=True)]
    log += [logged(2, "x", (8, 0, -1), control="abort"), logged(3, "x", (7, 0, -1), control="commit")]
    found = ledger(requests, *log, logged(4, "c", (7, 0, 1), transactional=True))
    assert records(found) == [("ok", [0]), ("ok", [1]), ("ok", [4])]
    assert found.log()["committed"].tolist() == [True, False, None]


def test_readers_see_nothing_from_the_last_stable_offset_on():
    """A record of no transaction is there, too, while one before it is open (trap)."""
    requests = [sent("a"), sent("b", (7, 0, 0), offset=1), sent("c", offset=2)]
    log = [logged(0, "a"), logged(1, "b", (7, 0, 0), transactional=True), logged(2, "c")]
    found = ledger(requests, *(row | {"last_stable": 1} for row in log))
    assert found.log()["committed"].tolist() == [True, None, None]
    assert ledger(requests, *log).log()["committed"].tolist() == [True, None, True], "the marker is not in the capture"
    unknown = ledger(requests, *(row | {"last_stable": -1} for row in log))
    assert unknown.log()["committed"].tolist() == [True, None, True]


def test_two_producers_of_one_connection_are_one_instance_with_records_in_the_order_of_requests():
    """franz-go, Streams and Connect have several producers (trap)."""
    requests = [sent("a", (7, 0, 0)), sent("b", (8, 0, 0), offset=1), sent("c", (7, 0, 1), offset=2)]
    found = ledger(requests, logged(0, "a", (7, 0, 0)), logged(1, "b", (8, 0, 0)), logged(2, "c", (7, 0, 1)))
    assert found.sends()["seq"].tolist() == [0, 1, 2] and records(found) == [("ok", [0]), ("ok", [1]), ("ok", [2])]


def of_partition(topic, produced, log):
    """Return the rows of partition 1 of a topic from all tables of the wire."""
    place = {"topic": topic, "partition": 1}
    of = tables(produced, log, [], {})
    parts = [pa.Table.from_pandas(rows.assign(part=part, **place)) for part, rows in of.items()]
    return pa.concat_tables(parts, promote_options="permissive")


@pytest.mark.parametrize(("tapped", "offsets"), [(False, [0, 1]), (True, [0])])
def test_a_tap_judges_up_to_the_end_of_its_range_and_a_run_all_that_was_read_back(tmp_path, tapped, offsets):
    ranges = {("orders", 1): (0, 1)}
    task = _Task(str(tmp_path), {}, "token", frozenset(), ranges=ranges, tapped=tapped, topics=("orders",))
    task.write(of_partition("orders", [], [logged(0, "ab", (7, 0, 0))]))
    rows = pq.read_table(tmp_path / "log").to_pylist()
    assert [(row["topic"], row["partition"], row["offset"]) for row in rows] == [("orders", 1, at) for at in offsets]


@pytest.mark.parametrize(("topic", "count"), [("orders", 2), ("invoices", 0)])
def test_only_records_of_a_topic_to_which_a_fault_writes_may_be_of_it(tmp_path, topic, count):
    task = _Task(
        str(tmp_path), {}, "token", frozenset(), by_faults=frozenset({"orders"}), topics=("orders", "invoices")
    )
    found = task.write(of_partition(topic, [], [logged(0, "ab", (7, 0, 0))])).to_pylist()
    assert [(row["scope"], row["why"], row["count"]) for row in found] == [(topic, BY_FAULT, count)] * (count > 0)


def test_what_is_not_known_is_null_in_a_ledger(tmp_path):
    task = _Task(str(tmp_path), {}, "token", frozenset(), topics=("orders",))
    task.write(of_partition("orders", [sent("a", (7, 0, 0), "none", at=10)], [logged(0, "x", (8, 0, 0))]))
    (send,) = pq.read_table(tmp_path / "sends.parquet").to_pylist()
    (record,) = pq.read_table(tmp_path / "log").to_pylist()
    assert (send["producer"], send["seq"], send["offset"], send["txn"]) == ("app/1", 1 << 38, None, None)
    assert (record["producer"], record["seq"], record["run"], record["offset"]) == (None, None, None, 0)


def test_records_of_a_process_in_two_topics_are_not_the_same_ones(tmp_path):
    """Partitions of one number, as an application has that copies (trap)."""
    task = _Task(str(tmp_path), {}, "token", frozenset(), topics=("orders", "invoices"))
    for topic in task.topics:
        rows = of_partition(topic, [sent("ab", (7, 0, 0), at=10)], [logged(0, "ab", (7, 0, 0))])
        assert task.write(rows).num_rows == 0, "nothing is undecided"
    for table in ("sends.parquet", "log"):
        seqs = pq.read_table(tmp_path / table)["seq"].to_pylist()
        assert len(seqs) == 4 and len(set(seqs)) == 4


def test_a_topic_may_have_the_longest_name_that_kafka_allows(tmp_path):
    longest = [("acme.orders." + letter * 249)[:249] for letter in "ab"]
    task = _Task(str(tmp_path), {}, "token", frozenset(), topics=tuple(longest))
    for topic in longest:
        task.write(of_partition(topic, [sent("a", (7, 0, 0), at=10)], [logged(0, "a", (7, 0, 0))]))
    for table in ("sends.parquet", "log"):
        assert [row["topic"] for row in pq.read_table(tmp_path / table).to_pylist()] == longest


@pytest.mark.parametrize(("records", "count"), [([3], 3), ([3, -1, 2], 5), ([0], 1)])
def test_nothing_is_decided_of_a_compacted_topic(tmp_path, records, count):
    """Also not of one that compaction has emptied."""
    size = len(records)
    rows = pa.table({"topic": ["orders"] * size, "partition": [0] * size, "part": ["log"] * size, "records": records})
    found = _Task(str(tmp_path), {}, "token", frozenset({"orders"})).write(rows).to_pylist()
    assert {(row["check"], row["why"], row["count"]) for row in found} >= {("lost_write", COMPACTED, count)}


def held(*spans, instance="billing/1", group="g"):
    found = Holds(members={instance})
    for number, (begin, end) in enumerate(spans, start=1):
        hold = Hold(instance, 1, group, "subscribe", "m", None, number, begin, end, "revoked")
        found.of["orders", 0].append(hold)
    return found


def delivered(ledger):
    rows = ledger.deliveries()
    return list(zip(rows["consumer"], rows["assignment"].tolist(), rows["offset"].tolist(), strict=True))


def test_a_fetched_batch_counts_from_the_asked_offset_on_and_not_if_it_was_cut_off():
    """The broker sends whole batches, and as many bytes as fit (traps)."""
    fetched = [got(40, "ab", asked=41), got(42, "cd", asked=41, complete=False)]
    found = partition(log=[logged(40, "ab"), logged(42, "cd")], fetched=fetched, held=held((0, 500)))
    assert delivered(found) == [("billing/1", 1, 41)]


def test_an_answer_after_the_partition_was_given_up_is_not_delivered():
    fetched = [got(0, "a", at=100), got(1, "b", asked=1, at=250), got(1, "b", asked=1, at=350)]
    found = partition(log=[logged(0, "a"), logged(1, "b")], fetched=fetched, held=held((50, 200), (300, 900)))
    assert delivered(found) == [("billing/1", 1, 0), ("billing/1", 2, 1)]
    assert found.deliveries()["ordinal"].tolist() == [0, 1], "they count what was delivered"


def test_a_fetched_record_has_the_identity_that_the_log_has_and_a_truncated_one_its_own():
    one, two = (7, 0, 0), (7, 0, 1)
    requests = [sent("a", one, at=10), sent("b", two, offset=1, at=20)]
    for row in requests:
        row |= _times(row, 0)
    fetched = [got(0, "a", one), got(1, "b", two, asked=1), got(2, "x", (9, 0, 0), asked=2)]
    found = partition(requests, [logged(0, "a", one)], fetched, held=held((0, 500)))
    rows = found.deliveries()
    assert rows["seq"].tolist() == [0, 1, -1] and producers(rows) == ["app/1", "app/1", None]
    assert records(found) == [("ok", [0]), ("ok", [])], "the second one is lost, and its reading dirty"


def test_a_reader_of_committed_records_leaves_out_what_the_answer_calls_aborted():
    one, again = (7, 0, 0), (7, 0, 1)
    aborted = [{"producer_id": 7, "first_offset": 0}]
    log = [logged(0, "a", one, transactional=True), logged(2, "b", again, transactional=True)]
    answer = {"aborted": aborted, "number": 9}
    fetched = [
        got(0, "a", one, transactional=True, **answer),
        got(1, "x", (7, 0, -1), control="abort", **answer),
        got(2, "b", again, transactional=True, **answer),
    ]
    assert delivered(partition(log=log, fetched=fetched, held=held((0, 500)))) == [("billing/1", 1, 2)]
    second = [got(1, "b", again, transactional=True, **answer)]
    assert not delivered(partition(log=log, fetched=[fetched[0], *second], held=held((0, 500))))
    before = [got(0, "x", (7, 0, -1), control="commit", **answer)]
    assert not delivered(partition(log=log, fetched=[*before, *second], held=held((0, 500)))), "it ended another one"
    uncommitted = [row | {"isolation": 0} for row in fetched]
    found = partition(log=log, fetched=uncommitted, held=held((0, 500)))
    assert [offset for *_, offset in delivered(found)] == [0, 2]


@pytest.mark.parametrize(("start", "kept"), [(0, [0, 1, 2]), (1, [1, 2]), (2, [2]), (3, [])])
def test_records_of_a_batch_before_the_start_of_the_log_are_not_in_it(start, kept):
    """An answer has whole batches: DeleteRecords and retention may have moved the start into one."""
    found = partition([sent("abc", at=10) | {"number": 10, "answered_us": 15}], [logged(0, "abc")], start=start)
    assert found.log()["offset"].tolist() == kept


def test_records_that_a_fault_of_the_run_writes_are_phantoms_of_nobody():
    log, requests = [logged(0, "a", (7, 0, 0)), logged(1, "bc", (9, 0, 0))], [sent("a", (7, 0, 0))]
    for by_fault in (True, False):
        found = partition(
            [row | {"asked_us": 10, "answered_us": 15, "number": 1} for row in requests], log, by_fault=by_fault
        )
        assert undecided(found) == ({("phantom_write", BY_FAULT): 2} if by_fault else {})
        assert [name is None for name in producers(found.log())] == [False, not by_fault, not by_fault]


def test_an_instance_without_a_group_holds_what_it_reads():
    found = partition(log=[logged(0)], fetched=[got(0, instance="copy/1")])
    assert delivered(found) == [("copy/1", 1, 0)] and found.deliveries()["mode"].tolist() == ["assign"]


def test_an_instance_without_a_group_has_the_one_that_it_commits_to():
    alone = {"fetched": [got(0, instance="copy/1")], "commits": [asked(110, 1, instance="copy/1", generation=-1)]}
    assert partition(log=[logged(0)], **alone).deliveries()["group"].tolist() == ["g"]


def taken(first, last, at=100, count=1):
    row = {"instance": "worker/1", "connection": 3, "number": at, "answered_us": at, "delivery_count": count}
    return row | {"first_offset": first, "last_offset": last}


def settled(first, last, at=150, types=(1,), error=0):
    row = {"instance": "worker/1", "connection": 3, "number": at, "asked_us": at, "answered_us": at + 5}
    row |= {"group": "s", "types": list(types), "error": error}
    return row | {"first_offset": first, "last_offset": last}


def test_acquired_ranges_are_records_and_each_acknowledgement_is_of_the_last_acquisition_before_it():
    log = [logged(0, "abc", (7, 0, 0))]
    requests = [sent("abc", (7, 0, 0), at=10) | {"answered_us": 15, "number": 10}]
    held = Holds(shares={"worker/1": "s"})
    acquired = [taken(0, 1), taken(1, 1, at=300, count=2)]
    acknowledged = [
        settled(0, 1, types=(1, 2)),
        settled(1, 1, at=400, error=121),
        settled(2, 2),
        settled(0, 0, types=(0,)),
        settled(1, 1, at=500) | {"answered_us": -1},
    ]
    found = partition(requests, log, acquired=acquired, acknowledged=acknowledged, held=held)
    rows = found.acquisitions()
    assert rows["offset"].tolist() == [0, 1, 1] and rows["delivery_count"].tolist() == [1, 1, 2]
    assert rows["seq"].tolist() == [0, 1, 1] and rows["group"].tolist() == ["s", "s", "s"]
    rows = found.acknowledgements()
    kept = ("ordinal", "offset", "type", "outcome", "error")
    assert list(zip(*(rows[name] for name in kept), strict=True)) == [
        *[(0, 0, "accept", "ok", None), (1, 1, "release", "ok", None)],
        (2, 1, "accept", "fail", "INVALID_RECORD_STATE"),
        (2, 1, "accept", "unknown", "0"),
    ]


def test_an_acknowledgement_of_a_range_has_a_type_for_each_of_its_records():
    share = Holds(shares={"worker/1": "s"})
    settled_of = [settled(5, 7, types=(1, 2, 3)), settled(9, 10, types=(2,))]
    rows = partition(acquired=[taken(5, 10)], acknowledged=settled_of, held=share).acknowledgements()
    kinds = ["accept", "release", "reject", "release", "release"]
    assert list(zip(rows["offset"], rows["type"], strict=True)) == [*zip((5, 6, 7, 9, 10), kinds, strict=True)]


def ended(at, committed=True, error=0, call="EndTxn"):
    row = {"instance": "app/1", "connection": 1, "number": at, "asked_us": at, "answered_us": at + 5}
    row |= {"transactional_id": "t", "producer_id": 7, "producer_epoch": 0}
    return row | {"call": call, "committed": committed, "error": error}


def test_a_transaction_ends_with_the_first_answer_without_an_error():
    calls = [
        ended(10, call="AddPartitionsToTxn"),
        ended(20, error=51),
        ended(30),
        ended(50, False),
        ended(70, error=90),
    ]
    rows, sessions = transactions(calls, lambda name, at: 1, {})
    assert [(r["txn"], r["outcome"], r["began_us"], r["requested_us"], r["ended_us"]) for r in rows] == [
        *[(1, "committed", 10, 20, 35), (2, "aborted", 50, 50, 55), (3, "unknown", 70, 70, 75)]
    ]
    times = enumerate(zip("abcd", (12, 40, 60, 90), strict=True))
    requests = [sent(v, (7, 0, n), at=at, offset=n, transactional=True) for n, (v, at) in times]
    of = [row | _times(row, 0) for row in requests]
    log = [logged(n, v, (7, 0, n), transactional=True) for n, v in enumerate("abcd")]
    assert partition(of, log, sessions=sessions).sends()["txn"].tolist() == [1, 2, 3, 4], "the last one is open"


def test_each_producer_of_an_instance_has_its_own_transactions():
    calls = [ended(20), ended(40, False) | {"producer_id": 8}]
    _, sessions = transactions(calls, lambda name, at: 1, {})
    requests = [sent("a", (7, 0, 0), at=10, transactional=True), sent("b", (8, 0, 0), at=11, transactional=True)]
    of = [row | _times(row, 0) for row in requests]
    assert partition(of, sessions=sessions).sends()["txn"].tolist() == [1, 3]


def ends_of(calls, sent=(), lived=lambda name, at: 1):
    first = {("app/1", 7, epoch): at for epoch, at in sent}
    rows, _ = transactions(calls, lived, first)
    return [(row["incarnation"], row["outcome"], row["began_us"], row["ended_us"]) for row in rows]


def started(at, error=0):
    return ended(at, call="InitProducerId", error=error) | {"producer_id": -1}


def test_a_transaction_of_version_2_begins_with_the_first_produce_of_its_epoch():
    """The broker adds its partitions, and each end gives the producer another epoch (KIP-890)."""
    calls = [ended(at) | {"producer_epoch": epoch} for at, epoch in ((30, 4), (90, 5))]
    assert ends_of(calls, [(4, 12), (5, 44)]) == [(1, "committed", 12, 35), (1, "committed", 44, 95)]
    assert ends_of(calls, [(4, 12)])[1] == (1, "committed", 90, 95), "it only has offsets"
    first = [ended(10, call="AddPartitionsToTxn"), ended(30), ended(60, call="AddPartitionsToTxn"), ended(90)]
    assert ends_of(first, [(0, 12)]) == [(1, "committed", 10, 35), (1, "committed", 60, 95)], "one epoch of version 1"


def test_the_end_that_was_asked_for_first_is_the_one_that_was_requested():
    """It has no answer, and the next process of the producer begins."""
    calls = [ended(10, call="AddPartitionsToTxn"), ended(30, error=None), started(60)]
    (row,), _ = transactions(calls, lambda name, at: 1, {})
    assert (row["outcome"], row["requested_us"], row["ended_us"]) == ("unknown", 30, 65)
    (row,), _ = transactions([calls[0], started(60)], lambda name, at: 1, {})
    assert (row["outcome"], row["requested_us"], row["ended_us"]) == ("aborted", 60, 65), "nobody asked before"
    (row,), _ = transactions([calls[0], calls[1] | {"answered_us": None}], lambda name, at: 1, {})
    assert (row["outcome"], row["requested_us"], row["ended_us"]) == ("unknown", 30, 30), "and nobody began again"


def test_a_producer_that_begins_again_has_aborted_what_was_open():
    """KIP-98. What is sent afterwards belongs to another transaction (trap)."""
    added = ended(10, call="AddPartitionsToTxn")
    again = [ended(60, call="AddPartitionsToTxn"), ended(90)]
    assert ends_of([started(5), added, started(40), *again]) == [
        (1, "aborted", 10, 45), (1, "committed", 60, 95)
    ]  # fmt: skip
    assert ends_of([started(5), ended(30) | {"producer_epoch": 1}, started(50)], [(1, 12), (2, 44)]) == [
        (1, "committed", 12, 35), (1, "aborted", 44, 55)
    ]  # fmt: skip
    restarted = [started(50), ended(90) | {"producer_epoch": 3}]
    assert ends_of(restarted, [(2, 44), (3, 70)]) == [(1, "aborted", 44, 55), (1, "committed", 70, 95)]
    twice = [started(5), ended(30) | {"producer_epoch": 1}, started(50), started(70)]
    assert len(ends_of(twice, [(1, 12), (2, 44)])) == 2, "the second one finds nothing open"
    assert ends_of([added, started(40)], [(0, 12)]) == [(1, "aborted", 10, 45)], "it sent after it had begun"
    asked = [added, ended(30, error=14), started(40)]
    assert ends_of(asked) == [(1, "unknown", 10, 45)], "the coordinator may have begun to commit it"
    assert ends_of([added, started(20, error=51), ended(30)]) == [(1, "committed", 10, 35)], "it is refused"


def test_a_producer_that_was_killed_leaves_its_transaction_open_and_the_next_process_ends_it():
    calls = [started(5), started(100), ended(130) | {"producer_epoch": 2}]
    assert ends_of(calls, [(1, 12), (2, 110)], lambda name, at: 1 + (at > 60)) == [(2, "committed", 110, 135)]
    sent_in = [sent("a", (7, 1, 0), at=12, transactional=True) | {"answered_us": 17, "number": 12}]
    _, sessions = transactions([], lambda name, at: 1, {("app/1", 7, 1): 12})
    assert partition(sent_in, sessions=sessions).sends()["txn"].tolist() == [1], (
        "of unknown end, and not outside of one"
    )


def asked(at, offset, **more):
    return {"instance": "billing/1", "connection": 2, "number": at, "asked_us": at, "answered_us": at + 5} | {
        "group": "g", "offset": offset, "error": 0, "generation": 1, "transactional_id": None, "producer_id": -1,
        "sent_us": at, "made": False,
    } | more  # fmt: skip


def test_a_hold_begins_at_the_committed_offset_at_a_reset_or_at_a_seek():
    fetched = [got(4, asked=4, at=100), got(0, asked=0, at=300), got(7, asked=7, at=500)]
    spans = held((50, 200), (250, 400), (450, 600))
    found = partition(
        fetched=fetched, positions=[asked(60, 4), asked(260, -1), asked(460, 5)], held=spans
    ).assignments()
    begun = [
        row for row in zip(found["event"], found["position"], found["source"], strict=True) if row[0] == "assigned"
    ]
    assert begun == [("assigned", 4, "committed"), ("assigned", 0, "reset"), ("assigned", 7, "seek")]
    asked_twice = [asked(70, 9), asked(60, 4)]  # the first answer counts, in whatever order the rows come
    found = partition(fetched=fetched[:1], positions=asked_twice, held=spans).assignments()
    assert (found["position"][0], found["source"][0]) == (4, "committed")


@pytest.mark.parametrize(
    ("answers", "begun"),
    [
        ([asked(60, 4)], (4, "committed")),
        ([asked(20, 9), asked(60, 4)], (4, "committed")),
        ([asked(60, -1)], (4, "reset")),
        ([asked(60, 9)], (4, "seek")),  # it asked what is committed, and began elsewhere
        ([asked(60, 4), asked(80, -1, error=88)], (4, "committed")),
        ([asked(60, -1, error=88)], (4, None)),
        ([asked(60, 4, group="other")], (4, "seek")),
        ([asked(10, 4)], (4, "seek")),  # of the process before
        ([], (4, "seek")),  # it asked nobody
    ],
)
def test_a_reader_without_a_group_begins_where_it_asked_before_its_first_fetch(answers, begun):
    answers = [*answers, asked(300, 7)]
    fetched = [got(2, asked=2, at=14), got(4, asked=4, at=100), got(7, asked=7, at=200)]
    commits = [asked(n, n, instance="billing/1") for n in (17, 150)]
    found = partition(fetched=fetched, positions=answers, commits=commits, ends={"billing/1": [18]}).assignments()
    assert found["incarnation"].tolist() == [1, 2]
    assert (found["position"][1], found["source"][1]) == begun


def fetches(*steps):
    """Return requests: time and offset of each."""
    return [fetch_of(got(0, asked=offset, at=at + 5)) for at, offset in steps]


@pytest.mark.parametrize(
    ("asking", "commits", "parts"),
    [
        (((60, 0), (80, 9), (120, 4)), ((90, 9),), [("assigned", None), ("seek", 4)]),
        (
            ((60, 0), (80, 9), (120, 4), (130, 9), (150, 2)),
            ((90, 9), (140, 9)),
            [("assigned", None), ("seek", 4), ("seek", 2)],
        ),
        (((60, 0), (80, 9), (120, 4), (150, 2)), ((90, 9),), [("assigned", None), ("seek", 4)]),  # nothing new
        (((60, 0), (80, 9), (120, 4)), ((90, 4),), [("assigned", None)]),  # it threw an answer away
        (((60, 0), (80, 4), (120, 6)), ((90, 9),), [("assigned", None)]),  # it committed ahead
        (((60, 0), (80, 9), (120, 4)), ((130, 9),), [("assigned", None)]),
        (((60, 0), (80, 9), (120, 4)), (), [("assigned", None)]),
    ],
)
def test_a_fetch_below_the_own_last_commit_is_a_seek_back(asking, commits, parts):
    made = [asked(at, offset) for at, offset in commits]
    found = partition(fetches=fetches(*asking), commits=made, held=held((50, 200))).assignments()
    begun = [(event, at) for event, at in zip(found["event"], found["position"], strict=True) if event != "revoked"]
    assert begun == [(event, 0 if at is None else at) for event, at in parts]
    assert found["assignment"].tolist() == [*range(1, len(parts) + 1), len(parts)], "one end, of the last part"


@pytest.mark.parametrize("answer", [{"error": 22}, {"answered_us": -1, "error": -1}, {"group": "other"}])
def test_a_fetch_below_a_commit_that_was_not_in_force_is_no_seek_back(answer):
    steps = fetches((60, 0), (80, 9), (120, 4))
    found = partition(fetches=steps, commits=[asked(90, 9, **answer)], held=held((50, 200))).assignments()
    assert "seek" not in found["event"].tolist()


def test_a_commit_below_the_offset_at_which_a_hold_began_as_it_was_told_is_no_seek():
    steps, positions = fetches((60, 4)), [asked(52, 4)]
    found = partition(fetches=steps, positions=positions, commits=[asked(90, 3)], held=held((50, 200)))
    assert +found.set_back == {}


@pytest.mark.parametrize(("later", "rewinds"), [((6,), 1), ((6, 8), 2), ((9,), 0), ((6, 12), 1)])
def test_whether_commits_behind_a_seek_go_back_is_not_decided(later, rewinds):
    """A library that sets its offset back looks the same, as kafka-python 2.2.8 did."""
    steps = fetches((60, 0), (80, 9), (120, 4))
    commits = [asked(90, 9), *(asked(130 + n, offset) for n, offset in enumerate(later))]
    found = partition(fetches=steps, commits=commits, held=held((50, 200)))
    assert +found.set_back == ({"g": rewinds} if rewinds else {}) and not undecided(found)


@pytest.mark.parametrize(("told", "rewinds"), [(9, 1), (4, 0), (5, 0), (-1, 0)])
def test_a_hold_that_begins_below_the_offset_that_it_was_told_may_be_set_back_as_well(told, rewinds):
    found = partition(
        fetches=fetches((60, 4)), positions=[asked(52, told)], commits=[asked(90, 5)], held=held((50, 200))
    )
    assert +found.set_back == ({"g": rewinds} if rewinds else {}) and not undecided(found)


def test_commits_and_records_after_a_seek_belong_to_it():
    steps, commits = fetches((60, 0), (80, 9), (120, 4)), [asked(90, 9), asked(130, 6), asked(100, 9, group="other")]
    found = partition(
        log=[logged(4)], fetched=[got(4, asked=4, at=125)], fetches=steps, commits=commits, held=held((50, 200))
    )
    assert sorted(zip(found.commits()["offset"].tolist(), found.commits()["assignment"].tolist(), strict=True)) == [
        *[(6, 2), (9, 1), (9, 1)]
    ]
    assert delivered(found) == [("billing/1", 2, 4)]


def test_a_hold_without_records_begins_where_it_asked_for_them():
    found = partition(fetches=fetches((60, 7)), positions=[asked(52, -1)], held=held((50, 200))).assignments()
    assert (found["position"][0], found["source"][0]) == (7, "reset")


def test_where_a_reader_without_a_group_to_commit_to_began_is_not_known():
    found = partition(fetched=[got(4, asked=4, at=100)]).assignments()
    assert (found["position"][0], found["source"][0]) == (4, None)


@pytest.mark.parametrize(
    ("answers", "begun"),
    [
        ([asked(60, -1, error=88), asked(70, 4)], (4, "committed")),  # UNSTABLE_OFFSET_COMMIT: it asks again
        ([asked(60, -1, error=88)], (4, None)),
        ([asked(60, -1), asked(70, 4)], (4, "reset")),
    ],
)
def test_an_answer_with_an_error_does_not_say_where_a_hold_begins(answers, begun):
    found = partition(fetched=[got(4, asked=4, at=100)], positions=answers, held=held((50, 200))).assignments()
    assert (found["position"][0], found["source"][0]) == begun


def test_what_a_member_was_told_in_another_hold_does_not_say_where_one_begins():
    fetched = [got(4, asked=4, at=100), got(9, asked=9, at=320)]
    found = partition(fetched=fetched, positions=[asked(60, 4)], held=held((50, 200), (300, 900))).assignments()
    begun = [*zip(found["event"], found["position"], found["source"], strict=True)]
    assert [row for row in begun if row[0] == "assigned"] == [("assigned", 4, "committed"), ("assigned", 9, None)]


def test_a_hold_that_is_to_end_and_has_not_ended_has_no_end():
    """The coordinator has taken the partition (KIP-848), and the member has not said yet that it gave it up."""
    given = held((50, OPEN_US))
    assert partition(held=given).assignments()["event"].tolist() == ["assigned"]


def test_a_hold_that_was_given_up_before_it_was_answered_ends_when_it_began():
    """The member left while its coordinator answered to SyncGroup."""
    found = partition(held=held((50, 40))).assignments()
    assert list(zip(found["event"], found["at_us"], strict=True)) == [("assigned", 50), ("revoked", 50)]


def test_a_commit_belongs_to_the_last_hold_before_it_and_its_outcome_is_the_answer():
    commits = [asked(100, 1), asked(150, 2, error=22), asked(170, 3, answered_us=-1), asked(250, 2)]
    found = partition(commits=commits, held=held((50, 200))).commits()
    assert found["outcome"].tolist() == ["ok", "fail", "unknown", "ok"]
    assert found["error"].tolist()[:2] == [None, "22"]
    in_turn = partition(commits=commits[::-1], held=held((50, 200))).commits()
    assert in_turn["requested_us"].tolist() == found["requested_us"].tolist() == [100, 150, 170, 250]
    assert found["assignment"].tolist() == [1, 1, 1, 1], "the last one came after the member had given up"


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ({"error": 22}, "fail"),
        ({"error": 14}, "fail"),
        ({"error": 15}, "unknown"),
        ({"error": 16}, "unknown"),
        ({"error": 7}, "unknown"),
        ({"error": -1}, "unknown"),
        ({"error": 14, "made": True}, "unknown"),
        ({"error": 14, "made": True, "sent_us": -1}, "fail"),
        ({"error": 0, "made": True}, "ok"),
        ({"error": 15, "transactional_id": "t", "producer_id": 7}, "fail"),
    ],
)
def test_a_refused_commit_may_be_in_force_if_it_was_refused_after_its_append(answer, outcome):
    assert partition(commits=[asked(100, 1, **answer)], held=held((50, 200))).commits()["outcome"].tolist() == [outcome]


LOST = {"answered_us": -1, "error": -1}
NEW = {"connection": 3}


@pytest.mark.parametrize(
    ("commits", "once"),
    [
        # the connection ended, and the client sends both again on a new one
        ([asked(60, 5, **LOST), asked(70, 6, **LOST), asked(90, 5, **NEW), asked(91, 6, **NEW)], [(60, 5), (70, 6)]),
        ([asked(60, 5, **LOST), asked(70, 6, **LOST), asked(90, 5, **NEW), asked(99, 6, **NEW)], [(60, 5), (70, 6)]),
        ([asked(60, 5, **LOST), asked(90, 5, **LOST | NEW), asked(120, 5, connection=4)], [(60, 5)]),
        ([asked(60, 5, error=16), asked(61, 6, error=16), asked(90, 5), asked(91, 6)], [(60, 5), (61, 6)]),
        # 6 was answered before, so the application commits 5 again
        ([asked(60, 5, **LOST), asked(70, 6, **NEW), asked(90, 5, **NEW)], [(60, 5), (70, 6), (90, 5)]),
        ([asked(60, 5), asked(70, 6), asked(90, 5, **NEW)], [(60, 5), (70, 6), (90, 5)]),
        ([asked(60, 5, error=22), asked(90, 5)], [(60, 5), (90, 5)]),  # certainly not in force
        ([asked(60, 5, **LOST), asked(90, 5)], [(60, 5), (90, 5)]),  # the same connection sends nothing again
        ([asked(60, 5, error=16), asked(62, 5)], [(60, 5), (62, 5)]),  # before the answer
        ([asked(60, 5, **LOST), asked(90, 5, **NEW, generation=2)], [(60, 5), (90, 5)]),
        ([asked(60, 5, **LOST), asked(90, 5, **NEW, instance="billing/2")], [(60, 5), (90, 5)]),
    ],
)
def test_a_commit_that_the_client_sends_again_is_one_and_in_flight_from_its_first_request_on(commits, once):
    found = partition(commits=commits, held=held((50, 200))).commits()
    assert list(zip(found["requested_us"].tolist(), found["offset"].tolist(), strict=True)) == once
    last = [max(row["answered_us"] for row in commits if row["offset"] == offset) for _, offset in once]
    assert len(once) == len(commits) or found["completed_us"].tolist() == last


def test_a_commit_of_the_next_process_is_another_one():
    commits = [asked(60, 5, **LOST), asked(90, 5, **NEW)]
    found = partition(commits=commits, held=held((50, 200)), ends={"billing/1": [80]}).commits()
    assert found["requested_us"].tolist() == [60, 90] and found["outcome"].tolist() == ["unknown", "ok"]


def test_a_commit_in_a_transaction_is_one_if_the_transaction_was_committed():
    own = {"instance": "app/1", "transactional_id": "t", "producer_id": 7, "generation": -1}
    commits = [asked(at, at, **own) for at in (12, 40, 60, 90)]
    _, sessions = transactions([ended(30), ended(50, False), ended(70, error=90)], lambda name, at: 1, {})
    found = partition(commits=commits, sessions=sessions).commits()
    assert found["outcome"].tolist() == ["ok", "fail", "unknown", "unknown"]
    refused = partition(commits=[asked(12, 12, **own | {"error": 47})], sessions=sessions).commits()
    assert refused["outcome"].tolist() == ["fail"], "though the transaction was committed"


def call(kind, at, partitions=None, **more):
    row = {"instance": "billing/1", "group": "g", "connection": 1, "number": at, "call": kind, "member_id": "m"}
    row |= {
        "given_member_id": None,
        "instance_id": None,
        "generation": 1,
        "given_generation": None,
        "protocol": "range",
    }
    row |= {"asked_us": at, "answered_us": at + 5, "error": 0, "owned": None}
    assigned = None if partitions is None else [{"topic": "orders", "partitions": partitions}]
    return row | {"assigned": assigned} | more


def spans(*calls, lived=lambda name, at: 1):
    found = holds(calls, lived)
    return {number: [(h.begin_us, h.end_us, h.how) for h in of] for (_, number), of in sorted(found.of.items())}


OPEN = (1 << 62, "")


def test_an_eager_member_gives_all_up_when_it_joins_and_a_cooperative_one_what_it_loses():
    calls = [call("JoinGroup", 10), call("SyncGroup", 20, [0, 1]), call("JoinGroup", 100), call("SyncGroup", 110, [0])]
    assert spans(*calls) == {0: [(25, 100, "revoked"), (115, *OPEN)], 1: [(25, 100, "revoked")]}
    for protocol in ("cooperative-sticky", "stream"):
        cooperative = [row | {"protocol": protocol} for row in calls]
        assert spans(*cooperative) == {0: [(25, *OPEN)], 1: [(25, 115, "revoked")]}


def test_a_cooperative_member_stays_one_after_an_answer_that_names_no_protocol():
    begin = call("SyncGroup", 20, [0], protocol="cooperative-sticky")
    beat, join = call("Heartbeat", 50, protocol=None), call("JoinGroup", 100, owned=[], protocol="cooperative-sticky")
    assert spans(begin, beat, join) == {0: [(25, *OPEN)]}
    eager = [row | {"protocol": row["protocol"] and "range"} for row in (begin, beat, join)]
    assert spans(*eager) == {0: [(25, 100, "revoked")]}


def test_a_member_has_the_last_id_that_it_was_given():
    join = call("JoinGroup", 10, member_id="", given_member_id="m-1")
    again = call("JoinGroup", 50, member_id="m-1", given_member_id="m-2")
    nameless = call("SyncGroup", 20, [0], member_id=None)
    own = call("SyncGroup", 20, [0], member_id="m-1")
    late = nameless | {"asked_us": 60}
    for calls, member in (([join, nameless], "m-1"), ([join, again, late], "m-2"), ([own], "m-1")):
        assert [hold.member for hold in held_by(calls)] == [member]


def held_by(calls):
    return [hold for of in holds(calls, lambda name, at: 1).of.values() for hold in of]


@pytest.mark.parametrize(("kind", "generation"), [("SyncGroup", 3), ("ConsumerGroupHeartbeat", 4)])
def test_the_generation_of_a_hold_is_asked_for_by_a_classic_member_and_given_to_another(kind, generation):
    """A member of KIP-848 asks with the epoch that it had before."""
    (hold,) = held_by([call(kind, 20, [0], generation=3, given_generation=4)])
    assert hold.generation == generation


def test_a_member_that_is_fenced_has_lost_its_partitions_and_one_that_leaves_has_given_them_up():
    begin = call("SyncGroup", 20, [0])
    assert spans(begin, call("Heartbeat", 50, error=25)) == {0: [(25, 55, "lost")]}
    assert spans(begin, call("LeaveGroup", 50)) == {0: [(25, 50, "revoked")]}
    assert spans(begin, call("Heartbeat", 50, generation=-1)) == {0: [(25, *OPEN)]}, "only KIP-848 leaves by an epoch"
    assert spans(begin, call("Heartbeat", 50, error=27)) == {0: [(25, *OPEN)]}, "a rebalance is no loss"


@pytest.mark.parametrize(
    ("error", "lost"),
    [(22, True), (25, True), (82, True), (110, True), (14, False), (15, False), (16, False), (27, False), (79, False)],
)
def test_only_an_answer_by_which_it_is_no_member_takes_the_partitions_of_a_member(error, lost):
    found = spans(call("SyncGroup", 20, [0]), call("Heartbeat", 50, error=error))
    assert found == {0: [(25, 55, "lost") if lost else (25, *OPEN)]}


def test_only_an_answer_without_an_error_gives_a_member_partitions():
    assert spans(call("SyncGroup", 20, [0], error=27)) == {}
    assert spans(call("SyncGroup", 20, [0], answered_us=None, error=None)) == {}
    assert spans(call("ConsumerGroupHeartbeat", 20, [0], generation=-1)) == {}, "it has left"
    unread = holds([call("SyncGroup", 20), call("ConsumerGroupHeartbeat", 30, group="h")], lambda name, at: 1)
    assert unread.unread == {"g"} and unread.members == {"billing/1"}, "a heartbeat need not say anything new"


def test_a_member_keeps_what_an_answer_without_an_assignment_does_not_name():
    beat = "ConsumerGroupHeartbeat"
    assert spans(call(beat, 10, [0]), call(beat, 50)) == {0: [(15, *OPEN)]}
    assert spans(call(beat, 10, [0], generation=0)) == {0: [(15, *OPEN)]}, "it joins with epoch 0"
    assert spans(call(beat, 10, [0], generation=None)) == {0: [(15, *OPEN)]}
    given_up = call(beat, 95, owned=[])
    assert spans(call(beat, 10, [0]), call(beat, 90, []), given_up) == {0: [(15, 95, "revoked")]}
    assert spans(call(beat, 10, [0]), given_up) == {0: [(15, *OPEN)]}, "it does not own yet what it was given"


def test_a_topic_without_a_known_name_is_none_that_a_member_holds():
    """KIP-848 names topics by id, and the relay may not know the name of one."""
    named, nameless = {"topic": "orders", "partitions": [0]}, {"topic": None, "partitions": [0]}
    assert spans(call("ConsumerGroupHeartbeat", 10, assigned=[nameless, named])) == {0: [(15, *OPEN)]}


def test_a_member_of_the_new_protocol_holds_a_partition_until_it_says_that_it_has_given_it_up():
    beat = "ConsumerGroupHeartbeat"
    owned = [{"topic": "orders", "partitions": [0]}]
    both = call(beat, 70, owned=[{"topic": "orders", "partitions": [0, 1]}])
    calls = [call(beat, 10, [0, 1]), call(beat, 50, [0]), both, call(beat, 80, owned=owned)]
    assert spans(*calls, call(beat, 90, generation=-1)) == {0: [(15, 90, "revoked")], 1: [(15, 80, "revoked")]}


def test_a_killed_member_says_nothing_and_its_next_process_begins_anew():
    calls = [call("SyncGroup", 20, [0]), call("JoinGroup", 100), call("SyncGroup", 110, [0])]
    assert spans(*calls, lived=lambda name, at: 1 + (at > 60)) == {0: [(25, *OPEN), (115, *OPEN)]}


def test_two_groups_of_one_instance_have_their_own_holds():
    """A connection may carry two groups (trap)."""
    other = {"group": "h", "member_id": "n"}
    calls = [call("SyncGroup", 20, [0]), call("SyncGroup", 30, [0], **other), call("LeaveGroup", 50, **other)]
    assert spans(*calls) == {0: [(25, *OPEN), (35, 50, "revoked")]}


def of_two(kind, **more):
    """Return the first calls of two members in one process: m holds partition 0, and n partition 1."""
    begun = [call("JoinGroup", 10, member_id="", given_member_id="m", **more)]
    begun.append(call("JoinGroup", 11, member_id="", given_member_id="n", connection=2, **more))
    begun.append(call(kind, 20, [0], member_id="m", **more))
    return [*begun, call(kind, 21, [1], member_id="n", connection=2, **more)]


@pytest.mark.parametrize(
    ("kind", "more"),
    [("SyncGroup", {}), ("SyncGroup", {"protocol": "cooperative-sticky"}), ("ConsumerGroupHeartbeat", {})],
)
def test_two_members_in_one_process_each_hold_their_own_partitions(kind, more):
    """Kafka Streams and listeners of Spring have a member in each thread (trap)."""
    calls = of_two(kind, **more)
    going_on = [call("Heartbeat", 90, member_id=member) for member in "mn"]
    assert spans(*calls, *going_on) == {0: [(25, *OPEN)], 1: [(26, *OPEN)]}
    left = call("LeaveGroup", 50, member_id="n", connection=2)
    assert spans(*calls, left, going_on[0]) == {0: [(25, *OPEN)], 1: [(26, 50, "revoked")]}
    first_left = call("LeaveGroup", 50, member_id="m"), call("LeaveGroup", 90, member_id="n", connection=2)
    assert spans(*calls, *first_left) == {0: [(25, 50, "revoked")], 1: [(26, 90, "revoked")]}
    moved = [call(kind, 60, [], member_id="m", **more), call(kind, 70, [1, 0], member_id="n", connection=2, **more)]
    if kind == "SyncGroup":
        assert spans(*calls, *moved, *going_on) == {0: [(25, 65, "revoked"), (75, *OPEN)], 1: [(26, *OPEN)]}


def test_two_members_that_are_given_an_id_with_their_partitions_are_two():
    """The first version of KIP-848: the coordinator makes the id of a member."""
    beat = "ConsumerGroupHeartbeat"
    begun = [call(beat, at, [at - 20], member_id="", given_member_id=own) for at, own in ((20, "m"), (21, "n"))]
    owned = [[{"topic": "orders", "partitions": [number]}] for number in (0, 1)]
    beats = [call(beat, at, member_id=own, owned=owned[n]) for n, (at, own) in enumerate(((90, "m"), (91, "n")))]
    assert spans(*begun, *beats) == {0: [(25, *OPEN)], 1: [(26, *OPEN)]}


def test_an_eager_member_that_joins_gives_up_nothing_of_another_member_in_its_process():
    calls, beats = of_two("SyncGroup"), [call("Heartbeat", 90, member_id=member) for member in "mn"]
    for again in ({"member_id": "m"}, {"member_id": "m", "given_member_id": "m-2"}):
        assert spans(*calls, call("JoinGroup", 50, **again), *beats[1:], call("Heartbeat", 91, member_id="m-2")) == {
            0: [(25, 50, "revoked")],
            1: [(26, *OPEN)],
        }
    asked = call("JoinGroup", 50, member_id=None, answered_us=None, error=None, connection=3)
    assert spans(*calls, asked, *beats) == {0: [(25, *OPEN)], 1: [(26, *OPEN)]}, "a third one, without an answer"
    expelled = call("LeaveGroup", 50, member_id="of another process")
    assert spans(*calls, expelled, *beats) == {0: [(25, *OPEN)], 1: [(26, *OPEN)]}, "an admin client removes a member"


def test_a_member_that_joins_with_another_id_after_the_last_call_with_the_one_before_is_the_same():
    """The near miss: a consumer was closed without LeaveGroup, and the same thread began restarted."""
    begin, join = call("SyncGroup", 20, [0]), call("JoinGroup", 50, member_id="", given_member_id="n")
    assert spans(begin, join) == {0: [(25, 50, "revoked")]}
    assert spans(begin, join, call("SyncGroup", 60, [0], member_id="n")) == {0: [(25, 50, "revoked"), (65, *OPEN)]}
    unanswered = call("JoinGroup", 50, member_id=None, answered_us=None, error=None)
    assert spans(begin, unanswered) == {0: [(25, 50, "revoked")]}
    before = unanswered | {"asked_us": 5, "number": 5}
    assert spans(before, begin, unanswered) == {0: [(25, 50, "revoked")]}


def test_what_a_member_of_a_share_group_says_is_of_its_group_and_holds_nothing():
    found = holds([call("ShareGroupHeartbeat", 10, [0])], lambda name, at: 1)
    assert (found.shares, found.members, dict(found.of)) == ({"billing/1": "g"}, set(), {})


def captured(run, payloads=None, unread=(), missing=None):
    """Write what says of a capture whether it is whole."""
    folder = run.path / "wire"
    (folder / "log").mkdir(parents=True, exist_ok=True)
    if payloads is not None:
        (folder / "seal.json").write_text(json.dumps({"failure": payloads}))
    if missing is not None:
        (folder / "log" / "missing.json").write_text(json.dumps(missing))
    names = ("side", "api", "version", "why", "frames")
    (folder / "unread.parquet").mkdir(exist_ok=True)
    schema = pa.schema([(n, pa.int64() if n in ("api", "version", "frames") else pa.string()) for n in names])
    table = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in unread], schema)
    pq.write_table(table, folder / "unread.parquet" / "part-0.parquet")


def test_a_capture_that_is_not_whole_says_why(tmp_path):
    run = Run.create(tmp_path, "run")
    captured(run, "", missing={})
    assert incomplete(run) == []
    captured(run, "no space left", [("answer", 1, 18, "version 18", 3)], {"orders/0": "no batch from offset 7 on"})
    assert incomplete(run) == [
        "the capture of the wire is not complete: no space left",
        "3 frames of the capture could not be read (answer Fetch version 18: version 18)",
        "the batches of orders/0 were not all captured: no batch from offset 7 on",
    ]


def test_a_capture_without_a_seal_or_without_the_log_says_so(tmp_path):
    run = Run.create(tmp_path, "run")
    captured(run)
    assert incomplete(run) == [
        "the capture of the wire was never sealed: its proxy was killed",
        "the batches of the final log were not captured",
    ]


APPS = """
title: Billing
topics: [{name: orders}, {name: invoices}]
producers: [{name: shop, topic: orders, value: {template: 'order {id}'}}]
apps: [{name: billing, command: "sleep {bootstrap}", reads: [orders]}]
effects: [{name: done, http: {path: /done, port: 8099}, id: $.id}]
"""


def test_a_batch_of_an_unknown_producer_is_named_also_where_only_applications_write_nothing(tmp_path):
    for n, (text, found) in enumerate([(APPS, 1), (APPS.replace(", {name: invoices}", ""), 0)]):
        fake = FakeRun(tmp_path / str(n), text)
        captured(fake.run, "")
        batch = {"topic": "invoices", "producer_id": 7, "control": None}
        tables = {"log": [batch], "produced": [batch | {"producer_id": 6}], "transactions": [{"given_producer_id": 5}]}
        for name, rows in tables.items():
            table_path(fake.run, name).mkdir()
            schema = pa.schema([("topic", pa.string()), ("producer_id", pa.int64()), ("control", pa.string())])
            table = pa.Table.from_pylist(rows, schema if name != "transactions" else None)
            pq.write_table(table, table_path(fake.run, name) / "part-0.parquet")
        names = [sentence.split(", which")[0] for sentence in bypasses(fake.run, fake.resolved.scenario)]
        assert names == ["invoices has records of producer id 7"] * found


def test_a_rule_that_is_not_decided_on_the_wire_shows_no_finding():
    row = {"split": "", "scope": "billing", "count": 3, "examined": 9, "undecided": 0, "why": ""}
    tables = {"summary": [{"check": "overcommit"} | row, {"check": "lost_write"} | row], "undecided": []}
    tables["anomalies"] = [{"check": "overcommit"}, {"check": "lost_write"}]
    gap = {"check": "wire", "scope": "", "why": "never sealed", "count": 1}
    found = visible(tables, [gap, {"check": "lost_write", "scope": "orders", "why": "twins", "count": 2}])
    hidden, decided = found["summary"]
    assert (hidden["count"], hidden["examined"], hidden["undecided"]) == (0, 0, 9) and "effects" in hidden["why"]
    assert decided["count"] == 3 and found["anomalies"] == [{"check": "lost_write"}]
    assert [(r["check"], r["count"]) for r in found["undecided"]] == [("wire", 1), ("overcommit", 9)]
