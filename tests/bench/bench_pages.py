"""Seconds until the list of ten thousand runs has answered: recorded, filtered, the last page, and not recorded."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient
from sqlalchemy import create_engine, insert

from chaos.history.entries import Entry
from chaos.history.store import RUN, Store, default_url
from chaos.pages.app import create_app
from chaos.pages.local import LocalFolder
from chaos.pages.site import Site

RUNS = 10_000
SCENARIOS = 60
ROUNDS = 5
LIMIT_S = 1.0
QUERIES = {"first page": "/", "filtered": "/?scenario=scenario-7&verdict=fail&kafka=4.3.1", "last page": "/?page=200"}


def measure() -> dict[str, Any]:
    """Return the median and the slowest seconds of each page, and whether the slowest keeps the limit."""
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder)
        entries = [_entry(runs, n) for n in range(RUNS)]
        for entry in entries:
            path = Path(entry["run_dir"])
            path.mkdir()
            (path / "resolved.json").write_text("{}")
            (path / "events.jsonl").write_text('{"at_us": 1, "kind": "stage", "stage": "load", "state": "begin"}\n')
        client = TestClient(create_app(Site(LocalFolder(runs))))
        client.get("/campaigns.html")  # templates and style are read once
        measured = {"not recorded": _time(client, "/")}
        Store(default_url(runs)).add(Entry(**_entry(runs, RUNS)))  # makes the tables
        with create_engine(default_url(runs)).begin() as db:
            db.execute(insert(RUN), [{**entry, "times": "[]"} for entry in entries])
        return measured | {name: _time(client, query) for name, query in QUERIES.items()}


def _entry(runs: Path, n: int) -> dict[str, Any]:
    name = f"scenario-{n % SCENARIOS}"
    began_us = 1_700_000_000_000_000 + n * 600_000_000
    return {
        "key": f"{n:064}",
        "digest": "d",
        "run_id": f"{name}-{n}",
        "scenario": name,
        "variant": "",
        "setup": "s",
        "title": "The leader of a partition crashes while producers write",
        "verdict": ("pass", "pass", "fail", "inconclusive")[n % 4],
        "sentence": "No acknowledged record was lost. 1 of 1 fault took effect.",
        "seen": "duplicate_delivery legal 40",
        "seed": n,
        "kafka": ("4.3.1", "3.9.2", "3.3.2")[n % 3],
        "client": "2.16.1",
        "began_us": began_us,
        "ended_us": began_us + 100_000_000,
        "run_dir": str(runs / f"{name}-{n}"),
        "command": "",
    }


def _time(client: TestClient, query: str) -> dict[str, Any]:
    seconds = []
    for _ in range(ROUNDS):
        began = time.monotonic()
        assert client.get(query).status_code == 200
        seconds.append(time.monotonic() - began)
    slowest = max(seconds)
    return {
        "median_s": round(statistics.median(seconds), 2),
        "slowest_s": round(slowest, 2),
        "within_limit": slowest <= LIMIT_S,
    }
