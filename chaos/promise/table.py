"""The table of rules: its model, its loading, and the comparison of a row with facts.

A condition is `fact: value`, `fact: [value, …]` (any of them) or `fact: "<= other"`, with an operator and a number or
another fact. All conditions of a row have to hold. `given fact` is about what the user wrote, not about a default.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field

from chaos.promise.names import Role
from chaos.promise.settings import Facts
from chaos.setup.triggers import Strict

RULES = Path(__file__).parent / "rules"
ASPECTS = ("durability", "duplication", "order", "delivery", "isolation", "availability")

_OPERATORS = {"<=": operator.le, ">=": operator.ge, "!=": operator.ne, "<": operator.lt, ">": operator.gt}
_GIVEN = "given "

Condition = bool | int | str | list[bool | int | str]
Level = Literal["full", "limited", "none"]


class Row(Strict):
    """An answer, for the settings in `when`.

    level: full, if it is promised under the faults that settings can cover; limited, if a common fault ends it; none.
    promise, until, lift: texts with facts in braces. lifts: the facts with which the limit is lifted, if they are few
    and common to all clients. by: further settings that the answer rests on. shown: scenarios, each with `/` and a
    variant if it has variants. mute: why no scenario shows it.
    """

    id: str
    when: dict[str, Condition]
    level: Level
    promise: str
    until: str
    lift: str = ""
    lifts: dict[str, bool | int | str] = {}
    by: list[str] = []
    sources: list[str] = Field(min_length=1)
    shown: list[str] = []
    mute: str = ""


class Question(Strict):
    """A question about an aspect. It is asked if the application has a client with the role `about`."""

    id: str
    title: str
    about: Role
    when: dict[str, Condition] = {}
    rows: list[Row]


class Contradiction(Strict):
    """Settings that contradict each other. refused: a client or a broker does not work with them."""

    id: str
    when: dict[str, Condition]
    refused: bool = False
    text: str
    sources: list[str] = Field(min_length=1)


class Requirement(Strict):
    """A part of the rule for an application that is reliable in every respect. only: when it is a part of it."""

    when: dict[str, Condition]
    only: dict[str, Condition] = {}
    wanted: str
    why: str
    sources: list[str] = Field(min_length=1)


@dataclass(frozen=True)
class Match:
    """Whether conditions hold; None if that depends on facts in `missing`."""

    holds: bool | None
    missing: tuple[str, ...] = ()


def match(conditions: Mapping[str, Condition], facts: Facts) -> Match:
    """Compare conditions with facts. One that does not hold decides, whatever is missing."""
    missing: list[str] = []
    for fact, wanted in conditions.items():
        holds = _holds(fact, wanted, facts, missing)
        if holds is False:
            return Match(False)
    return Match(None, tuple(missing)) if missing else Match(True)


def _holds(fact: str, wanted: Condition, facts: Facts, missing: list[str]) -> bool | None:
    if fact.startswith(_GIVEN):
        found = facts.get(fact.removeprefix(_GIVEN))
        if found is None or not found.given:
            return False
        fact = fact.removeprefix(_GIVEN)
    if fact not in facts:
        missing.append(fact)
        return None
    value = facts[fact].value
    if isinstance(wanted, str) and (sign := next((s for s in _OPERATORS if wanted.startswith(s)), "")):
        other = wanted.removeprefix(sign).strip()
        if not _is_number(other):
            if other not in facts:
                missing.append(other)
                return None
            other = facts[other].value
        return bool(_OPERATORS[sign](int(value), int(other)))
    return value in [_text(choice) for choice in (wanted if isinstance(wanted, list) else [wanted])]


def facts_in(conditions: Mapping[str, Condition]) -> list[str]:
    """Return the names of all facts that conditions read."""
    found: list[str] = []
    for fact, wanted in conditions.items():
        found.append(fact.removeprefix(_GIVEN))
        if isinstance(wanted, str) and wanted.startswith(tuple(_OPERATORS)):
            other = wanted.lstrip("<>=!").strip()
            found += [] if _is_number(other) else [other]
    return list(dict.fromkeys(found))


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdigit()


def _text(value: bool | int | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(name: str) -> Any:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load((RULES / f"{name}.yaml").read_text(encoding="utf-8"), Loader=loader)


@cache
def questions(aspect: str) -> list[Question]:
    """Return the questions of an aspect."""
    return [Question.model_validate(question) for question in _read(aspect)]


@cache
def contradictions() -> list[Contradiction]:
    """Return the settings that contradict each other."""
    return [Contradiction.model_validate(item) for item in _read("problems")]


@cache
def requirements() -> list[Requirement]:
    """Return the parts of the rule for an application that is reliable in every respect."""
    return [Requirement.model_validate(item) for item in _read("reliable")]
