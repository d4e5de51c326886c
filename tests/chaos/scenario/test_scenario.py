import json
import re
from pathlib import Path

import pytest
import yaml

from chaos.anomalies import ANOMALIES
from chaos.errors import ScenarioError
from chaos.faults import SPECS
from chaos.scenario.expect import Bound
from chaos.scenario.load import find, load, parse
from chaos.scenario.model import Scenario
from chaos.scenario.shipped import shipped

ROOT = Path(__file__).parents[3]
SMALL = """
title: small
topics: [{name: orders, partitions: 2}]
producers: [{name: shop, topic: orders, records: 100}]
consumers: [{mode: subscribe, name: billing, group: billing, members: 2, topics: [orders]}]
faults:
  - {name: kill, kind: broker.kill, target: {leader_of: orders/0}, when: {acked: 50}, heal: {after: 5s}}
"""


def small(**changes):
    return yaml.safe_dump({**yaml.safe_load(SMALL), **changes})


def refusal(text, *overrides):
    with pytest.raises(ScenarioError) as caught:
        parse(text, "mine.yaml", overrides)
    return str(caught.value)


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_scenario_loads_and_survives_a_round_trip(name):
    scenario = load(find(name))
    assert Scenario.model_validate_json(scenario.model_dump_json()) == scenario


EXAMPLES = [
    (page, block)
    for page in ("README.md", "chaos/scenarios/README.md")
    for block in re.findall(r"```yaml\n(title:.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S)
]


@pytest.mark.parametrize(("page", "block"), EXAMPLES)
def test_every_scenario_in_a_readme_loads(page, block, tmp_path):
    block = block.replace("../examples/", f"{ROOT}/chaos/examples/")
    (tmp_path / "mine.yaml").write_text(block)
    assert load(tmp_path / "mine.yaml").title, page


def test_the_contract_is_closed():
    counts = parse(SMALL, "mine.yaml").expect.counts()
    assert {kind for kind, _ in counts} == set(ANOMALIES)
    assert all(bound == Bound(min=0, max=0) for bound in counts.values())


def test_a_bound_of_one_split_leaves_the_other_open():
    counts = parse(small(expect={"duplicate_delivery": {"illegal": 0}}), "mine.yaml").expect.counts()
    assert counts["duplicate_delivery", "legal"].holds(1000)
    assert not counts["duplicate_delivery", "illegal"].holds(1)


@pytest.mark.parametrize(
    ("bound", "text", "inside", "outside"),
    [
        (Bound(min=0, max=0), "0", 0, 1),
        (Bound(min=1), "at least 1", 1, 0),
        (Bound(max=5), "at most 5", 5, 6),
        (Bound(min=2, max=3), "2 to 3", 3, 4),
    ],
)
def test_a_bound_describes_its_range(bound, text, inside, outside):
    assert bound.describe() == text
    assert bound.holds(inside)
    assert not bound.holds(outside)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("producers.shop.recrods=3", "producers[0].recrods: unknown key (did you mean records?)"),
        ("expect.lost_wriet=0", "expect.lost_wriet: unknown key (did you mean lost_write?)"),
        ("consumers.billing.comit={}", "consumers[0].comit: unknown key (did you mean commit?)"),
        ("faults.kill.kind=broker.kil", "did you mean broker.kill?"),
        ("cluster.brokers=2", "3 replicas do not fit on 2 brokers; write replication_factor: 2, or more brokers"),
        ("topics.orders.config={min.insync.replicas: 4}", "no acks=all write could ever succeed"),
        ("faults.kill.target={leader_of: orders/7}", "orders has partitions 0 to 1, not 7"),
        ("faults.kill.target={leader_of: oders/0}", "there is no topic 'oders'"),
        ("faults.kill.target={member: billing/1}", "target member does not fit this fault"),
        ("faults.kill.target={broker: 4}", "brokers are numbered 1 to 3, not 4"),
        ("faults.kill.target={broker: 0}", "brokers are numbered 1 to 3, not 0"),
        ("faults.kill.when={acked: 101}", "101 is never reached, the producers send 100 records in all"),
        ("faults.kill.when={acked: {producer: shop, records: 101}}", "shop sends 100 records in all"),
        ("faults.kill.when={acked: {producer: shap, records: 1}}", "'shap' is not one of the producers (shop)"),
        ("faults.kill.when={at: 5s, acked: 1}", "give exactly one of"),
        ("faults.kill.when={after: kil + 1s}", "'kil' is not one of the faults"),
        ("faults.kill.when={after: kill.healed}", "wait for each other"),
        ("faults.kill.when={after: kill.dead}", "'dead' is not a phase"),
        (
            "faults=[{name: kill, kind: broker.kill, target: {broker: 1}, when: {at: 1s}},"
            " {name: b, kind: broker.kill, target: {broker: 2}, when: {after: kill.healed + 1s}}]",
            "faults[1].when.after: kill.healed is never reached: without `heal` it is healed after all other steps; "
            "give kill a heal, or wait for kill.proven",
        ),
        ("producers.shop.topic=oders", "'oders' is not one of the topics (orders)"),
        ("producers.shop.config={client.id: x}", "client.id is set by Aftershock itself"),
        ("consumers.billing.config={group.id: x}", "group.id is set by Aftershock itself"),
        ("cluster.kafka=latest", "cluster.kafka"),
        ("cluster.kafka=2.7.2", "cluster.metadata: Kafka 2.7.2 is too old"),
        ("cluster.metadata=zookeeper", "cluster.metadata: Kafka 4.3.1 has no ZooKeeper mode"),
        ("cluster={kafka: 2.8.2, metadata: kraft}", "cluster.metadata: KRaft is supported since Kafka 3.3"),
        ("cluster={kafka: 2.8.2, driver: docker}", "which the docker driver does not support"),
        ("cluster.metadata=raft", "cluster.metadata"),
        ("producers.shop.rate=fast", "'fast' is not a rate"),
        ("expect.groups={biling: {members: 2}}", "no consumer has the group id 'biling'"),
        ("topics.ordres.partitions=3", "topics.ordres does not exist (did you mean orders?)"),
        ("cluster.brokers", "write path=value"),
        (
            "consumers.billing={mode: assign, name: b, topics: [orders], start: erliest}",
            "consumers[0].start: 'erliest' is not a",
        ),
        (
            "consumers.billing={mode: assign, name: b, topics: [orders], start: {ofsets: {}}}",
            "consumers[0].start.ofsets: unknown key (did you mean offsets?)",
        ),
    ],
)
def test_an_error_names_the_key_and_the_next_step(override, message):
    assert message in refusal(SMALL, override)


