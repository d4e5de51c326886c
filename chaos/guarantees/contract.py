"""The derived contract of a scenario: each line with its bound and its reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from chaos.anomalies import ANOMALIES
from chaos.anomalies.model import PreventedBy
from chaos.guarantees.situations import Situation, governing, reading, sharing, writing
from chaos.guarantees.table import Anomaly, Family, Judged, State, anomalies, judge
from chaos.scenario.expect import ANY, ZERO, Bound
from chaos.scenario.model import Scenario
from chaos.setup.names import PRIMARY

SHOWN = 3
"""Maximum number of clients, settings or faults in a reason."""
LOST = ("lost_write", "")
NO_RULE = "no rule says what settings promise about it"
_ORDER: tuple[State, ...] = ("allowed", "not decided", "forbidden")


@dataclass(frozen=True)
class Line:
    """One line of a contract: an anomaly or a part of it, whether it may appear, and why.

    state: `given` if the scenario states the bound itself. settings, whys: what decides it, such as
    `acks=1`, and the reason without the clients, settings and faults behind it.
    """

    kind: str
    split: str
    state: State | str
    bound: Bound
    reason: str
    settings: tuple[str, ...] = ()
    whys: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name in `expect`, such as `duplicate_delivery.legal`."""
        return f"{self.kind}.{self.split}" if self.split else self.kind

    def describe(self) -> str:
        """Return the line as text."""
        bound = "" if self.state in ("forbidden", "not decided") else f", {self.bound.describe()}"
        return f"{self.name}: {self.state}{bound}" + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True)
class Contract:
    """The bounds of all anomalies, in the order of the registry."""

    lines: list[Line]

    def counts(self) -> dict[tuple[str, str], Bound]:
        """Return the bound of every count by (kind, split)."""
        return {(line.kind, line.split): line.bound for line in self.lines}

    def line(self, kind: str, split: str = "") -> Line:
        """Return one line."""
        return next(line for line in self.lines if (line.kind, line.split) == (kind, split))


def contract(scenario: Scenario) -> Contract:
    """Return the contract of a scenario: what `expect` states, and where it says `promised`, what is derived."""
    given = scenario.expect.counts()
    if not scenario.expect.promised:
        return Contract([Line(kind, split, "given", bound, "") for (kind, split), bound in given.items()])
    stated = scenario.expect.model_fields_set
    return Contract(
        [
            Line(line.kind, line.split, "given", given[line.kind, line.split], "`expect` states it")
            if line.kind in stated
            else line
            for line in derive(scenario)
        ]
    )


def derive(scenario: Scenario) -> list[Line]:
    """Return what the settings of a scenario promise under its faults."""
    scenario = scenario.at(PRIMARY)  # no client of the scenario writes to another cluster, or reads there
    situations: dict[Family, list[Situation]] = {
        "write": list(writing(scenario)),
        "read": list(reading(scenario)),
        "share": list(sharing(scenario)),
        "quorum": list(governing(scenario)),
    }
    found = {key: _line(key, rules, situations[rules.of]) for key, rules in anomalies().items()}
    return [
        found.get((kind, split)) or _without_rules(kind, split, anomaly.prevented_by)
        for kind, anomaly in ANOMALIES.items()
        for split in anomaly.splits or ("",)
    ]


def unpromised(scenario: Scenario) -> dict[tuple[str, str], str]:
    """Return why the settings do not promise a zero that a pass shows, by (kind, split), and what would promise it.

    The scenario demands such a zero, or it is the zero of lost records, and the settings allow the anomaly under the
    faults of the scenario. Zeros with a reason in `promised_differs` are left out.
    """
    stated = scenario.expect.counts()
    shown = {key for key, bound in stated.items() if bound.max == 0 and _states(scenario, key[0])} | {LOST}
    return {
        (line.kind, line.split): _not_promised(line)
        for line in derive(scenario)
        if line.state == "allowed"
        and (line.kind, line.split) in shown
        and not {line.kind, line.name} & scenario.promised_differs.keys()
    }


def _states(scenario: Scenario, kind: str) -> bool:
    return not scenario.expect.promised or kind in scenario.expect.model_fields_set


def _not_promised(line: Line) -> str:
    by = "the settings do" if not line.settings else f"{' with '.join(line.settings[:SHOWN])} does"
    anomaly = ANOMALIES[line.kind]
    remedy = f"; {anomaly.prevents} would promise it" if anomaly.prevented_by == "settings" else ""
    return f"held here, but {by} not promise it: {'; '.join(line.whys)}{remedy}"


def _without_rules(kind: str, split: str, prevented_by: PreventedBy) -> Line:
    """Return the line of an anomaly that the table of guarantees leaves out: forbidden if no setting can allow it."""
    if prevented_by == "nothing":
        return Line(kind, split, "forbidden", ZERO, "no setting allows it")
    return Line(kind, split, "not decided", ZERO, NO_RULE)


def _line(key: tuple[str, str], rules: Anomaly, situations: Iterable[Situation]) -> Line:
    outcomes = [(s.who, outcome) for s in situations if (outcome := judge(rules, s.facts)) is not None]
    if not outcomes:
        return Line(*key, "forbidden", ZERO, "nothing in the scenario can show it")
    state = next(state for state in _ORDER if any(o.state == state for _, o in outcomes))
    found = [p for p in outcomes if p[1].state == state]
    settings = tuple(dict.fromkeys(text.partition(" (")[0] for _, outcome in found for text in outcome.settings))
    whys = tuple(dict.fromkeys(outcome.why for _, outcome in found))
    return Line(*key, state, ANY if state == "allowed" else ZERO, _reason(found), settings, whys)


def _reason(outcomes: list[tuple[str, Judged]]) -> str:
    """Return the reasons of outcomes in one state, each once, with the clients, settings and faults behind them."""
    grouped: dict[str, list[tuple[str, Judged]]] = {}
    for who, outcome in outcomes:
        grouped.setdefault(outcome.why, []).append((who, outcome))
    texts = []
    for why, members in grouped.items():
        parts = [_listed(who for who, _ in members)]
        parts += [_listed(text for _, o in members for text in o.settings)]
        parts += [_listed(text for _, o in members for text in o.faults)]
        texts.append(f"{why} ({'; '.join(filter(None, parts))})")
    return "; ".join(texts)


def _listed(texts: Iterable[str]) -> str:
    found = list(dict.fromkeys(texts))
    more = len(found) - SHOWN
    return ", ".join(found[:SHOWN]) + (f" and {more} more" if more > 0 else "")
