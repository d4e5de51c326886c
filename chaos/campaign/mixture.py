"""Mixtures: faults drawn by chance from the registry, several at once or with quiet between them.

Nothing is listed here that stands elsewhere: the kinds, their targets and their parameters are the specifications of
`chaos.faults.SPECS`, a parameter that has no default is in the `example` of its kind, and whether a fault fits the
scenario is what the loader of scenarios says. A fault has a role, the selector of its target (`leader_of`, `app`), and
a phase, the place of its trigger in the work.

A run proves something only if each trigger comes and each proof is seen. So faults that may hit the same broker,
instance or client are linked: the later one waits for the proof of the earlier one, or for its heal (`_cause`). A fault
heals after its proof, and faults of frames are of such frames as come to their brokers all the time (`_heard`).
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

from chaos.campaign.moments import MEMBERSHIP, Moment, leave
from chaos.campaign.subject import Raw, Subject
from chaos.errors import ScenarioError
from chaos.faults import SPECS
from chaos.faults.base import BROKER_TARGETS, FaultSpec
from chaos.faults.wire import REPEATED_BY_MEMBERS, FrameFaultSpec, ShareApi
from chaos.run.exploration import PHASES, Phase
from chaos.scenario.load import of_mapping
from chaos.scenario.model import Scenario
from chaos.setup.triggers import CONTROLLER_TARGETS, Target

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
OWN = 3
"""Weight of a kind that hits the application itself: it says more than one of brokers that no client may notice."""
SMALL = 10
"""Numbers of an example below this are drawn as well one lower or higher."""
DELAYS, QUIET, STAYS, LASTS = ("0s", "300ms", "1s"), ("1s", "3s", "8s"), ("500ms", "2s", "5s"), ("4s", "9s")
"""Times after the fault before, of quiet after its heal, from proof to heal, and to a heal before the proof."""
LEAST_SEEN, LEAST_OF_CHANGE = 4, 2
"""How often a moment came at least in the first run, which has one rebalance: at any time, and during the rebalance.
Rarer moments are due to the order in which single frames crossed, and may not come again."""
EARLY = 4
"""A fault waits for a moment of the first quarter of those in the first run: another fault may slow the work down."""
RESOLVED = frozenset({"leader_of", "controller", "coordinator_of", "coordinator_of_app", "transaction_coordinator_of"})
"""Roles that another broker has once a broker is down, so that they never mean the one that is down."""
UNLIKELY = "controller_observer"
"""A role that no node has before a voter was removed from the quorum."""
CLIENTS = frozenset({"member", "random_member", "random_member_of", "task_manager", "task_manager_of"})


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


def names_of(count: int) -> list[str]:
    """Return the names of so many drawn faults, in the order in which they were drawn."""
    return [f"{DRAWN}{number}" for number in range(1, count + 1)]


@dataclass(frozen=True)
class Mixture:
    """Faults of one run, with the cells that they cover. scenario: with them, as plain data."""

    faults: list[Raw]
    cells: list[Cell]
    scenario: Scenario

    @property
    def names(self) -> list[str]:
        """The names of the faults that were drawn, in the order of their cells."""
        return names_of(len(self.cells))

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
        absent = {"rebalance": not self._moments(of_change=True), "moment": not self._moments(of_change=False)}
        return [phase for phase in PHASES if not absent.get(phase)]

    def cells(self) -> list[Cell]:
        """Return every cell that can be drawn."""
        bound = {"broker_of_moment": ("moment", "rebalance")}
        found = [Cell(k, r, p) for k, r in self.pairs for p in self.phases if p in bound.get(r, self.phases)]
        return [cell for cell in found if cell.phase != "start" or not SPECS[cell.kind].needs_records]

    def _pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the kinds with the roles that the loader takes, as far as a run with one alone could break something.

        Each is tried with several targets.
        """
        for kind, spec in SPECS.items():
            for role in sorted(spec.targets & self.values.keys()) if not spec.premise else ():
                cell = Cell(kind, role, "load" if role != "broker_of_moment" else "moment")
                none, rng = Mixture([], [], self.subject.scenario), Random(f"{self.subject.seed} {kind} {role}")
                alone = (self._added(none, cell, rng) for _ in range(TARGETS)) if cell.phase in self.phases else ()
                if any(mixture is not None and self.accepts(mixture.scenario) for mixture in alone):
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
        hits = {kind: OWN if self._hits_application(SPECS[kind]) else 1 for kind, _ in self.pairs}
        covered, roles = Counter[str](), Counter(kind for kind, _ in self.pairs)
        for cell, count in tried.items():
            covered[cell.kind] += count
        return [hits[c.kind] / ((1 + counts[c]) * (1 + covered[c.kind])) ** 2 / roles[c.kind] for c in cells]

    def _hits_application(self, spec: type[FaultSpec]) -> bool:
        """Return whether a kind is of processes or frames of an application, and the scenario has one."""
        return "app" in self.values and ("app" in spec.targets or "app" in spec.model_fields)

    def _added(self, mixture: Mixture, cell: Cell, rng: Random) -> Mixture | None:
        """Return the mixture with a fault more; None if its trigger may not come, or if the loader refuses it."""
        spec, name = SPECS[cell.kind], f"{DRAWN}{len(mixture.cells) + 1}"
        parameters = self._parameters(spec, cell.role, rng)
        values = [value for value in self.values[cell.role] if self._heard(spec, cell.role, value, parameters)]
        if not values:
            return None
        raw = {"name": name, "kind": cell.kind, "target": {cell.role: rng.choice(values)}, **parameters}
        if "other" in raw:
            if (other := self._other(raw["target"], rng)) is None:
                return None
            raw["other"] = other
        if (cause := self._cause(mixture.faults, raw, cell, rng)) is None:
            return None
        before, trigger = cause
        for heal in _heals(name, cell.role in spec.proven_when_back, rng):
            faults = [*before, raw | {"when": trigger} | heal]
            scenario = loaded(self.with_faults(faults), self.subject.source)
            if scenario is not None and _has_load(scenario):
                return Mixture(faults, [*mixture.cells, cell], scenario)
        return None

    def _other(self, target: Raw, rng: Random) -> Raw | None:
        """Return a target that is another broker for certain; None if there is none."""
        ((role, value),) = target.items()
        if role == "leader_of":
            return {"follower_of": value}
        others = [broker for broker in self.values["broker"] if broker != value]
        return {"broker": rng.choice(others)} if role == "broker" and others else None

    def _heard(self, spec: type[FaultSpec], role: str, value: Any, parameters: Raw) -> bool:
        """Return whether the frames that a fault is of come all the time to the brokers of its target.

        True of every other fault. Of brokers with other roles it depends on where the leaders are.
        """
        if not issubclass(spec, FrameFaultSpec) or role == "all_brokers":
            return True
        api, app = parameters.get("api", spec.model_fields["api"].get_default()), parameters.get("app")
        if role in ("coordinator_of", "coordinator_of_app"):
            return app in (None, value) and (api is None or api in REPEATED_BY_MEMBERS)
        reads, writes = self._topics_of(app)
        of_readers = dict.fromkeys(("Fetch", *get_args(ShareApi)), reads)
        topics = {**of_readers, "Produce": writes, None: reads | writes}.get(api, set())
        return role in ("leader_of", "isr_of") and str(value).rpartition("/")[0] in topics

    def _topics_of(self, app: str | None) -> tuple[set[str], set[str]]:
        """Return the topics that an application, or the clients of the scenario, read and write."""
        scenario = self.subject.scenario
        if app is not None:
            reads = {topic for one in scenario.apps if one.name == app for topic in one.reads}
            return reads, {topic for effect in scenario.effects for topic in effect.topics}
        names = [topic.name for topic in scenario.topics]
        reads = {topic for reader in scenario.readers for topic in reader.topics_among(names)}
        return reads, {topic for producer in scenario.producers for topic in producer.written}

    def _cause(self, faults: list[Raw], raw: Raw, cell: Cell, rng: Random) -> tuple[list[Raw], Raw] | None:
        """Return the faults before one in a phase, and its trigger; None if it may not come."""
        met = next((fault for fault in reversed(faults) if meet(fault, raw)), None)
        if cell.phase in ALONE and met is not None:
            return None
        match cell.phase:
            case "start":
                return faults, {"at": "0s"}
            case "load":
                return faults, {"acked": max(1, round(self.records * rng.uniform(0.1, 0.6)))}
            case "moment":
                moment = rng.choice(self._moments(of_change=False))
                return faults, {"wire": moment.wire(rng.randint(1, max(1, moment.count // EARLY)))}
            case "rebalance":
                return self._of_rebalance(faults, raw, rng)
        last = met or (faults[-1] if faults else None)
        if last is None:
            return None
        if cell.phase == "overlap":
            if met is not None and not overlaps(met, raw, self.subject.scenario.cluster.brokers):
                return None
            return faults, {"after": f"{last['name']}.{'proven' if met else 'injected'} + {rng.choice(DELAYS)}"}
        after = f"{last['name']}.{'healed' if 'heal' in last else 'proven'} + {rng.choice(QUIET)}"
        if apps := [app for app in self.values.get("app", ()) if "/" not in app]:
            return faults, {"works": {"app": rng.choice(apps), "after": after}}
        return faults, {"after": after}

    def _of_rebalance(self, faults: list[Raw], raw: Raw, rng: Random) -> tuple[list[Raw], Raw] | None:
        """Return the faults before one at a moment of a rebalance, with the one that causes it, and its trigger.

        The moment is one that `Moment.nth` chooses: the first ones belong to the start of the group. A request that
        only a rebalance causes may come after any other step.
        """
        moment = rng.choice(self._moments(of_change=True))
        cause, wire = leave(moment.app), moment.wire(moment.nth(rng.randrange(1 << 32)))
        if cause not in faults:
            if any(meet(fault, cause) for fault in faults):
                return None
            faults = [cause, *faults]
        if meet(raw, cause) and (raw["target"] != {"app": moment.app} or moment.side == "response"):
            return None  # that instance may be the one that left, and an answer may come to one that has ended
        if moment.api in MEMBERSHIP:
            wire.pop("after")
        return faults, {"wire": wire}

    def _moments(self, *, of_change: bool) -> list[Moment]:
        """Return the moments, of a rebalance or not, that come again. Requests of members come in every rebalance."""
        least = LEAST_OF_CHANGE if of_change else LEAST_SEEN
        own = [moment for moment in self.moments if moment.of_change == of_change]
        return [moment for moment in own if moment.count >= least or moment.api in MEMBERSHIP]

    def _parameters(self, spec: type[FaultSpec], role: str, rng: Random) -> Raw:
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
        if issubclass(spec, FrameFaultSpec):
            apis = [api for api in words["api"] if self._is_heard(spec, role, api, found)]
            words |= {"topic": [], "partition": [], "api": apis}
        others = [name for name in own if words[name] and name not in found]
        if others and rng.random() < CHANGED:
            name = rng.choice(others)
            found[name] = rng.choice(words[name])
        return found

    def _is_heard(self, spec: type[FaultSpec], role: str, api: str, parameters: Raw) -> bool:
        """Return whether requests of a kind come all the time to a broker with a role."""
        return any(self._heard(spec, role, value, {**parameters, "api": api}) for value in self.values[role])

    def _values_of(self, name: str, info: FieldInfo) -> list[Any]:
        """Return the values that a parameter may get: words of its list, or names of the scenario.

        Of requests, the ones that come all the time, and of applications as often as they came. The instances of an
        application speak to other brokers each.
        """
        words = list(options(info)) or list(self.values.get(name, ()))
        if name == "api":
            of_apps = [moment.api for moment in self._moments(of_change=False) for _ in range(moment.count)]
            return [api for api in of_apps or ("Produce", "Fetch", "OffsetCommit") if api in words]
        return [word for word in words if name != "app" or "/" not in word]


def meet(one: Raw, other: Raw) -> bool:
    """Return whether two faults may hit the same thing: brokers, as roles move, or an instance or a client."""
    (role, value), (other_role, other_value) = (next(iter(fault["target"].items())) for fault in (one, other))
    sorts = {"app" if r == "app" else "client" if r in CLIENTS else "cluster" for r in (role, other_role)}
    if len(sorts) == 2:
        return False
    if sorts == {"cluster"} or "random_member_of" in (role, other_role):
        return True
    name, _, number = str(value).partition("/")
    other_name, _, other_number = str(other_value).partition("/")
    return name == other_name and (not number or not other_number or number == other_number)


def overlaps(first: Raw, second: Raw, brokers: int) -> bool:
    """Return whether a fault can be injected and proven while another one that it meets is in, and proven.

    A broker that is down has no effect to show, nor has an instance or a client, and a topic that is deleted has none.
    With one broker, nobody takes its place.
    """
    spec, (role, _) = SPECS[first["kind"]], next(iter(second["target"].items()))
    if role in CLIENTS or role == "app" or first["kind"] == second["kind"] or "recreates" in spec.effects:
        return False
    if "outage" not in spec.effects:
        return True
    if brokers == 1:
        return False
    needs_all = {"one_by_one", "reassigns"} & SPECS[second["kind"]].effects  # they wait for all replicas in sync
    return not needs_all and (role in RESOLVED or role not in BROKER_TARGETS | CONTROLLER_TARGETS)


def _has_load(scenario: Scenario) -> bool:
    """Return whether a producer runs from the start: else nothing happens that other faults wait for."""
    held = scenario.held_back()
    return any(f"{p.name}/{n}" not in held for p in scenario.producers for n in range(1, p.count + 1))


def loaded(raw: Raw, where: str) -> Scenario | None:
    """Return the scenario of plain data; None if the loader refuses it."""
    try:
        Scenario.model_validate(raw)  # what is wrong does not matter, and takes long to word
        return of_mapping(raw, where)
    except (ValidationError, ScenarioError):
        return None


def _heals(name: str, before_proof: bool, rng: Random) -> Iterator[Raw]:
    """Yield the ways in which a fault may end, in the order in which they are tried: some have nothing to heal.

    before_proof: whether the proof comes only after the heal.
    """
    proven = {"heal": {"when": {"after": f"{name}.proven + {rng.choice(STAYS)}"}}}
    timed = {"heal": {"after": rng.choice(LASTS)}}
    yield from (timed if before_proof else proven, {})


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
    return {name: values for name, given in found.items() if name != UNLIKELY and (values := list(given))}
