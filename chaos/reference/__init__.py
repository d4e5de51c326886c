"""References written from the code: what can be broken, what can be found, what ships, what a scenario may say.

Each page lies beside what it explains and is committed, for people read it where there is no Python; a test fails when
a page is not what the code says. `python -m chaos reference --write` writes them all anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from chaos.reference import checks, faults, fields, scenarios

PROJECT = Path(__file__).resolve().parents[2]
WRITTEN = "<!-- Written by `python -m chaos reference --write` from the code. Change the code, not this page. -->\n\n"


@dataclass(frozen=True)
class Page:
    """One reference: where it lies in the project, and what makes it."""

    path: str
    make: Callable[[], str]

    def text(self) -> str:
        """The whole page in Markdown."""
        return WRITTEN + re.sub(r"\n{3,}", "\n\n", self.make()).strip("\n") + "\n"

    @property
    def file(self) -> Path:
        """Where it is written."""
        return PROJECT / self.path


PAGES: dict[str, Page] = {
    "faults": Page("chaos/faults/README.md", faults.page),
    "checks": Page("checks/audit/README.md", checks.page),
    "scenarios": Page("chaos/scenarios/CATALOGUE.md", scenarios.page),
    "fields": Page("chaos/scenario/README.md", fields.page),
}


def write() -> list[Path]:
    """Write every page; returns those that have changed."""
    texts = {page.file: page.text() for page in PAGES.values()}
    changed = [f for f, text in texts.items() if not f.is_file() or f.read_text(encoding="utf-8") != text]
    for file in changed:
        file.write_text(texts[file], encoding="utf-8")
    return changed
