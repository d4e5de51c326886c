"""The forms of settings files: properties, YAML, JSON and env files, as entries with their lines.

A form says how names and values are written, not what they mean; `dialects` does that. No message contains a value: it
may be a secret.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import javaproperties
import yaml
from dotenv.parser import parse_stream

from chaos.errors import UsageError

Form = Literal["properties", "yaml", "json", "env"]

MAX_BYTES = 1 << 20
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_LINE_END = re.compile(r"\r\n|\r|\n")
_NAME = re.compile(r"[%A-Za-z_][\w.\-%]*(?:(?:\[[^\]]*\]|\"[^\"]*\")[\w.\-]*)*")
_PLAIN_NAME = re.compile(r"\s*([^\s:=#!][^\s:=]*)")
_ENV_LINE = re.compile(r"(export\s+)?[A-Z_][A-Z0-9_]*\s*=")
_YAML_LINE = re.compile(r"^(---|[\w.\-]+:\s*$|(apiVersion|kind):\s)", re.MULTILINE)
_SECTION = re.compile(r"\s*\[+([\w.\- ]+)\]+\s*")
_JSON_NOISE = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/|\t', re.DOTALL)
_SEGMENT = re.compile(r'"([^"]*)"|\[([^\]]*)\]|([^."\[\]]+)')
_DOCUMENT = re.compile(r"[#!]---\s*")
_DEEPEST = 30
"""Levels of a YAML file; an alias may contain itself."""


@dataclass(frozen=True)
class Entry:
    """A name with its value.

    path: the parts of the name. value: as a program reads it; written: as the file has it. origin: such as `app.yml:4`.
    document: the number of the document in a file that has several.
    """

    path: tuple[str, ...]
    value: str
    written: str
    origin: str
    document: int = 0

    @property
    def name(self) -> str:
        """The name as one text."""
        return ".".join(self.path)


@dataclass(frozen=True)
class Text:
    """The text of a file. `option` names the file in errors, such as `--topic-config`."""

    option: str
    path: Path
    text: str
    form: Form

    @property
    def label(self) -> str:
        """The file in errors."""
        return f"{self.option} {self.path}".strip()

    def names(self) -> set[str]:
        """Return the names of a properties file, however its values are written."""
        if self.has_sections:
            return {name for name, *_ in self._sections()}
        return {found[1] for line in _LINE_END.split(self.text) if (found := _PLAIN_NAME.match(line))}

    def entries(self, notes: list[str], java: bool = True) -> list[Entry]:
        """Return the entries; of duplicates in properties and env files the last one counts, which is noted.

        java: read properties with Java's escapes and continuation lines, else as librdkafka's programs do. Raises
        `UsageError` for a text that has not this form.
        """
        if self.form in ("yaml", "json"):
            return list(self._nodes())
        found: dict[tuple[int, str], Entry] = {}
        for name, value, line, document in self._env() if self.form == "env" else self._properties(java):
            where = f"{self.path.name}:{line}"
            if not _NAME.fullmatch(name) or not (value or "." in name):  # perhaps the rest of a broken secret
                if self.form == "properties" or not _NAME.fullmatch(name):
                    notes.append(f"{where} is no setting, and has no effect: a name such as acks, and = are missing")
                continue
            if (earlier := found.pop((document, name), None)) is not None:
                notes.append(f"{where}: {name} is given twice; this one counts, and {earlier.origin} has no effect")
            path = (name,) if self.form == "env" else split(name)
            found[document, name] = Entry(path, value.strip(), value.strip(), where, document)
        return list(found.values())

    @property
    def has_sections(self) -> bool:
        """Whether lines such as `[producer]` begin sections, as in the configuration files of Python."""
        return any(map(_SECTION.fullmatch, _LINE_END.split(self.text)))

    def _sections(self) -> Iterator[tuple[str, str, int, int]]:
        section = ""
        for number, line in enumerate(_LINE_END.split(self.text), start=1):
            if found := _SECTION.fullmatch(line):
                section = "" if found[1].strip().lower() in ("default", "global") else f"{found[1].strip()}."
            elif line.strip() and line.strip()[0] not in "#!;":
                name, _, value = re.sub(r"\s*[:=]\s*", "\0", line, count=1).partition("\0")
                yield f"{section}{name.strip()}", value.strip().strip("'\""), number, 0

    def _properties(self, java: bool) -> Iterator[tuple[str, str, int, int]]:
        if self.has_sections:
            yield from self._sections()
            return
        if not java:
            for number, line in enumerate(_LINE_END.split(self.text), start=1):
                if line.strip() and line.strip()[0] not in "#!":
                    name, _, value = line.partition("=")
                    yield name.strip(), value.strip(), number, 0
            return
        line, document = 1, 0
        try:
            for element in javaproperties.parse(io.StringIO(self.text, newline="")):
                if isinstance(element, javaproperties.KeyValue):
                    yield element.key, element.value, line, document
                elif _DOCUMENT.fullmatch(element.source):  # a separator of Spring Boot; the documents are joined else
                    document += 1
                line += len(_LINE_END.findall(element.source))
        except javaproperties.InvalidUEscapeError:
            raise UsageError(
                f"{self.label}:{line}: \\u needs four hexadecimal digits; Java does not read this file"
            ) from None

    def _env(self) -> Iterator[tuple[str, str, int, int]]:
        for binding in parse_stream(io.StringIO(self.text)):
            lead = re.match(r"\s*", binding.original.string)
            line = binding.original.line + (lead[0].count("\n") if lead else 0)
            if binding.key is not None and not binding.error:
                yield binding.key, binding.value or "", line, 0
            elif binding.error:
                yield "", "", line, 0

    def _nodes(self) -> Iterator[Entry]:
        text = self.text
        if self.form == "json":  # YAML but for comments and tabs, which .NET's files may have
            text = _JSON_NOISE.sub(lambda found: found[1] or re.sub(r"[^\n]", " ", found[0]), text)
        try:
            for number, node in enumerate(yaml.compose_all(text, Loader=yaml.SafeLoader)):
                if node is not None and not isinstance(node, yaml.MappingNode):
                    raise UsageError(f"{self.label}:{node.start_mark.line + 1} must be a mapping of settings")
                if node is not None:
                    yield from self._flatten(node, (), number)
        except yaml.YAMLError as e:
            mark = e.problem_mark if isinstance(e, yaml.MarkedYAMLError) else None
            problem = e.problem if isinstance(e, yaml.MarkedYAMLError) else None
            line = f":{mark.line + 1}" if mark else ""
            raise UsageError(f"{self.label}{line} is not valid {self.form.upper()}: {problem or 'bad text'}") from None

    def _flatten(self, node: yaml.Node, at: tuple[str, ...], document: int) -> Iterator[Entry]:
        where = f"{self.path.name}:{node.start_mark.line + 1}"
        if len(at) > _DEEPEST:
            raise UsageError(f"{self.label}: {where} is nested too deeply, or contains itself")
        if isinstance(node, yaml.ScalarNode):
            yield Entry(at, _value(node), node.value, where, document)
        elif isinstance(node, yaml.SequenceNode):
            if all(isinstance(item, yaml.ScalarNode) for item in node.value) and at[-1:] != ("environment",):
                text = ",".join(item.value for item in node.value)
                yield Entry(at, text, text, where, document)
            else:
                for number, item in enumerate(node.value):
                    yield from self._flatten(item, (*at, str(number)), document)
        else:
            yield from self._mapping(node, at, document)

    def _mapping(self, node: yaml.Node, at: tuple[str, ...], document: int) -> Iterator[Entry]:
        own: dict[str, int] = {}
        merged: list[yaml.Node] = []
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.tag == "tag:yaml.org,2002:merge":
                merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
                continue
            name = str(key.value)
            if name in own:
                first = f"{self.path.name}:{own[name]}"
                raise UsageError(f"{self.label}:{line}: {'.'.join([*at, name])} is given twice, first in {first}")
            own[name] = line
            for entry in self._flatten(value, (*at, *(split(name) if self.form == "yaml" else [name])), document):
                here = len(entry.path) == len(at) + len(split(name)) and isinstance(value, yaml.ScalarNode)
                at_key = Entry(entry.path, entry.value, entry.written, f"{self.path.name}:{line}", document)
                yield at_key if here else entry
        for other in merged:  # an earlier one counts before a later one
            names = {entry.path[len(at)] for entry in self._flatten(other, at, document)} - own.keys()
            yield from (entry for entry in self._flatten(other, at, document) if entry.path[len(at)] in names)
            own |= dict.fromkeys(names, 0)


def split(name: str) -> tuple[str, ...]:
    """Return the parts of a name; a part in quotes or brackets may have dots."""
    return tuple(quoted or bracket or plain for quoted, bracket, plain in _SEGMENT.findall(name)) or (name,)


def _value(node: yaml.ScalarNode) -> str:
    """Return a value as the programs that read YAML 1.1 see it: `yes` is true, and 1_000 is 1000."""
    loader = yaml.SafeLoader("")
    kind = node.tag.rpartition(":")[2]
    try:
        if kind == "bool":
            return str(loader.construct_yaml_bool(node)).lower()
        if kind == "int":
            return str(loader.construct_yaml_int(node))
    except ValueError:
        return str(node.value)
    return "" if kind == "null" else str(node.value).strip()


def open_text(option: str, path: Path) -> Text:
    """Return the text of a settings file. Raises `UsageError` if it cannot be read, is empty or is not text."""
    label = f"{option} {path}".strip()
    if path.is_dir():
        raise UsageError(f"{label} is a directory; give a file with lines such as acks=all")
    try:
        data = path.read_bytes()
    except OSError as e:
        raise UsageError(f"{label} cannot be read: {e.strerror}") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"{label} has {len(data):,} bytes; a file of settings has at most {MAX_BYTES:,}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")  # the encoding of java.util.Properties
    if _CONTROL.search(text):
        raise UsageError(f"{label} is not text; give a file with lines such as acks=all")
    if not text.strip():
        raise UsageError(f"{label} is empty; write lines such as acks=all")
    return Text(option, path, text, _form(path, text))


def _form(path: Path, text: str) -> Form:
    """Return the form of a file, by its name, else by its lines."""
    name = path.name.lower()
    lines = [line for line in _LINE_END.split(text) if line.strip() and line.strip()[0] not in "#!"]
    if name.endswith((".yaml", ".yml")):
        return "yaml"
    if name.endswith(".json") or text.lstrip().startswith("{"):
        return "json"
    if name.startswith(".env") or name.endswith(".env") or (lines and all(map(_ENV_LINE.match, lines))):
        return "env"
    if not name.endswith((".properties", ".conf", ".cfg", ".ini", ".config")) and _YAML_LINE.search(text):
        return "yaml"
    return "properties"
