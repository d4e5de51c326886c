"""Changes of the brokers' release in a scenario: impossible pairs and orders are refused when it is loaded."""

from __future__ import annotations

import pytest

from chaos.errors import ScenarioError
from chaos.scenario.load import parse
from chaos.scenario.model import Scenario
from chaos.scenario.resolve import resolve

UP = "name: up, kind: cluster.upgrade, target: {all_brokers: true}, when: {at: 1s}"
ONE = "name: one, kind: cluster.upgrade, target: {broker: 1}, when: {at: 1s}"
FINAL = "name: final, kind: cluster.finalize, target: {all_brokers: true}, when: {after: up.proven}"
DOWN = "name: down, kind: cluster.downgrade, target: {all_brokers: true}, when: {after: up.proven}"
KILL = "{name: kill, kind: broker.kill, target: {broker: 1}, when: {after: up.proven}, heal: {after: 2s}}"
ISOLATE = "{name: cut, kind: broker.isolate, target: {broker: 1}, when: {at: 1s}}"


def scenario(*faults: str, cluster: str = "kafka: 3.9.2") -> Scenario:
    items = "\n".join(f"  - {fault if fault.startswith('{') else f'{{{fault}}}'}" for fault in faults)
    return parse(
        f"title: t\ncluster: {{{cluster}}}\ntopics: [{{name: orders}}]\nproducers: [{{name: shop, topic: orders}}]\n"
        f"faults:\n{items or '  []'}",
        "x",
    )


@pytest.mark.parametrize(
    ("cluster", "faults", "releases"),
    [
        ("kafka: 3.9.2", [f"{UP}, to: 4.3.1"], ["4.3.1"]),
        ("kafka: 3.9.1", [f"{UP}, to: 3.9.2"], ["3.9.2"]),
        ("kafka: 2.8.2", [f"{UP}, to: 3.9.2"], ["3.9.2"]),
        ("kafka: 3.9.2", [f"{UP}, to: 4.0.2", f"{DOWN}, to: 3.9.2"], ["4.0.2", "3.9.2"]),
        ("kafka: 3.9.2", [f"{ONE}, to: 4.0.2", f"{DOWN.replace('up.', 'one.')}, to: 3.9.2"], ["4.0.2", "3.9.2"]),
        (
            "kafka: 3.9.2",
            [
                f"{UP}, to: 4.0.2",
                KILL,
                f"{UP.replace('name: up', 'name: next').replace('at: 1s', 'after: kill.healed')}, to: 4.1.2",
            ],
            ["4.0.2", "4.1.2"],
        ),
        ("kafka: 4.0.2", [f"{DOWN.replace('after: up.proven', 'at: 1s')}, to: 3.9.2, refused: true"], ["3.9.2"]),
        ("kafka: 3.9.2", [f"{UP}, to: 4.3.1", ISOLATE], ["4.3.1"]),
        ("kafka: 3.9.2, controllers: 3", [f"{UP}, to: 4.3.1", FINAL], ["4.3.1"]),
        (
            "kafka: 3.9.2",
            [f"{UP}, to: 4.0.2", FINAL, f"{DOWN.replace('up.', 'final.')}, to: 3.9.2, refused: true"],
            ["4.0.2", "3.9.2"],
        ),
        ("kafka: 4.3.1", [f"{FINAL.replace('after: up.proven', 'at: 1s')}, features: {{group.version: 0}}"], []),
    ],
)
def test_a_possible_change_is_accepted(cluster: str, faults: list[str], releases: list[str]) -> None:
    assert scenario(*faults, cluster=cluster).later_releases == releases


