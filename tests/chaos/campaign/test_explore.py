"""Exploration: the moments of the first run, their order, the trials that follow, and the states of moments."""

import html
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from chaos.anomalies.causes import CAUSES
from chaos.campaign.at_once import MOST, runs_at_once, shared
from chaos.campaign.engine import Plan
from chaos.campaign.explore import explore
from chaos.campaign.folder import Folder
from chaos.campaign.moments import BASELINE, CALM, Moment, allowed, by_interest
from chaos.campaign.subject import Request, load_subject
from chaos.campaign.windows import CRASH, Exploration, part_of, state_of
from chaos.errors import UsageError
from chaos.lab.progress import ProgressListener
from chaos.report.campaign import write
from chaos.run.campaign import Mechanism, TrialRun
from chaos.run.events import MOMENTS, OUTSIDE
from chaos.run.exploration import WRITES
from chaos.scenario.expect import ZERO, EffectBound
from chaos.scenario.load import parse
from chaos.setup.effects import Effect

COMMIT = Moment("billing", "OffsetCommit request", "Produce response", 40)
LOST, DOUBLED = "effect_missing invoices", "effect_duplicate invoices"
FETCH = Moment("billing", "Fetch request", "SyncGroup response", 2)


@pytest.fixture
def plan(tmp_path) -> Plan:
    subject = load_subject("app-commit-order", "after")
    request = Request(runs_dir=tmp_path, into=tmp_path / "found", source="app-commit-order", seed=7)
    folder = Folder.planned(request, "explore", "explore", [])
    event = {
        "kind": MOMENTS,
        "at_us": 1,
        "by_instance": {
            "billing/1": [["Produce response", "OffsetCommit request", 25], ["", "JoinGroup request", 1]],
            "billing/2": [["SyncGroup response", "Fetch request", 2], ["Produce response", "OffsetCommit request", 15]],
            "shop/1": [["Produce response", "Produce request", 99]],
        },
    }
    for name in (BASELINE, CALM):
        first = folder.path / f"{subject.name}-{name}"
        first.mkdir()
        (first / "events.jsonl").write_text(json.dumps(event) + "\n")
    return Exploration(subject, folder)


def run(part, verdict="pass", name="", sentence="", bundle="", **causes):
    """A finished run, with the cause of each anomaly that broke the contract."""
    found = [
        Mechanism(name=kind, cause=cause, stopped="did not come" in cause, sentence=f"{kind} at 1 s", prevents="care")
        for kind, cause in causes.items()
    ]
    return TrialRun(
        verdict=verdict,
        sentence=sentence,
        anomalies=dict.fromkeys(causes, 2),
        part=part,
        run_id=name or part,
        seed=7,
        bundle=bundle,
        mechanisms=found,
    )


@pytest.mark.parametrize(
    ("source", "variant", "bounds"),
    [
        ("app-commit-order", "after", {"duplicate": {"max": 400}}),
        ("app-aiokafka", "transactions", {}),
        ("app-aiokafka", "commits", {}),  # whose contract demands what it shows
        ("app-idempotence", "idempotent", {"duplicate": {"min": 0}}),  # none under its own faults
        ("app-idempotence", "defaults", {}),
        ("app-streams-scale", "closed", {"wrong": {"min": 0}}),  # an aggregate
    ],
)
def test_an_exploration_allows_what_the_contract_allows_and_not_what_it_demands(source, variant, bounds, plan):
    plan.subject = load_subject(source, variant)
    (effect,) = plan.subject.scenario.effects
    assert plan.expected([]) == {"effects": {effect.name: {**bounds, "missing": 0}}}


def test_what_a_crash_repeats_is_not_allowed_under_the_own_faults_of_a_scenario():
    (scenario, other) = (load_subject("app-idempotence", side).scenario for side in ("idempotent", "defaults"))
    assert scenario.expect.effect_counts()["invoices", "duplicate"] == ZERO
    assert scenario.expect.effect_counts().keys() == other.expect.effect_counts().keys()


@pytest.mark.parametrize(
    ("given", "allows"), [({}, {}), ({"min": 0}, {"duplicate": None}), ({"min": 2}, {}), ({"max": 9}, {"duplicate": 9})]
)
def test_any_number_of_a_kind_is_allowed_where_the_contract_has_no_bound(given, allows):
    effect = Effect.model_validate({"name": "invoices", "topic": "invoices", "id": "$.order_id"})
    assert allowed(effect, EffectBound.model_validate({"duplicate": given} if given else {})) == allows


def test_nothing_but_the_first_run_is_wanted_before_it_has_passed(plan):
    assert [trial.part for trial in plan.trials([])] == [BASELINE]
    assert plan.is_over([run(BASELINE, "inconclusive")])
    assert not plan.is_over([run(BASELINE)])


