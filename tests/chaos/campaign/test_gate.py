"""Gates: what makes no sense is refused, what is shown is decided, and what is not known is never green."""

from __future__ import annotations

import json
import math
import random
import statistics
from pathlib import Path
from typing import Any

import pytest
import yaml

from chaos.campaign import engine
from chaos.campaign.clients import clients_of
from chaos.campaign.engine import run_campaign
from chaos.campaign.folder import Folder
from chaos.campaign.gate import matrix
from chaos.campaign.gate.gate import GateRequest, trials_of
from chaos.campaign.gate.gate import judged as judged_runs
from chaos.campaign.gate.judge import GateJudge
from chaos.campaign.gate.model import find, load, parse, passes_for
from chaos.clients.choice import RUNTIMES
from chaos.clients.runtime import runtime
from chaos.errors import AftershockError, ResolveError, RunDirError, ScenarioError, UsageError
from chaos.guarantees.contract import contract
from chaos.lab.lab import FinishedRun
from chaos.lab.progress import ProgressListener
from chaos.run import ranks
from chaos.run.campaign import GateResult, TrialRun
from chaos.run.result import Metric, RunOutcome
from chaos.scenario.shipped import gates
from tests.chaos.incident.test_bundle import a_run
from tests.support.labs import FakeLab

GATE: dict[str, Any] = {"title": "t", "scenarios": ["leader-kill"], "kafka": ["3.9.2", "4.3.1"], "repeat": 8}
ATTACHED = {"cluster.driver": "attached", "cluster.bootstrap": "a:1"}
REFERENCE = {"reference": {"kafka": "3.9.2"}}


def gate(**changes: Any):
    return parse(yaml.safe_dump({**GATE, **changes}), "GATE.yaml")


def cells(**changes: Any):
    return matrix.plan(gate(**changes), Path()).cells


def time(value_us: float, metric: str = "produce_unavailability", stat: str = "max") -> Metric:
    return Metric(metric=metric, scope="orders", fault="kill", stat=stat, value_us=round(value_us))


def runs(count: int = 8, us: float = 5e6, verdict: str = "pass", sigma: float = 0.03, salt: str = "") -> list[TrialRun]:
    """Runs that all have this verdict, and take about so long."""
    draw = random.Random(f"{us}{salt}")
    return [
        TrialRun(
            n=n,
            seed=n,
            verdict=verdict,  # type: ignore[arg-type]
            sentence=f"it is {verdict}",
            times=[time(us * draw.lognormvariate(0, sigma))] if us else [],
        )
        for n in range(1, count + 1)
    ]


def judged(by_cell: dict[int, list[TrialRun]], stored: GateResult | None = None, **changes: Any) -> GateResult:
    model = gate(**changes)
    planned = matrix.plan(model, Path())
    pairs = matrix.pairs(model, planned.cells, stored, planned.left_out)
    return GateJudge(model, "g", "command", 7, planned.cells, pairs, stored, planned.left_out).result(by_cell)


