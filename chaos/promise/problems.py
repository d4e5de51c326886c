"""Problems of settings, and notes about them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from chaos.errors import UsageError


@dataclass
class Problems:
    """What is wrong with the settings.

    refused: a client or a broker does not work with them, so that they promise nothing. notes: what has no effect, or
    not the one that it seems to have.
    """

    refused: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def raise_refused(self) -> None:
        """Raise `UsageError` if anything is refused, with one line for each reason."""
        if self.refused:
            raise UsageError("these settings promise nothing:\n  " + "\n  ".join(unique(self.refused)))


def unique(lines: Iterable[str]) -> list[str]:
    """Return the lines in their order, each once."""
    return list(dict.fromkeys(lines))
