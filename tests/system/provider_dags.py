"""DAGs of somebody who has only the wheel, for the Airflow of `test_installed`."""

PROGRAM = """
from airflow.sdk import DAG
from aftershock.dags.provider.operators import AftershockRunOperator
from aftershock.dags.provider.sensor import AftershockVerdictSensor

with DAG("mine", schedule=None, params={"seed": 7, "scenario": ""}) as dag:
    held = AftershockRunOperator(
        task_id="held", scenario="{{ params.scenario }}", options={"seed": "{{ params.seed }}"}, deferrable=True
    )
    lost = AftershockRunOperator(
        task_id="lost",
        scenario="{{ params.scenario }}",
        options={"set": {"expect.lost_write": {"min": 1}}},
        fail_unless_pass=False,
    )
    seen = AftershockVerdictSensor(
        task_id="seen", run_dir="{{ ti.xcom_pull('held')['run_dir'] }}", deferrable=True, poke_interval=1
    )
    [held >> seen, held >> lost]

with DAG("ended", schedule=None) as other:
    AftershockRunOperator(task_id="killed", scenario="leader-kill", deferrable=True)
    AftershockRunOperator(task_id="refused", scenario="no-such-scenario", retries=2)
"""
