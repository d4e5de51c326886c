"""Tests of the switch without brokers: the broker that a connection comes from, and the cuts that hold it."""

import asyncio
import json
import struct

import pytest

from chaos.relay.cuts import CLIENTS, UNNAMED, Cut, Cuts, identify, severs
from chaos.relay.server import Server


@pytest.mark.parametrize(
    ("client", "source"),
    [
        ("broker-2-fetcher-0", 2),
        ("broker-12-txn-marker-sender", 12),
        ("raft-client-3", 3),
        ("AddPartitionsManager-client-1", 1),
        ("1", 1),
        ("", UNNAMED),
        ("broker-2", UNNAMED),
        ("shop/2", UNNAMED),
        ("raft-client-", UNNAMED),
        ("1.5", UNNAMED),
    ],
)
def test_only_the_client_ids_of_brokers_identify_them(client, source):
    assert identify(client) == source


WAYS = {
    # direction of the cut -> (listening broker, connecting broker, side) that it severs, between brokers 1 and 2
    "both": {(1, 2, "request"), (1, 2, "response"), (2, 1, "request"), (2, 1, "response")},
    "in": {(1, 2, "request"), (2, 1, "response")},
    "out": {(1, 2, "response"), (2, 1, "request")},
}


@pytest.mark.parametrize("direction", ["both", "in", "out"])
def test_a_cut_severs_its_pair_in_its_direction_and_no_other(direction):
    cut = Cut(1, (2,), direction=direction)
    every = {(to, of, side) for to in (1, 2, 3) for of in (1, 2, 3, CLIENTS) for side in ("request", "response")}
    assert {way for way in every if severs(cut, *way)} == WAYS[direction]


def test_an_isolated_broker_reaches_itself_and_the_others_reach_each_other():
    cut = Cut(1, (2, 3))
    assert not any(severs(cut, to, of, "request") for to, of in [(1, 1), (2, 3), (3, 2), (2, 2)])
    assert all(severs(cut, to, of, "request") for to, of in [(1, 2), (1, 3), (2, 1), (3, 1)])


def test_a_cut_from_clients_severs_clients_only():
    assert severs(Cut(1, clients=True), 1, CLIENTS, "request")
    assert not severs(Cut(1, clients=True), 2, CLIENTS, "request")
    assert not severs(Cut(1, (2,)), 1, CLIENTS, "request")
    assert not severs(Cut(1, clients=True, direction="in"), 1, CLIENTS, "response")
    assert severs(Cut(1, clients=True, direction="out"), 1, CLIENTS, "response")


def test_an_unnamed_source_counts_as_any_broker_of_the_cut():
    cut = Cut(1, (2,), direction="in")
    assert severs(cut, 1, UNNAMED, "request") and severs(cut, 2, UNNAMED, "response")
    assert not severs(cut, 2, UNNAMED, "request"), "data from broker 1 to broker 2 passes"
    assert not severs(cut, 3, UNNAMED, "request")
    assert not severs(Cut(1, clients=True), 1, UNNAMED, "request")


def test_each_of_several_cuts_severs_until_it_is_removed():
    cuts = Cuts()
    first, second = cuts.add(Cut(1, (2, 3))), cuts.add(Cut(2, (1,)))
    assert cuts.severing(1, 2, "request") == [first, second]
    assert cuts.remove(first.id) and not cuts.remove(first.id)
    assert cuts.severing(1, 2, "request") == [second]
    assert cuts.severing(1, 3, "request") == []


def request(client, body=b"body"):
    name = client.encode()
    head = struct.pack(">hhih", 1, 12, 7, len(name)) + name
    return struct.pack(">i", len(head) + len(body)) + head + body


class Echo:
    """A broker that sends everything back, and counts its connections."""

    def __init__(self):
        self.opened = 0

    async def serve(self, reader, writer):
        self.opened += 1
        while data := await reader.read(2**16):
            writer.write(data)
        writer.close()


async def switch_before(echo):
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    at = server.sockets[0].getsockname()
    switch = Server("switch", {b: {"clients": at, "peers": at, "quorum": at} for b in (1, 2, 3)})
    await switch.listen()
    return switch


class Peer:
    """A connection of a broker to the listener of another broker, through the switch."""

    def __init__(self, switch, client, to, listener="peers"):
        self.at, self.hello = switch.addresses[to][listener], request(client)

    async def __aenter__(self):
        self.reader, self.writer = await asyncio.open_connection(*self.at)
        return self

    async def __aexit__(self, *exc):
        self.writer.close()

    def send(self, data=None):
        self.writer.write(self.hello if data is None else data)

    async def receives(self, data=None, timeout_s=5):
        expected = self.hello if data is None else data
        return await asyncio.wait_for(self.reader.readexactly(len(expected)), timeout_s) == expected

    async def silent(self):
        try:
            return not await asyncio.wait_for(self.reader.read(1), 0.1)
        except TimeoutError:
            return True


