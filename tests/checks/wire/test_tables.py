"""Tests of the tables of the wire ledger, on captures of a few frames written by hand."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow.parquet as pq
import pytest
from kafka.protocol.api_key import ApiKey
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from chaos.kafka.messages import request
from chaos.relay.capture import ANSWER, FOLDER, Entry
from chaos.relay.contents import TOPIC_APIS
from chaos.relay.frames import Head
from chaos.run.directory import Run
from checks.wire.tables import LOG, MISSING, table_path, write_tables
from checks.wire.written import NUMBER
from tests.chaos.relay.messages import encoded, naming
from tests.checks.wire.story import (
    Story,
    answers_offsets,
    asks_offsets,
    batch,
    commit,
    committed,
    described,
    fetch,
    fetched,
    join,
    joined,
    metadata,
    produce,
    produced,
    sync,
    synced,
)

pytestmark = pytest.mark.spark


@pytest.fixture
def rows(spark):
    """Return a function: the rows of a table, as dicts in the order of connection and number."""

    def read(story, table):
        run = Run(story.write())
        write_tables(spark, run)
        found = pq.read_table(table_path(run, table), partitioning=None).to_pylist()
        return sorted(
            found, key=lambda row: (row.get("connection") or 0, row.get("number") or 0, row.get("batch") or 0)
        )

    return read


def pick(rows, *names):
    return [tuple(row[name] for name in names) for row in rows]


def hashes(row):
    return np.frombuffer(row["hashes"], NUMBER).tolist()


def test_every_version_of_produce_is_the_same_row(tmp_path, rows):
    story = Story(tmp_path)
    at = story.connect("shop/1", broker=2)
    story.call(at, metadata(), described())
    for version in range(3, 14):
        story.call(at, produce(batch(producer=(7, 1, 40)), version), produced(version, offset=10))
    found = rows(story, "produced")
    assert {*pick(found, "instance", "broker", "topic", "partition", "producer_id", "producer_epoch")} == {
        ("shop/1", 2, "orders", 0, 7, 1)
    }
    assert {*pick(found, "base_sequence", "records", "base_offset", "error", "outcome", "made")} == {
        (40, 2, 10, 0, "ok", False)
    }
    assert len(found) == 11 and all(row["answered_us"] - row["asked_us"] == 11 for row in found)
    assert {len(hashes(row)) for row in found} == {2}


def test_the_outcome_is_unknown_without_an_answer_that_reached_the_client(tmp_path, rows):
    story = Story(tmp_path)
    at = story.connect()
    story.call(at, produce(batch()), produced(error=6))
    story.ask(at, produce(batch()))  # the broker never answers
    story.answer(at, story.ask(at, produce(batch())), produced(), lost=True)
    story.ask(at, produce(batch()), lost=True)
    story.ask(at, produce(batch(), acks=0))
    story.answer(at, story.ask(at, produce(batch()), lost=True), produced(error=6), made=True)
    found = rows(story, "produced")
    assert pick(found, "outcome", "error", "made") == [
        *[("fail", 6, False), ("unknown", None, None), ("unknown", None, None), ("unknown", None, None)],
        *[("none", None, None), ("fail", 6, True)],
    ]
    assert [row["sent_us"] is None for row in found] == [False, False, False, True, False, True]


def test_an_error_after_which_the_leader_may_have_the_batch_leaves_the_outcome_unknown(tmp_path, rows):
    story = Story(tmp_path)
    at = story.connect()
    for error in (7, 20, 19, 46):
        story.call(at, produce(batch()), produced(error=error))
    story.answer(at, story.ask(at, produce(batch())), produced(error=6), made=True)  # the broker has got the request
    assert pick(rows(story, "produced"), "error", "outcome") == [
        *[(7, "unknown"), (20, "unknown"), (19, "fail"), (46, "ok"), (6, "unknown")]
    ]


def test_a_retry_without_idempotence_has_the_checksum_or_else_the_hashes_of_its_records(tmp_path, rows):
    """A client's own retry sends the same bytes. librdkafka may put the records into other batches (trap)."""
    story = Story(tmp_path, payloads="needed")
    at = story.connect()
    story.ask(at, produce(batch((b"a", b"b"))))
    story.ask(at, produce(batch((b"a", b"b"))))
    story.ask(at, produce(batch((b"b", b"c"))))
    story.ask(at, produce(batch((b"b",), producer=(7, 0, 1))))
    first, again, other, known = rows(story, "produced")
    assert first["crc"] == again["crc"] != other["crc"]
    assert hashes(first)[1] == hashes(other)[0] and hashes(first)[0] != hashes(first)[1]
    assert first["producer_id"] is None and known["producer_id"] == 7
    assert known["hashes"] is None, "it has another identity, so its records are not kept"


