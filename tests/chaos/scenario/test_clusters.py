"""Clusters beside the first one in a scenario: each mistake is one line with its key."""

import pytest

from chaos.drive.beside import new_spec
from chaos.drive.rights import rights_of
from chaos.errors import ScenarioError
from chaos.fleet.specs import SpecBuilder
from chaos.guarantees.contract import derive
from chaos.kafka.security import Endpoint, Security
from chaos.run.directory import Run
from chaos.scenario.load import parse
from chaos.scenario.resolve import resolve

TEXT = """title: t
topics: [{name: orders, replication_factor: 1}]
producers: [{name: shop, topic: orders, value: {template: 'order {id}'}}]
clusters: %s
apps: [{name: mirror, %s}]
effects: [{name: copies, id: $.id, %s}]
"""
TWO = "{primary: {brokers: 1}, dr: {brokers: 2}}"
SECURED = "{dr: {security: {protocol: SASL_SSL, mechanism: PLAIN, acls: true}}}"
CERTIFIED = "{primary: {security: {protocol: SSL, client_certificates: true}}, dr: {}}"
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
    assert (effect.own_topics, effect.describe()) == ((), "topic orders of cluster dr")
    assert made().app_topics == frozenset()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"clusters": "{primary: {}, dr: {driver: docker}}"}, "clusters.dr.driver: a cluster beside the first one"),
        ({"clusters": "{dr: {security: {protocol: SSL, acls: true}}}"}, "clusters.dr.security.acls: clients have no"),
        ({"app": "cluster: dr, command: 'x {bootstrap} {username}'"}, "the cluster has no clusters.dr.security"),
        ({"app": "command: 'x {bootstrap} {ca.dr}'"}, "{ca.dr} has no value: the cluster has no clusters.dr.security"),
        (
            {"app": "command: 'x {bootstrap} {password.b}'"},
            "{password.b}: 'b' is not one of the clusters (primary, dr)",
        ),
        ({"app": "command: 'x {bootstrap} {app.dr}'"}, "{app.dr} is no placeholder"),
        ({"app": f"{APP}, superuser: true"}, "apps[0].superuser: nobody logs in to a cluster of the scenario"),
        (
            {"clusters": SECURED, "app": "cluster: dr, command: 'x {bootstrap} {username.primary}'"},
            "{username.primary} has no value: the cluster has no cluster.security",
        ),
        (
            {"clusters": SECURED, "app": "cluster: dr, command: 'x {bootstrap} {keystore}'"},
            "{keystore} has no value: clients have no certificates",
        ),
        ({"clusters": CERTIFIED, "app": f"{APP}, superuser: true"}, "superuser: the relay presents the certificate of"),
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
        ({"effect": "files: x, equals: record"}, "equals: a copy of a record is one record of one topic"),
        ({"effect": f"{EFFECT}, equals: record, per: {{input: 2}}"}, "equals: a copy of a record is one record"),
        ({"effect": f"{EFFECT}, equals: record, value: $.a"}, "value: goes with equals or aggregate, and not with"),
    ],
)
def test_a_mistake_is_one_line(given, message):
    with pytest.raises(ScenarioError) as e:
        made(**given)
    assert any(message in line for line in str(e.value).splitlines()), str(e.value)


def test_an_application_has_the_login_of_its_own_cluster_and_by_name_of_another_one():
    primary = "primary: {security: {protocol: SASL_PLAINTEXT, mechanism: PLAIN}}"
    app = "cluster: dr, superuser: true, command: 'x {bootstrap.primary} {password.primary} {password.dr|json} {ca}'"
    (found,) = made(f"{{{primary}, {SECURED[1:]}", app).apps
    assert found.superuser


FAULT = "faults: [{name: f, cluster: %s, kind: %s, target: %s, when: {acked: 10}}]\n"
BOUNDS = "expect: {effects: {copies: {missing: 0}}}\n"


def hit(cluster, kind, target, more=BOUNDS):
    text = TEXT % (TWO, APP, EFFECT) + FAULT % (cluster, kind, target) + more
    return parse(text, "m.yaml")


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        ("broker.kill", "{broker: 2}"),  # the first cluster has one broker
        ("broker.kill", "{leader_of: primary.orders/7}"),  # a topic of the application
        ("topic.recreate", "{topic: orders}"),
        ("topic.delete_records, leave: 1", "{partition: primary.orders/3}"),
        ("group.reset_offsets, to: earliest", "{group: theirs}"),
        ("clock.jump, by: -1h", "{all_brokers: true}"),
    ],
)
def test_a_fault_hits_what_another_cluster_has(kind, target):
    scenario = hit("dr", kind, target)
    (fault,) = scenario.at("dr").faults
    assert fault.aimed_at.endswith(" of cluster dr")
    assert (scenario.at("primary").faults, scenario.at("primary").every_fault) == ([], [fault])


