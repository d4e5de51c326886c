"""Changes of the voters of a dynamic KRaft quorum (KIP-853)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from chaos.scenario.faults.base import FaultSpec
from chaos.scenario.faults.controllers import MIN_SUCCESSION, ControllerFault
from chaos.setup.model import Setup


class VoterChange(ControllerFault):
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


class QuorumRemoveVoter(VoterChange):
    """Remove a controller from the voters of a dynamic quorum, as kafka-metadata-quorum.sh remove-controller does.

    It follows the metadata log as an observer; healed by adding it again.
    """

    targets = frozenset({"controller", "controller_follower"})
    kind: Literal["quorum.remove_voter"]


class QuorumReplaceVoter(VoterChange):
    """Replace a controller that lost its disk: kill it, remove it from the voters, start it empty, and add it again.

    Its new disk has another directory ID, so it is another voter. Healed by what is left of these steps.
    """

    targets = frozenset({"controller", "controller_follower"})
    needs = frozenset({"kill", "start", "wipe"})
    kind: Literal["quorum.replace_voter"]


class QuorumAddVoter(VoterChange):
    """Make a controller that is an observer a voter of a dynamic quorum, as kafka-metadata-quorum.sh add-controller.

    Healed by removing it from the voters.
    """

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


def voter_problems(voters: int, faults: Sequence[FaultSpec]) -> Iterator[str]:
    """Yield the removals after which the quorum may have no majority that is up.

    voters: at the beginning. A removal counts until a fault that begins after its heal.
    """
    removals = [f for f in faults if isinstance(f, QuorumRemoveVoter | QuorumReplaceVoter)]
    for i, fault in enumerate(faults):
        if not isinstance(fault, QuorumRemoveVoter | QuorumReplaceVoter):
            continue
        healed = _healed_before(fault, faults)
        apart = healed | {f.name for f in removals if fault.name in _healed_before(f, faults)}
        others = [f.name for f in removals if f is not fault and f.name not in apart]
        needed = len(others) + (MIN_SUCCESSION if isinstance(fault, QuorumReplaceVoter) else 2)
        if voters < needed:
            beside = f" beside {', '.join(others)}" if others else ""
            yield (
                f"faults[{i}]: with {voters} voters it may leave no majority{beside}; "
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
