"""The client of an entry: its forms, its defaults, and what its runtime cannot do."""

import json
import re
from typing import get_args

import pytest

from chaos.clients.choice import RUNTIMES, Client
from chaos.clients.traits import Ability
from chaos.errors import ScenarioError
from chaos.faults import SPECS
from chaos.scenario.load import all_overrides, models_of, parse
from chaos.scenario.model import Scenario
from chaos.scenario.resolve import resolve
from chaos.setup.clients import Producer, assignors_of, reads_committed, settings_of
from chaos.setup.needs import Needs

HEAD = "title: t\ntopics: [{name: orders}, {name: bills}]\n"
SHOP = "producers: [{name: shop, topic: orders}]\n"
DELETING = (
    "cluster: {config: {log.cleanup.policy: compact}}\n"
    "producers: [{name: shop, topic: orders, keys: 9, tombstone_every: 2}]\n"
)
ADDED = "faults: [{name: m, kind: topic.add_partitions, target: {topic: orders}, to: 9, when: {acked: 1}}]\n"
READING = "consumers: [{mode: assign, name: a, topics: [orders], client: java}]\n"


def scenario(text, *overrides):
    return parse(HEAD + text, "mine.yaml", overrides)


def refusal(text, *overrides):
    with pytest.raises(ScenarioError) as caught:
        scenario(text, *overrides)
    return str(caught.value)


def group(client="java", **values):
    entry = {"mode": "subscribe", "name": "b", "group": "b", "topics": ["orders"], "client": client, **values}
    return SHOP + "consumers: [" + json.dumps({k: v for k, v in entry.items() if v is not None}) + "]\n"


def writer(**values):
    return "producers: [" + json.dumps({"name": "shop", "topic": "orders", "config": {}, **values}) + "]\n"


def assign(**values):
    entry = {"mode": "assign", "name": "a", "group": "a", "topics": ["orders"], **values}
    return SHOP + "consumers: [" + json.dumps(entry) + "]\n"


def application(**values):
    entry = {"name": "b", "group": "b", "topics": ["orders"], "to": "bills", "client": "streams", **values}
    return "producers: [{name: shop, topic: orders, keys: 9}]\nprocessors: [" + json.dumps(entry) + "]\n"


def job(session=None, **values):
    return assign(client={"runtime": "flink", "session": session or {}}, **values)


def killed(target):
    return f"faults: [{{name: f, kind: taskmanager.kill, target: {target}, when: {{acked: 9}}}}]\n"


def sought(target, how):
    fault = f"name: f, kind: consumer.seek, ago: 1s, {how}, target: {{member: {target}}}, when: {{acked: 9}}"
    return f"faults: [{{{fault}}}]\n"


def query(**values):
    entry = {
        "mode": "assign",
        "name": "a",
        "topics": ["orders"],
        "client": "spark",
        "commit": {"when": "never"},
        **values,
    }
    return SHOP + "consumers: [" + json.dumps(entry) + "]\n"


@pytest.mark.parametrize(
    ("written", "means"),
    [
        ("confluent", Client()),
        ("java", Client(runtime="java", release="4.3.1")),
        ("java:3.9.2", Client(runtime="java", release="3.9.2")),
        ("{runtime: java, release: 2.8.2, heap: 48MiB}", Client(runtime="java", release="2.8.2", heap=48 * 2**20)),
        ("{runtime: java}", Client(runtime="java", release="4.3.1")),
    ],
)
def test_a_client_has_a_short_and_a_long_form(written, means):
    found = scenario(f"producers: [{{name: shop, topic: orders, client: {written}}}]\n")
    assert found.producers[0].client == means
    again = type(found).model_validate_json(found.model_dump_json())
    assert again == found


