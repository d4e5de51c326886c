"""Settings of all tests: lanes, order, and no deadline for properties, because time belongs in benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.browser import Browser, find

settings.register_profile("aftershock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("aftershock")

LONGEST = (
    "system/test_spark_cluster.py",
    "system/test_docker.py",
    "system/test_installed.py",
    "system/test_compose.py",
    "system/test_scenarios.py",
    "system/test_airflow.py",
    "system/test_incident.py",
    "chaos/cluster/test_attached.py",
    "chaos/cluster/test_conformance.py",
    "checks/audit/test_mutations.py",
    "system/test_ui.py",
    "system/test_airflow_attached.py",
    "chaos/clients/test_conformance.py",
    "system/test_interrupted.py",
    "system/test_gate.py",
    "chaos/clients/spark/test_spark.py",
    "chaos/clients/flink/test_session.py",
    "checks/audit/test_oracle.py",
    "chaos/cluster/test_secured.py",
    "chaos/cluster/test_process.py",
    "chaos/cluster/test_zookeeper.py",
    "system/test_values.py",
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


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for a whole module: to start it takes a second."""
    if find() is None:
        pytest.skip("no chromium on this machine: apt-get install chromium")
    with Browser() as running:
        yield running
