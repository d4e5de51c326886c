"""Changes of voters without a cluster: what is refused, the conditions of the proofs, and heals."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from chaos.errors import FaultError
from chaos.faults import FAULTS, SPECS, controllers
from chaos.faults.base import World
from chaos.kafka.voters import Members, Replica
from chaos.setup.triggers import Target, Trigger
from tests.chaos.faults.test_brokers import Cluster

END = 100


class Quorum:
    """Four controllers: 101 to 103 are voters, and 101 is active. The class stands in for `chaos.kafka.voters`."""

    def __init__(self) -> None:
        self.leader, self.epoch, self.silent = 101, 1, False
        self.ends = dict.fromkeys((101, 102, 103, 104), END)
        self.disks = {node: UUID(int=node) for node in self.ends}
        self.voters = {node: self.disks[node] for node in (101, 102, 103)}
        self.requests: list[str] = []
        self.obeys = True

    def members(self, kafka: object) -> Members | None:
        if self.silent:
            return None
        voters = {node: Replica(disk, self.ends[node]) for node, disk in self.voters.items()}
        observers = {n: Replica(disk, self.ends[n]) for n, disk in self.disks.items() if n not in self.voters}
        return Members(self.leader, self.epoch, voters, observers)

    def remove(self, kafka: object, node: int, directory: UUID) -> None:
        self.requests.append(f"remove {node}")
        if self.obeys and self.voters.get(node) == directory:
            del self.voters[node]

    def add(self, kafka: object, node: int, directory: UUID, listener: str, address: str) -> None:
        self.requests.append(f"add {node} {listener} {address}")
        if self.obeys:
            self.voters[node] = directory


@pytest.fixture
def four(monkeypatch: pytest.MonkeyPatch) -> Quorum:
    found = Quorum()
    monkeypatch.setattr("chaos.kafka.voters", found)
    monkeypatch.setattr(controllers, "CHANGE_TIMEOUT_S", 0.3)
    return found


def world_of(four: Quorum) -> Any:
    cluster: Any = Cluster()
    cluster.controller_ids = (101, 102, 103, 104)
    cluster.state = SimpleNamespace(
        zookeeper=None, node=lambda node: SimpleNamespace(quorum=f"h:{node}", address="platform:1")
    )
    kafka = SimpleNamespace(
        controller=lambda: (four.leader, four.epoch),
        quorum=lambda: SimpleNamespace(ends=dict.fromkeys(four.voters, END)),
    )
    return World(SimpleNamespace(), cluster, None, None, kafka, random.Random(1))  # type: ignore[arg-type]


def fault_of(kind: str, **target: Any) -> Any:
    return FAULTS[kind](SPECS[kind](name="f", kind=kind, target=Target(**target), when=Trigger(at=0)))


def test_a_removed_active_controller_is_proven_by_another_one_that_lists_the_others(four: Quorum) -> None:
    fault, world = fault_of("quorum.remove_voter", controller=True), world_of(four)
    assert fault.proof(world) is None and fault.heal(world) == "nothing to heal"
    assert fault.inject(world) == "removed controller 101 from the voters 101, 102, 103"
    assert fault.proof(world) is None, "it is no voter, but still active"
    four.leader, four.epoch = 102, 2
    expected = "controller 102, active in epoch 2, lists 102, 103; controller 101 follows as an observer"
    assert fault.proof(world) == expected
    four.silent = True
    assert fault.proof(world) is None
    four.silent = False
    for _ in range(2):
        assert fault.heal(world) == "controller 101 is a voter again, of 101, 102, 103"
    assert fault.proof(world) is None
    assert four.requests == ["remove 101", "add 101 CONTROLLER h:101"]


def test_a_request_without_an_effect_proves_nothing(four: Quorum) -> None:
    four.obeys = False
    fault, world = fault_of("quorum.remove_voter", controller_follower=True), world_of(four)
    fault.inject(world)
    assert fault.proof(world) is None
    with pytest.raises(FaultError, match="controller 104 is not listed as a voter"):
        fault_of("quorum.add_voter", controller_observer=True).inject(world)


@pytest.mark.parametrize(("behind", "refused"), [((), False), ((103,), True), ((101,), False)])
def test_a_removal_that_leaves_no_majority_is_not_tried(four: Quorum, behind: tuple[int, ...], refused: bool) -> None:
    four.leader = 102
    four.ends |= dict.fromkeys(behind, END - controllers.MIN_BEHIND)
    fault, world = fault_of("quorum.remove_voter", controller=True), world_of(four)
    four.voters = {node: four.disks[node] for node in ((102, 103) if 101 in behind else (101, 102, 103))}
    if refused:
        with pytest.raises(FaultError, match="no majority of the voters 101, 103 would follow: only 101 of them reads"):
            fault.inject(world)
        assert not four.requests and fault.heal(world) == "nothing to heal"
    else:
        fault.inject(world)
        assert four.requests == ["remove 102"]


def test_a_controller_that_does_not_follow_is_not_made_a_voter(four: Quorum) -> None:
    four.ends[104] = END - controllers.MIN_BEHIND
    fault, world = fault_of("quorum.add_voter", controller_observer=True), world_of(four)
    with pytest.raises(FaultError, match="controller 104 does not read the metadata log as an observer"):
        fault.inject(world)
    assert not four.requests


def test_an_added_voter_is_removed_again(four: Quorum) -> None:
    fault, world = fault_of("quorum.add_voter", controller_observer=True), world_of(four)
    assert fault.inject(world) == "added controller 104 to the voters 101, 102, 103"
    assert fault.proof(world) == "controller 101, active in epoch 1, lists 101, 102, 103, 104"
    for _ in range(2):
        assert fault.heal(world) == "controller 104 is an observer again; voters are 101, 102, 103"
    assert fault.proof(world) is None


def test_without_an_observer_there_is_none_to_add(four: Quorum) -> None:
    four.voters = dict(four.disks)
    with pytest.raises(FaultError, match="every controller is a voter already"):
        fault_of("quorum.add_voter", controller_observer=True).inject(world_of(four))


def replace(four: Quorum, monkeypatch: pytest.MonkeyPatch, new_disk: bool = True) -> tuple[Any, Any]:
    fault, world = fault_of("quorum.replace_voter", controller_follower=True), world_of(four)

    def wipe(node: int) -> None:
        world.cluster.operations.append(("wipe", node))
        if new_disk:
            four.disks[node] = UUID(int=node + 1000)

    world.cluster.wipe_disk = wipe
    world.cluster.replicas_on_disk = lambda node: 0
    return fault, world


def test_a_replaced_voter_is_proven_by_its_new_directory(four: Quorum, monkeypatch: pytest.MonkeyPatch) -> None:
    fault, world = replace(four, monkeypatch)
    fault.inject(world)
    node = fault.broker
    assert [what for what, _ in world.cluster.operations] == ["kill", "wipe", "start"]
    assert f"the directory of controller {node} went from" in str(fault.proof(world))
    four.ends[node] = END - controllers.MIN_BEHIND
    assert fault.proof(world) is None, "it is listed, but does not follow"
    four.ends[node] = END
    assert fault.heal(world) == f"controller {node} is a voter already"


def test_a_voter_with_its_old_disk_is_not_replaced(four: Quorum, monkeypatch: pytest.MonkeyPatch) -> None:
    fault, world = replace(four, monkeypatch, new_disk=False)
    with pytest.raises(FaultError, match="does not read the metadata log as an observer"):
        fault.inject(world)
    assert fault.proof(world) is None


def test_a_replacement_that_failed_half_way_is_completed(four: Quorum, monkeypatch: pytest.MonkeyPatch) -> None:
    fault, world = replace(four, monkeypatch)
    four.obeys = False
    with pytest.raises(FaultError, match=r"is not listed as a voter|does not read"):
        fault.inject(world)
    four.obeys = True
    assert fault.heal(world) == f"{fault.resolved} is a voter again, of 101, 102, 103"
    assert [what for what, _ in world.cluster.operations].count("wipe") == 1
    assert four.voters[fault.broker] == UUID(int=fault.broker + 1000)
