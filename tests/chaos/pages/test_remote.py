"""The pages over a folder on another file system: the same as on a disk, and nothing outside of the folder."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import pytest

from chaos.errors import UsageError
from chaos.history.recording import add_runs
from chaos.incident.bundle import unpack
from chaos.pages.app import create_app
from chaos.pages.export import export
from chaos.pages.folder import PageError
from chaos.pages.local import LocalFolder, open_folder
from chaos.pages.remote import RemoteFolder
from chaos.pages.site import Site
from chaos.processes.ports import free_ports
from chaos.run.directory import Run
from tests.chaos.pages.conftest import Folder
from tests.chaos.pages.test_app import words
from tests.chaos.pages.test_folder import BAD

EVIL = "x<img src=x onerror=alert(1)>&#?100%"
REPORT = "/runs/leader-dies-1/report.html"


@dataclass
class Remote(Folder):
    """A folder of runs at a URL, with the pages over it. path: its copy on this machine."""

    fs: Any = None
    home: str = ""
    at: str = ""

    @property
    def site(self) -> Site:
        return Site(open_folder(self.at, self.path), self.url)

    def write(self, name: str, content: str | bytes) -> None:
        self.fs.makedirs(f"{self.home}/{name}".rpartition("/")[0], exist_ok=True)
        with self.fs.open(f"{self.home}/{name}", "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)

    def put(self) -> None:
        """Replace the remote folder by the local one."""
        if self.fs.exists(self.home):
            self.fs.rm(self.home, recursive=True)
        for path in sorted(self.path.rglob("*")):
            if path.is_file() and path.name != "history.sqlite":
                self.write(path.relative_to(self.path).as_posix(), path.read_bytes())


def remote_folder(runs: Folder, url: str) -> Remote:
    fs, home = fsspec.core.url_to_fs(url)
    remote = Remote(runs.path, None, fs, home, url)
    remote.put()
    return remote


@pytest.fixture
def remote(runs: Folder) -> Remote:
    return remote_folder(runs, f"memory://{secrets.token_hex(4)}/runs")


def test_a_report_with_its_files_docs_ledger_and_bundle_is_that_of_the_disk(remote: Remote, tmp_path: Path) -> None:
    page, on_disk = remote.text(REPORT), Folder(remote.path).text(REPORT)
    assert page == on_disk and 'href="gx/site/index.html"' in page and "Expectations" in page
    assert remote.text("/runs/leader-dies-1/gx/site/index.html") == "<p>the rules"
    found = remote.get("/runs/leader-dies-1/bundle")
    (tmp_path / "x.aftershock.tar.gz").write_bytes(found.content)
    unpack(tmp_path / "x.aftershock.tar.gz", tmp_path / "unpacked")
    assert remote.get("/runs/leader-dies-1").headers["location"].startswith(REPORT)
    assert "leader-dies-1" in words(remote.text("/")) and "There is none yet" in words(remote.text("/campaigns.html"))


def test_what_is_outside_or_foreign_is_not_served(remote: Remote) -> None:
    remote.write("../secret.html", "secret")
    remote.write("foreign/report.html", "<script>")
    remote.write("leader-dies-1/.report.html.x1", "half")
    folder = remote.site.folder
    for path in [p.replace("run-1", "leader-dies-1") for p in BAD] + ["foreign/report.html", "foreign"]:
        with pytest.raises(PageError) as error:
            folder.file(path)
        assert error.value.status == 404, path
    for path in ("%2e%2e/secret.html", "..%2fsecret.html", "leader-dies-1/..%2f..%2fsecret.html", "cluster.json"):
        assert remote.get(f"/runs/{path}").status_code == 404
    assert [one.path for one in folder.scan()] == ["leader-dies-1"]


def test_html_and_signs_in_names_are_text_and_lead_to_the_run(remote: Remote) -> None:
    for path in sorted((remote.path / "leader-dies-1").iterdir()):
        if path.is_file():
            remote.write(f"{EVIL}/{path.name}", path.read_text())
    page = remote.text("/")
    assert "<img" not in page
    address = next(part for part in page.split('href="') if part.startswith("runs/x%3Cimg")).partition('"')[0]
    report = remote.text(f"/{address}")
    assert "Expectations" in report and "<img src=x" not in report


def test_what_changes_or_goes_there_is_seen_by_the_next_request(remote: Remote) -> None:
    client, report = remote.client(), f"{remote.home}/leader-dies-1/report.html"
    assert "Expectations" in client.get(REPORT).text
    remote.write("leader-dies-1/report.html", "<body>judged again")
    assert "judged again" in client.get(REPORT).text
    remote.fs.rm(report)
    remote.fs.rm(f"{remote.home}/leader-dies-1/result.json")
    assert client.get("/runs/leader-dies-1/live.json").json()["has_report"] is False
    assert "Stages" in words(client.get(REPORT).text)  # it is judged again, or broke off
    remote.fs.rm(f"{remote.home}/leader-dies-1", recursive=True)
    assert client.get(REPORT).status_code == 404 and "leader-dies-1" not in client.get("/").text


def test_the_history_leads_to_the_runs_there_and_all_are_listed_without_one(remote: Remote, tmp_path: Path) -> None:
    remote.url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    add_runs([Run(remote.path / "leader-dies-1")], remote.url)
    page = remote.text("/")
    assert "1 recorded run<" in page and 'href="runs/leader-dies-1/report.html"' in page
    assert 'href="leader-dies-1/report.html"' in remote.text("/runs/trends.html")
    remote.url = None
    for number in range(60):
        remote.write(f"run-{number:02}/resolved.json", "{}")
    names = set()
    for page_number in (1, 2):
        listed = remote.text(f"/?page={page_number}")
        names |= {number for number in range(60) if f"run-{number:02}/" in listed}
    assert len(names) == 60


def test_a_missing_folder_and_a_file_are_problems(remote: Remote) -> None:
    assert "does not exist yet" in RemoteFolder(f"{remote.at}/none").problem
    assert "is a file" in RemoteFolder(f"{remote.at}/leader-dies-1/result.json").problem
    assert RemoteFolder(f"{remote.at}/none").scan() == []


def test_an_export_has_the_same_files_as_one_of_the_disk(remote: Remote, tmp_path: Path) -> None:
    export(remote.site.folder, "off", tmp_path / "there")
    export(LocalFolder(remote.path), "off", tmp_path / "here")

    def files(folder: Path) -> set[str]:
        return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}

    assert files(tmp_path / "there") == files(tmp_path / "here")


def test_a_tab_of_airflow_finds_the_copy_of_its_run(runs: Folder) -> None:
    remote = remote_folder(runs, f"memory://{secrets.token_hex(4)}/runs")
    there = create_app(remote.site, run_dir_of=lambda *_: str(remote.path / "leader-dies-1"))
    elsewhere = create_app(remote.site, run_dir_of=lambda *_: "/other/leader-dies-1")
    assert _get(there).headers["location"].startswith(REPORT)
    assert _get(elsewhere).status_code == 404


def _get(app: Any) -> Any:
    from fastapi.testclient import TestClient

    return TestClient(app).get("/of/dag/run/", follow_redirects=False)


def test_a_file_system_that_does_not_answer_is_a_page_and_the_history_stays(runs: Folder, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    remote = Remote(runs.path, f"sqlite:///{tmp_path / 'h.sqlite'}", at=f"webhdfs://me@127.0.0.1:{port}/runs")
    add_runs([Run(remote.path / "leader-dies-1")], str(remote.url))
    page = words(remote.text("/"))
    assert "cannot be read" in page and "1 recorded run" in page and "its directory is gone" not in page
    assert "does not answer" in words(remote.text(REPORT, status=503))
    assert "cannot be read" in words(remote.text("/campaigns.html", status=503))


@pytest.mark.parametrize(
    ("url", "reason"),
    [("nofs://host/runs", "nofs"), ("hdfs://host:8020/runs", "webhdfs://namenode"), ("s3://bucket/runs", "s3fs")],
)
def test_a_url_that_cannot_be_used_is_one_line(url: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as error:
        open_folder(url)
    assert "\n" not in str(error.value)


def test_a_password_in_the_url_is_not_shown() -> None:
    folder = open_folder("webhdfs://me:hunter2@127.0.0.1:1/runs")
    assert folder.name == "webhdfs://127.0.0.1:1/runs" and "hunter2" not in folder.problem


def test_a_url_of_this_machine_is_the_folder(runs: Folder) -> None:
    assert isinstance(open_folder(f"file://{runs.path}"), LocalFolder)


def test_old_copies_are_removed_and_those_in_use_are_not(
    runs: Folder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    remote = remote_folder(runs, f"memory://{secrets.token_hex(4)}/runs")
    monkeypatch.setattr("chaos.pages.remote.KEPT", 1)
    for name in ("run-1", "run-2"):
        remote.write(f"{name}/resolved.json", json.dumps({}))
    folder = remote.site.folder

    def copy(name: str) -> Path:
        return folder.copy(folder.directory(name), "resolved.json")

    first = copy("run-1")
    copy("run-2")
    assert (first / "resolved.json").is_file()
    monkeypatch.setattr("chaos.pages.remote.KEPT_S", -1)
    copy("run-2")
    assert not first.exists()
    assert (copy("run-1") / "resolved.json").is_file()
