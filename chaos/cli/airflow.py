"""`dag` and `ui`: one DAG through Airflow with the view of `run`, and Airflow with its web page until Ctrl-C."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chaos.cli.options import RUNS_DIR, Bootstrap, Driver, Json, Kafka, Owned, RunsDir, Seed, Sets, parsed
from chaos.cli.output import View, print_campaign, print_result
from chaos.errors import AftershockError, ClusterError, MachineError
from chaos.install.airflow import airflow_command, airflow_environment, create_database, run_airflow
from chaos.processes.ports import HOST, is_free
from chaos.processes.process import ProcessId
from chaos.run.campaign import RESULT, Comparison
from chaos.run.directory import Run, new_run_id, read_model
from chaos.run.events import read_events
from chaos.run.result import EXIT_CODES, RunOutcome
from chaos.units import parse_duration

if TYPE_CHECKING:
    from chaos.scenario.model import Scenario

EXAMPLES = {"dag": "dag resilience-demo --kafka 3.9.2", "ui": "ui --clusters 2 --scenarios nightly/"}
POOL = "aftershock_clusters"
PASSWORDS = "simple_auth_manager_passwords.json.generated"
LOOK_S = 300.0
"""Seconds after which a start that goes on is a problem that the user should look at; it is not ended."""
END_S = 30.0
DATABASE_TIMEOUT_S = 120
EVENTS_POLL_S = 0.2
POLL_S = 0.5


def dag(
    scenario: Annotated[str, typer.Argument(help="A scenario's name or YAML file: the DAG is resilience.<name>.")],
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
    """Run the DAG of a scenario through Airflow (`airflow dags test`), and watch it."""
    from chaos.scenario.load import all_overrides, find, load
    from chaos.scenario.resolve import check_owner
    from chaos.scenario.shipped import dag_of, shipped

    path = find(scenario)
    if kafka_conn_id is None:  # else only Airflow knows the cluster
        loaded = load(path, all_overrides(sets, kafka, driver, bootstrap))
        check_owner(loaded, i_own_this_cluster)
        Thread(target=_install, args=(loaded,), daemon=True).start()
    run = Run(runs_dir.absolute() / new_run_id(path.stem))
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
    if scenario not in shipped():
        env["AFTERSHOCK_SCENARIOS"] = str(path.parent.absolute())
    log = Path(env["AIRFLOW_HOME"]) / f"{run.run_id}.log"
    with View() as view:
        create_database(env, view.doing)
        view.say(f"DAG {dag_of(path.stem)}, run directory: {run.path}")
        _test_dag(dag_of(path.stem), params, env, log, run, view)
    if (run.path / RESULT).exists():
        compared = read_model(run.path / RESULT, Comparison, "comparison of the variants", "run the DAG again")
        print_campaign(compared, run.path, as_json)
        raise typer.Exit(EXIT_CODES[compared.verdict])
    print_result(run, as_json)
    if not run.result.exists():
        raise ClusterError(f"the DAG ended without a result{_last_error(log)}; Airflow's log is {log}")
    raise typer.Exit(RunOutcome.read(run).exit_code)


def _install(scenario: Scenario) -> None:
    """Install what the run needs while Airflow starts. The run does the rest, and says what is wrong."""
    from chaos.drive.stages import install
    from chaos.install.cache import silent
    from chaos.scenario.resolve import resolve

    with contextlib.suppress(AftershockError, OSError):
        install(resolve(scenario, run_id="", name="", created_us=0, seed=0, overrides=[]), silent)


def _test_dag(dag_id: str, params: dict[str, Any], env: dict[str, str], log: Path, run: Run, view: View) -> None:
    """Run `airflow dags test` and pass on the events of the run and of its variants."""
    from chaos.cluster.reaper import end_all

    conf = json.dumps({name: value for name, value in params.items() if value is not None})
    child = _start_airflow(env, log, "dags", "test", dag_id, "--conf", conf)
    shown = 0
    view.doing("Airflow reads the DAG")
    view.between = "Airflow starts the next task"
    try:
        while True:
            ended = child.poll() is not None
            events = [event for one in (run, *_sides(run)) for event in read_events(one)]
            for event in events[shown:]:
                view(event)
            shown = len(events)
            if ended:
                return
            time.sleep(EVENTS_POLL_S)
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        for one in (run, *_sides(run)):
            end_all(one.path)


def _last_error(log: Path) -> str:
    """Return the last error of Airflow in its log, as a part of a sentence; empty if there is none.

    Other exceptions there are their causes, or what `airflow dags test` does not survive after a task that failed.
    """
    found = re.findall(r"^airflow\.[\w.]+: (.+)$", log.read_text(errors="replace"), re.MULTILINE)
    return f": {found[-1].strip()}" if found else ""


def _start_airflow(env: dict[str, str], log: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Start an Airflow command in a separate session. log: the file for its output."""
    with log.open("wb") as sink:
        return subprocess.Popen(
            airflow_command(*arguments),
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )


def _sides(run: Run) -> list[Run]:
    """Return the runs of an A/B scenario, which run one after another, in the order of their start."""
    sides = [Run(path.parent) for path in run.path.glob("*/events.jsonl")]
    return sorted(sides, key=lambda side: read_events(side)[0]["at_us"])