def test_what_breaks_when_an_instance_leaves_is_explored_from_a_run_in_which_none_leaves(plan):
    left = run(BASELINE, "fail", **{LOST: "offsets first"})
    assert [trial.part for trial in plan.trials([left])] == [BASELINE, CALM]
    assert plan.trials([left])[1].subject.scenario.faults == [] and not plan.is_over([left])
    for verdict in ("fail", "inconclusive"):
        assert plan.is_over([left, run(CALM, verdict)])
    runs = [left, run(CALM), run(part_of(COMMIT, "kill"))]
    assert [trial.part for trial in plan.trials(runs)[2:]] == [
        part_of(COMMIT, blow) for blow in ("kill", "stop", "broker")
    ]
    result = plan.result(runs, "c", 60)
    assert result.verdict == "fail" and result.sentence.startswith("1 of 2 crashes broke something (1 lost), 1 held")
    assert [(w.moment, w.states) for w in result.windows] == [
        ("an instance leaves and comes back", {"stop": "lost"}),
        (COMMIT.name, {"kill": "held"}),
    ]


def test_moments_are_of_applications_after_a_step_and_counted_over_instances(plan):
    assert plan.moments_of(BASELINE) == [COMMIT, FETCH] and plan.moments_of(CALM) == [COMMIT]


def test_commits_come_first_and_what_may_not_come_again_last():
    def moment(name, after, count):
        return Moment("billing", name, after, count)

    often, crossed = moment("EndTxn request", "Produce response", 14), moment("EndTxn request", "EndTxn response", 1)
    tenth = moment("EndTxn response", "Produce response", 1)
    only, joined = (
        moment("OffsetCommit request", "Produce response", 1),
        moment("Fetch request", "OffsetFetch response", 1),
    )
    fetch, ended = moment("Fetch request", "EndTxn response", 99), moment("EndTxn response", "EndTxn request", 9)
    assert by_interest([crossed, fetch, tenth, joined, ended, often, only]) == [
        only,
        often,
        ended,
        tenth,
        fetch,
        joined,
        crossed,
    ]


def test_work_that_seldom_followed_a_change_of_the_group_is_crashed_after_the_work_that_comes_again():
    def moment(name, after, count):
        return Moment("billing", name, after, count)

    fetched = moment("OffsetFetch response", "OffsetFetch request", 4)
    seldom, always = (moment(f"{api} request", "OffsetFetch response", 2) for api in ("EndTxn", "Produce"))
    always = replace(always, count=3)
    ended, produced = (moment(f"{api} request", "Produce response", 40) for api in ("EndTxn", "Produce"))
    ordered = [ended, always, produced, fetched, seldom]
    assert by_interest([seldom, always, ended, produced, fetched]) == ordered
    assert by_interest([replace(seldom, count=3), ended, fetched])[0] == replace(seldom, count=3)
    assert by_interest([seldom, fetched]) == [seldom, fetched]  # there is no better place


def test_a_fetch_of_an_instance_that_leaves_is_crashed_last():
    left = Moment("billing", "LeaveGroup response", "LeaveGroup request", 1)
    fetched = replace(left, name="Fetch request")
    joined = Moment("billing", "Fetch request", "OffsetFetch response", 1)
    ended = Moment("billing", "EndTxn request", "LeaveGroup request", 1)
    assert by_interest([fetched, left, joined, ended]) == [ended, left, joined, fetched]


def test_a_crash_that_held_is_described_as_held_and_by_what_it_repeated(plan):
    assert plan.describe(run("kill", "pass")) == "held"
    assert plan.describe(run("kill", "pass", **{DOUBLED: "sent again"})) == f"held: {DOUBLED} 2"
    assert plan.describe(run(BASELINE, "pass")) == "none"


