"""Applications for the tests of proofs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from chaos.campaign.prove import application
from chaos.campaign.prove.application import Application
from chaos.campaign.prove.plan import FaultSet, FaultSets, plan
from chaos.guarantees.application import Options
from chaos.guarantees.supports import Outcome, fault_classes, outcomes

TOPIC: dict[str, Any] = {"replication_factor": 3, "config": {"min.insync.replicas": 2}}
STRONG: dict[str, Any] = {"config": {"acks": "all", "enable.idempotence": True}}
CAREFUL: dict[str, Any] = {
    "config": {"group.id": "billing", "enable.auto.commit": False, "auto.offset.reset": "earliest"},
    "commit": "after_processing",
}
EXACTLY_ONCE: dict[str, Any] = {
    "producer": {"client": "java", "config": {"transactional.id": "tx"}},
    "consumer": {
        "client": "java",
        "config": {"group.id": "g", "enable.auto.commit": False, "isolation.level": "read_committed"},
        "commit": "in_transaction",
    },
    "topic": TOPIC,
}
TRANSFORMING: dict[str, Any] = {
    "producer": {"client": "java", "config": {"acks": "all"}},
    "consumer": {"client": "java", **CAREFUL},
    "input": {"name": "orders", "partitions": 2, "replication_factor": 1, "config": {"retention.ms": 3_600_000}},
    "output": {"name": "bills", **TOPIC},
}
APPS: dict[str, dict[str, Any]] = {
    "reliable": {"producer": STRONG, "consumer": CAREFUL, "topic": TOPIC},
    "acks-1": {"producer": {"config": {"acks": 1}}, "topic": TOPIC},
    "automatic": {"producer": {"client": "java"}, "consumer": {"config": {"group.id": "g"}}, "topic": TOPIC},
    "exactly-once": EXACTLY_ONCE,
    "transforming": TRANSFORMING,
    "one-replica": {"producer": STRONG, "consumer": CAREFUL, "topic": {"replication_factor": 1}},
    "reader": {"consumer": {"client": "java", **CAREFUL}, "topic": TOPIC},
    "controllers": {"producer": STRONG, "consumer": CAREFUL, "topic": TOPIC, "cluster": {"controllers": 3}},
    "old": {"producer": {"client": "java:2.8.2"}, "topic": TOPIC, "cluster": {"kafka": "2.8.2"}},
}


def write(folder: Path, app: dict[str, Any], name: str = "app.yaml") -> Path:
    """Write an app.yaml and return its path."""
    path = folder / name
    path.write_text(yaml.safe_dump(app, sort_keys=False))
    return path


def read(folder: Path, app: dict[str, Any]) -> Application:
    """Return the application of an app.yaml."""
    return application.read(Options(app=write(folder, app)))


def planned(app: Application, most: int = 2) -> FaultSets:
    """Return the plan of an application."""
    return plan(outcomes(app.facts), fault_classes(app.facts, app.names), most)


def sets(app: Application) -> dict[str, FaultSet]:
    """Return the sets of faults of an application by their id."""
    return {faults.id: faults for faults in planned(app).sets}


def outcome(app: Application, name: str) -> Outcome:
    """Return a promise of an application."""
    return next(found for found in outcomes(app.facts) if found.id == name)
