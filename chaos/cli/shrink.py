"""`shrink`: the smallest scenario that still shows an anomaly."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from chaos.cli.options import RUNS_DIR, RunsDir, Seed, Sets, Source, Variant

if TYPE_CHECKING:
    from chaos.incident.shrink import ShrinkResult

EXAMPLE = "shrink orders-lost.aftershock.tar.gz --anomaly lost_write"


def command(
    source: Source,
    anomaly: Annotated[str, typer.Option(help="The kind of anomaly that must remain, such as lost_write.")],
    tries: Annotated[
        int, typer.Option(min=1, max=100, help="Runs of a candidate before it counts as one without the anomaly.")
    ] = 2,
    budget: Annotated[str, typer.Option(help="Runs, time, or both: 40, 30m, 40,30m.")] = "60,60m",
    variant: Variant = "",
    seed: Seed = None,
    sets: Sets = None,
    runs_dir: RunsDir = RUNS_DIR,
) -> None:
    """Remove faults, clients, records, members and settings while the anomaly remains; print the rest.

    Every candidate runs. It keeps the anomaly if at least one of its tries shows it, so the printed scenario has shown
    it; a rare anomaly may be missed. smallest.yaml has the smallest scenario so far at any time. Ends with 0; with 3 if
    the whole scenario does not show the anomaly; with 130 after Ctrl-C, which keeps the smallest so far.
    """
    from chaos.cli.view import RunsView
    from chaos.incident.shrink import ShrinkRequest, shrink
    from chaos.incident.subject import SubjectRequest

    subject = SubjectRequest(source, variant, tuple(sets or ()), seed)
    with RunsView() as view:
        result = shrink(ShrinkRequest(subject, anomaly, runs_dir, tries, budget), view, _print)
    raise typer.Exit(result.exit_code)


def _print(result: ShrinkResult) -> None:
    sys.stdout.write(f"# {result.size}; {result.runs} runs\n{result.text}")
    sys.stdout.flush()