# what makes no sense


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scenarios": []}, "the gate has no cells: scenarios is empty"),
        ({"kafka": []}, "the gate has no cells: kafka is empty"),
        ({"settings": {}}, "the gate has no cells: settings is empty"),
        ({"exclude": [{"scenario": "leader-kill"}]}, "the gate has no cells: everything is excluded"),
        ({"kafka": ["4.9.9"]}, r"Kafka 4.9.9 is not in releases.yaml .*did you mean"),
        ({"clients": ["1.0.0"]}, "confluent-kafka 1.0.0 is not in releases.yaml"),
        ({"kafka": ["4.3.1", "4.3.1"]}, "duplicate cells: kafka names 4.3.1 twice"),
        ({"scenarios": ["leader-kill", "leader-kill"]}, "duplicate cells: scenarios names leader-kill twice"),
        (
            {"settings": {"a": {}, "b": {"set": {"cluster.brokers": 3}}}},
            "duplicate cells: .*, a and .*, b run the same",
        ),
        ({"scenarios": ["leader-kil"]}, "did you mean leader-kill"),
        ({"scenarios": ["none.yaml"]}, "there is no scenario file none.yaml"),
        (
            {"scenarios": ["acks1-leader-kill"]},
            "has variants, .* acks1-leader-kill/acks-1 or acks1-leader-kill/acks-all",
        ),
        ({"scenarios": ["leader-kill/acks-1"]}, "no variant 'acks-1'"),
        ({"settings": {"a": {"set": {"producers.shp.config.acks": 1}}}}, "did you mean shop"),
        (
            {"settings": {"a": {"set": {"producers.shop.config.ackz": 1}}}},
            "ackz is no setting of confluent-kafka .*did you mean acks",
        ),
        (
            {"scenarios": ["clean-run"], "kafka": None, "settings": {"a": {"set": ATTACHED}}},
            "uses an existing cluster; the cells of a gate start new ones",
        ),
        ({"settings": {"a": {"expect": {"lost_wrte": 0}}}}, "lost_wrte: unknown key"),
        ({"time": {"only": ["recovery"]}}, "there is no metric 'recovery'; known are produce_unavailability"),
        (
            {"time": {"scenarios": ["leader-kil"]}},
            "time.scenarios: the gate has no scenario leader-kil; it has leader-kill",
        ),
        ({"time": {"margin": 0.5}}, "time.margin: must be at least 1"),
        ({"integrity": {"below": 0.05}}, "takes 59 passes of each cell; repeat is 8"),
        ({"repeat": 0}, "repeat: "),
        ({"reference": {}}, "reference: name one of"),
        ({"reference": {"kafka": "3.9.2", "client": "2.5.0"}}, "one value of one axis"),
        ({"colour": "red"}, "colour: unknown key"),
    ],
)
def test_a_gate_that_makes_no_sense_is_one_line_before_anything_runs(changes, message):
    with pytest.raises((UsageError, ScenarioError), match=message) as refused:
        cells(**changes)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "is a list, not a gate: it must be a mapping"),
        ("title: [", "is not valid YAML"),
        ("title: a\ntitle: b", "given twice"),
        ("title: a", "scenarios: is required"),
    ],
)
def test_a_file_that_is_no_gate_is_refused(text, message):
    with pytest.raises(ScenarioError, match=message):
        parse(text, "GATE.yaml")


def test_an_unknown_gate_is_refused_with_the_known_names(tmp_path):
    with pytest.raises(ScenarioError, match=r"upgrade-3\.9-to-4\.3"):
        find(str(tmp_path / "none.yaml"))


@pytest.mark.parametrize("name", gates())
def test_every_shipped_gate_has_cells_and_compares_them_where_it_says_so(name):
    model = load(gates()[name])
    planned = matrix.plan(model, gates()[name].parent).cells
    pairs = matrix.pairs(model, planned, None)
    if model.reference is None:  # such as rolling-upgrade: each cell is judged by its contract alone
        assert (pairs, len(planned) > 1) == ([], True)
        return
    assert len(pairs) == len(planned) - len({pair.other for pair in pairs}) > 0
    tests = 12 * len(pairs)  # about as many times as a cell has
    assert model.repeat >= ranks.needed(1 - model.time.confidence, tests), "else it could never show a slower time"


# the matrix


def test_the_matrix_is_every_value_with_every_other_and_says_what_each_cell_really_runs():
    planned = cells(
        clients=["2.5.0", runtime().default_release()],
        settings={
            "acks-1": {"set": {"producers.shop.config.acks": 1}, "expect": {"lost_write": {"min": 0}}},
            "as-is": {},
        },
        exclude=[{"kafka": "3.9.2", "settings": "acks-1"}],
    )
    assert [(c.number, c.key.kafka, c.key.client, c.key.settings) for c in planned] == [
        (1, "3.9.2", "2.5.0", "as-is"),
        (2, "3.9.2", runtime().default_release(), "as-is"),
        (3, "4.3.1", "2.5.0", "acks-1"),
        (4, "4.3.1", "2.5.0", "as-is"),
        (5, "4.3.1", runtime().default_release(), "acks-1"),
        (6, "4.3.1", runtime().default_release(), "as-is"),
    ]
    three = planned[2].subject.scenario
    assert (three.cluster.kafka, three.clients.confluent_kafka) == ("4.3.1", "2.5.0")
    assert three.producers[0].config["acks"] == 1
    assert three.expect.lost_write.describe() == "any number"
    assert planned[3].subject.scenario.expect.lost_write.describe() == "0"
    setups = [cell.setup for cell in planned]
    assert setups[2] == setups[4] != setups[0] == setups[1] == setups[3] == setups[5], "releases are no part of it"