def test_a_bumped_epoch_gives_one_record_two_identities_and_one_hash(tmp_path, rows):
    story = Story(tmp_path, payloads="all")
    at = story.connect()
    story.ask(at, produce(batch((b"a",), producer=(7, 0, 40))))
    story.ask(at, produce(batch((b"a",), producer=(7, 1, 0))))
    found = rows(story, "produced")
    assert pick(found, "producer_epoch", "base_sequence") == [(0, 40), (1, 0)]
    assert found[0]["hashes"] == found[1]["hashes"]


def test_a_client_that_never_asks_for_versions_has_its_client_id(tmp_path, rows):
    story = Story(tmp_path)
    story.call(story.connect("billing/1"), metadata(), described())
    asked = request(ApiVersionsRequest[4], client_software_name="a", client_software_version="1")
    story.ask(story.connect("billing/2"), asked)
    found = pick(rows(story, "connections"), "instance", "client_id", "library")
    assert found == [("billing/1", "shop/1", None), ("billing/2", "shop/1", "a")]


def test_nothing_of_payloads_is_kept_with_none(tmp_path, rows):
    story = Story(tmp_path, payloads="none")
    story.ask(story.connect(), produce(batch((b"a secret of a user",))))
    assert rows(story, "produced")[0]["hashes"] is None
    files = [path for path in (tmp_path / FOLDER).rglob("*") if path.is_file()]
    assert len(files) > 3 and b"secret" not in b"".join(path.read_bytes() for path in files)


def test_a_request_and_its_answer_may_be_in_different_segments(tmp_path, rows):
    story = Story(tmp_path, segment_bytes=1)
    at = story.connect()
    story.call(at, produce(batch()), produced(offset=3))
    assert pick(rows(story, "produced"), "instance", "base_offset") == [("shop/1", 3)]
    assert len([*(tmp_path / FOLDER).glob("*.wire")]) == 3


def test_a_torn_segment_is_read_up_to_its_last_complete_entry(tmp_path, spark):
    story = Story(tmp_path)
    at = story.connect()
    for offset in range(3):
        story.call(at, produce(batch()), produced(offset=offset))
    run = Run(story.write())
    (segment,) = run.wire.glob("*.wire")
    segment.write_bytes(segment.read_bytes()[:-3])
    write_tables(spark, run)
    found = spark.read.parquet(str(table_path(run, "produced"))).collect()
    assert sorted((row.number, row.outcome) for row in found) == [(1, "ok"), (2, "ok"), (3, "unknown")]


def test_several_tasks_write_what_one_writes(tmp_path, rows, monkeypatch):
    """The id of the topic is in an answer on a connection of another task."""
    story = Story(tmp_path, segment_bytes=1)
    story.call(story.connect("billing/1"), metadata(), described())
    for instance in ("shop/1", "shop/2", "shop/3"):
        at = story.connect(instance)
        story.call(at, produce(batch(), 13), produced(13, offset=3))
    one = rows(story, "produced")
    monkeypatch.setattr("checks.wire.tables.PART_BYTES", 50)
    several = rows(story, "produced")
    assert len([*table_path(Run(tmp_path), "produced").iterdir()]) > 1
    assert several == one and pick(one, "instance", "topic", "base_offset") == [
        (f"shop/{i}", "orders", 3) for i in (1, 2, 3)
    ]


