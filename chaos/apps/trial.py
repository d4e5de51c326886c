"""The scenario of `test`: an application between its topics, traffic that looks like its own, and faults in turn.

The scenario is written as a file that `run` takes, so that the user can change it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from chaos.effects.before import warnings
from chaos.errors import UsageError
from chaos.kafka.settings import FOR_SHORT_RUNS
from chaos.setup.effects import Effect
from chaos.setup.names import MOST_OF_ENTRY, nearest
from chaos.setup.placeholders import names_brokers, placeholders
from chaos.values.model import FILES, Value
from chaos.values.places import EACH

ADDRESS_VARIABLES = (
    *("KAFKA_BOOTSTRAP_SERVERS", "KAFKA_BOOTSTRAP", "KAFKA_BROKERS", "KAFKA_BROKER", "KAFKA_SERVERS", "KAFKA_URL"),
    *("BOOTSTRAP_SERVERS", "SPRING_KAFKA_BOOTSTRAP_SERVERS", "MP_MESSAGING_CONNECTOR_SMALLRYE_KAFKA_BOOTSTRAP_SERVERS"),
)
"""Environment variables that usual applications read the address from: all are set unless the user names one."""
HEADLINE = "# Made by `python -m chaos test`. `python -m chaos run` runs it, also after changes."
PARTITIONS, REPLICAS, PRODUCER = 6, 3, "traffic"
LOOK_PARTITIONS = 2
INTERPRETERS = re.compile(r"python[\d.]*|node|ruby|perl|bash|sh|uv|npx|tsx|bun|deno|\{python\}")
FORMATS = ("csv", "json", "jsonl", "parquet", "ndjson")
MOST_OF_NAME = 60
"""Characters up to which an effect has the names of all its topics."""
PAUSE = "1s"
"""Least time between the heal of a fault and the next fault, which waits until the application works again."""
FAULTS: dict[str, dict[str, Any]] = {
    "kill": {"kind": "app.kill", "ends_sessions": True, "heal": {"after": "2s"}},
    "leader": {"kind": "broker.kill", "heal": {"after": "3s"}},
    "coordinator": {"kind": "coordinator.kill", "heal": {"after": "3s"}},
    "stop": {"kind": "app.stop", "ends_sessions": True, "heal": {"after": "2s"}},
    "pause": {"kind": "app.pause", "heal": {"after": "3s"}},
    "slow-link": {"kind": "app.slow", "latency": "200ms", "heal": {"after": "3s"}},
}
"""The faults by the names that `--only` takes, in their order."""
COMMITTED = {"api": "OffsetCommit", "side": "response", "nth": 2}
"""The moment at which an instance is killed that commits offsets: what it has committed and not done yet is lost.

At any other time, a program that commits before its work loses something only by chance.
"""
LATEST = "20s"
"""When an instance is killed that nobody saw commit offsets, and that commits none until then.

A client that commits by itself does so every 5 s.
"""


@dataclass(frozen=True)
class Asked:
    """What the command line says. name: of the application; env: variables with placeholders."""

    command: Sequence[str]
    reads: Sequence[str]
    writes: Sequence[str]
    """The topics with one record for each input; several with commas between them if it is in any one of them."""
    samples: Path
    id: str
    directory: Path
    name: str = ""
    instances: int = 2
    group: str | None = None
    grouped: bool = True
    """Whether it reads in a consumer group, for which a run waits and which has a coordinator."""
    commits: bool | None = None
    """Whether it was seen to commit offsets outside a transaction; None if nobody looked."""
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    """The templates, by the path that the file made from each one has in {files}."""
    ready: Mapping[str, str | int] | None = None
    more: Mapping[str, Any] = field(default_factory=dict)
    """What the `value` of the inputs has beside samples and id, such as a key (`more_of_inputs`)."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Where the id of the input is, by what is written; as in the input if left out."""
    per: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """How many records an input of each sample has, by what is written; one if left out."""
    effects: Sequence[str] = ()
    """What each input leads to elsewhere, each as KIND=VALUE (`effect_of`)."""
    rate: str = "200/s"
    records: int = 2_000
    breaks: Sequence[str] = tuple(FAULTS)

    @property
    def app(self) -> str:
        """The name of the application: the given name, or the name of its program."""
        words = [word for word in self.command if re.search(r"[A-Za-z]", Path(word).stem) and not word.startswith("-")]
        program = Path(words[1 if len(words) > 1 and _runs_a_script(words[0]) else 0]).stem if words else "app"
        return self.name or re.sub(r"[^A-Za-z0-9_-]+", "-", program).strip("-_")[:MOST_OF_ENTRY] or "app"

    @property
    def value(self) -> dict[str, Any]:
        """The `value` of the producers of its inputs."""
        return {"samples": str(self.samples), "id": self.id, **self.more}


