"""The pages in the API servers of Airflow: two on one folder of runs, over HDFS, and without their database."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from chaos.history.store import Store, default_url
from chaos.processes.ports import free_ports
from chaos.wait import wait_until
from tests.chaos.pages.conftest import entry
from tests.chaos.pages.test_app import words
from tests.support.airflow_parts import HOST, AirflowParts
from tests.support.fake_runs import FakeRun
from tests.support.platform import ROOT
from tests.support.postgres import postgres_server
from tests.support.spark_cluster import hdfs

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.spark_cluster,
    pytest.mark.timeout(900),
    pytest.mark.nightly(
        twin="chaos/pages/test_app.py::test_two_servers_and_a_writer_share_one_folder_and_lose_nothing"
    ),
]

PLUGINS = ROOT / "dags" / "plugins"
WRITTEN = 60


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with one judged run."""
    from checks.pipeline import report

    folder = tmp_path_factory.mktemp("pages") / "runs"
    folder.mkdir()
    fake = FakeRun(folder)
    fake.write()
    report(fake.run)
    return folder


@pytest.fixture
def airflow(runs: Path, tmp_path: Path) -> Iterator[AirflowParts]:
    with AirflowParts(tmp_path, AFTERSHOCK_RUNS=str(runs), AIRFLOW__CORE__PLUGINS_FOLDER=str(PLUGINS)) as parts:
        yield parts


class Pages:
    """The pages of an API server that was started."""

    def __init__(self, airflow: AirflowParts, name: str, **env: str) -> None:
        (self.port,) = free_ports(1)
        self.token = ""
        # each worker of an API server loads plugins; one is enough
        airflow.start(name, "api-server", "--port", str(self.port), "--host", HOST, "--workers", "1", **env)

        def ready() -> bool:
            airflow.check()
            try:
                with urllib.request.urlopen(f"http://{HOST}:{self.port}/auth/token", timeout=60) as answer:
                    self.token = json.load(answer)["access_token"]
            except OSError:
                return False
            return True

        wait_until(ready, 240, lambda: f"{name} does not answer: {airflow.log(name)[-3000:]}", every_s=1)

    def get(self, address: str) -> tuple[int, str]:
        """Return status and text of a page."""
        headers = {"Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(f"http://{HOST}:{self.port}/aftershock{address}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()


def test_two_api_servers_list_all_runs_while_one_is_written(airflow: AirflowParts, runs: Path) -> None:
    servers = [Pages(airflow, "one"), Pages(airflow, "two")]
    failed: list[tuple[int, str]] = []
    written = threading.Event()

    def look_at(server: Pages) -> None:
        while not written.is_set():
            status, page = server.get("/")
            if status != 200 or "cannot be read" in page:
                failed.append((status, words(page)[:300]))

    readers = [threading.Thread(target=look_at, args=(server,)) for server in servers]
    for reader in readers:
        reader.start()
    store = Store(default_url(runs))
    for number in range(WRITTEN):
        store.add(entry(number))
    written.set()
    for reader in readers:
        reader.join()
    assert failed == []
    for server in servers:
        assert f"{WRITTEN} recorded runs" in words(server.get("/")[1])
    for name in ("one", "two"):
        assert "the page /" not in airflow.log(name)  # the line of a page that crashed


def test_without_its_database_airflow_shows_a_page_that_says_so_and_no_run(runs: Path, tmp_path: Path) -> None:
    tab = "/of/resilience.leader-kill/manual__1/"
    env = {"AFTERSHOCK_RUNS": str(runs), "AIRFLOW__CORE__PLUGINS_FOLDER": str(PLUGINS)}
    # Airflow needs it for PostgreSQL; it is in the image of the team, in no requirement
    (driver,) = re.findall(r"asyncpg==[\d.]+", (ROOT / "docker" / "airflow" / "Dockerfile").read_text())
    extra = tmp_path / "extra"
    uv = Path(sys.executable).with_name("uv")
    argv = [uv, "pip", "install", "--quiet", "--python", sys.executable, "--target", extra, "--no-deps", driver]
    subprocess.run(argv, check=True)
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(extra)])
    with postgres_server() as database:
        env["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = database.url("postgres")
        with AirflowParts(tmp_path, **env) as airflow:
            server = Pages(airflow, "one")
            status, page = server.get(tab)
            assert status == 404 and "No run yet" in words(page)  # the database answers, and has no such run
            database.stop()
            for address in ("/", tab):  # no login can be checked, so nothing of the runs is shown
                status, page = server.get(address)
                assert status == 503 and "The database of Airflow cannot be used" in words(page), words(page)[:500]
                assert "leader-dies-1" not in page and "psycopg2" not in page


def test_the_plugin_serves_runs_of_a_hadoop_file_system(
    airflow: AirflowParts, runs: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (port,) = free_ports(1)
    with hdfs(tmp_path_factory.mktemp("hdfs"), port):
        url = f"webhdfs://root@localhost:{port}/team/runs"
        fs, home = fsspec.core.url_to_fs(url)
        for path in sorted((runs / "leader-dies-1").rglob("*")):
            if path.is_file():
                to = f"{home}/{path.relative_to(runs).as_posix()}"
                fs.makedirs(to.rpartition("/")[0], exist_ok=True)
                fs.put_file(str(path), to)
        elsewhere = tmp_path / "no-such-folder"
        env = {"AFTERSHOCK_RUNS_URL": url, "AFTERSHOCK_RUNS": str(elsewhere), "AFTERSHOCK_HISTORY": "off"}
        server = Pages(airflow, "one", **env)
        for address in ("/", "/campaigns.html"):
            status, page = server.get(address)
            assert status == 200, (address, words(page)[:500])
        assert "leader-dies-1" in server.get("/")[1]
        status, page = server.get("/runs/leader-dies-1/report.html")
        assert status == 200 and page.count("<section") > 3
        assert server.get("/runs/none/report.html")[0] == 404
    status, page = server.get("/")  # the file system has gone
    assert "Traceback" not in page and "cannot" in words(page), (status, words(page)[:500])
