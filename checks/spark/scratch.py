"""Scratch folder of Spark's JVM on this machine: one for each process; folders of ended processes are removed.

Spark removes its scratch files when its JVM exits. A killed JVM leaves `blockmgr-*`, `spark-*` and `artifacts-*`
behind, about 100 kB each time, which would pile up under a schedule of runs.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import psutil


def process_folder() -> Path:
    """Create and return the folder of this process, after removing those of processes that have ended."""
    root = Path(tempfile.gettempdir()) / f"aftershock-spark-{os.getuid()}"
    this = psutil.Process()
    folder = root / _name(this)
    folder.mkdir(parents=True, exist_ok=True)
    for other in root.iterdir():
        if other != folder and not _is_alive(other.name):
            shutil.rmtree(other, ignore_errors=True)
    return folder


def _name(process: psutil.Process) -> str:
    # a pid alone may belong to another process later
    return f"{process.pid}-{round(process.create_time() * 1000)}"


def _is_alive(name: str) -> bool:
    try:
        return _name(psutil.Process(int(name.partition("-")[0]))) == name
    except (ValueError, psutil.NoSuchProcess):
        return False