ID_NAMES = re.compile(r"(^|[_-]|[a-z])(id|uuid|key|number|no|ref)\"?$", re.IGNORECASE)
"""Names of fields that usually identify an input: `order_id`, `orderId`, `uuid`, `invoice_number`."""
READ_SAMPLES = 1_000
VALUE_PARTS = (
    "key",
    "headers.NAME",
    "avro",
    "protobuf",
    "message",
    "registry.id",
    "sizes.field",
    "sizes.fixed",
    "mark",
)
"""What `--value` may give beside samples and id."""
VALUE_EXAMPLE = ", such as --value key=$.customer --value 'headers.trace={uuid}' --value avro=order.avsc"


def propose_id(samples: Path) -> str:
    """Return the JSONPath of the field that identifies an input: with another value in each of the samples.

    It has the name of an id, or is a text: an amount that differs by chance is none. Of several, the one with the name
    of an id, then the one nearest to the root, then the first one. Raises `UsageError` if there is none, or if the
    samples cannot be read.
    """
    documents = list(_documents(samples))
    if not documents:
        raise UsageError(
            f"--samples {samples} is empty; write a JSON document into each line, as the application gets it"
        )
    if not any(isinstance(document, dict) for document in documents):
        raise UsageError(
            f"--samples {samples} has no JSON object in any line, so no field has an id; `jq -c '.[]'` writes the "
            "objects of a list into lines, and --id names a place in a list, such as --id '$[0].id'"
        )
    rows = [dict(scalars(document)) for document in documents if isinstance(document, dict)]
    known = {path: [row.get(path) for row in rows] for path in dict.fromkeys(path for row in rows for path in row)}
    named = [path for path in known if ID_NAMES.search(path.rpartition(".")[2])]
    differing = [path for path, values in known.items() if None not in values and len({*values}) == len(rows)]
    found = [path for path in differing if path in named or all(isinstance(v, str) for v in known[path])]
    if not found:
        like = f", such as --id '{named[0]}'" if named else ""
        same = f" ({named[0]} is the same in several)" if named else ""
        raise UsageError(
            f"no field of {samples} looks like an id and has another value in each line{same}; name it with --id{like}"
        )
    return min(found, key=lambda path: (path not in named, path.count(".")))


def more_of_inputs(samples: Path, identity: str, texts: Sequence[str], folder: Path) -> dict[str, Any]:
    """Return what the `value` of a producer has beside samples and id, from texts such as `key=$.customer`.

    `headers.trace={uuid}` and `registry.id=7` are a part of a part. folder: where relative paths of schemas begin.
    Raises `UsageError` for a part that does not exist or does not fit.
    """
    known = [part.partition(".")[0] for part in VALUE_PARTS]
    more: dict[str, Any] = {}
    for text in texts:
        place, equals, given = text.partition("=")
        name, _, part = place.strip().partition(".")
        if not equals or name not in known:
            hint = nearest(name, known) if equals else ""
            raise UsageError(
                f"--value {text!r} is not understood{hint}; write NAME=VALUE, where NAME is {', '.join(VALUE_PARTS)}"
            )
        before = more.get(name)
        more[name] = {**(before if isinstance(before, dict) else {}), part: given} if part else given
    try:
        value = Value.model_validate({"samples": str(samples), "id": identity, **more}).placed_in(folder)
    except ValidationError as e:
        first = e.errors()[0]
        place = ".".join(map(str, first["loc"]))
        reason = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"--value {place + ': ' if place else ''}{reason}{VALUE_EXAMPLE}") from None
    for name, path in value.missing():
        if name in more:
            raise UsageError(f"--value {name}: {path} is no file")
    return {**more, **{name: getattr(value, name) for name in more.keys() & {*FILES}}}


