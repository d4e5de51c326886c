"""`repeat`: run a scenario or an incident many times, and print the rate of each anomaly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from chaos.cli.options import RUNS_DIR, Json, Owned, RunsDir, Seed, Sets, Source, Variant

if TYPE_CHECKING:
    from chaos.incident.repeat import Repetition

EXAMPLE = "repeat 20 orders-lost.aftershock.tar.gz"


def command(
    runs: Annotated[int, typer.Argument(metavar="N", min=1, max=10_000, help="Number of runs.")],
    source: Source,
    variant: Variant = "",
    seed: Seed = None,
    same_seed: Annotated[bool, typer.Option("--same-seed", help="Use the same seed for all runs.")] = False,
    sets: Sets = None,
    i_own_this_cluster: Owned = False,
    runs_dir: RunsDir = RUNS_DIR,
    as_json: Json = False,
) -> None:
    """Run it N times, and give the rate of each anomaly with its 95 % interval (Clopper-Pearson).

    Each run has another seed, drawn from the first one. Ends with 1 if a run failed, else with 3 if one was
    inconclusive. Ctrl-C ends with 130, and prints the rates of the finished runs.
    """
    from chaos.cli.output import print_json
    from chaos.cli.view import RunsView
    from chaos.incident.repeat import RepeatRequest, repeat
    from chaos.incident.subject import SubjectRequest

    subject = SubjectRequest(source, variant, tuple(sets or ()), seed)
    request = RepeatRequest(subject, runs, runs_dir, same_seed, i_own_this_cluster)
    with RunsView() as view:
        repetition = repeat(
            request, view, lambda result: print_json(result.as_json()) if as_json else _print_rates(result)
        )
    raise typer.Exit(repetition.exit_code)


def _print_rates(repetition: Repetition) -> None:
    from rich.console import Console

    from chaos.cli.output import plain_table, print_line

    numbers = ("runs", "rate", "95 % interval")
    table = plain_table("seen", *numbers, right=numbers, fixed=("seen", *numbers))
    for rate in repetition.rates:
        share = f"{100 * rate.count / rate.of:.0f} %" if rate.of else "-"
        bounds = f"{100 * rate.low:.1f} to {100 * rate.high:.1f} %"
        table.add_row(rate.name, f"{rate.count} of {rate.of}", share, bounds)
    Console(soft_wrap=True, highlight=False).print(table)
    if unsure := repetition.inconclusive:
        print_line(f"{len(unsure)} of {len(repetition.runs)} runs are inconclusive and do not count:")
        for run in unsure:
            print_line(f"  {run.run.run_id}: {run.outcome.sentence}")
