"""The wheel in a new environment, run by a user who makes everything as hard as it gets.

The environment, the working directory and TMPDIR have spaces and umlauts in their paths. The locale is C, the time zone
has an odd offset, the user is not root, and the home directory cannot be written to. Packages of others named `chaos`,
`checks` and `dags` are installed beside it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from chaos.wait import wait_until
from tests.support.airflow_parts import AirflowParts
from tests.support.platform import ROOT, SHORTEST, Ended, left_running
from tests.system.provider_dags import PROGRAM

pytestmark = pytest.mark.landing
NOBODY = 65534
SCENARIO = """
title: Zwölf Bestellungen
cluster: {brokers: 3}
topics: [{name: orders, partitions: 3, config: {min.insync.replicas: 2}}]
producers: [{name: shop, topic: orders, rate: 500/s, records: 2000, outlast_faults: true,
             config: {acks: all, enable.idempotence: true}}]
consumers: [{mode: subscribe, name: billing, group: billing, members: 2, topics: [orders]}]
faults: [{name: kill, kind: broker.kill, target: {leader_of: orders/0}, when: {acked: 500},
          heal: {when: {after: kill.proven + 1s}}}]
"""


@dataclass(frozen=True)
class Installation:
    """An installed wheel: the folder of the user, and the command."""

    folder: Path
    wheel: Path

    def __call__(self, *arguments: object, timeout_s: float = 500) -> Ended:
        """Run `aftershock` as that user, in a working directory that holds nothing of the project."""
        work, home = self.folder / "Träge Läufe 1", self.folder / "home"
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TMPDIR": str(self.folder / "tmp mit Überraschung"),
            "LANG": "C",
            "LC_ALL": "C",
            "TZ": "Asia/Kathmandu",
        }
        user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []
        argv = [*user, str(self.folder / "Umgebung 1" / "bin" / "aftershock"), *map(str, arguments)]
        done = subprocess.run(argv, cwd=work, env=env, capture_output=True, timeout=timeout_s, check=False)
        return Ended(done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8", "replace"))


@pytest.fixture(scope="module")
def installed() -> Iterator[Installation]:
    folder = Path(tempfile.mkdtemp(prefix="aftershock-installed-"))
    python = "/usr/bin/python3" if os.geteuid() == 0 else sys.executable  # a user must be able to reach it
    environment = folder / "Umgebung 1"
    for name in ("Träge Läufe 1", "tmp mit Überraschung", "home"):
        (folder / name).mkdir()
    try:
        uv("build", "--quiet", "--wheel", "--out-dir", folder / "dist", ROOT)
        (wheel,) = (folder / "dist").glob("*.whl")
        uv("venv", "--quiet", "--python", python, environment)
        package = f"aftershock[airflow] @ {wheel.as_uri()}"
        uv("pip", "install", "--quiet", "--python", environment, "-c", ROOT / "requirements.txt", package)
        add_packages_of_others(environment)
        compile_what_runs(environment)
        if os.geteuid() == 0:
            for path in (folder, *(folder / name for name in ("Träge Läufe 1", "tmp mit Überraschung"))):
                os.chown(path, NOBODY, NOBODY)
        (folder / "home").chmod(0o555)
        yield Installation(folder, wheel)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def add_packages_of_others(environment: Path) -> None:
    """Install packages of the same names as the folders of a checkout; whoever imports one of them fails."""
    (packages,) = environment.glob("lib/python*/site-packages")
    for name in ("chaos", "checks", "dags"):
        (packages / name).mkdir()
        (packages / name / "__init__.py").write_text(f"raise ImportError('this {name} is not of Aftershock')\n")


def compile_what_runs(environment: Path) -> None:
    """Write bytecode of our package, and of what a run imports; the user of the tests cannot write it."""
    modules = (
        "aftershock.chaos.cli",
        "aftershock.chaos.clients.confluent.library",
        "aftershock.checks.expectations.validate",
        "aftershock.checks.spark",
    )
    (package,) = environment.glob("lib/python*/site-packages/aftershock")
    for argv in (["-m", "compileall", "-q", package], ["-c", f"import {', '.join(modules)}"]):
        done = subprocess.run([environment / "bin" / "python", *argv], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]


def uv(*arguments: object) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "uv", *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_wheel_holds_scenarios_gates_dags_pages_and_no_tests(installed: Installation) -> None:
    names = zipfile.ZipFile(installed.wheel).namelist()
    for needed in (
        "chaos/scenarios/leader-kill.yaml",
        "chaos/gates/acks-1-to-all.yaml",
        "dags/resilience.py",
        "checks/expectations/datadocs.css",
        "chaos/report/defaults.yaml",
        "chaos/report/page/report.html.j2",
        "chaos/pages/page/live.js",
        "dags/plugins/aftershock_plugin.py",
        "checks/spark/log4j2.properties",
        "chaos/kafka/schemas/ConsumerGroupDescribeRequest.json",
    ):
        assert f"aftershock/{needed}" in names
    assert {name.partition("/")[0] for name in names} == {"aftershock", "aftershock-0.1.0.dist-info"}


def test_airflow_is_an_extra(installed: Installation) -> None:
    with zipfile.ZipFile(installed.wheel) as wheel:
        (metadata,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
        needs = [line for line in wheel.read(metadata).decode().splitlines() if line.startswith("Requires-Dist: ")]
    of_airflow = [line for line in needs if "apache-airflow" in line]
    assert len(of_airflow) == 2 and all(line.endswith("; extra == 'airflow'") for line in of_airflow), of_airflow
    assert any("pyspark" in line and "extra ==" not in line for line in needs)


def test_every_import_and_every_named_module_in_the_wheel_has_its_own_name(installed: Installation) -> None:
    with zipfile.ZipFile(installed.wheel) as wheel:
        sources = {n: wheel.read(n).decode() for n in wheel.namelist() if n.endswith(".py")}
    general = r"(chaos|checks|dags)"
    for name, source in sources.items():
        assert not re.search(rf"^\s*(from|import) {general}\b", source, re.M), name
        found = [m.group(1) for m in re.finditer(rf"""["']({general}(\.\w+)+)[:"']""", source)]
        assert not [module for module in found if f"aftershock/{module.replace('.', '/')}.py" in sources], name
    assert len(sources) > 300


def test_light_commands_answer(installed: Installation) -> None:
    assert "leader-kill" in installed("list").out
    assert "faults:" in installed("show", "leader-kill").out
    assert json.loads(installed("schema").out)["title"] == "Scenario"
    assert "Usage: aftershock" in installed("--help").out
    refused = installed("show", "leader-kil").err
    assert "`aftershock list`" in refused and "python -m" not in refused


@pytest.mark.kafka
def test_a_scenario_runs_from_command_to_verdict(installed: Installation) -> None:
    work = installed.folder / "Träge Läufe 1"
    (work / "Bestellungen.yaml").write_text(SCENARIO, encoding="utf-8")
    ended = installed("run", "Bestellungen.yaml", "--json", "--seed", 7)
    assert (ended.code, ended.result["verdict"]) == (0, "pass"), (ended.result["sentence"], ended.err[-4000:])
    assert ended.result["title"] == "Zwölf Bestellungen"
    assert [bool(f["proven_us"]) for f in ended.result["faults"]] == [True]
    report = Path(ended.result["run_dir"]) / "report.html"
    assert "Zwölf Bestellungen" in report.read_text(encoding="utf-8")
    assert left_running(work) == []


@pytest.mark.airflow
def test_airflow_finds_a_dag_for_each_scenario(installed: Installation) -> None:
    environment = installed.folder / "Umgebung 1"
    code = (
        "import json; from aftershock.chaos.install.locations import dags_folder; "
        "from airflow.dag_processing.dagbag import DagBag; "
        "bag = DagBag(str(dags_folder())); "
        "print('found', json.dumps([sorted(bag.dags), {k: str(v) for k, v in bag.import_errors.items()}]))"
    )
    home = installed.folder / "airflow"
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "AIRFLOW_HOME": str(home), "LANG": "C"}
    env["AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT"] = "120"
    done = subprocess.run(
        [str(environment / "bin" / "python"), "-c", code], cwd="/", env=env, capture_output=True, text=True, check=False
    )
    assert "found" in done.stdout, done.stderr[-3000:]
    dags, errors = json.loads(done.stdout.split("found ")[1])
    assert errors == {} and "resilience.leader-kill" in dags and "release_gate" in dags