@pytest.mark.parametrize(
    ("cluster", "kind", "target", "message"),
    [
        ("drr", "broker.kill", "{broker: 1}", "faults[0].cluster: 'drr' is not one of the clusters (primary, dr)"),
        ("dr", "broker.kill", "{broker: 3}", "faults[0].target.broker: brokers are numbered 1 to 2, not 3"),
        ("primary", "broker.kill", "{broker: 2}", "faults[0].target.broker: brokers are numbered 1 to 1, not 2"),
        ("primary", "broker.kill", "{leader_of: primary.orders/7}", "there is no topic 'primary.orders'"),
        ("dr", "broker.kill", "{rack: a}", "faults[0].target.rack: the brokers have no racks"),
        ("dr", "producer.crash", "{member: shop/1}", "faults[0].cluster: producer.crash needs the clients of a run"),
        ("dr", "app.kill", "{app: mirror}", "faults[0].cluster: app.kill needs the applications of a run, and those"),
        ("dr", "credential.change", "{all_brokers: true}", "credential.change needs clusters.dr.security with SASL"),
        ("primary", "credential.change", "{all_brokers: true}", "credential.change needs cluster.security with SASL"),
        ("dr", "wire.cut", "{all_brokers: true}", "faults[0].cluster: wire.cut needs the connections of the clients"),
        (
            "dr",
            "broker.kill",
            "{coordinator_of_app: mirror}",
            "target.coordinator_of_app: means a broker of the cluster",
        ),
    ],
)
def test_a_fault_that_another_cluster_cannot_have_is_one_line(cluster, kind, target, message):
    with pytest.raises(ScenarioError) as e:
        hit(cluster, kind, target)
    assert any(message in line for line in str(e.value).splitlines()), str(e.value)


@pytest.mark.parametrize(
    ("kind", "target"),
    [("credential.change", "{all_brokers: true}"), ("certificate.expire", "{broker: 1}")],
)
def test_a_fault_of_logins_hits_each_cluster_that_has_some(kind, target):
    secured = SECURED.replace("mechanism: PLAIN", "mechanism: SCRAM-SHA-512")
    scenario = parse(TEXT % (secured, APP, EFFECT) + FAULT % ("dr", kind, target) + BOUNDS, "m.yaml")
    assert [fault.kind for fault in scenario.at("dr").faults] == [kind]


def test_clients_at_another_cluster_may_use_its_topics_of_the_scenario_and_all_groups():
    rights = rights_of(both(), "dr")
    assert {(right.name, right.operation) for right in rights if right.resource == "group"} >= {("*", "read")}
    assert {right.name for right in rights if right.resource == "topic"} == {"returns"}
    assert {right.name for right in rights_of(both()) if right.resource in ("topic", "group")} == {"orders"}


def test_a_fault_of_another_cluster_leaves_the_promises_to_clients_of_the_first_one_alone():
    def promised(cluster):
        return {(line.kind, line.split): line.bound for line in derive(hit(cluster, "broker.wipe", "{broker: 1}"))}

    without = {(line.kind, line.split): line.bound for line in derive(made())}
    assert promised("dr") == without
    assert promised("primary") != without


def test_no_rule_derives_the_contract_under_a_fault_that_removes_records_of_another_cluster():
    with pytest.raises(
        ScenarioError, match=r"faults\[0\]: topic.recreate may remove records of cluster dr \(recreates\)"
    ):
        hit("dr", "topic.recreate", "{topic: orders}", more="")
    assert hit("dr", "broker.stop", "{broker: 1}", more="").expect.promised


def test_what_brokers_are_started_for_follows_from_the_faults_of_their_cluster():
    scenario = hit("dr", "clock.jump, by: -1h", "{broker: 1}")
    assert [new_spec(scenario.at(name)).clocks for name in ("primary", "dr")] == [False, True]
    assert (new_spec(scenario.at("dr")).brokers, new_spec(scenario.at("primary")).brokers) == (2, 1)


def test_two_changes_of_one_setting_meet_only_in_one_cluster():
    def changed(one, other):
        faults = "faults:\n" + "".join(
            f"- {{name: {name}, cluster: {cluster}, kind: topic.config, settings: {{retention.ms: 1}}, "
            "target: {topic: orders}, when: {acked: 1}}\n"
            for name, cluster in (("a", one), ("b", other))
        )
        return parse(TEXT % (TWO, APP, EFFECT) + faults + BOUNDS, "m.yaml")

    assert len(changed("primary", "dr").faults) == 2
    with pytest.raises(ScenarioError, match="a and b both change"):
        changed("dr", "dr")


MORE = "topics: [{name: orders, replication_factor: 1}, {name: returns, replication_factor: 2, cluster: dr%s}]"
DESK = "{name: desk, topic: returns%s}"
IDS = ", value: {template: 'r {id}'}"