@pytest.mark.parametrize(
    ("client", "why"),
    [
        ("jav", "producers[0].client.runtime: there is no runtime 'jav' (did you mean java?)"),
        ("java:9.9.9", "producers[0].client: release: kafka-clients 9.9.9 is not supported; choose 2.8.2 to 4.3.1"),
        ("java:2.0.0", "is not supported; choose 2.8.2 to 4.3.1"),
        ("'java:'", "producers[0].client: 'java:' has no release after the colon"),
        ("java:new", "producers[0].client.release: 'new' is not a release; write its three numbers, such as 3.9.2"),
        ("{runtime: java, release: 3.9}", "producers[0].client.release: 3.9 is not a release; write its three numbers"),
        ("{runtime: confluent, heap: 64MiB}", "producers[0].client: heap: the runtime confluent has no heap"),
        ("{runtime: java, heap: 1MiB}", "producers[0].client.heap: must be at least 16MiB"),
        ("{runtime: java, relaese: 3.9.2}", "producers[0].client.relaese: unknown key (did you mean release?)"),
        ("3", "producers[0].client: 3 is no client; write java:3.9.2, or the fields runtime, release and heap"),
    ],
)
def test_a_wrong_client_is_refused_with_its_place(client, why):
    assert why in refusal(f"producers: [{{name: shop, topic: orders, client: {client}}}]\n")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            group(client="kafka-python:2.1.6", config={"isolation_level": "read_committed"}),
            "consumers[0].config: isolation_level is no setting of kafka-python 2.1.6; it exists from 2.2.0 on",
        ),
        (
            group(client="kafka-python:2.3.3", config={"partition.assignment.strategy": "cooperative-sticky"}),
            "consumers[0].config: the runtime kafka-python:2.3.3 has no cooperative: kafka-python has it from 3.0.0 on",
        ),
        (
            group(client="kafka-python:2.2.21", static=True),
            "consumers[0].static: the runtime kafka-python:2.2.21 has no static membership: kafka-python has it from",
        ),
        (
            group(client="kafka-python", config={"max_pol_interval_ms": 1}),
            "max_pol_interval_ms is no setting of kafka-python: did you mean max_poll_interval_ms?",
        ),
        (
            group(client="kafka-python", config={"fetch.wait.max.ms": 5}),
            "fetch.wait.max.ms is no setting of kafka-python: its name there is fetch_max_wait_ms",
        ),
        (
            group(client="aiokafka", config={"ssl_context": "x"}),
            "ssl_context is set by the programs of the runtime aiokafka",
        ),
        (
            group(client="aiokafka", config={"auto_offset_reset": "latest", "auto.offset.reset": "latest"}),
            "auto_offset_reset is also given as auto.offset.reset; give it once",
        ),
        (group(client="aiokafka:0.7.2"), "aiokafka 0.7.2 is not supported; choose 0.8.0 to 0.14.0"),
        (
            writer(definite_errors=["NOT_LEADER_OR_FOLLOWER"]),
            "producers[0].definite_errors: the runtime confluent has no definite errors",
        ),
        (
            writer(client="java", definite_errors=["NOT_LEADER_FOR_PARTITION"]),
            "producers[0].definite_errors[0]: 'NOT_LEADER_FOR_PARTITION' is no error of the protocol (did you mean",
        ),
        (
            assign(client="java") + sought("a/1", "lookup_first: 1s"),
            "faults[0].lookup_first: the runtime java:4.3.1 has no assignments in turn",
        ),
        (
            group(client="confluent") + sought("b/1", "lookup_first: 1s"),
            "faults[0].lookup_first: b subscribes; it goes with mode: assign",
        ),
        (
            query() + "faults: [{name: f, kind: wire.produce, sends: old_epoch, target: {partition: orders/0}, "
            "when: {acked: 9}}]\nexpect: {}\n",
            "consumers[0].topics: the runtime spark:4.2.0 has no transaction markers",
        ),
        (group(client="sarama", threads=2, members=2), "sarama:1.61.1 has no threads: each client is a process"),
        (
            group(client="sarama:1.43.3", config={"Consumer.Group.Rebalance.GroupStrategies": "cooperative-sticky"}),
            "consumers[0].config: the runtime sarama:1.43.3 has no cooperative: sarama has it from 1.60.2 on",
        ),
        (
            group(client="sarama", commit={"kind": "async"}),
            "consumers[0].commit.kind: the runtime sarama:1.61.1 has no asynchronous commits: Session.Commit waits",
        ),
        (
            group(client="sarama", config={"Consumer.Offsets.AutoCommit.Enable": False}),
            "Consumer.Offsets.AutoCommit.Enable is set by the programs of the runtime sarama",
        ),
        (
            group(client="sarama", config={"Net.TLS.Enable": True}),
            "Net.TLS.Enable is set by the programs of the runtime sarama",
        ),
        (
            group(client="sarama", config={"log_level": 1}),
            "log_level is no setting of sarama: write the path of a field of its Config, such as",
        ),
        (
            group(client="sarama", config={"fetch.min.bytes": 1}),
            "fetch.min.bytes is no setting of sarama: its name there is Consumer.Fetch.Min",
        ),
        (
            group(client="sarama", config={"max.poll.interval.ms": 6000}),
            "max.poll.interval.ms is no setting of sarama: sarama has nothing like it",
        ),
        (
            group(client="sarama", config={"Consumer.Offsets.Initial": "OffsetOldest", "auto.offset.reset": "latest"}),
            "Consumer.Offsets.Initial is also given as auto.offset.reset; give it once",
        ),
        (
            group(client="sarama") + "faults: [{name: q, kind: client.quota, target: {member: b/1}, "
            "consumer_byte_rate: 1MiB, when: {acked: 9}, heal: {when: {after: q.proven}}}]\n",
            "faults[0]: the runtime sarama:1.61.1 has no throttle times: its programs do not report them",
        ),
        (
            SHOP + "consumers: [{mode: subscribe, name: a, group: g, topics: [orders], client: java, "
            "assign_by: application}]\n",
            "consumers[0].assign_by: the runtime java:4.3.1 has no assignment by the application: the client looks up",
        ),
        (
            SHOP + "consumers: [{mode: assign, name: a, topics: [orders], client: sarama, no_group_id: absent}]\n",
            "consumers[0].no_group_id: the runtime sarama:1.61.1 has no assignment without group.id: that is what",
        ),
        (
            group(client="sarama", config={"auto.offset.reset": "none"}),
            "consumers[0].config: the runtime sarama:1.61.1 has no reset to none: Consumer.Offsets.Initial is",
        ),
        (
            group(client="franz-go:1.21.7", config={"group.protocol": "consumer"}),
            "consumers[0].config: the runtime franz-go:1.21.7 has no KIP-848: franz-go has it from 1.22.0 on",
        ),
        (
            group(client="franz-go", config={"ServerSideBalancer": True}),
            "ServerSideBalancer is no setting of franz-go: its name there is group.protocol: consumer",
        ),
        (
            group(client="franz-go", config={"BlockRebalanceOnPoll": False}),
            "BlockRebalanceOnPoll is set by the programs of the runtime franz-go",
        ),
        (
            group(client="franz-go", config={"linger.ms": 5}),
            "linger.ms is no setting of franz-go: its name there is ProducerLinger",
        ),
        (
            group(client="franz-go", config={"max.poll.records": 5}),
            "max.poll.records is no setting of franz-go: write the name of an option of its package kgo",
        ),
        (
            SHOP + "consumers: [{mode: assign, name: a, group: g, topics: [orders], client: franz-go, "
            "commit: {when: after_batch, kind: auto}}]\n",
            "consumers[0].commit: the runtime franz-go:1.22.2 has no automatic commits in assign mode: franz-go",
        ),
        (
            group(client="flink"),
            "consumers[0]: the runtime flink:2.3.0 has no subscribe: a job assigns partitions to its subtasks itself",
        ),
        (
            assign(client="flink-legacy:2.0.0"),
            "consumers[0].client: release: flink 2.0.0 is not supported; choose 1.20.0 to 1.20.5",
        ),
        (
            assign(client="flink", commit={"when": "after_batch"}),
            "consumers[0].commit.when: the runtime flink:2.3.0 has no commits after processing: a job commits on",
        ),
        (
            assign(client="flink", commit={"when": "on_checkpoint"}),
            "consumers[0].commit: when: on_checkpoint goes with kind: async",
        ),
        (
            assign(client="java", commit={"when": "on_checkpoint", "kind": "async"}),
            "consumers[0].commit.when: the runtime java:4.3.1 has no commits on checkpoints",
        ),
        (
            assign(client="java", checkpoint_every="1s"),
            "consumers[0].checkpoint_every: the runtime java:4.3.1 has no checkpoint interval: its programs store",
        ),
        (
            assign(client="java", savepoint=True),
            "consumers[0].savepoint: the runtime java:4.3.1 has no savepoints",
        ),
        (
            assign(client="flink", savepoint=True, checkpoint=False),
            "savepoint: goes with checkpoint",
        ),
        (
            assign(client="flink", config={"execution.checkpointing.interval": "1 s"}),
            "execution.checkpointing.interval is set by the programs of the runtime flink",
        ),
        (
            assign(client={"runtime": "java", "session": {}}),
            "session: the runtime java:4.3.1 has no session clusters: kafka-clients cannot do it; these have: flink",
        ),
        (
            assign(client={"runtime": "flink-legacy", "session": {}}),
            "the runtime flink-legacy:1.20.5 has no session clusters: its jobs run in a mini cluster",
        ),
        (
            writer(client={"runtime": "flink", "session": {}}),
            "producers[0].client.session: only jobs that read run in a session cluster",
        ),
        (
            job(session={"slots": 1}, config={"parallelism.default": 3}),
            "consumers[0].client.session: its 2 task managers have 2 slots, and a needs 3 (members x parallelism",
        ),
        (
            job(checkpoint=False),
            "consumers[0].checkpoint: a job in a session cluster restores its last checkpoint by itself",
        ),
        (
            job() + "faults: [{name: f, kind: consumer.crash, target: {member: a/1}, when: {acked: 9}}]\n",
            "faults[0]: the records of a are processed in its session cluster, not in the process of the client; use "
            "taskmanager.kill instead of consumer.crash",
        ),
        (
            assign(client="flink") + killed("{task_manager: a/1}"),
            "faults[0].target.task_manager: 'a' is no consumer in a session cluster; give it client: {session: {}}",
        ),
        (
            job() + killed("{task_manager: a/3}"),
            "faults[0].target.task_manager: a has task managers 1 to 2, not 3",
        ),
        (
            job() + killed("{task_manager_of: a/2}"),
            "faults[0].target.task_manager_of: a has members 1 to 1, not 2",
        ),
        (
            job() + killed("{task_manager: a/1}, reads: orders/0"),
            "faults[0].reads: goes with target: {task_manager_of: a/1}",
        ),
        (
            job() + killed("{task_manager_of: a/1}, reads: bills/0"),
            "faults[0].reads: a does not read bills/0",
        ),
        (
            writer(client="flink", config={"parallelism.default": 2}),
            "producers[0].config: the runtime flink:2.3.0 has no parallel writing: a producer is one subtask",
        ),
        (
            writer(client="flink", resend=True),
            "producers[0].resend: the runtime flink:2.3.0 has no resending: a job continues at its last checkpoint",
        ),
        (
            writer(client="flink", mode="synchronous"),
            "producers[0].mode: the runtime flink:2.3.0 has no waiting for answers: a complete checkpoint says",
        ),
        (
            writer(client="flink", transactions={"abort_every": 2}),
            "producers[0].transactions.abort_every: the runtime flink:2.3.0 has no transactions of a size: a",
        ),
        (
            writer(client="flink", config={"transaction.timeout.ms": 9000}),
            "transaction.timeout.ms is set by the programs of the runtime flink",
        ),
        (
            writer(client="flink", transactions={}) + "faults: [{name: f, kind: producer.fence, "
            "target: {member: shop/1}, when: {acked: 9}}]\n",
            "faults[0]: the runtime flink:2.3.0 has no fencing: an earlier job is fenced only when",
        ),
        (
            writer(client="flink-legacy"),
            "producers[0]: the runtime flink-legacy:1.20.5 has no produce: its programs only read; KafkaSink is in",
        ),
        (
            writer(client="java", checkpoint_every="1s"),
            "producers[0].checkpoint_every: the runtime java:4.3.1 has no checkpoints of a producer",
        ),
        (
            SHOP + "processors: [{name: b, group: b, topics: [orders], to: bills, client: sarama}]\n",
            "processors[0]: the runtime sarama:1.61.1 has no process: it has no program that reads and writes",
        ),
        (group(client="streams"), "consumers[0]: the runtime streams:4.3.1 has no subscribe: an application reads and"),
        (application(client="streams:2.7.2"), "kafka-streams 2.7.2 is not supported; choose 2.8.2 to 4.3.1"),
        (application(transactions={"abort_every": 2}), "streams:4.3.1 has no transactions of a size: a transaction"),
        (application(plain={"commit": "before_output"}), "streams:4.3.1 has no commits before outputs: it commits"),
        (application(plain={"commit": "after_output", "hold": "1s"}), "streams:4.3.1 has no batches of a size: it com"),
        (application(config={"num.stream.threads": 2}), "num.stream.threads is set by the programs of the runtime str"),
        (application(config={"group.protocol": "streams"}), "group.protocol is set by the programs of the runtime st"),
        (
            application(client="java", threads=2),
            "processors[0].threads: the runtime java:4.3.1 has no threads of a pro",
        ),
        (
            application(client="java", state="count"),
            "processors[0].state: the runtime java:4.3.1 has no state of a pro",
        ),
        (application(state="count", topics=["orders", "x"]), "state: needs exactly one input topic, because the order"),
        (application(lose_state=True), "lose_state: there is no state; give state"),
        (
            application(state="count").replace(", keys: 9", ""),
            "processors[0].state: counts by key, but producer shop writes records without a key to orders",
        ),
        (
            "cluster: {config: {log.cleanup.policy: compact}}\n" + application(state="count"),
            "processors[0].state: orders is compacted, so its log does not show how many inputs it had",
        ),
        (
            application(state="count") + "consumers: [{mode: subscribe, name: c, group: b, topics: [orders]}]\n",
            "processors[0].state: c is in the group b too, and does not have this state",
        ),
        (group(client="spark"), "consumers[0]: the runtime spark:4.2.0 has no subscribe: a query assigns partitions"),
        (query(start="group", group="g"), "consumers[0].start: the runtime spark:4.2.0 has no group offsets: a query"),
        (
            query(commit={}),
            "consumers[0].commit.when: the runtime spark:4.2.0 has no commits after processing: a",
        ),
        (query(max_poll_records=5), "spark:4.2.0 has no records per poll: a batch is bounded by maxOffsetsPerTrigger"),
        (query(idempotent_results=True), "consumers[0].idempotent_results: goes with checkpoint_every; otherwise"),
        (query(config={"startingOffsets": "latest"}), "startingOffsets is set by the programs of the runtime spark"),
        (query(config={"isolation.level": "x"}), "isolation.level is no setting of spark: its name there is kafka.iso"),
        (query(config={"maxOffsets": 1}), "maxOffsets is no setting of spark: write an option of its Kafka source"),
        (query(client={"runtime": "spark", "heap": "128MiB"}), "heap: the runtime spark needs 480MiB or more"),
        (query(client="spark:3.5.0"), "spark 3.5.0 is not supported; choose 4.2.0 to 4.2.0"),
        (
            query().replace("orders}", "orders, transactions: {}}"),
            "consumers[0].topics: the runtime spark:4.2.0 has no transaction markers: its batches end after markers",
        ),
        (
            query() + "faults: [{name: r, kind: topic.recreate, target: {topic: orders}, when: {acked: 1}}]\n",
            "consumers[0].topics: the runtime spark:4.2.0 has no deleted topics: a query keeps the offsets",
        ),
        (
            query()
            + "faults: [{name: m, kind: topic.add_partitions, target: {topic: orders}, to: 9, when: {acked: 1}}]\n",
            "consumers[0].topics: the runtime spark:4.2.0 has no fixed partitions: a query finds new partitions",
        ),
        (
            query(client="confluent", checkpoint_every="1s", idempotent_results=True),
            "consumers[0].idempotent_results: the runtime confluent has no idempotent results: its programs write",
        ),
        (
            group(client="sarama", workers={"count": 2}),
            "consumers[0].workers: the runtime sarama:1.61.1 has no workers: its group consumer has one goroutine",
        ),
        (
            group(client="java:3.6.2", config={"group.protocol": "consumer"}),
            "consumers[0].config: the runtime java:3.6.2 has no KIP-848: kafka-clients has it from 3.7.0 on",
        ),
        (
            SHOP + "processors: [{name: b, group: b, topics: [orders], to: o, client: streams, "
            "plain: {commit: before_output}}]\n",
            "processors[0].plain.commit: the runtime streams:4.3.1 has no commits before outputs",
        ),
        (
            group(commit={"kind": "auto", "when": "before_processing"}),
            "consumers[0].commit: kind: auto of kafka-clients goes with when: after_batch, not with before_processing",
        ),
        (
            group(config={"topic.metadata.refresh.interval.ms": 1000}),
            "topic.metadata.refresh.interval.ms is no setting of kafka-clients: its name there is metadata.max.age.ms",
        ),
        (
            "producers: [{name: shop, topic: orders, client: java, partitioner: murmur2}]\n",
            "producers[0].partitioner: the runtime java:4.3.1 has no library partitioner: the names are librdkafka's",
        ),
        (
            DELETING.replace("shop,", "shop, client: java,"),
            "producers[0].tombstone_every: the runtime java:4.3.1 has no",
        ),
        (DELETING + READING, "consumers[0].topics: the runtime java:4.3.1 has no tombstones: its programs do not"),
        (
            "producers: [{name: shop, topic: orders, client: java, config: {key.serializer: x}}]\n",
            "producers[0].config: key.serializer is set by the programs of the runtime java",
        ),
        (
            group(commit={"kind": "auto"}).replace("orders}", "orders, transactions: {}}"),
            "consumers[0].commit: kind: auto of kafka-clients commits positions after transaction markers",
        ),
    ],
)
def test_what_a_runtime_cannot_do_is_refused_with_reason_and_place(text, why):
    assert why in refusal(text)


