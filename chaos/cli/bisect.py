"""`bisect`: the first release of brokers or clients with which the outcome changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from chaos.cli.options import RUNS_DIR, Anomaly, Json, RunsDir, Seed, Sets, Source, Variant

if TYPE_CHECKING:
    from rich.console import Console

    from chaos.incident.bisect import ReleaseRow

EXAMPLE = "bisect unclean-election --kafka 3.7.2..4.3.1 --anomaly lost_write"


def command(
    source: Source,
    kafka: Annotated[str | None, typer.Option(metavar="A..B", help="Among these Kafka releases.")] = None,
    client: Annotated[str | None, typer.Option(metavar="A..B", help="Or these confluent-kafka releases.")] = None,
    anomaly: Anomaly = None,
    tries: Annotated[int, typer.Option(min=1, max=100, help="Runs of each release; all of them count.")] = 1,
    variant: Variant = "",
    seed: Seed = None,
    sets: Sets = None,
    runs_dir: RunsDir = RUNS_DIR,
    as_json: Json = False,
) -> None:
    """Find the first release with which the outcome changes: whether an anomaly appears, or verdict and anomalies.

    Both ends run first. An inconclusive release is skipped, as by `git bisect skip`. Releases are those of
    chaos/incident/releases.yaml. Ends with 0 and the release; 1 if both ends show the same; 3 if an end is
    inconclusive, or if only skipped releases are left; 2 for an unknown release.
    """
    from rich.console import Console

    from chaos.cli.output import print_json, print_line
    from chaos.cli.view import RunsView
    from chaos.incident.bisect import BisectRequest, bisect
    from chaos.incident.subject import SubjectRequest

    subject = SubjectRequest(source, variant, tuple(sets or ()), seed)
    request = BisectRequest(subject, runs_dir, kafka, client, anomaly, tries)
    with RunsView() as view:
        result = bisect(request, view, on_failure=lambda rows: _print_rows(rows, Console(stderr=True)))
    if as_json:
        print_json(result.as_json())
    else:
        _print_rows(result.rows, Console())
        print_line(result.sentence)
    raise typer.Exit(result.exit_code)


def _print_rows(rows: list[ReleaseRow], console: Console) -> None:
    from rich.markup import escape

    from chaos.cli.output import plain_table

    table = plain_table("release", "is", "verdict", "seen", "runs", fixed=("release",))
    for row in rows:
        outcome = row.outcome
        detail = outcome.describe() if outcome.conclusive else outcome.sentence
        table.add_row(row.release, row.state, outcome.verdict, escape(detail), ", ".join(row.runs))
    console.print(table)
