"""The last run of each test against those before it: what got worse, by how much, and how sure that is.

Runs are compared that ran the same thing: one scenario (and variant) with one set-up. A set-up that was edited begins a
trend of its own; another Kafka release does not, for what that changes is what has to show.

**Times.** A run's time is *slower* if it is beyond both
- 1.25 times the largest of the last 10 runs, and
- their median plus 3 times their scaled median absolute deviation (MAD),
and a *regression* if the run before it was slower as well. Both are taken of the logarithm, for times are skewed and
scatter by a factor; a resolution is added first, below which a difference means nothing.

Why this one: a test by ranks alone (is it the largest of 11?) would be wrong once in 11 times per metric, and a page
has dozens. A mean with a standard deviation moves with the very outliers it is to find; a median with the MAD does not.
The MAD alone is blind where times have two usual levels (a retry happens or not), so the largest is asked as well.
Simulated without any change: of times that scatter by 20 % one run in 160 is called slower and one in 6,700 a
regression, by 50 % one in 55 and one in 700, by 5 % none. A single run that takes twice as long is found every time at
5 %, in 64 of 100 cases at 20 % and in 17 at 50 % (tests/chaos/history/test_trends.py holds this). Two in a row cost a
night, and make a page one can believe.

Runs that are slower are no part of what later ones are held against, until there are 10 in a row: that is then the
usual. Fewer than 7 runs before it say nothing of a time ("too few runs"). Inconclusive runs count neither way: a fault
that had no effect took no time either. A time that all runs before had and this one has not is said ("not measured").

**Verdicts.** A run that is no pass is a regression if all of the up to 10 runs before it passed, and there were 3 at
least. Beside it stands what that is worth: after n passes, fewer than 1 - 0.05^(1/n) of runs failed, at 95 %.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from pydantic import BaseModel

from chaos.history.entries import Entry
from chaos.run.trend import (
    DEVIATIONS,
    LEAST,
    LEAST_PASSES,
    MARGIN,
    WINDOW,
    Mark,
    TimeTrend,
    Trend,
    TrendRun,
    VerdictMark,
)

_MAD_TO_SIGMA = 1.4826

SHOWN: dict[str, tuple[str, ...]] = {
    "produce_unavailability": ("max",),
    "consume_unavailability": ("max",),
    "isr_recovery": ("max",),
    "election_time": ("max",),
    "rebalance_duration": ("max",),
    "ack_latency": ("p50", "p99"),
    "end_to_end_latency": ("p50", "p99"),
    "commit_latency": ("p99",),
}
"""What has a trend: of recoveries the longest, of latencies what is usual and what is bad."""
RESOLUTION_US = {"ack_latency": 2_000, "end_to_end_latency": 5_000, "commit_latency": 2_000}
SAMPLED_US = 150_000
"""Resolution of all others: how often the observer looks."""


def trends(entries: Iterable[Entry], limit: int) -> list[Trend]:
    """One for each test, that with the latest run first; of each the last `limit` runs are shown, and all are used."""
    tests: dict[tuple[str, str, str], list[Entry]] = {}
    for entry in sorted(entries, key=lambda e: (e.began_us, e.key)):
        tests.setdefault((entry.scenario, entry.variant, entry.setup), []).append(entry)
    latest = sorted(tests.values(), key=lambda runs: runs[-1].began_us, reverse=True)
    return [_trend(runs, limit) for runs in latest]


def _trend(entries: list[Entry], limit: int) -> Trend:
    last = entries[-1]
    mark, words = verdict_mark([e.verdict for e in entries])
    return Trend(
        scenario=last.scenario,
        variant=last.variant,
        setup=last.setup,
        title=last.title,
        runs=[
            TrendRun.model_validate({name: getattr(e, name) for name in TrendRun.model_fields})
            for e in entries[-limit:]
        ],
        mark=mark,
        words=words,
        times=list(_times(entries, limit)),
    )


def share_excluded(passes: int) -> float:
    """So many passes and nothing else: fewer than this share of runs fails, at 95 % (the exact binomial bound)."""
    return float(1 - 0.05 ** (1 / passes))


def verdict_mark(verdicts: Sequence[str]) -> tuple[VerdictMark, str]:
    """What the last verdict is after those before it, and the words for it."""
    last = verdicts[-1]
    since = len(verdicts)  # where the verdicts at the end begin that are (not) a pass as the last one is
    while since and (verdicts[since - 1] == "pass") == (last == "pass"):
        since -= 1
    streak = len(verdicts) - since
    if last == "pass":
        after = f", after {verdicts[since - 1]}" if since else ""
        return "pass", f"pass, {streak} in a row{after}"
    before = verdicts[max(0, since - WINDOW) : since]
    runs = f"{last}, {streak} in a row without a pass" if streak > 1 else last
    if len(before) < LEAST_PASSES:
        return "too few runs", f"{runs}; runs before it: {len(before)}, to call it new takes {LEAST_PASSES}"
    if all(verdict == "pass" for verdict in before):
        rate = share_excluded(len(before))
        return "regression", f"{runs} after {len(before)} passes, so fewer than {rate:.0%} failed before (95 % sure)"
    passes = sum(verdict == "pass" for verdict in before)
    return "unsteady", f"{runs}; {passes} of {len(before)} before it passed, so that is not new"


def _times(entries: list[Entry], limit: int) -> Iterable[TimeTrend]:
    by_run = [{(t.metric, t.scope, t.fault, t.stat): t.value_us for t in e.times} for e in entries]
    keys = {key for values in by_run for key in values if key[3] in SHOWN.get(key[0], ())}
    order = list(SHOWN)
    judged = [e.verdict != "inconclusive" for e in entries]
    for key in sorted(keys, key=lambda k: (order.index(k[0]), *k[1:])):
        values = [values.get(key) for values in by_run]
        if any(value is not None for value in values[-limit:]):
            yield _time(key, values, judged, limit)


def _time(key: tuple[str, str, str, str], values: list[int | None], judged: list[bool], limit: int) -> TimeTrend:
    seen = look(values, judged, RESOLUTION_US.get(key[0], SAMPLED_US))
    return TimeTrend(
        metric=key[0],
        scope=key[1],
        fault=key[2],
        stat=key[3],
        values_us=values[-limit:],
        slower=seen.slower[-limit:],
        mark=seen.mark,
        words=seen.words,
        median_us=seen.median_us,
        bound_us=seen.bound_us,
    )


class Look(BaseModel):
    """What one time's values say: which runs were slower, and of the last run all the rest."""

    slower: list[bool]
    mark: Mark
    words: str
    median_us: int | None = None
    bound_us: int | None = None


