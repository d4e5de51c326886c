"""Near misses of reading: which hold records and commits belong to, where it began, and what an abort takes away."""

from __future__ import annotations

import pytest

from checks.wire.coordination import Holds
from tests.checks.wire.test_written import (
    LOST,
    NEW,
    asked,
    delivered,
    ended,
    fetches,
    got,
    held,
    logged,
    partition,
    sent,
    settled,
    taken,
    transactions,
)

PRODUCER = (7, 0, 0)
OTHER = "billing/2"


def begun(found):
    """Return position, source and time of each begin of a hold."""
    rows = found.assignments()
    columns = (rows[name] for name in ("event", "position", "source", "at_us"))
    return [row for event, *row in zip(*columns, strict=True) if event in ("assigned", "seek")]


def test_only_the_member_that_held_a_partition_was_given_its_records():
    held_by_one = held((0, 500))
    held_by_one.members.add(OTHER)
    found = partition(log=[logged(0)], fetched=[got(0, instance=OTHER), got(0, at=110)], held=held_by_one)
    assert delivered(found) == [("billing/1", 1, 0)]
    commits = partition(commits=[asked(60, 1), asked(70, 1, instance=OTHER)], held=held_by_one).commits()
    assert commits["assignment"].tolist() == [1, -1]


def test_a_hold_includes_the_microseconds_of_its_begin_and_its_end():
    fetched = [got(n, asked=n, at=at) for n, at in enumerate((49, 50, 200, 201))]
    assert [offset for *_, offset in delivered(partition(fetched=fetched, held=held((50, 200))))] == [1, 2]


def test_messages_of_an_old_format_whose_number_is_unknown_are_not_delivered():
    fetched = [got(0, records=-1), got(1, "b", asked=1, at=110)]
    assert [offset for *_, offset in delivered(partition(fetched=fetched, held=held((0, 500))))] == [1]


@pytest.mark.parametrize(
    ("aborted", "more", "kept"),
    [
        ([{"producer_id": 7, "first_offset": 0}], {}, []),
        ([{"producer_id": 8, "first_offset": 0}], {}, [0]),  # another producer
        ([{"producer_id": 7, "first_offset": 0}], {"transactional": False}, [0]),
        ([], {}, [0]),
        (None, {}, [0]),  # an answer without the list
    ],
)
def test_an_abort_takes_the_records_in_a_transaction_of_its_own_producer(aborted, more, kept):
    batch = got(0, "a", PRODUCER, **{"transactional": True, "aborted": aborted} | more)
    assert [offset for *_, offset in delivered(partition(fetched=[batch], held=held((0, 500))))] == kept


def test_a_fetch_in_a_later_hold_is_no_seek_of_an_earlier_one():
    """The group's offset was set back in between."""
    found = partition(
        fetches=fetches((60, 0), (80, 9), (260, 4)),
        positions=[asked(252, 4)],
        commits=[asked(90, 9)],
        held=held((50, 200), (250, 400)),
    )
    assert found.assignments()["event"].tolist() == ["assigned", "revoked", "assigned", "revoked"]


def test_a_part_of_a_hold_after_a_seek_begins_with_it():
    found = partition(
        fetches=fetches((60, 0), (80, 9), (120, 4)),
        positions=[asked(52, 0)],
        commits=[asked(90, 9)],
        held=held((50, 200)),
    )
    assert begun(found) == [[0, "committed", 57], [4, "seek", 120]]


@pytest.mark.parametrize("offset", [0, 4])
def test_the_first_offset_of_a_partition_may_be_a_committed_one(offset):
    found = partition(fetches=fetches((60, offset)), positions=[asked(52, offset)], held=held((50, 200)))
    assert begun(found) == [[offset, "committed", 57]]


@pytest.mark.parametrize("other", [{"instance": OTHER}, {"group": "other"}])
def test_what_another_reader_was_told_is_not_where_a_hold_begins(other):
    reported = asked(52, 4, **other)
    assert begun(partition(fetches=fetches((60, 4)), positions=[reported], held=held((50, 200)))) == [[4, None, 50]]
    alone = partition(fetches=fetches((60, 4)), positions=[reported], commits=[asked(90, 5)])
    assert begun(alone) == [[4, "seek", 60]], "nor when one of a reader without a group"


