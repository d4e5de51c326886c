"""The receivers to which long work reports its progress."""

from __future__ import annotations

from chaos.run.events import Event
from chaos.run.result import Verdict


class ProgressListener:
    """Receiver of progress; this one ignores it. Parallel workers call it from several threads."""

    def say(self, message: str) -> None:
        """Show a line of plain text."""

    def doing(self, message: str) -> None:
        """Take a text for what goes on from now, outside of a run."""

    def run_started(self, name: str) -> None:
        """Show that a run starts."""

    def run_event(self, name: str, event: Event) -> None:
        """Show an event of a run that is being driven."""

    def run_driven(self, name: str) -> None:
        """Show that a run no longer needs its cluster; its verdict may still be pending."""

    def run_judged(self, verdict: Verdict, text: str) -> None:
        """Show a finished run: its verdict, and a text that names it."""
        self.say(f"{verdict}: {text}")
