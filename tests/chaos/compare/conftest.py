"""Topics for commands that compare, which work in the folder of the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.install.locations import python_path
from tests.chaos.compare.topics import Topics


@pytest.fixture
def topics(bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Topics:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", python_path())
    topics = Topics(bootstrap, tmp_path)
    topics.create()
    return topics
