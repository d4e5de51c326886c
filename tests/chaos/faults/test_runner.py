"""The run of a fault records its intent, outcome and proof, and every failed heal."""

import json
import threading
import time
from types import SimpleNamespace

import pyarrow as pa
import pytest

from chaos.errors import FaultError
from chaos.faults.base import Fault
from chaos.faults.brokers import BrokerKillSpec
from chaos.faults.runner import FaultRun
from chaos.setup.triggers import Target, Trigger
from chaos.wait import wait_until

SPEC = BrokerKillSpec(name="kill", kind="broker.kill", target=Target(leader_of="orders/0"), when=Trigger(at=0))


class Scripted(Fault):
    """A fault that follows the script of a test."""

    def __init__(self, breaks_at="", proofs=(), error=None):
        super().__init__(SPEC)
        self.breaks_at, self.proofs, self.healed = breaks_at, list(proofs), 0
        self.error = error or FaultError("no such broker")

    def _inject(self, world):
        self.resolved, self.begun = "broker 2", True
        if self.breaks_at == "inject":
            raise self.error
        return "killed broker 2"

    def _effect(self, world):
        return self.proofs.pop(0) if self.proofs else None

    def _undo(self, world):
        self.healed += 1
        if self.breaks_at == "heal":
            raise self.error
        return "broker 2 is back"


class Rows:
    """A ledger writer that keeps its rows in memory."""

    def __init__(self):
        self.rows, self.problems = [], []

    def append_rows(self, rows):
        self.rows += rows

    def phases(self):
        return [row["phase"] for row in self.rows]


@pytest.fixture
def rows():
    return Rows()


def run_of(fault, rows, proof_timeout_s=5.0):
    events = SimpleNamespace(emit=lambda *a, **k: None, problem=rows.problems.append)
    return FaultRun(fault, None, rows, events, proof_timeout_s)


def settled(run):
    wait_until(lambda: not run.busy, 10, "the fault is still busy")


def test_a_fault_passes_all_phases_and_records_its_proof(rows):
    run = run_of(Scripted(proofs=[None, None, "orders/0 moved to 3"]), rows)
    run.inject()
    settled(run)
    run.heal()
    settled(run)
    assert rows.phases() == ["injecting", "injected", "proven", "healing", "healed"]
    assert json.loads(rows.rows[2]["evidence"]) == {"words": "orders/0 moved to 3", "resolved": "broker 2"}
    assert rows.rows[0]["target"] == "leader of orders/0"


def test_a_fault_of_another_cluster_names_the_cluster_and_looks_at_it_directly_before(rows, monkeypatch):
    fault, seen = Scripted(proofs=["broker 2 is gone"]), []
    fault.spec = SPEC.model_copy(update={"cluster": "dr"})
    run = run_of(fault, rows)
    run.look = lambda world: seen.append(world) or "the world of dr"
    run.inject()
    settled(run)
    assert (seen, run.world) == ([None], "the world of dr")
    assert json.loads(rows.rows[2]["evidence"])["words"] == "cluster dr: broker 2 is gone"
    assert rows.rows[0]["target"] == "leader of orders/0 of cluster dr"


def test_a_fault_without_effect_is_never_proven(rows):
    run = run_of(Scripted(), rows, proof_timeout_s=0.1)
    run.inject()
    settled(run)
    assert "proven" not in run.phases


def test_the_time_of_a_heal_does_not_count_for_a_proof_that_shows_when_brokers_are_back(rows):
    back = threading.Event()
    fault = Scripted()
    fault.proof = lambda world: "the log ends early" if back.is_set() else None
    fault.heal = lambda world: time.sleep(0.6) or back.set() or "back"
    run = run_of(fault, rows, proof_timeout_s=0.4)
    run.inject()
    run.heal()
    settled(run)
    assert run.phases["proven"] >= run.phases["healing"] + 0.6


def test_a_search_for_proof_ends_after_a_heal_that_failed(rows):
    run = run_of(Scripted(breaks_at="heal"), rows, proof_timeout_s=0.1)
    run.inject()
    run.heal()
    settled(run)
    assert "proven" not in run.phases


