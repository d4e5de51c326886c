"""Records on their way: each batch twice, and one bit of a value changed, with a checksum that fits or does not."""

import asyncio
import random
import struct

import pytest
from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import FetchResponse
from kafka.protocol.producer import ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from chaos.kafka.messages import request
from chaos.relay.capture import AGAIN, FOLDER, MADE, Recorder
from chaos.relay.contents import last_version
from chaos.relay.frames import LENGTH_BYTES
from chaos.relay.records import corrupted, doubled, with_changed_byte, with_copies
from tests.chaos.relay.messages import TOPIC_ID, encoded, naming
from tests.chaos.relay.test_ruled import Broker, accept, add, counts, heartbeat, produce, proxy


def batch(*values, base=0, gzip=False, attributes=0, key=b"k"):
    """Return a batch of records with these values, from an offset on."""
    fields = {"is_transactional": False, "producer_id": -1, "producer_epoch": -1, "base_sequence": -1}
    made = DefaultRecordBatchBuilder(2, compression_type=1 if gzip else 0, batch_size=2**20, **fields)
    for number, value in enumerate(values):
        made.append(number, timestamp=1, key=key, value=value, headers=[])
    found = bytearray(made.build())
    found[0:8] = struct.pack(">q", base)
    found[22] |= attributes
    return bytes(found)


def values(records):
    """Return offset and value of each record, and whether its batch has the checksum of its bytes."""
    found, read = [], MemoryRecords(records)
    while (one := read.next_batch()) is not None:
        valid = one.validate_crc()
        found += [(record.offset, record.value, valid) for record in one]
    return found


FIRST, SECOND = batch(b"10.50", b"", base=40), batch(b"7", base=42)
MARKER = batch(b"", base=43, attributes=0x20, key=bytes(4))


def test_each_batch_of_data_has_its_copy_next_to_it():
    torn = FIRST[:70]
    assert doubled(FIRST + MARKER + SECOND + torn) == FIRST * 2 + MARKER + SECOND * 2 + torn
    assert doubled(b"") == b"" and doubled(torn) == torn


@pytest.mark.parametrize("valid", [False, True])
def test_one_bit_of_one_value_changes(valid):
    seen = set()
    for seed in range(20):
        records = corrupted(FIRST + MARKER + SECOND, random.Random(seed), valid)
        assert records == corrupted(FIRST + MARKER + SECOND, random.Random(seed), valid), "a function of the seed"
        rows = [row for row in zip(values(records), values(FIRST + MARKER + SECOND), strict=True) if row[0] != row[1]]
        changed = [now for now, before in rows if now[1] != before[1]]
        assert len(changed) == 1 and changed[0][1] and changed[0][2] == valid
        seen.add(changed[0][0])
    assert seen == {40, 42}, "the empty value and the marker stay"


def test_compressed_and_old_records_change_too():
    compressed = batch(b"a" * 900, gzip=True)
    assert compressed != corrupted(compressed, random.Random(1), valid=False)
    old = LegacyRecordBatchBuilder(magic=1, compression_type=0, batch_size=2**20)
    old.append(0, timestamp=1, key=None, value=b"10.50")
    records = bytes(old.build())
    assert values(corrupted(records, random.Random(1), valid=True)) == [(0, b"10.51", True)]
    assert values(corrupted(records, random.Random(1), valid=False))[0][2] is False


def test_records_without_a_value_stay_as_they_are():
    empty = batch(b"", None)
    assert corrupted(empty + MARKER, random.Random(1), valid=False) == empty + MARKER


def fetched(version, records, number=3, correlation=7):
    """Return an answer to Fetch."""
    topic = {"topic_id": TOPIC_ID} if version >= 13 else {"topic": "orders"}
    part = {"partition_index": number, "error_code": 0, "high_watermark": 99, "aborted_transactions": None}
    answer = {"responses": [{**topic, "partitions": [{**part, "records": records}]}]}
    return encoded(request(FetchResponse[version], **answer), correlation)


def records_in(frame, version):
    answer = FetchResponse.decode(memoryview(frame)[LENGTH_BYTES:], version=version, header=True)
    return bytes(answer.responses[0].partitions[0].records)


@pytest.mark.parametrize("version", range(4, last_version(ApiKey.Fetch, FetchResponse) + 1))
def test_answers_of_every_version_are_changed(version):
    frame, ids = fetched(version, FIRST), {TOPIC_ID: "orders"}
    own, other = (lambda name, number: (name, number) == ("orders", 3)), (lambda name, number: number == 4)
    twice = with_copies(frame, version, own, ids)
    assert records_in(twice, version) == FIRST * 2 and int.from_bytes(twice[:4], "big") == len(twice) - 4
    assert with_copies(frame, version, other, ids) is with_copies(fetched(version, b""), version, own, ids) is None
    changed = with_changed_byte(frame, ApiKey.Fetch, version, own, ids, random.Random(1), True)
    assert len(changed) == len(frame) and records_in(changed, version) != FIRST
    assert with_changed_byte(frame, ApiKey.Fetch, version, other, ids, random.Random(1), True) is None


