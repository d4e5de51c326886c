"""`promise`: what the settings of an application promise."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from chaos.cli.options import Bootstrap, Select
from chaos.errors import UsageError

EXAMPLES = {"promise": "promise app.yaml"}


def promise(
    app: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="An app.yaml, or the settings of an application, a topic or a broker."),
    ] = None,
    producer_properties: Annotated[
        Path | None,
        typer.Option(help="Settings of the producer: properties, YAML, JSON or variables, also of a framework."),
    ] = None,
    consumer_properties: Annotated[Path | None, typer.Option(help="Settings of the consumer.")] = None,
    topic_config: Annotated[Path | None, typer.Option(help="Settings of the topic, as properties.")] = None,
    server_properties: Annotated[Path | None, typer.Option(help="Settings of the brokers.")] = None,
    client: Annotated[
        str | None,
        typer.Option(help="Client of both files, such as java:3.9.2, confluent or sarama; else recognized by names."),
    ] = None,
    commit: Annotated[
        str | None,
        typer.Option(
            help="Offsets are committed: after_processing, before_processing, in_transaction, on_checkpoint or never."
        ),
    ] = None,
    replication_factor: Annotated[int | None, typer.Option(min=1, help="Number of replicas of the topic.")] = None,
    bootstrap: Bootstrap = None,
    topic: Annotated[str | None, typer.Option(help="With --bootstrap: the topic to read the settings of.")] = None,
    select: Select = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answers as JSON.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the answers as Markdown.")] = False,
) -> None:
    """Say what the settings of an application promise, and until which fault.

    Give an app.yaml, settings files, or both: a file given as an option overrides app.yaml.
    """
    from chaos.promise import promise as promises
    from chaos.promise.inputs import Options
    from chaos.promise.page import markdown, show

    if as_json and as_markdown:
        raise UsageError("--json and --markdown are two forms of one output; give one of them")
    found = promises.promise(
        Options(
            app,
            producer_properties,
            consumer_properties,
            topic_config,
            server_properties,
            client,
            commit,
            replication_factor,
            bootstrap,
            topic,
            tuple(select or ()),
        )
    )
    if as_json:
        sys.stdout.write(found.model_dump_json(indent=1) + "\n")
    elif as_markdown:
        sys.stdout.write(markdown(found))
    else:
        show(found)
