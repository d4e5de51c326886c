"""Every shipped scenario on a real cluster, from the command to the verdict.

The nightly lane runs the whole catalogue, a landing a part of it, and the standard lane `FIRST` of that part. `TWINS`
names scenarios with the behaviour of another test; the twin of every other one is a scenario of the part.
`test_airflow.py` shows what `coordinator-loss` and `slow-consumer` do.
"""

import json
import shutil
from pathlib import Path

import pytest

from chaos.campaign.catalogue import names, part_name
from chaos.run.result import EXIT_CODES
from tests.support.engines import needs_engine
from tests.support.platform import HELD, chaos, left_running

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(2700)]

PART = {"leader-kill", "out-of-range", "unclean-election"}
FIRST = {"leader-kill", "out-of-range"}
TWINS = {
    "acks1-leader-kill/acks-1": "system/test_incident.py::test_the_run_names_the_lost_records_with_their_mechanism",
    "assign-commit-race": "checks/audit/test_stories.py",
    "assign-same-group": (
        "chaos/clients/test_fleet.py::test_each_group_and_each_assign_consumer_receives_and_counts_all_records"
    ),
    "auto-commit-crash/default": (
        "chaos/clients/test_consumers.py::test_automatic_commits_are_recorded_and_with_librdkafka_defaults_run_ahead"
    ),
    "clean-run": "system/test_installed.py::test_a_scenario_runs_from_command_to_verdict",
    "clock-client": (
        "chaos/clients/test_clocks.py::test_a_client_sees_another_time_and_its_rows_have_that_of_the_machine"
    ),
    "clock-logins": "chaos/faults/test_clocks.py::test_a_reading_contains_how_far_the_clock_is_ahead",
    "clock-skew": (
        "chaos/cluster/test_conformance.py::test_a_clock_that_is_set_is_the_one_that_the_broker_has_also_after_a_restart"
    ),
    "container-limits": "system/test_docker.py::test_every_fault_of_containers_is_proven_and_healed",
    "controller-loss": (
        "chaos/cluster/test_controllers.py::test_controllers_start_end_and_return[process-4.3.1-1-3-True-0]"
    ),
    "group-split": ("chaos/clients/test_fleet.py::test_partitions_move_one_by_one_and_no_record_is_delivered_twice"),
    "hanging-transaction": (
        "chaos/clients/test_transactions.py::test_a_hanging_transaction_is_unknown_and_not_readable"
    ),
    "late-request/plain": "chaos/relay/test_brokers.py::test_a_dropped_answer_makes_the_producer_write_twice",
    "lost-commit/one-replica": "system/test_scenarios.py::test_a_shipped_scenario_meets_its_contract[unclean-election]",
    "oversized-records": (
        "chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[confluent-producer]"
    ),
    "producer-restart": (
        "chaos/clients/test_transactions.py::test_a_producer_that_resends_restarts_at_the_first_unacknowledged_record"
    ),
    "quorum-changes": (
        "chaos/cluster/test_controllers.py::test_controllers_start_end_and_return[process-4.3.1-1-3-True-0]"
    ),
    "retry-duplicate/plain": "chaos/relay/test_brokers.py::test_a_dropped_answer_makes_the_producer_write_twice",
    "retry-reorder/plain": "chaos/relay/test_brokers.py::test_a_dropped_request_is_not_written",
    "send-modes": "chaos/clients/test_transactions.py::test_every_record_has_a_row_in_each_mode",
    "slow-disk": (
        "chaos/cluster/test_conformance.py::test_a_slow_disk_shows_in_the_times_that_the_broker_reports[process-4.3.1]"
    ),
    "static-restart/static": (
        "chaos/clients/java/test_java.py::test_java_members_are_static_commit_by_themselves_and_find_topics[4.3.1]"
    ),
    "subscribe-pattern": ("chaos/clients/test_consumers.py::test_a_pattern_includes_a_topic_that_is_created_later"),
    "transactions": (
        "chaos/clients/test_transactions.py::test_committed_records_are_readable_and_aborted_ones_are_not"
    ),
    "worker-pool/naive": (
        "chaos/clients/test_consumers.py::test_a_pool_finishes_records_out_of_order_and_its_window_stays_behind"
    ),
}
"""Tests of the standard lane by a scenario, or a variant, that shows the same."""
APPS = "system/test_apps.py"
"""The twin of each scenario with an application."""
DOCKER = "container-limits"
ALL = {part_name(*name) for name in names()}


def marks(name):
    own = "system/test_scenarios.py::test_a_shipped_scenario_meets_its_contract[leader-kill]"
    twin = TWINS.get(name) or TWINS.get(name.partition("/")[0]) or (APPS if name.startswith("app-") else own)
    if name in PART:
        return [] if name in FIRST else [pytest.mark.landing]
    return [*([needs_engine] if name == DOCKER else []), pytest.mark.nightly(twin=twin)]


