"""A folder of runs: judged ones with a history, and what a test adds."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from chaos.history.entries import Entry
from chaos.history.recording import add_runs
from chaos.history.store import Store, default_url
from chaos.pages.app import create_app
from chaos.pages.local import LocalFolder
from chaos.pages.site import Site
from chaos.run.directory import Run
from checks.pipeline import report
from tests.support.fake_runs import T0, FakeRun

SECOND = 1_000_000
DAY = 86_400 * SECOND


@dataclass
class Folder:
    """A folder of runs with the pages over it."""

    path: Path
    url: str | None = None

    @property
    def site(self) -> Site:
        return Site(LocalFolder(self.path), self.url)

    def client(self) -> TestClient:
        return TestClient(create_app(self.site), raise_server_exceptions=False)

    def get(self, address: str) -> httpx.Response:
        return self.client().get(address, follow_redirects=False)

    def text(self, address: str, status: int = 200) -> str:
        found = self.get(address)
        assert found.status_code == status, found.text[-500:]
        return found.text

    def run(self, name: str, **change: Any) -> Run:
        """Copy the judged run to another directory, with changes of its result."""
        run = Run(self.path / name)
        shutil.copytree(self.path / "leader-dies-1", run.path)
        for file, model in ((run.result, change), (run.resolved, {})):
            raw = json.loads(file.read_text())
            raw.update(run_id=name, **model)
            file.write_text(json.dumps(raw))
        return run

    def record(self, *runs: Run) -> None:
        add_runs(runs, self.url or default_url(self.path))

    @property
    def store(self) -> Store:
        return Store(self.url or default_url(self.path))


@pytest.fixture(scope="session")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with one judged run that has a report."""
    folder = tmp_path_factory.mktemp("judged")
    fake = FakeRun(folder)
    fake.write()
    report(fake.run)
    (fake.run.gx / "site").mkdir(parents=True)
    (fake.run.gx / "site" / "index.html").write_text("<p>the rules")
    (fake.run.path / "cluster.json").write_text('{"secured": {"platform": {"password": "s3cret"}}}')
    return folder


@pytest.fixture
def runs(judged: Path, tmp_path: Path) -> Folder:
    shutil.copytree(judged, tmp_path / "runs")
    return Folder(tmp_path / "runs")


def entry(number: int, **change: Any) -> Entry:
    """Return the n-th of many recorded runs."""
    values = {
        "key": f"{number:064}",
        "digest": "d",
        "run_id": f"leader-kill-{number}",
        "scenario": "leader-kill",
        "variant": "",
        "setup": "s",
        "title": "The leader dies",
        "verdict": ("pass", "fail", "inconclusive")[number % 3],
        "sentence": "No acknowledged record was lost.",
        "seen": "none",
        "seed": number,
        "kafka": ("4.3.1", "3.9.2")[number % 2],
        "client": "2.16.1",
        "began_us": T0 + number * DAY,
        "ended_us": T0 + number * DAY + 35 * SECOND,
        "run_dir": f"/runs/leader-kill-{number}",
        "command": "",
    }
    return Entry(**{**values, **change})
