"""Client libraries side by side on real clusters: two that run, one that cannot, and an interruption."""

import json

import pytest

from tests.support.platform import chaos, left_running

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.nightly(
        twin="system/test_gate.py::test_a_gate_runs_every_cell_with_its_releases_and_bundles_each_failure"
    ),
]


def test_libraries_run_the_same_scenario_and_their_cost_is_measured(tmp_path):
    options = ("clean-run", "--clients", "confluent,sarama,spark", "--jobs", "2", "--seed", "7", "--json")
    ended = chaos("compare-clients", *options, "--into", tmp_path / "out", timeout_s=400)
    assert ended.code == 0, ended.err[-3000:]
    (scenario,) = ended.result["scenarios"]
    ran = {column["client"].split(":")[0]: column for column in scenario["columns"]}
    assert "has no produce" in ran["spark"]["left_out"] and "left out: spark" in ended.err
    for name in ("confluent", "sarama"):
        (run,) = ran[name]["cell"]["runs"]
        assert run["verdict"] == "pass" and run["seed"] == 7
        assert run["load"]["acked_per_s"] > 0
        for entry in run["load"]["entries"]:
            assert entry["records"] > 0 and entry["cpu_us"] > 0 and entry["peak_rss_bytes"] > 2**20
        assert (tmp_path / "out" / run["report"]).is_file()
    measured = {row["name"] for row in scenario["rows"]}
    assert {
        "acknowledged",
        "delivered",
        "producers, CPU per 1,000 records",
        "consumers, memory of a process",
    } <= measured
    assert json.loads((tmp_path / "out" / "campaign.json").read_text()) == ended.result
    assert (tmp_path / "out" / "report.html").is_file() and (tmp_path / "out" / "summary.md").is_file()

    again = chaos("compare-clients", "--resume", tmp_path / "out", timeout_s=100)
    assert again.code == 0 and "0 runs to do, in" in again.err, "what was run is not run again"
    assert left_running(tmp_path) == []