def _documents(samples: Path) -> Iterator[Any]:
    """Yield the first documents of a file of samples."""
    try:
        with samples.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(islice(lines, READ_SAMPLES), 1):
                if line.strip():
                    try:
                        yield json.loads(line)
                    except (ValueError, RecursionError) as e:
                        reason = getattr(e, "msg", None) or str(e)
                        hint = (
                            "one document belongs in each line, as `jq -c . FILE` writes them; inputs in another form, "
                            "such as CSV, are a `template` in the `value` of a scenario, and Avro is JSON with `avro`"
                        )
                        what = f"--samples {samples}:{number} is no JSON ({reason}); {hint}"
                        raise UsageError(what) from None
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"--samples {samples} cannot be read: {getattr(e, 'strerror', None) or e}") from None


def scalars(document: Any, path: str = "$", items: int = 0) -> Iterator[tuple[str, str | int]]:
    """Yield the texts and whole numbers of a document by their JSONPath.

    items: how many of a list, first ones; a path to each item, `$.orders[*].id`, is yielded for all if all have it.
    """
    if isinstance(document, dict):
        for name, value in document.items():
            if re.fullmatch(r"[^\W\d]\w*", name):
                yield from scalars(value, f"{path}.{name}", items)
            elif re.fullmatch(r"[^\"'\\\n]+", name):
                yield from scalars(value, f'{path}."{name}"', items)
    elif isinstance(document, list):
        for number, value in enumerate(document[:items]):
            yield from scalars(value, f"{path}[{number}]", items)
        if items and document and "[" not in path:
            each = [dict(scalars(value, f"{path}[{EACH}]")) for value in document]
            in_all = sorted(set.intersection(*map(set, each)))
            yield from ((at, found[at]) for found in each for at in in_all)
    elif isinstance(document, str | int) and not isinstance(document, bool):
        yield path, document


def _runs_a_script(program: str) -> bool:
    """Return whether a program is an interpreter, so that its first argument says what runs."""
    return bool(INTERPRETERS.fullmatch(Path(program).name))


def check_faults(asked: Asked) -> None:
    """Raise `UsageError` for an unknown fault."""
    for name in asked.breaks:
        if name not in FAULTS:
            several = "; --only names one fault, and may be repeated" if "," in name else nearest(name, FAULTS)
            raise UsageError(f"--only {name}: there is no such fault{several}; there are {', '.join(FAULTS)}")


def scenario_of(asked: Asked) -> dict[str, Any]:
    """Return the scenario as a mapping."""
    return {
        "title": f"{asked.app} loses and doubles nothing",
        "description": f"Made by `test`: {' '.join(asked.command)}",
        "cluster": {"config": dict(FOR_SHORT_RUNS)},
        "topics": _topics(asked, PARTITIONS, REPLICAS),
        "producers": [
            {
                "name": PRODUCER if len(asked.reads) == 1 else f"{PRODUCER}-{i}",
                "topic": topic,
                "rate": asked.rate,
                "records": asked.records,
                "outlast_faults": True,
                "value": asked.value,
            }
            for i, topic in enumerate(asked.reads, 1)
        ],
        "apps": [_app(asked)],
        "effects": [{**effect, "of": asked.reads[0]} for effect in effects_of(asked)],
        "faults": _timeline(asked),
        "limits": {"drive": "5m", "drain": "2m", "clients": "60s"},
    }


