"""Every night, and tell me what is new; and a cluster of somebody else is broken only after its owner agreed.

    leader_kill, rebalance -> what_is_new
    approve -> break_staging

Both scenarios run, whatever the other one finds. `what_is_new` fails with the verdicts that are no pass and the times
that became worse since the runs before, so that Airflow notifies. `break_staging` is green only after a yes and a pass:
a no, or no answer in time, fails it, and nothing is broken.
"""

from datetime import datetime, timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowFailException

from dags.provider.operators import AftershockRunOperator


@task
def what_is_new(found: list[dict[str, Any]]) -> None:
    """Fail with what is new."""
    news = [f"{one['sentence']} {one['link']}" for one in found if one["verdict"] != "pass"]
    news += [text for one in found for text in one["regressions"]]
    if news:
        raise AirflowFailException("; ".join(news))


with DAG(
    "every_night", schedule="30 2 * * *", start_date=datetime(2026, 1, 1), catchup=False, tags=["example"]
) as nightly:
    runs = [
        AftershockRunOperator(
            task_id=scenario.replace("-", "_"), scenario=scenario, deferrable=True, fail_unless_pass=False
        )
        for scenario in ("leader-kill", "slow-consumer")
    ]
    what_is_new([run.output for run in runs])

with DAG("break_staging", schedule=None, tags=["example"]) as asked:
    approve = ApprovalOperator(
        task_id="approve",
        subject="Kill a broker of the staging cluster now?",
        body="It is started again after the proof; clients see an election. Rejecting ends this run as failed.",
        response_timeout=timedelta(hours=8),
        fail_on_reject=True,  # else the run is green, although nothing was tested
    )
    break_staging = AftershockRunOperator(
        task_id="break_staging",
        # with `driver: attached`, `allow_faults: true`, and as `verbs` how a broker of staging is killed and started
        scenario="/srv/chaos/staging.yaml",
        kafka_conn_id="staging",
        options={"i-own-this-cluster": True},
    )
    approve >> break_staging
