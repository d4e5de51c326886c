"""What `cluster.security` may ask of each driver and release, and what is refused at load."""

from __future__ import annotations

import pytest

from chaos.errors import ScenarioError
from chaos.scenario.load import parse

REST = """
topics: [{name: orders}]
producers: [{name: shop, topic: orders}]
consumers: [{mode: assign, name: replay, topics: [orders]}]
"""
WITHDRAW = "faults: [{name: w, kind: acl.withdraw, target: {topic: orders}, when: {acked: 1}%s}]\n"
SCRAM = "protocol: SASL_SSL, mechanism: SCRAM-SHA-512"


def cluster(security: str, more: str = "", faults: str = "") -> str:
    return f"title: t\ncluster: {{brokers: 3, security: {{{security}}}{more}}}{REST}{faults}"


@pytest.mark.parametrize(
    "security",
    [
        "protocol: SSL",
        "protocol: SSL, client_certificates: true, acls: true",
        "protocol: SASL_SSL, mechanism: PLAIN",
        f"{SCRAM}, acls: true",
        "protocol: SASL_PLAINTEXT, mechanism: SCRAM-SHA-256",
        "protocol: SSL, certificate_lifetime: 2h",
    ],
)
def test_a_new_cluster_needs_no_secret(security: str) -> None:
    assert parse(cluster(security), "t.yaml").cluster.security.secured