@pytest.mark.parametrize(
    ("cluster", "faults", "message"),
    [
        ("kafka: 3.9.2", [f"{UP}, to: 3.9.2"], "faults[0].to: the brokers run 3.9.2 already"),
        ("kafka: 3.9.2", [f"{UP}, to: 3.4.1"], "3.4.1 is older than 3.9.2, which brokers run; use cluster.downgrade"),
        ("kafka: 4.3.1", [f"{UP}, to: 5.0.0"], "Kafka 5.0.0 is not known; choose a release of 2.8 to 4.4"),
        ("kafka: 3.9.2", [f"{UP}, to: 3.10.0"], "Kafka 3.10.0 is not known"),
        ("kafka: 3.9.2, metadata: zookeeper", [f"{UP}, to: 4.0.2"], "faults[0].to: 4.0.2 has no ZooKeeper mode"),
        ("kafka: 3.2.3", [f"{UP}, to: 4.0.2"], "or a cluster with metadata: kraft from 3.3 on"),
        (
            "kafka: 3.9.2",
            [f"{UP}, to: 4.0.2", f"{DOWN}, to: 4.1.2"],
            "faults[1].to: 4.1.2 is newer than 4.0.2, which brokers run; use cluster.upgrade",
        ),
        (
            "kafka: 4.1.2",
            [f"{UP}, to: 4.3.1", f"{DOWN}, to: 4.0.2"],
            "faults[1].to: the features of 4.1 are final, so 4.0.2 would be refused",
        ),
        (
            "kafka: 3.9.2",
            [f"{UP}, to: 4.0.2", f"{DOWN}, to: 3.9.2, refused: true"],
            "faults[1].refused: 3.9.2 is not refused, because only the features of 3.9 are final",
        ),
        (
            "kafka: 3.9.2",
            [f"{UP}, to: 4.0.2", f"{DOWN.replace('after: up.proven', 'at: 9s')}, to: 3.9.2"],
            "faults[1].when: begins while up may be under way; let it begin afterwards, such as after: up.proven",
        ),
        (
            "kafka: 3.9.2",
            [f"{UP}, to: 4.0.2", FINAL, f"{DOWN.replace('up.', 'final.')}, to: 3.9.2"],
            "faults[2].to: the features of 4.0 are final, so 3.9.2 would be refused",
        ),
        (
            "kafka: 3.9.2",
            [f"{ONE}, to: 4.0.2", FINAL.replace("up.", "one.")],
            "the nodes run 4.0.2 and 3.9.2; upgrade all",
        ),
        (
            "kafka: 4.0.2, controllers: 3",
            [f"{DOWN.replace('after: up.proven', 'at: 1s')}, to: 3.9.2, refused: true"],
            "dedicated controllers refuse an older broker, and its log does not name the reason",
        ),
        ("kafka: 3.9.1", [f"{UP}, to: 3.9.2", FINAL], "the features of 3.9 are final already"),
        (
            "kafka: 2.8.2",
            [f"{UP}, to: 3.9.2", f"{FINAL}, features: {{group.version: 1}}"],
            "with ZooKeeper there are none",
        ),
        ("kafka: 3.9.2", [f"{UP}, to: 4.0.2", f"{FINAL}, features: {{group: 1}}"], "did you mean group.version?"),
        (
            "kafka: 3.9.2, brokers: 1, controllers: 1",
            [f"{ONE}, to: 4.0.2", FINAL.replace("up.", "one.")],
            "the nodes run 3.9.2 and 4.0.2; upgrade all of them before, by all_brokers: true",
        ),
        ("kafka: 4.3.1, features: {share: 1}", [], "'share' is no feature (did you mean share.version?)"),
        (
            "kafka: 3.9.2, features: {group.version: 1}",
            [],
            "cluster.features: Kafka 3.9.2 has none; choose 4.0 or later",
        ),
        ("kafka: 4.3.1, features: {metadata.version: 25}", [], "metadata.version follows the release; begin with"),
        ("kafka: 2.8.2, features: {group.version: 1}", [], "cluster.features: with ZooKeeper there are none"),
        ("kafka: 3.4.1", [f"{UP}, to: 3.9.2", ISOLATE], "from 3.9 on controllers have advertised addresses"),
        ("kafka: 3.9.2, driver: docker", [f"{UP}, to: 4.0.2"], "needs change_release, which the docker driver cannot"),
    ],
)
def test_an_impossible_change_is_refused_with_place_and_reason(cluster: str, faults: list[str], message: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        scenario(*faults, cluster=cluster)
    assert message in str(refused.value)


def test_a_run_records_the_releases_that_its_brokers_change_to() -> None:
    found = resolve(scenario(f"{UP}, to: 4.3.1"), run_id="r", name="r", created_us=0, seed=1, overrides=[]).versions
    assert (found["kafka"], found["kafka later"]) == ("3.9.2", "4.3.1")
