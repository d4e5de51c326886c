"""Tables of the runs and their measured times."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create both tables."""
    op.create_table(
        "aftershock_run",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("scenario", sa.Text, nullable=False),
        sa.Column("variant", sa.Text, nullable=False),
        sa.Column("setup", sa.String(64), nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("verdict", sa.String(16), nullable=False),
        sa.Column("sentence", sa.Text, nullable=False),
        sa.Column("seen", sa.Text, nullable=False),
        sa.Column("seed", sa.BigInteger, nullable=False),
        sa.Column("kafka", sa.Text, nullable=False),
        sa.Column("client", sa.Text, nullable=False),
        sa.Column("began_us", sa.BigInteger, nullable=False),
        sa.Column("ended_us", sa.BigInteger, nullable=False),
        sa.Column("run_dir", sa.Text, nullable=False),
        sa.Column("command", sa.Text, nullable=False),
    )
    op.create_table(
        "aftershock_metric",
        sa.Column("run_key", sa.String(64), sa.ForeignKey("aftershock_run.key"), primary_key=True),
        sa.Column("metric", sa.String(64), primary_key=True),
        sa.Column("scope", sa.Text, primary_key=True),
        sa.Column("fault", sa.Text, primary_key=True),
        sa.Column("stat", sa.String(16), primary_key=True),
        sa.Column("value_us", sa.BigInteger, nullable=False),
    )
