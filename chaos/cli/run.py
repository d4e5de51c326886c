"""`run`: from a scenario to a verdict."""

from __future__ import annotations

import typer

from chaos.cli.options import (
    RUNS_DIR,
    Bootstrap,
    Client,
    Driver,
    Json,
    Kafka,
    Master,
    Owned,
    RunsDir,
    Scenario,
    Seed,
    Sets,
    Variant,
)

EXAMPLE = "run leader-kill --kafka 3.9.2 --seed 7 --json"


def command(
    scenario: Scenario,
    kafka: Kafka = None,
    client: Client = None,
    driver: Driver = None,
    bootstrap: Bootstrap = None,
    i_own_this_cluster: Owned = False,
    seed: Seed = None,
    sets: Sets = None,
    variant: Variant = "",
    runs_dir: RunsDir = RUNS_DIR,
    spark_master: Master = None,
    as_json: Json = False,
) -> None:
    """Run a scenario: deploy a cluster, break it under load, audit every record, give the verdict.

    A scenario with variants runs once for each of them, with the same seed, and ends with their comparison.
    """
    from chaos.cli.output import print_comparison, print_result
    from chaos.cli.view import View
    from chaos.drive import stages, variants
    from chaos.lab.comparison import run_variants
    from chaos.lab.judge import check_master
    from chaos.lab.single import drive_and_judge, recorded

    check_master(spark_master)
    request = stages.ScenarioRequest(
        scenario, seed, kafka, driver, bootstrap, tuple(sets or ()), i_own_this_cluster, client
    )
    if not variant and variants.names(request):
        whole = variants.prepare(request, runs_dir)
        with View() as view:
            view.say(f"run directory: {whole.run.path}")
            with recorded(whole.by_variant.values(), runs_dir, view.problem):
                run_variants(whole, view, lambda name: view.say(f"variant {name}"), spark_master)
        raise typer.Exit(print_comparison(whole.run, as_json))
    run = stages.prepare(request, runs_dir=runs_dir, variant=variant)
    with View() as view:
        view.say(f"run directory: {run.path}")
        with recorded([run], runs_dir, view.problem):
            code = drive_and_judge(run, view, spark_master)
    print_result(run, as_json)
    raise typer.Exit(code)
