"""What is counted as undecided of the rows of a partition, and near misses, which are decided."""

from __future__ import annotations

import pytest

from checks.wire.partition import ABSENT, UNMATCHED
from tests.checks.wire.test_written import got, ledger, logged, partition, producers, sent, undecided

LOST = sent("c", outcome="unknown", kept=False)
"""A batch that may be any batch of the log without a producer id."""


def test_a_batch_without_an_answer_that_is_not_found_has_not_been_deleted():
    """With acks=0, nobody says where it is."""
    assert undecided(ledger([sent("a", outcome="none", kept=False)])) == {("lost_write", ABSENT): 1}


@pytest.mark.parametrize("producer", [0, 9])
def test_a_batch_with_a_producer_id_is_none_that_was_sent_without_one(producer):
    assert not undecided(ledger([LOST], logged(0, "a", (producer, 0, 0))))


def test_a_batch_that_was_found_is_not_another_one_as_well():
    assert not undecided(ledger([sent("a"), LOST], logged(0, "a")))
    found = ledger([sent("a"), LOST], logged(0, "a"), logged(1, "b"))
    assert undecided(found)["phantom_write", UNMATCHED] == 1


def test_records_that_are_not_in_the_log_any_more_are_none_that_a_fault_wrote():
    """A reader has fetched them before the log was truncated."""
    assert not undecided(partition(fetched=[got(0, "a", (9, 0, 0))], by_fault=True))


def test_a_batch_that_is_not_in_the_log_has_no_copy_in_another_batch():
    requests = [sent("a", (7, 0, 0), "unknown", kept=False), sent("b", (8, 0, 0), kept=False)]
    assert not undecided(ledger(requests, logged(0, "b", (8, 0, 0))))


def test_a_batch_that_compaction_emptied_has_a_known_number_of_records():
    assert not undecided(ledger([], logged(0, "a", records=0)))


def test_the_last_batch_of_a_process_is_in_no_later_one():
    assert not undecided(ledger([sent("a", outcome="unknown", kept=False)], logged(0, "a", kept=False)))


def test_a_record_of_nobody_is_no_twin_though_there_are_twins():
    found = ledger([sent("a"), sent("a", offset=1)], logged(0, "a"), logged(1, "z", (9, 0, 0)))
    assert producers(found.log()) == ["? orders", None] and found.log()["incarnation"].tolist() == [1, -1]


def test_a_record_that_is_found_by_its_hash_is_its_own_in_a_batch_that_may_be_another_one():
    found = ledger([LOST, sent("b", outcome="unknown")], logged(0, "ab"))
    assert producers(found.log()) == ["? orders", "app/1"]