@pytest.fixture(scope="module")
def runs_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def catalogue(request, runs_dir):
    """Return the row of each scenario of the contract's selected tests by its name, with its result."""
    here = [item for item in request.session.items if item.path == request.path]
    chosen = {item.callspec.params["name"] for item in here if item.originalname == CONTRACT.__name__}
    if not chosen:
        return {}
    patterns = [argument for name in sorted(chosen) for argument in ("--only", name)]
    folder = runs_dir / "catalogue"
    ended = chaos("catalogue", "--json", "--seed", 7, "--into", folder, *patterns, timeout_s=2600)
    assert left_running(runs_dir) == []
    rows = {}
    for part in json.loads(ended.out)["parts"]:
        (run,) = part["runs"]
        result = json.loads((folder / run["run_id"] / "result.json").read_text())
        rows[part["name"]] = EXIT_CODES[run["verdict"]], result
    return rows


@pytest.fixture(scope="module")
def results(runs_dir, catalogue):
    """Return a function from a scenario and options to its exit code and result: of the catalogue, or of a run."""
    done = {(name,): found for name, found in catalogue.items()}

    def run(name, *arguments):
        key = (name, *arguments)
        if key not in done:
            ended = chaos("run", name, "--json", "--seed", 7, "--runs-dir", runs_dir, *arguments)
            assert left_running(runs_dir) == []
            done[key] = ended.code, ended.result
        return done[key]

    return run


def total(result, check, split=""):
    return sum(t["count"] for t in result["totals"] if t["check"] == check and t["split"] == split)


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in sorted(ALL)])
def test_a_shipped_scenario_meets_its_contract(results, name):
    code, result = results(name)
    unmet = [(e["name"], e["seen"], e["why"]) for e in result["expectations"] if e["verdict"] not in HELD]
    assert (code, result["verdict"], unmet) == (0, "pass", []), result["sentence"]
    assert all(f["proven_us"] for f in result["faults"])
    counts = result["counts"]
    assert counts["acked"] > 0
    assert counts["rows_read"] == counts["rows_audited"] > 0


CONTRACT = test_a_shipped_scenario_meets_its_contract


def test_the_part_belongs_to_the_catalogue():
    assert PART <= ALL


def test_acks_all_loses_nothing(results):
    _, result = results("leader-kill")
    assert total(result, "lost_write") == 0
    assert result["counts"]["in_log"] >= result["counts"]["acked"] >= 16_000


@pytest.mark.nightly(twin="system/test_airflow.py::test_the_demo_runs_through_airflow_and_proves_all_three_faults")
def test_a_fault_that_changed_nothing_is_inconclusive_not_green(results):
    tame = ("--set", "faults.slow.per_record=1us", "--set", "limits.proof=3s")
    code, result = results("slow-consumer", *tame)
    assert (code, result["verdict"]) == (3, "inconclusive")
    assert not result["faults"][0]["proven_us"]


@pytest.mark.nightly(
    twin="checks/expectations/test_judgement.py::test_a_drive_that_broke_off_makes_stalled_delivery_inconclusive"
)
def test_a_load_beyond_its_limit_is_inconclusive_and_none_of_it_counts_as_stalled(results):
    """The producer would send for a minute at full speed, which no rate foretells; it ends before the drain."""
    asked = ("--set", "producers.shop.records=50000000", "--set", "limits.drive=4s")
    code, result = results("clean-run", *asked)
    assert (code, result["verdict"]) == (3, "inconclusive"), result["sentence"]
    assert 0 < result["counts"]["acked"] < 50_000_000
    assert total(result, "stalled_delivery") == total(result, "skipped_delivery") == 0


@pytest.mark.nightly(
    twin="chaos/clients/test_fleet.py::test_each_group_and_each_assign_consumer_receives_and_counts_all_records"
)
def test_each_assign_consumer_gets_every_record(results):
    _, result = results("assign-same-group")
    distinct = {r["reader"]: r["distinct"] for r in result["counts"]["readers"]}
    assert distinct == {"flink/1": 10_000, "flink/2": 10_000}


@pytest.mark.nightly(twin="system/test_gate.py::test_a_gate_runs_every_cell_with_its_releases_and_bundles_each_failure")
def test_another_kafka_release_runs_the_same_scenario(results):
    code, result = results("clean-run", "--kafka", "3.9.2")
    assert (code, result["verdict"]) == (0, "pass")
    assert result["versions"]["kafka"] == "3.9.2"


@pytest.mark.nightly(twin="system/test_gate.py::test_a_gate_runs_every_cell_with_its_releases_and_bundles_each_failure")
@pytest.mark.parametrize("name", ["leader-kill"])  # one scenario shows it
def test_a_release_with_zookeeper_meets_the_same_contracts(results, name):
    code, result = results(name, "--kafka", "2.8.2")
    assert (code, result["verdict"]) == (0, "pass"), result["sentence"]
    assert result["versions"]["kafka"] == "2.8.2"
    assert result["faults"] and all(f["proven_us"] for f in result["faults"])


@pytest.mark.nightly(twin="system/test_incident.py::test_the_same_loss_fails_a_contract_that_forbids_it")
def test_a_copied_run_directory_is_judged_again_offline(results, runs_dir, tmp_path):
    _, result = results("leader-kill")
    copy = tmp_path / "copy"
    shutil.copytree(Path(result["run_dir"]), copy)
    for made in ("audit", "gx"):
        shutil.rmtree(copy / made)
    for made in ("result.json", "report.html", "junit.xml", "cluster.json"):
        (copy / made).unlink()
    ended = chaos("audit", copy, "--json")
    assert ended.code == 0
    assert ended.result["totals"] == result["totals"]
