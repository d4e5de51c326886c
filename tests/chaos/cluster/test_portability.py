"""A broker starts in any directory, in any locale, and without a home directory that can be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.install.jars import kafka_jars
from chaos.processes.process import find_marked

ODD_NAME = "Träge Läufe (1), 'ß' [ü]"

DEPLOY = """
import sys
from pathlib import Path
from chaos.cluster.process.driver import ProcessCluster
from chaos.cluster.settings import ClusterSpec
from chaos.processes.process import ProcessId
from chaos.run.directory import Run
run = Run.create(Path(sys.argv[1]), "Träge Läufe 1")
cluster = ProcessCluster.deploy(run, ClusterSpec(1), ProcessId.current(), 600)
cluster.kill_broker(1)
cluster.start_broker(1)
assert ProcessCluster.attach(run).broker_alive(1)
cluster.destroy()
"""


@pytest.mark.nightly(twin="system/test_installed.py::test_a_scenario_runs_from_command_to_verdict")
@pytest.mark.kafka
def test_a_broker_starts_in_an_odd_directory_and_the_c_locale(tmp_path: Path) -> None:
    jars = kafka_jars("4.3.1")
    odd = tmp_path / ODD_NAME
    (odd / "tmp").mkdir(parents=True)
    (odd / "cache" / "jars").mkdir(parents=True)
    (odd / "cache" / "jars" / jars.name).symlink_to(jars)
    env = {
        **os.environ,
        "LC_ALL": "C",
        "LANG": "C",
        "HOME": "/nonexistent",
        "TMPDIR": str(odd / "tmp"),
        "AFTERSHOCK_CACHE": str(odd / "cache"),
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }
    argv = [sys.executable, "-c", DEPLOY, str(odd / "runs")]
    done = subprocess.run(argv, env=env, cwd=odd, capture_output=True, encoding="utf-8", errors="replace", timeout=300)
    assert done.returncode == 0, done.stderr
    [run_dir] = (odd / "runs").iterdir()
    log = (run_dir / "logs" / "broker-1.log").read_text(encoding="utf-8")
    assert log.count("Kafka Server started") == 2
    assert "shared archive" not in log, "the class archive was not used"
    [archive] = (odd / "cache" / "classes").glob("kafka-4.3.1-*")
    assert (archive / "classes.jsa").exists(), (archive / "none.txt").read_text(encoding="utf-8")
    assert not [p for p in find_marked() if p.run_dir == run_dir]
