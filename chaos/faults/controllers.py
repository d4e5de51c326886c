"""Faults of KRaft controllers, and changes of the voters of a dynamic quorum (KIP-853).

Without dedicated controllers, every broker is one.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from chaos.cluster.api import Kill, Start, Wipe, able
from chaos.cluster.settings import LISTENER
from chaos.errors import FaultError
from chaos.faults import targets
from chaos.faults.base import BY_ADMINISTRATOR, Direction, Fault, FaultSpec, World
from chaos.faults.brokers import BrokerPause, PauseSpec
from chaos.faults.network import ONE_WAY, CutFault
from chaos.faults.targets import BrokerFault, start_down
from chaos.setup.model import Setup
from chaos.setup.triggers import CONTROLLER_TARGETS

if TYPE_CHECKING:
    from chaos.kafka.voters import Members, Replica

MIN_SUCCESSION = 3
"""Least number of controllers that leaves a majority when one is cut off."""

PROBE_S = 2.0
"""Time in which a request to check a new topic is answered if a controller is active."""

MIN_BEHIND = 4
"""Records of the metadata log that a voter must miss to count as gone: the active controller writes two per second."""

CHANGE_TIMEOUT_S = 30.0
"""Time for a controller to read the metadata log before it becomes a voter, and again until it is listed as one."""


class ControllerFaultSpec(FaultSpec):
    """A fault of controllers, dedicated or not."""

    targets = CONTROLLER_TARGETS - {"controller_observer"}
    hits_controllers = True


class ControllerKillSpec(ControllerFaultSpec):
    """SIGKILL controllers; healed by a start with the old disks."""

    effects = frozenset({"outage", "crash", "connections"})
    needs = frozenset({"kill", "start"})
    proven_when_back = frozenset({"controllers"})
    kind: Literal["controller.kill"]


def _acked(world: World) -> int:
    """Return how many records all clients of the run had acknowledged; 0 if there is no run."""
    return world.fleet.total_acked() if world.fleet else 0


class ControllerKill(BrokerFault[ControllerKillSpec], spec=ControllerKillSpec):
    """SIGKILL. Proof: another controller is active, or the same one in a higher epoch.

    If the active one was not killed: the metadata log of the killed one ends, and the log of the active one goes on. If
    no majority is left: brokers answer, but name no active controller, and get no answer to a request for a new topic.
    """

    _active: int
    _epoch: int
    _acked: int
    _killed_s: float
    _voters: int
    """The number of voters before the kill."""
    _ends: Mapping[int, int]
    """The end of the metadata log of each voter before the kill."""

    def _inject(self, world: World) -> str:
        """Kill the targets. Raises `FaultError` if no controller is active before."""
        self._active, self._epoch = targets.controller(world)
        self._voters = len(targets.voters(world))
        self._ends = {} if self._active in self.brokers else self._log_ends(world)
        self._acked, self._killed_s, self.begun = _acked(world), time.monotonic(), True
        for node in self.brokers:
            able(world.cluster, Kill).kill_broker(node)
        role = "the active controller" if self._active in self.brokers else f"{self._active} is the active controller"
        count = self._voters
        left = f"; {count - len(self.brokers)} of {count} controllers left, no majority" if self._stalls() else ""
        return f"killed {self.resolved}, {role} in epoch {self._epoch}{left}"

    def _stalls(self) -> bool:
        """Return whether the controllers that are left are no majority."""
        return self._voters - len(self.brokers) < self._voters // 2 + 1

    def _log_ends(self, world: World) -> Mapping[int, int]:
        quorum = targets.answer(world.kafka.quorum, "no broker describes the quorum")
        return quorum.ends

    def _effect(self, world: World) -> str | None:
        if self._ends:
            return self._left_behind(world)
        found = world.kafka.controller()
        if found is None:
            return self._stalled(world) if self._stalls() else None
        controller, epoch = found
        if controller == self._active and epoch <= self._epoch:
            return None
        epochs = f", epoch {self._epoch} to {epoch}" if epoch else ""
        return f"the active controller went from {self._active} to {controller}{epochs}"

    def _left_behind(self, world: World) -> str | None:
        quorum, (node,) = world.kafka.quorum(), self.brokers
        if quorum is None or quorum.leader == node or node not in quorum.ends:
            return None
        stays, end = quorum.ends[node], quorum.ends[quorum.leader]
        if min(end - stays, end - self._ends[self._active]) < MIN_BEHIND:
            return None
        return f"the metadata log of {self.resolved} stays at {stays}, and the active controller is at {end}"

    def _stalled(self, world: World) -> str | None:
        """Return the proof that the cluster serves, but nothing can change its metadata."""
        from chaos.kafka import admin

        if world.kafka.metadata() is None or admin.accepts_changes(world.kafka, PROBE_S):
            return None
        acked = f"; {_acked(world) - self._acked:,} records were acknowledged since the kill" if world.fleet else ""
        return (
            "brokers answer, but name no active controller and do not check a request for a new topic within "
            f"{PROBE_S:g} s{acked}"
        )

    def _undo(self, world: World) -> str:
        start_down(self.brokers, world)
        back = f"{self.resolved} {'is' if len(self.brokers) == 1 else 'are'} back"
        if not self._stalls():
            return back
        acked = _acked(world) - self._acked
        targets.controller(world)
        seconds = time.monotonic() - self._killed_s
        self.evidence |= {"without_controller_s": round(seconds, 1), "acked_without_controller": acked}
        if not world.fleet:
            return f"{back}, after {seconds:.1f} s without an active controller"
        return f"{back}; {acked:,} records were acknowledged in {seconds:.1f} s without an active controller"


class ControllerPauseSpec(ControllerFaultSpec, PauseSpec):
    """SIGSTOP controllers: connections stay open, requests get no answer; healed by SIGCONT."""

    effects = frozenset({"outage", "isolates", "late", "connections"})
    kind: Literal["controller.pause"]


class ControllerPause(BrokerPause, spec=ControllerPauseSpec):
    """SIGSTOP. Proof: controllers that answered before accept a connection and leave a request unanswered."""


class ControllerIsolateSpec(ControllerFaultSpec):
    """Drop the packets between the active controller and the other controllers; healed by letting them pass.

    Brokers still reach it, so it may go on as the active one together with its successor.
    """

    effects = frozenset({"outage", "isolates", "connections"})
    targets = frozenset({"controller"})
    needs = frozenset({"isolate"})
    kind: Literal["controller.isolate"]
    direction: Direction = "both"

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the controllers are dedicated, and that the others are a majority."""
        yield from super().problems(setup, where)
        count = setup.cluster.voters or setup.cluster.controllers
        if count is None:
            yield f"{where}: needs cluster.controllers; with brokers that are controllers too, use broker.isolate"
        elif count < MIN_SUCCESSION:
            key = "voters" if setup.cluster.voters else "controllers"
            yield (
                f"{where}: with {count} {key} the others are no majority, so none becomes active; "
                f"give cluster.{key} {MIN_SUCCESSION} or more"
            )


