"""`run` and `audit`: from a scenario to a verdict, and from the ledger of an earlier run to a new verdict."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from chaos.cli import options as opt
from chaos.cli.output import print_comparison, print_result
from chaos.cli.view import View

RECORDING = "adding the run to the history"
EXAMPLES = {
    "run": "run leader-kill --kafka 3.9.2 --seed 7 --json",
    "audit": "audit runs/leader-kill-20261121-040000-1a2b",
}


def run(
    scenario: opt.Scenario,
    kafka: opt.Kafka = None,
    client: opt.Client = None,
    driver: opt.Driver = None,
    bootstrap: opt.Bootstrap = None,
    i_own_this_cluster: opt.Owned = False,
    seed: opt.Seed = None,
    sets: opt.Sets = None,
    variant: opt.Variant = "",
    repeat: opt.Rounds = 1,
    runs_dir: opt.RunsDir = opt.RUNS_DIR,
    spark_master: opt.Master = None,
    metrics: opt.Metrics = None,
    as_json: opt.Json = False,
) -> None:
    """Run a scenario: deploy a cluster, break it under load, audit every record, give the verdict.

    A scenario with variants runs for each of them, with the same seed, and ends with their comparison. It says that a
    setting caused a difference only with enough runs of each (--repeat).
    """
    with View() as view:
        view.doing("loading")
        from chaos.drive import stages, variants
        from chaos.errors import UsageError
        from chaos.history.recording import check_metrics
        from chaos.lab.judge import check_master
        from chaos.lab.lab import drive_and_judge, recorded, run_variants

    check_master(spark_master)
    check_metrics(metrics)
    request = stages.ScenarioRequest(
        scenario, seed, kafka, driver, bootstrap, tuple(sets or ()), i_own_this_cluster, client
    )
    if not variant and request.load().variants:
        whole = variants.prepare(request, runs_dir, repeat=repeat)
        with View() as view:
            view.say(f"run directory: {whole.run.path}")
            with recorded(whole.runs, runs_dir, view.problem, metrics):
                run_variants(whole, view, lambda name: view.say(f"variant {name}"), spark_master)
                view.doing(RECORDING)
        raise typer.Exit(print_comparison(whole.run, as_json))
    if repeat > 1:
        raise UsageError(f"--repeat is for a scenario with variants; here: python -m chaos repeat {scenario} {repeat}")
    prepared = stages.prepare(request, runs_dir=runs_dir, variant=variant)
    with View() as view:
        view.say(f"run directory: {prepared.path}")
        with recorded([prepared], runs_dir, view.problem, metrics):
            code = drive_and_judge(prepared, view, spark_master)
            view.doing(RECORDING)
    print_result(prepared, as_json)
    raise typer.Exit(code)


def audit(
    run_dir: Annotated[
        str, typer.Argument(help="The directory of an earlier run, or its URI, such as hdfs://host:9000/runs/x.")
    ],
    spark_master: opt.Master = None,
    as_json: opt.Json = False,
) -> None:
    """Audit a run directory again, offline: from its ledger to the verdict, without Kafka."""
    from chaos.lab.judge import audit_once, check_master
    from chaos.run.directory import Run
    from chaos.scenario.resolve import read

    check_master(spark_master)
    with contextlib.ExitStack() as stack:
        uri = run_dir if "://" in run_dir else None
        if uri:
            work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="aftershock-")))
            audited = Run(work / uri.rstrip("/").rpartition("/")[2])
        else:
            audited = Run.open(Path(run_dir))
            read(audited)
        with View() as view:
            view.doing("starting the audit")
            code = audit_once(audited, view, spark_master, uri)
        print_result(audited, as_json)
    raise typer.Exit(code)
