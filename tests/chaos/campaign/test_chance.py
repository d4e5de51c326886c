"""Search at random: what is drawn, what leans to the uncovered, what is filed once, shrunk and kept."""

import json
from collections import Counter
from dataclasses import replace
from itertools import count, pairwise
from random import Random
from types import SimpleNamespace

import pytest

from chaos.campaign.chance import RandomSearch, concerned, described, number_of
from chaos.campaign.engine import Plan
from chaos.campaign.folder import Folder
from chaos.campaign.mixture import CLIENTS, Cell, Mixer, Mixture, meet, options, overlaps, values_of
from chaos.campaign.moments import BASELINE, CALM, FromMoments, Moment
from chaos.campaign.subject import Request, dump, load_subject, raw_of
from chaos.faults import SPECS
from chaos.report.campaign import write
from chaos.run.campaign import Mechanism, TrialRun
from chaos.run.directory import Run
from chaos.run.events import MOMENTS
from chaos.run.result import FaultOutcome, Result
from chaos.scenario.load import of_mapping
from chaos.setup.triggers import Target

pytestmark = pytest.mark.slow

COMMIT = Moment("billing", "OffsetCommit request", "Produce response", 40)
JOIN = Moment("billing", "JoinGroup request", "LeaveGroup response", 1)
FETCH = Moment("billing", "Fetch request", "OffsetCommit response", 80)
RARE = Moment("billing", "Fetch request", "OffsetCommit request", 3)
LOST, DOUBLED = "effect_missing invoices", "effect_duplicate invoices"
PAIRS = [("app.kill", "app"), ("broker.kill", "leader_of"), ("coordinator.kill", "coordinator_of_app")]


@pytest.fixture(scope="module")
def subject():
    return load_subject("app-commit-order", "after", seed=7)


@pytest.fixture
def plan(tmp_path, subject) -> Plan:
    request = Request(runs_dir=tmp_path, into=tmp_path / "found", source="app-commit-order", seed=7)
    folder = Folder.planned(request, "explore", "explore", [])
    first = folder.path / f"{subject.name}-{BASELINE}"
    first.mkdir()
    rows = [["Produce response", "OffsetCommit request", 40], ["LeaveGroup response", "JoinGroup request", 4]]
    event = {"kind": MOMENTS, "at_us": 1, "by_instance": {"billing/1": rows}}
    (first / "events.jsonl").write_text(json.dumps(event) + "\n")
    search = RandomSearch(subject, folder)
    search._mixer = Mixer(subject, [COMMIT, JOIN], search.with_faults, lambda _: True, PAIRS)
    return search


def again(plan) -> RandomSearch:
    """The same search in a new process."""
    other = RandomSearch(plan.subject, plan.folder)
    other._mixer = Mixer(plan.subject, [COMMIT, JOIN], other.with_faults, lambda _: True, PAIRS)
    return other


def ran(plan, trial, verdict="pass", **causes) -> TrialRun:
    """A finished run of a trial, whose scenario is stored as the lab stores it."""
    (plan.folder.path / f"{trial.run_id}.yaml").write_text(dump(raw_of(trial.subject.scenario)))
    n = number_of(TrialRun(verdict="pass", sentence="", part=trial.part, n=trial.n, seed=1))
    return TrialRun(
        verdict=verdict,
        sentence="It lost 2." if causes else "",
        anomalies=dict.fromkeys(causes, 2),
        part=trial.part,
        run_id=trial.run_id,
        n=trial.n,
        seed=trial.subject.seed,
        mechanisms=[Mechanism(name=name, cause=cause, prevents="care") for name, cause in causes.items()],
        covers=[cell.key for cell in plan._drawn[n].cells] if n else [],
    )


def first_run(verdict="pass", **causes) -> TrialRun:
    found = [Mechanism(name=name, cause=cause) for name, cause in causes.items()]
    return TrialRun(
        verdict=verdict, sentence="", anomalies={}, part=BASELINE, run_id=BASELINE, seed=7, mechanisms=found
    )