@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
def test_produce_requests_are_changed(version):
    message = naming(ApiKey.Produce, version)
    message.topic_data[0].partition_data[0].records = FIRST
    frame = encoded(message)
    draws = random.Random(1)
    changed = with_changed_byte(frame, ApiKey.Produce, version, lambda *_: True, {TOPIC_ID: "orders"}, draws, False)
    read = ProduceRequest.decode(memoryview(changed)[LENGTH_BYTES:], version=version, header=True)
    assert len(changed) == len(frame)
    assert values(bytes(read.topic_data[0].partition_data[0].records))[0][2] is False


def fetch(version=12):
    return naming(ApiKey.Fetch, version)


def with_records(head):
    return fetched(head.version, FIRST, correlation=head.correlation) if head.api == ApiKey.Fetch else accept(head)


def test_an_answer_that_is_repeated_arrives_twice_and_the_next_one_once():
    async def play():
        async with proxy(Broker()) as (server, (client,)):
            rule = add(server, added := {}, "repeat", side="response", count=1)
            client.send(heartbeat(), 1)
            client.send(heartbeat(), 2)
            assert [(await client.answer())[0] for _ in range(3)] == [1, 1, 2]
            assert counts(server, added, rule)["hits"] == 1

    asyncio.run(play())


def test_only_answers_with_records_count_as_given_twice():
    async def play():
        empty = [True, False]
        broker = Broker(lambda head: fetched(12, b"" if empty.pop(0) else FIRST, correlation=head.correlation))
        async with proxy(broker) as (server, (client,)):
            rule = add(server, added := {}, "duplicate", api="Fetch", side="response", count=1)
            client.send(fetch(), 1)
            assert records_in((await client.answer())[1], 12) == b""
            assert counts(server, added, rule)["hits"] == 0
            client.send(fetch(), 2)
            assert records_in((await client.answer())[1], 12) == FIRST * 2
            assert counts(server, added, rule)["hits"] == 1

    asyncio.run(play())


def test_the_bytes_that_change_follow_from_the_seed():
    async def play(seed):
        async with proxy(Broker(with_records)) as (server, (client,)):
            add(server, {}, "corrupt", api="Fetch", side="response", seed=seed)
            client.send(fetch(), 1)
            return records_in((await client.answer())[1], 12)

    first, again = asyncio.run(play(4)), asyncio.run(play(4))
    assert first == again != FIRST and len(first) == len(FIRST)
    assert len({asyncio.run(play(seed)) for seed in range(5)}) > 1


def test_a_rule_about_records_is_only_for_frames_with_records():
    async def play():
        async with proxy(Broker()) as (server, _):
            for act, frames in (
                ("duplicate", {"api": "Produce", "side": "response"}),
                ("corrupt", {"api": "Fetch", "side": "request"}),
                ("corrupt", {"side": "response"}),
                ("repeat", {"api": "Produce"}),
            ):
                with pytest.raises(ValueError, match=r"records|response"):
                    add(server, {}, act, **frames)

    asyncio.run(play())


def entries(folder):
    """Return flags, kind and number of each entry with a frame in a capture."""
    found = []
    for path in sorted(folder.glob("*.wire")):
        data, at = path.read_bytes(), 8
        while at < len(data):
            length, kind, flags = struct.unpack_from(">IBB", data, at)
            found += [(kind, flags, struct.unpack_from(">I", data, at + 12)[0])] if kind > 2 else []
            at += 4 + length
    return found


def test_the_capture_counts_what_the_rules_hit(tmp_path):
    async def play():
        recorder = Recorder(tmp_path / FOLDER, "none")
        async with proxy(Broker(with_records), recorder=recorder, front="billing/1") as (server, (client,)):
            add(server, added := {}, "repeat", api="Produce", side="response")
            add(server, added, "duplicate", api="Fetch", side="response")
            for number, message in enumerate((produce(), fetch(), heartbeat()), 1):
                client.send(message, number)
            assert [(await client.answer())[0] for _ in range(4)] == [1, 1, 2, 3]
            recorder.seal()

    asyncio.run(play())
    answers = [(flags, number) for kind, flags, number in entries(tmp_path / FOLDER) if kind == 4]
    assert answers == [(0, 1), (MADE | AGAIN, 1), (MADE, 2), (0, 3)]
