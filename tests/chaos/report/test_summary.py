"""Summaries for pull requests: the limit of hosted CI, for results of any size, and what must not be cut off."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from chaos.campaign.score import tally, this_machine
from chaos.report import gate as gates
from chaos.report.campaign import proof_markdown, write
from chaos.report.explore import lines_of
from chaos.report.junit import explained
from chaos.report.pages import CUT, MOST_CHARACTERS, fit, size
from chaos.report.summary import markdown, publish
from chaos.run.campaign import Mechanism, PartsResult, TrialRun
from chaos.run.exploration import ExploreResult, Filed
from chaos.run.result import EFFECTS, Expectation
from tests.chaos.campaign.prove.test_judge import anomaly, judge_of, run
from tests.chaos.report import synthetic
from tests.chaos.report.test_gate_page import cell, comparison, gate

COMMENT, STEP_SUMMARY_BYTES = 65_536, 1024 * 1024
"""The limits of GitHub: characters of a comment, bytes of a step summary."""


def check_fits(text: str) -> None:
    assert size(text) <= MOST_CHARACTERS < COMMENT
    assert len(text.encode()) < STEP_SUMMARY_BYTES
    assert text.count("<details>") == text.count("</details>")


@pytest.mark.slow
@pytest.mark.parametrize("character", ["x", "é", "\U0001f600"])
@pytest.mark.parametrize("notes", [1, 2000])
def test_a_huge_gate_fits_and_begins_with_its_verdict(character: str, notes: int) -> None:
    cells = [cell(n, "fail", scenario=f"s{n}-{character * 60}", words=character * 2000) for n in range(1, 2000)]
    cells += [cell(2000, "inconclusive"), cell(2001, "pass")]
    times = tuple(comparison(n, "slower") for n in range(1, 2000))
    huge = gate(*cells, comparisons=times, words=character * 3000)
    text = gates.markdown(huge.model_copy(update={"notes": [character * 3000] * notes}))
    check_fits(text)
    assert text.startswith("## ❌ fail: ")
    if notes == 1:  # the cells that are not listed are counted
        assert "and 1941 more cells: see report.html. Fail: 1939, inconclusive: 1." in text
    else:
        assert text.endswith(CUT)


def test_a_huge_proof_fits_and_says_that_it_was_cut(tmp_path: Path) -> None:
    judge = judge_of(tmp_path, "acks-1")
    small = judge.result([run("none"), run("leader-crash", "broken", anomaly("duplicate_write"))], 600)
    assert small.broken
    huge = small.model_copy(update={"broken": small.broken * 3000, "not_tested": small.not_tested * 3000})
    text = proof_markdown(huge)
    check_fits(text)
    assert text.startswith(f"### ❌ fail: {huge.name}") and "**Broken**" in text and text.endswith(CUT)
    assert not proof_markdown(small).endswith(CUT)


def test_a_cut_is_after_a_whole_line_and_closes_what_is_folded() -> None:
    line = "| fail | " + "x" * 90 + " |\n"
    text = fit("# fail\n\n<details><summary>times</summary>\n\n" + line * 1000 + "</details>\n")
    check_fits(text)
    kept, _, rest = text.rpartition("\n\n</details>")
    assert rest == CUT and kept.endswith(" |") and len(kept) > MOST_CHARACTERS - 300
    assert fit("short\n") == "short\n" and fit("y" * MOST_CHARACTERS) == "y" * MOST_CHARACTERS
    check_fits(fit("y" * 100_000))


def test_a_failed_run_says_what_did_not_hold_its_effects_with_stories_and_its_faults(tmp_path: Path) -> None:
    _, result, _ = synthetic.failed_run(tmp_path)
    text = markdown(result)
    assert text.startswith(f"## ❌ fail: {result.title}\n\n{result.sentence[:40]}")
    assert "| ❌ fail | lost" in text and text.rstrip().endswith(f"`{result.command}`")
    for story in (story for effect in result.effects for story in effect.stories):
        assert story.sentence[:30] in text and "**What prevents it" in text
    assert all(f"{fault.name} ({fault.kind})" in text for fault in result.faults)
    row = next(line for line in text.splitlines() if line.startswith("| effect "))
    assert text.splitlines()[text.splitlines().index(row) + 1].count("|") == row.count("|")


def test_a_huge_run_fits(tmp_path: Path) -> None:
    _, result, _ = synthetic.failed_run(tmp_path)
    many = [e.model_copy(update={"why": "x|`\n" * 900}) for e in result.expectations if e.verdict == "fail"] * 900
    text = markdown(result.model_copy(update={"expectations": many, "problems": ["p" * 5000] * 500}))
    check_fits(text)
    assert f"{len(many) - 60} more without one" in text


def test_github_gets_the_summary_and_an_annotation_for_what_did_not_hold(tmp_path, monkeypatch) -> None:
    run, result, _ = synthetic.failed_run(tmp_path)
    (run.path / "summary.md").write_text("## ❌ fail\n")
    assert publish(result, run.path) == "", "no GitHub Actions"
    step = tmp_path / "step.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(step))
    odd = result.model_copy(update={"title": "a: b, c\nd", "sentence": "100 % lost\nin a line"})
    first, *others = publish(odd, run.path).splitlines()
    assert first == "::error title=a%3A b%2C c d::100 %25 lost%0Ain a line"
    assert 0 < len(others) < 10 and all(line.startswith(("::error title=", "::warning title=")) for line in others)
    assert step.read_text() == "## ❌ fail\n\n"
    publish(result, run.path / "none")
    assert step.read_text() == "## ❌ fail\n\n", "a folder without a summary adds nothing"
    passed = synthetic.passed_run(tmp_path / "p")[1]
    assert publish(passed, run.path).startswith("::notice title=") and publish(passed, run.path).count("\n") == 1


def test_a_campaign_has_a_case_for_each_part(tmp_path, monkeypatch) -> None:
    parts = [
        tally(name, [TrialRun(part=name, seed=1, verdict=verdict, sentence="s")]).model_copy(update={"state": state})
        for name, verdict, state in (("a", "pass", "held"), ("b, killed", "fail", "lost"))
    ]
    result = PartsResult(
        kind="shrink", title="Crashes", verdict="fail", sentence="1 of 2", command="explore x", machine=this_machine(),
        made_us=1, seed=1, repeat=1, parts=parts,
    )  # fmt: skip
    write(result, tmp_path)
    (suite,) = ET.parse(tmp_path / "junit.xml").getroot()
    assert [suite.get(name) for name in ("tests", "failures", "errors")] == ["3", "2", "0"]
    failed = suite.findall("testcase/failure")[1]
    assert failed.get("message").startswith("lost: ")
    assert (
        "| is | seen |" in (tmp_path / "summary.md").read_text() and "| lost |" in (tmp_path / "summary.md").read_text()
    )
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "step.md"))
    assert publish(result, tmp_path).splitlines()[1].startswith("::error title=b%2C killed::")


def exploration(mechanisms: int, undecided: int = 0) -> ExploreResult:
    found = [
        Mechanism(name="effect_missing invoices", cause=f"cause {n}", sentence=f"Order {n} is lost", prevents="care")
        for n in range(mechanisms)
    ]
    verdicts = ["inconclusive"] * undecided + ["fail"] * mechanisms
    parts = [
        tally(f"window {n}", [TrialRun(part=f"window {n}", run_id=f"r{n}", seed=1, verdict=verdict, sentence="s")])
        for n, verdict in enumerate(verdicts)
    ]
    return ExploreResult(
        title="Crashes", verdict="fail", sentence="some", command="explore x", machine=this_machine(), made_us=1,
        seed=1, repeat=1, parts=parts,
        filed=[Filed(mechanism=m, count=1, where=["w"], run="r0", bundle="bundles/r.tar.gz") for m in found],
    )  # fmt: skip


def test_what_proves_nothing_in_an_exploration_has_the_word_of_its_window(tmp_path) -> None:
    shown = exploration(0, 2)
    first, second = shown.parts
    parts = [first.model_copy(update={"state": "not reached"}), second]
    assert lines_of(shown.model_copy(update={"parts": parts}), tmp_path) == [
        "not reached: window 0: s",
        "undecided: window 1: s",
    ]


def test_an_exploration_with_500_findings_fits(tmp_path) -> None:
    write(exploration(500, 500), tmp_path)
    text = (tmp_path / "summary.md").read_text()
    check_fits(text)
    assert text.startswith("## ❌ fail: Crashes") and "cause 0" in text and text.endswith(CUT)
    (suite,) = ET.parse(tmp_path / "junit.xml").getroot()
    assert suite.get("failures") == "501" and suite.get("errors") == "500"


def test_the_annotations_of_an_exploration_are_what_broke_before_what_is_not_decided(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "step.md"))
    lines = publish(exploration(2, 30), tmp_path).splitlines()
    assert (
        lines[1] == ("::error title=effect_missing invoices%3A cause 0::Order 0 is lost. What prevents it: care.")
        and len(lines) == 3
    )
    parts = exploration(2, 30).parts
    whole = PartsResult(
        kind="repeat", title="t", verdict="fail", sentence="s", command="c", machine=this_machine(), made_us=1, seed=1,
        repeat=1, parts=parts,
    )  # fmt: skip
    lines = publish(whole, tmp_path).splitlines()
    assert len(lines) == 10 and [line.partition(" ")[0] for line in lines[:4]] == ["::error"] * 3 + ["::warning"]


def test_what_failed_is_a_sentence_with_its_meaning_and_the_story_of_an_effect(tmp_path) -> None:
    _, result, _ = synthetic.failed_run(tmp_path)
    effect = next(effect for effect in result.effects if effect.stories)
    story = effect.stories[0]
    missing = Expectation(
        name="effects", check=EFFECTS, split=story.kind, scope=effect.name, expected="0", seen="2", verdict="fail"
    )
    lost = Expectation(name="lost_write", check="lost_write", expected="0", seen="37", verdict="fail")
    unread = lost.model_copy(update={"verdict": "inconclusive", "why": "the log was not read"})
    assert explained(result, missing) == f"Expected 0, seen 2. {story.sentence.rstrip('.')}."
    assert explained(result, lost) == "Expected 0, seen 37: acknowledged to the producer, yet not in the log."
    assert explained(result, unread) == "Expected 0, seen 37: the log was not read."
