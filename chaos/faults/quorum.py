"""Changes of the voters of a dynamic KRaft quorum."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from chaos.cluster.api import Kill, Start, Wipe, able
from chaos.cluster.endpoints import LISTENER
from chaos.errors import FaultError
from chaos.faults import targets
from chaos.faults.base import World
from chaos.faults.controllers import MIN_BEHIND
from chaos.faults.targets import BrokerFault, start_down
from chaos.kafka import voters
from chaos.kafka.brokers import id_text
from chaos.kafka.voters import Members, Replica
from chaos.scenario.faults import quorum as specs

V = TypeVar("V", bound=specs.VoterChange)

CHANGE_TIMEOUT_S = 30.0
"""Time for a controller to read the metadata log before it becomes a voter, and again until it is listed as one."""


class VoterChange(BrokerFault[V]):
    """A change of the voters of one quorum. Its proof asks a broker, which asks the active controller."""

    _before: Members

    def _begin(self, world: World) -> None:
        self._before = targets.answer(lambda: voters.members(world.kafka), "no broker describes the quorum")

    def _check_majority(self) -> None:
        """Raise `FaultError` if too few of the voters that would be left follow the metadata log."""
        left = {node: v for node, v in self._before.voters.items() if node != self.broker}
        end = self._before.voters[self._before.leader].end
        following = [node for node, voter in left.items() if voter.end > end - MIN_BEHIND]
        if len(following) <= len(left) // 2:
            raise FaultError(
                f"without {self.resolved}, no majority of the voters {listed(left)} would follow: "
                f"only {listed(following)} of them reads the metadata log"
            )

    def _voter(self) -> Replica:
        """Return the target as a voter. Raises `FaultError` if it is none."""
        voter = self._before.voters.get(self.broker)
        if voter is None:
            raise FaultError(f"{self.resolved} is no voter; voters are {listed(self._before.voters)}")
        return voter

    def _join(self, world: World) -> Members:
        """Make the target, which is up, a voter, and return the members with it. Raises `FaultError`."""

        def caught_up() -> Members | None:
            now = voters.members(world.kafka)
            if now is None or self._has_joined(now):
                return now
            observer, leader = now.observers.get(self.broker), now.voters.get(now.leader)
            known = observer is not None and leader is not None and observer.directory not in self._gone()
            return now if known and observer.end > leader.end - MIN_BEHIND else None  # type: ignore[union-attr]

        why = f"{self.resolved} does not read the metadata log as an observer"
        now = targets.answer(caught_up, why, CHANGE_TIMEOUT_S)
        if not self._has_joined(now):
            node = world.cluster.state.node(self.broker)
            directory = now.observers[self.broker].directory
            voters.add(world.kafka, self.broker, directory, LISTENER, node.quorum or node.address)

        def joined() -> Members | None:
            found = voters.members(world.kafka)
            return found if found and self._has_joined(found) else None

        return targets.answer(joined, f"{self.resolved} is not listed as a voter", CHANGE_TIMEOUT_S)

    def _has_joined(self, now: Members) -> bool:
        voter = now.voters.get(self.broker)
        return voter is not None and voter.directory not in self._gone()

    def _gone(self) -> Collection[object]:
        """Return the directories that the target no longer has."""
        return ()

    def _leave(self, world: World, voter: Replica) -> None:
        voters.remove(world.kafka, self.broker, voter.directory)


class QuorumRemoveVoter(VoterChange[specs.QuorumRemoveVoter], spec=specs.QuorumRemoveVoter):
    """A voter less. Proof: the active controller, which is another node, lists the other voters only."""

    def _inject(self, world: World) -> str:
        """Remove the target. Raises `FaultError` if no majority would be left."""
        self._begin(world)
        voter = self._voter()
        self._check_majority()
        self.begun = True
        self._leave(world, voter)
        return f"removed {self.resolved} from the voters {listed(self._before.voters)}"

    def _effect(self, world: World) -> str | None:
        now = voters.members(world.kafka)
        if now is None or now.leader == self.broker or self.broker in now.voters:
            return None
        role = "follows as an observer" if self.broker in now.observers else "is not listed"
        return (
            f"controller {now.leader}, active in epoch {now.epoch}, lists {listed(now.voters)}; {self.resolved} {role}"
        )

    def _undo(self, world: World) -> str:
        start_down(self.brokers, world)
        return f"{self.resolved} is a voter again, of {listed(self._join(world).voters)}"


class QuorumReplaceVoter(VoterChange[specs.QuorumReplaceVoter], spec=specs.QuorumReplaceVoter):
    """A voter with an empty disk.

    Proof: the active controller lists the voter with another directory ID, and it follows the metadata log.
    """

    _lost: Replica
    _wiped: bool

    def _inject(self, world: World) -> str:
        """Replace the target. Raises `FaultError` if no majority would be left."""
        self._begin(world)
        self._lost, self._wiped = self._voter(), False
        self._check_majority()
        self.begun = True
        able(world.cluster, Kill).kill_broker(self.broker)
        self._replace(world)
        return f"killed {self.resolved}, removed it from the voters, emptied its disk, and added it again"

    def _replace(self, world: World) -> Members:
        """Do the steps that are left, and return the members of the quorum."""
        self._leave(world, self._lost)
        if not self._wiped:
            able(world.cluster, Wipe).wipe_disk(self.broker)
            self._wiped = True
        able(world.cluster, Start).start_broker(self.broker)
        return self._join(world)

    def _gone(self) -> Collection[object]:
        return (self._lost.directory,)

    def _effect(self, world: World) -> str | None:
        now = voters.members(world.kafka)
        voter = now.voters.get(self.broker) if now else None
        if now is None or voter is None or voter.directory == self._lost.directory:
            return None
        if voter.end <= now.voters[now.leader].end - MIN_BEHIND:
            return None
        directories = f"{id_text(self._lost.directory)} to {id_text(voter.directory)}"
        return (
            f"controller {now.leader}, active in epoch {now.epoch}, lists {listed(now.voters)}; "
            f"the directory of {self.resolved} went from {directories}, and it is at offset {voter.end}"
        )

    def _undo(self, world: World) -> str:
        if world.cluster.broker_alive(self.broker) and self._effect(world):
            return f"{self.resolved} is a voter already"
        return f"{self.resolved} is a voter again, of {listed(self._replace(world).voters)}"


class QuorumAddVoter(VoterChange[specs.QuorumAddVoter], spec=specs.QuorumAddVoter):
    """One more voter. Proof: the active controller lists it among the voters."""

    def _inject(self, world: World) -> str:
        """Add the target."""
        self._begin(world)
        self.begun = True
        self._join(world)
        return f"added {self.resolved} to the voters {listed(self._before.voters)}"

    def _effect(self, world: World) -> str | None:
        now = voters.members(world.kafka)
        if now is None or self.broker not in now.voters:
            return None
        return f"controller {now.leader}, active in epoch {now.epoch}, lists {listed(now.voters)}"

    def _undo(self, world: World) -> str:
        now = targets.answer(lambda: voters.members(world.kafka), "no broker describes the quorum")
        if self.broker in now.voters:
            self._leave(world, now.voters[self.broker])

        def left() -> Members | None:
            found = voters.members(world.kafka)
            return found if found and self.broker not in found.voters else None

        now = targets.answer(left, f"{self.resolved} is still listed as a voter", CHANGE_TIMEOUT_S)
        return f"{self.resolved} is an observer again; voters are {listed(now.voters)}"


def listed(nodes: Collection[int]) -> str:
    """Return node IDs as text, such as `101, 102`."""
    return ", ".join(map(str, sorted(nodes))) or "none"
