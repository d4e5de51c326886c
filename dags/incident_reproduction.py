"""The DAG `incident_reproduction`: replay, repeat, compare, shrink or bisect an incident, or draft one from logs.

Its task `reproduce` calls `chaos.incident.reproduction` in a child process. `source` is a bundle, a run directory or a
scenario; for `from-logs` a folder of broker logs. The task holds a slot of the pool for clusters. The run succeeds
if the question was answered: the replay shows the same, all runs of the repetition are conclusive, both sides of the
comparison are conclusive, the smallest scenario or the first release was found, or the draft was written. The result is
in the log of the task and below `runs_dir`; the XCom is the path of `runs_dir`. If Airflow ends the task, all its
processes end.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
# Airflow puts the DAG folder on the path, if anything: not when it only looks into a bag of DAGs
sys.path[:0] = [str(PROJECT), str(PROJECT / "dags")]

from aftershock_outcome import default_runs_dir, task_failure  # noqa: E402
from aftershock_slots import POOL  # noqa: E402
from airflow.sdk import DAG, Param, task  # noqa: E402
from airflow.sdk.exceptions import AirflowFailException  # noqa: E402

from chaos.incident.reproduction import ACTIONS, Answer, Reproduction  # noqa: E402

_RANGE = r"^\d+\.\d+\.\d+\.\.\d+\.\d+\.\d+$"
_CLIENT = r"^([a-z-]+:)?\d+\.\d+\.\d+(\.\.|,)\d+\.\d+\.\d+(,\d+\.\d+\.\d+)*$|^[a-z-]+$"
PARAMS = {
    "action": Param("replay", type="string", enum=list(ACTIONS), description="the question"),
    "source": Param("", type="string", description="a bundle, a run directory, a scenario, or a folder of logs"),
    "variant": Param("", type="string", pattern=r"^[A-Za-z0-9_-]*$", description="of a scenario with variants"),
    "runs": Param(10, type="integer", minimum=1, maximum=10_000, description="repeat: number of runs"),
    "anomaly": Param("", type="string", pattern=r"^[a-z_. ]*$", description="shrink, bisect: such as lost_write"),
    "tries": Param(1, type="integer", minimum=1, maximum=100, description="shrink, bisect: runs of each candidate"),
    "budget": Param("60,60m", type="string", description="shrink: runs, time, or both"),
    "kafka": Param(None, type=["null", "string"], pattern=_RANGE, description="bisect: among these Kafka releases"),
    "client": Param(None, type=["null", "string"], pattern=_CLIENT, description="bisect: or those of a client library"),
    "seed": Param(None, type=["null", "integer"], minimum=0, description="that of the incident when left out"),
    "overrides": Param([], type="array", items={"type": "string"}, description="path=value; ab: the changes"),
    "timezone": Param("", type="string", description="from-logs: zone of times without one; UTC when empty"),
    "clients": Param("", type="string", description="from-logs: a file with settings of producers and consumers"),
    "runs_dir": Param(default_runs_dir(PROJECT), type="string", description="folder for run directories"),
}


@task(retries=0, **POOL)
def reproduce(params: dict[str, Any]) -> str:
    """Answer the question, and return the folder with the runs."""
    from chaos.lab.child_call import call

    with task_failure():
        request = Reproduction.from_params(params)
        request.check()
        answer = call("chaos.incident.reproduction:reproduce", request, Answer)
    print(answer.detail)  # noqa: T201 - into the log of the task
    if not answer.answered:
        raise AirflowFailException(answer.sentence)
    return str(params["runs_dir"])


with DAG(
    "incident_reproduction",
    description="Replay, repeat, compare, shrink or bisect an incident, or draft one from logs",
    schedule=None,
    catchup=False,
    params=PARAMS,
    tags=["incident"],
) as dag:
    reproduce()
