"""A/B scenarios: the changes of a variant, and invalid variants."""

from xml.etree import ElementTree as ET

import pytest

from chaos.campaign import ab
from chaos.drive import stages
from chaos.errors import AftershockError, ScenarioError, UsageError
from chaos.run.campaign import Comparison
from chaos.run.directory import Run, read_model
from chaos.run.result import Result
from chaos.scenario.load import load, parse
from chaos.scenario.resolve import read

BASE = """
title: base
topics: [{name: orders}]
producers: [{name: shop, topic: orders, config: {acks: 1}}]
expect: {lost_write: {min: 1}}
variants:
  weak: {}
  safe: {set: {producers.shop.config.acks: all, topics.orders.partitions: 2}, expect: {duplicate_write: {min: 0}}}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "ab.yaml"
    path.write_text(BASE)
    return path


def test_a_variant_applies_its_settings_and_contract_to_the_scenario(file):
    weak, safe = load(file, variant="weak"), load(file, variant="safe")
    assert (weak.producers[0].config["acks"], safe.producers[0].config["acks"]) == (1, "all")
    assert safe.topics[0].partitions == 2
    assert weak.expect.lost_write.min == 1, "a variant without a contract has the contract of the scenario"
    assert (safe.expect.lost_write.max, safe.expect.duplicate_write.max) == (0, None)
    assert (weak.variants, safe.variants) == ({}, {})
    assert safe.title == "base (safe)"


def test_user_settings_apply_to_all_variants_except_where_a_variant_sets_the_same_key(file):
    safe = load(file, ["topics.orders.partitions=5", "producers.shop.records=7"], "safe")
    assert (safe.topics[0].partitions, safe.producers[0].records) == (2, 7)


@pytest.mark.parametrize(
    ("variants_", "message"),
    [
        ("{only: {}}", "there is only one; give two or more to compare"),
        ("{a: {}, b: {set: {seed: 4}}}", "all variants share the seed"),
        ("{a: {}, b: {set: {producers.shop.recrods: 4}}}", r"variant b is not a valid scenario:\n.*recrods.*records"),
        ("{a: {}, b: {set: {producers.shup.records: 4}}}", "did you mean shop"),
        ("{a: {}, b: {expect: {lost: 1}}}", "unknown key"),
    ],
)
def test_an_invalid_variant_is_refused_when_the_scenario_is_loaded(variants_, message):
    text = BASE[: BASE.index("variants:")] + f"variants: {variants_}\n"
    with pytest.raises(ScenarioError, match=message):
        parse(text, "ab.yaml")


def test_an_unknown_variant_is_refused_with_the_known_ones(file):
    with pytest.raises(ScenarioError, match=r"no variant 'saef' \(did you mean safe\?\) \(variants: weak, safe\)"):
        load(file, variant="saef")


def test_prepare_makes_a_run_of_one_variant(file, tmp_path):
    with pytest.raises(UsageError, match="a run is of one of them: --variant weak, safe"):
        stages.prepare(stages.ScenarioRequest(str(file)), runs_dir=tmp_path / "runs")
    run = stages.prepare(stages.ScenarioRequest(str(file), seed=3), runs_dir=tmp_path / "runs", variant="safe")
    assert read(run).command().endswith("--variant safe")


def requested(given, folder, repeat=None):
    return ab.VariantsRequest(runs_dir=folder.parent, into=folder, given=given, repeat=repeat)


def judged(run_id):
    return Result(
        run_id=run_id, run_dir="", scenario="t", title="t", verdict="pass", sentence="s", seed=3, command="",
        versions={}, began_us=0, ended_us=1,
    )  # fmt: skip


def test_variant_runs_share_a_seed_and_are_below_the_ab_run(file, tmp_path):
    whole = ab.prepare(requested(stages.ScenarioRequest(str(file)), tmp_path / "runs" / "ab-1"))
    assert whole == tmp_path / "runs" / "ab-1"
    runs = [Run.open(whole / f"ab-1-{name}") for name in ("weak", "safe")]
    assert len({read(run).seed for run in runs}) == 1


def test_each_round_has_a_seed_that_its_variants_share(file):
    given = stages.ScenarioRequest(str(file), seed=3)
    planned = ab.trials_of(given, {name: given.load(name) for name in ("weak", "safe")}, "ab-1", repeat=3)
    seeds = [{one.given.seed for one in planned if one.n == n} for n in (1, 2, 3)]
    assert [len(one) for one in seeds] == [1, 1, 1] and len(set.union(*seeds)) == 3 and seeds[0] == {3}
    assert [one.run_id for one in planned][:3] == ["ab-1-weak", "ab-1-safe", "ab-1-weak-2"]


def test_the_comparison_is_one_file_with_the_command_that_repeats_the_runs(file, tmp_path):
    given = stages.ScenarioRequest(str(file), seed=3, driver="docker", client="2.5.0", sets=("cluster.brokers=5",))
    whole = ab.prepare(requested(given, tmp_path / "ab-1"))
    with pytest.raises(AftershockError, match=r"ab-1-weak has no result, so the variants cannot be compared"):
        ab.write_comparison(whole)
    for name in ("weak", "safe"):
        run = Run(whole / f"ab-1-{name}")
        run.result.write_text(judged(run.run_id).model_dump_json())
        run.junit.write_text("<testsuites><testsuite name='t' tests='1'/></testsuites>")
    found = ab.write_comparison(whole)
    assert (found.verdict, found.title, found.scenario) == ("pass", "base", str(file))
    assert found.command == (
        f"python -m chaos run {file} --seed 3 --driver docker --client 2.5.0 --set cluster.brokers=5"
    )
    assert [side.runs for side in found.sides] == [["ab-1-weak"], ["ab-1-safe"]]
    assert read_model(whole / "campaign.json", Comparison, "", "") == found
    names = [suite.get("name") for suite in ET.fromstring((whole / "junit.xml").read_text())]
    assert names == ["t.weak", "t.safe"]
    assert {path.name for path in whole.iterdir() if path.is_file()} == {
        "plan.json", "campaign.json", "report.html", "junit.xml",
    }  # fmt: skip
    page = (whole / "report.html").read_text()
    assert 'href="ab-1-safe/report.html"' in page and "producers.shop.config.acks" in page
