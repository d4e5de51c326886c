"""Scenarios for an existing cluster: validation, secrets, and Airflow connections."""

import json
import os
import ssl

import pytest
from pydantic import ValidationError

from chaos.drive import stages
from chaos.errors import ScenarioError, UsageError
from chaos.kafka.security import Access, Security, librdkafka_settings
from chaos.scenario.load import all_overrides, parse
from dags.provider.connections import overrides

PLAIN = """
title: t
cluster: {driver: attached, bootstrap: "kafka-1:9092"}
topics: [{name: orders}]
producers: [{name: shop, topic: orders}]
consumers: [{mode: subscribe, name: billing, group: billing, topics: [orders]}]
"""
KILL = "faults=[{name: kill, kind: broker.kill, target: {leader_of: orders/0}, when: {acked: 1}}]"
PAUSE = "faults=[{name: stop, kind: broker.pause, target: {broker: 7}, when: {acked: 1}}]"
CRASH = "faults=[{name: crash, kind: consumer.crash, target: {member: billing/1}, when: {acked: 1}}]"
ALLOWED = "cluster.allow_faults=true"
SASL = "cluster.security={protocol: SASL_SSL, mechanism: PLAIN, username: alice, password: 'env:PW'}"
SCRAM = Security(protocol="SASL_SSL", mechanism="SCRAM-SHA-512", username="alice", password="env:PW", ca="/ca.pem")


def refused(*sets):
    with pytest.raises((ScenarioError, UsageError)) as error:
        parse(PLAIN, "mine.yaml", sets)
    return str(error.value)


@pytest.mark.parametrize("sets", [(), (SASL,), (CRASH,), (KILL, ALLOWED, "cluster.verbs={kill: a, start: b}")])
def test_accepted(sets):
    parse(PLAIN, "mine.yaml", sets)


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (("cluster.bootstrap=null",), "cluster.bootstrap: the attached driver needs the cluster's address"),
        (("cluster.bootstrap=kafka-1",), "cluster.bootstrap: 'kafka-1' is no address"),
        (
            ("cluster.driver=process",),
            "cluster.bootstrap: does not fit the process driver: it applies to existing clusters",
        ),
        (("cluster.kafka=3.9.2",), "cluster.kafka: does not fit the attached driver: the brokers already run"),
        (
            ("cluster.config.num.io.threads=3",),
            "cluster.config: does not fit the attached driver: the brokers keep their",
        ),
        ((KILL,), "faults[0]: broker.kill breaks brokers of an existing cluster, which takes allow_faults: true"),
        ((KILL, ALLOWED), "commands that are not given: cluster.verbs.kill, cluster.verbs.start"),
        ((KILL, ALLOWED, "cluster.verbs.kill=a"), "commands that are not given: cluster.verbs.start"),
        ((PAUSE, ALLOWED, "cluster.verbs.pause=a"), "commands that are not given: cluster.verbs.resume"),
        (("cluster.verbs.explode=a",), "cluster.verbs.explode: unknown key"),
        (
            ("cluster.verbs.kill=ssh {hots} reboot",),
            "cluster.verbs.kill: {hots} is no placeholder; known are {broker}",
        ),
        (("cluster.verbs.timeout=0s",), "cluster.verbs.timeout"),
        (("cluster.security.protocol=TLS",), "cluster.security.protocol"),
        (("cluster.security.protocol=SASL_SSL",), "cluster.security: protocol SASL_SSL needs mechanism, username"),
        (("cluster.security.ca=/ca.pem",), "cluster.security: ca does not fit protocol PLAINTEXT"),
        (("cluster.security={protocol: SSL, key: k}",), "cluster.security: certificate and key are given together"),
        (("producers.shop.config.sasl.password=x",), "producers[0].config: sasl.password is set by Aftershock itself"),
        (("consumers.billing.config.security.protocol=SSL",), "use cluster.security instead"),
        (("producers.shop.config.metadata.broker.list=x",), "metadata.broker.list is set by Aftershock itself"),
    ],
)
def test_refused(sets, message):
    assert message in refused(*sets)


@pytest.mark.parametrize(
    "given",
    [
        "cluster.security.password=hunter2",
        "cluster.security.password=[hunter2",
        "cluster.security.password={a: hunter2}",
        "cluster.security.pasword.x.y=hunter2",
        "cluster.security={protocol: SASL_SSL, mechanism: PLAIN, username: a, password: hunter2}",
        "cluster.security={protocol: SSL, certificate: c, key: k, key_password: hunter2}",
    ],
)
def test_a_literal_password_is_refused_and_not_repeated(given):
    message = refused(given)
    assert "hunter2" not in message
    if "hunter2" in given.removeprefix("cluster.security.password="):
        assert "env:NAME" in message or "YAML" in message or "pasword" in message


