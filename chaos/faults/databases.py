"""Faults of a database that an application of the run is: what an administrator does there while programs use it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from chaos.errors import FaultError
from chaos.faults.apps import AppFault, AppFaultSpec
from chaos.faults.base import Fault, World
from chaos.setup.model import Setup

ANSWER_S = 10
"""Time for a connection; a statement takes as long as it takes."""


class DatabaseExecuteSpec(AppFaultSpec):
    """Execute a statement in a database of the run, such as one that drops a replication slot; healed by `undo`."""

    of_one = False
    premise = "a statement for the tables of the user"
    example = "statement=checkpoint shown_by=true"
    kind: Literal["database.execute"]
    statement: str = Field(min_length=1, description="such as select pg_drop_replication_slot('debezium')")
    shown_by: str = Field(
        min_length=1,
        description="a query that shows the effect: the first value of its first row is true afterwards, and was not "
        "before, such as select count(*) = 0 from pg_replication_slots",
    )
    undo: str | None = Field(None, description="the statement of the heal; if left out, the change stays")

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the application is a database."""
        yield from super().problems(setup, where)
        app = next((app for app in setup.apps if app.name == self.app_name), None)
        if app is not None and app.postgres is None:
            yield f"{where}.target.app: {app.name} is no database of the run (postgres)"
        if self.heal and self.undo is None:
            yield f"{where}.heal: nothing undoes the statement; give undo, or leave heal out"


class DatabaseExecute(AppFault[DatabaseExecuteSpec], spec=DatabaseExecuteSpec):
    """A statement of an administrator. Proof: the query shows its effect, which it did not show before."""

    _before: object

    def _inject(self, world: World) -> str:
        self._before = self._asked(world, self.spec.shown_by)
        if self._before:
            raise FaultError(f"what shows the effect is true before the fault: {self.spec.shown_by}")
        self.begun = True
        self._asked(world, self.spec.statement)
        return f"executed in {self.resolved}: {self.spec.statement}"

    def _effect(self, world: World) -> str | None:
        try:
            shown = self._asked(world, self.spec.shown_by)
        except FaultError:  # another fault ended the server; it may come back in time
            return None
        return f"{self.spec.shown_by} is {shown} in {self.resolved}, and was {self._before}" if shown else None

    def _undo(self, world: World) -> str:
        if self.spec.undo is None:
            return f"{self.resolved}: what the statement changed stays"
        self._asked(world, self.spec.undo)
        return f"executed in {self.resolved}: {self.spec.undo}"

    def _asked(self, world: World, statement: str) -> object:
        """Return the first value of the answer to a statement; None without one. Raises `FaultError`."""
        from sqlalchemy import make_url
        from sqlalchemy.exc import SQLAlchemyError

        from chaos.databases import engine_of

        app = next(app for app in world.scenario.apps if app.name == self.resolved)
        server = next((one for one in self._apps(world).of(self.resolved) if one.alive), None)
        if server is None or app.postgres is None:
            raise FaultError(f"{self.resolved} does not run")
        engine = engine_of(make_url(app.postgres.url(int(server.values["port"]))), ANSWER_S)
        try:
            with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
                answer = connection.exec_driver_sql(statement)
                row = answer.first() if answer.returns_rows else None
                return row[0] if row else None
        except SQLAlchemyError as e:
            why = str(getattr(e, "orig", e)).strip().partition("\n")[0]
            raise FaultError(f"{self.resolved} refuses {statement}: {why}") from None


FAULTS: dict[str, type[Fault[Any]]] = {"database.execute": DatabaseExecute}
