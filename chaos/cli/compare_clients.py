"""`compare-clients`: the same scenarios with several client libraries, side by side."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from chaos.cli.options import RUNS_DIR, Kafka, RunsDir, Seed
from chaos.cli.view import RunsView

EXAMPLES = {"compare-clients": "compare-clients leader-kill --clients java:3.9.2,sarama,confluent --repeat 8"}


def compare_clients(
    scenarios: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SCENARIO]...",
            help="Names, name/variant of an A/B scenario, or YAML files; leader-kill, coordinator-loss, slow-consumer, "
            "consumer-crash, rolling-restart and transactions when left out.",
        ),
    ] = None,
    clients: Annotated[
        str,
        typer.Option(metavar="CLIENT,…", help="Client libraries, such as java:3.9.2,sarama,confluent; all by default."),
    ] = "",
    against: Annotated[
        str,
        typer.Option(metavar="CLIENT", help="The library that the others are compared with; the first one by default."),
    ] = "",
    repeat: Annotated[int, typer.Option(min=1, max=1000, help="Runs of each scenario with each library.")] = 1,
    seed: Seed = None,
    kafka: Kafka = None,
    jobs: Annotated[int, typer.Option(min=1, max=16, help="Runs at once, each on its own cluster.")] = 1,
    margin: Annotated[float, typer.Option(min=1, max=100, help="Factor up to which two values count as equal.")] = 1.25,
    out: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="The folder to use; an interrupted comparison there is continued."),
    ] = None,
    runs_dir: RunsDir = RUNS_DIR,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print clients.json on stdout; progress is on stderr.")
    ] = False,
) -> None:
    """Run scenarios with each client library that can, with the same seeds, and compare them.

    Verdicts, anomalies, recovery times, throughput, CPU time and memory are side by side. A library that cannot run a
    scenario is left out with the reason. Ends with 0 if every run kept its contract, 1 if one broke it, 3 if one is
    inconclusive, 2 for bad input or if nothing can run. clients.json, summary.md and report.html are in one folder;
    Ctrl-C (130) keeps the finished runs.
    """
    from chaos.comparison.compare import CompareRequest, open_folder, plan, run_plan
    from chaos.processes.python_module import run_module
    from chaos.run.result import EXIT_CODES

    names = tuple(name.strip() for name in clients.split(",") if name.strip())
    planned = plan(
        CompareRequest(runs_dir, tuple(scenarios or ()), names, against, kafka, repeat, seed, jobs, margin, out)
    )
    folder = open_folder(planned)
    with RunsView() as view:
        comparison = run_plan(planned, folder, view)
    if as_json:
        sys.stdout.write(comparison.model_dump_json(indent=1) + "\n")
    else:
        run_module("checks.report", "clients-table", str(folder.path), capture=False)
    raise typer.Exit(EXIT_CODES[comparison.verdict])
