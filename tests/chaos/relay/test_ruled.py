"""Tests of rules on stand-in connections: topics, errors in place of answers, and frames that wait for others."""

import asyncio
from contextlib import asynccontextmanager

from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import HeartbeatRequest, HeartbeatResponse, SyncGroupRequest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kafka.protocol.producer import ProduceResponse

from chaos.kafka.messages import request
from chaos.relay.frames import LENGTH_BYTES, request_head, response_head
from chaos.relay.server import Server
from tests.chaos.relay.messages import TOPIC_ID, encoded, naming

NOT_LEADER, TIMED_OUT = 6, 7


async def frame_of(reader):
    """Return the next frame, and its correlation id or API key."""
    length = await reader.readexactly(LENGTH_BYTES)
    return length + await reader.readexactly(int.from_bytes(length, "big"))


class Broker:
    """A broker that answers with what `answers` makes of a request, when `answering` is set."""

    def __init__(self, answers=None):
        self.answers = answers or accept
        self.answering = asyncio.Event()
        self.answering.set()
        self.received, self.ended = [], 0

    async def serve(self, reader, writer):
        try:
            while True:
                frame = await frame_of(reader)
                head = request_head(frame, 0)
                self.received.append(head.correlation)
                await self.answering.wait()
                writer.write(self.answers(head))
        except asyncio.IncompleteReadError:
            self.ended += 1
            writer.close()


def accept(head):
    """Return an answer to Produce, Metadata or Heartbeat."""
    if head.api == ApiKey.Produce:
        partition = {"index": 3, "error_code": 0, "base_offset": 5}
        topic = {"topic_id": TOPIC_ID} if head.version >= 13 else {"name": "orders"}
        message = request(ProduceResponse[head.version], responses=[{**topic, "partition_responses": [partition]}])
    elif head.api == ApiKey.Metadata:
        message = request(
            MetadataResponse[12],
            **{"brokers": [], "topics": [{"name": "orders", "topic_id": TOPIC_ID, "error_code": 0, "partitions": []}]},
        )
    else:
        message = request(HeartbeatResponse[4], error_code=0)
    return encoded(message, head.correlation)


