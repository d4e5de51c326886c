"""Clusters with TLS, SASL and ACLs that Aftershock sets up: their files, their listeners, and no secret elsewhere."""

from __future__ import annotations

import contextlib
import datetime
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from cryptography import x509

from chaos.cluster.docker.driver import DockerCluster
from chaos.cluster.process.driver import ProcessCluster
from chaos.cluster.secured import credentials
from chaos.cluster.secured.certificates import Authority
from chaos.cluster.secured.settings import CA, LOGIN, STORE
from chaos.cluster.settings import ClusterSpec, broker_settings, controller_settings, on_this_host
from chaos.incident.bundle import pack
from chaos.kafka import users
from chaos.kafka.client import Kafka
from chaos.kafka.connection import login_works
from chaos.kafka.security import Access, ClusterSecurity, Security
from chaos.processes.process import ProcessId
from chaos.run.directory import Run
from tests.chaos.cluster.test_controllers import TWO
from tests.support.engines import needs_engine
from tests.support.platform import HELD, chaos, left_running
from tests.support.secured import RUNS, every_client
from tests.support.watch import Watch, files_with

SCRAM = ClusterSecurity(protocol="SASL_SSL", mechanism="SCRAM-SHA-512", acls=True)
MUTUAL = ClusterSecurity(protocol="SSL", client_certificates=True, acls=True)
BY_TOKEN = ClusterSecurity(protocol="SASL_SSL", mechanism="OAUTHBEARER")
LOGIN_PLAIN = ClusterSecurity(protocol="SASL_PLAINTEXT", mechanism="PLAIN")


def test_the_listeners_have_protocols_and_no_setting_has_a_secret() -> None:
    spec = ClusterSpec(2, security=SCRAM)
    found = broker_settings(spec, 1, on_this_host([11, 12], [21, 22], [31, 32]))
    assert found["listener.security.protocol.map"] == "CLIENT:SASL_SSL,PEERS:SSL,CONTROLLER:SSL"
    assert found["inter.broker.listener.name"] == "PEERS"
    assert found["listener.name.client.sasl.enabled.mechanisms"] == "PLAIN,SCRAM-SHA-512"
    assert found["listener.name.client.plain.sasl.jaas.config"] == "${file:secrets/login.properties:plain}"
    assert found["listener.name.peers.ssl.client.auth"] == "required"
    assert "listener.name.client.ssl.client.auth" not in found
    assert found["super.users"].split(";")[0] == "User:CN=aftershock-node"
    assert broker_settings(ClusterSpec(2, security=MUTUAL), 1, on_this_host([11, 12], [21, 22], [31, 32]))[
        "listener.name.client.ssl.client.auth"
    ] == ("required")
    controller = controller_settings(ClusterSpec(2, controllers=2, security=SCRAM), 101, TWO)
    assert controller["listener.security.protocol.map"] == "CONTROLLER:SSL"
    assert "authorizer.class.name" in controller and not any("jaas" in key for key in controller)
    plain = broker_settings(ClusterSpec(1), 1, on_this_host([11], [21]))
    assert not any("ssl" in key or "sasl" in key or "authorizer" in key for key in plain)


def test_brokers_check_tokens_by_the_keys_of_the_issuer() -> None:
    security = ClusterSecurity(protocol="SASL_SSL", mechanism="OAUTHBEARER", token_endpoint="http://127.0.0.1:7/token")
    found = broker_settings(ClusterSpec(2, security=security), 1, on_this_host([11, 12], [21, 22], [31, 32]))
    assert found["listener.name.client.sasl.enabled.mechanisms"] == "PLAIN,OAUTHBEARER"
    assert found["sasl.oauthbearer.jwks.endpoint.url"] == "http://127.0.0.1:7/jwks"
    assert found["sasl.oauthbearer.expected.issuer"] == "http://127.0.0.1:7"
    handler = found["listener.name.client.oauthbearer.sasl.server.callback.handler.class"]
    assert handler == "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


