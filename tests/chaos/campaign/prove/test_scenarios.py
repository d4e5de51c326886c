"""The scenarios of a proof: each set of faults is valid, and the faults of a pair meet as the promise needs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chaos.campaign.prove.plan import scenario_of, subject
from chaos.guarantees.contract import contract
from tests.chaos.campaign.prove.apps import APPS, planned, read, sets


@pytest.mark.parametrize("name", APPS)
def test_every_set_is_a_valid_scenario_that_the_derived_contract_judges(tmp_path: Path, name: str) -> None:
    app = read(tmp_path, APPS[name])
    for faults in planned(app).sets:
        scenario = subject(app, faults, seed=1).scenario
        assert scenario.expect.promised
        assert [fault.name for fault in scenario.faults] == [fault.id for fault in faults.faults]


def heals(app: str, pair: str, tmp_path: Path) -> dict[str, Any]:
    found = read(tmp_path, APPS[app])
    return {f["name"]: f["heal"] for f in scenario_of(found, sets(found)[pair])["faults"]}


def test_a_replica_that_lags_is_back_when_the_leader_fails(tmp_path: Path) -> None:
    found = heals("acks-1", "followers-freeze+leader-crash", tmp_path)
    assert found["followers-freeze"] == {"when": {"after": "leader-crash"}}


def test_replicas_with_every_record_come_back_after_the_one_without(tmp_path: Path) -> None:
    found = heals("reliable", "followers-crash+leader-power", tmp_path)
    assert found["followers-crash"] == {"when": {"after": "leader-power.healed + 2s"}}
    assert found["leader-power"] == {"after": "3s"}  # its proof may need the followers


def test_the_other_fault_does_not_wait_for_a_proof_that_needs_a_quorum(tmp_path: Path) -> None:
    app = read(tmp_path, APPS["reliable"])
    alone = scenario_of(app, sets(app)["followers-crash"])["faults"][0]
    second = scenario_of(app, sets(app)["followers-crash+leader-power"])["faults"][1]
    assert alone["heal"] == {"after": "4s"}
    assert second["when"] == {"after": "followers-crash + 1500ms"}


def test_a_fault_of_all_replicas_is_healed_without_a_proof(tmp_path: Path) -> None:
    app = read(tmp_path, APPS["reliable"])
    (power,) = scenario_of(app, sets(app)["all-power"])["faults"]
    assert power["heal"] == {"after": "2s"}


def test_faults_of_a_pair_overlap(tmp_path: Path) -> None:
    app = read(tmp_path, APPS["reliable"])
    first, second = scenario_of(app, sets(app)["coordinator-crash+consumer-crash"])["faults"]
    assert second["when"] == {"after": "coordinator-crash.proven + 500ms"}
    assert first["heal"]["when"]["after"] == "consumer-crash.proven + 500ms"


def test_the_contract_of_a_set_follows_from_the_settings(tmp_path: Path) -> None:
    weak, strong = read(tmp_path, APPS["acks-1"]), read(tmp_path, APPS["reliable"])
    assert contract(subject(weak, sets(weak)["leader-isolated"], 1).scenario).line("lost_write").state == "allowed"
    assert (
        contract(subject(strong, sets(strong)["leader-isolated"], 1).scenario).line("lost_write").state == "forbidden"
    )


def test_two_runs_of_one_set_have_different_seeds(tmp_path: Path) -> None:
    from chaos.campaign.prove.plan import task

    app = read(tmp_path, APPS["reliable"])
    crash = sets(app)["leader-crash"]
    assert task(app, crash, 7).subject.seed == task(app, crash, 7).subject.seed
    assert task(app, crash, 7).subject.seed != task(app, crash, 7, "again", 2).subject.seed
