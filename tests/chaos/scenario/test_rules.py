"""Rules for producers, processors and their faults: a contradiction is refused with the reason."""

import pytest

from chaos.errors import ScenarioError
from chaos.scenario.load import parse
from chaos.scenario.model import Scenario

TOPICS = "topics: [{name: orders, partitions: 3}, {name: invoices}, {name: other}]\n"
BILLING = "processors: [{name: billing, group: g, topics: [orders], to: invoices, members: 2}]\n"


def scenario(producer: str, more: str = "") -> Scenario:
    return parse(f"title: t\n{TOPICS}producers: [{{name: shop, topic: orders, records: 100, {producer}}}]\n{more}", "x")


def faults(*specs: str) -> str:
    return BILLING + "faults:\n" + "".join(f"  - {{name: f{i}, when: {{at: 1s}}, {s}}}\n" for i, s in enumerate(specs))


@pytest.mark.parametrize(
    "producer",
    [
        "transactions: {records: 10, abort_every: 2, timeout: 5s}",
        "partitioner: by_key_number, keys: 10",
        "partitioner: sticky",
        "resend: true, mode: synchronous",
    ],
)
def test_a_consistent_scenario_is_accepted(producer: str) -> None:
    scenario(
        producer,
        faults(
            "kind: producer.crash, target: {member: billing/2}", "kind: producer.fence, target: {member: billing/1}"
        ),
    )


