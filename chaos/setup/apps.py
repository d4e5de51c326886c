"""Applications of a scenario: programs of the user, in any language, that know nothing of Aftershock.

An application gets an address and nothing else. Texts of its command, its environment and its template files may have
placeholders, such as `{bootstrap}` (`chaos.setup.placeholders`). Everything else is the application's own business.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from chaos.clients.choice import split_command
from chaos.processes.ports import HOST
from chaos.setup.connect import Connect
from chaos.setup.names import PRIMARY, EntryName, GroupId, TopicName, nearest
from chaos.setup.placeholders import (
    BOOTSTRAP,
    Text,
    as_text,
    form_problems,
    is_placeholder,
    names_brokers,
    placeholders,
)
from chaos.setup.postgres import READY, Postgres
from chaos.setup.triggers import OneOf, Strict, parsed_by
from chaos.units import Duration

EXTERNAL_S = 600.0
"""Time in which somebody starts an external application."""
CONNECT_S = 180.0
"""Time in which workers of Kafka Connect make their topics and form a group: two on two busy cores take 40 s."""
_NPM = (r"(@[\w.-]+/)?[\w.-]+@\d[\w.+-]*", "kafkajs@2.2.4")
LIBRARY = {
    ".py": (r"[\w.-]+(\[[\w,.-]+\])?==\d[\w.+!-]*", "aiokafka==0.14.0"),
    ".js": _NPM,
    ".mjs": _NPM,
    ".go": (r"[\w.~/-]+@v\d[\w.+-]*", "github.com/IBM/sarama@v1.61.1"),
    ".java": (r"[\w.-]+:[\w.-]+:\d[\w.-]*", "org.apache.kafka:kafka-clients:4.1.2"),
}
"""How a pinned library of a program is written, and an example, by the suffix of the program."""


def _found(program: str, directory: Path, path: str | None) -> bool:
    """Return whether a program can be run: one with a slash in a working directory, another one of PATH."""
    return shutil.which(str(directory / program) if "/" in program else program, path=path) is not None


def _check_signal(name: str) -> str:
    if name not in signal.Signals.__members__ or name in ("SIGKILL", "SIGSTOP"):
        raise ValueError(f"{name!r} is no signal that a program can handle, such as SIGTERM or SIGINT")
    return name


def _check_address(text: str) -> str:
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise ValueError(f"{text!r} is no IPv4 address, such as 0.0.0.0 for all of this machine") from None


def own_address() -> str:
    """Return the address of this machine from which it would reach others; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))  # of no machine (RFC 5737)
            return str(s.getsockname()[0])
        except OSError:
            return socket.gethostname()


def _check_expression(text: str) -> str:
    try:
        re.compile(text)
    except re.error as e:
        raise ValueError(f"{text!r} is no regular expression: {e}") from None
    return text


def _template_problems(template: Path) -> Iterator[str]:
    """Yield what no instance could make of a template, if it can be read. Other braces in it stay as they are."""
    with contextlib.suppress(OSError):
        try:
            text = template.read_text(encoding="utf-8")
        except UnicodeDecodeError as e:
            yield f"it is no text in UTF-8 (byte {e.start})"
            return
        yield from form_problems(text)


class Ready(OneOf):
    """When an instance counts as started: exactly one of these. Traffic begins when all instances are."""

    group: GroupId | None = Field(None, description="the group is stable, with a member for each instance at least")
    topic: TopicName | None = Field(None, description="something was written to this topic")
    log: Annotated[str, parsed_by(_check_expression)] | None = Field(
        None, description="a line of its output matches this regular expression"
    )
    port: Annotated[int, Field(ge=1, le=65535)] | Literal["{port}"] | None = Field(
        None, description="it accepts connections on this port; {port} is its own one"
    )
    http: Text | None = Field(None, description="this URL answers with a status below 400")


class Stop(Strict):
    """How an instance is asked to end."""

    signal: Annotated[str, AfterValidator(_check_signal)] = "SIGTERM"
    grace: Duration = Field(10.0, gt=0, description="then it is killed")


class Restart(Strict):
    """What a supervisor does with an instance that ended without being asked, as systemd and Kubernetes do."""

    policy: Literal["always", "on_failure", "never"] = Field(
        "always", description="on_failure: only after an exit code other than 0, or a signal"
    )
    delay: Duration = Field(1.0, description="before the restart; doubled, up to 30 s, if it ends within 10 s")


class External(Strict):
    """Where somebody else's application reaches the run: its brokers, and the receivers of effects."""

    listen: Annotated[str, AfterValidator(_check_address)] = Field(
        HOST, description="address of this machine at which the run listens; 0.0.0.0: all of them"
    )
    advertise: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9._-]+$",
        description="name or address by which the application reaches this machine; if left out, `listen`, and with "
        "0.0.0.0 the address of this machine in its network",
    )

    @property
    def host(self) -> str:
        """The name or address that the application gets."""
        return self.advertise or (own_address() if self.listen == "0.0.0.0" else self.listen)


