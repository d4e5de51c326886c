"""Incidents: subjects, comparison of outcomes, rates, releases, changes, budgets, and requests of the DAG."""

import json
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
import yaml

from chaos.campaign import ab, bisect, engine, releases, replay, score, shrink
from chaos.campaign.engine import Trial, TrialLab
from chaos.campaign.folder import Asked, Folder
from chaos.campaign.subject import Request, load_subject
from chaos.clients.choice import Client
from chaos.clients.confluent import runtime
from chaos.clients.traits import number
from chaos.drive import stages
from chaos.errors import ResolveError, RunDirError, ScenarioError, UsageError
from chaos.fleet.specs import SpecBuilder
from chaos.incident.bundle import pack
from chaos.install import pypi
from chaos.lab.progress import ProgressListener
from chaos.run.campaign import SAME, PartsResult, TrialRun
from chaos.run.directory import Run
from chaos.run.result import RunOutcome
from chaos.scenario.expect import Expect
from chaos.scenario.load import find, load, parse
from chaos.scenario.resolve import read, resolve, seeds
from chaos.scenario.shipped import shipped
from tests.chaos.incident.test_bundle import RESULT, a_run
from tests.support.labs import FakeLab


def outcome(verdict="fail", **anomalies):
    named = {name.replace("__", " "): n for name, n in anomalies.items()}
    return RunOutcome(verdict=verdict, sentence=f"it is {verdict}.", anomalies=named)


# subjects


def test_a_subject_is_a_bundle_a_run_directory_or_a_scenario(tmp_path):
    run = a_run(tmp_path)
    run.result.write_text(json.dumps(RESULT))
    pack(run, tmp_path / "x.tar.gz")
    of_bundle, of_run = load_subject(str(tmp_path / "x.tar.gz")), load_subject(str(run.path))
    assert of_bundle.scenario == of_run.scenario
    assert of_bundle.seed == of_run.seed == 7
    assert of_bundle.outcome.count("lost_write") == 3
    assert of_bundle.scenario.clients.confluent_kafka == "2.5.0", "the release that its clients reported"
    of_scenario = load_subject("acks1-leader-kill", "acks-1")
    assert of_scenario.scenario.faults == of_run.scenario.faults
    assert of_scenario.outcome is None


def test_a_run_on_a_cluster_that_exists_loses_its_prefix_before_it_gets_another(tmp_path):
    scenario = load(shipped()["clean-run"], ["cluster.driver=attached", "cluster.bootstrap='a:9092'"])
    run = a_run(tmp_path)
    resolved = resolve(scenario, run_id="r", name="clean-run", created_us=1, seed=1, overrides=[])
    assert resolved.scenario.topics[0].name.startswith(resolved.prefix)
    run.resolved.write_text(resolved.model_dump_json())
    assert [t.name for t in load_subject(str(run.path)).scenario.topics] == [t.name for t in scenario.topics]


@pytest.mark.parametrize(
    ("given", "variant", "message"),
    [
        ("acks1-leader-kill", "", "has variants; choose one with --variant acks-1, acks-all"),
        ("none.tar.gz", "", "there is no bundle"),
        ("leader-kil", "", "did you mean leader-kill"),
        ("acks1-leader-kill", "acks-2", "no variant 'acks-2'"),
    ],
)
def test_a_subject_that_cannot_be_run_again_is_refused(given, variant, message):
    with pytest.raises((UsageError, ScenarioError, RunDirError), match=message):
        load_subject(given, variant)


def test_directories_that_are_no_run_are_refused(tmp_path):
    with pytest.raises(RunDirError, match=r"no resolved\.json"):
        load_subject(str(tmp_path))
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(UsageError, match="name one of its runs"):
        load_subject(str(tmp_path))