class Client:
    """A client that sends requests and reads answers."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    def send(self, message, correlation, client="shop/1"):
        self.writer.write(encoded(message, correlation, client))

    async def answer(self):
        frame = await frame_of(self.reader)
        return response_head(frame, 0).correlation, frame

    async def produced(self, version=9):
        """Return the correlation id, the error code and the offset of an answer to Produce."""
        correlation, frame = await self.answer()
        message = ProduceResponse.decode(memoryview(frame)[LENGTH_BYTES:], version=version, header=True)
        partition = message.responses[0].partition_responses[0]
        return correlation, partition.error_code, partition.base_offset


@asynccontextmanager
async def proxy(broker, clients=1, recorder=None, front=""):
    listening = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    server = Server("proxy", {1: {"clients": listening.sockets[0].getsockname()}}, recorder=recorder)
    await server.listen()
    address = server.front(front)[1] if front else server.addresses[1]["clients"]
    async with asyncio.timeout(20):
        made = [Client(*await asyncio.open_connection(*address)) for _ in range(clients)]
        yield server, made


def add(server, added, act, until=None, **rule):
    frames = {key: rule.pop(key) for key in ("api", "client", "side", "topic", "partition") if key in rule}
    order = {"act": act, "frames": {"brokers": [1], **frames}, "until": until, **rule}
    return server.obey({"do": "add", "item": order}, added)["id"]


def counts(server, added, rule):
    return server.obey({"do": "hits", "id": rule}, added)


def numbers(answer):
    return answer["hits"], answer["released"], answer["outlived"]


async def until(condition):
    while not condition():
        await asyncio.sleep(0.005)


def heartbeat():
    return request(HeartbeatRequest[4], group_id="g", generation_id=1, member_id="m")


def sync(member):
    return request(SyncGroupRequest[5], group_id="billing", generation_id=1, member_id=member, assignments=[])


def produce(topic="orders", version=9, **fields):
    return naming(ApiKey.Produce, version, topic, **fields)


def test_only_requests_for_the_topic_are_dropped():
    async def play():
        broker = Broker()
        async with proxy(broker) as (server, (client,)):
            rule = add(server, added := {}, "drop", api="Produce", topic="orders", partition=3)
            for number, message in enumerate([produce("bills"), produce(), produce(number=4), heartbeat()]):
                client.send(message, number)
            assert [(await client.answer())[0] for _ in range(3)] == [0, 2, 3]
            assert broker.received == [0, 2, 3]
            assert counts(server, added, rule)["hits"] == 1

    asyncio.run(play())


def test_a_topic_is_known_by_the_id_that_metadata_gave():
    async def play():
        broker = Broker()
        async with proxy(broker) as (server, (client,)):
            rule = add(server, added := {}, "drop", api="Produce", topic="orders")
            client.send(produce(version=13), 1)
            await client.answer()
            assert counts(server, added, rule)["hits"] == 0, "nobody has said yet which topic that is"
            client.send(metadata(), 2)
            await client.answer()
            client.send(produce(version=13), 3)
            client.send(heartbeat(), 4)
            assert (await client.answer())[0] == 4
            assert counts(server, added, rule)["hits"] == 1 and broker.received == [1, 2, 4]

    asyncio.run(play())


def metadata():
    return request(MetadataRequest[12], topics=None)


def test_a_refused_request_is_answered_in_its_turn_and_never_reaches_the_broker():
    async def play():
        broker = Broker()
        async with proxy(broker) as (server, (client,)):
            rule = add(server, added := {}, "error", api="Produce", topic="orders", error=NOT_LEADER, count=1)
            broker.answering.clear()
            client.send(heartbeat(), 1)
            client.send(produce(), 2)
            client.send(produce(), 3)
            await until(lambda: counts(server, added, rule)["hits"])
            broker.answering.set()
            assert (await client.answer())[0] == 1, "brokers answer in order, and clients rely on it"
            assert await client.produced() == (2, NOT_LEADER, -1)
            assert await client.produced() == (3, 0, 5)
            assert broker.received == [1, 3]

    asyncio.run(play())


def test_a_refused_request_behind_nothing_is_answered_at_once():
    async def play():
        broker = Broker()
        async with proxy(broker) as (server, (client,)):
            add(server, {}, "error", api="Produce", error=TIMED_OUT)
            client.send(produce(), 1)
            assert await client.produced() == (1, TIMED_OUT, -1)
            assert broker.received == []

    asyncio.run(play())


def test_a_request_that_expects_no_answer_is_not_refused():
    async def play():
        broker = Broker(lambda head: b"" if head.api == ApiKey.Produce else accept(head))
        async with proxy(broker) as (server, (client,)):
            rule = add(server, added := {}, "error", api="Produce", error=TIMED_OUT)
            client.send(produce(acks=0), 1)
            client.send(heartbeat(), 2)
            assert (await client.answer())[0] == 2
            assert broker.received == [1, 2] and counts(server, added, rule)["hits"] == 0

    asyncio.run(play())


def test_an_answer_gets_the_error_although_the_broker_carried_the_request_out():
    async def play():
        broker = Broker()
        async with proxy(broker) as (server, (client,)):
            rule = add(
                server, added := {}, "error", api="Produce", topic="orders", side="response", error=TIMED_OUT, count=1
            )
            client.send(produce(), 1)
            assert await client.produced() == (1, TIMED_OUT, -1)
            client.send(produce(), 2)
            assert await client.produced() == (2, 0, 5)
            assert broker.received == [1, 2] and counts(server, added, rule)["hits"] == 1

    asyncio.run(play())


def test_an_answer_that_the_error_does_not_change_is_no_hit():
    async def play():
        async with proxy(Broker()) as (server, (client,)):
            # the request names another partition too, and the answer leaves it out
            rule = add(
                server,
                added := {},
                "error",
                api="Produce",
                partition=4,
                topic="orders",
                side="response",
                error=TIMED_OUT,
            )
            client.send(produce(number=4), 1)
            assert await client.produced() == (1, 0, 5)
            assert counts(server, added, rule)["hits"] == 0

    asyncio.run(play())


def test_a_held_request_outlives_its_connection_and_passes_after_another_one():
    async def play():
        broker = Broker()
        async with proxy(broker, clients=2) as (server, (first, second)):
            rule = add(
                server,
                added := {},
                "hold",
                {"api": "Heartbeat", "client": "till/*"},
                api="Produce",
                delay_s=600,
                count=1,
            )
            first.send(produce(), 1)
            await until(lambda: counts(server, added, rule)["hits"])
            first.writer.close()
            second.send(produce(), 2)
            second.send(heartbeat(), 3)
            assert [(await second.answer())[0] for _ in range(2)] == [2, 3]
            assert broker.received == [2, 3], "neither of them is a heartbeat of till"
            second.send(heartbeat(), 4, client="till/1")
            await until(lambda: 1 in broker.received)
            assert broker.received == [2, 3, 4, 1]
            assert numbers(counts(server, added, rule)) == (1, 1, 1)

    asyncio.run(play())


def test_the_broker_answers_a_request_that_outlived_its_connection_before_it_is_closed():
    async def play():
        broker = Broker()
        async with proxy(broker) as (server, (client,)):
            rule = add(server, added := {}, "delay", api="Produce", delay_s=600)
            client.send(produce(), 1)
            await until(lambda: counts(server, added, rule)["hits"])
            client.writer.close()
            await asyncio.sleep(0.1)
            broker.answering.clear()
            assert numbers(server.obey({"do": "remove", "id": rule}, added)) == (1, 0, 1)
            await until(lambda: broker.received)
            await asyncio.sleep(0.1)
            assert broker.ended == 0, "a broker may drop requests of a connection that is closed"
            broker.answering.set()
            await until(lambda: broker.ended)

    asyncio.run(play())


def test_a_held_answer_waits_for_a_request_and_passes_when_its_time_is_over():
    async def play():
        async with proxy(Broker(), clients=2) as (server, (first, second)):
            rule = add(server, added := {}, "hold", {"api": "Heartbeat"}, api="Produce", side="response", delay_s=600)
            first.send(produce(), 1)
            await until(lambda: counts(server, added, rule)["hits"])
            second.send(heartbeat(), 2)
            assert await first.produced() == (1, 0, 5)
            assert counts(server, added, rule)["released"] == 1
            server.remove(rule)
            rule = add(server, added, "hold", {"api": "Heartbeat"}, api="Produce", delay_s=0.05)
            first.send(produce(), 3)
            assert await first.produced() == (3, 0, 5)
            assert numbers(counts(server, added, rule)) == (1, 0, 0)

    asyncio.run(play())


def test_a_frame_that_waits_itself_frees_others_only_when_it_passes():
    async def play():
        broker = Broker()
        async with proxy(broker, clients=2) as (server, (first, second)):
            hold = add(server, added := {}, "hold", {"api": "Heartbeat"}, api="Produce", delay_s=600)
            late = add(server, added, "delay", api="Heartbeat", delay_s=600)
            slow = add(server, added, "slow", latency_s=0.05)
            first.send(produce(), 1)
            await until(lambda: counts(server, added, hold)["hits"])
            second.send(heartbeat(), 2)
            await until(lambda: counts(server, added, late)["hits"])
            await asyncio.sleep(0.15)
            assert counts(server, added, hold)["released"] == 0 and broker.received == []
            server.remove(late)
            await until(lambda: broker.received == [2, 1])
            assert counts(server, added, hold)["released"] == 1 and counts(server, added, slow)["hits"] > 0

    asyncio.run(play())


def test_frames_in_small_pieces_are_read_and_refused_as_well():
    async def play():
        broker = Broker()
        async with proxy(broker) as (server, (client,)):
            add(server, {}, "error", api="Produce", topic="orders", error=NOT_LEADER)
            data = encoded(produce("bills"), 1) + encoded(produce(), 2) + encoded(heartbeat(), 3)
            for at in range(0, len(data), 7):
                client.writer.write(data[at : at + 7])
                await client.writer.drain()
                await asyncio.sleep(0)
            assert await client.produced() == (1, 0, 5)
            assert await client.produced() == (2, NOT_LEADER, -1)
            assert (await client.answer())[0] == 3
            assert broker.received == [1, 3]

    asyncio.run(play())


@asynccontextmanager
async def front(broker):
    """A proxy with the front of shop/1, and a client there."""
    async with proxy(broker) as (server, _):
        client = Client(*await asyncio.open_connection(*server.front("shop/1")[1]))
        yield server, client


def moment(server, added, side="request", **rule):
    frames = {"api": "Produce", "side": side, "front": "shop/*", "after": rule.pop("after", None)}
    order = {"act": "delay", "frames": frames, "delay_s": 600, "count": 1, **rule}
    return server.obey({"do": "add", "item": order}, added)["id"]


def test_a_moment_is_the_nth_frame_after_a_step_at_a_front():
    async def play():
        broker = Broker()
        async with front(broker) as (server, client):
            rule = moment(server, added := {}, after="Produce response", skip=1)
            for number in range(1, 4):  # the first one comes after no step, the second one is passed
                client.send(produce(), number)
                if number < 3:
                    await client.produced()
            await until(lambda: counts(server, added, rule)["hits"])
            found = counts(server, added, rule)
            assert (found["front"], found["broker"]) == ("shop/1", 1) and broker.received == [1, 2]
            server.remove(rule)
            assert await client.produced() == (3, 0, 5)
            moments = {(last, name): count for last, name, count in server.obey({"do": "moments"}, {})["shop/1"]}
            assert moments == {
                ("", "Produce request"): 1,
                ("Produce request", "Produce response"): 3,
                ("Produce response", "Produce request"): 2,
            }

    asyncio.run(play())


def test_a_new_process_at_a_front_begins_without_the_last_step_of_the_one_before():
    async def play():
        async with front(Broker()) as (server, client):
            client.send(produce(), 1)
            await client.produced()
            server.obey({"do": "begin", "front": "shop/2"}, {})
            assert server.obey({"do": "steps"}, {}) == {"shop/1": "Produce response"}
            client.send(produce(), 2)
            await client.produced()
            server.obey({"do": "begin", "front": "shop/1"}, {})
            client.send(produce(), 3)
            await client.produced()
            moments = {(last, name): count for last, name, count in server.obey({"do": "moments"}, {})["shop/1"]}
            assert moments["", "Produce request"] == 2 and moments["Produce response", "Produce request"] == 1

    asyncio.run(play())


def test_the_members_that_a_process_at_a_front_is_are_known_until_the_next_one_begins():
    async def play():
        async with front(Broker()) as (server, client):
            members = lambda: server.obey({"do": "members"}, {})  # noqa: E731
            for number, member in enumerate(("a-1", "b-1", "a-1")):
                client.send(sync(member), number)
                await client.answer()
            assert members() == {"shop/1": [("billing", "a-1"), ("billing", "b-1")]}
            server.obey({"do": "begin", "front": "shop/2"}, {})
            assert members()
            server.obey({"do": "begin", "front": "shop/1"}, {})
            assert members() == {}

    asyncio.run(play())


def test_a_heartbeat_is_no_step_and_no_moment():
    async def play():
        async with front(Broker()) as (server, client):
            for number, message in enumerate((produce(), heartbeat(), produce())):
                client.send(message, number)
                await client.answer()
            moments = {(last, name): count for last, name, count in server.obey({"do": "moments"}, {})["shop/1"]}
            assert not any("Heartbeat" in name for _, name in moments)
            assert moments["Produce response", "Produce request"] == 1

    asyncio.run(play())


def test_what_a_moment_holds_is_lost_with_its_connection():
    async def play():
        broker = Broker()
        async with front(broker) as (server, client):
            rule = moment(server, added := {})
            client.send(produce(), 1)
            await until(lambda: counts(server, added, rule)["hits"])
            server.obey({"do": "remove", "id": rule, "lose": True}, added)
            await until(lambda: broker.ended)
            assert broker.received == []
            second = Client(*await asyncio.open_connection(*server.front("shop/1")[1]))
            second.send(produce(), 2)
            assert await second.produced() == (2, 0, 5)

    asyncio.run(play())
