"""The migration of a cluster from ZooKeeper to KRaft: settings of the modes, requests to ZooKeeper, and a whole way."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from chaos.cluster.endpoints import ControllerEndpoints, on_this_host, quorum_settings
from chaos.cluster.process import modes, znodes
from chaos.cluster.process.driver import ProcessCluster
from chaos.cluster.settings import ClusterSpec, broker_settings, controller_settings, properties
from chaos.cluster.state import ZooKeeperState
from chaos.errors import ClusterError
from chaos.faults.migration_rollback import SENDER
from chaos.processes.process import ProcessId
from chaos.run.directory import Run
from chaos.wait import wait_until
from tests.chaos.cluster.test_process import create_topic, listed
from tests.chaos.conftest import roles

CONTROLLERS = {101: ControllerEndpoints("127.0.0.1", 7000, "127.0.0.1:7000", "127.0.0.1:7000")}
SPEC = ClusterSpec(1, "3.9.2", metadata="zookeeper", config={"zookeeper.session.timeout.ms": 3000, "a": "ä=b c\\d"})


def before(settings: dict[str, str] | None = None) -> str:
    """Return the file of a broker that was deployed with ZooKeeper."""
    deployed = broker_settings(SPEC, 1, on_this_host([9000]), zookeeper="127.0.0.1:2181")
    return properties({**deployed, **(settings or {})})


def pairs(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


def test_a_broker_in_migration_mode_keeps_its_settings_and_finds_the_controllers() -> None:
    old = pairs(before())
    new = pairs(modes.of_broker(before(), "migration", 1, "3.9.2", quorum_settings(CONTROLLERS)))
    assert {key for key in old if old[key] != new[key]} == {"listener.security.protocol.map"}
    assert {key: new[key] for key in new.keys() - old.keys()} == {
        "controller.quorum.voters": r"101@127.0.0.1\:7000",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.protocol.version": "3.9",
        "zookeeper.metadata.migration.enable": "true",
    }
    assert new["listener.security.protocol.map"] == r"CLIENT\:PLAINTEXT,CONTROLLER\:PLAINTEXT"


def test_a_broker_in_kraft_mode_knows_no_zookeeper_and_keeps_its_node_id() -> None:
    deployed = before({"inter.broker.protocol.version": "3.9", "control.plane.listener.name": "CLIENT"})
    new = pairs(modes.of_broker(deployed, "kraft", 1, "3.9.2", quorum_settings(CONTROLLERS)))
    assert (new["process.roles"], new["node.id"]) == ("broker", "1")
    gone = ("broker.id", "inter.broker.protocol.version", "control.plane.listener.name")
    assert [key for key in new if key.startswith("zookeeper.") or key in gone] == []
    assert new["a"] == pairs(deployed)["a"], "values with escapes stay as they are"


def test_a_broker_that_goes_back_has_the_file_from_before() -> None:
    assert modes.of_broker(before(), "zookeeper", 1, "3.9.2", quorum_settings(CONTROLLERS)) == before()


def test_the_last_value_of_a_setting_counts_and_is_replaced_with_the_others() -> None:
    text = before() + "inter.broker.protocol.version=2.8\nlog.dirs=old\nlog.dirs=new\n"
    assert modes.value_of(text, "log.dirs") == "new"
    changed = modes.edited(text, (), {"log.dirs": "other", "inter.broker.protocol.version": "3.9"})
    assert changed.count("log.dirs=") == changed.count("inter.broker.protocol.version=") == 1


def test_a_controller_leaves_the_migration_mode_with_all_settings_of_zookeeper() -> None:
    kraft = controller_settings(SPEC, 101, CONTROLLERS)
    migrating = modes.of_controller(kraft, "127.0.0.1:2181", before())
    assert migrating["zookeeper.connect"] == "127.0.0.1:2181"
    assert migrating["zookeeper.metadata.migration.enable"] == "true"
    assert migrating["zookeeper.session.timeout.ms"] == "3000"
    assert migrating["inter.broker.listener.name"] == "CLIENT"
    assert migrating["listener.security.protocol.map"] == "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT"
    final = pairs(modes.after_migration(properties(migrating)))
    assert not [key for key in final if key.startswith("zookeeper.")]
    assert final["node.id"] == "101"


@contextmanager
def server(answer: Callable[[int, bytes], bytes]) -> Iterator[ZooKeeperState]:
    """A server that answers one session: `answer` gets the type and the body of each request."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                receive(connection)
                send(connection, struct.pack(">iiqi16s?", 0, 10_000, 7, 16, b"", False))
                xid, kind = struct.unpack_from(">ii", request := receive(connection))
                if reply := answer(kind, request[8:]):
                    send(connection, struct.pack(">iq", xid, 9) + reply)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        host, port = listening.getsockname()
        yield ZooKeeperState(host=host, port=port, log="logs/zookeeper.log")
        thread.join(5)


