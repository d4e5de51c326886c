"""A proof on real brokers: acks=1 loses records that it does not promise, and an interrupted proof goes on."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from chaos.run.proof import ProofResult
from chaos.wait import wait_until
from tests.chaos.campaign.prove.apps import APPS, write
from tests.support.platform import chaos, left_running, start

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.nightly(twin="chaos/campaign/prove/test_judge.py"),
    pytest.mark.timeout(2700),  # its waits are up to 37 min together: each set of faults is a run
]


def stored(folder: Path) -> list[str]:
    file = folder / "runs.jsonl"
    return [json.loads(line)["run_id"] for line in file.read_text().splitlines()] if file.exists() else []


def test_a_proof_is_interrupted_goes_on_and_names_what_acks_1_loses(tmp_path: Path) -> None:
    folder = tmp_path / "proof"
    process = start("prove", write(tmp_path, APPS["acks-1"]), "--most", 1, "--seed", 7, "--into", folder)
    wait_until(lambda: len(stored(folder)) >= 2, 300, "no two runs are stored")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert f"continue with --resume {folder}" in err
    assert left_running(folder) == []
    before = stored(folder)
    assert (folder / "summary.md").exists()

    done = chaos("prove", "--resume", folder, "--json", timeout_s=1800)
    result = ProofResult.model_validate(done.result)
    assert stored(folder)[: len(before)] == before
    assert len(stored(folder)) == len(set(stored(folder)))
    assert result.broken == []
    assert result.tried[:2] == result.planned[:2]
    record = result.promise("record")
    assert record is not None and record.state == "unpromised"
    lost = next(seen for seen in result.seen if seen.anomalies[0].name == "lost_write")
    assert lost.promised is False
    assert lost.mend is not None and lost.mend.held and lost.mend.change == "producer acks=all"
    assert left_running(folder) == []
