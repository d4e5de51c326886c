"""How a client ended that was not asked to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class UnexpectedExit:
    """A client that ended without having been asked to."""

    client: str
    incarnation: int
    exit_code: int | None
    last_lines: tuple[str, ...]

    def words(self) -> str:
        """As a person reads it."""
        how = f"signal {-self.exit_code}" if self.exit_code is not None and self.exit_code < 0 else self.exit_code
        last = f": {self.last_lines[-1]}" if self.last_lines else ""
        return f"{self.client} (incarnation {self.incarnation}) ended by itself with {how}{last}"
