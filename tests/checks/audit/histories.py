"""Histories by the hundred in one run: each with separate topic, group and clients, judged by one audit.

In a history names bear no number (`t`, `p/1`, `g`, `c/2`); in the run the n-th history's do (`t7`, `p7/1`, `g7`).
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.run.directory import Run
from chaos.scenario.model import Scenario
from chaos.scenario.resolve import Resolved
from checks.audit import audit
from checks.audit.rules.registry import RULES
from tests.checks.audit.oracle import JUDGED_TWICE, Finding, Judgement, Row, judge
from tests.checks.audit.story import RUN_ID, TOKEN, read_audit, with_assignors, write_ledger

NAMES = ("topic", "input_topic", "producer", "client", "consumer", "group")
TOPIC, OUT = "t", "o"
"""The topic of a history, and the one that its processors write to."""
PART = "part"
"""Beside the columns of a row: in which file of its table it lies, if not in the first."""


END_US = 10**12
WHOLE_RUN: list[Row] = [
    {"at_us": 0, "entity": "__consumer_offsets", "key": "partitions", "value": "1"},
    {"at_us": 0, "entity": "__consumer_offsets/0", "key": "leader", "value": "1"},
    {"at_us": 0, "entity": "cluster", "key": "answers", "value": "true"},
    {"at_us": END_US, "entity": "cluster", "key": "answers", "value": "true"},
]
"""What the observer saw of the cluster as a whole, in all histories: they have one coordinator and one end."""
LEVELS = ("rows", "writes", "reader", "reads", "shares", "commits", "keys", "counts")
"""The fields of a rule that judges rows of the tables that are as large as the load."""
JUDGED = JUDGED_TWICE | {check for check, rule in RULES.items() if any(getattr(rule, level) for level in LEVELS)}
"""The checks that the oracle judges, so by which a history is compared."""


@dataclass(frozen=True)
class History:
    """The rows of one run on one topic, and the scenario's entries about it."""

    rows: Mapping[str, list[Row]]
    partitions: int = 1
    producers: int = 1
    topic_config: dict[str, Any] = field(default_factory=dict)
    producer_config: dict[str, Any] = field(default_factory=dict)
    consumers: tuple[dict[str, Any], ...] = ()
    sending: dict[str, Any] = field(default_factory=dict)
    processes: bool = False
    """Whether the members of the subscribe group write an output for each record."""
    counts: bool = False
    """Whether each output carries the count of its key."""

    def size(self) -> int:
        return sum(map(len, self.rows.values()))


def labelled(name: str | None, number: int | str) -> str | None:
    """`p/1` becomes `p7/1`."""
    if name is None:
        return None
    head, slash, rest = name.partition("/")
    return f"{head}{number}{slash}{rest}"


def unlabelled(name: str) -> tuple[str, int] | None:
    """`p7/1` becomes `p/1` of number 7; None for a name without number."""
    found = re.fullmatch(r"([a-z]+)(\d+)(/.*| \(.*)?", name)
    return (found[1] + (found[3] or ""), int(found[2])) if found else None


def _entity(entity: str, number: int | str) -> str:
    """Of the observer: `t/0` is a partition, `group:g/t/0` what a group has committed there."""
    if entity.startswith("__"):
        return entity
    if not entity.startswith("group:"):
        return str(labelled(entity, number))
    group, slash, place = entity.removeprefix("group:").partition("/")
    return f"group:{labelled(group, number)}{slash}{labelled(place, number) if place else ''}"


def _fault(row: Row, number: int | str) -> dict[str, str]:
    """Of a group: the group and partitions that it is about."""
    evidence = json.loads(row["evidence"])
    if "offsets" in evidence:
        evidence["offsets"] = {labelled(place, number): offset for place, offset in evidence["offsets"].items()}
    group = labelled(row["target"].removeprefix("group "), number)
    return {"target": f"group {group}", "evidence": json.dumps(evidence)}


def _deletion(row: Row, number: int | str) -> str:
    """Of records: the partitions that they were deleted from."""
    starts = json.loads(row["evidence"]).get("log_starts", {})
    return json.dumps({"log_starts": {labelled(place, number): offset for place, offset in starts.items()}})


def _members(value: str, number: int | str) -> str:
    """Of the observer: a list of members; each may name its client."""
    members = json.loads(value)
    return json.dumps(
        [m | {"client_id": labelled(m["client_id"], number)} if "client_id" in m else m for m in members]
        if isinstance(members, list)
        else members
    )


def scenario_of(histories: Mapping[int | str, History]) -> Scenario:
    topics: list[Any] = []
    producers: list[Any] = []
    consumers: list[Any] = []
    processors: list[Any] = []
    for n, h in histories.items():
        topic = labelled(TOPIC, n)
        topics.append({"name": topic, "partitions": h.partitions, "replication_factor": 1, "config": h.topic_config})
        producer = {"name": f"p{n}", "topic": topic, "count": h.producers, "config": h.producer_config}
        producers.append(producer | h.sending)
        for entry in h.consumers:
            names = {key: labelled(entry[key], n) for key in ("name", "group") if key in entry}
            if h.processes and entry["mode"] == "subscribe":
                out = labelled(OUT, n)
                made = {"name": out, "replication_factor": 1, "config": {"retention.ms": -1}}
                topics += [made] if topics[-1]["name"] == topic else []
                processor = {"members": entry["members"], "consumer_config": entry["config"], "to": out}
                processor |= {"state": "count", "client": "streams"} if h.counts else {}
                processors.append(names | processor | {"topics": [topic]})
            else:
                consumers.append(with_assignors(entry | names | {"topics": [topic]}))
    return Scenario.model_validate(
        {"title": "histories", "topics": topics, "producers": producers, "consumers": consumers}
        | {"processors": processors}
    )


