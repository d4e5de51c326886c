"""The published bugs: the cases of the corpus, loaded once, and their page."""

from __future__ import annotations

from functools import cache

from chaos.reference.markdown import sentence, table
from chaos.reference.scenarios import contracts, must
from chaos.scenario.expect import AFFECTED, Bug
from chaos.scenario.load import load
from chaos.scenario.model import Scenario
from chaos.scenario.shipped import bugs, shipped

_HEAD = """# Published bugs

Bugs of Kafka and its client libraries that somebody has published, each as a scenario with two variants. The contract
of the variant `affected` demands what the bug does; the contract of `fixed` forbids it. They show what Aftershock sees.

```
python -m chaos corpus                          # run all, and say which ones are found
python -m chaos corpus KAFKA-17754 --repeat 10
python -m chaos run KAFKA-17754 --variant affected
python -m chaos bisect KAFKA-17754 --variant affected --client confluent
```

A rate counts conclusive runs on this project's own machines: of the affected variant the runs that show the bug, of the
fixed one the runs that break its contract. To add a bug, write a scenario with `bug:` into this folder (see
[fields](../scenario/README.md)), run it ten times with each variant, and enter the rates as `measured`.
[Findings](FINDINGS.md) has what Aftershock showed that no case of the corpus shows, and lists reports about client
libraries with what was tried.
"""


@cache
def cases() -> dict[str, Scenario]:
    """Return the scenarios that show a published bug by name, of the corpus and shipped ones."""
    every = {name: load(path) for name, path in sorted({**bugs(), **shipped()}.items())}
    return {name: scenario for name, scenario in every.items() if scenario.bug}


def page() -> str:
    """Return the page in Markdown."""
    found = cases().items()
    rows = [_row(name, scenario, scenario.bug) for name, scenario in found if scenario.bug]
    parts = [_HEAD, table(["bug", "what happens", "must show", "affected", "fixed"], rows)]
    return "\n".join([*parts, *(_section(scenario, scenario.bug) for _, scenario in found if scenario.bug)])


def _row(name: str, scenario: Scenario, bug: Bug) -> list[str]:
    affected = fixed = "not measured"
    if bug.measured:
        affected = f"{bug.measured.affected} of {bug.measured.runs}"
        fixed = f"{bug.measured.fixed} of {bug.measured.runs}" if bug.fixed else "none is known"
    folder = "" if name in bugs() else "../scenarios/"
    return [f"[{bug.id}]({folder}{name}.yaml)", scenario.title, ", ".join(shows(scenario)), affected, fixed]


def shows(scenario: Scenario) -> list[str]:
    """Return what the affected variant must show."""
    return must(contracts(scenario)[AFFECTED])


def _section(scenario: Scenario, bug: Bug) -> str:
    parts = [f"## {bug.id}\n", f"**{sentence(scenario.title)}** {sentence(scenario.description)}\n"]
    parts += [f"- Affected: {bug.affected}", f"- Fixed: {bug.fixed or 'no release is known'}"]
    parts += [f"- Source: {source}" for source in bug.sources]
    if m := bug.measured:
        fixed = f", {m.fixed} of {m.runs} with the fixed one" if m.fixed is not None else ""
        parts += [f"- Measured on {m.day}, Kafka {m.kafka}: {m.affected} of {m.runs} with the affected one{fixed}"]
    return "\n".join(parts) + "\n"
