"""Reference pages in Markdown, generated from the code: faults, checks, shipped scenarios, published bugs,
scenario fields.

Each page is in the folder that it documents and is committed, so that people can read it without Python. A test fails
if a page differs from the code. `python -m chaos reference --write` writes all pages.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from chaos.errors import UsageError
from chaos.reference import bugs, checks, faults, fields, scenarios

PROJECT = Path(__file__).resolve().parents[2]
"""The root of the checkout. In an installed package there is none, and pages can only be printed."""
HEADER = "<!-- Written by `python -m chaos reference --write` from the code. Change the code, not this page. -->\n\n"


@dataclass(frozen=True)
class Page:
    """A reference page: its path in the project, and the function that generates it."""

    path: str
    make: Callable[[], str]

    def text(self) -> str:
        """Return the whole page in Markdown."""
        return HEADER + re.sub(r"\n{3,}", "\n\n", self.make()).strip("\n") + "\n"

    @property
    def file(self) -> Path:
        """The file of the page in the checkout."""
        return PROJECT / self.path


PAGES: dict[str, Page] = {
    "faults": Page("chaos/faults/README.md", faults.page),
    "checks": Page("checks/audit/README.md", checks.page),
    "scenarios": Page("chaos/scenarios/CATALOGUE.md", scenarios.page),
    "bugs": Page("chaos/bugs/README.md", bugs.page),
    "fields": Page("chaos/scenario/README.md", fields.page),
}


def write() -> list[Path]:
    """Write every page and return the files that changed. Raises `UsageError` outside a checkout."""
    if not (PROJECT / "pyproject.toml").is_file():
        raise UsageError(
            f"reference --write needs a checkout of Aftershock, and {PROJECT} is an installed package; "
            "print a page instead, such as `reference faults`"
        )
    texts = {page.file: page.text() for page in PAGES.values()}
    changed = [file for file, text in texts.items() if not file.is_file() or file.read_text(encoding="utf-8") != text]
    for file in changed:
        file.write_text(texts[file], encoding="utf-8")
    return changed