@pytest.mark.parametrize(
    ("producer", "more", "message"),
    [
        ("transactions: {}, config: {transactional.id: x}", "", "transactional.id is set by Aftershock itself"),
        ("transactions: {}, config: {enable.idempotence: false}", "", "transactions need enable.idempotence"),
        ("transactions: {}, config: {acks: 1}", "", "transactions need acks=all"),
        ("transactions: {}, mode: synchronous", "", "mode: transactions wait for all their records"),
        ("transactions: {}, resend: true", "", "a transactional producer continues by transactions"),
        ("partitioner: by_key_number", "", "by_key_number needs keys"),
        ("partitioner: sticky, keys: 3", "", "records without a key"),
        ("partitioner: murmur2, config: {partitioner: random}", "", "partitioner is given twice"),
        ("", BILLING.replace("to: invoices", "to: orders"), "so it would never end"),
        ("", BILLING.replace("to: invoices", "to: nowhere"), "'nowhere' is not one of the topics"),
        ("", BILLING.replace("name: billing", "name: shop"), "the name 'shop' is used 2 times"),
        ("", faults("kind: producer.crash, target: {member: billing/3}"), "billing has members 1 to 2, not 3"),
        ("", faults("kind: producer.crash, target: {member: nobody/1}"), "'nobody' is not one of the"),
        ("", faults("kind: consumer.crash, target: {member: shop/1}"), "consumer.crash is for consumers"),
        ("", faults("kind: producer.fence, target: {member: shop/1}"), "has no transactions"),
        (
            "",
            faults("kind: producer.fence, target: {member: billing/1}").replace(
                "members: 2", "plain: {commit: after_output}"
            ),
            "has no transactions",
        ),
        (
            "",
            BILLING.replace("members: 2", "plain: {commit: after_output}, transactions: {}"),
            "plain: goes without transactions",
        ),
        (
            "",
            BILLING.replace("members: 2", "plain: {commit: after_output}, config: {transactional.id: x}"),
            "is set by",
        ),
        (
            "",
            "expect: {duplicate_output: 1}\n",
            "duplicate_output: never appears: only outputs of processors are traced, and there are none",
        ),
        ("count: 2", faults("kind: producer.crash, unreported: 5, target: {member: shop/1}"), "that is one process"),
    ],
)
def test_a_contradiction_is_refused(producer: str, more: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        scenario(producer, more)


@pytest.mark.parametrize(
    ("cluster", "fault", "message"),
    [
        ("controllers: 3, kafka: 2.8.2", "", "cluster.controllers: Kafka 2.8.2 keeps its metadata in ZooKeeper"),
        ("controllers: 3, kafka: 3.9.2, metadata: zookeeper", "", "leave controllers out, or choose metadata: kraft"),
        ("controllers: 3, driver: attached, bootstrap: 'k:9092'", "", "cluster.controllers: does not fit the attached"),
        ("controllers: 0", "", "cluster.controllers: must be at least 1"),
        ("controllers: 1", "controller.kill, target: {controller_follower: true}", "the only controller is the active"),
        ("brokers: 1", "controller.pause, target: {controller_follower: true}", "the only controller is the active"),
        (
            "brokers: 1",
            "clock.skew, ahead: 1h, target: {controller_follower: true}",
            "the only controller is the active",
        ),
        (
            "brokers: 1",
            "disk.slow, write: 50ms, target: {controller_follower: true}",
            "the only controller is the active",
        ),
        ("kafka: 2.8.2", "controller.kill, target: {controllers: majority}", "only one broker is a controller"),
        ("controllers: 3", "controller.kill, target: {broker: 1}", "it takes controller, controller_follower, control"),
        ("controllers: 3", "controller.kill, target: {controllers: some}", "controllers"),
        ("controllers: 3", "broker.kill, target: {controller: true}", "the active controller is no broker"),
        ("controllers: 3", "broker.pause, target: {controllers: all}", "target controllers does not fit this fault"),
        ("controllers: 3", "wire.drop, target: {controller: true}", "this fault is for brokers; choose a broker"),
        ("controllers: 3", "broker.kill, target: {broker: 101}", "brokers are numbered 1 to 3, not 101"),
        (
            "controllers: 3, voters: 3, kafka: 3.8.1",
            "",
            "cluster.voters: Kafka 3.8.1 has static quorums only; leave vot",
        ),
        ("voters: 3", "", "cluster.voters: a dynamic quorum needs dedicated controllers; give cluster.controllers"),
        ("controllers: 2, voters: 3", "", "cluster.voters: 3 voters do not fit 2 controllers; add controllers"),
        ("voters: 3, driver: attached, bootstrap: 'k:9092'", "", "cluster.voters: does not fit the attached"),
        ("voters: 3, kafka: 3.9.2, metadata: zookeeper", "", "cluster.voters: a dynamic quorum needs dedicated"),
        (
            "controllers: 3",
            "quorum.remove_voter, target: {controller: true}",
            "the quorum is static; for a dynamic one",
        ),
        (
            "driver: attached, bootstrap: 'k:9092', allow_faults: true",
            "quorum.remove_voter, target: {controller: true}",
            "the quorum is static",
        ),
        (
            "controllers: 3, voters: 1",
            "quorum.remove_voter, target: {controller: true}",
            "with 1 voters it may leave no majority; give cluster.voters 2 or more",
        ),
        (
            "controllers: 3, voters: 2",
            "quorum.replace_voter, target: {controller_follower: true}",
            "with 2 voters it may leave no majority; give cluster.voters 3 or more",
        ),
        (
            "controllers: 4, voters: 3",
            "quorum.remove_voter, target: {controllers: majority}",
            "target controllers does not fit this fault",
        ),
        (
            "controllers: 3, voters: 3",
            "quorum.add_voter, target: {controller_observer: true}",
            "none to add; give more",
        ),
        (
            "controllers: 3, voters: 3",
            "controller.kill, target: {controller_observer: true}",
            "does not fit this fault",
        ),
        (
            "controllers: 4, voters: 2",
            "controller.isolate, target: {controller: true}",
            "with 2 voters the others are no majority, so none becomes active; give cluster.voters 3",
        ),
        (
            "controllers: 3",
            "link.cut, target: {broker: 1}, other: {controller: true}",
            "the active controller is no br",
        ),
    ],
)
def test_controllers_that_do_not_fit_are_refused(cluster: str, fault: str, message: str) -> None:
    more = f"cluster: {{{cluster}}}\n"
    more += f"faults: [{{name: f, when: {{at: 1s}}, kind: {fault}}}]\n" if fault else ""
    with pytest.raises(ScenarioError, match=message):
        scenario("", more)


@pytest.mark.parametrize(
    ("after", "refused"), [("first.proven", True), ("first.healed", False), ("first.injected + 1s", True)]
)
def test_two_removals_count_together_unless_the_first_is_healed_before(after: str, refused: bool) -> None:
    removal = "kind: quorum.remove_voter, target: {controller: true}"
    faults = f"[{{name: first, {removal}, when: {{at: 1s}}, heal: {{after: 3s}}}}, "
    faults += f"{{name: second, {removal}, when: {{after: {after}}}}}]"
    more = f"cluster: {{controllers: 3, voters: 2}}\nfaults: {faults}\n"
    if refused:
        with pytest.raises(ScenarioError, match=r"may leave no majority with first; give cluster\.voters 3"):
            scenario("", more)
    else:
        scenario("", more)


@pytest.mark.parametrize(
    ("cluster", "more", "message"),
    [
        ("brokers: 2, racks: [a, b, c]", "", "3 racks do not fit 2 brokers: a rack would have none"),
        ("racks: [a, b, a]", "", "a is given 2 times; the brokers get the racks in turn"),
        ("racks: ['a b']", "", "cluster.racks"),
        ("racks: [a, b], driver: attached, bootstrap: 'k:9092'", "", "cluster.racks: does not fit the attached driver"),
        ("brokers: 3", "kind: broker.kill, target: {rack: a}", "the brokers have no racks; give cluster.racks"),
        ("racks: [a, b]", "kind: broker.kill, target: {rack: c}", r"no broker is in rack 'c' \(a, b\)"),
        ("racks: [a, b]", "kind: broker.stop, target: {rack: a}", "target rack does not fit this fault"),
        ("racks: [a, b]", "kind: link.cut, target: {broker: 1}, other: {rack: b}", "rack does not name one broker"),
    ],
)
def test_racks_that_do_not_fit_are_refused(cluster: str, more: str, message: str) -> None:
    text = f"cluster: {{{cluster}}}\n" + (f"faults: [{{name: f, when: {{at: 1s}}, {more}}}]\n" if more else "")
    with pytest.raises(ScenarioError, match=message):
        scenario("", text)


@pytest.mark.parametrize(
    ("cluster", "entry", "message"),
    [
        ("brokers: 3", "mode: subscribe, group: g, rack: a", "the brokers have no racks; give cluster.racks"),
        ("racks: [a, b]", "mode: subscribe, group: g, rack: c", r"consumers\[0\].rack: no broker is in rack 'c'"),
        (
            "racks: [a, b]",
            "mode: assign, rack: a, client: spark",
            "spark.* has no rack: its consumers read from leaders",
        ),
        ("racks: [a]", "mode: assign, rack: a, client: 'aiokafka:0.10.0'", "aiokafka has it from 0.14.0 on, not in"),
        ("racks: [a]", "mode: assign, rack: a, client: java, config: {client.rack: a}", "client.rack is also given as"),
        ("racks: [a]", "mode: share, group: g, rack: a, client: java", "rack: unknown key"),
        ("driver: attached, bootstrap: 'k:9092'", "mode: assign, rack: a", "the racks of an existing cluster are not"),
    ],
)
def test_a_rack_that_a_consumer_cannot_have_is_refused(cluster: str, entry: str, message: str) -> None:
    consumers = f"consumers: [{{name: c, topics: [orders], {entry}}}]\n"
    with pytest.raises(ScenarioError, match=message):
        scenario("", f"cluster: {{{cluster}}}\n{consumers}")


def test_brokers_get_the_racks_in_turn_and_a_consumer_with_one_reads_through_the_proxy() -> None:
    consumers = "consumers: [{name: c, mode: assign, topics: [orders], rack: b}]\n"
    found = scenario("", f"cluster: {{brokers: 5, racks: [a, b]}}\n{consumers}")
    assert (found.brokers_in("a"), found.brokers_in("b"), found.brokers_in("c")) == ([1, 3, 5], [2, 4], [])
    assert found.proxied and not scenario("", consumers.replace(", rack: b", "")).proxied


CONFIG = "kind: broker.config, settings: {max.connections: 9}, target: "


@pytest.mark.parametrize(
    ("kafka", "setting", "message"),
    [
        ("4.3.1", "max.connections: 9", ""),
        ("2.8.2", "leader.replication.throttled.rate: 9", ""),
        ("4.3.1", "listener.name.client.max.connection.creation.rate: 9", ""),
        (
            "4.3.1",
            "max.conections: 9",
            "no broker takes it while it runs .KIP-226.; give it in cluster.config; did you",
        ),
        ("4.3.1", "offsets.retention.minutes: 9", "give it in cluster.config, from the start"),
        ("4.3.1", "ssl.keystore.location: x", "which Aftershock sets itself"),
        ("4.3.1", "listener.name.client.ssl.keystore.location: x", "which Aftershock sets itself"),
        ("2.8.2", "producer.id.expiration.ms: 9", "from Kafka 3.4 on, not in 2.8.2"),
        ("3.9.2", "group.consumer.assignment.interval.ms: 9", "from Kafka 4.3 on, not in 3.9.2"),
        ("4.0.2", "log.message.downconversion.enable: true", "it exists up to 3.9"),
    ],
)
def test_a_setting_that_a_running_broker_does_not_take_is_refused(kafka: str, setting: str, message: str) -> None:
    fault = f"kind: broker.config, settings: {{{setting}}}, target: {{broker: 1}}"
    text = f"cluster: {{kafka: {kafka}}}\n{faults(fault)}"
    if not message:
        scenario("", text)
        return
    with pytest.raises(ScenarioError, match=rf"faults\[0\].settings.*{message}"):
        scenario("", text)


@pytest.mark.parametrize(
    ("first", "second", "refused"),
    [
        (f"{CONFIG}{{broker: 1}}", f"{CONFIG}{{broker: 1}}", True),
        (f"{CONFIG}{{broker: 1}}", f"{CONFIG}{{all_brokers: true}}", True),
        (f"{CONFIG}{{leader_of: orders/0}}", f"{CONFIG}{{leader_of: orders/1}}", True),
        (f"{CONFIG}{{broker: 1}}", f"{CONFIG}{{broker: 2}}", False),
        (f"{CONFIG}{{broker: 1}}", f"{CONFIG}{{broker: 1}}".replace("max.connections", "num.io.threads"), False),
        (f"{CONFIG}{{broker: 1}}, heal: {{after: 1s}}", f"{CONFIG}{{broker: 1}}".replace("9", "8"), "f0.healed"),
        (
            "kind: topic.config, target: {topic: orders}, settings: {retention.ms: 9}",
            "kind: topic.config, target: {topic: orders}, settings: {retention.ms: 8}",
            True,
        ),
        (
            "kind: topic.config, target: {topic: orders}, settings: {retention.ms: 9}",
            "kind: topic.config, target: {topic: other}, settings: {retention.ms: 8}",
            False,
        ),
    ],
)
def test_two_faults_that_change_one_setting_at_a_time_are_refused(first: str, second: str, refused: bool | str) -> None:
    text = faults(first, second)
    if isinstance(refused, str):
        before, after = text.rsplit("when: {at: 1s}", 1)
        text = f"{before}when: {{after: {refused}}}{after}"
    if refused is not True:
        scenario("", text)
        return
    with pytest.raises(ScenarioError, match=r"f0 and f1 both change .* let one wait"):
        scenario("", text)


SILENCED = """
title: silent
cluster: {brokers: 3%s}
topics: [{name: orders}]
producers: [{name: shop, topic: orders}]
consumers: [{mode: subscribe, name: billing, group: billing, members: 2, topics: [orders], config: {%s}}]
faults: [{name: gone, kind: %s, target: {member: billing/1}, when: {acked: 9}, heal: {after: %s}}]
"""
KIP_848 = "group.protocol: consumer"


@pytest.mark.parametrize(
    ("cluster", "config", "proof"),
    [
        ("", KIP_848, 60.0),
        (
            ", config: {group.consumer.session.timeout.ms: 6000, group.consumer.min.session.timeout.ms: 6000}",
            KIP_848,
            30.0,
        ),
        (", config: {group.consumer.session.timeout.ms: 60000}", KIP_848, 75.0),
        ("", "session.timeout.ms: 6000", 30.0),
        ("", "session.timeout.ms: 20000", 35.0),
        ("", "", 60.0),
    ],
)
def test_the_limit_of_a_proof_follows_the_session(cluster, config, proof):
    text = SILENCED % (cluster, config, "consumer.crash", "6s")
    found = parse(text, "mine.yaml")
    assert found.limits.proof == proof
    assert type(found).model_validate_json(found.model_dump_json()) == found


def test_the_limit_of_a_proof_allows_for_a_coordinator_that_begins_the_session_again():
    text = SILENCED % ("", KIP_848, "consumer.crash", "6s")
    kill = ", {name: c, kind: coordinator.kill, target: {coordinator_of: billing}, when: {after: gone.healed}}]"
    assert parse(text.replace("6s}}]", "6s}}" + kill), "mine.yaml").limits.proof == 105
    assert parse(text, "mine.yaml").limits.proof == 60


def test_a_given_limit_below_the_session_is_refused_with_both_numbers():
    text = SILENCED % ("", KIP_848, "consumer.crash", "6s") + "limits: {proof: 30s}\n"
    with pytest.raises(ScenarioError, match=r"mine.yaml:8: limits.proof: 30 s .* time-out of 45 s .*; give 60s"):
        parse(text, "mine.yaml")
    assert parse(text.replace("30s", "50s"), "mine.yaml").limits.proof == 50


SENDING = """
title: long
cluster: {brokers: 3}
topics: [{name: orders}]
producers: [{name: shop, topic: orders, rate: %s, records: %d}]
"""


@pytest.mark.parametrize(
    ("rate", "records", "drive"),
    [
        ("10/s", 600, 180),
        ("10/s", 601, 180.1),
        ("1000/s", 3_600_000, 3720),
        ("{bursts: {records: 10, every: 1s}}", 3600, 480),
    ],
)
def test_the_drive_is_longer_than_the_records_take_at_their_rate(rate, records, drive):
    found = parse(SENDING % (rate, records), "mine.yaml")
    assert found.limits.drive == pytest.approx(drive)
    assert type(found).model_validate_json(found.model_dump_json()) == found


def test_a_given_drive_stays_as_it_is():
    """A campaign bounds its runs by it."""
    assert parse(SENDING % ("10/s", 3000) + "limits: {drive: 20s}\n", "mine.yaml").limits.drive == 20


def test_a_pause_that_ends_before_the_session_is_refused():
    text = SILENCED % ("", "session.timeout.ms: 6000", "consumer.pause", "5s")
    with pytest.raises(ScenarioError, match=r"heal: gone ends after 5 s, before the session time-out of 6 s"):
        parse(text, "mine.yaml")
    parse(text.replace("after: 5s", "after: 15s"), "mine.yaml")


def test_broker_0_of_a_cluster_that_exists_is_a_target() -> None:
    text = """
title: t
cluster:
  {driver: attached, allow_faults: true, bootstrap: "h:9092", verbs: {kill: "kill {broker}", start: "start {broker}"}}
topics: [{name: orders}]
producers: [{name: shop, topic: orders}]
faults: [{name: kill, kind: broker.kill, target: {broker: 0}, when: {acked: 10}, heal: {after: 1s}}]
"""
    assert parse(text, "t.yaml").faults[0].target.selector == ("broker", 0)


SEVERAL = "title: t\n" + TOPICS + "producers: [{name: shop, topics: [orders, other], records: 100, %s}]\n"


@pytest.mark.parametrize(
    ("producer", "message"),
    [
        ("", ""),
        ("transactions: {records: 2}, client: java", ""),
        ("transactions: {records: 1}", "1 records do not reach 2 topics"),
        ("topic: orders", "give exactly one of topic, topics"),
        ("keys: 9, tombstone_every: 2", "tombstone_every: counts the records of one topic"),
        ("partitioner: round_robin", "partitioner: counts the records of one topic"),
        ("client: flink", "the runtime flink.* has no several topics"),
    ],
)
def test_a_producer_of_several_topics(producer: str, message: str) -> None:
    if not message:
        assert parse(SEVERAL % producer, "x").producers[0].written == ["orders", "other"]
        return
    with pytest.raises(ScenarioError, match=message):
        parse(SEVERAL % producer, "x")


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("kind: consumer.join, target: {member: billing/2}", ""),
        ("kind: consumer.leave, target: {random_member_of: g}", ""),
        ("kind: producer.join, target: {member: shop/1}", ""),
        ("kind: consumer.join, target: {member: billing/3}", "billing has members 1 to 2, not 3"),
        ("kind: consumer.join, target: {member: shop/1}", "only writes; .* use producer.join"),
        ("kind: producer.leave, target: {member: billing/1}", "also reads, in a group; use consumer.leave"),
        ("kind: producer.leave, for_good: true, heal: {after: 1s}, target: {member: shop/1}", "does not come back"),
    ],
)
def test_clients_that_join_and_leave(fault: str, message: str) -> None:
    if not message:
        scenario("", faults(fault))
        return
    with pytest.raises(ScenarioError, match=message):
        scenario("", faults(fault))


