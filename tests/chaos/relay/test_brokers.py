"""Tests of the proxy in front of real brokers: the rewriting of addresses, each act of a rule, and the end of rules."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from uuid import UUID

import psutil
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPartition
from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import FetchRequest

from chaos.cluster.process.driver import ProcessCluster
from chaos.cluster.settings import ClusterSpec
from chaos.errors import ClusterError
from chaos.faults import FAULTS
from chaos.kafka import admin, messages
from chaos.kafka.client import Kafka
from chaos.kafka.connection import BrokerConnection
from chaos.kafka.partition import TopicPartition
from chaos.processes.process import ProcessId, end_run, find_marked
from chaos.relay import control
from chaos.relay.control import Proxy
from chaos.relay.rules import Frames, Rule
from chaos.run.directory import Run
from chaos.scenario.load import parse
from chaos.wait import wait_until

pytestmark = pytest.mark.kafka

TOPIC = "orders"
FIRST = TopicPartition(TOPIC, 0)
NOT_LEADER, TIMED_OUT = 6, 7
OBSERVER = "aftershock-observer"
ASK = messages.metadata()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    run = Run.create(tmp_path_factory.mktemp("a rather long path for a unix socket, as pytest makes them"), "r" * 80)
    try:
        deployed = ProcessCluster.deploy(run, ClusterSpec(2), ProcessId.current(), 900)
        client = AdminClient({"bootstrap.servers": deployed.bootstrap})
        topics = client.create_topics([NewTopic(TOPIC, 2, 1), NewTopic("moving", 1, replica_assignment=[[1]])])
        for future in topics.values():
            future.result(30)
        del client  # its connections bypass the proxy
        wait_until(lambda: not own_connections(deployed), 30, "this process keeps a direct connection open")
        addresses = {b: deployed.address(b) for b in deployed.broker_ids}
        control.start_proxy(run, addresses, ProcessId.current(), sessions=True)
        yield deployed
    finally:
        end_run(run.path)


@pytest.fixture
def proxy(cluster: ProcessCluster) -> Iterator[Proxy]:
    with Proxy(cluster.run) as proxy:
        yield proxy


@pytest.fixture
def link(proxy: Proxy) -> Iterator[BrokerConnection]:
    link = BrokerConnection(*proxy.address(1))
    link.ask(ASK, 10)
    yield link
    link.close()


def took_s(link: BrokerConnection, timeout_s: float = 10) -> float:
    began = time.monotonic()
    link.ask(ASK, timeout_s)
    return time.monotonic() - began


def end_offset(cluster: ProcessCluster, partition: TopicPartition = FIRST) -> int:
    kafka = Kafka(cluster.bootstrap)
    try:
        return kafka.end_offsets([partition])[partition]
    finally:
        kafka.close()


def producer(proxy: Proxy, **config: object) -> Producer:
    plain = {"client.id": "shop/1", "enable.idempotence": False, "linger.ms": 0, "reconnect.backoff.ms": 20}
    return Producer({"bootstrap.servers": proxy.bootstrap, **plain, **config})


def own_connections(cluster: ProcessCluster) -> set[int]:
    """Return the brokers that this process is connected to without the proxy."""
    ports = {cluster.address(b)[1]: b for b in cluster.broker_ids}
    found = psutil.Process().net_connections("tcp")
    return {ports[c.raddr.port] for c in found if c.raddr and c.status == "ESTABLISHED" and c.raddr.port in ports}


def accepted(cluster: ProcessCluster) -> set[int]:
    """Return the ports of the clients that the proxy is connected to."""
    (proxy,) = (m for m in find_marked() if m.run_dir == cluster.run.path and m.role == "proxy")
    found = psutil.Process(proxy.identity.pid).net_connections("tcp")
    listening = {c.laddr.port for c in found if c.status == "LISTEN"}
    return {c.raddr.port for c in found if c.raddr and c.laddr.port in listening}


def test_clients_use_only_the_addresses_of_the_proxy(cluster, proxy):
    sending = producer(proxy, **{"enable.idempotence": True})
    for number in range(2000):
        sending.produce(TOPIC, b"x" * 1000, partition=number % 2)
    assert sending.flush(30) == 0
    config = {"group.id": "billing", "auto.offset.reset": "earliest", "bootstrap.servers": proxy.bootstrap}
    reading = Consumer(config)
    reading.subscribe([TOPIC])
    records = []
    wait_until(lambda: len(records.extend(reading.consume(500, 0.5)) or records) >= 2000, 30, "not all was read")
    assert all(message.error() is None for message in records)
    reading.commit(asynchronous=False)
    client = AdminClient({"bootstrap.servers": proxy.bootstrap})
    fronts = {proxy.address(b) for b in cluster.broker_ids}
    assert {(n.host, n.port) for n in client.describe_cluster().result(10).nodes} == fronts
    assert {(n.host, n.port) for n in client.list_topics().brokers.values()} == fronts
    assert own_connections(cluster) == set()
    reading.close()


def test_the_new_leader_in_an_answer_to_produce_is_rewritten(cluster, proxy):
    """The leader moves while a producer has it in its cache. The refusal then contains the new leader (KIP-951)."""
    sending = producer(proxy, **{"topic.metadata.refresh.interval.ms": -1, "enable.idempotence": True})
    sending.produce("moving", b"first")
    assert sending.flush(20) == 0
    move_to(cluster, "moving", 2)
    sending.produce("moving", b"second")
    assert sending.flush(20) == 0
    assert end_offset(cluster, TopicPartition("moving", 0)) == 2
    assert own_connections(cluster) == set()


def test_the_proxy_offers_every_version_of_the_brokers(cluster, proxy):
    def offered(address: tuple[str, int]) -> dict[int, tuple[int, int]]:
        link = BrokerConnection(*address)
        answer = link.ask(messages.versions(), 10)
        link.close()
        return {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}

    through = offered(proxy.address(1))
    assert through == offered(cluster.address(1))
    assert through[ApiKey.Fetch][1] >= 18 and ApiKey.ShareFetch in through


def test_the_new_leader_in_an_answer_to_fetch_is_rewritten(cluster, proxy):
    """A reader at the old leader gets the new one in the refusal (KIP-951), and its address there is the proxy's."""
    move_to(cluster, "moving", 1)
    ids = metadata_ids(proxy)
    move_to(cluster, "moving", 2)
    fetch = messages.request(
        FetchRequest[16],
        **{"max_wait_ms": 1, "min_bytes": 1, "max_bytes": 2**20, "forgotten_topics_data": []},
        topics=[
            {
                "topic_id": ids["moving"],
                "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 2**20}],
            }
        ],
    )
    link = BrokerConnection(*proxy.address(1))
    answer = link.ask(fetch, 10)
    link.close()
    assert answer.responses[0].partitions[0].error_code == NOT_LEADER
    assert [(n.node_id, (n.host, n.port)) for n in answer.node_endpoints] == [(2, proxy.address(2))]


