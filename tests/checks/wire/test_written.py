"""Stories of identity: what was sent, and where it is in the final log. Each is a trap, or the near miss of one."""

from __future__ import annotations

import pytest

from chaos.relay.capture import ANSWER, FOLDER, Entry, Recorder, Tape
from chaos.relay.frames import Head
from checks.spark.session import tuned
from checks.wire import decode
from checks.wire.tables import Wire
from checks.wire.written import written
from tests.chaos.relay.messages import encoded
from tests.checks.wire.story import Story, batch, fetched, produce, produced

MARKER = {"control": b"\0\0\0\1", "transactional": True}


@pytest.fixture(scope="module")
def decoder(spark):
    with tuned(spark):
        yield decode.prepare(spark)


@pytest.fixture
def states(spark, decoder, tmp_path):
    """Return a function: identity, state and offsets of each identity, for a story and the batches of the log."""

    def read(story, *batches, kept="all"):
        recorder = Recorder(tmp_path / "log", "none", fetched=kept)
        tape = Tape(recorder, "log", 1, "")
        for number, records in enumerate(batches, start=1):
            frame = encoded(fetched(records, version=4), number)
            tape.passed([Entry(ANSWER, number, Head(len(frame), number, 1, 4), 1, frame)], 1)
        recorder.seal()
        wire = Wire(spark, f"file:{story.write() / FOLDER}", decoder)
        log = Wire(spark, f"file:{tmp_path / 'log'}", decoder).log()
        found = written(wire.produced(), log).collect()
        wire.close()
        return sorted((row.identity, row.state, row.found) for row in found)

    return read


def logged(base, *args, append_ms=None, **options):
    """Return a batch as it is in the log; append_ms: the time that the broker has set."""
    made = bytearray(batch(*args, base=base, **options))
    made[12:16] = (5).to_bytes(4, "big")  # the leader epoch, which the checksum does not cover
    if append_ms is not None:
        made[22] |= 8
        made[35:43] = append_ms.to_bytes(8, "big")
        made[17:21] = b"\x01\x02\x03\x04"
    return bytes(made)


def appended(offset, at_ms):
    """Return an answer to Produce of a topic with LogAppendTime."""
    answer = produced(offset=offset)
    answer.responses[0].partition_responses[0].log_append_time_ms = at_ms
    return answer


def test_an_idempotent_batch_is_found_by_its_sequence_once_twice_or_not_at_all(tmp_path, states):
    story = Story(tmp_path)
    at = story.connect()
    one, two, three = ((7, 0, 0), (7, 0, 2), (7, 0, 4))
    story.call(at, produce(batch(producer=one)), produced(offset=0))
    story.ask(at, produce(batch(producer=two)))
    story.call(at, produce(batch(producer=two)), produced(offset=2))
    story.call(at, produce(batch(producer=three)), produced(offset=6))
    log = [logged(0, producer=one), logged(2, producer=two), logged(4, producer=two)]
    assert states(story, *log) == [
        *[("sequence", "absent", []), ("sequence", "once", [0]), ("sequence", "several", [2, 4])]
    ]


def test_the_same_sequence_of_another_producer_or_epoch_is_another_identity(tmp_path, states):
    story = Story(tmp_path)
    story.call(story.connect(), produce(batch((b"x",), (7, 0, 0))), produced())
    log = [logged(0, (b"y",), (8, 0, 0)), logged(1, (b"z",), (7, 1, 0))]
    assert states(story, *log) == [("sequence", "absent", [])]


def test_a_renumbered_batch_that_is_in_the_log_twice_is_seen_by_its_records(tmp_path, states):
    """A client bumps its epoch and sends what was in flight again, with new numbers (trap)."""
    story = Story(tmp_path)
    at = story.connect()
    story.ask(at, produce(batch((b"a",), (7, 0, 40))))
    story.call(at, produce(batch((b"a",), (7, 1, 0))), produced(offset=1))
    log = [logged(0, (b"a",), (7, 0, 40)), logged(1, (b"a",), (7, 1, 0))]
    assert states(story, *log) == [("sequence", "several", [0, 1]), ("sequence", "several", [0, 1])]