@pytest.mark.parametrize("client", [None, "java", "java:2.8.2"])
def test_members_may_be_threads_of_a_process_with_pools_of_workers(client):
    scenario(group(client=client, threads=2, members=2, workers={"count": 2}))


def test_the_default_client_can_do_what_java_refuses():
    scenario(group(client=None, commit={"kind": "auto", "when": "before_processing"}))


def test_defaults_are_those_of_the_library_and_its_release():
    (b,) = scenario(group()).consumers
    assert not reads_committed(b)
    assert assignors_of(b.config, b.client) == ("range", "cooperative-sticky")
    (old,) = scenario(group(client="java:2.8.2")).consumers
    assert assignors_of(old.config, old.client) == ("range",)
    (default,) = scenario(group(client=None)).consumers
    assert reads_committed(default)
    committed = {"isolation.level": "read_committed"}
    assert reads_committed(scenario(group(config=committed)).consumers[0])
    strategy = {"partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"}
    (sticky,) = scenario(group(config=strategy)).consumers
    assert assignors_of(sticky.config, sticky.client) == ("cooperative-sticky",)
    defaults = Client(runtime="java", release="3.1.0").traits.defaults
    assert [defaults(r)["enable.idempotence"] for r in ("2.8.2", "3.0.0", "3.0.1", "3.1.0", "3.1.1")] == [
        *(False, False, True, False, True)
    ]