def effects_of(asked: Asked) -> list[dict[str, Any]]:
    """Return the effects of each input: records of the written topics, and what is elsewhere, each with its own name.

    Raises `UsageError` for an effect that is not understood.
    """
    records = [
        {
            "name": _name_of_topics(topics := topics_in(text)),
            "topic": topics if len(topics) > 1 else topics[0],
            "id": asked.places.get(text, asked.id),
            **_per(asked.per.get(text)),
        }
        for text in asked.writes
    ]
    found = {effect["name"]: effect for effect in records}
    for text in asked.effects:
        effect = effect_of(text, asked)
        names = chain([effect["name"]], (f"{effect['name']}-{number}" for number in count(2)))
        name = next(name for name in names if name not in found)
        found[name] = {**effect, "name": name}
    return list(found.values())


def topics_in(text: str) -> list[str]:
    """Return the topics of an effect, from a text with commas between them."""
    return [topic for part in text.split(",") if (topic := part.strip())]


def _name_of_topics(topics: Sequence[str]) -> str:
    """Return a name for an effect: of its topics, or of the first one and how many others there are."""
    if len(name := "-or-".join(topics)) <= MOST_OF_NAME or len(topics) == 1:
        return name
    return f"{topics[0][:200]}-or-{'another' if len(topics) == 2 else f'{len(topics) - 1}-others'}"


class _InOneLine(list[int]):
    """Numbers that a written scenario has in one line."""


class _Dumper(yaml.SafeDumper):
    pass


_Dumper.add_representer(
    _InOneLine, lambda dumper, numbers: dumper.represent_sequence("tag:yaml.org,2002:seq", numbers, flow_style=True)
)


def _per(numbers: Sequence[int] | None) -> dict[str, Any]:
    """Return the number of effects as a part of an effect; empty for one of each input. numbers: by the sample."""
    if not numbers:
        return {}
    return {"per": {"samples": _InOneLine(numbers)} if len({*numbers}) > 1 else {"input": numbers[0]}}


def effect_words(asked: Asked, topic: str) -> str:
    """Return how many records an input has in a written topic, and where its id is there."""
    numbers, where = asked.per.get(topic) or (1,), f"with its id at {asked.places.get(topic, asked.id)}"
    topic = " or ".join(topics_in(topic))
    least, most = min(numbers), max(numbers)
    if least == most:
        return f"{'one record' if most == 1 else f'{most} records'} in {topic} for each input, {where}"
    none = [str(number) for number, found in enumerate(numbers, 1) if not found]
    more = f", {len(none) - SHOWN} more" if len(none) > SHOWN else ""
    without = f" (none for {len(none)} of {len(numbers)}: {', '.join(none[:SHOWN])}{more})" if none else ""
    return f"{least} to {most} records in {topic} for an input, as its sample says{without}, {where}"


def remarks(asked: Asked) -> list[str]:
    """Return what follows for an application that reads without a consumer group, or from several topics."""
    said = []
    if not asked.grouped:
        alone = (
            f"no consumer group: {asked.app} has no coordinator to kill, and counts as ready after 1 s, or by --ready"
        )
        several = f"; each of the {asked.instances} instances may read every input, so give --instances 1 if it does"
        said.append(alone + (several if asked.instances > 1 else ""))
    if asked.grouped and asked.commits is not False and asked.breaks[0] == "kill":
        said.append(
            "the kill comes once an offset is committed, which shows a commit before the work; work that is done twice "
            "after a kill before the commit shows by chance only: `explore` tries every moment"
        )
    if len(asked.reads) > 1:
        first, *others = asked.reads
        said.append(
            f"each input of {first} has to have its effect; {', '.join(others)} gets other ids at {asked.id}, "
            "so an application that joins them by it finds no pair: name another field with --id"
        )
    return said


SHOWN = 5
"""Most samples that a sentence names."""


def check_databases(asked: Asked) -> list[str]:
    """Return a warning for each effect in a database that cannot be read yet. Raises `UsageError` if it never can."""
    return warnings((Effect.model_validate(made) for made in effects_of(asked) if "sql" in made), hidden=False)


