"""Options and arguments that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar, overload

import typer

from chaos.errors import UsageError

RUNS_DIR = Path("runs")
T = TypeVar("T")


@overload
def parsed(option: str, text: str, parse: Callable[[Any], T]) -> T: ...
@overload
def parsed(option: str, text: str | None, parse: Callable[[Any], T]) -> T | None: ...
def parsed(option: str, text: str | None, parse: Callable[[Any], T]) -> T | None:
    """Return the value of an option, None if it is left out. Raises `UsageError` for a text that is none."""
    try:
        return None if text is None else parse(text)
    except ValueError as e:
        raise UsageError(f"{option}: {e}") from None


Scenario = Annotated[str, typer.Argument(help="A shipped scenario's name (see `list`) or a YAML file.")]
Source = Annotated[
    str, typer.Argument(metavar="BUNDLE|SCENARIO", help="A bundle, a run directory, a scenario's name or YAML file.")
]
Kafka = Annotated[str | None, typer.Option(help="Kafka release, such as 3.9.2 or 4.3.1.")]
Client = Annotated[
    str | None,
    typer.Option(help="Client library of every entry, such as java or java:3.9.2, or a release of confluent-kafka."),
]
Driver = Annotated[
    str | None, typer.Option(help="Where brokers run: process, docker or attached; see `cluster.driver`.")
]
Bootstrap = Annotated[
    str | None, typer.Option(metavar="HOST:PORT,…", help="Use an existing cluster; see `cluster.security`.")
]
Owned = Annotated[
    bool, typer.Option("--i-own-this-cluster", help="Allow faults on brokers of an existing cluster (`cluster.verbs`).")
]
Select = Annotated[
    list[str] | None,
    typer.Option(help="Of a file with several: the profile, section, channel or service. May be given several times."),
]
Seed = Annotated[int | None, typer.Option(min=0, help="Fixes every random choice; drawn and reported when left out.")]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="PATH=VALUE", help="Override a value, e.g. producers.shop.config.acks=1. Repeatable."
    ),
]
Variant = Annotated[str, typer.Option(help="Only this side of an A/B scenario; all of them when left out.")]
Side = Annotated[str, typer.Option("--variant", help="The side of an A/B scenario, which needs one here.")]
Repeat = Annotated[
    int | None,
    typer.Option("--repeat", metavar="N", min=1, max=10_000, help="Runs of each; 1, or as above."),
]
Jobs = Annotated[int, typer.Option("--jobs", min=1, max=16, help="Runs at once, each on its own cluster.")]
JobsChosen = Annotated[
    int | None,
    typer.Option("--jobs", min=1, max=16, help="Runs at once, each on its own cluster; chosen when left out."),
]
For = Annotated[
    str | None,
    typer.Option("--for", metavar="TIME", help="Begin no run after this time or number of runs: 30m, 40, 40,30m."),
]
Existing = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT,…", help="The cluster; left out: the only one of `up` on this machine."),
]
Into = Annotated[
    Path | None,
    typer.Option("--into", metavar="DIR", file_okay=False, help="The new folder; one below --runs-dir if left out."),
]
Resume = Annotated[
    Path | None,
    typer.Option("--resume", metavar="DIR", file_okay=False, help="Go on in this folder: run what it lacks."),
]
Timings = Annotated[bool, typer.Option(help="Print the seconds of each stage on stderr.")]
RunsDir = Annotated[Path, typer.Option(help="Folder for run directories.", file_okay=False)]
Json = Annotated[bool, typer.Option("--json", help="Print result.json on stdout; progress stays on stderr.")]
Master = Annotated[str | None, typer.Option(help="Spark master of the audit; local[*] when left out.")]
Anomaly = Annotated[
    str | None,
    typer.Option(
        help="The kind of anomaly that decides, such as lost_write; or a time above its bound, "
        "such as produce_unavailability."
    ),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metrics",
        metavar="FILE.prom|URL",
        envvar="AFTERSHOCK_METRICS",
        help="Publish metrics to a textfile of node_exporter or a Pushgateway. Repeatable.",
    ),
]
Url = Annotated[
    str | None,
    typer.Option(
        "--history",
        metavar="URL",
        envvar="AFTERSHOCK_HISTORY",
        help="The database: postgresql://… or sqlite:////…; history.sqlite in the folder of the runs when left out.",
    ),
]
