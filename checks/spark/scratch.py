"""Where Spark's JVM on this machine puts its scratch files: one folder a process, those of ended processes removed.

Spark removes what it made when its JVM ends by itself. One that is killed leaves `blockmgr-*`, `spark-*` and
`artifacts-*` behind, some 100 kB a time, which a schedule of runs would pile up for ever.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import psutil


def own_folder() -> Path:
    """This process's folder, made; those of processes that have ended are removed first."""
    root = Path(tempfile.gettempdir()) / f"aftershock-spark-{os.getuid()}"
    me = psutil.Process()
    folder = root / _name(me)
    folder.mkdir(parents=True, exist_ok=True)
    for other in root.iterdir():
        if other != folder and not _is_alive(other.name):
            shutil.rmtree(other, ignore_errors=True)
    return folder


def _name(process: psutil.Process) -> str:
    # the pid alone is given to another process some day
    return f"{process.pid}-{round(process.create_time() * 1000)}"


def _is_alive(name: str) -> bool:
    try:
        return _name(psutil.Process(int(name.partition("-")[0]))) == name
    except (ValueError, psutil.NoSuchProcess):
        return False
