"""An existing cluster with TLS and SASL: discovery, commands, restoration, and no trace of a password."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from chaos.cluster.attached import driver
from chaos.cluster.attached.driver import AttachedCluster
from chaos.errors import AftershockError, ClusterError, UsageError
from chaos.kafka.client import Kafka
from chaos.kafka.security import Access, Security
from chaos.processes.process import find_marked
from chaos.run.directory import Run
from chaos.scenario.load import parse
from chaos.scenario.resolve import resolve, save
from chaos.setup.names import new_prefix
from chaos.wait import wait_until
from tests.chaos.conftest import roles
from tests.support.certificates import Authority
from tests.support.platform import HELD, chaos, left_running
from tests.support.secured import ENVIRONMENT, PASSWORDS, ROOT, RUNS, USER, Secured, deploy, every_client
from tests.support.watch import Watch, files_with

pytestmark = pytest.mark.kafka

SCENARIO = """
title: The leader dies on a cluster that exists
cluster:
  driver: attached
  allow_faults: true
  verbs: {verbs}
{clients}
faults:
  - {{name: kill, kind: broker.kill, target: {{leader_of: orders/0}}, when: {{acked: 600}}, heal: {{when: {{after: kill.proven}}}}}}
expect: {{duplicate_delivery: {{illegal: 0}}}}
limits: {{clients: 180s, proof: 20s}}
"""  # noqa: E501
CLIENTS = """
topics: [{name: orders, partitions: 3, replication_factor: 3, config: {min.insync.replicas: 2}}]
producers: [{name: shop, topic: orders, rate: 300/s, records: 1500, outlast_faults: true}]
consumers:
  - name: billing
    topics: [orders]
    mode: subscribe
    group: billing
    members: 2
    config: {auto.offset.reset: earliest}
