"""A PostgreSQL server as an application: what a source of Kafka Connect reads, and what a sink writes to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from chaos.setup.names import EntryName
from chaos.setup.placeholders import as_text
from chaos.setup.triggers import Strict
from chaos.units import Release

USER, READY = "aftershock", "database system is ready to accept (read-only )?connections"

PROMOTE = "pg_promote"
"""The function by which a standby becomes a server that writes, in the statement of a fault."""


class Postgres(Strict):
    """A PostgreSQL server of the run, at 127.0.0.1 and `{port.NAME}`, for the user `aftershock` without a password.

    Its data stays over restarts of the run's supervisor, so a server that was killed recovers as after a crash.
    """

    release: Release = Field("17.5.0", description="of PostgreSQL, as it is in Maven (io.zonky.test.postgres)")
    database: str = Field("app", pattern=r"^[a-z][a-z0-9_]{0,30}$", description="name of the database")
    setup: list[Annotated[str, Field(min_length=1)]] = Field(
        [], description="statements that are executed once, such as create table …"
    )
    config: dict[str, Annotated[str, BeforeValidator(as_text)]] = Field(
        {}, description="settings of the server, such as wal_level: logical"
    )

    standby_of: EntryName | None = Field(
        None,
        description="it begins as a copy of this server, and follows the log there as the role `standby` until "
        "a fault executes select pg_promote(); it answers queries all the time",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.standby_of is not None and self.setup:
            raise ValueError(f"setup: a standby has what {self.standby_of} has; leave setup out")
        return self

    def problems(self, name: str, servers: Mapping[str, Postgres]) -> Iterator[str]:
        """Yield why it cannot follow. name: its application. servers: all servers by application."""
        followed = servers.get(self.standby_of or "")
        if self.standby_of is None:
            return
        if followed is None or self.standby_of == name:
            yield f"{self.standby_of!r} is no other application with postgres"
        elif followed.standby_of is not None:
            yield f"{self.standby_of} is a standby too; give {followed.standby_of}"
        elif (followed.release, followed.database) != (self.release, self.database):
            has = f"release {followed.release} and database {followed.database}"
            yield f"{self.standby_of} has {has}; give both here too"

    def url(self, port: int) -> str:
        """Return the URL of the database for SQLAlchemy."""
        return f"postgresql+psycopg2://{USER}@127.0.0.1:{port}/{self.database}"
