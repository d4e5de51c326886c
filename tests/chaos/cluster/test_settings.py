"""Broker settings, capabilities, ports, the saved state, and errors in logs."""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from chaos.cluster import state
from chaos.cluster.api import CAPABILITIES
from chaos.cluster.brokers.release import MAX_LINES, Release, error_lines, read_from
from chaos.cluster.deployment import Deployment, check_disk
from chaos.cluster.drivers import DRIVERS, capabilities, driver
from chaos.cluster.process import zookeeper
from chaos.cluster.process.driver import create_layout
from chaos.cluster.settings import (
    BrokerEndpoints,
    ClusterSpec,
    Metadata,
    broker_settings,
    choose_metadata,
    on_this_host,
    properties,
)
from chaos.errors import ClusterError, MachineError, RunDirError, UsageError
from chaos.install.java import Java
from chaos.processes.ports import free_ports, is_free
from chaos.processes.process import ProcessId, Spawned
from chaos.run.directory import Run


def test_the_capabilities_of_processes_and_containers() -> None:
    of_processes = {"wipe", "cut_log", "limit_disk", "change_release", "set_clock", "slow_disk"}
    assert capabilities("process") == {"kill", "stop", "start", "pause", "isolate"} | of_processes
    assert capabilities("docker") == CAPABILITIES.keys() - of_processes


def test_the_capabilities_of_the_attached_driver_follow_its_commands() -> None:
    assert capabilities("attached", []) == set()
    assert capabilities("attached", ["kill", "start", "pause"]) == {"kill", "start"}
    assert capabilities("attached", ["pause", "resume", "stop"]) == {"pause", "stop"}


@pytest.mark.parametrize("name", DRIVERS)
def test_the_table_of_capabilities_lists_the_protocols_that_each_driver_class_implements(name: str) -> None:
    cls: type = driver(name)
    assert capabilities(name) == {key for key, protocol in CAPABILITIES.items() if issubclass(cls, protocol)}


def test_an_unknown_driver_is_refused_with_the_valid_names() -> None:
    with pytest.raises(UsageError, match=f"'moon'; known: {', '.join(sorted(DRIVERS))}"):
        capabilities("moon")


@pytest.mark.parametrize(("brokers", "factor", "min_isr"), [(1, "1", "1"), (2, "2", "2"), (3, "3", "2"), (5, "3", "2")])
def test_internal_topics_fit_the_cluster(brokers: int, factor: str, min_isr: str) -> None:
    found = broker_settings(ClusterSpec(brokers), 1, on_this_host([1] * brokers, [2] * brokers))
    assert found["offsets.topic.replication.factor"] == factor
    assert found["transaction.state.log.replication.factor"] == factor
    assert found["transaction.state.log.min.isr"] == min_isr
    assert "offsets.topic.num.partitions" not in found and "broker.session.timeout.ms" not in found


def test_the_user_overrides_defaults_but_not_settings_of_the_driver() -> None:
    spec = ClusterSpec(2, config={"group.initial.rebalance.delay.ms": 3000, "auto.create.topics.enable": False})
    found = broker_settings(spec, 2, on_this_host([11, 12], [21, 22]))
    assert found["group.initial.rebalance.delay.ms"] == "3000"
    assert found["auto.create.topics.enable"] == "false"
    assert found["controller.quorum.voters"] == "1@127.0.0.1:21,2@127.0.0.1:22"
    assert found["listeners"] == "CLIENT://127.0.0.1:12,CONTROLLER://127.0.0.1:22"


@pytest.mark.parametrize("key", ["node.id", "log.dir", "controller.quorum.voters", "advertised.listeners"])
def test_settings_of_the_driver_are_refused_by_name(key: str) -> None:
    with pytest.raises(UsageError, match=f"{key} is decided by Aftershock"):
        ClusterSpec(config={key: "x"}).check()


