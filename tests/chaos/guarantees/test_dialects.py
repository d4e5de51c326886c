"""Settings files in the dialects of frameworks, images and operators: what is read, promised and refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from chaos.campaign.prove.application import read
from chaos.cli import app
from chaos.errors import UsageError
from chaos.guarantees.application import Options

TOPIC = """apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaTopic
metadata: {name: orders, labels: {strimzi.io/cluster: main}}
spec: {partitions: 2, replicas: 3, config: {retention.ms: -1, retention.bytes: -1, cleanup.policy: compact}}
"""
CLUSTER = """apiVersion: kafka.strimzi.io/v1beta2
kind: Kafka
metadata: {name: main}
spec:
  kafka:
    version: 3.9.0
    replicas: 3
    listeners: [{name: plain, port: 9092, type: internal, tls: false}]
    config: {offsets.topic.replication.factor: 1, min.insync.replicas: 2}
"""
SPRING_AUTO = "spring.kafka.consumer.enable-auto-commit=true\nspring.kafka.consumer.auto-offset-reset=latest\n"
SPRING_PROFILES = (
    "spring.kafka.producer.acks: all\n---\nspring.config.activate.on-profile: prod\nspring.kafka.producer.acks: 0\n"
)
POOL = """apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
spec: {{replicas: {}, roles: [{}]}}
metadata: {{name: p}}
"""
SMALLRYE = "mp.messaging.{}.connector=smallrye-kafka\n"
CONNECT = "key.converter=a.B\noffset.storage.topic=o\n"
DEPOT = """{"Logging": {"LogLevel": {"Default": "Information"}}, // a comment
 "Kafka": {\t"Producer": {"Depot": {"BootstrapServers": "a:9092", "Acks": "all", "EnableIdempotence": "true",
   "MaxInFlight": "5", "MessageTimeoutMs": "5000"}},
  "Consumer": {"Depot": {"GroupId": "depot", "EnableAutoCommit": "false", "AutoOffsetReset": "Earliest",}}}}"""
TWO = '{"Kafka": {"Producers": {"Bills": {"Acks": "All"}, "Logs": {"Acks": "None"}}}}'
LIBRDKAFKA = """{"bootstrap.servers": "a:9092", "group.id": "depot", "enable.auto.commit": true,
 "enable.auto.offset.store": false, "max.poll.interval.ms": 60000, "go.events.channel.enable": false}"""
SERVER = "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR=1\nKAFKA_LOG_RETENTION_HOURS=24\nKAFKA_MAX_REQUEST_SIZE=50000000\n"
COMPOSE = """x-env: &env {KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1, KAFKA_HEAP_OPTS: -Xmx1g}
services:
  db: {image: postgres, environment: [POSTGRES_PASSWORD=hunter2]}
  kafka1: {image: confluentinc/cp-kafka:7.9, environment: {<<: *env, KAFKA_BROKER_ID: 1}}
  kafka2: {image: confluentinc/cp-kafka:7.9, environment: {<<: *env, KAFKA_BROKER_ID: 2}}
"""
BITNAMI = """services:
  kafka:
    image: bitnami/kafka:3.9
    environment:
      - KAFKA_CFG_NODE_ID=0
      - KAFKA_CFG_MIN_INSYNC_REPLICAS=1
  shop: {image: shop, environment: {SPRING_KAFKA_PRODUCER_ACKS: '1', SPRING_KAFKA_LISTENER_ACK_MODE: RECORD}}
"""
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec: {template: {spec: {containers: [{name: a, env: [{name: SPRING_KAFKA_PRODUCER_ACKS, value: '1'}]}]}}}
"""


