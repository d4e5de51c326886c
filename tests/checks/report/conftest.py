"""The browser of this machine, for the tests that need one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.browser import Browser, find


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for a whole module: to start it takes a second."""
    if find() is None:
        pytest.skip("no chromium on this machine: apt-get install chromium")
    with Browser() as running:
        yield running
