"""The corpus of published bugs: its cases, their selection, and the score of their runs."""

import pytest

from chaos.campaign.corpus import score, select
from chaos.errors import ScenarioError, UsageError
from chaos.reference.bugs import cases
from chaos.report import campaign
from chaos.run.campaign import TrialRun
from chaos.scenario.load import find, load, parse
from chaos.scenario.shipped import BUGS, bugs, shipped
from tests.support.labs import seen

CASE = "KAFKA-17754"


def scored(affected, fixed, name=CASE):
    """Return the score of one case with these verdicts of its runs."""
    verdicts = {"affected": affected, "fixed": fixed}
    runs = [
        TrialRun(run_id=f"{side}-{n}", part=f"{name}/{side}", n=n, seed=1, seconds=20, **seen(verdict).model_dump())
        for side, of_side in verdicts.items()
        for n, verdict in enumerate(of_side, 1)
    ]
    return score(select([name]), runs, len(affected), "python -m chaos corpus")


def test_every_file_is_a_case_with_its_variants():
    assert set(bugs()) <= set(cases())
    for name in bugs():
        assert set(load(find(name)).variants) >= {"affected"}
        for side in load(find(name)).variants:
            load(find(name), variant=side)


def test_every_finding_has_variants_and_a_line_on_its_page():
    found = sorted((BUGS / "found").glob("*.yaml"))
    assert found
    page = (BUGS / "FINDINGS.md").read_text()
    for path in found:
        assert f"(found/{path.name})" in page
        variants = load(path).variants
        assert len(variants) > 1
        for side in variants:
            load(path, variant=side)


def test_names_of_bugs_and_scenarios_differ():
    assert not set(bugs()) & set(shipped())


def test_a_bug_is_selected_by_its_name_or_its_id():
    assert set(select(["kafka-17754"])) == {CASE}
    assert set(select(["sarama 26*"])) == {"sarama-retry-order"}
    assert select() == cases()
    with pytest.raises(UsageError, match="no published bug is named KAFKA-1;"):
        select(["KAFKA-1"])


@pytest.mark.parametrize(
    ("affected", "fixed", "answer"),
    [
        (["pass"], ["pass"], "found"),
        (["fail", "pass"], ["pass", "inconclusive"], "found"),
        (["fail", "inconclusive"], ["pass", "pass"], "not found"),
        (["pass", "pass"], ["pass", "fail"], "not mended"),
        (["inconclusive"], ["pass"], "could not tell"),
        (["pass"], ["inconclusive"], "could not tell"),
    ],
)
def test_a_bug_is_found_if_only_the_affected_variant_shows_it(affected, fixed, answer):
    result = scored(affected, fixed)
    assert result.cases[0].answer == answer
    assert result.sentence == f"{int(answer == 'found')} of 1 bugs were found."


def test_the_time_to_detection_ends_with_the_first_run_that_shows_the_bug():
    assert scored(["fail", "pass", "pass"], ["pass"]).cases[0].detection_s == 40.0


def test_there_is_no_time_to_detection_if_no_run_shows_the_bug():
    assert scored(["fail"], ["pass"]).cases[0].detection_s is None


def test_the_pages_show_each_bug_with_its_rates(tmp_path):
    result = scored(["pass", "inconclusive"], ["pass", "pass"])
    campaign.write(result, tmp_path)
    summary = (tmp_path / "summary.md").read_text()
    assert "| found | torn\\_transaction at least 1, aborted\\_read at least 1 | 1 of 1, 1 inconclusive |" in summary
    page = (tmp_path / "report.html").read_text()
    assert "1 of 1, 1 inconclusive" in page
    assert "Jepsen, Bufstream 0.1.0" in page


def test_a_bug_needs_its_variants():
    text = bugs()[CASE].read_text().replace("  fixed:\n    set", "  other:\n    set")
    with pytest.raises(ScenarioError, match="bug: needs the variants affected and fixed, and no other"):
        parse(text, "x.yaml")