def test_a_log_that_was_captured_is_a_table_also_if_no_batch_is_left_in_it(tmp_path, spark):
    story = Story(tmp_path)
    at = story.connect("billing/1")
    story.call(at, fetch(41), fetched(batch(base=41)))
    run = Run(story.write())
    write_tables(spark, run)
    assert not table_path(run, "log").exists()  # nothing was read back
    (tmp_path / FOLDER / LOG).mkdir()
    (tmp_path / FOLDER / LOG / MISSING).write_text("{}")
    write_tables(spark, run)
    assert spark.read.parquet(str(table_path(run, "log"))).count() == 0
    assert spark.read.parquet(str(table_path(run, "fetched"))).count() == 1


@pytest.mark.parametrize("version", [4, 7, 11, 12, 13, 18])
def test_a_fetched_batch_may_begin_before_the_asked_offset_and_be_cut_off(tmp_path, rows, version):
    """The broker sends whole batches, and as many bytes as fit (traps)."""
    story = Story(tmp_path)
    at = story.connect("billing/1")
    story.call(at, metadata(), described())
    records = batch(base=40, producer=(7, 0, 3)) + batch(base=42)[:70]
    story.call(at, fetch(41, version), fetched(records, version, aborted=[(9, 12)]))
    found = rows(story, "fetched")
    assert pick(found, "asked_offset", "base_offset", "last_offset", "complete", "topic") == [
        *[(41, 40, 41, True, "orders"), (41, 42, 43, False, "orders")]
    ]
    assert pick(found, "producer_id", "producer_epoch", "base_sequence") == [(7, 0, 3), (None, None, None)]
    assert [(one["producer_id"], one["first_offset"]) for one in found[0]["aborted"]] == [(9, 12)]


def test_the_asked_offset_of_a_session_is_the_last_one_that_was_asked(tmp_path, rows):
    story = Story(tmp_path)
    at = story.connect()
    story.call(at, fetch(10, session=(0, 0)), fetched(b""))
    story.call(at, fetch(None, session=(5, 1)), fetched(batch(base=10)))
    story.call(at, fetch(12, session=(5, 2)), fetched(batch(base=12)))
    other = story.connect()
    story.call(other, fetch(None, session=(5, 3)), fetched(batch(base=14)))
    assert pick(rows(story, "fetched"), "asked_offset", "base_offset") == [(10, 10), (12, 12), (None, 14)]
    assert pick(rows(story, "asked"), "connection", "asked_offset") == [(at, 10), (at, 12)]


def test_a_marker_says_how_its_transaction_ended_and_takes_an_offset(tmp_path, rows):
    story = Story(tmp_path, payloads="none")
    at = story.connect()
    markers = [
        batch((b"\0" * 6,), (7, 0, -1), base=50 + code, control=struct.pack(">hh", 0, code), transactional=True)
        for code in (0, 1)
    ]
    story.call(at, fetch(50), fetched(b"".join(markers)))
    assert pick(rows(story, "fetched"), "control", "base_offset", "records") == [("abort", 50, 1), ("commit", 51, 1)]


def test_an_error_of_a_partition_is_a_row_and_an_empty_answer_is_none(tmp_path, rows):
    story = Story(tmp_path)
    at = story.connect()
    story.call(at, fetch(5), fetched(b"", error=6))
    story.call(at, fetch(5), fetched(b""))
    assert pick(rows(story, "fetched"), "number", "error", "base_offset") == [(1, 6, None)]