def test_two_files_of_one_name_would_be_one_cell(tmp_path):
    text = (Path(matrix.__file__).parents[2] / "scenarios/clean-run.yaml").read_text()
    for folder, content in (("a", text), ("b", text + "seed: 7\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.yaml").write_text(content)
    with pytest.raises(UsageError, match="two scenario files are called mine"):
        matrix.plan(gate(scenarios=["a/mine.yaml", "b/mine.yaml"], kafka=["4.3.1"]), tmp_path)


def test_a_scenario_file_lies_beside_its_gate(tmp_path):
    (tmp_path / "mine.yaml").write_text((Path(matrix.__file__).parents[2] / "scenarios/clean-run.yaml").read_text())
    assert [c.key.scenario for c in matrix.plan(gate(scenarios=["mine.yaml"]), tmp_path).cells] == ["mine"] * 2


def test_a_variant_of_a_scenario_file_is_a_cell_as_the_refusal_of_the_file_says(tmp_path):
    (tmp_path / "mine.yaml").write_text(matrix.find("acks1-leader-kill").read_text())
    with pytest.raises(UsageError, match=r"one of them: mine\.yaml/acks-1 or mine\.yaml/acks-all"):
        matrix.plan(gate(scenarios=["mine.yaml"], kafka=None), tmp_path)
    (cell,) = matrix.plan(gate(scenarios=["mine.yaml/acks-all"], kafka=None), tmp_path).cells
    assert cell.key.scenario == "mine/acks-all" and not cell.subject.scenario.variants
    with pytest.raises(ScenarioError, match="no variant 'acks'"):
        matrix.plan(gate(scenarios=["mine.yaml/acks"], kafka=None), tmp_path)


def test_a_derived_contract_is_that_of_each_cell(tmp_path):
    raw = yaml.safe_load((Path(matrix.__file__).parents[2] / "scenarios/leader-kill.yaml").read_text())
    del raw["expect"]
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(raw))
    settings = {
        "strong": {},
        "weak": {"set": {"producers.shop.config": {"acks": 1, "enable.idempotence": False}}},
        "closed": {"expect": {}},
        "named": {"expect": {"promised": True, "duplicate_delivery": 0}},
    }
    found = {
        cell.key.settings: [line.name for line in contract(cell.subject.scenario).lines if line.bound.max != 0]
        for cell in matrix.plan(gate(scenarios=["mine.yaml"], kafka=["4.3.1"], settings=settings), tmp_path).cells
    }
    legal = ["duplicate_delivery.legal"]
    weak = ["lost_write", "duplicate_write", "reordered_write", "offset_reuse"]
    assert found == {"strong": legal, "weak": weak + legal, "closed": [], "named": []}


# the statistic


def test_a_time_beyond_the_margin_is_shown_and_one_just_within_is_not():
    then = [1_000_000 + i for i in range(8)]
    beyond, _ = ranks.beyond([1_300_000 + i for i in range(8)], then, 1.25, 0)
    assert beyond == pytest.approx(ranks.smallest(8, 8)) == pytest.approx(1 / math.comb(16, 8))
    near, within = ranks.beyond([1_200_000 + i for i in range(8)], then, 1.25, 0)
    assert near == 1 and within == pytest.approx(ranks.smallest(8, 8))


def test_ties_count_against_what_is_to_be_shown():
    assert ranks.greater([5] * 6, [5] * 6) == 1
    assert ranks.beyond([1250] * 6, [1000] * 6, 1.25, 0)[0] == 1
    assert ranks.beyond([1251] * 6, [1000] * 6, 1.25, 0)[0] == pytest.approx(1 / math.comb(12, 6))


def test_below_the_resolution_a_difference_means_nothing():
    assert ranks.beyond([2000] * 6, [100] * 6, 1.25, 2000)[0] == 1


def test_holm_keeps_the_chance_of_any_false_alarm():
    assert ranks.holm([0.01, 0.04, 0.03, 0.005], 0.05) == [True, False, False, True]
    assert ranks.holm([0.012, 0.016, 0.025, 0.05], 0.05) == [True, True, True, True]
    assert ranks.holm([], 0.05) == []


@pytest.mark.parametrize(("alpha", "tests", "n"), [(0.05, 1, 3), (0.05, 12, 5), (0.05, 60, 7)])
def test_how_many_values_it_takes_is_known_beforehand(alpha, tests, n):
    assert ranks.needed(alpha, tests) == n
    assert ranks.smallest(n, n) <= alpha / tests < ranks.smallest(n - 1, n - 1)


