"""The settings of scenarios and of applications, as `chaos.guarantees` reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from chaos.guarantees.application import Options, Parts
from chaos.guarantees.facts import ClientPart, ClusterPart, TopicPart
from chaos.guarantees.promises import promise
from chaos.guarantees.values import Setting, Settings, setting
from chaos.kafka.settings import Config
from chaos.scenario.model import Scenario
from chaos.setup.clients import Assign, Commit, Subscribe

OPTIONS = Options()

WHEN = {"after_batch": "after_processing", "after_record": "after_processing", "periodic": "after_processing"}


def write_app(folder: Path, **parts: Mapping[str, Any] | None) -> Path:
    """Write an `app.yaml` with these parts; return its path."""
    path = folder / "app.yaml"
    path.write_text(yaml.safe_dump({name: part for name, part in parts.items() if part is not None}, sort_keys=False))
    return path


def rows_of(folder: Path, options: Options = OPTIONS, **parts: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the row that answers each question, as `durability/power: page-cache`."""
    found = promise(replace(options, app=write_app(folder, **parts)))
    return {f"{answer.aspect}/{answer.id}": answer.row for answer in found.answers}


def parts_of(scenario: Scenario) -> Iterator[Parts]:
    """Return each combination of a writer, a reader and a topic of a scenario."""
    cluster = ClusterPart(_settings(scenario.cluster.config), scenario.cluster.kafka, given=True)
    cluster.brokers = setting("brokers", scenario.cluster.brokers, "scenario")
    topics = [
        TopicPart(_settings(t.config), setting("replication factor", t.replication_factor, "scenario"))
        for t in scenario.topics
    ]
    producers: list[ClientPart | None] = [
        *(_producer(scenario, p, p.config, p.transactions is not None) for p in scenario.producers),
        *(_producer(scenario, p, p.config, p.transactions is not None) for p in scenario.processors),
    ]
    consumers: list[ClientPart | None] = [
        *(_consumer(scenario, c) for c in scenario.consumers),
        *(_reading_side(scenario, p) for p in scenario.processors),
    ]
    for topic, producer, consumer in product(topics, producers or [None], consumers or [None]):
        yield Parts(producer, consumer, topic, cluster)


def _settings(config: Config) -> Settings:
    return {name: setting(name, value, "scenario") for name, value in config.items()}


def _producer(scenario: Scenario, entry: Any, config: Config, transactional: bool) -> ClientPart:
    part = ClientPart("producer", scenario.client_of(entry), _settings(config))
    if transactional:
        part.settings["transactional.id"] = setting("transactional.id", entry.name, "scenario")
    if getattr(entry, "partitioner", None):
        part.settings["partitioner"] = setting("partitioner", entry.partitioner, "scenario")
    return part


def _consumer(scenario: Scenario, entry: Subscribe | Assign) -> ClientPart:
    part = ClientPart("consumer", scenario.client_of(entry), _settings(entry.config))
    commit: Commit = entry.commit
    part.commit = Setting("commit", WHEN.get(commit.when, commit.when), "scenario")
    if part.client.runtime != "sarama":
        part.settings["enable.auto.commit"] = setting("enable.auto.commit", commit.kind == "auto", "scenario")
    if part.client.runtime == "confluent":
        stored = commit.kind == "auto" and commit.when == "before_processing"
        part.settings["enable.auto.offset.store"] = setting("enable.auto.offset.store", stored, "scenario")
    return part


def _reading_side(scenario: Scenario, entry: Any) -> ClientPart:
    part = ClientPart("consumer", scenario.client_of(entry), _settings(entry.consumer_config))
    part.settings["enable.auto.commit"] = setting("enable.auto.commit", False, "scenario")
    part.settings["isolation.level"] = setting("isolation.level", "read_committed", "scenario")
    plain = {"after_output": "after_processing", "before_output": "before_processing"}
    when = plain[entry.plain.commit] if entry.plain else "in_transaction"
    part.commit = Setting("commit", when, "scenario")
    return part