def test_a_candidate_is_a_file_whose_own_command_makes_it_again(tmp_path):
    subject = load_subject("acks1-leader-kill", "acks-1").set("clients.confluent_kafka='2.5.0'")
    run = TrialLab(tmp_path, ProgressListener()).prepare(Trial("001-1", subject, "001", seed=9))
    resolved = read(run)
    assert resolved.versions["confluent-kafka"] == "2.5.0"
    assert resolved.command() == f"python -m chaos run {tmp_path / '001-1.yaml'} --seed 9 --kafka 4.3.1 --client 2.5.0"
    assert resolved.scenario == load(tmp_path / "001-1.yaml")


def test_the_command_of_a_run_names_its_file_from_any_directory(tmp_path, monkeypatch):
    (tmp_path / "my tests").mkdir()
    file = tmp_path / "my tests/mine.yaml"
    file.write_text(find("clean-run").read_text())
    monkeypatch.chdir(file.parent)
    resolved = read(stages.prepare(stages.ScenarioRequest("mine.yaml", seed=9), runs_dir=tmp_path / "runs"))
    assert resolved.command() == f"python -m chaos run '{file}' --seed 9 --kafka 4.3.1"
    ours = read(stages.prepare(stages.ScenarioRequest("clean-run", seed=9), runs_dir=tmp_path / "runs"))
    assert ours.command() == "python -m chaos run clean-run --seed 9 --kafka 4.3.1"


def test_another_release_gets_its_own_metadata_mode():
    subject = load_subject("leader-kill").set("cluster.brokers=3")
    assert subject.set("cluster.kafka=2.8.2").scenario.cluster.metadata == "zookeeper"
    assert subject.set("cluster.kafka=3.9.2").scenario.cluster.metadata == "kraft"
    asked = load_subject("leader-kill").set("cluster.kafka=3.9.2", "cluster.metadata=zookeeper")
    assert asked.set("cluster.kafka=3.8.1").scenario.cluster.metadata == "zookeeper", "what was asked for stays"


# comparison of outcomes


def expecting(**expect):
    plain = parse("title: t\ntopics: [{name: orders}]\nproducers: [{name: shop, topic: orders}]", "plain.yaml")
    return plain.model_copy(update={"expect": Expect.model_validate(expect)})


EXPECTING = expecting(lost_write={"min": 1}, duplicate_delivery={"illegal": 0})


def test_the_same_kinds_and_the_same_verdict_are_the_same_outcome_whatever_the_counts():
    assert score.differences(outcome(lost_write=3), outcome(lost_write=3000), EXPECTING) == []


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (outcome(lost_write=3), outcome(), "lost_write is gone (3 then)"),
        (outcome(), outcome(duplicate_delivery__illegal=2), "duplicate_delivery illegal is new (2)"),
        (outcome("pass", lost_write=3), outcome("fail", lost_write=3), "the verdict was pass and is fail"),
    ],
)
def test_what_differs_is_named(before, after, message):
    assert score.differences(before, after, EXPECTING) == [message]


def test_what_the_contract_leaves_open_is_chance_and_not_a_difference():
    assert score.differences(outcome(lost_write=3, duplicate_delivery__legal=7), outcome(lost_write=3), EXPECTING) == []
    strict = expecting(lost_write={"min": 1})
    assert score.differences(outcome(lost_write=3, duplicate_delivery__legal=7), outcome(lost_write=3), strict)


def test_an_inconclusive_replay_is_neither_the_same_nor_different():
    def compared(now, before):
        return replay.compare(now, SimpleNamespace(scenario=EXPECTING, outcome=before))[0]

    assert compared(outcome("inconclusive", lost_write=3), outcome(lost_write=3)) is None
    assert compared(outcome(lost_write=9), None) is None
    assert compared(outcome(lost_write=9), outcome(lost_write=3)) is True
    assert compared(outcome(), outcome(lost_write=3)) is False