@pytest.mark.parametrize(
    ("kafka", "folders", "message"),
    [
        ("4.3.1", "d1, d2", ""),
        ("3.2.3", "d1,d2", ""),  # with ZooKeeper
        ("3.6.2", "d1,d2", "has one data folder in KRaft"),
        ("4.3.1", "d1", "name two or more folders there"),
        ("4.3.1", "/disk1,/disk2", "name two or more folders there"),
        ("4.3.1", "d1,d2,d1", "a folder is given twice"),
    ],
)
def test_brokers_with_several_data_folders(kafka: str, folders: str, message: str) -> None:
    spec = ClusterSpec(2, kafka=kafka, config={"log.dirs": folders})
    if message:
        with pytest.raises(UsageError, match=message):
            spec.check()
        return
    spec.check()
    server = "127.0.0.1:2181" if spec.zookeeper else None
    found = broker_settings(spec, 2, on_this_host([11, 12], [21, 22]), zookeeper=server)
    assert found["log.dirs"] == "data/d1,data/d2"
    assert found.get("metadata.log.dir") == (None if spec.zookeeper else "data")


@pytest.mark.parametrize(
    ("version", "asked", "chosen"),
    [
        ("2.8.2", None, "zookeeper"),
        ("3.2.3", None, "zookeeper"),
        ("3.3.2", None, "kraft"),
        ("3.9.2", None, "kraft"),
        ("3.9.2", "zookeeper", "zookeeper"),
        ("4.0.2", None, "kraft"),
        ("10.0.0", "kraft", "kraft"),
    ],
)
def test_the_default_metadata_mode_of_a_release(version: str, asked: Metadata | None, chosen: Metadata) -> None:
    assert choose_metadata(version, asked) == chosen
    spec = ClusterSpec(kafka=version, metadata=asked)
    spec.check()
    assert spec.zookeeper == (chosen == "zookeeper")


@pytest.mark.parametrize(
    ("version", "asked", "says"),
    [
        ("2.7.2", None, "2.7.2 is too old; choose 2.8 or newer"),
        ("2.8.2", "kraft", "since Kafka 3.3, and this is 2.8.2"),
        ("4.0.2", "zookeeper", "4.0.2 has no ZooKeeper mode"),
    ],
)
def test_an_unsupported_metadata_mode_is_refused(version: str, asked: Metadata | None, says: str) -> None:
    with pytest.raises(UsageError, match=says) as error:
        ClusterSpec(kafka=version, metadata=asked).check()
    assert "\n" not in str(error.value)


def test_with_zookeeper_a_broker_has_no_quorum_settings() -> None:
    spec = ClusterSpec(2, "2.8.2")
    found = broker_settings(spec, 2, on_this_host([11, 12]), zookeeper="127.0.0.1:31")
    assert (found["broker.id"], found["zookeeper.connect"]) == ("2", "127.0.0.1:31")
    assert (found["listeners"], found["listener.security.protocol.map"]) == (
        "CLIENT://127.0.0.1:12",
        "CLIENT:PLAINTEXT",
    )
    assert not found.keys() & {"node.id", "process.roles", "controller.quorum.voters", "controller.listener.names"}


@pytest.mark.parametrize(
    ("config", "session"),
    [
        ({}, "9000"),
        ({"broker.session.timeout.ms": 2000}, "2000"),
        ({"broker.session.timeout.ms": 2000, "zookeeper.session.timeout.ms": 3000}, "3000"),
    ],
)
def test_the_session_timeout_is_equal_with_and_without_zookeeper(config: dict[str, int], session: str) -> None:
    spec = ClusterSpec(1, "2.8.2", config=config)
    with_it = broker_settings(spec, 1, on_this_host([11]), zookeeper="127.0.0.1:31")
    assert with_it["zookeeper.session.timeout.ms"] == session
    without = broker_settings(ClusterSpec(1, config=config), 1, on_this_host([11], [21]))
    assert without.get("zookeeper.session.timeout.ms") == (session if session == "3000" else None)


@pytest.mark.parametrize(
    ("kafka", "quorum"), [("4.3.1", ",CONTROLLER://h:23"), ("3.9.2", ",CONTROLLER://h:23"), ("3.8.1", "")]
)
def test_behind_a_switch_a_broker_advertises_the_addresses_of_the_switch(kafka: str, quorum: str) -> None:
    """Before 3.9, a controller listener must not be advertised, and voters use only their list."""
    own = {"CLIENT": "127.0.0.1:1", "PEERS": "127.0.0.1:2", "CONTROLLER": "127.0.0.1:3"}
    found = broker_settings(
        ClusterSpec(1, kafka, switch=True), 1, [BrokerEndpoints("h", 21, "h:23", "h:22", behind=own)]
    )
    assert found["listeners"] == "CLIENT://127.0.0.1:1,PEERS://127.0.0.1:2,CONTROLLER://127.0.0.1:3"
    assert found["advertised.listeners"] == f"CLIENT://h:21,PEERS://h:22{quorum}"
    assert found["controller.quorum.voters"] == "1@h:23"
    assert found["inter.broker.listener.name"] == "PEERS"