def test_a_crash_at_a_change_of_the_group_is_after_its_start():
    for count, among in (1, {1}), (2, {2}), (3, {2}), (4, {3}), (8, {5, 6}):
        joined = Moment("billing", "OffsetFetch request", "SyncGroup response", count)
        assert {joined.nth(seed) for seed in range(50)} == among
        fetched = Moment("billing", "OffsetCommit request", "Fetch response", count)
        assert {fetched.nth(seed) for seed in range(50)} <= set(range(1, max(1, count // 2) + 1))


def test_each_moment_gets_each_blow_at_a_place_that_the_seed_fixes(plan):
    trials = plan.trials([run(BASELINE)])
    assert [trial.part for trial in trials[1:3]] == [part_of(COMMIT, "kill"), part_of(FETCH, "kill")]
    assert len({trial.run_id for trial in trials}) == len(trials) == 7
    (crash,) = trials[1].subject.scenario.faults
    assert crash.kind == "app.kill"
    wire = crash.when.wire
    assert (wire.api, wire.side, wire.after) == ("OffsetCommit", "request", "Produce response")
    assert 11 <= wire.nth <= 20 and wire.nth == plan.trials([run(BASELINE)])[1].subject.scenario.faults[0].when.wire.nth
    assert [fault.name for fault in trials[-1].subject.scenario.faults] == ["leave-billing", CRASH, "broker"]


def test_the_answer_to_a_write_is_lost_once_with_its_connection_beside_the_crash_there(plan, monkeypatch):
    answered = Moment("billing", "Produce response", "Produce request", 30)
    other = Moment("billing", "Produce response", "Produce response", 9)
    monkeypatch.setattr(plan, "moments_of", lambda source: [COMMIT, answered, other])
    trials = plan.trials([run(BASELINE)])[1:]
    assert [trial.part for trial in trials[:5]] == [
        part_of(COMMIT, "kill"),
        part_of(answered, "kill"),
        part_of(answered, "answer"),
        part_of(other, "kill"),
        part_of(COMMIT, "stop"),
    ]
    assert [trial.part for trial in trials if "lost" in trial.part] == [part_of(answered, "answer")]
    (cut,) = trials[2].subject.scenario.faults
    assert (cut.kind, cut.app, cut.api, cut.side, cut.count) == ("wire.cut", "billing", "Produce", "response", 1)
    assert cut.when.wire.after == "Produce request"
    assert cut.heal.when.after == f"{CRASH}.proven + 1s"
    windows = plan.result([run(BASELINE), run(part_of(answered, "answer"))], "c", 60).windows
    assert windows[1].states == {"answer": "held"}
    assert [window.untried("answer") for window in windows] == ["-", "not tried", "-"]


@pytest.mark.parametrize("api", WRITES)
def test_the_answer_to_every_kind_of_write_can_be_lost(plan, monkeypatch, api):
    moment = Moment("billing", f"{api} response", f"{api} request", 30)
    monkeypatch.setattr(plan, "moments_of", lambda source: [moment])
    (lost,) = (trial for trial in plan.trials([run(BASELINE)]) if trial.part == part_of(moment, "answer"))
    assert [fault.api for fault in lost.subject.scenario.faults] == [api]


def test_what_broke_under_the_crash_alone_is_not_tried_with_the_crash_of_a_broker(plan):
    broken = plan.trials([run(BASELINE), run(part_of(COMMIT, "kill"), "fail", effect_duplicate="work twice")])
    assert [t.part for t in broken if "with its broker" in t.part] == [part_of(FETCH, "broker")]


@pytest.mark.parametrize(
    ("runs", "state"),
    [
        ([run("x")], "held"),
        ([run("x", "fail", **{DOUBLED: ""})], "doubled"),
        ([run("x", "fail", **{DOUBLED: "", LOST: "offsets first"})], "lost"),
        ([run("x", "fail", **{LOST: CAUSES["unread"].text})], "hung"),
        ([run("x", "fail", **{DOUBLED: "", LOST: CAUSES["unread"].text})], "hung"),
        ([run("x", "fail", **{LOST: CAUSES["unread"].text, "effect_missing rows": "offsets first"})], "lost"),
        ([run("x", "fail", lost_write="")], "broken"),
        (
            [run("x", "inconclusive", sentence="fault crash was never injected: its trigger did not come")],
            "not reached",
        ),
        (
            [
                run(
                    "x",
                    "inconclusive",
                    sentence="injection failed: there was nothing to kill: b/1 did not run",
                )
            ],
            "not reached",
        ),
        ([run("x", "inconclusive", sentence="the brokers are gone")], "undecided"),
    ],
)
def test_a_moment_has_the_state_that_its_runs_show(runs, state):
    assert state_of(runs) == state


def test_the_verdict_is_red_with_a_broken_moment_and_open_without_one_that_held(plan):
    broken = run(part_of(COMMIT, "kill"), "fail", **{LOST: "offsets first"})
    assert plan.result([run(BASELINE), broken], "c", 60).verdict == "fail"
    assert plan.result([run(BASELINE), run(part_of(FETCH, "kill"))], "c", 60).verdict == "pass"
    assert plan.result([run(BASELINE)], "c", 60).verdict == "inconclusive"
    first = plan.result([run(BASELINE, "fail", sentence="It lost 2.")], "c", 60)
    assert first.verdict == "fail" and "the run without a crash is no pass: It lost 2." in first.sentence


def test_runs_go_one_after_another_if_the_first_one_shows_what_two_would_share(plan):
    used = {"kind": OUTSIDE, "at_us": 2, "words": "billing/1 listens on port 8080"}
    events = plan.folder.path / plan.run_id(BASELINE) / "events.jsonl"
    said: list[str] = []
    plan.watched, plan.say = True, said.append
    assert plan.at_once([]) is None, "there is one run to do"
    free = replace(plan)
    assert free.at_once([run(BASELINE, name=plan.run_id(BASELINE))]) is None
    events.write_text(events.read_text() + json.dumps(used) + "\n" + json.dumps(used) + "\n")
    first = run(BASELINE, name=plan.run_id(BASELINE))
    assert plan.at_once([first]) == plan.at_once([first]) == 1
    note = "one run at a time, as two would share what it uses: billing/1 listens on port 8080"
    assert note in plan.result([first], "c", 60).notes and said == [note]
    assert replace(plan, watched=False, _outside=None).at_once([first]) is None, "the user said how many"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, ""),
        (
            {"effects": {"sql": "sqlite:////tmp/b.db", "query": "select id from t", "id": "id"}},
            "effect invoices is in a database",
        ),
        ({"effects": {"files": "/tmp/out/*.csv"}}, "effect invoices is in files"),
        ({"effects": {"http": {"path": "/i", "port": 8099}}}, "effect invoices is received at port 8099"),
        ({"effects": {"http": {"path": "/i"}}, "apps": {"env": {"URL": "{http.invoices}"}}}, ""),
        ({"apps": {"external": True, "command": None}}, "billing is external"),
        ({"cluster": {"driver": "docker"}}, "cluster primary is not made of JVMs of the run"),
    ],
)
def test_what_a_scenario_names_outside_of_the_run_is_shared_by_two_runs(change, reason):
    raw = {
        "title": "t",
        "topics": [{"name": "orders"}, {"name": "invoices"}],
        "producers": [{"name": "shop", "topic": "orders", "value": {"template": '{{"id": "{id}"}}'}}],
        "apps": [{"name": "billing", "command": ["service", "{bootstrap}"], "reads": ["orders"], "group": "billing"}],
        "effects": [{"name": "invoices", "topic": "invoices", "id": "$.id"}],
    }
    for part, values in change.items():
        if part == "cluster":
            raw[part] = values
        else:
            raw[part] = [{k: v for k, v in ({**raw[part][0], **values}).items() if v is not None}]
    if "effects" in change:
        raw["effects"][0].pop("topic")
    assert shared(parse(json.dumps(raw), "mine.yaml")).startswith(reason)
    assert bool(shared(parse(json.dumps(raw), "mine.yaml"))) == bool(reason)


