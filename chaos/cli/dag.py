"""`dag`: run a scenario's DAG through Airflow, with the same live view as `run`."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chaos.cli.options import RUNS_DIR, Bootstrap, Driver, Json, Kafka, Owned, RunsDir, Seed, Sets

if TYPE_CHECKING:
    from chaos.run.directory import Run
    from chaos.run.events import Event

EXAMPLE = "dag resilience-demo --kafka 3.9.2"
POLL_S = 0.2


def command(
    scenario: Annotated[str, typer.Argument(help="A shipped scenario's name: the DAG is resilience.<name>.")],
    kafka: Kafka = None,
    driver: Driver = None,
    bootstrap: Bootstrap = None,
    kafka_conn_id: Annotated[
        str | None, typer.Option(help="Airflow connection (Kafka) of an existing cluster, with its secrets.")
    ] = None,
    i_own_this_cluster: Owned = False,
    seed: Seed = None,
    sets: Sets = None,
    runs_dir: RunsDir = RUNS_DIR,
    as_json: Json = False,
) -> None:
    """Run the DAG of a shipped scenario through Airflow (`airflow dags test`), and watch it."""
    from chaos.cli.output import print_comparison, print_result
    from chaos.cli.view import View
    from chaos.errors import ClusterError, UsageError
    from chaos.install.airflow import airflow_environment, create_database
    from chaos.processes.process import ProcessId
    from chaos.run.directory import Run, new_run_id
    from chaos.run.result import RunOutcome
    from chaos.scenario.load import all_overrides, find, load
    from chaos.scenario.resolve import check_owner
    from chaos.scenario.shipped import shipped

    if scenario not in shipped():
        raise UsageError(f"{find(scenario)} is a file; only shipped scenarios have a DAG, use `run` for files")
    if kafka_conn_id is None:  # else only Airflow knows the cluster
        check_owner(load(find(scenario), all_overrides(sets, kafka, driver, bootstrap)), i_own_this_cluster)
    run = Run(runs_dir.absolute() / new_run_id(scenario))
    params = {
        "run_id": run.run_id,
        "runs_dir": str(run.path.parent),
        "owner": str(ProcessId.current()),
        "kafka": kafka,
        "driver": driver,
        "bootstrap": bootstrap,
        "kafka_conn_id": kafka_conn_id,
        "i_own_this_cluster": i_own_this_cluster,
        "seed": seed,
        "overrides": sets,
    }
    env = airflow_environment()
    log = Path(env["AIRFLOW_HOME"]) / f"{run.run_id}.log"
    with View() as view:
        create_database(env, view.say)
        view.say(f"DAG resilience.{scenario}, run directory: {run.path}")
        _test_dag(f"resilience.{scenario}", params, env, log, run, view)
    if load(find(scenario)).variants and run.result.exists():
        raise typer.Exit(print_comparison(run, as_json))
    print_result(run, as_json)
    if not run.result.exists():
        raise ClusterError(f"the DAG ended without a result; Airflow's log is {log}")
    raise typer.Exit(RunOutcome.read(run).exit_code)


def _test_dag(
    dag_id: str, params: dict[str, Any], env: dict[str, str], log: Path, run: Run, listener: Callable[[Event], None]
) -> None:
    """Run `airflow dags test` and pass on the events of the run and of its variants."""
    from chaos.cluster.lifecycle.gc import end_all
    from chaos.install.airflow import airflow_command
    from chaos.run.events import read_events

    conf = json.dumps({name: value for name, value in params.items() if value is not None})
    argv = airflow_command("dags", "test", dag_id, "--conf", conf)
    with log.open("wb") as sink:
        child = subprocess.Popen(
            argv, env=env, stdout=sink, stderr=sink, stdin=subprocess.DEVNULL, start_new_session=True
        )
    shown = 0
    try:
        while True:
            ended = child.poll() is not None
            events = [event for one in (run, *_sides(run)) for event in read_events(one)]
            for event in events[shown:]:
                listener(event)
            shown = len(events)
            if ended:
                return
            time.sleep(POLL_S)
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        for one in (run, *_sides(run)):
            end_all(one.path)


def _sides(run: Run) -> list[Run]:
    """Return the runs of an A/B scenario, which run one after another, in the order of their start."""
    from chaos.run.directory import Run
    from chaos.run.events import read_events

    sides = [Run(path.parent) for path in run.path.glob("*/events.jsonl")]
    return sorted(sides, key=lambda side: read_events(side)[0]["at_us"])
