"""Faults of a task manager in a Flink session cluster."""

from __future__ import annotations

from chaos.errors import FaultError
from chaos.faults.base import NOTHING_TO_HEAL, Fault, World
from chaos.fleet.job_manager import Subtask
from chaos.fleet.session import SessionCluster
from chaos.scenario.faults import clients as specs
from chaos.setup.triggers import split_member


class TaskManagerKill(Fault[specs.TaskManagerKill], spec=specs.TaskManagerKill):
    """A task manager that is killed.

    Proof: the job manager does not list it any more, and each subtask that ran there is in another attempt, or is gone
    because its job runs with a lower parallelism (adaptive scheduler, FLIP-160).
    """

    _session: SessionCluster
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

    def _host(self, world: World, client: str, subtasks: list[Subtask]) -> int:
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

    def _after(self, lost: Subtask, subtasks: list[Subtask]) -> str | None:
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


def _listed(subtasks: list[Subtask]) -> str:
    return ", ".join(s.describe() for s in subtasks)
