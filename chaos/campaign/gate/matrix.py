"""The cells of a gate: every scenario with every release and every setting, and what each cell is compared with:
a cell of a stored result of the same matrix, or another cell of this one.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from chaos.campaign.clients import clients_of, parse_choice, with_client
from chaos.campaign.gate.model import Gate, Part
from chaos.campaign.releases import check_release
from chaos.campaign.subject import Subject, dump, raw_of
from chaos.clients.choice import DEFAULT, Client
from chaos.clients.runtime import prepare, runtime
from chaos.drive.stages import cluster_spec
from chaos.errors import AftershockError, RunDirError, ScenarioError, UsageError
from chaos.history.runs import setup_digest
from chaos.install.jars import kafka_jars
from chaos.run.campaign import FORMAT, RESULT, GateResult, Key, LeftOut, Machine
from chaos.run.directory import read_json
from chaos.run.events import now_us
from chaos.scenario.load import find, load, parse
from chaos.scenario.model import Scenario, Variant
from chaos.scenario.resolve import resolve
from chaos.setup.model import Clients


@dataclass(frozen=True)
class Matrix:
    """The cells of a gate that can run, and the cells that cannot."""

    cells: list[PlannedCell]
    left_out: list[LeftOut]


@dataclass(frozen=True)
class PlannedCell:
    """A cell that can run. number: from 1, in the order of the matrix; setup: a digest of all but the releases."""

    number: int
    key: Key
    subject: Subject
    setup: str
    cluster: str
    """The cluster specification as text: cells with equal ones can share a cluster."""

    @property
    def file(self) -> str:
        """A short file name: paths of sockets below it must fit into 108 bytes."""
        return f"cell-{self.number:02}"

    def run_id(self, n: int) -> str:
        """Return the id of the n-th run."""
        return f"{self.file}-{n}"


def plan(gate: Gate, home: Path) -> Matrix:
    """Return the matrix of a gate. home: the folder of the gate file, in which scenario files are searched.

    A cell is left out if its client library lacks what the scenario asks for. Raises `UsageError` or `ScenarioError`
    for a gate without cells, an unknown release or scenario, or a duplicate cell.
    """
    _check_axes(gate)
    subjects = {source: load_source(source, home) for source in gate.scenarios}
    names = [subject.name for subject in subjects.values()]
    if unknown := [name for name in gate.time.scenarios or names if name not in names]:
        raise UsageError(f"time.scenarios: the gate has no scenario {unknown[0]}; it has {', '.join(names)}")
    planned: list[PlannedCell] = []
    left_out: list[LeftOut] = []
    brokers: Sequence[str | None] = gate.kafka or [None]
    clients: Sequence[str | None] = gate.clients or [None]
    for source, kafka, client, name in itertools.product(gate.scenarios, brokers, clients, gate.settings):
        chosen = parse_choice(client) if client else None
        subject = _changed(subjects[source], gate.settings[name], name, kafka, chosen)
        key = Key(
            scenario=subject.name,
            kafka=kafka or subject.scenario.cluster.kafka,
            client=client or clients_of(subject.scenario),
            settings=name,
        )
        if any(all(getattr(key, axis) == v for axis, v in part.values().items()) for part in gate.exclude):
            continue
        try:
            if chosen is not None:
                subject = _with_client(subject, gate.settings[name], name, kafka, chosen)
        except _CannotRun as e:
            left_out.append(LeftOut(key=key, reason=str(e)))
            continue
        planned.append(PlannedCell(len(planned) + 1, key, subject, *_digests(subject.scenario)))
    if not planned and left_out:
        reasons = "; ".join(f"{out.key.name}: {out.reason}" for out in left_out)
        raise UsageError(f"no cell can run: {reasons}")
    if not planned:
        raise UsageError("the gate has no cells: everything is excluded")
    _check_duplicates(planned)
    return Matrix(planned, left_out)


def _check_axes(gate: Gate) -> None:
    for name, values in (("scenarios", gate.scenarios), ("kafka", gate.kafka), ("clients", gate.clients)):
        if values == []:
            raise UsageError(f"the gate has no cells: {name} is empty")
        if duplicates := [value for value, count in Counter(values or []).items() if count > 1]:
            raise UsageError(f"duplicate cells: {name} names {duplicates[0]} twice")
    if not gate.settings:
        raise UsageError("the gate has no cells: settings is empty; leave it out, or write default: {}")
    for release in gate.kafka or []:
        check_release("kafka", release)
    for release in gate.clients or []:
        if release[:1].isdigit() and release != runtime().default_release():
            check_release(runtime().package, release)


def load_source(source: str, home: Path) -> Subject:
    """Load a scenario by its name or from a file in the folder of the gate; of an A/B scenario, also its variant."""
    whole = source.endswith((".yaml", ".yml")) or "/" not in source
    name, _, variant = (source, "", "") if whole else source.rpartition("/")
    own_file = home / name
    file = find(str(own_file) if own_file.is_file() else name)
    scenario = load(file, variant=variant)
    if scenario.variants:
        choices = " or ".join(f"{source}/{variant}" for variant in scenario.variants)
        raise UsageError(f"{source} has variants, and a cell runs one of them: {choices}")
    title = f"{file.stem}/{variant}" if variant else file.stem
    return Subject(title, source, scenario, seed=0)  # each run of a cell has its own seed


def _with(subject: Subject, settings: Variant, name: str, kafka: str | None) -> Subject:
    """Return the subject with the settings and the Kafka release of a cell."""
    where = _named(subject, name)
    raw = raw_of(subject.scenario)
    if settings.expect is not None:
        raw["expect"] = settings.expect.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    overrides = [f"{path}={json.dumps(value)}" for path, value in settings.set.items()]
    overrides += [f"cluster.kafka={kafka!r}"] if kafka is not None else []
    scenario = parse(dump(raw), where, overrides)
    if scenario.cluster.driver == "attached":  # the gate cannot choose its release
        raise UsageError(f"{where} uses an existing cluster; the cells of a gate start new ones")
    return replace(subject, source=where, scenario=scenario)


def _named(subject: Subject, settings: str) -> str:
    return f"{subject.name} with settings {settings}"


class _CannotRun(Exception):
    """The client library of a cell lacks something that its scenario asks for."""


def _changed(subject: Subject, settings: Variant, name: str, kafka: str | None, client: Client | None) -> Subject:
    """Return the subject with settings; unchanged if they may have the names of the cell's library."""
    try:
        return _with(subject, settings, name, kafka)
    except ScenarioError:
        if client is None or client.runtime == DEFAULT:
            raise
        return subject


