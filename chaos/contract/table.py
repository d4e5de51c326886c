"""The rules of derived contracts: their model, their loading, and their comparison with a situation.

A line has rows; conditions are as in `chaos.promise.table`. The first row that holds decides. If it depends on a fact
that is not known whether a row holds, the line is not decided, unless a later row allows it. Without a row, the line is
forbidden. `like` names rows that several lines share; `as` weakens them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field

from chaos.contract.faults import PREFIX
from chaos.promise.answers import fill
from chaos.promise.settings import Facts
from chaos.promise.table import Condition, facts_in, match
from chaos.setup.triggers import Strict

State = Literal["allowed", "not decided", "forbidden"]
RULES = Path(__file__).parent / "rules"
FAMILIES = ("write", "read", "share", "quorum")
MISSING = {"topic.evicts": "the retention of the topic on an existing cluster"}
"""Facts that are not settings, for a reason that says they are not known."""


class Row(Strict):
    """What holds for a line under some conditions, and why."""

    state: State
    when: dict[str, Condition]
    why: str


class LineRules(Strict):
    """The rows of one line. only: the situations that it is about. promised: why it is forbidden without a row.

    by: the settings that the promise rests on.
    """

    only: dict[str, Condition] = {}
    promised: str
    by: list[str] = []
    rows: list[Row] = Field([])


@dataclass(frozen=True)
class Outcome:
    """What a line is in one situation, why, and the settings and faults behind it."""

    state: State
    why: str
    settings: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


@cache
def rules(family: str) -> dict[tuple[str, str], LineRules]:
    """Return the rules of a family by (kind, split)."""
    raw = yaml.safe_load((RULES / f"{family}.yaml").read_text(encoding="utf-8"))
    shared = yaml.safe_load((RULES / "shared.yaml").read_text(encoding="utf-8"))
    found: dict[tuple[str, str], LineRules] = {}
    for name, line in raw.items():
        rows = [expanded for row in line.get("rows", []) for expanded in _expanded(row, shared)]
        kind, _, split = name.partition(".")
        found[kind, split] = LineRules.model_validate({**line, "rows": rows})
    return found


def _expanded(row: dict[str, Any], shared: dict[str, list[dict[str, Any]]]) -> Iterable[dict[str, Any]]:
    if "like" not in row:
        yield row
        return
    for other in shared[row["like"]]:
        for inner in _expanded(other, shared):
            when = {**row.get("when", {}), **inner["when"]}
            yield {"when": when, "state": row.get("as", inner["state"]), "why": row.get("why") or inner["why"]}


def judge(line: LineRules, facts: Facts) -> Outcome | None:
    """Return what a line is in a situation; None if it is not about it."""
    if match(line.only, facts).holds is False:
        return None
    open_: Outcome | None = None
    for row in line.rows:
        found = match(row.when, facts)
        if found.holds:
            if row.state == "allowed" or open_ is None:
                return _outcome(row.state, fill(row.why, facts), row.when, facts)
        elif found.holds is None and row.state != "forbidden" and open_ is None:
            missing = ", ".join(MISSING.get(name) or name.partition(".")[2] for name in found.missing)
            open_ = _outcome("not decided", f"it depends on {missing}, which is not known", row.when, facts)
    return open_ or _outcome("forbidden", fill(line.promised, facts), dict.fromkeys(line.by, True), facts)


def _outcome(state: State, why: str, conditions: dict[str, Condition], facts: Facts) -> Outcome:
    read = [name.removeprefix("given ") for name in facts_in(conditions)]
    known = {name: facts[name] for name in read if name in facts}
    settings = [
        f"{s.name}={s.shown}" + ("" if s.given else f" ({s.origin})")
        for name, s in known.items()
        if not name.startswith((PREFIX, "reads.", "writes.", "run.")) and s.name != "client"
    ]
    faults = [s.origin for name, s in known.items() if name.startswith(PREFIX) and s.given]
    return Outcome(state, why, tuple(dict.fromkeys(settings)), tuple(dict.fromkeys(faults)))