def run(folder: Path, name: str, text: str | bytes, *options: str) -> Any:
    """Run the command with a file in place of app.yaml, or with options that end with `FILE`."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    given = [str(path) if option == "FILE" else option for option in options]
    arguments = given if "FILE" in options else [str(path), *given]
    return CliRunner().invoke(app, ["promise", *arguments, "--json"], env={"COLUMNS": "400"})


def found(folder: Path, name: str, text: str | bytes, *options: str) -> tuple[set[str], set[str], dict[str, Any]]:
    """Return what was read, as `producer acks=1 app.yml:2`, the rows of the answers, and all of the output."""
    done = run(folder, name, text, *options)
    assert done.exit_code == 0, done.exception
    output = json.loads(done.stdout)
    read_ = {f"{s['part']} {s['kafka']}={s['value']} {s['origin']}" for s in output["read"]}
    rows = {f"{answer['aspect']}/{answer['id']}/{answer['row']}" for answer in output["answers"]}
    return read_, rows, output


UNORDERED = {"order/partition/pipelined", "duplication/retries/plain"}
ORDERED = {"order/partition/idempotent", "duplication/retries/idempotent"}
CASES: list[tuple[str, str | bytes, tuple[str, ...], set[str], set[str]]] = [
    # Spring: named properties, maps, their order, relaxed names, variables
    ("a.properties", "spring.kafka.producer.acks=1\n", (), {"producer acks=1 a.properties:1"}, UNORDERED),
    ("a.properties", f"spring.kafka.producer.acks=1\nspring.kafka.producer.retries=0\n{SPRING_AUTO}", (),
     {"producer retries=0 a.properties:2", "consumer enable.auto.commit=true a.properties:3"},
     {"order/partition/no-retries", "delivery/processing/auto-polled", "delivery/start/latest"}),
    ("a.yml", "spring:\n  kafka:\n    producer:\n      acks: all\n      properties:\n        acks: 1\n", (),
     {"producer acks=1 a.yml:6"}, UNORDERED),
    ("a.yml", "spring.kafka: {properties: {'[enable.idempotence]': false}, producer: {client-id: a}}\n", (),
     {"producer enable.idempotence=false a.yml:1"}, UNORDERED),
    ("a.properties", "spring.kafka.producer.Acks=1\nspring.kafka.consumer.autoOffsetReset=earliest\n"
     "spring.kafka.consumer.enable_auto_commit=on\n", (),
     {"producer acks=1 a.properties:1", "consumer enable.auto.commit=on a.properties:3"},
     {*UNORDERED, "delivery/processing/auto-polled", "delivery/start/earliest"}),
    (".env", "# a\nexport SPRING_KAFKA_PRODUCER_ACKS='1' # b\nSPRING_KAFKA_CONSUMER_AUTO_OFFSET_RESET=earliest\n", (),
     {"producer acks=1 .env:2", "consumer auto.offset.reset=earliest .env:3"},
     {*UNORDERED, "delivery/processing/after", "delivery/start/earliest"}),
    (".env",
     "SPRING_KAFKA_PRODUCER_PROPERTIES_MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION=1\nSPRING_KAFKA_PRODUCER_ACKS=1\n", (),
     {"producer max.in.flight.requests.per.connection=1 .env:1"}, {"order/partition/one-in-flight"}),
    ("a.yml", "spring: {kafka: {consumer: {group-id: a}, listener: {ack-mode: record}}}\n", (), set(),
     {"delivery/processing/after"}),
    ("a.yml", "spring: {kafka: {consumer: {group-id: a}, listener: {ack-mode: manual_immediate}}}\n", (), set(),
     {"delivery/processing/"}),
    ("a.yml",
     "spring: {kafka: {consumer: {isolation-level: READ-COMMITTED}, producer: {transaction-id-prefix: t-}}}\n", (),
     {"consumer isolation.level=READ-COMMITTED a.yml:1"}, {"delivery/processing/exactly-once"}),
    ("a.yml", SPRING_PROFILES, ("--select", "prod"), {"producer acks=0 a.yml:4"}, {"durability/brokers-fail/acks-0"}),
    ("a.yml", SPRING_PROFILES, ("--select", "default"), {"producer acks=all a.yml:1"}, ORDERED),
    ("a.yml", f"spring.profiles.active: prod\n{SPRING_PROFILES}", (), {"producer acks=0 a.yml:5"}, set()),
    ("a.properties", "spring.kafka.producer.acks=1\n#---\nspring.config.activate.on-profile=x\nserver.port=1\n", (),
     {"producer acks=1 a.properties:1"}, UNORDERED),
    # Quarkus
    ("a.properties", SMALLRYE.format("outgoing.bills") + "mp.messaging.outgoing.bills.topic=b\nquarkus.http.port=1\n",
     (), set(), UNORDERED),
    ("a.properties", SMALLRYE.format("outgoing.bills") + "%prod.mp.messaging.outgoing.bills.acks=all\n"
     "%dev.mp.messaging.outgoing.bills.acks=0\n", (), {"producer acks=all a.properties:2"}, ORDERED),
    ("a.properties", SMALLRYE.format('incoming."a.b"') + 'kafka.auto.offset.reset=earliest\n', (),
     {"consumer auto.offset.reset=earliest a.properties:2"}, {"delivery/processing/after", "delivery/start/earliest"}),
    ("a.properties", SMALLRYE.format("incoming.a") + "mp.messaging.incoming.a.commit-strategy=ignore\n", (), set(),
     {"delivery/processing/never"}),
    ("a.properties", SMALLRYE.format("incoming.a") + "mp.messaging.incoming.a.enable.auto.commit=true\n", (), set(),
     {"delivery/processing/auto-polled"}),
    # Connect and Streams
    ("w.properties", CONNECT, (), set(), {"order/partition/one-in-flight", "delivery/start/earliest"}),
    ("w.properties", f"{CONNECT}producer.acks=1\nconsumer.auto.offset.reset=latest\n", (),
     {"producer acks=1 w.properties:3", "consumer auto.offset.reset=latest w.properties:4"},
     {"delivery/start/latest", "delivery/processing/after"}),
    ("w.properties", f"{CONNECT}exactly.once.source.support=enabled\n", (), set(), ORDERED),
    ("c.json", '{"name": "x", "config": {"connector.class": "a.B", "producer.override.acks": "1"}}', (),
     {"producer acks=1 c.json:1"}, {"order/partition/one-in-flight"}),
    ("sink.json", '{"connector.class": "a.S3Sink", "topics": "o"}', (), set(),
     {"delivery/start/earliest", "delivery/processing/after"}),
    ("sink.properties", "connector.class=a.B\ntopics.regex=o.*\nconsumer.override.auto.offset.reset=latest\n", (),
     {"consumer auto.offset.reset=latest sink.properties:3"}, {"delivery/start/latest"}),
    ("src.properties", "connector.class=a.BSource\ntopics=x\nexactly.once.support=required\n", (), set(), ORDERED),
    ("c.yaml", "apiVersion: kafka.strimzi.io/v1\nkind: KafkaConnector\nmetadata: {name: s}\n"
     "spec: {class: a.B, config: {topics: o}}\n", (), set(), {"delivery/start/earliest"}),
    (".env", "CONNECT_OFFSET_STORAGE_TOPIC=o\nCONNECT_PRODUCER_ACKS=1\n", (), {"producer acks=1 .env:2"}, set()),
    ("s.properties", "application.id=a\nacks=1\nmain.consumer.auto.offset.reset=latest\nnum.stream.threads=2\n", (),
     {"producer acks=1 s.properties:2"}, {*UNORDERED, "delivery/start/latest", "delivery/processing/after"}),
    ("s.properties", "application.id=a\nprocessing.guarantee=exactly_once_v2\n", (), set(),
     {*ORDERED, "delivery/processing/exactly-once", "delivery/start/earliest"}),
    # .NET and JSON of librdkafka
    ("appsettings.json", DEPOT, (),
     {"producer enable.idempotence=true appsettings.json:2", "consumer auto.offset.reset=Earliest appsettings.json:4"},
     {"order/partition/idempotent", "duplication/retries/librdkafka"}),
    ("appsettings.json", TWO, ("--select", "logs"), {"producer acks=None appsettings.json:1"},
     {"durability/brokers-fail/acks-0"}),
    ("appsettings.json", '{"Kafka:ProducerSettings": {"Acks": "Leader"}}', (),
     {"producer acks=Leader appsettings.json:1"},
     UNORDERED),
    (".env", "Kafka__Producer__Acks=Leader\n", (), {"producer acks=Leader .env:1"}, UNORDERED),
    ("l.json", LIBRDKAFKA, ("--commit", "after_processing"), {"consumer enable.auto.offset.store=false l.json:2"},
     {"delivery/processing/after"}),
    ("l.json", '{"acks": "1"}', ("--client", "confluent"), {"producer acks=1 l.json:1"}, UNORDERED),
    ("l.yaml", "kafka: {producer: {acks: 1, message.timeout.ms: 5000}}\n", (), {"producer acks=1 l.yaml:1"}, UNORDERED),
    # images and operators
    ("server.env", SERVER, (), {"cluster log.retention.hours=24 server.env:2"}, {"durability/commits/one-replica"}),
    ("server.env", SERVER, ("--server-properties", "FILE"),
     {"cluster offsets.topic.replication.factor=1 server.env:1"}, {"durability/commits/one-replica"}),
    ("docker-compose.yml", COMPOSE, (), {"cluster offsets.topic.replication.factor=1 docker-compose.yml:1"},
     {"durability/commits/one-replica"}),
    ("compose.yaml", BITNAMI, (), {"cluster min.insync.replicas=1 compose.yaml:6", "producer acks=1 compose.yaml:7"},
     {*UNORDERED, "durability/commits/one-replica"}),
    ("c.yml", "services: {k: {image: wurstmeister/kafka, environment: {KAFKA_BROKER_ID: 1}}}\n", (), set(),
     {"durability/commits/one-replica"}),
    ("c.yml", "services: {k: {image: apache/kafka, environment: {KAFKA_BROKER_ID: 1}}}\n", (),
     {"cluster brokers=1 c.yml, k"},
     {"durability/commits/uncreated", "durability/transactions/uncreated", "availability/groups/uncreated"}),
    ("c.yml", "services: {k: {image: apache/kafka, deploy: {replicas: 3}, environment: {KAFKA_LOG_DIRS: a}}}\n", (),
     {"cluster brokers=3 c.yml, k"}, {"durability/commits/replicas"}),
    ("c.yml", "services: {a: {environment: &e {KAFKA_ZOOKEEPER_CONNECT: z}}, b: {environment: *e},\n"
     "  c: {environment: *e}, d: {environment: {KAFKA_ZOOKEEPER_CONNECT: y}}}\n", ("--select", "b"),
     {"cluster brokers=3 c.yml, a, b, c"}, {"durability/commits/replicas", "durability/transactions/min-isr"}),
    ("pools.yaml", "---\n".join([*(POOL.format(*p) for p in ((1, "broker"), (9, "controller"), (1, "broker"))),
     CLUSTER]), (), {"cluster brokers=2 pools.yaml:3, pools.yaml:13"}, set()),
    ("topic.yaml", TOPIC, (), {"topic partitions=2 topic.yaml:4", "topic replicas=3 topic.yaml:4",
     "topic cleanup.policy=compact topic.yaml:4"}, {"delivery/lag/compact", "availability/reads/replicas"}),
    ("all.yaml", f"{CLUSTER}---\n{TOPIC}", ("--client", "java"),
     {"cluster brokers=3 all.yaml:7", "topic replicas=3 all.yaml:14"},
     {"durability/brokers-fail/min-isr", "durability/commits/one-replica"}),
    ("d.yaml", DEPLOYMENT, (), {"producer acks=1 d.yaml:4"}, UNORDERED),
    ("m.yaml", "x: &a {KAFKA_NODE_ID: 1, KAFKA_MIN_INSYNC_REPLICAS: 1}\ny: &b {KAFKA_MIN_INSYNC_REPLICAS: 2}\n"
     "services: {k: {image: a/kafka, environment: {<<: [*a, *b]}}}\n", (),
     {"cluster min.insync.replicas=1 m.yaml:1"}, set()),
    # forms
    ("start.ini", "[default]\nbootstrap.servers=a:1\n[consumer]\ngroup.id=a\nauto.offset.reset=earliest\n",
     ("--client", "confluent"), {"consumer auto.offset.reset=earliest start.ini:5"},
     {"delivery/processing/auto-stored"}),
    ("a.properties", "spring.kafka.producer.properties[enable.idempotence]=false\n", (),
     {"producer enable.idempotence=false a.properties:1"}, UNORDERED),
    ("a.properties", SMALLRYE.format("outgoing.a") + "mp.messaging.outgoing.a.retry.backoff.ms=7\n", (),
     {"producer retry.backoff.ms=7 a.properties:2"}, UNORDERED),
    ("retention.properties", "log.retention.hours=168\n", (),
     {"cluster log.retention.hours=168 retention.properties:1"},
     {"delivery/lag/time"}),
    ("a", b"\xef\xbb\xbfacks : 1\r\nretries \\\r\n  3\r\nlinger.ms:5\r\n", (),
     {"producer acks=1 a:1", "producer retries=3 a:2"}, UNORDERED),
    ("s.properties", "spring.kafka.producer.acks=al\\\n  l\nspring.kafka.producer.acks=1\n", (),
     {"producer acks=1 s.properties:3"}, UNORDERED),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "options", "values", "rows"), CASES)
def test_a_dialect_is_read_and_promised_by_its_values(
    name: str, text: str | bytes, options: tuple[str, ...], values: set[str], rows: set[str], tmp_path: Path
) -> None:
    read_, answered, output = found(tmp_path, name, text, *options)
    assert values <= read_
    assert rows <= answered
    assert "hunter" not in json.dumps(output)


FORM = "nothing in it is understood as a setting of Kafka"
REFUSED: list[tuple[str, str | bytes, tuple[str, ...], str]] = [
    ("a.properties", "spring.kafka.producer.acks=${ACKS:all}\n", (),
     "a.properties:1: spring.kafka.producer.acks has a placeholder"),
    ("a.properties", "spring.kafka.consumer.group-id=a\nspring.kafka.listener.ack-mode=${MODE}\n", (),
     "a.properties:2: spring.kafka.listener.ack-mode has a placeholder"),
    ("a.properties", "spring.kafka.producer.retries=1\nspring.kafka.producer.akcs=1\n", (),
     "a.properties:2: spring.kafka.producer.akcs is not understood, and a promise may depend on it; did you mean "
     "spring.kafka.producer.acks?"),
    ("a.properties", "spring.kafka.producer.enable-idempotence=false\n", (),
     "did you mean spring.kafka.producer.properties.enable.idempotence?"),
    ("a.properties", "spring.kafka.producer.properties.enable.idempotance=false\n", (),
     "did you mean enable.idempotence?"),
    ("a.properties", "spring.kafak.producer.acks=1\n", (),
     "a.properties:1: spring.kafak.producer.acks is not understood"),
    ("a.properties", "spring.kafka.producer.retries=1\nshop.kafka.acks=1\n", (),
     "a.properties:2: shop.kafka.acks is not"),
    ("a.properties", "spring.kafka.bootstrap-servers=a:1\n", (), "has no setting of a producer or consumer alone"),
    ("a.properties", "spring.cloud.stream.kafka.binder.requiredAcks=1\n", (), "the binders of Spring Cloud Stream"),
    ("a.properties", f"{SPRING_AUTO}spring.kafka.listener.ack-mode=manual\n", (),
     "the listener container does not start"),
    ("a.properties", f"{SPRING_AUTO}spring.kafka.producer.acks=1\n",
     ("--client", "confluent"), "which uses the Java client"),
    ("a.yml", SPRING_PROFILES, (), "a.yml:4: spring.kafka.producer.acks is set in the profile prod"),
    ("a.yml", f"spring.profiles.active: ${{P:dev}}\n{SPRING_PROFILES}", (), "is set in the profile prod"),
    ("j.properties", "group.id=a\ngroup.protocol=consumer\nsession.timeout.ms=9000\n", ("--client", "java:4.0.0"),
     "j.properties:3: session.timeout.ms=9000 contradicts group.protocol=consumer (j.properties:2)"),
    ("j.properties", "acks=all\nretries=2147483648\n", ("--client", "java"), "above 2147483647"),
    ("d.yaml", DEPLOYMENT.replace("env: [", "envFrom: [{configMapRef: {name: c}}], env: ["), (),
     "d.yaml:4: variables of shop are in the ConfigMap c"),
    ("a.yml", SPRING_PROFILES, ("--select", "dev"), "is set in the profile prod"),
    ("a.yml", SPRING_AUTO.replace("=", ": "), ("--producer-properties", "FILE"), "has no settings of a producer"),
    ("a.properties", "server.port=1\nlogging.level.root=INFO\n", (), "no name in it says what it is for"),
    ("a.properties",
     SMALLRYE.format("outgoing.a") + SMALLRYE.format("outgoing.b") + "mp.messaging.outgoing.a.acks=all\n", (),
     "has 2 producers that differ: a (mp.messaging.outgoing.a.acks=all, a.properties:3); b (acks=1, default of"),
    ("w.properties", f"{CONNECT}acks=1\n", (), "did you mean producer.acks?"),
    ("src.properties", "connector.class=a.B\nexactly.once.support=required\nproducer.override.acks=1\n", (),
     "src.properties:3: producer.override.acks=1 contradicts transactional.id"),
    ("m.json", '{"connector.class": "a.MirrorSourceConnector", "topics": ".*"}', (), "a connector of MirrorMaker"),
    ("k.json", '{"bootstrap_servers": "a:1", "auto_offset_reset": "earliest"}', (), "--client kafka-python"),
    ("c.yml", "services: {k: {image: apache/kafka, environment: {KAFKA_BROKER_ID: 1}}}\n", ("--client", "java"),
     "__consumer_offsets cannot be created with one broker"),
    ("q.properties", SMALLRYE.format("outgoing.a") + SMALLRYE.format("outgoing.b")
     + "kafka.acks=1\nmp.messaging.outgoing.b.acks=all\n", (),
     "a (kafka.acks=1, q.properties:3); b (mp.messaging.outgoing.b.acks=all, q.properties:4)"),
    ("p.properties", "producer.acks=1\n", (), "(p.properties:1: producer.acks), and their defaults differ"),
    ("appsettings.json", TWO, (), "has 2 producers that differ: Kafka:Producers:Bills ("),
    ("appsettings.json", DEPOT.replace("EnableIdempotence", "EnableIdempotance"), (),
     "appsettings.json:2: Kafka:Producer:Depot:EnableIdempotance is not understood, and a promise may depend on it; "
     "did you mean EnableIdempotence?"),
    ("appsettings.json", '{"Logging": {"LogLevel": {"Default": "Debug"}}}', (), FORM),
    ("appsettings.json", '{"Kafka": {"BootstrapServers": "a:9092"}}', (), FORM),
    ("l.json", '{"acks": "1"}', (), "no name in it is of one client library only"),
    ("l.json", '{"acks": "1", "acks": "all"}', (), "acks is given twice"),
    ("l.json", '{"acks": ', (), "is not valid JSON"),
    ("l.json", '["acks"]', (), "must be a mapping"),
    ("k.json", '{"kafka": {"producer": {"enableIdempotence": true, "acks": -1}}}', (),
     "did you mean enable.idempotence?"),
    ("server.env", "KAFKA_OFSETS_TOPIC_REPLICATION_FACTOR=1\nKAFKA_NUM_PARTITIONS=1\n", (),
     "server.env:1: KAFKA_OFSETS_TOPIC_REPLICATION_FACTOR is not understood, and a promise may depend on it; did you "
     "mean KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR?"),
    ("app.env", "KAFKA_ACKS=1\nKAFKA_BOOTSTRAP_SERVERS=a:9092\n", (), "app.env:1: KAFKA_ACKS (a broker has no acks"),
    ("app.env", "ACKS=1\n", (), "app.env:1: ACKS is not understood"),
    ("server.env", SERVER, ("--producer-properties", "FILE"), "it has settings of cluster (variables of Kafka"),
    ("compose.yaml", "services: {kafka: {image: a/kafka, environment: {KAFKA_MIN_INSYNC_REPLICAS: '${N:-2}'}}}\n", (),
     "compose.yaml:1: KAFKA_MIN_INSYNC_REPLICAS has a placeholder"),
    ("compose.yaml", "services: {web: {image: nginx, environment: {PORT: 80}}}\n", (), FORM),
    ("topics.yaml", f"{TOPIC}---\n{TOPIC.replace('replicas: 3', 'replicas: 1')}", (), "has 2 topics that differ"),
    ("topic.yaml", TOPIC.replace("cleanup.policy", "cleanup.polcy"), (), "did you mean cleanup.policy?"),
    ("mm.yaml", TOPIC.replace("KafkaTopic", "KafkaMirrorMaker2"), (), "KafkaMirrorMaker2 is not read"),
    ("retention.properties", "log.retention.hours=168\n",
     ("--producer-properties", "FILE"), "give the file with --server-"),
    ("color.properties", "color=red\n",
     ("--producer-properties", "FILE"), "color (color.properties:1) is not understood"),
    ("p.properties", "acks=1\nenable.idempotance=true\n", (),
     "p.properties:2: enable.idempotance is no setting of the Java"),
    ("e.env", "# only a comment\n", (), "has no settings"),
    ("p.properties", "acks=all\nproperties.acks=0\n", (),
     "p.properties:2: properties.acks is no setting of the Java client, "
     "which ignores it; did you mean acks?"),
    ("akka.conf", "akka.kafka.producer {\n  kafka-clients { acks = 1 }\n}\n", (),
     "akka.conf:1: the form of HOCON is not read"),
    ("mm2.properties", "clusters=A, B\nA->B.enabled=true\nA.producer.acks=1\n", (),
     "the form of MirrorMaker 2 is not read"),
    ("two.ini", "[producer.bills]\nacks=all\n[producer.logs]\nacks=0\n",
     ("--client", "confluent"), "2 producers that differ"),
    ("a.properties", "mp.messaging.outgoing.a.connector=liberty-kafka\n", (), "connector=liberty-kafka is not read"),
    ("a.properties", SMALLRYE.format("incoming.a") + "mp.messaging.incoming.a.commit-strategy=soon\n", (),
     "the values are"),
    ("compose.yaml", "services: {shop: {env_file: .env, environment: {SPRING_KAFKA_PRODUCER_ACKS: 1}}}\n", (),
     "the environment of shop is in .env"),
    (".env", "SPRING_KAFKA_PRODUCER_ACKS=all\nJAVA_OPTS=-Dspring.kafka.producer.acks=0\n", (),
     ".env:2: JAVA_OPTS is not"),
    ("t.yaml", TOPIC.replace("kafka.strimzi.io", "platform.confluent.io"), (), "of another operator than Strimzi"),
    ("t.yaml", TOPIC.replace("config:", "configs:"), (), "t.yaml:4: spec.configs.retention.ms is not understood"),
    ("d.yaml", DEPLOYMENT.replace("value: '1'", "valueFrom: {configMapKeyRef: {name: a, key: b}}"), (),
     "SPRING_KAFKA_PRODUCER_ACKS has a placeholder"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "options", "said"), REFUSED)
def test_what_is_not_understood_is_refused_and_never_promised(
    name: str, text: str | bytes, options: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    done = run(tmp_path, name, text, *options)
    assert isinstance(done.exception, UsageError), done.stdout
    assert done.exception.exit_code == 2
    assert said in str(done.exception)


@pytest.mark.parametrize(
    ("expression", "active", "options", "acks"),
    [
        ("!dev", "prod", (), "0"),
        ("'!dev'", "dev", (), "all"),
        ("prod & !cloud", "prod", (), "0"),
        ("prod & cloud", "prod", (), "all"),
        ("prod | staging", "staging", (), "0"),
        ("(a | prod) & !b", "prod", (), "0"),
        ("a, prod", "prod", (), "0"),
        ("prod &", "prod", (), "all"),
        ("'!dev'", "dev", ("--select", "default"), "0"),
        ("prod | staging", "dev", ("--select", "staging"), "0"),
        ("kafka", "prod\nspring.profiles.group.prod: kafka", (), "0"),
        ("kafka", "prod\nspring.profiles.group.dev: kafka", (), "all"),
        ("kafka", "prod\nspring.profiles.include: kafka", (), "0"),
    ],
)
def test_a_profile_of_spring_counts_as_its_expression_holds(
    expression: str, active: str, options: tuple[str, ...], acks: str, tmp_path: Path
) -> None:
    quoted = expression if expression.startswith("'") else f"'{expression}'"
    text = f"spring.profiles.active: {active}\n" + SPRING_PROFILES.replace("on-profile: prod", f"on-profile: {quoted}")
    read_, _, _ = found(tmp_path, "a.yml", text, *options)
    assert {one.split()[1] for one in read_} == {f"acks={acks}"}


def test_a_session_goes_with_the_new_protocol_in_an_old_client(tmp_path: Path) -> None:
    text = "group.id=a\ngroup.protocol=consumer\nsession.timeout.ms=9000\n"
    assert run(tmp_path, "j.properties", text, "--client", "java:3.9.2").exit_code == 0


def test_values_and_names_are_shown_as_the_file_has_them(tmp_path: Path) -> None:
    _, _, output = found(tmp_path, "server.env", SERVER)
    by = {(s["name"], s["value"], s["origin"]) for answer in output["answers"] for s in answer["by"]}
    assert ("KAFKA_LOG_RETENTION_HOURS", "24", "server.env:2") in by
    assert (
        "server.env:3: KAFKA_MAX_REQUEST_SIZE has no effect: a broker has no setting max.request.size"
        in output["notes"]
    )
    path = tmp_path / "server.env"
    shown = CliRunner().invoke(app, ["promise", str(path)], env={"COLUMNS": "400"}).stdout
    line = "offsets.topic.replication.factor=1 (server.env:1, KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR)"
    assert f"cluster: {line}" in shown
    assert "604800000" not in CliRunner().invoke(app, ["promise", "--server-properties", str(path)]).stdout


def test_the_parts_of_an_app_may_be_files_in_dialects(tmp_path: Path) -> None:
    (tmp_path / "appsettings.json").write_text(TWO)
    (tmp_path / "topic.yaml").write_text(TOPIC)
    (tmp_path / "server.env").write_text(SERVER)
    text = (
        "producer: {properties: appsettings.json, select: Bills}\ntopic: {properties: topic.yaml}\n"
        "cluster: {properties: server.env}\n"
    )
    read_, rows, output = found(tmp_path, "app.yaml", text)
    assert {"producer acks=All appsettings.json:1", "topic replicas=3 topic.yaml:4"} <= read_
    assert "durability/brokers-fail/alone" in rows
    assert output["application"]["producer"].startswith("confluent-kafka")


def test_prove_reads_the_same_files(tmp_path: Path) -> None:
    path = tmp_path / "application.yml"
    path.write_text(
        "spring: {kafka: {producer: {acks: 1}, consumer: {group-id: billing, auto-offset-reset: earliest}}}\n"
    )
    application = read(Options(app=path))
    producer, consumer = application.raw["producers"][0], application.raw["consumers"][0]
    assert producer["client"].startswith("java")
    assert producer["config"]["acks"] == 1
    assert consumer["group"] == "billing"
    assert application.facts["consumer.commit"].value == "after_processing"
