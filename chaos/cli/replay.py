"""`replay`: run an incident again, and compare its outcome."""

from __future__ import annotations

import typer

from chaos.cli.options import RUNS_DIR, Json, Owned, RunsDir, Source

EXAMPLE = "replay orders-lost.aftershock.tar.gz"


def command(
    source: Source, i_own_this_cluster: Owned = False, runs_dir: RunsDir = RUNS_DIR, as_json: Json = False
) -> None:
    """Run an incident again with its scenario, seed, Kafka and confluent-kafka release, and compare the outcomes.

    Outcomes are the same if the verdict and the kinds of anomalies are; kinds of which the contract allows any number
    do not count. Exit codes are those of `run`, so a replay that fails as the incident did ends with 1.
    """
    from chaos.cli.output import print_json, print_line, print_result
    from chaos.cli.view import View
    from chaos.incident.replay import ReplayRequest, replay

    with View() as view:
        result = replay(ReplayRequest(source, runs_dir, i_own_this_cluster), view)
    if as_json:
        print_json({**result.as_json(), **result.run.outcome.model_dump()})
    else:
        print_result(result.run.run, as_json=False)
        print_line(f"replay:    {result.sentence}")
    raise typer.Exit(result.run.outcome.exit_code)
