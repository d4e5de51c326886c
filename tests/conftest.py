"""Settings of all tests: lanes, order, and no deadline for properties, because time belongs in benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.lanes import NIGHTLY, is_nightly, matches
from tests.support.browser import Browser, find

settings.register_profile("aftershock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("aftershock")

LONGEST = (
    "system/test_scenarios.py",
    "system/test_compose.py",
    "system/test_spark_cluster.py",
    "system/test_docker.py",
    "system/test_airflow.py",
    "system/test_installed.py",
    "system/test_incident.py",
    "system/test_interrupted.py",
    "system/test_ui.py",
    "system/test_gate.py",
    "chaos/cluster/test_attached.py",
    "chaos/clients/test_conformance.py",
    "chaos/cluster/test_conformance.py",
    "chaos/cluster/test_zookeeper.py",
    "system/test_airflow_attached.py",
    "checks/audit/test_oracle.py",
    "checks/audit/test_mutations.py",
)
"""The files that take longest, longest first."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark nightly tests, and put the longest files first, so that no worker waits for one of them at the end."""
    for item in items:
        if is_nightly(item.nodeid):
            item.add_marker(pytest.mark.nightly)
    tests = Path(__file__).parent
    rank = {tests / name: n for n, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))
    if config.getoption("collectonly", default=False) and len(config.args) == 1 and config.args[0].endswith("tests"):
        _check_lanes([item.nodeid for item in items])


def _check_lanes(node_ids: list[str]) -> None:
    """Raise `UsageError` where `NIGHTLY` names a test that does not exist, or a twin that is nightly too."""
    for key, twin in NIGHTLY.items():
        if not any(matches(key, node) for node in node_ids):
            raise pytest.UsageError(f"tests/lanes.py: no test matches {key}; correct the key, or delete it")
        if not any(matches(twin, node) and not is_nightly(node) for node in node_ids):
            raise pytest.UsageError(f"tests/lanes.py: {key} has no twin in the standard lane: nothing matches {twin}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for a whole module: to start it takes a second."""
    if find() is None:
        pytest.skip("no chromium on this machine: apt-get install chromium")
    with Browser() as running:
        yield running
