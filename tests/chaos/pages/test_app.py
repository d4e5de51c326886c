"""The pages over HTTP: what they show, bad input, and the headers."""

from __future__ import annotations

import html
import json
import re
import shutil
import sqlite3
import threading
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from chaos.history.store import default_url
from chaos.incident.bundle import unpack
from chaos.pages.bar import insert
from chaos.pages.folder import PageError
from chaos.pages.local import LocalFolder
from chaos.report.pages import script_digests
from tests.chaos.pages.conftest import DAY, Folder, entry
from tests.support.platform import ROOT

REPORT = "/runs/leader-dies-1/report.html"


def words(page: str) -> str:
    """Return the text of a page without its style and markup."""
    body = re.sub(r"(?s)<(style|script)\b.*?</\1>", "", page)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def test_the_list_filters_by_scenario_verdict_release_and_time(runs: Folder) -> None:
    for number in range(6):
        runs.store.add(entry(number, scenario="leader-kill" if number < 4 else "clean-run"))
    assert "6 recorded runs" in runs.text("/")
    assert "4 recorded runs" in runs.text("/?scenario=leader-kill")
    assert "2 recorded runs" in runs.text("/?verdict=fail")
    assert "3 recorded runs" in runs.text("/index.html?kafka=3.9.2")
    assert "1 recorded run<" in runs.text("/?scenario=leader-kill&verdict=fail&kafka=3.9.2")
    assert "3 recorded runs" in runs.text("/?since=2023-11-15&until=2023-11-17")  # T0 is 2023-11-14
    assert "No run matches this filter" in runs.text("/?scenario=none")


def test_the_list_is_paged_the_latest_first_and_the_filter_stays(runs: Folder) -> None:
    for number in range(120):
        runs.store.add(entry(number, run_id=f"run-{number}", title=f"title {number}."))
    first, last = runs.text("/"), runs.text("/?page=3&scenario=leader-kill")
    assert "title 119." in first and "title 69." not in first and "Page 1 of 3" in words(first)
    assert "title 0." in last and "Page 3 of 3" in words(last)
    assert 'href="index.html?scenario=leader-kill&amp;page=2"' in last
    assert "Page 3 of 3" in words(runs.text("/?page=99"))  # a link of a time with more runs


@pytest.mark.parametrize("query", ["page=0", "page=x", "page=-1", "since=yesterday", "until=9999-12-31", "since=1"])
def test_a_bad_value_of_a_filter_is_a_page_that_names_it(runs: Folder, query: str) -> None:
    assert "All runs" in runs.text(f"/?{query}", status=400)


def test_a_recorded_run_leads_to_its_report_with_docs_ledger_and_bundle_beside_it(runs: Folder) -> None:
    runs.record(_run(runs))
    assert 'href="runs/leader-dies-1/report.html"' in runs.text("/")
    page = runs.text(REPORT)
    for link in ('href="gx/site/index.html"', 'href="bundle"', 'href="result.json"', 'href="../../index.html"'):
        assert link in page
    assert re.search(r"Ledger: \d+ tables, [\d,]+ rows", words(page)) and "Expectations" in words(page)
    assert "the rules" in runs.text("/runs/leader-dies-1/gx/site/index.html")
    assert runs.get("/runs/leader-dies-1/junit.xml").headers["content-type"].startswith("text/plain")
    assert runs.get("/runs/leader-dies-1/cluster.json").status_code == 404


def _run(runs: Folder):
    from chaos.run.directory import Run

    return Run(runs.path / "leader-dies-1")


def test_a_run_whose_directory_moved_or_went_is_found_by_its_name_or_has_no_link(runs: Folder) -> None:
    runs.store.add(entry(1, run_dir="/opt/aftershock/runs/leader-dies-1"))
    runs.store.add(entry(2, run_dir="/opt/aftershock/runs/deleted"))
    page = runs.text("/")
    assert page.count('href="runs/leader-dies-1/report.html"') == 1 and "its directory is gone" in page
    assert "not in the history" not in page


def test_the_address_of_a_directory_leads_to_its_report(runs: Folder) -> None:
    runs.run("größe 1")
    (runs.path / "foreign").mkdir()
    for address, name in (("leader-dies-1", "leader-dies-1"), ("leader-dies-1/", "leader-dies-1"), ("größe 1", "gr")):
        found = runs.get(f"/runs/{address}")
        assert found.status_code == 303 and found.headers["location"].startswith(f"/runs/{name}"), address
        assert "Expectations" in runs.text(found.headers["location"])
    for address in ("foreign", "none", "", "%2e%2e", "leader-dies-1/ledger", "x" * 5000):
        runs.text(f"/runs/{address}", status=404)


