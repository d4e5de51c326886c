"""Fixtures: one Spark session for all tests of the checks, and hand-made run directories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.run.result import Expectation
from checks.spark.session import spark_session
from tests.support.fake_runs import SCENARIO, FakeRun


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    session = spark_session("local[2]")
    session.sparkContext.setLogLevel("OFF")  # some tests break columns on purpose
    yield session
    session.stop()


@pytest.fixture
def fake(tmp_path: Path) -> Callable[..., FakeRun]:
    def make(scenario: str = SCENARIO) -> FakeRun:
        return FakeRun(tmp_path, scenario)

    return make


@pytest.fixture
def validated() -> Callable[[FakeRun], dict[tuple[str, str, str], Expectation]]:
    """Return a function that validates a fake run: its expectations by check, split and scope."""

    def run(fake: FakeRun) -> dict[tuple[str, str, str], Expectation]:
        from checks.expectations.validate import validate

        fake.write()
        found = validate(fake.run, fake.resolved)
        return {(e.check, e.split, e.scope): e for e in found}

    return run