def test_overrides_reach_settings_with_dots_in_their_names():
    scenario = parse(SMALL, "mine.yaml", ["topics.orders.config.min.insync.replicas=2", "cluster.brokers=5"])
    assert scenario.topics[0].config == {"min.insync.replicas": 2}
    assert scenario.cluster.brokers == 5


def test_overrides_reach_entries_with_dots_in_their_names():
    text = SMALL.replace("name: orders", "name: acme.config.v1").replace("orders/0", "acme.config.v1/0")
    text = text.replace("topic: orders", "topic: acme.config.v1").replace("[orders]", "[acme.config.v1]")
    text = text.replace("group: billing", "group: acme.billing") + "expect: {}"
    given = ["topics.acme.config.v1.partitions=7", "topics.acme.config.v1.config.min.insync.replicas=2"]
    scenario = parse(text, "mine.yaml", [*given, "expect.groups.acme.billing.members=2"])
    assert (scenario.topics[0].partitions, scenario.topics[0].config) == (7, {"min.insync.replicas": 2})
    assert scenario.expect.groups["acme.billing"].members == Bound(min=2, max=2)


@pytest.mark.parametrize(
    ("cluster", "mode"),
    [({}, "kraft"), ({"kafka": "2.8.2"}, "zookeeper"), ({"kafka": "3.9.2", "metadata": "zookeeper"}, "zookeeper")],
)
def test_the_metadata_mode_is_filled_in(cluster, mode):
    assert parse(small(cluster=cluster), "mine.yaml").cluster.metadata == mode