def test_a_replay_says_which_versions_differ(tmp_path):
    run = a_run(tmp_path)
    message = " ".join(replay.version_notes(load_subject(str(run.path))))
    assert "confluent-kafka 2.5.0 as then" in message
    raw = json.loads(run.resolved.read_text())
    raw["versions"]["python"] = "3.9.1"
    run.resolved.write_text(json.dumps(raw))
    assert "python was 3.9.1 then" in " ".join(replay.version_notes(load_subject(str(run.path))))
    with pytest.raises(UsageError, match="is a scenario without a run"):
        replay.version_notes(load_subject("leader-kill"))


def test_an_anomaly_is_named_as_the_contract_does():
    scenario = load(find("clean-run"))
    assert score.parse_anomaly("lost_write", scenario) == "lost_write"
    assert score.parse_anomaly("duplicate_delivery.illegal", scenario) == "duplicate_delivery illegal"
    for wrong in ("lost", "lost_write legal", "ack_latency max", ""):
        with pytest.raises(UsageError, match="known are lost_write"):
            score.parse_anomaly(wrong, scenario)


def test_a_kind_of_an_effect_is_named_with_its_effect():
    scenario = load(find("app-operations"))
    assert score.parse_anomaly("effect_missing.invoices", scenario) == "effect_missing invoices"
    assert score.parse_anomaly("effect_missing invoices", scenario) == "effect_missing invoices", "as results name it"
    for wrong in ("effect_missing", "effect_missing.invoice", "effect_late.invoices"):
        with pytest.raises(UsageError, match=r"known are .*effect_missing\.invoices"):
            score.parse_anomaly(wrong, scenario)


def test_a_time_above_its_bound_is_a_sign_like_an_anomaly(tmp_path):
    bounded = load(find("clean-run"), ["expect.ack_latency.max=1s"])
    sign = score.parse_anomaly("ack_latency", bounded)
    with pytest.raises(UsageError, match=r"no bound for isr_recovery; add one: --set expect\.isr_recovery\.max=30s"):
        score.parse_anomaly("isr_recovery", bounded)
    run = a_run(tmp_path)
    raw = {"verdict": "fail", "sentence": "", "totals": []}
    line = {"name": "n", "check": "ack_latency", "expected": "", "seen": ""}
    for verdict, count in (("fail", 1), ("pass", 0), ("inconclusive", 0)):
        run.result.write_text(json.dumps({**raw, "expectations": [{**line, "verdict": verdict}]}))
        assert RunOutcome.read(run).count(sign) == count
    worse = outcome().model_copy(update={"exceeded": {sign: 2}})
    assert score.merge([outcome(), worse]).count(sign) == 2


def test_counts_of_a_kind_with_parts():
    one = outcome(duplicate_delivery__legal=2, duplicate_delivery__illegal=3)
    assert one.count("duplicate_delivery") == 5
    assert one.count("duplicate_delivery illegal") == 3
    assert one.count("lost_write") == 0


def test_merged_runs_show_what_any_showed_without_inconclusive_runs():
    both = score.merge([outcome("inconclusive", corrupt_record=1), outcome("pass"), outcome("fail", lost_write=2)])
    assert (both.verdict, both.anomalies) == ("fail", {"lost_write": 2})
    assert not score.merge([outcome("inconclusive"), outcome("inconclusive")]).conclusive


# rates


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [
        (0, 50, 0.0, 0.0582),  # one end alone: 1 - 0.05^(1/50)
        (50, 50, 0.9418, 1.0),
        (3, 20, 0.0321, 0.3789),  # Clopper-Pearson, as in any table
        (1, 10, 0.0025, 0.4450),
        (0, 0, 0.0, 1.0),
    ],
)
def test_the_interval_of_a_rate(count, of, low, high):
    assert score.interval(count, of) == pytest.approx((low, high), abs=1e-4)


def test_rates_count_only_conclusive_runs():
    every = [outcome(lost_write=3), outcome("pass"), outcome("inconclusive", corrupt_record=1), outcome(lost_write=1)]
    found = {r.name: r for r in score.rates(every)}
    assert (found["lost_write"].count, found["lost_write"].of) == (2, 3)
    assert found["a broken contract"].count == 2
    assert "corrupt_record" not in found