def rows_of(histories: Mapping[int | str, History]) -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = defaultdict(list)
    for n, h in histories.items():
        for table, table_rows in h.rows.items():
            for row in table_rows:
                names = {name: labelled(row[name], n) for name in NAMES if row.get(name) is not None}
                if "entity" in row:
                    names["entity"] = _entity(row["entity"], n)
                if row.get("key") == "members":
                    names["value"] = _members(row["value"], n)
                if row.get("target", "").startswith("group "):
                    names |= _fault(row, n)
                if row.get("kind") == "topic.delete_records":
                    names["evidence"] = _deletion(row, n)
                if row.get("target", "").startswith("topic "):
                    names["target"] = f"topic {labelled(row['target'].removeprefix('topic '), n)}"
                    names["fault"] = f"{row['fault']}-{n}"
                rows[table].append(row | names)
    rows["cluster"] += WHOLE_RUN
    return rows


def _files(rows: Mapping[str, list[Row]]) -> list[dict[str, list[Row]]]:
    """The rows of each part; see `PART`."""
    parts = 1 + max((row.get(PART, 0) for table_rows in rows.values() for row in table_rows), default=0)
    return [
        {t: [row for row in table_rows if row.get(PART, 0) == k] for t, table_rows in rows.items()}
        for k in range(parts)
    ]


def by_oracle(history: History) -> Judgement:
    rows = {**history.rows, "cluster": [*history.rows.get("cluster", []), *WHOLE_RUN]}
    return judge(rows, scenario_of({"": history}), TOKEN)


def by_audit(spark: Any, histories: Sequence[History]) -> list[dict[str, list[Row]]]:
    """The tables `summary` and `anomalies` of one audit, separated by history, with names as they were; of `JUDGED`."""
    numbered: dict[int | str, History] = dict(enumerate(histories))
    # constructed, because `Resolved` would validate the large scenario once more
    resolved = Resolved.model_construct(
        run_id=RUN_ID, name="histories", seed=1, scenario=scenario_of(numbered), versions={}, created_us=1
    )
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder) / "run")
        write_ledger(run, *_files(rows_of(numbered)))
        audit(spark, run, resolved)
        tables = {table: read_audit(run, table) for table in ("summary", "anomalies")}
    apart: list[dict[str, list[Row]]] = [{"summary": [], "anomalies": []} for _ in histories]
    for table, rows in tables.items():
        for row in rows:
            if row["check"] in JUDGED and (known := unlabelled(row["scope"])):
                scope, number = known
                apart[number][table].append(row | {"scope": scope} | _plain(row))
    return apart


def _plain(row: Row) -> Row:
    names = {name: unlabelled(row[name]) for name in NAMES if row.get(name) is not None}
    return {name: known[0] if known else row[name] for name, known in names.items()}


def found_in(audited: Mapping[str, list[Row]]) -> Counter[str]:
    """What the audit counted, by check, `check.split` or `check.undecided`."""
    counted: Counter[str] = Counter()
    undecided: dict[tuple[str, str], int] = {}
    for row in audited["summary"]:
        counted[f"{row['check']}.{row['split']}" if row["split"] else row["check"]] += row["count"]
        undecided[row["check"], row["scope"]] = row["undecided"]
    for (check, _), number in undecided.items():
        counted[f"{check}.undecided"] += number
    return +counted


def meant_by(verdict: Judgement) -> Counter[str]:
    """The same of the oracle."""
    counted: Counter[str] = Counter()
    for (check, split, _), number in verdict.counts().items():
        counted[f"{check}.{split}" if split else check] += number
    for (check, _), number in verdict.undecided.items():
        counted[f"{check}.undecided"] += number
    return +counted


def differences(audited: Mapping[str, list[Row]], verdict: Judgement) -> list[str]:
    """In what the audit of a history differs from its oracle: counts, what is undecided or examined, findings."""
    counts, messages = verdict.counts(), []
    missing = set(counts)
    for row in (row for row in audited["summary"] if row["check"] in JUDGED):
        check, split, scope = row["check"], row["split"], row["scope"]
        count = counts[check, split, scope]
        missing.discard((check, split, scope))
        pairs = {
            "count": (row["count"], count),
            "undecided": (row["undecided"], verdict.undecided[check, scope]),
            "examined": (row["examined"], max(verdict.examined[check, scope], count)),
        }
        name = f"{check}.{split}" if split else check
        messages += [f"{name} of {scope}: {what} is {a}, oracle {b}" for what, (a, b) in pairs.items() if a != b]
    messages += [f"{key} is not in the summary, oracle {counts[key]}" for key in sorted(missing) if counts[key]]
    shown = [row for row in audited["anomalies"] if row["check"] in JUDGED]
    found = Counter(Finding(*(row[name] for name in Finding._fields)) for row in shown)
    messages += [f"only the audit finds {finding} ({n})" for finding, n in (found - verdict.findings).items()]
    messages += [f"only the oracle finds {finding} ({n})" for finding, n in (verdict.findings - found).items()]
    return messages
