"""On an existing cluster, every name of a topic or a group gets the prefix of the run, in every field."""

import json
import types
from typing import Annotated, Literal, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

from chaos.drive.stages import ScenarioRequest, cluster_spec, prepare
from chaos.errors import ScenarioError
from chaos.kafka.partition import TopicPartition
from chaos.scenario.load import parse
from chaos.scenario.model import Scenario
from chaos.scenario.resolve import resolve
from chaos.setup.names import InCluster, new_prefix, prefixed

EVERYWHERE = """
title: all names in the cluster
cluster:
  {driver: attached, bootstrap: "h:1", allow_faults: true, verbs: {kill: "0", start: "0", pause: "0", resume: "0"}}
topics: [{name: TOPIC-a, partitions: 3}, {name: TOPIC-b}]
producers: [{name: shop, topic: TOPIC-a}, {name: depot, topic: TOPIC-b}]
consumers:
  - {mode: subscribe, name: billing, group: GROUP-a, topics: [TOPIC-a, TOPIC-b]}
  - {mode: assign, name: replay, group: GROUP-b, topics: [TOPIC-a], start: {offsets: {TOPIC-a/1: 3}}}
  - {mode: assign, name: none, topics: [TOPIC-b], start: latest}
  - {mode: subscribe, name: any, group: GROUP-d, pattern: "TOPIC-[a-z]"}
processors: [{name: mover, group: GROUP-c, topics: [TOPIC-a], to: TOPIC-b}]
faults:
  - {name: a, kind: broker.kill, target: {leader_of: TOPIC-a/0}, when: {acked: 1}}
  - {name: b, kind: broker.pause, target: {followers_of: TOPIC-a/1}, when: {acked: 1}, heal: {after: 1s}}
  - {name: c, kind: broker.kill, target: {follower_of: TOPIC-a/2}, when: {acked: 1}}
  - {name: d, kind: coordinator.kill, target: {coordinator_of: GROUP-a}, when: {acked: 1}}
  - {name: e, kind: consumer.crash, target: {member: billing/1}, when: {delivered: {consumer: billing, records: 1}}}
  - {name: f, kind: consumer.seek, target: {member: billing/1}, offsets: {TOPIC-b/0: 1}, when: {acked: 1}}
  - {name: g, kind: wire.drop, api: Fetch, topic: TOPIC-a, target: {broker: 1}, when: {acked: 1}}
  - name: h
    kind: wire.hold
    api: Produce
    partition: TOPIC-a/1
    until: {api: Fetch, topic: TOPIC-b}
    target: {broker: 1}
    when: {acked: 1}
expect: {groups: {GROUP-a: {rebalances: 0}}}
"""

