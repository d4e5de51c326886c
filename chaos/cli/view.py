"""What a person sees while a run goes on: one line an event, and how far it is."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from chaos.run.events import Event

PLAIN_EVERY_S = 2.0
"""How often progress is printed where there is no terminal to redraw."""

_STAGES = {
    "deploy": "starting the brokers",
    "clients": "starting the clients",
    "load": "producing, consuming, breaking",
    "heal": "healing the cluster",
    "drain": "waiting for consumers to reach the end",
    "stop": "stopping the clients",
    "seal": "sealing the ledger",
    "readback": "reading the log back",
    "audit": "auditing every record",
    "validate": "holding the findings against the contract",
    "report": "writing the report",
    "destroy": "ending the brokers",
}
_PHASES = {
    "injecting": "…",
    "injected": "[yellow]✗ injected[/]",
    "proven": "[cyan]◆ proven[/]",
    "healing": "…",
    "healed": "[green]✓ healed[/]",
    "failed": "[bold red]! failed[/]",
}


class View:
    """Prints events to stderr as they come; a context manager, so that the status line goes away at the end."""

    def __init__(self) -> None:
        self.console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
        self._status: Status | None = None
        self._began = time.monotonic()
        self._printed = 0.0

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._status = self.console.status("")
            self._status.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._status:
            self._status.stop()

    def __call__(self, event: Event) -> None:
        """Show one event."""
        show = getattr(self, f"_{event['kind']}", None)
        if show:
            show(event)

    def say(self, words: str) -> None:
        """Print a line with the seconds since the start."""
        self.console.print(f"[dim]{time.monotonic() - self._began:6.1f} s[/]  {words}")

    def _stage(self, event: Event) -> None:
        if (name := event["stage"]) not in _STAGES:
            return
        words = _STAGES[name]
        if event["state"] == "begin":
            if self._status:
                self._status.update(words)
            else:
                self.say(words)
        elif event["state"] == "end":
            if self._status or event["seconds"] >= 1:
                self.say(f"[dim]{words}: {event['seconds']:.1f} s[/]")
        else:
            self.say(f"[bold red]{words}: failed[/] {escape(str(event.get('detail', '')))}")

    def _work(self, event: Event) -> None:
        words = f"{_STAGES.get(event['stage'], event['stage'])}: {event['done']:,} of {event['total']:,} tasks"
        if self._status:
            self._status.update(words)
        elif time.monotonic() - self._printed >= PLAIN_EVERY_S:
            self._printed = time.monotonic()
            self.say(words)

    def _note(self, event: Event) -> None:
        self.say(escape(event["words"]))

    def problem(self, words: str) -> None:
        """Print what went wrong, though the run goes on."""
        self.say(f"[bold yellow]problem:[/] {escape(words)}")

    def _problem(self, event: Event) -> None:
        self.problem(event["words"])

    def _fault(self, event: Event) -> None:
        if event["phase"] in ("injecting", "healing"):
            return
        self.say(f"{_PHASES[event['phase']]} [bold]{escape(event['fault'])}[/]: {escape(event['words'])}")

    def _progress(self, event: Event) -> None:
        delivered = " · ".join(f"{escape(name)} {n:,}" for name, n in event["delivered"].items())
        words = f"acked {event['acked']:,} ({event['acked_per_s']:,}/s) · delivered {event['delivered_per_s']:,}/s" + (
            f" · {delivered}" if delivered else ""
        )
        if self._status:
            self._status.update(words)
        elif time.monotonic() - self._printed >= PLAIN_EVERY_S:
            self._printed = time.monotonic()
            self.say(words)
