"""The export: a folder of files whose links all lead somewhere."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest
from typer.testing import CliRunner

from chaos.cli import app
from chaos.errors import UsageError
from chaos.pages.export import export
from tests.chaos.pages.conftest import Folder, entry


def test_every_link_of_the_export_leads_to_a_file_in_it(runs: Folder, tmp_path: Path) -> None:
    run = runs.run("ünd here 100%")
    runs.record(run)
    broken = runs.run("broken-1")
    for path in (broken.result, broken.report):
        path.unlink()
    for number in range(450):
        runs.store.add(entry(number))
    done = export(runs.site.folder, None, tmp_path / "site")
    assert done.left_out == [] and done.runs == 3
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert {page.name for page in pages} >= {
        "index.html",
        "index-2.html",
        "index-3.html",
        "campaigns.html",
        "trends.html",
    }
    checked = 0
    for page in (page for page in pages if "gx" not in page.parts):
        for link in re.findall(r'href="([^"#]+)"', page.read_text()):
            if link.startswith("data:"):
                continue
            target = (page.parent / unquote(unescape(link))).resolve()
            assert target.is_file() and target.is_relative_to(tmp_path / "site"), (page, link)
            checked += 1
    assert checked > 40
    assert (tmp_path / "site" / "runs" / "leader-dies-1" / "gx" / "site" / "index.html").is_file()
    assert not list((tmp_path / "site").rglob("cluster.json"))
    assert "fetch(" not in (tmp_path / "site" / "runs" / "broken-1" / "report.html").read_text()


def test_an_earlier_export_is_replaced_and_any_other_folder_is_left_alone(runs: Folder, tmp_path: Path) -> None:
    export(runs.site.folder, None, tmp_path / "site")
    (tmp_path / "site" / "runs" / "old.html").touch()
    export(runs.site.folder, None, tmp_path / "site")
    assert not (tmp_path / "site" / "runs" / "old.html").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    with pytest.raises(UsageError, match="no earlier export"):
        export(runs.site.folder, None, tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").exists()
    with pytest.raises(UsageError, match="inside"):
        export(runs.site.folder, None, runs.path / "site")
    with pytest.raises(UsageError, match="does not exist"):
        export(Folder(tmp_path / "none").site.folder, None, tmp_path / "other")


def test_a_link_out_of_the_folder_is_not_exported(runs: Folder, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    events = runs.path / "leader-dies-1" / "events.jsonl"
    events.unlink(missing_ok=True)
    events.symlink_to(tmp_path / "secret")
    export(runs.site.folder, None, tmp_path / "site")
    assert not (tmp_path / "site" / "runs" / "leader-dies-1" / "events.jsonl").exists()


def test_the_command_writes_it_and_says_where(runs: Folder, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(runs.path), "--export", str(tmp_path / "site")])
    assert done.exit_code == 0 and "index.html" in done.output and (tmp_path / "site" / "index.html").is_file()