@pytest.mark.parametrize(("cpus", "free_gib", "count"), [(2, 20, 2), (1, 20, 1), (16, 200, MOST), (8, 7, 2), (8, 1, 1)])
def test_a_machine_takes_as_many_runs_as_it_has_processors_and_memory_for(cpus, free_gib, count, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: cpus)
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=free_gib << 30))
    assert runs_at_once() == count


def test_a_scenario_without_an_application_is_refused(tmp_path):
    with pytest.raises(UsageError, match="has no apps to explore"):
        explore(Request(runs_dir=tmp_path, source="clean-run"), ProgressListener())


def test_what_the_budget_left_is_counted_by_what_happens_there(plan):
    notes = plan.result([run(BASELINE), run(part_of(COMMIT, "kill"))], "c", 60).notes
    assert notes == ["not tried: 1 killed, 2 asked to end, 2 killed with its broker; --resume goes on"]


def test_a_mechanism_is_filed_once_with_its_windows_its_bundle_and_what_prevents_it(plan, tmp_path):
    first = run(part_of(COMMIT, "kill"), "fail", "a", bundle="bundles/a.tar.gz", **{LOST: "offsets first"})
    again = run(part_of(FETCH, "kill"), "fail", "b", **{LOST: "offsets first", DOUBLED: "work twice"})
    result = plan.result([run(BASELINE), first, again], "python -m chaos explore", 90)
    assert [(f.mechanism.cause, f.count, f.run) for f in result.filed] == [
        ("offsets first", 2, "a"),
        ("work twice", 1, "b"),
    ]
    write(result.model_copy(update={"folder": "/found here"}), tmp_path)
    page, summary = html.unescape((tmp_path / "report.html").read_text()), (tmp_path / "summary.md").read_text()
    replay = "python -m chaos replay '/found here/bundles/a.tar.gz'"
    for text in (replay, "OffsetCommit request", "not tried", "care", "lost"):
        assert text in page and text in summary.replace("\\", "")
    assert "| billing: Fetch request after SyncGroup response | lost | - | not tried | not tried |" in summary