def test_invalid_yaml_is_reported_with_line_and_column():
    assert "mine.yaml:2:" in refusal("title: x\ntopics: [")


def test_a_key_given_twice_is_refused():
    assert "key 'title' is given twice" in refusal("title: a\ntitle: b\n")


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "just text", "{1: 2}", "[[]]: 3"])
def test_a_text_that_is_no_scenario_is_refused(text):
    assert refusal(text)


def test_the_error_for_an_unknown_name_gives_the_nearest_name():
    with pytest.raises(ScenarioError, match="did you mean leader-kill"):
        find("leader-kil")


def test_a_duplicate_name_is_refused():
    topics = [{"name": "orders"}, {"name": "orders"}]
    assert "'orders' is used 2 times" in refusal(small(topics=topics))


def test_the_json_schema_names_every_anomaly():
    schema = json.dumps(Scenario.model_json_schema())
    assert all(f'"{kind}"' in schema for kind in ANOMALIES)


DOCKER = {"driver": "docker", "memory": "640MiB", "disk": "192MiB", "cpus": 1.5}


def fault(**keys):
    return {"name": "it", "target": {"leader_of": "orders/0"}, "when": {"acked": 50}, **keys}


def quota(**keys):
    return fault(kind="client.quota", **{"target": {"member": "billing/1"}, **keys})


@pytest.mark.parametrize(
    "spec",
    [
        fault(kind="broker.disconnect"),
        fault(kind="broker.throttle", cpus=0.1),
        fault(kind="broker.oom"),
        fault(kind="disk.fill", free="1MiB"),
    ],
    ids=lambda spec: spec["kind"],
)
def test_faults_of_containers_load_for_docker_and_are_refused_elsewhere(spec):
    scenario = parse(small(cluster=DOCKER, faults=[spec]), "mine.yaml")
    assert Scenario.model_validate_json(scenario.model_dump_json()) == scenario
    assert f"{spec['kind']} needs " in refusal(small(faults=[spec]))


@pytest.mark.parametrize(
    "spec",
    [
        fault(kind="broker.isolate", cut="all", direction="in"),
        fault(kind="link.cut", other={"follower_of": "orders/0"}),
    ],
    ids=lambda spec: spec["kind"],
)
def test_links_are_cut_between_containers_and_between_processes_with_a_switch(spec):
    assert parse(small(faults=[spec]), "mine.yaml").switched
    assert not parse(small(cluster=DOCKER, faults=[spec]), "mine.yaml").switched
    assert not parse(small(), "mine.yaml").switched
    assert f"{spec['kind']} needs a cluster without ZooKeeper" in refusal(
        small(cluster={"kafka": "2.8.2"}, faults=[spec])
    )
    attached = {"driver": "attached", "bootstrap": "h:1", "allow_faults": True}
    assert f"{spec['kind']} needs isolate, which the attached driver" in refusal(small(cluster=attached, faults=[spec]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cluster": {"memory": "640MiB"}}, "cluster.memory: the process driver cannot limit brokers"),
        ({"cluster": {"driver": "docker", "memory": "300MiB"}}, "too few for a heap"),
        ({"cluster": {"driver": "docker"}, "faults": [fault(kind="broker.oom")]}, "needs cluster.memory"),
        ({"cluster": {"driver": "docker"}, "faults": [fault(kind="disk.fill")]}, "needs cluster.disk"),
        (
            {"cluster": DOCKER, "faults": [fault(kind="link.cut", other={"followers_of": "orders/0"})]},
            "followers_of does not name one broker",
        ),
        ({"faults": [fault(kind="broker.kill", target={"all_brokers": True})]}, "does not fit this fault"),
    ],
)
def test_limits_and_faults_that_do_not_fit_the_driver_are_refused(changes, message):
    assert message in refusal(small(**changes))


