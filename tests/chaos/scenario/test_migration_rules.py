"""The steps of a migration from ZooKeeper to KRaft in a scenario: what Kafka does not support is refused at load."""

from __future__ import annotations

import pytest

from chaos.errors import ScenarioError
from chaos.scenario.migration_rules import MIGRATES_SINCE, can_migrate
from chaos.scenario.model import Scenario
from tests.chaos.scenario.test_releases import scenario as build

ZOOKEEPER = "kafka: 3.9.2, metadata: zookeeper"
KINDS = {
    "provision": "kind: migration.provision",
    "enter": "kind: migration.enter",
    "switch": "kind: migration.switch",
    "finalize": "kind: migration.finalize",
    "rollback": "kind: migration.rollback",
    "refused": "kind: migration.rollback, refused: true",
    "upgrade-3.9": "kind: cluster.upgrade, to: 3.9.2",
    "upgrade-4.3": "kind: cluster.upgrade, to: 4.3.1",
    "raise": "kind: cluster.finalize",
    "provision-1": "kind: migration.provision, controllers: 1",
    "kill-controller": "kind: controller.kill, target: {controller: true}",
    "kill-active": "kind: broker.kill, target: {controller: true}",
    "kill-follower": "kind: controller.kill, target: {controller_follower: true}",
    "kill": "kind: broker.kill, target: {broker: 1}",
}
ALL = ["provision", "enter", "switch", "finalize"]


def scenario(*steps: str, cluster: str = ZOOKEEPER) -> Scenario:
    """Return a scenario with these steps, each after the one before it."""
    faults = []
    for i, step in enumerate(steps):
        fault = KINDS[step] if "target" in KINDS[step] else f"{KINDS[step]}, target: {{all_brokers: true}}"
        when = f"{{after: f{i - 1}.proven}}" if i else "{at: 1s}"
        faults.append(f"name: f{i}, {fault}, when: {when}")
    return build(*faults, cluster=cluster)


@pytest.mark.parametrize(
    ("steps", "cluster"),
    [
        (ALL, ZOOKEEPER),
        (ALL, "kafka: 3.6.2, metadata: zookeeper"),
        ([*ALL, "refused"], ZOOKEEPER),
        ([*ALL, "upgrade-4.3", "raise"], ZOOKEEPER),
        (["upgrade-3.9", "raise", *ALL], "kafka: 2.8.2"),
        (["provision", "rollback"], ZOOKEEPER),
        (["provision", "enter", "rollback", "provision", "enter"], ZOOKEEPER),
        (["provision", "enter", "switch", "rollback", "upgrade-3.9"], "kafka: 3.8.1, metadata: zookeeper"),
        (["provision", "enter", "kill", "switch", "kill-controller", "finalize"], ZOOKEEPER),
    ],
)
def test_supported_steps_are_accepted(steps: list[str], cluster: str) -> None:
    assert len(scenario(*steps, cluster=cluster).faults) == len(steps)


@pytest.mark.parametrize(
    ("steps", "cluster", "message"),
    [
        (
            ["provision"],
            "kafka: 3.9.2",
            "faults[0]: migration.provision is for a cluster that keeps its metadata in Zoo",
        ),
        (["provision"], "kafka: 4.3.1", "give cluster.metadata: zookeeper and a release of 3.6 to 3.9"),
        (["provision"], "kafka: 3.5.2, metadata: zookeeper", "Kafka 3.5.2 cannot migrate to KRaft in production"),
        (
            ["upgrade-3.9", "provision"],
            "kafka: 2.8.2",
            "with the inter.broker.protocol.version of 2.8; let cluster.finali",
        ),
        (
            ["enter"],
            ZOOKEEPER,
            "migration.enter begins when migration.provision was done last; here all metadata is in Zoo",
        ),
        (["provision", "switch"], ZOOKEEPER, "migration.switch begins when migration.enter was done last"),
        (
            ["provision", "enter", "finalize"],
            ZOOKEEPER,
            "migration.finalize begins when migration.switch was done last",
        ),
        (
            ["provision", "provision"],
            ZOOKEEPER,
            "begins when all metadata is in ZooKeeper; here migration.provision was",
        ),
        ([*ALL, "switch"], ZOOKEEPER, "here the metadata is in KRaft, for good"),
        (["rollback"], ZOOKEEPER, "migration.rollback begins when migration.provision was done last or"),
        ([*ALL, "rollback"], ZOOKEEPER, "faults[4]: the migration is final, so there is no way back"),
        (["provision", "enter", "refused"], ZOOKEEPER, "faults[2].refused: the way back is not refused"),
        (["provision", "upgrade-3.9"], "kafka: 3.8.1, metadata: zookeeper", "cluster.upgrade during a migration"),
        (["provision", "enter", "raise"], ZOOKEEPER, "cluster.finalize during a migration"),
        (["upgrade-4.3", "provision"], ZOOKEEPER, "4.3.1 has no ZooKeeper mode"),
        (["provision-1", "kill-controller"], ZOOKEEPER, "faults[1]: with 1 controllers the others are no majority"),
        (
            ["provision", "kill-active"],
            ZOOKEEPER,
            "faults[1].target.controller: the active controller is no broker during",
        ),
        (["provision", "kill-follower"], ZOOKEEPER, "with ZooKeeper only one broker is a controller"),
        (["provision"], f"{ZOOKEEPER}, driver: docker", "which the docker driver does not support"),
    ],
)
def test_an_unsupported_step_is_refused(steps: list[str], cluster: str, message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        scenario(*steps, cluster=cluster)
    assert message in str(error.value)


def test_steps_that_may_overlap_are_refused() -> None:
    with pytest.raises(ScenarioError, match=r"faults\[1\].when: begins while p may be under way"):
        build(
            "name: p, kind: migration.provision, target: {all_brokers: true}, when: {at: 1s}",
            "name: e, kind: migration.enter, target: {all_brokers: true}, when: {at: 9s}",
            cluster=ZOOKEEPER,
        )


def test_the_releases_that_can_migrate() -> None:
    assert MIGRATES_SINCE == (3, 6)
    assert [r for r in ("2.8.2", "3.5.2", "3.6.2", "3.9.2", "4.0.2") if can_migrate(r)] == ["3.6.2", "3.9.2"]
    assert scenario("upgrade-3.9", "raise", *ALL, cluster="kafka: 2.8.2").migrated_releases == ["3.9.2"]
    assert scenario(*ALL).migrated_releases == ["3.9.2"]
    assert scenario("kill").migrated_releases == []
