"""What a relay does for a tap: given ports, brokers that join or move, and captures that go on in their folder."""

import asyncio
import socket

import pytest

from chaos.processes.ports import free_ports
from chaos.relay.capture import ACCEPTED, SESSION_BITS, Recorder, Tape
from chaos.relay.segments import Tail
from chaos.relay.server import Server
from tests.chaos.relay.test_ruled import Broker, Client, produce


async def listening(broker):
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    return server.sockets[0].getsockname()[:2]


async def asked(address):
    """Return the error of an answer to Produce."""
    client = Client(*await asyncio.open_connection(*address))
    client.send(produce(), 1)
    found = (await client.produced())[1]
    client.writer.close()
    return found


def test_a_front_has_the_ports_that_it_is_given_and_follows_brokers_that_move_or_join():
    async def play():
        old, new, third = Broker(), Broker(), Broker()
        server = Server("proxy", {1: {"clients": await listening(old)}})
        await server.listen()
        first, second = free_ports(2)
        async with asyncio.timeout(20):
            assert server.front("tap", "127.0.0.1", "tap.internal", {1: first}) == {1: ("tap.internal", first)}
            assert await asked(("127.0.0.1", first)) == 0 and len(old.received) == 1
            server.broker(1, await listening(new))
            assert await asked(("127.0.0.1", first)) == 0 and (len(old.received), len(new.received)) == (1, 1)
            assert server.broker(4, await listening(third), second) == {"tap": ("tap.internal", second)}
            assert await asked(("127.0.0.1", second)) == 0 and len(third.received) == 1
            assert server.front("tap") == {1: ("tap.internal", first), 4: ("tap.internal", second)}

    asyncio.run(play())


def test_a_port_at_which_something_listens_is_refused_with_its_address():
    async def play():
        server = Server("proxy", {1: {"clients": ("127.0.0.1", 1)}})
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(ValueError, match=rf"cannot listen at 127\.0\.0\.1:{port} \(Address already in use\)"):
                server.front("tap", "127.0.0.1", ports={1: port})

    asyncio.run(play())


def note(folder, session, peer):
    """Write a connection in a session of a capture; return its number."""
    recorder = Recorder(folder, "none", session=session)
    tape = Tape(recorder, "tap", 1, peer)
    recorder.flush()
    return recorder, tape.id


def test_a_capture_goes_on_after_a_torn_entry_with_other_numbers_of_connections(tmp_path):
    folder = tmp_path / "wire"
    _, first = note(folder, 0, "a:1")
    (segment,) = folder.glob("*.wire")
    whole = segment.stat().st_size
    with segment.open("ab") as torn:
        torn.write(segment.read_bytes()[-20:])
    recorder, second = note(folder, 1, "b:2")
    assert segment.stat().st_size == whole and second == (1 << SESSION_BITS) + first
    assert [entry["file"] for entry in recorder.seal()["segments"]] == ["000001.wire", "000002.wire"]
    assert [(e.kind, e.connection) for e in Tail(folder).new()] == [(ACCEPTED, first), (ACCEPTED, second)]
    assert [e.connection for e in Tail(folder, 2).new()] == [second]


def test_a_capture_that_goes_on_can_be_followed_without_what_was_there(tmp_path):
    note(tmp_path / "wire", 0, "a:1")
    tail = Tail(tmp_path / "wire", 2)
    assert [*tail.new()] == []
    _, second = note(tmp_path / "wire", 1, "b:2")
    assert [entry.connection for entry in tail.new()] == [second]


def test_a_seal_of_the_session_before_is_gone_when_a_capture_goes_on(tmp_path):
    recorder, _ = note(tmp_path / "wire", 0, "a:1")
    recorder.seal()
    note(tmp_path / "wire", 1, "b:2")
    assert not (tmp_path / "wire" / "seal.json").exists()
