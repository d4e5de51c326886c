"""Places of the installation: the checkout or the wheel that runs, its DAG folder, and a home for Airflow."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The folder that holds the packages `chaos`, `checks` and `dags`: a checkout, or `aftershock` in site-packages."""
PREFIX = __name__.partition("chaos.")[0]
"""The begin of the names of these packages: empty in a checkout, `aftershock.` if installed; see `wheel`."""


def checkout() -> Path | None:
    """Return the folder of the checkout that runs, or None where Aftershock is installed from a wheel."""
    return ROOT if (ROOT / "pyproject.toml").is_file() and (ROOT / "tests").is_dir() else None


def dags_folder() -> Path:
    """Return the folder with the DAG files. Airflow loads them from there."""
    return ROOT / "dags"


def plugins_folder() -> Path:
    """Return the folder with the plugin of Airflow."""
    return dags_folder() / "plugins"


def airflow_home() -> Path:
    """Return AIRFLOW_HOME, else `.airflow` in the checkout, else a folder among the user's data."""
    if home := os.environ.get("AIRFLOW_HOME"):
        return Path(home)
    if found := checkout():
        return found / ".airflow"
    import platformdirs  # on use: every process of a run imports this module

    return platformdirs.user_data_path("aftershock") / "airflow"


def python_path() -> str:
    """Return a PYTHONPATH with which a child process imports this installation, whatever its working directory is."""
    own = str(ROOT.parent if PREFIX else ROOT)
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join([own, *(entry for entry in entries if entry and entry != own)])
