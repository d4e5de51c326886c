"""The base of every fault: its specification, the fault itself, and the world that it acts on and observes."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, Protocol, Self, TypeVar

import yaml
from pydantic import Field, PrivateAttr, model_validator

from chaos.clients.traits import Ability
from chaos.cluster.api import Cluster
from chaos.kafka.partition import TopicPartition
from chaos.kafka.security import Access
from chaos.preload.libraries import Skew
from chaos.run.directory import Run
from chaos.setup.apps import App
from chaos.setup.model import PARTITION_TARGETS, Limits, Setup
from chaos.setup.names import PRIMARY, EntryName, Spelled
from chaos.setup.triggers import CONTROLLER_TARGETS, Heal, Strict, Target, Trigger, check_one_of

if TYPE_CHECKING:
    from chaos.kafka.client import Kafka
    from chaos.observer import Observer
    from chaos.relay.control import Hits, Proxy

Name = Annotated[
    str, Spelled(r"^[A-Za-z0-9][A-Za-z0-9_-]{0,79}$", "1 to 80 letters, digits, _ and -, a letter or digit first")
]

ONE_BROKER = frozenset(
    {
        *(
            "leader_of",
            "follower_of",
            "coordinator_of",
            "coordinator_of_app",
            "share_coordinator_of",
            "transaction_coordinator_of",
        ),
        *("controller", "broker", "random_broker", "broker_of_moment"),
    }
)
BROKER_TARGETS = ONE_BROKER | {"followers_of", "isr_of", "all_brokers", "rack"}
TOPIC, GROUP = frozenset({"topic"}), frozenset({"group"})
TOPIC_OR_PARTITION = TOPIC | {"partition"}
BROKERS = "brokers"
BY_ADMINISTRATOR = "an act of an administrator"
"""Why `prove` leaves out a kind; see `FaultSpec.left_out`."""
Direction = Annotated[
    Literal["both", "in", "out"], Field(description="as the broker sees it; in: packets to the broker are lost")
]


Effect = Literal[
    "outage",  # a broker is down, does not answer, refuses clients, or is cut off from other brokers or clients
    "crash",  # a broker may end without a shutdown
    "one_by_one",  # the brokers are down one after another, each after all replicas are in sync
    "isolates",  # controllers do not hear of each other, or not in time
    "voters",  # changes the voters of a quorum of dedicated controllers, which clients do not see
    "wipes",  # a broker loses its disk
    "power",  # a broker loses records that are not on its disk
    "elections",  # leaders change while their brokers work; each outage may change leaders, too
    "unclean",  # a replica outside the ISR may become leader
    "reassigns",  # replicas move to other brokers
    "late",  # a broker may write a request after its client has given it up
    "wire",  # requests or answers of single clients are lost, late, or replaced
    "connections",  # may end connections of clients, or lose answers
    "repeats",  # a record may reach a client twice in one answer
    "recreates",  # a topic is another one afterwards
    "deletes",  # records are deleted
    "adds",  # there are partitions that were not there before
    "resets",  # a group has other committed offsets
    "forgets",  # a group has no committed offsets
    "ends",  # a member loses its partitions without handing them over, also by a clock that measures its intervals
    "hands_over",  # a member gives its partitions up in a controlled way, or others join
    "restarts",  # a client ends, and its next incarnation goes on
    "crashes",  # a client ends without closing
    "seeks",  # a consumer moves its position
]
"""What a fault may do to what Kafka promises. Contracts derive from it what is left of the promises in a run."""

REMOVING = frozenset[Effect]({"wipes", "power", "unclean", "recreates", "deletes", "forgets", "resets"})
"""Effects that remove what is in a cluster, or where a group goes on."""


class FaultSpec(Strict, defer_build=True):
    """The fields that every fault has, and the rules for them.

    A subclass adds its `kind`, its parameters and, in `problems`, its own rules. Its docstring says what the fault does
    and how it is healed: the fault reference is generated from it. A base of several kinds has no `kind`.
    """

    targets: ClassVar[frozenset[str]] = ONE_BROKER
    """The keys of `Target` that the fault takes."""
    needs: ClassVar[frozenset[str]] = frozenset()
    """The driver capabilities that the fault needs, by their names in `chaos.cluster.api.CAPABILITIES`."""
    effects: ClassVar[frozenset[Effect]]
    """What the fault may do to what Kafka promises; empty: nothing. Each kind says it, there is no default."""
    left_out: ClassVar[str] = ""
    """Why `prove` does not inject the fault; empty if its table of attacks has the kind."""
    abilities: ClassVar[tuple[Ability, ...]] = ()
    """What the client library of the targeted entry has to be able to do."""
    limit: ClassVar[tuple[str, str] | None] = None
    """The key of `cluster` without which there is nothing to use up, and its meaning."""
    breaks_brokers: ClassVar[bool] = True
    """False for a fault that targets a broker but leaves the broker itself alone."""
    hits_controllers: ClassVar[bool] = False
    """True for a fault that takes dedicated controllers as its target."""
    once_per_target: ClassVar[bool] = False
    """True for a fault that a scenario may contain only once for the same target."""
    run_only: ClassVar[str] = ""
    """What a fault needs that only a run has, so that `break` refuses it; empty if a cluster is enough."""
    of_each_cluster: ClassVar[bool] = False
    """True if each cluster that a run starts has that, and not only the first one."""
    final: ClassVar[bool] = False
    """True for a change of data that nothing undoes."""
    example: ClassVar[str] = ""
    """The parameters that a fault needs, as `break` takes them; where an exploration at random begins."""
    premise: ClassVar[str] = ""
    """A state that has to be there first, and that no other fault leaves behind for sure: such a kind is not drawn."""
    needs_records: ClassVar[bool] = False
    """True for a fault of records or offsets that exist, so that it fails at the start of the load."""
    proven_when_back: ClassVar[frozenset[str]] = frozenset()
    """Targets of several brokers that may leave no majority: then the heal has to come before the proof."""
    no_promise: ClassVar[str] = ""
    """Why no rule says what settings promise under the fault; empty if rules do."""
    one_of: ClassVar[tuple[str, ...]] = ()
    """Parameters with exactly one given."""

    name: Name
    cluster: EntryName = Field(
        PRIMARY, description="the cluster of the target; of another one, any topic, group and broker that it has"
    )
    target: Target
    when: Trigger
    heal: Heal | None = Field(None, description="if left out: healed before the drain")
    kind: str

    @model_validator(mode="after")
    def _check_target(self) -> Self:
        selector, _ = self.target.selector
        if selector not in self.targets:
            raise ValueError(f"target {selector} does not fit this fault; it takes {', '.join(sorted(self.targets))}")
        if self.one_of:
            check_one_of(self, *self.one_of)
        return self

    @classmethod
    def example_parameters(cls) -> dict[str, Any]:
        """Return the parameters of the example."""
        return parse_parameters(cls.example.split())

    @property
    def elsewhere(self) -> bool:
        """Whether the fault hits another cluster than the first one, to which topics and clients belong."""
        return self.cluster != PRIMARY

    @property
    def aimed_at(self) -> str:
        """The target as text, such as `leader of orders/0`."""
        return self.target.describe() + (f" of cluster {self.cluster}" if self.elsewhere else "")

    @property
    def needed(self) -> frozenset[str]:
        """The driver capabilities that the fault needs for its target."""
        return self.needs

    @property
    def changed(self) -> frozenset[tuple[str, str]]:
        """The settings that the fault changes and its heal puts back, each as its owner and its name.

        The owner is a topic, a broker, or BROKERS: some of them, known when the fault is injected.
        """
        return frozenset()

    @property
    def hits_brokers(self) -> bool:
        """Whether the fault breaks brokers, and not only clients, topics or groups of the run."""
        return self.breaks_brokers and bool(
            self.needed or self.target.selector[0] in BROKER_TARGETS | CONTROLLER_TARGETS
        )

    @property
    def breaks(self) -> frozenset[Effect]:
        """What this fault may do to what Kafka promises to the clients of the scenario."""
        return self.effects

    @property
    def unpromised(self) -> str:
        """Why no rule says what settings promise under this fault; empty if rules do."""
        if removing := self.effects & REMOVING if self.elsewhere else None:
            return f"{self.kind} may remove records of cluster {self.cluster} ({', '.join(sorted(removing))})"
        return self.no_promise

    @property
    def unpromised_by_all(self) -> str:
        """Why not even the best application can promise anything under this fault; empty if one can."""
        return self.unpromised

    def ends_at_once(self, front: str) -> bool:
        """Return whether the fault ends this instance at once: its request that waits on the wire was never sent."""
        return False

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Yield one message per problem that this kind of fault may have; `where` is its key, such as `faults[0]`."""
        if self.limit and dict(setup.cluster)[self.limit[0]] is None:
            yield f"{where}: {self.kind} needs cluster.{self.limit[0]}, {self.limit[1]}"


