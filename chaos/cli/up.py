"""`up`: start a cluster without a scenario."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from chaos.cli.options import RUNS_DIR, RunsDir
from chaos.scenario.setup import DEFAULT_KAFKA

EXAMPLE = "up --brokers 3 --kafka 3.9.2 --for 2h"


def command(
    brokers: Annotated[int, typer.Option(min=1, max=9, help="Number of brokers.")] = 3,
    kafka: Annotated[str, typer.Option(help="Kafka release.")] = DEFAULT_KAFKA,
    driver: Annotated[str, typer.Option(help="Where brokers run: process or docker.")] = "process",
    for_: Annotated[str, typer.Option("--for", metavar="DURATION", help="Time after which the cluster ends.")] = "8h",
    runs_dir: RunsDir = RUNS_DIR,
) -> None:
    """Start a cluster and leave it running; print its bootstrap servers."""
    from chaos.cli.view import View
    from chaos.cluster.drivers import driver as driver_of
    from chaos.cluster.metadata_mode import choose
    from chaos.cluster.settings import ClusterSpec
    from chaos.errors import UsageError
    from chaos.run.directory import Run, new_run_id
    from chaos.units import parse_duration

    try:
        deadline_s = parse_duration(for_)
    except ValueError as e:
        raise UsageError(f"--for: {e}") from None
    spec = ClusterSpec(brokers=brokers, kafka=kafka, metadata=choose(kafka, driver=driver))
    run = Run.create(runs_dir, new_run_id("up"))
    with View() as view:
        cluster = driver_of(driver).deploy(run, spec, owner=None, deadline_s=deadline_s, on_progress=view.say)
        view.say(f"{brokers} brokers of Kafka {kafka}; they end after {for_}, or by: python -m chaos down {run.path}")
    sys.stdout.write(cluster.bootstrap + "\n")
