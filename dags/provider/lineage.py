"""OpenLineage of a judged run: the topics as inputs, with each expectation as an assertion, and the report as output.

Airflow's provider of OpenLineage asks an operator for it when the task ends, if that provider is installed; it is in no
requirement of this project. Datasets are named as the specification of OpenLineage names them: `kafka://host:port` with
the topic, and `file` with the path.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any


def lineage(run_dir: str | None) -> Any:
    """Return the `OperatorLineage` of a run, an A/B comparison or a campaign; an empty one without results."""
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import InputDataset, OutputDataset

    inputs, outputs = [], []
    for folder, topics, bootstrap, expectations in _judged(run_dir):
        facets = {"dataQualityAssertions": _assertions(expectations)} if expectations else {}
        inputs += [InputDataset(f"kafka://{bootstrap}", topic, inputFacets=facets) for topic in topics]
        outputs.append(OutputDataset("file", f"{folder / 'report.html'}"))
    return OperatorLineage(inputs=inputs, outputs=outputs)


def _judged(run_dir: str | None) -> list[tuple[Path, list[str], str, list[Any]]]:
    """Return folder, topics, address of the cluster and expectations of each judged run."""
    from chaos.errors import AftershockError
    from chaos.run.directory import read_json
    from chaos.run.result import Result, applicable
    from chaos.scenario.resolve import read
    from dags.provider.outcome import runs_of

    found = []
    for run in runs_of(run_dir) if run_dir else []:
        try:
            resolved, result = read(run), Result.read(run)
            cluster = read_json(run.cluster, "description of the cluster") if run.cluster.exists() else {}
        except AftershockError:
            continue
        bootstrap = str(cluster.get("bootstrap") or socket.gethostname()).split(",")[0]
        found.append(
            (run.path, [t.name for t in resolved.scenario.topics], bootstrap, applicable(result.expectations)[0])
        )
    return found


def _assertions(expectations: list[Any]) -> Any:
    from openlineage.client.facet_v2 import data_quality_assertions_dataset as facet

    return facet.DataQualityAssertionsDatasetFacet(
        assertions=[
            facet.Assertion(
                assertion=" ".join(filter(None, (e.check, e.split))),
                success=e.verdict == "pass",
                name=e.name,
                description=e.why or e.name,
                expected=e.expected,
                actual=e.seen,
            )
            for e in expectations
        ]
    )