def test_false_alarms_are_as_rare_as_stated_and_twice_the_time_is_found():
    """At the margin itself, the worst that is allowed, the test errs in fewer than alpha of cases."""
    draw = random.Random(1)

    def sample(scale: float) -> list[int]:
        return [round(1e6 * scale * draw.lognormvariate(0, 0.2)) for _ in range(8)]

    def shown(now: float, margin: float, alpha: float, times: int) -> float:
        slower = [ranks.greater(sample(now), [margin * y for y in sample(1)]) <= alpha for _ in range(times)]
        return statistics.mean(slower)

    assert shown(1.25, 1.25, 0.05, 200) < 0.09
    assert shown(1, 1.25, 0.005, 100) == 0
    assert shown(2, 1.25, 0.005, 60) > 0.8


# the decision


def test_clean_cells_pass_with_the_share_that_they_exclude():
    result = judged({1: runs(), 2: runs(salt="b")}, **REFERENCE)
    assert result.verdict == "pass"
    assert "0 of 8 runs broke the contract, so fewer than 31.2 % do, at 95 %" in result.cells[1].sentence
    assert [(c.cell, c.reference, c.mark) for c in result.comparisons] == [(2, "Kafka 3.9.2", "within")]
    assert [cell.reference for cell in result.cells] == [True, False]


def test_fifty_passes_are_worth_5_8_percent():
    result = judged({1: runs(50), 2: runs(50)}, repeat=50, integrity={"below": 0.06})
    assert "0 of 50 runs broke the contract, so fewer than 5.8 % do" in result.cells[0].sentence
    assert result.verdict == "pass" and "Times were not judged" in result.sentence
    assert passes_for(0.06) == 49


def test_one_broken_contract_fails_the_gate_however_many_held():
    result = judged({1: runs(), 2: [*runs(7), *runs(1, verdict="fail")]}, **REFERENCE)
    assert (result.verdict, [cell.verdict for cell in result.cells]) == ("fail", ["pass", "fail"])
    assert "1 of 8 runs broke the contract: it is fail" in result.cells[1].sentence
    assert "1 failed: leader-kill, Kafka 4.3.1" in result.sentence


def test_a_slower_time_fails_and_a_near_miss_does_not():
    slower = judged({1: runs(us=5e6), 2: runs(us=8e6)}, **REFERENCE)
    assert (slower.verdict, slower.comparisons[0].mark) == ("fail", "slower")
    assert "Slower: produce unavailability max of orders after kill, 1.6" in slower.cells[1].sentence
    near = judged({1: runs(us=5e6), 2: runs(us=5.7e6)}, **REFERENCE)
    assert (near.verdict, near.comparisons[0].mark) == ("pass", "within")
    wide = judged({1: runs(us=5e6), 2: runs(us=8e6)}, time={"margins": {"produce_unavailability": 2}}, **REFERENCE)
    assert wide.verdict == "pass"


def test_times_of_a_scenario_that_are_not_asked_for_neither_fail_nor_are_missed():
    two = {"scenarios": ["leader-kill", "clean-run"], **REFERENCE}
    numbers = {(c.key.scenario, c.key.kafka): c.number for c in cells(**two)}
    slow = {n: runs(us=20e6 if name == ("clean-run", "4.3.1") else 5e6) for name, n in numbers.items()}
    assert judged(slow, **two).verdict == "fail"
    result = judged(slow, **two, time={"scenarios": ["leader-kill"]})
    assert result.verdict == "pass" and {c.cell for c in result.comparisons} == {numbers["leader-kill", "4.3.1"]}
    assert judged(slow, **two, time={"scenarios": ["clean-run"]}).verdict == "fail"


def test_a_time_that_scatters_across_the_margin_is_named_and_open_or_not_known_as_was_asked():
    wide = {1: runs(us=5e6, sigma=0.4), 2: runs(us=6.2e6, sigma=0.4)}
    times = {
        n: [r.model_copy(update={"times": [*r.times, time(5e6 + r.n, "isr_recovery")]}) for r in wide[n]] for n in wide
    }
    result = judged(times, **REFERENCE)
    assert (result.verdict, [c.mark for c in result.comparisons]) == ("pass", ["undecided", "within"])
    assert "1 within the margin, 1 open" in result.sentence
    strict = judged(times, time={"undecided": "inconclusive"}, **REFERENCE)
    assert strict.verdict == "inconclusive" and "Not known: produce unavailability" in strict.cells[1].sentence


