"""The history of commits, from batches as a broker returns them: each finding, a clean history, and a near miss."""

from __future__ import annotations

import csv
import io
import struct
from typing import Any

import pytest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from chaos.forensics import commits
from chaos.forensics.commits import History, beyond, judge
from chaos.forensics.model import Findings, Group, Place
from chaos.kafka.offsets_log import OFFSETS_TOPIC
from chaos.kafka.partition import TopicPartition
from chaos.kafka.schemas import ConsumerGroupMemberMetadataValue, GroupMetadataValue
from tests.chaos.kafka.test_offset_records import key, text
from tests.chaos.kafka.test_offsets_log import batch, marker

Record = tuple[bytes, bytes | None]


def to(offset: int | None, partition: int = 3) -> Record:
    """Return a commit of the group `billing` on orders; None removes the offset."""
    value = None if offset is None else struct.pack(">hqi", 3, offset, 2) + text("m") + struct.pack(">q", 5)
    return key(1, partition=partition), value


def members(*clients: str, generation: int = 1, owned: int = 3) -> Record:
    """Return the classic group with these members; each owns a partition."""
    topic = ConsumerProtocolAssignment.fields["assigned_partitions"].data_class
    owns = ConsumerProtocolAssignment(
        assigned_partitions=[topic(topic="orders", partitions=[owned])], user_data=None
    ).encode(version=0)
    of = GroupMetadataValue.fields["members"].data_class
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=generation,
        protocol="range",
        leader=None,
        current_state_timestamp=5,
        members=[
            of(
                member_id=f"{c}-1", group_instance_id=None, client_id=c, client_host="/10.0.0.1",
                rebalance_timeout=1, session_timeout=2, subscription=b"", assignment=bytes(owns),
            )
            for c in clients
        ],
    )  # fmt: skip
    return struct.pack(">h", 2) + text("billing"), bytes(value.encode(version=3))


def joined(client: str | None) -> Record:
    """Return a member of KIP-848, or its end."""
    value = ConsumerGroupMemberMetadataValue(
        instance_id=None, rack_id=None, client_id=client, client_host="/h", subscribed_topic_names=["orders"],
        subscribed_topic_regex=None, rebalance_timeout_ms=1, server_assignor=None,
    )  # fmt: skip
    name = struct.pack(">h", 5) + text("billing") + text("m-1")
    return name, bytes(value.encode(version=0)) if client else None


def read(*records: Record | bytes, start: int = 0, table: Any = None) -> tuple[Group, Findings]:
    """Return the group in a log of single records, or of whole batches."""
    history = History(TopicPartition(OFFSETS_TOPIC, 7), None, start=start, end=10_000)
    history.gap, at = start - 1, start
    for record in records:
        data = record if isinstance(record, bytes) else batch(at, record)
        at = history._add(data, at)
    history.finish()
    findings = Findings()
    groups = judge(history, findings, table)
    return groups["billing"], findings


def kinds(findings: Findings) -> dict[str, int]:
    return findings.counts


def test_offsets_that_rise_by_members_are_a_clean_history() -> None:
    group, found = read(members("shop"), *(to(n) for n in range(10, 400, 10)))
    assert kinds(found) == {}
    (place,) = group.places
    assert (place.commits, place.offset, len(place.rows)) == (39, 390, commits.ROWS)
    assert place.rows[-1].who == "shop at 10.0.0.1"
    assert place.rows[-1].place == "__consumer_offsets/7@39"
    assert group.notes == []


def test_an_offset_that_falls_is_a_rewind_with_both_ends_and_the_owner() -> None:
    _, found = read(members("shop"), to(100), to(40))
    assert kinds(found) == {"rewind": 1}
    (rewind,) = found.named
    assert rewind.where == "billing on orders/3"
    assert rewind.words == "fell from 100 (1970-01-01 00:00:01.001 UTC) to 40; committed by: shop at 10.0.0.1"


def test_the_same_offset_again_is_no_rewind() -> None:
    assert kinds(read(members("shop"), to(100), to(100))[1]) == {}


def test_partitions_are_not_compared_with_each_other() -> None:
    assert kinds(read(members("shop"), to(100), to(40, partition=4))[1]) == {}


def test_a_rewind_over_a_hole_says_that_commits_may_be_missing() -> None:
    _, found = read(members("shop"), to(100), batch(9, to(40)))
    assert "compaction may have removed commits, or a removal, between the two" in found.named[0].words
    assert (
        "committed by: not known: records about the members before it are missing, or were not read"
        in found.named[0].words
    )


def test_a_commit_of_an_aborted_transaction_is_no_rewind() -> None:
    group, found = read(members("shop"), to(100), batch(2, to(40), producer=9), marker(3, 9, committed=False), to(110))
    assert kinds(found) == {}
    assert (group.places[0].aborted, group.places[0].offset) == (1, 110)
    assert [r.how for r in group.places[0].rows] == ["", "transaction aborted", ""]


def test_a_commit_of_a_transaction_is_in_force_from_its_marker_on() -> None:
    earlier = members("shop"), batch(1, to(100), producer=9), to(90)
    assert kinds(read(*earlier, marker(3, 9, committed=True))[1]) == {}
    assert kinds(read(*earlier, marker(3, 9, committed=True), to(95))[1]) == {"rewind": 1}


