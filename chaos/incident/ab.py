"""A/B of one scenario: as it was, and with some settings changed, as two variants of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Consumer, KafkaException, Producer

from chaos.drive import stages, variants
from chaos.errors import ScenarioError, UsageError
from chaos.incident.subject import Raw, Subject, dump, raw_of
from chaos.run.directory import write_atomically
from chaos.scenario.load import parse
from chaos.scenario.model import Scenario

AS_IT_WAS, CHANGED = "as-it-was", "with-the-change"


def check(subject: Subject, sets: Sequence[str]) -> None:
    """Raise `UsageError` or `ScenarioError` for a setting that there is not, or that changes nothing."""
    changed = subject.set(*sets)
    if changed.scenario == subject.scenario:
        raise UsageError(f"--set {' '.join(sets)} changes nothing: {subject.given} is so already")
    for problem in unknown_settings(changed.scenario):
        raise ScenarioError(f"--set: {problem}")
    parse(dump(_with_sides(subject, sets)), subject.given)  # what a variant may not set is refused here


def prepare(subject: Subject, sets: Sequence[str], folder: Path) -> variants.VariantRuns:
    """Make the run directories of both sides of what `check` passed; nothing is started."""
    file = folder / f"{subject.name}.yaml"
    write_atomically(file, dump(_with_sides(subject, sets)))
    return variants.prepare(stages.ScenarioRequest(str(file), seed=subject.seed), folder, f"{subject.name}-ab")


def _with_sides(subject: Subject, sets: Sequence[str]) -> Raw:
    raw = raw_of(subject.scenario)
    raw["variants"] = {AS_IT_WAS: {}, CHANGED: {"set": dict(_split(text) for text in sets)}}
    return raw


def _split(override: str) -> tuple[str, Any]:
    path, _, text = override.partition("=")
    return path.strip(), yaml.safe_load(text)


def unknown_settings(scenario: Scenario) -> Iterator[str]:
    """Settings of clients that librdkafka does not know, or whose values it refuses: a run could only break off."""
    for where, config, kind in [
        *((f"producers.{p.name}.config", p.config, Producer) for p in scenario.producers),
        *((f"consumers.{c.name}.config", c.config, Consumer) for c in scenario.consumers),
        *((f"processors.{p.name}.config", p.config, Producer) for p in scenario.processors),
        *((f"processors.{p.name}.consumer_config", p.consumer_config, Consumer) for p in scenario.processors),
    ]:
        for key, value in config.items():
            base: dict[str, Any] = {"group.id": "none"} if kind is Consumer else {}
            try:
                kind({**base, "log_level": 0, key: value})
            except KafkaException as e:
                if "No such configuration property" in str(e.args[0]) or "Invalid value" in str(e.args[0]):
                    yield f"{where}.{key}: {e.args[0].str()}"
            except (TypeError, ValueError) as e:
                yield f"{where}.{key}: {e}"