def test_a_cell_of_which_no_time_at_all_could_be_shown_is_not_green():
    result = judged({1: runs(us=5e6, sigma=0.4), 2: runs(us=6.2e6, sigma=0.4)}, **REFERENCE)
    assert (result.verdict, result.comparisons[0].mark) == ("inconclusive", "undecided")
    assert "of 1 times none is shown to be within its margin, nor beyond it" in result.cells[1].sentence


def test_too_few_repeats_are_noted_and_never_green():
    result = judged({1: runs(2, us=5e6), 2: runs(2, us=50e6)}, repeat=2, **REFERENCE)
    assert (result.verdict, result.comparisons[0].mark) == ("inconclusive", "too few")
    assert result.notes == [
        "Too few repeats: 1 of 1 times were measured too rarely to show anything. This number of times takes 3 values "
        "on each side, and repeat is 2."
    ]


def test_a_recovery_that_mostly_never_came_is_not_within_its_margin():
    without_times = [run.model_copy(update={"times": []}) for run in runs(8)]
    result = judged({1: runs(), 2: [*runs(8)[:3], *without_times[3:]]}, **REFERENCE)
    assert (result.verdict, result.comparisons[0].mark) == ("inconclusive", "too few")
    assert "measured in 3 of 8 runs" in result.comparisons[0].words
    never = judged({1: runs(), 2: without_times}, **REFERENCE)
    assert (never.verdict, never.comparisons[0].mark) == ("inconclusive", "too few")


def test_what_happens_now_and_then_is_no_time_to_judge():
    rare = [r.model_copy(update={"times": [*r.times, time(1e6, "rebalance_duration")]}) for r in runs(3)]
    result = judged({1: [*rare, *runs(8)[3:]], 2: runs()}, **REFERENCE)
    assert [c.metric for c in result.comparisons] == ["produce_unavailability"] and result.verdict == "pass"


def test_a_comparison_with_nothing_to_compare_is_not_green():
    result = judged({1: runs(us=0), 2: runs(us=0)}, **REFERENCE)
    assert result.verdict == "inconclusive"
    assert "no time was measured in Kafka 3.9.2" in result.cells[1].sentence


@pytest.mark.parametrize(
    ("cell_runs", "message"),
    [
        ([], "The cell did not run."),
        (runs(5), "3 of 8 runs are missing"),
        ([*runs(7), *runs(1, verdict="inconclusive")], "1 of 8 runs are inconclusive: it is inconclusive"),
        (runs(8, verdict="inconclusive"), "No run is conclusive."),
    ],
)
def test_what_is_not_known_is_named_and_inconclusive(cell_runs, message):
    result = judged({1: runs(), 2: cell_runs})
    assert result.verdict == "inconclusive"
    assert message in result.cells[1].sentence
    assert "1 inconclusive: leader-kill, Kafka 4.3.1" in result.sentence


def test_runs_beyond_what_is_asked_for_now_count_all_the_same():
    result = judged({1: runs(10), 2: [*runs(9), *runs(1, verdict="fail")]})
    assert [cell.verdict for cell in result.cells] == ["pass", "fail"]


def test_an_inconclusive_run_may_be_allowed_but_never_counts():
    result = judged({1: runs(), 2: [*runs(7), *runs(1, verdict="inconclusive")]}, integrity={"inconclusive": 1})
    assert result.verdict == "pass"
    assert (
        "0 of 7 runs broke the contract, so fewer than 34.8 % do, at 95 % (1 inconclusive)" in result.cells[1].sentence
    )


def test_the_times_of_inconclusive_runs_do_not_count():
    inconclusive = [run.model_copy(update={"verdict": "inconclusive"}) for run in runs(8, us=50e6)]
    result = judged({1: runs(), 2: [*runs(6), *inconclusive[6:]]}, integrity={"inconclusive": 2}, **REFERENCE)
    assert (result.verdict, result.comparisons[0].now, result.comparisons[0].mark) == ("pass", 6, "within")


def test_a_requested_share_has_to_be_excluded_by_conclusive_runs():
    cell_runs = [*runs(7), *runs(1, verdict="inconclusive")]
    asked = {"inconclusive": 1, "below": 0.32}
    result = judged({1: runs(), 2: cell_runs}, integrity=asked)
    assert [cell.verdict for cell in result.cells] == ["pass", "inconclusive"]
    assert (
        "Too few runs are conclusive: 0 of 7 runs broke the contract, so fewer than 34.8 %" in result.cells[1].sentence
    )


# the baseline