def test_zookeeper_listens_on_loopback_without_an_admin_server() -> None:
    found = zookeeper.settings(31)
    assert (found["clientPortAddress"], found["clientPort"], found["admin.enableServer"]) == (
        "127.0.0.1",
        "31",
        "false",
    )


DUMP = """SessionTracker dump:
Session Sets (2)/(1):
ephemeral nodes dump:
Sessions with Ephemerals (2):
0x100000000000001:
\t/controller
\t/brokers/ids/1
0x100000000000002:
\t/brokers/ids/12
Connections dump:
"""


@pytest.mark.parametrize(
    ("answer", "brokers"),
    [(DUMP, {1, 12}), ("ephemeral nodes dump:\n", set()), ("", None), ("dump is not executed because", None)],
)
def test_registered_brokers_are_read_from_a_dump(monkeypatch: pytest.MonkeyPatch, answer: str, brokers: object) -> None:
    monkeypatch.setattr(zookeeper, "_query", lambda server, command: answer)
    assert zookeeper.registered(state.ZooKeeperState(host="127.0.0.1", port=1, log="x")) == brokers


def test_fixed_ports_count_up() -> None:
    spec = ClusterSpec(3, config={"listeners": "PLAINTEXT://127.0.0.1:19092"})
    assert spec.fixed_ports() == [19092, 19093, 19094]


@pytest.mark.parametrize(
    "listeners", ["PLAINTEXT://0.0.0.0:9092", "9092", "X://127.0.0.1:0", "X://127.0.0.1:65534", 9092]
)
def test_listeners_on_other_addresses_are_refused(listeners: str | int) -> None:
    with pytest.raises(UsageError, match="listeners is"):
        ClusterSpec(3, config={"listeners": listeners}).check()


def test_a_properties_file_is_escaped() -> None:
    text = properties({"a.b": "c:d=e #f", "back": "\\n", "two": "x\ny", "umlaut": "ä😀"})
    assert text == "a.b=c\\:d\\=e\\ \\#f\nback=\\\\n\ntwo=x\\ny\numlaut=\\u00e4\\ud83d\\ude00\n"


def test_free_ports_are_distinct_and_outside_the_ephemeral_range() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20 and all(is_free(port) for port in ports)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert not is_free(server.getsockname()[1])
        assert client.getsockname()[1] not in ports


@pytest.fixture
def release(tmp_path: Path) -> Release:
    storage = tmp_path / "storage"
    storage.mkdir()
    (storage / "meta.properties").write_text("node.id=1\ncluster.id=x\ndirectory.id=y\nversion=1\n")
    (storage / "bootstrap.checkpoint").write_bytes(b"\0\1")
    return Release("4.3.1", Java(Path("java"), 17, "17"), "", storage)


def deployment_of(run: Run, spec: ClusterSpec) -> Deployment:
    me = ProcessId.current()
    return Deployment(run, spec, me, me)


def test_every_broker_gets_unique_identifiers_and_the_state_is_saved(run: Run, release: Release) -> None:
    created = create_layout(deployment_of(run, ClusterSpec(3)), release)
    metas = [(run.path / b.data / "meta.properties").read_text() for b in created.brokers]
    assert [f"node.id={i}\n" in meta for i, meta in enumerate(metas, 1)] == [True] * 3
    assert all(f"cluster.id={created.cluster_id}\n" in meta for meta in metas)
    assert len({meta.split("directory.id=")[1] for meta in metas}) == 3
    assert state.load(run) == created
    assert not any(b.process for b in created.brokers)
    with pytest.raises(ClusterError, match="no node 4; there are 1, 2, 3"):
        created.node(4)


