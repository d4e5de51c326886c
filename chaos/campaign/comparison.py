"""Comparison of the variants of an A/B scenario, and what they show about the setting that differs.

All variants of a round have the same seed and timeline. Differences come from the resolved scenarios, not from the
declared changes. One run of each variant shows that they differ; chance may be the reason. A setting caused a
difference if it is the only one that differs and Fisher's exact test shows, at 95 % with Holm's correction over all
kinds of anomalies and groups, that an anomaly, or whether a group rebalances, occurs in another share of runs.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

from chaos.anomalies import PHRASES
from chaos.campaign.score import this_machine
from chaos.run import ranks
from chaos.run.campaign import Comparison, Row, SettingDifference, Side
from chaos.run.directory import Run
from chaos.run.events import now_us
from chaos.run.result import OF_EFFECT, Result, Verdict, anomaly_name, count_anomalies, merge
from chaos.scenario.inputs import FOLDER, outside
from chaos.scenario.resolve import Resolved
from chaos.scenario.resolve import read as resolved_of
from chaos.scenario.shipped import SHIPPED, shipped

_NOT_COMPARED = frozenset({"title", "description", "expect", "promised_differs", "schedule", "variants"})
ALPHA = 0.05
Sides = Mapping[str, list[Result]]
"""The results of each variant."""


def compare(folder: Path, runs: Mapping[str, list[str]], command: str) -> Comparison:
    """Compare the results of the variants. Raises `RunDirError` if one has no result.

    runs: the names of the run directories of each variant, the same number for each.
    """
    found = {name: [Run(folder / one) for one in names] for name, names in runs.items()}
    resolved = {name: resolved_of(some[0]) for name, some in found.items()}
    results = {name: [Result.read(one, f"result of variant {name}") for one in some] for name, some in found.items()}
    conclusive = {name: [r for r in some if r.verdict != "inconclusive"] for name, some in results.items()}
    differences = list(_differences({name: _flat(r, found[name][0].path) for name, r in resolved.items()}))
    anomalies = list(_anomalies(conclusive))
    rebalances = list(_rebalances(results, resolved, differences))
    decided = _decided([*anomalies, *rebalances])
    anomalies, rebalances = decided[: len(anomalies)], decided[len(anomalies) :]
    verdict = merge([result.verdict for some in results.values() for result in some])
    variant, first = next(iter(resolved.items()))
    return Comparison(
        scenario=first.name,
        title=first.scenario.title.removesuffix(f" ({variant})"),
        verdict=verdict,
        sentence=_sentence(verdict, results, differences, anomalies, rebalances),
        seed=first.seed,
        command=command,
        machine=this_machine(),
        made_us=now_us(),
        repeat=len(runs[variant]),
        sides=[_side(name, runs[name], some) for name, some in results.items()],
        differences=differences,
        anomalies=anomalies,
        rebalances=rebalances,
        times=list(_times(results)),
    )


def _side(name: str, folders: list[str], results: list[Result]) -> Side:
    worst = merge([result.verdict for result in results])
    sentence = next(result.sentence for result in results if result.verdict == worst)
    return Side(name=name, run=folders[0], runs=folders, verdict=worst, sentence=sentence)


def _flat(resolved: Resolved, run: Path) -> dict[str, str]:
    """Return every value of a scenario by its path, such as `producers.shop.config.acks`.

    A path of a file is written as in the scenario, and a file that the run copied as its name and a digest.
    """
    data = outside(resolved.scenario, run).model_dump(mode="json")
    for app in data["apps"]:
        app |= {key: shlex.join(app[key]) for key in ("command", "arguments") if app[key]}
    values = dict(_leaves("", {key: value for key, value in data.items() if key not in _NOT_COMPARED}))
    folder = SHIPPED if resolved.name in shipped() else Path(resolved.name).absolute().parent
    folders = [folder, *(Path(app.directory) for app in resolved.scenario.apps if app.directory)]
    bare = resolved.without_prefix
    return {bare(path): bare(_as_written(value, folders, run)) for path, value in values.items()}


def _as_written(value: str, folders: list[Path], run: Path) -> str:
    """Return a path in, or beside, one of these folders as relative; a file that the run copied as name and digest."""
    if value.startswith(f"{FOLDER}/") and (run / value).is_file():
        return f"{Path(value).name} ({hashlib.sha256((run / value).read_bytes()).hexdigest()[:8]})"
    for folder in folders if value.startswith("/") else ():
        if len(folder.parts) > 2 and Path(value).is_relative_to(folder.parent):
            return os.path.relpath(value, folder)
    return value


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


def _differences(flats: Mapping[str, dict[str, str]]) -> Iterator[SettingDifference]:
    for path in dict.fromkeys(path for flat in flats.values() for path in flat):
        values = {name: flat.get(path, "not set") for name, flat in flats.items()}
        if len(set(values.values())) > 1:
            yield SettingDifference(path=path, values=values)


def _anomalies(results: Sides) -> Iterator[Row]:
    """Yield the kinds of anomalies that occur in any run of a variant."""
    counts = {
        name: [count_anomalies(result.totals, result.effects) for result in found] for name, found in results.items()
    }
    of_effects = (
        anomaly for found in counts.values() for sums in found for anomaly in sums if anomaly.startswith(OF_EFFECT)
    )
    for anomaly in dict.fromkeys([*(anomaly_name(*kind) for kind in PHRASES), *of_effects]):
        by_variant = {name: [sums.get(anomaly, 0) for sums in found] for name, found in counts.items()}
        if any(map(any, by_variant.values())):
            yield _row(anomaly, by_variant)


def _row(name: str, numbers: Mapping[str, list[int]], values: Mapping[str, str] | None = None) -> Row:
    """Return the row of an event. numbers: how often it occurred in each run of a variant. values: their texts."""
    shows = {variant: sum(map(bool, found)) for variant, found in numbers.items()}
    shares = {shows[variant] / len(found) for variant, found in numbers.items() if found}
    pairs = list(combinations(numbers, 2))
    chances = [ranks.unequal(shows[a], len(numbers[a]), shows[b], len(numbers[b])) for a, b in pairs]
    return Row(
        name=name,
        values=values or {variant: _text(found) for variant, found in numbers.items()},
        decides=len(shares) > 1,
        chance=min(1.0, min(chances, default=1.0) * len(pairs)),
    )


def _text(counts: list[int]) -> str:
    """Return the count of one run; of several, in how many the event occurred and how often."""
    if len(counts) == 1:
        return f"{counts[0]:,}"
    found = sorted(filter(None, counts))
    often = f" ({' to '.join(dict.fromkeys(f'{n:,}' for n in (found[0], found[-1])))})" if found else ""
    return f"in {len(found)} of {len(counts)} runs{often}" if counts else "no conclusive run"


def _decided(rows: list[Row]) -> list[Row]:
    """Return the rows, with those marked that the runs show to differ: the chance of any false one is below `ALPHA`."""
    holm = ranks.holm([row.chance for row in rows], ALPHA)
    return [row.model_copy(update={"shown": row.decides and shown}) for row, shown in zip(rows, holm, strict=True)]


def _rebalances(
    results: Sides, resolved: Mapping[str, Resolved], differences: list[SettingDifference]
) -> Iterator[Row]:
    """Yield the number of rebalances of each group with subscribe members in every variant.

    A group may rebalance by chance, such as on a machine under load. So it decides only if some runs have no rebalance,
    and only consumers differ.
    """
    of_consumers = all(d.path.startswith("consumers.") for d in differences)
    groups = {
        name: {r.without_prefix(c.group): c.group for c in r.scenario.readers if c.mode == "subscribe"}
        for name, r in resolved.items()
    }
    for group in sorted(set.intersection(*map(set, groups.values()))):
        found = {
            name: [result.counts.rebalances.get(groups[name][group]) for result in some]
            for name, some in results.items()
        }
        texts = {name: ", ".join(dict.fromkeys(map(_number, some))) for name, some in found.items()}
        numbers = {name: [n for n in some if n is not None] for name, some in found.items()}
        if of_consumers and all(numbers.values()):
            yield _row(f"Rebalances of {group}", numbers, texts)
        else:
            yield Row(name=f"Rebalances of {group}", values=texts)


def _number(rebalances: int | None) -> str:
    return "not observed" if rebalances is None else f"{rebalances:,}"


def _times(results: Sides) -> Iterator[Row]:
    """Yield the longest value of each measured time."""
    longest = {name: _longest(found) for name, found in results.items()}
    for metric, stat in dict.fromkeys(key for times in longest.values() for key in times):
        values = {
            name: f"{times[metric, stat] / 1e6:,.3f} s" if (metric, stat) in times else "not measured"
            for name, times in longest.items()
        }
        yield Row(name=f"{metric.replace('_', ' ')} ({stat})", values=values)


def _longest(results: list[Result]) -> dict[tuple[str, str], int]:
    longest: dict[tuple[str, str], int] = {}
    for m in (m for result in results for m in result.metrics):
        if m.stat in ("p50", "p99", "max"):
            longest[m.metric, m.stat] = max(longest.get((m.metric, m.stat), 0), m.value_us)
    return longest


def _sentence(
    verdict: Verdict, results: Sides, differences: list[SettingDifference], anomalies: list[Row], rebalances: list[Row]
) -> str:
    """Return the sentence of the comparison."""
    unsure = {name: [r for r in found if r.verdict == "inconclusive"] for name, found in results.items()}
    if inconclusive := [name for name, found in results.items() if len(unsure[name]) == len(found)]:
        reasons = " ".join(dict.fromkeys(unsure[name][0].sentence for name in inconclusive))
        return f"Nothing can be compared: {' and '.join(inconclusive)} proved nothing. {reasons}"
    deciding = [row for row in anomalies if row.decides]
    rebalanced = [row for row in rebalances if row.decides]
    sentences = [_by_variant(row.name.replace("_", " ").capitalize(), row) for row in deciding]
    if not deciding:
        sentences.append(f"All of {' and '.join(results)} show the same kinds of anomalies.")
    sentences += [_by_variant(row.name, row) for row in rebalanced]
    fewest = min(len(found) - len(unsure[name]) for name, found in results.items())
    tests = len([*anomalies, *rebalances]) * len(list(combinations(results, 2)))
    sentences.append(_cause(differences, [*deciding, *rebalanced], fewest, tests))
    sentences += [
        f"{len(some)} of {len(results[name])} runs of {name} are inconclusive and do not count: {some[0].sentence}"
        for name, some in unsure.items()
        if some
    ]
    if verdict == "fail":
        broken = [name for name, found in results.items() if any(r.verdict == "fail" for r in found)]
        sentences.append(f"The contract of {' and '.join(broken)} does not hold.")
    return " ".join(sentences)


def _by_variant(what: str, row: Row) -> str:
    counts = (f"{'none' if count == '0' else count} with {name}" for name, count in row.values.items())
    return f"{what}: {', '.join(counts)}."


def _cause(differences: list[SettingDifference], decided: list[Row], fewest: int, tests: int) -> str:
    """Return what the runs show about the settings that differ.

    decided: the events that differ. fewest: conclusive runs of a variant. tests: how many comparisons were made.
    """
    if not differences:
        return "No setting differs, so any difference is due to chance."
    names = " and ".join(
        f"{d.path} ({', '.join(f'{name}: {v}' for name, v in d.values.items())})" for d in differences[:4]
    )
    several = f"They differ in {len(differences)} settings, {names}"
    if not decided:
        return f"They differ in {names}, which made no difference here."
    if shown := [row for row in decided if row.shown]:
        what = " and ".join(row.name for row in shown)
        test = f"(p = {max(row.chance for row in shown):.2g} by Fisher's exact test)"
        if len(differences) == 1:
            return f"The one setting that differs is {names}: it caused the difference in {what} {test}."
        return f"{several}; one of them caused the difference in {what} {test}, which one is not determined."
    runs = "one run" if fewest == 1 else f"{fewest} runs"
    need = ranks.needed(ALPHA / 2, max(tests, 1))
    enough = f"--repeat {need} is the least that can" if fewest < need else f"--repeat {2 * fewest} may"
    which = f"The one setting that differs is {names}" if len(differences) == 1 else several
    chance = min(row.chance for row in decided)
    return (
        f"{which}. The runs differed, which may be chance (p = {chance:.2g} by Fisher's exact test): {runs} of each "
        f"side cannot show that the setting is the cause; {enough}."
    )
