"""Tables of the history at the newest revision."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, MetaData, String, Table, Text

VERSION_TABLE = "aftershock_history_version"
"""Table with the revision; not `alembic_version`, the default of Alembic, which another program may use."""

METADATA = MetaData()

RUN = Table(
    "aftershock_run",
    METADATA,
    Column("key", String(64), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("run_id", Text, nullable=False),
    Column("scenario", Text, nullable=False),
    Column("variant", Text, nullable=False),
    Column("setup", String(64), nullable=False),
    Column("title", Text, nullable=False),
    Column("verdict", String(16), nullable=False),
    Column("sentence", Text, nullable=False),
    Column("seen", Text, nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("kafka", Text, nullable=False),
    Column("client", Text, nullable=False),
    Column("began_us", BigInteger, nullable=False),
    Column("ended_us", BigInteger, nullable=False),
    Column("run_dir", Text, nullable=False),
    Column("command", Text, nullable=False),
    Index("aftershock_run_by_time", "scenario", "began_us"),
)
"""One row per run."""

METRIC = Table(
    "aftershock_metric",
    METADATA,
    Column("run_key", String(64), ForeignKey(RUN.c.key), primary_key=True),
    Column("metric", String(64), primary_key=True),
    Column("scope", Text, primary_key=True),
    Column("fault", Text, primary_key=True),
    Column("stat", String(16), primary_key=True),
    Column("value_us", BigInteger, nullable=False),
)
"""One row per measured time of a run, in microseconds."""