def test_a_stored_result_is_a_baseline_and_a_slower_gate_fails_against_it(tmp_path):
    then = judged({1: runs(), 2: runs()})
    (tmp_path / "campaign.json").write_text(then.model_dump_json())
    stored = matrix.read_baseline(tmp_path)
    assert judged({1: runs(salt="c"), 2: runs(salt="d")}, stored).verdict == "pass"
    result = judged({1: runs(), 2: runs(us=9e6)}, stored)
    assert [(c.cell, c.reference, c.mark) for c in result.comparisons] == [
        (1, "the baseline", "within"),
        (2, "the baseline", "slower"),
    ]


def test_cells_that_are_left_out_of_the_matrix_may_come_from_the_baseline():
    stored = judged({1: runs()}, kafka=["3.9.2"])
    result = judged({1: runs(us=9e6)}, stored, kafka=["4.3.1"], **REFERENCE)
    assert (result.verdict, result.comparisons[0].reference) == ("fail", "the baseline")


@pytest.mark.parametrize(
    ("then", "now", "message"),
    [
        ({"kafka": ["3.9.2"]}, {}, "of another matrix: it has no cell leader-kill, Kafka 4.3.1"),
        ({"scenarios": ["clean-run"]}, {}, "of another matrix: it has no cell leader-kill, Kafka 3.9.2.* and 1 more"),
        ({}, {"settings": {"default": {"set": {"cluster.brokers": 5}}}}, "of another matrix: .* was another scenario"),
    ],
)
def test_a_baseline_of_another_matrix_is_refused(then, now, message):
    stored = judged({}, **then)
    with pytest.raises(UsageError, match=message):
        judged({}, stored, **now)


def test_what_is_no_baseline_is_refused(tmp_path):
    with pytest.raises(UsageError, match="there is no baseline"):
        matrix.read_baseline(tmp_path)
    for text, message in (
        ("{}", "is not the result of a gate"),
        ("{", "not readable JSON"),
        ('{"format": 9}', "format 9"),
    ):
        (tmp_path / "campaign.json").write_text(text)
        with pytest.raises(RunDirError, match=message):
            matrix.read_baseline(tmp_path / "campaign.json")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"reference": {"kafka": "3.8.1"}},
            "reference kafka 3.8.1: neither the matrix nor a baseline .*matrix has 3.9.2, 4.3.1",
        ),
        ({"kafka": ["3.9.2"], **REFERENCE}, "reference Kafka 3.9.2: every cell has this value"),
        ({"reference": {"settings": "acks-1"}}, "reference settings acks-1: neither the matrix nor"),
    ],
)
def test_a_reference_that_is_not_there_is_refused(changes, message):
    with pytest.raises(UsageError, match=message):
        judged({}, **changes)


def test_another_machine_and_a_failed_baseline_are_noted():
    bad = judged({1: [*runs(7), *runs(1, verdict="fail")], 2: runs()})
    elsewhere = bad.model_copy(update={"machine": bad.machine.model_copy(update={"cpus": 999})})
    notes = " ".join(judged({1: runs(), 2: runs()}, elsewhere).notes)
    assert "another machine" in notes and "The baseline itself is not a pass" in notes
    assert judged({1: runs(), 2: runs()}, judged({1: runs(), 2: runs()})).notes == []


# client libraries as an axis

LIBRARIES = {
    "kafka": None,
    "scenarios": ["leader-kill", "slow-consumer"],
    "clients": ["2.16.0", "java:3.9.2", "sarama"],
}


def test_each_library_is_a_cell_with_its_release_and_one_that_lacks_an_ability_is_left_out_by_name():
    planned = matrix.plan(gate(**LIBRARIES), Path())
    assert [(c.key.scenario, c.key.client) for c in planned.cells] == [
        *(("leader-kill", client) for client in ("2.16.0", "java:3.9.2", "sarama:1.61.1")),
        *(("slow-consumer", client) for client in ("2.16.0", "java:3.9.2")),
    ]
    for cell in planned.cells:
        assert clients_of(cell.subject.scenario) == cell.key.client
    (out,) = planned.left_out
    assert (out.key.scenario, out.key.client) == ("slow-consumer", "sarama:1.61.1")
    assert "max.poll.interval.ms is no setting of sarama" in out.reason


def test_two_spellings_of_one_library_are_one_value():
    model = gate(**{**LIBRARIES, "clients": ["confluent:2.16.0", "sarama:1.61.1"]}, reference={"client": "2.16.0"})
    assert model.clients == ["2.16.0", "sarama:1.61.1"]
    assert gate(**{**LIBRARIES, "reference": {"client": "sarama"}}).reference.client == "sarama:1.61.1"
    with pytest.raises(UsageError, match=r"clients names sarama:1\.61\.1 twice"):
        matrix.plan(gate(**{**LIBRARIES, "clients": ["sarama", "sarama:1.61.1"]}), Path())