def effect_of(text: str, asked: Asked) -> dict[str, Any]:
    """Return an effect that is no record of a topic: `sql=DATABASE QUERY`, `files=PATH`, `log=PATTERN`, `http=PATH`.

    A JSONPath after a path says where the id is, if that is not as in the input: `http=/bulk $.orders[*].id`.
    Its name is that of the file or of the path, or `rows` or `log`. Raises `UsageError`.
    """
    kind, _, value = text.partition("=")
    made: dict[str, Any]
    if kind == "sql":
        database, _, query = value.strip().partition(" ")
        made = {"name": "rows", "sql": database, "query": query.strip()}
    elif kind == "log":
        made = {"name": "log", "log": {"app": asked.app, "pattern": value}}
    elif kind in ("files", "http"):
        path, dollar, steps = value.partition(" $")
        given = path if kind == "files" else {"path": path}
        made = {"name": _name_of(path) or kind, kind: given, "id": f"${steps}" if dollar else asked.id}
    else:
        raise UsageError(f"--effect {text!r} is not understood; write sql=…, files=…, log=… or http=…{EFFECT_EXAMPLE}")
    try:
        placed = Effect.model_validate(made).placed_in(asked.directory)
    except ValidationError as e:
        reason = e.errors()[0]["msg"].removeprefix("Value error, ")
        raise UsageError(f"--effect {kind}=…: {reason}{EFFECT_EXAMPLE}") from None
    return {**made, **{place: getattr(placed, place) for place in made.keys() & {"files", "sql"}}}


EFFECT_EXAMPLE = (
    ", such as --effect 'sql=env:BILLING_DB select order_id from invoice' or --effect 'http=/invoices $.orders[*].id'"
)


def _name_of(path: str) -> str:
    """Return a name for what is at a path: its last part that is no pattern."""
    words = [re.sub(r"[^A-Za-z0-9_-]+", "-", part).strip("-_") for part in re.split(r"[/.]", path) if "*" not in part]
    return next((word[:16] for word in reversed(words) if len(word) > 1 and word not in FORMATS), "")


def look_of(asked: Asked, brokers: int = 1, known: Collection[str] = ()) -> dict[str, Any]:
    """Return the scenario of a first look as a mapping: one instance, and nothing is sent or broken.

    known: topics that are made before the application starts, with what the user names.
    """
    inputs, outputs = ("aftershock-look", "aftershock-look-effects")  # a scenario needs both
    topics = [{"name": name, "partitions": 1, "replication_factor": 1} for name in (inputs, outputs)]
    app = {key: value for key, value in _app(asked).items() if key not in ("reads", "group")}
    return {
        "title": f"What {asked.app} reads and writes",
        "cluster": {
            "brokers": brokers,
            "config": {
                "auto.create.topics.enable": True,
                "num.partitions": LOOK_PARTITIONS,
                "group.initial.rebalance.delay.ms": 0,
            },
        },
        "topics": [*topics, *_topics(asked, LOOK_PARTITIONS, 1, known)],
        "producers": [
            {
                "name": PRODUCER,
                "topic": inputs,
                "records": 1,
                "value": asked.value,
            }
        ],
        "apps": [{**app, "instances": 1}],
        "effects": [
            {"name": "aftershock-look", "topic": outputs, "id": asked.id},
            *(effect for effect in effects_of(asked) if "http" in effect),
        ],
    }


def _topics(asked: Asked, partitions: int, replicas: int, known: Collection[str] = ()) -> list[dict[str, Any]]:
    names = dict.fromkeys([*asked.reads, *(topic for text in asked.writes for topic in topics_in(text)), *known])
    return [{"name": name, "partitions": partitions, "replication_factor": replicas} for name in names]


def _app(asked: Asked) -> dict[str, Any]:
    app: dict[str, Any] = {
        "name": asked.app,
        "command": list(asked.command),
        "directory": str(asked.directory),
        "instances": asked.instances,
        "env": with_address(asked.env, [*asked.command, *map(_text, asked.files.values())]),
    }
    app |= {"reads": list(asked.reads)} if asked.grouped else {}
    app |= {"files": {name: str(template) for name, template in asked.files.items()}} if asked.files else {}
    app |= {"group": asked.group} if asked.group else {}
    return app | ({"ready": dict(asked.ready)} if asked.ready else {})


