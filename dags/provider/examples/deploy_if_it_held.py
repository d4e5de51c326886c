"""Build, test under faults, deploy if it held: copy it into your folder of DAGs and change the three commands.

    build -> break_it -> deploy

`break_it` starts a cluster, the application and traffic like the samples, breaks both, and succeeds if each input led
to exactly one output. `deploy` does not start otherwise.
"""

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, Param

from dags.provider.operators import AftershockTestOperator

with DAG(
    "deploy_if_it_held",
    schedule=None,
    params={"revision": Param("main", type="string"), "app": Param("/srv/billing", type="string")},
    tags=["example"],
) as dag:
    build = BashOperator(task_id="build", bash_command="cd {{ params.app }} && echo building {{ params.revision }}")
    break_it = AftershockTestOperator(
        task_id="break_it",
        command="python service.py",
        application="billing",
        directory="{{ params.app }}",
        options={"samples": "orders.jsonl", "reads": "orders", "writes": "invoices"},
        deferrable=True,
    )
    deploy = BashOperator(task_id="deploy", bash_command="echo deploying {{ ti.xcom_pull('break_it')['sentence'] }}")
    build >> break_it >> deploy
