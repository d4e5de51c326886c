"""Client libraries side by side: what is compared, which differences are claimed, and what is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chaos.campaign import compare, engine
from chaos.campaign.compare import GROUPS, SHIPPED, CompareRequest, measures, plan
from chaos.errors import USAGE, AftershockError, ScenarioError, UsageError
from chaos.lab.progress import ProgressListener
from chaos.run.campaign import ClientComparison, MeasureRow, TrialRun
from chaos.run.result import Load
from tests.support.compared import left_out, metric, runs, table
from tests.support.labs import FakeLab

WRITES = "no writes, longest"
CPU = "producers, CPU per 1,000 records"


def row(of, name: str) -> MeasureRow:
    return next(row for row in of.scenarios[0].rows if row.name == name)


# what is compared


def test_the_longest_time_of_all_topics_counts_and_the_times_of_brokers_do_not() -> None:
    run = runs(1)[0].model_copy(
        update={
            "times": [
                metric("produce_unavailability", 5, scope="orders"),
                metric("produce_unavailability", 9, scope="invoices"),
                metric("produce_unavailability", 7, fault="other"),
                metric("isr_recovery", 11),
            ]
        }
    )
    found = {(m.name, m.fault): value for m, value in measures(run).items() if m.unit == "us" and "CPU" not in m.name}
    assert found == {(WRITES, "kill"): 9, (WRITES, "other"): 7}


def test_cpu_time_is_by_role_and_record_and_a_run_without_measurements_has_none() -> None:
    run = runs(1, cpu_us=2e6, sigma=0)[0]
    found = {m.name: value for m, value in measures(run).items()}
    assert found[CPU] == 200_000 and found["producers, CPU to start a process"] == 450_000
    assert found["consumers, memory of a process"] == 40 * 2**20
    assert found["legal redeliveries"] == 1
    bare = {m.name for m in measures(run.model_copy(update={"load": Load(), "times": []}))}
    assert bare == {"legal redeliveries"}


def test_rows_are_grouped_and_recovery_comes_first() -> None:
    latency = metric("ack_latency", 5, stat="p50", fault="")
    late = [run.model_copy(update={"times": [latency, *run.times]}) for run in runs()]
    groups = [row.group for row in table({"2.16.1": late}).scenarios[0].rows]
    assert groups == sorted(groups, key=GROUPS.index) and set(groups) == set(GROUPS)


# which differences are claimed


def test_a_difference_beyond_the_margin_is_claimed_in_either_direction_and_equal_values_are_not() -> None:
    found = table({"2.16.1": runs(us=5e6), "java:4.3.1": runs(us=10e6), "sarama:1.61.1": runs(us=2e6)})
    writes, cpu = row(found, WRITES), row(found, CPU)
    marks = {client: value.difference for client, value in writes.values.items()}
    assert marks == {"confluent:2.16.1": None, "java:4.3.1": "higher", "sarama:1.61.1": "lower"}
    assert writes.values["java:4.3.1"].ratio == pytest.approx(2, rel=0.1)
    assert {value.difference for value in cpu.values.values()} == {None, "not shown"}
    assert found.scenarios[0].reference == "confluent:2.16.1"


def test_a_difference_within_the_margin_is_not_claimed() -> None:
    values = {"2.16.1": runs(us=5e6, sigma=0.001), "java:4.3.1": runs(us=6e6, sigma=0.001)}
    assert row(table(values), WRITES).values["java:4.3.1"].difference == "not shown"
    assert row(table(values, margin=1), WRITES).values["java:4.3.1"].difference == "higher"


def test_too_few_runs_claim_nothing_however_large_the_difference() -> None:
    found = table({"2.16.1": runs(2, us=1e6), "java:4.3.1": runs(2, us=60e6)})
    assert row(found, WRITES).values["java:4.3.1"].difference == "not shown"


def test_all_tests_of_the_comparison_share_the_probability_of_a_false_claim() -> None:
    few = {"2.16.1": runs(4, us=1e6), "java:4.3.1": runs(4, us=60e6)}
    assert 0.05 / table(few).tests < 1 / 70, "four runs each cannot be significant among so many tests"
    assert row(table(few), WRITES).values["java:4.3.1"].difference == "not shown"


def test_inconclusive_runs_do_not_count_and_a_rare_value_is_not_tested() -> None:
    mixed = [*runs(8, us=5e6), *runs(8, us=500e6, verdict="inconclusive")]
    rare = [run.model_copy(update={"times": run.times if run.n < 4 else []}) for run in runs(8, us=50e6)]
    found = row(table({"2.16.1": mixed, "java:4.3.1": rare}), WRITES).values
    assert found["confluent:2.16.1"].n == 8 and found["confluent:2.16.1"].high < 10e6
    assert found["java:4.3.1"].n == 3 and found["java:4.3.1"].difference is None


def test_another_reference_can_be_chosen_and_one_that_did_not_run_is_replaced() -> None:
    both = {"2.16.1": runs(), "java:4.3.1": runs()}
    assert table(both, reference="java:4.3.1").scenarios[0].reference == "java:4.3.1"
    assert table(both, reference="sarama:1.61.1").scenarios[0].reference == "confluent:2.16.1"
    broken = {"2.16.1": runs(verdict="inconclusive"), "java:4.3.1": runs()}
    assert table(broken, reference="confluent:2.16.1").scenarios[0].reference == "java:4.3.1"
    assert table({"2.16.1": runs(verdict="inconclusive")}).scenarios[0].reference == ""


def test_anomalies_are_summed_over_the_runs_that_show_them() -> None:
    (column,) = table({"2.16.1": runs(8)}).scenarios[0].columns
    assert (column.anomalies["duplicate_delivery legal"].count, column.anomalies["duplicate_delivery legal"].runs) == (
        9,
        6,
    )


# what is left out


def test_a_library_that_cannot_run_is_a_column_with_the_reason() -> None:
    refused = TrialRun(n=1, seed=1, verdict="inconclusive", sentence="It cannot be run: no Go", ran=False)
    found = table({"2.16.1": runs(), "sarama:1.61.1": [refused]}, [left_out("spark:4.2.0", "it only reads")]).scenarios[
        0
    ]
    assert {c.client: c.left_out for c in found.columns} == {
        "confluent:2.16.1": "",
        "spark:4.2.0": "it only reads",
        "sarama:1.61.1": "It cannot be run: no Go",
    }
    assert found.columns[0].cell is not None and found.verdict == "pass"


def test_the_default_is_every_library_in_the_shipped_scenarios() -> None:
    planned = plan(CompareRequest(runs_dir=Path("runs"), seed=7))
    assert {c.key.scenario for c in planned.gate.cells} == set(SHIPPED)
    assert {o.key.client for o in planned.gate.left_out} >= {"spark:4.2.0", "sarama:1.61.1"}
    assert "max.poll.interval.ms" in next(
        o.reason for o in planned.gate.left_out if (o.key.scenario, o.key.client) == ("slow-consumer", "sarama:1.61.1")
    )


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"scenarios": ("leader-kil",)}, ScenarioError, "did you mean leader-kill"),
        ({"scenarios": ("acks1-leader-kill",)}, UsageError, "acks1-leader-kill/acks-1 or"),
        ({"clients": ("jav",)}, UsageError, "client jav: there is no runtime 'jav'.*did you mean java"),
        ({"clients": ("java", "java:4.3.1")}, UsageError, r"names java:4\.3\.1 twice"),
        ({"clients": ("java",), "reference": "sarama"}, UsageError, r"sarama: it is not compared; compared are java"),
        ({"clients": ("spark", "flink-legacy")}, UsageError, r"no cell can run: .*spark.*only reads.*flink-legacy"),
        ({"kafka": "4.9.9"}, UsageError, "Kafka 4.9.9 is not in releases.yaml"),
        ({"kafka": "newest"}, UsageError, "Kafka newest is not in releases.yaml"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_before_anything_runs(
    given: dict[str, Any], error: type[AftershockError], message: str
) -> None:
    with pytest.raises(error, match=message) as refused:
        plan(CompareRequest(runs_dir=Path("runs"), **{"scenarios": ("leader-kill",), **given}))
    assert refused.value.exit_code == USAGE


# the use case


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> FakeLab:
    fake = FakeLab()
    monkeypatch.setattr(engine, "TrialLab", fake)
    monkeypatch.setattr(compare.matrix, "fetch_releases", lambda cells, say: None)
    return fake


def compared(folder: Path, *clients: str, **given: Any) -> ClientComparison:
    values: dict[str, Any] = {
        "scenarios": ("leader-kill",),
        "clients": clients,
        "seed": 7,
        "into": folder / "out",
        **given,
    }
    planned = plan(CompareRequest(runs_dir=folder, **values))
    return compare.compare_clients(planned, compare.open_folder(planned), ProgressListener())


def test_the_files_are_written_and_the_worst_verdict_of_what_ran_counts(tmp_path: Path, lab: FakeLab) -> None:
    found = compared(tmp_path, "confluent", "sarama", "spark")
    assert found.verdict == "pass"
    assert {p.name for p in (tmp_path / "out").iterdir()} >= {
        "campaign.json",
        "summary.md",
        "report.html",
        "runs.jsonl",
    }
    assert "1 could not run and were left out (spark:4.2.0)" in found.sentence
    assert "--clients confluent:2.16.1,sarama:1.61.1,spark:4.2.0" in found.command
    verdicts = {"cell-02": "inconclusive"}
    lab.rule = lambda trial: verdicts.get(trial.part, "pass")
    assert compared(tmp_path / "b", "confluent", "sarama").verdict == "inconclusive"
    verdicts["cell-01"] = "fail"
    failed = compared(tmp_path / "c", "confluent", "sarama")
    assert failed.verdict == "fail" and "1 broke it: confluent:2.16.1 in leader-kill" in failed.sentence


def test_an_interrupted_comparison_keeps_what_is_finished(tmp_path: Path, lab: FakeLab) -> None:
    def broken(trial):
        if trial.run_id == "cell-02-2":
            raise KeyboardInterrupt
        return "pass"

    lab.rule = broken
    with pytest.raises(KeyboardInterrupt):
        compared(tmp_path, "confluent", "sarama", repeat=3)
    kept = ClientComparison.model_validate_json((tmp_path / "out" / "campaign.json").read_text())
    assert kept.verdict == "inconclusive", "runs are missing"
    lab.rule = lambda trial: "pass"
    planned = plan(CompareRequest(runs_dir=tmp_path, resume=tmp_path / "out"))
    whole = compare.compare_clients(planned, compare.open_folder(planned), ProgressListener())
    assert whole.verdict == "pass" and (whole.seed, whole.repeat) == (7, 3)
    assert sorted(lab.asked) == [f"cell-0{cell}-{n}" for cell in (1, 2) for n in (1, 2, 3)]
