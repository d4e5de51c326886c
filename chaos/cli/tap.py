"""`tap`: a recording front before a cluster and applications that exist, which judges what it saw when it ends."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chaos.cli import options as opt
from chaos.cli.output import View, print_result
from chaos.errors import INTERRUPTED, AftershockError, UsageError

if TYPE_CHECKING:
    from chaos.run.directory import Run
    from chaos.tap.order import Order

EXAMPLES = {
    "tap": "tap --bootstrap kafka:9092 --listen 0.0.0.0:9092\n\n"
    "python -m chaos tap --cluster mine.yaml --listen 0.0.0.0:9092 --advertise tap.internal\n\n"
    "python -m chaos tap --listen 127.0.0.1:9192 --for 1h --limit 5GiB\n\n"
    "python -m chaos tap --judge runs/tap-20261121-040000-1a2b"
}
README = "chaos/tap/README.md"
QUIET_TRAFFIC_S = 60.0
"""Time between lines about the traffic where there is no terminal."""


def tap(
    bootstrap: opt.Existing = None,
    cluster: Annotated[
        Path | None,
        typer.Option(
            help="A YAML file with the `cluster` of a scenario: bootstrap, and security of the tap's own questions.",
            dir_okay=False,
        ),
    ] = None,
    listen: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="Address for the first broker; the others get the next ports."),
    ] = "127.0.0.1:9192",
    advertise: Annotated[
        str | None,
        typer.Option(metavar="HOST", help="Name of this machine for applications; needed if they are elsewhere."),
    ] = None,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="End by itself after this time.")
    ] = None,
    payloads: Annotated[
        str,
        typer.Option(help="What is kept of records: none, needed (only of producers without idempotence), or all."),
    ] = "none",
    limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Most that the capture takes, such as 5GiB; left out: the disk.")
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(
            "--into",
            metavar="DIR",
            file_okay=False,
            help="Its folder; one below --runs-dir if left out. A tap there that was interrupted goes on.",
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option("--resume", metavar="DIR", file_okay=False, help="Go on in the folder of an interrupted tap."),
    ] = None,
    judge: Annotated[
        Path | None,
        typer.Option(metavar="DIR", file_okay=False, help="Record nothing: judge a tap that was killed or left."),
    ] = None,
    runs_dir: opt.RunsDir = opt.RUNS_DIR,
    as_json: opt.Json = False,
) -> None:
    """Stand before a cluster that exists: record what applications say to it, and judge that on Ctrl-C.

    Applications connect to --listen in place of the brokers, and nothing else of them changes. The tap only asks the
    cluster, and changes nothing there. While it records, it says what it sees; the verdict is by the audit of a run,
    without effects. A second Ctrl-C leaves the recording for --judge.

    Exit codes: 0 pass, 1 fail, 2 refused, 3 inconclusive, 130 left without a verdict.
    """
    with TapView() as view:
        view.doing("loading")
        from chaos.lab.lab import recorded
        from chaos.run.directory import Run
        from chaos.run.events import EventLog
        from chaos.tap import order as orders
        from chaos.tap import session

        if judge:
            run = Run.open(judge)
            with orders.held(run), recorded([run], run.path.parent, view.problem):
                session.judge_later(run, EventLog(run, view))
                code = _judged(run, view)
        else:
            order = _order(bootstrap, cluster, listen, advertise, for_, payloads, limit, into)
            run, goes_on = orders.place(runs_dir, into, resume)
            view.say(f"run directory: {run.path}")
            with orders.held(run):
                code = _tapped(run, order, view, goes_on)
    print_result(run, as_json)
    raise typer.Exit(code)


class TapView(View):
    """A view of a tap: while it records, one line about the traffic stays in place of what goes on."""

    recording = False

    def __init__(self) -> None:
        super().__init__()
        self._traffic_at = 0.0

    def traffic(self, words: str) -> None:
        """Show the traffic: in the status line, or from time to time as a line."""
        import time

        if self._status or time.monotonic() - self._traffic_at >= QUIET_TRAFFIC_S:
            self._traffic_at = time.monotonic()
            self._show_progress_text(words)

    def _activity(self) -> tuple[str, float]:
        return ("", 0.0) if self.recording else super()._activity()


def _tapped(run: Run, order: Order, view: TapView, goes_on: bool) -> int:
    """Record until the tap is asked to end, and judge it; return the exit code."""
    from chaos.ending import Ending, by_signals
    from chaos.lab.lab import recorded
    from chaos.run.events import EventLog
    from chaos.tap.session import Tap

    ending = Ending(order.for_s)

    def not_recording() -> None:
        view.recording = False

    with recorded([run], run.path.parent, view.problem), _room(run):
        with by_signals(ending, not_recording), Tap(run, order, EventLog(run, view), view.traffic, goes_on) as session:
            view.recording = True
            try:
                with EventLog(run, view).stage("drive"):
                    session.record(ending)
            except AftershockError as e:
                raise type(e)(f"{e}; {_later(run)}") from None
            view.recording = False
            code = _judged(run, view)  # meanwhile the relay passes traffic
            view.say("the ports of the tap close now; applications that still use them lose their connections")
        return code


def _judged(run: Run, view: TapView) -> int:
    from chaos.lab.judge import audit_once

    try:
        view.doing("starting the audit")
        return audit_once(run, view)
    except KeyboardInterrupt:
        view.say(f"left without a verdict; {_later(run)}")
        raise typer.Exit(INTERRUPTED) from None
    except AftershockError as e:
        raise type(e)(f"{e}; {_later(run)}") from None


@contextmanager
def _room(run: Run) -> Iterator[None]:
    """Say what to do where the disk of a recording is full at its end."""
    try:
        yield
    except OSError as e:
        if e.errno != errno.ENOSPC:
            raise
        raise AftershockError(f"no room is left at {run.path}; make some, then: {_later(run)}") from None


def _later(run: Run) -> str:
    return f"the recording stays; judge it with: python -m chaos tap --judge {run.path}"


def _order(
    bootstrap: str | None,
    cluster: Path | None,
    listen: str,
    advertise: str | None,
    for_: str | None,
    payloads: str,
    limit: str | None,
    into: Path | None,
) -> Order:
    """Return what the options say. Raises `UsageError`."""
    from chaos.cli.breaking import cluster_of
    from chaos.setup.apps import own_address
    from chaos.tap.order import Order
    from chaos.units import parse_duration, parse_size

    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65_536:
        raise UsageError(f"--listen {listen!r} is no address; write HOST:PORT, such as 0.0.0.0:9092")
    if payloads not in ("none", "needed", "all"):
        raise UsageError(f"--payloads {payloads!r} is none of none, needed, all")
    address, security = cluster_of(bootstrap, cluster)
    place = {"--cluster": cluster.absolute()} if cluster else {"--bootstrap": address}
    options = {**place, "--listen": listen, "--advertise": advertise, "--for": for_, "--limit": limit}
    options |= {"--payloads": payloads} if payloads != "none" else {}
    return Order(
        bootstrap=address,
        security=security,
        listen=host,
        port=int(port),
        advertise=advertise or (own_address() if host == "0.0.0.0" else host),
        payloads=payloads,  # type: ignore[arg-type]
        limit=opt.parsed("--limit", limit, parse_size),
        for_s=opt.parsed("--for", for_, parse_duration),
        tls=security.tls,
        authority=into and into.absolute() / "tls",  # of the first tap there: applications trust it for good
        options=[word for name, value in options.items() if value for word in (name, str(value))],
    )
