"""`compare-clients`: the same scenarios with several client libraries, side by side."""

from __future__ import annotations

from typing import Annotated

import typer

from chaos.cli.options import RUNS_DIR, For, Into, Jobs, Json, Kafka, Repeat, Resume, RunsDir, Seed
from chaos.cli.output import campaign_printer
from chaos.cli.view import RunsView, loading

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
    kafka: Kafka = None,
    margin: Annotated[float, typer.Option(min=1, max=100, help="Factor up to which two values count as equal.")] = 1.25,
    repeat: Repeat = None,
    jobs: Jobs = 1,
    budget: For = None,
    into: Into = None,
    resume: Resume = None,
    seed: Seed = None,
    runs_dir: RunsDir = RUNS_DIR,
    as_json: Json = False,
) -> None:
    """Run scenarios with each client library that can, with the same seeds, and compare them.

    Verdicts, anomalies, recovery times, throughput, CPU time and memory are side by side. A library that cannot run a
    scenario is left out with the reason. Ends with 0 if every run kept its contract, 1 if one broke it, 3 if one is
    inconclusive, 2 for bad input or if nothing can run. campaign.json, summary.md and report.html are in one folder;
    Ctrl-C (130) keeps the finished runs.
    """
    with loading():
        from chaos.campaign.compare.compare import CompareRequest, open_folder, plan
        from chaos.campaign.compare.compare import compare_clients as compare
        from chaos.run.result import EXIT_CODES

    names = tuple(name.strip() for name in clients.split(",") if name.strip())
    request = CompareRequest(
        runs_dir=runs_dir, into=into, resume=resume, repeat=repeat, jobs=jobs, budget=budget, seed=seed,
        scenarios=tuple(scenarios or ()), clients=names, against=against, kafka=kafka, margin=margin,
    )  # fmt: skip
    with loading("planning the comparison"):
        planned = plan(request)
        folder = open_folder(planned)
    with RunsView() as view:
        comparison = compare(planned, folder, view, campaign_printer(as_json))
    raise typer.Exit(EXIT_CODES[comparison.verdict])