def test_nothing_is_drawn_before_a_run_without_a_fault_has_passed(plan):
    assert [trial.part for trial in plan.trials([])] == [BASELINE]
    assert plan.is_over([first_run("inconclusive")]) and not plan.is_over([first_run()])


def test_the_same_seed_and_results_give_the_same_next_mixture(plan):
    def texts(search, runs):
        return [dump(raw_of(trial.subject.scenario)) for trial in search.trials(runs)[1:]]

    runs = [first_run()]
    assert texts(plan, runs) == texts(again(plan), runs) and len(texts(plan, runs)) == plan.ahead
    runs += [ran(plan, trial) for trial in plan.trials(runs)[1:]]
    assert texts(plan, runs) == texts(again(plan), runs)
    assert not set(texts(plan, runs)) & set(texts(plan, runs[:1]))
    other = again(plan)
    other.subject = replace(plan.subject, seed=8)
    assert texts(plan, [first_run()]) != texts(other, [first_run()])


def test_a_mixture_has_one_to_four_faults_of_phases_that_fit(plan):
    sizes, phases = Counter(), Counter()
    for n in range(40):
        mixture = plan.mixer(BASELINE).draw(Random(n), {})
        sizes[len(mixture.cells)] += 1
        phases.update(cell.phase for cell in mixture.cells)
        names = [fault["name"] for fault in mixture.faults]
        assert len(set(names)) == len(names) and mixture.cells[0].phase not in ("overlap", "later")
        if any(cell.phase == "rebalance" for cell in mixture.cells):
            assert "leave-billing" in names
    assert set(sizes) <= {1, 2, 3, 4} and len(sizes) > 2
    assert set(phases) == {"start", "load", "moment", "rebalance", "overlap", "later"}


def test_what_was_covered_is_drawn_less(plan):
    mixer = plan.mixer(BASELINE)
    often = {cell: 20 for cell in mixer.cells() if cell.kind != "coordinator.kill"}
    drawn = Counter(cell.kind for n in range(30) for cell in mixer.draw(Random(n), often).cells)
    assert drawn["coordinator.kill"] > 0.9 * sum(drawn.values())
    even = Counter(cell.kind for n in range(30) for cell in mixer.draw(Random(n), {}).cells)
    assert even["coordinator.kill"] < 0.7 * sum(even.values())


def test_each_kind_that_the_scenario_takes_can_be_drawn(subject):
    """A kind that is missing here has no example of a parameter that it needs, or a target without values."""
    search = RandomSearch(subject, None)
    kinds = {kind for kind, _ in Mixer(subject, [COMMIT, JOIN], search.with_faults, lambda _: True).pairs}
    assert {kind for kind in SPECS if kind.startswith("app.")} <= kinds
    assert {"broker.kill", "broker.isolate", "clock.skew", "disk.slow", "wire.delay", "topic.delete"} <= kinds
    assert not {"broker.oom", "consumer.crash", "acl.withdraw"} & kinds  # a container, a consumer, a login is missing


@pytest.mark.parametrize("kind", sorted(kind for kind in SPECS if not kind.startswith(("cluster.", "wire.produce"))))
def test_the_example_of_a_kind_has_the_parameters_that_it_needs(kind):
    spec = SPECS[kind]
    spec.model_rebuild()
    given = {"name", "kind", "target", "when", *spec.example_parameters()}
    assert {name for name, info in spec.model_fields.items() if info.is_required() and not list(options(info))} <= given


def test_each_selector_that_the_scenario_has_gets_values(plan):
    values = plan.mixer(BASELINE).values
    missing = set(Target.model_fields) - values.keys()
    absent = {"rack", "coordinator_of", "random_member_of", "share_coordinator_of"}
    assert missing == absent | {"controller_observer"}, "no voter is removed before"


def fault(kind, role, value, **more):
    return {"kind": kind, "target": {role: value}, **more}


