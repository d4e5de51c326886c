"""Summaries for pull requests: the limit of hosted CI, for results of any size, and what must not be cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.report import gate as gates
from chaos.report.campaign import proof_markdown
from chaos.report.pages import CUT, MOST_CHARACTERS, fit, size
from tests.chaos.campaign.prove.test_judge import anomaly, judge_of, run
from tests.chaos.report.test_gate_page import cell, comparison, gate

COMMENT, STEP_SUMMARY_BYTES = 65_536, 1024 * 1024
"""The limits of GitHub: characters of a comment, bytes of a step summary."""


def check_fits(text: str) -> None:
    assert size(text) <= MOST_CHARACTERS < COMMENT
    assert len(text.encode()) < STEP_SUMMARY_BYTES
    assert text.count("<details>") == text.count("</details>")


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