"""
MENDED = new_prefix("mended")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    made = deploy(Run.create(folder, "theirs"), folder)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        yield made
    made.cluster.destroy()


@pytest.fixture(scope="module")
def theirs(secured: Secured) -> set[str]:
    """Topics and groups on the cluster that do not belong to the run; one name resembles the name of a run."""
    names = ["orders", "aftershock-of-somebody-else-orders"]
    new = [NewTopic(name, num_partitions=1, replication_factor=3) for name in names]
    for future in secured.admin.create_topics(new).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": secured.cluster.bootstrap})
    producer.produce("orders", b"theirs")
    producer.flush(30)
    group = {"group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": secured.cluster.bootstrap, **group})
    consumer.subscribe(["orders"])
    message = wait_until(lambda: consumer.poll(1), 60, "no record")
    consumer.commit(message, asynchronous=False)
    consumer.close()
    return topics_and_groups(secured)


def topics_and_groups(secured: Secured) -> set[str]:
    """Return all topics and groups of the cluster."""
    admin = secured.admin
    topics = set(admin.list_topics(timeout=30).topics) - {"__consumer_offsets", "__transaction_state"}
    return topics | {g.group_id for g in admin.list_consumer_groups().result(30).valid}


@pytest.mark.landing
def test_promise_reads_topics_and_brokers_over_sasl_and_tls(secured: Secured, theirs: set[str], tmp_path: Path) -> None:
    new = NewTopic("promised", num_partitions=2, replication_factor=3, config={"min.insync.replicas": "2"})
    secured.admin.create_topics([new])["promised"].result(30)
    kafka = Kafka(secured.cluster.bootstrap)
    app = tmp_path / "app.yaml"
    security = secured.security().model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    app.write_text(
        json.dumps(
            {
                "producer": {"client": "java"},
                "consumer": {"client": "java", "commit": "after_processing", "config": {"enable.auto.commit": False}},
                "topic": {"name": "promised", "config": {"retention.ms": 5000}},
                "cluster": {"bootstrap": secured.login, "security": security},
            }
        )
    )
    try:
        wait_until(lambda: not kafka.lacking(["promised"]), 30, "the topic is not known")
        done = chaos("promise", str(app), "--json")
        refused = chaos("promise", "--bootstrap", secured.login, "--topic", "promised")
        unknown = chaos("promise", str(app), "--topic", "promissed")
    finally:
        kafka.close()
        secured.admin.delete_topics(["promised"])["promised"].result(30)
    found = done.result
    origins = {s["name"]: s["origin"] for answer in found["answers"] for s in answer["by"]}
    rows = {f"{answer['aspect']}/{answer['id']}": answer["row"] for answer in found["answers"]}
    assert rows["durability/brokers-fail"] == "min-isr"
    assert origins["replication factor"] == "cluster, promised"
    assert origins["min.insync.replicas"] == "cluster, topic promised"
    assert origins["replication factor of __consumer_offsets"] == "cluster, __consumer_offsets"
    assert origins["cleanup.policy"] == "cluster, Kafka's default"
    assert origins["retention.ms"].startswith("app.yaml:")
    assert any("retention.ms is 5000 here, and 604800000 in the cluster" in note for note in found["notes"])
    assert not any(password in done.out + done.err for password in PASSWORDS.values())
    assert refused.code in (2, 3) and "Traceback" not in refused.err
    assert unknown.code == 2 and "did you mean promised?" in unknown.err


def scenario(secured: Secured, folder: Path, clients: str = CLIENTS, **verbs: Any) -> Path:
    """Write a scenario file for the cluster through its listener LOGIN, and return the path.

    clients: its topics, producers, consumers and processors.
    """
    given = secured.verbs(**verbs).model_dump(mode="json", exclude_none=True)
    file = folder / "mine.yaml"
    file.write_text(SCENARIO.format(verbs=json.dumps(given), clients=clients))
    return file


def arguments(secured: Secured, file: Path, runs: Path, security: Security | None = None) -> list[str]:
    settings = (security or secured.security()).model_dump_json(exclude_none=True)
    bootstrap = secured.cert if security and security.protocol == "SSL" else secured.login
    into = ["--bootstrap", bootstrap, "--set", f"cluster.security={settings}"]
    return ["run", str(file), *into, "--i-own-this-cluster", "--runs-dir", str(runs)]


READ_BACK = """
import sys
from pathlib import Path
from chaos.scenario.resolve import read as read_resolved
from chaos.run.directory import Run
from checks.readback import stage
from checks.spark.session import spark_session
stage.SMALL = 0  # so that the Python workers of Spark read
run = Run(Path(sys.argv[1]))
resolved = read_resolved(run)
stage.read_back(spark_session("local[2]"), run, resolved, sys.argv[2], resolved.scenario.cluster.security)
"""


@pytest.mark.parametrize("listener", ["PLAIN", "SCRAM-SHA-512", "certificate"])
def test_every_listener_accepts_both_kinds_of_connections(secured: Secured, listener: str) -> None:
    security = secured.certificate() if listener == "certificate" else secured.security(listener)
    bootstrap = secured.cert if listener == "certificate" else secured.login
    access = Access.of(security)
    assert access is not None
    kafka = Kafka(bootstrap, 10, access)
    metadata = kafka.metadata()
    assert metadata is not None and list(metadata.brokers) == [1, 2, 3]
    assert {f"{host}:{port}" for host, port in metadata.brokers.values()} == set(bootstrap.split(","))
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, **access.librdkafka()})
    assert set(admin.list_topics(timeout=20).brokers) == {1, 2, 3}


def refusals(secured: Secured) -> dict[str, tuple[str, Security, type[AftershockError], str]]:
    """Return the refused connections by name: bootstrap servers, security, error type, pattern of the message."""
    ours, cert = secured.security(), secured.certificate()
    other = str(Authority(secured.folder, "other").ca)
    plain = secured.cluster.bootstrap
    keyless = {"certificate": None, "key": None, "key_password": None}
    return {
        "wrong password": (
            secured.login,
            ours.model_copy(update={"password": "env:WRONG"}),
            UsageError,
            rf"SASL refused {USER} at 127\.0\.0\.1:\d+: Authentication failed .*; see cluster\.security",
        ),
        "wrong plain password": (
            secured.login,
            secured.security("PLAIN").model_copy(update={"password": "env:WRONG"}),
            UsageError,
            rf"SASL refused {USER} at",
        ),
        "unknown user": (
            secured.login,
            ours.model_copy(update={"username": "mallory"}),
            UsageError,
            "SASL refused mallory at",
        ),
        "mechanism that is not offered": (
            secured.login,
            ours.model_copy(update={"mechanism": "SCRAM-SHA-256"}),
            UsageError,
            "does not take SASL SCRAM-SHA-256; it takes",
        ),
        "wrong authority": (
            secured.login,
            ours.model_copy(update={"ca": other}),
            UsageError,
            r"the certificate of 127\.0\.0\.1:\d+ is not trusted: .*; cluster\.security\.ca names",
        ),
        "no variable": (
            secured.login,
            ours.model_copy(update={"password": "env:NOWHERE"}),
            UsageError,
            "the environment variable NOWHERE is not set",
        ),
        "no client certificate": (
            secured.cert,
            cert.model_copy(update=keyless),
            UsageError,
            r"the TLS handshake with 127\.0\.0\.1:\d+ failed: .*client certificate",
        ),
        "TLS where there is none": (plain, cert.model_copy(update=keyless), AftershockError, "127.0.0.1"),
        "plain where TLS is": (secured.cert, Security(), ClusterError, "is that port one for PLAINTEXT"),
        "nothing listens": ("127.0.0.1:1", ours, ClusterError, r"nothing listens at 127\.0\.0\.1:1$"),
        "no such host": ("no-such-host.invalid:1", ours, ClusterError, r"no-such-host\.invalid cannot be resolved"),
    }


def test_refused_access_is_reported_in_one_line_and_leaves_nothing(
    secured: Secured, run: Run, theirs: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRONG", "not-the-password")
    monkeypatch.setattr(driver, "ANSWER_S", 6.0)
    for what, (bootstrap, security, kind, pattern) in refusals(secured).items():
        with pytest.raises(kind) as error:
            secured.attach(run, bootstrap=bootstrap, security=security)
        message = str(error.value)
        assert re.search(pattern, message), f"{what}: {message}"
        assert "\n" not in message and not any(p in message for p in [*PASSWORDS.values(), "not-the-password"]), what
        assert roles(run) == [] and not run.cluster.exists(), what
    assert topics_and_groups(secured) == theirs


def test_a_server_that_never_answers_times_out(secured: Secured, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "ANSWER_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"127.0.0.1:{silent.getsockname()[1]}"
        for security in (secured.security(), Security()):
            with pytest.raises(ClusterError, match=f"{place} did not answer in 1 s; is that port one for"):
                secured.attach(run, bootstrap=place, security=security)
    assert roles(run) == [] and not run.cluster.exists()


def test_missing_requirements_are_reported_before_anything_is_created(secured: Secured, run: Run) -> None:
    with pytest.raises(UsageError, match="has 3 brokers, and the scenario's topics have 5 replicas"):
        secured.attach(run, replicas=5)
    with pytest.raises(UsageError, match="the cluster has no broker 7; it has 1, 2, 3"):
        secured.attach(run, brokers=frozenset({1, 7}))


def test_existing_topics_with_the_prefix_are_not_touched(secured: Secured, run: Run, theirs: set[str]) -> None:
    with pytest.raises(
        UsageError, match="has aftershock-of-somebody-else-orders/0 already, which this run did not make"
    ):
        secured.attach(run, prefix="aftershock-of-somebody-else-")
    assert topics_and_groups(secured) == theirs and roles(run) == []


@pytest.mark.landing
def test_commands_break_and_restore_brokers(secured: Secured, run: Run) -> None:
    cluster = secured.attach(run)
    assert cluster.broker_ids == [1, 2, 3] and roles(run) == ["reaper"]
    cluster.kill_broker(1)
    assert not cluster.broker_alive(1) and cluster.broker_alive(2)
    with pytest.raises(ClusterError, match="broker 1 cannot be killed: it is not there"):
        cluster.kill_broker(1)
    cluster.start_broker(1)
    assert cluster.broker_alive(1)
    cluster.pause_broker(2)
    assert cluster.broker_alive(2) and AttachedCluster.attach(run).state.node(2).state == "paused"
    cluster.resume_broker(2)
    cluster.stop_broker(3)
    assert not cluster.broker_alive(3)
    cluster.start_broker(3)
    for broker in cluster.broker_ids:
        cluster.kill_broker(broker)
    cluster.start_brokers(cluster.broker_ids)
    assert all(map(cluster.broker_alive, cluster.broker_ids))
    log = (run.logs / "verbs.log").read_text()
    assert log.count("kill of broker 1: exit code 0") == 2
    cluster.destroy()
    cluster.destroy()
    assert roles(run) == [] and all(map(secured.alive, (1, 2, 3)))


def test_a_command_without_effect_is_an_error(secured: Secured, run: Run) -> None:
    cluster = secured.attach(run, verbs=secured.verbs(5, kill="true", pause="exit 3"))
    with pytest.raises(ClusterError, match="broker 1 is still there after the kill command"):
        cluster.kill_broker(1)
    with pytest.raises(ClusterError, match="the pause of broker 2 command ended with exit code 3, and said nothing"):
        cluster.pause_broker(2)
    with pytest.raises(ClusterError, match=r"no command to stop a broker: give cluster\.verbs\.stop"):
        bare = cluster.state.attached
        assert bare is not None
        bare.verbs = bare.verbs.model_copy(update={"stop": None})
        cluster.stop_broker(3)
    cluster.destroy()


@pytest.fixture
def member(secured: Secured) -> Iterator[Consumer]:
    """A consumer that is closed whatever happens: alive, it would create its topic again under the tests after it."""
    group = {"group.id": f"{MENDED}billing", "auto.offset.reset": "earliest", "session.timeout.ms": 45000}
    consumer = Consumer({"bootstrap.servers": secured.cluster.bootstrap, **group})
    yield consumer
    consumer.close()


def test_any_process_that_ends_a_run_restores_the_cluster(
    secured: Secured, run: Run, theirs: set[str], member: Consumer
) -> None:
    cluster = secured.attach(run, prefix=MENDED, verbs=secured.verbs(60, stop="sleep 600"))
    secured.admin.create_topics([NewTopic(f"{MENDED}orders", 2, 3)])[f"{MENDED}orders"].result(30)
    member.subscribe([f"{MENDED}orders"])
    wait_until(lambda: member.poll(0.2) is None and member.assignment(), 60, "the group did not form")
    assert {f"{MENDED}orders", f"{MENDED}billing"} <= topics_and_groups(secured)
    cluster.pause_broker(1)
    cluster.kill_broker(2)

    def hang() -> None:
        with pytest.raises(ClusterError, match="the stop of broker 3 command ended with exit code -9"):
            cluster.stop_broker(3)

    hanging = threading.Thread(target=hang)
    hanging.start()
    wait_until(lambda: '"commands": []' not in run.cluster.read_text(), 20, "no command is under way")

    AttachedCluster.attach(run).destroy()  # from another process
    hanging.join(30)
    assert not hanging.is_alive()
    assert all(secured.alive(b) for b in (1, 2, 3))
    member.close()
    AttachedCluster.clear(run)
    assert topics_and_groups(secured) - {f"{MENDED}orders"} == theirs  # the live member may have created it again
    assert roles(run) == []


@pytest.mark.nightly(
    twin="chaos/cluster/test_attached.py::test_break_aims_at_a_topic_of_the_user_over_sasl_and_restores_the_broker"
)
@pytest.mark.parametrize(
    ("name", "listener"),
    [
        ("libraries", "PLAIN"),
        ("libraries", "SCRAM-SHA-512"),
        ("python", "certificate"),
        ("jvm", "PLAIN"),
        ("jvm", "SCRAM-SHA-512"),
        ("jvm", "certificate"),
    ],
)
def test_a_run_over_sasl_and_tls_leaves_no_password_topic_or_group(
    secured: Secured, theirs: set[str], tmp_path: Path, name: str, listener: str
) -> None:
    file = scenario(secured, tmp_path, every_client(name, 3))
    security = secured.certificate() if listener == "certificate" else secured.security(listener)
    argv = [*arguments(secured, file, tmp_path / "runs", security), "--json"]
    with Watch() as watch:
        ended = chaos(*argv, env=os.environ | ENVIRONMENT, timeout_s=900)
    unmet = [(e["name"], e["seen"], e["why"]) for e in ended.result["expectations"] if e["verdict"] not in HELD]
    assert (ended.code, ended.result["verdict"], unmet) == (0, "pass", []), ended.result["sentence"]
    assert [f["name"] for f in ended.result["faults"] if f["proven_us"]] == ["kill"]
    assert topics_and_groups(secured) == theirs
    assert left_running(tmp_path) == [] and all(map(secured.alive, (1, 2, 3)))
    (run,) = (path for path in (tmp_path / "runs").iterdir() if path.is_dir())  # the history is next to it
    for program in RUNS[name][2]:
        assert any(program.encode() in line for line in watch.arguments), program
    for secret in (*PASSWORDS.values(), *secured.key_lines()):
        assert files_with(run, secret) == []
        assert [line for line in watch.arguments if secret.encode() in line] == []
        assert secret not in ended.out and secret not in ended.err
    again = chaos("audit", run, "--json", env={k: v for k, v in os.environ.items() if k not in ENVIRONMENT})
    assert again.result["verdict"] == "pass", "judged again without the cluster and without a password"


SERVICE = """
import json, os, sys
from confluent_kafka import Consumer, Producer