@pytest.mark.parametrize(
    "spec",
    [
        fault(kind="broker.wipe"),
        fault(kind="log.truncate", target={"isr_of": "orders/0"}, records=100),
        fault(kind="disk.limit", free="1MiB"),
        fault(kind="disk.slow", write="50ms"),
        fault(kind="clock.jump", by="+1h"),
        fault(kind="clock.skew", ahead="-1h", target={"controllers": "all"}),
        fault(kind="clock.drift", gains="+100ms"),
    ],
    ids=lambda spec: spec["kind"],
)
def test_faults_of_processes_are_refused_for_containers(spec):
    parse(small(faults=[spec]), "mine.yaml")
    assert f"{spec['kind']} needs " in refusal(small(cluster=DOCKER, faults=[spec]))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (fault(kind="clock.jump", by="1ms"), "faults[0].by: +1ms is no longer than the delays"),
        (fault(kind="clock.jump", by="5 parsecs"), "write a number and one of us, ms, s, m, min, h, d, such as +1h"),
        (fault(kind="clock.jump", by=3600), "3600 is no shift of a clock; write one such as +1h or -250ms"),
        (fault(kind="clock.skew", ahead="+9999d"), "is not between 0 and 3650 days, forward or back"),
        (fault(kind="clock.skew", ahead="-0s"), "is not between 0 and 3650 days"),
        (fault(kind="clock.drift", gains="-1s"), "faults[0].gains: a clock that loses a second in each second"),
        (fault(kind="clock.drift", gains="+2m"), "is a jump; use clock.jump"),
        (fault(kind="clock.drift", gains="+1ms"), "faults[0].gains: +1ms is no longer"),
        (fault(kind="clock.jump", by="+1h", target={"topic": "orders"}), "target topic does not fit this fault"),
    ],
)
def test_clocks_that_make_no_sense_are_refused(spec, message):
    assert message in refusal(small(faults=[spec], expect={}))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (fault(kind="disk.slow"), "faults[0]: a slow disk delays something; give write, fsync, or both"),
        (
            fault(kind="disk.slow", write="0ms"),
            "faults[0].write: 0s is no longer than the delays of a loaded machine",
        ),
        (fault(kind="disk.slow", write="50ms", fsync=0.001), "faults[0].fsync: 1ms is no longer"),
        (fault(kind="disk.slow", write="-50ms"), "'-50ms' is not understood; write a number and one of us, ms"),
        (fault(kind="disk.slow", fsync=-1), "-1 is not between 0 and 7 days"),
        (fault(kind="disk.slow", fsync="6s"), "faults[0].fsync: a disk that takes 6s hangs"),
        (fault(kind="disk.slow", write="50ms", target={"topic": "orders"}), "target topic does not fit this fault"),
    ],
)
def test_slow_disks_that_make_no_sense_are_refused(spec, message):
    assert message in refusal(small(faults=[spec], expect={}))


def test_the_writes_of_a_dedicated_controller_are_slow_only_with_its_flushes():
    writes = fault(kind="disk.slow", write="50ms", target={"controllers": "all"})
    assert "faults[0].write: a dedicated controller reports" in refusal(
        small(cluster={"brokers": 3, "controllers": 3}, faults=[writes])
    )
    parse(small(faults=[writes]), "mine.yaml")  # each broker is a controller too
    parse(small(cluster={"brokers": 3, "controllers": 3}, faults=[writes | {"fsync": "50ms"}]), "mine.yaml")


def test_only_a_scenario_with_a_fault_of_a_disk_gives_nodes_disks_that_can_be_slow():
    assert not parse(small(faults=[fault(kind="clock.jump", by="-1h")]), "mine.yaml").slowed
    assert parse(small(faults=[fault(kind="disk.slow", write="50ms")]), "mine.yaml").slowed


BILLING = {"mode": "subscribe", "name": "billing", "group": "billing", "members": 2, "topics": ["orders"]}


