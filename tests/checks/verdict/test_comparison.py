"""Comparison of variants: their differences, and the setting that caused them or that it is not determined."""

import json

import pytest

from chaos.errors import RunDirError
from chaos.run.comparison import Comparison
from chaos.run.directory import Run
from chaos.run.result import Count, Result
from chaos.scenario.load import parse
from chaos.scenario.resolve import resolve, save
from checks.expectations.judge import Observation
from checks.report.compare import page, write
from checks.verdict.comparison import compare

BASE = "title: t\ntopics: [{name: orders}]\nproducers: [{name: shop, topic: orders, config: {acks: %s}, records: %d}]"


def side(folder, name, *, acks="1", records=10, verdict="pass", lost=0, twice=0, rest=""):
    run = Run.create(folder, f"ab-{name}")
    scenario = parse(BASE % (acks, records) + rest, "t.yaml")
    resolved = resolve(scenario, run_id=run.run_id, name="t", created_us=0, seed=7, overrides=[], variant=name)
    save(run, resolved)
    totals = [
        Count(check="lost_write", scope="orders", count=lost, examined=10),
        Count(check="duplicate_write", scope="orders", count=twice, examined=10),
    ]
    result = Result(
        run_id=run.run_id, run_dir=str(run.path), scenario="t", title="t", verdict=verdict, sentence=f"{name} said.",
        seed=7, command="", versions={}, began_us=0, ended_us=1, totals=totals,
    )  # fmt: skip
    run.result.write_text(result.model_dump_json())
    run.junit.write_text("<testsuites><testsuite name='t' tests='1'/></testsuites>")
    return run.run_id


@pytest.fixture
def whole(tmp_path):
    def made(folder="ab", /, **sides):
        run = Run(tmp_path / folder)
        folders = {name: side(run.path, name, **given) for name, given in sides.items()}
        index = {"scenario": "t", "title": "<b>t</b>", "command": "python -m chaos run t", "variants": folders}
        run.comparison.write_text(json.dumps(index))
        return run

    return made


def test_the_one_setting_that_differs_made_the_difference(whole):
    found = compare(whole(weak={"acks": "1", "lost": 812}, safe={"acks": "all"}))
    assert [d.path for d in found.differences] == ["producers.shop.config.acks"]
    assert found.sentence == (
        "Lost write: 812 with weak, none with safe. The one setting that differs is producers.shop.config.acks "
        "(weak: 1, safe: all): it made the difference."
    )
    assert found.verdict == "pass"


def test_of_two_settings_the_cause_is_not_determined(whole):
    found = compare(whole(weak={"lost": 1}, safe={"acks": "all", "records": 11}))
    assert "which of them made the difference is not determined" in found.sentence


def test_a_group_that_rebalances_on_one_side_only_is_a_difference(whole, monkeypatch):
    counts = {"weak": 0, "safe": 2}
    monkeypatch.setattr(
        "checks.verdict.comparison.count_rebalances",
        lambda run, resolved, group: Observation(counts[resolved.variant], str(counts[resolved.variant])),
    )
    consumers = "\nconsumers: [{mode: subscribe, name: b, group: B_1, static: %s, topics: [orders]}]"
    found = compare(whole(weak={"rest": consumers % "true"}, safe={"rest": consumers % "false"}))
    assert found.sentence == (
        "All of weak and safe show the same kinds of anomalies. Rebalances of B_1: none with weak, 2 with safe. "
        "The one setting that differs is consumers.b.static (weak: True, safe: False): it made the difference."
    )
    both = consumers % "false"
    other = compare(whole("other", weak={"rest": both}, safe={"acks": "all", "rest": both}))
    assert other.rebalances[0].values == {"weak": "0", "safe": "2"}
    assert "made no difference here" in other.sentence, "a group may rebalance by chance"


def test_a_setting_without_effect_is_reported_as_such(whole):
    found = compare(whole(weak={"lost": 3}, safe={"acks": "all", "lost": 2}))
    assert "show the same kinds of anomalies" in found.sentence
    assert "made no difference here" in found.sentence


def test_without_any_difference_it_is_chance(whole):
    assert "chance" in compare(whole(a={"lost": 1}, b={})).sentence


def test_an_inconclusive_variant_prevents_a_comparison(whole):
    found = compare(whole(weak={"lost": 5}, safe={"acks": "all", "verdict": "inconclusive"}))
    assert found.verdict == "inconclusive"
    assert found.sentence == "Nothing can be compared: safe proved nothing. safe said."


def test_a_broken_contract_of_one_variant_fails_the_comparison(whole):
    found = compare(whole(weak={"lost": 5}, safe={"acks": "all", "verdict": "fail", "twice": 1}))
    assert found.verdict == "fail"
    assert found.sentence.endswith("The contract of safe does not hold.")


def test_a_variant_without_a_result_is_named(whole):
    run = whole(weak={}, safe={})
    (run.path / "ab-safe" / "result.json").unlink()
    with pytest.raises(RunDirError, match="result of variant safe"):
        compare(run)


def test_it_is_written_as_page_json_and_junit(whole):
    run = whole(weak={"lost": 812}, safe={"acks": "all"})
    found = write(run)
    assert Comparison.read(run) == found
    text = page(found)
    assert "ab-safe/report.html" in text and "812" in text and "<b>t</b>" not in text
    assert run.junit.read_text().count("<testsuite ") == 2
