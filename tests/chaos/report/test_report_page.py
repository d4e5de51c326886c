"""The report as a file: sections, escaping, missing tables, size, no external resources."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from chaos.report.charts import Axis
from chaos.report.html import render, write_report
from chaos.report.tables import read_tables
from chaos.report.timeline import _fault_lane, app_lanes, draw
from chaos.run.directory import Run
from chaos.run.result import Expectation, FaultOutcome, Finding, Metric, ReaderCount, Result
from chaos.scenario.resolve import Resolved
from tests.chaos.report import synthetic
from tests.chaos.report.crowd import crowded_run
from tests.chaos.report.story import BEGAN, at

SECTIONS = ["verdict", "story", "expectations", "faults", "anomalies", "settings", "again", "measured"]
EVIL = "<img src=x onerror=alert(1)></script><!--\x00\x1b[31m\u202e\ud800'\"&"


class Page(HTMLParser):
    """Tags, ids and text of a page, and whether every tag was closed in order."""

    VOID = frozenset({"meta", "link", "br", "img", "input", "hr", "path", "circle", "use", "rect", "polygon"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("script", "style"):
            self.text += data


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Run, Result, Resolved]]:
    directory = tmp_path_factory.mktemp("runs")
    return {build.__name__: build(directory) for build in synthetic.RUNS}


@pytest.mark.parametrize("name", [build.__name__ for build in synthetic.RUNS])
def test_sections_are_in_order_and_ids_are_unique(name: str, runs: dict[str, Any]) -> None:
    page = Page(render(*runs[name]))
    assert [i for i in page.ids if i in SECTIONS] == SECTIONS
    assert len(page.ids) == len(set(page.ids))
    assert page.open == []


@pytest.mark.parametrize("name", [build.__name__ for build in synthetic.RUNS])
def test_every_link_on_the_page_has_a_target(name: str, runs: dict[str, Any]) -> None:
    page = Page(render(*runs[name]))
    hrefs = {a["href"] for tag, a in page.tags if tag in ("a", "use")}
    assert hrefs and all(href and href[0] == "#" and href[1:] in page.ids for href in hrefs)


@pytest.mark.parametrize("name", [build.__name__ for build in synthetic.RUNS])
def test_the_page_loads_no_external_resources(name: str, runs: dict[str, Any]) -> None:
    text = render(*runs[name])
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\(", text)
    (policy,) = (a["content"] for tag, a in Page(text).tags if tag == "meta" and a.get("http-equiv"))
    assert policy and policy.startswith("default-src 'none'")


def test_verdict_sentence_and_numbers_come_first(runs: dict[str, Any]) -> None:
    text = Page(render(*runs["failed_run"])).text
    phrases = ["FAIL", "37 acknowledged records of orders were lost", "99,996"]
    places = [text.index(phrase) for phrase in (*phrases, "Timeline of the run", "breaks the contract")]
    assert places == sorted(places)


def test_findings_are_below_their_mechanism_with_the_setting_that_prevents_them(runs: dict[str, Any]) -> None:
    text = re.sub(r"\s+", " ", Page(render(*runs["failed_run"])).text)
    group = text[text.index("37 acked by broker 2") :]
    for words in (
        "37 lost_write in orders",
        "orders-0 @4,211",
        "shop/1 #1 seq 11,902",
        "leader epoch 3",
        "32 more rows",
    ):
        assert words in group
    assert "acks=all with min.insync.replicas=2 or more" in group and "acks=1 (producer shop)" in group
    assert (
        "412 duplicate_delivery (legal) in billing, by the evidence of 200" in group and "within the contract" in group
    )


def test_an_aborted_run_names_missing_tables_and_the_remedy(runs: dict[str, Any]) -> None:
    text = Page(render(*runs["cut_short_run"])).text
    for words in (
        "INCONCLUSIVE",
        "limits.proof",
        "Not written: audit/series, audit/latency",
        "limits.drive",
        "no proof",
    ):
        assert words in text


@pytest.mark.slow
@pytest.mark.parametrize("gone", ["series", "latency", "ownership", "anomalies", "cluster", "faults", "lifecycle"])
def test_any_table_may_be_missing_or_damaged(gone: str, tmp_path: Path) -> None:
    run, result, resolved = synthetic.failed_run(tmp_path)
    path = run.audit / gone if (run.audit / gone).exists() else run.ledger / f"{gone}.parquet"
    broken = path / "part-00000.parquet" if path.is_dir() else path
    broken.write_bytes(b"PAR1 but not really")
    assert f"/{gone}" in Page(render(run, result, resolved)).text
    broken.unlink()
    text = Page(render(run, result, resolved)).text
    assert "FAIL" in text and "lost_write" in text


def test_an_empty_run_has_a_page(tmp_path: Path) -> None:
    run, resolved = synthetic.start(tmp_path, "nothing")
    result = synthetic.result(run, resolved, verdict="inconclusive", sentence="No broker started.", stages_s={})
    text = Page(render(run, result, resolved)).text
    assert "There is nothing to draw" in text and "No fault was reached" in text


def test_foreign_text_stays_text(tmp_path: Path) -> None:
    run, result, resolved = hostile(tmp_path)
    text = render(run, result, resolved)
    page = Page(text)
    assert "<img" not in text and not [tag for tag, _ in page.tags if tag == "img"]
    assert sum(tag == "script" for tag, _ in page.tags) == 2
    assert not any(character in text for character in "\x00\x1b\u202e")
    assert "\N{SYMBOL FOR NULL}" in page.text and "\N{SYMBOL FOR ESCAPE}" in page.text
    data = re.search(r'id="timeline-data">(.*?)</script>', text, re.S)
    assert data and EVIL[:20] in json.dumps(json.loads(data[1]))
    path = write_report(run, result, resolved)
    assert path == run.report and path.read_text(encoding="utf-8") == text


def hostile(directory: Path) -> tuple[Run, Result, Resolved]:
    """Return a result in which all foreign text has markup, control characters and a lone surrogate."""
    run, resolved = synthetic.start(directory, "hostile")
    written = EVIL.replace("\ud800", "")  # Arrow refuses a lone surrogate
    who = {
        "group": written,
        "topic": written,
        "partition": 0,
        "consumer": written,
        "incarnation": 2,
        "member_id": written,
    }
    when = {"generation": 1, "begin_us": at(1), "end_us": None, "end_reason": written}
    synthetic.write(run.audit / "ownership", [who | when])
    samples = [
        {"at_us": at(i), "series": s, "scope": written, "value": 9.0} for i in range(3) for s in ("acked", "lag")
    ]
    synthetic.write(run.audit / "series", samples)
    synthetic.ledger(run, "cluster", [{"at_us": at(1), "entity": f"{written}/0", "key": "leader", "value": "1"}])
    fault = {"fault": written, "phase": "proven", "evidence": json.dumps({"words": EVIL}), "at_us": at(2)}
    synthetic.ledger(run, "faults", [fault])
    crashed = {
        "client": written,
        "event": "crashed",
        "incarnation": 1,
        "detail": json.dumps({"e": EVIL}),
        "at_us": at(2),
    }
    synthetic.ledger(run, "lifecycle", [crashed])
    place = {"topic": EVIL, "partition": 0, "producer": EVIL, "consumer": EVIL, "at_us": at(1)}
    finding = Finding(
        check="poll_skip", scope=EVIL, evidence={EVIL: [EVIL], "x": {EVIL: EVIL}}, mechanism=EVIL, **place
    )
    texts = dict.fromkeys(("name", "kind", "trigger", "target", "resolved", "proof", "error"), EVIL)
    result = synthetic.result(
        run,
        resolved,
        verdict="fail",
        sentence=EVIL,
        faults=[FaultOutcome(**texts, injected_us=at(1))],
        findings=[finding],
        expectations=[
            Expectation(name=EVIL, check=EVIL, expected=EVIL, seen=EVIL, why=EVIL, verdict=v)
            for v in ("fail", "inconclusive")
        ],
        metrics=[Metric(metric=EVIL, scope=EVIL, fault=EVIL, stat="p50", value_us=1)],
        problems=[EVIL],
        tolerated=[EVIL],
    ).model_copy(update={"title": EVIL, "run_dir": EVIL, "command": EVIL, "versions": {EVIL: EVIL}})
    result.counts.readers.append(ReaderCount(reader=EVIL, mode=EVIL, delivered=1, distinct=1))
    return run, result, resolved


@pytest.mark.slow
def test_a_huge_run_fits_a_page(tmp_path: Path) -> None:
    run, result, resolved = crowded_run(tmp_path)
    path = write_report(run, result, resolved)
    assert path.stat().st_size < 5_000_000
    text = Page(path.read_text(encoding="utf-8")).text
    assert "804 others are not drawn" in text and "30 more mechanisms" in text


def test_times_are_relative_with_the_wall_clock_as_title(runs: dict[str, Any]) -> None:
    run, result, resolved = runs["failed_run"]
    assert result.began_us == BEGAN
    assert '<time title="2026-02-03 14:03:26.450 UTC">+14.200 s</time>' in render(run, result, resolved)


def test_a_story_from_the_wire_is_a_diagram_with_its_frames_as_text(runs: dict[str, Any]) -> None:
    page = Page(render(*runs["failed_run"]))
    (drawn,) = (a for tag, a in page.tags if tag == "svg" and a.get("class") == "diagram")
    assert drawn["role"] == "img"
    assert (drawn["aria-label"] or "").startswith("Frames between mailer/1, broker 1, coordinator (broker 3): 12.300 s")
    assert sum(a.get("class") == "arrow" for tag, a in page.tags if tag == "path") == 4
    frames = [tag for tag, a in page.tags if a.get("class") == "frames"]
    assert frames == ["ol"] and "12.300 s mailer/1 → broker 1 Fetch" in " ".join(page.text.split()), "on a narrow page"
    assert "Prevents it (confluent-kafka-python 2.6.1, as seen on the wire): commit an offset only" in page.text


def test_applications_are_lanes_with_their_processes_partitions_and_commits(runs: dict[str, Any]) -> None:
    run, result, resolved = runs["failed_run"]
    lanes = {lane.key: lane for lane in draw(read_tables(run), result, resolved, ()).lanes()}
    assert [s.details for s in lanes["app:mailer/1"].segments] == ["process 1 → crashed (kill)", "process 2"]
    assert lanes["app:mailer/1"].note == "confluent-kafka-python 2.6.1 · 1 restart"
    assert lanes["commits:mailer/2"].note == "max 160/s" and "effects:mails" in lanes
    assert [s.text for s in lanes["owner:mailer:orders/0"].segments if s.look != "none"] == ["mailer/1", "mailer/2"]


def test_a_rolling_restart_lasts_until_its_proof_and_an_instance_shows_when_it_was_ready(tmp_path):
    axis = Axis(0, 100_000_000)
    times = {"begun_us": 10_000_000, "injected_us": 14_000_000, "proven_us": 15_000_000, "healed_us": 90_000_000}
    kinds = {"app.restart": (10.0, 15.0), "app.pause": (14.0, 90.0)}
    for kind, ends in kinds.items():
        outcome = FaultOutcome(name="f", kind=kind, trigger="", target="billing", **times)
        lane = _fault_lane(outcome, axis)
        assert (lane.segments[0].begin, lane.segments[-1].end) == ends
    said = [("started", 1, 10), ("ready", 1, 12), ("crashed", 1, 20), ("started", 2, 21)]
    rows = [
        {"app": "a", "instance": 1, "incarnation": n, "event": event, "detail": "{}", "at_us": at * 1_000_000}
        for event, n, at in said
    ]
    tables = replace(read_tables(Run.create(tmp_path, "r1")), apps=rows)
    first, second = app_lanes(tables, axis)[0].segments
    assert "ready after 2" in first.details and (first.end, second.end) == (20.0, 100.0)