def test_settings_of_sarama_have_the_meaning_of_their_common_names():
    (b,) = scenario(group(client="sarama")).consumers
    assert not reads_committed(b)
    assert assignors_of(b.config, b.client) == ("range",)
    own = {
        "Consumer.IsolationLevel": "ReadCommitted",
        "Consumer.Offsets.Initial": "OffsetOldest",
        "Consumer.Group.Rebalance.GroupStrategies": "sticky,range",
        "Consumer.Group.Session.Timeout": "6s",
    }
    (b,) = scenario(group(client="sarama", config=own)).consumers
    assert reads_committed(b)
    assert assignors_of(b.config, b.client) == ("sticky", "range")
    settings = settings_of(b)
    assert (settings["auto.offset.reset"], settings["session.timeout.ms"]) == ("earliest", 6000)
    scenario("producers: [{name: shop, topic: orders, client: sarama, config: {acks: all}}]\n")
    scenario(SHOP + "consumers: [{mode: assign, name: a, topics: [orders], client: sarama}]\n")


def test_settings_of_franz_go_have_the_meaning_of_their_common_names():
    (b,) = scenario(group(client="franz-go")).consumers
    assert not reads_committed(b)
    assert assignors_of(b.config, b.client) == ("cooperative-sticky",)
    own = {
        "FetchIsolationLevel": "ReadCommitted",
        "ConsumeResetOffset": "AtEnd",
        "Balancers": "sticky,range",
        "SessionTimeout": "6s",
    }
    (b,) = scenario(group(client="franz-go", config=own)).consumers
    assert reads_committed(b)
    assert assignors_of(b.config, b.client) == ("sticky", "range")
    settings = settings_of(b)
    assert (settings["auto.offset.reset"], settings["session.timeout.ms"]) == ("latest", 6000)
    config = "{RequiredAcks: LeaderAck, DisableIdempotentWrite: true}"
    (shop,) = scenario(f"producers: [{{name: shop, topic: orders, client: franz-go, config: {config}}}]\n").producers
    assert settings_of(shop) == {"acks": "1", "enable.idempotence": False}