def parse_parameters(words: Iterable[str]) -> dict[str, Any]:
    """Return parameters of a fault that are given as words NAME=VALUE, with values as in YAML.

    `settings.NAME=VALUE` is an entry of the parameter settings.
    """
    found: dict[str, Any] = {}
    for name, _, text in (word.partition("=") for word in words):
        if name.startswith("settings."):
            found.setdefault("settings", {})[name.removeprefix("settings.")] = yaml.safe_load(text)
        else:
            found[name] = yaml.safe_load(text)
    return found


S = TypeVar("S", bound=FaultSpec)

NOTHING_TO_HEAL = "nothing to heal"


class Experiment(Setup, defer_build=True):
    """A setup with faults and time-outs: what a fault knows of the scenario that it belongs to."""

    faults: list[FaultSpec] = []
    limits: Limits = Limits()
    _of_others: list[FaultSpec] = PrivateAttr(default_factory=list)

    def at(self, cluster: str) -> Self:
        """Return it as one of its clusters has it, with the faults of this cluster in `faults`."""
        found, here = super().at(cluster), [fault for fault in self.faults if fault.cluster == cluster]
        if len(here) == len(self.faults):
            return found
        copied = found.model_copy(update={"faults": here})
        copied._of_others = [*found._of_others, *(fault for fault in self.faults if fault.cluster != cluster)]
        return copied

    @property
    def every_fault(self) -> list[FaultSpec]:
        """The faults of all clusters, also if this is `at` one of them."""
        return [*self.faults, *self._of_others]

    @property
    def their_targets(self) -> list[Target]:
        """The targets of faults by names of the user, on a cluster that exists."""
        return [fault.target for fault in self.faults if self.is_theirs(fault.target)]

    @property
    def their_topics(self) -> frozenset[str]:
        """The topics of the user that faults aim at. The run reads their leaders and nothing else, and judges none."""
        values = [t.selector[1] for t in self.their_targets if t.selector[0] in PARTITION_TARGETS]
        return frozenset(TopicPartition.parse(value).topic for value in values)


