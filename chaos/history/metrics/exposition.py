"""Families as text: OpenMetrics, or the older text format, which the textfile collector of node_exporter needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from chaos.history.metrics.families import Family


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