@pytest.mark.parametrize(
    ("client", "message"),
    [("jvm", "there is no runtime 'jvm'"), ("java:1.0.0", "kafka-clients 1.0.0 is not supported")],
)
def test_an_unknown_library_is_refused(client, message):
    with pytest.raises(ScenarioError, match=message):
        gate(**{**LIBRARIES, "clients": [client]})


def test_a_library_that_can_run_nothing_makes_the_gate_inconclusive():
    some = judged(dict.fromkeys(range(1, 6), runs()), **LIBRARIES)
    assert some.verdict == "pass" and "1 cannot run and were not judged (sarama:1.61.1)" in some.sentence
    assert some.notes[0].startswith("Left out: slow-consumer, Kafka 4.3.1, client sarama:1.61.1: consumers[0]")
    none = judged(dict.fromkeys((1, 2), runs()), **{**LIBRARIES, "scenarios": ["slow-consumer"]})
    assert none.verdict == "inconclusive"
    assert none.notes[0] == "sarama:1.61.1 was not judged: no cell of it can run."
    with pytest.raises(UsageError, match=r"no cell can run: slow-consumer.*sarama"):
        matrix.plan(gate(**{**LIBRARIES, "scenarios": ["slow-consumer"], "clients": ["sarama"]}), Path())


def test_a_wrong_setting_is_an_error_and_not_a_cell_that_is_left_out():
    wrong = {"as-is": {}, "typo": {"set": {"producers.shop.config.ackz": 1}}}
    with pytest.raises(ScenarioError, match="ackz is no setting of confluent-kafka"):
        matrix.plan(gate(**{**LIBRARIES, "clients": ["2.16.0", "2.5.0"], "settings": wrong}), Path())


def test_a_cell_without_its_reference_has_no_times_to_compare():
    changes = {**LIBRARIES, "reference": {"client": "sarama"}}
    model = gate(**changes)
    planned = matrix.plan(model, Path())
    pairs = matrix.pairs(model, planned.cells, None, planned.left_out)
    assert [(p.number, p.other) for p in pairs] == [(1, 3), (2, 3)]


def test_a_scenario_with_another_library_has_its_name_without_the_axis():
    planned = matrix.plan(gate(scenarios=["java-leader-kill"]), Path())
    assert {c.key.client for c in planned.cells} == {f"java:2.8.2, {RUNTIMES['java'].newest}"}


# running


def run_cells(fake: FakeLab, model, planned, place: Folder, jobs: int = 1):
    plan = trials_of(planned, model.repeat, 7)
    return run_campaign(plan, place, ProgressListener(), jobs)


@pytest.fixture
def lab(monkeypatch) -> FakeLab:
    fake = FakeLab()
    monkeypatch.setattr(engine, "TrialLab", fake)
    return fake


def folder(path: Path) -> Folder:
    return Folder.planned(GateRequest(runs_dir=path, into=path / "out", seed=7), "gate", "g", [])


def test_rounds_are_fair_to_all_cells_and_the_nth_run_has_one_seed_in_all_of_them(tmp_path, lab):
    model, planned = gate(repeat=3), cells(scenarios=["leader-kill", "rolling-restart"])
    runs = run_cells(lab, model, planned, folder(tmp_path))
    assert lab.asked == [
        *("cell-01-1", "cell-03-1", "cell-02-1", "cell-04-1"),  # 3.9.2, then 4.3.1, leader-kill on the cold cluster
        *("cell-04-2", "cell-02-2", "cell-03-2", "cell-01-2"),  # 4.3.1, then 3.9.2, rolling-restart on the cold one
        *("cell-01-3", "cell-03-3", "cell-02-3", "cell-04-3"),
    ]
    assert lab.renewed == [4, 8], "a round begins with a new cluster, lest one side always finds it warm"
    by_round: dict[int, set[int]] = {}
    for run in runs:
        by_round.setdefault(run.n, set()).add(run.seed)
    assert all(len(seeds) == 1 for seeds in by_round.values()) and len(set.union(*by_round.values())) == 3