def receive(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    return connection.recv(size, socket.MSG_WAITALL)


def send(connection: socket.socket, message: bytes) -> None:
    connection.sendall(struct.pack(">i", len(message)) + message)


def test_a_znode_is_read_and_deleted() -> None:
    requests: list[tuple[int, bytes]] = []

    def answer(kind: int, body: bytes) -> bytes:
        requests.append((kind, body))
        return struct.pack(">i", 0) + (struct.pack(">i", 3) + b"abc" + bytes(68) if kind == 4 else b"")

    with server(answer) as zookeeper:
        assert znodes.read(zookeeper, "/migration") == "abc"
    with server(answer) as zookeeper:
        assert znodes.delete(zookeeper, "/controller")
    path = struct.pack(">i", 10) + b"/migration"
    assert requests == [(4, path + b"\0"), (2, struct.pack(">i", 11) + b"/controller" + struct.pack(">i", -1))]


def test_a_znode_that_does_not_exist_is_none_and_another_error_is_one() -> None:
    with server(lambda kind, body: struct.pack(">i", -101)) as zookeeper:
        assert znodes.read(zookeeper, "/migration") is None
    with server(lambda kind, body: struct.pack(">i", -101)) as zookeeper:
        assert not znodes.delete(zookeeper, "/migration")
    with (
        server(lambda kind, body: struct.pack(">i", -111)) as zookeeper,
        pytest.raises(ClusterError, match=r"did not delete /a: error -111; see logs/zookeeper\.log"),
    ):
        znodes.delete(zookeeper, "/a")


def test_a_server_that_closes_or_is_gone_is_an_error() -> None:
    with server(lambda kind, body: b"") as zookeeper, pytest.raises(ClusterError, match="closed the connection"):
        znodes.read(zookeeper, "/a")
    with pytest.raises(ClusterError, match="did not read /a"):
        znodes.read(zookeeper, "/a")


def roll(cluster: ProcessCluster, mode: modes.Mode) -> None:
    for broker in cluster.broker_ids:
        cluster.set_mode(broker, mode)
        cluster.stop_broker(broker)
        cluster.start_broker(broker)


def copied(cluster: ProcessCluster) -> bool:
    return any(cluster.logged(node, "(?i)completed migration") for node in cluster.controller_ids)


@pytest.mark.kafka
@pytest.mark.parametrize("release", ["3.9.2", "3.6.2", "3.7.2", "3.8.1"])
def test_a_cluster_goes_back_and_then_all_the_way(run: Run, release: str) -> None:
    spec = ClusterSpec(1, release, metadata="zookeeper", config={"zookeeper.session.timeout.ms": 3000})
    cluster = ProcessCluster.deploy(run, spec, ProcessId.current(), 600)
    create_topic(cluster, "orders")
    assert cluster.provision_controllers(1, {}) == [101]
    assert roles(run) == ["broker-1", "controller-101", "reaper", "zookeeper"]
    roll(cluster, "migration")
    wait_until(lambda: copied(cluster), 60, "the metadata is not copied")
    roll(cluster, "kraft")
    assert not cluster.in_zookeeper_mode(1) and listed(cluster) == {1}
    create_topic(cluster, "in-kraft")
    assert ProcessCluster.attach(run).state == cluster.state, "another process knows the controller"

    roll(cluster, "migration")
    cluster.remove_controllers()
    cluster.delete_znode("/controller")
    cluster.delete_znode("/migration")
    cluster.delete_znode("/migration")
    wait_until(lambda: (cluster.logged(1, SENDER) or "").endswith(" 1"), 60, "the broker does not control itself")
    roll(cluster, "zookeeper")
    assert roles(run) == ["broker-1", "reaper", "zookeeper"] and not (run.brokers / "101").exists()
    assert cluster.znode("/migration") is None and '"brokerid":1' in str(cluster.znode("/controller"))
    assert cluster.znode("/brokers/topics/in-kraft") is not None
    create_topic(cluster, "after-the-way-back")

    cluster.provision_controllers(1, {})
    roll(cluster, "migration")
    wait_until(lambda: copied(cluster), 60, "the metadata is not copied again")
    roll(cluster, "kraft")
    cluster.set_mode(101, "kraft")
    cluster.stop_broker(101)
    cluster.start_broker(101)
    cluster.end_zookeeper()
    assert roles(run) == ["broker-1", "controller-101", "reaper"] and not cluster.zookeeper_answers()
    create_topic(cluster, "without-zookeeper")
    assert cluster.state.zookeeper is None and not cluster.state.as_deployed
    cluster.kill_broker(1)
    cluster.wipe_disk(1)
    cluster.start_broker(1)
    assert listed(cluster) == {1}

    cluster.lend_zookeeper(True)
    assert roles(run) == ["broker-1", "controller-101", "reaper", "zookeeper"]
    cluster.end_brokers()
    assert roles(run) == ["reaper"] and not run.brokers.exists()


@pytest.mark.kafka
def test_controllers_are_only_provisioned_beside_zookeeper_and_once(run: Run) -> None:
    cluster = ProcessCluster.deploy(run, ClusterSpec(1, "3.9.2", metadata="zookeeper"), ProcessId.current(), 600)
    cluster.provision_controllers(1, {})
    with pytest.raises(ClusterError, match="controllers are provisioned once"):
        cluster.provision_controllers(1, {})
    cluster.destroy()
    assert roles(run) == [] and not run.brokers.exists()
