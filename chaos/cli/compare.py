"""`compare`: the records of topics in two clusters that exist."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chaos.cli import options as opt
from chaos.cli.output import View, print_line
from chaos.errors import UsageError

if TYPE_CHECKING:
    from chaos.compare.model import Comparison, Side
    from chaos.run.directory import Run

EXAMPLES = {
    "compare": "compare old:9092 new:9092 --topics 'orders.*'\n\n"
    "python -m chaos compare primary.yaml dr.yaml --rename 'primary.{}' --into dr-check\n\n"
    "python -m chaos compare kafka:9092 kafka:9092 --topics orders --rename orders-copy --json"
}
README = "checks/compare/README.md"


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="HOST:PORT,… of a cluster, or a YAML file with its `cluster`.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The same of the cluster that should have the records of A.")],
    topics: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME|PATTERN", help="Topics of A: orders, 'shop.*'. Repeatable; all if left out."),
    ] = None,
    rename: Annotated[
        str, typer.Option(metavar="TEXT", help="Name of a topic in B; {} is its name in A, as in 'primary.{}'.")
    ] = "{}",
    timestamps: Annotated[bool, typer.Option(help="Count another timestamp of a record as a difference.")] = False,
    rate: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Most that is read a second, of both sides, such as 50MiB.")
    ] = None,
    examples: Annotated[int, typer.Option(min=0, max=1000, help="Records named for each kind and topic.")] = 5,
    into: opt.Into = None,
    runs_dir: opt.RunsDir = opt.RUNS_DIR,
    as_json: opt.Json = False,
) -> None:
    """Compare topics of two clusters that exist, record by record, and only read.

    It names records that are missing in B, extra, duplicated, altered, moved or in another order, by partition. What
    retention, open transactions or writes meanwhile leave undecided is inconclusive, never equal.

    Exit codes: 0 equal, 1 differs, 2 refused, 3 inconclusive, 130 interrupted.
    """
    with View() as view:
        view.doing("connecting to A and B")
        from chaos.compare import folder
        from chaos.compare.pairs import Chosen, prepared
        from chaos.units import parse_size

        limit = opt.parsed("--rate", rate, parse_size)
        asked = prepared(_side("A", a), _side("B", b), Chosen(topics or (), rename), timestamps)
        run = folder.place(runs_dir, into, asked.model_copy(update={"rate": limit, "examples": examples}))
        view.say(f"folder: {run.path}")
        _say_matching(view, asked)
        code = folder.judge(run, view)
        _print(run, as_json)
    raise typer.Exit(code)


def _side(name: str, text: str) -> Side:
    """Return the cluster that an argument names. Raises `UsageError`."""
    from chaos.cli.breaking import cluster_of
    from chaos.compare.model import Side

    file = Path(text)
    is_file = file.suffix in (".yaml", ".yml") or file.is_file()
    try:
        bootstrap, security = cluster_of(None if is_file else text, file if is_file else None)
    except UsageError as e:
        raise UsageError(f"{name}: {e}") from None
    return Side(bootstrap=bootstrap, security=security)


def _say_matching(view: View, asked: Comparison) -> None:
    """Name the topics with records that are matched in another way than usual."""
    for pair in asked.pairs:
        if pair.whole or pair.compacted:
            view.say(f"{pair.name}: {pair.matching}")


def _print(run: Run, as_json: bool) -> None:
    """Print a report."""
    import sys

    from chaos.compare.model import ComparisonResult

    text = run.result.read_text(encoding="utf-8")
    if as_json:
        sys.stdout.write(text + "\n")
    else:
        for line in ComparisonResult.model_validate_json(text).lines():
            print_line(line)
    sys.stdout.flush()
