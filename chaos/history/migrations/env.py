"""Environment of Alembic: revisions run in the connection and transaction of `chaos.history.store`."""

from __future__ import annotations

from alembic import context

from chaos.history.tables import METADATA, VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
context.run_migrations()