def test_credentials_are_files_of_their_owner_and_references_name_them(tmp_path: Path) -> None:
    run = Run.create(tmp_path, "r")
    homes = {node: run.brokers / str(node) for node in (1, 2)}
    for home in homes.values():
        home.mkdir(parents=True)
    made = credentials.make(run, SCRAM, homes, ["127.0.0.1", "172.20.0.2", "localhost"])
    secrets = [path for path in run.brokers.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets} == {0o600}
    assert {stat.S_IMODE(path.parent.stat().st_mode) for path in secrets} == {0o700}
    assert made.platform.mechanism == "PLAIN" and made.clients.mechanism == "SCRAM-SHA-512"
    password = Access.of(made.clients)
    assert password is not None and len(password.password) >= 32
    assert password.password not in (homes[1] / LOGIN).read_text(), "brokers keep the hash of a SCRAM password only"
    platform = Access.of(made.platform)
    assert platform is not None
    written = credentials.jaas(platform.password).replace("\\", "\\\\")
    assert f'user_aftershock="{written}"' in (homes[1] / LOGIN).read_text()
    assert platform.password not in made.model_dump_json() and password.password not in made.model_dump_json()
    for access in (platform, password):
        access.check()
    store = (homes[1] / STORE).read_bytes()
    names = x509.load_pem_x509_certificate(store[store.index(b"-----BEGIN CERT") :]).extensions
    hosts = names.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(ip) for ip in hosts.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "172.20.0.2"]
    assert store != (homes[2] / STORE).read_bytes()
    again = Authority.load(credentials.folder(run) / "ca.pem", credentials.folder(run) / "ca.key")
    assert again.pem == (homes[1] / CA).read_bytes()


def test_certificates_end_when_their_lifetime_is_over(tmp_path: Path) -> None:
    for name, security, hours in (
        ("short", MUTUAL.model_copy(update={"certificate_lifetime": 7200.0}), 2),
        ("long", MUTUAL, 720),
    ):
        run = Run.create(tmp_path, name)
        home = run.brokers / "1"
        home.mkdir(parents=True)
        credentials.make(run, security, {1: home}, ["localhost"])
        for path in (home / STORE, credentials.folder(run) / "client.pem"):
            pem = path.read_bytes()
            ends = x509.load_pem_x509_certificate(pem[pem.index(b"-----BEGIN CERT") :]).not_valid_after_utc
            left = ends - datetime.datetime.now(datetime.UTC)
            assert abs(left - datetime.timedelta(hours=hours)) < datetime.timedelta(minutes=5)


def test_another_security_is_another_cluster() -> None:
    """A cluster is lent to a run only if their specifications are equal."""
    specs = [ClusterSpec(3), *(ClusterSpec(3, security=security) for security in (SCRAM, MUTUAL, LOGIN_PLAIN))]
    assert all((a == b) == (a is b) for a in specs for b in specs)
    assert ClusterSpec(3, security=SCRAM.model_copy()) == specs[1]
    assert len({repr(spec) for spec in specs}) == 4


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    made = Run.create(tmp_path, "secured")
    yield made
    if made.cluster.exists():
        ProcessCluster.attach(made).destroy()


OTHER_LOGIN = pytest.mark.nightly(
    twin="chaos/cluster/test_secured.py::test_platform_and_clients_log_in_and_others_do_not[mutual-4.3.1]"
)


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("security", "kafka", "controllers"),
    [
        pytest.param(MUTUAL, "4.3.1", 1, id="mutual-4.3.1"),
        pytest.param(LOGIN_PLAIN, "4.3.1", 0, id="plain-4.3.1", marks=OTHER_LOGIN),
        pytest.param(MUTUAL, "3.3.2", 0, id="mutual-3.3.2", marks=OTHER_LOGIN),
        pytest.param(SCRAM, "3.9.2", 0, id="scram-3.9.2", marks=OTHER_LOGIN),
    ],
)
def test_platform_and_clients_log_in_and_others_do_not(
    run: Run, security: ClusterSecurity, kafka: str, controllers: int
) -> None:
    spec = ClusterSpec(1, kafka, controllers=controllers, security=security)
    cluster = ProcessCluster.deploy(run, spec, ProcessId.current(), 600)
    assert cluster.state.secured is not None
    for way in (cluster.state.secured.platform, cluster.state.secured.clients):
        access = Access.of(way)
        assert access is not None and login_works(*cluster.address(1), 10, access)
    if controllers:
        access = cluster.state.access(101)
        assert access is not None and login_works(*cluster.address(101), 10, access)
    ways = cluster.state.secured
    stranger = ways.clients if security.sasl else Security(protocol="SSL", ca=ways.platform.ca)
    assert not login_works(*cluster.address(1), 10, Access(stranger, password="wrong"))
    if security.acls:
        asking = Kafka(cluster.bootstrap, access=cluster.state.access())
        assert users.rights_at(asking, 1, "User:CN=client") == set()
        asking.close()