def test_seeds_differ_and_are_the_same_for_the_same_base():
    assert seeds(7, 50) == seeds(7, 50)
    assert len(set(seeds(7, 50))) == 50
    assert seeds(7, 1) == [7]


# releases


def test_the_list_of_releases_is_in_order_and_has_the_defaults():
    known = yaml.safe_load(releases.RELEASES.read_text())
    for listed in known.values():
        assert listed == sorted(set(listed), key=number)
    assert load(shipped()["clean-run"]).cluster.kafka in known["kafka"]
    assert runtime.installed_release() in known["confluent-kafka"]


def test_a_span_has_both_its_ends():
    assert releases.kafka_axis("3.9.1..4.0.1").releases == ["3.9.1", "3.9.2", "4.0.0", "4.0.1"]
    assert releases.client_axis("2.0.2..2.1.1").releases == ["2.0.2", "2.1.0", "2.1.1"]


@pytest.mark.parametrize(
    ("text", "runtime", "found"),
    [
        ("kafka-python:2.2.20..2.3.1", "kafka-python", ["2.2.20", "2.2.21", "2.3.0", "2.3.1"]),
        ("java:3.9.1..4.0.1", "java", ["3.9.1", "3.9.2", "4.0.0", "4.0.1"]),
        ("sarama:1.45.0,1.61.1", "sarama", ["1.45.0", "1.61.1"]),
        ("confluent:2.0.2..2.1.0", "confluent", ["2.0.2", "2.1.0"]),
    ],
)
def test_the_releases_of_a_client_library(text, runtime, found):
    axis = releases.client_axis(text)
    assert (axis.runtime, list(axis.releases)) == (runtime, found)


def test_a_library_alone_means_all_of_its_known_releases():
    assert list(releases.client_axis("aiokafka").releases) == releases.known_releases("aiokafka")
    java = releases.client_axis("java").releases
    assert (java[0], java[-1]) == ("2.8.2", "4.3.1"), "those that the runtime supports"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kafka-pyton:2.0.2..2.1.0", r"no runtime 'kafka-pyton' \(did you mean kafka-python\?\)"),
        ("kafka-python:2.0.2", "is not understood"),
        ("kafka-python:1.3.5,2.0.2", "kafka-python 1.3.5 is not supported; choose 1.4.7 to"),
        ("kafka-python:2.0.2,2.0.2", "a release is there twice"),
        ("kafka-python:2.3.0..2.2.0", "must be the older one"),
        ("spark:4.1.0..4.2.0", "releases of spark are known; list them, as spark:A,B"),
        ("java:2.8.0..3.9.2", "kafka-clients 2.8.0 is not supported; see 2.8.2..4.3.1"),
    ],
)
def test_releases_of_a_client_library_that_are_none_are_refused(text, message):
    with pytest.raises(UsageError, match=message):
        releases.client_axis(text)


def test_a_release_of_a_library_is_that_of_the_entries_that_use_it():
    scenario = load_subject("kafka-python-offset-reset", "affected").scenario
    axis = releases.client_axis("kafka-python:2.2.8..2.2.9")
    assert axis.overrides(scenario, "2.2.9") == ['consumers.billing.client="kafka-python:2.2.9"']
    other = releases.client_axis("java:4.0.0..4.0.1").overrides(scenario, "4.0.1")
    assert other == ['producers.shop.client="java:4.0.1"', 'consumers.billing.client="java:4.0.1"']
    assert (
        load_subject("kafka-python-offset-reset", "affected")
        .set(*other, "consumers.billing.config={}")
        .scenario.consumers[0]
        .client.release
        == "4.0.1"
    )


