"""JUnit and the terminal, also with hostile names."""

from __future__ import annotations

import io
import json
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from chaos.report.html import render as render_page
from chaos.report.junit import junit
from chaos.report.terminal import render
from chaos.run.result import EffectCount, EffectStory, Expectation, Result
from checks.verdict.decision import collect
from tests.support.fake_runs import SCENARIO, FakeRun

HOSTILE = "a<b>&\"'\x00\x1b[31m\ud800]]>[bold]\n‮é😀"


def result_of(run: FakeRun, *verdicts: str, name: str = "No record is lost") -> Result:
    run.write()
    found = [
        Expectation(
            name=name,
            check="lost_write",
            expected="max ≤ 15 s",
            seen="0 of 9",
            verdict=v,
            why="" if v == "pass" else "no consumer commits" if v == "not applicable" else f"why {name}",
        )
        for v in verdicts
    ]
    return collect(run.run, run.resolved, found)


def cases(text: str) -> dict[str, list[str]]:
    return {c.get("name"): [child.tag for child in c] for c in ET.fromstring(text).iter("testcase")}


def test_junit_has_a_case_for_the_verdict_each_expectation_and_each_fault(fake):
    suite = ET.fromstring(junit(result_of(fake(), "pass", "fail", "inconclusive"))).find("testsuite")
    tags = [[child.tag for child in case] for case in suite.iter("testcase")]
    assert tags == [["failure"], ["system-out"], ["failure"], ["error"], ["system-out"]]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("5", "2", "1")
    assert "why No record is lost" in suite.find(".//error").get("message")


def test_what_is_not_applicable_is_in_no_count(fake):
    run = fake()
    result = result_of(run, "pass", "not applicable", "pass", "not applicable", "not applicable")
    assert result.verdict == "pass"
    suite = ET.fromstring(junit(result)).find("testsuite")
    assert len(suite.findall("testcase")) == int(suite.get("tests")) == 1 + 2 + 1 and suite.get("skipped") is None
    left_out = suite.find("properties/property[@name='not applicable']").get("value")
    assert left_out == "; ".join(["No record is lost (no consumer commits)"] * 3)
    text = shown(result, width=160)
    assert "2 of 2 expectations held, 3 not applicable" in text and text.count("No record is lost") == 2
    page = render_page(run.run, result, run.resolved)
    table, _, rest = page.partition('<details class="box left-out">')
    assert "2 of 2 expectations held, 3 not applicable." in table and "no consumer commits" not in table
    assert rest.split("</details>")[0].count("no consumer commits") == 3
    assert [e["verdict"] for e in json.loads(result.model_dump_json())["expectations"]].count("not applicable") == 3


def test_a_run_to_which_nothing_applies_is_no_pass(fake):
    result = result_of(fake(), "not applicable", "not applicable")
    assert result.verdict == "inconclusive" and "nothing was examined" in result.sentence
    assert cases(junit(result))["The leader dies"] == ["error"]


def test_a_pass_that_the_settings_do_not_promise_says_so_everywhere(fake):
    run = fake(SCENARIO.replace("records: 1000}", "records: 1000, config: {acks: 1, enable.idempotence: false}}"))
    result = result_of(run, "pass")
    says = "No acknowledged record was lost. That held here, but acks=1"
    assert (
        result.verdict == "pass" and result.sentence.startswith(says) and "acks=all with min.insync" in result.sentence
    )
    (first, *_) = ET.fromstring(junit(result)).iter("testcase")
    for text in (shown(result, width=400), first.findtext("system-out"), render_page(run.run, result, run.resolved)):
        assert "does not promise it" in text


def test_a_pass_that_the_settings_promise_has_no_reservation(fake):
    assert "promise" not in result_of(fake(), "pass").sentence


def test_junit_is_red_when_the_run_is_inconclusive_without_any_expectation(fake):
    run = fake()
    run.ledger["faults"] = []
    found = cases(junit(result_of(run)))
    assert found["The leader dies"] == ["error"]
    assert found["kill: broker.kill at leader of orders/0"] == ["error"]


def test_junit_carries_hostile_names(fake):
    text = junit(result_of(fake(), "fail", name=HOSTILE))
    names = [n for n in cases(text) if n.startswith("a<b>")]
    assert names and "\x1b" not in names[0] and "😀" in names[0]
    text.encode("utf-8")