def test_faults_of_brokers_need_the_consent_of_the_owner(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(PLAIN)
    sets = [KILL, ALLOWED, "cluster.verbs={kill: a, start: b}"]
    with pytest.raises(
        UsageError, match=r"kill would break brokers of the cluster at kafka-1:9092; .*--i-own-this-clu"
    ):
        stages.prepare(stages.ScenarioRequest(str(file), sets=sets), runs_dir=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
    stages.prepare(stages.ScenarioRequest(str(file), sets=sets, i_own_this_cluster=True), runs_dir=tmp_path / "runs")
    stages.prepare(stages.ScenarioRequest(str(file), sets=(CRASH,)), runs_dir=tmp_path / "others")


def test_bootstrap_turns_any_scenario_into_one_for_an_existing_cluster():
    sets = all_overrides(None, None, None, "10:30")
    scenario = parse("title: t\ntopics: [{name: a}]\nproducers: [{name: p, topic: a}]", "t.yaml", sets)
    assert (scenario.cluster.driver, scenario.cluster.bootstrap) == ("attached", "10:30")
    with pytest.raises(UsageError, match="--driver=docker makes a new one"):
        all_overrides(None, None, "docker", "h:1")
    with pytest.raises(UsageError, match="--kafka chooses the release of a new cluster"):
        all_overrides(None, "3.9.2", None, "h:1")


def test_secrets_come_from_the_environment_or_a_file(monkeypatch, tmp_path):
    monkeypatch.setenv("PW", "hunter2")
    assert Access.of(SCRAM).password == "hunter2"
    (tmp_path / "pw").write_text("hunter3\n")
    from_file = SCRAM.model_copy(update={"password": f"file:{tmp_path}/pw"})
    assert Access.of(from_file).password == "hunter3"
    assert Access.of(None) is Access.of(Security()) is None


@pytest.mark.parametrize(
    ("reference", "content", "message"),
    [
        ("env:NOWHERE", None, "cluster.security.password: the environment variable NOWHERE is not set"),
        ("file:{dir}/pw", None, "pw cannot be read: No such file"),
        ("file:{dir}/pw", b"\n", "pw is empty"),
        ("file:{dir}/pw", b"\xff\xfe", "pw cannot be read"),
    ],
)
def test_a_missing_secret_is_named(tmp_path, reference, content, message):
    if content is not None:
        (tmp_path / "pw").write_bytes(content)
    with pytest.raises(UsageError, match=message):
        Access.of(SCRAM.model_copy(update={"password": reference.format(dir=tmp_path)}))


def test_librdkafka_settings(monkeypatch):
    monkeypatch.setenv("PW", "hunter2")
    assert librdkafka_settings(SCRAM) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "hunter2",
        "ssl.ca.location": "/ca.pem",
    }
    tls = Security(protocol="SSL", certificate="/c", key="/k", key_password="env:PW", verify_hostname=False)
    assert librdkafka_settings(tls) == {
        "security.protocol": "SSL",
        "ssl.certificate.location": "/c",
        "ssl.key.location": "/k",
        "ssl.key.password": "hunter2",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert librdkafka_settings(None) == librdkafka_settings(Security()) == {}


def test_an_access_shows_no_secret(monkeypatch):
    monkeypatch.setenv("PW", "hunter2")
    access = Access.of(SCRAM)
    assert "hunter2" not in repr(access) and access.secrets == ["hunter2"]
    assert "hunter2" not in SCRAM.model_dump_json()


def test_paths_become_absolute_for_processes_in_other_directories(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    security = SCRAM.model_copy(update={"ca": "ca.pem", "password": "file:pw"}).absolute()
    assert (security.ca, security.password) == (f"{tmp_path}/ca.pem", f"file:{tmp_path}/pw")
    assert SCRAM.absolute() == SCRAM


@pytest.mark.parametrize("ca", ["missing.pem", "bad.pem"])
def test_an_authority_that_cannot_be_read_is_named(monkeypatch, tmp_path, ca):
    monkeypatch.setenv("PW", "x")
    (tmp_path / "bad.pem").write_text("no certificate")
    with pytest.raises(UsageError, match=rf"cluster.security.ca: .*{ca} cannot be read as PEM"):
        Access.of(SCRAM.model_copy(update={"ca": str(tmp_path / ca)})).check()


def test_an_ssl_error_is_an_oserror():
    assert issubclass(ssl.SSLError, OSError)


def test_the_name_of_a_scram_user_is_escaped(monkeypatch):
    monkeypatch.setenv("PW", "x")
    odd = Access.of(SCRAM.model_copy(update={"username": "a=b,c"}))
    assert odd.login().auth_bytes().startswith(b"n,,n=a=3Db=2Cc,r=")


def test_an_airflow_connection_becomes_the_cluster_of_a_scenario_without_secrets(monkeypatch):
    extra = {
        "bootstrap.servers": "kafka-1:9093",
        "group.id": "not-ours",
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "hunter2",
        "ssl.ca.location": "/ca.pem",
        "ssl.endpoint.identification.algorithm": "none",
    }
    env = {}
    given = overrides("kafka_prod", extra, env)
    assert env == {"AFTERSHOCK_KAFKA_PASSWORD": "hunter2"}
    assert "hunter2" not in json.dumps(given)
    cluster = parse(PLAIN, "t.yaml", given).cluster
    assert cluster.bootstrap == "kafka-1:9093"
    assert cluster.security.given() == Security(
        protocol="SASL_SSL",
        mechanism="SCRAM-SHA-512",
        username="alice",
        password="env:AFTERSHOCK_KAFKA_PASSWORD",
        ca="/ca.pem",
        verify_hostname=False,
    )
    assert os.environ.get("AFTERSHOCK_KAFKA_PASSWORD") is None


def test_an_unsupported_setting_of_an_airflow_connection_is_named():
    with pytest.raises(UsageError, match=r"connection c has no bootstrap.servers"):
        overrides("c", {}, {})
    with pytest.raises(UsageError, match=r"connection c has sasl.kerberos.keytab, which is not supported"):
        overrides("c", {"bootstrap.servers": "h:1", "sasl.kerberos.keytab": "x"}, {})


def test_a_secret_under_a_wrong_key_is_not_repeated():
    with pytest.raises(ValidationError) as error:
        Security(protocol="SASL_SSL", mechanism="PLAIN", username="a", password="hunter2")
    assert "hunter2" not in error.value.errors()[0]["msg"]
