"""Addresses of reports on the pages that Airflow's plugin `aftershock` serves.

The address is `<base>/runs/<run directory below the folder of the runs>/report.html#<section>`. The base is
AFTERSHOCK_PAGES, such as the URL of `python -m chaos serve` or of a static host; without it, the mount path of the
plugin below Airflow's base URL. A run outside of the folder of the runs has no address, because the pages do not serve
it.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

VARIABLE = "AFTERSHOCK_PAGES"
MOUNT = "/aftershock"


def report_url(run_dir: str | None, runs_dir: str, section: str = "") -> str:
    """Return the address of a run's report, or an empty text if the pages do not serve it."""
    try:
        path = Path(run_dir or "").relative_to(Path(runs_dir).absolute()).as_posix()
    except ValueError:
        return ""
    return f"{_base()}/runs/{quote(path)}/report.html" + (f"#{section}" if section else "")


def _base() -> str:
    from airflow.sdk.configuration import conf

    if base := os.environ.get(VARIABLE):
        return base.rstrip("/")
    return str(conf.get("api", "base_url", fallback="") or "").rstrip("/") + MOUNT
