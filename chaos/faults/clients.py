"""Faults of one client process of any role, and of a task manager."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar

from pydantic import Field

from chaos.errors import FaultError
from chaos.faults.base import NOTHING_TO_HEAL, Client, Fault, FaultSpec, Session, Subtask, World
from chaos.kafka.partition import TopicPartition
from chaos.setup.model import Setup, unknown
from chaos.setup.triggers import Partition, Target, split_member
from chaos.units import Size


def client_problems(where: str, target: Target, role: str, members: Mapping[str, int]) -> Iterator[str]:
    """Check a target that is a client against the entries of a role, by their number of members."""
    selector, value = target.selector
    name, number = split_member(value) if selector == "member" else (value, 1)
    yield from unknown(f"{where}.target.{selector}", name, role, members)
    if number > members.get(name, number):
        yield f"{where}.target.{selector}: {name} has members 1 to {members[name]}, not {number}"


class ClientFaultSpec(FaultSpec):
    """A fault of one client process."""

    run_only = "the clients of a run"
    targets = frozenset({"member", "random_member"})

    def client_problems(self, where: str, role: str, members: Mapping[str, int]) -> Iterator[str]:
        """Check the target against the entries of a role, such as `consumers`, by their number of members."""
        yield from client_problems(where, self.target, role, members)

    def client_name(self) -> str:
        """Return the name of the targeted entry, such as `billing`."""
        return str(self.target.selector[1]).partition("/")[0]


class ClientQuotaSpec(ClientFaultSpec):
    """Limit the bytes per second that each broker takes from a client, or returns to it; healed by removing the quota.

    The quota is for the client id (KIP-546). A broker delays the requests of a client above its quota, and its response
    says for how long (KIP-13, KIP-219).
    """

    effects = frozenset({"connections"})
    left_out = "a quota changes times, and no promise about records"
    abilities = ("throttle times",)
    once_per_target = True
    example = "producer_byte_rate=2000"
    kind: Literal["client.quota"]
    producer_byte_rate: Size | None = Field(None, gt=0, description="bytes per second of produce requests, by broker")
    consumer_byte_rate: Size | None = Field(None, gt=0, description="bytes per second of fetch responses, by broker")

    @property
    def rates(self) -> dict[str, int]:
        """The quotas by their Kafka names."""
        rates = {"producer_byte_rate": self.producer_byte_rate, "consumer_byte_rate": self.consumer_byte_rate}
        return {key: rate for key, rate in rates.items() if rate is not None}

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that each quota concerns requests of the client, and that the cluster ends with the run."""
        readers = {c.name: c.members for c in (*setup.consumers, *setup.processors)}
        writers = {p.name: p.count for p in setup.producers} | {p.name: p.members for p in setup.processors}
        yield from self.client_problems(where, "clients", readers | writers)
        if not self.rates:
            yield f"{where}: give producer_byte_rate, consumer_byte_rate or both"
        for key, clients, act in (("producer_byte_rate", writers, "writes"), ("consumer_byte_rate", readers, "reads")):
            if key in self.rates and self.client_name() in (readers | writers).keys() - clients.keys():
                yield f"{where}.{key}: {self.client_name()} never {act}, so this quota has no effect"
        if setup.attached:
            yield (
                f"{where}: {self.kind} is for clusters of the run only: on an existing cluster the quota also applies "
                "to other clients with this client id, and it stays if the run is killed"
            )


def any_present(entries: Sequence[str], world: World) -> str:
    """Return a client of some entries that is there. Raises `FaultError` if none is."""
    found = [client for entry in entries for client in world.fleet.present(entry)]
    if not found:
        raise FaultError(f"no client of {', '.join(entries)} is there")
    return world.rng.choice(found)


C = TypeVar("C", bound=ClientFaultSpec)


