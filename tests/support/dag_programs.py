"""Programs that import the DAGs, each in a process with an Airflow that nothing else uses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.platform import ROOT


def run_program(folder: Path, program: str, *arguments: str, **env: str) -> Any:
    """Run a Python program in a folder, which is Airflow's home too; return the JSON of its last line."""
    path = str(ROOT)
    env = {**os.environ, "AIRFLOW_HOME": str(folder), "PYTHONPATH": path, **env}
    argv = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
