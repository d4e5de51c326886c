"""Faults of connectors that workers of Kafka Connect run: what an operator does to them, at a bad moment.

Orders go to the REST API of a worker that runs. Their proofs are what workers then say of the connector and its tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import Field

from chaos.errors import FaultError
from chaos.faults.apps import AppFault, AppFaultSpec
from chaos.faults.base import Fault, Instance, World
from chaos.setup.connect import Config
from chaos.setup.model import Setup, unknown

if TYPE_CHECKING:
    from chaos.setup.connect import Connect

RUNNING, PAUSED, RESTARTING = "RUNNING", "PAUSED", "RESTARTING"


class ConnectorFaultSpec(AppFaultSpec):
    """A fault of a connector of an application with `connect`."""

    of_one = False
    left_out = "of connectors; `prove` runs programs of Aftershock"
    connector: str | None = Field(None, description="name of the connector; may be left out if there is one")

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the application is one of workers, and that it has the connector."""
        yield from super().problems(setup, where)
        app = next((app for app in setup.apps if app.name == self.app_name), None)
        if app is None:
            return
        if app.connect is None:
            yield f"{where}.target.app: {app.name} is no worker of Kafka Connect (connect), so it has no connector"
        elif self.connector is not None:
            yield from unknown(f"{where}.connector", self.connector, "connectors", app.connect.connectors)
        elif len(app.connect.connectors) > 1:
            yield f"{where}.connector: which one of {', '.join(app.connect.connectors)}?"


S = TypeVar("S", bound=ConnectorFaultSpec)


class ConnectorFault(AppFault[S]):
    """A fault of one connector, on a worker of its group, or on each standalone worker."""

    def _aim(self, world: World) -> None:
        super()._aim(world)
        self.resolved = f"connector {self._connector(world)}"

    @property
    def _app(self) -> str:
        return self.spec.app_name

    def _connect(self, world: World) -> Connect:
        connect = next(app.connect for app in world.scenario.apps if app.name == self._app)
        if connect is None:
            raise FaultError(f"{self._app} is no worker of Kafka Connect")
        return connect

    def _connector(self, world: World) -> str:
        return self.spec.connector or next(iter(self._connect(world).connectors))

    def _workers(self, world: World) -> list[Instance]:
        """Return the workers that get an order: one of a group, or each standalone one."""
        running = [instance for instance in self._apps(world).of(self._app) if instance.alive]
        if not running:
            raise FaultError(f"no worker of {self._app} runs")
        if not self._connect(world).distributed:
            return running
        ready = [worker for worker in running if worker.ready]  # one that starts again does not answer yet
        return (ready or running)[:1]

    def _order(self, world: World, path: str, body: Mapping[str, str] | None = None, **more: Any) -> list[Any]:
        """Give an order about the connector; return the answers."""
        from chaos.kafka.connect import order

        name = self._connector(world)
        return [order(worker, f"/connectors/{name}{path}", body, **more) for worker in self._workers(world)]

    def _all(self, state: str, world: World) -> int:
        """Return how many tasks of the connector there are if all are in a state, and the connector, too; else 0."""
        from chaos.kafka.connect import states

        seen = [states(worker, self._connector(world)) for worker in self._workers(world)]
        reached = all(set(one.values()) == {state} for one in seen)
        return sum(len(one) - 1 for one in seen) if reached else 0


class ConnectorRestartSpec(ConnectorFaultSpec):
    """Restart a connector and all of its tasks, as an operator does after a task failed (KIP-745); all of them stay."""

    kind: Literal["connector.restart"]


class ConnectorRestart(ConnectorFault[ConnectorRestartSpec], spec=ConnectorRestartSpec):
    """A restart of tasks. Proof: a worker said which tasks it restarts, and all of them run again."""

    _restarted: int

    def _inject(self, world: World) -> str:
        self.begun = True
        plans = self._order(world, "/restart?includeTasks=true&onlyFailed=false", method="POST")
        parts = [part for plan in plans if plan for part in (plan["connector"], *plan["tasks"])]
        self._restarted = sum(part["state"] == RESTARTING for part in parts)
        return f"restarted {self.resolved} and its tasks"

    def _effect(self, world: World) -> str | None:
        tasks = self._all(RUNNING, world) if self._restarted else 0
        return f"{self._restarted} parts of {self.resolved} restarted, and {tasks} tasks run" if tasks else None

    def _undo(self, world: World) -> str:
        return f"{self.resolved} goes on"


class ConnectorPauseSpec(ConnectorFaultSpec):
    """Pause a connector and its tasks; healed by resuming them."""

    kind: Literal["connector.pause"]


class ConnectorPause(ConnectorFault[ConnectorPauseSpec], spec=ConnectorPauseSpec):
    """Tasks that pause. Proof: workers say that the connector and each task are paused."""

    def _inject(self, world: World) -> str:
        self.begun = True
        self._order(world, "/pause")
        return f"paused {self.resolved}"

    def _effect(self, world: World) -> str | None:
        tasks = self._all(PAUSED, world)
        return f"{self.resolved} and {tasks} tasks are paused" if tasks else None

    def _undo(self, world: World) -> str:
        self._order(world, "/resume")
        return f"{self.resolved} goes on"


class ConnectorChangeSpec(ConnectorFaultSpec):
    """Change settings of a connector while it runs, at which its tasks restart; healed by the settings before."""

    example = "settings.tasks.max=3"
    kind: Literal["connector.change"]
    settings: Config = Field(min_length=1, description="settings of the connector, in place of the ones that it has")

    @property
    def changed(self) -> frozenset[tuple[str, str]]:
        """The settings, of the connector."""
        return frozenset((f"connector {self.connector or ''} of {self.app_name}", name) for name in self.settings)


class ConnectorChange(ConnectorFault[ConnectorChangeSpec], spec=ConnectorChangeSpec):
    """Other settings. Proof: workers say that the connector has them, and its tasks run."""

    _before: list[Mapping[str, str]]

    def _inject(self, world: World) -> str:
        self._before = self._order(world, "/config", method="GET")
        self.begun = True
        self._order(world, "/config", {**self._before[0], **self.spec.settings})
        changes = ", ".join(f"{name}={value}" for name, value in self.spec.settings.items())
        return f"changed {self.resolved}: {changes}"

    def _effect(self, world: World) -> str | None:
        now = self._order(world, "/config", method="GET")
        there = all(self.spec.settings.items() <= one.items() for one in now)
        tasks = self._all(RUNNING, world) if there else 0
        return f"{self.resolved} has the settings, and {tasks} tasks run" if tasks else None

    def _undo(self, world: World) -> str:
        self._order(world, "/config", self._before[0])
        return f"{self.resolved} has its settings of before"


FAULTS: dict[str, type[Fault[Any]]] = {
    "connector.restart": ConnectorRestart,
    "connector.pause": ConnectorPause,
    "connector.change": ConnectorChange,
}
