"""Statistics of the trends: regressions, steady times, and trends with too few runs."""

import itertools
import math
import random

import pytest

from chaos.history.entries import Entry, Time
from chaos.history.trends import LEAST, WINDOW, judge_times, trends, verdict_mark

USUAL = [1_000_000, 1_100_000, 950_000, 1_050_000, 990_000, 1_020_000, 1_080_000, 970_000, 1_010_000, 1_000_000]


def judge(values, judged=None):
    return judge_times(values, judged or [True] * len(values), 10_000)


@pytest.mark.parametrize(
    ("more", "mark"),
    [
        ([1_090_000], "steady"),
        ([1_350_000], "steady"),  # beyond the largest, by less than a quarter
        ([500_000], "steady"),  # faster is not reported
        ([1_450_000], "slower"),
        ([1_450_000, 1_000_000], "steady"),
        ([1_450_000, 1_500_000], "regression"),
        ([1_450_000, 1_500_000, 1_480_000], "regression"),
    ],
)
def test_two_slower_runs_in_a_row_are_a_regression(more, mark):
    assert judge(USUAL + more).mark == mark


def test_the_reason_names_the_factor_and_the_number_of_runs():
    judgement = judge([*USUAL, 2_000_000, 2_100_000, 1_900_000])
    assert judgement.words == "1.9 times the median of the last 10, 3 runs in a row"
    assert judgement.slower == [False] * 10 + [True] * 3
    assert judgement.median_us == pytest.approx(1_005_000, rel=0.01) and 1_350_000 < judgement.bound_us < 1_400_000


@pytest.mark.parametrize("runs", range(LEAST))
def test_too_few_earlier_runs_give_no_judgement(runs):
    judgement = judge([*USUAL[:runs], 60_000_000])
    assert (judgement.mark, judgement.words) == ("too few runs", f"runs before it: {runs}, {LEAST} are needed")
    assert not any(judgement.slower) and judgement.bound_us is None


def test_the_minimum_number_of_runs_gives_a_judgement():
    assert judge([*USUAL[:LEAST], 60_000_000]).mark == "slower"


def test_times_with_two_levels_cause_no_false_alarm_and_hide_no_regression():
    levels = [1_000_000, 2_500_000, 1_000_000, 1_010_000, 990_000, 1_000_000, 1_000_000, 1_005_000, 995_000, 1_000_000]
    assert judge([*levels, 2_600_000]).mark == "steady"
    assert judge([*levels, 5_000_000]).mark == "slower"


def test_a_difference_below_the_resolution_is_ignored():
    assert judge_times([0] * 10 + [3_000], [True] * 11, 150_000).mark == "steady"
    judgement = judge_times([0] * 10 + [300_000], [True] * 11, 150_000)
    assert (judgement.mark, judgement.words) == ("slower", "it was 0 before; a regression if the next run is, too")


def test_a_new_level_that_persists_becomes_the_usual_one():
    lasting = [2_000_000] * (WINDOW - 1)
    assert judge(USUAL + lasting).mark == "regression"
    assert judge([*USUAL, *lasting, 2_000_000, 2_000_000]).mark == "steady"


def test_inconclusive_runs_do_not_count():
    values = [*USUAL[:5], 1, 90_000_000, *USUAL[5:], 1_450_000]
    judged = [True] * 5 + [False, False] + [True] * 6
    assert judge(values, judged).mark == "slower"
    assert judge([*USUAL, 90_000_000], [True] * 10 + [False]).mark == "no judgement"


def test_a_missing_time_is_reported():
    judgement = judge([*USUAL, None])
    assert judgement.mark == "not measured" and "find out why" in judgement.words
    assert judge([1_000_000, None]).mark == "too few runs"


