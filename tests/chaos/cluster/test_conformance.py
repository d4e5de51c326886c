"""The conformance suite of the drivers: each capability has its effect, observed from outside, and can be reverted."""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from chaos.cluster.api import (
    ChangeRelease,
    Cluster,
    CutLog,
    Disconnect,
    ExhaustMemory,
    FillDisk,
    Isolate,
    Kill,
    LimitDisk,
    Pause,
    SetClock,
    Start,
    Stop,
    Throttle,
    Wipe,
    able,
)
from chaos.cluster.brokers.clock_reading import read_clock
from chaos.cluster.drivers import DRIVERS, capabilities, driver
from chaos.cluster.settings import ClusterSpec
from chaos.errors import ClusterError, WaitTimeout
from chaos.faults import FAULTS, SPECS, targets
from chaos.faults.base import World
from chaos.kafka.client import Kafka
from chaos.kafka.metadata import PartitionState
from chaos.kafka.partition import TopicPartition
from chaos.kafka.security import Access
from chaos.preload.libraries import RIGHT, Skew
from chaos.processes.process import ProcessId
from chaos.relay.cuts import Cut
from chaos.run.directory import Run
from chaos.wait import wait_until
from tests.support import secured
from tests.support.engines import needs_engine

pytestmark = pytest.mark.kafka

