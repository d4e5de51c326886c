"""The report in a real browser: no errors, a visible verdict, a timeline that reacts to mouse and keyboard."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.campaign.score import tally, this_machine
from chaos.report import campaign, gate
from chaos.report.html import write_report
from chaos.run.campaign import Mechanism, TrialRun
from chaos.run.exploration import Covered, ExploreResult, Filed, Window
from tests.chaos.campaign.prove.test_judge import anomaly, judge_of, run
from tests.chaos.campaign.test_corpus import scored
from tests.chaos.report import synthetic, test_gate_page
from tests.chaos.report.test_report_page import hostile
from tests.support.axe import broken_numbers, violations
from tests.support.browser import Browser

pytestmark = pytest.mark.browser


@pytest.fixture(autouse=True)
def no_complaints(browser: Browser) -> Iterator[None]:
    browser.complaints.clear()
    browser.requests.clear()
    yield
    assert browser.complaints == []
    assert len(browser.requests) == 1 and browser.requests[0].startswith("file:")


def looked_at(browser: Browser, page: Path) -> Iterator[int]:
    """Open a page in each width and each scheme, assert that axe finds nothing, and yield the width.

    Widths change the layout, and schemes the colours, so not every pair is needed.
    """
    for width, scheme in ((400, "dark"), (1400, "light")):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.call("Emulation.setDeviceMetricsOverride", size)
        browser.look(scheme)
        browser.requests.clear()
        browser.open(page)
        assert violations(browser) == []
        yield width


@pytest.mark.parametrize("build", synthetic.RUNS, ids=lambda build: build.__name__)
def test_no_number_breaks_over_two_lines_and_axe_finds_nothing(build: Any, browser: Browser, tmp_path: Path) -> None:
    for _ in looked_at(browser, write_report(*build(tmp_path))):
        assert broken_numbers(browser) == []


def page_of_a_proof(folder: Path) -> Path:
    judge = judge_of(folder, "acks-1")
    lost = run("leader-isolated", "held", anomaly(state="allowed"), report="leader-isolated-first-1/report.html")
    page = folder / "report.html"
    page.write_text(
        campaign.proof_page(judge.result([run("none"), lost, run("leader-crash", "broken", anomaly())], 600))
    )
    return page


def page_of_the_corpus(folder: Path) -> Path:
    campaign.write(scored(["pass"] * 10, ["pass"] * 10), folder)
    return folder / "report.html"


def page_of_a_gate(folder: Path) -> Path:
    cells = [test_gate_page.cell(n, v) for n, v in enumerate(("pass", "fail", "inconclusive"), 1)]
    comparisons = (test_gate_page.comparison(1, "slower"), test_gate_page.comparison(2, "within", "commit_latency"))
    page = folder / "report.html"
    page.write_text(gate.page(test_gate_page.gate(*cells, comparisons=comparisons)))
    return page


def exploration(**values: Any) -> ExploreResult:
    mechanism = Mechanism(
        name="effect_missing invoices", cause="offsets first", sentence="An order has no invoice", prevents="care"
    )
    runs = [
        TrialRun(
            verdict="fail",
            sentence="It lost 2.",
            anomalies={},
            part="p",
            run_id="r",
            seed=1,
            report="r.html",
            bundle="b.tar.gz",
        )
    ]
    filed = Filed(
        mechanism=mechanism,
        count=1,
        where=["p"],
        run="r",
        bundle="b.tar.gz",
        faults=["app.kill of app billing"],
        size="1 of 2 faults are needed",
        scenario="r.yaml",
    )
    return ExploreResult(
        title="Crashes",
        verdict="fail",
        sentence="1 of 2",
        command="explore x",
        machine=this_machine(),
        made_us=1,
        seed=1,
        repeat=1,
        parts=[tally("p", runs)],
        filed=[filed],
        **values,
    )


def page_of_windows(folder: Path) -> Path:
    states = {"kill": "lost", "stop": "not reached", "broker": "undecided"}
    window = Window(
        app="billing",
        moment="OffsetCommit request",
        after="Produce response",
        states=states,
        runs=dict.fromkeys(states, "r"),
    )
    campaign.write(exploration(windows=[window]), folder)
    return folder / "report.html"


def page_of_mixtures(folder: Path) -> Path:
    cells = [
        Covered(kind=kind, role="leader_of", phase="load", runs=2, undecided=1, broke=1)
        for kind in ("broker.kill", "wire.cut")
    ]
    campaign.write(exploration(covered=cells, open=1000), folder)
    return folder / "report.html"


@pytest.mark.parametrize(
    "build", [page_of_a_gate, page_of_a_proof, page_of_the_corpus, page_of_windows, page_of_mixtures]
)
def test_other_pages_fit_and_axe_finds_nothing(build: Any, browser: Browser, tmp_path: Path) -> None:
    for width in looked_at(browser, build(tmp_path)):
        assert browser.run("document.documentElement.scrollWidth") <= width
        assert broken_numbers(browser) == []
    browser.call("Emulation.clearDeviceMetricsOverride")


@pytest.mark.parametrize("build", [*synthetic.RUNS, hostile], ids=lambda build: build.__name__)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_verdict_is_visible_and_nothing_is_wider_than_the_page(
    build: Any, scheme: str, browser: Browser, tmp_path: Path
) -> None:
    browser.look(scheme)
    browser.open(write_report(*build(tmp_path)))
    top, height, shown = browser.run(
        "(() => { const e = document.querySelector('#verdict h1'), r = e.getBoundingClientRect();"
        "return [r.top, r.height, getComputedStyle(e).visibility]; })()"
    )
    assert 0 <= top < 200 and height > 30 and shown == "visible"
    for width in (1400, 800, 420):
        browser.call(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
        )
        assert browser.run("document.documentElement.scrollWidth") <= width
    browser.call("Emulation.clearDeviceMetricsOverride")


def opened(browser: Browser, directory: Path) -> None:
    browser.open(write_report(*synthetic.failed_run(directory)))
    browser.run("document.getElementById('story').scrollIntoView()")


def axis(browser: Browser) -> tuple[float, float]:
    """Return the left edge and the width of the plots."""
    box = browser.run(
        "(() => { const r = document.getElementById('axis').getBoundingClientRect(); return [r.left, r.width]; })()"
    )
    return box[0], box[1]


def span(browser: Browser) -> float:
    """Return the visible seconds."""
    return float(browser.run("+document.getElementById('timeline').style.getPropertyValue('--span')"))


def row(browser: Browser, lane: str) -> float:
    """Return the middle of a lane on the screen."""
    return float(
        browser.run(
            f"(() => {{ const named = (l) => l.innerText.trim().startsWith({lane!r});"
            "const r = [...document.querySelectorAll('.lane')].find(named).getBoundingClientRect();"
            "return r.top + r.height / 2; })()"
        )
    )


def test_the_timeline_is_drawn_and_all_lanes_share_their_edges(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path)
    assert browser.run("document.querySelectorAll('.lane.strip .plot > i').length") > 40
    assert browser.run("document.querySelectorAll('.lane.heat svg path').length") >= 12
    assert browser.run("document.querySelectorAll('.plot a.dot').length") >= 4
    edges = browser.run(
        "[...document.querySelectorAll('.plot')].map(p => p.getBoundingClientRect()).filter(r => r.width)"
        ".map(r => r.left + '-' + r.right)"
    )
    assert len(edges) > 20 and len(set(edges)) == 1


def test_the_crosshair_reads_every_lane_at_one_time(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path)
    left, width = axis(browser)
    browser.mouse("mouseMoved", left + width * 0.255, row(browser, "orders/0"))
    deadline = time.monotonic() + 5
    while "no leader" not in (text := browser.run("document.getElementById('timeline').innerText")):
        assert time.monotonic() < deadline, text
    assert "injected, not yet proven" in text and "billing/1 · gen 1" in text
    assert "+15." in text and "2026-02-03 14:03:2" in text


def test_drag_zooms_all_lanes_and_the_button_shows_the_whole_run(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path)
    left, width = axis(browser)
    whole, y = span(browser), row(browser, "orders/1")
    browser.mouse("mousePressed", left + width * 0.2, y, buttons=1)
    for share in (0.25, 0.3):
        browser.mouse("mouseMoved", left + width * share, y, buttons=1)
    browser.mouse("mouseReleased", left + width * 0.3, y)
    assert span(browser) == pytest.approx(whole * 0.1, rel=0.05)
    browser.run("document.querySelector('[data-do=reset]').click()")
    assert span(browser) == whole
    browser.run("document.querySelector('[data-from]').click()")
    assert span(browser) == pytest.approx(13.5, abs=0.1)


def test_the_keyboard_moves_the_crosshair_and_zooms(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path)
    whole = span(browser)
    browser.run("document.getElementById('timeline').focus()")
    for name in ("ArrowRight", "+", "+"):
        browser.key(name)
    assert span(browser) == pytest.approx(whole / 4)
    assert browser.run("document.getElementById('live').textContent").startswith("+")


def test_a_dot_links_to_its_row_even_if_that_is_folded(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path)
    browser.run("document.querySelector('.plot a.dot.broke').click()")
    assert browser.run("location.hash").startswith("#row-")
    browser.run("location.hash = '#row-30'; new Promise(done => setTimeout(done, 100))")
    assert browser.run("document.getElementById('row-30').getBoundingClientRect().height") > 0


def test_print_unfolds_all_but_the_rows_of_an_anomaly(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path)
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run("[...document.querySelectorAll('details:not([open])')].every(e => e.matches('.rest'))")
    assert browser.run("!!document.querySelector('.rest:not([open])') && !!document.querySelector('.box[open]')")
    browser.look("light", "print")
    row = "document.querySelector('.rest tr').checkVisibility({contentVisibilityAuto: true})"
    assert browser.run(row) is False
    browser.look("light")


def test_the_timeline_needs_no_scripts(browser: Browser, tmp_path: Path) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        path = write_report(*synthetic.failed_run(tmp_path))
        browser.call("Page.navigate", {"url": path.as_uri()})
        time.sleep(1.5)
        tree = browser.call("DOM.getDocument", {"depth": 1})["root"]["nodeId"]
        marks = browser.call("DOM.querySelectorAll", {"nodeId": tree, "selector": "#axis .mark-at"})["nodeIds"]
        assert len(marks) > 3
        box = browser.call("DOM.getBoxModel", {"nodeId": marks[-1]})["model"]
        assert box["width"] > 10
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", {"value": False})
