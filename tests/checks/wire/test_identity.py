"""Near misses of identity: what makes a batch of the log, or of an answer, the one that was sent."""

from __future__ import annotations

import pytest

from checks.wire.coordination import Holds
from checks.wire.ledger import WRITTEN
from checks.wire.partition import Partition
from tests.checks.wire.test_written import got, held, ledger, logged, partition, producers, records, sent, tables

IDEMPOTENT = (7, 0, 0)


def test_an_idempotent_batch_is_not_the_one_of_another_producer_at_its_acknowledged_offset():
    found = ledger([sent("a", IDEMPOTENT, offset=8)], logged(8, "a", (9, 0, 0)))
    assert records(found) == [("ok", []), ("", [8])]


def test_records_are_looked_for_by_hash_only_where_neither_side_has_a_producer_id():
    assert records(ledger([sent("a", IDEMPOTENT)], logged(0, "a"))) == [("ok", []), ("", [0])]
    found = ledger([sent("a", outcome="unknown")], logged(0, "a", (9, 0, 0)))
    assert records(found) == [("unknown", []), ("", [0])]


def test_a_batch_of_another_length_or_another_time_of_the_broker_is_not_the_one_at_its_position():
    longer = ledger([sent("ac", offset=8, kept=False)], logged(8, "abc", kept=False))
    assert producers(longer.log()) == [None] * 3
    given = logged(8, "a", kept=False, log_append_time=True, crc=1)
    assert records(ledger([sent("a", offset=8, append_us=9000, kept=False)], given)) == [("unknown", []), ("", [8])]


def test_a_batch_that_is_found_by_its_checksum_is_not_found_once_more_by_its_position():
    found = ledger([sent("a", offset=8)], logged(3, "a"), logged(8, "a", crc=1))
    assert records(found) == [("ok", [3]), ("", [8])]


@pytest.mark.parametrize("producer", [0, 7])
def test_a_sequence_is_the_identity_whatever_the_checksum_is(producer):
    one = (producer, 0, 0)
    assert records(ledger([sent("a", one)], logged(0, "a", one, crc=1))) == [("ok", [0])]


def test_the_offset_of_a_refusal_is_not_where_the_batch_is():
    found = ledger([sent("a", outcome="fail", kept=False, base_offset=8)], logged(8, "a", kept=False, crc=1))
    assert records(found) == [("unknown", []), ("", [8])]


def test_the_time_that_the_broker_gave_is_the_one_of_the_answer_that_was_no_refusal():
    appended = {"log_append_time": True, "max_timestamp_us": 9000, "crc": 1, "kept": False}
    requests = [sent("a", outcome="fail", kept=False), sent("a", offset=8, append_us=9000, kept=False)]
    assert records(ledger(requests, logged(8, "a", **appended))) == [("ok", [8])]


def test_a_batch_that_the_broker_compressed_again_is_found_in_an_answer_after_another_answer():
    """The log was truncated after the answer."""
    requests = [sent("a", at=10), sent("b", at=20, offset=8, kept=False)]
    fetched = [got(0, "a"), got(8, "b", asked=8, crc=1)]
    found = partition([row | {"number": 1} for row in requests], [logged(0, "a")], fetched, held=held((0, 500)))
    assert found.deliveries()["seq"].tolist() == [0, 1]


def test_a_batch_that_was_appended_twice_takes_its_first_place_among_those_of_other_producers():
    first, other, second = (7, 0, 0), (8, 0, 0), (7, 0, 1)
    requests = [sent(value, one) for value, one in zip("abc", (first, other, second), strict=True)]
    log = [logged(n, v, one) for n, (v, one) in enumerate(zip("abca", (first, other, second, first), strict=True))]
    assert ledger(requests, *log).log()["seq"].tolist() == [0, 1, 2, 0]


def test_a_batch_that_is_sent_when_its_acknowledgement_comes_is_no_twin():
    again = [sent("a", at=10, offset=0), sent("a", at=15, outcome="unknown")]
    assert records(ledger(again, logged(0, "a"), logged(1, "a"))) == [("ok", [0, 1])]


def test_a_send_has_an_offset_only_if_an_answer_named_it_and_it_is_there():
    assumed = ledger([sent("ab", outcome="none")], logged(0, "ab")).sends()
    assert assumed["outcome"].tolist() == ["ok", "ok"] and assumed["offset"].tolist() == [-1, -1]
    unsure = ledger([sent("a", offset=8, kept=False)]).sends()
    assert unsure["outcome"].tolist() == ["unknown"] and unsure["offset"].tolist() == [-1]


def test_a_record_that_was_fetched_is_the_one_of_its_batch_though_the_log_has_another_one_at_its_offset():
    """The log was truncated, and a part of a batch that was sent again took the offset."""
    requests = [sent("z", IDEMPOTENT, at=10), sent("ab", outcome="unknown", at=20)]
    rows = [row | {"answered_us": -1, "number": 1} for row in requests]
    found = partition(rows, [logged(0, "a")], [got(0, "z", IDEMPOTENT)], held=held((0, 500)))
    assert found.log()["seq"].tolist() == [1] and found.deliveries()["seq"].tolist() == [0]


@pytest.mark.parametrize("table", WRITTEN)
def test_each_table_names_the_partition_of_its_rows(table):
    rows = getattr(ledger([sent("a")], logged(0, "a")), table)()
    assert (rows["topic"], rows["partition"]) == ("orders", 0)


def test_a_record_that_was_fetched_was_sent_with_its_first_request():
    requests = [sent("a", IDEMPOTENT, "fail", at=10), sent("a", IDEMPOTENT, at=20)]
    fetched = [got(0, "a", IDEMPOTENT), got(1, "z", (9, 0, 0), asked=1)]
    rows = [row | {"number": 1} for row in requests]
    found = partition(rows, [logged(0, "a", IDEMPOTENT)], fetched, held=held((0, 500))).deliveries()
    assert found["sent_us"].tolist() == [10, -1]


def test_no_two_partitions_have_a_seq_in_common():
    of = tables([sent("ab", IDEMPOTENT, at=10) | {"number": 1}], [], [], {})
    places = [(number, topic) for number in (0, 1, 8191) for topic in (0, 1)]
    ledgers = [Partition("orders", n, of, {}, "token", Holds(), {}, topic_number=topic) for n, topic in places]
    assert len({seq for one in ledgers for seq in one.sends()["seq"].tolist()}) == 2 * len(places)


def test_equal_records_of_two_batches_without_an_answer_are_two_records():
    """With acks=0, nothing is sent again."""
    requests = [sent("ab", outcome="none"), sent("a", outcome="none")]
    assert ledger(requests, logged(0, "ab"), logged(2, "a")).log()["seq"].tolist() == [0, 1, 2]