def order(switch, added, **what):
    return switch.obey(json.loads(json.dumps(what)), added)


def cut(switch, added, broker, others=(), clients=False, direction="both"):
    spec = {"broker": broker, "others": others, "clients": clients, "direction": direction}
    return order(switch, added, do="add", item=spec)["id"]


def test_a_cut_holds_one_pair_and_its_data_arrives_in_order_afterwards():
    async def play():
        echo, added = Echo(), {}
        switch = await switch_before(echo)
        async with (
            Peer(switch, "broker-2-fetcher-0", 1) as severed,
            Peer(switch, "broker-3-fetcher-0", 1) as other,
            Peer(switch, "1", 1, "quorum") as itself,
            Peer(switch, "2", 1, "clients") as client,
        ):
            for peer in (severed, other, itself, client):
                peer.send()
                assert await peer.receives()
            number = cut(switch, added, 1, (2,))
            for peer in (other, itself, client):
                peer.send()
                assert await peer.receives()
            severed.send(b"one")
            severed.send(b"two")
            assert await severed.silent()
            assert order(switch, added, do="hits", id=number)["hits"] >= 1
            order(switch, added, do="remove", id=number)
            assert await severed.receives(b"onetwo")

    asyncio.run(play())


@pytest.mark.parametrize(("direction", "arrives"), [("in", False), ("out", True)])
def test_a_cut_in_one_direction_holds_the_request_or_the_answer(direction, arrives):
    async def play():
        added, received = {}, []

        async def broker(reader, writer):
            while data := await reader.read(2**16):
                received.append(data)
                writer.write(data)

        server = await asyncio.start_server(broker, "127.0.0.1", 0)
        at = server.sockets[0].getsockname()
        switch = Server("switch", {b: {"clients": at, "peers": at, "quorum": at} for b in (1, 2)})
        await switch.listen()
        async with Peer(switch, "broker-2-fetcher-0", 1) as peer:
            peer.send()
            assert await peer.receives()
            cut(switch, added, 1, (2,), direction=direction)
            peer.send(b"more")
            assert await peer.silent()
            assert (received[-1] == b"more") is arrives
            switch.remove(*added)
            assert await peer.receives(b"more")

    asyncio.run(play())


@pytest.mark.parametrize("direction", ["both", "in", "out"])
def test_a_new_connection_needs_both_directions(direction):
    async def play():
        echo, added = Echo(), {}
        switch = await switch_before(echo)
        cut(switch, added, 1, (2,), direction=direction)
        async with Peer(switch, "raft-client-2", 1, "quorum") as severed, Peer(switch, "raft-client-3", 1) as other:
            severed.send()
            other.send()
            assert await other.receives()
            assert await severed.silent() and echo.opened == 1
            switch.remove(*added)
            assert await severed.receives()

    asyncio.run(play())


def test_an_unnamed_connection_is_logged_and_held_by_every_cut_of_its_broker(capsys):
    async def play():
        echo, added = Echo(), {}
        switch = await switch_before(echo)
        async with Peer(switch, "stranger", 1) as stranger, Peer(switch, "stranger", 3) as elsewhere:
            for peer in (stranger, elsewhere):
                peer.send()
                assert await peer.receives()
            cut(switch, added, 1, (2,))
            for peer in (stranger, elsewhere):
                peer.send()
            assert await elsewhere.receives()
            assert await stranger.silent()

    asyncio.run(play())
    assert "'stranger' at peers of broker 1 names no broker" in capsys.readouterr().err


def test_the_switch_waits_for_a_complete_header_and_closes_connections_without_kafka_frames():
    async def play():
        switch = await switch_before(Echo())
        async with Peer(switch, "raft-client-2", 1, "quorum") as slow, Peer(switch, "", 1) as wrong:
            for byte in slow.hello:
                slow.send(bytes([byte]))
                await asyncio.sleep(0)
            assert await slow.receives()
            wrong.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert await wrong.reader.read() == b""

    asyncio.run(play())


def test_a_connection_that_closes_while_it_is_held_never_reaches_the_broker():
    async def play():
        echo, added = Echo(), {}
        switch = await switch_before(echo)
        cut(switch, added, 1, (2,))
        async with Peer(switch, "raft-client-2", 1) as peer:
            peer.send()
            assert await peer.silent()
        port = next(p for p in switch.ports if (p.broker, p.listener) == (1, "peers"))
        async with asyncio.timeout(5):
            while port.connections:
                await asyncio.sleep(0.01)
        switch.remove(*added)
        assert echo.opened == 0

    asyncio.run(play())


def test_removed_cuts_are_not_in_force():
    async def play():
        added = {}
        switch = await switch_before(Echo())
        cut(switch, added, 1, (2,))
        cut(switch, added, 1, clients=True)
        switch.remove(*added)
        assert order(switch, added, do="status")["active"] == []
        with pytest.raises(ValueError, match="unknown order"):
            order(switch, added, do="undo")

    asyncio.run(play())
