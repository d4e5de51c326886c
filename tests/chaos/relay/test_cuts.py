"""Who is at the ends of a connection, and which cut is in its way, in which direction."""

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
def test_the_client_ids_of_brokers_name_them_and_nothing_else_does(client, source):
    assert identify(client) == source


WAYS = {
    # direction -> what is held of (to, from, side), of the connections between 1 and 2
    "both": {(1, 2, "request"), (1, 2, "response"), (2, 1, "request"), (2, 1, "response")},
    "in": {(1, 2, "request"), (2, 1, "response")},
    "out": {(1, 2, "response"), (2, 1, "request")},
}


@pytest.mark.parametrize("direction", ["both", "in", "out"])
def test_a_cut_is_in_the_way_of_its_pair_in_its_direction_and_of_no_other(direction):
    cut = Cut(1, (2,), direction=direction)
    every = {(to, of, side) for to in (1, 2, 3) for of in (1, 2, 3, CLIENTS) for side in ("request", "response")}
    assert {way for way in every if severs(cut, *way)} == WAYS[direction]


def test_a_broker_cut_off_from_all_others_still_talks_to_itself_and_they_to_each_other():
    cut = Cut(1, (2, 3))
    assert not any(severs(cut, to, of, "request") for to, of in [(1, 1), (2, 3), (3, 2), (2, 2)])
    assert all(severs(cut, to, of, "request") for to, of in [(1, 2), (1, 3), (2, 1), (3, 1)])


def test_a_cut_from_clients_is_of_theirs_only():
    assert severs(Cut(1, clients=True), 1, CLIENTS, "request")
    assert not severs(Cut(1, clients=True), 2, CLIENTS, "request")
    assert not severs(Cut(1, (2,)), 1, CLIENTS, "request")
    assert not severs(Cut(1, clients=True, direction="in"), 1, CLIENTS, "response")
    assert severs(Cut(1, clients=True, direction="out"), 1, CLIENTS, "response")


def test_who_does_not_say_who_it_is_may_be_the_one_that_is_cut_off():
    cut = Cut(1, (2,), direction="in")
    assert severs(cut, 1, UNNAMED, "request") and severs(cut, 2, UNNAMED, "response")
    assert not severs(cut, 2, UNNAMED, "request"), "what 1 sends to 2 may pass"
    assert not severs(cut, 3, UNNAMED, "request")
    assert not severs(Cut(1, clients=True), 1, UNNAMED, "request")


def test_of_cuts_that_overlap_each_holds_until_it_is_gone():
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
    """Brokers that say back what they are told, behind a switch."""

    def __init__(self):
        self.opened = 0

    async def serve(self, reader, writer):
        self.opened += 1
        while data := await reader.read(2**16):
            writer.write(data)
        writer.close()


async def behind_a_switch(echo):
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    at = server.sockets[0].getsockname()
    switch = Server("switch", {b: {"clients": at, "peers": at, "quorum": at} for b in (1, 2, 3)})
    await switch.listen()
    return switch


class Peer:
    """A broker's connection to another one's listener."""

    def __init__(self, switch, client, to, listener="peers"):
        self.at, self.hello = switch.addresses[to][listener], request(client)

    async def __aenter__(self):
        self.reader, self.writer = await asyncio.open_connection(*self.at)
        return self

    async def __aexit__(self, *exc):
        self.writer.close()

    def say(self, data=None):
        self.writer.write(self.hello if data is None else data)

    async def hears(self, data=None, timeout_s=5):
        wanted = self.hello if data is None else data
        return await asyncio.wait_for(self.reader.readexactly(len(wanted)), timeout_s) == wanted

    async def silent(self):
        try:
            return not await asyncio.wait_for(self.reader.read(1), 0.1)
        except TimeoutError:
            return True


def order(switch, made, **what):
    return switch.obey(json.loads(json.dumps(what)), made)


def cut(switch, made, broker, others=(), clients=False, direction="both"):
    spec = {"broker": broker, "others": others, "clients": clients, "direction": direction}
    return order(switch, made, do="add", item=spec)["id"]