def _with_client(subject: Subject, settings: Variant, name: str, kafka: str | None, client: Client) -> Subject:
    """Return what `_changed` returns with a client library, and all settings. Raises `_CannotRun`."""
    try:
        found = with_client(subject, client)
        changed = subject.source == _named(subject, name)
        return found if changed else _with(found, settings, name, kafka)
    except ScenarioError as e:
        raise _CannotRun(str(e)) from None


def _digests(scenario: Scenario) -> tuple[str, str]:
    """Return digests of the scenario without the releases, which are in the cell's key, and of the cluster."""
    plain = scenario.model_copy(update={"clients": Clients()})
    resolved = resolve(plain, run_id="gate", name="gate", created_us=now_us(), seed=1, overrides=[])
    return setup_digest(resolved), repr(cluster_spec(resolved))


def _check_duplicates(planned: list[PlannedCell]) -> None:
    """Refuse two cells that run the same: they would count twice and look like a comparison."""
    for cell, other in itertools.combinations(planned, 2):
        if cell.key == other.key:
            raise UsageError(f"duplicate cells: two scenario files are called {cell.key.scenario}")
        if cell.subject.scenario == other.subject.scenario:
            raise UsageError(f"duplicate cells: {cell.key.name} and {other.key.name} run the same")


def fetch_releases(planned: Sequence[PlannedCell], say: Callable[[str], None]) -> None:
    """Install every release that the cells need and the cache lacks. Raises `ResolveError`.

    A client library that cannot be installed is only reported: its cells are then inconclusive, with the reason.
    """
    for kafka in dict.fromkeys(cell.key.kafka for cell in planned):
        say(f"checking Kafka {kafka}")
        kafka_jars(kafka)
    for client in dict.fromkeys(client for cell in planned for client in cell.subject.scenario.client_libraries):
        say(f"checking {client.traits.library} {client.release or runtime(client.runtime).default_release()}")
        try:
            prepare(client, say)
        except AftershockError as e:
            say(f"{client.describe()} cannot be used: {e}")