class Secrets:
    """Copies the secrets of a run while they exist, with the modes of their files."""

    def __init__(self, runs: Path) -> None:
        self.texts: set[str] = set()
        self.modes: set[int] = set()
        self._runs, self._over = runs, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self._over.wait(0.2):
            for folder in ("credentials", "secrets"):
                with contextlib.suppress(FileNotFoundError):  # a folder is removed while it is listed
                    for path in self._runs.glob(f"*/brokers/**/{folder}/*"):
                        self._read(path)

    def _read(self, path: Path) -> None:
        try:
            text, mode = path.read_text(), stat.S_IMODE(path.stat().st_mode)
        except OSError:  # removed meanwhile
            return
        self.modes.add(mode)
        if path.suffix == ".password":
            self.texts.add(text)
        _, begin, rest = text.partition("-----BEGIN PRIVATE KEY-----")
        if begin:
            self.texts.update(rest.partition("-----END")[0].split())

    def __enter__(self) -> Secrets:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()


SECRETS = 20
"""Lines of keys and passwords: of two authorities, two users, one node before and after the rotation."""

SCENARIO = """
title: records over TLS and SCRAM while a right is taken
cluster: {brokers: 1, security: {protocol: SASL_SSL, mechanism: SCRAM-SHA-512, acls: true}}
topics: [{name: orders, partitions: 2, replication_factor: 1}]
producers:
  - name: once
    topic: orders
    rate: 200/s
    records: 400
    outlast_faults: true
    config: {enable.idempotence: false, retries: 0}
  - {name: shop, topic: orders, client: java, rate: 100/s, records: 200, outlast_faults: true}
consumers:
  - {mode: subscribe, name: billing, group: billing, topics: [orders], config: {auto.offset.reset: earliest}}
faults:
  - name: withdraw
    kind: acl.withdraw
    target: {topic: orders}
    when: {acked: 200}
    heal: {when: {after: withdraw.proven + 500ms}}
  - {name: rotate, kind: certificate.rotate, target: {broker: 1}, authority: other, when: {after: withdraw.healed}}
  - {name: change, kind: credential.change, target: {all_brokers: true}, when: {after: rotate.proven}}
"""


@pytest.mark.landing
@pytest.mark.kafka
def test_a_run_shows_its_secrets_nowhere_and_a_refused_send_has_failed(tmp_path: Path) -> None:
    file, runs = tmp_path / "mine.yaml", tmp_path / "runs"
    file.write_text(SCENARIO)
    with Secrets(runs) as secrets, Watch() as watch:
        ended = chaos("run", file, "--json", "--runs-dir", runs)
    unmet = [(e["name"], e["seen"], e["why"]) for e in ended.result["expectations"] if e["verdict"] not in HELD]
    assert (ended.code, ended.result["verdict"], unmet) == (0, "pass", []), ended.result["sentence"]
    assert [f["name"] for f in ended.result["faults"] if f["proven_us"]] == ["withdraw", "rotate", "change"]
    (run,) = (path for path in runs.iterdir() if path.is_dir())
    assert left_running(tmp_path) == [] and not (run / "brokers").exists()
    assert pack(Run(run), tmp_path / "run.tar.gz")
    assert secrets.modes == {0o600} and len(secrets.texts) >= SECRETS
    for secret in secrets.texts:
        assert files_with(tmp_path, secret) == []
        assert [line for line in watch.arguments if secret.encode() in line] == []
        assert secret not in ended.out and secret not in ended.err
    sends = pq.read_table(run / "ledger" / "sends.parquet").to_pylist()
    refused = [row for row in sends if row["producer"] == "once/1" and row["outcome"] != "ok"]
    assert refused and {(row["outcome"], row["error"]) for row in refused} == {("fail", "TOPIC_AUTHORIZATION_FAILED")}
    java = {row["outcome"] for row in sends if row["producer"] == "shop/1" and row["outcome"] != "ok"}
    assert java == {"unknown"}, "an earlier attempt of an idempotent producer may have been written"


TOKENS = """
title: records with tokens, which are renewed while the issuer is up, down and up
cluster:
  brokers: 1
  security: {protocol: SASL_SSL, mechanism: OAUTHBEARER, token_lifetime: 10s, acls: true}
  config: {connections.max.reauth.ms: 60000}
topics: [{name: orders, partitions: 2, replication_factor: 1}]
producers:
  - {name: shop, topic: orders, rate: 100/s, records: 1000, outlast_faults: true}
  - {name: java, topic: orders, client: java, rate: 100/s, records: 1000, outlast_faults: true}
consumers:
  - {mode: subscribe, name: billing, group: billing, topics: [orders], config: {auto.offset.reset: earliest}}
faults:
  - name: stop
    kind: issuer.stop
    target: {all_brokers: true}
    when: {acked: 500}
    heal: {when: {after: stop.proven + 2s}}
"""
HEADER = "eyJhbGciOiJSUzI1NiI"
"""The beginning of every token of the issuer."""


