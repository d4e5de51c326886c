"""Several Spark tasks for the small ledgers of these tests, as for large ones, so that their tallies are merged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from checks.audit.engine import scan
from checks.spark import parts


@pytest.fixture(scope="package", autouse=True)
def several_tasks() -> Iterator[None]:
    """Set the sizes from which on there are several tasks to almost nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "ROWS_PER_TASK", 1)
        patch.setattr(scan, "FEW_ROWS", 0)
        yield
