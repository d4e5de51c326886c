"""`dag`: run a scenario's DAG through Airflow, with the same live view as `run`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from chaos.cli.run import (
    RUNS_DIR,
    Bootstrap,
    Driver,
    Json,
    Kafka,
    Owned,
    RunsDir,
    Seed,
    Sets,
    show_comparison,
    show_result,
)
from chaos.cli.view import View
from chaos.cluster.lifecycle.gc import end_all
from chaos.errors import FAIL, INCONCLUSIVE, PASS, ClusterError, UsageError
from chaos.processes.process import ProcessId
from chaos.run.directory import Run, new_run_id, read_json
from chaos.run.events import read_events
from chaos.scenario.load import all_overrides, find, load
from chaos.scenario.resolve import check_owner
from chaos.scenario.shipped import shipped

PROJECT = Path(__file__).resolve().parents[2]
LOOK_EVERY_S = 0.2


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: python -m chaos dag resilience-demo --kafka 3.9.2")(dag)


def dag(
    scenario: Annotated[str, typer.Argument(help="A shipped scenario's name: the DAG is resilience.<name>.")],
    kafka: Kafka = None,
    driver: Driver = None,
    bootstrap: Bootstrap = None,
    kafka_conn_id: Annotated[
        str | None, typer.Option(help="Airflow connection (Kafka) of a cluster that exists, secrets and all.")
    ] = None,
    i_own_this_cluster: Owned = False,
    seed: Seed = None,
    sets: Sets = None,
    runs_dir: RunsDir = RUNS_DIR,
    as_json: Json = False,
) -> None:
    """Run the DAG of a shipped scenario through Airflow (`airflow dags test`), and watch it."""
    if scenario not in shipped():
        raise UsageError(f"{find(scenario)} is a file; only shipped scenarios have a DAG, use `run` for files")
    if kafka_conn_id is None:  # else only Airflow knows the cluster
        check_owner(load(find(scenario), all_overrides(sets, kafka, driver, bootstrap)), i_own_this_cluster)
    run = Run(runs_dir.absolute() / new_run_id(scenario))
    env = airflow_environment()
    with View() as view:
        migrate(env, view)
        view.say(f"DAG resilience.{scenario}, run directory: {run.path}")
        log = Path(env["AIRFLOW_HOME"]) / f"{run.run_id}.log"
        given = {
            "kafka": kafka,
            "driver": driver,
            "bootstrap": bootstrap,
            "kafka_conn_id": kafka_conn_id,
            "i_own_this_cluster": i_own_this_cluster,
            "seed": seed,
            "overrides": sets,
        }
        _test(scenario, _conf(run, given), env, log, run, view)
    if load(find(scenario)).variants and run.result.exists():
        raise typer.Exit(show_comparison(run, as_json))
    show_result(run, as_json)
    if not run.result.exists():
        raise ClusterError(f"the DAG ended without a result; Airflow's log is {log}")
    verdict = read_json(run.result, "result").get("verdict")
    raise typer.Exit({"pass": PASS, "fail": FAIL}.get(verdict, INCONCLUSIVE))


def airflow_environment() -> dict[str, str]:
    """The environment of an Airflow that lives inside the project: SQLite, our DAGs only, no examples."""
    home = Path(os.environ.get("AIRFLOW_HOME") or PROJECT / ".airflow")
    home.mkdir(parents=True, exist_ok=True)
    return {
        **os.environ,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "120",
        "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "150",  # its 50 s are few for 50 DAGs on a busy machine
        "PYTHONPATH": os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")])),
        "PYTHONWARNINGS": "ignore",
    }


def migrate(env: dict[str, str], view: View) -> None:
    """Make Airflow's database where it is not there yet."""
    if (Path(env["AIRFLOW_HOME"]) / "airflow.db").exists():
        return
    view.say("making Airflow's database (once)")
    done = subprocess.run(_airflow("db", "migrate"), env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"airflow db migrate failed: {(done.stderr or done.stdout).strip().splitlines()[-1]}")


def _conf(run: Run, given: dict[str, Any]) -> str:
    conf = {"run_id": run.run_id, "runs_dir": str(run.path.parent), "owner": str(ProcessId.current())}
    return json.dumps({**conf, **{key: value for key, value in given.items() if value is not None}})


def _test(scenario: str, conf: str, env: dict[str, str], log: Path, run: Run, view: View) -> None:
    """Run `airflow dags test` and show the run's events as they come."""
    argv = _airflow("dags", "test", f"resilience.{scenario}", "--conf", conf)
    with log.open("wb") as sink:
        child = subprocess.Popen(
            argv, env=env, stdout=sink, stderr=sink, stdin=subprocess.DEVNULL, start_new_session=True
        )
    shown = 0
    try:
        while True:
            ended = child.poll() is not None
            # those of an A/B scenario's sides, which run one after another, are below it
            events = [event for one in (run, *_sides(run)) for event in read_events(one)]
            for event in events[shown:]:
                view(event)
            shown = len(events)
            if ended:
                return
            time.sleep(LOOK_EVERY_S)
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        for one in (run, *_sides(run)):
            end_all(one.path)


def _sides(run: Run) -> list[Run]:
    """The runs of an A/B scenario, in the order in which they began."""
    found = [Run(path.parent) for path in run.path.glob("*/events.jsonl")]
    return sorted(found, key=lambda one: read_events(one)[0]["at_us"])


def _airflow(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "airflow", *arguments]
