"""A/B scenarios: what a variant changes, and what is refused."""

import json

import pytest

from chaos.drive import stages, variants
from chaos.errors import ScenarioError, UsageError
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


def test_a_variant_is_the_scenario_with_what_it_sets_and_its_own_contract(file):
    weak, safe = load(file, variant="weak"), load(file, variant="safe")
    assert (weak.producers[0].config["acks"], safe.producers[0].config["acks"]) == (1, "all")
    assert safe.topics[0].partitions == 2
    assert weak.expect.lost_write.min == 1, "the scenario's contract, where a variant has none"
    assert (safe.expect.lost_write.max, safe.expect.duplicate_write.max) == (0, None)
    assert (weak.variants, safe.variants) == ({}, {})
    assert safe.title == "base (safe)"


def test_what_the_user_sets_holds_for_all_sides_but_where_a_side_sets_it_itself(file):
    safe = load(file, ["topics.orders.partitions=5", "producers.shop.records=7"], "safe")
    assert (safe.topics[0].partitions, safe.producers[0].records) == (2, 7)


@pytest.mark.parametrize(
    ("variants_", "said"),
    [
        ("{only: {}}", "one alone can be compared with nothing"),
        ("{a: {}, b: {set: {seed: 4}}}", "all sides share the seed"),
        ("{a: {}, b: {set: {producers.shop.recrods: 4}}}", r"variant b is not a valid scenario:\n.*recrods.*records"),
        ("{a: {}, b: {set: {producers.shup.records: 4}}}", "did you mean shop"),
        ("{a: {}, b: {expect: {lost: 1}}}", "unknown key"),
    ],
)
def test_a_mistake_in_a_variant_is_found_when_the_scenario_is_read(variants_, said):
    text = BASE[: BASE.index("variants:")] + f"variants: {variants_}\n"
    with pytest.raises(ScenarioError, match=said):
        parse(text, "ab.yaml")


def test_a_variant_that_is_not_there_is_told_with_those_that_are(file):
    with pytest.raises(ScenarioError, match=r"no variant 'saef' \(did you mean safe\?\) \(variants: weak, safe\)"):
        load(file, variant="saef")


def test_a_run_is_of_one_variant(file, tmp_path):
    with pytest.raises(UsageError, match="a run is of one of them: --variant weak, safe"):
        stages.prepare(stages.ScenarioRequest(str(file)), runs_dir=tmp_path / "runs")
    run = stages.prepare(stages.ScenarioRequest(str(file), seed=3), runs_dir=tmp_path / "runs", variant="safe")
    assert read(run).command().endswith("--variant safe")


def test_all_sides_share_a_seed_and_lie_below_the_whole(file, tmp_path):
    whole = variants.prepare(stages.ScenarioRequest(str(file)), tmp_path / "runs", "ab-1")
    assert {name: run.path for name, run in whole.sides.items()} == {
        name: tmp_path / "runs" / "ab-1" / f"ab-1-{name}" for name in ("weak", "safe")
    }
    seeds = {read(run).seed for run in whole.sides.values()}
    assert len(seeds) == 1
    index = json.loads(whole.run.comparison.read_text())
    assert index["variants"] == {"weak": "ab-1-weak", "safe": "ab-1-safe"}
    assert index["command"] == f"python -m chaos run {file} --seed {seeds.pop()}"
