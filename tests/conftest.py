"""Settings of all tests: lanes, order, and no deadline for properties, because time belongs in benchmarks."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.support.browser import Browser, find

if TYPE_CHECKING:
    from chaos.cluster.process.driver import ProcessCluster

settings.register_profile("aftershock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("aftershock")

LONGEST = (
    "system/test_spark_cluster.py",
    "system/test_docker.py",
    "system/test_installed.py",
    "system/test_compose.py",
    "checks/effects/test_judge.py",
    "system/test_rows.py",
    "system/test_scenarios.py",
    "system/test_airflow.py",
    "system/test_incident.py",
    "system/test_mirror.py",
    "chaos/cluster/test_attached.py",
    "chaos/cluster/test_conformance.py",
    "system/test_ui.py",
    "system/test_airflow_attached.py",
    "chaos/clients/test_conformance.py",
    "system/test_interrupted.py",
    "chaos/cluster/test_secured.py",
    "system/test_gate.py",
    "system/test_tap.py",
    "system/test_values.py",
    "checks/effects/test_sums.py",
    "system/test_apps.py",
    "chaos/clients/spark/test_spark.py",
    "chaos/clients/flink/test_session.py",
    "chaos/compare/test_compare.py",
    "chaos/cluster/test_process.py",
    "chaos/cluster/test_zookeeper.py",
    "checks/audit/test_mutations.py",
    "checks/audit/test_oracle.py",
    "system/test_break.py",
    "checks/audit/test_long_histories.py",
)
"""The files that take longest, longest first."""

LANDING = "landing and not nightly"
"""The mark expression of the landing lane (Makefile)."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file without a test of the landing lane for it: that would take longer than some of its tests."""
    if config.option.markexpr != LANDING or collection_path.suffix != ".py":
        return None
    return "landing" not in collection_path.read_text(encoding="utf-8") or None


Lanes = dict[str, tuple[pytest.Mark, ...]]
COLLECTED = pytest.StashKey[Lanes]()
"""The marks `nightly` of each collected test, by the part of its node id below `tests/`, before a lane is selected."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the longest files first, so that no worker waits for one of them at the end."""
    config.stash[COLLECTED] = {i.nodeid.removeprefix("tests/"): tuple(i.iter_markers("nightly")) for i in items}
    tests = Path(__file__).parent
    rank = {tests / name: n for n, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


@pytest.fixture(scope="session")
def lanes(request: pytest.FixtureRequest) -> Lanes:
    """Return the marks `nightly` of each test that this session collected, deselected tests included."""
    return request.config.stash[COLLECTED]


LANE_S = 4 * 3600
"""The clusters below serve all files of a session, and the lane runs others between them."""
QUICK_SESSIONS = {
    "offsets.topic.num.partitions": 4,
    "group.min.session.timeout.ms": 500,
    "group.consumer.min.heartbeat.interval.ms": 300,
    "group.consumer.heartbeat.interval.ms": 300,
}
"""Settings of brokers for clients that are to notice a lost member soon."""


def _cluster(folder: Path, brokers: int) -> Iterator[ProcessCluster]:
    from chaos.cluster.process.driver import ProcessCluster
    from chaos.cluster.settings import ClusterSpec
    from chaos.processes.process import ProcessId
    from chaos.run.directory import Run

    run = Run.create(folder, f"shared-{secrets.token_hex(4)}")
    spec = ClusterSpec(brokers=brokers, config=QUICK_SESSIONS)
    deployed = ProcessCluster.deploy(run, spec, ProcessId.current(), deadline_s=LANE_S)
    yield deployed
    deployed.destroy()


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one broker, for tests that do no damage: names of topics and groups are theirs alone."""
    for cluster in _cluster(tmp_path_factory.mktemp("one"), 1):
        yield cluster.bootstrap


@pytest.fixture(scope="session")
def three_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """Three brokers, for tests that undo each change: names of topics and groups are theirs alone."""
    yield from _cluster(tmp_path_factory.mktemp("three"), 3)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for a whole module: to start it takes a second."""
    if find() is None:
        pytest.skip("no chromium on this machine: apt-get install chromium")
    with Browser() as running:
        yield running