@dataclass(frozen=True)
class Pair:
    """Cell `number` and the cell that it is compared with. stored: whether that one is in the baseline."""

    number: int
    other: int
    stored: bool
    name: str
    """The name of the other side, such as `the baseline` or `Kafka 3.9.2`."""


def read_baseline(path: Path) -> GateResult:
    """Read a stored result. Raises `UsageError` if it is missing and `RunDirError` if it is not valid."""
    if path.is_dir():
        path = path / RESULT
    if not path.is_file():
        raise UsageError(f"there is no baseline {path}; a gate writes one as {RESULT}")
    raw = read_json(path, "baseline")
    if isinstance(raw, dict) and raw.get("format", FORMAT) != FORMAT:
        raise RunDirError(f"{path} is of format {raw['format']}, and this version of Aftershock reads {FORMAT}")
    try:
        return GateResult.model_validate(raw)
    except ValidationError as e:
        raise RunDirError(f"{path} is not the result of a gate ({e.error_count()} errors)") from None


def pairs(
    gate: Gate, cells: Sequence[PlannedCell], stored: GateResult | None, left_out: Sequence[LeftOut] = ()
) -> list[Pair]:
    """Pair each cell with the one to compare it with; a cell with a partner that is left out has none.

    Raises `UsageError` for a baseline of another matrix.
    """
    result: list[Pair] = []
    missing: list[str] = []
    changed = gate.reference.model_dump(exclude_none=True) if gate.reference else {}
    partners = {cell.number: cell.key.model_copy(update=changed) for cell in cells}
    here = {cell.key: cell for cell in cells}
    for cell in cells:
        other = partners[cell.number]
        if gate.reference is not None and other != cell.key:
            if other in here:
                result.append(Pair(cell.number, here[other].number, False, _name(gate.reference)))
                continue
            if any(out.key == other for out in left_out):
                continue
            if stored is None:
                ((axis, value),) = gate.reference.values().items()
                known = ", ".join(dict.fromkeys(getattr(cell.key, axis) for cell in cells))
                raise UsageError(
                    f"reference {axis} {value}: neither the matrix nor a baseline has such a cell; "
                    f"the matrix has {known}"
                )
        if stored is None:
            continue
        then = next((baseline for baseline in stored.cells if baseline.key == other), None)
        if then is None:
            missing.append(other.name)
        else:
            if other == cell.key and then.setup != cell.setup:
                raise UsageError(
                    f"the baseline is of another matrix: {other.name} was another scenario then; run the gate without "
                    f"it, and use its new {RESULT} as the baseline"
                )
            result.append(Pair(cell.number, then.number, True, "the baseline"))
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise UsageError(
            f"the baseline is of another matrix: it has no cell {missing[0]}{more}; run the gate without it"
        )
    if gate.reference is not None and all(partners[cell.number] == cell.key for cell in cells):
        raise UsageError(
            f"reference {_name(gate.reference)}: every cell has this value, so there is nothing to compare"
        )
    return result


def _name(reference: Part) -> str:
    ((axis, value),) = reference.values().items()
    return {"kafka": f"Kafka {value}", "client": f"client {value}"}.get(axis, value)


def warnings(stored: GateResult, machine: Machine) -> list[str]:
    """Return warnings about a baseline."""
    texts = []
    if stored.machine != machine:
        texts.append(
            f"The baseline was measured on another machine ({stored.machine.platform}, {stored.machine.cpus} CPUs): "
            "times of different machines are hardly comparable."
        )
    if stored.verdict != "pass":
        texts.append(f"The baseline itself is not a pass: {stored.sentence}")
    return texts
