"""Clusters beside the first one in a scenario: each mistake is one line with its key."""

import pytest

from chaos.errors import ScenarioError
from chaos.scenario.load import parse

TEXT = """title: t
topics: [{name: orders, replication_factor: 1}]
producers: [{name: shop, topic: orders, value: {template: 'order {id}'}}]
clusters: %s
apps: [{name: mirror, %s}]
effects: [{name: copies, id: $.id, %s}]
"""
TWO = "{primary: {brokers: 1}, dr: {brokers: 2}}"
APP = "cluster: dr, command: 'mirror {bootstrap.primary} {bootstrap}'"
EFFECT = "topic: orders, cluster: dr"


def made(clusters=TWO, app=APP, effect=EFFECT):
    return parse(TEXT % (clusters, app, effect), "m.yaml")


def test_the_cluster_primary_is_the_one_of_topics_and_clients():
    scenario = made()
    assert (scenario.cluster.brokers, {n: c.brokers for n, c in scenario.clusters.items()}) == (1, {"dr": 2})
    assert scenario.apps[0].uses_primary
    assert not made(app="cluster: dr, command: 'mirror {bootstrap.dr}'").apps[0].uses_primary
    assert made(app="command: 'mirror {bootstrap}'").apps[0].uses_primary


def test_options_change_the_cluster_primary():
    config = "{primary: {brokers: 1, config: {num.io.threads: 1, num.partitions: 2}}, dr: {kafka: 4.3.1}}"
    options = ["cluster.kafka=3.9.2", "cluster.config.num.partitions=3", "clusters.dr.brokers=2"]
    scenario = parse(TEXT % (config, APP, EFFECT), "m.yaml", options)
    assert (scenario.cluster.brokers, scenario.cluster.kafka) == (1, "3.9.2")
    assert scenario.cluster.config == {"num.io.threads": 1, "num.partitions": 3}
    assert (scenario.clusters["dr"].kafka, scenario.clusters["dr"].brokers) == ("4.3.1", 2)


def test_an_effect_may_be_in_a_topic_of_the_same_name_as_the_inputs_in_another_cluster():
    effect = made().effects[0]
    assert (effect.own_topic, effect.describe()) == (None, "topic orders of cluster dr")
    assert made().app_topics == frozenset()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"clusters": "{primary: {}, dr: {driver: docker}}"}, "clusters.dr.driver: a cluster beside the first one"),
        ({"clusters": "{dr: {security: {protocol: SSL}}}"}, "clusters.dr.security: clients of a cluster beside"),
        ({"clusters": "{dr: {proxy: true}}"}, "clusters.dr.proxy: the relay is before the first cluster only"),
        (
            {"clusters": "{dr: {brokers: 1, racks: [a, b]}}"},
            "clusters.dr.racks: 2 racks do not fit 1 brokers",
        ),
        ({"clusters": f"{TWO}\ncluster: {{}}"}, "m.yaml:5: cluster: is clusters.primary; give one of the two"),
        ({"clusters": "{primary: {brokers: 0}}"}, "m.yaml:4: cluster.brokers"),
        ({"clusters": "{dr: {config: {a: 1}}}"}, "m.yaml:4: clusters.dr.config: a is no setting of a broker of Kafka"),
        ({"clusters": "{}"}, "apps[0].cluster: 'dr' is not one of the clusters (primary)"),
        ({"app": "cluster: drr, command: x"}, "apps[0].cluster: 'drr' is not one of the clusters (primary, dr)"),
        ({"app": "command: 'x {bootstrap.b}'"}, "apps[0].command[1]: {bootstrap.b}: 'b' is not one of the clusters"),
        ({"app": f"{APP}, reads: [orders]"}, "apps[0].reads: the run looks at groups and topics of the cluster"),
        ({"app": "cluster: dr, external: true, group: g"}, "apps[0].cluster: an external application gets the"),
        ({"effect": "topic: x, cluster: b"}, "effects[0].cluster: 'b' is not one of the clusters"),
        ({"effect": "topic: orders"}, "effects[0].topic: orders is the topic of the inputs too"),
        ({"effect": "files: x, cluster: dr"}, "cluster: is for a topic"),
        ({"effect": "files: x, equals: record"}, "equals: a copy of a record is one record of a topic"),
        ({"effect": f"{EFFECT}, equals: record, per: {{input: 2}}"}, "equals: a copy of a record is one record"),
        ({"effect": f"{EFFECT}, equals: record, value: $.a"}, "value: goes with equals or aggregate, and not with"),
    ],
)
def test_a_mistake_is_one_line(given, message):
    with pytest.raises(ScenarioError) as e:
        made(**given)
    assert any(message in line for line in str(e.value).splitlines()), str(e.value)


def test_an_existing_cluster_has_none_beside_it():
    existing = "{primary: {driver: attached, bootstrap: 'a:1'}, dr: {}}"
    with pytest.raises(ScenarioError, match="clusters: on an existing cluster, a run starts no brokers"):
        made(existing)


def test_a_setting_of_a_connector_has_dots_in_its_name():
    app = "connect: {connectors: {c: {connector.class: A}}}"
    changed = parse(TEXT % (TWO, app, EFFECT), "m.yaml", ["apps.mirror.connect.connectors.c.header.converter=B"])
    assert changed.apps[0].connect.connectors["c"] == {"connector.class": "A", "header.converter": "B"}