class ControllerIsolate(CutFault[ControllerIsolateSpec], spec=ControllerIsolateSpec):
    """Cut the active controller off from the others. Proof: another one answers as active, in a higher epoch."""

    _epoch: int

    def _inject(self, world: World) -> str:
        from chaos.relay.cuts import Cut

        active, self._epoch = targets.controller(world)
        others = tuple(node for node in targets.controllers(world) if node != active)
        self.brokers, self.resolved = [active], targets.node_name(active, world)
        self._cut_network([Cut(active, others, False, self.spec.direction)], world)
        cut = f"cut {self.resolved}, active in epoch {self._epoch}, off from {', '.join(map(str, others))}"
        return f"{cut}{ONE_WAY[self.spec.direction]}"

    def _effect(self, world: World) -> str | None:
        """Ask the controllers themselves: brokers may still follow the controller that is cut off."""
        from chaos.kafka.client import ask_controller
        from chaos.kafka.connection import BrokerConnection

        beliefs = {}
        for node, address in world.cluster.state.controller_addresses.items():
            link = BrokerConnection(*address, targets.access_to(node, world))
            beliefs[node] = ask_controller(node, link, targets.SILENCE_S)
            link.close()
        epochs = {node: belief.epoch for node, belief in beliefs.items() if belief and belief.epoch is not None}
        later = {node: epoch for node, epoch in epochs.items() if node != self.broker and epoch > self._epoch}
        if not later:
            return None
        node, epoch = max(later.items(), key=lambda item: item[1])
        still = "still believes to be" if self.broker in epochs else "is no longer"
        return f"controller {node} is active in epoch {epoch}, and {self.resolved} {still} active"


