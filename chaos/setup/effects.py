"""Effects: what an application of the user has to do for each input, and where a run reads that it was done.

An effect has one source, an id that leads back to the input, and rules: how many there are for an input, which value
they have. A place says where something is in a record of the source: a JSONPath such as `$.order_id`, `key`,
`header:NAME`, or the name of a column or of a group of a regular expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import parse_qsl, urlsplit
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, model_validator

from chaos.setup.names import PRIMARY, EntryName, PlainName, TopicName
from chaos.setup.triggers import Strict, check_one_of
from chaos.units import Duration, Percent
from chaos.values.places import EACH, Steps, parse_path

Kind = Literal["path", "key", "header", "name"]
Source = Literal["topic", "sql", "files", "http", "log"]
SOURCES: tuple[Source, ...] = ("topic", "sql", "files", "http", "log")
_AGGREGATE = re.compile(r"\s*(sum|min|max|count)\(\s*(.*?)\s*\)\s*")
_REFERENCE = ("env:", "file:")
_SECRET = re.compile(r"pass|pwd|secret|token|credential|user", re.IGNORECASE)
_JDBC_SECRET = re.compile(r"[?;&](?:password|pwd|user)[^=]*=", re.IGNORECASE)


@dataclass(frozen=True)
class Place:
    """Where something is in a record, or in each item of a list in it (`EACH`).

    keys: of a path or a name on the way to it; name: of a header.
    """

    kind: Kind
    keys: tuple[str | int, ...] = ()
    name: str = ""

    @classmethod
    def parse(cls, text: str) -> Place:
        """Return the place that a text names. Raises `ValueError` for anything else."""
        if text == "key":
            return cls("key")
        if text.startswith("header:"):
            if not (name := text.removeprefix("header:").strip()):
                raise ValueError("header: has no name; write one such as header:order-id")
            return cls("header", name=name)
        if text.startswith("$"):
            return cls("path", parse_path(text, lists=True))
        if not text.strip() or text != text.strip() or text.startswith((".", "@")):
            raise ValueError(f"{text[:80]!r} names no place; write $.field, key, header:NAME or the name of a column")
        return cls("name", (text,))

    @property
    def to_list(self) -> Steps:
        """The steps to the list with a place in each item; none if it is one place. The whole record has no steps."""
        return self.keys[: self.keys.index(EACH) + 1] if EACH in self.keys else ()

    def of_item(self, number: int) -> Place:
        """Return the place in one item of the list."""
        return replace(self, keys=tuple(number if key == EACH else key for key in self.keys))


def _checked_place(text: str) -> str:
    Place.parse(text)
    return text


RECORD = "record"
"""What `equals` compares in place of one value: the whole record."""


def _checked_path(text: str) -> str:
    if text != RECORD:
        parse_path(text)
    return text


def _checked_expression(text: str) -> str:
    try:
        re.compile(text)
    except re.error as e:
        raise ValueError(f"{text[:80]!r} is no regular expression: {e}") from None
    return text


def _checked_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise ValueError(f"{name!r} is no time zone; write one such as UTC or Europe/Berlin") from None
    return name


def _checked_database(value: Any) -> Any:
    """Refuse a URL with a login, without repeating it."""
    if not isinstance(value, str) or value.startswith(_REFERENCE):
        return value
    if not re.match(r"(?:jdbc:)?[a-z][a-z0-9+.]*:", value):
        raise ValueError("names no database; write its URL, or where the URL is: env:NAME (a variable) or file:PATH")
    try:
        parts = urlsplit(value.removeprefix("jdbc:"))
        login = "@" in parts.netloc and bool(parts.password or value.startswith("jdbc:"))
        login |= any(_SECRET.search(name) for name, _ in parse_qsl(parts.query))
    except ValueError:
        login = True
    if login or _JDBC_SECRET.search(value):
        raise ValueError("a login is not written here; name where the URL is: env:NAME (a variable) or file:PATH")
    return value


def _checked_files(value: Any) -> Any:
    """Refuse a login in the URL of files, without repeating it."""
    if isinstance(value, str) and re.search(r"://[^/@\s]*:[^/@\s]*@", value):
        raise ValueError("a login is not written here; fsspec has it from variables such as FSSPEC_FTP_PASSWORD")
    return value


def _number_of(value: Any) -> Any:
    return value if value != "input" else {"input": 1}


PlaceText = Annotated[str, AfterValidator(_checked_place)]
PathText = Annotated[str, AfterValidator(_checked_path)]
Expression = Annotated[str, AfterValidator(_checked_expression)]
Database = Annotated[str, BeforeValidator(_checked_database)]
"""URL of a database without a login, or a reference to the URL: `env:NAME` or `file:PATH`."""


OF_APP = "app:"
"""How the URL of a database begins that an application of the run is."""


def app_of(database: str | None) -> str | None:
    """Return the application of the run that a database is; None for another one."""
    return database.removeprefix(OF_APP) if database and database.startswith(OF_APP) else None


class Receiver(Strict):
    """An HTTP server of the run. The application calls it; each call that it accepts is an effect."""

    path: str = Field(pattern=r"^/[^\s?#]*$", description="path of the calls, such as /invoices")
    port: int | None = Field(None, ge=1, le=65535, description="a free one if left out")
    slow: Duration = Field(0.0, description="time before each answer")
    fail: Percent = Field(0, description="share of the calls that are refused, drawn from the seed; they do nothing")
    status: int = Field(503, ge=400, le=599, description="status of a refusal")


class LogLines(Strict):
    """Lines in the output of an application, `logs/<app>-*.log`."""

    app: EntryName
    pattern: Expression = Field(
        description="what a line with an effect contains; its groups are the columns, such as booked (?P<id>\\S+)"
    )


MOST_SAMPLES = 1_000
"""Most samples by which the number of effects is given."""


class PerInput(Strict):
    """How many effects an input has: the same number for each, or one that its sample says."""

    input: int = Field(1, ge=1, le=1000, description="the number for every input")
    samples: tuple[Annotated[int, Field(ge=0, le=1000)], ...] = Field(
        (),
        max_length=MOST_SAMPLES,
        description="the number for an input by its sample, in the order of the file: [1, 0, 3] if the application "
        "leaves the second one out, and splits the third one; `input` if left out",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.samples and self.input != 1:
            raise ValueError("give input or samples")
        if self.samples and not any(self.samples):
            raise ValueError("samples: no input has an effect, so nothing could be missing; leave the effect out")
        return self

    def due(self, inputs: int) -> int:
        """Return how many effects the first inputs have."""
        if not self.samples:
            return inputs * self.input
        whole, rest = divmod(inputs, len(self.samples))
        return whole * sum(self.samples) + sum(self.samples[:rest])


class Avro(Strict):
    """Avro, as binary without a header."""

    avro: str = Field(min_length=1, description="file with the schema (.avsc)")
    registry: bool = Field(False, description="whether the wire format of a schema registry is before it")


class Protobuf(Strict):
    """Protobuf, with or without the prefix of a schema registry."""

    protobuf: str = Field(min_length=1, description="a .proto file")
    message: str | None = Field(None, description="name of the message, the first one of the file if left out")


class TextFormat(Strict):
    """Plain text; the groups of a regular expression are the columns."""

    text: Expression


Format = Literal["json"] | Avro | Protobuf | TextFormat


def _in_a_list(given: Any) -> Any:
    if isinstance(given, str) and "," in given:
        several = ", ".join(given.replace(",", " ").split())
        raise ValueError(f"{given!r} is no topic; write several as a list: [{several}]")
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, list | tuple):
        raise ValueError(f"{given!r} is neither a topic nor a list of topics")
    return given


def _as_given(topics: tuple[str, ...]) -> str | list[str]:
    return topics[0] if len(topics) == 1 else list(topics)


Topics = Annotated[
    tuple[TopicName, ...],
    Field(min_length=1),
    BeforeValidator(_in_a_list, json_schema_input_type=TopicName | list[TopicName]),
    PlainSerializer(_as_given),
]
"""A topic, or a list of topics."""


class Effect(Strict):
    """What an application has to do for each input of a topic: exactly one of topic, sql, files, http, log."""

    name: PlainName
    topic: Topics | None = Field(
        None, description="a record of this topic, or of any one of a list of topics, read as read_committed"
    )
    cluster: EntryName = Field(PRIMARY, description="topic: the cluster that has it; of another, any topic")
    sql: Database | None = Field(
        None,
        description="a row of this database: a URL without a login, env:NAME or file:PATH with it, or app:NAME for an "
        "application of the run with `postgres`; SQLAlchemy reads it, and Spark if it begins with jdbc:",
    )
    query: str | None = Field(None, min_length=1, description="sql: the query, with the id among its columns")
    files: Annotated[str, Field(min_length=1), BeforeValidator(_checked_files)] | None = Field(
        None,
        description="a line or row of these files: path or URL of fsspec, with * for several; .csv, .parquet, and JSON "
        "lines for all others",
    )
    http: Receiver | None = Field(None, description="a call of this receiver")
    log: LogLines | None = Field(None, description="a line in the application's output")
    of: TopicName | None = Field(
        None, description="the topic of the inputs, or the producer of rows; the only one with ids if left out"
    )
    id: PlaceText | None = Field(
        None,
        description="where the id of the input is: a JSONPath, key, header:NAME, a column or group; the first column "
        "of a query and the group `id` of a pattern if left out. `$.orders[*].id` makes each item of a list an effect",
    )
    format: Format = Field(
        "json", description="topic: json, or {avro: FILE}, {protobuf: FILE, message: NAME}, {text: …}"
    )
    per: Annotated[PerInput, BeforeValidator(_number_of, json_schema_input_type=PerInput | Literal["input"])] = Field(
        PerInput(), description="input: one for each; {input: 3}: three for each; {samples: [1, 0]}: by the sample"
    )
    aggregate: str | None = Field(
        None,
        description="one value for all inputs of a key: sum($.amount), min, max, or count(); `id` is then the key",
    )
    by: PlaceText = Field("key", description="aggregate: where the key is in the input: key, or a JSONPath")
    equals: PathText | None = Field(
        None,
        description="where the input has the value that the effect must have, too; `record` for a copy of the whole "
        "record: in the partition with the same number, with the same key, value and headers, in the same order",
    )
    value: PlaceText | None = Field(
        None, description="where the effect has its value; as in the input, or in an item of its list, if left out"
    )
    at: PlaceText | None = Field(
        None,
        description="where the effect has its time: ISO 8601, or a number since 1970; if left out, the timestamp of "
        "the record, or when the run first saw it. A mirror keeps timestamps, so of another cluster only the time of "
        "the broker counts (message.timestamp.type: LogAppendTime)",
    )
    zone: Annotated[str, AfterValidator(_checked_zone)] = Field("UTC", description="time zone of times without one")
    every: Duration = Field(1.0, gt=0, description="sql, files, log: interval at which the run looks for new ones")
    settle: Duration | None = Field(
        None,
        description="time without a change after which the effects are complete; if left out, 5 s, and 50 s as long as "
        "there are fewer than the acknowledged inputs must have, within limits.drain",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_one_of(self, *SOURCES)
        problems = [*self._field_problems(), *self._place_problems()]
        if problems:
            raise ValueError(problems[0])
        return self

    def _field_problems(self) -> Iterator[str]:
        if (self.sql is None) != (self.query is None):
            yield "query: goes with sql, and sql needs a query"
        if self.format != "json" and self.topic is None:
            yield "format: is for a topic"
        if self.cluster != PRIMARY and self.topic is None:
            yield "cluster: is for a topic"
        if self.aggregate is None:
            yield from ["by: goes with aggregate"] if self.by != "key" else ()
            if self.value is not None and (self.equals is None or self.copied):
                yield "value: goes with equals or aggregate, and not with a whole record"
            if self.copied and (len(self.topics) != 1 or self.per != PerInput()):
                yield "equals: a copy of a record is one record of one topic"
            return
        if len(self.topics) > 1:
            yield "topic: goes without a list here, because the last record of a key has the aggregate"
        if not (match := _AGGREGATE.fullmatch(self.aggregate)) or bool(match[2]) == (match[1] == "count"):
            yield f"aggregate: {self.aggregate!r} is not understood; write sum($.amount), min, max, or count()"
        elif match[1] != "count":
            parse_path(match[2])
        elif self.value is None:
            yield "aggregate: count() has no field; name where the effect has the number: value"
        if self.equals is not None:
            yield "equals: goes without aggregate, which compares the value"
        if self.per != PerInput():
            yield "per: goes without aggregate, which has one value for all inputs of a key"
        if (by := Place.parse(self.by)).kind not in ("key", "path") or by.to_list:
            yield f"by: {self.by!r} is no place in an input; write key, or a JSONPath such as $.customer"

    def _place_problems(self) -> Iterator[str]:
        """Yield the places that records of the source do not have."""
        if self.id is None and not (self.sql or self.log):
            yield "id: is required; it says where the id of the input is, such as $.order_id"
        columns, to_list = self.columns, self.id_place.to_list if self.id_place else ()
        if self.in_lists and (self.aggregate or self.copied):
            yield f"id: {self.id} names several inputs, which is for effects without `aggregate` and whole records"
        for key, text in (("id", self.id), ("value", self.value), ("at", self.at)):
            place = Place.parse(text) if text else None
            if place is None:
                continue
            if place.to_list not in ((), to_list):
                yield f"{key}: {text} is in each item of another list than the id ({self.id})"
            if (place.kind == "key" and not self.topic) or (place.kind == "header" and not (self.topic or self.http)):
                yield f"{key}: {text} is a place in a record of a topic, and this effect is read from {self.source}"
            if place.kind == "name" and columns is None and not self.files:
                yield f"{key}: {text!r} is no place in JSON (did you mean $.{text}?)"
            if place.kind == "path" and columns is not None:
                names = [step for step in place.keys if isinstance(step, str) and step != EACH] or ["id"]
                yield f"{key}: {text!r} is a JSONPath, and this effect has columns (did you mean {names[-1]}?)"
            if place.kind == "name" and columns and text not in columns:
                yield f"{key}: the pattern has no group {text!r} ({', '.join(sorted(columns))})"
        if self.log and self.id is None and "id" not in (columns or ()):
            yield "log.pattern: has no group `id`, and `id` names no other; write the id as (?P<id>\\S+)"

    @property
    def source(self) -> Source:
        """The source that is given."""
        return next(source for source in SOURCES if getattr(self, source) is not None)

    @property
    def columns(self) -> frozenset[str] | None:
        """The columns of its records, as far as known (empty if not); None for what is JSON or like it. A column of a
        file is a field of its rows."""
        if self.log is not None:
            return frozenset(re.compile(self.log.pattern).groupindex)
        if isinstance(self.format, TextFormat):
            return frozenset(re.compile(self.format.text).groupindex)
        return frozenset() if self.sql is not None else None

    @property
    def function(self) -> tuple[str, str]:
        """The aggregate as function and JSONPath, which `count` does not have; empty texts without one."""
        match = _AGGREGATE.fullmatch(self.aggregate or "")
        return (match[1], match[2]) if match else ("", "")

    @property
    def input_value(self) -> str:
        """Where the input has the value that is compared or aggregated; empty if no value is."""
        return self.equals or self.function[1]

    @property
    def copied(self) -> bool:
        """Whether an effect has to be a copy of its input."""
        return self.equals == RECORD

    @property
    def compares(self) -> bool:
        """Whether the values of the effects are compared."""
        return self.equals is not None or self.aggregate is not None

    @property
    def value_place(self) -> Place | None:
        """Where the effect has its value; None if values are not compared."""
        if not self.compares or self.copied:
            return None
        if self.value is not None:
            return Place.parse(self.value)
        keys = (*(self.id_place.to_list if self.id_place else ()), *parse_path(self.input_value))
        return Place("path", keys) if self.columns is None else Place("name", (str(keys[-1]),))

    @property
    def id_place(self) -> Place | None:
        """Where the id is; None for the first column of a query."""
        return Place.parse(self.id) if self.id else Place("name", ("id",)) if self.log else None

    @property
    def in_lists(self) -> bool:
        """Whether a record has several: one for each item of a list."""
        return self.id_place is not None and bool(self.id_place.to_list)

    @property
    def reads_values(self) -> bool:
        """Whether something that is judged is in the value of a record, and not only in its key and headers."""
        places = (self.id_place, self.value_place, Place.parse(self.at) if self.at else None)
        return any(place is not None and place.kind not in ("key", "header") for place in places)

    @property
    def app(self) -> str | None:
        """The application of the run that is its database; None if it is another database, or none."""
        return app_of(self.sql)

    @property
    def polled(self) -> bool:
        """Whether the run looks for new ones at intervals."""
        return self.source in ("sql", "files", "log")

    def describe(self) -> str:
        """Return the source as text, without a secret."""
        if self.sql is not None:
            return f"the query of {self.sql}"
        if self.log is not None:
            return f"logs/{self.log.app}-*.log"
        if self.http is not None:
            return f"the calls of {self.http.path}"
        if self.topics:
            return f"{'topic' if len(self.topics) == 1 else 'topics'} {', '.join(self.topics)}{self.elsewhere}"
        return f"{self.files}"

    @property
    def elsewhere(self) -> str:
        """The cluster of its topic as text; empty for the first cluster."""
        return "" if self.cluster == PRIMARY else f" of cluster {self.cluster}"

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it is read from: each effect is a record of one of them. None if it is elsewhere."""
        return self.topic or ()

    @property
    def own_topics(self) -> tuple[str, ...]:
        """The topics of the first cluster that it is read from."""
        return self.topics if self.cluster == PRIMARY else ()

    def placed_in(self, folder: Path) -> Effect:
        """Return the effect with absolute paths; relative ones are those in the folder of the scenario."""
        changes: dict[str, Any] = {}
        if self.files and "://" not in self.files:
            changes["files"] = _absolute(self.files, folder)
        if self.sql and self.sql.startswith("file:"):
            changes["sql"] = f"file:{_absolute(self.sql.removeprefix('file:'), folder)}"
        elif self.sql and (match := re.fullmatch(r"(sqlite(?:\+\w+)?:///)([^/:?][^?]*)(.*)", self.sql)):
            changes["sql"] = f"{match[1]}{_absolute(match[2], folder)}{match[3]}"
        if isinstance(self.format, Avro):
            changes["format"] = self.format.model_copy(update={"avro": _absolute(self.format.avro, folder)})
        if isinstance(self.format, Protobuf):
            file = _absolute(self.format.protobuf, folder)
            changes["format"] = self.format.model_copy(update={"protobuf": file})
        return self.model_copy(update=changes) if changes else self


def _absolute(path: str, folder: Path) -> str:
    return str(folder.absolute() / Path(path).expanduser())