def both(topic="", producer=DESK % IDS, more=""):
    text = TEXT.replace("topics: [{name: orders, replication_factor: 1}]", MORE % topic)
    program = "cluster: dr, command: ['{python}', '{bootstrap.primary}', '{bootstrap}']"
    text = text.replace("producers: [", f"producers: [{producer}, ") % (TWO, program, f"of: orders, {EFFECT}")
    return parse(text + more, "m.yaml")


def test_a_topic_of_another_cluster_and_its_producers_belong_there():
    scenario = both()
    first, other = scenario.at("primary"), scenario.at("dr")
    names = [[entry.name for entry in part] for part in (first.topics, first.producers, other.topics, other.producers)]
    assert names == [["orders"], ["shop"], ["returns"], ["desk"]]
    assert (first.at("primary"), made().at("primary").topics) == (first, made().topics)
    resolved = resolve(scenario, run_id="r", name="r", created_us=0, seed=1, overrides=[])
    assert [p.name for p in resolved.audited().scenario.producers] == ["shop"]
    assert list(resolved.ids.first) == ["desk/1", "shop/1"]
    assert resolved.audited().ids == resolved.at("dr").ids == resolved.at("primary").at("primary").ids == resolved.ids


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"topic": ", later: true"}, "topics[1].later: a topic of the cluster dr exists from the start"),
        (
            {"topic": ", partitions: 1}, {name: b, replication_factor: 3, cluster: dr"},
            "3 replicas do not fit on 2 brokers",
        ),
        ({"topic": "}, {name: b, replication_factor: 2, cluster: drr"}, "topics[2].cluster: 'drr' is not one of the"),
        (
            {"producer": DESK % ""},
            "producers[0].topic: only effects judge records of the cluster dr, and they need ids",
        ),
        (
            {"producer": f"{{name: desk, topics: [orders, returns]{IDS}}}"},
            "producers[0].topics: are of several clusters (dr, primary); name those of one",
        ),
        (
            {"more": "consumers: [{name: c, mode: subscribe, group: g, topics: [orders, returns]}]"},
            "consumers[0]: returns is of the cluster dr, and clients that read",
        ),
    ],
)
def test_a_topic_of_another_cluster_that_nothing_can_judge_is_one_line(given, message):
    with pytest.raises(ScenarioError) as e:
        both(**given)
    assert any(message in line for line in str(e.value).splitlines()), str(e.value)


def test_a_producer_at_another_cluster_has_the_address_and_the_ledger_there(tmp_path):
    run = Run.create(tmp_path, "r")
    resolved = resolve(both(), run_id="r", name="r", created_us=0, seed=1, overrides=[])
    dr = Endpoint("dr:1", Security(protocol="SSL"))
    specs = SpecBuilder(run, resolved, lambda client: f"{client}:9092", beside={"dr": dr})
    built = [specs.build(entry, f"{entry.name}/1", 1, 0) for entry in resolved.scenario.producers]
    assert [spec.bootstrap for spec in built] == ["dr:1", "shop/1:9092"]
    assert [spec.security for spec in built] == [dr.clients, None]
    assert [spec.ledger for spec in built] == [run.path / "clusters" / "dr" / "ledger", run.ledger]


def test_an_application_that_ends_for_good_has_no_heal_and_is_left():
    def ended(*more):
        stop = "{name: e, kind: app.stop, target: {app: mirror/1}, for_good: true, when: {acked: 5}%s}"
        return parse(TEXT % (TWO, APP, EFFECT) + f"faults: [{stop % ''.join(more)}]\n", "m.yaml")

    assert ended().left_apps == {"mirror"}
    assert made().left_apps == frozenset()
    with pytest.raises(ScenarioError, match="heal: an instance that ends for_good does not come back"):
        ended(", heal: {after: 1s}")


def test_an_existing_cluster_has_none_beside_it():
    existing = "{primary: {driver: attached, bootstrap: 'a:1'}, dr: {}}"
    with pytest.raises(ScenarioError, match="clusters: on an existing cluster, a run starts no brokers"):
        made(existing)


def test_a_setting_of_a_connector_has_dots_in_its_name():
    app = "connect: {connectors: {c: {connector.class: A}}}"
    changed = parse(TEXT % (TWO, app, EFFECT), "m.yaml", ["apps.mirror.connect.connectors.c.header.converter=B"])
    assert changed.apps[0].connect.connectors["c"] == {"connector.class": "A", "header.converter": "B"}
    changed = parse(
        TEXT % (TWO, app.replace("c:", "acme.orders.sink:"), EFFECT),
        "m.yaml",
        ["apps.mirror.connect.connectors.acme.orders.sink.header.converter=B"],
    )
    assert changed.apps[0].connect.connectors == {"acme.orders.sink": {"connector.class": "A", "header.converter": "B"}}
