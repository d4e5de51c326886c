"""`reference`: faults, checks, shipped scenarios or the fields of a scenario as Markdown, generated from the code."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from chaos.errors import UsageError

EXAMPLE = "reference faults"


class Subject(StrEnum):
    """The reference pages."""

    faults = "faults"
    checks = "checks"
    scenarios = "scenarios"
    fields = "fields"


def command(
    of: Annotated[Subject | None, typer.Argument(help="The page to print.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Write all pages into the checkout.")] = False,
) -> None:
    """Print a reference as Markdown: faults, checks, shipped scenarios, or the fields of a scenario."""
    from chaos.reference import PAGES, PROJECT
    from chaos.reference import write as write_all

    if write == (of is not None):
        raise UsageError(f"give one of {', '.join(Subject)} to print it, or --write to write all of them")
    if of is not None:
        sys.stdout.write(PAGES[of].text())
        return
    changed = write_all()
    for page in PAGES.values():
        sys.stdout.write(f"{page.file.relative_to(PROJECT)}{'' if page.file in changed else ' (unchanged)'}\n")
