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
            "protocol: SSL",
            ", proxy: true",
            "cluster.proxy needs the wire proxy, which cannot read SSL",
        ),
        ("protocol: SSL, acls: true", ", driver: attached, bootstrap: 'b:1'", "acls: does not fit the attached driver"),
        ("protocol: SASL_SSL", ", driver: attached, bootstrap: 'b:1'", "protocol SASL_SSL needs mechanism, username"),
        ("protocol: SSL, key: /k", ", driver: attached, bootstrap: 'b:1'", "certificate and key are given together"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(security: str, more: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message) as refused:
        parse(cluster(security, more), "t.yaml")
    assert len([line for line in str(refused.value).splitlines() if "cluster.security" in line]) == 1


def test_a_wire_fault_cannot_read_tls() -> None:
    wire = "faults: [{name: w, kind: wire.delay, delay: 1s, api: Produce, target: {broker: 1}, when: {acked: 1}}]\n"
    with pytest.raises(ScenarioError, match=r"wire.delay needs the wire proxy, which cannot read SASL_SSL"):
        parse(cluster(SCRAM, faults=wire), "t.yaml")


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
