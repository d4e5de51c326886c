"""Another client library in a scenario: settings that keep their meaning, and those that no name carries over."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from chaos.campaign.clients import all_clients, clients_of, parse_choice, with_client
from chaos.campaign.subject import Subject
from chaos.clients.choice import RUNTIMES
from chaos.clients.java.traits import PACKAGE
from chaos.errors import ScenarioError, UsageError
from chaos.scenario.load import parse


def subject(client: str = "confluent", producer: dict[str, Any] | None = None, **consumer: Any) -> Subject:
    raw = {
        "title": "t",
        "topics": [{"name": "orders", "replication_factor": 1}],
        "producers": [{"name": "shop", "topic": "orders", "client": client, "config": producer or {}}],
        "consumers": [
            {"mode": "subscribe", "name": "billing", "group": "g", "topics": ["orders"], "client": client} | consumer
        ],
    }
    return Subject("t", "t.yaml", parse(yaml.safe_dump(raw), "t.yaml"), 7)


def configs(given: Subject, client: str) -> tuple[dict[str, Any], dict[str, Any]]:
    scenario = with_client(given, parse_choice(client)).scenario
    assert clients_of(scenario) == (client.removeprefix("confluent:"))
    return scenario.producers[0].config, scenario.consumers[0].config


def test_another_name_of_the_same_setting_becomes_the_common_one() -> None:
    given = subject(producer={"request.required.acks": "1", "queue.buffering.max.ms": 5})
    assert configs(given, "java:4.3.1")[0] == {"acks": "1", "linger.ms": 5}


def test_settings_of_sarama_become_common_names_with_common_values() -> None:
    given = subject(
        "sarama", {"Producer.RequiredAcks": "WaitForAll"}, config={"Consumer.Offsets.Initial": "OffsetOldest"}
    )
    assert configs(given, "java:3.9.2") == ({"acks": "all"}, {"auto.offset.reset": "earliest"})
    assert configs(given, "confluent:2.16.0") == ({"acks": "all"}, {"auto.offset.reset": "earliest"})


def test_a_release_of_the_same_library_keeps_its_names() -> None:
    given = subject("sarama:1.61.1", {"Producer.Flush.Frequency": "5ms"})
    assert configs(given, "sarama:1.43.3")[0] == {"Producer.Flush.Frequency": "5ms"}


@pytest.mark.parametrize("client", ["java:4.3.1", "sarama:1.61.1", "franz-go", "kafka-python", "aiokafka"])
def test_a_producer_without_settings_has_the_defaults_of_the_other_library(client: str) -> None:
    text = "title: t\ntopics: [{name: orders}]\nproducers: [{name: shop, topic: orders}]\n"
    found = with_client(Subject("t", "t", parse(text, "t"), 1), parse_choice(client)).scenario
    assert found.producers[0].config == {"acks": "all", "enable.idempotence": True}


def test_assignors_have_the_names_of_the_library() -> None:
    key = "partition.assignment.strategy"
    assert configs(subject(config={key: "roundrobin,range"}), "java:4.3.1")[1] == {
        key: f"{PACKAGE}RoundRobinAssignor,{PACKAGE}RangeAssignor"
    }
    java = subject("java", config={key: f"{PACKAGE}CooperativeStickyAssignor"})
    assert configs(java, "confluent:2.16.0")[1] == {key: "cooperative-sticky"}
    assert configs(java, "sarama:1.61.1")[1] == {key: "cooperative-sticky"}


@pytest.mark.parametrize(
    ("given", "client", "reason"),
    [
        (subject(producer={"queue.buffering.max.kbytes": 9}), "java", "its name there is buffer.memory"),
        (subject(config={"max.poll.interval.ms": 60_000}), "sarama", "sarama has nothing like it"),
        (
            subject("sarama", {"Producer.Flush.Messages": 5}),
            "confluent",
            "Producer.Flush.Messages is no setting of confluent-kafka",
        ),
        (subject("java", {"max.block.ms": 5}), "confluent", "max.block.ms is no setting of confluent-kafka"),
        (subject(), "spark", r"producers\[0\]: the runtime spark:4.2.0 has no produce.*\(and \d+ more\)$"),
        (subject(threads=2), "sarama", r"consumers\[0\].threads: the runtime sarama:1.61.1 has no threads"),
    ],
)
def test_what_has_no_name_or_no_ability_is_refused_with_the_first_reason(
    given: Subject, client: str, reason: str
) -> None:
    with pytest.raises(ScenarioError, match=reason) as error:
        with_client(given, parse_choice(client))
    assert "\n" not in str(error.value)


def test_the_heap_and_the_shared_release_are_not_taken_over() -> None:
    text = (
        "{title: t, clients: {confluent_kafka: 2.5.0}, topics: [{name: o, replication_factor: 1}], "
        "producers: [{name: p, topic: o}], consumers: [{mode: assign, name: r, topics: [o], "
        "client: {runtime: java, heap: 99MiB}}]}"
    )
    found = with_client(Subject("t", "t", parse(text, "t"), 1), parse_choice("java:3.9.2")).scenario
    assert found.consumers[0].client.heap is None
    assert found.clients.confluent_kafka is None


def test_every_library_has_a_release_and_unknown_ones_are_refused() -> None:
    assert [client.runtime for client in all_clients()] == list(RUNTIMES)
    assert all(client.release for client in all_clients())
    assert parse_choice("2.5.0") == parse_choice("confluent:2.5.0")
    for text in ("jav", "java:", "java:9.9.9", ""):
        with pytest.raises(UsageError, match=f"client {text}: "):
            parse_choice(text)


def test_the_recorded_releases_are_those_that_count() -> None:
    scenario = subject("java:3.9.2").scenario
    assert clients_of(scenario) == "java:3.9.2"
    assert clients_of(scenario, {"kafka-clients": "3.9.1", "confluent-kafka": "2.16.1"}) == "java:3.9.1"
    both = {"kafka-clients": "2.8.2, 4.3.1", "confluent-kafka": "2.16.1"}
    two = subject("java:2.8.2").set("consumers.billing.client=java:4.3.1").scenario
    assert clients_of(two) == clients_of(two, both) == "java:2.8.2, 4.3.1"
    mixed = subject("java:4.3.1").set("producers.shop.client=confluent:2.5.0").scenario
    assert clients_of(mixed) == "confluent:2.5.0, java:4.3.1"
    assert clients_of(subject().scenario, {"confluent-kafka": "2.5.0"}) == "2.5.0"