def test_a_bundle_is_packed_and_can_be_unpacked(runs: Folder, tmp_path: Path) -> None:
    found = runs.get("/runs/leader-dies-1/bundle")
    assert found.status_code == 200 and "leader-dies-1.aftershock.tar.gz" in found.headers["content-disposition"]
    (tmp_path / "x.aftershock.tar.gz").write_bytes(found.content)
    unpack(tmp_path / "x.aftershock.tar.gz", tmp_path / "unpacked")
    (runs.path / "leader-dies-1" / "result.json").unlink()
    assert "has no result yet" in runs.text("/runs/leader-dies-1/bundle", status=409)


def test_a_run_that_is_driven_is_in_the_list_with_its_stage_and_has_a_live_page(runs: Folder) -> None:
    run = runs.run("driven-1")
    for path in (run.result, run.report, run.events):
        path.unlink()
    run.events.write_text('{"at_us": 1, "kind": "stage", "stage": "load", "state": "begin"}\n{"at_us": 2, "ki')
    page = words(runs.text("/"))
    assert "driven-1" in page and "producing, consuming, breaking" in page
    assert "follows the run" in words(runs.text("/runs/driven-1/report.html"))
    assert runs.get("/runs/driven-1/live.json").json()["state"] == "running"


def test_an_empty_and_a_missing_folder_say_what_to_do(tmp_path: Path) -> None:
    assert "does not exist yet" in Folder(tmp_path / "none").text("/")
    (tmp_path / "empty").mkdir()
    empty = Folder(tmp_path / "empty")
    assert "run a scenario with python -m chaos run" in words(empty.text("/"))
    for page in ("/campaigns.html",):
        assert "There is none yet" in words(empty.text(page))
    assert "holds no run yet" in empty.text("/runs/trends.html", status=404)
    assert list((tmp_path / "empty").iterdir()) == []  # looking creates nothing


def test_a_directory_that_is_half_written_is_named_and_the_others_are_shown(runs: Folder) -> None:
    half = runs.path / "half-1"
    half.mkdir()
    (half / "resolved.json").write_text("{")
    cut = runs.run("cut-1")
    cut.result.write_text('{"run_id": "cut')
    page = words(runs.text("/"))
    assert "leader-dies-1" in page and "half-1" in page and "prepared, not started" in page
    assert "cut-1" in page and "unreadable" in page and "damaged" in page
    assert runs.get("/runs/half-1/report.html").status_code == 200
    assert runs.get("/runs/cut-1/report.html").status_code == 200  # its report is whole


def test_a_result_of_another_release_is_listed_and_says_so(runs: Folder) -> None:
    folder = runs.path / "gate-1"
    folder.mkdir()
    (folder / "campaign.json").write_text(json.dumps({"format": 99, "verdict": "maybe"}))
    page = runs.text("/campaigns.html")
    assert "gate-1" in page and "Another release of Aftershock may have written it" in words(page)
    assert "without a report.html" in runs.text("/runs/gate-1/report.html", status=404)


def test_a_ledger_and_a_result_of_another_version_are_named_and_nothing_breaks(runs: Folder) -> None:
    run = runs.run("newer-1", verdict="splendid", began_us="later")
    seal = run.ledger / "seal.json"
    seal.write_text(json.dumps({**json.loads(seal.read_text()), "schema_version": 99}))
    assert "A newer Aftershock" in words(runs.text("/"))
    assert "Another Aftershock wrote this ledger (version 99)" in words(runs.text("/runs/newer-1/report.html"))


def test_a_history_with_other_columns_and_one_that_is_no_database_leave_the_directories(runs: Folder) -> None:
    runs.store.add(entry(1))
    with create_engine(default_url(runs.path)).begin() as db:
        db.execute(text("ALTER TABLE aftershock_run ADD COLUMN later TEXT"))
    page = words(runs.text("/"))
    assert "aftershock_run with other columns" in page and "leader-dies-1" in page
    assert "with other columns" in words(runs.text("/runs/trends.html", status=503))
    (runs.path / "history.sqlite").write_bytes(b"not a database" * 100)
    page = words(runs.text("/"))
    assert "The history cannot be read" in page and "leader-dies-1" in page