def test_an_open_transaction_is_not_in_force() -> None:
    group, found = read(members("shop"), to(100), batch(2, to(40), producer=9))
    assert kinds(found) == {}
    assert (group.places[0].rows[-1].how, group.places[0].offset) == ("transaction open", 100)


def test_a_tombstone_is_a_removal_and_the_next_commit_is_no_rewind() -> None:
    _, found = read(members("shop"), to(100), to(None), to(None), to(5))
    assert kinds(found) == {"removed": 1}
    words = found.named[0].words
    assert words.startswith("100 was removed 1 ms after its commit; the next commit is 5 at 1970-01-01")


def test_a_commit_while_the_group_is_empty_is_foreign() -> None:
    _, found = read(members("shop"), to(100), members(generation=2), to(150))
    assert kinds(found) == {"foreign": 1}
    assert found.named[0].words == (
        "committed 150 (before: 100), and the group had no members since 1970-01-01 00:00:01.002 UTC"
    )


def test_a_commit_of_a_transaction_needs_no_member_and_is_not_foreign() -> None:
    _, found = read(members("shop"), members(generation=2), batch(2, to(150), producer=9), marker(3, 9, committed=True))
    assert kinds(found) == {}


def test_a_commit_behind_a_hole_is_not_foreign_because_members_may_have_joined() -> None:
    assert kinds(read(members(generation=2), batch(5, to(150)))[1]) == {}
    assert kinds(read(members("shop"), batch(5, members(generation=2)), to(150))[1]) == {"foreign": 1}


def test_a_group_without_members_at_any_time_is_named_once() -> None:
    group, found = read(to(100), to(150))
    assert kinds(found) == {}
    assert group.notes == [
        "the log shows no member of this group at any time: its commits come from tools, or from clients that assign "
        "partitions themselves"
    ]


def test_a_log_that_begins_later_proves_no_group_without_members() -> None:
    group, found = read(batch(50, to(100)), batch(51, to(150)), start=50)
    assert (kinds(found), group.notes) == ({}, [])


def test_members_of_the_new_protocol_are_members() -> None:
    group, found = read(joined("shop"), to(100), joined(None), to(150))
    assert kinds(found) == {"foreign": 1}
    assert [r.who for r in group.places[0].rows] == [
        "shop at h",
        "no member: a tool, or a client that assigns itself",
    ]


@pytest.mark.parametrize(
    ("owned", "who"),
    [
        (3, "its owner, or another member: shop at 10.0.0.1 or till at 10.0.0.1"),
        (4, "one of shop at 10.0.0.1 or till at 10.0.0.1"),
    ],
)
def test_of_several_members_each_may_have_committed(owned: int, who: str) -> None:
    group, _ = read(members("shop", "till", owned=owned), to(100))
    assert group.places[0].rows[0].who == who


def test_a_commit_in_a_transaction_is_by_its_producer_whatever_the_members_are() -> None:
    group, _ = read(members("shop"), batch(1, to(100), producer=9), members("till"), marker(3, 9, committed=True))
    assert group.places[0].rows[0].who == commits.IN_TRANSACTION


@pytest.mark.parametrize(("step", "found"), [(5_000, {"jump": 1}), (150, {})])
def test_a_step_is_unusual_only_if_it_is_by_far_larger_than_the_others(step: int, found: dict[str, int]) -> None:
    rising = [to(n) for n in range(0, 300, 10)]
    assert kinds(read(members("shop"), *rising, to(290 + step))[1]) == found


def test_several_large_steps_are_a_usual_speed() -> None:
    rising = [to(n) for n in range(0, 200, 10)] + [to(5_000 * n) for n in range(1, 9)]
    assert kinds(read(members("shop"), *rising)[1]) == {}


def test_a_step_over_a_hole_is_not_judged() -> None:
    rising = [to(n) for n in range(0, 300, 10)]
    assert kinds(read(members("shop"), *rising, batch(90, to(9_000)))[1]) == {}


@pytest.mark.parametrize(("end", "found"), [(99, {"beyond": 1}), (100, {}), (None, {})])
def test_an_offset_above_the_end_of_the_log_is_beyond_it(end: int | None, found: dict[str, int]) -> None:
    findings = Findings()
    place = Place(topic="orders", partition=0, offset=100, end=end)
    beyond({"billing": Group(name="billing", places=[place])}, findings)
    assert kinds(findings) == found


def test_a_history_beyond_the_bound_loses_its_start_and_proves_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "MOST_ENTRIES", 10)
    group, found = read(to(100), *(to(n) for n in range(10)))
    assert group.places[0].commits < 11
    assert (kinds(found), group.notes) == ({}, [])


def test_the_table_has_each_commit() -> None:
    table = io.StringIO(newline="")
    read(members("shop"), to(100), to(None), table=table)
    rows = list(csv.reader(io.StringIO(table.getvalue())))
    assert [(r[0], r[4], r[9]) for r in rows] == [("billing", "100", "1"), ("billing", "", "2")]


def test_members_of_a_streams_group_are_not_known() -> None:
    streams = struct.pack(">h", 17) + text("billing"), b"\x00"
    group, found = read(members(generation=2), streams, to(100))
    assert kinds(found) == {}
    assert group.places[0].rows[0].who.startswith("not known")


def test_a_damaged_record_of_a_group_is_left_out() -> None:
    _, found = read((struct.pack(">h", 2) + text("billing"), b"\x00"), to(100))
    assert kinds(found) == {}
