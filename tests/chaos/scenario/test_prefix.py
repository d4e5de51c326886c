"""On a cluster that exists, every name of a topic or a group gets the run's prefix, wherever it stands."""

import json
import types
from typing import Annotated, Literal, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

from chaos.errors import ScenarioError
from chaos.scenario.load import parse
from chaos.scenario.model import Scenario
from chaos.scenario.names import InCluster
from chaos.scenario.prefix import new_prefix, prefixed
from chaos.scenario.resolve import resolve

EVERYWHERE = """
title: everything that names something in the cluster
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
expect: {groups: {GROUP-a: {rebalances: 0}}}
"""

# texts of a scenario that name nothing in the cluster: what is new belongs here, or gets a type of chaos.scenario.names
OTHER_TEXTS = {
    "Scenario": {"title", "description", "schedule", "variants"},
    "Cluster": {"kafka", "bootstrap", "config"},
    "Security": {"username", "password", "ca", "certificate", "key", "key_password"},
    "Expect": {"client_errors"},
    "_Contract": {"client_errors"},
    "Verbs": {"kill", "start", "stop", "pause", "resume"},
    "Topic": {"config"},
    "Producer": {"name", "config"},
    "Processor": {"name", "config", "consumer_config"},
    "Subscribe": {"name", "config"},
    "Assign": {"name", "config"},
    "Clients": {"confluent_kafka"},
    "Acked": {"producer"},
    "Delivered": {"consumer"},
    "Trigger": {"after"},
    "Target": {"member", "random_member"},
    "Variant": {"set"},  # applied before names get their prefix; a resolved scenario has no variants
    "TopicConfig": {"name", "settings"},
    "ResetOffsets": {"name", "to"},
    "WireDrop": {"name", "client"},
    "WireDelay": {"name", "client"},
    "WireCut": {"name", "client"},
}
FAULTS_TEXTS = {"name"}


def everywhere():
    return parse(EVERYWHERE, "everywhere.yaml")


def test_no_place_is_missed():
    text = prefixed(everywhere(), "run9.").model_dump_json()
    plain = everywhere().model_dump_json()
    assert plain.count("TOPIC-") == 16 and plain.count("GROUP-") == 6
    assert text.count("run9.TOPIC-") == text.count("TOPIC-") == 16
    assert text.count("run9.GROUP-") == text.count("GROUP-") == 6
    assert text.replace("run9.", "") == plain, "nothing else changed"


def test_what_is_renamed_still_fits_together():
    again = Scenario.model_validate(json.loads(prefixed(everywhere(), "run9.").model_dump_json()))
    assert again == prefixed(everywhere(), "run9.")
    assert again.topic("run9.TOPIC-a").partitions == 3


def texts(annotation, marked=False):
    """Whether each text in a type is the name of something in the cluster."""
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
        assert origin in (None, Literal), f"the walk does not know {annotation}"


def models(annotation):
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from models(field.annotation)
    for arg in get_args(annotation):
        yield from models(arg)


def test_every_text_of_the_model_is_a_name_in_the_cluster_or_known_to_be_none():
    for model in set(models(Scenario)):
        for key, field in model.model_fields.items():
            marked = any(isinstance(m, InCluster) for m in field.metadata)
            if not all(texts(field.annotation, marked)):
                known = OTHER_TEXTS.get(model.__name__, FAULTS_TEXTS)
                assert key in known, f"{model.__name__}.{key}: does it name a topic or a group?"


def test_a_run_on_a_new_cluster_keeps_its_names():
    plain = parse("title: t\ntopics: [{name: orders}]\nproducers: [{name: shop, topic: orders}]", "plain.yaml")
    resolved = resolve(plain, run_id="r", name="r", created_us=0, seed=1, overrides=[])
    assert (resolved.prefix, resolved.scenario.topics[0].name) == ("", "orders")


def test_a_run_on_an_existing_cluster_has_its_prefix_on_record_and_topics_that_are_not_compacted():
    resolved = resolve(everywhere(), run_id="r", name="mine.yaml", created_us=0, seed=1, overrides=["a=[b, c]"])
    assert resolved.prefix.startswith("aftershock-r-")
    assert resolved.scenario.topics[0].name == f"{resolved.prefix}TOPIC-a"
    assert resolved.scenario.topics[0].config == {"cleanup.policy": "delete"}
    command = "python -m chaos run mine.yaml --seed 1 --bootstrap h:1 --set 'a=[b, c]' --i-own-this-cluster"
    assert resolved.command() == command


def test_no_two_runs_share_a_prefix_nor_does_one_begin_with_another():
    one, same, longer = new_prefix("nightly"), new_prefix("nightly"), new_prefix("nightly-2")
    assert one != same
    assert not longer.startswith(one) and not one.startswith(longer)


def test_a_prefix_is_fit_for_a_topic_whatever_the_run_is_called():
    prefix = new_prefix("my scenario/ä" * 40)
    assert len(prefix) < 100
    assert set(prefix) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def test_a_name_that_gets_too_long_is_refused():
    long = parse(EVERYWHERE.replace("TOPIC-b", "t" * 240), "long.yaml")
    with pytest.raises(ScenarioError, match=r"too long a name .* 249 are allowed"):
        prefixed(long, "aftershock-r-")