def shown(result: Result, encoding: str = "utf-8", width: int = 100, **kwargs: bool) -> str:
    raw = io.BytesIO()
    console = Console(file=io.TextIOWrapper(raw, encoding=encoding), width=width, **kwargs)
    render(result, console)
    console.file.flush()
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize(
    ("verdict", "sign"), [("pass", "✓ PASS"), ("fail", "✗ FAIL"), ("inconclusive", "? INCONCLUSIVE")]
)
def test_the_terminal_shows_the_verdict_without_colour(fake, verdict, sign):
    text = shown(result_of(fake(), verdict))
    assert text.startswith(sign)
    assert "\x1b" not in text, "piped, so no colours"


def test_no_color_is_respected(fake, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    result = result_of(fake(), "fail")
    assert "\x1b[3" not in shown(result, force_terminal=True)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[1;31m" in shown(result, force_terminal=True)


def test_the_order_is_verdict_sentence_expectations_faults_path(fake):
    result = result_of(fake(), "pass", "fail")
    text = shown(result, width=160)
    places = [
        text.index(s)
        for s in ("FAIL", result.sentence[:20], "expected  ", "orders/0 moved", "run again:", "report.html")
    ]
    assert places == sorted(places)
    rows = [line.split()[1] for line in text.splitlines() if "No record is lost" in line and "max" in line]
    assert rows == ["FAIL", "PASS"], "what is not met comes first"


def test_the_path_is_never_broken(fake):
    result = result_of(fake(), "pass")
    assert f"{result.run_dir}/report.html" in shown(result, width=40)


def test_hostile_names_are_text(fake):
    text = shown(result_of(fake(), "fail", name=HOSTILE), width=200)
    assert "\x1b" not in text and "\x00" not in text and "\u202e" not in text
    assert "[bold]" in text


def test_a_terminal_without_unicode_gets_plain_signs(fake):
    text = shown(result_of(fake(), "fail", name=HOSTILE), encoding="ascii")
    assert "x FAIL" in text and "max <= 15 s" in text


def test_what_compaction_removed_is_counted_without_the_committed_offsets(fake):
    run = fake()
    run.counts += [{"name": "superseded", "scope": "orders", "value": 7_100}]
    run.counts += [{"name": "superseded", "scope": "__consumer_offsets", "value": 500}]
    run.counts += [{"name": "expired_tombstones", "scope": "orders", "value": 9}]
    result = result_of(run, "pass")
    assert (result.counts.superseded, result.counts.expired_tombstones) == (7_100, 9)
    assert "in the log, 7,100 superseded, 9 expired" in shown(result, width=200)


def test_commits_decided_from_the_log_are_counted_with_the_reasons_for_the_others(fake):
    run = fake()
    counts = {"commits_unknown": 7, "commits_by_log_ok": 3, "commits_by_log_fail": 2}
    run.counts += [{"name": name, "scope": "billing", "value": value} for name, value in counts.items()]
    row = {"check": "commits", "scope": "billing", "advice": ""}
    run.undecided = [row | {"why": "of two", "count": 1}, row | {"why": "of two", "scope": "other", "count": 1}]
    result = result_of(run, "pass")
    assert result.counts.commits_left_out == {"of two": 2}
    assert "; commits decided from the log: 5 of 7" in shown(result, width=200)
    text = render_page(run.run, result, run.resolved)
    assert "decided from the log: 5 of 7 (3 carried out, 2 not). Left out: 2, because of two." in text


def test_what_prevents_the_anomalies_of_several_effects_is_said_once(fake):
    def effect(name: str, prevents: str) -> EffectCount:
        story = EffectStory(kind="duplicate", cause="c", number=1, sentence="s", prevents=prevents, library="sarama 1")
        return EffectCount(name=name, source="topic x", stories=[story])

    result = result_of(fake(), "pass")
    found = [effect("invoices", "be idempotent"), effect("copies", "be idempotent"), effect("mails", "commit later")]
    lines = [e for e in shown(result.model_copy(update={"effects": found})).splitlines() if e.startswith("prevents")]
    assert lines == [f"prevents duplicate (sarama 1): {what}" for what in ("be idempotent", "commit later")]


def test_the_column_of_what_was_observed_has_no_clause_again_that_the_sentence_has(fake):
    result = result_of(fake(), "fail", "pass")
    (broken, *others) = result.expectations
    broken = broken.model_copy(update={"seen": "5 effects are missing; A-1 has none; A-2 has none"})
    whole = result.model_copy(update={"expectations": [broken, *others], "sentence": f"{broken.seen}. 1 of 1 fault."})
    assert shown(whole, width=200).count("A-1 has none") == 1 and "5 effects are missing; …" in shown(whole, width=200)
    other = whole.model_copy(update={"sentence": "5 effects are missing."})
    assert shown(other, width=200).count("A-1 has none") == 1
