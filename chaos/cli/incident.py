"""The commands for incidents: pack one, run it again, count, compare, reduce, bisect, and draft one from logs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from chaos.cli.options import (
    RUNS_DIR,
    Anomaly,
    For,
    Into,
    Jobs,
    Json,
    Master,
    Owned,
    Repeat,
    Resume,
    RunsDir,
    Seed,
    Select,
    Sets,
    Side,
    Source,
)  # fmt: skip
from chaos.cli.output import RunsView, View, campaign_printer, loading, print_campaign, print_line, print_result
from chaos.errors import UsageError
from chaos.run.directory import Run

if TYPE_CHECKING:
    from chaos.run.campaign import PartsResult

EXAMPLES = {
    "bundle": "bundle runs/leader-kill-20261121-040000-1a2b",
    "unbundle": "unbundle leader-kill-20261121-040000-1a2b.aftershock.tar.gz",
    "replay": "replay orders-lost.aftershock.tar.gz",
    "repeat": "repeat orders-lost.aftershock.tar.gz --repeat 20",
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
    from chaos.campaign.folder import PLAN
    from chaos.incident.bundle import SUFFIX, pack

    if (run_dir / PLAN).is_file():
        raise UsageError(f"{run_dir} is the folder of a campaign; bundle one of its runs, a directory below it")
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
    source: Source,
    sets: Sets = None,
    i_own_this_cluster: Owned = False,
    into: Into = None,
    runs_dir: RunsDir = RUNS_DIR,
    as_json: Json = False,
) -> None:
    """Run an incident again with its scenario, seed, Kafka and confluent-kafka release, and compare the outcomes.

    Outcomes are the same if the verdict and the kinds of anomalies are; kinds that the contract allows in any number
    do not count. A bundle has the samples and schemas of its run, and not the programs of its applications: --set gives
    those that this machine has elsewhere. The exit codes are as of `run`, so a replay that fails as the incident did
    ends with 1.
    """
    with loading():
        from chaos.campaign import replay
        from chaos.campaign.subject import Request
        from chaos.run.result import EXIT_CODES

    request = Request(
        runs_dir=runs_dir, into=into, source=source, overrides=tuple(sets or ()), i_own_this_cluster=i_own_this_cluster
    )
    with View() as view:
        result = replay.replay(request, view, campaign_printer(as_json, _print_replay))
    raise typer.Exit(EXIT_CODES[result.verdict])


def repeat(
    source: Source = "",
    repeat: Repeat = None,
    variant: Side = "",
    seed: Seed = None,
    same_seed: Annotated[bool, typer.Option("--same-seed", help="Use the same seed for all runs.")] = False,
    sets: Sets = None,
    i_own_this_cluster: Owned = False,
    jobs: Jobs = 1,
    budget: For = None,
    into: Into = None,
    resume: Resume = None,
    runs_dir: RunsDir = RUNS_DIR,
    as_json: Json = False,
) -> None:
    """Run it N times (10), and give the rate of each anomaly with its 95 % interval (Clopper-Pearson).

    Each run has another seed, drawn from the first one. Ends with 1 if a run failed, else with 3 if one was
    inconclusive. Ctrl-C ends with 130, and prints the rates of the finished runs.
    """
    with loading():
        from chaos.campaign import repeat as repetition
        from chaos.campaign.subject import Request
        from chaos.run.result import EXIT_CODES

    request = Request(
        runs_dir=runs_dir, into=into, resume=resume, repeat=repeat, jobs=jobs, budget=budget, seed=seed,
        source=source, variant=variant, overrides=tuple(sets or ()), i_own_this_cluster=i_own_this_cluster,
        same_seed=same_seed,
    )  # fmt: skip
    with RunsView() as view:
        result = repetition.repeat(request, view, campaign_printer(as_json))
    raise typer.Exit(EXIT_CODES[result.verdict])


def ab(
    source: Source = "",
    sets: Sets = None,
    variant: Side = "",
    seed: Seed = None,
    repeat: Repeat = None,
    budget: For = None,
    into: Into = None,
    resume: Resume = None,
    runs_dir: RunsDir = RUNS_DIR,
    spark_master: Master = None,
    as_json: Json = False,
) -> None:
    """Run it with and without changed settings, with the same seeds, and compare.

    One run of each side shows that they differ, not why: with enough runs (--repeat), Fisher's exact test shows that
    the change caused it.

    Both sides have the same contract. Exit codes are as of an A/B scenario: 0 if both sides keep it, 1 if one breaks
    it, 3 if one is inconclusive; the comparison names the side.
    """
    with loading():
        from chaos.campaign import ab
        from chaos.campaign.subject import Request
        from chaos.run.result import EXIT_CODES

    request = Request(
        runs_dir=runs_dir, into=into, resume=resume, repeat=repeat, budget=budget, seed=seed, source=source,
        variant=variant, overrides=tuple(sets or ()), spark_master=spark_master,
    )  # fmt: skip
    with View() as view:
        planned = ab.plan_ab(request)
        view.say(f"run directory: {planned.folder.path}")
        result = ab.run_variants(planned, view)
    print_campaign(result, planned.folder.path, as_json)
    raise typer.Exit(EXIT_CODES[result.verdict])


def shrink(
    source: Source = "",
    anomaly: Annotated[
        str,
        typer.Option(
            help="The kind of anomaly that must remain, such as lost_write; or a time that must remain above its "
            "bound, such as produce_unavailability."
        ),
    ] = "",
    repeat: Repeat = None,
    budget: For = None,
    into: Into = None,
    resume: Resume = None,
    variant: Side = "",
    seed: Seed = None,
    sets: Sets = None,
    runs_dir: RunsDir = RUNS_DIR,
    as_json: Json = False,
) -> None:
    """Remove faults, clients, records, members and settings while the anomaly remains; print the rest.

    Every candidate runs, up to N times (2). It keeps the anomaly if one of its runs shows it, so the printed scenario
    has shown it; a rare anomaly may be missed. No run begins after 60 runs or 60 minutes, unless --for says otherwise.
    smallest.yaml has the smallest scenario so far at any time. Ends with 0; with 3 if the whole scenario does not show
    the anomaly; with 130 after Ctrl-C, which keeps the smallest so far.
    """
    with loading():
        from chaos.campaign import shrink
        from chaos.campaign.subject import Request
        from chaos.run.result import EXIT_CODES

    request = Request(
        runs_dir=runs_dir, into=into, resume=resume, repeat=repeat, budget=budget, seed=seed, source=source,
        variant=variant, overrides=tuple(sets or ()), anomaly=anomaly,
    )  # fmt: skip
    with RunsView() as view:
        result = shrink.shrink(request, view, campaign_printer(as_json, _print_smallest))
    raise typer.Exit(EXIT_CODES[result.verdict])


def _print_replay(result: PartsResult, folder: Path) -> None:
    for run in result.parts[0].runs:
        print_result(Run(folder / run.run_id), as_json=False)
    print_line(f"replay:    {result.sentence}")


def _print_smallest(result: PartsResult, _: Path) -> None:
    if result.answer:
        sys.stdout.write(f"# {result.sentence}\n{result.answer}")
        sys.stdout.flush()


def bisect(
    source: Source = "",
    kafka: Annotated[str | None, typer.Option(metavar="A..B", help="Among these Kafka releases.")] = None,
    client: Annotated[
        str | None,
        typer.Option(
            metavar="RUNTIME:A..B",
            help="Or among releases of a client library, such as kafka-python:2.1.0..2.3.0. RUNTIME means all known "
            "ones, RUNTIME:A,B,C any others, A..B releases of confluent-kafka.",
        ),
    ] = None,
    app: Annotated[
        list[str] | None,
        typer.Option(
            "--app",
            metavar="NAME=COMMAND",
            help="Or among these commands of an application, oldest first: once for each. Images, if it has an image.",
        ),
    ] = None,
    anomaly: Anomaly = None,
    repeat: Repeat = None,
    jobs: Jobs = 1,
    budget: For = None,
    into: Into = None,
    resume: Resume = None,
    variant: Side = "",
    seed: Seed = None,
    sets: Sets = None,
    runs_dir: RunsDir = RUNS_DIR,
    as_json: Json = False,
) -> None:
    """Find the first release with which the outcome changes: whether an anomaly appears, or verdict and anomalies.

    Both ends run first, each release N times (1). An inconclusive release is skipped, as by `git bisect skip`. With a
    client library, the entries that use it get its release, or all entries if none does. Known releases are in
    chaos/campaign/releases.yaml. Ends with 0 and the release; 1 if both ends show the same; 3 if an end is
    inconclusive, or if only skipped releases are left; 2 for an unknown release.
    """
    with loading():
        from chaos.campaign import bisect
        from chaos.campaign.subject import Request
        from chaos.run.result import EXIT_CODES

    request = Request(
        runs_dir=runs_dir, into=into, resume=resume, repeat=repeat, jobs=jobs, budget=budget, seed=seed, source=source,
        variant=variant, overrides=tuple(sets or ()), anomaly=anomaly or "", kafka=kafka, client=client,
        app=tuple(app or ()),
    )  # fmt: skip
    with RunsView() as view:
        result = bisect.bisect(request, view, campaign_printer(as_json))
    raise typer.Exit(EXIT_CODES[result.verdict])


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
    with loading() as view:
        from chaos.incident.logs.draft import from_logs, plain

        view.doing("reading the logs")
        text = from_logs(folder, out, timezone, clients, lambda message: view.say(plain(message)), tuple(select or ()))
    if out is None:
        sys.stdout.write(text)