@pytest.mark.airflow
def test_airflow_finds_the_plugin_and_its_pages_need_a_login(installed: Installation) -> None:
    home = installed.folder / "airflow"
    code = (
        "import json; from airflow import plugins_manager; from fastapi.testclient import TestClient; "
        "from airflow.api_fastapi.app import create_app; client = TestClient(create_app('core')); "
        "answers = [client.get(page).status_code for page in ('/aftershock/', '/aftershock/none')]; "
        "info = {p['name']: str(p['source']) for p in plugins_manager.get_plugin_info()}; "
        "print('found', json.dumps([info.get('aftershock', ''), answers]))"
    )
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "AIRFLOW_HOME": str(home), "LANG": "C"}
    argv = [str(installed.folder / "Umgebung 1" / "bin" / "python"), "-c", code]
    done = subprocess.run(argv, cwd="/", env=env, capture_output=True, text=True, check=False)
    assert "found" in done.stdout, done.stderr[-3000:]
    source, answers = json.loads(done.stdout.split("found ")[1].splitlines()[0])
    assert "aftershock" in source and answers == [401, 401]


@pytest.fixture(scope="module")
def airflow_of_others(installed: Installation) -> Iterator[AirflowParts]:
    """Yield an Airflow that has nothing of this project but the wheel, with DAGs that use its operators."""
    folder = installed.folder / "others"
    (folder / "dags").mkdir(parents=True)
    (folder / "dags" / "mine.py").write_text(PROGRAM)
    (folder / "small.yaml").write_text(SHORTEST)
    env = {
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
        "AFTERSHOCK_RUNS": str(folder / "runs"),
        "AFTERSHOCK_CLUSTERS": "2",
        "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
    }
    with AirflowParts(folder, str(installed.folder / "Umgebung 1" / "bin" / "python"), **env) as parts:
        parts.start("api-server", "api-server", "--port", str(parts.port))
        for name in ("scheduler", "dag-processor", "triggerer"):
            parts.start(name)
        parts.wait_ready("mine")
        yield parts


