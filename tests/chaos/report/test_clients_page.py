"""The pages of a comparison of client libraries: their content, what is left out, and escaping."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.report import campaign
from chaos.report.clients import markdown, page
from chaos.run.campaign import ClientComparison, TrialRun
from tests.chaos.report.test_report_page import EVIL, Page
from tests.support.browser import Browser, assert_opens_and_fits
from tests.support.compared import comparison, left_out, runs, table

SPARK = left_out("spark:4.2.0", "producers[0]: spark has no produce: it only reads")


def compared(**more: list[TrialRun]) -> ClientComparison:
    by_client = {"2.16.1": runs(us=5e6), "java:4.3.1": runs(us=10e6, salt="j"), "sarama:1.61.1": runs(us=2e6)}
    return comparison(table(by_client | more, [SPARK]))


def test_every_library_is_a_column_and_each_run_a_link_and_what_is_left_out_has_its_reason() -> None:
    shown = Page(page(compared()))
    assert shown.open == [] and len(shown.ids) == len(set(shown.ids))
    heads = [attributes for tag, attributes in shown.tags if tag == "th" and attributes.get("scope") == "col"]
    assert len(heads) == 1 + 3
    assert len([a for tag, a in shown.tags if tag == "a" and "report.html" in (a.get("href") or "")]) == 3 * 8
    assert "confluent:2.16.1 (reference)" in shown.text
    assert "spark:4.2.0: producers[0]: spark has no produce: it only reads" in shown.text


def test_a_difference_is_claimed_and_else_the_number_of_runs_is_given() -> None:
    text = page(compared())
    assert "times, higher" in text and "times, lower" in text
    assert "no difference shown with 8 runs" in text
    alone = page(comparison(table({"2.16.1": runs(1), "java:4.3.1": runs(1, us=60e6)})))
    assert "no difference shown with 1 run<" in alone and "times, higher" not in alone


def test_values_have_units_and_what_was_not_measured_says_so() -> None:
    bare = [run.model_copy(update={"times": []}) for run in runs()]
    shown = Page(page(compared(**{"franz-go:1.22.2": bare}))).text
    assert "not measured" in shown and "MiB" in shown and "/s" in shown and "ms" in shown


def test_anomalies_count_over_the_runs_that_show_them() -> None:
    lossy = [*runs(7), runs(8, verdict="fail")[7].model_copy(update={"anomalies": {"lost_write": 812}})]
    shown = compared(**{"aiokafka:0.14.0": lossy})
    assert shown.verdict == "fail"
    assert "812 in 1 of 8 runs" in page(shown)
    row = next(line for line in markdown(shown).splitlines() if line.startswith("| lost write"))
    assert row == "| lost write | none | none | none | 812 in 1 of 8 runs |"


def test_the_summary_is_a_table_of_each_scenario() -> None:
    text = markdown(compared())
    lines = text.splitlines()
    assert lines[0] == "### ✅ pass: client libraries side by side"
    assert "| | confluent:2.16.1 (reference) | java:4.3.1 | sarama:1.61.1 |" in lines
    assert {line.count("|") for line in lines if line.startswith("|")} == {5}
    assert "- left out: spark:4.2.0: producers\\[0\\]: spark has no produce: it only reads" in lines


def test_a_scenario_that_nothing_can_run_has_only_reasons() -> None:
    assert "No library could run this scenario." in page(comparison(table({}, [SPARK])))


def test_foreign_text_is_text_everywhere() -> None:
    evil = runs(8, verdict="fail")[0].model_copy(update={"sentence": EVIL, "anomalies": {EVIL: 1}})
    of = comparison(table({"2.16.1": [evil]}, [left_out("x", EVIL)]), sentence=EVIL)
    text = page(of)
    assert "<img" not in text and "\x1b" not in text and "&lt;img" in text
    assert "<img" not in markdown(of)


def test_a_narrow_terminal_shows_every_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = compared(**{f"franz-go:1.2{n}.0": runs(2) for n in range(6)})
    campaign.write(result, tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"report.html", "summary.md"}
    monkeypatch.setenv("COLUMNS", "80")
    campaign.show(result, tmp_path)
    shown = capsys.readouterr().out
    assert "left out: spark:4.2.0" in shown and "run again: python -m chaos compare-clients" in shown
    assert all(f"franz-go:1.2{n}.0" in shown for n in range(6))


def test_the_page_opens_without_scripts_errors_and_fits(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page(compared()), encoding="utf-8")
    assert_opens_and_fits(browser, path)
