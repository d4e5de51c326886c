"""The client libraries that a scenario can choose, and the library of an entry: the field `client`.

Each folder of `chaos.clients` with a module `runtime` is a library. Its module `traits` says what the library can do,
`runtime` how to install and start its programs.
"""

from __future__ import annotations

import difflib
import math
import shlex
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from chaos.clients.protocol import Part
from chaos.clients.traits import Ability, Traits
from chaos.units import Release, Size

DEFAULT = "confluent"
"""Name of the library of an entry that names none."""


def _found() -> dict[str, Traits]:
    folders = sorted(path.parent.name for path in Path(__file__).parent.glob("*/runtime.py"))
    found: list[Traits] = [import_module(f"{__package__}.{folder}.traits").TRAITS for folder in folders]
    return {traits.name: traits for traits in sorted(found, key=lambda traits: (traits.name != DEFAULT, traits.name))}


RUNTIMES = _found()
"""The traits of each library by name, the default first."""


def having(ability: Ability) -> list[str]:
    """Return the names of the libraries that can do something, in any release."""
    return [name for name, traits in RUNTIMES.items() if ability in traits.abilities]


class Session(Part):
    """A Flink session cluster for the jobs of an entry: a job manager and task managers, each in a process."""

    task_managers: int = Field(2, ge=1, le=9)
    slots: int | None = Field(
        None,
        ge=1,
        le=64,
        description="subtasks that each task manager runs at once; if left out, enough for all subtasks of the entry "
        "when one task manager is gone",
    )

    def slots_for(self, subtasks: int) -> int:
        """Return the slots of each task manager for this number of subtasks."""
        return self.slots or math.ceil(subtasks / max(1, self.task_managers - 1))


def split_command(command: Any) -> Any:
    """Return the words of a command that is one text, as a shell splits it; other values are unchanged."""
    if not isinstance(command, str):
        return command
    try:
        return shlex.split(command)
    except ValueError as e:
        raise ValueError(f"{command!r} cannot be split into words: {e}") from None


class Client(Part):
    """The client library that an entry runs with. A text such as `java` or `java:3.9.2` is the short form."""

    runtime: str = Field(DEFAULT, description=", ".join(RUNTIMES))
    command: Annotated[tuple[str, ...], BeforeValidator(split_command), Field(min_length=1)] | None = Field(
        None,
        description="program and arguments of your own client, which keeps the contract of clients (`client-check` "
        "judges it) and has the settings and abilities of `runtime`; the path of a spec is added. Files are in the "
        "folder of the scenario",
    )
    release: Release | None = Field(
        None,
        validate_default=True,
        description="release of the library; if left out, the newest one that is known, and for confluent the "
        "one of `clients.confluent_kafka`",
    )
    heap: Size | None = Field(
        None,
        ge=16 * 2**20,
        description="heap of each process; if left out, 96MiB for java, 128MiB for streams, 256MiB for flink and "
        "512MiB for spark",
    )

    session: Session | None = Field(
        None,
        description="flink: submit the jobs of a consumer entry to a session cluster; if left out, each runs in a mini "
        "cluster in the process of its client",
    )

    @field_validator("runtime")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in RUNTIMES:
            near = difflib.get_close_matches(name, RUNTIMES, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise ValueError(f"there is no runtime {name!r}{hint}; the runtimes are {', '.join(RUNTIMES)}")
        return name

    @model_validator(mode="before")
    @classmethod
    def _newest(cls, data: Any) -> Any:
        """Fill in the release of a runtime that has no installed one, so that `resolved.json` records it."""
        if isinstance(data, dict) and data.get("release") is None:
            traits = RUNTIMES.get(data.get("runtime", DEFAULT)) if isinstance(data.get("runtime", ""), str) else None
            if traits and traits.newest:
                return {**data, "release": traits.newest}
        return data

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.release and (problem := self.traits.release_problem(self.release)):
            raise ValueError(f"release: {problem}")
        if self.heap is not None and not self.traits.heap:
            raise ValueError(f"heap: the runtime {self.runtime} has no heap that can be set")
        if self.heap is not None and self.heap < self.traits.least_heap:
            raise ValueError(f"heap: the runtime {self.runtime} needs {self.traits.least_heap // 2**20}MiB or more")
        if self.command and (self.heap is not None or self.session):
            raise ValueError("command: a program of your own has no heap and no session; leave them out")
        if self.session and (problem := self.refusal("session clusters")):
            raise ValueError(f"session: {problem}")
        return self

    @property
    def traits(self) -> Traits:
        """What the runtime can do."""
        return RUNTIMES[self.runtime]

    @property
    def release_used(self) -> str | None:
        """The release; of confluent-kafka the installed one, if the entry names none, and None if none is installed."""
        if self.release is not None or self.traits.newest:
            return self.release
        return _installed(self.traits.library)

    def missing(self, ability: Ability) -> str:
        """Return why the client cannot do something; empty if it can."""
        return self.traits.missing(ability, self.release)

    def refusal(self, ability: Ability) -> str:
        """Return the message that the client lacks an ability, why, and which libraries have it; empty if it has it."""
        if not (reason := self.missing(ability)):
            return ""
        others = [name for name in having(ability) if name != self.runtime]
        more = f"; these have: {', '.join(others)}" if others else ""
        return f"the runtime {self.describe()} has no {ability}: {reason}{more}"

    def missing_setting(self, name: str) -> str:
        """Return why the client has no setting with this common name; empty if it may have it."""
        return self.traits.missing_setting(name, self.release)

    def placed_in(self, folder: Path) -> Self:
        """Return the client with absolute paths of its program, for the words that name files in a folder."""
        if self.command is None:
            return self
        words = tuple(str((folder / w).absolute()) if (folder / w).is_file() else w for w in self.command)
        return self.model_copy(update={"command": words})

    def describe(self) -> str:
        """Return the short form, such as `java:3.9.2`, or the name of a program."""
        if self.command:
            return next((Path(w).name for w in self.command[1:] if Path(w).suffix), Path(self.command[0]).name)
        return self.runtime + (f":{self.release}" if self.release else "")


@cache
def _installed(package: str) -> str | None:
    """Return the installed release of a package, None if there is none; to read it takes 5 ms."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _short(value: Any) -> Any:
    """Return the fields that a short form means; other values as they are."""
    if not isinstance(value, str):
        if not isinstance(value, dict | Client):
            raise ValueError(f"{value!r} is no client; write java:3.9.2, or the fields runtime, release and heap")
        return value
    runtime, colon, release = value.partition(":")
    if colon and not release:
        raise ValueError(f"{value!r} has no release after the colon; write one such as java:3.9.2, or just {runtime}")
    return {"runtime": runtime, **({"release": release} if colon else {})}


class _ShortForm:
    """Adds the short form to the JSON Schema."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        short = {"type": "string", "examples": ["java", "java:3.9.2"], "pattern": r"^[a-z-]+(:\d+\.\d+\.\d+)?$"}
        return {"anyOf": [short, handler(core)]}


ClientChoice = Annotated[Client, BeforeValidator(_short), _ShortForm()]
"""A client in either form."""
_CHOICE: TypeAdapter[Client] = TypeAdapter(ClientChoice)


def parse_client(text: str) -> Client:
    """Return the client of a short form such as `java:3.9.2`. Raises `ValueError` with the reason."""
    try:
        return _CHOICE.validate_python(text)
    except ValidationError as e:
        raise ValueError(e.errors()[0]["msg"].removeprefix("Value error, ")) from None