@pytest.mark.parametrize(
    ("one", "other", "may"),
    [
        (("broker.kill", "leader_of", "orders/0"), ("wire.drop", "broker", 3), True),
        (("topic.delete", "topic", "orders"), ("broker.kill", "controller", True), True),
        (("broker.kill", "broker", 1), ("app.kill", "app", "billing"), False),
        (("app.kill", "app", "billing"), ("app.pause", "app", "billing/2"), True),
        (("app.kill", "app", "billing/1"), ("app.pause", "app", "billing/2"), False),
        (("app.kill", "app", "billing"), ("app.kill", "app", "shipping"), False),
        (("producer.crash", "member", "shop/1"), ("client.quota", "random_member", "shop"), True),
        (("producer.crash", "member", "shop/1"), ("consumer.crash", "random_member_of", "billing"), True),
        (("producer.crash", "member", "shop/1"), ("broker.kill", "broker", 1), False),
    ],
)
def test_faults_meet_if_they_may_hit_the_same_broker_instance_or_client(one, other, may):
    assert meet(fault(*one), fault(*other)) == meet(fault(*other), fault(*one)) == may


@pytest.mark.parametrize(
    ("first", "second", "may"),
    [
        (("broker.kill", "leader_of", "orders/0"), ("broker.pause", "leader_of", "orders/0"), True),
        (("broker.kill", "leader_of", "orders/0"), ("broker.pause", "broker", 2), False),  # it may be the one down
        (("broker.kill", "leader_of", "orders/0"), ("disk.slow", "all_brokers", True), False),
        (("broker.kill", "broker", 2), ("topic.config", "topic", "orders"), True),
        (("broker.kill", "broker", 2), ("partition.reassign", "partition", "orders/0"), False),  # all are to be in sync
        (("topic.config", "topic", "orders"), ("partition.reassign", "partition", "orders/0"), True),
        (("broker.kill", "broker", 2), ("clock.skew", "controller", True), False),
        (("wire.drop", "broker", 2), ("broker.kill", "broker", 2), True),  # its broker is up
        (("clock.jump", "broker", 2), ("clock.jump", "controller", True), False),
        (("topic.delete", "topic", "orders"), ("broker.kill", "leader_of", "orders/0"), False),
        (("app.kill", "app", "billing"), ("app.pause", "app", "billing"), False),
    ],
)
def test_a_fault_overlaps_another_one_if_its_own_effect_can_be_seen(first, second, may):
    assert overlaps(fault(*first), fault(*second), 3) == may


def test_nothing_overlaps_an_outage_of_the_only_broker():
    paused, config = fault("controller.pause", "controller", True), fault("topic.config", "topic", "orders")
    assert overlaps(paused, config, 3) and not overlaps(paused, config, 1)
    assert overlaps(config, paused, 1)  # a setting that is in and proven stays so


def drawn(subject, moments, count=40):
    search = RandomSearch(subject, None)
    mixer = Mixer(subject, moments, search.with_faults, search._could_break)
    return mixer, [mixer.draw(Random(n), {}) for n in range(count)]


@pytest.fixture(scope="module")
def many(subject):
    return drawn(subject, [COMMIT, FETCH, JOIN, RARE])


def sort_of(fault):
    (role,) = fault["target"]
    return "client" if role in CLIENTS else "app" if role == "app" else "cluster"


def test_of_the_faults_that_meet_one_alone_begins_by_itself_and_the_next_waits_for_it(many):
    for mixture in many[1]:
        by_name = {f["name"]: f for f in mixture.faults}
        for sort in ("cluster", "app", "client"):
            own = [f for f in mixture.faults if sort_of(f) == sort]
            for earlier, later in pairwise(own):
                if not meet(earlier, later) or later["when"].get("wire", {}).get("app"):
                    continue
                trigger = later["when"].get("after") or later["when"]["works"]["after"]
                awaited = trigger.partition(".")[0]
                assert meet(by_name[awaited], later)
                assert sort == "cluster" or ".healed" in trigger or "heal" not in by_name[awaited]
                assert ".injected" not in trigger


