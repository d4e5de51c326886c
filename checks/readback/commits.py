"""The offset commits in the log of `__consumer_offsets`, read back into the ledger.

They decide commits of unknown outcome. Without them, such commits stay undecided: an error is
a row of the ledger, and never ends the read-back.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from chaos.kafka.offsets_log import read_commits
from chaos.kafka.security import Security
from chaos.ledger.schemas import COMMIT_LOG, COMMIT_LOG_RANGE
from chaos.run.directory import Run
from chaos.scenario.resolve import Resolved
from checks.audit.facts.readers import readers_of


def read_commit_log(run: Run, resolved: Resolved, bootstrap: str, security: Security | None) -> None:
    """Write `ledger/commit_log.parquet` and then `commit_log_range.parquet`; nothing if no reader has a group."""
    groups = {reader.group for reader in readers_of(resolved.scenario) if reader.group and reader.commits}
    if not groups:
        return
    commits, reads = read_commits(bootstrap, security, groups, resolved.created_us)
    _write(commits, COMMIT_LOG, run.ledger / "commit_log.parquet")
    _write(reads, COMMIT_LOG_RANGE, run.ledger / "commit_log_range.parquet")


def _write(rows: Sequence[Any], schema: pa.Schema, path: Path) -> None:
    half = path.with_name(f".{path.name}.half")
    columns = {name: [getattr(row, name) for row in rows] for name in schema.names}
    pq.write_table(pa.Table.from_pydict(columns, schema), half)
    half.replace(path)