TOPIC = "orders"
PARTITION = TopicPartition(TOPIC, 0)
QUICK = {"broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 300, "replica.lag.time.max.ms": 2500}
LIMITS = {
    "docker": {"memory_bytes": 640 * 2**20, "disk_bytes": 192 * 2**20, "cpus": 1.5},
    "process": {"switch": True},
}
NEAR_S = 5.0
"""Greatest error of the reading of a clock on a loaded machine."""
SEEN_S = 60.0


DRIVEN = [*itertools.product(DRIVERS, ("4.3.1",)), *itertools.product(("process", "docker"), ("3.9.2",))]


def marks(name: str, kafka: str) -> list[pytest.MarkDecorator]:
    """Return the marks of a driver's tests: the other lanes have processes of one release."""
    if name == "docker":
        every_fault = "system/test_docker.py::test_every_fault_of_containers_is_proven_and_healed"
        return [needs_engine, pytest.mark.nightly(twin=every_fault)]
    if kafka == "3.9.2":
        return [pytest.mark.nightly(twin="chaos/cluster/test_conformance.py")]
    if name == "attached":
        return [pytest.mark.nightly(twin="chaos/cluster/test_attached.py::test_commands_break_and_restore_brokers")]
    return []


@pytest.fixture(
    scope="module",
    params=[pytest.param((name, kafka), id=f"{name}-{kafka}", marks=marks(name, kafka)) for name, kafka in DRIVEN],
)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    name, kafka = request.param
    folder = tmp_path_factory.mktemp("runs")
    run = Run.create(folder, f"conformance-{name}-{kafka}")
    with contextlib.ExitStack() as stack:
        if name == "attached":
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            for variable, value in secured.ENVIRONMENT.items():
                patch.setenv(variable, value)
            theirs = secured.deploy(Run.create(folder, "theirs"), folder)
            stack.callback(theirs.cluster.destroy)
            deployed: Cluster = theirs.attach(run)
        else:
            can = capabilities(name)
            shims = {"clocks": "set_clock" in can, "disks": "slow_disk" in can}
            spec = ClusterSpec(3, kafka, config=QUICK, **shims, **LIMITS.get(name, {}))
            deployed = driver(name).deploy(run, spec, ProcessId.current(), 1800, lambda message: None)
        stack.callback(deployed.destroy)
        admin = AdminClient(settings(deployed))
        admin.create_topics([NewTopic(TOPIC, 1, 3, config={"min.insync.replicas": "2"})])[TOPIC].result(60)
        yield driver(name).attach(run)


def access_of(cluster: Cluster) -> Access | None:
    attached = cluster.state.attached
    return Access.of(attached.security) if attached else None


def settings(cluster: Cluster) -> dict[str, str]:
    """Return the settings for librdkafka clients."""
    access = access_of(cluster)
    return {"bootstrap.servers": cluster.bootstrap, **(access.librdkafka() if access else {})}


@pytest.fixture
def kafka(cluster: Cluster) -> Iterator[Kafka]:
    """A client of the cluster, which is healthy before and after each test."""
    kafka = Kafka(cluster.bootstrap, access=access_of(cluster))
    wait_healthy(kafka)
    yield kafka
    wait_healthy(kafka)
    kafka.close()


def wait_healthy(kafka: Kafka) -> None:
    wait_until(lambda: not kafka.unhealthy([PARTITION]), 90, lambda: f"unhealthy: {kafka.unhealthy([PARTITION])}")


def state(kafka: Kafka) -> PartitionState:
    """Return the state of the partition, merged over the brokers; a new broker may not have it yet."""

    def merged() -> PartitionState | None:
        metadata = kafka.metadata()
        return metadata.partitions.get(PARTITION) if metadata else None

    partition = wait_until(merged, 30, f"no broker lists {PARTITION}")
    assert partition is not None
    return partition


def needs(cluster: Cluster, name: str) -> None:
    attached = cluster.state.attached
    if name not in capabilities(cluster.state.driver, attached.verbs.commands() if attached else None):
        pytest.skip(f"the {cluster.state.driver} driver cannot {name}")


def wait_new_leader(kafka: Kafka, before: PartitionState) -> None:
    def moved() -> bool:
        now = state(kafka)
        return now.leader not in (before.leader, -1) and now.leader_epoch > before.leader_epoch

    wait_until(moved, SEEN_S, lambda: f"the leader did not change: {state(kafka)}")


def wait_parted(kafka: Kafka, leader: int, follower: int) -> None:
    """Wait until the leader drops the follower, or loses its leadership if the follower is the active controller."""

    def parted() -> bool:
        now = state(kafka)
        return now.leader != leader or follower not in now.isr

    wait_until(parted, SEEN_S, lambda: f"{leader} still leads {follower}: {state(kafka)}")


def answers(cluster: Cluster, broker: int) -> bool:
    try:
        targets.answer_s(*cluster.address(broker), targets.SILENCE_S, access_of(cluster))
    except OSError:
        return False
    return True


def silent(cluster: Cluster, broker: int) -> bool:
    return targets.is_silent(broker, cluster, access_of(cluster))


@contextlib.contextmanager
def load(cluster: Cluster, value: bytes = b"x" * 1000) -> Iterator[None]:
    """Send records until the context ends."""
    stop = threading.Event()
    producer = Producer({**settings(cluster), "acks": "all", "delivery.timeout.ms": 5000})

    def send() -> None:
        while not stop.wait(0.001):
            with contextlib.suppress(BufferError):
                producer.produce(TOPIC, value)
            producer.poll(0)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        producer.flush(10)


def test_attach_and_every_broker_answers(cluster: Cluster, kafka: Kafka) -> None:
    assert cluster.broker_ids == [1, 2, 3]
    for broker in cluster.broker_ids:
        assert cluster.broker_alive(broker), f"broker {broker} is not alive, says the driver"
        host, port = cluster.address(broker)
        try:
            targets.answer_s(host, port, targets.SILENCE_S, access_of(cluster))
        except OSError as error:
            pytest.fail(f"broker {broker} is alive but does not answer at {host}:{port}: {error!r}")
    assert sorted(wait_until(kafka.metadata, 30, "no broker answers").brokers) == [1, 2, 3]


def test_kill_and_start(cluster: Cluster, kafka: Kafka) -> None:
    needs(cluster, "kill")
    before = state(kafka)
    able(cluster, Kill).kill_broker(before.leader)
    assert not cluster.broker_alive(before.leader) and not answers(cluster, before.leader)
    with pytest.raises(ClusterError):
        able(cluster, Kill).kill_broker(before.leader)
    wait_new_leader(kafka, before)
    able(cluster, Start).start_broker(before.leader)
    assert cluster.broker_alive(before.leader) and answers(cluster, before.leader)


def test_stop_moves_the_leadership_first(cluster: Cluster, kafka: Kafka) -> None:
    needs(cluster, "stop")
    before = state(kafka)
    able(cluster, Stop).stop_broker(before.leader)
    assert not cluster.broker_alive(before.leader)
    wait_new_leader(kafka, before)
    able(cluster, Start).start_broker(before.leader)


def test_a_lost_majority_restarts_together(cluster: Cluster, kafka: Kafka) -> None:
    needs(cluster, "kill")
    for broker in (1, 2):
        able(cluster, Kill).kill_broker(broker)
    able(cluster, Start).start_brokers([1, 2])
    assert answers(cluster, 1) and answers(cluster, 2)


def test_pause_and_resume(cluster: Cluster, kafka: Kafka) -> None:
    needs(cluster, "pause")
    before = state(kafka)
    able(cluster, Pause).pause_broker(before.leader)
    try:
        assert cluster.broker_alive(before.leader) and silent(cluster, before.leader)
        wait_new_leader(kafka, before)
    finally:
        able(cluster, Pause).resume_broker(before.leader)
    able(cluster, Pause).resume_broker(before.leader)
    wait_until(lambda: answers(cluster, before.leader), 30, "it does not answer again")


def test_a_paused_broker_can_be_killed(cluster: Cluster, kafka: Kafka) -> None:
    needs(cluster, "pause")
    able(cluster, Pause).pause_broker(2)
    able(cluster, Kill).kill_broker(2)
    assert not cluster.broker_alive(2)
    able(cluster, Start).start_broker(2)
    assert answers(cluster, 2)


@pytest.mark.parametrize(
    "direction",
    [
        pytest.param(
            "both",
            marks=pytest.mark.nightly(
                twin="chaos/cluster/test_conformance.py::test_isolate_a_leader_from_its_peers[process-4.3.1-in]"
            ),
        ),
        "in",
        "out",
    ],
)
def test_isolate_a_leader_from_its_peers(cluster: Cluster, kafka: Kafka, direction: str) -> None:
    needs(cluster, "isolate")
    before = state(kafka)
    cut = Cut(before.leader, tuple({1, 2, 3} - {before.leader}), direction=direction)
    able(cluster, Isolate).cut_network(cut)
    try:
        assert answers(cluster, before.leader), "clients are cut off too"
        wait_new_leader(kafka, before)
        assert able(cluster, Isolate).dropped_packets(cut) > 0
    finally:
        able(cluster, Isolate).mend_network(cut)
    able(cluster, Isolate).mend_network(cut)
    assert able(cluster, Isolate).dropped_packets(cut) == 0


def test_isolate_from_clients_only(cluster: Cluster, kafka: Kafka) -> None:
    needs(cluster, "isolate")
    before = state(kafka)
    cut = Cut(before.leader, clients=True)
    able(cluster, Isolate).cut_network(cut)
    try:
        assert silent(cluster, before.leader)
        with pytest.raises(WaitTimeout, match="the ISR stays as it is"):
            wait_until(lambda: len(state(kafka).isr) < len(before.isr), 5, "the ISR stays as it is")
    finally:
        able(cluster, Isolate).mend_network(cut)
    wait_until(lambda: answers(cluster, before.leader), 30, "it does not answer again")


def test_cut_one_link(cluster: Cluster, kafka: Kafka) -> None:
    needs(cluster, "isolate")
    before = state(kafka)
    follower = next(b for b in before.isr if b != before.leader)
    cut = Cut(before.leader, (follower,))
    able(cluster, Isolate).cut_network(cut)
    try:
        with load(cluster):
            wait_parted(kafka, before.leader, follower)
        assert answers(cluster, before.leader) and answers(cluster, follower)
    finally:
        able(cluster, Isolate).mend_network(cut)


def test_disconnect_and_reconnect(cluster: Cluster, kafka: Kafka) -> None:
    needs(cluster, "disconnect")
    before, address = state(kafka), cluster.address(state(kafka).leader)
    able(cluster, Disconnect).disconnect_broker(before.leader)
    try:
        assert cluster.broker_alive(before.leader) and not answers(cluster, before.leader)
        wait_new_leader(kafka, before)
    finally:
        able(cluster, Disconnect).reconnect_broker(before.leader)
    able(cluster, Disconnect).reconnect_broker(before.leader)
    assert cluster.address(before.leader) == address
    wait_until(lambda: answers(cluster, before.leader), 30, "it does not answer again")


def test_throttle(cluster: Cluster, kafka: Kafka) -> None:
    needs(cluster, "throttle")
    broker, can = state(kafka).leader, able(cluster, Throttle)
    with load(cluster):
        began = can.throttled_s(broker)
        can.throttle_broker(broker, 0.1)
        try:
            wait_until(lambda: can.throttled_s(broker) - began > 1, SEEN_S, "it never waited for the CPU")
        finally:
            can.unthrottle_broker(broker)


def test_exhausted_memory(cluster: Cluster, kafka: Kafka) -> None:
    needs(cluster, "exhaust_memory")
    before = state(kafka)
    able(cluster, ExhaustMemory).exhaust_memory(before.leader)
    assert not cluster.broker_alive(before.leader)
    assert able(cluster, ExhaustMemory).killed_for_memory(before.leader)
    wait_new_leader(kafka, before)
    able(cluster, Start).start_broker(before.leader)
    assert not able(cluster, ExhaustMemory).killed_for_memory(before.leader)


def test_a_full_disk(cluster: Cluster, kafka: Kafka) -> None:
    needs(cluster, "fill_disk")
    before, can = state(kafka), able(cluster, FillDisk)
    ends = kafka.end_offsets([PARTITION])[PARTITION]
    can.fill_disk(before.leader, 1 << 20)
    try:
        assert can.disk_room(before.leader) <= 1 << 20
        assert can.disk_room(3 if before.leader != 3 else 2) > 1 << 20, "another broker's disk is full too"
        with load(cluster, b"x" * 4_000):
            wait_until(lambda: not cluster.broker_alive(before.leader), SEEN_S, "the broker goes on with a full disk")
            wait_new_leader(kafka, before)
    finally:
        can.free_disk(before.leader)
        able(cluster, Start).start_broker(before.leader)
    can.free_disk(before.leader)
    assert kafka.end_offsets([PARTITION])[PARTITION] >= ends


def test_a_broker_ends_when_its_log_cannot_grow(cluster: Cluster, kafka: Kafka) -> None:
    needs(cluster, "limit_disk")
    before, can = state(kafka), able(cluster, LimitDisk)
    with load(cluster):
        wait_until(lambda: kafka.end_offsets([PARTITION]).get(PARTITION, 0) > 500, 30, "nothing is written")
        can.limit_disk(before.leader, PARTITION, 0)
        try:
            wait_until(lambda: not cluster.broker_alive(before.leader), SEEN_S, "it goes on with a full disk")
            wait_new_leader(kafka, before)
        finally:
            can.unlimit_disk(before.leader)
            able(cluster, Start).start_broker(before.leader)
    assert answers(cluster, before.leader)


@pytest.mark.landing
def test_one_broker_runs_a_newer_release_and_an_older_one_is_refused(cluster: Cluster, kafka: Kafka) -> None:
    needs(cluster, "change_release")
    change, start, former = able(cluster, ChangeRelease), able(cluster, Start), cluster.state.kafka
    change.set_release(1, "3.9.2" if former == "4.3.1" else "4.3.1")
    able(cluster, Stop).stop_broker(1)
    try:
        if former == "4.3.1":
            with pytest.raises(ClusterError, match="MetadataVersion"):
                start.start_broker(1)
            assert not cluster.broker_alive(1)
        else:
            start.start_broker(1)
            assert change.logged_release(1) == "4.3.1"
            able(cluster, Stop).stop_broker(1)
    finally:
        change.set_release(1, former)
        start.start_broker(1)
    wait_until(lambda: change.logged_release(1) == former, 30, "the former release is not in the log")
    assert cluster.state.as_deployed


def test_a_clock_that_is_set_is_the_one_that_the_broker_has_also_after_a_restart(
    cluster: Cluster, kafka: Kafka
) -> None:
    needs(cluster, "set_clock")
    can, log = able(cluster, SetClock), cluster.run.path / str(cluster.state.node(1).log)

    def ahead_s(broker: int = 1) -> float:
        found = read_clock(*cluster.address(broker), log.with_name(f"broker-{broker}.log"))
        assert found is not None
        return found.ahead_s

    assert ahead_s() == pytest.approx(0, abs=NEAR_S)
    can.set_clock(1, Skew(600))
    try:
        assert (ahead_s(), ahead_s(2)) == pytest.approx((600, 0), abs=NEAR_S)
        assert able(driver(cluster.state.driver).attach(cluster.run), SetClock).clock_ahead_s(1) == 600
        able(cluster, Stop).stop_broker(1)
        can.set_clock(1, Skew(-600))
        able(cluster, Start).start_broker(1)
        assert ahead_s() == pytest.approx(-600, abs=NEAR_S)
    finally:
        can.set_clock(1, RIGHT)
    assert ahead_s() == pytest.approx(0, abs=NEAR_S)
    assert not driver(cluster.state.driver).attach(cluster.run).state.as_deployed


def test_a_slow_disk_shows_in_the_times_that_the_broker_reports(cluster: Cluster, kafka: Kafka) -> None:
    needs(cluster, "slow_disk")
    delays, target = {"write": "50ms", "fsync": "100ms"}, {"target": {"broker": 1}, "when": {"at": 0}}
    spec = SPECS["disk.slow"].model_validate({"name": "slow", "kind": "disk.slow", **delays, **target})
    world = World(None, cluster, None, None, kafka, random.Random(1))  # type: ignore[arg-type]
    slow = FAULTS["disk.slow"](spec)
    # behind, so that it ends with a jump ahead; down, as a step back lets a node wait for the time before the step
    able(cluster, Stop).stop_broker(1)
    able(cluster, SetClock).set_clock(1, Skew(-600))
    able(cluster, Start).start_broker(1)
    try:
        slow.inject(world)
        wait_until(lambda: slow.proof(world), SEEN_S, "the broker reports no slow writes")
        assert driver(cluster.state.driver).attach(cluster.run).state.slow
        able(cluster, Kill).kill_broker(1)
        able(cluster, Start).start_broker(1)
        wait_until(lambda: slow.proof(world), SEEN_S, "the broker reports no slow writes after its restart")
    finally:
        able(cluster, SetClock).set_clock(1, RIGHT)
        healed = slow.heal(world)
    assert "is as fast as before: broker 1 took" in healed
    assert not cluster.state.slow


def test_a_lost_log_tail_is_replicated_again(cluster: Cluster, kafka: Kafka) -> None:
    needs(cluster, "cut_log")
    with load(cluster):
        wait_until(lambda: kafka.end_offsets([PARTITION]).get(PARTITION, 0) > 500, 30, "nothing is written")
    before, disk = state(kafka), able(cluster, CutLog)
    with pytest.raises(ClusterError, match="so its disk cannot be changed"):
        disk.cut_log(before.leader, PARTITION, 100)
    able(cluster, Kill).kill_broker(before.leader)
    tail = disk.cut_log(before.leader, PARTITION, 100)
    assert tail.end - tail.start >= 100
    wait_new_leader(kafka, before)
    able(cluster, Start).start_broker(before.leader)
    wait_until(lambda: not kafka.unhealthy([PARTITION]), SEEN_S, "it is not in sync again")
    assert kafka.end_offsets([PARTITION])[PARTITION] >= tail.end


def test_a_wiped_disk_is_replicated_again(cluster: Cluster, kafka: Kafka) -> None:
    needs(cluster, "wipe")
    before, disk = state(kafka), able(cluster, Wipe)
    end = kafka.end_offsets([PARTITION])[PARTITION]
    assert disk.replicas_on_disk(before.leader) > 0
    able(cluster, Kill).kill_broker(before.leader)
    disk.wipe_disk(before.leader)
    assert disk.replicas_on_disk(before.leader) == 0
    wait_new_leader(kafka, before)
    able(cluster, Start).start_broker(before.leader)
    wait_until(lambda: not kafka.unhealthy([PARTITION]), SEEN_S, "it is not in sync again")
    assert disk.replicas_on_disk(before.leader) > 0
    assert kafka.end_offsets([PARTITION])[PARTITION] >= end
