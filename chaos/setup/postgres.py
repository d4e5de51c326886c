"""A PostgreSQL server as an application: what a source of Kafka Connect reads, and what a sink writes to."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from chaos.setup.placeholders import as_text
from chaos.setup.triggers import Strict
from chaos.units import Release

USER, READY = "aftershock", "database system is ready to accept connections"


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

    def url(self, port: int) -> str:
        """Return the URL of the database for SQLAlchemy."""
        return f"postgresql+psycopg2://{USER}@127.0.0.1:{port}/{self.database}"
