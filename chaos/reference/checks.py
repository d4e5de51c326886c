"""The check reference: each anomaly with its rule, what prevents it, and the scenarios that must show it."""

from __future__ import annotations

from chaos.anomalies import ANOMALIES, METRICS, Path
from chaos.reference.markdown import code, sentence, table
from chaos.reference.shipped import link, shows

_CATALOGUE = "../../chaos/scenarios/CATALOGUE.md"
_HEAD = """# Checks

What the audit finds, and the words in which a scenario states its contract (`expect:`). The contract is closed: a kind
that it does not name must not appear at all. `lost_write: {min: 1}` demands one, `{max: 5}` allows some,
`duplicate_delivery: {illegal: 0}` speaks of one part of a kind.

Each kind has one rule. It stands twice, in this folder and as plain dicts and loops in `tests/audit/oracle`, with a
violating, a clean and a near-miss ledger. A check that examined nothing, though the scenario gave it something to look
at, is inconclusive. How the audit works: [`checks`](../README.md).
"""
_PATHS: dict[Path, tuple[str, str]] = {
    "write": ("The write path", "Counted per topic. A record is (producer, seq), whatever incarnation sent it."),
    "read": (
        "The read path",
        "Counted per reader: a group of subscribe consumers, or one assign-mode consumer over all its incarnations.",
    ),
    "group": ("Groups", "Counted per group."),
}
_TIMES = """
## Times

A contract bounds any of them by `p50`, `p95`, `p99` or `max`: `produce_unavailability: {max: 30s}`. A time that could
not be measured is inconclusive where it is bounded.
"""
_MORE = """
## What else a contract may say

- `groups: {billing: {members: 2, rebalances: {max: 3}}}`: what the coordinator showed of a group, sampled.
- `client_errors: {billing: {GROUP_MAX_SIZE_REACHED: 1}}`: how many clients of an entry reported such an error.

Not of the contract, and demanded of every run: each fault has its proof, each client lived unless it was killed on
purpose, the ledger is whole, the log was read back, and records moved while faults were in force.
"""


def page() -> str:
    """The page."""
    parts = [_HEAD]
    for path, (title, words) in _PATHS.items():
        kinds = [kind for kind, anomaly in ANOMALIES.items() if anomaly.path == path]
        parts += [f"\n## {title}\n", words + "\n", *(_section(kind) for kind in kinds)]
    times = ((f"`{name}`", sentence(metric.meaning)) for name, metric in METRICS.items())
    parts += [_TIMES, table(["time", "meaning"], times), _MORE]
    return "\n".join(parts)


def _section(kind: str) -> str:
    anomaly = ANOMALIES[kind]
    facts = [f"- **What prevents it**: {_prevents(anomaly.prevents)}"]
    if anomaly.splits:
        facts += [f"- **Counted apart**: {code(anomaly.splits)}"]
    shown = [link(name.partition("/")[0], _CATALOGUE).replace(_plain(name), name, 1) for name in shows(kind)]
    facts += [f"- **Must appear in**: {', '.join(shown) or 'no shipped scenario; tests plant it in ledgers'}"]
    return f"### {kind}\n\n{sentence(anomaly.meaning)}\n\n" + "\n".join(facts) + "\n"


def _plain(name: str) -> str:
    return name.partition("/")[0]


def _prevents(words: str) -> str:
    """Settings as code: what has a dot or an equals sign in it."""
    return " ".join(_setting(word) for word in words.split())


def _setting(word: str) -> str:
    core = word.strip("(),:;.")
    if "=" in core or (core.count(".") and not core.endswith(".")):
        return word.replace(core, f"`{core}`")
    return word
