"""Tests of the capture: what is written down of frames on a front, what is left out, and segments that end early."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import FetchResponse
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from chaos.kafka.messages import request
from chaos.kafka.schemas import ShareFetchResponse
from chaos.relay import capture
from chaos.relay.capture import ACCEPTED, ANSWER, CLOSED, MADE, REQUEST, UNKEPT, Recorder, holes_of
from chaos.relay.frames import request_head
from chaos.relay.segments import Tail
from chaos.relay.server import Server
from tests.chaos.relay.messages import TOPIC_ID, encoded, naming
from tests.chaos.relay.test_ruled import Broker, Client, add, heartbeat, produce, until

SECRET = b"a secret of a user"


def batch(producer=-1, magic=2, records=2):
    """Return a record batch, or a message set of a format before Kafka 0.11."""
    if magic < 2:
        builder = LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=1_000_000)
        for i in range(records):
            builder.append(i, timestamp=1, key=b"k", value=SECRET)
        return bytes(builder.build())
    builder = DefaultRecordBatchBuilder(
        **{"magic": 2, "compression_type": 0, "is_transactional": False, "producer_id": producer},
        **{"producer_epoch": 0 if producer >= 0 else -1, "base_sequence": 7 if producer >= 0 else -1},
        batch_size=1_000_000,
    )
    for i in range(records):
        builder.append(i, 1, b"k", SECRET, [])
    return bytes(builder.build())


def marker():
    """Return the batch of the end of a transaction, whose only record says which end."""
    whole = bytearray(batch(5, records=1))
    whole[22] |= 0x20
    return bytes(whole)


@asynccontextmanager
async def captured(tmp_path, broker, payloads="needed", **options):
    listening = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    recorder = Recorder(tmp_path / "wire", payloads, **options)
    server = Server("proxy", {1: {"clients": listening.sockets[0].getsockname()}}, recorder=recorder)
    await server.listen()
    async with asyncio.timeout(20):
        client = Client(*await asyncio.open_connection(*server.front("shop/1")[1]))
        yield server, client, recorder


def entries(tmp_path):
    return list(Tail(tmp_path / "wire").new())


def seen(tmp_path):
    """Return kind, number, api and whether the frame passed, for each frame."""
    return [(e.kind, e.number, e.api, e.passed_us > 0) for e in entries(tmp_path) if e.kind in (REQUEST, ANSWER)]


def test_requests_and_answers_of_a_front_are_written_with_their_numbers_and_times(tmp_path):
    async def play():
        async with captured(tmp_path, Broker()) as (server, client, recorder):
            other = Client(*await asyncio.open_connection(*server.addresses[1]["clients"]))
            other.send(heartbeat(), 1)
            await other.answer()
            for number in (1, 2):
                client.send(produce(), 10 + number)
                await client.answer()
            client.writer.close()
            await until(lambda: recorder.entries == 4 + 2)
            recorder.seal()

    asyncio.run(play())
    found = entries(tmp_path)
    assert [(e.kind, e.number, e.correlation) for e in found] == [
        *[(ACCEPTED, 0, 0), (REQUEST, 1, 11), (ANSWER, 1, 11), (REQUEST, 2, 12), (ANSWER, 2, 12), (CLOSED, 0, 0)]
    ]
    assert b'"front": "shop/1"' in found[0].data and found[5].data == b'{"by": "client"}'
    assert all((e.api, e.version) == (ApiKey.Produce, 9) for e in found[1:5])
    assert [e.seen_us for e in found] == sorted(e.seen_us for e in found)
    assert found[1].data == encoded(produce(), 11)
    assert (tmp_path / "wire" / "seal.json").exists()


def test_a_dropped_answer_is_written_as_one_that_did_not_pass(tmp_path):
    async def play():
        async with captured(tmp_path, Broker()) as (server, client, recorder):
            add(server, {}, "drop", api="Produce", side="response", count=1)
            client.send(produce(), 1)
            client.send(produce(), 2)
            assert (await client.produced())[0] == 2
            recorder.seal()

    asyncio.run(play())
    assert sorted(seen(tmp_path)) == [
        *[(REQUEST, 1, 0, True), (REQUEST, 2, 0, True), (ANSWER, 1, 0, False), (ANSWER, 2, 0, True)]
    ]


def test_a_refused_request_did_not_pass_and_the_answer_is_the_proxys(tmp_path):
    async def play():
        async with captured(tmp_path, Broker()) as (server, client, recorder):
            add(server, {}, "error", api="Produce", error=6, count=1)
            client.send(produce(), 1)
            assert (await client.produced())[1] == 6
            add(server, {}, "error", api="Produce", side="response", error=7, count=1)
            client.send(produce(), 2)
            assert (await client.produced())[1] == 7
            recorder.seal()

    asyncio.run(play())
    assert sorted(seen(tmp_path)) == [
        *[(REQUEST, 1, 0, False), (REQUEST, 2, 0, True), (ANSWER, 1, 0, True), (ANSWER, 2, 0, True)]
    ]
    assert [e.flags for e in entries(tmp_path) if e.kind == ANSWER] == [MADE, MADE]


def test_a_cut_frame_did_not_pass_and_the_proxy_closed(tmp_path):
    async def play():
        async with captured(tmp_path, Broker()) as (server, client, recorder):
            add(server, {}, "cut", api="Produce")
            client.send(produce(), 1)
            assert await client.reader.read() == b""
            recorder.seal()

    asyncio.run(play())
    assert seen(tmp_path) == [(REQUEST, 1, 0, False)]
    assert entries(tmp_path)[-1].data == b'{"by": "proxy"}'


@pytest.mark.parametrize("released", [True, False])
def test_a_delayed_request_passed_when_it_was_sent_on_or_never(tmp_path, released):
    async def play():
        async with captured(tmp_path, Broker()) as (server, client, recorder):
            added = {}
            rule = add(server, added, "delay", api="Produce", delay_s=600)
            client.send(produce(), 1)
            await until(lambda: added[rule].hits == 1)
            if released:
                server.remove(rule)
                await client.answer()
            else:
                for connection in list(server.ports[-1].connections):
                    connection.close()
            recorder.seal()

    asyncio.run(play())
    first = next(e for e in entries(tmp_path) if e.kind == REQUEST)
    assert (first.passed_us > first.seen_us) == released
    assert (first.passed_us == 0) == (not released)


PRODUCED = [(version, magic) for version in range(3, 14) for magic in (2,)] + [(1, 0), (2, 1)]


def whole(kind, api, frame, payloads="none"):
    """Return the bytes that are kept of a frame."""
    head = request_head(frame, 0) if kind == REQUEST else capture.Head(len(frame), 7, int(api[0]), api[1])
    holes = holes_of(kind, head, frame, payloads)
    kept, at = b"", 0
    for begin, size in holes:
        kept, at = kept + frame[at:begin], begin + size
    return kept + frame[at:]


@pytest.mark.parametrize(("version", "magic"), PRODUCED)
def test_records_of_produce_requests_are_kept_as_payloads_says(version, magic):
    def made(records):
        frame = produce(version=version)
        frame.topic_data[0].partition_data[0].records = records
        return encoded(frame)

    anonymous = made(batch(magic=magic) * 2)
    assert SECRET not in whole(REQUEST, None, anonymous)
    assert whole(REQUEST, None, anonymous, "needed") == whole(REQUEST, None, anonymous, "all") == anonymous
    if magic == 2:
        known = made(batch(5) * 2)
        kept = whole(REQUEST, None, known, "needed")
        assert SECRET not in kept and len(known) - len(kept) == 2 * (len(batch(5)) - 61)
        assert whole(REQUEST, None, known, "all") == known
        assert SECRET in whole(REQUEST, None, made(batch(5) + batch()), "needed"), "the second batch has no id"


def fetched(version, records):
    topic = {"topic_id": TOPIC_ID} if version >= 13 else {"topic": "orders"}
    aborted = [{"producer_id": 3, "first_offset": 4}] * 2
    fields = {"aborted_transactions": aborted} if version >= 4 else {}
    parts = [{"partition_index": i, "error_code": 0, "high_watermark": 9, "records": records, **fields} for i in (0, 1)]
    top = {"error_code": 0, "session_id": 5} if version >= 7 else {}
    return encoded(request(FetchResponse[version], responses=[{**topic, "partitions": parts}] * 2, **top))


@pytest.mark.parametrize("version", [*range(19)])
def test_only_headers_of_batches_are_kept_of_a_fetch_answer(version):
    cut = batch(5)[:-20]
    frame = fetched(version, batch(5) + marker() + batch(magic=1) + cut)
    kept = whole(ANSWER, (ApiKey.Fetch, version), frame, "all")
    assert SECRET in batch(5)
    assert kept.count(SECRET) == 4, "the marker of each partition"
    assert len(kept) < len(frame) and len(kept) > 4 * (61 + len(marker()) + 26 + 61)


@pytest.mark.parametrize("records", [b"", None, batch(5)[:30], batch(5)[:10]])
def test_a_batch_that_ends_in_its_header_is_kept_as_it_is(records):
    frame = fetched(12, records)
    assert whole(ANSWER, (ApiKey.Fetch, 12), frame) == frame


@pytest.mark.parametrize("version", [1, 2])
def test_only_headers_of_batches_are_kept_of_a_share_fetch_answer(version):
    class Leader:
        leader_id, leader_epoch, unknown_fields = 1, 2, None

    part = {"partition_index": 0, "error_code": 0, "acknowledge_error_code": 0, "records": batch(5) * 2}
    texts = {"error_message": None, "acknowledge_error_message": "no", "current_leader": Leader}
    ranges = [{"first_offset": 0, "last_offset": 3, "delivery_count": 1}]
    frame = encoded(
        request(
            ShareFetchResponse[version],
            responses=[{"topic_id": TOPIC_ID, "partitions": [{**part, **texts, "acquired_records": ranges}] * 2}],
            **{"error_code": 0, "error_message": None, "acquisition_lock_timeout_ms": 1, "node_endpoints": []},
        )
    )
    kept = whole(ANSWER, (ApiKey.ShareFetch, version), frame)
    assert len(frame) - len(kept) == 4 * (len(batch(5)) - 61)
    assert SECRET not in kept


def test_a_frame_that_cannot_be_cut_and_one_with_a_password_are_not_kept(tmp_path):
    frame = encoded(naming(ApiKey.Produce, 9))[:-9]
    assert holes_of(REQUEST, capture.Head(len(frame), 7, 0, 9, "shop/1"), frame, "none") is None
    assert holes_of(REQUEST, capture.Head(40, 7, int(ApiKey.SaslAuthenticate), 2), b"password", "all") is None

    async def play():
        recorder = Recorder(tmp_path / "wire", "all")
        tape = capture.Tape(recorder, "shop/1", 1, "")
        head = capture.Head(40, 7, int(ApiKey.SaslAuthenticate), 2)
        tape.passed([capture.Entry(REQUEST, 1, head, 5, b"password")], 6)
        recorder.seal()

    asyncio.run(play())
    assert [(e.flags, e.size, e.data) for e in entries(tmp_path) if e.kind == REQUEST] == [(UNKEPT, 40, b"")]


def test_segments_are_rotated_and_a_torn_entry_ends_the_last_one(tmp_path):
    async def play():
        async with captured(tmp_path, Broker(), segment_bytes=1000) as (_, client, recorder):
            for number in range(20):
                client.send(produce(), number)
                await client.answer()
                recorder.flush()
            assert recorder.entries == 41
        return [path.stat().st_size for path in sorted((tmp_path / "wire").iterdir())]

    tail = Tail(tmp_path / "wire")
    sizes = asyncio.run(play())
    assert len(sizes) > 2 and max(sizes) < 1500
    assert [list(tail.new()), list(tail.new())] == [entries(tmp_path), []]
    assert len(seen(tmp_path)) == 40, "readable without a seal"
    last = max((tmp_path / "wire").glob("*.wire"))
    last.write_bytes(last.read_bytes()[:-5])
    assert len(seen(tmp_path)) == 39


def test_a_tail_yields_each_entry_once_as_it_is_written_and_waits_for_a_torn_one(tmp_path):
    tail, folder = Tail(tmp_path / "wire"), tmp_path / "wire"
    assert list(tail.new()) == [], "nothing is captured yet"

    async def play():
        async with captured(tmp_path, Broker(), segment_bytes=1000) as (_, client, recorder):
            for number in range(9):
                client.send(produce(), number)
                await client.answer()
                recorder.flush()
                found.extend(tail.new())
        found.extend(tail.new())

    found = []
    asyncio.run(play())
    assert found == entries(tmp_path) and len(list(folder.glob("*.wire"))) > 1
    last = max(folder.glob("*.wire"))
    whole = last.read_bytes()
    torn = Tail(folder)
    last.write_bytes(whole[:-5])
    assert list(torn.new()) == found[:-1]
    last.write_bytes(whole)
    assert list(torn.new()) == found[-1:]


def test_a_full_disk_ends_the_capture_and_not_the_traffic(tmp_path, monkeypatch):
    def full(fd, data):
        raise OSError(28, "No space left on device")

    async def play():
        async with captured(tmp_path, Broker()) as (_, client, recorder):
            monkeypatch.setattr(capture.os, "write", full)
            for number in range(3):
                client.send(produce(), number)
                assert (await client.produced())[1] == 0
                recorder.flush()
            return recorder.seal()

    assert "No space left" in asyncio.run(play())["failure"]
