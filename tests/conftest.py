"""What all tests share: no property has a deadline, for time is for benchmarks; the longest files come first."""

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("aftershock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("aftershock")

LONGEST = ("test_scenarios.py", "test_compose.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take a quarter of an hour come first: of two workers one would wait for the other at the end."""
    items.sort(key=lambda item: item.path.name not in LONGEST)
