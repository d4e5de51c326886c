"""The registry of anomalies and times: the terms in which a scenario states its contract.

An anomaly takes two product files: here its name, meaning, prevention and phrases; in `checks.audit.rules` its rule.
A contract is closed: an anomaly that a scenario's `expect` does not name must not appear.
"""

from chaos.anomalies.groups import GROUPS
from chaos.anomalies.metrics import METRICS, STOPPED_US, UNAVAILABILITY
from chaos.anomalies.model import Anomaly, Metric, Path, Phrases
from chaos.anomalies.quorum import QUORUM
from chaos.anomalies.read_path import READ_PATH
from chaos.anomalies.shares import SHARES
from chaos.anomalies.write_path import WRITE_PATH

ANOMALIES: dict[str, Anomaly] = WRITE_PATH | READ_PATH | GROUPS | SHARES | QUORUM

PHRASES: dict[tuple[str, str], Phrases] = {
    (check, split): phrases for check, anomaly in ANOMALIES.items() for split, phrases in anomaly.phrases.items()
}
"""The phrases by (check, split); the split is empty for an anomaly that is counted as a whole."""

__all__ = ["ANOMALIES", "METRICS", "PHRASES", "STOPPED_US", "UNAVAILABILITY", "Anomaly", "Metric", "Path", "Phrases"]
