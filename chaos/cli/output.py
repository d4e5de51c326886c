"""What commands print: live views of runs on standard error, and results on standard output.

A view shows one line for each event, and the current progress. Results are text or JSON.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table

from chaos.cli import STARTED
from chaos.lab.progress import ProgressListener
from chaos.run.directory import Run
from chaos.run.events import STAGE_TEXTS, WAIT, Event, list_stages, now_us, read_events
from chaos.run.result import Verdict

if TYPE_CHECKING:
    from chaos.run.campaign import Campaign


C = TypeVar("C", bound="Campaign")


def print_json(data: object) -> None:
    """Print data as indented JSON."""
    sys.stdout.write(json.dumps(data, indent=1) + "\n")


def print_line(text: str) -> None:
    """Print plain text as one line, without wrapping."""
    Console(soft_wrap=True, highlight=False).print(text, markup=False)


def plain_table(*columns: str, right: tuple[str, ...] = (), fixed: tuple[str, ...] = ()) -> Table:
    """Return an empty table. right: columns of numbers; fixed: columns that do not wrap."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        justify = "right" if column in right else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=column in fixed)  # type: ignore[arg-type]
    return table


def print_result(run: Run, as_json: bool) -> None:
    """Print the result of a run; print nothing if there is none."""
    if not run.result.exists():
        return
    from chaos.report import summary, terminal
    from chaos.run.result import Result

    result = Result.read(run)
    sys.stderr.write(summary.publish(result, run.path))
    if as_json:
        sys.stdout.write(run.result.read_text(encoding="utf-8") + "\n")
    else:
        terminal.render(result, Console())


def print_timings(run: Run) -> None:
    """Print the seconds of each stage of a run on standard error, and those from the begin of the command until now."""
    table = plain_table("stage", "seconds", right=("seconds",))
    for stage in list_stages(read_events(run), now_us()):
        if stage.name in STAGE_TEXTS:
            table.add_row(stage.text, f"{stage.seconds:.1f}")
    table.add_row("all, from the command on", f"{time.monotonic() - STARTED:.1f}")
    Console(stderr=True, soft_wrap=True).print(table)


def campaign_printer(as_json: bool, plain: Callable[[C, Path], None] | None = None) -> Callable[[C, Path], None]:
    """Return a function that prints the result of a campaign in a folder, as JSON or as text.

    plain: prints the text, in place of the page for the terminal.
    """

    def show(result: C, folder: Path) -> None:
        if plain is None or as_json:
            print_campaign(result, folder, as_json)
        else:
            plain(result, folder)

    return show


def print_campaign(result: Campaign, folder: Path, as_json: bool) -> None:
    """Print the result of a campaign in a folder, as JSON or as text."""
    from chaos.report import summary

    sys.stderr.write(summary.publish(result, folder))
    if as_json:
        sys.stdout.write(result.model_dump_json(indent=1) + "\n")
    else:
        from chaos.report import campaign

        campaign.show(result, folder)
    sys.stdout.flush()


PLAIN_EVERY_S = 2.0
"""Seconds between lines of progress where there is no terminal to redraw."""
SILENT_S = 2.5
"""Seconds without a line after which the view says what goes on; longer, so that progress comes first."""
LOOK_S = 0.2
"""Seconds between two looks at whether something was shown."""

SIGNS = {"pass": "[green]✓ pass[/]", "fail": "[bold red]✗ fail[/]", "inconclusive": "[bold yellow]? inconclusive[/]"}
_PHASES = {
    "injected": "[yellow]✗ injected[/]",
    "proven": "[cyan]◆ proven[/]",
    "healed": "[green]✓ healed[/]",
    "failed": "[bold red]! failed[/]",
}


