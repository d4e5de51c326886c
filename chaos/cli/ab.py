"""`ab`: run a scenario or an incident twice, unchanged and with changed settings, and compare."""

from __future__ import annotations

from pathlib import Path

import typer

from chaos.cli.options import RUNS_DIR, Json, Master, RunsDir, Seed, Sets, Source, Variant

EXAMPLE = "ab orders-lost.aftershock.tar.gz --set producers.shop.config.acks=all"


def command(
    source: Source,
    sets: Sets = None,
    variant: Variant = "",
    seed: Seed = None,
    runs_dir: RunsDir = RUNS_DIR,
    spark_master: Master = None,
    as_json: Json = False,
) -> None:
    """Run it twice with one seed, with and without changed settings, and compare.

    Both sides have the same contract. Exit codes are those of an A/B scenario: 0 if both sides keep it, 1 if one breaks
    it, 3 if one is inconclusive; the comparison names the side.
    """
    from chaos.cli.output import print_result
    from chaos.cli.view import View
    from chaos.incident.ab import ABRequest, ab
    from chaos.incident.subject import SubjectRequest
    from chaos.run.directory import Run
    from chaos.run.result import EXIT_CODES

    request = ABRequest(SubjectRequest(source, variant, seed=seed), tuple(sets or ()), runs_dir, spark_master)
    with View() as view:
        comparison = ab(request, view, view.say, show=not as_json)
    if as_json:
        print_result(Run(Path(comparison.run_dir)), as_json)
    raise typer.Exit(EXIT_CODES[comparison.verdict])
