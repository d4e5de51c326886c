"""The pages in a real browser: no error, no violation that axe-core knows, readable from 400 px to print."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvicorn

from chaos.pages.app import create_app
from chaos.pages.export import export
from chaos.processes.ports import free_ports
from chaos.run.directory import Run
from chaos.run.events import EventLog
from chaos.wait import wait_until
from tests.chaos.pages.conftest import Folder, entry
from tests.support.axe import broken_numbers, violations
from tests.support.browser import Browser

pytestmark = pytest.mark.browser


@dataclass
class Served:
    """A folder of runs behind a real server."""

    folder: Folder
    address: str


@pytest.fixture(scope="module")
def served(judged: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("served") / "runs"
    shutil.copytree(judged, path)
    folder = Folder(path)
    folder.record(Run(path / "leader-dies-1"))
    for number in range(120):
        folder.store.add(entry(number, seen="duplicate_delivery legal 2,022, lost_write 12"))
    cut = folder.run("cut-1")
    cut.result.write_text("{")
    (port,) = free_ports(1)
    server = uvicorn.Server(uvicorn.Config(create_app(folder.site), port=port, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started, 60, "the server did not start")
    yield Served(folder, f"http://127.0.0.1:{port}")
    server.should_exit = True
    thread.join(20)


def driven(folder: Folder, name: str) -> Run:
    """Make a run that is being driven."""
    run = folder.run(name)
    for path in (run.result, run.report, run.events):
        path.unlink(missing_ok=True)
    log = EventLog(run)
    for stage, state in (("deploy", "begin"), ("deploy", "end"), ("drive", "begin"), ("load", "begin")):
        log.emit("stage", stage=stage, state=state, **({"seconds": 4.5} if state == "end" else {}))
    progress(log, 1_000)
    return run


def progress(log: EventLog, acked: int) -> None:
    rates = {"acked_per_s": 900, "delivered_per_s": 700}
    log.emit("progress", acked=acked, delivered={"billing": acked - 250}, **rates)


PAGES = [
    "/",
    "/?scenario=leader-kill&verdict=fail",
    "/?scenario=none",
    "/campaigns.html",
    "/runs/trends.html",
    "/runs/leader-dies-1/report.html",
    "/runs/cut-1/report.html",
    "/runs/driven-1/report.html",
    "/runs/none/report.html",
]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_each_page_has_no_violation_no_error_and_fits(page: str, scheme: str, browser: Browser, served: Served) -> None:
    if "driven" in page and not (served.folder.path / "driven-1").exists():
        driven(served.folder, "driven-1")
    browser.look(scheme)
    for width in (1400, 400):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.call("Emulation.setDeviceMetricsOverride", size)
        browser.complaints.clear()
        browser.open(served.address + page)
        assert browser.run("document.documentElement.scrollWidth") <= width
        expected = ["status of 404"] if "none/" in page else []
        assert [c for c in browser.complaints if not any(e in c for e in expected)] == []
        assert violations(browser) == []


def test_a_number_never_breaks_over_two_lines(browser: Browser, served: Served) -> None:
    size = {"width": 400, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.call("Emulation.setDeviceMetricsOverride", size)
    for page in PAGES[:1] + PAGES[5:7]:
        browser.open(served.address + page)
        assert broken_numbers(browser) == [], page


def test_a_run_is_followed_until_its_report_is_there(browser: Browser, served: Served) -> None:
    run = driven(served.folder, "followed-1")
    browser.open(f"{served.address}/runs/followed-1/report.html")

    def shown(text: str) -> None:
        deadline = time.monotonic() + 30
        while text not in (seen := browser.run("document.body?.innerText ?? ''")):
            assert time.monotonic() < deadline, seen
            time.sleep(0.1)

    shown("1,000")
    log = EventLog(run)
    progress(log, 2_345)
    log.emit("fault", fault="kill <b>", phase="injected", words="killed broker 1")
    shown("2,345")
    shown("kill <b>")
    log.emit("fault", fault="kill <b>", phase="proven", words="orders/0 moved")
    shown("orders/0 moved")
    assert browser.run("document.querySelectorAll('#rates path')[0].getAttribute('d').length") > 10
    assert browser.run("document.getElementById('top').innerText") == "900/s"
    for _ in range(20):
        progress(log, 2_400)
    log.emit("progress", acked=2_500, delivered={"billing": 2_500}, acked_per_s=90_000, delivered_per_s=700)
    shown("1,800/s; cut off there: up to 90,000/s")
    heights = browser.run("document.querySelector('#rates .acked').getAttribute('d').match(/ [0-9.]+/g).map(Number)")
    assert heights[-1] == 3 and set(heights[:-1]) == {50}  # the burst at the top, the rest half-way
    log.emit("stage", stage="load", state="end", seconds=3.0)
    log.emit("stage", stage="audit", state="begin")
    shown("auditing every record")
    judged = served.folder.path / "leader-dies-1"
    shutil.copy(judged / "result.json", run.result)
    shutil.copy(judged / "report.html", run.report)
    shown("Expectations")


def test_the_page_of_a_run_that_is_removed_says_so_and_keeps_what_it_shows(browser: Browser, served: Served) -> None:
    run = driven(served.folder, "removed-1")
    browser.open(f"{served.address}/runs/removed-1/report.html")
    shutil.rmtree(run.path)
    deadline = time.monotonic() + 30
    while "was removed" not in (seen := browser.run("document.body.innerText")):
        assert time.monotonic() < deadline, seen
        time.sleep(0.1)
    assert "! removed" in seen and "producing, consuming, breaking" in seen and "1,000" in seen


def test_the_filter_and_the_pages_work_with_the_keyboard(browser: Browser, served: Served) -> None:
    browser.open(served.address + "/")
    browser.key("Tab")
    assert browser.run("document.activeElement.className") == "skip"
    browser.run("document.querySelector('[name=verdict]').value = 'fail'; document.querySelector('.filter').submit()")
    wait_until(lambda: browser.run("location.search").find("verdict=fail") > 0, 30, "the filter was not applied")
    wait_until(lambda: browser.run("document.readyState") == "complete", 30, "")
    chips = browser.run(
        "[...document.querySelectorAll('[aria-labelledby=recorded-title] .chip')].map(e => e.innerText)"
    )
    assert chips and all("fail" in chip for chip in chips)


def test_an_export_opens_from_disk(browser: Browser, served: Served, tmp_path: Path) -> None:
    export(served.folder.site.folder, None, tmp_path / "site")
    browser.complaints.clear()
    for page in ("index.html", "campaigns.html", "runs/trends.html", "runs/leader-dies-1/report.html"):
        browser.open(tmp_path / "site" / page)
        assert browser.complaints == [] and violations(browser) == []
    browser.open(tmp_path / "site" / "index.html")
    browser.run("document.querySelector('a[href$=\"leader-dies-1/report.html\"]')?.click()")
    assert json.loads(browser.run("JSON.stringify(location.protocol)")) == "file:"