def test_a_fault_heals_after_its_proof_unless_the_brokers_have_to_be_back_for_it(many):
    for mixture in many[1]:
        for fault in (f for f in mixture.faults if f["name"] in mixture.names and "heal" in f):
            back = next(iter(fault["target"])) in SPECS[fault["kind"]].proven_when_back
            assert ("after" in fault["heal"]) == back


def test_a_fault_of_frames_is_of_frames_that_come_to_its_brokers_all_the_time(many):
    frames = [f for m in many[1] for f in m.faults if f["kind"].startswith("wire.") and f["kind"] != "wire.slow"]
    assert frames
    for f in frames:
        (role, value), api = next(iter(f["target"].items())), f.get("api")
        assert role in ("leader_of", "isr_of", "coordinator_of_app", "all_brokers") and f["app"] == "billing"
        assert not {"topic", "partition"} & f.keys() and api != "JoinGroup"
        if api == "OffsetCommit":
            assert role in ("coordinator_of_app", "all_brokers")
        if api in ("Produce", "Fetch") and role != "all_brokers":
            assert value.partition("/")[0] == {"Produce": "invoices", "Fetch": "orders"}[api]


def test_a_moment_that_was_rare_is_not_drawn_and_one_of_a_rebalance_comes_after_any_step(many):
    mixer, mixtures = many
    waits = [f["when"]["wire"] for m in mixtures for f in m.faults if "wire" in f["when"]]
    assert {w["api"] for w in waits} == {"OffsetCommit", "Fetch", "JoinGroup"}
    for wire in waits:
        assert ("after" in wire) == (wire["api"] != "JoinGroup")
        assert wire["nth"] <= {"OffsetCommit": 10, "Fetch": 20, "JoinGroup": 1}[wire["api"]]
    often = Mixer(mixer.subject, [replace(JOIN, count=8)], mixer.with_faults, mixer.accepts, PAIRS)
    faults = [f for n in range(20) for f in often.draw(Random(n), {}).faults if "wire" in f["when"]]
    # not in the first half, which may be the start of the group
    assert {f["when"]["wire"]["nth"] for f in faults if f["when"]["wire"]["api"] == "JoinGroup"} == {5, 6}
    only_rare = Mixer(mixer.subject, [RARE], mixer.with_faults, mixer.accepts, PAIRS)
    assert only_rare.phases == ["start", "load", "overlap", "later"]


def test_no_instance_is_drawn_at_an_answer_that_may_come_after_it_has_left(subject):
    sides = [Moment("billing", f"LeaveGroup {side}", "OffsetCommit response", 4) for side in ("request", "response")]
    mixer, _ = drawn(subject, sides, 0)
    mixer.pairs = [pair for pair in mixer.pairs if pair[0] in ("app.kill", "app.stop", "app.pause", "app.slow")]
    own = [f for n in range(60) for f in mixer.draw(Random(n), {}).faults if "wire" in f["when"]]
    drawn_at = {(f["target"]["app"], f["when"]["wire"]["side"]) for f in own}
    assert ("billing", "request") in drawn_at
    assert {app for app, side in drawn_at if side == "response"} <= {"billing/2"}  # the one that does not leave


def test_what_needs_a_state_or_records_that_are_not_there_is_not_drawn(many):
    mixer = many[0]
    cells = Mixer(mixer.subject, mixer.moments, mixer.with_faults, lambda _: True).cells()
    kinds = {cell.kind for cell in cells}
    assert not {"group.reset_offsets", "group.delete", "election.preferred", "election.unclean"} & kinds
    assert {c.phase for c in cells if c.kind == "topic.delete_records"} >= {"load", "later"}
    assert not [c for c in cells if c.kind in ("topic.delete_records", "log.truncate") and c.phase == "start"]
    assert "producer.join" not in kinds  # of the only producer: nothing would happen before


def test_a_kind_under_which_no_application_could_promise_anything_is_not_among_what_can_be_covered(many):
    kinds = {kind for kind, _ in many[0].pairs}
    assert not {"wire.error", "wire.produce", "topic.delete_records"} & kinds
    assert {"wire.corrupt", "wire.cut"} <= kinds


