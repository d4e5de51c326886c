"""Index for the most frequent query: the latest runs of a scenario."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the index."""
    op.create_index("aftershock_run_by_time", "aftershock_run", ["scenario", "began_us"])