def test_a_release_of_the_default_library_replaces_the_one_that_an_entry_names():
    axis = releases.client_axis("2.2.0..2.3.0")
    for name, entries in (
        ("librdkafka-4427", ['consumers.billing.client="confluent:2.3.0"']),
        ("kafka-python-offset-reset", []),  # its producer has the default library, and no release
    ):
        subject = load_subject(name, "affected")
        overrides = axis.overrides(subject.scenario, "2.3.0")
        assert overrides == ["clients.confluent_kafka='2.3.0'", *entries]
        tested = [c for c in subject.set(*overrides).scenario.client_libraries if c.runtime == "confluent"]
        assert {c.release for c in tested} == {"2.3.0"}


@pytest.mark.parametrize(
    ("span", "message"),
    [
        ("3.9.1", "is not understood"),
        ("3.9.1..", "is not understood"),
        ("3.9.1..3.9.9", r"Kafka 3\.9\.9 is not in releases\.yaml \(did you mean"),
        ("4.0.0..3.9.1", "must be the older one"),
        ("4.0.0..4.0.0", "must be the older one"),
    ],
)
def test_a_span_that_is_none_is_refused(span, message):
    with pytest.raises(UsageError, match=message):
        releases.kafka_axis(span)


class Bisected:
    """A bisection with the outcome of each release by a function, and the releases in the order of their runs."""

    def __init__(self, shows, span="3.7.2..4.0.0", anomaly="lost_write", tries=1, name="unclean-election"):
        self.plan, self.shows, self.asked = (
            bisect.Bisection(load_subject(name), releases.kafka_axis(span), anomaly, tries),
            shows,
            [],
        )

    def run(self):
        runs = []
        while trials := self.plan.trials(runs):
            for trial in trials:
                release = trial.subject.scenario.cluster.kafka
                self.asked.append(release)
                try:
                    runs.append(stored(trial, **_values(self.shows(release))))
                except ResolveError as e:
                    if not trial.optional:
                        raise
                    runs.append(stored(trial, "inconclusive").model_copy(update={"ran": False, "sentence": str(e)}))
        return self.plan.result(runs, "again")


def _values(shown):
    return {"verdict": shown.verdict, **{name.replace(" ", "__"): n for name, n in shown.anomalies.items()}}


def bisection(shows, **values):
    search = Bisected(shows, **values)
    return search, search


def since(first):
    return lambda release: outcome("pass", lost_write=5) if number(release) >= first else outcome("fail")


def test_the_first_release_with_the_change_is_named():
    search, lab = bisection(since((3, 9, 0)))
    answer = search.run()
    assert (answer.answer, answer.verdict) == ("3.9.0", "pass")
    assert "3.9.0 is the first with the change: no lost_write with 3.8.1, lost_write 5 with 3.9.0" in answer.sentence
    assert lab.asked[:2] == ["3.7.2", "4.0.0"], "both ends first"
    assert {part.name: part.state for part in answer.parts}["3.8.1"] == "old"


def test_without_an_anomaly_the_verdict_and_the_kinds_are_compared():
    search, _ = bisection(since((3, 8, 1)), anomaly=None)
    assert search.run().answer == "3.8.1"


def test_what_the_contract_leaves_open_does_not_make_a_release_another_one():
    def shows(release):
        chance = {"duplicate_delivery__legal": 4} if release in ("3.7.2", "3.9.0") else {}
        return outcome("pass", **chance, **({"lost_write": 2} if release == "4.0.0" else {}))

    search, _ = bisection(shows, anomaly=None, name="leader-kill")
    assert search.run().answer == "4.0.0"


def test_inconclusive_releases_are_skipped_and_named_where_they_matter():
    def shows(release):
        return outcome("inconclusive") if release in ("3.8.1", "3.9.0") else since((3, 9, 1))(release)

    answer = bisection(shows)[0].run()
    assert answer.verdict == "inconclusive"
    assert answer.answer == ""
    assert "one of 3.8.1, 3.9.0, 3.9.1" in answer.sentence


