"""Derived contracts: what is forbidden, allowed or not decided, by settings and faults, and why."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from chaos.anomalies import ANOMALIES
from chaos.campaign.subject import raw_of
from chaos.errors import ScenarioError
from chaos.guarantees.contract import Line, contract, derive, unpromised
from chaos.guarantees.situations import governing, reading, sharing, writing
from chaos.guarantees.table import FAULT_FACTS, PREFIX, anomalies, facts_in
from chaos.scenario.expect import Bound
from chaos.scenario.load import find, load, parse
from chaos.scenario.model import Scenario
from chaos.scenario.shipped import shipped, sides

SIDES = sides()
IN_SYNC = {"min.insync.replicas": 2}
PLAIN = {"acks": "all", "enable.idempotence": False}
UNCLEAN = {"unclean.leader.election.enable": True}
KILL = {"name": "kill", "kind": "broker.kill", "target": {"leader_of": "orders/0"}, "when": {"acked": 100}}
ALL_LINES = {(kind, split) for kind, anomaly in ANOMALIES.items() for split in anomaly.splits or ("",)}

BASE: dict[str, Any] = {
    "title": "t",
    "topics": [{"name": "orders", "partitions": 2, "replication_factor": 3, "config": IN_SYNC}],
    "producers": [{"name": "shop", "topic": "orders", "records": 500}],
    "consumers": [
        {
            "mode": "subscribe",
            "name": "billing",
            "group": "billing",
            "topics": ["orders"],
            "config": {"auto.offset.reset": "earliest"},
        }
    ],
}


def fault(kind: str, **fields: Any) -> dict[str, Any]:
    """Return a fault; its target is the leader of orders/0 if it has none."""
    target = fields.pop("target", {"leader_of": "orders/0"})
    return {"name": fields.pop("name", "fault"), "kind": kind, "target": target, "when": {"acked": 100}, **fields}


def member(kind: str, name: str = "billing/1", **fields: Any) -> dict[str, Any]:
    return fault(kind, target={"member": name}, **fields)


def scenario(*faults: dict[str, Any], expect: Any = None, **parts: Any) -> Scenario:
    """Return the base scenario with faults and other parts. `producer`, `consumer`, `topic` change the first entry."""
    raw = copy.deepcopy(BASE)
    for key, entries in (("producer", "producers"), ("consumer", "consumers"), ("topic", "topics")):
        raw[entries][0] |= parts.pop(key, {})
    raw |= {"faults": list(faults), **parts}
    if expect is not None:
        raw["expect"] = expect
    return parse(yaml.safe_dump(raw), "test")


def states(found: Scenario, state: str = "allowed") -> set[str]:
    return {line.name for line in contract(found).lines if line.state == state}


LOSES = {"lost_write", "offset_reuse", "dirty_read", "skipped_delivery", "duplicate_delivery.legal"}
"""What may appear when records are gone that all in-sync replicas had."""


@pytest.mark.parametrize(
    ("found", "allowed"),
    [
        (scenario(), set()),
        (scenario(KILL), {"duplicate_delivery.legal"}),
        (scenario(fault("controller.kill", target={"controllers": "all"})), {"duplicate_delivery.legal"}),
        (scenario(fault("controller.pause", target={"controller": True}), cluster={"controllers": 3}), set()),
        (scenario(fault("controller.isolate", target={"controller": True}), cluster={"controllers": 3}), set()),
        (
            scenario(
                fault("controller.isolate", target={"controller": True}),
                cluster={"controllers": 3, "kafka": "3.6.2"},
            ),
            {"competing_controllers"},
        ),
        (
            scenario(
                fault("controller.kill", target={"controller": True}), cluster={"controllers": 3, "kafka": "3.6.2"}
            ),
            set(),
        ),
        (
            scenario(fault("broker.kill", target={"rack": "a"}), cluster={"racks": ["a", "b", "c"]}),
            {"duplicate_delivery.legal"},
        ),
        (scenario(fault("broker.wipe")), {"duplicate_delivery.legal"}),
        (scenario(fault("log.truncate", target={"isr_of": "orders/0"})), LOSES),
        (
            scenario(fault("log.truncate", target={"isr_of": "orders/0"}), topic={"config": {"flush.messages": 1}}),
            {"duplicate_delivery.legal"},
        ),
        (
            scenario(KILL, producer={"config": PLAIN}),
            {"duplicate_delivery.legal", "duplicate_write", "reordered_write"},
        ),
        (
            scenario(KILL, producer={"client": "java", "config": PLAIN | {"max.in.flight.requests.per.connection": 1}}),
            {"duplicate_delivery.legal", "duplicate_write"},
        ),
        (
            scenario(KILL, producer={"client": "java", "config": {"acks": 1}}),
            {"lost_write", "offset_reuse", "duplicate_write", "reordered_write", "duplicate_delivery.legal"},
        ),
        (scenario(member("consumer.crash")), {"duplicate_delivery.legal"}),
        (scenario(member("consumer.crash"), producer={"config": {"acks": 1}}), {"duplicate_delivery.legal"}),
        (scenario(member("consumer.leave")), set()),
        (scenario(member("consumer.leave"), consumer={"commit": {"kind": "async"}}), {"duplicate_delivery.legal"}),
        (
            scenario(member("consumer.crash"), consumer={"commit": {"when": "before_processing"}}),
            {"lost_processing", "overcommit"},
        ),
        (scenario(consumer={"commit": {"when": "before_processing"}}), {"overcommit"}),
        (scenario(member("producer.crash", "shop/1"), producer={"resend": True}), {"duplicate_write"}),
        (scenario(member("producer.crash", "shop/1")), {"duplicate_write"}),
        (scenario(member("producer.crash", "shop/1"), producer={"transactions": {}}), {"hanging_transaction"}),
        (scenario(fault("topic.delete_records", target={"topic": "orders"}, leave=0)), {"evicted_delivery"}),
    ],
)
def test_settings_and_faults_decide_what_may_appear(found: Scenario, allowed: set[str]) -> None:
    assert states(found) == allowed


@pytest.mark.parametrize("kind", ["broker.kill", "broker.stop", "broker.pause"])
def test_one_replica_survives_a_restart_whatever_acks_are(kind: str) -> None:
    alone = {"replication_factor": 1, "config": {}}
    for acks in (1, "all"):
        found = scenario(fault(kind), topic=alone, producer={"config": {"acks": acks, "enable.idempotence": False}})
        assert contract(found).line("lost_write").state == "forbidden"
        assert states(scenario(fault(kind), topic=alone, cluster={"config": UNCLEAN})) == {"duplicate_delivery.legal"}
    assert "lost_write" in states(scenario(fault("broker.wipe"), topic=alone))


def test_a_release_decides_by_its_defaults() -> None:
    old = scenario(KILL, producer={"client": "java:2.8.2", "config": {"linger.ms": 5}})
    new = scenario(KILL, producer={"client": "java:4.3.1", "config": {"linger.ms": 5}})
    assert {"lost_write", "duplicate_write", "reordered_write"} <= states(old)
    assert states(new) == {"duplicate_delivery.legal"}
    assert "acks=1 (default of kafka-clients 2.8.2)" in contract(old).line("lost_write").reason


def test_entries_are_united_and_a_reason_names_the_entry_that_allows() -> None:
    weak = {"name": "till", "topic": "orders", "records": 500, "config": {"acks": 1, "enable.idempotence": False}}
    found = contract(scenario(KILL, producers=[*BASE["producers"], weak]))
    for name in ("lost_write", "duplicate_write"):
        line = found.line(name)
        assert (line.state, line.bound.max) == ("allowed", None)
        assert "till to orders" in line.reason
        assert "shop to orders" not in line.reason
        assert "kill (broker.kill)" in line.reason


def test_members_with_other_commits_widen_the_contract_of_their_group() -> None:
    other = {**BASE["consumers"][0], "name": "hasty", "commit": {"when": "before_processing"}}
    mixed = [BASE["consumers"][0], other]
    assert states(scenario(consumers=mixed)) == {"overcommit"}
    crashed = contract(scenario(member("consumer.crash", "hasty/1"), consumers=mixed))
    assert "hasty on orders" in crashed.line("lost_processing").reason
    assert crashed.line("duplicate_delivery", "legal").state == "allowed"


def test_a_fault_of_a_connection_concerns_only_the_clients_that_it_names() -> None:
    cut = fault("wire.cut", api="Produce", client="till/*", side="response", count=1)
    assert states(scenario(cut, producer={"config": PLAIN})) == set()
    assert "duplicate_write" in states(scenario(cut | {"client": "shop/*"}, producer={"config": PLAIN}))
    assert states(scenario(cut | {"client": "*", "api": "Fetch"}, producer={"config": PLAIN})) == {
        "duplicate_delivery.legal"
    }


def test_records_that_a_fault_gives_twice_break_only_the_promises_of_readers_that_get_them():
    twice = fault("wire.duplicate", api="Fetch", side="response", target={"all_brokers": True})
    again = {"duplicate_delivery.illegal", "nonmonotonic_poll", "commit_rewind"}
    assert states(scenario(twice)) == again
    assert states(scenario(twice | {"client": "shop/*"})) == set()


def test_faults_of_the_frames_of_an_application_change_no_promise_to_our_clients():
    till = {"name": "till", "command": ["till", "{bootstrap}"], "group": "till", "reads": ["orders"]}
    effects = [{"name": "bills", "files": "bills.jsonl", "id": "$.id"}]
    apps = {"apps": [till], "effects": effects, "producer": {"value": {"template": "order {id}"}}}
    faults = [fault(f"wire.{kind}", name=kind, app="till") for kind in ("cut", "repeat", "duplicate", "corrupt")]
    assert states(scenario(*faults, **apps), "allowed") == states(scenario(**apps), "allowed") == set()


def test_a_change_of_topic_settings_counts_from_both_sides() -> None:
    unclean = fault("topic.config", target={"topic": "orders"}, settings=UNCLEAN)
    kills = [fault("broker.kill", name=f"kill-{n}", target={"broker": n}) for n in (1, 2, 3)]
    assert "lost_write" not in states(scenario(*kills))
    assert "lost_write" in states(scenario(*kills, unclean | {"name": "unclean"}))


def test_what_depends_on_times_is_not_decided_and_bounds_the_anomaly() -> None:
    kills = [fault("broker.kill", name=f"kill-{n}", target={"broker": n}) for n in (1, 2)]
    line = contract(scenario(*kills, fault("broker.wipe"))).line("lost_write")
    assert (line.state, line.bound.max) == ("not decided", 0)


@pytest.mark.parametrize(
    ("start", "reset", "state"),
    [
        ("group", "latest", "not decided"),  # before the first checkpoint
        ("latest", "latest", "not decided"),
        ("group", "earliest", "forbidden"),
        ("earliest", "latest", "forbidden"),  # KafkaSource resets to what the start means
    ],
)
def test_a_job_with_checkpoints_goes_on_there_and_not_at_the_committed_offset(
    start: str, reset: str, state: str
) -> None:
    job = {"mode": "assign", "name": "job", "group": "g", "topics": ["orders"], "client": "flink", "start": start}
    job |= {"config": {"auto.offset.reset": reset}, "commit": {"when": "on_checkpoint", "kind": "async"}}
    crash = fault("consumer.crash", target={"member": "job/1"})
    assert contract(scenario(crash, consumers=[job])).line("skipped_delivery").state == state


def test_an_unknown_default_of_an_existing_cluster_is_not_decided_by_name() -> None:
    parts = {"cluster": {"driver": "attached", "bootstrap": "a:9092"}}
    line = contract(scenario(member("consumer.crash"), **parts)).line("evicted_delivery")
    assert line.state == "not decided"
    assert "on an existing cluster, which is not known" in line.reason


def test_a_cluster_that_answered_decides_as_a_new_one_with_these_settings() -> None:
    answered = {
        "offsets.retention.minutes": 10_080,
        "log.retention.hours": 168,
        "log.cleanup.policy": "delete",
        "min.insync.replicas": 1,
        "unclean.leader.election.enable": False,
        "offsets.topic.replication.factor": 3,
        "transaction.state.log.replication.factor": 3,
        "transaction.state.log.min.isr": 2,
    }
    where = {"driver": "attached", "bootstrap": "a:9092", "allow_faults": True, "verbs": {"kill": "k", "start": "s"}}
    asked = scenario(member("consumer.crash"), cluster={**where, "config": answered, "asked": True})
    new = contract(scenario(member("consumer.crash"), cluster={"config": answered}))
    lines = contract(asked).lines
    assert [(x.name, x.state) for x in lines] == [(x.name, x.state) for x in new.lines]
    assert contract(asked).line("evicted_delivery").state == "forbidden"
    short = scenario(
        member("consumer.crash"), cluster={**where, "config": {**answered, "log.retention.ms": 5}, "asked": True}
    )
    assert contract(short).line("evicted_delivery").state != "forbidden"
    assert "config" not in raw_of(asked)["cluster"] and "asked" not in raw_of(asked)["cluster"]
    with pytest.raises(ScenarioError, match=r"cluster\.config: does not fit the attached driver"):
        scenario(cluster={**where, "config": answered})
    with pytest.raises(ScenarioError, match=r"cluster\.asked: does not fit the process driver"):
        scenario(cluster={"asked": True})


def test_settings_that_a_client_refuses_are_refused_at_load() -> None:
    with pytest.raises(ScenarioError, match="acks=1 contradicts"):
        scenario(producer={"config": {"acks": 1, "enable.idempotence": True}})


@pytest.mark.parametrize(("to", "allowed"), [("earliest", "duplicate_delivery.legal"), ("latest", "skipped_delivery")])
def test_offsets_that_are_reset_allow_what_their_direction_causes(to: str, allowed: str) -> None:
    reset = fault("group.reset_offsets", target={"group": "billing"}, to=to)
    assert states(scenario(reset)) == {allowed}


def test_a_group_that_shares_its_id_with_a_job_is_not_decided_while_it_may_be_empty() -> None:
    job = {"mode": "assign", "name": "job", "group": "billing", "topics": ["orders"], "commit": {"when": "after_batch"}}
    both = [BASE["consumers"][0], job]
    assert states(scenario(consumers=both), "not decided") == set()
    crashed = scenario(member("consumer.crash"), consumers=both)
    assert {"skipped_delivery", "foreign_commit"} <= states(crashed, "not decided")
    jobs = [job | {"start": "group"}, job | {"start": "group", "name": "other"}]
    assert {"skipped_delivery", "foreign_commit"} <= states(scenario(member("consumer.crash", "job/1"), consumers=jobs))


def test_a_client_of_another_library_widens_the_contract() -> None:
    """`--client` sets it for each entry, and `--set` a setting."""
    text = yaml.safe_dump(BASE | {"faults": [KILL], "producers": [{"name": "shop", "topic": "orders", "config": {}}]})
    found = {
        client: states(parse(text, "test", [f"{e}.*.client={client!r}" for e in ("producers", "consumers")]))
        for client in ("java:2.8.2", "java:4.3.1", "confluent", "franz-go")
    }
    assert "lost_write" in found["java:2.8.2"]
    assert found["java:4.3.1"] == found["franz-go"] == {"duplicate_delivery.legal"}
    assert found["confluent"] == {"duplicate_delivery.legal", "duplicate_write", "reordered_write"}
    assert "lost_write" in states(parse(text, "test", ["producers.shop.config.acks=1"]))


def test_no_expect_is_promised_and_an_empty_one_forbids_everything() -> None:
    assert scenario(KILL).expect.promised
    assert contract(scenario(KILL, expect="promised")) == contract(scenario(KILL))
    closed = contract(scenario(KILL, expect={}))
    assert {line.state for line in closed.lines} == {"given"}
    assert {bound.max for bound in closed.counts().values()} == {0}


def test_a_named_line_counts_before_the_derived_one_also_after_a_round_trip() -> None:
    found = scenario(KILL, expect={"promised": True, "duplicate_delivery": 0, "produce_unavailability": {"max": "9s"}})
    for again in (found, Scenario.model_validate_json(found.model_dump_json()), Scenario(**found.model_dump())):
        line = contract(again).line("duplicate_delivery", "legal")
        assert (line.state, line.bound.max) == ("given", 0)
        assert contract(again).line("lost_write").state == "forbidden"
        assert again.expect.times() == {("produce_unavailability", "max"): 9.0}


@pytest.mark.parametrize(
    ("expect", "message"),
    [
        ("promise", "'promise' is not understood; write promised"),
        ([], r"\[\] is not understood; write promised"),
        ({"promised": "perhaps"}, "expect.promised"),
    ],
)
def test_another_text_is_refused(expect: Any, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        scenario(expect=expect)


def test_an_explanation_of_an_unknown_anomaly_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"no anomaly 'lost_writes' \(did you mean lost_write\?\)"):
        scenario(promised_differs={"lost_writes": "a reason"})


def differences(scenario: Scenario) -> list[Line]:
    """Return the derived lines that do not imply the contract that a scenario states.

    A derived line implies the stated one unless the stated one forbids the anomaly (its maximum is 0) and the derived
    one does not, or the stated one demands it (its minimum is above 0) and the derived one does not allow it. A
    maximum above 0 is a count of this scenario, which no setting promises. A stated line that allows what the settings
    forbid is implied: the derived contract is the stricter one.
    """
    stated = scenario.expect.counts()

    def differs(line: Line) -> bool:
        bound = stated[line.kind, line.split]
        return (bound.max == 0 and line.state != "forbidden") or (bound.min > 0 and line.state != "allowed")

    return [] if scenario.expect.promised else [line for line in derive(scenario) if differs(line)]


@pytest.mark.parametrize(("name", "side"), SIDES)
def test_the_derived_contract_of_a_shipped_scenario_implies_its_own_or_the_file_says_why_not(
    name: str, side: str
) -> None:
    found = load(shipped()[name], variant=side)
    assert not found.expect.promised, "a shipped scenario states its contract"
    assert {line.name for line in differences(found)} == set(found.promised_differs)


def test_every_anomaly_that_a_setting_allows_has_rules() -> None:
    left_out = ALL_LINES - anomalies().keys()
    assert anomalies().keys() <= ALL_LINES
    assert all(ANOMALIES[kind].prevented_by == "nothing" for kind, _ in left_out)


def test_an_anomaly_without_rules_is_forbidden_only_if_no_setting_can_allow_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left_out = {
        ("misplaced_coordinator", ""): "forbidden",  # nothing prevents it: a bug
        ("lost_write", ""): "not decided",  # settings do
        ("unnoticed_failure", ""): "not decided",  # advice does
    }
    some = {key: rules for key, rules in anomalies().items() if key not in left_out}
    monkeypatch.setattr("chaos.guarantees.contract.anomalies", lambda: some)
    lines = contract(scenario(expect="promised")).lines
    assert {(line.kind, line.split): line.state for line in lines if (line.kind, line.split) in left_out} == left_out


def test_every_fact_of_a_rule_is_one_that_some_scenario_has() -> None:
    """A misspelt one would leave its rule undecided for ever. Together, these scenarios have all facts."""
    names = {"streams-count": "exactly-once", "share-group-coordinator-loss": "", "clock-controllers": ""}
    names["sarama-crash-mark"] = "after-commit"
    scenarios = [load(shipped()[name], variant=side) for name, side in names.items()]
    known = {
        fact
        for one in scenarios
        for situation in (*writing(one), *reading(one), *sharing(one), *governing(one))
        for fact in situation.facts
    }
    asked = {
        fact
        for anomaly in anomalies().values()
        for conditions in (anomaly.only, dict.fromkeys(anomaly.by, True), *(rule.when for rule in anomaly.rules))
        for fact in facts_in(conditions)
    }
    assert asked - known == set()
    assert {fact.removeprefix(PREFIX) for fact in known if fact.startswith(PREFIX)} == FAULT_FACTS


@pytest.mark.parametrize(
    ("config", "ahead", "state"),
    [
        ({"retention.ms": 3_600_000}, "+2h", "allowed"),
        ({"retention.ms": 3_600_000}, "+10m", "forbidden"),
        ({"retention.ms": 3_600_000}, "-2h", "forbidden"),
        ({"retention.ms": -1}, "+2h", "forbidden"),
        ({"retention.ms": 3_600_000, "cleanup.policy": "compact"}, "+2h", "forbidden"),
        ({}, "+2h", "forbidden"),
    ],
)
@pytest.mark.parametrize("kind", ["clock.jump", "clock.skew"])
def test_a_clock_that_is_ahead_lets_retention_delete_records(
    kind: str, config: dict[str, Any], ahead: str, state: str
) -> None:
    values = copy.deepcopy(BASE)
    values["topics"][0]["config"] = IN_SYNC | config
    values["producers"][0]["keys"] = 10
    values["faults"] = [fault(kind, **{"by" if kind == "clock.jump" else "ahead": ahead})]
    values["expect"] = "promised"
    derived = contract(parse(yaml.safe_dump(values), "x"))
    assert derived.line("lost_write").state == state
    assert derived.line("dirty_read").state == state


@pytest.mark.parametrize(("by", "state"), [("-2h", "allowed"), ("-10m", "forbidden"), ("+2h", "forbidden")])
def test_a_client_with_a_clock_that_is_behind_lets_retention_delete_its_records(by: str, state: str) -> None:
    jump = member("clock.jump", "shop/1", by=by)
    found = contract(scenario(jump, topic={"config": IN_SYNC | {"retention.ms": 3_600_000}}, producer={"keys": 10}))
    assert found.line("evicted_delivery").state == state
    assert found.line("lost_write").state == "forbidden"


@pytest.mark.parametrize(
    ("timestamps", "config", "state"),
    [
        ("seconds", {}, "allowed"),
        ("-8d", {}, "allowed"),
        ("-6d", {}, "forbidden"),
        ("microseconds", {}, "forbidden"),
        ("seconds", {"message.timestamp.type": "LogAppendTime"}, "forbidden"),
        ("seconds", {"message.timestamp.before.max.ms": 1_000}, "forbidden"),  # brokers refuse such records
        ("seconds", {"retention.ms": -1}, "forbidden"),
    ],
)
def test_timestamps_of_an_application_let_retention_delete_records(
    timestamps: str, config: dict[str, Any], state: str
) -> None:
    found = contract(scenario(topic={"config": IN_SYNC | config}, producer={"timestamps": timestamps}))
    assert found.line("evicted_delivery").state == state
    assert found.line("lost_write").state == "forbidden"
    assert found.line("overdue_record").state == "forbidden"


@pytest.mark.parametrize(("retention_ms", "state"), [(4_000, "allowed"), (3_600_000, "forbidden"), (-1, "forbidden")])
def test_a_wrong_clock_of_a_broker_may_keep_records_that_are_due(retention_ms: int, state: str) -> None:
    config, check = {"retention.ms": retention_ms}, {"log.retention.check.interval.ms": 500}
    jump = fault("clock.jump", by="-2h")
    found = scenario(jump, topic={"config": IN_SYNC | config}, cluster={"config": check})
    assert contract(found).line("overdue_record").state == state


def test_a_wrong_clock_of_a_client_is_no_outage_of_a_broker() -> None:
    weak = {"config": {"acks": 1, "enable.idempotence": False}}
    assert contract(scenario(fault("clock.jump", by="+1m"), producer=weak)).line("lost_write").state != "forbidden"
    found = contract(scenario(member("clock.jump", "shop/1", by="+1m"), producer=weak))
    assert found.line("lost_write").state == "forbidden"


def test_a_broker_with_a_wrong_clock_counts_beside_dedicated_controllers() -> None:
    weak = {"config": {"acks": 1, "enable.idempotence": False}}
    jump, cluster = fault("clock.jump", by="+1m"), {"cluster": {"controllers": 3}}
    assert contract(scenario(jump, producer=weak, **cluster)).line("lost_write").state != "forbidden"
    of_controller = fault("clock.jump", by="+1m", target={"controller": True})
    assert contract(scenario(of_controller, producer=weak, **cluster)).line("lost_write").state == "forbidden"


def test_a_clock_with_which_brokers_forget_producers_has_no_derived_contract() -> None:
    values = BASE | {"faults": [fault("clock.drift", gains="+30s")], "expect": {}}
    parse(yaml.safe_dump(values | {"faults": [fault("clock.jump", by="+30d")]}), "x")
    with pytest.raises(ScenarioError, match=r"faults\[0\]: the clock may be 86400 s ahead"):
        parse(yaml.safe_dump(values | {"faults": [fault("clock.jump", by="+1d")], "expect": "promised"}), "x")
    few = {"cluster": {"config": {"producer.id.expiration.ms": 60_000}}}
    with pytest.raises(ScenarioError, match="may be 60 s ahead"):
        parse(yaml.safe_dump(values | few | {"faults": [fault("clock.jump", by="+1m")], "expect": "promised"}), "x")


def test_a_zero_is_promised_or_named_with_the_settings_that_do_not_promise_it():
    """What a pass shows by chance: demanded, allowed by the settings under these faults, without a stated reason."""
    kept = load(find("leader-kill"))
    assert unpromised(kept) == {}
    risky = unpromised(load(find("leader-kill"), ["producers.0.config.acks=1"]))
    assert {"lost_write", "offset_reuse", "duplicate_write"} <= {kind for kind, _ in risky}
    text = risky["lost_write", ""]
    assert text.startswith("held here, but acks=1 with replication factor=3 does not promise it: the leader alone")
    assert "acks=all with min.insync.replicas=2 or more" in text
    without_fault = load(find("clean-run"), ["producers.0.config.acks=1"])
    assert ("lost_write", "") not in unpromised(without_fault), "no fault of this scenario takes the leader"
    derived = load(find("leader-kill"), ["producers.0.config.acks=1", "expect=promised"])
    assert set(unpromised(derived)) == {("lost_write", "")}, "a derived contract demands no zero that it allows"
    explained = load(find("acks1-leader-kill"), variant="acks-1")
    assert "duplicate_write" in explained.promised_differs
    assert "duplicate_write" not in {kind for kind, _ in unpromised(explained)}
    settings = load(find("leader-kill"), ["producers.0.config.acks=1"])
    one_reason = settings.model_copy(update={"promised_differs": {"duplicate_write": "a reason"}})
    assert set(unpromised(one_reason)) == set(risky) - {("duplicate_write", "")}, "a reason is about one kind"


def test_a_line_says_its_bound_only_where_it_allows_something():
    bound = Bound(max=3)
    said = {state: Line("lost_write", "", state, bound, "why").describe() for state in ("allowed", "not decided")}
    assert said == {
        "allowed": f"lost_write: allowed, {bound.describe()}: why",
        "not decided": "lost_write: not decided: why",
    }
    assert (
        Line("duplicate_delivery", "legal", "forbidden", bound, "").describe() == "duplicate_delivery.legal: forbidden"
    )


def processing(fault_: dict[str, Any], **config: Any) -> Scenario:
    """Return the base scenario with a plain processor to a second topic."""
    out = {"name": "bills", "partitions": 2, "replication_factor": 3, "config": IN_SYNC}
    processor = {
        "name": "bill",
        "group": "bill",
        "topics": ["orders"],
        "to": "bills",
        "client": "java",
        "config": config,
    }
    plain = {"plain": {"commit": "after_output"}}
    return scenario(fault_, topics=[*BASE["topics"], out], processors=[processor | plain])


def test_outputs_that_are_lost_or_written_twice_by_the_client_are_no_faults_of_the_processing() -> None:
    at_output = fault("broker.kill", target={"leader_of": "bills/0"})
    weak, strong = processing(at_output, acks=1), processing(at_output)
    assert {"lost_write", "missing_output"} <= states(weak)
    assert {"lost_write", "missing_output"} <= states(strong, "forbidden")
    cut = fault("wire.cut", api="Produce", client="bill/*", side="response", target={"leader_of": "bills/0"}, count=3)
    assert {"duplicate_write", "duplicate_output.illegal"} <= states(processing(cut, acks=1))
    assert {"duplicate_write", "duplicate_output.illegal"} <= states(processing(cut), "forbidden")
