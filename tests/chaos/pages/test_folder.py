"""Which directories are shown, and which files are read: nothing outside the folder, and nothing foreign."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chaos.pages.folder import PageError
from chaos.pages.local import LocalFolder


@pytest.fixture
def folder(tmp_path: Path) -> LocalFolder:
    (tmp_path / "secret.html").write_text("secret")
    run = tmp_path / "runs" / "run-1"
    (run / "gx" / "docs").mkdir(parents=True)
    for name in ("resolved.json", "report.html", "junit.xml", "cluster.json", "gx/docs/index.html", "gx/docs/x.js"):
        (run / name).write_text("{}")
    gate = tmp_path / "runs" / "gate-1"
    (gate / "cell-01-1").mkdir(parents=True)
    (gate / "bundles").mkdir()
    (gate / "bundles" / "cell-01-1.aftershock.tar.gz").write_text("packed")
    (gate / "campaign.json").write_text("{}")
    (gate / "cell-01-1" / "resolved.json").write_text("{}")
    return LocalFolder(tmp_path / "runs")


def test_runs_and_gates_with_their_cells_are_found(folder: LocalFolder) -> None:
    (folder.path / ".hidden").mkdir()
    (folder.path / ".hidden" / "resolved.json").write_text("{}")
    (folder.path / "foreign").mkdir()
    (folder.path / "foreign" / "report.html").write_text("<script>")
    assert [(f.path, f.kind) for f in folder.scan()] == [
        ("gate-1", "campaign"),
        ("gate-1/cell-01-1", "run"),
        ("run-1", "run"),
    ]


@pytest.mark.parametrize(
    ("path", "type_"),
    [
        ("run-1/report.html", "text/html"),
        ("run-1/junit.xml", "text/plain"),  # as XML, it may contain scripts
        ("run-1/gx/docs/index.html", "text/html"),
        ("gate-1/bundles/cell-01-1.aftershock.tar.gz", "application/gzip"),
    ],
)
def test_files_of_a_run_are_served(folder: LocalFolder, path: str, type_: str) -> None:
    assert folder.file(path).type == type_


BAD = [
    "",
    "/etc/passwd",
    "../secret.html",
    "run-1/../../secret.html",
    "run-1/./report.html",
    "run-1//report.html",
    "run-1\\report.html",
    "run-1/report.html\0.png",
    "C:/windows",
    "run-1/cluster.json",  # may hold passwords
    "run-1/gx/docs/x.js",
    "run-1",
    "run-1/.report.html.x1",
    "run-2/report.html",
    "nowhere/report.html",
    "x" * 5000,
]


@pytest.mark.parametrize("path", BAD)
def test_anything_else_is_not_found(folder: LocalFolder, path: str) -> None:
    with pytest.raises(PageError) as error:
        folder.file(path)
    assert error.value.status == 404


def test_a_link_that_leaves_the_folder_is_refused_and_one_inside_is_not(folder: LocalFolder) -> None:
    run = folder.path / "run-1"
    (run / "result.json").symlink_to(folder.path.parent / "secret.html")
    with pytest.raises(PageError, match="leaves"):
        folder.file("run-1/result.json")
    (folder.path / "run-3").symlink_to(folder.path.parent)
    with pytest.raises(PageError):
        folder.file("run-3/secret.html")
    (run / "scenario.yaml").symlink_to(run / "junit.xml")
    assert folder.file("run-1/scenario.yaml").path == run / "junit.xml"
    (run / "events.jsonl").symlink_to(run / "events.jsonl")  # a link to itself
    with pytest.raises(PageError):
        folder.file("run-1/events.jsonl")


def test_a_pipe_is_not_opened(folder: LocalFolder) -> None:
    os.mkfifo(folder.path / "run-1" / "events.jsonl")
    with pytest.raises(PageError):
        folder.file("run-1/events.jsonl")


def test_a_report_in_a_foreign_directory_is_not_served(folder: LocalFolder) -> None:
    (folder.path / "foreign").mkdir()
    (folder.path / "foreign" / "report.html").write_text("<script>")
    with pytest.raises(PageError):
        folder.file("foreign/report.html")


def test_a_missing_folder_and_a_file_are_problems_with_a_next_step(tmp_path: Path) -> None:
    assert f"does not exist yet. The first run makes it: python -m chaos run clean-run --runs-dir {tmp_path}/runs" in (
        LocalFolder(tmp_path / "runs").problem
    )
    (tmp_path / "file").touch()
    assert "is a file" in LocalFolder(tmp_path / "file").problem
    assert LocalFolder(tmp_path / "runs").scan() == []