def ui(
    port: Annotated[int, typer.Option(min=1024, max=65535, help="Port of the web page on 127.0.0.1.")] = 8080,
    clusters: Annotated[int, typer.Option(min=1, max=16, help="Clusters at once, over all DAGs.")] = 1,
    scenarios: Annotated[
        Path | None,
        typer.Option(file_okay=False, envvar="AFTERSHOCK_SCENARIOS", help="A folder with your own scenarios."),
    ] = None,
    start_limit: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Time for the start, such as 10m. At its end, a terminal asks whether to wait on; elsewhere, the "
            "start is ended. No limit if left out: a slow machine takes its time.",
        ),
    ] = None,
    runs_dir: RunsDir = RUNS_DIR,
) -> None:
    """Start Airflow with a DAG for each scenario, for this machine only, until Ctrl-C ends all of it.

    DAGs with a `schedule:` follow it; the others run when you trigger them.
    """
    from chaos.scenario.shipped import scenarios_in

    limit_s = parsed("--start-limit", start_limit, parse_duration)
    if scenarios is not None:
        scenarios_in(scenarios)
    if not is_free(port):
        raise MachineError(f"port {port} of {HOST} is taken; choose another with --port")
    env = _environment(port, clusters, scenarios, runs_dir)
    home = Path(env["AIRFLOW_HOME"])
    with View() as view:
        create_database(env, view.doing)
        text = "clusters at once; a slot for each task that uses one"
        view.doing("setting the number of clusters at once")
        run_airflow(env, "pools", "set", POOL, str(clusters), text)
        view.say("starting Airflow (half a minute; two on a busy machine)")
        log = home / "standalone.log"
        child = _start_airflow(env, log, "standalone")
        try:
            _wait_ready(child, port, log, view, limit_s)
            view.doing("")
            view.between = ""
            view.say_markup(f"[bold]http://{HOST}:{port}[/]  {_login(home)}")
            view.say(f"clusters at once: {clusters} · Airflow's log: {log} · Ctrl-C ends everything")
            while child.poll() is None:
                time.sleep(POLL_S)
            raise ClusterError(f"Airflow ended unexpectedly with exit code {child.returncode}; its log is {log}")
        finally:
            view.say("ending Airflow and its runs")
            view.doing("ending Airflow and its runs")
            _end(child)


def _environment(port: int, clusters: int, scenarios: Path | None, runs_dir: Path) -> dict[str, str]:
    own = airflow_environment()
    # a scheduler ends if SQLite is locked for longer; the DAGs of all scenarios are written in one transaction
    database = f"sqlite:///{own['AIRFLOW_HOME']}/airflow.db?timeout={DATABASE_TIMEOUT_S}"
    env = {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database,
        **own,
        "AIRFLOW__API__HOST": HOST,
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__BASE_URL": f"http://{HOST}:{port}",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://{HOST}:{port}/execution/",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        # the tasks of a cluster run one after another except for its end; tasks that wait for a cluster use no slot
        "AIRFLOW__CORE__PARALLELISM": str(clusters + 1),
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",  # the default 5 s are short when brokers and Spark run
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",  # a `schedule:` in a scenario is meant to run
        "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
        "AFTERSHOCK_POOL": POOL,
        "AFTERSHOCK_CLUSTERS": str(clusters),
        "AFTERSHOCK_RUNS": str(runs_dir.absolute()),
        "AFTERSHOCK_OWNER": str(ProcessId.current()),
        # `standalone` starts its parts as `airflow`
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    }
    if scenarios is not None:
        env["AFTERSHOCK_SCENARIOS"] = str(scenarios.absolute())
    return env


def _wait_ready(child: subprocess.Popen[bytes], port: int, log: Path, view: View, limit_s: float | None) -> None:
    """Wait until the web page answers and all parts are healthy, as long as Airflow lives.

    Raises `ClusterError` if it ends, or after the limit, unless the user at the terminal wants to wait on.
    """
    since, starting = time.monotonic(), [""]
    while missing := _unhealthy(port):
        if child.poll() is not None:
            raise ClusterError(f"Airflow did not start (exit code {child.returncode}); its log is {log}")
        if missing != starting:
            starting = missing
            view.doing(f"starting Airflow, {' and '.join(missing)} not ready yet")
        if time.monotonic() - since > (limit_s or LOOK_S):
            state = f"still starting after {limit_s or LOOK_S:g} s: {', '.join(missing)}; Airflow's log is {log}"
            if limit_s and not _wants_to_wait(view, state):
                raise ClusterError(f"{state}; raise --start-limit, or leave it out")
            view.problem(f"{state}; it goes on, Ctrl-C ends it")
            since = time.monotonic()
        time.sleep(POLL_S)


def _wants_to_wait(view: View, state: str) -> bool:
    """Ask the user at the terminal whether to wait on; nobody wants to where there is no terminal."""
    if not sys.stdin.isatty():
        return False
    with view.paused():
        return typer.confirm(f"{state}. Wait on?", default=True, err=True)


def _unhealthy(port: int) -> list[str]:
    """Return the parts of Airflow that are not ready; empty if all are."""
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}/api/v2/monitor/health", timeout=5) as answer:
            parts = json.load(answer)
    except (OSError, ValueError):
        return ["the web page"]
    names = {"metadatabase": "the database", "scheduler": "the scheduler", "dag_processor": "the DAG processor"}
    return [text for part, text in names.items() if (parts.get(part) or {}).get("status") != "healthy"]


def _login(home: Path) -> str:
    passwords = home / PASSWORDS
    try:
        user, password = next(iter(json.loads(passwords.read_text(encoding="utf-8")).items()))
        return f"user {user}, password {password} (kept in {passwords})"
    except (OSError, ValueError, StopIteration):
        return f"users and passwords come from your Airflow settings ({home})"


def _end(child: subprocess.Popen[bytes]) -> None:
    """End Airflow with all its processes, and the clusters of its runs."""
    from chaos.cluster.reaper import end_all
    from chaos.processes.process import find_marked

    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(END_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)  # exactly the session that `command` started
    child.wait()
    me = ProcessId.current()
    for run_dir in {p.run_dir for p in find_marked() if p.owner == me}:
        end_all(run_dir)
