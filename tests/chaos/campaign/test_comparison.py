"""Comparison of variants: their differences, and the setting that caused them or that it is not determined."""

import json
from pathlib import Path

import pytest

from chaos.campaign import comparison
from chaos.campaign.comparison import _flat
from chaos.errors import RunDirError
from chaos.report.campaign import ab_page
from chaos.run.directory import Run
from chaos.run.result import Count, Counts, EffectCount, Result
from chaos.scenario.load import find, load, parse
from chaos.scenario.resolve import resolve, save

BASE = "title: t\ntopics: [{name: orders}]\nproducers: [{name: shop, topic: orders, config: {acks: %s}, records: %d}]"


def side(
    folder,
    name,
    number=1,
    *,
    acks="1",
    records=10,
    verdict="pass",
    lost=0,
    twice=0,
    rest="",
    rebalances=None,
    missing=0,
):
    """A run of a variant; lost: of each run, or by the number of the run."""
    lost = lost[number - 1] if isinstance(lost, list) else lost
    run = Run.create(folder, f"ab-{name}" + (f"-{number}" if number > 1 else ""))
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
        counts=Counts(rebalances={} if rebalances is None else {"B_1": rebalances}),
        effects=[EffectCount(name="invoices", source="topic invoices", counts={"missing": missing})],
    )  # fmt: skip
    run.result.write_text(result.model_dump_json())
    run.junit.write_text("<testsuites><testsuite name='t' tests='1'/></testsuites>")
    return run.run_id


@pytest.fixture
def whole(tmp_path):
    def made(folder="ab", /, runs=1, **sides):
        run = Run(tmp_path / folder)
        numbers = range(1, runs + 1)
        folders = {name: [side(run.path, name, n, **given) for n in numbers] for name, given in sides.items()}
        return run.path, folders

    return made


def compare(whole):
    return comparison.compare(*whole, "python -m chaos run t")


def test_one_run_of_each_side_differs_and_shows_no_cause(whole):
    found = compare(whole(weak={"acks": "1", "lost": 812}, safe={"acks": "all"}))
    assert [d.path for d in found.differences] == ["producers.shop.config.acks"]
    assert found.sentence == (
        "Lost write: 812 with weak, none with safe. The one setting that differs is producers.shop.config.acks "
        "(weak: 1, safe: all). The runs differed, which may be chance (p = 1 by Fisher's exact test): one run of each "
        "side cannot show that the setting is the cause; --repeat 4 is the least that can."
    )
    assert found.verdict == "pass" and found.anomalies[0].decides and not found.anomalies[0].shown


def test_an_effect_that_one_side_misses_is_a_difference(whole):
    found = compare(whole(before={"acks": "1", "missing": 6}, after={"acks": "all"}))
    assert [(row.name, row.values) for row in found.anomalies] == [
        ("effect_missing invoices", {"before": "6", "after": "0"})
    ]
    assert found.sentence.startswith("Effect missing invoices: 6 with before, none with after.")


def test_with_enough_runs_the_one_setting_that_differs_caused_the_difference(whole):
    found = compare(whole(runs=4, weak={"lost": [812, 9, 40, 41]}, safe={"acks": "all"}))
    assert found.sentence == (
        "Lost write: in 4 of 4 runs (9 to 812) with weak, in 0 of 4 runs with safe. The one setting that differs is "
        "producers.shop.config.acks (weak: 1, safe: all): it caused the difference in lost_write (p = 0.029 by "
        "Fisher's exact test)."
    )
    assert found.sides[0].runs == ["ab-weak", "ab-weak-2", "ab-weak-3", "ab-weak-4"]


@pytest.mark.parametrize(
    ("lost", "chance"), [([1, 1, 1], "p = 0.1 by"), ([1, 1, 1, 0], "p = 0.14 by"), ([0, 0, 0, 7, 0, 0], "p = 1 by")]
)
def test_few_runs_or_a_rare_anomaly_show_no_cause(whole, lost, chance):
    found = compare(whole(runs=len(lost), weak={"lost": lost}, safe={"acks": "all"}))
    assert chance in found.sentence and "cannot show that the setting is the cause" in found.sentence


def test_the_more_anomalies_are_compared_the_more_runs_it_takes(whole):
    both = {"lost": 3, "twice": 2}
    assert "--repeat 5 is the least" in compare(whole("four", runs=4, weak=both, safe={"acks": "all"})).sentence
    found = compare(whole("five", runs=5, weak=both, safe={"acks": "all"}))
    assert "it caused the difference in lost_write and duplicate_write" in found.sentence


def test_an_anomaly_that_each_run_shows_is_no_difference(whole):
    found = compare(whole(runs=6, weak={"lost": 9}, safe={"acks": "all", "lost": 1}))
    assert "made no difference here" in found.sentence


def test_inconclusive_runs_do_not_count(whole):
    run = whole(runs=5, weak={"lost": 3}, safe={"acks": "all"})
    for number in ("-4", "-5"):
        path = run[0] / f"ab-safe{number}" / "result.json"
        path.write_text(path.read_text().replace('"verdict":"pass"', '"verdict":"inconclusive"'))
    found = compare(run)
    assert found.verdict == "inconclusive" and "in 0 of 3 runs with safe" in found.sentence
    assert "2 of 5 runs of safe are inconclusive and do not count: safe said." in found.sentence
    assert "it caused" in found.sentence  # 5 of 5 and 0 of 3