settings = json.loads(os.environ["SETTINGS"])
group = {"group.id": os.environ["GROUP"], "auto.offset.reset": "earliest", "enable.auto.commit": False}
consumer, producer = Consumer(settings | group), Producer(settings | {"enable.idempotence": True})
consumer.subscribe([os.environ["READS"]])
while True:
    messages = consumer.consume(100, 0.2)
    for message in messages:
        assert not message.error(), message.error()
        producer.produce(os.environ["WRITES"], message.value())
    producer.flush()
    if messages:
        consumer.commit(asynchronous=False)
"""
APPLICATION = """
topics: [{name: orders, partitions: 3, replication_factor: 3}, {name: invoices, partitions: 3, replication_factor: 3}]
producers:
  - {name: shop, topic: orders, rate: 300/s, records: 1500, outlast_faults: true, value: {template: '{"id": "{id}"}'}}
apps:
  - name: copier
    command: ["{python}", service.py]
    instances: 2
    group: copier
    reads: [orders]
    env: {READS: "{topic.orders}", WRITES: "{topic.invoices}", GROUP: "{group}", SETTINGS: '{{%s}}'}
effects: [{name: invoices, topic: invoices, id: $.id}]
"""
LOGIN = {
    "bootstrap.servers": "{bootstrap}",
    "security.protocol": "{protocol}",
    "sasl.mechanisms": "{mechanism}",
    "sasl.username": "{username}",
    "sasl.password": "{password|json}",
    "ssl.ca.location": "{ca}",
}
CERTIFICATE = {
    "bootstrap.servers": "{bootstrap}",
    "security.protocol": "{protocol}",
    "ssl.ca.location": "{ca}",
    "ssl.certificate.location": "{certificate}",
    "ssl.key.location": "{key}",
    "ssl.key.password": "{key_password|json}",
}


@pytest.mark.nightly(twin="chaos/relay/test_encryption.py")
@pytest.mark.parametrize("listener", ["SCRAM-SHA-512", "certificate"])
def test_an_application_passes_the_relay_which_encrypts_again(
    secured: Secured, theirs: set[str], tmp_path: Path, listener: str
) -> None:
    """It trusts the authority of the run alone, and its moments and records are seen on the wire."""
    settings = json.dumps(CERTIFICATE if listener == "certificate" else LOGIN)[1:-1]
    file = scenario(secured, tmp_path, APPLICATION % settings)
    (tmp_path / "service.py").write_text(SERVICE)
    security = secured.certificate() if listener == "certificate" else secured.security(listener)
    crash = {"name": "crash", "kind": "app.kill", "target": {"app": "copier"}}
    commit = {"app": "copier", "api": "OffsetCommit", "after": "Produce response", "nth": 3}
    faults = json.dumps([crash | {"when": {"wire": commit}}])
    argv = [*arguments(secured, file, tmp_path / "runs", security), "--json", "--set", f"faults={faults}"]
    with Watch() as watch:
        ended = chaos(*argv, "--set", "expect={effects: {invoices: {missing: 0, duplicate: {min: 1}}}}", timeout_s=600)
    unmet = [(e["name"], e["seen"], e["why"]) for e in ended.result["expectations"] if e["verdict"] not in HELD]
    assert (ended.code, unmet) == (0, []), ended.result["sentence"]
    (run,) = (path for path in (tmp_path / "runs").iterdir() if path.is_dir())
    assert "the work is not idempotent" in ended.result["effects"][0]["stories"][0]["cause"]
    assert topics_and_groups(secured) == theirs and left_running(tmp_path) == []
    assert files_with(run, "PRIVATE KEY") == []
    for secret in (*PASSWORDS.values(), *secured.key_lines()):
        assert files_with(run, secret) == []
        assert [line for line in watch.arguments if secret.encode() in line] == []


@pytest.mark.nightly(
    twin="system/test_spark_cluster.py::test_two_workers_find_what_one_process_finds_and_send_the_driver_only_summaries"
)
def test_spark_workers_read_the_log_and_resolve_the_secrets(secured: Secured, theirs: set[str], run: Run) -> None:
    text = "title: t\ntopics: [{name: orders, partitions: 1}]\nproducers: [{name: shop, topic: orders}]"
    loaded = parse(text, "t.yaml", ["cluster.driver=attached", f"cluster.bootstrap={json.dumps(secured.login)}"])
    known = resolve(loaded, run_id="r", name="r", created_us=0, seed=1, overrides=[])
    cluster = known.scenario.cluster.model_copy(update={"security": secured.security()})
    save(run, known.model_copy(update={"scenario": loaded.model_copy(update={"cluster": cluster})}))
    with Watch() as watch:
        argv = [sys.executable, "-c", READ_BACK, str(run.path), secured.login]
        done = subprocess.run(argv, cwd=ROOT, env=os.environ | ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert pq.read_table(run.ledger / "log").num_rows == 1
    assert any(b"pyspark.daemon" in line for line in watch.arguments), "no worker of Spark took part"
    assert not any(password.encode() in line for line in watch.arguments for password in PASSWORDS.values())


def test_a_wrong_password_ends_a_run_before_its_start(secured: Secured, theirs: set[str], tmp_path: Path) -> None:
    file = scenario(secured, tmp_path)
    wrong = {**os.environ, **ENVIRONMENT, "TEST_SCRAM_PASSWORD": "not-the-password"}
    ended = chaos(*arguments(secured, file, tmp_path / "runs"), env=wrong)
    assert ended.code == 2 and "Traceback" not in ended.err
    assert "SASL refused alice" in ended.err and "not-the-password" not in ended.err
    assert files_with(tmp_path, "not-the-password") == []
    assert left_running(tmp_path) == [] and topics_and_groups(secured) == theirs


def test_a_session_that_the_cluster_refuses_ends_a_run_before_its_clients(
    secured: Secured, theirs: set[str], tmp_path: Path
) -> None:
    file = scenario(secured, tmp_path, CLIENTS.replace("auto.offset.reset: earliest", "session.timeout.ms: 2000"))
    ended = chaos(*arguments(secured, file, tmp_path / "runs"), env=os.environ | ENVIRONMENT)
    assert ended.code == 2 and "Traceback" not in ended.err
    words = " ".join(ended.err.split())
    assert "consumers[0].config: session.timeout.ms=2000 is below group.min.session.timeout.ms=6000" in words
    assert left_running(tmp_path) == [] and topics_and_groups(secured) == theirs


def test_without_the_consent_of_the_owner_no_broker_is_touched(secured: Secured, tmp_path: Path) -> None:
    argv = arguments(secured, scenario(secured, tmp_path), tmp_path / "runs")
    argv.remove("--i-own-this-cluster")
    ended = chaos(*argv)
    assert ended.code == 2 and "add --i-own-this-cluster" in " ".join(ended.err.split())
    assert not (tmp_path / "runs").exists()


@pytest.mark.nightly(twin="chaos/cluster/test_attached.py::test_a_command_without_effect_is_an_error")
def test_a_hanging_command_makes_a_run_inconclusive_and_leaves_nothing(
    secured: Secured, theirs: set[str], tmp_path: Path
) -> None:
    file = scenario(secured, tmp_path, timeout_s=2, kill="echo dialling; sleep 600")
    argv = [*arguments(secured, file, tmp_path / "runs"), "--set", "limits.drive=30s", "--json"]
    ended = chaos(*argv, env=os.environ | ENVIRONMENT)
    assert ended.code == 3 and "Traceback" not in ended.err
    assert ended.result["verdict"] == "inconclusive"
    assert "did not end in time and was killed after 2 s: dialling" in json.dumps(ended.result)
    assert left_running(tmp_path) == [] and topics_and_groups(secured) == theirs
    assert not any(b"sleep\x00600" in p.read_bytes() for p in Path("/proc").glob("[0-9]*/cmdline") if p.exists())


@pytest.mark.landing
def test_break_aims_at_a_topic_of_the_user_over_sasl_and_restores_the_broker(
    secured: Secured, theirs: set[str], tmp_path: Path
) -> None:
    described = {
        "security": secured.security().model_dump(mode="json", exclude_none=True),
        "verbs": secured.verbs().model_dump(mode="json", exclude_none=True),
    }
    file = tmp_path / "mine.yaml"
    file.write_text(json.dumps({"cluster": described}))
    argv = ["break", "--bootstrap", secured.login, "--cluster", file, "--runs-dir", tmp_path]
    refused = chaos(*argv, "leader_of=oders/0", env=os.environ | ENVIRONMENT)
    assert refused.code == 2 and "the cluster has no topic 'oders'; did you mean orders" in refused.err
    ended = chaos(*argv, "leader_of=orders/0", "--for", "6s", env=os.environ | ENVIRONMENT)
    assert ended.code == 0, ended.err
    assert "connecting to" in ended.err and "leaving the cluster" in ended.err and "proven; broker" in ended.err
    assert not any(password in ended.out + ended.err for password in PASSWORDS.values())
    assert topics_and_groups(secured) == theirs and left_running(tmp_path) == []
    assert all(map(secured.alive, (1, 2, 3)))


@pytest.mark.landing
def test_after_a_kill_of_the_platform_the_reaper_restores_the_cluster(
    secured: Secured, theirs: set[str], tmp_path: Path
) -> None:
    file = scenario(secured, tmp_path)
    argv = [*arguments(secured, file, tmp_path / "runs"), "--set", "faults.kill.heal={after: 10m}"]
    argv += ["--set", "faults.kill.target={leader_of: aftershock-of-somebody-else-orders/0}"]  # a topic of the user
    process = subprocess.Popen([sys.executable, "-m", "chaos", *argv], cwd=ROOT, env=os.environ | ENVIRONMENT)
    (run,) = wait_until(lambda: list((tmp_path / "runs").glob("*")), 30, "no run directory")

    def proven() -> bool:
        assert process.poll() is None
        return (run / "events.jsonl").exists() and '"phase": "proven"' in (run / "events.jsonl").read_text()

    wait_until(proven, 120, "the fault was not proven")
    down = [b for b in (1, 2, 3) if not secured.alive(b)]
    assert len(down) == 1 and any(name.startswith("aftershock-mine-") for name in topics_and_groups(secured))
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: left_running(tmp_path) == [], 120, lambda: f"left running: {left_running(tmp_path)}")
    assert topics_and_groups(secured) == theirs, (run / "logs" / "reaper.log").read_text()
    assert secured.alive(down[0])
    for password in PASSWORDS.values():
        assert files_with(run, password) == []
    assert [m for m in find_marked() if m.run_dir == run] == []
