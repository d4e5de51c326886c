"""A cluster with TLS and SASL, deployed by the process driver, for tests of the attached driver.

Besides its plain listener, it has the listeners LOGIN (SASL_SSL, with PLAIN and SCRAM-SHA-512) and CERT (SSL with a
client certificate).
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives import serialization

from chaos.cluster.attached.driver import AttachedCluster
from chaos.cluster.process.driver import ProcessCluster
from chaos.cluster.secured.credentials import jaas
from chaos.cluster.settings import ClusterSpec, Existing, Verbs
from chaos.kafka.security import Security
from chaos.processes.ports import HOST, free_ports
from chaos.processes.process import ProcessId
from chaos.run.directory import Run
from chaos.setup.names import new_prefix
from tests.support.certificates import Authority

ROOT = Path(__file__).parents[2]
USER = "alice"
AWKWARD = "\n$HOME ${x}'\"\\ \u00e9\u20ac;,="
"""Characters that programs get wrong: a line end, special characters of shells, quotes, and others than ASCII."""
PASSWORDS = {
    "PLAIN": f"plain-Xk3{AWKWARD}vQ9sd7Lq",
    "SCRAM-SHA-512": f"scram-hT6{AWKWARD}wZp2Rm4Y",
    "key": f"key-Bn8c{AWKWARD}Jf5Gt1U",
}
VARIABLES = {"PLAIN": "TEST_PLAIN_PASSWORD", "SCRAM-SHA-512": "TEST_SCRAM_PASSWORD", "key": "TEST_KEY_PASSWORD"}
ENVIRONMENT = {VARIABLES[of]: password for of, password in PASSWORDS.items()}
# a killed broker is accepted again when its session has expired
SHORT_SESSION = {"broker.session.timeout.ms": 2000, "broker.heartbeat.interval.ms": 500}
VERBS = ("kill", "stop", "start", "pause", "resume")
_JAAS = "org.apache.kafka.common.security"
MEMBER = "mode: subscribe, {group}, config: {{auto.offset.reset: earliest}}"
RUNS = {
    # without idempotence, a retry during the fault may write a record twice
    "libraries": (
        {
            "confluent": "",
            "sarama": "config: {acks: all, retries: 300, enable.idempotence: true, Net.MaxOpenRequests: 1}",
            "kafka-python": "",
            "aiokafka": "",
            "franz-go": "",
        },
        {"kafka-python:2.2.21": MEMBER, "confluent": MEMBER, "sarama": MEMBER, "aiokafka": MEMBER, "franz-go": MEMBER},
        ["confluent.producer", "kafka_python.main", "aiokafka.main", "sarama-clients", "franz-go-clients"],
    ),
    "python": (  # without Go, which does not read encrypted keys
        {"confluent": "", "kafka-python": "", "aiokafka": ""},
        {"kafka-python:2.2.21": MEMBER, "confluent": MEMBER, "aiokafka": MEMBER},
        ["confluent.producer", "kafka_python.main", "aiokafka.main"],
    ),
    "jvm": (
        {"java": "", "flink": "config: {acks: all}"},
        {"java:2.8.2": MEMBER, "flink": "mode: assign", "flink-legacy": "mode: assign", "spark": "mode: assign"},
        ["aftershock.Main", "aftershock.FlinkMain", "aftershock.SparkMain", "aftershock.StreamsMain"],
    ),
    "tokens": (
        {"confluent": "", "java": ""},
        {"confluent": MEMBER, "java": MEMBER},
        ["confluent.producer", "aftershock.ShareMain"],
    ),
}
"""By name: the keys of the producers and of the consumers by runtime, and programs among the processes.

