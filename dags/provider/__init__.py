"""The provider for Airflow: operators, a sensor, a connection type, links, assets and lineage."""

from __future__ import annotations

from typing import Any

_MODULES = ("operators", "sensor", "job", "slots", "hook", "webhook")


def get_provider_info() -> dict[str, Any]:
    """Return what Airflow's providers manager reads, by the entry point `apache_airflow_provider`."""
    operators, sensor, job, slots, hook, webhook = (f"{__name__}.{module}" for module in _MODULES)
    name = "Aftershock"
    return {
        "package-name": "aftershock",
        "name": name,
        "description": "Chaos tests of Apache Kafka and of applications on it, judged record by record.",
        "integrations": [
            {"integration-name": name, "external-doc-url": "https://kafka.apache.org/", "tags": ["software"]}
        ],
        "operators": [{"integration-name": name, "python-modules": [operators]}],
        "sensors": [{"integration-name": name, "python-modules": [sensor]}],
        "triggers": [{"integration-name": name, "python-modules": [job, slots]}],
        "hooks": [{"integration-name": name, "python-modules": [hook]}],
        "connection-types": [
            {"connection-type": "aftershock", "hook-class-name": f"{hook}.AftershockHook", "hook-name": name}
        ],
        "extra-links": [f"{__name__}.outcome.ReportLink"],
        "notifications": [f"{webhook}.WebhookNotifier"],
    }