def test_a_kind_that_hits_the_application_is_drawn_rather_than_one_that_it_may_not_notice(many):
    mixer = many[0]
    own, other = Cell("wire.cut", "leader_of", "load"), Cell("disk.slow", "leader_of", "load")
    roles = Counter(kind for kind, _ in mixer.pairs)
    weights = dict(zip((own, other), mixer._weights([own, other], Counter(), {}), strict=True))
    assert weights[own] * roles["wire.cut"] > weights[other] * roles["disk.slow"]


def test_the_other_end_of_a_link_is_another_broker(many):
    mixer, none = many[0], Mixture([], [], many[0].subject.scenario)
    for role in ("leader_of", "broker", "random_broker", "controller"):
        cell = Cell("link.cut", role, "load")
        found = [m.faults[0] for n in range(9) if (m := mixer._added(none, cell, Random(n)))]
        assert bool(found) == (role in ("leader_of", "broker")) == (("link.cut", role) in mixer.pairs)
        for cut in found:
            same = {"leader_of": {"follower_of": cut["target"].get(role)}}.get(role)
            assert cut["other"] == same or (role == "broker" and cut["other"]["broker"] != cut["target"]["broker"])


def test_each_fault_has_its_time(many):
    for mixture in many[1]:
        assert mixture.scenario.limits.drive == 60 * (1 + len(mixture.faults))


def test_a_fault_that_costs_something_in_any_case_forbids_nothing(plan):
    def bounds(**fault):
        loaded = of_mapping(plan.with_faults([{"name": "f1", "when": {"acked": 9}, **fault}]), "x")
        judged = plan._judged(loaded)
        bound = judged.expect.effects["invoices"]
        assert plan._could_break(loaded) == (0 in (bound.missing.max, bound.duplicate.max))
        return {kind: bound.max for (_, kind), bound in judged.expect.effect_counts().items()}

    killed = bounds(kind="app.kill", target={"app": "billing"})
    assert killed["missing"] == 0 and killed["duplicate"] is None  # which the scenario allows in some number
    assert bounds(kind="log.truncate", target={"isr_of": "invoices/0"})["missing"] is None
    assert bounds(kind="topic.delete", target={"topic": "orders"})["missing"] is None
    assert bounds(kind="topic.recreate", target={"topic": "invoices"})["missing"] is None


def test_a_fault_of_a_rebalance_is_not_tried_without_the_fault_that_causes_it(plan):
    runs = [first_run()]
    plan.trials(runs)
    mixtures = (plan._mixture(n, runs, BASELINE) for n in count(1))
    big = next(m for m in mixtures if "rebalance" in {cell.phase for cell in plan._drawn[m.n].cells})
    runs.append(ran(plan, big, "fail", lost_write="a"))
    tried = []
    while candidates := [t for t in plan.trials(runs)[1:] if not t.part.startswith("mixture")]:
        tried.append({fault.name for fault in candidates[0].subject.scenario.faults})
        runs.append(ran(plan, candidates[0], "pass"))
    waiting = {
        n
        for n, cell in zip(plan._drawn[big.n].names, plan._drawn[big.n].cells, strict=True)
        if cell.phase == "rebalance"
    }
    assert all("leave-billing" in names for names in tried if names & waiting)