def test_a_pair_is_parted_while_all_else_passes_and_what_was_held_arrives_in_order():
    async def play():
        echo, made = Echo(), {}
        switch = await behind_a_switch(echo)
        async with (
            Peer(switch, "broker-2-fetcher-0", 1) as parted,
            Peer(switch, "broker-3-fetcher-0", 1) as other,
            Peer(switch, "1", 1, "quorum") as itself,
            Peer(switch, "2", 1, "clients") as client,
        ):
            for peer in (parted, other, itself, client):
                peer.say()
                assert await peer.hears()
            number = cut(switch, made, 1, (2,))
            for peer in (other, itself, client):
                peer.say()
                assert await peer.hears()
            parted.say(b"one")
            parted.say(b"two")
            assert await parted.silent()
            assert order(switch, made, do="hits", id=number)["hits"] >= 1
            order(switch, made, do="remove", id=number)
            assert await parted.hears(b"onetwo")

    asyncio.run(play())


@pytest.mark.parametrize(("direction", "arrives"), [("in", False), ("out", True)])
def test_one_way_lets_a_request_arrive_or_not_and_its_answer_never(direction, arrives):
    async def play():
        made, heard = {}, []

        async def broker(reader, writer):
            while data := await reader.read(2**16):
                heard.append(data)
                writer.write(data)

        server = await asyncio.start_server(broker, "127.0.0.1", 0)
        at = server.sockets[0].getsockname()
        switch = Server("switch", {b: {"clients": at, "peers": at, "quorum": at} for b in (1, 2)})
        await switch.listen()
        async with Peer(switch, "broker-2-fetcher-0", 1) as peer:
            peer.say()
            assert await peer.hears()
            cut(switch, made, 1, (2,), direction=direction)
            peer.say(b"more")
            assert await peer.silent()
            assert (heard[-1] == b"more") is arrives
            switch.remove(*made)
            assert await peer.hears(b"more")

    asyncio.run(play())


@pytest.mark.parametrize("direction", ["both", "in", "out"])
def test_a_new_connection_needs_both_directions(direction):
    async def play():
        echo, made = Echo(), {}
        switch = await behind_a_switch(echo)
        cut(switch, made, 1, (2,), direction=direction)
        async with Peer(switch, "raft-client-2", 1, "quorum") as parted, Peer(switch, "raft-client-3", 1) as other:
            parted.say()
            other.say()
            assert await other.hears()
            assert await parted.silent() and echo.opened == 1
            switch.remove(*made)
            assert await parted.hears()

    asyncio.run(play())


def test_who_names_no_broker_is_held_where_somebody_is_cut_off_and_told_of(capsys):
    async def play():
        echo, made = Echo(), {}
        switch = await behind_a_switch(echo)
        async with Peer(switch, "stranger", 1) as stranger, Peer(switch, "stranger", 3) as elsewhere:
            for peer in (stranger, elsewhere):
                peer.say()
                assert await peer.hears()
            cut(switch, made, 1, (2,))
            for peer in (stranger, elsewhere):
                peer.say()
            assert await elsewhere.hears()
            assert await stranger.silent()

    asyncio.run(play())
    assert "'stranger' at peers of broker 1 names no broker" in capsys.readouterr().err


def test_a_header_in_small_parts_is_waited_for_and_no_kafka_is_hung_up_on():
    async def play():
        switch = await behind_a_switch(Echo())
        async with Peer(switch, "raft-client-2", 1, "quorum") as slow, Peer(switch, "", 1) as wrong:
            for byte in slow.hello:
                slow.say(bytes([byte]))
                await asyncio.sleep(0)
            assert await slow.hears()
            wrong.say(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert await wrong.reader.read() == b""

    asyncio.run(play())


def test_one_that_gave_up_while_it_was_held_is_forgotten():
    async def play():
        echo, made = Echo(), {}
        switch = await behind_a_switch(echo)
        cut(switch, made, 1, (2,))
        async with Peer(switch, "raft-client-2", 1) as peer:
            peer.say()
            assert await peer.silent()
        port = next(p for p in switch.ports if (p.broker, p.listener) == (1, "peers"))
        async with asyncio.timeout(5):
            while port.connections:
                await asyncio.sleep(0.01)
        switch.remove(*made)
        assert echo.opened == 0

    asyncio.run(play())


def test_cuts_end_with_whoever_made_them():
    async def play():
        made = {}
        switch = await behind_a_switch(Echo())
        cut(switch, made, 1, (2,))
        cut(switch, made, 1, clients=True)
        switch.remove(*made)
        assert order(switch, made, do="status")["active"] == []
        with pytest.raises(ValueError, match="unknown order"):
            order(switch, made, do="undo")

    asyncio.run(play())
