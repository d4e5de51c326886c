"""Rules for a migration from ZooKeeper to KRaft: which releases support it, and the order of its steps."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from chaos.cluster.settings import ZOOKEEPER_BEFORE, line_of
from chaos.scenario.faults.base import FaultSpec
from chaos.scenario.faults.controllers import MIN_SUCCESSION, ControllerFault
from chaos.scenario.faults.migration import MigrationProvision, MigrationRollback, MigrationStep
from chaos.scenario.setup import Setup

MIGRATES_SINCE = (3, 6)
"""The first line of releases for which Kafka calls the migration ready for production; 3.4 and 3.5 had a preview."""
ZOOKEEPER, KRAFT = "zookeeper", "kraft"
"""The places of metadata before the first step, and without a migration or after the last step."""
_BEFORE = {
    "migration.provision": (ZOOKEEPER,),
    "migration.enter": ("migration.provision",),
    "migration.switch": ("migration.enter",),
    "migration.finalize": ("migration.switch",),
    "migration.rollback": ("migration.provision", "migration.enter", "migration.switch"),
}
"""The states in which a step may begin: the place of metadata, or the step that was done last."""
_AFTER = {"migration.finalize": KRAFT, "migration.rollback": ZOOKEEPER}
_SAID = {ZOOKEEPER: "all metadata is in ZooKeeper", KRAFT: "the metadata is in KRaft, for good"}


def start_state(setup: Setup) -> str:
    """Return the state of a new cluster."""
    return ZOOKEEPER if setup.cluster.metadata == "zookeeper" else KRAFT


def state_after(step: MigrationStep, state: str) -> str:
    """Return the state after a step."""
    return state if isinstance(step, MigrationRollback) and step.refused else _AFTER.get(step.kind, step.kind)


def under_way(state: str) -> bool:
    """Return whether a migration has begun, and is not final."""
    return state not in (ZOOKEEPER, KRAFT)


def can_migrate(release: str) -> bool:
    """Return whether brokers of a release can migrate from ZooKeeper to KRaft."""
    return MIGRATES_SINCE <= line_of(release) < ZOOKEEPER_BEFORE


def step_problems(
    setup: Setup, where: str, step: MigrationStep, state: str, releases: Collection[str], final: tuple[int, int]
) -> Iterator[str]:
    """Yield what is wrong with a step in a state of the cluster. final: the line of inter.broker.protocol.version."""
    lines = {line_of(release) for release in releases}
    if setup.cluster.metadata != ZOOKEEPER:
        yield (
            f"{where}: {step.kind} is for a cluster that keeps its metadata in ZooKeeper, and this one has KRaft; "
            f"give cluster.metadata: zookeeper and a release of {_text(MIGRATES_SINCE)} to 3.9"
        )
    elif isinstance(step, MigrationRollback) and (state == KRAFT or step.refused):
        yield from _final_problems(where, step, state)
    elif state not in _BEFORE[step.kind]:
        needed = " or ".join(_SAID.get(s, f"{s} was done last") for s in _BEFORE[step.kind])
        yield f"{where}: {step.kind} begins when {needed}; here {_SAID.get(state, f'{state} was done last')}"
    elif isinstance(step, MigrationProvision) and len(lines) > 1:
        yield f"{where}: the brokers run {' and '.join(sorted(releases))}; upgrade all of them before"
    elif isinstance(step, MigrationProvision) and not can_migrate(min(releases)):
        yield (
            f"{where}: Kafka {min(releases)} cannot migrate to KRaft in production; upgrade the brokers before, "
            f"or choose a release of {_text(MIGRATES_SINCE)} to 3.9"
        )
    elif isinstance(step, MigrationProvision) and lines != {final}:
        yield (
            f"{where}: the brokers run {min(releases)} with the inter.broker.protocol.version of {_text(final)}; "
            "let cluster.finalize raise it before"
        )


def _final_problems(where: str, step: MigrationRollback, state: str) -> Iterator[str]:
    if not step.refused:
        yield (
            f"{where}: the migration is final, so there is no way back; roll back before migration.finalize, "
            "or set refused: true to see the refusal"
        )
    elif state != KRAFT:
        yield f"{where}.refused: the way back is not refused, because the migration is not final"


def release_change_problem(where: str, kind: str) -> str:
    """Return the problem of a change of releases or features while a migration is under way."""
    return (
        f"{where}: {kind} during a migration, which Kafka does not support; "
        "let it take place before migration.provision, or after migration.finalize or migration.rollback"
    )


def beside_problems(faults: Sequence[FaultSpec]) -> Iterator[str]:
    """Yield the problems of other faults in a scenario with a migration."""
    provisions = [fault for fault in faults if isinstance(fault, MigrationProvision)]
    if not provisions:
        return
    fewest = min(fault.controllers for fault in provisions)
    for i, fault in enumerate(faults):
        where = f"faults[{i}]"
        if isinstance(fault, ControllerFault):
            if fewest < MIN_SUCCESSION:
                yield (
                    f"{where}: with {fewest} controllers the others are no majority; "
                    f"let migration.provision start {MIN_SUCCESSION} controllers or more"
                )
        elif fault.target.controller:
            yield (
                f"{where}.target.controller: the active controller is no broker during a migration; "
                "choose a broker, or a fault controller.*"
            )


def _text(line: tuple[int, int]) -> str:
    return ".".join(map(str, line))
