from chaos.scenario.load import parse
from chaos.scenario.timeline import Progress, is_due, steps, unreachable

TEXT = """
title: two faults
topics: [{name: orders}]
producers: [{name: shop, topic: orders, records: 1000}]
consumers: [{mode: subscribe, name: billing, group: billing, topics: [orders]}]
faults:
  - {name: first, kind: broker.kill, target: {broker: 1}, when: {acked: 100}, heal: {after: 5s}}
  - {name: second, kind: broker.kill, target: {broker: 2}, when: {after: first.healed + 2s}}
  - {name: third, kind: broker.kill, target: {broker: 3}, when: {delivered: {consumer: billing, records: 10}}}
  - {name: fifth, kind: broker.kill, target: {broker: 3}, when: {acked: {producer: shop, records: 20}}}
  - {name: fourth, kind: broker.kill, target: {broker: 3}, when: {at: 9s}, heal: {when: {acked: 1}}}
"""
INJECT_1, HEAL_1, INJECT_2, INJECT_3, INJECT_5, INJECT_4, HEAL_4 = steps(parse(TEXT, "two.yaml").faults)


def at(elapsed_s, acked=0, billing=0, **phases):
    named = {tuple(name.split("_")): when for name, when in phases.items()}
    return Progress(elapsed_s, {"shop": acked}, {"billing": billing}, {}, named)


def test_steps_are_in_the_order_of_the_scenario_with_heals_after_their_injections():
    assert [(s.fault, s.action) for s in (INJECT_1, HEAL_1, INJECT_2)] == [
        ("first", "inject"),
        ("first", "heal"),
        ("second", "inject"),
    ]


def test_a_progress_trigger_waits_for_progress_regardless_of_time():
    assert not is_due(INJECT_1, at(1000, acked=99))
    assert is_due(INJECT_1, at(0, acked=100))
    assert not is_due(INJECT_3, at(1000, billing=9))
    assert is_due(INJECT_3, at(0, billing=10))


def test_acknowledgements_to_other_producers_do_not_count():
    assert not is_due(INJECT_5, Progress(1000, {"shop": 19, "other": 20}, {}))
    assert is_due(INJECT_5, Progress(0, {"shop": 20, "other": 0}, {}))


def test_deliveries_to_a_group_are_those_of_its_entries():
    text = TEXT.replace("delivered: {consumer: billing,", "delivered: {group: billing,")
    step = next(s for s in steps(parse(text, "two.yaml").faults) if s.fault == "third")
    assert step.describe() == "inject third at 10 records processed by group billing"
    groups = {"billing": ["billing", "slow"], "other": ["replay"]}
    assert not is_due(step, Progress(0, {}, {"billing": 6, "slow": 3, "replay": 9}, groups))
    assert is_due(step, Progress(0, {}, {"billing": 6, "slow": 4, "replay": 9}, groups))


def test_a_time_trigger_waits_for_its_time():
    assert not is_due(INJECT_4, at(8.9))
    assert is_due(INJECT_4, at(9))


def test_a_heal_counts_from_the_injection():
    assert not is_due(HEAL_1, at(100))
    assert not is_due(HEAL_1, at(14.9, first_injected=10))
    assert is_due(HEAL_1, at(15, first_injected=10))


def test_a_step_after_a_phase_waits_for_that_phase():
    assert not is_due(INJECT_2, at(100, first_injected=1, first_proven=2))
    assert not is_due(INJECT_2, at(21.9, first_healed=20))
    assert is_due(INJECT_2, at(22, first_healed=20))


def test_a_heal_never_fires_before_its_injection():
    assert not is_due(HEAL_4, at(0, acked=10))
    assert is_due(HEAL_4, at(9, acked=10, fourth_injected=9))


def test_a_step_describes_its_trigger():
    assert INJECT_1.describe() == "inject first at 100 acknowledged records"
    assert HEAL_1.describe() == "heal first 5s after injected"


def test_steps_that_wait_for_a_lost_proof_are_unreachable_directly_or_indirectly():
    scenario = parse(
        """
title: a chain
topics: [{name: orders}]
producers: [{name: shop, topic: orders, records: 100}]
faults:
  - {name: a, kind: broker.kill, target: {broker: 1}, when: {acked: 10}, heal: {when: {after: a.proven}}}
  - {name: b, kind: broker.kill, target: {broker: 2}, when: {after: a.healed + 1s}, heal: {after: 1s}}
  - {name: c, kind: broker.kill, target: {broker: 3}, when: {acked: 50}, heal: {after: 1s}}
""",
        "chain.yaml",
    )
    waiting = steps(scenario.faults)
    assert unreachable(waiting, set()) == []
    steps_lost = {(step.fault, step.action) for step in unreachable(waiting, {("a", "proven")})}
    assert steps_lost == {("a", "heal"), ("b", "inject"), ("b", "heal")}
    assert {(step.fault, step.action) for step in unreachable(waiting, {("c", "injected")})} == {("c", "heal")}
