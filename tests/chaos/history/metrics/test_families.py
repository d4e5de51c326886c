"""The families: what is said of the last run, what an inconclusive run does not say, and bounded labels."""

from dataclasses import replace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as parse_text

from chaos.anomalies import ANOMALIES
from chaos.history.entries import Time
from chaos.history.metrics import families as families_module
from chaos.history.metrics.families import (
    history_families,
    openmetrics_text,
    run_families,
    state_family,
    textfile_text,
    up_family,
)
from chaos.run.result import anomaly_name, describe_anomalies
from tests.chaos.history.metrics.entries import ENTRY, later


def samples(families):
    """Return the values by name and labels, as a strict parser of OpenMetrics reads them."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(openmetrics_text(families))
        for sample in family.samples
    }


def value(found, name, scenario="leader-kill", variant="", **labels):
    return found.get((name, *sorted({"scenario": scenario, "variant": variant, **labels}.items())))


def test_the_last_run_decides_and_all_runs_are_counted():
    failed = later(ENTRY, 60, verdict="fail", seen="lost_write 1,812, duplicate_delivery legal 3")
    found = samples(history_families([failed, ENTRY]))
    assert [value(found, "aftershock_last_run_verdict", verdict=v) for v in ("pass", "fail", "inconclusive")] == [
        0,
        1,
        0,
    ]
    assert [value(found, "aftershock_recorded_runs", verdict=v) for v in ("pass", "fail", "inconclusive")] == [1, 1, 0]
    assert value(found, "aftershock_last_run_anomalies", anomaly="lost_write", split="") == 1812
    assert value(found, "aftershock_last_run_anomalies", anomaly="duplicate_delivery", split="legal") == 3
    assert value(found, "aftershock_last_run_end_timestamp_seconds") == failed.ended_us / 1e6
    assert value(found, "aftershock_last_pass_end_timestamp_seconds") == ENTRY.ended_us / 1e6
    assert value(found, "aftershock_last_run_duration_seconds") == pytest.approx(46.183135)
    assert value(found, "aftershock_last_run_info", kafka="4.3.1", client="2.16.1") == 1


def test_times_are_in_seconds_by_fault_and_scope():
    found = samples(history_families([ENTRY]))
    outage = {"fault": "kill", "scope": "orders", "statistic": "max"}
    assert value(found, "aftershock_last_run_produce_unavailability_seconds", **outage) == 11.7
    latency = {"fault": "", "scope": "orders", "statistic": "p99"}
    assert value(found, "aftershock_last_run_ack_latency_seconds", **latency) == 0.012345
    assert value(found, "aftershock_last_run_ack_latency_seconds", **{**latency, "statistic": "max"}) is None


def test_an_inconclusive_run_says_no_time_and_no_zero():
    earlier = later(ENTRY, 0, key="e", seen="lost_write 2")
    clean = samples(history_families([earlier, later(ENTRY, 60)]))
    assert value(clean, "aftershock_last_run_anomalies", anomaly="lost_write", split="") == 0
    for seen, expected in (("none", None), ("not known", None), ("lost_write 1", 1)):
        found = samples(history_families([earlier, later(ENTRY, 60, verdict="inconclusive", seen=seen)]))
        assert value(found, "aftershock_last_run_anomalies", anomaly="lost_write", split="") == expected
        assert not [key for key in found if "unavailability" in key[0]]
        assert value(found, "aftershock_last_run_verdict", verdict="inconclusive") == 1


def test_a_regression_is_that_of_the_set_up_that_ran_last():
    passes = [later(ENTRY, n) for n in range(5)]
    found = samples(history_families([*passes, later(ENTRY, 60, verdict="fail")]))
    assert value(found, "aftershock_regressions", kind="verdict") == 1
    edited = later(ENTRY, 60, verdict="fail", setup="edited")  # a new trend: nothing to compare with
    assert value(samples(history_families([*passes, edited])), "aftershock_regressions", kind="verdict") == 0


def test_a_slower_time_is_a_regression_in_the_second_run():
    slow = (ENTRY.times[0]._replace(value_us=60_000_000),)
    runs = [*(later(ENTRY, n) for n in range(10)), later(ENTRY, 60, times=slow), later(ENTRY, 70, times=slow)]
    assert value(samples(history_families(runs[:-1])), "aftershock_regressions", kind="time") == 0
    assert value(samples(history_families(runs)), "aftershock_regressions", kind="time") == 1


def test_of_single_runs_nothing_is_said_about_a_history():
    names = {key[0] for key in samples(run_families([ENTRY]))}
    assert "aftershock_last_run_verdict" in names
    assert not names & {
        "aftershock_recorded_runs",
        "aftershock_regressions",
        "aftershock_last_pass_end_timestamp_seconds",
    }


def test_the_number_of_tests_is_bounded_and_what_is_left_out_is_counted(monkeypatch):
    monkeypatch.setattr(families_module, "MAX_TESTS", 2)
    runs = [later(ENTRY, n, scenario=f"s{n}") for n in range(5)]
    found = samples(history_families(runs))
    assert {dict(key[1:])["scenario"] for key in found if len(key) > 1} == {"s3", "s4"}
    assert found[("aftershock_tests_left_out",)] == 3


def test_names_follow_the_conventions_and_no_label_has_the_id_of_a_run():
    families = [up_family(True), *history_families([ENTRY]), state_family({"judged": 1})]
    for family in families:
        assert family.name.startswith("aftershock_") and not family.name.endswith(("_total", "_us", "_ms"))
        assert set(family.labels) <= {
            "scenario", "variant", "verdict", "fault", "scope", "statistic", "anomaly", "split", "kafka", "client",
            "kind", "state",
        }  # fmt: skip
    assert ENTRY.run_id not in openmetrics_text(families) and ENTRY.sentence not in openmetrics_text(families)


def test_odd_names_survive_both_formats():
    odd = 'a "quoted" \\ name\nin two lines {é}'
    families = history_families([replace(ENTRY, scenario=odd)])
    assert value(samples(families), "aftershock_last_run_verdict", scenario=odd, verdict="pass") == 1
    text = textfile_text(families)
    assert odd in {s.labels.get("scenario") for family in parse_text(text) for s in family.samples}


@pytest.mark.parametrize("text", ["not known", "", "lost_write", "lost_write x", "lost_write 1; dirty_read 2"])
def test_a_text_that_is_no_list_of_anomalies_is_not_zero_anomalies(text):
    assert replace(ENTRY, seen=text).anomalies is None


def test_every_anomaly_is_read_back_from_its_text():
    counts = {
        anomaly_name(check, split): 1_234_567 + n
        for n, (check, anomaly) in enumerate(ANOMALIES.items())
        for split in anomaly.splits or ("",)
    }
    assert replace(ENTRY, seen=describe_anomalies(counts)).anomalies == counts
    assert replace(ENTRY, seen=describe_anomalies({})).anomalies == {}


def test_metrics_without_a_meaning_here_are_left_out():
    unknown = Time(metric="of_another_release", scope="orders", fault="", stat="max", value_us=1)
    assert not [k for k in samples(history_families([replace(ENTRY, times=(unknown,))])) if "another" in k[0]]