def test_settings_of_spark_have_the_meaning_of_their_common_names():
    (a,) = scenario(query(config={"failOnDataLoss": False, "maxOffsetsPerTrigger": 100})).consumers
    assert not reads_committed(a)
    assert a.checkpoint_interval is None
    (a,) = scenario(query(config={"kafka.isolation.level": "read_committed"}, checkpoint_every="2s")).consumers
    assert reads_committed(a)
    assert a.checkpoint_interval == 2
    scenario(query(discover="1s") + ADDED)


def test_the_option_client_is_a_release_of_confluent_kafka_or_a_runtime_of_every_entry():
    text = group(client=None)
    found = scenario(text, *all_overrides(None, None, None, client="2.5.0"))
    assert found.clients.confluent_kafka == "2.5.0"
    assert [c.release for c in found.client_libraries] == ["2.5.0"]
    found = scenario(text, *all_overrides(None, None, None, client="java:3.9.2"))
    assert {c.describe() for c in found.client_libraries} == {"java:3.9.2"}
    assert found.consumers[0].client.release == "3.9.2"
    with pytest.raises(ScenarioError, match="there is no runtime 'jvaa'"):
        scenario(text, *all_overrides(None, None, None, client="jvaa"))


def test_a_list_item_by_star_means_all_items():
    found = scenario(SHOP, "topics.*.partitions=3", "consumers.*.members=2")
    assert [t.partitions for t in found.topics] == [3, 3]
    assert "topics.*" in refusal(SHOP, "topics.*=3")