@pytest.mark.airflow
@pytest.mark.kafka
def test_operators_in_a_dag_of_others_give_verdicts_links_and_assets(airflow_of_others: AirflowParts) -> None:
    airflow, runs = airflow_of_others, airflow_of_others.home / "runs"
    run = airflow.trigger("mine", scenario=str(airflow.home / "small.yaml"), seed=11)
    ended = airflow.wait_ended(run, 400)
    assert ended == "success", airflow.task_log(run, "held")[-1500:] + airflow.log("scheduler")[-6000:]
    held, lost = airflow.xcom(run, "held"), airflow.xcom(run, "lost")
    assert (held["verdict"], held["seed"], Path(held["run_dir"]).parent) == ("pass", 11, runs)
    assert (lost["verdict"], lost["sentence"]) == ("fail", "No acknowledged record was lost; expected at least 1.")
    assert airflow.xcom(run, "seen")["run_id"] == held["run_id"]
    assert "producing, consuming" in airflow.task_log(run, "held")
    links = airflow(f"{run}/taskInstances/held/links")["extra_links"]
    assert links["Report"].endswith(f"/aftershock/runs/{held['run_id']}/report.html#verdict")
    assert left_running(runs) == [] and list((runs / ".tasks").iterdir()) == []


@pytest.mark.nightly(twin="system/test_installed.py::test_operators_in_a_dag_of_others_give_verdicts_links_and_assets")
@pytest.mark.airflow
@pytest.mark.kafka
def test_a_deferred_run_that_is_marked_failed_ends_its_brokers_and_a_mistake_is_one_line(
    airflow_of_others: AirflowParts,
) -> None:
    airflow, runs = airflow_of_others, airflow_of_others.home / "runs"
    run = airflow.trigger("ended")
    airflow.wait_task(run, "refused", "failed")  # at once: no retry mends it
    assert "no-such-scenario" in airflow.task_log(run, "refused")
    assert airflow.tasks(run)["refused"]["try_number"] == 1
    airflow.wait_task(run, "killed", "deferred")
    wait_until(lambda: bool(left_running(runs)), 200, "no broker was started")
    airflow.fail_task(run, "killed")
    wait_until(lambda: not left_running(runs), 60, lambda: f"still there: {left_running(runs)}")
    assert airflow.wait_ended(run, 60) == "failed"
    assert left_running(runs) == []


@pytest.mark.airflow
def test_airflow_knows_the_provider_and_its_type_of_connection(airflow_of_others: AirflowParts) -> None:
    airflow = airflow_of_others
    names = [one["package_name"] for one in airflow("/api/v2/providers?limit=200")["providers"]]
    assert "aftershock" in names
    tested = airflow(
        "/api/v2/connections/test", {"connection_id": "elsewhere", "conn_type": "aftershock", "host": "127.0.0.1:9"}
    )
    assert (tested["status"], tested["message"]) == (False, "no broker answered")
