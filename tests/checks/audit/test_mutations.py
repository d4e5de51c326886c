"""Every single-row change of a few clean histories: each that means an anomaly is found, each that means none is not.

The oracle says what a change means. The table of changes by checks is printed (`pytest -s`), and written to the file
that `AUDIT_MUTATIONS` names. The standard lane changes one row of each history with each change, and a second one if
that means something else, in at most three histories in which a change means the same. The nightly lane changes each
row.
"""

from __future__ import annotations

import io
import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from chaos.anomalies import ANOMALIES
from tests.checks.audit.clean import CLEAN, history
from tests.checks.audit.histories import JUDGED, History, by_audit, by_oracle, differences, found_in, meant_by
from tests.checks.audit.mutations import CHANGES, Change, mutants
from tests.checks.audit.oracle import Judgement, Row

pytestmark = pytest.mark.slow

ALIKE = 3
"""Most mutants of a change that mean the same, in the standard lane."""
HEAD_WIDTH = 7
"""Most letters in a line of a column head."""
LEGAL = "duplicate_delivery.legal"
"""The one finding that a clean history may have."""


@dataclass(frozen=True)
class Mutant:
    """A clean history with one row changed."""

    change: Change
    name: str
    clean: History
    row: Row
    history: History

    @cached_property
    def verdict(self) -> Judgement:
        """The oracle's judgement."""
        return by_oracle(self.history)

    def __str__(self) -> str:
        return f"{self.change} in {self.name}: { ({k: v for k, v in self.row.items() if v is not None}) }"


def all_mutants() -> Iterator[Mutant]:
    for name in CLEAN:
        clean = history(name)
        for change in CHANGES:
            for row, rows in mutants(change, dict(clean.rows)):
                yield Mutant(change, name, clean, row, replace(clean, rows=rows))


@pytest.fixture(
    scope="module",
    params=[
        "some",
        pytest.param(
            "all",
            marks=pytest.mark.nightly(twin="checks/audit/test_mutations.py::test_the_audit_finds_what_is_meant[some]"),
        ),
    ],
)
def made(request: pytest.FixtureRequest) -> list[Mutant]:
    """Return the mutants; `some`: only for one or two of the rows that a change fits in each history, and `ALIKE`."""
    mutants = list(all_mutants())
    if request.param == "all":
        return mutants
    alike = groupby(mutants, key=lambda m: (m.name, str(m.change)))
    found: dict[tuple[str, frozenset[str]], list[Mutant]] = defaultdict(list)
    for mutant in (m for _, rows in alike for m in _unlike(list(rows))):
        found[str(mutant.change), frozenset(meant_by(mutant.verdict))].append(mutant)
    return [m for mutants in found.values() for m in mutants[:ALIKE]]


def _unlike(mutants: list[Mutant]) -> list[Mutant]:
    """Return the first one, and the one in the middle if it means something else."""
    first, middle = mutants[0], mutants[len(mutants) // 2]
    same = middle is first or set(meant_by(middle.verdict)) == set(meant_by(first.verdict))
    return [first] if same else [first, middle]


@pytest.fixture(scope="module")
def verdicts(made: list[Mutant]) -> list[Judgement]:
    """Return the oracle's judgement of each mutant."""
    return [m.verdict for m in made]


def anomalies(counted: Counter[str]) -> set[str]:
    return set(counted) - {LEGAL}


@pytest.mark.parametrize("name", CLEAN)
def test_the_histories_are_clean(name: str) -> None:
    assert anomalies(meant_by(by_oracle(history(name)))) == set()


def test_every_check_is_meant_by_some_change(verdicts: list[Judgement]) -> None:
    meant = {check.partition(".")[0] for verdict in verdicts for check in anomalies(meant_by(verdict))}
    assert meant == JUDGED


def test_the_audit_finds_what_is_meant(spark: Any, made: list[Mutant], verdicts: list[Judgement]) -> None:
    found = by_audit(spark, [m.history for m in made])
    text = table_of(made, [anomalies(found_in(f)) for f in found], [anomalies(meant_by(v)) for v in verdicts])
    print("\n" + text)
    if path := os.environ.get("AUDIT_MUTATIONS"):
        Path(path).write_text(text)
    wrong = [f"{m}: {why}" for n, m in enumerate(made) if (why := "; ".join(differences(found[n], verdicts[n])))]
    assert not wrong, "\n".join(wrong[:20])


def table_of(made: list[Mutant], found: list[set[str]], meant: list[set[str]]) -> str:
    """Changes by checks: of how many mutants that mean an anomaly it was found; and the false alarms."""
    table = Table(
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        title=f"{len(made)} single-row changes of {len(CLEAN)} clean histories: found/meant by check",
    )
    table.add_column("change", no_wrap=True)
    for name in ("mutants", "none meant", "false alarms"):
        table.add_column(name.replace(" ", "\n"), justify="right", no_wrap=True)
    for check in ANOMALIES:
        lines = (part if len(part) <= HEAD_WIDTH else f"{part[: HEAD_WIDTH - 1]}." for part in check.split("_"))
        table.add_column("\n".join(lines), justify="right", no_wrap=True)
    totals: Counter[str] = Counter()
    for change in CHANGES:
        mine = [n for n, m in enumerate(made) if m.change is change]
        table.add_row(str(change), *_cells([found[n] for n in mine], [meant[n] for n in mine], totals))
    table.add_section()
    last = [f"{totals['found ' + c]}/{totals['meant ' + c]}" for c in ANOMALIES]
    table.add_row("all", str(totals["mutants"]), str(totals["none"]), str(totals["false"]), *last)
    paper = io.StringIO()
    Console(width=240, file=paper).print(table)
    hit, needed = (sum(totals[f"{side} {c}"] for c in ANOMALIES) for side in ("found", "meant"))
    return paper.getvalue() + f"found {hit} of {needed} meant; {totals['false']} false alarms\n"


def _cells(found: list[set[str]], meant: list[set[str]], totals: Counter[str]) -> list[str]:
    """The row of one change. What cannot be decided (`.undecided`) counts as the check's own."""
    cells = []
    for check in ANOMALIES:
        of_check = [
            ({f for f in a if _is(f, check)}, {m for m in b if _is(m, check)})
            for a, b in zip(found, meant, strict=True)
        ]
        needed = sum(bool(b) for _, b in of_check)
        hit = sum(bool(b) and a == b for a, b in of_check)
        totals["meant " + check] += needed
        totals["found " + check] += hit
        cells.append(f"{hit}/{needed}" if needed else "")
    none, false = sum(not m for m in meant), sum(bool(a - b) for a, b in zip(found, meant, strict=True))
    totals.update({"mutants": len(meant), "none": none, "false": false})
    return [str(len(meant)), str(none or ""), str(false or ""), *cells]


def _is(counted: str, check: str) -> bool:
    return counted.partition(".")[0] == check