@pytest.mark.parametrize(
    ("spec", "changes", "message"),
    [
        (fault(kind="clock.jump", by="+1h", target={"member": "nobody/1"}), {}, "'nobody' is not one of the clients"),
        (fault(kind="clock.jump", by="+1h", target={"member": "shop/9"}), {}, "shop has members 1 to 1, not 9"),
        (
            fault(kind="clock.skew", ahead="+1h", target={"member": "shop/1"}),
            {},
            "target member does not fit this fault",
        ),
        (
            fault(kind="clock.jump", by="+1h", target={"random_member": "shop"}),
            {"topics": [{"name": "orders", "config": {"message.timestamp.type": "LogAppendTime"}}]},
            "faults[0].target: brokers stamp the records of orders (logappendtime), so none shows the clock of shop",
        ),
        (
            fault(kind="clock.drift", gains="+100ms", target={"member": "shop/1"}),
            {"producers": [{"name": "shop", "topic": "orders", "client": "franz-go"}]},
            "has no wrong clock: Go asks the kernel for the time and not the C library",
        ),
        (
            fault(kind="clock.jump", by="+1h", target={"member": "billing/1"}),
            {"consumers": [BILLING | {"threads": 2}]},
            "faults[0].target: billing has 2 clients in each process, which share a clock",
        ),
    ],
)
def test_clocks_of_clients_that_cannot_be_changed_or_observed_are_refused(spec, changes, message):
    assert message in refusal(small(faults=[spec], **changes))


def test_the_clock_of_a_client_needs_nothing_of_the_driver():
    jumps = fault(kind="clock.jump", by="+1h", target={"member": "shop/1"})
    for cluster in ({"driver": "attached", "bootstrap": "h:1"}, DOCKER):
        scenario = parse(small(cluster=cluster, faults=[jumps]), "mine.yaml")
        assert scenario.skewed_clients == {"shop"}
        assert not scenario.skewed


def test_clocks_of_an_existing_cluster_cannot_be_changed():
    attached = {"driver": "attached", "bootstrap": "h:1", "allow_faults": True}
    message = refusal(small(cluster=attached, faults=[fault(kind="clock.jump", by="+1h")]))
    assert "clock.jump needs set_clock, which the attached driver cannot do" in message


def test_only_a_scenario_with_a_fault_of_a_clock_gives_nodes_clocks_of_their_own():
    assert not parse(small(faults=[fault(kind="broker.wipe")]), "mine.yaml").skewed
    assert parse(small(faults=[fault(kind="clock.jump", by="-1h")]), "mine.yaml").skewed