# Text fields that do not name anything in the cluster. Add a new field here, or give it a type of chaos.setup.names.
OTHER_TEXTS = {
    "Rows": {"sql", "insert", "file"},
    "DatabaseExecuteSpec": {"name", "statement", "shown_by", "undo"},
    "Postgres": {"release", "database", "setup", "config", "standby_of"},
    "Value": {"samples", "template", "json_schema", "avro", "protobuf", "message", "id", "key", "headers"},
    "Sizes": {"field"},
    "Scenario": {"title", "description", "documented", "schedule", "variants", "promised_differs", "clusters"},
    "Cluster": {"kafka", "bootstrap", "config", "racks", "features"},
    "Security": {"username", "password", "ca", "certificate", "key", "key_password", "token_endpoint"},
    "ClusterSecurity": {"username", "password", "ca", "certificate", "key", "key_password", "token_endpoint"},
    "Expect": {"client_errors", "effects"},
    "_Contract": {"client_errors", "effects"},
    "Verbs": {"kill", "start", "stop", "pause", "resume"},
    "Topic": {"config"},
    "Producer": {"name", "config", "definite_errors", "timestamps"},
    "Processor": {"name", "config", "consumer_config"},
    "Subscribe": {"name", "config", "static", "rack"},
    "Assign": {"name", "config", "rack"},
    "Share": {"name", "settings", "config"},
    "Clients": {"confluent_kafka"},
    "Connect": {"connectors", "release", "config"},
    "Client": {"runtime", "release", "command"},
    "Acked": {"producer"},
    "Delivered": {"consumer"},
    "Trigger": {"after"},
    "WireMoment": {"app", "after"},
    "Works": {"app", "after"},
    "Arrivals": {"recording"},
    "App": {"name", "command", "program", "libraries", "image", "arguments", "env", "files", "directory", "cluster"},
    "External": {"listen", "advertise"},
    "Effect": {
        *(
            "name",
            "sql",
            "query",
            "files",
            "id",
            "format",
            "aggregate",
            "by",
            "equals",
            "value",
            "at",
            "zone",
            "cluster",
        ),
    },
    "Receiver": {"path"},
    "LogLines": {"app", "pattern"},
    "Avro": {"avro"},
    "Protobuf": {"protobuf", "message"},
    "TextFormat": {"text"},
    "Ready": {"log", "port", "http"},
    "Stop": {"signal"},
    "Target": {"app", "coordinator_of_app", "rack", "member", "random_member", "task_manager", "task_manager_of"},
    "Variant": {
        "set",
        "promised_differs",
    },  # applied before names get their prefix; a resolved scenario has no variants
    "TopicConfigSpec": {"name", "settings"},
    "BrokerConfigSpec": {"name", "settings"},
    "ResetOffsetsSpec": {"name", "to"},
    "ClusterUpgradeSpec": {"name", "to"},
    "ClusterDowngradeSpec": {"name", "to"},
    "ClusterFinalizeSpec": {"name", "features"},
    "Bug": {"id", "affected", "fixed", "sources"},
    "Measured": {"kafka", "day"},
    "WireDropSpec": {"name", "client", "app"},
    "WireDelaySpec": {"name", "client", "app"},
    "WireCutSpec": {"name", "client", "app"},
    "WireHoldSpec": {"name", "client", "app"},
    "WireErrorSpec": {"name", "client", "app", "error"},
    "WireRepeatSpec": {"name", "client", "app"},
    "WireDuplicateSpec": {"name", "client", "app"},
    "WireCorruptSpec": {"name", "client", "app"},
    "FrameSet": {"client", "app"},
}
FAULT_TEXTS = {"name", "connector", "settings"}


def everywhere():
    return parse(EVERYWHERE, "everywhere.yaml")


def test_every_name_gets_the_prefix():
    text = prefixed(everywhere(), "run9.").model_dump_json()
    plain = everywhere().model_dump_json()
    assert plain.count("TOPIC-") == 19 and plain.count("GROUP-") == 6
    assert text.count("run9.TOPIC-") == text.count("TOPIC-") == 19
    assert text.count("run9.GROUP-") == text.count("GROUP-") == 6
    assert text.replace("run9.", "") == plain, "nothing else changed"


def test_a_prefixed_scenario_is_valid():
    again = Scenario.model_validate(json.loads(prefixed(everywhere(), "run9.").model_dump_json()))
    assert again == prefixed(everywhere(), "run9.")
    assert again.topic("run9.TOPIC-a").partitions == 3


