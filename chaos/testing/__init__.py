"""A run as a test case: a Python API, a pytest fixture, and a socket for tests in other languages.

    description ─► what a test says, in order: topics, traffic, applications, faults; `verdict()` runs it
    control     ─► scenarios in, results out, as JSON over a socket
    session     ─► the runs, on brokers and a judge that stay warm for all tests

`chaos.pytest_plugin` has the fixture `aftershock` of pytest.

A test describes a scenario, which runs as `run` runs it: it can be kept as a file, bundled and replayed.
"""

from __future__ import annotations

from chaos.testing.description import Application, Cluster
from chaos.testing.session import Session
from chaos.testing.verdict import Verdict

__all__ = ["Application", "Cluster", "Session", "Verdict"]