def test_a_failed_injection_is_recorded_and_healed(rows):
    fault = Scripted(breaks_at="inject")
    run = run_of(fault, rows)
    run.inject()
    settled(run)
    run.finish(5)
    assert rows.phases() == ["injecting", "failed", "healing", "healed"]
    assert "no such broker" in run.errors[0]
    assert fault.healed == 1


def test_a_bug_in_a_fault_is_recorded(rows):
    run = run_of(Scripted(breaks_at="inject", error=ZeroDivisionError("division by zero")), rows)
    run.inject()
    settled(run)
    assert "division by zero" in run.errors[0]
    assert rows.phases()[-1] == "failed"


def test_two_heals_undo_a_fault_once(rows):
    fault = Scripted(proofs=["moved"])
    run = run_of(fault, rows)
    run.inject()
    settled(run)
    run.heal()
    run.finish(5)
    run.finish(5)
    assert fault.healed == 1


def test_a_fault_that_was_not_injected_is_not_healed(rows):
    fault = Scripted()
    run_of(fault, rows).finish(1)
    assert fault.healed == 0
    assert rows.rows == []


def test_a_failed_heal_is_recorded(rows):
    run = run_of(Scripted(breaks_at="heal", proofs=["moved"]), rows)
    run.inject()
    settled(run)
    run.finish(5)
    assert rows.phases()[-1] == "failed"


def test_a_heal_after_its_limit_is_recorded_as_a_failed_heal_and_then_as_healed(rows):
    fault = Scripted(breaks_at="heal", proofs=["moved"])
    run = run_of(fault, rows)
    run.inject()
    settled(run)
    run.heal()
    settled(run)
    fault.breaks_at = ""
    run.finish(5)
    assert rows.phases() == ["injecting", "injected", "proven", "healing", "failed", "healing", "healed"]
    assert json.loads(rows.rows[4]["evidence"])["act"] == "heal"


def hanging(part, release):
    """Return a fault with an injection or a heal that ends only after `release`."""
    fault = Scripted(proofs=["moved"])
    act = getattr(fault, part)
    setattr(fault, part, lambda world: release.wait() and act(world))
    return fault


@pytest.mark.parametrize("by_timeline", [True, False])
def test_a_heal_that_hangs_is_a_problem_once_and_delays_the_end_no_longer(rows, by_timeline):
    release = threading.Event()
    run = run_of(hanging("_undo", release), rows)
    run.inject()
    settled(run)
    if by_timeline:
        run.heal()
    run.finish(0.2)
    began = time.monotonic()
    run.finish(60)
    assert time.monotonic() - began < 30
    assert rows.phases() == ["injecting", "injected", "proven", "healing", "failed"]
    assert json.loads(rows.rows[-1]["evidence"])["act"] == "heal"
    assert rows.problems == [
        "heal of kill failed: the heal did not end within 0.2 s; what it changed may remain",
    ]
    release.set()
    settled(run)
    assert rows.phases()[-1] == "healed"


def test_an_injection_that_hangs_is_named_and_is_healed_when_it_ends(rows):
    release = threading.Event()
    fault = hanging("_inject", release)
    run = run_of(fault, rows)
    run.inject()
    wait_until(lambda: rows.phases(), 10, "no injection")
    run.finish(0.2)
    assert rows.problems == [
        "heal of kill failed: the injection did not end within 0.2 s; what it changed may remain",
    ]
    release.set()
    settled(run)
    assert rows.phases()[-1] == "healed"
    assert fault.healed == 1


def test_a_search_for_proof_that_hangs_does_not_delay_the_heal(rows):
    release = threading.Event()
    run = run_of(hanging("_effect", release), rows)
    run.inject()
    wait_until(lambda: "injected" in run.phases, 10, "no injection")
    run.finish(0.2)
    assert rows.phases() == ["injecting", "injected", "healing", "healed"]
    assert rows.problems == []
    release.set()
    settled(run)


def test_rows_fit_the_ledger_schema(rows):
    from chaos.ledger.schemas import TABLES

    run = run_of(Scripted(proofs=["moved"]), rows)
    run.inject()
    settled(run)
    assert pa.Table.from_pylist(rows.rows, TABLES["faults"]).num_rows == 3
