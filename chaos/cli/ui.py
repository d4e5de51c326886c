"""`ui`: Airflow with its web page, its scheduler and Aftershock's DAGs, until Ctrl-C."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Annotated

import typer

from chaos.cli.options import RUNS_DIR, RunsDir

EXAMPLE = "ui --clusters 2 --scenarios nightly/"
HOST = "127.0.0.1"
POOL = "aftershock_clusters"
PASSWORDS = "simple_auth_manager_passwords.json.generated"
READY_S = 300.0
END_S = 30.0
POLL_S = 0.5


def command(
    port: Annotated[int, typer.Option(min=1024, max=65535, help="Port of the web page on 127.0.0.1.")] = 8080,
    clusters: Annotated[int, typer.Option(min=1, max=16, help="Clusters at once, over all DAGs.")] = 1,
    scenarios: Annotated[
        Path | None,
        typer.Option(file_okay=False, envvar="AFTERSHOCK_SCENARIOS", help="A folder with your own scenarios."),
    ] = None,
    runs_dir: RunsDir = RUNS_DIR,
) -> None:
    """Start Airflow with a DAG for each scenario, for this machine only, until Ctrl-C ends all of it.

    DAGs with a `schedule:` follow it; the others run when you trigger them.
    """
    from chaos.cli.view import View
    from chaos.errors import ClusterError
    from chaos.install.airflow import airflow_command, create_database, run_airflow
    from chaos.scenario.shipped import scenarios_in

    if scenarios is not None:
        scenarios_in(scenarios)
    _check_port(port)
    env = _environment(port, clusters, scenarios, runs_dir)
    home = Path(env["AIRFLOW_HOME"])
    with View() as view:
        create_database(env, view.say)
        text = "clusters at once; a slot for each task that uses one"
        run_airflow(env, "pools", "set", POOL, str(clusters), text)
        view.say("starting Airflow (half a minute; two on a busy machine)")
        log = home / "standalone.log"
        with log.open("wb") as sink:
            child = subprocess.Popen(
                airflow_command("standalone"),
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
            )
        try:
            _wait_ready(child, port, log)
            view.say_markup(f"[bold]http://{HOST}:{port}[/]  {_login(home)}")
            view.say(f"clusters at once: {clusters} · Airflow's log: {log} · Ctrl-C ends everything")
            while child.poll() is None:
                time.sleep(POLL_S)
            raise ClusterError(f"Airflow ended unexpectedly with exit code {child.returncode}; its log is {log}")
        finally:
            view.say("ending Airflow and its runs")
            _end(child)


def _environment(port: int, clusters: int, scenarios: Path | None, runs_dir: Path) -> dict[str, str]:
    from chaos.install.airflow import airflow_environment
    from chaos.processes.process import ProcessId

    env = {
        **airflow_environment(),
        "AIRFLOW__API__HOST": HOST,
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__BASE_URL": f"http://{HOST}:{port}",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://{HOST}:{port}/execution/",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        # the tasks of a cluster run one after another except for its end; tasks that wait for a cluster use no slot
        "AIRFLOW__CORE__PARALLELISM": str(clusters + 1),
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",  # the default 5 s are short beside brokers and Spark
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",  # a `schedule:` in a scenario is meant to run
        "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
        # the delay until an edited scenario shows; parsing all of them blocks SQLite for seconds
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "180",
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


def _check_port(port: int) -> None:
    from chaos.errors import MachineError

    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((HOST, port))
        except OSError:
            raise MachineError(f"port {port} of {HOST} is taken; choose another with --port") from None


def _wait_ready(child: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Wait until the web page answers and the scheduler is healthy. Raises `ClusterError`."""
    from chaos.errors import ClusterError

    deadline = time.monotonic() + READY_S
    while not _healthy(port):
        if child.poll() is not None:
            raise ClusterError(f"Airflow did not start (exit code {child.returncode}); its log is {log}")
        if time.monotonic() > deadline:
            raise ClusterError(f"Airflow did not answer on port {port} within {READY_S:.0f} s; its log is {log}")
        time.sleep(POLL_S)


def _healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}/api/v2/monitor/health", timeout=5) as answer:
            parts = json.load(answer)
    except (OSError, ValueError):
        return False
    return all(
        parts.get(part, {}).get("status") == "healthy" for part in ("metadatabase", "scheduler", "dag_processor")
    )


def _login(home: Path) -> str:
    passwords = home / PASSWORDS
    try:
        user, password = next(iter(json.loads(passwords.read_text(encoding="utf-8")).items()))
        return f"user {user}, password {password} (kept in {passwords})"
    except (OSError, ValueError, StopIteration):
        return f"users and passwords are those of your Airflow settings ({home})"


def _end(child: subprocess.Popen[bytes]) -> None:
    """End Airflow with all its processes, and the clusters of its runs."""
    from chaos.cluster.lifecycle.gc import end_all
    from chaos.processes.process import ProcessId
    from chaos.processes.process_table import find_marked

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