def test_with_zookeeper_nothing_is_formatted_and_the_server_is_saved(run: Run, release: Release) -> None:
    created = create_layout(deployment_of(run, ClusterSpec(2, "2.8.2")), dataclasses.replace(release, storage=None))
    assert created.zookeeper is not None
    assert f"clientPort={created.zookeeper.port}\n" in (run.brokers / "zookeeper" / "zookeeper.properties").read_text()
    settings = (run.brokers / "2" / "server.properties").read_text()
    assert f"zookeeper.connect=127.0.0.1\\:{created.zookeeper.port}\n" in settings
    assert not any((run.path / str(b.data)).exists() for b in created.brokers)
    assert state.load(run) == created


def test_a_taken_fixed_port_is_named(run: Run, release: Release) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        spec = ClusterSpec(1, config={"listeners": f"PLAINTEXT://127.0.0.1:{port}"})
        with pytest.raises(MachineError, match=f"port {port} on 127.0.0.1 is taken"):
            create_layout(deployment_of(run, spec), release)


def test_too_little_disk_space_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    check_disk(run)
    monkeypatch.setattr("chaos.cluster.deployment.NEEDED_DISK_BYTES", 2**80)
    with pytest.raises(MachineError, match="MiB are free at"):
        check_disk(run)


def test_a_missing_or_damaged_state_is_reported_in_one_line(run: Run) -> None:
    with pytest.raises(RunDirError, match="is missing"):
        state.load(run)
    for text, message in [("{", "damaged"), ('{"kafka": 4}', "is damaged or of another version"), ("[]", "damaged")]:
        run.cluster.write_text(text)
        with pytest.raises(RunDirError, match=message) as error:
            state.load(run)
        assert "\n" not in str(error.value)


LOG = """[t] [main] [INFO] kafka - starting
[t] [main] [ERROR] kafka.Kafka$ - Exiting Kafka due to fatal exception
org.apache.kafka.common.config.ConfigException: Invalid value many
\tat org.apache.kafka.Config.parse(Config.java:1)
Caused by: java.lang.NumberFormatException: many
\t... 12 more
[t] [main] [INFO] kafka - shut down
"""


def test_error_lines_include_their_exceptions() -> None:
    assert [line.split(" - ")[-1] for line in error_lines(LOG)] == [
        "Exiting Kafka due to fatal exception",
        "org.apache.kafka.common.config.ConfigException: Invalid value many",
        "Caused by: java.lang.NumberFormatException: many",
    ]


def test_the_reason_of_a_jvm_error_is_on_the_next_line() -> None:
    assert error_lines("Error occurred during initialization of VM\nToo small maximum heap\n") == [
        "Error occurred during initialization of VM",
        "Too small maximum heap",
    ]


def test_without_errors_the_last_lines_are_returned() -> None:
    assert error_lines("\n".join(f"line {i}" for i in range(50)))[-1] == "line 49"
    assert len(error_lines("x\n" * 50)) == MAX_LINES
    assert len(error_lines("[ERROR] " + "x" * 10_000)[0]) < 400


def test_a_log_is_read_from_an_offset(tmp_path: Path) -> None:
    log = tmp_path / "broker-1.log"
    assert read_from(log, 0) == ""
    log.write_text("before\nnow ü\n")
    assert read_from(log, len("before\n")) == "now ü\n"


@pytest.mark.parametrize("kafka", ["4.3.1", "2.8.2"])
def test_the_port_of_a_down_broker_stays_reserved(
    run: Run,
    release: Release,
    sleeper: Callable[..., Spawned],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kafka: str,
) -> None:
    created = create_layout(deployment_of(run, ClusterSpec(1, kafka)), dataclasses.replace(release, storage=None))
    (down,), server = created.brokers, created.zookeeper
    refused: list[set[int]] = []

    def spy(count: int, but: Collection[int] = ()) -> list[int]:
        refused.append(set(but))
        return free_ports(count, but)

    monkeypatch.setattr("chaos.cluster.deployment.free_ports", spy)
    sleeper("reaper")  # the run is alive, but nothing listens on its ports
    create_layout(deployment_of(Run.create(tmp_path, "another"), ClusterSpec(1)), release)
    assert {down.port, server.port if server else down.controller_port} <= refused[0]