def metadata_ids(proxy: Proxy) -> dict[str, UUID]:
    link = BrokerConnection(*proxy.address(1))
    answer = link.ask(messages.metadata(["moving"], topic_ids=True), 10)
    link.close()
    return {topic.name: topic.topic_id for topic in answer.topics}


def move_to(cluster: ProcessCluster, topic: str, broker: int) -> None:
    """Reassign partition 0 to a broker, and wait for it."""
    kafka, partition = Kafka(cluster.bootstrap, timeout_s=10), TopicPartition(topic, 0)
    admin.reassign(kafka, partition, [broker])
    wait_until(lambda: (state := kafka.state(partition)) and state.leader == broker, 30, "the leader did not move")
    kafka.close()


def test_a_dropped_answer_makes_the_producer_write_twice(cluster, proxy):
    before = end_offset(cluster)
    rule = proxy.add(Rule("drop", Frames((leader(cluster),), "Produce", "shop/*", "response"), count=1))
    sending = producer(proxy, **{"socket.timeout.ms": 1000})
    began = time.monotonic()
    sending.produce(TOPIC, b"x", partition=0)
    assert sending.flush(20) == 0
    assert time.monotonic() - began > 0.9, "the producer did not wait for the answer"
    assert proxy.remove(rule).hits == 1
    assert end_offset(cluster) == before + 2, "the retry was not written"


def test_a_dropped_request_is_not_written(cluster, proxy):
    before = end_offset(cluster)
    rule = proxy.add(Rule("drop", Frames((leader(cluster),), "Produce", "shop/*"), count=1))
    sending = producer(proxy, **{"socket.timeout.ms": 1000})
    sending.produce(TOPIC, b"x", partition=0)
    assert sending.flush(20) == 0
    assert proxy.remove(rule).hits == 1
    assert end_offset(cluster) == before + 1