def test_a_result_names_the_library_and_release_of_each_entry():
    text = "clients: {confluent_kafka: 2.5.0}\n" + group(client="java:3.9.2")
    resolved = resolve(scenario(text), run_id="r", name="r", created_us=0, seed=1, overrides=[])
    assert resolved.versions["kafka-clients"] == "3.9.2"
    assert resolved.versions["confluent-kafka"] == "2.5.0"


def test_the_command_that_repeats_a_run_names_the_client_that_all_entries_share():
    def command(text, *overrides):
        found = scenario(text, *overrides)
        return resolve(found, run_id="r", name="r", created_us=0, seed=1, overrides=[]).command()

    java = all_overrides(None, None, None, client="java:3.9.2")
    assert "--client java:3.9.2" in command(SHOP, *java)
    assert "--client" not in command(SHOP)
    assert "--client" not in command(group())


def test_an_application_that_is_exactly_once_reads_committed_records_only():
    def reader(**values):
        (found,) = scenario(application(**values)).readers
        return found

    assert reads_committed(reader())
    assert not reads_committed(reader(plain={"commit": "after_output"}))
    assert reads_committed(
        reader(plain={"commit": "after_output"}, consumer_config={"isolation.level": "read_committed"})
    )
    assert assignors_of(reader().config, reader().client) == ("stream",)


