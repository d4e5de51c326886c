"""Mixtures: faults drawn by chance from the registry, several at once or with quiet between them.

Nothing is listed here that stands elsewhere: the kinds, their targets and their parameters are the specifications of
`chaos.faults.SPECS`, a parameter that has no default is in the `example` of its kind, and whether a fault fits the
scenario is what the loader of scenarios says. A fault has a role, the selector of its target (`leader_of`, `app`), and
a phase, the place of its trigger in the work.
"""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from chaos.campaign.moments import Moment, leave
from chaos.campaign.subject import Raw, Subject
from chaos.errors import ScenarioError
from chaos.faults import SPECS
from chaos.faults.base import FaultSpec
from chaos.run.exploration import PHASES, Phase
from chaos.scenario.load import of_mapping
from chaos.scenario.model import Scenario
from chaos.setup.triggers import Target

ALONE: tuple[Phase, ...] = ("start", "load", "moment", "rebalance")
"""The phases of a fault that waits for no other one."""
DRAWN = "f"
"""What the names of drawn faults begin with, before their number."""
SIZES = (1, 2, 2, 2, 3, 3, 4)
"""Numbers of faults of a mixture, from which one is drawn. A rebalance adds the fault that causes it."""
TRIES = 30
"""Draws of a fault that does not fit the others, before the mixture goes without it."""
TARGETS = 6
"""Targets with which a kind is tried before it counts as one that the scenario does not take."""
CHANGED = 0.6
"""Probability that a parameter with a default gets another value."""
SMALL = 10
"""Numbers of an example below this are drawn as well one lower or higher."""
DELAYS, QUIET, STAYS, LASTS = ("0s", "300ms", "1s"), ("1s", "3s", "8s"), ("500ms", "2s", "5s"), ("1s", "4s", "9s")
"""Times after the injection of the fault before, of quiet after its heal, from proof to heal, and to the heal."""


@dataclass(frozen=True, order=True)
class Cell:
    """What a fault of a mixture covers."""

    kind: str
    role: str
    phase: str

    def __str__(self) -> str:
        return f"{self.kind} of {role_name(self.role)}, {self.phase}"

    @classmethod
    def parse(cls, text: str) -> Cell:
        """Return the cell that a text of `key` names."""
        return cls(*text.split("|"))

    @property
    def key(self) -> str:
        """The cell as text for `runs.jsonl`."""
        return f"{self.kind}|{self.role}|{self.phase}"


def role_name(selector: str) -> str:
    """Return a role as text: `leader` for `leader_of`."""
    return selector.removesuffix("_of").replace("_", " ")


@dataclass(frozen=True)
class Mixture:
    """Faults of one run, with the cells that they cover. scenario: with them, as plain data."""

    faults: list[Raw]
    cells: list[Cell]
    scenario: Scenario

    @property
    def names(self) -> list[str]:
        """The names of the faults that were drawn, in the order of their cells."""
        return [f"{DRAWN}{number}" for number in range(1, len(self.cells) + 1)]

    def describe(self) -> str:
        """Return its cells as text."""
        return "; ".join(map(str, self.cells)) or "no fault"