class App(Strict):
    """An application: `instances` processes, or containers, of one command."""

    name: EntryName
    command: Annotated[list[Text], BeforeValidator(split_command), Field(min_length=1)] | None = Field(
        None, description="program and arguments, started once for each instance; a text is split as a shell does"
    )
    program: str | None = Field(
        None,
        description="or one source file (.py, .js, .mjs, .go, .java); it and its `libraries` are installed and "
        "compiled once, into the user's cache",
    )
    libraries: list[str] = Field(
        [],
        description="of the program, pinned: name==1.2 (Python), name@1.2 (npm), path@v1.2 (Go), "
        "group:artifact:1.2 (Java)",
    )
    connect: Connect | None = Field(
        None, description="or a worker of Kafka Connect with connectors; `libraries` are the connectors to install"
    )
    postgres: Postgres | None = Field(None, description="or a PostgreSQL server, which the run installs")
    image: str | None = Field(None, min_length=1, description="or a container of this image, in the host's network")
    external: bool | External = Field(
        False,
        description="or started by somebody else: the run prints the address, and waits; on another machine with "
        "{listen: 0.0.0.0}",
    )
    arguments: list[Text] = Field([], description="arguments of the program or of the container")
    instances: int = Field(1, ge=0, le=50, description="at the start; with 0, a fault `app.scale` starts the first")
    env: dict[str, Annotated[Text, BeforeValidator(as_text)]] = Field(
        {}, description="environment variables, in addition to the variables of this process"
    )
    files: dict[str, str] = Field(
        {}, description="files for each instance, by the path in its folder {files}: a template beside the scenario"
    )
    directory: str | None = Field(None, description="working directory; the folder of the scenario if left out")
    cluster: EntryName = Field(
        PRIMARY,
        description="the cluster at {bootstrap}, and of {username} and the like; {bootstrap.NAME} is another one",
    )
    superuser: bool = Field(
        False,
        description="logs in as the user to whom brokers with ACLs forbid nothing, as tools of operators do; without "
        "it as the clients of the run, with their rights",
    )
    reads: list[TopicName] = Field([], description="the topics that it reads: the drain waits until it has")
    group: GroupId | None = Field(
        None, description="the group of its consumers; the run finds the one that reads its topics if left out"
    )
    ready: Ready | None = Field(
        None,
        description="if left out: the group has its members; without `group` and `reads`, the process has run for 1 s",
    )
    within: Duration | None = Field(
        None,
        gt=0,
        description="time for all instances to be ready; limits.clients if left out, but 3m at least for connect, "
        "and 10m if external",
    )
    stop: Stop = Stop()
    restart: Restart = Restart()

    @model_validator(mode="before")
    @classmethod
    def _group_of_sink(cls, data: Any) -> Any:
        """Fill in the group of the only sink of Kafka Connect."""
        if isinstance(data, dict) and data.get("connect") and data.get("reads") and data.get("group") is None:
            with contextlib.suppress(ValidationError):
                groups = Connect.model_validate(data["connect"]).groups
                return {**data, "group": groups[0]} if len(groups) == 1 else data
        return data

    @model_validator(mode="after")
    def _check(self) -> Self:
        kinds = (self.command, self.program, self.image, self.connect, self.postgres, self.external or None)
        if sum(kind is not None for kind in kinds) != 1:
            raise ValueError(
                "give exactly one of command, program, image, connect, postgres, external; what a container runs is in "
                "arguments"
            )
        self._check_libraries()
        if self.postgres and (self.instances != 1 or self.arguments or self.reads or self.group):
            raise ValueError("postgres: is one instance, without arguments, reads and group; leave them out")
        if self.image and self.directory:
            raise ValueError("directory: a container begins in the working directory of its image; leave it out")
        if self.superuser and self.external:
            raise ValueError("superuser: an external application logs in as the clients of the run; leave it out")
        if self.external:
            given = [key for key in ("env", "files", "directory", "arguments") if getattr(self, key)]
            if given:
                raise ValueError(f"{given[0]}: Aftershock does not start an external application; leave it out")
            if self.awaited is None or self.awaited.selector[0] not in ("group", "topic", "http", "port"):
                raise ValueError("ready: how does the run notice that it was started? give its group, or ready.topic")
            if self.instances != 1:
                raise ValueError(
                    "instances: an external application is as many processes as somebody starts; leave it out"
                )
        if not self.instances and self.reads and self.group is None:
            raise ValueError("group: no instance runs in which the run would see it; give the group of its consumers")
        if self.connect and self.reads and self.group is None:
            raise ValueError("group: the drain waits for one group; give the group of the sink that reads the inputs")
        if self.arguments and self.connect:
            raise ValueError("arguments: a worker has none; its settings are in connect.config")
        if self.arguments and self.command is not None:
            raise ValueError("arguments: belong to a program or a container; a command is written with its arguments")
        return self

    def _check_libraries(self) -> None:
        suffix = ".java" if self.connect else Path(self.program or "").suffix
        if self.program is None and self.connect is None:
            if self.libraries:
                raise ValueError("libraries: belong to a program, and there is none; give program in place of command")
            return
        if suffix not in LIBRARY:
            raise ValueError(f"program: {self.program} has no suffix of {', '.join(LIBRARY)}; start it with command")
        pattern, example = LIBRARY[suffix]
        for name in self.libraries:
            if not re.fullmatch(pattern, name):
                raise ValueError(f"libraries: {name!r} names no release of a library; write one such as {example}")

    @property
    def reach(self) -> External:
        """Where the application reaches the run."""
        return self.external if isinstance(self.external, External) else External()

    @property
    def awaited(self) -> Ready | None:
        """What readiness waits for; None: that the process runs, or the connectors of a worker."""
        if self.ready is None and self.postgres is not None:
            return Ready(log=READY)
        if self.ready is None and self.group is not None and self.connect is None:
            return Ready(group=self.group)
        return self.ready

    @property
    def uses_primary(self) -> bool:
        """Whether it gets the address of the first cluster, where a relay sees what it says."""
        if self.postgres is not None:
            return False
        return self.cluster == PRIMARY or f"{BOOTSTRAP}{PRIMARY}" in self.names()

    @property
    def deaf(self) -> str:
        """What to do about an instance that does not end when it is asked to."""
        first = "as the first process of its container, it ignores a signal that it does not handle; "
        return f"{first if self.image else ''}handle the signal, or write another signal or grace (stop)"

    def ready_within(self, usual_s: float) -> float:
        """Return the seconds within which it has to be ready; `usual_s` is the limit of the scenario."""
        if self.within is not None:
            return self.within
        return max(usual_s, EXTERNAL_S if self.external else CONNECT_S if self.connect else 0.0)

    @property
    def groups(self) -> list[str]:
        """The groups that it is known to have, each once."""
        awaited = self.ready.group if self.ready else None
        return list(dict.fromkeys(group for group in (self.group, awaited) if group is not None))

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield each text with placeholders, with its key."""
        yield from ((f"command[{i}]", text) for i, text in enumerate(self.command or ()))
        yield from ((f"arguments[{i}]", text) for i, text in enumerate(self.arguments))
        yield from ((f"env.{name}", text) for name, text in self.env.items())
        if self.connect is not None:
            yield from self.connect.texts()
        if self.ready is not None and self.ready.http is not None:
            yield "ready.http", self.ready.http

    def names(self) -> set[str]:
        """Return the names between braces in its texts and its templates, as far as these can be read."""
        texts = [text for _, text in self.texts()]
        for template in map(Path, self.files.values()):
            with contextlib.suppress(OSError, UnicodeDecodeError):
                texts.append(template.read_text(encoding="utf-8"))
        return {name for text in texts for name in placeholders(text)}

    def missing(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield the key of each program, folder or template that does not exist on this machine, with a message.

        The application has absolute paths. What has placeholders is known later.
        """
        directory = Path(self.directory or ".")
        if not (self.image or self.external) and not directory.is_dir():
            yield ("directory",), f"there is no folder {directory}"
        program = self.command[0] if self.command else ""
        if program and not list(placeholders(program)) and not _found(program, directory, self.env.get("PATH")):
            yield ("command",), f"there is no program {program!r} that can be run, looked up in {directory} and PATH"
        if self.program is not None and not Path(self.program).is_file():
            yield ("program",), f"there is no file {self.program}"
        for tool in ("node", "npm") if Path(self.program or "").suffix in (".js", ".mjs") else ():
            if shutil.which(tool) is None:
                yield (
                    ("program",),
                    f"{Path(self.program or '').name} needs {tool}, and there is none on PATH; install Node.js",
                )
        for name, template in self.files.items():
            if not Path(template).is_file():
                yield ("files", name), f"there is no template {template}"
            yield from ((("files", name), f"{template}: {text}") for text in _template_problems(Path(template)))
        names = self.names()
        if self.files and not any(map(names_brokers, names)):
            near = nearest("bootstrap", sorted(name for name in names if not is_placeholder(name)))
            yield (
                ("files",),
                f"nothing gives {self.name} the address of the brokers: no text and no template has {{bootstrap}}"
                + near.replace("did you mean", "is it meant by"),
            )

    def file(self, word: str) -> Path:
        """Return what a word of the command names, if it names a file. The application has absolute paths."""
        return Path(self.directory or ".") / word

    def program_files(self) -> Iterator[tuple[str, Path]]:
        """Yield each word of the command, or the program, that names a file on this machine, with this file."""
        for word in self.command or (self.program or "",):
            with contextlib.suppress(OSError, ValueError):  # a word may be longer than the name of a file, as in -c
                if word and not list(placeholders(word)) and self.file(word).is_file():
                    yield word, self.file(word)

    def placed_in(self, folder: Path) -> App:
        """Return the application with absolute paths; relative ones are those in the folder of the scenario."""
        files = {name: str(folder / Path(path).expanduser()) for name, path in self.files.items()}
        own = self.image or self.external  # they have no working directory of this machine
        directory = None if own else str((folder / Path(self.directory or ".").expanduser()).resolve())
        program = self.program and str((folder / Path(self.program).expanduser()).resolve())
        return self.model_copy(update={"files": files, "directory": directory, "program": program})
