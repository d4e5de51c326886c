"""The cells of a gate: every scenario with every release and every setting; what makes no sense is refused here."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from chaos.clients.confluent import environment
from chaos.drive.stages import cluster_spec
from chaos.errors import ScenarioError, UsageError
from chaos.gate.model import AXES, Gate
from chaos.history.entries import setup_digest
from chaos.incident.ab import unknown_settings
from chaos.incident.bisect import check_release
from chaos.incident.subject import Subject, dump, raw_of
from chaos.install.jars import kafka_jars
from chaos.run.events import now_us
from chaos.run.gate_result import Key
from chaos.scenario.load import find, load, parse
from chaos.scenario.model import Scenario, Variant
from chaos.scenario.resolve import resolve
from chaos.scenario.setup import Clients


@dataclass(frozen=True)
class Planned:
    """A cell that can be run. number: from 1, in the order of the matrix."""

    number: int
    key: Key
    subject: Subject
    setup: str
    cluster: str
    """What cluster it asks for: cells with the same may use one after another."""

    @property
    def file(self) -> str:
        """A short name for files: paths of sockets below it have to fit into 108 bytes."""
        return f"cell-{self.number:02}"

    def run_id(self, n: int) -> str:
        """The name of its n-th run."""
        return f"{self.file}-{n}"


def cells(gate: Gate, home: Path) -> list[Planned]:
    """The cells. home: the folder of the gate file, where scenario files are looked for.

    Raises `UsageError` and `ScenarioError` for a gate with no cells, a release or scenario that is not known, and cells
    that are there twice.
    """
    _check_axes(gate)
    bare = {given: _subject(given, home) for given in gate.scenarios}
    named = [subject.name for subject in bare.values()]
    if unknown := [name for name in gate.time.scenarios or named if name not in named]:
        raise UsageError(f"time.scenarios: {unknown[0]} is none of the gate's, which are {', '.join(named)}")
    found: list[Planned] = []
    brokers: Sequence[str | None] = gate.kafka or [None]
    clients: Sequence[str | None] = gate.clients or [None]
    for given, kafka, client, name in itertools.product(gate.scenarios, brokers, clients, gate.settings):
        subject = _with(bare[given], gate.settings[name], name, kafka, client)
        scenario = subject.scenario
        key = Key(
            scenario=subject.name,
            kafka=scenario.cluster.kafka,
            client=scenario.clients.confluent_kafka or environment.installed_release(),
            settings=name,
        )
        if not any(all(getattr(key, axis) == v for axis, v in part.values().items()) for part in gate.exclude):
            found.append(Planned(len(found) + 1, key, subject, *_digests(scenario)))
    if not found:
        raise UsageError("the gate has no cells: everything is excluded")
    _check_twice(found)
    return found


def _check_axes(gate: Gate) -> None:
    for name, values in (("scenarios", gate.scenarios), ("kafka", gate.kafka), ("clients", gate.clients)):
        if values == []:
            raise UsageError(f"the gate has no cells: {name} is empty")
        if twice := [value for value, count in Counter(values or []).items() if count > 1]:
            raise UsageError(f"duplicate cells: {name} names {twice[0]} twice")
    if not gate.settings:
        raise UsageError("the gate has no cells: settings is empty; leave it out, or write default: {}")
    for release in gate.kafka or []:
        check_release("kafka", release)
    for release in gate.clients or []:
        if release != environment.installed_release():
            check_release("client", release)


def _subject(given: str, home: Path) -> Subject:
    """The scenario that a gate names: by name, by `name/variant`, or by a file beside the gate."""
    beside = home / given
    name, _, variant = ("", "", "") if given.endswith((".yaml", ".yml")) else given.partition("/")
    file = find(name) if name else find(str(beside if beside.is_file() else given))
    scenario = load(file, variant=variant)
    if scenario.variants:
        ways = " or ".join(f"{given}/{variant}" for variant in scenario.variants)
        raise UsageError(f"{given} has variants, and a cell runs one of them: {ways}")
    return Subject(given if name else file.stem, given, scenario, None)


def _with(bare: Subject, settings: Variant, name: str, kafka: str | None, client: str | None) -> Subject:
    """One cell's scenario."""
    where = f"{bare.name} with settings {name}"
    raw = raw_of(bare.scenario)
    if settings.expect is not None:
        raw["expect"] = settings.expect.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    releases = {"cluster.kafka": kafka, "clients.confluent_kafka": client}
    overrides = [
        *(f"{path}={json.dumps(value)}" for path, value in settings.set.items()),
        *(f"{path}={value!r}" for path, value in releases.items() if value is not None),
    ]
    scenario = parse(dump(raw), where, overrides)
    if scenario.cluster.driver == "attached":  # its release is what it is, whatever the cell is called
        raise UsageError(f"{where} is for a cluster that exists, and the cells of a gate bring their own")
    for problem in unknown_settings(scenario):
        raise ScenarioError(f"{where}: {problem}")
    return replace(bare, given=where, scenario=scenario)


def _digests(scenario: Scenario) -> tuple[str, str]:
    """Of what is run, but for the releases, which are in the key of a cell; and of the cluster that it asks for."""
    plain = scenario.model_copy(update={"clients": Clients()})
    resolved = resolve(plain, run_id="gate", name="gate", created_us=now_us(), seed=1, overrides=[])
    return setup_digest(resolved), repr(cluster_spec(resolved))


def _check_twice(found: list[Planned]) -> None:
    """Two cells that run the same would be one cell with twice the weight, and look like a comparison."""
    for one, other in itertools.combinations(found, 2):
        if one.key == other.key:
            raise UsageError(f"duplicate cells: two scenario files are called {one.key.scenario}")
        if one.subject.scenario == other.subject.scenario:
            raise UsageError(f"duplicate cells: {one.key.name} and {other.key.name} run the same")


def prepare(found: list[Planned]) -> Iterator[str]:
    """Fetch every release that the cells need, each told first. Raises `ResolveError` if one is not to be had."""
    for kafka in dict.fromkeys(cell.key.kafka for cell in found):
        yield f"Kafka {kafka}"
        kafka_jars(kafka)
    for client in dict.fromkeys(cell.key.client for cell in found):
        yield f"confluent-kafka {client}"
        environment.prepare(client)


def axes(found: list[Planned]) -> dict[str, list[str]]:
    """The values of each axis, as they are in the cells."""
    return {axis: list(dict.fromkeys(getattr(cell.key, axis) for cell in found)) for axis in AXES}