@pytest.mark.parametrize(
    ("session", "entry", "slots"),
    [
        ({}, {}, 1),
        ({}, {"config": {"parallelism.default": 3}}, 3),
        ({"task_managers": 3}, {"config": {"parallelism.default": 3}, "members": 2}, 3),
        ({"task_managers": 1}, {"config": {"parallelism.default": 2}}, 2),
        ({"slots": 1}, {"config": {"parallelism.default": 2}}, 1),
    ],
)
def test_a_session_cluster_has_slots_for_all_subtasks_without_one_task_manager(session, entry, slots):
    found = scenario(job(session, **entry)).consumers[0]
    assert found.client.session.slots_for(found.subtasks) == slots


@pytest.mark.parametrize(
    ("client", "setting", "message"),
    [
        ("java", "no.such.setting: 1", "no.such.setting is no setting of kafka-clients"),
        ("confluent", "no.such.setting: 1", "no.such.setting is no setting of confluent-kafka"),
        ("sarama", "No.Such: 1", "No.Such is no setting of sarama"),
        ("sarama", "Producer.Retry.Max: many", "it takes a whole number"),
        ("sarama", "Net.DialTimeout: soon", "a duration such as 500ms or 10s"),
        ("sarama", "acks: 2", "the values are -1, 0, 1, all, noresponse, waitforall, waitforlocal"),
        ("franz-go", "NoSuch: 1", "NoSuch is no setting of franz-go"),
        ("franz-go", "RecordRetries: many", "it takes a whole number"),
        ("franz-go", "ProducerLinger: soon", "a duration such as 500ms or 10s"),
        ("franz-go", "acks: 2", "the values are -1, 0, 1, all, allisracks, leaderack, noack"),
    ],
)
def test_what_a_program_would_refuse_is_refused_at_load(client, setting, message):
    text = (
        "title: t\ntopics: [{name: orders, replication_factor: 1}]\n"
        f"producers: [{{name: shop, topic: orders, client: {client}, config: {{{setting}}}}}]\n"
    )
    with pytest.raises(ScenarioError, match=re.escape(message)):
        parse(text, "t.yaml")


