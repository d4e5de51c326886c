"""Metric families of recorded runs, and their text. Times are in seconds; times of the day are Unix timestamps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from chaos.anomalies import METRICS
from chaos.history.entries import Entry
from chaos.history.trends import TREND_STATS, trends
from chaos.run.result import Verdict

Test = tuple[str, str]
"""Scenario and variant (or empty). The runs of a test have one last run, whatever its set-up."""
MAX_TESTS = 1_000
"""Bound of the number of series: of more tests, those with the latest runs are exported."""
_TEST = ("scenario", "variant")
_TIME = ("fault", "scope", "statistic")


@dataclass
class Family:
    """A gauge with its samples by label values. The name ends with the unit if there is one."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    samples: dict[tuple[str, ...], float] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """The base unit in the name, or empty."""
        return "seconds" if self.name.endswith("_seconds") else ""

    def only(self, test: Test) -> Family:
        """Return the family with the samples of one test."""
        samples = {values: value for values, value in self.samples.items() if values[:2] == test}
        return Family(self.name, self.help, self.labels, samples)


def history_families(entries: Sequence[Entry]) -> list[Family]:
    """Return the families of a whole history."""
    kept, left_out = _by_test(entries)
    recorded = Family(
        "aftershock_recorded_runs",
        "Runs in the history by verdict. A gauge, because a run that is judged again may change its verdict.",
        (*_TEST, "verdict"),
    )
    passed = Family(
        "aftershock_last_pass_end_timestamp_seconds", "Time at which the last run with the verdict pass ended.", _TEST
    )
    regression = Family(
        "aftershock_regressions",
        "What became worse in the last run: its verdict, or the number of its times. See chaos/history/trends.py.",
        (*_TEST, "kind"),
    )
    for test, runs in kept.items():
        verdicts = Counter(run.verdict for run in runs)
        recorded.samples |= {(*test, verdict): verdicts[verdict] for verdict in get_args(Verdict)}
        if ends := [run.ended_us for run in runs if run.verdict == "pass"]:
            passed.samples[test] = max(ends) / 1e6
        newest = trends(runs, limit=1)[0]  # of the set-up that ran last
        regression.samples[(*test, "verdict")] = newest.mark == "regression"
        regression.samples[(*test, "time")] = sum(time.mark == "regression" for time in newest.times)
    more = Family(
        "aftershock_tests_left_out", f"Scenarios and variants that are not exported; at most {MAX_TESTS:,} are."
    )
    more.samples[()] = left_out
    return [*_last_runs(kept), recorded, passed, regression, more]


def run_families(entries: Sequence[Entry]) -> list[Family]:
    """Return the families of single runs, without a history."""
    return _last_runs(_by_test(entries)[0])


def up_family(reachable: bool) -> Family:
    """Return the family that says whether the history could be read when the metrics were published."""
    text = "Whether the history could be read and written when these metrics were published."
    return Family("aftershock_history_up", text, samples={(): float(reachable)})


def state_family(states: Mapping[str, int]) -> Family:
    """Return the family of run directories by state."""
    family = Family("aftershock_run_directories", "Run directories by state.", ("state",))
    family.samples |= {(state,): float(count) for state, count in states.items()}
    return family


def tests_of(families: Iterable[Family]) -> list[Test]:
    """Return the tests that have samples."""
    found = {values[:2] for family in families if family.labels[:2] == _TEST for values in family.samples}
    return sorted((scenario, variant) for scenario, variant in found)


def _by_test(entries: Sequence[Entry]) -> tuple[dict[Test, list[Entry]], int]:
    """Return the runs of each test by start time, the last test first, and the number of tests that are left out."""
    tests: dict[Test, list[Entry]] = {}
    for entry in sorted(entries, key=lambda e: (e.began_us, e.key)):
        tests.setdefault((entry.scenario, entry.variant), []).append(entry)
    latest = sorted(tests.items(), key=lambda item: item[1][-1].began_us, reverse=True)
    return dict(latest[:MAX_TESTS]), len(latest[MAX_TESTS:])


def _last_runs(tests: Mapping[Test, list[Entry]]) -> list[Family]:
    """Return what is known of the last run of each test.

    Only a conclusive run has times, and zeros of anomalies: an inconclusive one proves nothing.
    """
    verdict = Family(
        "aftershock_last_run_verdict", "1 for the verdict of the last run, 0 for the others.", (*_TEST, "verdict")
    )
    ended = Family("aftershock_last_run_end_timestamp_seconds", "Time at which the last run ended.", _TEST)
    took = Family("aftershock_last_run_duration_seconds", "Duration of the last run, from start to verdict.", _TEST)
    info = Family("aftershock_last_run_info", "1, with the releases of the last run.", (*_TEST, "kafka", "client"))
    anomalies = Family(
        "aftershock_last_run_anomalies",
        "Anomalies of the last run by kind. 0 if it is conclusive and an earlier run had that kind.",
        (*_TEST, "anomaly", "split"),
    )
    times = {
        name: Family(
            f"aftershock_last_run_{name}_seconds",
            f"{metric.meaning[0].upper()}{metric.meaning[1:]}; of the last run, if it is conclusive.",
            (*_TEST, *_TIME),
        )
        for name, metric in METRICS.items()
    }
    for test, runs in tests.items():
        last = runs[-1]
        verdict.samples |= {(*test, name): float(name == last.verdict) for name in get_args(Verdict)}
        ended.samples[test] = last.ended_us / 1e6
        took.samples[test] = (last.ended_us - last.began_us) / 1e6
        info.samples[(*test, last.kafka, last.client)] = 1
        anomalies.samples |= {(*test, *_kind(name)): count for name, count in _anomalies(runs).items()}
        for time in last.times if last.verdict != "inconclusive" else ():
            if time.stat in TREND_STATS.get(time.metric, ()):
                values = (*test, time.fault, time.scope, time.stat)
                times[time.metric].samples[values] = time.value_us / 1e6
    return [verdict, ended, took, info, anomalies, *times.values()]


def _anomalies(runs: Sequence[Entry]) -> dict[str, int]:
    last = runs[-1].anomalies
    if last is None:
        return {}
    if runs[-1].verdict == "inconclusive":
        return last
    earlier = {name for run in runs for name in run.anomalies or ()}
    return {name: last.get(name, 0) for name in sorted(earlier)}


def _kind(name: str) -> tuple[str, str]:
    check, _, split = name.partition(" ")
    return check, split


class _Collector(Collector):
    def __init__(self, families: Sequence[Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        for family in self._families:
            metric = GaugeMetricFamily(family.name, family.help, labels=family.labels, unit=family.unit)
            for values, value in family.samples.items():
                metric.add_metric(values, value)
            if family.samples:
                yield metric


def registry(families: Sequence[Family]) -> CollectorRegistry:
    """Return a registry with these families, without the metrics of this process."""
    made = CollectorRegistry(auto_describe=False)
    made.register(_Collector(families))
    return made


def openmetrics_text(families: Sequence[Family]) -> str:
    """Return the families as OpenMetrics."""
    return bytes(openmetrics.generate_latest(registry(families))).decode()  # type: ignore[no-untyped-call]


def textfile_text(families: Sequence[Family]) -> str:
    """Return the families in the text format of Prometheus."""
    return generate_latest(registry(families)).decode()