def texts(annotation, marked=False):
    """Yield for each text in a type whether it names something in the cluster."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        marked = marked or any(isinstance(m, InCluster) for m in args[1:])
        yield from texts(args[0], marked)
    elif annotation is str:
        yield marked
    elif origin in (list, dict, tuple, Union, types.UnionType):
        for arg in args:
            yield from texts(arg, marked)
    else:
        assert origin in (None, Literal), f"{annotation} is not handled"


def models(annotation):
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from models(field.annotation)
    for arg in get_args(annotation):
        yield from models(arg)


def test_every_text_field_is_a_name_in_the_cluster_or_listed_as_another_text():
    for model in set(models(Scenario)):
        for key, field in model.model_fields.items():
            marked = any(isinstance(m, InCluster) for m in field.metadata)
            if not all(texts(field.annotation, marked)):
                others = OTHER_TEXTS.get(model.__name__, FAULT_TEXTS) | {"cluster"}
                assert key in others, f"{model.__name__}.{key}: does it name a topic or a group?"


def test_a_run_on_a_new_cluster_keeps_its_names():
    plain = parse("title: t\ntopics: [{name: orders}]\nproducers: [{name: shop, topic: orders}]", "plain.yaml")
    resolved = resolve(plain, run_id="r", name="r", created_us=0, seed=1, overrides=[])
    assert (resolved.prefix, resolved.scenario.topics[0].name) == ("", "orders")


def test_a_run_on_an_existing_cluster_records_its_prefix_and_sets_the_cleanup_policy():
    resolved = resolve(everywhere(), run_id="r", name="mine.yaml", created_us=0, seed=1, overrides=["a=[b, c]"])
    assert resolved.prefix.startswith("aftershock-r-")
    assert resolved.scenario.topics[0].name == f"{resolved.prefix}TOPIC-a"
    assert resolved.scenario.topics[0].config == {"cleanup.policy": "delete"}
    command = "python -m chaos run mine.yaml --seed 1 --bootstrap h:1 --set 'a=[b, c]' --i-own-this-cluster"
    assert resolved.command() == command


def test_prefixes_are_unique_and_none_begins_with_another():
    first, second, longer = new_prefix("nightly"), new_prefix("nightly"), new_prefix("nightly-2")
    assert first != second
    assert not longer.startswith(first) and not first.startswith(longer)


def test_a_prefix_is_valid_in_a_topic_name_for_any_run_id():
    prefix = new_prefix("my scenario/ä" * 40)
    assert len(prefix) < 100
    assert set(prefix) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def test_a_name_that_is_too_long_with_the_prefix_is_refused():
    long = parse(EVERYWHERE.replace("TOPIC-b", "t" * 240), "long.yaml")
    with pytest.raises(ScenarioError, match=r"too long a name .* 249 are allowed; shorten the name to 236, or"):
        prefixed(long, "aftershock-r-")


def test_a_name_that_is_refused_leaves_no_folder_that_keeps_the_next_run_from_its_name(tmp_path):
    file = tmp_path / "long.yaml"
    file.write_text(EVERYWHERE.replace("TOPIC-b", "t" * 240))
    with pytest.raises(ScenarioError, match="too long a name"):
        prepare(ScenarioRequest(str(file), i_own_this_cluster=True), runs_dir=tmp_path / "runs", run_id="r")
    assert not (tmp_path / "runs" / "r").exists()


THEIRS = """
title: names of the user
cluster: {driver: attached, bootstrap: "h:1", allow_faults: true, verbs: {kill: "0", start: "0"}}
topics: [{name: own, partitions: 3}]
producers: [{name: shop, topic: own, transactions: {}}]
consumers: [{mode: subscribe, name: billing, group: billing, topics: [own]}]
faults:
  - {name: a, kind: broker.kill, target: {leader_of: orders/7}, when: {acked: 1}}
  - {name: b, kind: broker.kill, target: {leader_of: own/0}, when: {acked: 1}}
  - {name: c, kind: coordinator.kill, target: {coordinator_of: their-group}, when: {acked: 1}}
  - {name: d, kind: coordinator.kill, target: {coordinator_of: billing}, when: {acked: 1}}
  - {name: e, kind: broker.kill, target: {transaction_coordinator_of: their-id}, when: {acked: 1}}
  - {name: f, kind: broker.kill, target: {transaction_coordinator_of: shop-1}, when: {acked: 1}}
"""


def test_targets_by_names_of_the_user_get_no_prefix_on_a_cluster_that_exists():
    resolved = resolve(parse(THEIRS, "t"), run_id="r", name="n", created_us=0, seed=1, overrides=[])
    again = Scenario.model_validate(json.loads(resolved.scenario.model_dump_json()))
    names = [fault.target.selector[1].replace(resolved.prefix, "+") for fault in again.faults]
    assert names == ["orders/7", "+own/0", "their-group", "+billing", "their-id", "+shop-1"]
    assert again.their_topics == {"orders"}
    spec = cluster_spec(resolved).existing
    assert spec is not None
    assert (spec.partitions, spec.groups) == ({TopicPartition("orders", 7)}, {"their-group"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("driver: attached, bootstrap: \"h:1\", allow_faults: true, verbs: {kill: \"0\", start: \"0\"}", "brokers: 3"),
         "there is no topic 'orders'"),
        (("leader_of: own/0", "leader_of: own/3"), "own has partitions 0 to 2, not 3"),
        (("kind: broker.kill, target: {leader_of: own/0}", "kind: topic.delete, target: {topic: orders}"),
         "'orders' is not one of the topics"),
    ],
)  # fmt: skip
def test_a_name_that_the_run_lacks_is_refused_where_no_user_can_have_it(change, message):
    with pytest.raises(ScenarioError, match=message):
        parse(THEIRS.replace(*change), "t")
