"""The control file of a preloaded library: a version, two places for a setting, and space for what the library counts.

The version says which place is valid. A change is written to the other place first, so that a process that maps the
file never reads half of a setting.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECOND_NS = 1_000_000_000
_VERSION = struct.Struct("=Q")
_NOTHING = struct.Struct("=")


@dataclass(frozen=True)
class ControlFile:
    """The form of a control file. counts: what the library counts, behind the setting; none if left out."""

    setting: struct.Struct
    counts: struct.Struct = _NOTHING

    def create(self, path: Path) -> None:
        """Create a file in which everything is 0. An existing file keeps what it says."""
        if not path.exists():
            path.write_bytes(bytes(self._counts_at + self.counts.size))

    def change(self, path: Path, *values: float) -> None:
        """Change the setting: at once, in a running process and in the next ones. Raises `OSError`."""
        file = os.open(path, os.O_RDWR)
        try:
            version = _VERSION.unpack(os.pread(file, _VERSION.size, 0))[0] + 1
            os.pwrite(file, self.setting.pack(*values), self._setting_at(version))
            os.pwrite(file, _VERSION.pack(version), 0)
        finally:
            os.close(file)

    def read(self, path: Path) -> tuple[Any, ...]:
        """Return the values of the setting. Raises `OSError`."""
        data = path.read_bytes()
        return self.setting.unpack_from(data, self._setting_at(_VERSION.unpack_from(data)[0]))

    def counted(self, path: Path) -> tuple[Any, ...]:
        """Return what the library counted. Raises `OSError`."""
        return self.counts.unpack_from(path.read_bytes(), self._counts_at)

    def _setting_at(self, version: int) -> int:
        return _VERSION.size + (version & 1) * self.setting.size

    @property
    def _counts_at(self) -> int:
        return _VERSION.size + 2 * self.setting.size
