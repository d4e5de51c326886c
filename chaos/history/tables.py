"""The table of the history. It can be made again from run directories: `python -m chaos history import`."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, MetaData, String, Table, Text

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
    Column("times", Text, nullable=False),
    Index("aftershock_run_by_time", "scenario", "began_us"),
)
"""One row per run. `times`: the measured times, a JSON array of `chaos.run.result.Metric`."""