def test_equal_records_with_two_numbers_of_one_epoch_are_two_records(tmp_path, states):
    """The near miss: the application has sent the same twice."""
    story = Story(tmp_path)
    at = story.connect()
    for seq in (0, 1):
        story.call(at, produce(batch((b"a",), (7, 0, seq))), produced(offset=seq))
    log = [logged(seq, (b"a",), (7, 0, seq)) for seq in (0, 1)]
    assert states(story, *log) == [("sequence", "once", [0]), ("sequence", "once", [1])]


def test_a_retry_without_idempotence_is_the_same_bytes_and_so_is_its_copy_in_the_log(tmp_path, states):
    story = Story(tmp_path)
    at = story.connect()
    story.ask(at, produce(batch((b"a",))))
    story.call(at, produce(batch((b"a",))), produced(offset=1))
    assert states(story, logged(0, (b"a",)), logged(1, (b"a",))) == [("checksum", "several", [0, 1])]


def test_equal_twins_are_undecided(tmp_path, states):
    """Sent again after the acknowledgement: a new record for Kafka, or a retry of the application."""
    story = Story(tmp_path)
    at = story.connect()
    for offset in (0, 1):
        story.call(at, produce(batch((b"a",))), produced(offset=offset))
    assert states(story, logged(0, (b"a",)), logged(1, (b"a",))) == [("checksum", "undecided", [0, 1])]


def test_records_of_a_retry_in_other_batches_are_found_by_their_hashes(tmp_path, states):
    """librdkafka without idempotence puts a retry into other batches (trap)."""
    story = Story(tmp_path)
    story.ask(story.connect(), produce(batch((b"a", b"b"))))
    log = [logged(0, (b"a",)), logged(1, (b"b", b"c"), at_ms=1001)]
    assert states(story, *log) == [("hashes", "once", [0, 1])]


def test_a_record_of_another_batch_with_the_same_content_does_not_stand_for_a_lost_one(tmp_path, states):
    """The near miss: the same record was sent once more, in a batch that is in the log."""
    story = Story(tmp_path)
    at = story.connect()
    story.call(at, produce(batch((b"a", b"b"))), produced(offset=0))
    story.call(at, produce(batch((b"a",))), produced(offset=0))
    assert states(story, logged(0, (b"a",))) == [("checksum", "absent", []), ("checksum", "once", [0])]


def test_half_of_a_batch_in_another_one_is_part_of_it(tmp_path, states):
    story = Story(tmp_path)
    story.ask(story.connect(), produce(batch((b"a", b"b"))))
    assert states(story, logged(3, (b"b", b"c"), at_ms=1001)) == [("hashes", "part", [3])]


def test_without_the_records_a_batch_that_is_not_there_by_its_checksum_is_undecided(tmp_path, states):
    story = Story(tmp_path, payloads="none")
    story.call(story.connect(), produce(batch((b"a",))), produced(offset=0))
    assert states(story, logged(0, (b"b",), at_ms=7), kept="none") == [("checksum", "undecided", [])]


def test_a_batch_to_which_the_broker_gave_its_time_is_found_where_it_was_acknowledged(tmp_path, states):
    """LogAppendTime changes timestamps and checksum (trap). The answer has that time."""
    story = Story(tmp_path, payloads="none")
    story.call(story.connect(), produce(batch((b"a",))), appended(8, 9000))
    assert states(story, logged(8, (b"a",), append_ms=9000), kept="none") == [("position", "once", [8])]


def test_another_batch_at_the_acknowledged_offset_is_not_the_one_that_was_sent(tmp_path, states):
    """The near miss: the log was truncated, and another record took the offset."""
    story = Story(tmp_path)
    story.call(story.connect(), produce(batch((b"a",))), appended(8, 9000))
    assert states(story, logged(8, (b"b",), append_ms=9001)) == [("checksum", "absent", [])]


def test_a_marker_with_the_number_of_a_batch_is_none(tmp_path, states):
    """Markers have a producer id and take an offset (trap)."""
    story = Story(tmp_path)
    story.call(story.connect(), produce(batch((b"a",), (7, 0, -1))), produced(offset=5))
    assert states(story, logged(5, (b"\0" * 6,), (7, 0, -1), **MARKER)) == [("sequence", "absent", [])]
