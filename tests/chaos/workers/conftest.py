"""A run with workers that this process starts, and a scenario for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.run.directory import Run
from chaos.scenario.load import parse
from chaos.scenario.model import Scenario

TEXT = """
title: a fleet
cluster: {brokers: 1}
topics: [{name: orders, replication_factor: 1}]
producers: [{name: shop, topic: orders, count: 3, records: 10}]
consumers: [{mode: subscribe, name: billing, group: g, members: 4, threads: 2, topics: [orders]}]
fleet: {workers: 2}
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path, "run")


@pytest.fixture
def scenario() -> Scenario:
    return parse(TEXT, "test")
