"""The request to an incident command, and its subject: the scenario of a bundle, a run directory or a file."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import yaml

from chaos.campaign.folder import PLAN, Asked, lasting
from chaos.clients.runtime import runtime
from chaos.cluster.settings import choose_metadata
from chaos.errors import ScenarioError, UsageError
from chaos.incident.bundle import SUFFIX, open_bundle, recorded_versions, with_inputs
from chaos.kinds import kind_of
from chaos.run.directory import Run
from chaos.run.result import RunOutcome
from chaos.scenario.inputs import Programs, programs_problems
from chaos.scenario.load import find, load, parse
from chaos.scenario.model import Scenario
from chaos.scenario.resolve import Resolved, new_seed, read

Raw = dict[str, Any]
"""A scenario as plain data, without values that equal their defaults."""


@dataclass(frozen=True, kw_only=True)
class Request(Asked):
    """The request to a campaign over one scenario. Each command uses its own values and ignores the others.

    source: a bundle, a run directory or a scenario; `variant` names a side of the scenario. overrides: `PATH=VALUE`;
    for `ab`, the changes of the second side. repeat: runs of the scenario, of each side, release or candidate. seed:
    used in place of the incident's own.
    """

    source: str = ""
    variant: str = ""
    overrides: tuple[str, ...] = ()
    i_own_this_cluster: bool = False
    """Whether faults may hit brokers of an existing cluster."""
    spark_master: str | None = None
    same_seed: bool = False
    """`repeat`: use one seed for all runs instead of one for each."""
    anomaly: str = ""
    """`shrink`: the anomaly that must remain. `bisect`: the deciding anomaly, else verdict and kinds of anomalies."""
    kafka: str | None = None
    client: str | None = None
    random: bool = False
    """`explore`: whether faults are drawn at random."""
    app: tuple[str, ...] = ()
    """`bisect`: the releases of Kafka (`A..B`) or a client library (`releases.client_axis`), or `NAME=COMMAND` for each
    command of an application."""

    def subject(self) -> Subject:
        """Load the subject. Raises as `load_subject`."""
        if not self.source:
            raise UsageError("name a bundle, a run directory or a scenario, or --resume with the folder of a campaign")
        return load_subject(self.source, self.variant, self.overrides, self.seed)

    def fixed(self, subject: Subject) -> Self:
        """Return the request with the seed of its subject, and a source that also holds from another folder."""
        return replace(self, seed=subject.seed, source=lasting(self.source))

    def options(self) -> list[str]:
        """Return the words of the command line that make the subject again."""
        words = ["--seed", str(self.seed), *(["--variant", self.variant] if self.variant else [])]
        return words + self.sets()

    def owned(self) -> list[str]:
        """Return the word of the command line that allows faults on an existing cluster, if it was given."""
        return ["--i-own-this-cluster"] if self.i_own_this_cluster else []

    def sets(self) -> list[str]:
        """Return the words of the command line that apply the overrides."""
        return [word for override in self.overrides for word in ("--set", override)]


@dataclass(frozen=True)
class Subject:
    """A scenario without variants. outcome and versions: of the incident; None if there was no run.

    programs: of the applications of the incident. changes: overrides that the incident did not have.
    """

    name: str
    source: str
    scenario: Scenario
    seed: int
    outcome: RunOutcome | None = None
    versions: dict[str, str] | None = None
    programs: Programs = field(default_factory=dict)
    changes: tuple[str, ...] = ()

    def set(self, *overrides: str) -> Subject:
        """Return the subject with `PATH=VALUE` overrides applied. Raises `ScenarioError`."""
        scenario = parse(dump(raw_of(self.scenario)), self.source, overrides)
        return replace(self, scenario=scenario, changes=(*self.changes, *overrides))


def load_subject(source: str, variant: str = "", overrides: Sequence[str] = (), seed: int | None = None) -> Subject:
    """Load a bundle, a run directory or a scenario. Its seed is `seed`, else its own, else drawn.

    Raises `RunDirError` for a damaged bundle or run directory, else `ScenarioError` or `UsageError` for bad input.
    """
    path = Path(source)
    if path.is_dir() or source.endswith((SUFFIX, ".tar.gz", ".tgz")) or kind_of(path) == "bundle":
        if variant:
            raise UsageError(f"--variant selects a side of a scenario; {source} is a single run, so leave it out")
        if path.is_dir():
            subject = _of_run(source, path)
        else:
            bundle = open_bundle(path)
            resolved = with_inputs(path, bundle)
            subject = _of_resolved(source, resolved, bundle.manifest.seen, bundle.manifest.versions)
        subject = subject.set(*overrides) if overrides else subject
        if lacking := list(programs_problems(subject.scenario, subject.programs)):
            why = "a bundle has the commands of applications, and not their programs"
            raise UsageError("\n  ".join([f"{source} cannot run on this machine ({why}):", *lacking]))
        return subject if seed is None else replace(subject, seed=seed)
    file = find(source)
    scenario = load(file, overrides, variant)
    if scenario.variants:
        raise UsageError(f"{source} has variants; choose one with --variant {', '.join(scenario.variants)}")
    if seed is None:
        seed = new_seed() if scenario.seed is None else scenario.seed
    return Subject("-".join(filter(None, [file.stem, variant])), source, scenario, seed)


def _of_run(source: str, path: Path) -> Subject:
    if (path / PLAN).is_file():
        raise UsageError(f"{source} is the folder of a campaign; name one of its runs, a directory below it")
    run = Run.open(path)
    resolved = read(run)
    outcome = RunOutcome.read(run) if run.result.exists() else None
    return _of_resolved(source, resolved, outcome, recorded_versions(run, resolved))


def _of_resolved(source: str, resolved: Resolved, outcome: RunOutcome | None, versions: dict[str, str]) -> Subject:
    """Return the subject of a resolved scenario, with the client release that ran. Raises `UsageError`."""
    scenario = resolved.scenario
    if scenario.tapped:
        raise UsageError(f"{source} is what passed a tap before clients of others, and nothing of it can run again")
    if resolved.prefix:  # the next resolution adds a prefix again
        plain = json.loads(json.dumps(raw_of(scenario)).replace(resolved.prefix, ""))
        scenario = parse(dump(plain), source)
    release = versions.get("confluent-kafka", "")
    is_set = scenario.clients.confluent_kafka is not None
    if not is_set and release != runtime().default_release() and re.fullmatch(r"\d+\.\d+\.\d+", release):
        clients = scenario.clients.model_copy(update={"confluent_kafka": release})
        scenario = scenario.model_copy(update={"clients": clients})
    stem = Path(resolved.name).stem
    name = re.sub(r"[^A-Za-z0-9._-]", "-", "-".join(filter(None, [stem, resolved.variant])))
    return Subject(name, source, scenario, resolved.seed, outcome, versions, resolved.programs)


def raw_of(scenario: Scenario) -> Raw:
    """Return a scenario as plain data that can be changed and parsed again."""
    raw: Raw = scenario.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    cluster = scenario.cluster
    if cluster.metadata == choose_metadata(cluster.kafka, None, cluster.driver):  # so that it fits another release, too
        raw.get("cluster", {}).pop("metadata", None)
    if cluster.asked:  # the next run asks again
        raw["cluster"] = {key: value for key, value in raw["cluster"].items() if key not in ("config", "asked")}
    for fault, full in zip(raw.get("faults", []), scenario.faults, strict=True):
        fault["kind"] = full.kind
    return raw


def dump(raw: Raw) -> str:
    """Return plain data as YAML, with the sections in the usual order of a scenario file."""
    order = ["title", "description", "seed", "cluster", "clients", "topics", "producers", "consumers", "processors"]
    order += [key for key in raw if key not in order]
    ordered = {key: raw[key] for key in order if key in raw}
    return yaml.safe_dump(ordered, sort_keys=False, allow_unicode=True, width=120)


def scenario_of(raw: Raw) -> Scenario | None:
    """Parse plain data; None if it is not a valid scenario."""
    try:
        return parse(dump(raw), "candidate")
    except ScenarioError:
        return None
