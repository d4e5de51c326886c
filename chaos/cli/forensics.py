"""`forensics`: what the logs of a cluster that exists still say."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from chaos.cli import options as opt
from chaos.cli.output import View, print_line
from chaos.errors import INTERRUPTED, AftershockError, UsageError
from chaos.kinds import COMMITS

EXAMPLES = {
    "forensics": "forensics --bootstrap kafka:9092 --group billing --topic orders --since 2h\n\n"
    "python -m chaos forensics --cluster mine.yaml --rate 5MB/s --logs /var/log/kafka --into incident-42"
}
README = "chaos/forensics/README.md"


def forensics(
    bootstrap: opt.Existing = None,
    cluster: Annotated[
        Path | None,
        typer.Option(help="A YAML file with the `cluster` of a scenario: bootstrap, security.", dir_okay=False),
    ] = None,
    group: Annotated[list[str] | None, typer.Option(help="A group. Repeatable; all if left out.")] = None,
    topic: Annotated[
        list[str] | None, typer.Option(help="A topic to search for duplicates. Repeatable; none if left out.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Read only what is younger, such as 2h; all if left out.")
    ] = None,
    rate: Annotated[str, typer.Option(metavar="SIZE", help="Most that is fetched a second, such as 5MB/s.")] = "10MB/s",
    logs: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="Logs of brokers, for under-replicated times: a folder or file. Repeatable."),
    ] = None,
    timezone: Annotated[str, typer.Option(metavar="ZONE", help="Zone of times without one in the logs.")] = "UTC",
    into: opt.Into = None,
    runs_dir: opt.RunsDir = opt.RUNS_DIR,
    as_json: opt.Json = False,
) -> None:
    """Say what the logs of a cluster that exists still tell about an incident, and only read.

    The commits of groups from __consumer_offsets (rewinds, unusual steps, removals, foreign commits), lag, open and
    hanging transactions, duplicates in topics, and under-replicated times from logs. No group is joined, nothing is
    committed or created. The folder has one page, `report.html`, all commits in `commits.csv`, and `result.json`.

    Exit codes: 0 nothing found, 1 found, 2 refused, 3 a part could not be read, 130 interrupted: the folder has what
    was found until then.
    """
    with View() as view:
        view.doing("loading")
        from chaos.cli.breaking import cluster_of
        from chaos.forensics import page, session
        from chaos.forensics.model import EXIT_CODES
        from chaos.incident.logs.entries import zone_of
        from chaos.run.directory import make_folder, new_run_id, write_atomically
        from chaos.units import parse_duration, parse_size

        address, security = cluster_of(bootstrap, cluster)
        limit = opt.parsed("--rate", rate.removesuffix("/s"), parse_size)
        if not limit:
            raise UsageError("--rate is 0; give the bytes that may be fetched a second, such as 5MB/s")
        asked = session.Asked(
            bootstrap=address,
            security=security,
            command=shlex.join(["python", "-m", "chaos", *sys.argv[1:]]),
            groups=group or (),
            topics=topic or (),
            since_s=opt.parsed("--since", since, parse_duration),
            rate=limit,
            logs=logs or (),
            zone=zone_of(timezone),
        )
        metadata, events, notes = session.prepared(asked, view)
        folder = into.absolute() if into else runs_dir.absolute() / new_run_id("forensics")
        make_folder(folder)
        view.say(f"folder: {folder}")
        examination = session.Examination(asked, metadata, view)
        result = examination.result
        result.notes += notes
        try:
            with (folder / COMMITS).open("w", encoding="utf-8", newline="") as table:
                examination.examine(table, events)
        except AftershockError:
            shutil.rmtree(folder)  # refused: there is nothing in it
            raise
        view.doing("writing the page")
        write_atomically(folder / "result.json", result.model_dump_json(indent=1))
        write_atomically(folder / "report.html", page.render(result))
    if as_json:
        sys.stdout.write(result.model_dump_json(indent=1) + "\n")
    else:
        for line in (*result.lines(), f"report: {folder / 'report.html'}"):
            print_line(line)
    sys.stdout.flush()
    raise typer.Exit(INTERRUPTED if result.interrupted else EXIT_CODES[result.verdict])