class Client(Protocol):
    """One incarnation of a client, as faults observe it (`chaos.fleet.roster.ClientState`)."""

    client: str
    incarnation: int
    exit_code: int | None
    errors: list[str]

    @property
    def alive(self) -> bool:
        """Whether its process has not ended."""

    def progress(self) -> dict[str, Any]:
        """Return what it reported last; empty before the first."""

    def count(self, name: str) -> int:
        """Return a count that it reported last, such as `acked`; 0 before the first."""

    def assigned(self) -> list[str]:
        """Return its partitions as `topic/partition`."""

    def positions(self) -> dict[str, int]:
        """Return the next offset of each of its partitions."""

    def task_managers(self) -> dict[str, str]:
        """Return the task manager that reads each partition, of a job in a session cluster."""

    def throttled(self) -> dict[str, tuple[int, int]]:
        """Return the number of throttled responses, and the longest time in ms, by side: producer or consumer."""

    def shown_us(self, timeout_s: float) -> int | None:
        """Return what its clock shows, in microseconds since the epoch; None without an answer in time."""


class Subtask(Protocol):
    """A subtask of a job in a session cluster: its current attempt, with status and task manager."""

    @property
    def job(self) -> str:
        """The client that runs the job."""

    @property
    def vertex(self) -> str:
        """The vertex of the job's graph."""

    @property
    def attempt(self) -> int:
        """The number of the attempt, from 0."""

    @property
    def status(self) -> str:
        """The status, such as RUNNING."""

    @property
    def task_manager(self) -> str:
        """The name of the task manager that runs it."""

    @property
    def key(self) -> tuple[str, str, int]:
        """What all attempts of the subtask share."""

    def describe(self) -> str:
        """Return the subtask as text."""


