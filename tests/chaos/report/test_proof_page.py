"""The page and the card of a proof: what they claim, and that foreign text stays text."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.report import campaign
from chaos.run.proof import ProofResult
from tests.chaos.campaign.prove.test_judge import all_held, anomaly, judge_of, run


@pytest.fixture
def broken(tmp_path: Path) -> ProofResult:
    judge = judge_of(tmp_path, "acks-1")
    lost = run("leader-isolated", "held", anomaly(state="allowed"), report="leader-isolated-first-1/report.html")
    torn = run("leader-crash", "broken", anomaly("duplicate_write"), bundle="bundles/x.aftershock.tar.gz")
    mended = run("leader-isolated", purpose="mended", change="producer acks=all")
    return judge.result([run("none"), lost, torn, mended], 600)


def test_the_page_has_verdict_break_bundle_and_mend(broken: ProofResult) -> None:
    page = campaign.proof_page(broken)
    for text in (
        "FAIL",
        "a crash of the leader",
        "bundles/x.aftershock.tar.gz",
        "producer acks=all",
        "does not appear",
    ):
        assert text in page
    assert 'href="leader-isolated-first-1/report.html"' in page
    assert "Not promised, and seen" in page


def test_the_card_counts_sets_and_runs(broken: ProofResult, tmp_path: Path) -> None:
    text = campaign.proof_markdown(broken)
    assert "❌ broken | A record is written once, and in order" in text
    assert "with producer acks=all it does not appear" in text
    assert "chip fail" in campaign.proof_card(broken)
    judge = judge_of(tmp_path)
    assert "**Broken**" not in campaign.proof_markdown(judge.result(all_held(judge), 60))


def test_foreign_text_is_no_markup(broken: ProofResult) -> None:
    evil = broken.model_copy(update={"name": "<script>alert(1)</script>", "notes": ["<img src=x>"]})
    for text in (campaign.proof_page(evil), campaign.proof_card(evil), campaign.proof_markdown(evil)):
        assert "<script>alert" not in text
        assert "<img" not in text


def test_the_files_are_written_beside_the_result(broken: ProofResult, tmp_path: Path) -> None:
    campaign.write(broken, tmp_path)
    assert {"report.html", "card.html", "summary.md"} <= {path.name for path in tmp_path.iterdir()}