def look(values: Sequence[int | None], judged: Sequence[bool], resolution_us: int) -> Look:
    """Go through the runs as they came, each held against those before it."""
    usual: list[int] = []
    streak: list[int] = []  # those at the end that were slower
    slower, base, found = [], [], None
    for value, counts in zip(values, judged, strict=True):
        base = usual[-WINDOW:]
        found = _bound(base, resolution_us) if len(base) >= LEAST else None
        if value is None or not counts:
            slower.append(False)
            continue
        slower.append(found is not None and value > found[1])
        streak = [*streak, value] if slower[-1] else []
        if not slower[-1]:
            usual.append(value)
        elif len(streak) >= WINDOW:
            usual, streak = streak, []
    median_us, bound_us = found or (None, None)
    mark, words = _last(values[-1], judged[-1], slower[-1], len(streak), base, found)
    return Look(slower=slower, mark=mark, words=words, median_us=median_us, bound_us=bound_us)


def _bound(base: list[int], resolution_us: int) -> tuple[int, int]:
    """The median of what is usual, and the time beyond which a run is slower."""
    logs = [math.log(value + resolution_us) for value in base]
    median = statistics.median(logs)
    mad = statistics.median([abs(x - median) for x in logs])
    bound = max(max(logs) + math.log(MARGIN), median + DEVIATIONS * _MAD_TO_SIGMA * mad)
    return round(math.exp(median)) - resolution_us, round(math.exp(bound)) - resolution_us


def _last(
    value: int | None, judged: bool, slower: bool, streak: int, base: list[int], found: tuple[int, int] | None
) -> tuple[Mark, str]:
    """The mark of the last run, and the words for it."""
    if not judged:
        return "no judgement", "the last run is inconclusive, so its times say nothing"
    if value is None:
        if len(base) >= LEAST:
            return "not measured", f"the last run has no such time, {len(base)} before it had one: find out why"
        return "too few runs", f"not measured in the last run, and in {len(base)} before it"
    if found is None:
        return "too few runs", f"runs before it: {len(base)}, it takes {LEAST}"
    times = f"{value / found[0]:.2g} times the median of the last {len(base)}" if found[0] > 0 else "it was 0 before"
    if not slower:
        return "steady", times
    if streak == 1:
        return "slower", f"{times}; a regression if the next run is, too"
    return "regression", f"{times}, {max(streak, 2)} runs in a row"