@pytest.mark.parametrize(
    ("security", "more", "message"),
    [
        ("protocol: SASL_SSL", "", "cluster.security: protocol SASL_SSL needs a mechanism"),
        ("protocol: SSL, mechanism: PLAIN", "", "mechanism: does not fit protocol SSL; choose SASL_SSL"),
        ("mechanism: PLAIN", "", "mechanism: does not fit protocol PLAINTEXT"),
        (f"{SCRAM}, client_certificates: true", "", "client_certificates: does not fit protocol SASL_SSL, only SSL"),
        ("protocol: SSL, acls: true", "", "acls: clients have no identity; choose a protocol with SASL, or SSL with"),
        ("acls: true", "", "acls: clients have no identity"),
        (
            f"{SCRAM}, username: me, password: 'env:X'",
            "",
            "username: does not fit the process driver: ",
        ),
        ("protocol: SSL, ca: /ca.pem", ", driver: docker", "ca: does not fit the docker driver: Aftershock makes"),
        (
            SCRAM,
            ", kafka: 2.8.2",
            "ZooKeeper here, and Aftershock secures KRaft only; choose",
        ),
        (SCRAM, ", kafka: 3.9.2, metadata: zookeeper", "Kafka 3.9.2 keeps its metadata in ZooKeeper here"),
        (SCRAM, ", kafka: 3.4.1", "mechanism: KRaft has SCRAM since Kafka 3.5, and this is 3.4.1; choose PLAIN"),
        (
            "protocol: SSL, certificate_lifetime: 5m",
            "",
            "certificate_lifetime: 300s may end during the run; give 1h or",
        ),
        (
            "protocol: SASL_PLAINTEXT, mechanism: PLAIN, certificate_lifetime: 2h",
            "",
            "certificate_lifetime: does not fit protocol SASL_PLAINTEXT",
        ),
        (
            "protocol: SSL, certificate_lifetime: 2h",
            ", driver: attached, bootstrap: 'b:1'",
            "certificate_lifetime: does not fit the attached driver",
        ),
        ("protocol: SSL, acls: true", ", driver: attached, bootstrap: 'b:1'", "acls: does not fit the attached driver"),
        ("protocol: SASL_SSL", ", driver: attached, bootstrap: 'b:1'", "protocol SASL_SSL needs mechanism, username"),
        ("protocol: SSL, key: /k", ", driver: attached, bootstrap: 'b:1'", "certificate and key are given together"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(security: str, more: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message) as refused:
        parse(cluster(security, more), "t.yaml")
    lines = str(refused.value).splitlines()[1:]
    assert lines and all(line.startswith("  t.yaml:2: cluster.security") for line in lines)


def test_a_wire_fault_reads_tls_that_the_relay_ends() -> None:
    wire = "faults: [{name: w, kind: wire.delay, delay: 1s, api: Produce, target: {broker: 1}, when: {acked: 1}}]\n"
    assert parse(cluster(SCRAM, faults=wire), "t.yaml").proxied


@pytest.mark.parametrize(
    ("security", "more", "message"),
    [
        (SCRAM, "", "acl.withdraw needs cluster.security with acls: true"),
        (f"{SCRAM}, acls: true", ", operation: delete", "operation"),
    ],
)
def test_rights_are_taken_only_from_those_who_have_them(security: str, more: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        parse(cluster(security, faults=WITHDRAW % more), "t.yaml")


def test_a_right_that_nobody_uses_proves_nothing() -> None:
    other = cluster(f"{SCRAM}, acls: true", faults=WITHDRAW % "").replace(
        "topics: [{name: orders}]", "topics: [{name: orders}, {name: unused}]"
    )
    with pytest.raises(ScenarioError, match="no producer writes to unused"):
        parse(other.replace("target: {topic: orders}", "target: {topic: unused}"), "t.yaml")


def fault(kind: str, more: str = "", target: str = "{all_brokers: true}") -> str:
    return f"faults: [{{name: f, kind: {kind}, target: {target}, when: {{acked: 1}}{more}}}]\n"


@pytest.mark.parametrize(
    ("security", "more", "faults", "message"),
    [
        (
            "",
            "",
            fault("certificate.rotate"),
            "certificate.rotate needs cluster.security with protocol SSL or SASL_SSL",
        ),
        (
            "protocol: SASL_PLAINTEXT, mechanism: PLAIN",
            "",
            fault("certificate.expire"),
            "certificate.expire needs cluster.security with protocol SSL",
        ),
        (
            SCRAM,
            ", controllers: 1",
            fault("certificate.rotate", ", authority: other"),
            "dedicated controllers do not load another trust store",
        ),
        (SCRAM, "", fault("certificate.rotate", ", authority: third"), "authority"),
        (SCRAM, "", fault("certificate.expire", ", after: 11s"), "after: 11s is longer than 10s"),
        (SCRAM, "", fault("certificate.expire", target="{topic: orders}"), "target topic does not fit this fault"),
        (
            "protocol: SSL",
            "",
            fault("credential.change"),
            "credential.change needs cluster.security with SASL and a SCRAM",
        ),
        (
            "protocol: SASL_SSL, mechanism: PLAIN",
            "",
            fault("credential.change"),
            "brokers read the passwords of PLAIN only when they start",
        ),
        *(
            (
                "protocol: SASL_SSL, mechanism: SCRAM-SHA-512, username: me, password: 'env:X'",
                ", driver: attached, bootstrap: 'b:1', allow_faults: true",
                fault(kind),
                f"{kind} changes .* that Aftershock made, and an existing cluster has its own",
            )
            for kind in ("certificate.rotate", "certificate.expire", "credential.change")
        ),
    ],
)
def test_certificates_and_passwords_change_only_where_there_are_some(
    security: str, more: str, faults: str, message: str
) -> None:
    with pytest.raises(ScenarioError, match=message):
        parse(cluster(security, more, faults), "t.yaml")


@pytest.mark.parametrize(
    "faults",
    [
        fault("certificate.rotate", ", authority: other"),
        fault("certificate.expire", ", after: 2s", "{leader_of: orders/0}"),
        fault("credential.change"),
    ],
)
def test_certificates_and_passwords_of_a_secured_cluster_change(faults: str) -> None:
    assert parse(cluster(SCRAM, "", faults), "t.yaml").faults


TOKENS = "protocol: SASL_SSL, mechanism: OAUTHBEARER"


@pytest.mark.parametrize(
    ("security", "more", "faults", "message"),
    [
        (TOKENS, ", kafka: 3.3.2", "", "Kafka 3.3.2 has no check of tokens of an issuer"),
        (f"{TOKENS}, token_lifetime: 5s", "", "", "token_lifetime: 5s is not between 10s and 24h"),
        (f"{SCRAM}, token_lifetime: 60s", "", "", "token_lifetime: clients get no tokens"),
        (f"{TOKENS}, token_endpoint: 'http://h/token'", "", "", "token_endpoint: does not fit the process driver"),
        (
            f"{TOKENS}, username: me, password: 'env:X', token_endpoint: 'http://h/token'",
            ", driver: attached, bootstrap: 'b:1'",
            "",
            "OAUTHBEARER does not fit the attached driver",
        ),
        (SCRAM, "", fault("issuer.stop"), "issuer.stop needs cluster.security with mechanism OAUTHBEARER"),
        (TOKENS, "", fault("credential.change"), "needs a SCRAM mechanism"),
    ],
)
def test_tokens_need_an_issuer_that_brokers_reach(security: str, more: str, faults: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        parse(cluster(security, more, faults), "t.yaml")


def test_clients_that_get_no_tokens_are_refused() -> None:
    assert parse(cluster(TOKENS, "", fault("issuer.stop")), "t.yaml").cluster.security.secured
    written = cluster(TOKENS)
    for client, message in (
        (
            "franz-go",
            r"producers\[0\].client: the runtime franz-go:[\d.]+ has no tokens: .* these have: confluent, java",
        ),
        ("java:2.8.2", "kafka-clients has it from 3.4.0 on, not in 2.8.2"),
    ):
        entry = f"producers: [{{name: shop, topic: orders, client: '{client}'}}]"
        with pytest.raises(ScenarioError, match=message):
            parse(written.replace("producers: [{name: shop, topic: orders}]", entry), "t.yaml")
    entry = "producers: [{name: shop, topic: orders, client: java}]"
    assert parse(written.replace("producers: [{name: shop, topic: orders}]", entry), "t.yaml")