class ClientFault(Fault[C]):
    """A fault of one client process."""

    _restarted = False

    def _aim(self, world: World) -> None:
        selector, value = self.spec.target.selector
        if selector == "member":
            self.resolved = str(value)
            return
        entries = world.scenario.groups[value] if selector == "random_member_of" else [value]
        self.resolved = any_present(entries, world)

    def _restart(self, world: World) -> str:
        """Start the next incarnation, once, if the client is gone."""
        if self._restarted or world.fleet.state(self.resolved).alive:
            return NOTHING_TO_HEAL
        world.fleet.restart(self.resolved)
        self._restarted = True
        return f"{self.resolved} started again"


class ClientQuota(ClientFault[ClientQuotaSpec], spec=ClientQuotaSpec):
    """A client above its quota. Proof: responses to the client contain a throttle time, for each quota that was set."""

    _client: Client
    _before: dict[str, int]
    """The throttled responses before the injection, by side."""

    def _inject(self, world: World) -> str:
        from chaos.kafka import admin

        self._client = world.fleet.state(self.resolved)
        self._before = {side: responses for side, (responses, _) in self._client.throttled().items()}
        if (present := admin.quotas(world.kafka, self.resolved)) != {}:
            state = "is unknown" if present is None else f"is {present}"
            raise FaultError(f"the quota of client id {self.resolved} before the fault {state}; it has to be none")
        self.begun = True
        admin.set_quotas(world.kafka, self.resolved, self.spec.rates)
        rates = ", ".join(f"{key}={rate}" for key, rate in self.spec.rates.items())
        return f"set {rates} for client id {self.resolved}"

    def _effect(self, world: World) -> str | None:
        """Look for throttled responses, also to an incarnation that was started after the injection."""
        client = world.fleet.state(self.resolved)
        throttled, effects = client.throttled(), []
        for key in self.spec.rates:
            side = key.partition("_")[0]
            responses, longest_ms = throttled.get(side, (0, 0))
            new = responses - (self._before.get(side, 0) if client is self._client else 0)
            if new <= 0:
                return None
            effects.append(f"{new} responses to {self.resolved} as a {side} were throttled, by up to {longest_ms:,} ms")
        return "; ".join(effects)

    def _undo(self, world: World) -> str:
        from chaos.kafka import admin

        admin.set_quotas(world.kafka, self.resolved, dict.fromkeys(self.spec.rates))
        return f"client id {self.resolved} has no quota any more"


