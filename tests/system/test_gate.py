"""A gate on real clusters: one cell keeps its contract, one cannot, with clients and brokers of other releases.

The older brokers are of a release with ZooKeeper.
"""

import json

import pytest
import yaml

from chaos.incident.bundle import open_bundle
from tests.support.platform import SHORTEST, chaos, left_running

pytestmark = pytest.mark.kafka
GATE = {
    "title": "one side must fail",
    "scenarios": ["small.yaml"],
    "kafka": ["2.8.2", "4.3.1"],
    "clients": ["2.5.0"],
    "settings": {"as-is": {}, "broken": {"expect": {"duplicate_write": {"min": 1}}}},
    "exclude": [{"kafka": "2.8.2", "settings": "broken"}],
    "repeat": 1,
}


@pytest.mark.landing
def test_a_gate_runs_every_cell_with_its_releases_and_bundles_each_failure(tmp_path):
    """Run the first cell alone, as the task of a DAG does, then the others in the same folder."""
    (tmp_path / "small.yaml").write_text(SHORTEST)
    (tmp_path / "g.yaml").write_text(yaml.safe_dump(GATE))
    ended = chaos("gate", tmp_path / "g.yaml", "--into", tmp_path / "out", "--cell", "1", "--json", timeout_s=300)
    assert ended.code in (0, 3), ended.err[-3000:]
    (first,) = (tmp_path / "out" / "runs.jsonl").read_text().splitlines()
    ended = chaos("gate", "--resume", tmp_path / "out", "--json", timeout_s=550)
    assert ended.code == 1, ended.err[-3000:]
    cells = {(c["key"]["kafka"], c["key"]["settings"]): c for c in ended.result["cells"]}
    assert {key: cell["verdict"] for key, cell in cells.items()} == {
        ("2.8.2", "as-is"): "pass",
        ("4.3.1", "as-is"): "pass",
        ("4.3.1", "broken"): "fail",
    }
    for (kafka, _), cell in cells.items():
        (run,) = cell["runs"]
        assert (run["kafka"], run["client"]) == (kafka, "2.5.0") and run["times"]
        assert (tmp_path / "out" / run["report"]).is_file()
    packed = open_bundle(tmp_path / "out" / cells["4.3.1", "broken"]["runs"][0]["bundle"])
    assert packed.manifest.seen.verdict == "fail"
    (missing,) = packed.manifest.missing  # its brokers were lent, so their logs are with the lender
    assert missing.startswith("logs/broker-N.log")
    assert json.loads(first)["run_id"] == "cell-01-1" and "1 of 2, small" in ended.err, "what was run is not run again"
    assert json.loads((tmp_path / "out" / "campaign.json").read_text()) == ended.result
    assert left_running(tmp_path) == []
