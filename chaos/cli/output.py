"""Results of runs on standard output, as text or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console
from rich.table import Table

from chaos.run.directory import Run

if TYPE_CHECKING:
    from chaos.run.campaign import Campaign

C = TypeVar("C", bound="Campaign")


def print_json(data: object) -> None:
    """Print data as indented JSON."""
    sys.stdout.write(json.dumps(data, indent=1) + "\n")


def print_line(text: str) -> None:
    """Print plain text as one line, without wrapping."""
    Console(soft_wrap=True, highlight=False).print(text, markup=False)


def plain_table(*columns: str, right: tuple[str, ...] = (), fixed: tuple[str, ...] = ()) -> Table:
    """Return an empty table. right: columns of numbers; fixed: columns that do not wrap."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        justify = "right" if column in right else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=column in fixed)  # type: ignore[arg-type]
    return table


def print_result(run: Run, as_json: bool) -> None:
    """Print the result of a run; print nothing if there is none."""
    if not run.result.exists():
        return
    if as_json:
        sys.stdout.write(run.result.read_text(encoding="utf-8") + "\n")
        return
    from chaos.report import terminal
    from chaos.run.result import Result

    terminal.render(Result.read(run), Console())


def campaign_printer(as_json: bool, plain: Callable[[C, Path], None] | None = None) -> Callable[[C, Path], None]:
    """Return a function that prints the result of a campaign in a folder, as JSON or as text.

    plain: prints the text, in place of the page for the terminal.
    """

    def show(result: C, folder: Path) -> None:
        if as_json:
            sys.stdout.write(result.model_dump_json(indent=1) + "\n")
        elif plain is not None:
            plain(result, folder)
        else:
            from chaos.report import campaign

            campaign.show(result, folder)
        sys.stdout.flush()

    return show


def print_comparison(run: Run, as_json: bool) -> int:
    """Compare the variants of an A/B run, print the comparison, and return the exit code of its verdict."""
    from chaos.campaign.comparison import write
    from chaos.report import compare
    from chaos.run.result import EXIT_CODES

    comparison = write(run)
    if as_json:
        print_result(run, as_json)
    else:
        compare.show(comparison, Console())
    return EXIT_CODES[comparison.verdict]
