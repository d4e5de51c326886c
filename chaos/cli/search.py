"""`shrink` and `bisect`: the smallest scenario that shows an anomaly, and the release that brought or ended it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from chaos.cli.again import Source, Watch
from chaos.cli.run import RUNS_DIR, Json, RunsDir, Seed, Sets, Variant
from chaos.errors import INCONCLUSIVE, UsageError
from chaos.run.directory import write_atomically

if TYPE_CHECKING:  # `--help` needs no Kafka client
    from chaos.incident.bisect import Row
    from chaos.incident.subject import Raw

Anomaly = Annotated[str | None, typer.Option(help="The kind of anomaly that is looked at, such as lost_write.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog="Example: python -m chaos shrink orders-lost.aftershock.tar.gz --anomaly lost_write")(shrink)
    app.command(epilog="Example: python -m chaos bisect unclean-election --kafka 3.7.2..4.3.1 --anomaly lost_write")(
        bisect
    )


def shrink(
    source: Source,
    anomaly: Annotated[str, typer.Option(help="The kind of anomaly that has to stay, such as lost_write.")],
    tries: Annotated[
        int, typer.Option(min=1, max=100, help="Runs of a candidate before it counts as one without the anomaly.")
    ] = 2,
    budget: Annotated[str, typer.Option(help="Runs, time, or both: 40, 30m, 40,30m.")] = "60,60m",
    variant: Variant = "",
    seed: Seed = None,
    sets: Sets = None,
    runs_dir: RunsDir = RUNS_DIR,
) -> None:
    """Leave out faults, clients, records, members and settings as long as the anomaly stays; print what is left.

    Every candidate is really run. It counts as one where the anomaly stays if at least one of its tries shows it, so
    what is printed was seen; what was rare may have been missed. The smallest so far is in smallest.yaml at any time.
    Ends with 0; with 3 if the anomaly is not seen in the first place; with 130 after Ctrl-C, which keeps the smallest
    so far.
    """
    from dataclasses import replace

    from chaos.incident import shrink as shrinking
    from chaos.incident.lab import Lab, new_folder
    from chaos.incident.outcome import known_kind
    from chaos.incident.subject import load_subject
    from chaos.scenario.resolve import new_seed

    kind = known_kind(anomaly)
    limits = shrinking.Budget.parse(budget)
    subject = load_subject(source, variant, tuple(sets or ()))
    if subject.seen is not None and not sets and not subject.seen.count(kind):
        raise UsageError(f"{source} showed no {kind}: it showed {subject.seen.describe()}")
    if seed is not None:
        subject = replace(subject, seed=seed)
    folder = new_folder(runs_dir, f"shrink-{subject.name}")
    file = folder / "smallest.yaml"
    ended = "nothing more can be left out"
    with Watch() as view, Lab(folder, view) as lab:
        subject = subject if subject.seed is not None else replace(subject, seed=new_seed())
        view.say(f"{kind} stays if one of {tries} tries shows it; budget {budget}; in {folder}")
        oracle = shrinking.Oracle(lab, subject, kind, tries, limits)
        whole = shrinking.start(subject)

        def keep(smallest: Raw) -> None:
            write_atomically(file, shrinking.final(subject, smallest, kind))

        search = shrinking.Search(whole, oracle.stays, view.say, keep)
        try:
            if not search.begin():
                view.say(f"{kind} was not seen in {tries} runs of the whole scenario, so there is nothing to shrink")
                raise typer.Exit(INCONCLUSIVE)
            search.run()
        except shrinking.Spent as spent:
            ended = f"the budget is spent ({spent}), and more could perhaps be left out"
        finally:
            if file.exists():
                sys.stdout.write(f"# {shrinking.left_out(whole, search.best)}; {lab.runs} runs\n{file.read_text()}")
                sys.stdout.flush()
                view.say(f"the smallest {'' if search.ended else 'so far '}is in {file}")
        view.say(ended)


def bisect(
    source: Source,
    kafka: Annotated[str | None, typer.Option(metavar="A..B", help="Among these Kafka releases.")] = None,
    client: Annotated[str | None, typer.Option(metavar="A..B", help="Or these confluent-kafka releases.")] = None,
    anomaly: Anomaly = None,
    tries: Annotated[int, typer.Option(min=1, max=100, help="Runs of each release, all of them counted.")] = 1,
    variant: Variant = "",
    seed: Seed = None,
    sets: Sets = None,
    runs_dir: RunsDir = RUNS_DIR,
    as_json: Json = False,
) -> None:
    """Find the first release with which the outcome changes: whether an anomaly appears, or verdict and anomalies.

    Both ends are run first. A release that cannot tell is skipped, as by `git bisect skip`. Releases are those of
    chaos/incident/releases.yaml. Ends with 0 and the release; 1 if both ends show the same; 3 if an end cannot tell, or
    only some releases that had to be skipped are left; 2 for a release that is not known.
    """
    from dataclasses import replace

    from chaos.incident import bisect as bisecting
    from chaos.incident.lab import Lab, new_folder
    from chaos.incident.outcome import known_kind
    from chaos.incident.subject import load_subject
    from chaos.scenario.resolve import new_seed

    if (kafka is None) == (client is None):
        raise UsageError("give one of --kafka A..B and --client A..B: what is to be stepped through")
    what: bisecting.What = "kafka" if kafka is not None else "client"
    span = bisecting.releases(what, kafka or client or "")
    kind = known_kind(anomaly) if anomaly else None
    subject = load_subject(source, variant, tuple(sets or ()))
    seed = next((s for s in (seed, subject.seed) if s is not None), new_seed())
    folder = new_folder(runs_dir, f"bisect-{subject.name}")
    with Watch() as view, Lab(folder, view) as lab:
        view.say(f"{len(span)} releases of {bisecting.NAMES[what]}, seed {seed}, in {folder}")
        search = bisecting.Bisection(lab, replace(subject, seed=seed), what, span, kind, tries)
        try:
            answer = search.run()
        except BaseException:
            _show_rows(search.rows, Console(stderr=True))
            raise
    write_atomically(folder / "bisect.json", json.dumps(bisecting.as_json(answer), indent=1) + "\n")
    if as_json:
        sys.stdout.write(json.dumps(bisecting.as_json(answer), indent=1) + "\n")
    else:
        _show_rows(answer.rows, Console())
        Console(soft_wrap=True, highlight=False).print(answer.sentence, markup=False)
    raise typer.Exit(answer.code)


def _show_rows(rows: list[Row], console: Console) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("release", "is", "verdict", "seen", "runs"):
        table.add_column(column, overflow="fold", no_wrap=column == "release")
    for row in rows:
        seen = row.seen.describe() if row.seen.conclusive else row.seen.sentence
        table.add_row(row.release, row.state, row.seen.verdict, escape(seen), ", ".join(row.runs))
    console.print(table)
