"""Comparison of the variants of an A/B scenario, and the setting that made the difference.

All variants have the same seed and timeline. Differences come from the resolved scenarios, not from the declared
changes. If exactly one value differs and the anomalies differ too, or whether a group rebalances, that value made the
difference; if several values differ, the cause is not determined.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from chaos.anomalies import PHRASES
from chaos.run.comparison import Comparison, Difference, Row, Side
from chaos.run.directory import Run, read_json
from chaos.run.result import Result, Verdict, anomaly_name, count_anomalies, merge
from chaos.scenario.resolve import Resolved
from chaos.scenario.resolve import read as resolved_of
from checks.expectations.rebalances import count_rebalances

_NOT_COMPARED = frozenset({"title", "description", "expect", "schedule", "variants"})


def compare(run: Run) -> Comparison:
    """Compare the results of the variants. Raises `RunDirError` if one has no result."""
    index = read_json(run.comparison, "index of the variants")
    runs = {name: Run(run.path / folder) for name, folder in index["variants"].items()}
    resolved = {name: resolved_of(variant) for name, variant in runs.items()}
    results = {name: Result.read(variant, f"result of variant {name}") for name, variant in runs.items()}
    differences = list(_differences({name: _flat(r) for name, r in resolved.items()}))
    anomalies = list(_anomalies(results))
    rebalances = list(_rebalances(runs, resolved, differences))
    verdict = merge([result.verdict for result in results.values()])
    return Comparison(
        run_id=run.run_id,
        run_dir=str(run.path),
        scenario=index["scenario"],
        title=index["title"],
        verdict=verdict,
        sentence=_sentence(verdict, results, differences, anomalies, rebalances),
        seed=next(iter(resolved.values())).seed,
        command=index["command"],
        sides=[
            Side(name=name, run=runs[name].run_id, verdict=result.verdict, sentence=result.sentence)
            for name, result in results.items()
        ],
        differences=differences,
        anomalies=anomalies,
        rebalances=rebalances,
        times=list(_times(results)),
    )


def _flat(resolved: Resolved) -> dict[str, str]:
    """Return every value of a scenario by its path, such as `producers.shop.config.acks`."""
    data = resolved.scenario.model_dump(mode="json")
    return dict(_leaves("", {key: value for key, value in data.items() if key not in _NOT_COMPARED}))


def _leaves(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(f"{path}.{key}" if path else key, inner)
    elif isinstance(value, list) and value:
        for i, inner in enumerate(value):
            name = inner.get("name", i) if isinstance(inner, dict) else i
            yield from _leaves(f"{path}.{name}", inner)
    else:
        yield path, "not set" if value is None else str(value)


def _differences(flats: Mapping[str, dict[str, str]]) -> Iterator[Difference]:
    for path in dict.fromkeys(path for flat in flats.values() for path in flat):
        values = {name: flat.get(path, "not set") for name, flat in flats.items()}
        if len(set(values.values())) > 1:
            yield Difference(path=path, values=values)


def _anomalies(results: Mapping[str, Result]) -> Iterator[Row]:
    """Yield the kinds of anomalies that occur in any variant."""
    counts = {name: count_anomalies(result.totals) for name, result in results.items()}
    for anomaly in (anomaly_name(*kind) for kind in PHRASES):
        by_variant = {name: sums.get(anomaly, 0) for name, sums in counts.items()}
        if any(by_variant.values()):
            yield Row(
                name=anomaly,
                values={name: f"{count:,}" for name, count in by_variant.items()},
                decides=not all(by_variant.values()),
            )


def _rebalances(
    runs: Mapping[str, Run], resolved: Mapping[str, Resolved], differences: list[Difference]
) -> Iterator[Row]:
    """Yield the number of rebalances of each group with subscribe members in every variant.

    A group may rebalance by chance, such as on a machine under load. So it decides only if some variants have no
    rebalance, and only consumers differ.
    """
    of_consumers = all(d.path.startswith("consumers.") for d in differences)
    subscribed = [{c.group for c in r.scenario.readers if c.mode == "subscribe"} for r in resolved.values()]
    for group in sorted(set.intersection(*subscribed)):
        found = {name: count_rebalances(run, resolved[name], group) for name, run in runs.items()}
        counts = {observation.value for observation in found.values()}
        yield Row(
            name=f"Rebalances of {group}",
            values={name: observation.text for name, observation in found.items()},
            decides=of_consumers and None not in counts and 0 in counts and len(counts) > 1,
        )


def _times(results: Mapping[str, Result]) -> Iterator[Row]:
    """Yield the longest value of each measured time."""
    longest = {name: _longest(result) for name, result in results.items()}
    for metric, stat in dict.fromkeys(key for times in longest.values() for key in times):
        values = {
            name: f"{times[metric, stat] / 1e6:,.3f} s" if (metric, stat) in times else "not measured"
            for name, times in longest.items()
        }
        yield Row(name=f"{metric.replace('_', ' ')} ({stat})", values=values)


def _longest(result: Result) -> dict[tuple[str, str], int]:
    longest: dict[tuple[str, str], int] = {}
    for m in result.metrics:
        if m.stat in ("p50", "p99", "max"):
            longest[m.metric, m.stat] = max(longest.get((m.metric, m.stat), 0), m.value_us)
    return longest


def _sentence(
    verdict: Verdict,
    results: Mapping[str, Result],
    differences: list[Difference],
    anomalies: list[Row],
    rebalances: list[Row],
) -> str:
    """Return the sentence of the comparison."""
    inconclusive = [name for name, result in results.items() if result.verdict == "inconclusive"]
    if inconclusive:
        reasons = " ".join(results[name].sentence for name in inconclusive)
        return f"Nothing can be compared: {' and '.join(inconclusive)} proved nothing. {reasons}"
    deciding = [row for row in anomalies if row.decides]
    rebalanced = [row for row in rebalances if row.decides]
    sentences = [_by_variant(row.name.replace("_", " ").capitalize(), row) for row in deciding]
    if not deciding:
        sentences.append(f"All of {' and '.join(results)} show the same kinds of anomalies.")
    sentences += [_by_variant(row.name, row) for row in rebalanced]
    sentences.append(_cause(differences, bool(deciding or rebalanced)))
    if verdict == "fail":
        broken = [name for name, result in results.items() if result.verdict == "fail"]
        sentences.append(f"The contract of {' and '.join(broken)} does not hold.")
    return " ".join(sentences)


def _by_variant(what: str, row: Row) -> str:
    counts = (f"{'none' if count == '0' else count} with {name}" for name, count in row.values.items())
    return f"{what}: {', '.join(counts)}."


def _cause(differences: list[Difference], decided: bool) -> str:
    if not differences:
        return "No setting differs, so any difference is due to chance."
    names = " and ".join(
        f"{d.path} ({', '.join(f'{name}: {v}' for name, v in d.values.items())})" for d in differences[:4]
    )
    if not decided:
        return f"They differ in {names}, which made no difference here."
    if len(differences) == 1:
        return f"The one setting that differs is {names}: it made the difference."
    return f"They differ in {len(differences)} settings, {names}; which of them made the difference is not determined."