@pytest.mark.parametrize(
    ("scatter", "most_slower", "most_regressions"), [(0.05, 0.0005, 0), (0.2, 0.01, 0.001), (0.5, 0.025, 0.004)]
)
def test_false_alarms_are_as_rare_as_documented(scatter, most_slower, most_regressions):
    draw = random.Random(7)
    slower = regressions = 0
    for _ in range(60):
        values = [round(math.exp(draw.gauss(14, scatter))) for _ in range(110)]
        flags = judge(values).slower[WINDOW:]
        slower += sum(flags)
        regressions += sum(a and b for a, b in itertools.pairwise(flags))
    assert slower / 6000 <= most_slower and regressions / 6000 <= most_regressions


def test_a_time_that_doubles_is_detected():
    draw = random.Random(7)
    detected = 0
    for _ in range(200):
        values = [round(math.exp(draw.gauss(14, 0.2))) for _ in range(10)]
        detected += judge([*values, round(2 * math.exp(draw.gauss(14, 0.2)))]).mark == "slower"
    assert 0.5 < detected / 200 < 0.75
    assert judge([*USUAL, 2_000_000]).mark == "slower"


@pytest.mark.parametrize(
    ("verdicts", "mark", "reason"),
    [
        ("pp", "pass", "pass, 2 in a row"),
        ("fp", "pass", "pass, 1 in a row, after fail"),
        ("f", "too few runs", "fail; runs before it: 0, 3 are needed"),
        ("ppf", "too few runs", "fail; runs before it: 2, 3 are needed"),
        ("pppf", "regression", "fail after 3 passes, so fewer than 63% failed before (95 % sure)"),
        ("pppi", "regression", "inconclusive after 3 passes, so fewer than 63% failed before (95 % sure)"),
        ("f" + "p" * 10 + "f", "regression", "fail after 10 passes, so fewer than 26% failed before (95 % sure)"),
        ("ppppif", "regression", "fail, 2 in a row without a pass after 4 passes"),
        ("ppfpf", "unsteady", "fail; 3 of 4 before it passed, so it is not new"),
    ],
)
def test_a_verdict_is_a_regression_if_all_earlier_runs_passed(verdicts, mark, reason):
    names = {"p": "pass", "f": "fail", "i": "inconclusive"}
    actual_mark, actual_reason = verdict_mark([names[v] for v in verdicts])
    assert actual_mark == mark and actual_reason.startswith(reason)


def run(n, *, scenario="a", setup="s", variant="", value=1_000_000, verdict="pass", metric="ack_latency"):
    time = Time(metric=metric, scope="orders", fault="", stat="p99", value_us=value)
    texts = {"title": "A", "sentence": "S", "seen": "none", "kafka": "4.3.1", "client": "2.16.1"}
    return Entry(
        key=f"{scenario}{variant}{setup}{n}", digest="d", run_id=f"r{n}", scenario=scenario, variant=variant,
        setup=setup, verdict=verdict, seed=1, began_us=n, ended_us=n + 1, run_dir=f"/runs/r{n}", command="c",
        times=(time,), **texts,
    )  # fmt: skip


def test_only_runs_of_one_set_up_are_compared_and_the_latest_trend_is_first():
    runs = [run(n) for n in range(8)] + [run(20 + n, setup="t", value=9_000_000) for n in range(2)]
    edited, first = trends([*reversed(runs), run(30, variant="v")], limit=5)[1:]
    assert (edited.setup, [t.mark for t in edited.times]) == ("t", ["too few runs"])
    assert (first.setup, [t.mark for t in first.times], len(first.runs)) == ("s", ["steady"], 5)


def test_metrics_without_a_trend_are_left_out():
    assert trends([run(1, metric="something_new")], limit=5)[0].times == []


def test_runs_beyond_the_limit_are_used():
    runs = [run(n) for n in range(10)] + [run(10, value=3_000_000), run(11, value=3_000_000, verdict="fail")]
    (trend,) = trends(runs, limit=2)
    assert [t.mark for t in trend.times] == ["regression"] and trend.mark == "regression"
    assert len(trend.regressions) == 2 and trend.times[0].values_us == [3_000_000, 3_000_000]