def test_a_release_that_cannot_be_had_is_skipped_too():
    def shows(release):
        if release == "3.9.0":
            raise ResolveError("cannot resolve 3.9.0")
        return since((3, 8, 0))(release)

    assert bisection(shows)[0].run().answer == "3.8.0"


def test_ends_that_show_the_same_leave_nothing_to_find():
    search, lab = bisection(lambda release: outcome("fail", lost_write=4))
    answer = search.run()
    assert answer.verdict == "fail"
    assert "show the same" in answer.sentence
    assert len(lab.asked) == 2


COMMANDS = ["billing=env a.py", "billing=env b.py --fast", "billing=env c.py"]


def test_the_first_command_of_an_application_with_the_change_is_named():
    scenario = load_subject("app-commit-order", "after")
    axis = releases.app_axis(COMMANDS, scenario.scenario)
    search, runs = bisect.Bisection(scenario, axis, None, 1), []
    while trials := search.trials(runs):
        for trial in trials:
            (app,) = trial.subject.scenario.apps
            new = app.command != ["env", "a.py"]
            shown = {"effect_missing__invoices": 3} if new else {}
            runs.append(stored(trial, "fail" if new else "pass", **shown))
            assert re.fullmatch(r"billing-[123]-1", trial.run_id)
    found = search.result(runs, "again")
    assert found.answer == "env b.py --fast"
    assert found.sentence.startswith("billing command env b.py --fast is the first with the change: pass")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["billing"], "write NAME=COMMAND"),
        (["other=a", "other=b"], "no application 'other'; it has billing"),
        (["billing=a"], "give it twice at least"),
        (["billing=a", "billing= a"], "is there twice"),
    ],
)
def test_commands_that_are_no_list_are_refused(given, message):
    with pytest.raises(UsageError, match=message):
        releases.app_axis(given, load_subject("app-commit-order", "after").scenario)


def test_an_end_that_is_inconclusive_or_missing_ends_the_search():
    answer = bisection(lambda r: outcome("inconclusive") if r == "4.0.0" else outcome())[0].run()
    assert answer.verdict == "inconclusive"
    assert "Kafka 4.0.0 is inconclusive, and both ends must be conclusive" in answer.sentence

    def unreachable(release):
        raise ResolveError("cannot resolve it")

    with pytest.raises(ResolveError):
        bisection(unreachable)[0].run()


# A/B


def test_two_sides_share_everything_but_the_change(tmp_path):
    request = Request(
        runs_dir=tmp_path, source="acks1-leader-kill", variant="acks-1", overrides=("producers.shop.config.acks=all",)
    )
    planned = ab.plan_ab(request)
    unchanged, changed = planned.plan.planned
    assert (unchanged.part, changed.part) == (ab.UNCHANGED, ab.CHANGED)
    assert unchanged.given.seed == changed.given.seed
    one, other = unchanged.subject.scenario, changed.subject.scenario
    assert (one.producers[0].config["acks"], other.producers[0].config["acks"]) == (1, "all")
    assert one.faults == other.faults
    assert [run.path.parent for run in planned.runs] == [planned.folder.path] * 2


