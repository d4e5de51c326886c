"""Airflow for a team: built, started, given a scenario over its REST API, and removed without a trace."""

import json
import os
import secrets
import shutil
import socket
import subprocess
import urllib.error
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient

from chaos.cluster.docker.engine import connect
from chaos.errors import MachineError
from chaos.wait import wait_until
from tests.support.airflow_api import ask
from tests.support.platform import ROOT

pytestmark = [pytest.mark.landing, pytest.mark.airflow, pytest.mark.kafka, pytest.mark.timeout(2400)]

FILE = ROOT / "docker" / "compose.yaml"
LOCAL_BASE = "aftershock-base:bookworm"
DAG = "/api/v2/dags/resilience.clean-run"
USER = os.getuid() or 1000  # root of a container could write anywhere, which would hide a missing permission
SMALL = [
    "cluster.brokers=1",
    "topics.orders.replication_factor=1",
    "topics.orders.config={}",
    "producers.shop.records=2000",
]


@dataclass
class Deployment:
    """A compose project with its own port, secrets and runs folder."""

    client: list[str]
    engine: DockerClient
    env_file: Path
    runs: Path
    port: int
    project: str = field(default_factory=lambda: f"aftershock-test-{secrets.token_hex(4)}")
    token: str = field(default="", repr=False)

    def compose(self, *arguments: str) -> None:
        env = {
            **os.environ,
            "AIRFLOW_PORT": str(self.port),
            "AFTERSHOCK_RUNS": str(self.runs),
            "AIRFLOW_UID": str(USER),
        }
        argv = [*self.client, "-f", str(FILE), "--env-file", str(self.env_file), "-p", self.project, *arguments]
        done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(arguments)}:\n{done.stdout[-4000:]}\n{self.diagnosis()}"

    @property
    def settings(self) -> dict[str, str]:
        lines = [line.partition("=") for line in self.env_file.read_text().splitlines() if not line.startswith("#")]
        return {name: value.strip("'") for name, equals, value in lines if equals}

    def containers(self) -> list[Any]:
        return self.engine.containers.list(all=True, filters=self._ours)

    def service(self, name: str) -> Any:
        return next(c for c in self.containers() if c.labels["com.docker.compose.service"] == name)

    def left(self) -> list[str]:
        """Return the containers, networks and volumes that the engine still has of the project."""
        found = [
            *self.containers(),
            *self.engine.networks.list(filters=self._ours),
            *self.engine.volumes.list(filters=self._ours),
        ]
        return [thing.name for thing in found]

    def unready(self) -> list[str]:
        """Return the services that are not healthy yet, or that failed."""
        states = {c.labels["com.docker.compose.service"]: c.attrs["State"] for c in self.containers()}
        well = {n: s.get("Health", {}).get("Status") == "healthy" or n == "init" for n, s in states.items()}
        assert states["init"]["ExitCode"] == 0, self.diagnosis()
        return [f"{name} ({states[name]['Status']})" for name, healthy in well.items() if not healthy]

    def diagnosis(self) -> str:
        """Return the last lines of each container's log."""
        return "\n".join(
            f"--- {c.name}: {c.status}\n{c.logs(tail=15).decode(errors='replace')}" for c in self.containers()
        )

    def api(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Send a request to Airflow's REST API, a POST if there is a body. Raises `OSError`, also for an HTTP error."""
        return ask(f"http://127.0.0.1:{self.port}{path}", body, self.token)

    def knows_the_dag(self) -> bool:
        try:
            return bool(self.api(f"{DAG}/details"))  # like a trigger, it needs the parsed DAG
        except urllib.error.HTTPError as e:
            if e.code != 404:
                raise
            return False

    def run(self, run_id: str, *overrides: str) -> str:
        """Trigger the DAG, wait for the end of its run, and return the state."""
        conf = {"run_id": run_id, "overrides": [*SMALL, *overrides]}
        self.api(f"{DAG}/dagRuns", {"dag_run_id": run_id, "logical_date": None, "conf": conf})
        wait_until(lambda: self._state(run_id) in ("success", "failed"), 600, lambda: self._tasks(run_id), every_s=1)
        return self._state(run_id)

    def _state(self, run_id: str) -> str:
        return self.api(f"{DAG}/dagRuns/{run_id}")["state"]

    def _tasks(self, run_id: str) -> str:
        tasks = self.api(f"{DAG}/dagRuns/{run_id}/taskInstances")["task_instances"]
        return "; ".join(f"{t['task_id']} is {t['state']} after {t['duration']} s" for t in tasks)

    def why(self, run_id: str) -> str:
        """Return the states of the tasks and the logs, for a run with an unexpected end."""
        return f"{self._tasks(run_id)}\n{self.diagnosis()}"

    @property
    def _ours(self) -> dict[str, str]:
        return {"label": f"com.docker.compose.project={self.project}"}


@pytest.fixture(scope="module")
def client():
    """Return the compose command of this machine: the plugin, or the older program."""
    if shutil.which("docker") and not subprocess.run(["docker", "compose", "version"], capture_output=True).returncode:
        return ["docker", "compose"]
    if found := shutil.which("docker-compose"):
        return [found]
    pytest.skip("neither `docker compose` nor docker-compose is here")


@pytest.fixture(scope="module")
def engine():
    try:
        engine = connect()
    except MachineError as e:
        pytest.skip(str(e))
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def airflow(client, engine, tmp_path_factory):
    """Yield an Airflow that is ready, and remove it with all its data."""
    home = tmp_path_factory.mktemp("compose")
    (home / "runs").mkdir()
    os.chown(home / "runs", USER, -1)
    need_base(engine)
    subprocess.run([ROOT / "docker" / "make-env", home / "env"], check=True, capture_output=True)
    deployment = Deployment(client, engine, home / "env", home / "runs", free_port())
    try:
        deployment.compose("build")
        deployment.compose("up", "-d")
        wait_until(
            lambda: not deployment.unready(),
            300,
            lambda: f"not healthy: {', '.join(deployment.unready())}\n{deployment.diagnosis()}",
            every_s=1,
        )
        login = {"username": "admin", "password": json.loads(deployment.settings["AIRFLOW_PASSWORDS"])["admin"]}
        deployment.token = deployment.api("/auth/token", login)["access_token"]
        wait_until(deployment.knows_the_dag, 120, lambda: f"the DAG is not there\n{deployment.diagnosis()}", every_s=1)
        yield deployment
    finally:
        deployment.compose("down", "-v", "-t", "5")
        assert deployment.left() == []


@pytest.mark.nightly(twin="system/test_airflow.py::test_the_demo_runs_through_airflow_and_proves_all_three_faults")
def test_a_dag_that_is_triggered_over_the_rest_api_ends_in_a_report(airflow):
    assert airflow.run("clean") == "success", airflow.why("clean")
    run = airflow.runs / "clean"
    assert json.loads((run / "result.json").read_text())["verdict"] == "pass"
    assert (run / "report.html").stat().st_uid == USER
    assert "deploy" in json.dumps(airflow.api(f"{DAG}/dagRuns/clean/taskInstances/deploy/logs/1"))


@pytest.mark.nightly(
    twin="chaos/cluster/test_secured.py::test_a_run_shows_its_secrets_nowhere_and_a_refused_send_has_failed"
)
def test_a_run_leaves_no_process_and_no_secret(airflow):
    left = airflow.service("scheduler").top(ps_args="-o pid,stat,args")["Processes"]
    assert [p for p in left if p[1].startswith("Z") or "java" in p[2] or "chaos" in p[2]] == []
    secret = [value.encode() for name, value in airflow.settings.items() if "SECRET" in name or "KEY" in name]
    files = [path for path in airflow.runs.rglob("*") if path.is_file()]
    assert len(secret) == 3 and files
    assert [path for path in files if any(s in path.read_bytes() for s in secret)] == []


@pytest.mark.nightly(twin="system/test_airflow.py::test_a_dag_whose_contract_is_broken_is_not_green")
def test_a_contract_that_does_not_hold_is_a_failed_run(airflow):
    assert airflow.run("broken", "expect.duplicate_write={min: 1}") == "failed", airflow.why("broken")
    assert json.loads((airflow.runs / "broken" / "result.json").read_text())["verdict"] == "fail"


def test_without_secrets_it_names_the_command_that_makes_them(client, tmp_path):
    (tmp_path / "env").touch()
    argv = [*client, "-f", str(FILE), "--env-file", str(tmp_path / "env"), "config"]
    env = {"PATH": os.environ["PATH"]}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "run docker/make-env first" in done.stderr


def need_base(engine: DockerClient) -> None:
    """Build the base image, unless it exists or the environment names another one."""
    if not os.environ.get("AFTERSHOCK_BASE_IMAGE") and not engine.images.list(LOCAL_BASE):
        subprocess.run([ROOT / "docker" / "base-image"], check=True)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])