def test_a_reader_without_a_group_begins_with_the_answer_before_its_first_fetch():
    found = partition(fetches=fetches((60, 4)), positions=[asked(52, 4), asked(58, 5)], commits=[asked(90, 5)])
    assert begun(found) == [[4, "committed", 57]], "the next answer came after that"


@pytest.mark.parametrize("first", [{"instance": OTHER}, {"asked_offset": -1}])
def test_where_a_hold_begins_is_its_own_first_fetch_with_an_offset(first):
    other, own = fetches((55, 9), (60, 4))
    assert begun(partition(fetches=[other | first, own], held=held((50, 200))))[0] == [4, None, 50]


def test_a_hold_in_which_nothing_was_asked_has_no_position():
    found = partition(fetches=fetches((320, 9)), held=held((50, 200), (300, 900)))
    assert begun(found) == [[None, None, 50], [9, None, 300]]


def test_a_reader_without_a_group_that_may_be_set_back_is_named_by_itself():
    found = partition(fetches=fetches((60, 4)), positions=[asked(52, 9)], commits=[asked(90, 5)])
    assert +found.set_back == {"billing/1": 1}


def test_the_highest_offset_that_a_hold_was_told_counts():
    found = partition(
        fetches=fetches((60, 4)),
        positions=[asked(52, 9), asked(54, 3)],
        commits=[asked(90, 5)],
        held=held((50, 200)),
    )
    assert +found.set_back == {"g": 1}


def test_a_commit_without_an_answer_in_a_transaction_that_was_committed_is_one():
    own = {"instance": "app/1", "transactional_id": "t", "producer_id": 7, "generation": -1}
    _, sessions = transactions([ended(30)], lambda name, at: 1, {})
    found = partition(commits=[asked(12, 12, **own | LOST)], sessions=sessions).commits()
    assert found["outcome"].tolist() == ["ok"]


def test_nothing_is_stable_while_a_transaction_is_open_from_the_first_offset_on():
    assert partition(log=[logged(0, last_stable=0)]).log()["committed"].tolist() == [None]


def test_an_acquired_record_is_the_one_of_the_log_at_its_offset_and_nobodys_behind_the_log():
    worker = Holds(shares={"worker/1": "s"})
    for values, producers in (("a", ["app/1", None, None]), ("ab", ["app/1", "app/1", None])):
        own = [sent(values, PRODUCER, at=10) | {"number": 1}]
        found = partition(own, [logged(0, values, PRODUCER)], acquired=[taken(0, 2)], held=worker).acquisitions()
        assert found["producer"].tolist() == producers
        assert found["sent_us"].tolist() == [-1 if name is None else 10 for name in producers]


def test_an_acknowledgement_without_an_answer_is_complete_when_it_was_asked_for():
    worker = Holds(shares={"worker/1": "s"})
    lost = settled(0, 0) | {"answered_us": -1}
    found = partition(acquired=[taken(0, 0)], acknowledged=[lost, settled(0, 0, at=170)], held=worker)
    assert found.acknowledgements()["completed_us"].tolist() == [150, 175]


@pytest.mark.parametrize(
    ("error", "name"),
    [(6, "NOT_LEADER_OR_FOLLOWER"), (74, "FENCED_LEADER_EPOCH"), (121, "INVALID_RECORD_STATE"), (122, "122")],
)
def test_an_acknowledgement_that_was_refused_says_why(error, name):
    worker = Holds(shares={"worker/1": "s"})
    found = partition(acquired=[taken(0, 0)], acknowledged=[settled(0, 0, error=error)], held=worker)
    assert found.acknowledgements()["error"].tolist() == [name]


def test_a_later_commit_that_has_no_answer_yet_does_not_say_that_the_application_commits_again():
    commits = [asked(60, 5, **LOST), asked(70, 6, **NEW, answered_us=95), asked(90, 5, **NEW)]
    found = partition(commits=commits, held=held((50, 200))).commits()
    assert list(zip(found["requested_us"].tolist(), found["offset"].tolist(), strict=True)) == [(60, 5), (70, 6)]
