"""The commands for incidents: pack one, run it again, count, compare, reduce, bisect, and draft one from logs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from chaos.cli.options import RUNS_DIR, Anomaly, Json, Master, Owned, Rounds, RunsDir, Seed, Select, Sets, Side, Source
from chaos.cli.output import plain_table, print_comparison, print_json, print_line, print_result
from chaos.cli.view import RunsView, View
from chaos.errors import UsageError

if TYPE_CHECKING:
    from chaos.campaign.bisect import ReleaseRow
    from chaos.campaign.repeat import Repetition
    from chaos.campaign.shrink import ShrinkResult

EXAMPLES = {
    "bundle": "bundle runs/leader-kill-20261121-040000-1a2b",
    "unbundle": "unbundle leader-kill-20261121-040000-1a2b.aftershock.tar.gz",
    "replay": "replay orders-lost.aftershock.tar.gz",
    "repeat": "repeat 20 orders-lost.aftershock.tar.gz",
    "ab": "ab orders-lost.aftershock.tar.gz --set producers.shop.config.acks=all",
    "shrink": "shrink orders-lost.aftershock.tar.gz --anomaly lost_write",
    "bisect": "bisect unclean-election --kafka 3.7.2..4.3.1 --anomaly lost_write",
}


def bundle(
    run_dir: Annotated[Path, typer.Argument(help="The directory of a run; the run may have broken off.")],
    out: Annotated[
        Path | None, typer.Option(help="The file; <run id>.aftershock.tar.gz in this folder when left out.")
    ] = None,
) -> None:
    """Pack a run into one file: scenario, seed, timeline, versions, settings, ledger, audit, result and report.

    Its manifest has the SHA-256 of every file, and the same run gives the same bytes. Ends with 0, or with 2 if there
    is no run or no space.
    """
    from chaos.incident.bundle import SUFFIX, pack
    from chaos.run.directory import Run

    if Run(run_dir.absolute()).comparison.is_file():
        raise UsageError(f"{run_dir} is an A/B run; bundle one of its sides, a directory below it")
    run = Run.open(run_dir)
    file = out or Path(f"{run.run_id}{SUFFIX}")
    manifest = pack(run, file)
    size = f"{len(manifest.files)} files, {file.stat().st_size / 1e6:.1f} MB"
    for line in (*(f"missing: {missing}" for missing in manifest.missing), size):
        Console(stderr=True, soft_wrap=True, highlight=False).print(line, markup=False)
    sys.stdout.write(f"{file}\n")


def unbundle(
    file: Annotated[Path, typer.Argument(help="A file that `bundle` wrote.")],
    runs_dir: RunsDir = RUNS_DIR,
) -> None:
    """Unpack a bundle into a run directory, to read its report or to audit it again.

    Ends with 2, and writes nothing, if the bundle is cut short or altered.
    """
    from chaos.incident.bundle import unpack

    sys.stdout.write(f"{unpack(file, runs_dir).path}\n")


def replay(
    source: Source, i_own_this_cluster: Owned = False, runs_dir: RunsDir = RUNS_DIR, as_json: Json = False
) -> None:
    """Run an incident again with its scenario, seed, Kafka and confluent-kafka release, and compare the outcomes.

    Outcomes are the same if the verdict and the kinds of anomalies are; kinds of which the contract allows any number
    do not count. Exit codes are those of `run`, so a replay that fails as the incident did ends with 1.
    """
    from chaos.campaign import replay
    from chaos.campaign.subject import Request

    request = Request(source, runs_dir, i_own_this_cluster=i_own_this_cluster)
    with View() as view:
        result = replay.replay(request, view)
    if as_json:
        print_json({**result.as_json(), **result.run.outcome.model_dump()})
    else:
        print_result(result.run.run, as_json=False)
        print_line(f"replay:    {result.sentence}")
    raise typer.Exit(result.run.outcome.exit_code)


def repeat(
    runs: Annotated[int, typer.Argument(metavar="N", min=1, max=10_000, help="Number of runs.")],
    source: Source,
    variant: Side = "",
    seed: Seed = None,
    same_seed: Annotated[bool, typer.Option("--same-seed", help="Use the same seed for all runs.")] = False,
    sets: Sets = None,
    i_own_this_cluster: Owned = False,
    runs_dir: RunsDir = RUNS_DIR,
    as_json: Json = False,
) -> None:
    """Run it N times, and give the rate of each anomaly with its 95 % interval (Clopper-Pearson).

    Each run has another seed, drawn from the first one. Ends with 1 if a run failed, else with 3 if one was
    inconclusive. Ctrl-C ends with 130, and prints the rates of the finished runs.
    """
    from chaos.campaign import repeat
    from chaos.campaign.subject import Request

    request = Request(
        source, runs_dir, variant, tuple(sets or ()), seed, i_own_this_cluster, runs=runs, same_seed=same_seed
    )
    with RunsView() as view:
        repetition = repeat.repeat(
            request, view, lambda result: print_json(result.as_json()) if as_json else _print_rates(result)
        )
    raise typer.Exit(repetition.exit_code)


def _print_rates(repetition: Repetition) -> None:
    numbers = ("runs", "rate", "95 % interval")
    table = plain_table("seen", *numbers, right=numbers, fixed=("seen", *numbers))
    for rate in repetition.rates:
        share = f"{100 * rate.count / rate.of:.0f} %" if rate.of else "-"
        bounds = f"{100 * rate.low:.1f} to {100 * rate.high:.1f} %"
        table.add_row(rate.name, f"{rate.count} of {rate.of}", share, bounds)
    Console(soft_wrap=True, highlight=False).print(table)
    if unsure := repetition.inconclusive:
        print_line(f"{len(unsure)} of {len(repetition.runs)} runs are inconclusive and do not count:")
        for run in unsure:
            print_line(f"  {run.run.run_id}: {run.outcome.sentence}")


def ab(
    source: Source,
    sets: Sets = None,
    variant: Side = "",
    seed: Seed = None,
    repeat: Rounds = 1,
    runs_dir: RunsDir = RUNS_DIR,
    spark_master: Master = None,
    as_json: Json = False,
) -> None:
    """Run it with and without changed settings, with the same seeds, and compare.

    One run of each side shows that they differ, not why: with enough runs (--repeat), Fisher's exact test shows that
    the change caused it.

    Both sides have the same contract. Exit codes are those of an A/B scenario: 0 if both sides keep it, 1 if one breaks
    it, 3 if one is inconclusive; the comparison names the side.
    """
    from chaos.campaign import ab
    from chaos.campaign.subject import Request

    request = Request(source, runs_dir, variant, tuple(sets or ()), seed, spark_master=spark_master, tries=repeat)
    with View() as view:
        run = ab.ab(request, view)
    raise typer.Exit(print_comparison(run, as_json))


def shrink(
    source: Source,
    anomaly: Annotated[
        str,
        typer.Option(
            help="The kind of anomaly that must remain, such as lost_write; or a time that must remain above its "
            "bound, such as produce_unavailability."
        ),
    ],
    tries: Annotated[
        int, typer.Option(min=1, max=100, help="Runs of a candidate before it counts as one without the anomaly.")
    ] = 2,
    budget: Annotated[str, typer.Option(help="Runs, time, or both: 40, 30m, 40,30m.")] = "60,60m",
    variant: Side = "",
    seed: Seed = None,
    sets: Sets = None,
    runs_dir: RunsDir = RUNS_DIR,
) -> None:
    """Remove faults, clients, records, members and settings while the anomaly remains; print the rest.

    Every candidate runs. It keeps the anomaly if at least one of its tries shows it, so the printed scenario has shown
    it; a rare anomaly may be missed. smallest.yaml has the smallest scenario so far at any time. Ends with 0; with 3 if
    the whole scenario does not show the anomaly; with 130 after Ctrl-C, which keeps the smallest so far.
    """
    from chaos.campaign import shrink
    from chaos.campaign.subject import Request

    request = Request(source, runs_dir, variant, tuple(sets or ()), seed, anomaly=anomaly, tries=tries, budget=budget)
    with RunsView() as view:
        result = shrink.shrink(request, view, _print_smallest)
    raise typer.Exit(result.exit_code)


def _print_smallest(result: ShrinkResult) -> None:
    sys.stdout.write(f"# {result.size}; {result.runs} runs\n{result.text}")
    sys.stdout.flush()


def bisect(
    source: Source,
    kafka: Annotated[str | None, typer.Option(metavar="A..B", help="Among these Kafka releases.")] = None,
    client: Annotated[
        str | None,
        typer.Option(
            metavar="RUNTIME:A..B",
            help="Or among releases of a client library, such as kafka-python:2.1.0..2.3.0. RUNTIME means all known "
            "ones, RUNTIME:A,B,C any others, A..B those of confluent-kafka.",
        ),
    ] = None,
    anomaly: Anomaly = None,
    tries: Annotated[int, typer.Option(min=1, max=100, help="Runs of each release; all of them count.")] = 1,
    variant: Side = "",
    seed: Seed = None,
    sets: Sets = None,
    runs_dir: RunsDir = RUNS_DIR,
    as_json: Json = False,
) -> None:
    """Find the first release with which the outcome changes: whether an anomaly appears, or verdict and anomalies.

    Both ends run first. An inconclusive release is skipped, as by `git bisect skip`. With a client library, the entries
    that use it get its release, or all entries if none does. Known releases are those of
    chaos/campaign/releases.yaml. Ends with 0 and the release; 1 if both ends show the same; 3 if an end is
    inconclusive, or if only skipped releases are left; 2 for an unknown release.
    """
    from chaos.campaign import bisect
    from chaos.campaign.subject import Request

    overrides = tuple(sets or ())
    request = Request(
        source, runs_dir, variant, overrides, seed, anomaly=anomaly or "", tries=tries, kafka=kafka, client=client
    )
    with RunsView() as view:
        result = bisect.bisect(request, view, lambda rows: _print_releases(rows, Console(stderr=True)))
    if as_json:
        print_json(result.as_json())
    else:
        _print_releases(result.rows, Console())
        print_line(result.sentence)
    raise typer.Exit(result.exit_code)


def _print_releases(rows: list[ReleaseRow], console: Console) -> None:
    table = plain_table("release", "is", "verdict", "seen", "runs", fixed=("release",))
    for row in rows:
        outcome = row.outcome
        detail = outcome.describe() if outcome.conclusive else outcome.sentence
        table.add_row(row.release, row.state, outcome.verdict, escape(detail), ", ".join(row.runs))
    console.print(table)


incident = typer.Typer(no_args_is_help=True)


@incident.callback()
def _group() -> None:
    """Write a scenario from the logs of an incident."""


@incident.command(
    "from-logs",
    epilog="Example: python -m chaos incident from-logs logs/ --timezone Europe/Berlin --clients app.properties "
    "--out incident.yaml",
)
def _from_logs(
    folder: Annotated[
        Path,
        typer.Argument(metavar="PATH", help="Logs of brokers: a folder, or one file; also rotated or gzipped."),
    ],
    out: Annotated[Path | None, typer.Option(help="Write the scenario to this file, not to standard output.")] = None,
    timezone: Annotated[
        str | None, typer.Option(metavar="ZONE", help="Zone of times without one in the logs; UTC if left out.")
    ] = None,
    clients: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings of producers and consumers: properties or YAML.")
    ] = None,
    select: Select = None,
) -> None:
    """Write a draft of a scenario from logs of brokers (Kafka 2.8 to 4.3), with sources and TODOs."""
    from chaos.incident.from_logs import from_logs
    from chaos.incident.logs.yaml_text import plain

    with View() as view:
        text = from_logs(folder, out, timezone, clients, lambda message: view.say(plain(message)), tuple(select or ()))
    if out is None:
        sys.stdout.write(text)
