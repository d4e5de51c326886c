"""`reference`: what the code says of faults, checks, shipped scenarios and a scenario's fields, as Markdown."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from chaos.errors import UsageError


class Subject(StrEnum):
    """What there is a reference of."""

    faults = "faults"
    checks = "checks"
    scenarios = "scenarios"
    fields = "fields"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: python -m chaos reference faults")(reference)


def reference(
    of: Annotated[Subject | None, typer.Argument(help="What it is of.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Write all of them to their pages in the project.")] = False,
) -> None:
    """Print a reference as Markdown: faults, checks, shipped scenarios, or the fields of a scenario."""
    from chaos.reference import PAGES, PROJECT  # on use: it reads every shipped scenario
    from chaos.reference import write as write_all

    if write == (of is not None):
        raise UsageError(f"give one of {', '.join(Subject)} to print it, or --write to write all of them")
    if of is not None:
        sys.stdout.write(PAGES[of].text())
        return
    changed = write_all()
    for page in PAGES.values():
        sys.stdout.write(f"{page.file.relative_to(PROJECT)}{'' if page.file in changed else ' (unchanged)'}\n")