def test_commits_have_what_their_answers_say_of_each_partition(tmp_path, rows):
    story = Story(tmp_path)
    at = story.connect("billing/1")
    story.call(at, commit(5), committed())
    story.call(at, commit(9, epoch=2), committed(error=22))
    story.ask(at, commit(9))
    found = rows(story, "commits")
    assert pick(found, "instance", "group", "member_id", "generation", "offset", "error") == [
        *[("billing/1", "g", "m", 3, 5, 0), ("billing/1", "g", "m", 2, 9, 22), ("billing/1", "g", "m", 3, 9, None)]
    ]


def test_a_committed_offset_has_its_group_in_every_version(tmp_path, rows):
    """Up to version 7, the request alone names it (trap)."""
    story = Story(tmp_path)
    at, other = story.connect("billing/1"), story.connect("audit/1")
    for version in range(1, 10):
        story.call(at, asks_offsets(version), answers_offsets(5, version))
        story.call(other, asks_offsets(version, "h"), answers_offsets(7, version, "h"))
    found = pick(rows(story, "positions"), "instance", "group", "topic", "partition", "offset", "error")
    assert found == [("billing/1", "g", "orders", 0, 5, 0)] * 9 + [("audit/1", "h", "orders", 0, 7, 0)] * 9


def test_the_assignment_of_a_classic_group_is_decoded_and_one_of_another_kind_is_unknown(tmp_path, rows):
    assigned = struct.pack(">hih6siiii", 0, 1, 6, b"orders", 2, 0, 3, 0)
    story = Story(tmp_path)
    at = story.connect()
    story.call(at, join(), joined())
    story.call(at, sync(), synced(assigned))
    story.call(at, sync(), synced(b"\0\1 of Connect"))
    story.call(at, sync(), synced(b"", error=27))
    found = rows(story, "membership")
    assert pick(found, "call", "error", "given_member_id", "given_generation", "leads")[0] == (
        "JoinGroup",
        0,
        "m",
        3,
        True,
    )
    assert [[(a["topic"], a["partitions"]) for a in row["assigned"] or ()] for row in found[1:]] == [
        [("orders", [0, 3])],
        [],
        [],
    ]
    assert found[2]["assigned"] is None and found[3]["error"] == 27


def test_a_connection_may_be_open_at_the_end(tmp_path, rows):
    story = Story(tmp_path)
    story.close(story.connect("shop/1", 3), by="broker")
    story.connect("shop/2", 1)
    assert pick(rows(story, "connections"), "instance", "broker", "closed_by") == [
        *[("shop/1", 3, "broker"), ("shop/2", 1, None)]
    ]


def test_a_version_before_those_of_the_decoder_is_counted_as_unread(tmp_path, rows):
    story = Story(tmp_path)
    at = story.connect()
    story.ask(at, naming(ApiKey.Produce, 3))
    old = TOPIC_APIS[ApiKey.OffsetCommit][1](group_id="g", generation_id_or_member_epoch=1, member_id="m", topics=[])
    story.ask(at, old)
    assert pick(rows(story, "unread"), "side", "api", "version", "frames") == [("request", 8, 1, 1)]


def test_an_answer_that_refuses_the_version_of_the_first_request_has_another_one(tmp_path, rows):
    """The broker answers ApiVersions in version 0 if it does not know the version of the request (KIP-511)."""
    story = Story(tmp_path)
    asked = request(ApiVersionsRequest[4], client_software_name="x", client_software_version="1")
    number = story.ask(at := story.connect(), asked)
    refused = encoded(request(ApiVersionsResponse[0], error_code=35, api_keys=[]), number)
    head = Head(len(refused), number, ApiKey.ApiVersions, 4)
    story.steps.append(("frame", at, Entry(ANSWER, number, head, 0, refused)))
    assert rows(story, "unread") == [] and pick(rows(story, "connections"), "library") == [("x",)]


def test_an_unknown_topic_id_stays_an_id(tmp_path, rows):
    story = Story(tmp_path)
    story.call(story.connect(), produce(batch(), 13), produced(13))
    (found,) = rows(story, "produced")
    assert found["topic"] is None and found["topic_id"] and found["outcome"] == "ok"