class View(ProgressListener):
    """A view of one run. It is a listener of events, and a context manager over the status line."""

    _opened = False

    def __init__(self) -> None:
        self.console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
        self._status: Status | None = None
        self._started = self._doing_at = time.monotonic()
        self._shown_at = self._started if View._opened else STARTED  # the command is silent while it imports
        View._opened = True
        self._doing = ""
        self.between = "working"
        """What goes on between two stages; empty if the command has nothing to wait for."""
        self._stages: list[Event] = []
        self._ended = threading.Event()
        self._pulse = threading.Thread(target=self._fill_silence, name="view", daemon=True)

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._status = self.console.status("")
            self._status.start()
        self._pulse.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._pulse.join()
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

    def doing(self, message: str) -> None:
        """Take a text for what goes on from now, until the next stage begins or ends."""
        self._doing, self._doing_at = message, time.monotonic()

    def count(self, what: str, done: int, total: int) -> None:
        """Show how far something is, at most every few seconds."""
        self._show_progress_text(f"{escape(what)}: {done:,} of {total:,}")

    def step(self, message: str) -> None:
        """Print a line of plain text about what goes on from now."""
        self.say(message)
        self.doing(message)

    def say_markup(self, markup: str) -> None:
        """Print a line of Rich markup with the seconds since the start."""
        self._shown_at = time.monotonic()
        self.console.print(f"[dim]{time.monotonic() - self._started:6.1f} s[/]  {markup}")

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Show nothing while the user is asked."""
        shown = self._doing, self.between
        self._doing = self.between = ""
        if self._status:
            self._status.stop()
        try:
            yield
        finally:
            if self._status:
                self._status.start()
            self._doing, self.between = shown

    def problem(self, message: str) -> None:
        """Print a problem that does not end the run."""
        self.say_markup(f"[bold yellow]problem:[/] {escape(message)}")

    def run_event(self, name: str, event: Event) -> None:
        """Show an event of a run."""
        self(event)

    def run_driven(self, name: str) -> None:
        """Show that only the verdict of a run is pending."""
        self.doing(f"auditing {name}")

    def _fill_silence(self) -> None:
        """Show what goes on while nothing else is shown."""
        while not self._ended.wait(LOOK_S):
            text, seconds = self._activity()
            if text and time.monotonic() - self._shown_at >= SILENT_S:
                self._show_progress_text(f"{escape(text)}: {seconds:.0f} s so far")

    def _activity(self) -> tuple[str, float]:
        """Return what goes on, and since how many seconds: the innermost stage, or a later step of it."""
        doing, doing_s = self._doing, time.monotonic() - self._doing_at
        stages = self._stages.copy()
        going = [s for s in list_stages(stages, now_us()) if s.state == "begin" and s.name in STAGE_TEXTS]
        if not going:
            return doing or self.between, doing_s
        seconds = (now_us() - max(e["at_us"] for e in stages if e["stage"] == going[-1].name)) / 1e6
        return (doing, doing_s) if doing and doing_s < seconds else (going[-1].text, seconds)

    def _show_progress_text(self, text: str) -> None:
        if self._status:
            self._shown_at = time.monotonic()
            self._status.update(text)
        elif time.monotonic() - self._shown_at >= PLAIN_EVERY_S:
            self.say_markup(text)

    def _show_stage(self, event: Event) -> None:
        self._stages.append(event)
        self.doing("")
        if (name := event["stage"]) not in STAGE_TEXTS:
            return
        text = event.get("words") or STAGE_TEXTS[event["stage"]]
        if event["state"] == "begin":
            if self._status:
                self._status.update(text)
            else:
                self.say_markup(text)
        elif event["state"] == "end":
            # without the nested stages, which have separate lines; each wait for Spark is a line
            own = next(s.seconds for s in list_stages(self._stages, now_us()) if s.name == name)
            seconds = event["seconds"] if name == WAIT else own
            if self._status or event["seconds"] >= 1:
                self.say_markup(f"[dim]{text}: {seconds:.1f} s[/]")
        else:
            self.say_markup(f"[bold red]{text}: failed[/] {escape(str(event.get('detail', '')))}")

    def _show_work(self, event: Event) -> None:
        stage = STAGE_TEXTS.get(event["stage"], event["stage"])
        self._show_progress_text(f"{stage}: {event['done']:,} of {event['total']:,} tasks")

    def _show_note(self, event: Event) -> None:
        (self.say if event.get("aside") else self.step)(event["words"])

    def _show_problem(self, event: Event) -> None:
        self.problem(event["words"])

    def _show_fault(self, event: Event) -> None:
        if phase := _PHASES.get(event["phase"]):
            self.say_markup(f"{phase} [bold]{escape(event['fault'])}[/]: {escape(event['words'])}")

    def _show_progress(self, event: Event) -> None:
        delivered = "".join(f" · {escape(name)} {n:,}" for name, n in event["delivered"].items())
        rates = f"({event['acked_per_s']:,}/s)"
        if event["delivered"]:
            rates += f" · delivered {event['delivered_per_s']:,}/s"
        waits = f" · {escape(event['waits'])}" if event.get("waits") else ""
        self._show_progress_text(f"acked {event['acked']:,} {rates}{delivered}{waits}")


@contextlib.contextmanager
def loading(what: str = "loading") -> Iterator[View]:
    """Show what a command does before its runs: its imports, and the work on its input."""
    with View() as view:
        view.doing(what)
        yield view


class RunsView(View):
    """A view of many runs: a line when one starts, and the current stage of each in the line of progress."""

    def __init__(self) -> None:
        super().__init__()
        self._going: dict[str, tuple[str, float]] = {}
        """What each run does, and since when."""

    def run_started(self, name: str) -> None:
        """Show that a run starts."""
        if self._status is None:
            self.say(f"{name} …")
        self._set_stage(name, "")

    def run_event(self, name: str, event: Event) -> None:
        """Show the current stage or fault, notes and problems."""
        if event["kind"] == "stage" and event["state"] == "begin":
            self._set_stage(name, STAGE_TEXTS.get(event["stage"]) or event["stage"])
        elif event["kind"] == "fault":
            self._set_stage(name, f"{event['fault']} {event['phase']}")
        elif event["kind"] in ("note", "problem"):
            self(event)

    def run_driven(self, name: str) -> None:
        """Remove the run from the line of progress."""
        super().run_driven(name)
        self._going.pop(name, None)
        self._update_status()

    def run_judged(self, verdict: Verdict, text: str) -> None:
        """Print the verdict of a run, and what it shows."""
        self.say_markup(f"{SIGNS[verdict]}  {escape(text)}")

    def _activity(self) -> tuple[str, float]:
        going = self._going.copy()
        if not going:
            return super()._activity()
        return self._status_text(), time.monotonic() - max(since for _, since in going.values())

    def _set_stage(self, name: str, stage: str) -> None:
        self._going[name] = stage, time.monotonic()
        self._update_status()

    def _update_status(self) -> None:
        if self._status:
            self._status.update(escape(self._status_text()))

    def _status_text(self) -> str:
        return ", ".join(f"{name} {stage}".rstrip() for name, (stage, _) in sorted(self._going.copy().items()))
