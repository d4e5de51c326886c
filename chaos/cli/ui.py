"""`ui`: Airflow with its web page, its scheduler and Aftershock's DAGs, for as long as the command runs."""

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

from chaos.cli.dag import airflow_environment, migrate
from chaos.cli.run import RUNS_DIR, RunsDir
from chaos.cli.view import View
from chaos.cluster.lifecycle.gc import end_all
from chaos.errors import ClusterError, MachineError
from chaos.processes.process import ProcessId
from chaos.processes.process_table import find_marked
from chaos.scenario.shipped import scenarios_in

HOST = "127.0.0.1"
POOL = "aftershock_clusters"
PASSWORDS = "simple_auth_manager_passwords.json.generated"
READY_S = 300.0
END_S = 30.0
LOOK_EVERY_S = 0.5


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: python -m chaos ui --clusters 2 --scenarios nightly/")(ui)


def ui(
    port: Annotated[int, typer.Option(min=1024, max=65535, help="Of the web page, on 127.0.0.1.")] = 8080,
    clusters: Annotated[int, typer.Option(min=1, max=16, help="How many clusters run at once, of all DAGs.")] = 1,
    scenarios: Annotated[
        Path | None,
        typer.Option(file_okay=False, envvar="AFTERSHOCK_SCENARIOS", help="A folder of scenarios of your own."),
    ] = None,
    runs_dir: RunsDir = RUNS_DIR,
) -> None:
    """Start Airflow with a DAG for each scenario, on this machine and for it alone, until Ctrl-C ends all of it.

    DAGs with a `schedule:` run by it, the others when they are asked for.
    """
    if scenarios is not None:
        scenarios_in(scenarios)
    _check_port(port)
    env = _environment(port, clusters, scenarios, runs_dir)
    home = Path(env["AIRFLOW_HOME"])
    with View() as view:
        migrate(env, view)
        _make_pool(env, clusters)
        view.say("starting Airflow (half a minute, on a busy machine two)")
        log = home / "standalone.log"
        with log.open("wb") as sink:
            child = subprocess.Popen(
                [sys.executable, "-m", "airflow", "standalone"],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
            )
        try:
            _wait_ready(child, port, log)
            for line in _greeting(port, home, clusters, log):
                view.say(line)
            while child.poll() is None:
                time.sleep(LOOK_EVERY_S)
            raise ClusterError(f"Airflow ended by itself with {child.returncode}; its log is {log}")
        finally:
            view.say("ending Airflow and its runs")
            _end(child)


def _environment(port: int, clusters: int, scenarios: Path | None, runs_dir: Path) -> dict[str, str]:
    env = {
        **airflow_environment(),
        "AIRFLOW__API__HOST": HOST,
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__BASE_URL": f"http://{HOST}:{port}",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://{HOST}:{port}/execution/",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        # a cluster's tasks run one after another but for its end, and what waits for a place takes no slot
        "AIRFLOW__CORE__PARALLELISM": str(clusters + 1),
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",  # its 5 s are few beside brokers and Spark on two cores
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",  # who writes `schedule:` has asked for it
        "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
        # an edited scenario is seen that much later; to read them all keeps the scheduler from SQLite for seconds
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
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((HOST, port))
        except OSError:
            raise MachineError(f"port {port} of {HOST} is taken; choose another with --port") from None


def _make_pool(env: dict[str, str], clusters: int) -> None:
    words = "clusters that run at once; a slot for each task that works with one"
    argv = [sys.executable, "-m", "airflow", "pools", "set", POOL, str(clusters), words]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"airflow pools set failed: {(done.stderr or done.stdout).strip().splitlines()[-1]}")


def _wait_ready(child: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Return when the web page answers and the scheduler lives."""
    deadline = time.monotonic() + READY_S
    while not _healthy(port):
        if child.poll() is not None:
            raise ClusterError(f"Airflow did not start (it ended with {child.returncode}); its log is {log}")
        if time.monotonic() > deadline:
            raise ClusterError(f"Airflow did not answer on port {port} within {READY_S:.0f} s; its log is {log}")
        time.sleep(LOOK_EVERY_S)


def _healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}/api/v2/monitor/health", timeout=5) as answer:
            parts = json.load(answer)
    except (OSError, ValueError):
        return False
    return all(
        parts.get(part, {}).get("status") == "healthy" for part in ("metadatabase", "scheduler", "dag_processor")
    )


def _greeting(port: int, home: Path, clusters: int, log: Path) -> list[str]:
    passwords = home / PASSWORDS
    try:
        user, password = next(iter(json.loads(passwords.read_text(encoding="utf-8")).items()))
        login = f"user {user}, password {password} (kept in {passwords})"
    except (OSError, ValueError, StopIteration):
        login = f"users and passwords are those of your Airflow settings ({home})"
    return [
        f"[bold]http://{HOST}:{port}[/]  {login}",
        f"clusters at once: {clusters} · Airflow's log: {log} · Ctrl-C ends everything",
    ]


def _end(child: subprocess.Popen[bytes]) -> None:
    """End Airflow, all that it started, and the clusters of its runs."""
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(END_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)  # the session that was started above, and nothing else
    child.wait()
    me = ProcessId.current()
    for run_dir in {m.run_dir for m in find_marked() if m.owner == me}:
        end_all(run_dir)
