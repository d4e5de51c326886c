"""What faults leave of the effects of applications: what costs every application something, and what just does not."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.campaign.subject import load_subject, raw_of
from chaos.guarantees.effects import costs, ideal, promised_effects
from chaos.scenario.expect import ANY, ZERO
from chaos.scenario.load import of_mapping
from chaos.scenario.model import Scenario

ALL = ("missing", "duplicate", "unexpected", "wrong")
CUT = {"kind": "wire.cut", "api": "Produce", "side": "response", "count": 3, "target": {"leader_of": "invoices/0"}}
CORRUPT = {"kind": "wire.corrupt", "app": "billing", "target": {"leader_of": "orders/0"}}


def scenario(*faults: dict[str, Any], **values: Any) -> Scenario:
    raw = raw_of(load_subject("app-commit-order", "after", seed=7).scenario)
    named = [{"name": f"f{n}", "when": {"acked": 100}, **fault} for n, fault in enumerate(faults)]
    return of_mapping(raw | {"faults": named, "expect": {"promised": True}} | values, "x")


def not_promised(*faults: dict[str, Any], **values: Any) -> set[str]:
    bound = promised_effects(scenario(*faults, **values))["invoices"]
    return {kind for kind in ALL if getattr(bound, kind) == ANY}


@pytest.mark.parametrize(
    ("fault", "kinds"),
    [
        ({"kind": "app.kill", "target": {"app": "billing"}}, set()),
        ({"kind": "app.isolate", "target": {"app": "billing/1"}}, set()),
        ({"kind": "broker.kill", "target": {"leader_of": "invoices/0"}}, set()),
        ({"kind": "log.truncate", "target": {"leader_of": "invoices/0"}}, set()),
        ({"kind": "log.truncate", "target": {"isr_of": "invoices/0"}}, {"missing", "duplicate", "wrong"}),
        ({"kind": "log.truncate", "target": {"isr_of": "orders/0"}}, set(ALL)),
        ({"kind": "topic.delete", "target": {"topic": "orders"}}, {"missing", "wrong"}),
        ({"kind": "topic.delete", "target": {"topic": "invoices"}}, {"missing"}),
        ({"kind": "topic.delete_records", "leave": 10, "target": {"topic": "orders"}}, {"missing", "wrong"}),
        ({**CUT, "app": "billing"}, set()),
        ({"kind": "wire.duplicate", "app": "billing", "target": {"leader_of": "orders/0"}}, {"duplicate", "wrong"}),
        (CORRUPT, set()),
        ({**CORRUPT, "checksum": "right"}, set(ALL)),
        ({**CORRUPT, "api": "Produce", "target": {"leader_of": "invoices/0"}}, set()),
    ],
)
def test_a_fault_takes_the_promise_of_exactly_these_kinds(fault: dict[str, Any], kinds: set[str]) -> None:
    assert not_promised(fault) == kinds


@pytest.mark.parametrize(
    ("topics", "kinds"), [("invoices", set()), (["invoices", "dead"], {"missing"}), (["invoices", "x"], set())]
)
def test_an_effect_in_several_topics_has_the_promise_of_the_weakest(topics: Any, kinds: set[str]) -> None:
    known = [{"name": name} for name in ("orders", "invoices", "dead", "x")]
    (effect,) = raw_of(load_subject("app-commit-order", "after", seed=7).scenario)["effects"]
    fault = {"kind": "topic.delete", "target": {"topic": "dead"}}
    assert not_promised(fault, topics=known, effects=[effect | {"topic": topics}]) == kinds


def test_the_reasons_name_the_fault() -> None:
    (first, *_) = costs(scenario({"kind": "log.truncate", "target": {"isr_of": "invoices/0"}}))["missing"]
    assert "f0 (log.truncate)" in first


def test_a_kind_that_the_scenario_allows_may_come_in_any_number() -> None:
    allowed = {"promised": True, "effects": {"invoices": {"duplicate": {"max": 5}}}}
    assert not_promised(expect=allowed) == {"duplicate"}


def test_a_database_is_not_hit_by_what_a_topic_of_the_run_loses() -> None:
    query = [{"name": "invoices", "sql": "sqlite:///x.db", "query": "select order_id from invoice", "id": "order_id"}]
    truncated = {"kind": "log.truncate", "target": {"isr_of": "invoices/0"}}
    bound = promised_effects(scenario(truncated, effects=query))["invoices"]
    assert bound.missing == bound.duplicate == ZERO


def test_each_application_is_replaced_by_a_processor_in_its_group_with_its_faults_on_the_wire() -> None:
    best = ideal(scenario({**CUT, "app": "billing/2"}))
    (processor,) = best.processors
    assert (processor.group, processor.topics, processor.to) == ("billing", ["orders"], "invoices")
    assert best.faults[0].client == "billing-*" and best.apps == [] and best.faults[0].breaks  # type: ignore[attr-defined]
