"""`test`: an application of the user, unmodified, under faults, judged by the effects of its inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chaos.cli import options as opt

EXAMPLES = {
    "test": "test --reads orders --writes invoices --samples orders.jsonl --id '$.order_id' -- python service.py"
}


def test(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND…", help="The application's command, after --.")],
    reads: Annotated[list[str], typer.Option(help="A topic that it reads. May be given several times.")],
    samples: Annotated[Path, typer.Option(help="Inputs as it gets them: a JSON object in each line.", dir_okay=False)],
    identity: Annotated[str, typer.Option("--id", metavar="JSONPATH", help="Where an input has its id: $.order_id")],
    writes: Annotated[list[str] | None, typer.Option(help="A topic that gets one record for each input.")] = None,
    instances: Annotated[int, typer.Option(min=1, max=50, help="Processes of the application.")] = 2,
    group: Annotated[str | None, typer.Option(help="Its consumer group; found by itself if left out.")] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A variable, such as KAFKA={bootstrap}; usual names if left out."),
    ] = None,
    ready: Annotated[
        str | None,
        typer.Option(metavar="KIND=VALUE", help="When it is ready: group=…, topic=…, log=…, port=…, http=…."),
    ] = None,
    rate: Annotated[str, typer.Option(help="Inputs per second.")] = "200/s",
    records: Annotated[int, typer.Option(min=100, help="Inputs at least; the traffic outlasts the faults.")] = 2_000,
    breaks: Annotated[
        list[str] | None, typer.Option("--break", metavar="FAULT", help="Only these faults, in order.")
    ] = None,
    name: Annotated[str, typer.Option(help="Its name in the report; the name of its program if left out.")] = "",
    save: Annotated[Path | None, typer.Option(help="The file of the scenario; below --runs-dir if left out.")] = None,
    only_write: Annotated[bool, typer.Option("--plan", help="Write the scenario and run nothing.")] = False,
    kafka: opt.Kafka = None,
    driver: opt.Driver = None,
    seed: opt.Seed = None,
    runs_dir: opt.RunsDir = opt.RUNS_DIR,
    as_json: opt.Json = False,
) -> None:
    """Run an application, unmodified, break its cluster and itself, and say which inputs it lost or processed twice.

    It makes a scenario: brokers, traffic from the samples with another id in each input, the instances of the
    application, and the crash of a leader, the loss of the coordinator, SIGKILL, SIGTERM and a pause of an instance,
    and a slow link. It is written as a file that `run` takes.
    """
    from chaos.apps.trial import FAULTS, Asked, write_scenario
    from chaos.cli.run import run
    from chaos.errors import UsageError

    if not writes:
        raise UsageError(
            "name with --writes a topic that gets one record for each input; other effects need a scenario"
        )
    asked = Asked(
        command=command,
        reads=reads,
        writes=writes,
        samples=samples.absolute(),
        id=identity,
        directory=Path.cwd(),
        name=name,
        instances=instances,
        group=group,
        env=dict(_split(text, "--env") for text in env or ()),
        ready=dict([_split(ready, "--ready")]) if ready else None,
        rate=rate,
        records=records,
        breaks=breaks or list(FAULTS),
    )
    path = save or runs_dir / f"test-{asked.app}.yaml"
    write_scenario(asked, path)
    typer.echo(f"scenario: {path}", err=True)
    if not only_write:
        run(str(path), kafka=kafka, driver=driver, seed=seed, runs_dir=runs_dir, as_json=as_json)


def _split(text: str, option: str) -> tuple[str, str]:
    from chaos.errors import UsageError

    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"{option} {text!r} is not understood; write NAME=VALUE")
    return key.strip(), value
