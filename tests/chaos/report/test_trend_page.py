"""The trend page: its content, escaping, and behaviour in a real browser."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from chaos.history.entries import Entry
from chaos.history.trends import trends
from chaos.report.trend import page
from chaos.run.result import Metric
from chaos.run.trend import Trends
from tests.chaos.report.test_report_page import EVIL, Page
from tests.support.browser import Browser, assert_opens_and_fits

DAY = 86_400_000_000
NIGHTS = 24


def nights(
    name: str, slow_from: int = NIGHTS, verdict: str = "pass", variant: str = "", n: int = NIGHTS
) -> list[Entry]:
    """Return runs of a scenario that are twice as slow from one run on; the last one has this verdict."""
    draw, found = random.Random(name), []
    for i in range(n):
        slow = 2.2 if i >= slow_from else 1.0
        times = [
            Metric(
                metric="produce_unavailability",
                scope="orders",
                fault="kill",
                stat="max",
                value_us=round(3e6 * slow * draw.lognormvariate(0, 0.05)),
            ),
            Metric(
                metric="ack_latency",
                scope="orders",
                fault="",
                stat="p99",
                value_us=round(6e4 * draw.lognormvariate(0, 0.05)),
            ),
        ]
        found.append(
            Entry(
                key=f"{name}{i}",
                digest="",
                run_id=f"{name}-{i}",
                scenario=name,
                variant=variant,
                setup="s",
                title="The leader dies",
                verdict=verdict if i == n - 1 else "inconclusive" if i == 3 else "pass",
                sentence="S",
                seen="none",
                seed=1,
                kafka="4.3.1",
                client="2.16.1",
                began_us=1_795_000_000_000_000 + i * DAY,
                ended_us=0,
                run_dir=f"/gone/{name}-{i}",
                command="",
                times=tuple(times),
            )
        )
    return found


def built(*runs: list[Entry]) -> Trends:
    entries = [entry for one in runs for entry in one]
    return Trends(database="sqlite:///h", made_us=entries[-1].began_us, trends=trends(entries, 30))


WORSE = built(nights("leader-kill", slow_from=21), nights("lossy", verdict="fail", variant="acks-all"), nights("well"))


@pytest.mark.parametrize(
    ("found", "says", "verdict"),
    [
        (WORSE, "2 REGRESSIONS", "fail"),
        (built(nights("leader-kill", slow_from=21)), "1 REGRESSION", "fail"),
        (built(nights("well")), "NO REGRESSION", "pass"),
        (built(nights("well"), nights("new", n=3)), "NO REGRESSION", "inconclusive"),
        (built(nights("new", n=5)), "TOO FEW RUNS", "inconclusive"),
        (built(nights("lossy", n=3, verdict="fail")), "TOO FEW RUNS", "inconclusive"),
    ],
)
def test_the_headline_claims_only_what_is_proven(found: Trends, says: str, verdict: str, tmp_path: Path) -> None:
    text = page(found, tmp_path / "trends.html")
    shown = Page(text)
    assert shown.open == [] and len(shown.ids) == len(set(shown.ids))
    assert says in shown.text and f'class="verdict {verdict}"' in text


def test_each_regression_links_to_its_trend(tmp_path: Path) -> None:
    shown = Page(page(WORSE, tmp_path / "trends.html"))
    links = [a["href"] for tag, a in shown.tags if tag == "a" and (a.get("href") or "").startswith("#t-")]
    assert len(links) == 2 and {str(link).lstrip("#") for link in links} <= set(shown.ids)
    assert re.search(r"2\.\d times the median of the last 10, 3 runs in a row", shown.text)
    assert "fail after 10 passes, so fewer than 26% failed before" in shown.text


def test_only_existing_reports_are_linked(tmp_path: Path) -> None:
    runs = nights("well", n=8)
    there = tmp_path / "runs" / "a b#1"
    there.mkdir(parents=True)
    (there / "report.html").touch()
    runs[-1] = Entry(**{**vars(runs[-1]), "run_dir": str(there)})
    shown = Page(page(built(runs), tmp_path / "trends.html"))
    links = {a["href"] for tag, a in shown.tags if tag == "a" and "report" in (a.get("href") or "")}
    assert links == {"runs/a%20b%231/report.html"}


def test_foreign_text_is_text(tmp_path: Path) -> None:
    evil = [Entry(**{**vars(e), "scenario": EVIL, "title": EVIL, "sentence": EVIL, "seen": EVIL}) for e in nights("x")]
    text = page(built(evil), tmp_path / "trends.html")
    assert "<img" not in text and "\x1b" not in text and "&lt;img" in text


@pytest.mark.browser
def test_in_a_browser_it_fits_filters_by_keyboard_and_has_no_errors(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "trends.html"
    path.write_text(page(WORSE, path), encoding="utf-8")
    assert_opens_and_fits(browser, path)
    seen = "[...document.querySelectorAll('.trend')].filter(t => t.offsetHeight).length"
    assert browser.run(seen) == 3
    browser.run("document.querySelector('[data-show=regression]').focus()")
    browser.call("Input.dispatchKeyEvent", {"type": "keyDown", "key": "Enter", "text": "\r"})
    assert (browser.run(seen), browser.run("document.getElementById('how-many').textContent")) == (2, "2 trends")
    assert browser.run("document.querySelector('[data-show=regression]').getAttribute('aria-pressed')") == "true"
    browser.run("location.hash = '#t-2'; new Promise(done => setTimeout(done, 50))")
    assert browser.run(seen) == 3  # a link into what is filtered away shows it
    height = "document.querySelector('.trendline').getBoundingClientRect().height"
    assert browser.run(height) > 20
    browser.look("light", "print")
    assert browser.run("getComputedStyle(document.querySelector('.buttons')).display") == "none"
    folded = "[...document.querySelectorAll('details:not([open])')].length"
    assert browser.run(f"{{const n = {folded}; dispatchEvent(new Event('beforeprint')); n > 0 && n === {folded}}}")
    assert browser.complaints == []
    assert {request.partition("#")[0] for request in browser.requests} == {path.as_uri()}
