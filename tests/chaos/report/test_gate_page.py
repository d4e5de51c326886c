"""The pages of a gate: their content, escaping and size, and the matrix in a browser."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from chaos.campaign.folder import Folder, PlanFile
from chaos.errors import AftershockError
from chaos.report.gate import junit, markdown, page
from chaos.report.pages import MOST_CHARACTERS
from chaos.run.campaign import Cell, GateResult, Key, LeftOut, Machine, Mark, TimeComparison, TrialRun
from chaos.run.result import Verdict
from tests.chaos.report.test_report_page import EVIL, Page
from tests.support.browser import Browser, assert_opens_and_fits


def comparison(cell: int, mark: Mark, label: str = "ack_latency") -> TimeComparison:
    return TimeComparison(
        cell=cell,
        reference="Kafka 3.9.2",
        metric=label,
        scope="orders",
        fault="",
        stat="p99",
        margin=1.25,
        now=8,
        then=8,
        median_us=2e6,
        was_us=1e6,
        slower_p=0.0001,
        within_p=1.0,
        mark=mark,
        words="2.00 times Kafka 3.9.2",
    )


def cell(number: int, verdict: Verdict, scenario: str = "leader-kill", kafka: str = "4.3.1", words: str = "S") -> Cell:
    run = TrialRun(
        n=1, seed=1, verdict=verdict, sentence=words, anomalies={"lost_write": 3}, report="cell 1#/report.html"
    )
    failing = verdict == "fail"
    run = run.model_copy(update={"bundle": f"bundles/{number}.tar.gz"}) if failing else run
    key = Key(scenario=scenario, kafka=kafka, client="2.16.1", settings="default")
    return Cell(
        number=number,
        key=key,
        setup="s",
        verdict=verdict,
        sentence=words,
        runs=[run],
        failed=int(failing),
        conclusive=int(verdict != "inconclusive"),
        low=0,
        high=0.95,
        reference=kafka == "3.9.2",
    )


def gate(*cells: Cell, comparisons: tuple[TimeComparison, ...] = (), words: str = "S") -> GateResult:
    worst = next(v for v in ("fail", "inconclusive", "pass") if any(c.verdict == v for c in cells))
    return GateResult(
        gate="upgrade",
        title=words,
        verdict=worst,  # type: ignore[arg-type]
        sentence=words,
        command="python -m chaos gate upgrade",
        machine=Machine(platform="Linux", cpus=2),
        made_us=1_795_000_000_000_000,
        seed=7,
        repeat=8,
        margin=1.25,
        confidence=0.95,
        compared_with="Kafka 3.9.2",
        cells=list(cells),
        comparisons=list(comparisons),
        notes=[words],
    )


MIXED = gate(
    cell(1, "pass", kafka="3.9.2"),
    cell(2, "fail"),
    cell(3, "inconclusive", scenario="rolling-restart"),
    comparisons=(comparison(2, "slower"), comparison(2, "within", "commit_latency")),
)


def test_the_matrix_names_every_cell_and_every_missing_one() -> None:
    shown = Page(page(MIXED))
    assert shown.open == [] and len(shown.ids) == len(set(shown.ids))
    links = [a["href"] for tag, a in shown.tags if tag == "a" and (a.get("href") or "").startswith("#cell-")]
    assert links == ["#cell-1", "#cell-2", "#cell-3"] and {link[1:] for link in links if link} <= set(shown.ids)
    assert "not in the gate" in shown.text, "rolling-restart has no cell with 3.9.2"
    assert "FAIL" in shown.text and "1 of 1: 0.0 to 95.0 %" in shown.text and "0 of 1: less than 95.0 %" in shown.text
    assert {a["href"] for tag, a in shown.tags if tag == "a" and "report" in (a.get("href") or "")} == {
        "cell%201%23/report.html"
    }


def test_a_cell_that_was_left_out_has_its_reason_in_the_matrix() -> None:
    key = Key(scenario="rolling-restart", kafka="4.3.1", client="spark:4.2.0", settings="default")
    out = LeftOut(key=key, reason="it only <reads>")
    text = page(MIXED.model_copy(update={"left_out": [out]}))
    assert "left out" in text and "it only &lt;reads&gt;" in text and "client spark:4.2.0" in text


def test_junit_has_a_case_for_each_cell_and_inconclusive_is_an_error() -> None:
    suite = ET.fromstring(junit(MIXED))[0]
    assert {name: suite.get(name) for name in ("tests", "failures", "errors")} == {
        "tests": "4",
        "failures": "2",
        "errors": "1",
    }
    assert [case.get("name") for case in suite.iter("testcase")][1:] == [c.key.name for c in MIXED.cells]


def test_the_summary_names_failures_first_then_inconclusive_cells() -> None:
    text = markdown(MIXED)
    assert text.startswith("## ❌ fail: S")
    rows = [line for line in text.splitlines() if line.startswith(("| ❌", "| ❔", "| ✅"))]
    assert [row.split("|")[1].strip() for row in rows] == ["❌ fail", "❔ inconclusive", "✅ pass"]
    assert "2 times: 1 are shown to be within their margin, 1 are not" in text
    assert (
        "| slower | ack latency p99 of orders | leader-kill, Kafka 4.3.1, client 2.16.1 | 2 s | 1 s | 2.00 | 1.25 |"
        in text
    )


def test_the_summary_of_a_large_gate_fits_a_pull_request() -> None:
    many = [cell(n, "fail", scenario=f"s{n}", words="x" * 2000) for n in range(1, 400)]
    text = markdown(gate(*many, comparisons=tuple(comparison(n, "slower") for n in range(1, 400)), words="y" * 3000))
    assert len(text) <= MOST_CHARACTERS
    assert "more cells: see report.html" in text


def test_foreign_text_is_text_everywhere() -> None:
    evil = gate(cell(1, "fail", scenario=EVIL, words=EVIL), words=EVIL)
    text = page(evil)
    assert "<img" not in text and "\x1b" not in text and "&lt;img" in text
    plain = markdown(
        gate(cell(1, "fail", scenario="a|b", words="<img src=x> @team `x` | **b** [l](u)"), words="# \n\n<b>")
    )
    assert "<img" not in plain and "<b>" not in plain and "@team" not in plain and "a\\|b" in plain
    assert "**b**" not in plain and "[l](u)" not in plain and "\n\n<" not in plain
    assert ET.fromstring(junit(evil))[0].get("failures") == "2"


def test_its_files_are_written_into_its_folder_and_a_full_disk_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(tmp_path, PlanFile(kind="gate", asked={}, parts=[]))
    folder.write(MIXED)
    assert {path.name for path in tmp_path.iterdir()} == {"campaign.json", "report.html", "summary.md", "junit.xml"}

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("chaos.report.campaign.write_atomically", full)
    with pytest.raises(AftershockError, match="but its pages could not be written: No space left on device"):
        folder.write(MIXED)


@pytest.mark.browser
def test_in_a_browser_it_fits_filters_by_keyboard_and_has_no_errors(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page(MIXED), encoding="utf-8")
    assert_opens_and_fits(browser, path)
    seen = "[...document.querySelectorAll('article')].filter(t => t.offsetHeight).length"
    assert browser.run(seen) == 3
    browser.run("document.querySelector('[data-show=fail]').focus()")
    browser.call("Input.dispatchKeyEvent", {"type": "keyDown", "key": "Enter", "text": "\r"})
    assert (browser.run(seen), browser.run("document.getElementById('how-many').textContent")) == (1, "1 cell")
    browser.run("location.hash = '#cell-3'; new Promise(done => setTimeout(done, 50))")
    assert browser.run(seen) == 3  # a link into what is filtered away shows it
    browser.look("light", "print")
    assert browser.run("getComputedStyle(document.querySelector('.buttons')).display") == "none"
    assert browser.complaints == []
    assert {request.partition("#")[0] for request in browser.requests} == {path.as_uri()}