def check_files(asked: Asked) -> None:
    """Raise `UsageError` for a template that cannot be read, and for one that nothing leads the application to."""
    for name, template in asked.files.items():
        _text(template)
        if not any("{files}" in text for text in (*asked.command, *asked.env.values())):
            raise UsageError(
                f"--file {name}=…: nothing tells the application where the file is; write {{files}}/{name} into the "
                "command or --env"
            )


def _text(template: Path) -> str:
    """Return the text of a template. Raises `UsageError` if it cannot be read."""
    try:
        return template.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"--file: {template} cannot be read: {getattr(e, 'strerror', None) or e}") from None


def with_address(env: Mapping[str, str], command: Sequence[str]) -> dict[str, str]:
    """Return the variables with the usual ones for the address, unless the user says where the address is.

    command: its words, and the texts of its templates.
    """
    if any(map(names_brokers, chain.from_iterable(map(placeholders, (*env.values(), *command))))):
        return dict(env)
    return {**dict.fromkeys(ADDRESS_VARIABLES, "{bootstrap}"), **env}


def _timeline(asked: Asked) -> list[dict[str, Any]]:
    """Return the faults one after another, each when the application works again after the heal of the one before.

    A fault that hits an application at rest proves nothing: a member that was killed stays in its group for its session
    time-out, 45 s by default.
    """
    found: list[dict[str, Any]] = []
    breaks = [name for name in asked.breaks if asked.grouped or name != "coordinator"]
    if not breaks:
        raise UsageError(f"--only coordinator: {asked.app} reads without a consumer group, so it has no coordinator")
    for name in breaks:
        when: dict[str, Any] = {"acked": asked.records // 4}
        if found:
            when = {"works": {"app": asked.app, "after": f"{found[-1]['name']}.healed + {PAUSE}"}}
        elif name == "kill" and asked.grouped and asked.commits is not False:
            when = {"wire": {"app": asked.app, **COMMITTED, **({} if asked.commits else {"latest": LATEST})}}
        found.append({"name": name, **FAULTS[name], "target": _target(asked, name), "when": when})
    return found


def _target(asked: Asked, fault: str) -> dict[str, str]:
    if fault == "leader":
        return {"leader_of": f"{asked.reads[0]}/0"}
    if fault == "coordinator":
        return {"coordinator_of_app": asked.app}
    return {"app": asked.app}


COMMENTS = {
    "cluster": "A lost broker is noticed after 4 s in place of 9 s, so that the run is short; without `config`, it\n"
    "# has Kafka's defaults.",
    "topics": "The topics, with partitions and replicas as in your own cluster.",
    "producers": "The traffic: the samples in turn, each with an id of its own, until the last fault is healed.",
    "apps": "The application as it is. {bootstrap} is the address for one instance; {instance}, {port}, {data} … are\n"
    "# placeholders, too.",
    "effects": "What each input leads to, once: a record here, or a row (sql), a line (files, log), a call (http).",
    "faults": "What is broken, one after another; `python -m chaos reference faults` lists every kind.",
    "limits": "How long the run waits at most.",
}
"""The comments above the parts of a written scenario."""


def write_scenario(scenario: Mapping[str, Any], path: Path) -> None:
    """Write a scenario into a file, with a comment above each part. Raises `UsageError` if it cannot be written."""
    parts = [HEADLINE]
    for name, part in scenario.items():
        parts += [f"\n# {COMMENTS[name]}"] if name in COMMENTS else []
        parts.append(
            yaml.dump({name: part}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110).rstrip("\n")
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(parts) + "\n", encoding="utf-8")
    except OSError as e:
        raise UsageError(f"{path} cannot be written ({e.strerror or e}); name another file with --save") from None


def free(path: Path) -> Path:
    """Return a path that no file has: this one, or with a number. The user may have changed what is there."""
    others = (path.with_stem(f"{path.stem}-{number}") for number in count(2))
    return path if not path.exists() else next(other for other in others if not other.exists())