@pytest.mark.parametrize(
    ("side", "error", "written"), [("request", NOT_LEADER, 1), ("response", NOT_LEADER, 2), ("response", TIMED_OUT, 2)]
)
def test_a_producer_sends_again_after_an_error_and_only_an_answered_request_is_written(
    cluster, proxy, side, error, written
):
    before = end_offset(cluster)
    frames = Frames((1, 2), "Produce", "shop/*", side, TOPIC, 0)
    rule = proxy.add(Rule("error", frames, count=1, error=error))
    sending = producer(proxy)
    sending.produce("moving", b"other topic")
    assert sending.flush(20) == 0 and proxy.hits(rule) == 0
    sending.produce(TOPIC, b"x", partition=0)
    assert sending.flush(20) == 0
    assert proxy.remove(rule).hits == 1
    assert end_offset(cluster) == before + written


@pytest.mark.parametrize("library", ["confluent", "kafka-python"])
def test_a_fetch_is_found_by_its_topic_whether_it_names_an_id_or_belongs_to_a_session(cluster, proxy, library):
    """librdkafka sends topic ids, and kafka-python only what changes in its session."""
    sending, got = producer(proxy), []
    where = {"bootstrap.servers": proxy.bootstrap} if library == "confluent" else {}
    sending.produce(TOPIC, b"first", partition=0)
    assert sending.flush(20) == 0
    reading = (
        Consumer({**where, "group.id": "g", "client.id": "reader/1"})
        if where
        else KafkaConsumer(bootstrap_servers=proxy.bootstrap, client_id="reader/1")
    )
    at = end_offset(cluster) - 1
    if where:
        reading.assign([Position(TOPIC, 0, at)])
        poll = lambda: [m.value() for m in reading.consume(10, 0.2)]  # noqa: E731
    else:
        reading.assign([KafkaPartition(TOPIC, 0)])
        reading.seek(KafkaPartition(TOPIC, 0), at)
        poll = lambda: [m.value for of in reading.poll(200).values() for m in of]  # noqa: E731
    wait_until(lambda: got.extend(poll()) or got == [b"first"], 20, "the first record was not read")
    other = proxy.add(Rule("error", Frames((1, 2), "Fetch", "reader/*", topic=TOPIC, partition=1), error=NOT_LEADER))
    rule = proxy.add(Rule("error", Frames((1, 2), "Fetch", "reader/*", topic=TOPIC, partition=0), error=NOT_LEADER))
    wait_until(lambda: poll() or proxy.hits(rule), 20, "no fetch was answered with the error")
    sending.produce(TOPIC, b"second", partition=0)
    assert sending.flush(20) == 0
    assert not [value for _ in range(5) for value in poll()], "a refused fetch delivers nothing"
    assert proxy.hits(other) == 0
    proxy.remove(rule)
    wait_until(lambda: got.extend(poll()) or got == [b"first", b"second"], 30, "the second record was not read")
    reading.close()


def test_a_held_request_is_written_after_its_client_has_gone_and_another_request_has_passed(cluster, proxy, link):
    before = end_offset(cluster)
    held = Rule(
        "hold", Frames((1, 2), "Produce", "shop/*"), 1, delay_s=600, until=Frames(api="Metadata", client=OBSERVER)
    )
    rule, others = proxy.add(held), accepted(cluster)
    sending = producer(proxy, **{"socket.timeout.ms": 1000, "message.timeout.ms": 2000})
    sending.produce(TOPIC, b"late", partition=0)
    wait_until(lambda: proxy.hits(rule), 20, "nothing was held")
    sending.purge()
    del sending  # closes its connections
    wait_until(lambda: accepted(cluster) <= others, 20, "the proxy did not notice that the client has gone")
    assert end_offset(cluster) == before
    link.ask(ASK, 10)
    wait_until(lambda: end_offset(cluster) == before + 1, 20, "the held request was not written")
    counts = proxy.remove(rule)
    assert (counts.hits, counts.released, counts.outlived) == (1, 1, 1)


def test_a_cut_answer_closes_the_connection_and_the_next_one_works(cluster, proxy, link):
    rule = proxy.add(Rule("cut", Frames((1,), "Metadata", side="response"), count=1))
    with pytest.raises(ConnectionResetError):
        link.ask(ASK, 10)
    link.ask(ASK, 10)
    assert proxy.hits(rule) == 1


