"""`compare`: the records of topics in two clusters that exist."""

from __future__ import annotations

from collections.abc import Callable
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
    "python -m chaos compare kafka:9092 kafka:9092 --topics orders --rename orders-copy --json\n\n"
    "python -m chaos compare primary.yaml dr.yaml --every 1h --into mirror"
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
    settings: Annotated[bool, typer.Option(help="Count another value of a topic's setting as a difference.")] = False,
    rate: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Most that is read a second, of both sides, such as 50MiB.")
    ] = None,
    examples: Annotated[int, typer.Option(min=0, max=1000, help="Records named for each kind and topic.")] = 5,
    every: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Go on until Ctrl-C: a round each 1h, with a report; each reads what came since the last one.",
        ),
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="End after so many rounds; needs --every.")] = None,
    into: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            file_okay=False,
            help="The new folder; one below --runs-dir if left out. With --every, the rounds in it go on.",
        ),
    ] = None,
    runs_dir: opt.RunsDir = opt.RUNS_DIR,
    as_json: opt.Json = False,
) -> None:
    """Compare topics of two clusters that exist, record by record, and only read.

    It names records that are missing in B, extra, duplicated, altered, moved or in another order, by partition. What
    retention, open transactions or writes meanwhile leave undecided is inconclusive, never equal.

    With --every, what B did not have yet in a round is decided by the next one: missing if B still lacks it. What was
    missing and comes later is missing no longer, and reordered. Ctrl-C ends with the verdict of all rounds.

    Exit codes: 0 equal, 1 differs, 2 refused, 3 inconclusive, 130 interrupted.
    """
    with View() as view:
        view.doing("connecting to A and B")
        from chaos.compare import folder
        from chaos.compare.pairs import Chosen, prepared
        from chaos.units import parse_duration, parse_size

        limit, every_s = opt.parsed("--rate", rate, parse_size), opt.parsed("--every", every, parse_duration)
        if rounds and every_s is None:
            raise UsageError("--rounds needs --every, such as --every 1h")
        sides = _side("A", a), _side("B", b)
        more = {"rate": limit, "examples": examples, "every_s": every_s, "settings": settings}

        def ask() -> Comparison:
            return prepared(*sides, Chosen(topics or (), rename), timestamps).model_copy(update=more)

        asked = ask()
        run = folder.place(runs_dir, into, asked)
        view.say(f"folder: {run.path}")
        _say_matching(view, asked)
        if every_s is None:
            code = folder.judge(run, view)
            _print(run, as_json)
        else:
            code = _stand(run, ask, every_s, rounds, view, as_json)
    raise typer.Exit(code)


def _stand(
    run: Run, ask: Callable[[], Comparison], every_s: float, rounds: int | None, view: View, as_json: bool
) -> int:
    """Compare round by round until it is asked to end; return the exit code."""
    from chaos.compare.rounds import held
    from chaos.compare.standing import Reports, stand
    from chaos.ending import Ending, by_signals

    ending = Ending()
    line = view.say if as_json else print_line
    reports = Reports(line, view.say, view.doing, view)

    def last_one() -> None:
        view.say("ending; a round that runs is the last one, and Ctrl-C once more leaves it out")

    with held(run), by_signals(ending, last_one):
        code = stand(run, ask, every_s, rounds, ending, reports)
    if as_json:
        _print(run, as_json)
    return code


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
