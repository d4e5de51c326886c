"""Rules for the entries of a group, and the group as one reader."""

import pytest

from chaos.errors import ScenarioError
from chaos.kafka.settings import Config
from chaos.scenario.load import parse
from chaos.scenario.model import Scenario
from chaos.scenario.setting_rules import limit_problems
from chaos.setup.clients import Subscribe
from checks.audit.facts.readers import readers_of


def scenario(*entries: str, faults: str = "") -> Scenario:
    consumers = "".join(f"  - {{mode: subscribe, group: g, topics: [orders], {entry}}}\n" for entry in entries)
    head = "title: t\ntopics: [{name: orders, partitions: 3}]\nproducers: [{name: shop, topic: orders, records: 100}]\n"
    return parse(f"{head}consumers:\n{consumers}{faults}", "x")


def strategy(name: str, assignors: str) -> str:
    return f"name: {name}, config: {{partition.assignment.strategy: '{assignors}', auto.offset.reset: earliest}}"


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ((strategy("a", "range"), strategy("b", "roundrobin")), "INCONSISTENT_GROUP_PROTOCOL"),
        ((strategy("a", "range"), strategy("b", "cooperative-sticky")), "INCONSISTENT_GROUP_PROTOCOL"),
        ((strategy("a", "range,cooperative-sticky"),), "mixes eager and cooperative"),
        (("name: a", "name: b, config: {isolation.level: read_uncommitted}"), "differ in isolation.level"),
        (("name: a, static: true, threads: 2, members: 2",), "would share one group.instance.id"),
        (("name: a, static: x",), "static"),
        (("name: a, config: {group.instance.id: x}",), "group.instance.id is set by Aftershock itself"),
        (("name: a, static: 'i-{member}'", "name: b, static: 'i-{member}'"), "each fences the other"),
    ],
)
def test_entries_that_cannot_be_one_group_are_refused(entries: tuple[str, ...], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        scenario(*entries)


def test_the_place_of_mixed_assignors_is_the_key_that_has_them() -> None:
    mixed = "{partition.assignment.strategy: 'range,cooperative-sticky'}"
    processor = f"processors: [{{name: p, group: h, topics: [orders], to: o, consumer_config: {mixed}}}]"
    text = "title: t\ntopics: [{name: orders}, {name: o}]\nproducers: [{name: shop, topic: orders, records: 100}]\n"
    with pytest.raises(ScenarioError, match=r"x:4: processors\[0\].consumer_config: .* mixes eager"):
        parse(text + processor, "x")


SESSION = "name: a, config: {session.timeout.ms: 2000}"


@pytest.mark.parametrize(
    ("entry", "cluster", "message"),
    [
        (
            SESSION,
            "",
            r"x:5: consumers\[0\].config: session.timeout.ms=2000 is below group.min.session.timeout.ms=6000",
        ),
        ("name: a, config: {session.timeout.ms: '2000'}", "", "session.timeout.ms=2000 is below"),
        (SESSION, "config: {group.min.session.timeout.ms: 2000}", ""),
        ("name: a, config: {session.timeout.ms: 1800001}", "", "above group.max.session.timeout.ms=1800000"),
        ("name: a, config: {session.timeout.ms: 1800000}", "", ""),
        ("name: a", "config: {group.max.session.timeout.ms: 30000}", "timeout.ms=45000 is above group.max.*=30000"),
        (
            "name: a, client: sarama, config: {Consumer.Group.Session.Timeout: 5s}",
            "",
            "session.timeout.ms=5000 is below",
        ),
        ("name: a, client: 'confluent:1.6.1'", "config: {group.min.session.timeout.ms: 20000}", "=10000 is below"),
        ("name: a, config: {group.protocol: consumer}", "config: {group.max.session.timeout.ms: 30000}", ""),
        (SESSION, "driver: attached, bootstrap: 'k:9092'", ""),  # the cluster is asked
        (
            SESSION,
            "driver: attached, bootstrap: 'k:9092', asked: true, config: {group.min.session.timeout.ms: '10'}",
            "",
        ),
        (
            SESSION,
            "driver: attached, bootstrap: 'k:9092', asked: true, config: {group.min.session.timeout.ms: '2001'}",
            "=2000 is below group.min.session.timeout.ms=2001",
        ),
    ],
)
def test_a_session_that_the_brokers_refuse_is_refused_at_load(entry: str, cluster: str, message: str) -> None:
    more = f"cluster: {{{cluster}}}\n" if cluster else ""
    if not message:
        scenario(entry, faults=more)
        return
    with pytest.raises(ScenarioError, match=f"(?s){message}.*INVALID_SESSION_TIMEOUT"):
        scenario(entry, faults=more)


KIP_848 = "name: a, config: {group.protocol: consumer}"
SHARE = "name: a, client: java, settings: {%s}"


def ranged(entry: str, cluster: str) -> None:
    shares = entry.startswith("name: a, client")
    mode = "share" if shares else "subscribe"
    text = f"""title: t
cluster:
  kafka: 4.3.1
{cluster}
topics: [{{name: orders}}]
producers: [{{name: shop, topic: orders, records: 100}}]
consumers:
  - {{mode: {mode}, group: g, topics: [orders], {entry}}}
"""
    parse(text, "x")


@pytest.mark.parametrize(
    ("entry", "settings", "message"),
    [
        (
            KIP_848,
            "group.consumer.session.timeout.ms: 6000",
            r"x:4: cluster.config: group.consumer.session.timeout.ms=6000 is below "
            r"group.consumer.min.session.timeout.ms=45000 \(its default\), so a broker does not start",
        ),
        (KIP_848, "group.consumer.session.timeout.ms: 6000, group.consumer.min.session.timeout.ms: 6000", ""),
        (KIP_848, "group.consumer.min.session.timeout.ms: 6000", ""),
        (KIP_848, "group.consumer.session.timeout.ms: '60000'", ""),
        (KIP_848, "group.consumer.session.timeout.ms: 60001", "=60001 is above group.consumer.max.session.timeout.ms"),
        (KIP_848, "group.consumer.max.session.timeout.ms: 30000", "timeout.ms=45000 is above .*=30000, so a broker"),
        (
            KIP_848,
            "group.consumer.session.timeout.ms: 5000, group.consumer.min.session.timeout.ms: 5000",
            "group.consumer.heartbeat.interval.ms=5000 is not below group.consumer.session.timeout.ms=5000",
        ),
        (KIP_848, "group.consumer.heartbeat.interval.ms: 1000", "=1000 is below group.consumer.min.heartbeat"),
        ("name: a", "group.streams.heartbeat.interval.ms: 15001", "=15001 is above group.streams.max.heartbeat"),
        ("name: a", "group.share.record.lock.duration.ms: 5000", "=5000 is below group.share.min.record.lock.duration"),
        (
            SHARE % "share.session.timeout.ms: 6000",
            "",
            r"x:8: consumers\[0\].settings: .*=6000 is below .*INV",
        ),
        (SHARE % "share.session.timeout.ms: 6000", "group.share.min.session.timeout.ms: 6000", ""),
        (SHARE % "share.delivery.count.limit: 11", "", "=11 is above group.share.max.delivery.count.limit=10"),
        (SHARE % "share.delivery.count.limit: 10", "", ""),
    ],
)
def test_settings_of_new_groups_that_the_brokers_refuse_are_refused_at_load(
    entry: str, settings: str, message: str
) -> None:
    cluster = f"  config: {{{settings}}}"
    if not message:
        ranged(entry, cluster)
        return
    with pytest.raises(ScenarioError, match=message):
        ranged(entry, cluster)


def test_what_a_cluster_answers_limits_share_groups_and_gives_proofs_their_time() -> None:
    text = """
title: t
cluster: {driver: attached, bootstrap: 'k:9092'}
topics: [{name: orders}]
producers: [{name: shop, topic: orders, records: 100}]
consumers:
  - {mode: subscribe, name: a, group: g, members: 2, topics: [orders], config: {group.protocol: consumer}}
  - {mode: share, name: s, group: h, client: java, topics: [orders], settings: {share.session.timeout.ms: 50000}}
faults: [{name: f, kind: consumer.pause, target: {member: a/1}, when: {acked: 9}}]
"""
    before = parse(text, "x")
    assert list(limit_problems(before, before.expect)) == []
    assert before.limits.proof == 60
    answered: Config = {"group.consumer.session.timeout.ms": "60000", "group.share.max.session.timeout.ms": "49999"}
    after = before.with_settings(answered, before.topics)
    (problem,) = limit_problems(after, after.expect)
    assert "share.session.timeout.ms=50000 is above group.share.max.session.timeout.ms=49999" in problem
    assert after.limits.proof == 75 and not after.unasked


def test_a_scenario_may_show_the_refusal_of_a_session() -> None:
    scenario(SESSION, faults="expect: {client_errors: {a: {INVALID_SESSION_TIMEOUT: 1}}}")
    with pytest.raises(ScenarioError, match="is below"):
        scenario(SESSION, "name: b", faults="expect: {client_errors: {b: {INVALID_SESSION_TIMEOUT: 1}}}")


@pytest.mark.parametrize(("timeout", "refused"), [("900s", False), ("901s", True)])
def test_a_transaction_that_the_brokers_refuse_is_refused_at_load(timeout: str, refused: bool) -> None:
    writer = f"producers: [{{name: shop, topic: orders, records: 100, transactions: {{timeout: {timeout}}}}}]"
    processor = "processors: [{name: p, group: h, topics: [orders], to: o, consumer_config: {session.timeout.ms: 9}}]"
    text = "title: t\ntopics: [{name: orders}, {name: o}]\n" + writer
    if not refused:
        parse(text, "x")
    else:
        with pytest.raises(
            ScenarioError, match=r"x:3: producers\[0\].transactions.timeout: .*INVALID_TRANSACTION_TIMEOUT"
        ):
            parse(text, "x")
    with pytest.raises(ScenarioError, match=r"processors\[0\].consumer_config: session.timeout.ms=9 is below"):
        parse(f"{text}\n{processor}", "x")


def test_only_a_static_member_can_be_fenced() -> None:
    fence = "faults: [{name: f, kind: consumer.fence, target: {member: a/1}, when: {at: 1s}}]\n"
    scenario("name: a, static: true", faults=fence)
    with pytest.raises(ScenarioError, match="a is not static, so no other process can fence it"):
        scenario("name: a", faults=fence)


def test_with_kip_848_the_broker_refuses_the_later_process_so_none_is_fenced() -> None:
    fence = "faults: [{name: f, kind: consumer.fence, target: {random_member_of: g}, when: {at: 1s}}]\n"
    with pytest.raises(ScenarioError, match="UNRELEASED_INSTANCE_ID"):
        scenario("name: a, static: true, config: {group.protocol: consumer}", faults=fence)
    with pytest.raises(ScenarioError, match="b is not static"):
        scenario("name: a, static: true", "name: b", faults=fence)


@pytest.mark.parametrize(
    ("target", "when", "message"),
    [
        ("random_member_of: x", "at: 1s", "no consumer has the group id 'x'"),
        ("random_member_of: g", "delivered: {group: x, records: 1}", "no consumer has the group id 'x'"),
        ("random_member_of: g", "delivered: {consumer: g, records: 1}", "'g' is not one of the consumers"),
        ("random_member_of: g", "delivered: {consumer: a, group: g, records: 1}", "exactly one of consumer, group"),
        ("random_member_of: g", "delivered: {group: g, records: 101}", "101 is never reached, 100 records are sent"),
    ],
)
def test_a_fault_may_name_the_group(target: str, when: str, message: str) -> None:
    fault = "faults: [{{name: f, kind: consumer.crash, target: {{{}}}, when: {{{}}}}}]\n"
    good = fault.format("random_member_of: g", "delivered: {group: g, records: 9}")
    assert scenario("name: a", "name: b", faults=good).groups == {"g": ["a", "b"]}
    with pytest.raises(ScenarioError, match=message):
        scenario("name: a", "name: b", faults=fault.format(target, when))


def test_static_members_have_ids_by_their_number() -> None:
    named, templated, dynamic = (
        Subscribe.model_validate({"mode": "subscribe", "name": "a", "group": "g", "topics": ["t"], "static": static})
        for static in (True, "pod-{member}", False)
    )
    assert (named.instance_id(2), templated.instance_id(2), dynamic.instance_id(2)) == ("a-2", "pod-2", None)


def test_a_group_of_several_entries_is_one_reader_with_the_settings_of_each() -> None:
    entries = strategy("a", "range,roundrobin"), strategy("b", "roundrobin,range").replace("earliest", "latest")
    (group,) = readers_of(scenario(*entries))
    assert (group.name, group.members, group.assignor) == ("g", 2, "")
    assert [group.seen_by(c).reset for c in ("a/1", "b/1")] == ["earliest", "latest"]


def test_the_assignor_of_a_generation_is_what_most_of_its_members_vote_for() -> None:
    (group,) = readers_of(scenario(strategy("a", "range,roundrobin"), strategy("b", "roundrobin")))
    assert group.assignors_for(["a/1"]) == ("range",)
    assert group.assignors_for(["a/1", "b/1"]) == ("roundrobin",)
    (group,) = readers_of(scenario(strategy("a", "range,roundrobin"), strategy("b", "roundrobin,range")))
    assert group.assignors_for(["a/1", "b/1"]) == ("range", "roundrobin")
    assert group.assignors_for(["a/1", "a/2", "b/1"]) == ("range",)
    assert group.assignors_for(["somebody"]) == group.assignors_for([]) == ()
    kip_848 = "name: b, config: {group.protocol: consumer, auto.offset.reset: earliest}"
    (group,) = readers_of(scenario(strategy("a", "range"), kip_848))
    assert group.assignors_for(["a/1"]) == ("range",)
    assert group.assignors_for(["a/1", "b/1"]) == group.assignors_for(["b/1"]) == ("uniform",)


RANGE, BOTH, COOPERATIVE = (
    f"client: java, config: {{partition.assignment.strategy: '{names}'}}"
    for names in ("range", "cooperative-sticky,range", "cooperative-sticky")
)


def bounce(*moves: str) -> str:
    """Return faults: members that join, such as +b/1, or leave for good, such as -a/1."""
    kinds = {"+": "kind: consumer.join", "-": "kind: consumer.leave, for_good: true"}
    lines = (
        f"  - {{name: f{n}, {kinds[m[0]]}, target: {{member: {m[1:]}}}, when: {{acked: {n + 1}}}}}\n"
        for n, m in enumerate(moves)
    )
    return "faults:\n" + "".join(lines)


def test_a_group_may_change_its_assignors_by_two_bounces() -> None:
    entries = f"name: a, {RANGE}", f"name: b, {BOTH}", f"name: c, {COOPERATIVE}"
    moves = ["+b/1", "-a/1", "+c/1", "-b/1"]
    scenario(*entries, faults=bounce(*moves))
    with pytest.raises(ScenarioError, match=r"entries of group g at the end have no common assignor \(a: range;"):
        scenario(*entries, faults=bounce("+b/1", "+c/1", "-b/1"))
    with pytest.raises(ScenarioError, match="entries of group g have no common assignor"):
        scenario(*entries, faults=bounce("-a/1", "-b/1"))
    with pytest.raises(ScenarioError, match=r"on the way have no common assignor \(a: range; c: cooperative-sticky\)"):
        scenario(entries[0], entries[2], faults=bounce("+c/1", "-a/1"))
    with pytest.raises(ScenarioError, match="on the way have no common assignor"):
        scenario(*entries, f"name: d, {RANGE}", faults=bounce(*moves))


def test_a_scenario_may_be_about_the_refusal_of_a_member() -> None:
    entries = f"name: a, {RANGE}", f"name: c, admitted: 0, {COOPERATIVE}"
    about = "expect: {client_errors: {c: {INCONSISTENT_GROUP_PROTOCOL: 1}}}\n"
    scenario(*entries, faults=bounce("+c/1") + about)
    with pytest.raises(ScenarioError, match="no common assignor"):
        scenario(*entries, faults=bounce("+c/1"))


def test_a_consumer_that_leaves_for_good_is_not_healed() -> None:
    leave = "faults: [{name: f, kind: consumer.leave, for_good: true, target: {member: a/1}, when: {at: 1s}, heal: "
    with pytest.raises(ScenarioError, match="a consumer that leaves for_good does not come back"):
        scenario("name: a", faults=leave + "{when: {after: f.proven}}}]\n")


@pytest.mark.parametrize(("client", "reset"), [("confluent", "latest"), ("sarama", "latest"), ("franz-go", "earliest")])
def test_a_reader_without_the_setting_resets_as_its_library_does(client: str, reset: str) -> None:
    (group,) = readers_of(scenario(f"name: a, client: {client}"))
    assert group.reset == reset