def test_where_all_cells_ask_for_the_same_cluster_it_is_kept(tmp_path, lab):
    changes = {"kafka": ["4.3.1"], "settings": {"a": {}, "b": {"set": {"producers.shop.config.acks": 1}}}}
    run_cells(lab, gate(repeat=2, **changes), cells(**changes), folder(tmp_path))
    assert lab.asked == ["cell-01-1", "cell-02-1", "cell-02-2", "cell-01-2"]
    assert lab.renewed == []


def test_an_interrupted_gate_keeps_what_is_finished_and_goes_on_from_there(tmp_path, lab):
    model, planned, place = gate(repeat=3), cells(), folder(tmp_path)

    def broken(trial):
        if trial.run_id == "cell-02-2":
            raise KeyboardInterrupt
        return "pass"

    lab.rule = broken
    with pytest.raises(KeyboardInterrupt):
        run_cells(lab, model, planned, place)
    assert sorted(run.run_id for run in place.runs()) == ["cell-01-1", "cell-02-1"]
    lab.rule, before = (lambda trial: "pass"), len(lab.asked)
    run_cells(lab, model, planned, place)
    assert lab.asked[before:] == ["cell-02-2", "cell-01-2", "cell-01-3", "cell-02-3"]


def test_a_cell_that_cannot_be_run_is_inconclusive_with_the_reason_and_the_others_go_on(tmp_path, lab):
    model, planned, place = gate(repeat=3), cells(), folder(tmp_path)

    def refuses(trial):
        if trial.part == "cell-02":
            raise ResolveError("no such release")
        return "pass"

    lab.rule = refuses
    runs = run_cells(lab, model, planned, place)
    assert [run.run_id for run in runs if run.part == "cell-02"] == ["cell-02-1"]
    result = judged_runs(GateJudge(model, "g", "c", 7, planned, []), runs)
    assert result.verdict == "inconclusive" and "no such release" in result.cells[1].sentence
    lab.rule = lambda trial: "pass"
    again = [run for run in run_cells(lab, model, planned, place) if run.part == "cell-02"]
    assert sorted((run.n, run.ran) for run in again) == [(1, True), (2, True), (3, True)], "its reason may be gone now"


@pytest.mark.parametrize(("release", "verdict"), [("2.5.0", "pass"), ("2.6.0", "inconclusive")])
def test_a_run_whose_clients_were_not_those_of_its_cell_proves_nothing_of_it(tmp_path, release, verdict):
    """The clients of this run directory say that they are 2.5.0."""
    run = a_run(tmp_path, variant="acks-all")
    counted = {"check": "duplicate_delivery", "split": "legal", "count": 3}
    times = [
        {"metric": "ack_latency", "scope": "orders", "fault": "", "stat": stat, "value_us": 5}
        for stat in ("p99", "p95")
    ]
    header = {"run_id": "r", "scenario": "s", "title": "t", "sentence": "It held.", "command": "c"}
    result = {**header, "verdict": "pass", "seed": 7, "versions": {}, "began_us": 1, "ended_us": 2}
    run.result.write_text(json.dumps({**result, "totals": [counted], "metrics": times}))
    planned = cells(scenarios=["acks1-leader-kill/acks-all"], kafka=["4.3.1"], clients=[release])
    finished = FinishedRun(run, 7, RunOutcome.read(run), 1.0)
    plan = trials_of(planned, 1, 7)
    result = plan.observe(plan.planned[0], finished, folder(tmp_path))
    assert (result.verdict, result.client, result.kafka) == (verdict, "2.5.0", "4.3.1")
    assert [t.stat for t in result.times] == ["p99"] and result.anomalies == {"duplicate_delivery legal": 3}
    assert ("is not its cell" in result.sentence) == (verdict == "inconclusive")


def test_a_bundle_is_packed_from_a_real_run_directory_and_none_is_no_error(tmp_path):
    place, run = folder(tmp_path), a_run(tmp_path / "out")
    packed = place.pack_run(run.run_id)
    assert (place.path / packed).is_file() and packed.startswith("bundles/")
    assert place.pack_run("none") == ""


def test_every_error_of_a_users_input_is_one_with_exit_code_2():
    for wrong in ({"scenarios": []}, {"kafka": ["9.9.9"]}):
        with pytest.raises(AftershockError) as refused:
            cells(**wrong)
        assert refused.value.exit_code == 2 and "\n" not in str(refused.value)


def test_a_result_is_read_as_it_was_written():
    result = judged({1: runs(), 2: runs(us=8e6)}, **REFERENCE)
    assert GateResult.model_validate(json.loads(result.model_dump_json())) == result
