"""Live views of runs on standard error: one line for each event, and the current progress."""

from __future__ import annotations

import sys
import time
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from chaos.lab.progress import ProgressListener
from chaos.run.events import STAGE_TEXTS, Event

PLAIN_EVERY_S = 2.0
"""Seconds between lines of progress where there is no terminal to redraw."""

_PHASES = {
    "injected": "[yellow]✗ injected[/]",
    "proven": "[cyan]◆ proven[/]",
    "healed": "[green]✓ healed[/]",
    "failed": "[bold red]! failed[/]",
}


class View(ProgressListener):
    """A view of one run. It is a listener of events, and a context manager over the status line."""

    def __init__(self) -> None:
        self.console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
        self._status: Status | None = None
        self._started = time.monotonic()
        self._progress_at = 0.0

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._status = self.console.status("")
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status:
            self._status.stop()

    def __call__(self, event: Event) -> None:
        """Show one event; kinds without a method are ignored."""
        show = getattr(self, f"_show_{event['kind']}", None)
        if show:
            show(event)

    def say(self, message: str) -> None:
        """Print a line of plain text with the seconds since the start."""
        self.say_markup(escape(message))

    def say_markup(self, markup: str) -> None:
        """Print a line of Rich markup with the seconds since the start."""
        self.console.print(f"[dim]{time.monotonic() - self._started:6.1f} s[/]  {markup}")

    def problem(self, message: str) -> None:
        """Print a problem that does not end the run."""
        self.say_markup(f"[bold yellow]problem:[/] {escape(message)}")

    def run_event(self, name: str, event: Event) -> None:
        """Show an event of a run."""
        self(event)

    def _show_progress_text(self, text: str) -> None:
        if self._status:
            self._status.update(text)
        elif time.monotonic() - self._progress_at >= PLAIN_EVERY_S:
            self._progress_at = time.monotonic()
            self.say_markup(text)

    def _show_stage(self, event: Event) -> None:
        if event["stage"] not in STAGE_TEXTS:
            return
        text = event.get("words") or STAGE_TEXTS[event["stage"]]
        if event["state"] == "begin":
            if self._status:
                self._status.update(text)
            else:
                self.say(text)
        elif event["state"] == "end":
            if self._status or event["seconds"] >= 1:
                self.say_markup(f"[dim]{text}: {event['seconds']:.1f} s[/]")
        else:
            self.say_markup(f"[bold red]{text}: failed[/] {escape(str(event.get('detail', '')))}")

    def _show_work(self, event: Event) -> None:
        stage = STAGE_TEXTS.get(event["stage"], event["stage"])
        self._show_progress_text(f"{stage}: {event['done']:,} of {event['total']:,} tasks")

    def _show_note(self, event: Event) -> None:
        self.say(event["words"])

    def _show_problem(self, event: Event) -> None:
        self.problem(event["words"])

    def _show_fault(self, event: Event) -> None:
        if phase := _PHASES.get(event["phase"]):
            self.say_markup(f"{phase} [bold]{escape(event['fault'])}[/]: {escape(event['words'])}")

    def _show_progress(self, event: Event) -> None:
        delivered = "".join(f" · {escape(name)} {n:,}" for name, n in event["delivered"].items())
        rates = f"({event['acked_per_s']:,}/s) · delivered {event['delivered_per_s']:,}/s"
        self._show_progress_text(f"acked {event['acked']:,} {rates}{delivered}")


class RunsView(View):
    """A view of many runs: a line when one starts, and the current stage of each where that is a terminal."""

    def __init__(self) -> None:
        super().__init__()
        self._stages: dict[str, str] = {}

    def run_started(self, name: str) -> None:
        """Show that a run starts."""
        if self._status is None:
            self.say(f"{name} …")
        self._set_stage(name, "")

    def run_event(self, name: str, event: Event) -> None:
        """Show the current stage or fault, notes and problems."""
        if event["kind"] == "stage" and event["state"] == "begin":
            self._set_stage(name, event["stage"])
        elif event["kind"] == "fault":
            self._set_stage(name, f"{event['fault']} {event['phase']}")
        elif event["kind"] in ("note", "problem"):
            self(event)

    def run_driven(self, name: str) -> None:
        """Remove the run from the status line."""
        self._stages.pop(name, None)
        self._update_status()

    def _set_stage(self, name: str, stage: str) -> None:
        self._stages[name] = stage
        self._update_status()

    def _update_status(self) -> None:
        if self._status:
            self._status.update(escape(self._status_text()))

    def _status_text(self) -> str:
        return ", ".join(f"{name} {stage}" for name, stage in sorted(self._stages.items()))
