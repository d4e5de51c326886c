"""The sets of faults that a proof tries, in their order: minimal sets that cut all supports of a promise come first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from chaos.prove.faults import FaultClass
from chaos.prove.supports import Outcome

BASELINE = "none"


@dataclass(frozen=True)
class FaultSet:
    """Faults of one run. aim: the promise of which it cuts the largest share; None without faults.

    cuts_all: ids of the promises of which it cuts every support. rank: its place in the order, which sorts sets.
    """

    faults: tuple[FaultClass, ...]
    aim: Outcome | None
    cuts_all: tuple[str, ...]
    rank: tuple[float, ...]

    @property
    def id(self) -> str:
        """The ids of its faults, such as `followers-freeze+leader-crash`."""
        return "+".join(fault.id for fault in self.faults) or BASELINE

    @property
    def title(self) -> str:
        """The titles of its faults."""
        return ", then ".join(fault.title for fault in self.faults) or "no fault"

    @property
    def cuts(self) -> tuple[str, ...]:
        """The patterns of the elements that it cuts."""
        return tuple(cut for fault in self.faults for cut in fault.cuts)


@dataclass(frozen=True)
class FaultSets:
    """The sets in their order. unrelated: number of pairs that are left out, as no promise is supported by both."""

    sets: list[FaultSet]
    unrelated: int


def plan(outcomes: Sequence[Outcome], classes: Sequence[FaultClass], most: int = 2) -> FaultSets:
    """Return the sets of at most `most` (1 or 2) faults: no fault, single faults, then pairs.

    A pair is tried if some promise loses more supports by both faults than by each of them.
    """
    singles = sorted((_fault_set([fault], outcomes) for fault in classes), key=lambda s: s.rank)
    pairs: list[FaultSet] = []
    unrelated = 0
    for both in combinations(classes, 2) if most > 1 else ():
        related = list(_related(both, outcomes))
        if related:
            pairs.append(_fault_set(sorted(both, key=lambda fault: not fault.rule.away), related))
        else:
            unrelated += 1
    return FaultSets([FaultSet((), None, (), ()), *singles, *sorted(pairs, key=lambda s: s.rank)], unrelated)


def _related(both: Sequence[FaultClass], outcomes: Sequence[Outcome]) -> Iterator[Outcome]:
    """Yield the promises that lose more supports by both faults than by each of them."""
    first, second = both
    for outcome in outcomes:
        fewest = min(len(outcome.left(first.cuts)), len(outcome.left(second.cuts)))
        if len(outcome.left((*first.cuts, *second.cuts))) < fewest:
            yield outcome


def _fault_set(faults: Sequence[FaultClass], related: Sequence[Outcome]) -> FaultSet:
    cuts = [cut for fault in faults for cut in fault.cuts]
    share = {o.id: 1 - len(o.left(cuts)) / len(o.supports) for o in related if o.is_touched(cuts)}
    aim = max((o for o in related if o.id in share), key=lambda o: share[o.id], default=None)
    cuts_all = tuple(name for name, part in share.items() if part == 1)
    return FaultSet(tuple(faults), aim, cuts_all, (not cuts_all, -max(share.values(), default=0.0)))
