"""What the job manager of a Flink session cluster says over REST: its task managers, and the subtasks of its jobs."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

ANSWER_S = 5.0
ENDED = ("FAILED", "CANCELED", "FINISHED")
"""States of a job that no longer runs."""
NO_ANSWER = (OSError, ValueError, HTTPException)
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Opens addresses without the proxy of the environment: the job manager is on this machine."""


@dataclass(frozen=True)
class Subtask:
    """A subtask of a job: the current attempt, its status such as RUNNING, and the task manager that runs it."""

    job: str
    vertex: str
    index: int
    attempt: int
    status: str
    task_manager: str

    @property
    def key(self) -> tuple[str, str, int]:
        """What all attempts of the subtask share."""
        return self.job, self.vertex, self.index

    def describe(self) -> str:
        """Return the subtask as text, such as `subtask 0 of replay/1`."""
        return f"subtask {self.index} of {self.job}"


class JobManager:
    """A job manager at a REST address, host:port."""

    def __init__(self, address: str) -> None:
        self.address = address

    def task_managers(self) -> list[str] | None:
        """Return the names of the task managers that the job manager lists; None if it does not answer."""
        try:
            return [found["id"] for found in self._get("/taskmanagers")["taskmanagers"]]
        except NO_ANSWER:
            return None

    def subtasks(self) -> list[Subtask] | None:
        """Return the subtasks of all jobs that have not ended; None if the job manager does not answer."""
        found: list[Subtask] = []
        try:
            for job in self._get("/jobs/overview")["jobs"]:
                graph = self._get(f"/jobs/{job['jid']}") if job["state"] not in ENDED else {"vertices": []}
                for vertex in [v["id"] for v in graph["vertices"]]:
                    subtasks = self._get(f"/jobs/{job['jid']}/vertices/{vertex}")["subtasks"]
                    found += [_subtask(job["name"], vertex, s) for s in subtasks]
        except NO_ANSWER:
            return None
        return found

    def _get(self, path: str) -> dict[str, Any]:
        with _DIRECT.open(f"http://{self.address}{path}", timeout=ANSWER_S) as answer:
            found: dict[str, Any] = json.load(answer)
            return found


def _subtask(job: str, vertex: str, answer: Mapping[str, Any]) -> Subtask:
    host = answer.get("taskmanager-id") or "(unassigned)"
    return Subtask(job, vertex, answer["subtask"], answer["attempt"], answer["status"], host)
