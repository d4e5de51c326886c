"""Tests of connections through the proxy without brokers: held data, back pressure, and how connections end."""

import asyncio
import struct
from contextlib import asynccontextmanager

import pytest

from chaos.relay.pipe import QUEUE_BYTES
from chaos.relay.server import Server

pytestmark = pytest.mark.slow

FETCH = 1


def frame(body=b"body"):
    head = struct.pack(">hhih", FETCH, 12, 7, 6) + b"shop/1"
    return struct.pack(">i", len(head) + len(body)) + head + body


class Broker:
    """A broker that keeps what it receives."""

    def __init__(self):
        self.received = bytearray()
        self.ended = asyncio.Event()

    async def serve(self, reader, writer):
        while data := await reader.read(2**16):
            self.received += data
        self.ended.set()
        writer.close()


@asynccontextmanager
async def proxy_before(broker):
    listening = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    server = Server("proxy", {1: {"clients": listening.sockets[0].getsockname()}})
    await server.listen()
    async with asyncio.timeout(20):
        yield server, *await asyncio.open_connection(*server.addresses[1]["clients"])


def add(server, added, **rule):
    return server.obey({"do": "add", "item": {"frames": {"brokers": [1]}, **rule}}, added)["id"]


def test_data_of_a_client_that_closed_still_reaches_the_broker(monkeypatch):
    monkeypatch.setattr("chaos.relay.ruled.LAST_ANSWER_S", 0.2)  # this broker never answers

    async def play():
        broker = Broker()
        async with proxy_before(broker) as (server, _, writer):
            rule = add(server, added := {}, act="delay", delay_s=600)
            writer.write(frame())
            writer.close()
            while server.obey({"do": "hits", "id": rule}, added)["hits"] == 0:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            assert not broker.received and not broker.ended.is_set()
            server.remove(rule)
            await broker.ended.wait()
        assert broker.received == frame()

    asyncio.run(play())


def test_the_proxy_stops_reading_while_a_rule_holds_more_than_the_limit():
    async def play():
        broker, body = Broker(), b"x" * 2**16
        async with proxy_before(broker) as (server, _, writer):
            rule = add(server, {}, act="delay", delay_s=600, count=1)
            frames = [frame(body) for _ in range(64 * QUEUE_BYTES // len(body))]
            sending = asyncio.create_task(send(writer, frames))
            _, waiting = await asyncio.wait([sending], timeout=1)
            assert waiting, "the proxy took everything although nothing may pass"
            (connection,) = server.ports[0].connections
            assert QUEUE_BYTES < sum(map(len, connection.requests.queued())) < 2 * QUEUE_BYTES
            server.remove(rule)
            await sending
            await broker.ended.wait()
        assert broker.received == b"".join(frames)

    asyncio.run(play())


async def send(writer, frames):
    for data in frames:
        writer.write(data)
        await writer.drain()
    writer.close()


def test_a_refused_connection_resets_the_client():
    async def play():
        listening = await asyncio.start_server(Broker().serve, "127.0.0.1", 0)
        address = listening.sockets[0].getsockname()
        listening.close()
        await listening.wait_closed()
        server = Server("proxy", {1: {"clients": address}})
        await server.listen()
        async with asyncio.timeout(20):
            reader, writer = await asyncio.open_connection(*server.addresses[1]["clients"])
            writer.write(frame())
            with pytest.raises(ConnectionResetError):
                await reader.read()
        assert not server.ports[0].connections

    asyncio.run(play())


async def outcome(address):
    """Return what a client sees that connects and sends a request: refused, reset or open."""
    try:
        reader, writer = await asyncio.open_connection(*address)
    except ConnectionRefusedError:
        return "refused"
    writer.write(frame())
    try:
        async with asyncio.timeout(0.3):
            await reader.read(1)
            return "reset"
    except ConnectionError:
        return "reset"
    except TimeoutError:
        return "open"
    finally:
        writer.close()


@pytest.mark.parametrize("front", [False, True])
def test_a_port_refuses_connections_while_its_broker_does_and_keeps_its_number(front):
    async def play():
        listening = await asyncio.start_server(Broker().serve, "127.0.0.1", 0)
        at = listening.sockets[0].getsockname()
        server = Server("proxy", {1: {"clients": at}})
        await server.listen()
        address = server.front("billing/1")[1] if front else server.addresses[1]["clients"]
        async with asyncio.timeout(20):
            assert await outcome(address) == "open"
            listening.close()
            await listening.wait_closed()
            seen = [await outcome(address)]
            while seen[-1] != "refused":
                seen.append(await outcome(address))
            assert len(seen) <= 3, seen
            assert [await outcome(address) for _ in range(3)] == ["refused"] * 3
            again = await asyncio.start_server(Broker().serve, *at)
            while await outcome(address) != "open":
                await asyncio.sleep(0.02)
            again.close()

    asyncio.run(play())


def test_a_front_listens_where_it_is_asked_to_and_gives_the_advertised_host():
    async def play():
        async with proxy_before(Broker()) as (server, _, _):
            order = {"do": "front", "name": "billing/1", "listen": "0.0.0.0", "advertise": "host.example"}
            host, port = server.obey(order, {})["addresses"][1]
            assert host == "host.example"
            assert await outcome(("127.0.0.2", port)) == "open"
            opened = {port["front"]: port["opened"] for port in server.obey({"do": "status"}, {})["ports"]}
            assert opened == {"": 1, "billing/1": 1}
            with pytest.raises(ValueError, match=r"cannot listen at 192\.0\.2\.1"):
                server.front("billing/2", "192.0.2.1")
            assert server.front("billing/2")[1][0] == "127.0.0.1", "the name is free after the refusal"

    asyncio.run(play())
