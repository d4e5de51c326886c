"""The Airflow of this installation: its environment and its database."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from chaos.errors import ClusterError, UsageError
from chaos.install.locations import airflow_home, dags_folder, plugins_folder, python_path

PARSING = {
    "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "300",
    "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "360",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "180",
    "AIRFLOW__DAG_PROCESSOR__STALE_DAG_THRESHOLD": "1200",
}
"""Times of the DAG processor in seconds, for a slow machine. A parse that took too long, or that the database did not
accept, counts as one without any DAG: Airflow then deactivates the DAGs with a last good parse that is older than the
threshold, which would end their runs. So the threshold allows for two bad parses in a row."""


def airflow_environment() -> dict[str, str]:
    """Return the environment of an Airflow with SQLite, only the DAGs of this installation, and no examples.

    Raises `UsageError` if Airflow is not installed: the wheel comes without it.
    """
    if find_spec("airflow") is None:
        raise UsageError(
            "this command needs Airflow, which is not installed here; "
            "install it with: pip install 'aftershock[airflow]'"
        )
    home = airflow_home()
    home.mkdir(parents=True, exist_ok=True)
    plugins = {} if _has_entry_point() else {"AIRFLOW__CORE__PLUGINS_FOLDER": str(plugins_folder())}
    return {
        **plugins,
        **os.environ,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags_folder()),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "2",
        **PARSING,
        "PYTHONPATH": python_path(),
        "PYTHONWARNINGS": "ignore",
    }


def _has_entry_point() -> bool:
    """Return whether Airflow finds the plugin by itself, because the package is installed."""
    return any(point.name == "aftershock" for point in entry_points(group="airflow.plugins"))


def airflow_command(*arguments: str) -> list[str]:
    """Return the command line of an Airflow command."""
    return [sys.executable, "-m", "airflow", *arguments]


def run_airflow(env: Mapping[str, str], *arguments: str) -> None:
    """Run an Airflow command to its end. Raises `ClusterError` with its last line if it fails."""
    done = subprocess.run(airflow_command(*arguments), env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1]
        raise ClusterError(f"airflow {' '.join(arguments[:2])} failed: {last}")


def create_database(env: Mapping[str, str], doing: Callable[[str], None]) -> None:
    """Create Airflow's database if it does not exist. Raises `ClusterError`."""
    if not (Path(env["AIRFLOW_HOME"]) / "airflow.db").exists():
        doing("creating Airflow's database (once)")
        run_airflow(env, "db", "migrate")
