"""The clocks of clients: each process of an entry with such a fault preloads `chaos.preload`, and has a control file.

Its rows keep the clock of the machine: `now_us` derives their times from the monotonic clock, which stays right.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from chaos.preload import build, clock
from chaos.preload.clock import Skew
from chaos.run.events import MACHINE_CLOCK, machine_clock


class ClientClocks:
    """The clocks of the clients of some entries. Clients of other entries have the clock of the machine.

    folder: of the control files.
    """

    def __init__(self, folder: Path, entries: Collection[str]) -> None:
        self._folder, self._entries = folder, entries
        if entries:
            build.compiled("clock")

    def environment(self, client: str) -> dict[str, str]:
        """Return the environment variables that give the process of a client its clock."""
        if client.partition("/")[0] not in self._entries:
            return {}
        self._folder.mkdir(exist_ok=True)
        clock.create(self._control(client))
        return {**build.environment(clock.preload(self._control(client))), MACHINE_CLOCK: machine_clock()}

    def set(self, client: str, skew: Skew) -> None:
        """Change the clock of the process of a client. It stays until it is set again, also over restarts.

        Raises `OSError`.
        """
        clock.set_skew(self._control(client), skew)

    def ahead_s(self, client: str) -> float:
        """Return how many seconds the clock is ahead, as it was set. Raises `OSError`."""
        return clock.ahead_s(self._control(client))

    def _control(self, client: str) -> Path:
        return self._folder / f"{client.replace('/', '-')}.clock"