def test_a_client_joins_only_once() -> None:
    join = "kind: producer.join, target: {member: shop/1}"
    with pytest.raises(ScenarioError, match=r"producer\.join of member shop/1 is given 2 times"):
        scenario("", faults(join, join))


MOVE = "kind: partition.reassign, target: {partition: orders/0}"


@pytest.mark.parametrize(
    ("moves", "message"),
    [
        ([f"{MOVE}, throttle: 1MiB, cancel: true"], ""),
        ([f"{MOVE}, cancel: true"], "cancel: a move without a throttle is soon complete"),
        ([f"{MOVE}, throttle: 1MiB", f"{MOVE}, throttle: 1MiB"], "both change follower.replication.throttled.rate"),
        ([f"{MOVE}, throttle: 1MiB", MOVE], ""),
        (
            [
                f"{MOVE}, throttle: 1MiB",
                "kind: broker.config, target: {broker: 1}, settings: {leader.replication.throttled.rate: 9}",
            ],
            "both change leader.replication.throttled.rate",
        ),
    ],
)
def test_a_throttled_move(moves: list[str], message: str) -> None:
    if not message:
        scenario("", faults(*moves))
        return
    with pytest.raises(ScenarioError, match=message):
        scenario("", faults(*moves))


def test_a_folder_is_lost_as_a_whole() -> None:
    text = "cluster: {config: {log.dirs: 'd1,d2'}}\n"
    text += faults("kind: disk.limit, target: {leader_of: orders/0}, free: 1MiB")
    with pytest.raises(ScenarioError, match="the folder is lost as a whole; leave free out"):
        scenario("", text)