COMPACT = {"cleanup.policy": "compact,delete"}
DELETING = {"name": "shop", "topic": "orders", "keys": 9, "tombstone_every": 2}
COMPACTED = [{"name": "orders", "partitions": 2, "config": COMPACT}]
LATER = [{"name": "orders"}, {"name": "returns", "later": True}]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"faults": [fault(kind="controller.kill")]}, "takes controller"),
        ({"faults": [fault(kind="controller.kill", target={"controller": False})]}, "target.controller"),
        ({"faults": [fault(kind="cluster.rolling_restart", target={"broker": 1})]}, "takes all_brokers"),
        ({"faults": [fault(kind="broker.pause", cycle={"paused": "1s"})]}, "cycle.running"),
        ({"faults": [fault(kind="log.truncate", target={"broker": 1})]}, "does not fit this fault"),
        (
            {"faults": [fault(kind="topic.add_partitions", target={"topic": "orders"}, to=2)]},
            "has 2 partitions already",
        ),
        ({"faults": [fault(kind="topic.add_partitions", target={"topic": "oders"}, to=9)]}, "not one of the topics"),
        ({"faults": [fault(kind="topic.create", target={"topic": "orders"})]}, "mark it later: true"),
        (
            {
                "faults": [
                    fault(kind="topic.delete", target={"topic": "orders"}, create_again=False, heal={"after": "1s"})
                ]
            },
            "nothing is healed",
        ),
        ({"topics": LATER}, "no fault is a topic.create of it"),
        ({"faults": [fault(kind="topic.delete_records", target={"topic": "orders"})]}, "exactly one of before, leave"),
        ({"faults": [fault(kind="group.delete", target={"group": "biling"})]}, "no consumer has the group id"),
        (
            {"faults": [fault(kind="partition.reassign", target={"partition": "orders/0"}, to=[1, 9])]},
            "brokers are numbered 1 to 3, not 9",
        ),
        (
            {
                "faults": [fault(kind="partition.reassign", target={"partition": "orders/0"})],
                "cluster": {"brokers": 1},
                "topics": [{"name": "orders", "partitions": 2, "replication_factor": 1}],
            },
            "needs another broker to move to",
        ),
        (
            {
                "faults": [fault(kind="broker.isolate", target={"broker": 1})],
                "cluster": {"brokers": 1},
                "topics": [{"name": "orders", "partitions": 2, "replication_factor": 1}],
            },
            "the only broker has no peers; write clients",
        ),
        ({"faults": [quota(target={"member": "shop/1"})]}, "give producer_byte_rate, consumer_byte_rate or both"),
        ({"faults": [quota(producer_byte_rate="0B")]}, "must be above 0"),
        ({"faults": [quota(producer_byte_rate="1KiB")]}, "billing never writes, so this quota has no effect"),
        (
            {"faults": [quota(consumer_byte_rate="1KiB", target={"random_member": "shop"})]},
            "shop never reads, so this quota has no effect",
        ),
        ({"faults": [quota(consumer_byte_rate="1KiB", target={"member": "billing/9"})]}, "not 9"),
        ({"faults": [quota(consumer_byte_rate="1KiB", target={"random_member": "biling"})]}, "biling"),
        ({"faults": [fault(kind="consumer.join", target={"random_member": "billing"})]}, "does not fit this fault"),
        ({"topics": COMPACTED}, "producers[0].keys: orders is compacted, and brokers refuse a record without a key"),
        ({"faults": [fault(kind="topic.config", target={"topic": "orders"}, settings=COMPACT)]}, "orders is compacted"),
        ({"cluster": {"config": {"log.cleanup.policy": "compact"}}}, "orders is compacted"),
        ({"expect": {"superseded": {"orders": 1}}}, "expect.superseded: orders is not compacted"),
        (
            {
                "producers": [{"name": "shop", "topic": "orders", "transactions": {}}],
                "expect": {"superseded": {"__consumer_offsets": 1}},
            },
            "transactions leave markers in __consumer_offsets",
        ),
        ({"expect": {"expired_tombstones": {"orders": 1}}}, "no producer of orders has tombstone_every"),
        ({"producers": [DELETING]}, "producers[0].tombstone_every: orders is not compacted"),
        ({"topics": COMPACTED, "producers": [{**DELETING, "keys": None}]}, "producers[0].keys: orders is compacted"),
        ({"expect": {"client_errors": {"biling": {"REFUSED": 1}}}}, "no client has the name 'biling'"),
        ({"expect": {"send_success": {"min": "99.9 %", "per": "300ms"}}}, "per must be a multiple of 250ms"),
        ({"expect": {"send_success": {"min": 0.999, "per": "10s"}}}, "0.999 is not a share; write one such as 99.9 %"),
        ({"expect": {"send_failures": {"failed": 0}}}, "expect.send_failures"),
        ({"expect": {"client_errors": {"billing": {"": 1}}}}, "give at least 1"),
        ({"expect": {"client_errors": {"billing": {"REFUSED": "often"}}}}, "expect.client_errors"),
    ],
)
def test_faults_that_do_not_fit_are_refused_in_one_line(changes, message):
    (_, line) = refusal(small(**changes)).splitlines()
    assert message in line


def test_partitions_and_members_that_faults_add_are_counted():
    faults = [
        fault(kind="topic.add_partitions", target={"topic": "orders"}, to=5) | {"name": "more"},
        fault(kind="topic.create", target={"topic": "returns"}) | {"name": "make"},
        fault(kind="consumer.join", target={"member": "billing/1"}) | {"name": "join"},
    ]
    topics = [{"name": "orders", "partitions": 2}, {"name": "returns", "later": True}]
    scenario = parse(small(topics=topics, faults=faults), "mine.yaml")
    assert scenario.partitions_at_end() == {"orders": 5, "returns": 1}
    assert scenario.held_back() == {"billing/1"}


@pytest.mark.parametrize(
    "change", [{"kind": "topic.add_partitions", "to": 5}, {"kind": "topic.recreate", "partitions": 1}]
)
def test_faults_of_a_topic_that_is_not_judged_change_no_number_of_partitions(change):
    topics = [{"name": "orders", "partitions": 2}, {"name": "invoices", "partitions": 2}]
    whole = parse(small(topics=topics, faults=[fault(target={"topic": "invoices"}) | change]), "x.yaml")
    judged = whole.model_copy(update={"topics": whole.topics[:1]})
    assert judged.partitions_at_end() == {"orders": 2}
    assert whole.partitions_at_end()["invoices"] != 2


