"""What is to be run again: the run of a bundle or of a run directory, or a scenario that nobody has run yet."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from chaos.clients.confluent import environment
from chaos.cluster.metadata_mode import choose
from chaos.errors import ScenarioError, UsageError
from chaos.incident.bundle import SUFFIX, open_bundle
from chaos.incident.facts import versions
from chaos.run.directory import Run
from chaos.run.result import RunOutcome
from chaos.scenario.load import find, load, parse
from chaos.scenario.model import Scenario
from chaos.scenario.resolve import Resolved, read

Raw = dict[str, Any]
"""A scenario as plain data, without the values that are defaults."""


@dataclass(frozen=True)
class Subject:
    """A scenario without variants, the seed to use (None: draw one), and what the incident had shown, if it was one."""

    name: str
    given: str
    scenario: Scenario
    seed: int | None
    seen: RunOutcome | None = None
    versions: dict[str, str] | None = None

    def set(self, *overrides: str) -> Subject:
        """With values set by their paths, as of `--set`. Raises `ScenarioError`."""
        return replace(self, scenario=parse(dump(raw_of(self.scenario)), self.given, overrides))


def load_subject(given: str, variant: str = "", overrides: tuple[str, ...] = ()) -> Subject:
    """Find out what somebody names, and read it.

    Raises `RunDirError` for a bundle that is none, `ScenarioError` and `UsageError` for what makes no sense.
    """
    path = Path(given)
    if path.is_dir() or given.endswith((SUFFIX, ".tar.gz", ".tgz")):
        if variant:
            raise UsageError(f"--variant chooses a side of a scenario, and {given} is of a run: it was one side")
        found = _of_run(given, path) if path.is_dir() else _of_bundle(given, path)
        return found.set(*overrides) if overrides else found
    file = find(given)
    scenario = load(file, overrides, variant)
    if scenario.variants:
        known = ", ".join(scenario.variants)
        raise UsageError(f"{given} has variants, and one of them is to be run: --variant {known}")
    return Subject("-".join(filter(None, [file.stem, variant])), given, scenario, scenario.seed)


def _of_bundle(given: str, path: Path) -> Subject:
    found = open_bundle(path)
    return _resolved(given, found.resolved, found.manifest.seen, found.manifest.versions)


def _of_run(given: str, path: Path) -> Subject:
    if (path / "comparison.json").is_file():
        raise UsageError(f"{given} is an A/B run; name one of its sides, a directory below it")
    run = Run.open(path)
    resolved = read(run)
    return _resolved(given, resolved, RunOutcome.read(run) if run.result.exists() else None, versions(run, resolved))


def _resolved(given: str, resolved: Resolved, seen: RunOutcome | None, told: dict[str, str]) -> Subject:
    """The scenario as it was resolved, with the clients that it had run with."""
    scenario = resolved.scenario
    if resolved.prefix:  # names are given their prefix again when it is resolved again
        plain = json.loads(json.dumps(raw_of(scenario)).replace(resolved.prefix, ""))
        scenario = parse(dump(plain), given)
    client = told.get("confluent-kafka", "")
    given_one = scenario.clients.confluent_kafka is not None
    if not given_one and client != environment.installed_release() and re.fullmatch(r"\d+\.\d+\.\d+", client):
        clients = scenario.clients.model_copy(update={"confluent_kafka": client})
        scenario = scenario.model_copy(update={"clients": clients})
    stem = Path(resolved.name).stem
    name = re.sub(r"[^A-Za-z0-9._-]", "-", "-".join(filter(None, [stem, resolved.variant])))
    return Subject(name, given, scenario, resolved.seed, seen, told)


def raw_of(scenario: Scenario) -> Raw:
    """A scenario as plain data that can be changed, written down and read again."""
    found: Raw = scenario.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    cluster = scenario.cluster
    if cluster.metadata == choose(cluster.kafka, None, cluster.driver):  # so that it fits another release, too
        found.get("cluster", {}).pop("metadata", None)
    for fault, full in zip(found.get("faults", []), scenario.faults, strict=True):
        fault["kind"] = full.kind
    return found


def dump(raw: Raw) -> str:
    """Plain data as YAML, in the order in which scenarios are written."""
    order = ["title", "description", "seed", "cluster", "clients", "topics", "producers", "consumers", "processors"]
    order += [key for key in raw if key not in order]
    ordered = {key: raw[key] for key in order if key in raw}
    return yaml.safe_dump(ordered, sort_keys=False, allow_unicode=True, width=120)


def scenario_of(raw: Raw, where: str) -> Scenario | None:
    """The scenario that plain data is; None if it is none."""
    try:
        return parse(dump(raw), where)
    except ScenarioError:
        return None
