"""The trigger of a task that waits for a slot: it looks for a free one in the triggerer, at no cost to a worker.

Who holds a slot shows only on the machine of the holders. A triggerer on another machine resumes the task after a
while, and the task looks itself. In both cases a task that finds no slot defers again, so a wrong answer costs one
start of a task, not more: the trigger waits before it looks.

The triggerer imports this module as `dags.aftershock_slot_trigger`: the project is on its path, or installed.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

LOOK_S = 10
"""Seconds between two looks."""
ELSEWHERE_S = 30
"""Seconds after which a triggerer on another machine resumes the task."""


class SlotTrigger(BaseTrigger):  # type: ignore[misc] # Airflow is not typed for mypy here
    """Fires when a slot seems free. file, slots: as in `chaos.processes.slots`. host: the machine of the holders."""

    def __init__(self, file: str, slots: int, host: str) -> None:
        super().__init__()
        self.file, self.slots, self.host = file, slots, host

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and its arguments, for the triggerer."""
        return "dags.aftershock_slot_trigger.SlotTrigger", {"file": self.file, "slots": self.slots, "host": self.host}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event when the task should try again."""
        from chaos.processes.slots import Slots

        slots = Slots(Path(self.file), self.slots)
        if socket.gethostname() != self.host:
            await asyncio.sleep(ELSEWHERE_S)
        else:
            await asyncio.sleep(LOOK_S)
            while not await asyncio.to_thread(slots.any_free):
                await asyncio.sleep(LOOK_S)
        yield TriggerEvent({})