class VoterChangeSpec(ControllerFaultSpec):
    """A change of the voters."""

    run_only = "the quorum that a run formats"

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the quorum is dynamic."""
        yield from super().problems(setup, where)
        cluster = setup.cluster
        if cluster.voters is None:
            yield (
                f"{where}: the quorum is static; for a dynamic one, give cluster.controllers and cluster.voters, "
                "such as 3, and a release from 3.9 on"
            )


class QuorumRemoveVoterSpec(VoterChangeSpec):
    """Remove a controller from the voters of a dynamic quorum, as kafka-metadata-quorum.sh remove-controller does.

    It follows the metadata log as an observer; healed by adding it again.
    """

    effects = frozenset({"voters"})
    left_out = BY_ADMINISTRATOR
    targets = frozenset({"controller", "controller_follower"})
    kind: Literal["quorum.remove_voter"]


V = TypeVar("V", bound=VoterChangeSpec)


class VoterChange(BrokerFault[V]):
    """A change of the voters of one quorum. Its proof asks a broker, which asks the active controller."""

    _before: Members

    def _begin(self, world: World) -> None:
        from chaos.kafka import voters

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
        from chaos.kafka import voters

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
        from chaos.kafka import voters

        voters.remove(world.kafka, self.broker, voter.directory)


class QuorumRemoveVoter(VoterChange[QuorumRemoveVoterSpec], spec=QuorumRemoveVoterSpec):
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
        from chaos.kafka import voters

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


class QuorumReplaceVoterSpec(VoterChangeSpec):
    """Replace a controller that lost its disk: kill it, remove it from the voters, start it empty, and add it again.

    Its new disk has another directory ID, so it is another voter. Healed by what is left of these steps.
    """

    effects = frozenset({"voters"})
    left_out = BY_ADMINISTRATOR
    targets = frozenset({"controller", "controller_follower"})
    needs = frozenset({"kill", "start", "wipe"})
    kind: Literal["quorum.replace_voter"]


class QuorumReplaceVoter(VoterChange[QuorumReplaceVoterSpec], spec=QuorumReplaceVoterSpec):
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
        from chaos.kafka import voters
        from chaos.kafka.brokers import id_text

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


class QuorumAddVoterSpec(VoterChangeSpec):
    """Make a controller that is an observer a voter of a dynamic quorum, as kafka-metadata-quorum.sh add-controller.

    Healed by removing it from the voters.
    """

    effects = frozenset({"voters"})
    left_out = BY_ADMINISTRATOR
    targets = frozenset({"controller_observer"})
    kind: Literal["quorum.add_voter"]

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that there is an observer."""
        yield from super().problems(setup, where)
        cluster = setup.cluster
        if cluster.voters is not None and cluster.voters == cluster.controllers:
            yield (
                f"{where}: all {cluster.controllers} controllers are voters, so there is none to add; "
                "give more cluster.controllers than cluster.voters"
            )


class QuorumAddVoter(VoterChange[QuorumAddVoterSpec], spec=QuorumAddVoterSpec):
    """One more voter. Proof: the active controller lists it among the voters."""

    def _inject(self, world: World) -> str:
        """Add the target."""
        self._begin(world)
        self.begun = True
        self._join(world)
        return f"added {self.resolved} to the voters {listed(self._before.voters)}"

    def _effect(self, world: World) -> str | None:
        from chaos.kafka import voters

        now = voters.members(world.kafka)
        if now is None or self.broker not in now.voters:
            return None
        return f"controller {now.leader}, active in epoch {now.epoch}, lists {listed(now.voters)}"

    def _undo(self, world: World) -> str:
        from chaos.kafka import voters

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


def voter_problems(voters: int, faults: Sequence[FaultSpec]) -> Iterator[str]:
    """Yield the removals after which the quorum may have no majority that is up.

    voters: at the beginning. A removal counts until a fault that begins after its heal.
    """
    removals = [f for f in faults if isinstance(f, QuorumRemoveVoterSpec | QuorumReplaceVoterSpec)]
    for i, fault in enumerate(faults):
        if not isinstance(fault, QuorumRemoveVoterSpec | QuorumReplaceVoterSpec):
            continue
        healed = _healed_before(fault, faults)
        apart = healed | {f.name for f in removals if fault.name in _healed_before(f, faults)}
        others = [f.name for f in removals if f is not fault and f.name not in apart]
        needed = len(others) + (MIN_SUCCESSION if isinstance(fault, QuorumReplaceVoterSpec) else 2)
        if voters < needed:
            together = f" with {', '.join(others)}" if others else ""
            yield (
                f"faults[{i}]: with {voters} voters it may leave no majority{together}; "
                f"give cluster.voters {needed} or more"
            )


def _healed_before(fault: FaultSpec, faults: Sequence[FaultSpec]) -> set[str]:
    """Return the faults with a heal that a fault waits for, directly or through others."""
    by_name, found, seen = {f.name: f for f in faults}, set[str](), {fault.name}
    while (after := fault.when.awaited) is not None and after.fault in by_name and after.fault not in seen:
        seen.add(after.fault)
        if after.phase == "healed":
            found.add(after.fault)
        fault = by_name[after.fault]
    return found


FAULTS: dict[str, type[Fault[Any]]] = {
    "controller.kill": ControllerKill,
    "controller.pause": ControllerPause,
    "controller.isolate": ControllerIsolate,
    "quorum.remove_voter": QuorumRemoveVoter,
    "quorum.replace_voter": QuorumReplaceVoter,
    "quorum.add_voter": QuorumAddVoter,
}