@pytest.mark.nightly(twin="chaos/cluster/test_issuer.py::test_a_token_is_signed_by_the_key_that_brokers_get")
@pytest.mark.kafka
def test_a_run_with_tokens_shows_neither_them_nor_the_keys_of_their_issuer(tmp_path: Path) -> None:
    file, runs = tmp_path / "mine.yaml", tmp_path / "runs"
    file.write_text(TOKENS)
    with Secrets(runs) as secrets, Watch() as watch:
        ended = chaos("run", file, "--json", "--runs-dir", runs)
    assert (ended.code, ended.result["verdict"]) == (0, "pass"), ended.result["sentence"]
    assert [f["name"] for f in ended.result["faults"] if f["proven_us"]] == ["stop"]
    (run,) = (path for path in runs.iterdir() if path.is_dir())
    assert left_running(tmp_path) == [] and not (run / "brokers").exists()
    assert secrets.modes == {0o600} and len(secrets.texts) > SECRETS
    for secret in (*secrets.texts, HEADER):
        assert files_with(tmp_path, secret) == []
        assert [line for line in watch.arguments if secret.encode() in line] == []
        assert secret not in ended.out and secret not in ended.err


EVERY = """
title: every client logs in
cluster: {{driver: {driver}, brokers: 1, security: {{protocol: SASL_SSL, mechanism: {mechanism}, acls: true}}}}
{clients}
limits: {{clients: 180s}}
"""


@pytest.mark.nightly(
    twin="chaos/cluster/test_secured.py::test_a_run_shows_its_secrets_nowhere_and_a_refused_send_has_failed"
)
@pytest.mark.kafka
@needs_engine
@pytest.mark.parametrize(
    ("driver", "mechanism", "name"),
    [
        ("process", "SCRAM-SHA-256", "jvm"),
        ("process", "PLAIN", "libraries"),
        ("docker", "SCRAM-SHA-256", "libraries"),
        ("docker", "PLAIN", "jvm"),
        ("docker", "OAUTHBEARER", "tokens"),
        ("process", "OAUTHBEARER", "tokens"),
    ],
)
def test_every_client_logs_in_and_no_file_has_a_secret(tmp_path: Path, driver: str, mechanism: str, name: str) -> None:
    file, runs = tmp_path / "mine.yaml", tmp_path / "runs"
    file.write_text(EVERY.format(driver=driver, mechanism=mechanism, clients=every_client(name, 1)))
    with Secrets(runs) as secrets, Watch() as watch:
        ended = chaos("run", file, "--json", "--runs-dir", runs, timeout_s=900)
    unmet = [(e["name"], e["seen"], e["why"]) for e in ended.result["expectations"] if e["verdict"] not in HELD]
    assert (ended.code, ended.result["verdict"], unmet) == (0, "pass", []), ended.result["sentence"]
    for program in RUNS[name][2]:
        assert any(program.encode() in line for line in watch.arguments), program
    (run,) = (path for path in runs.iterdir() if path.is_dir())
    assert left_running(tmp_path) == [] and not (run / "brokers").exists()
    assert pack(Run(run), tmp_path / "run.tar.gz")
    assert len(secrets.texts) >= 2 and any("\n" in text for text in secrets.texts)
    for secret in secrets.texts:
        assert files_with(tmp_path, secret) == []
        assert [line for line in watch.arguments if secret.encode() in line] == []
        assert secret not in ended.out and secret not in ended.err


@pytest.mark.nightly(
    twin="chaos/cluster/test_secured.py::test_platform_and_clients_log_in_and_others_do_not[mutual-4.3.1]"
)
@pytest.mark.kafka
@needs_engine
@pytest.mark.parametrize(("security", "kafka"), [(SCRAM, "4.3.1"), (BY_TOKEN, "4.3.1"), (BY_TOKEN, "3.9.2")])
def test_containers_are_secured_as_processes_are(tmp_path: Path, security: ClusterSecurity, kafka: str) -> None:
    run = Run.create(tmp_path, "secured")
    spec = ClusterSpec(1, kafka, controllers=1, security=security)
    cluster = DockerCluster.deploy(run, spec, ProcessId.current(), 600)
    try:
        secured = cluster.state.secured
        assert secured is not None
        for way in (secured.platform, secured.clients):
            access = Access.of(way)
            assert access is not None and login_works(*cluster.address(1), 10, access)
        assert not login_works(*cluster.address(1), 10, Access(secured.clients, password="wrong"))
        quorum = cluster.state.access(101)
        assert quorum is not None and login_works(*cluster.address(101), 10, quorum)
    finally:
        cluster.destroy()
    assert not run.brokers.exists()