class JobManager(Protocol):
    """The job manager of a session cluster. Its answers are None if it does not answer."""

    def task_managers(self) -> list[str] | None:
        """Return the names of the task managers that it lists."""

    def subtasks(self) -> Sequence[Subtask] | None:
        """Return the subtasks of all jobs that have not ended."""


class Session(Protocol):
    """A session cluster of clients (`chaos.fleet.session.SessionCluster`). Task managers have numbers from 1."""

    @property
    def job_manager(self) -> JobManager:
        """Its job manager."""

    def name_of(self, number: int) -> str:
        """Return the name of a task manager, which changes with each start."""

    def number_of(self, name: str) -> int | None:
        """Return the number of the task manager with this name; None if it is no current one."""

    def start(self, number: int) -> bool:
        """Start a task manager that does not run; return whether that was necessary."""

    def kill(self, number: int) -> None:
        """Kill a task manager with SIGKILL."""

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until all task managers are listed."""


class Instance(Protocol):
    """One instance of an application, as faults observe it (`chaos.apps.instance.Instance`)."""

    app: App
    incarnation: int
    paused: bool
    wanted: bool
    ready: bool

    @property
    def name(self) -> str:
        """Its name, such as billing/1."""

    @property
    def values(self) -> Mapping[str, str]:
        """Its values by placeholder, such as port."""

    @property
    def alive(self) -> bool:
        """Whether its process runs."""

    @property
    def pid(self) -> int | None:
        """The process ID of its current incarnation."""

    def suspended(self) -> bool:
        """Return whether the system shows its process as stopped."""


class Apps(Protocol):
    """The applications of a run (`chaos.apps.supervisor.Applications`). Raises `ClientError`.

    hold: keep the supervisor from starting the instance again, until `up`.
    """

    def group_of(self, app: str) -> str | None:
        """Return the group of an application: the given one, or the one that was found; None if there is none."""

    def of(self, app: str) -> Sequence[Instance]:
        """Return the instances of an application, by number."""

    def instance(self, name: str) -> Instance:
        """Return an instance by its name."""

    def kill(self, name: str, hold: bool) -> None:
        """Kill an instance with SIGKILL, and wait for its end."""

    def stop(self, name: str, hold: bool) -> bool:
        """Ask an instance to end, and kill it after its grace; return whether it ended in time."""

    def end(self, name: str) -> bool:
        """Keep an instance down: ask it to end if it runs; return whether it ended in time."""

    def up(self, name: str, timeout_s: float) -> bool:
        """Let an instance run again, and wait for its process; return whether it was down."""

    def pause(self, name: str) -> None:
        """Suspend an instance."""

    def resume(self, name: str) -> None:
        """Let a suspended instance go on."""

    def add(self, app: str) -> Instance:
        """Start one more instance of an application."""

    def wait_ready(self, app: str) -> None:
        """Wait until an application is ready."""


class Fleet(Protocol):
    """The clients of a run, as faults act on them (`chaos.fleet.fleet.Fleet`). Raises `ClientError`."""

    def present(self, entry: str) -> list[str]:
        """Return the names of an entry's clients that were started."""

    def state(self, client: str) -> Client:
        """Return the current or last incarnation of a client."""

    def total_acked(self) -> int:
        """Return the number of records acknowledged to all producers."""

    def session(self, entry: str) -> Session:
        """Return the session cluster of an entry."""

    def order(self, client: str, order: dict[str, Any]) -> None:
        """Send a client an order of the protocol."""

    def crash(self, client: str) -> None:
        """Kill the process of a client with SIGKILL."""

    def pause(self, client: str) -> None:
        """Pause a client with SIGSTOP."""

    def resume(self, client: str) -> None:
        """Resume a client with SIGCONT."""

    def leave(self, client: str, timeout_s: float) -> None:
        """Order a client to stop, and wait for its exit."""

    def join(self, client: str) -> None:
        """Start a client that the scenario holds back."""

    def restart(self, client: str) -> None:
        """Start the next incarnation of a client that is gone."""

    def take_over(self, client: str) -> None:
        """Start the next incarnation of a running client, which fences that one."""

    def set_clock(self, client: str, skew: Skew) -> None:
        """Change the clock of a client."""

    def clock_ahead_s(self, client: str) -> float:
        """Return how many seconds the clock of a client is ahead, as it was set."""