def test_what_breaks_is_shrunk_to_the_faults_that_it_needs_and_filed_once(plan, tmp_path):
    runs = [first_run()]
    while True:
        trials = plan.trials(runs)[1:]
        if big := next((t for t in trials if len(t.subject.scenario.faults) > 2), None):
            break
        runs.append(ran(plan, trials[0]))
    runs.append(ran(plan, big, "fail", **{LOST: "offsets first"}))
    needed = big.subject.scenario.faults[0].name
    while candidates := [t for t in plan.trials(runs)[1:] if not t.part.startswith("mixture")]:
        names = [fault.name for fault in candidates[0].subject.scenario.faults]
        assert candidates[0].subject.seed == big.subject.seed
        causes = {LOST: "offsets first"} if needed in names else {}
        runs.append(ran(plan, candidates[0], "fail" if causes else "pass", **causes))
    following = plan.trials(runs)[1:][0]
    runs.append(ran(plan, following, "fail", **{LOST: "offsets first"}))
    assert not [t for t in plan.trials(runs)[1:] if not t.part.startswith("mixture")]  # known: not shrunk again
    runs.append(ran(plan, plan.trials(runs)[1:][0], "inconclusive"))

    result = plan.result(runs, "python -m chaos explore --random", 600)
    (filed,) = result.filed
    assert (
        filed.count == 2
        and len(filed.faults) == 1
        and filed.size == (f"1 of {len(big.subject.scenario.faults)} faults are needed")
    )
    assert result.verdict == "fail" and "1 mechanism broke a promise" in result.sentence
    assert sum(cell.undecided for cell in result.covered) and sum(cell.broke for cell in result.covered)
    assert f"{sum(cell.runs > 0 for cell in result.covered)} of " in result.sentence.rpartition("decided. ")[2]
    write(result, tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "combinations" in page and "offsets first" in page and "care" in page and filed.faults[0] in page
    assert "offsets first" in (tmp_path / "summary.md").read_text()


def test_a_run_with_something_new_is_packed_and_others_keep_their_line_alone(plan, monkeypatch):
    monkeypatch.setattr(Folder, "pack_run", lambda folder, run_id: f"bundles/{run_id}.tar.gz")
    monkeypatch.setattr(FromMoments, "observe", lambda plan, trial, finished, folder: finished.stored)

    def stored(trial, verdict="pass", **causes) -> tuple[TrialRun, bool]:
        (plan.folder.path / trial.run_id).mkdir(exist_ok=True)
        finished = SimpleNamespace(stored=ran(plan, trial, verdict, **causes), run=Run(plan.folder.path / trial.run_id))
        observed = plan.observe(trial, finished, plan.folder)
        plan.folder.store(observed)
        return observed, (plan.folder.path / trial.run_id).exists()

    baseline, kept = stored(plan.trials([])[0])
    assert kept and not baseline.bundle and not baseline.covers
    for verdict, causes, bundled, left in (
        ("pass", {}, False, False),
        ("fail", {LOST: "offsets first"}, True, True),
        ("fail", {LOST: "offsets first"}, False, False),
        ("fail", {LOST: "offsets first", DOUBLED: "work twice"}, True, True),
        ("inconclusive", {}, False, True),
    ):
        trial = next(t for t in plan.trials(plan.folder.runs()) if t.part.startswith("mixture"))
        run, kept = stored(trial, verdict, **causes)
        assert (bool(run.bundle), kept) == (bundled, left) and run.covers


def test_a_run_without_a_verdict_covers_only_what_is_why(plan, tmp_path, monkeypatch):
    mixture = next(m for n in range(20) if len((m := plan.mixer(BASELINE).draw(Random(n), {})).cells) > 1)
    unproven = FaultOutcome(name="f2", kind="x", trigger="t", target="y", injected_us=1)
    proven = FaultOutcome(name="f1", kind="x", trigger="t", target="y", injected_us=1, proven_us=2)
    monkeypatch.setattr(Result, "read", lambda run: SimpleNamespace(faults=[proven, unproven]))
    open_ = TrialRun(verdict="inconclusive", sentence="", anomalies={}, seed=1)
    assert concerned(mixture, open_, Run(tmp_path)) == [mixture.cells[1]]
    assert concerned(mixture, open_.model_copy(update={"verdict": "pass"}), Run(tmp_path)) == mixture.cells
    monkeypatch.setattr(Result, "read", lambda run: SimpleNamespace(faults=[proven]))
    assert concerned(mixture, open_, Run(tmp_path)) == mixture.cells


def test_what_is_not_decided_is_not_covered_and_says_why(plan, tmp_path):
    runs = [first_run(), ran(plan, plan.trials([first_run()])[1], "inconclusive")]
    runs[1] = runs[1].model_copy(update={"sentence": "No verdict: fault f1 was injected, but no effect was seen."})
    result = plan.result(runs, "c", 60)
    assert "0 of" in result.sentence and result.covered and not any(cell.runs for cell in result.covered)
    write(result, tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "Covered: 0 of" in page and "Not decided, and why" in page
    assert page.count("fault f1 was injected, but no effect was seen") > 1


def test_the_verdict_is_green_if_mixtures_held_and_open_without_one(plan, tmp_path):
    runs = [first_run()]
    assert plan.result(runs, "c", 60).verdict == "inconclusive"
    runs.append(ran(plan, plan.trials(runs)[1]))
    assert plan.result(runs, "c", 60).verdict == "pass"
    broken = plan.result([first_run("fail", **{DOUBLED: "work twice"})], "c", 60)
    assert broken.verdict == "fail" and [f.where for f in broken.filed] == [["an instance leaves and comes back"]]
    write(broken.model_copy(update={"command": "python -m chaos explore x --random"}), tmp_path)
    assert "<b>Mixtures.</b>" in (tmp_path / "report.html").read_text()
    assert "(1 run, first" in (tmp_path / "summary.md").read_text()


def test_a_fault_that_is_needed_is_told_with_its_parameters(plan):
    change = {"settings": {"max.message.bytes": 1000}, "target": {"topic": "invoices"}, "when": {"acked": 9}}
    kill = {"name": "f2", "kind": "broker.kill", "target": {"broker": 1}, "when": {"at": "1s"}}
    loaded = of_mapping(plan.with_faults([{"name": "f1", "kind": "topic.config", **change}, kill]), "x")
    assert [described(fault) for fault in loaded.faults] == [
        'topic.config (settings={"max.message.bytes": 1000}) of topic invoices at 9 acknowledged records',
        "broker.kill of broker 1 1 s after the start",
    ]


def test_what_breaks_already_when_an_instance_leaves_is_filed_once_and_not_shrunk(plan):
    calm = first_run().model_copy(update={"part": CALM, "run_id": CALM})
    runs = [first_run("fail", **{DOUBLED: "work twice"}), calm]
    (plan.folder.path / f"{plan.subject.name}-{CALM}").mkdir()
    mixture = next(t for t in plan.trials(runs) if t.part.startswith("mixture"))
    runs.append(ran(plan, mixture, "fail", **{DOUBLED: "work twice"}))
    assert not [t for t in plan.trials(runs) if t.part.startswith(mixture.run_id)]
    (filed,) = plan.result(runs, "c", 60).filed
    assert filed.count == 2 and filed.where == ["an instance leaves and comes back", mixture.part]


def test_a_scenario_of_clients_is_searched_without_moments(tmp_path):
    subject = load_subject("leader-kill", seed=7)
    search = RandomSearch(subject, None)
    (first,) = search.first_runs([])
    assert first.subject.scenario.faults == [] and first.subject.scenario.expect.promised
    pairs = [("broker.kill", "leader_of"), ("consumer.crash", "member")]
    search._mixer = Mixer(subject, [], search.with_faults, search._could_break, pairs)
    assert search._mixer.phases == ["start", "load", "overlap", "later"]
    mixture = search._mixer.draw(Random(1), {Cell("broker.kill", "leader_of", "load"): 3})
    assert mixture.cells and all(p.outlast_faults for p in mixture.scenario.producers)


def test_the_group_of_an_application_is_a_target_of_faults_of_groups(subject):
    (app,) = subject.scenario.apps
    named = subject.scenario.model_copy(update={"apps": [app.model_copy(update={"group": "billing"})]})
    assert values_of(named)["group"] == ["billing"]


def test_an_application_is_isolated_from_brokers_that_it_speaks_to(many):
    isolated = {f.get("brokers", "all") for m in many[1] for f in m.faults if f["kind"] == "app.isolate"}
    assert set(options(SPECS["app.isolate"].model_fields["brokers"])) == {"all", "majority"} >= isolated
