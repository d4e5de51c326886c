"""Links from a task to its part of the report (see `report_url`). A task has its link when it has ended."""

from __future__ import annotations

from typing import Any

import attrs
from aftershock_outcome import handed_on, report_url
from airflow.sdk import BaseOperatorLink

SECTIONS = {
    "deploy": "settings",
    "deploy_side": "settings",
    "drive": "faults",
    "audit": "anomalies",
    "validate": "expectations",
    "report": "verdict",
    "publish": "verdict",
    "verdict": "verdict",
    "destroy": "story",
}
"""The section of the report by task; other tasks link to its top."""


@attrs.define
class ReportLink(BaseOperatorLink):  # type: ignore[misc] # Airflow is not typed for mypy here
    """The link of one task. first: the task that made the run directory. runs_dir: the folder that the pages serve."""

    first: str
    runs_dir: str
    section: str = ""

    @property
    def name(self) -> str:
        """Text of the button."""
        return "Report"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address, or an empty text. ti_key: the running task instance, on the worker, at its end."""
        return report_url(handed_on(ti_key, self.first), self.runs_dir, self.section)


def add_links(dag: Any, runs_dir: str, first: str) -> None:
    """Give each task a link to its part of the report. first: of the DAG; each group of a variant has its own."""
    for task in dag.tasks:
        group, _, name = task.task_id.rpartition(".")
        own = f"{group}.deploy_side" if group else first
        task.operator_extra_links = (ReportLink(own, runs_dir, SECTIONS.get(name, "")),)
