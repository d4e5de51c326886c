"""`replay`, `repeat` and `ab`: an incident once more, many times, and with what should have prevented it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from chaos.cli.run import RUNS_DIR, Json, Master, Owned, RunsDir, Seed, Sets, Variant, one, show_comparison, show_result
from chaos.cli.view import View
from chaos.errors import FAIL, INCONCLUSIVE, PASS, UsageError
from chaos.run.directory import write_atomically
from chaos.run.events import Event

if TYPE_CHECKING:  # `--help` needs no Kafka client
    from chaos.incident.again import Rate
    from chaos.incident.lab import Trial

Source = Annotated[
    str, typer.Argument(metavar="BUNDLE|SCENARIO", help="A bundle, a run directory, a scenario's name or YAML file.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog="Example: python -m chaos replay orders-lost.aftershock.tar.gz")(replay)
    app.command(epilog="Example: python -m chaos repeat 20 orders-lost.aftershock.tar.gz")(repeat)
    app.command(
        epilog="Example: python -m chaos ab orders-lost.aftershock.tar.gz --set producers.shop.config.acks=all"
    )(ab)


class Watch(View):
    """The view of commands that run many times: a line for each run, and what goes on now where that is a terminal."""

    _name = ""

    def began(self, name: str) -> None:
        """A run was begun."""
        self._name = name
        if self._status is None:
            self.say(f"{escape(name)} …")
        self._status_words("")

    def event(self, event: Event) -> None:
        """Something happened in it."""
        if event["kind"] == "stage" and event["state"] == "begin":
            self._status_words(event["stage"])
        elif event["kind"] == "fault":
            self._status_words(f"{event['fault']} {event['phase']}")
        elif event["kind"] in ("note", "problem"):
            self(event)

    def _status_words(self, words: str) -> None:
        if self._status:
            self._status.update(escape(f"{self._name} {words}"))


class Follow(Watch):
    """The view of one run, with everything that happens in it."""

    def began(self, name: str) -> None:
        """A run was begun; its stages say so."""

    def event(self, event: Event) -> None:
        """Something happened in it."""
        self(event)


def replay(
    source: Source, i_own_this_cluster: Owned = False, runs_dir: RunsDir = RUNS_DIR, as_json: Json = False
) -> None:
    """Run an incident again: same scenario, seed, Kafka and confluent-kafka release; then say whether it is the same.

    The same is: the same verdict, and the same kinds of anomalies, but for those of which the contract allows any
    number. Exit codes as of `run`, so a replay that fails as the incident did ends with 1.
    """
    from chaos.incident.lab import Lab, new_folder
    from chaos.incident.replay import notes
    from chaos.incident.replay import replay as again
    from chaos.incident.subject import load_subject

    subject = load_subject(source)
    said = notes(subject)
    folder = new_folder(runs_dir, f"replay-{subject.name}")
    with Follow() as view, Lab(folder, view, i_own_this_cluster) as lab:
        for words in said:
            view.say(f"[yellow]note:[/] {escape(words)}")
        view.say(f"run directory: {folder}")
        found = again(lab, subject)
    outcome = {"same": found.same, "sentence": found.sentence, "notes": said, "run": str(found.trial.run.path)}
    write_atomically(folder / "replay.json", json.dumps(outcome, indent=1) + "\n")
    if as_json:
        sys.stdout.write(json.dumps({**outcome, **found.trial.seen.model_dump()}, indent=1) + "\n")
    else:
        show_result(found.trial.run, as_json=False)
        Console(soft_wrap=True, highlight=False).print(f"replay:    {found.sentence}", markup=False)
    raise typer.Exit(found.trial.seen.exit_code)


def repeat(
    runs: Annotated[int, typer.Argument(metavar="N", min=1, max=10_000, help="How many times.")],
    source: Source,
    variant: Variant = "",
    seed: Seed = None,
    same_seed: Annotated[bool, typer.Option("--same-seed", help="The same seed every time.")] = False,
    sets: Sets = None,
    i_own_this_cluster: Owned = False,
    runs_dir: RunsDir = RUNS_DIR,
    as_json: Json = False,
) -> None:
    """Run it N times, and give the rate of each anomaly with its 95 % interval (Clopper-Pearson).

    Each run has a seed of its own, all of them drawn from the first one's. Ends with 1 if a run failed, else with 3 if
    one was inconclusive. Ctrl-C ends with 130, and gives the rates of the runs that were done.
    """

    from chaos.incident import again
    from chaos.incident.lab import Lab, new_folder
    from chaos.incident.subject import load_subject
    from chaos.scenario.resolve import new_seed

    subject = load_subject(source, variant, tuple(sets or ()))
    base = next((s for s in (seed, subject.seed) if s is not None), new_seed())
    folder = new_folder(runs_dir, f"repeat-{subject.name}")
    trials: list[Trial] = []
    try:
        with Watch() as view, Lab(folder, view, i_own_this_cluster) as lab:
            view.say(f"{runs} runs, in {folder}")
            for trial in again.repeat(lab, subject, [base] * runs if same_seed else again.seeds(base, runs)):
                trials.append(trial)
                shown = trial.seen.describe() if trial.seen.conclusive else trial.seen.sentence
                view.say(
                    f"{len(trials)} of {runs}, seed {trial.seed}: {trial.seen.verdict}, {escape(shown)} "
                    f"({trial.seconds:.0f} s)"
                )
    finally:
        if trials:
            found = again.summary(subject, trials)
            write_atomically(folder / "repeat.json", json.dumps(found, indent=1) + "\n")
            if as_json:
                sys.stdout.write(json.dumps(found, indent=1) + "\n")
            else:
                _show_rates(again.rates(trials), trials)
    verdicts = {trial.seen.verdict for trial in trials}
    raise typer.Exit(FAIL if "fail" in verdicts else PASS if verdicts == {"pass"} else INCONCLUSIVE)


def _show_rates(rates: list[Rate], trials: list[Trial]) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("seen", "runs", "rate", "95 % interval"):
        table.add_column(column, justify="left" if column == "seen" else "right", no_wrap=True)
    for rate in rates:
        share = f"{100 * rate.count / rate.of:.0f} %" if rate.of else "-"
        table.add_row(
            rate.name, f"{rate.count} of {rate.of}", share, f"{100 * rate.low:.1f} to {100 * rate.high:.1f} %"
        )
    console = Console(soft_wrap=True, highlight=False)
    console.print(table)
    unsure = [trial for trial in trials if not trial.seen.conclusive]
    if unsure:
        console.print(f"{len(unsure)} of {len(trials)} runs could not tell, and do not count:", markup=False)
        for trial in unsure:
            console.print(f"  {trial.run.run_id}: {trial.seen.sentence}", markup=False)


def ab(
    source: Source,
    sets: Sets = None,
    variant: Variant = "",
    seed: Seed = None,
    runs_dir: RunsDir = RUNS_DIR,
    spark_master: Master = None,
    as_json: Json = False,
) -> None:
    """Run it twice with one seed, as it was and with settings changed, and put both side by side.

    Both sides are held against the same contract. Exit codes as of an A/B scenario: 0 if both keep it, 1 if one does
    not, 3 if one could not tell; which side it was is in the comparison.
    """
    from dataclasses import replace

    from chaos.incident import ab as comparing
    from chaos.incident.lab import new_folder
    from chaos.incident.subject import load_subject

    subject = load_subject(source, variant)
    if not sets:
        raise UsageError("ab needs --set: what the two sides differ in, such as producers.shop.config.acks=all")
    if seed is not None:
        subject = replace(subject, seed=seed)
    comparing.check(subject, sets)
    folder = new_folder(runs_dir, f"ab-{subject.name}")
    whole = comparing.prepare(subject, sets, folder)
    with View() as view:
        view.say(f"run directory: {whole.run.path}")
        for name, side in whole.by_variant.items():
            view.say(f"[bold]{name}[/]")
            one(side, view, spark_master)
    raise typer.Exit(show_comparison(whole.run, as_json))