@pytest.mark.parametrize("url", ["postgresql://nobody:hunter2@127.0.0.1:1/none", "nonsense", "mysql://x/y", "off"])
def test_a_database_that_cannot_be_reached_leaves_the_directories_and_hides_the_password(
    runs: Folder, url: str
) -> None:
    runs.url = url
    page = runs.text("/")
    assert "leader-dies-1" in page and "hunter2" not in page
    assert ("The history cannot be read" in page) == ("0 recorded runs" not in page) == (url != "off")


def test_two_servers_and_a_writer_share_one_folder_and_lose_nothing(runs: Folder) -> None:
    one, two = runs.client(), Folder(runs.path).client()
    failed: list[int] = []

    def look_at(client) -> None:
        failed.extend(code for _ in range(8) if (code := client.get("/").status_code) != 200)

    readers = [threading.Thread(target=look_at, args=(client,)) for client in (one, two)]
    for reader in readers:
        reader.start()
    for number in range(20):
        runs.store.add(entry(number))
    for reader in readers:
        reader.join()
    assert failed == [] and "20 recorded runs" in two.get("/").text


def test_a_locked_history_is_a_page_after_the_time_out(runs: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    runs.store.add(entry(1))
    monkeypatch.setattr("chaos.history.store.TIMEOUT_S", 0.1)
    db = sqlite3.connect(runs.path / "history.sqlite", isolation_level=None)
    db.execute("BEGIN EXCLUSIVE")
    page = words(runs.text("/"))
    db.execute("ROLLBACK")
    assert "database is locked" in page and "leader-dies-1" in page


def test_a_campaign_without_a_result_is_not_finished_and_a_foreign_plan_is_not_shown(runs: Folder) -> None:
    plans = {
        "gate-1": {"kind": "gate", "asked": {}, "parts": [{}, {}]},
        "foreign": {"cells": 1, "seed": 1},
        "list": [],
    }
    for name, plan in plans.items():
        (runs.path / name).mkdir()
        (runs.path / name / "plan.json").write_text(json.dumps(plan))
        (runs.path / name / "report.html").write_text("<script>")
    (runs.path / "half").mkdir()
    (runs.path / "half" / "plan.json").write_text("{")
    page = words(runs.text("/campaigns.html"))
    assert "not finished" in page and "2 parts planned" in page and "--resume gate-1" in page
    assert "foreign" not in page and "half" not in page
    for name in plans:
        assert runs.get(f"/runs/{name}/plan.json").status_code == 404
        assert "<script>" not in runs.text(f"/runs/{name}/report.html", status=404)


def test_cells_of_two_gates_with_one_name_lead_to_their_own_reports(runs: Folder) -> None:
    for gate in ("gate-1", "gate-2"):
        (runs.path / gate).mkdir()
        (runs.path / gate / "campaign.json").write_text("{}")
        run = runs.run(f"{gate}/cell-01-1")
        report = run.path / "report.html"
        report.write_text(report.read_text().replace("</header>", f"</header><p>of {gate}"))
        runs.store.add(entry(int(gate[-1]), run_dir=f"/moved/{gate}/cell-01-1"))
    page = runs.text("/")
    for gate in ("gate-1", "gate-2"):
        assert page.count(f'href="runs/{gate}/cell-01-1/report.html"') == 1
        assert f"of {gate}" in runs.text(f"/runs/{gate}/cell-01-1/report.html")


def test_without_a_history_all_directories_are_listed_in_pages(runs: Folder) -> None:
    runs.url = "postgresql://nobody@127.0.0.1:1/none"
    for number in range(120):
        (runs.path / f"run-{number:03}").mkdir()
        (runs.path / f"run-{number:03}" / "resolved.json").write_text("{}")
    pages = [runs.text(f"/?page={number}") for number in (1, 2, 3)]
    shown = [name for page in pages for name in re.findall(r'href="runs/(run-\d+)/', page)]
    assert len(shown) == 120 == len(set(shown)) and "Page 2 of 3" in words(pages[1])
    assert all("The history cannot be read" in page for page in pages)


def test_a_report_that_is_open_while_its_run_is_judged_again_gives_way_to_the_live_page(runs: Folder) -> None:
    run, client = runs.run("again-1"), runs.client()
    address = "/runs/again-1/report.html"
    page = run.report.read_text()
    for path in (run.result, run.junit, run.report):  # as a stage of the judge does first
        path.unlink()
    with run.events.open("a") as events:
        events.write('{"at_us": 9, "kind": "stage", "stage": "audit", "state": "begin"}\n')
    assert "auditing every record" in words(client.get(address).text)
    assert client.get("/runs/again-1/live.json").json()["has_report"] is False
    assert client.get("/runs/again-1/bundle").status_code == 409
    run.report.write_text(page.replace("</header>", "</header><p>the second verdict"))
    assert "the second verdict" in client.get(address).text


def test_a_run_that_goes_while_it_is_listed_or_read_is_a_clear_page(runs: Folder, monkeypatch) -> None:
    run = runs.run("gone-1")
    found = LocalFolder(runs.path).directory("gone-1")
    served = LocalFolder(runs.path).file("gone-1/report.html")
    shutil.rmtree(run.path)
    monkeypatch.setattr(LocalFolder, "scan", lambda _: [found])
    assert "gone-1" not in runs.text("/")
    with pytest.raises(PageError, match="No such file"):
        runs.site.report(served)
    for address in ("report.html", "live.json", "bundle", "gx/site/index.html"):
        assert "may have been deleted" in runs.text(f"/runs/gone-1/{address}", status=404)


EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&\u202e"


def test_html_in_names_is_text(runs: Folder) -> None:
    name = "x<img src=x onerror=alert(1)>"
    run = runs.run(name)
    for path in (run.result, run.report):
        path.unlink()
    event = {"at_us": 1, "kind": "fault", "fault": EVIL, "phase": EVIL, "words": EVIL}
    run.events.write_text(json.dumps(event) + "\n")
    runs.store.add(entry(1, scenario=EVIL, title=EVIL, sentence=EVIL, seen=EVIL, kafka=EVIL, client=EVIL, variant=EVIL))
    address = "/runs/x%3Cimg%20src=x%20onerror=alert(1)%3E/report.html"
    for page in ("/", f"/?scenario={EVIL.replace('&', '%26')}", address, f"/runs/{EVIL}", "/runs/trends.html"):
        found = runs.get(page).text
        assert "<img" not in found and "<script>alert" not in found and "\u202e" not in found, page


def test_every_page_has_a_strict_policy_and_is_not_kept(runs: Folder) -> None:
    for page in (
        "/",
        REPORT,
        "/campaigns.html",
        "/runs/none/report.html",
        "/?page=x",
        "/runs/leader-dies-1/result.json",
    ):
        headers = runs.get(page).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'self'" in policy
        assert "'unsafe-inline'" not in policy.partition("script-src")[2].partition(";")[0]
        assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")


def test_the_policy_allows_exactly_the_scripts_that_the_reports_have(runs: Folder) -> None:
    page = runs.text(REPORT)
    digests = re.findall(r"script-src 'sha256-([^']+)'", page)
    assert digests and set(digests) <= set(script_digests())
    assert all(d in runs.get(REPORT).headers["content-security-policy"] for d in digests)


def test_only_reading_is_possible(runs: Folder) -> None:
    for page in ("/", REPORT, "/runs/leader-dies-1/bundle"):
        assert runs.client().post(page).status_code == 405
        assert runs.client().delete(page).status_code == 405


def test_a_crash_is_a_page_without_a_traceback(runs: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.pages.site.list_campaigns", lambda *_: 1 / 0)
    page = words(runs.text("/campaigns.html", status=500))
    assert "ZeroDivisionError" in page and "Nothing in the runs has changed" in page and "Traceback" not in page


def test_trends_lead_to_reports_and_are_those_of_the_history(runs: Folder) -> None:
    runs.record(_run(runs))
    runs.store.add(entry(5, began_us=DAY))
    page = runs.text("/runs/trends.html")
    assert (
        'href="leader-dies-1/report.html"' in page and 'href="../campaigns.html"' in page and "2 trends" in words(page)
    )


def test_a_bar_is_inserted_once_and_a_page_without_a_place_stays() -> None:
    assert insert("<body><header>x</header>y</header>", "B") == "<body><header>x</header>By</header>"
    assert insert('<body class="a">x', "B") == '<body class="a">Bx'
    assert insert("text", "B") == "text"


def test_the_bar_has_no_class_of_the_pages_that_it_is_put_into():
    bar = (ROOT / "chaos" / "pages" / "page" / "bar.html.j2").read_text()
    own = set(re.findall(r"^\.([a-z]+)", bar, re.M))
    pages = "".join(path.read_text() for path in (ROOT / "chaos" / "report" / "page").glob("*.html.j2"))
    used = {name for names in re.findall(r'class="([^"{]+)', pages) for name in names.split()}
    assert own and own.isdisjoint(used)
