"""Slow disks on releases and roles that the conformance suite does not have."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from chaos.cluster.process.driver import ProcessCluster
from chaos.cluster.settings import ClusterSpec
from chaos.faults import FAULTS, SPECS
from chaos.faults.base import World
from chaos.kafka.client import Kafka
from chaos.processes.process import ProcessId
from chaos.run.directory import Run
from chaos.wait import wait_until

pytestmark = pytest.mark.kafka

SEEN_S = 60.0
BROKER = {"target": {"broker": 1}, "write": "50ms", "fsync": "100ms"}
CONTROLLER = {"target": {"controller": True}, "fsync": "150ms"}
OTHER = {"target": {"controller_follower": True}, "fsync": "150ms"}


@pytest.fixture(
    scope="module",
    params=[ClusterSpec(1, "2.8.2", disks=True), ClusterSpec(1, "4.3.1", controllers=3, disks=True)],
    ids=["2.8.2", "4.3.1"],
)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    run = Run.create(tmp_path_factory.mktemp("runs"), f"slow-{request.param.kafka}")
    cluster = ProcessCluster.deploy(run, request.param, ProcessId.current(), 900, lambda message: None)
    kafka = Kafka(cluster.bootstrap)
    yield World(None, cluster, None, None, kafka, random.Random(1))  # type: ignore[arg-type]
    kafka.close()
    cluster.destroy()


@pytest.mark.nightly(
    twin="chaos/cluster/test_conformance.py::test_a_slow_disk_shows_in_the_times_that_the_broker_reports"
)
@pytest.mark.parametrize("values", [BROKER, CONTROLLER, OTHER], ids=["broker", "controller", "controller-follower"])
def test_the_node_itself_reports_that_its_disk_is_slow_and_that_it_is_fast_again(
    world: Any, values: dict[str, Any]
) -> None:
    if "broker" not in values["target"] and not world.cluster.controller_ids:
        pytest.skip("without dedicated controllers")
    spec = SPECS["disk.slow"].model_validate({"name": "slow", "kind": "disk.slow", "when": {"at": 0}, **values})
    slow = FAULTS["disk.slow"](spec)
    try:
        slow.inject(world)
        wait_until(lambda: slow.proof(world), SEEN_S, "the node reports no slow writes")
    finally:
        assert f"the disk of {slow.resolved} is as fast as before: {slow.resolved} took" in slow.heal(world)