`tokens`: the runtimes that get tokens from an issuer."""


def every_client(name: str, replicas: int) -> str:
    """Return the topics and clients of `RUNS`; with Java, Kafka Streams too, which needs a topic for its outputs."""
    writers, readers, _ = RUNS[name]
    plain = {client: re.sub("[^a-z]", "", client) for client in (*writers, *readers)}
    about = f"partitions: 3, replication_factor: {replicas}, config: {{min.insync.replicas: {min(replicas, 2)}}}"
    lines = ["topics:", f"  - {{name: orders, {about}}}"]
    if name == "jvm":
        lines += [f"  - {{name: counts, {about}}}", "processors:"]
        streams = "group: count, topics: [orders], to: counts, client: streams, plain: {commit: after_output}"
        lines.append(f"  - {{name: count, {streams}, consumer_config: {{auto.offset.reset: earliest}}}}")
    lines.append("producers:")
    for client, keys in writers.items():
        about = f"topic: orders, rate: 50/s, records: 400, outlast_faults: true, client: {client}"
        lines.append(f"  - {{name: from-{plain[client]}, {about}{keys and ', '}{keys}}}")
    lines.append("consumers:")
    for client, keys in readers.items():
        about = keys.format(group=f"group: to-{plain[client]}")
        lines.append(f"  - {{name: to-{plain[client]}, topics: [orders], client: '{client}', {about}}}")
    return "\n".join(lines)


@dataclass(frozen=True)
class Secured:
    """The cluster, with the credentials for each of its listeners."""

    cluster: ProcessCluster
    login: str
    cert: str
    folder: Path
    authority: Authority

    def security(self, mechanism: str = "SCRAM-SHA-512") -> Security:
        """Return the security settings for the listener LOGIN."""
        return Security(
            protocol="SASL_SSL",
            mechanism=mechanism,
            username=USER,
            password=f"env:{VARIABLES[mechanism]}",
            ca=str(self.authority.ca),
        )

    def certificate(self) -> Security:
        """Return the security settings for the listener CERT."""
        client = self.folder / "client.pem"
        return Security(
            protocol="SSL",
            ca=str(self.authority.ca),
            certificate=str(client),
            key=str(client.with_suffix(".key")),
            key_password=f"env:{VARIABLES['key']}",
        )

    def key_lines(self) -> list[str]:
        """Return the lines of the decrypted key of the listener CERT, which no file of a run may have."""
        path = (self.folder / "client.pem").with_suffix(".key")
        key = serialization.load_pem_private_key(path.read_bytes(), PASSWORDS["key"].encode())
        none = serialization.NoEncryption()
        pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, none)
        return [line for line in pem.decode().splitlines() if not line.startswith("-")]

    def verbs(self, timeout_s: float = 60, **changed: str) -> Verbs:
        """Return commands with the effect of the process driver."""
        run_dir = shlex.quote(str(self.cluster.run.path))
        module = f"cd {shlex.quote(str(ROOT))} && {shlex.quote(sys.executable)} -m tests.support.verb"
        return Verbs(**{"timeout": timeout_s, **{v: f"{module} {v} {run_dir} {{broker}}" for v in VERBS}, **changed})

    def attach(self, run: Run, **changed: Any) -> AttachedCluster:
        """Attach another run to this cluster. The required variables are in `ENVIRONMENT`."""
        given = {
            "bootstrap": self.login,
            "prefix": new_prefix(run.run_id),
            "security": self.security(),
            "verbs": self.verbs(),
        }
        spec = ClusterSpec(existing=Existing(**{**given, **changed}))
        return AttachedCluster.deploy(run, spec, ProcessId.current(), 600)

    def alive(self, broker: int) -> bool:
        """Return whether the process of a broker runs."""
        return ProcessCluster.attach(self.cluster.run).broker_alive(broker)

    @cached_property
    def admin(self) -> AdminClient:
        """An admin client for the plain listener."""
        return AdminClient({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0})


def deploy(run: Run, folder: Path, brokers: int = 3) -> Secured:
    """Deploy the cluster; it ends with this process, or when it is destroyed."""
    authority = Authority(folder)
    certificate, key = authority.issue("broker")
    store = folder / "broker-store.pem"
    store.write_bytes(key.read_bytes() + certificate.read_bytes())
    authority.issue("client", PASSWORDS["key"])
    ports = free_ports(2 * brokers)
    ports_of = dict(enumerate(zip(ports[:brokers], ports[brokers:], strict=True), start=1))

    def extra(broker: int) -> Mapping[str, str]:
        login, cert = ports_of[broker]
        listeners = f"LOGIN://{HOST}:{login},CERT://{HOST}:{cert}"
        return {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "LOGIN:SASL_SSL,CERT:SSL",
            **{f"listener.name.{listener}.ssl.keystore.type": "PEM" for listener in ("login", "cert")},
            **{f"listener.name.{listener}.ssl.keystore.location": str(store) for listener in ("login", "cert")},
            "listener.name.login.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "listener.name.login.plain.sasl.jaas.config": (
                f'{_JAAS}.plain.PlainLoginModule required user_{USER}="{jaas(PASSWORDS["PLAIN"])}";'
            ),
            "listener.name.login.scram-sha-512.sasl.jaas.config": f"{_JAAS}.scram.ScramLoginModule required;",
            "listener.name.cert.ssl.client.auth": "required",
            "listener.name.cert.ssl.truststore.type": "PEM",
            "listener.name.cert.ssl.truststore.location": str(authority.ca),
        }

    spec = ClusterSpec(brokers, config=SHORT_SESSION, extra=extra)
    cluster = ProcessCluster.deploy(run, spec, ProcessId.current(), 3600)
    login = ",".join(f"{HOST}:{login}" for login, _ in ports_of.values())
    cert = ",".join(f"{HOST}:{cert}" for _, cert in ports_of.values())
    made = Secured(cluster, login, cert, folder, authority)
    how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    user = UserScramCredentialUpsertion(USER, how, PASSWORDS["SCRAM-SHA-512"].encode())
    made.admin.alter_user_scram_credentials([user])[USER].result(30)
    return made
