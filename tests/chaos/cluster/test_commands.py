"""The user's commands: their input, their end, and their timeout."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from chaos.cluster.attached import driver
from chaos.cluster.settings import Verbs
from chaos.errors import ClusterError, UsageError
from chaos.kafka.metadata import Metadata, PartitionState
from chaos.kafka.partition import TopicPartition
from chaos.processes.process import ROLE, RUN_DIR, ProcessId
from tests.support.attached import with_a_killed_broker


def run(tmp_path, command, timeout_s=20.0, **more):
    driver.run_command("kill of broker 2", command, timeout_s, tmp_path / "verbs.log", **more)
    return (tmp_path / "verbs.log").read_text()


def test_placeholders_are_replaced_and_quoted():
    command = driver.fill_in("ssh {host} 'kill {broker}' -p {port} ${broker} {}", 2, "a b;c", 9092)
    assert command == "ssh 'a b;c' 'kill 2' -p 9092 ${broker} {}"


def test_the_output_of_a_command_is_logged(tmp_path):
    log = run(tmp_path, "echo out; echo err >&2")
    assert log.splitlines()[0].endswith("kill of broker 2: exit code 0")
    assert log.splitlines()[1:] == ["out", "err"]


def test_a_failed_command_is_an_error_with_its_exit_code_and_last_line(tmp_path):
    with pytest.raises(ClusterError, match=r"the kill of broker 2 command ended with exit code 7: no route; see .*log"):
        run(tmp_path, "echo first; echo no route; exit 7")


def test_an_unknown_command_is_an_error(tmp_path):
    with pytest.raises(ClusterError, match=r"exit code 127: .*no-such-command.*not found"):
        run(tmp_path, "no-such-command")


def test_a_hanging_command_is_killed(tmp_path):
    began = time.monotonic()
    with pytest.raises(ClusterError, match=r"did not end in time and was killed after 0.5 s: waiting"):
        run(tmp_path, "echo waiting; sleep 600", 0.5)
    assert time.monotonic() - began < 300, "it waited for the command"


def test_the_children_of_a_hanging_command_are_killed(tmp_path):
    pid = tmp_path / "pid"
    with pytest.raises(ClusterError):
        run(tmp_path, f"sleep 600 & echo $! > {pid}; wait", 0.5)
    child = int(pid.read_text())
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            if not ProcessId.of(child).alive():
                break
        except ProcessLookupError:
            break
        time.sleep(0.02)
    else:
        pytest.fail("the child lives")


def test_a_daemon_of_a_command_survives_without_marks_of_the_run(tmp_path, monkeypatch):
    monkeypatch.setenv(RUN_DIR, "/somewhere")
    monkeypatch.setenv(ROLE, "drive")
    pid = tmp_path / "pid"
    run(tmp_path, f"nohup sleep 600 & echo $! > {pid}")
    daemon = ProcessId.of(int(pid.read_text()))
    try:
        assert daemon.alive()
        environ = open(f"/proc/{daemon.pid}/environ", "rb").read()  # noqa: PTH123, SIM115
        assert b"AFTERSHOCK_RUN_DIR" not in environ and b"AFTERSHOCK_ROLE" not in environ
    finally:
        os.kill(daemon.pid, 9)


def test_no_secret_reaches_the_log_or_the_error(tmp_path):
    with pytest.raises(ClusterError) as error:
        run(tmp_path, "echo password is hunter2; exit 1", secrets=["hunter2"])
    assert "hunter2" not in str(error.value) and "password is [secret]" in str(error.value)
    assert "hunter2" not in (tmp_path / "verbs.log").read_text()


def test_the_start_and_end_of_a_command_are_recorded(tmp_path):
    calls = []
    run(tmp_path, "sleep 0.2", on_change=lambda identity, running: calls.append((identity, running, identity.alive())))
    assert [s[1:] for s in calls] == [(True, True), (False, False)] and calls[0][0] == calls[1][0]


def test_a_command_has_the_environment_and_an_empty_stdin(tmp_path, monkeypatch):
    monkeypatch.setenv("GIVEN", "by the user")
    assert "by the user" in run(tmp_path, "echo $GIVEN; cat")


@pytest.fixture
def cluster(tmp_path):
    """An attached cluster of one broker that was killed, with a start command that writes a line for each run."""
    return with_a_killed_broker(tmp_path, Verbs(start=f"echo started >> {tmp_path}/starts", timeout=0.2))


def starts(tmp_path):
    return len((tmp_path / "starts").read_text().splitlines())


def test_a_broker_that_starts_slowly_has_one_start_also_of_two_faults(tmp_path, cluster, monkeypatch):
    monkeypatch.setattr(cluster, "broker_alive", lambda broker: False)
    monkeypatch.setattr(cluster, "_ready", lambda broker: False)

    def heal(_):
        with pytest.raises(ClusterError, match="broker 1 is not ready"):
            cluster.start_broker(1)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(heal, range(2)))
    heal(0)
    assert starts(tmp_path) == 1 and cluster.state.node(1).state == "starting"
    assert "broker 1 was taken down by the run and is not back" in cluster._restore_brokers()[0]
    monkeypatch.setattr(cluster, "_ready", lambda broker: True)
    assert cluster._restore_brokers() == []
    assert starts(tmp_path) == 1 and cluster.state.node(1).state == "running"


def test_a_broker_that_is_taken_down_again_and_a_command_that_failed_have_another_start(tmp_path, cluster, monkeypatch):
    up = iter([False, True, False, False])  # down, up for the check before the kill, gone
    monkeypatch.setattr(cluster, "broker_alive", lambda broker: next(up))
    monkeypatch.setattr(cluster, "_ready", lambda broker: True)
    attached = cluster.state.attached
    attached.verbs = attached.verbs.model_copy(update={"kill": "true"})
    cluster.start_broker(1)
    cluster.kill_broker(1)
    assert cluster.state.node(1).state == "killed"
    monkeypatch.setattr(cluster, "broker_alive", lambda broker: False)
    attached.verbs = attached.verbs.model_copy(update={"start": f"echo started >> {tmp_path}/starts; exit 3"})
    for _ in range(2):
        with pytest.raises(ClusterError, match="exit code 3"):
            cluster.start_broker(1)
    assert starts(tmp_path) == 3


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("ordres/0", "the cluster has no topic 'ordres'; did you mean orders or orders-2?"),
        ("zzz/0", "the cluster has no topic 'zzz'; its topics are bills, orders, orders-2 and 1 more"),
        ("orders/3", "orders has partitions 0 to 2, not 3"),
    ],
)
def test_a_partition_of_the_user_that_does_not_exist_is_named_with_the_nearest_topics(wanted, message):
    at = PartitionState(1, 0, (1,), (1,))
    names = [("orders", 3), ("orders-2", 1), ("bills", 1), ("users", 1), ("__consumer_offsets", 50)]
    metadata = Metadata({1: ("h", 1)}, {TopicPartition(t, n): at for t, count in names for n in range(count)})
    driver.check_partition(TopicPartition("orders", 2), metadata)
    with pytest.raises(UsageError) as error:
        driver.check_partition(TopicPartition.parse(wanted), metadata)
    assert str(error.value) == message
