"""The plan of a proof: which sets of faults come first, and their scenarios."""

from __future__ import annotations

from fnmatch import fnmatchcase
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from chaos.anomalies import ANOMALIES
from chaos.campaign.prove.plan import scenario_of, subject
from chaos.guarantees import supports
from chaos.guarantees.contract import contract
from chaos.guarantees.supports import OTHER, outcome_of
from chaos.guarantees.table import anomalies, supported
from tests.chaos.campaign.prove.apps import APPS, STRONG, TOPIC, outcome, planned, read, sets


def needs(found: supports.Outcome) -> dict[str, set[str]]:
    return {support.what: set(support.needs) for support in found.supports}


def test_an_acknowledged_record_is_supported_by_the_copies_that_min_insync_replicas_guarantees(tmp_path: Path) -> None:
    record = outcome(read(tmp_path, APPS["reliable"]), "record")
    assert needs(record) == {
        "the copy of the leader": {"leader.memory"},
        "the copy of follower 1": {"follower1.memory", "follower1.up"},
        "the copy of follower 2": {"follower2.memory", "follower2.up", "follower2.in_sync"},
    }


def test_with_acks_1_a_follower_may_lack_the_record_and_a_leader_may_lose_its_role(tmp_path: Path) -> None:
    record = outcome(read(tmp_path, APPS["acks-1"]), "record")
    assert needs(record)["the copy of the leader"] == {"leader.memory", "leader.leads"}
    assert "follower1.in_sync" in needs(record)["the copy of follower 1"]


def test_flushed_records_are_on_disk_and_not_in_memory(tmp_path: Path) -> None:
    topic = {"replication_factor": 1, "config": {"flush.messages": 1}}
    record = outcome(read(tmp_path, {"producer": STRONG, "topic": topic}), "record")
    assert needs(record) == {"the copy of the leader": {"leader.disk"}}


def test_sets_that_cut_every_support_come_first_within_their_size(tmp_path: Path) -> None:
    found = planned(read(tmp_path, APPS["reliable"])).sets
    assert found[0].id == "none"
    first = [s.id for s in found if len(s.faults) == 1 and s.cuts_all]
    assert {"all-power", "producer-crash"} <= set(first)
    assert first == [s.id for s in found[1 : 1 + len(first)]]
    for size in (1, 2):
        marks = [bool(s.cuts_all) for s in found if len(s.faults) == size]
        assert marks == sorted(marks, reverse=True)


def test_one_crash_and_one_power_loss_cut_what_acks_all_promises_and_a_lag_does_not(tmp_path: Path) -> None:
    found = sets(read(tmp_path, APPS["reliable"]))
    assert found["all-power"].cuts_all == ("record",)
    assert "record" in found["followers-crash+leader-power"].cuts_all
    assert "record" not in found["followers-crash"].cuts_all
    assert "followers-freeze+leader-crash" not in found  # a follower that lags is not in the ISR when acks=all answers


def test_acks_1_needs_only_a_lag_and_a_crash(tmp_path: Path) -> None:
    found = sets(read(tmp_path, APPS["acks-1"]))
    assert "record" in found["followers-freeze+leader-crash"].cuts_all
    assert "record" in found["leader-isolated"].cuts_all  # cuts the followers off and ends its leadership
    assert "record" not in found["leader-crash"].cuts_all


def test_a_pair_is_tried_only_if_a_promise_loses_more_by_both_than_by_each(tmp_path: Path) -> None:
    app = read(tmp_path, APPS["reliable"])
    found, classes = planned(app), supports.fault_classes(app.facts, app.names)
    pairs = [s for s in found.sets if len(s.faults) == 2]
    assert len(pairs) + found.unrelated == len(list(combinations(classes, 2)))
    assert "coordinator-crash+consumer-crash" in sets(app)
    assert "leader-gray+lost-answer" not in sets(app)  # both cut the same support
    assert {len(s.faults) for s in planned(app, most=1).sets} == {0, 1}


def test_idempotence_adds_a_support(tmp_path: Path) -> None:
    with_it = sets(read(tmp_path, APPS["reliable"]))
    without = sets(read(tmp_path, {"producer": {"config": {"acks": "all"}}, "topic": TOPIC}))
    assert "once" not in with_it["lost-answer"].cuts_all
    assert "once" in without["lost-answer"].cuts_all


@pytest.mark.parametrize("name", APPS)
def test_faults_make_sense_for_the_application(tmp_path: Path, name: str) -> None:
    app = read(tmp_path, APPS[name])
    found = {fault.id for fault in supports.fault_classes(app.facts, app.names)}
    reads = bool(app.raw.get("consumers")) and "processors" not in app.raw
    assert ("consumer-crash" in found) == reads
    assert ("writer-crash" in found) == (name == "exactly-once")
    assert ("followers-freeze" in found) == (name != "one-replica")
    assert ("leader-isolated" in found) == (name not in ("old", "one-replica"))  # ZooKeeper stays reachable
    assert ("lost-answer" in found) == (name != "reader")


def test_every_anomaly_breaks_a_promise() -> None:
    shown = [name for rule in supported().values() for name in rule.shows]
    kinds = {f"{kind}.{split}" if split else kind for kind, a in ANOMALIES.items() for split in a.splits or ("",)}
    of_others = {kind for kind, a in ANOMALIES.items() if a.path == "share"}
    of_others |= ANOMALIES.keys() - {kind for kind, _ in anomalies()}
    missing = {k for k in kinds if k not in shown and k.partition(".")[0] not in shown}
    assert {k.partition(".")[0] for k in missing} <= of_others
    assert len(shown) == len(set(shown))


def test_an_anomaly_of_no_promise_of_the_application_counts_for_the_log(tmp_path: Path) -> None:
    found = supports.outcomes(read(tmp_path, APPS["reader"]).facts)
    assert outcome_of("lost_write", found) == OTHER  # of the lab's producer
    assert outcome_of("duplicate_delivery.illegal", found) == "position"


def test_every_cut_has_an_element_and_the_other_way_round(tmp_path: Path) -> None:
    elements: set[str] = set()
    cuts: set[str] = set()
    flushed = {"producer": STRONG, "topic": {"config": {"flush.messages": 1}}}
    for app in (read(tmp_path, app) for app in (*APPS.values(), flushed)):
        elements |= {e for o in supports.outcomes(app.facts) for s in o.supports for e in s.needs}
        cuts |= {cut for fault in supports.fault_classes(app.facts, app.names) for cut in fault.cuts}
    assert [cut for cut in cuts if not any(fnmatchcase(e, cut) for e in elements)] == []
    never = {e for e in elements if not any(fnmatchcase(e, cut) for cut in cuts)}
    internal = {f"{log}{n}.memory" for log in ("coordinator", "transactions") for n in (1, 2)}
    assert never <= internal | {"follower1.disk"}  # a fault of one follower hits the last one


def test_a_controller_is_cut_off_only_where_controllers_are_dedicated(tmp_path: Path) -> None:
    combined, dedicated = sets(read(tmp_path, APPS["reliable"])), sets(read(tmp_path, APPS["controllers"]))
    assert "controller-isolated" not in combined
    assert "control" in dedicated["controller-isolated"].cuts_all


def test_a_lone_controller_has_no_successor(tmp_path: Path) -> None:
    lone = sets(read(tmp_path, {**APPS["controllers"], "cluster": {"controllers": 1}}))
    assert not [name for name in lone if "controller-" in name]
    assert "controller-crash" in sets(read(tmp_path, APPS["controllers"]))


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
