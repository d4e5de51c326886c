"""Metrics for Prometheus: verdicts, anomalies and recovery times of the recorded runs, and runs by state.

    history ── families ──► Family, text ── publish ──► a textfile, a Pushgateway, a terminal

- `families` turns entries of the history into metric families. All of them are gauges, because a run that is judged
  again may change its verdict, which a counter cannot express. Labels are names of scenarios, variants, faults, topics,
  groups, anomalies and releases, so their number is bounded by the scenarios; no label has the id of a run.
  `prometheus_client` renders them, as OpenMetrics or as the text format of node_exporter.
- `publish` writes them: atomically to a file, or to a Pushgateway, in one group for each scenario and variant. It
  writes what the history contains, with the number of run directories in each state (in progress, judged, broken off),
  and again if the history changed meanwhile. So of several runs that end together, the last one to write has seen all.

`alerts.yaml` has rules for Prometheus, `dashboard.json` a dashboard for Grafana. Tests run both on a real Prometheus.
"""
