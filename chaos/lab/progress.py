"""The protocol by which long work reports its progress."""

from __future__ import annotations

from typing import Protocol

from chaos.run.events import Event


class ProgressListener(Protocol):
    """Receiver of progress. Parallel workers call it from several threads."""

    def say(self, message: str) -> None:
        """Show a line of plain text."""

    def run_started(self, name: str) -> None:
        """A run starts."""

    def run_event(self, name: str, event: Event) -> None:
        """An event of a run that is being driven."""

    def run_driven(self, name: str) -> None:
        """A run no longer needs its cluster; its verdict may still be pending."""


class Silent:
    """A `ProgressListener` that ignores all progress."""

    def say(self, message: str) -> None:
        """Ignore the message."""

    def run_started(self, name: str) -> None:
        """Ignore the start."""

    def run_event(self, name: str, event: Event) -> None:
        """Ignore the event."""

    def run_driven(self, name: str) -> None:
        """Ignore the end of the drive."""