@dataclass(frozen=True)
class World:
    """The scenario, the cluster, the clients, the observer, and a separate Kafka connection for one fault.

    `rng` makes the random choices of all faults. `access` is the way to log in, `proxy` the wire proxy; both are None
    for runs without them. `run` has the ledger, for faults that write records.
    """

    scenario: Experiment
    cluster: Cluster
    fleet: Fleet
    observer: Observer
    kafka: Kafka
    rng: random.Random
    access: Access | None = None
    proxy: Proxy | None = None
    run: Run | None = None
    apps: Apps | None = None
    moment: Hits | None = None
    """The instance and the broker that spoke, if the fault waited for a moment on the wire."""


class Fault(ABC, Generic[S]):
    """One fault of one run: its specification, the resolved target, and what the injection changed.

    A subclass implements `_inject` and `_effect`, and `_undo` if the fault can be healed. It declares the attributes
    that `_inject` sets before `begun`. Its docstring says after the word "Proof" how the fault is proven: the fault
    reference is generated from it.
    """

    lasting: ClassVar[str] = ""
    """For a fault that cannot be healed: what stays, such as `its partitions stay`."""
    specification: ClassVar[type[FaultSpec]]
    """The class of `spec`; a base of several faults has none."""

    def __init_subclass__(cls, spec: type[FaultSpec] | None = None) -> None:
        """Take the specification of a fault, given as `class BrokerKill(BrokerFault[S], spec=S)`."""
        super().__init_subclass__()
        if spec is not None:
            if not hasattr(spec, "effects"):
                raise TypeError(f"{spec.__name__} does not say what the fault may break; give effects")
            cls.specification = spec

    def __init__(self, spec: S) -> None:
        self.spec = spec
        self.resolved = ""
        """The target that was hit, such as `broker 2`; empty before the injection."""
        self.begun = False
        """Set by `_inject` directly before the first change: from then on there is something to prove and to heal."""
        self.evidence: dict[str, object] = {}
        """Facts for the audit, recorded with every later phase of the fault."""

    def aim(self, world: World) -> None:
        """Resolve the target, once. Raises `FaultError` if it means nothing."""
        if not self.resolved:
            self._aim(world)

    def inject(self, world: World) -> str:
        """Resolve the target, inject the fault and describe it. Raises `FaultError` or `ClusterError`."""
        self.aim(world)
        return self._inject(world)

    def proof(self, world: World) -> str | None:
        """Return the effect of an injection that has begun, else None."""
        return self._effect(world) if self.begun else None

    def heal(self, world: World) -> str:
        """Undo an injection that has begun, even one that failed half-way. Call it at any time, any number of times."""
        return self._undo(world) if self.begun else NOTHING_TO_HEAL

    def _aim(self, world: World) -> None:
        """Resolve the target; by default, it is the name that the specification gives."""
        self.resolved = str(self.spec.target.selector[1])

    @abstractmethod
    def _inject(self, world: World) -> str:
        """Do the damage and describe it."""

    @abstractmethod
    def _effect(self, world: World) -> str | None:
        """Describe the observed change that proves the fault; return None while there is none."""

    def _undo(self, world: World) -> str:
        """Undo the injection and describe the result; idempotent. By default nothing is undone."""
        return f"{self.resolved}: {self.lasting}" if self.lasting else NOTHING_TO_HEAL