def test_topics_that_faults_delete_are_expected_as_the_faults_leave_them():
    def scenario(**change):
        return parse(small(faults=[fault(target={"topic": "orders"}) | change]), "x.yaml")

    again = scenario(kind="topic.delete")
    assert (again.deleted_topics, again.absent_topics, again.partitions_at_end()) == ({"orders"}, set(), {"orders": 2})
    gone = scenario(kind="topic.delete", create_again=False)
    assert (gone.deleted_topics, gone.absent_topics, gone.partitions_at_end()) == (
        {"orders"},
        {"orders"},
        {"orders": 0},
    )
    fewer = scenario(kind="topic.recreate", partitions=1)
    assert (fewer.deleted_topics, fewer.absent_topics, fewer.partitions_at_end()) == ({"orders"}, set(), {"orders": 1})


FILE = """title: lines
cluster: {brokers: 3, config: {log.dir: "a,b", min.insync.replica: 2}}
topics:
  - name: orders
    config:
      retention.ms: 7d
producers:
  - name: shop
    topic: orders
    config:
      acks: al
consumers:
  - {mode: subscribe, name: billing, group: billing, topics: [orders], recrods: 3}
"""


def test_each_mistake_has_its_file_and_line():
    said = refusal(FILE)
    assert "mine.yaml:13: consumers[0].recrods: unknown key (did you mean per_record?); the keys here are mode," in said
    said = refusal(FILE.replace(", recrods: 3", ""))
    assert said.splitlines()[1:] == [
        "  mine.yaml:2: cluster.config: log.dir is decided by Aftershock; data lies in the run directory; "
        "log.dirs: d1,d2 gives brokers two data folders",
        "  mine.yaml:2: cluster.config: min.insync.replica is no setting of a broker of Kafka 4.3.1 "
        "(did you mean min.insync.replicas?)",
        "  mine.yaml:6: topics[0].config: retention.ms is '7d'; it takes a whole number from -1 on; "
        "if it is in ms, 7d is 604800000",
        "  mine.yaml:11: producers[0].config: acks is 'al'; it takes a whole number from -1 to 1000, or all",
    ]


def test_a_mistake_in_an_option_or_a_variant_names_it():
    said = refusal(SMALL, "consumers.billing.config.auto.offset.rest=earliest")
    assert "--set consumers.billing.config.auto.offset.rest: consumers[0].config: auto.offset.rest is no" in said
    side = SMALL + "variants:\n  a: {}\n  b:\n    set:\n      producers.shop.config.acks: 7000\n"
    assert "mine.yaml:12: producers[0].config: acks is '7000'" in refusal(side)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "mine.yaml is empty; a scenario is a mapping with title, topics"),
        ("- a\n", "mine.yaml:1 is a list, not a scenario"),
        ("title: x\n\ttopics: []\n", "mine.yaml:2:1 is not valid YAML: a tab; YAML indents with spaces"),
        ("title: a\ntitle: b\n", "mine.yaml:2:1 is not valid YAML: key 'title' is given twice"),
        (SMALL.replace("partitions: 2", "partitions: two"), "topics[0].partitions: 'two' is not a whole number"),
        (SMALL.replace("[orders]", "orders"), "consumers[0].topics: 'orders' is not a list"),
        (
            SMALL.replace("{acked: 50}", "50"),
            "faults[0].when: 50 is not a mapping with at, acked, delivered, after, works or wire",
        ),
        (
            SMALL.replace("broker.kill", "broker.explode"),
            f"; there are {len(SPECS)} kinds, which `python -m chaos reference faults` lists",
        ),
        (SMALL.replace("mode: subscribe, ", ""), "consumers[0]: mode is required"),
    ],
)
def test_a_message_says_what_and_where_in_plain_words(text, said):
    message = refusal(text)
    assert said in message
    assert "Input should" not in message and "valid dictionary" not in message
    assert max(map(len, message.splitlines())) < 260