def leader(cluster: ProcessCluster, partition: TopicPartition = FIRST) -> int:
    kafka = Kafka(cluster.bootstrap)
    try:
        return kafka.metadata().partitions[partition].leader
    finally:
        kafka.close()


@pytest.mark.parametrize("side", ["request", "response"])
def test_a_delayed_frame_arrives_late_once(proxy, link, side):
    rule = proxy.add(Rule("delay", Frames((1,), "Metadata", side=side), count=1, delay_s=0.6))
    assert took_s(link) > 0.55
    link.ask(ASK, 10)
    assert proxy.hits(rule) == 1


def test_held_frames_pass_when_the_rule_is_removed(proxy, link):
    rule = proxy.add(Rule("delay", Frames((1,), "Metadata"), delay_s=600))
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(link.ask, ASK, 20)
        wait_until(lambda: proxy.hits(rule) == 1, 5, "the request did not reach the proxy")
        assert not asked.done()
        proxy.remove(rule)
        asked.result(5)


def test_rules_end_with_the_control_connection_that_added_them(cluster, link):
    with Proxy(cluster.run) as other:
        other.add(Rule("drop", Frames((1,))))
        with pytest.raises(TimeoutError):
            link.ask(ASK, 0.5)
    wait_until(lambda: answers(link), 5, "the rule is still there")


def answers(link: BrokerConnection) -> bool:
    try:
        link.ask(ASK, 1)
    except OSError:
        return False
    return True


def test_a_rule_for_one_client_does_not_affect_others(proxy, link):
    rule = proxy.add(Rule("drop", Frames((1,), client="shop/*")))
    link.ask(ASK, 10)
    assert proxy.hits(rule) == 0


def test_latency_adds_to_a_round_trip_and_bandwidth_to_large_answers(proxy, link):
    slow = proxy.add(Rule("slow", Frames((1,)), latency_s=0.4))
    assert took_s(link) > 0.38
    proxy.remove(slow)
    assert min(took_s(link) for _ in range(9)) < 0.38
    large = messages.metadata([f"{'x' * 240}{n}" for n in range(100)])
    narrow = proxy.add(Rule("slow", Frames((1,)), bandwidth=50_000))
    began = time.monotonic()
    link.ask(large, 10)
    assert time.monotonic() - began > 0.9, "24 kB in each direction"
    assert proxy.remove(narrow).hits > 1


def test_the_proof_of_a_slow_link_is_a_longer_round_trip(cluster, proxy):
    text = """
    {title: t, topics: [{name: orders}], producers: [{name: shop, topic: orders}],
     faults: [{name: slow, kind: wire.slow, target: {broker: 1}, latency: 300ms, bandwidth: 1MiB, when: {at: 1s}}]}
    """
    spec = parse(text, "t.yaml").faults[0]
    slow, world = FAULTS[spec.kind](spec), SimpleNamespace(proxy=proxy, cluster=cluster, access=None)
    assert slow.proof(world) is None
    slow.inject(world)
    assert "rose from" in slow.proof(world)
    slow.heal(world)
    assert slow.proof(world) is None
    slow.heal(world)


def test_an_invalid_order_is_refused_without_effect(proxy, link):
    with pytest.raises(ClusterError, match="refused"):
        proxy.remove(4711)
    assert answers(link)


def test_a_connection_without_kafka_frames_is_closed(proxy, link):
    with socket.create_connection(proxy.address(1), timeout=10) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(10) == b""
    assert answers(link)


def test_connections_end_with_their_broker_and_work_after_its_start(cluster, proxy, link):
    cluster.kill_broker(1)
    for _ in range(3):
        with pytest.raises(ConnectionError):
            link.ask(ASK, 5)
    cluster.start_broker(1)
    wait_until(lambda: answers(link), 10, "the proxy does not accept connections to the broker that has started")


def test_a_proxy_that_ends_during_the_run_is_reported(cluster):
    with Proxy(cluster.run) as proxy:
        proxy.check()
        (process,) = [m for m in find_marked() if m.run_dir == cluster.run.path and m.role == "proxy"]
        process.identity.signal(signal.SIGKILL)
        wait_until(lambda: not process.identity.alive(), 10, "the proxy still runs")
        with pytest.raises(ClusterError, match=r"wire proxy ended in the middle of the run.*proxy\.log"):
            proxy.check()
        with pytest.raises(ClusterError, match="wire proxy ended"):
            proxy.add(Rule("drop", Frames((1,))))
    with pytest.raises(ClusterError, match="is gone"):
        Proxy(cluster.run)
