"""`promise`: what the settings of an application promise."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer
from rich.box import ROUNDED
from rich.console import Console
from rich.table import Table
from rich.text import Text

from chaos.cli.options import Bootstrap, Select
from chaos.errors import UsageError
from chaos.guarantees.promises import Answer, Promises, ReadSetting, Reliable, UsedSetting

EXAMPLES = {"promise": "promise app.yaml"}
SIGNS = {"full": "✓", "limited": "~", "none": "✗", "unknown": "?"}
LEVELS = {
    "full": "promised",
    "limited": "promised, but a common fault ends it",
    "none": "not promised",
    "unknown": "not known",
}
_STYLES = {"full": "green", "limited": "yellow", "none": "bold red", "unknown": "cyan"}


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
    from chaos.cli.promise import markdown, show
    from chaos.guarantees import promises
    from chaos.guarantees.application import Options

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


def show(promises: Promises) -> None:
    """Print the answers on standard output."""
    console = Console(highlight=False)
    for part, client in promises.application.items():
        console.print(Text.assemble((f"{part}: ", "bold"), client))
    for found in promises.read:
        console.print(Text(f"  {_read(found)}", "dim"))
    for aspect, answers in groupby(promises.answers, lambda answer: answer.aspect):
        console.print()
        table = Table(box=ROUNDED, title=aspect, title_style="bold", title_justify="left", show_header=False)
        table.add_column(no_wrap=True, style="dim")
        table.add_column(ratio=1, overflow="fold")
        for answer in answers:
            for label, text in _rows(answer):
                table.add_row(label, text)
            table.add_section()
        console.print(table)
    console.print(Text.assemble(("fully reliable: ", "bold"), _verdict(promises.reliable)))
    for lack in promises.reliable.missing:
        console.print(Text(f"  missing: {lack}"))
    for lack in promises.reliable.unknown:
        console.print(Text(f"  not known: {lack}"))
    for note in promises.notes:
        console.print(Text.assemble(("note: ", "bold yellow"), note))
    console.print(Text("  ".join(f"{SIGNS[level]} {text}" for level, text in LEVELS.items()), "dim"))


def _rows(answer: Answer) -> list[tuple[str, Text]]:
    """Return label and text of each line of an answer; lines without a text are left out."""
    style = _STYLES[answer.level]
    lines = [
        ("", Text.assemble((f"{SIGNS[answer.level]} ", style), (answer.title, "bold"))),
        ("promised", Text(answer.promise, style if answer.level == "none" else "")),
        ("until", Text(answer.until)),
        ("by", Text(", ".join(map(_setting, answer.by)))),
        ("remedy", Text(answer.remedy)),
        ("source", Text("; ".join(source.name for source in answer.sources), "dim")),
        ("shown by", Text(", ".join(answer.shown), "dim")),
    ]
    return [(label, text) for label, text in lines if text.plain]


def _setting(used: UsedSetting) -> str:
    return f"{used.name}={used.value} ({used.origin})" if used.origin != "not set" else f"{used.name} is not set"


def _read(found: ReadSetting) -> str:
    """Return a setting by Kafka's name, with the name that the file has if it is another one."""
    own = "" if found.name == found.kafka else f", {found.name}"
    return f"{found.part}: {found.kafka}={found.value} ({found.origin}{own})"


def _verdict(found: Reliable) -> str:
    if found.holds is None:
        return "not known"
    return "yes" if found.holds else "no"


def markdown(promises: Promises) -> str:
    """Return the answers as Markdown."""
    lines = [f"- {part}: {_cell(text)}" for part, text in promises.application.items()]
    lines += [f"- read: {_cell(_read(found))}" for found in promises.read]
    head = ("", "aspect", "question", "promised", "until", "by", "remedy", "source", "shown by")
    lines += ["", f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for answer in promises.answers:
        links = [f"[{_cell(s.name)}]({s.url})" if s.url else _cell(s.name) for s in answer.sources]
        cells = (
            SIGNS[answer.level],
            answer.aspect,
            _cell(answer.title),
            _cell(answer.promise),
            _cell(answer.until),
            _cell(", ".join(map(_setting, answer.by))),
            _cell(answer.remedy),
            ", ".join(links),
            ", ".join(f"`{name}`" for name in answer.shown),
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", f"Fully reliable: **{_verdict(promises.reliable)}**", ""]
    lines += [f"- missing: {_cell(text)}" for text in promises.reliable.missing]
    lines += [f"- not known: {_cell(text)}" for text in promises.reliable.unknown]
    lines += [f"- note: {_cell(note)}" for note in promises.notes]
    legend = ", ".join(f"{SIGNS[level]} {text}" for level, text in LEVELS.items())
    return "\n".join([*lines, "", legend]) + "\n"


def _cell(text: str) -> str:
    """Return a text that neither ends a cell of a Markdown table nor begins markup."""
    for sign in ("\\", "|", "_", "*", "<", "`", "[", "]"):
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())