def test_of_two_settings_the_cause_is_not_determined(whole):
    found = compare(whole(runs=4, weak={"lost": 1}, safe={"acks": "all", "records": 11}))
    assert "one of them caused the difference in lost_write" in found.sentence
    assert "which one is not determined" in found.sentence


def test_a_group_that_rebalances_on_one_side_only_is_a_difference(whole):
    consumers = "\nconsumers: [{mode: subscribe, name: b, group: B_1, static: %s, topics: [orders]}]"
    found = compare(
        whole(weak={"rest": consumers % "true", "rebalances": 0}, safe={"rest": consumers % "false", "rebalances": 2})
    )
    assert found.sentence == (
        "All of weak and safe show the same kinds of anomalies. Rebalances of B_1: none with weak, 2 with safe. "
        "The one setting that differs is consumers.b.static (weak: True, safe: False). The runs differed, which may be "
        "chance (p = 1 by Fisher's exact test): one run of each side cannot show that the setting is the cause; "
        "--repeat 4 is the least that can."
    )
    both = consumers % "false"
    other = compare(
        whole("other", weak={"rest": both, "rebalances": 0}, safe={"acks": "all", "rest": both, "rebalances": 2})
    )
    assert other.rebalances[0].values == {"weak": "0", "safe": "2"}
    unseen = compare(whole("unseen", weak={"rest": both}, safe={"acks": "all", "rest": both, "rebalances": 2}))
    assert unseen.rebalances[0].values == {"weak": "not observed", "safe": "2"}
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
    (run[0] / "ab-safe" / "result.json").unlink()
    with pytest.raises(RunDirError, match="result of variant safe"):
        compare(run)


def test_the_page_links_the_runs_and_shows_foreign_text_as_text(whole):
    found = compare(whole(weak={"lost": 812}, safe={"acks": "all"}))
    text = ab_page(found.model_copy(update={"title": "<b>t</b>"}))
    assert "ab-safe/report.html" in text and "812" in text and "<b>t</b>" not in text


def test_reasons_of_a_contract_are_no_settings_that_differ():
    """`promised_differs` explains the contract of a variant: it changes nothing of the run."""
    path, sides = find("acks1-leader-kill"), {}
    for name in load(path).variants:
        resolved = resolve(
            load(path, variant=name), run_id="x", name="x", created_us=1, seed=1, overrides=[], variant=name
        )
        sides[name] = _flat(resolved, Path("none"))
    different = [key for key, value in sides["acks-1"].items() if value != sides["acks-all"].get(key)]
    assert different == ["producers.shop.config.acks"] and sides["acks-1"].keys() == sides["acks-all"].keys()


def test_names_of_the_runs_on_an_existing_cluster_are_no_settings_that_differ():
    """There, each run gives a prefix to its topics and groups."""
    raw = {
        "title": "t",
        "cluster": {"driver": "attached", "bootstrap": "127.0.0.1:1"},
        "topics": [{"name": "orders"}],
        "producers": [{"name": "shop", "topic": "orders"}],
        "consumers": [{"mode": "subscribe", "name": "billing", "group": "billing", "topics": ["orders"]}],
    }
    sides = {}
    for name, acks in (("a", 1), ("b", -1)):
        given = parse(json.dumps(raw), "t.yaml", [f"producers.shop.config={{acks: {acks}}}"])
        resolved = resolve(given, run_id=f"run-{name}", name="t.yaml", created_us=1, seed=1, overrides=[])
        assert resolved.scenario.topics[0].name != "orders"
        sides[name] = _flat(resolved, Path("none"))
    assert [key for key in {**sides["a"], **sides["b"]} if sides["a"].get(key) != sides["b"].get(key)] == [
        "producers.shop.config.acks"
    ]


def test_programs_and_files_differ_as_the_user_wrote_them(tmp_path):
    work = tmp_path / "project" / "work"
    (work / "old").mkdir(parents=True)
    (work / "run" / "inputs" / "1").mkdir(parents=True)
    (work / "run" / "inputs" / "1" / "app.tpl").write_text("x")
    for name in ("old/service.py", "../shared.py"):
        (work / name).write_text("")
    app = {
        "name": "a",
        "program": "old/service.py",
        "files": {"f": "run/inputs/1/app.tpl"},
        "env": {"B": "{bootstrap}"},
    }
    raw = {
        "title": "t",
        "topics": [{"name": "orders"}],
        "producers": [{"name": "shop", "topic": "orders", "value": {"template": '{{"id": "{id}"}}'}}],
        "effects": [{"name": "done", "log": {"app": "a", "pattern": "(?P<id>.)"}}],
        "apps": [app, {"name": "b", "command": ["sh", "a b"], "env": {"B": "{bootstrap}"}}],
    }
    scenario = parse(json.dumps(raw), str(work / "mine.yaml"))
    name = str(work / "mine.yaml")
    resolved = resolve(scenario, run_id="x", name=name, created_us=1, seed=1, overrides=[])
    found = _flat(resolved, work / "run")
    assert found["apps.a.program"] == "old/service.py"
    assert found["apps.b.command"] == "sh 'a b'"
    assert found["apps.a.files.f"] == "app.tpl (2d711642)"