class TaskManagerKillSpec(FaultSpec):
    """SIGKILL a task manager of a Flink session cluster; healed by a start of another one in its place.

    Flink restarts the subtasks that ran there from the last checkpoint, where slots are free.
    """

    effects = frozenset({"ends", "restarts", "crashes"})
    left_out = "of Flink"
    run_only = "the clients of a run"
    targets = frozenset({"task_manager", "task_manager_of"})
    breaks_brokers = False
    kind: Literal["taskmanager.kill"]
    reads: Partition | None = Field(
        None, description="with `task_manager_of`: the task manager of the subtask that reads this partition"
    )

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the target has a session cluster, with the task manager or the job that it names."""
        selector, value = self.target.selector
        name, number = split_member(value)
        where_target = f"{where}.target.{selector}"
        entry = next((c for c in setup.consumers if c.name == name), None)
        session = entry.client.session if entry else None
        if entry is None or session is None:
            yield f"{where_target}: {name!r} is no consumer in a session cluster; give it client: {{session: {{}}}}"
            return
        count, what = (
            (session.task_managers, "task managers") if selector == "task_manager" else (entry.members, "members")
        )
        if number > count:
            yield f"{where_target}: {name} has {what} 1 to {count}, not {number}"
        if self.reads is not None:
            yield from setup.partition_problems(f"{where}.reads", self.reads)
            if selector != "task_manager_of":
                yield f"{where}.reads: goes with target: {{task_manager_of: {name}/1}}"
            elif not entry.topics_among([TopicPartition.parse(self.reads).topic]):
                yield f"{where}.reads: {name} does not read {self.reads}"


class TaskManagerKill(Fault[TaskManagerKillSpec], spec=TaskManagerKillSpec):
    """A task manager that is killed.

    Proof: the job manager does not list it any more, and each subtask that ran there is in another attempt, or is gone
    because its job runs with a lower parallelism (adaptive scheduler, FLIP-160).
    """

    _session: Session
    _number: int
    _name: str
    _ran: list[Subtask]

    def _aim(self, world: World) -> None:
        selector, value = self.spec.target.selector
        entry, number = split_member(value)
        self._session = world.fleet.session(entry)
        subtasks = self._session.job_manager.subtasks()
        if subtasks is None:
            raise FaultError(f"the job manager of {entry} does not answer")
        if selector == "task_manager_of":
            number = self._host(world, str(value), subtasks)
        self.resolved = f"task manager {number} of {entry}"
        self._number, self._name = number, self._session.name_of(number)
        self._ran = [s for s in subtasks if s.task_manager == self._name and s.status == "RUNNING"]
        if not self._ran:
            raise FaultError(f"{self.resolved} runs no subtask, so its end would restart none")

    def _host(self, world: World, client: str, subtasks: Sequence[Subtask]) -> int:
        """Return the number of a task manager that runs a subtask of a client's job."""
        if self.spec.reads is None:
            hosts = sorted({s.task_manager for s in subtasks if s.job == client and s.status == "RUNNING"})
        else:
            hosts = [world.fleet.state(client).task_managers().get(self.spec.reads, "")]
        numbers = [number for host in hosts if (number := self._session.number_of(host)) is not None]
        if not numbers:
            what = f"a subtask that reads {self.spec.reads}" if self.spec.reads else "a subtask"
            raise FaultError(f"no task manager runs {what} of {client}")
        return world.rng.choice(numbers)

    def _inject(self, world: World) -> str:
        self.evidence = {"task_manager": self._name, "subtasks": [s.describe() for s in self._ran]}
        self.begun = True
        self._session.kill(self._number)
        return f"killed {self.resolved}, which ran {_listed(self._ran)}"

    def _effect(self, world: World) -> str | None:
        manager = self._session.job_manager
        listed, subtasks = manager.task_managers(), manager.subtasks()
        if listed is None or subtasks is None or self._name in listed:
            return None
        after = [self._after(s, subtasks) for s in self._ran]
        if None in after:
            return None
        return f"the job manager lists {len(listed)} task managers, without {self._name}; {', '.join(map(str, after))}"

    def _after(self, lost: Subtask, subtasks: Sequence[Subtask]) -> str | None:
        """Describe what became of a subtask that ran in the task manager; None as long as that is open."""
        running = [s for s in subtasks if (s.job, s.vertex) == (lost.job, lost.vertex)]
        if current := next((s for s in running if s.key == lost.key), None):
            later = current.attempt > lost.attempt
            return f"{lost.describe()} is in attempt {current.attempt + 1} ({current.status})" if later else None
        # between two attempts of a job, its job manager may list no subtask at all
        settled = running and all(s.status == "RUNNING" and s.task_manager != self._name for s in running)
        now = f"{lost.job} runs with parallelism {len(running)}"
        return f"{lost.describe()} does not come back: {now}" if settled else None

    def _undo(self, world: World) -> str:
        if not self._session.start(self._number):
            return NOTHING_TO_HEAL
        self._session.wait_ready(world.scenario.limits.clients)
        return f"{self.resolved} started again as {self._session.name_of(self._number)}"


def _listed(subtasks: Sequence[Subtask]) -> str:
    return ", ".join(s.describe() for s in subtasks)


def fenced(earlier: Client, who: str, *marks: str) -> str | None:
    """Return the error with which the earlier of two processes ended, if it contains a mark of a fenced client."""
    if earlier.alive:
        return None
    error = next((e for e in earlier.errors if any(mark in e.upper() for mark in marks)), None)
    return f"incarnation {earlier.incarnation} of {who} was fenced: {error}" if error else None


FAULTS: dict[str, type[Fault[Any]]] = {
    "client.quota": ClientQuota,
    "taskmanager.kill": TaskManagerKill,
}
