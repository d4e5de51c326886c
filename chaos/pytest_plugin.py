"""The pytest plugin: the fixture `aftershock`, a session of runs with warm brokers and a warm judge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from chaos.testing.session import Session


@pytest.fixture(scope="session")
def aftershock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session: `aftershock.cluster(brokers=3)` begins the description of a test.

    Run directories and reports are in a temporary folder of pytest, `aftershock0`. With pytest-xdist each worker has
    its own brokers.
    """
    from chaos.testing.session import Session

    with Session(tmp_path_factory.mktemp("aftershock")) as session:
        yield session
