"""Trends: the last run of each test compared with the runs before it.

Runs are compared if they ran the same test: one scenario and variant with one set-up. A changed set-up begins another
trend. Another Kafka release does not, because a trend has to show its effect.

**Times.** A time is *slower* if it exceeds both
- 1.25 times the largest of the last 10 runs, and
- their median plus 3 times their scaled median absolute deviation (MAD),
and a *regression* if the previous run was slower, too. Both limits are computed on logarithms, because times are skewed
and vary by a factor. A resolution is added first; a difference below it is ignored.

Reasons for this statistic: a rank test (is it the largest of 11?) has one false alarm in 11 runs per metric, and a page
has dozens of metrics. Outliers move a mean and a standard deviation, but not a median and a MAD. The MAD alone fails
for times with two usual levels (with or without a retry), hence the comparison with the largest.
Simulated without a change: of times that vary by 20 %, one run in 160 is slower and one in 6,700 is a regression; at
50 %, one in 55 and one in 700; at 5 %, none. A single run that takes twice as long is detected always at 5 %, in 64 of
100 cases at 20 % and in 17 at 50 % (tests/chaos/history/test_trends.py checks these rates). The second run in a row
costs one night, and makes regressions credible. Times of the runs that are shown and of `BEFORE` runs before them are
read, verdicts of all.

Slower runs are not part of the comparison for later ones, until 10 in a row are slower: then they are the usual level.
With fewer than 7 earlier runs a time is not judged ("too few runs"). Inconclusive runs do not count: a fault without an
effect takes no time. A time that earlier runs have and the last one does not is reported ("not measured").

**Verdicts.** A run that does not pass is a regression if all of the up to 10 runs before it passed, and at least 3 did.
The text adds the significance: after n passes, fewer than 1 - 0.05^(1/n) of all runs fail, at 95 % confidence.
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

TREND_STATS: dict[str, tuple[str, ...]] = {
    "produce_unavailability": ("max",),
    "consume_unavailability": ("max",),
    "isr_recovery": ("max",),
    "election_time": ("max",),
    "rebalance_duration": ("max",),
    "ack_latency": ("p50", "p99"),
    "end_to_end_latency": ("p50", "p99"),
    "commit_latency": ("p99",),
}
"""Statistics with a trend, by metric: the longest recovery, the usual and the high latencies."""
BEFORE = 40
"""The comparison of the first run that is shown needs 10 usual ones before it, with few slower ones between them."""
RESOLUTION_US = {"ack_latency": 2_000, "end_to_end_latency": 5_000, "commit_latency": 2_000}
SAMPLED_US = 150_000
"""Resolution of all other metrics: the interval of the observer."""


def trends(entries: Iterable[Entry], limit: int) -> list[Trend]:
    """Return a trend for each test, by latest run. All runs are used; the last `limit` are in the result."""
    tests: dict[tuple[str, str, str], list[Entry]] = {}
    for entry in sorted(entries, key=lambda e: (e.began_us, e.key)):
        tests.setdefault((entry.scenario, entry.variant, entry.setup), []).append(entry)
    latest = sorted(tests.values(), key=lambda runs: runs[-1].began_us, reverse=True)
    return [_trend(runs, limit) for runs in latest]


def _trend(entries: list[Entry], limit: int) -> Trend:
    last = entries[-1]
    mark, reason = verdict_mark([e.verdict for e in entries])
    return Trend(
        scenario=last.scenario,
        variant=last.variant,
        setup=last.setup,
        title=last.title,
        runs=[TrendRun.model_validate(e, from_attributes=True) for e in entries[-limit:]],
        mark=mark,
        words=reason,
        times=list(_times(entries, limit)),
    )


def failure_rate_bound(passes: int) -> float:
    """Return the upper bound of the failure rate after passes only, at 95 % (exact binomial bound)."""
    return float(1 - 0.05 ** (1 / passes))


def verdict_mark(verdicts: Sequence[str]) -> tuple[VerdictMark, str]:
    """Return the mark of the last verdict, compared with the earlier ones, and the reason as text."""
    last = verdicts[-1]
    since = len(verdicts)  # index of the first verdict in the last sequence of passes, or of other verdicts
    while since and (verdicts[since - 1] == "pass") == (last == "pass"):
        since -= 1
    streak = len(verdicts) - since
    if last == "pass":
        after = f", after {verdicts[since - 1]}" if since else ""
        return "pass", f"pass, {streak} in a row{after}"
    before = verdicts[max(0, since - WINDOW) : since]
    runs = f"{last}, {streak} in a row without a pass" if streak > 1 else last
    if len(before) < LEAST_PASSES:
        return "too few runs", f"{runs}; runs before it: {len(before)}, {LEAST_PASSES} are needed"
    if all(verdict == "pass" for verdict in before):
        rate = failure_rate_bound(len(before))
        return "regression", f"{runs} after {len(before)} passes, so fewer than {rate:.0%} failed before (95 % sure)"
    passes = sum(verdict == "pass" for verdict in before)
    return "unsteady", f"{runs}; {passes} of {len(before)} before it passed, so it is not new"


def _times(entries: list[Entry], limit: int) -> Iterable[TimeTrend]:
    by_run = [{t.key: t.value_us for t in e.times} for e in entries]
    keys = {key for values in by_run for key in values if key[3] in TREND_STATS.get(key[0], ())}
    order = list(TREND_STATS)
    judged = [e.verdict != "inconclusive" for e in entries]
    for key in sorted(keys, key=lambda k: (order.index(k[0]), *k[1:])):
        values = [values.get(key) for values in by_run]
        if any(value is not None for value in values[-limit:]):
            yield _time(key, values, judged, limit)


def _time(key: tuple[str, str, str, str], values: list[int | None], judged: list[bool], limit: int) -> TimeTrend:
    judgement = judge_times(values, judged, RESOLUTION_US.get(key[0], SAMPLED_US))
    shown = judgement.model_dump() | {"slower": judgement.slower[-limit:]}
    metric, scope, fault, stat = key
    return TimeTrend(metric=metric, scope=scope, fault=fault, stat=stat, values_us=values[-limit:], **shown)


class Judgement(BaseModel):
    """Judgement of one time: whether each run is slower; all other fields are about the last run."""

    slower: list[bool]
    mark: Mark
    words: str
    median_us: int | None = None
    bound_us: int | None = None


def judge_times(values: Sequence[int | None], judged: Sequence[bool], resolution_us: int) -> Judgement:
    """Compare each run with those before it; `values` and `judged` are by time. None: not measured."""
    usual: list[float] = []  # logarithms
    streak: list[float] = []  # logarithms of the last runs, if they are slower
    slower, base, limits = [], [], None
    for value, counts in zip(values, judged, strict=True):
        base = usual[-WINDOW:]
        limits = _limits(base, resolution_us) if len(base) >= LEAST else None
        if value is None or not counts:
            slower.append(False)
            continue
        slower.append(limits is not None and value > limits[1])
        log = math.log(value + resolution_us)
        streak = [*streak, log] if slower[-1] else []
        if not slower[-1]:
            usual.append(log)
        elif len(streak) >= WINDOW:
            usual, streak = streak, []
    median_us, bound_us = limits or (None, None)
    mark, reason = _mark_last(values[-1], judged[-1], slower[-1], len(streak), base, limits)
    return Judgement(slower=slower, mark=mark, words=reason, median_us=median_us, bound_us=bound_us)


def _limits(logs: list[float], resolution_us: int) -> tuple[int, int]:
    """Return the median of the usual times, and the largest time that is not slower, from their logarithms."""
    median = statistics.median(logs)
    mad = statistics.median([abs(x - median) for x in logs])
    bound = max(max(logs) + math.log(MARGIN), median + DEVIATIONS * _MAD_TO_SIGMA * mad)
    return round(math.exp(median)) - resolution_us, round(math.exp(bound)) - resolution_us


def _mark_last(
    value: int | None, judged: bool, slower: bool, streak: int, base: list[float], limits: tuple[int, int] | None
) -> tuple[Mark, str]:
    """Return the mark of the last run, and the reason as text."""
    if not judged:
        return "no judgement", "the last run is inconclusive, so its times are not judged"
    if value is None:
        if len(base) >= LEAST:
            return "not measured", f"the last run has no such time, {len(base)} before it had one: find out why"
        return "too few runs", f"not measured in the last run, and in {len(base)} before it"
    if limits is None:
        return "too few runs", f"runs before it: {len(base)}, {LEAST} are needed"
    times = f"{value / limits[0]:.2g} times the median of the last {len(base)}" if limits[0] > 0 else "it was 0 before"
    if not slower:
        return "steady", times
    if streak == 1:
        return "slower", f"{times}; a regression if the next run is, too"
    return "regression", f"{times}, {max(streak, 2)} runs in a row"
