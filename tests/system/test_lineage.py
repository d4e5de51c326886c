"""What Airflow itself emits of a run: OpenLineage events of its tasks, and metrics in the protocol of OpenTelemetry.

The provider of OpenLineage is in no requirement of this project, so it is installed in an environment of this test. The
exporter of OpenTelemetry comes with Airflow.
"""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.platform import ROOT, left_running

PROVIDER = "apache-airflow-providers-openlineage"
AGAIN = """
from airflow.sdk import DAG
from dags.provider.operators import AftershockAuditOperator

with DAG("again", schedule=None):
    AftershockAuditOperator(task_id="audit", run_dir="{run_dir}")
"""
TASKS = ("deploy", "drive", "audit", "validate", "report", "verdict")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment with this project's requirements and the provider."""
    uv, venv = Path(sys.executable).with_name("uv"), tmp_path_factory.mktemp("lineage") / "venv"
    found = venv / "bin" / "python"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, venv], check=True)
    argv = [uv, "pip", "install", "--quiet", "--python", found, "-r", ROOT / "requirements.txt", PROVIDER]
    subprocess.run(argv, check=True)
    return found


@pytest.fixture
def metrics() -> Iterator[tuple[str, list[bytes]]]:
    """Return the address of a receiver of metrics over HTTP, and what it has received."""
    received: list[bytes] = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", received
        server.shutdown()


@pytest.mark.nightly(twin="system/test_airflow.py::test_the_demo_runs_through_airflow_and_proves_all_three_faults")
@pytest.mark.kafka
@pytest.mark.airflow
def test_airflow_emits_lineage_and_metrics_of_each_task(
    python: Path, metrics: tuple[str, list[bytes]], tmp_path: Path
) -> None:
    address, received = metrics
    events = tmp_path / "events.jsonl"
    env = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "240",
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps({"type": "file", "log_file_path": str(events), "append": True}),
        "AIRFLOW__METRICS__OTEL_ON": "True",
        "OTEL_EXPORTER_OTLP_ENDPOINT": address,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
    }
    subprocess.run([python, "-m", "airflow", "db", "migrate"], env=env, capture_output=True, check=True)
    conf = json.dumps({"runs_dir": str(tmp_path), "run_id": "lineage"})
    argv = [python, "-m", "airflow", "dags", "test", "resilience.clean-run", "--conf", conf]
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    seen = {(e["job"]["name"], e["eventType"]) for e in map(json.loads, events.read_text().splitlines())}
    wanted = {(f"resilience.clean-run.{task}", state) for task in TASKS for state in ("START", "COMPLETE")}
    assert wanted <= seen
    assert any(b"airflow.ti.finish.resilience__clean-run.drive.success" in body for body in received)

    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "again.py").write_text(AGAIN.format(run_dir=tmp_path / "lineage"))
    argv = [python, "-m", "airflow", "dags", "test", "again"]
    env["AIRFLOW__CORE__DAGS_FOLDER"] = str(tmp_path / "dags")
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    (judged,) = [
        event
        for event in map(json.loads, events.read_text().splitlines())
        if (event["job"]["name"], event["eventType"]) == ("again.audit", "COMPLETE")
    ]
    (topic,) = judged["inputs"]
    assert topic["name"] == "orders" and topic["namespace"].startswith("kafka://")
    assertions = topic["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert assertions and all(one["success"] for one in assertions)
    assert [file["name"] for file in judged["outputs"]] == [str(tmp_path / "lineage" / "report.html")]
    assert left_running(tmp_path) == []
