"""Types for names in the cluster (topics, groups, transactional ids), and the prefix of a run on an existing cluster.

On an existing cluster, a run creates, alters and deletes only topics and groups with its prefix in their names, and
removes all of them at the end. The names are changed once, when the scenario is resolved; the rest of the run does not
depend on the prefix. A new field that names a topic or a group only needs the right type. Addresses of brokers have a
type, too.
"""

from __future__ import annotations

import difflib
import re
import secrets
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from chaos.clients.traits import ERROR_CODES
from chaos.errors import ScenarioError
from chaos.ledger.record import PRODUCER_WIDTH

_MOST = 20
"""Most names that fit on a line."""


def nearest(name: str, names: Iterable[str]) -> str:
    """Return a hint at the most similar name, or an empty text."""
    match = difflib.get_close_matches(str(name), list(names), n=1, cutoff=0.5)
    return f" (did you mean {match[0]}?)" if match else ""


def listed(names: Collection[str], what: str, command: str) -> str:
    """Return the valid names as the end of a line; if they are many, their number and the command that lists them."""
    many = f"there are {len(names)} {what}, which `{command}` lists"
    return f"the {what} are {', '.join(names)}" if len(names) <= _MOST else many


def either(choices: Collection[str]) -> str:
    """Return alternatives as text: `a, b or c`."""
    *most, last = choices
    return f"{', '.join(most)} or {last}" if most else last


_PORT = "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_ADDRESS = rf"\s*[^\s,:/]+:{_PORT}\s*"
_ADDRESSES = f"^{_ADDRESS}(,{_ADDRESS})*$"


def _check(text: object) -> object:
    """Return the value. Raises `ValueError` with what to write, in place of the pattern that the value does not fit."""
    if isinstance(text, str) and not re.match(_ADDRESSES, text):
        raise ValueError(f"{text!r} is no address; write host:port with a port from 1 to 65535, or several with commas")
    return text


Bootstrap = Annotated[str, Field(pattern=_ADDRESSES), BeforeValidator(_check)]
"""One or more addresses host:port, separated by commas."""


Model = TypeVar("Model", bound=BaseModel)

MAX_RUN_ID = 60


@dataclass(frozen=True)
class InCluster:
    """A marker of types: their values name something in the cluster, or begin with its name."""

    max_length: int
    """Maximum number of characters of such a name."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Add the prefix that is the context of a validation, if it has one."""
        return core_schema.with_info_after_validator_function(self._with_prefix, handler(source))

    def _with_prefix(self, name: str, validation: core_schema.ValidationInfo) -> str:
        prefix: str = validation.context or ""
        if prefix and len(prefix) + len(name) > self.max_length:
            raise ScenarioError(
                f"{name!r} is too long a name on an existing cluster: with the prefix {prefix} of the run it has "
                f"{len(prefix) + len(name)} characters, and {self.max_length} are allowed; shorten the name to "
                f"{self.max_length - len(prefix)}, or the id of the run, which is in the prefix"
            )
        return prefix + name


@dataclass(frozen=True)
class Spelled:
    """A marker of types: a text that fits a pattern. words: what fits, for the message."""

    pattern: str
    words: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Check the text with a message in words, and with the nearest text that fits."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the JSON Schema, with the pattern."""
        return {**handler(core), "pattern": self.pattern}

    def _check(self, text: str) -> str:
        if re.fullmatch(self.pattern, text):
            return text
        others = (re.sub(rf"[^A-Za-z0-9_{dot}-]+", "-", text.strip()).strip("-") for dot in (".", ""))
        fitting = (one for one in others if one != text and re.fullmatch(self.pattern, one))
        hint = next((f" (did you mean {one}?)" for one in fitting), "")
        raise ValueError(f"{text[:80]!r} does not fit: {self.words}{hint}")


def new_prefix(run_id: str) -> str:
    """Return a unique prefix. No other run has a prefix that begins with it, even with the same id on another host."""
    return f"aftershock-{re.sub(r'[^A-Za-z0-9._-]', '-', run_id)[:MAX_RUN_ID]}-{secrets.token_hex(3)}-"


def is_called(name: str, own: str) -> bool:
    """Return whether a name is `own`, as the user writes it, or `own` with the prefix of a run before it."""
    return re.fullmatch(rf"(aftershock-[A-Za-z0-9._-]+-[0-9a-f]{{6}}-)?{re.escape(own)}", name) is not None


def prefixed(scenario: Model, prefix: str) -> Model:
    """Return the scenario with the prefix before every name in the cluster. Raises `ScenarioError` for long names."""
    return scenario.model_validate(scenario.model_dump(), context=prefix)


def _check_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as e:
        raise ValueError(f"{text!r} is not a regular expression: {e}") from None
    return text


_PLAIN = "letters, digits, . _ and -"
_ID = Spelled(r"^(?=.{1,200}$)[^\s](.*[^\s])?$", "1 to 200 characters in one line, without a space around them")

TopicName = Annotated[str, Spelled(r"^[A-Za-z0-9._-]{1,249}$", f"1 to 249 {_PLAIN}"), InCluster(249)]
TopicPattern = Annotated[
    str,
    Spelled(r"^[A-Za-z0-9._*+?\[\]\\-]{1,249}$", f"{_PLAIN}, and of regular expressions * + ? [ ] \\"),
    AfterValidator(_check_pattern),
    InCluster(249),
]
"""A regular expression for whole topic names, without alternatives, so that a prefix can be put before it."""
GroupId = Annotated[str, _ID, InCluster(200)]
TransactionalId = Annotated[str, _ID, InCluster(200)]

RackName = Annotated[str, Spelled(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$", f"1 to 40 {_PLAIN}, a letter or digit first")]

_MOST_OF_WRITER = PRODUCER_WIDTH - 4
WriterName = Annotated[
    str,
    Spelled(
        rf"^[A-Za-z0-9][A-Za-z0-9_-]{{0,{_MOST_OF_WRITER - 1}}}$",
        f"1 to {_MOST_OF_WRITER} letters, digits, _ and -, a letter or digit first, because each record has the name",
    ),
]
"""The name of an entry that writes. It fits into the header of every record."""

MOST_OF_ENTRY = 63
EntryName = Annotated[
    str,
    Spelled(
        rf"^[A-Za-z0-9][A-Za-z0-9_-]{{0,{MOST_OF_ENTRY - 1}}}$",
        f"1 to {MOST_OF_ENTRY} letters, digits, _ and -, a letter or digit first",
    ),
]
"""The name of a cluster, an application, or an entry that reads: no record has it. As long as a name in Kubernetes."""

PlainName = Annotated[str, Spelled(r"^[A-Za-z0-9._-]{1,249}$", f"1 to 249 {_PLAIN}")]
"""A name that no record carries: of an effect, which may have the name of its topic, or of a connector."""

PRIMARY = "primary"
"""The name of the first cluster of a run."""


def _check_error(name: str) -> str:
    if name not in ERROR_CODES.values():
        raise ValueError(f"{name!r} is no error of the protocol{nearest(name, sorted(ERROR_CODES.values()))}")
    return name


ErrorName = Annotated[str, AfterValidator(_check_error)]
"""The name of an error in the protocol, such as NOT_LEADER_OR_FOLLOWER."""
