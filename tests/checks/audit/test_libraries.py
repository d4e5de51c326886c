"""Findings name the client library of their clients where a scenario has more than the default one."""

from typing import Any
from unittest.mock import Mock

from chaos.scenario.load import parse
from checks.audit.output.totals import _libraries
from checks.audit.rules.rule import RunData


def run(client: str, *lifecycle: dict[str, Any]) -> RunData:
    text = f"""
title: t
topics: [{{name: orders}}]
producers: [{{name: shop, topic: orders}}, {{name: till, topic: orders, client: {client}}}]
consumers: [{{mode: assign, name: dirty, topics: [orders]}}]
"""
    nothing: Any = Mock()
    return RunData(parse(text, "mine.yaml"), [], nothing, {}, nothing, [], nothing, lifecycle)


def test_a_finding_names_the_library_and_release_of_its_clients() -> None:
    java = run("java:3.9.2")
    assert _libraries({"producer": "till/1", "consumer": None}, java) == "till/1: kafka-clients 3.9.2"
    both = "shop/1: confluent-kafka as installed, dirty/1: confluent-kafka as installed"
    assert _libraries({"producer": "shop/1", "consumer": "dirty/1"}, java) == both
    assert _libraries({"producer": "gone/1", "consumer": None}, java) == ""


def test_the_release_is_the_one_that_the_client_reported() -> None:
    started = {"client": "shop/1", "incarnation": 1, "event": "started", "at_us": 1}
    stopped = started | {"event": "stopped", "detail": "{}", "at_us": 2}
    later = started | {"detail": '{"librdkafka": "2.9.0", "confluent_kafka": "2.9.1"}', "at_us": 1}
    java = run("java:3.9.2", started | {"detail": None, "at_us": 0}, later, stopped)
    assert _libraries({"producer": "shop/1", "consumer": "till/1"}, java) == (
        "shop/1: confluent-kafka 2.9.1, till/1: kafka-clients 3.9.2"
    )


def test_a_finding_of_a_run_with_the_default_library_only_names_none() -> None:
    assert _libraries({"producer": "shop/1", "consumer": None}, run("confluent")) == ""