def test_an_interrupted_comparison_of_variants_goes_on(tmp_path, monkeypatch):
    def rule(trial):
        if trial.run_id.endswith("acks-all") and not again:
            raise KeyboardInterrupt
        (tmp_path / "out" / trial.run_id).mkdir()
        (tmp_path / "out" / trial.run_id / "result.json").write_text("{}")
        return "pass"

    again, lab_ = [], FakeLab(rule)
    monkeypatch.setattr(engine, "TrialLab", lab_)
    given = stages.ScenarioRequest("acks1-leader-kill", seed=5)
    asked = ab.VariantsRequest(runs_dir=tmp_path, into=tmp_path / "out", repeat=1, given=given)
    monkeypatch.setattr(engine.Plan, "observe", lambda self, trial, finished, folder: stored(trial, "pass"))
    monkeypatch.setattr(ab, "write_comparison", lambda folder: None)
    with pytest.raises(KeyboardInterrupt):
        ab.run_variants(ab.plan_variants(asked), ProgressListener())
    again.append(True)
    planned = ab.plan_variants(ab.VariantsRequest(runs_dir=tmp_path, resume=tmp_path / "out", repeat=2))
    assert [trial.given.seed for trial in planned.plan.planned][:2] == [5, 5]
    ab.run_variants(planned, ProgressListener())
    assert lab_.asked == ["out-acks-1", "out-acks-all", "out-acks-1-2", "out-acks-all-2"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("producers.shop.config.ackz=all", "ackz is no setting of confluent-kafka .*did you mean acks"),
        ("producers.shop.config.acks=many", r"acks is 'many'; it takes a whole number from -1 to 1000, or all"),
        ("producers.shop.recrods=5", "did you mean records"),
        ("producers.shup.records=5", "did you mean shop"),
        ("producers.shop.config.acks=1", "changes nothing"),
        ("expect.lost_write=0", "the contract has the key expect"),
        ("producers.shop", "write path=value"),
    ],
)
def test_a_setting_that_is_none_or_changes_nothing_is_refused(change, message):
    with pytest.raises((ScenarioError, UsageError), match=message):
        ab.check_changes(load_subject("acks1-leader-kill", "acks-1"), [change])


# budgets and client releases


def shrinking(tmp_path, tries):
    asked = Asked(runs_dir=tmp_path, into=tmp_path / "out", seed=1)
    folder = Folder.planned(asked, "shrink", "shrink", [])
    return shrink.Shrinking(load_subject("unclean-election"), "lost_write", tries, folder, lambda words: None)


def stored(trial, verdict, **anomalies):
    values = outcome(verdict, **anomalies).model_dump()
    return TrialRun(**values, run_id=trial.run_id, part=trial.part, n=trial.n, seed=1)


def test_a_candidate_runs_until_one_of_its_tries_shows_the_anomaly(tmp_path):
    plan, runs = shrinking(tmp_path, 2), []
    for verdict, count in (("pass", 0), ("fail", 3), ("inconclusive", 3), ("pass", 0)):
        (trial,) = plan.trials(runs)
        runs.append(stored(trial, verdict, **({"lost_write": count} if count else {})))
    assert [(run.part[:3], run.n) for run in runs] == [("001", 1), ("001", 2), ("002", 1), ("002", 2)]
    (trial,) = plan.trials(runs)
    assert trial.part[:3] == "003", "what an inconclusive run shows does not count"
    assert (tmp_path / "out" / "smallest.yaml").exists()
    result = plan.result(runs, "again")
    assert result.verdict == "pass" and "more could perhaps be removed" in result.sentence


def test_a_search_over_the_same_runs_asks_for_the_same(tmp_path):
    plan, runs = shrinking(tmp_path, 1), []
    for _ in range(6):
        (trial,) = plan.trials(runs)
        runs.append(stored(trial, "fail", lost_write=1))
    again = shrink.Shrinking(plan.subject, plan.anomaly, 1, plan.folder, lambda words: None)
    assert [t.run_id for t in again.trials(runs)] == [t.run_id for t in plan.trials(runs)]


def prepared(release):
    """Return the environment variables of a release of confluent-kafka."""
    return runtime.prepare(Client(release=release)).env


def test_this_environments_own_release_needs_no_other_environment():
    assert prepared(None) == prepared(runtime.installed_release()) == {}


def test_a_client_that_is_too_old_is_refused_before_anything_is_asked_for():
    with pytest.raises(ResolveError, match=r"too old: the first release that clients can use is 2\.0\.2"):
        prepared("1.9.2")


