"""The storage of the first voters of a dynamic quorum (KIP-853).

Their identifiers and addresses are in the first snapshot of the metadata log. So the storage of each cluster is
formatted once, when its addresses are known, and copied to all voters. The other nodes have the storage of the release.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from chaos.cluster.brokers.jvm import Release
from chaos.cluster.brokers.release import copy_storage, format_storage, new_id
from chaos.cluster.brokers.startup import home
from chaos.cluster.endpoints import ControllerEndpoints
from chaos.cluster.settings import ClusterSpec, controller_settings
from chaos.processes.process import ProcessId
from chaos.run.directory import Run


def write_storage(
    run: Run,
    spec: ClusterSpec,
    controllers: Mapping[int, ControllerEndpoints],
    release: Release,
    cluster_id: str,
    owner: ProcessId | None,
) -> None:
    """Replace the formatted storage of the first `spec.voters` controllers. Raises `ClusterError`."""
    directories = {node: new_id() for node in sorted(controllers)[: spec.voters]}
    first = next(iter(directories))
    voters = ",".join(f"{node}@{controllers[node].quorum}:{found}" for node, found in directories.items())
    formatted = run.brokers / "voters"
    formatted.mkdir()
    settings = controller_settings(spec, first, controllers)
    format_storage(
        release, settings, formatted, run, owner, spec.features, cluster_id, ("--initial-controllers", voters)
    )
    for node, directory_id in directories.items():
        data = home(run, node) / "data"
        shutil.rmtree(data)
        copy_storage(formatted, data, node, cluster_id, directory_id)
    shutil.rmtree(formatted)
