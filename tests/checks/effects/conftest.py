"""A run with the inputs and the effects that a test names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.checks.effects.story import TOPIC, Story


@pytest.fixture
def story(tmp_path: Path) -> Callable[..., Story]:
    def make(effect: str = TOPIC, inputs: int = 3, **more: Any) -> Story:
        made = Story(tmp_path / "story", effect, **more)
        for seq in range(inputs):
            made.input(seq)
        return made

    return make