ELSEWHERE = {"encrypted keys", "tokens", "tombstones", "transaction markers", "deleted topics", "fixed partitions"}
FACTS = {"session clusters", "send outcomes", "commit outcomes", "automatic commit outcomes", "poll interval"}


def test_each_ability_is_asked_for_at_a_field_or_by_a_rule_between_parts():
    models = [*models_of(Scenario).values(), *SPECS.values()]
    fields = [field for model in models for field in model.model_fields.values()]
    asked = {need.ability for field in fields for need in field.metadata if isinstance(need, Needs)}
    asked |= {ability for model in models for ability in getattr(model, "abilities", ())}
    assert asked | ELSEWHERE | FACTS == set(get_args(Ability))
    assert asked.isdisjoint(FACTS)
    assert not [field for field in fields if "Needs(" in str(field.annotation)]  # the walk sees marks of fields


def test_a_refusal_names_the_place_and_the_libraries_that_can():
    text = refusal(group(client="sarama", workers={"count": 2}))
    assert "mine.yaml:4: consumers[0].workers: the runtime sarama:" in text
    assert (
        "has no workers: its group consumer has one goroutine for each partition; these have: confluent, java" in text
    )
    text = refusal(writer(client="java", config={"partitioner.class": "x"}, partitioner="murmur2"))
    assert "these have: confluent" in text and "java," not in text.partition("these have: ")[2]


def test_each_reason_belongs_to_an_ability_that_the_library_lacks():
    for name, traits in RUNTIMES.items():
        assert not traits.lacks.keys() & traits.abilities.keys(), name


def test_a_producer_has_the_default_settings_of_its_library_and_a_dump_leaves_them_out():
    """With several requests in flight, librdkafka may write a record twice (its issue 4953)."""
    strong, one = {"acks": "all", "enable.idempotence": True}, {"max.in.flight.requests.per.connection": 1}
    for client, default in (("confluent", strong | one), ("java", strong), ("sarama", strong), ("aiokafka", strong)):
        producer = Producer.model_validate({"name": "shop", "topic": "orders", "client": client})
        assert producer.config == default
        assert "config" not in producer.model_dump(exclude_defaults=True)
        assert producer.model_dump()["config"] == default
    given = Producer.model_validate({"name": "shop", "topic": "orders", "client": "java", "config": strong | one})
    assert given.model_dump(exclude_defaults=True)["config"] == strong | one
