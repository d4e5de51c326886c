"""The bar of a report: navigation, the files next to the report, and a summary of the ledger.

It is inserted into `report.html` when the page is served; the file does not change.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from chaos.ledger.schemas import SCHEMA_VERSION
from chaos.ledger.seal import SEAL, Seal
from chaos.pages.folder import FILES, REPORT
from chaos.run.directory import Run

_HEADER_END = re.compile(r"</header\s*>", re.IGNORECASE)
_BODY = re.compile(r"<body\b[^>]*>", re.IGNORECASE)
_LABELS = {
    "result.json": "result",
    "junit.xml": "JUnit",
    "scenario.yaml": "scenario",
    "resolved.json": "resolved scenario",
    "events.jsonl": "events",
    "campaign.json": "campaign.json",
    "summary.md": "summary",
}


@dataclass(frozen=True)
class LedgerTable:
    """A sealed table of the ledger. torn: files with bytes after their last complete batch."""

    name: str
    rows: int
    parts: int
    torn: int


@dataclass(frozen=True)
class Ledger:
    """The tables of a ledger, or why there are none."""

    tables: list[LedgerTable]
    text: str = ""

    @property
    def rows(self) -> int:
        """Rows of all tables."""
        return sum(table.rows for table in self.tables)


def files_of(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return name and label of each file next to a report. names: all files of the directory that are served."""
    return [(name, _LABELS[name]) for name in FILES if name != REPORT and name in names]


def data_docs(names: Sequence[str]) -> str:
    """Return the path of the Data Docs among the files that are served; empty if there are none."""
    pages = [name for name in names if name.startswith("gx/") and name.endswith("/index.html")]
    return min(pages, key=lambda name: (name.count("/"), name), default="")


def ledger_of(run: Run) -> Ledger:
    """Return the sealed tables of a run."""
    path = run.ledger / SEAL
    if not path.is_file():
        return Ledger([], "The ledger is not sealed: the run was driven no further, or still is.")
    try:
        seal = Seal.model_validate_json(path.read_bytes())
    except (ValidationError, OSError):
        return Ledger([], f"{SEAL} is damaged.")
    if seal.schema_version != SCHEMA_VERSION:
        return Ledger([], f"Another Aftershock wrote this ledger (version {seal.schema_version}).")
    tables = [
        LedgerTable(name, table.rows, len(table.parts), len(table.torn))
        for name, table in sorted(seal.tables.items())
        if table.rows or table.torn
    ]
    return Ledger(tables)


def insert(page: str, bar: str) -> str:
    """Return a page with the bar after its header, or at the begin of its body; unchanged if it has neither."""
    match = _HEADER_END.search(page) or _BODY.search(page)
    return page if match is None else page[: match.end()] + bar + page[match.end() :]