@pytest.fixture
def pip(monkeypatch, tmp_path):
    """A package index that installs every release except two, without a network."""
    monkeypatch.setenv("AFTERSHOCK_CACHE", str(tmp_path))
    calls = []

    def run(argv, env):
        calls.append(argv)
        if "pip" not in argv:
            return subprocess.run(argv, env={**env, "PATH": ""}, capture_output=True, text=True, check=False)
        target, release = argv[argv.index("--target") + 1], argv[-1].rpartition("==")[2]
        if release == "2.99.0":
            message = "WARNING: x\nERROR: No matching distribution found for confluent-kafka==2.99.0\n"
            return subprocess.CompletedProcess(argv, 1, "", message)
        installed = "2.4.0" if release == "2.98.0" else release
        with open(f"{target}/confluent_kafka.py", "w") as f:  # noqa: PTH123 - the directory is a string here
            f.write(f"__version__ = {installed!r}\n\ndef libversion():\n    return (__version__, 0)\n")
        return subprocess.CompletedProcess(argv, 0, "", "")

    monkeypatch.setattr(pypi, "_run", run)
    return calls


def test_another_release_is_installed_once_and_found_before_everything_else(pip):
    env = prepared("2.5.0")
    asked = "import confluent_kafka, chaos; print(confluent_kafka.__version__)"
    message = subprocess.run([sys.executable, "-c", asked], env=env, capture_output=True, text=True, check=True).stdout
    assert message.strip() == "2.5.0"
    before = len(pip)
    assert prepared("2.5.0") == env
    assert len(pip) == before


@pytest.mark.parametrize(
    ("release", "message"), [("2.99.0", "No matching distribution"), ("2.98.0", "does not run here")]
)
def test_a_release_that_is_missing_or_another_is_refused_and_not_kept(pip, tmp_path, release, message):
    with pytest.raises(ResolveError, match=message):
        prepared(release)
    assert not list((tmp_path / "clients").glob("confluent-kafka*"))


def test_a_release_is_named_in_the_scenario_as_three_numbers():
    text = "title: x\ntopics: [{name: a}]\nproducers: [{name: p, topic: a}]\nclients: {confluent_kafka: '%s'}\n"
    assert parse(text % "2.5.0", "x").clients.confluent_kafka == "2.5.0"
    for wrong in ("2.5", "latest", "2.5.0; rm"):
        with pytest.raises(ScenarioError, match=r"clients\.confluent_kafka"):
            parse(text % wrong, "x")


# answers


def found(kind, answer="", verdicts=()):
    runs = [TrialRun(run_id=f"x-{n}", seed=1, **outcome(v).model_dump()) for n, v in enumerate(verdicts)]
    return PartsResult(
        kind=kind, title="t", verdict="pass", sentence="It is so.", command="c", machine=score.this_machine(),
        made_us=1, seed=1, repeat=max(1, len(runs)), parts=[score.tally("x", runs)], answer=answer,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("result", "answered"),
    [
        (found("replay", SAME), True),
        (found("replay", "not the same"), False),
        (found("replay"), False),
        (found("repeat", verdicts=("pass", "fail")), True),
        (found("repeat", verdicts=("pass", "fail", "inconclusive")), False),
        (found("shrink", "title: x"), True),
        (found("shrink"), False),
        (found("bisect", "3.9.0"), True),
        (found("bisect"), False),
    ],
)
def test_a_result_answers_the_question_or_not(result, answered):
    assert result.answered is answered


@pytest.mark.parametrize(("release", "known"), [(None, True), ("2.5.0", True), ("2.2.0", True), ("2.1.1", False)])
def test_an_older_client_is_not_given_a_setting_that_it_does_not_know(tmp_path, release, known):
    asked = [f"clients.confluent_kafka='{release}'"] if release else []
    scenario = load(shipped()["clean-run"], asked)
    resolved = resolve(scenario, run_id="r", name="clean-run", created_us=1, seed=1, overrides=[])
    builder = SpecBuilder(Run(tmp_path), resolved, lambda _: "localhost:9092")
    for entry in scenario.consumers:
        spec = builder.build(entry, f"{entry.name}/1", 1, 0)
        assert ("fetch.queue.backoff.ms" in spec.config) is known