@dataclass
class Mixer:
    """Draws mixtures for one scenario. moments: of its applications, as a run showed them.

    with_faults: returns the scenario with faults as plain data. accepts: whether its run could break anything.
    """

    subject: Subject
    moments: Sequence[Moment]
    with_faults: Callable[[Sequence[Raw]], Raw]
    accepts: Callable[[Scenario], bool]
    pairs: list[tuple[str, str]] = field(default_factory=list)
    """The kinds and roles that the scenario takes."""

    def __post_init__(self) -> None:
        self.values = values_of(self.subject.scenario)
        self.records = sum(p.records * p.count for p in self.subject.scenario.producers)
        self.pairs = self.pairs or list(self._pairs())

    @property
    def phases(self) -> list[Phase]:
        """The phases that the scenario has."""
        changes, others = any(m.of_change for m in self.moments), any(not m.of_change for m in self.moments)
        absent = {"rebalance": not changes, "moment": not others}
        return [phase for phase in PHASES if not absent.get(phase)]

    def cells(self) -> list[Cell]:
        """Return every cell that can be drawn."""
        bound = {"broker_of_moment": ("moment", "rebalance")}
        return [Cell(k, r, p) for k, r in self.pairs for p in self.phases if p in bound.get(r, self.phases)]

    def _pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the kinds with the roles that the loader takes, each tried alone with several targets."""
        for kind, spec in SPECS.items():
            for role in sorted(spec.targets & self.values.keys()):
                cell = Cell(kind, role, "load" if role != "broker_of_moment" else "moment")
                none, rng = Mixture([], [], self.subject.scenario), Random(f"{self.subject.seed} {kind} {role}")
                if cell.phase in self.phases and any(self._added(none, cell, rng) for _ in range(TARGETS)):
                    yield kind, role

    def draw(self, rng: Random, tried: Mapping[Cell, int]) -> Mixture:
        """Return a mixture. tried: how often each cell was covered; what was covered less is drawn rather."""
        cells, size = self.cells(), rng.choice(SIZES)
        mixture = Mixture([], [], self.subject.scenario)
        for _ in range(TRIES * size):
            if len(mixture.cells) == size:
                break
            fitting = [c for c in cells if c.phase in ALONE or mixture.faults]
            own = Counter(mixture.cells)
            weights = self._weights(fitting, {cell: tried.get(cell, 0) + own[cell] for cell in fitting}, tried)
            more = self._added(mixture, rng.choices(fitting, weights)[0], rng)
            mixture = more if more is not None and self.accepts(more.scenario) else mixture
        return mixture

    def _weights(self, cells: list[Cell], counts: Mapping[Cell, int], tried: Mapping[Cell, int]) -> list[float]:
        """Return the weights of cells: small if a cell, or its kind, was covered, and if its kind has many cells."""
        covered, roles = Counter[str](), Counter(kind for kind, _ in self.pairs)
        for cell, count in tried.items():
            covered[cell.kind] += count
        return [1 / (1 + counts[cell]) ** 2 / (1 + covered[cell.kind]) / roles[cell.kind] for cell in cells]

    def _added(self, mixture: Mixture, cell: Cell, rng: Random) -> Mixture | None:
        """Return the mixture with a fault more; None if the loader refuses it."""
        cause = self._cause(mixture, cell, rng)
        if cause is None:
            return None
        before, trigger = cause
        name = f"{DRAWN}{len(mixture.cells) + 1}"
        raw = {"name": name, "kind": cell.kind, "target": {cell.role: rng.choice(self.values[cell.role])}}
        raw |= self._parameters(SPECS[cell.kind], rng) | {"when": trigger}
        for heal in _heals(name, SPECS[cell.kind].breaks_brokers, rng):
            faults = [*before, raw | heal]
            if (scenario := loaded(self.with_faults(faults), self.subject.source)) is not None:
                return Mixture(faults, [*mixture.cells, cell], scenario)
        return None

    def _cause(self, mixture: Mixture, cell: Cell, rng: Random) -> tuple[list[Raw], Raw] | None:
        """Return the faults before one in a phase, and its trigger."""
        faults = list(mixture.faults)
        match cell.phase:
            case "start":
                return faults, {"at": "0s"}
            case "load":
                return faults, {"acked": max(1, round(self.records * rng.uniform(0.1, 0.6)))}
            case "moment" | "rebalance":
                changes = cell.phase == "rebalance"
                own = [m for m in self.moments if m.of_change == changes]
                moment = rng.choice([m for m in own if m.count > 1] or own)  # what came once may not come again
                causes = [leave(moment.app)] if changes else []
                known = {fault["name"] for fault in faults}
                return [*(c for c in causes if c["name"] not in known), *faults], {
                    "wire": moment.wire(rng.randint(1, max(1, moment.count // 2)))
                }
        if not faults:
            return None
        last = faults[-1]["name"]
        if cell.phase == "overlap":
            return faults, {"after": f"{last}.injected + {rng.choice(DELAYS)}"}
        phase, quiet = "healed" if "heal" in faults[-1] else "proven", rng.choice(QUIET)
        if apps := [app for app in self.values["app"] if "/" not in app]:
            return faults, {"works": {"app": rng.choice(apps), "after": f"{last}.{phase} + {quiet}"}}
        return faults, {"after": f"{last}.{phase} + {quiet}"}

    def _parameters(self, spec: type[FaultSpec], rng: Random) -> Raw:
        """Return the parameters of a kind: its example, and by chance one other that is a word of a list.

        With several, a fault of frames would be about so few of them that none comes.
        """
        found = spec.example_parameters()
        spec.model_rebuild()
        own = {name: info for name, info in spec.model_fields.items() if name not in FaultSpec.model_fields}
        words = {name: self._values_of(name, info) for name, info in own.items()}
        for name, value in found.items():
            if type(value) is int and value < SMALL:
                found[name] = max(1, value + rng.choice((-1, 0, 1)))
        for name in own:
            if words[name] and (name == "app" or (own[name].is_required() and name not in found)):
                found[name] = rng.choice(words[name])
        others = [name for name in own if words[name] and name not in found]
        if others and rng.random() < CHANGED:
            name = rng.choice(others)
            found[name] = rng.choice(words[name])
        return found

    def _values_of(self, name: str, info: FieldInfo) -> list[Any]:
        """Return the values that a parameter may get: words of its list, or names of the scenario.

        Of requests, the ones of the applications count as often as they came.
        """
        words = list(options(info)) or list(self.values.get(name, ()))
        if name == "api" and self.moments:
            return [moment.api for moment in self.moments for _ in range(moment.count) if moment.api in words]
        return words


def loaded(raw: Raw, where: str) -> Scenario | None:
    """Return the scenario of plain data; None if the loader refuses it."""
    try:
        Scenario.model_validate(raw)  # what is wrong does not matter, and takes long to word
        return of_mapping(raw, where)
    except (ValidationError, ScenarioError):
        return None


def _heals(name: str, of_broker: bool, rng: Random) -> Iterator[Raw]:
    """Yield the ways in which a fault may end, in the order in which they are tried.

    A fault of a broker is proven only after a session, so a time alone would heal it before.
    """
    proven = {"heal": {"when": {"after": f"{name}.proven + {rng.choice(STAYS)}"}}}
    timed, never = {"heal": {"after": rng.choice(LASTS)}}, Raw()
    first = proven if of_broker else rng.choice((proven, proven, timed, never))
    yield from (first, *(way for way in (proven, timed, never) if way is not first))


def options(info: FieldInfo) -> Iterator[Any]:
    """Yield the values of a parameter that is a word of a list, or that has examples."""
    yield from info.examples or _words(info.annotation)


def _words(annotation: Any) -> Iterator[Any]:
    origin = get_origin(annotation)
    if annotation is bool:
        yield from (False, True)
    elif origin is Literal:
        yield from get_args(annotation)
    elif origin is Annotated:
        yield from _words(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for part in get_args(annotation):
            yield from _words(part)


def values_of(scenario: Scenario) -> dict[str, list[Any]]:
    """Return the values that each selector of a target can have in a scenario; without selectors that have none.

    Parameters that name the same things have the same names.
    """
    partitions = [f"{topic.name}/{n}" for topic in scenario.topics for n in range(topic.partitions)]
    apps = [app for app in scenario.apps if not app.external]
    entries = [(entry, getattr(entry, "members", 0) or getattr(entry, "count", 1)) for entry in scenario.entries]
    found: dict[str, Iterable[Any]] = dict.fromkeys(Target.model_fields, ())
    for name, info in Target.model_fields.items():
        found[name] = list(options(info))
    for name in ("leader_of", "followers_of", "follower_of", "isr_of", "partition"):
        found[name] = partitions
    found |= {
        "topic": [topic.name for topic in scenario.topics],
        "broker": range(1, scenario.cluster.brokers + 1),
        "rack": list(dict.fromkeys(scenario.cluster.racks)),
        "group": [*scenario.groups, *scenario.app_groups],
        "coordinator_of": scenario.groups,
        "random_member_of": scenario.groups,
        "share_coordinator_of": [share.group for share in scenario.shares],
        "transaction_coordinator_of": [f"{entry.name}-{n}" for entry, count in entries for n in range(1, count + 1)],
        "member": [f"{entry.name}/{n}" for entry, count in entries for n in range(1, count + 1)],
        "random_member": [entry.name for entry, _ in entries],
        "task_manager": [f"{entry.name}/1" for entry, _ in entries],
        "task_manager_of": [f"{entry.name}/1" for entry, _ in entries],
        "coordinator_of_app": [app.name for app in apps],
        "app": [*(app.name for app in apps), *(f"{app.name}/{n}" for app in apps for n in range(1, app.instances + 1))],
    }
    return {name: values for name, given in found.items() if (values := list(given))}
