"""The rules or cuts in force, in the order in which they were added."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class Active(Generic[T]):
    """A rule or cut in force."""

    id: int
    item: T
    hits: int = 0
    """Frames that the rule matched, or pieces of data that the cut held."""


@dataclass
class Book(Generic[T]):
    """The rules or cuts in force, by id."""

    active: dict[int, Active[T]] = field(default_factory=dict)
    _last_id: int = 0

    def add(self, item: T) -> Active[T]:
        """Put a rule or cut in force."""
        self._last_id += 1
        self.active[self._last_id] = Active(self._last_id, item)
        return self.active[self._last_id]

    def remove(self, number: int) -> bool:
        """Take a rule or cut out of force. Returns whether it was in force."""
        return self.active.pop(number, None) is not None
