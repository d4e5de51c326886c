"""Rules about clusters beside the first one: which kinds there are, and who names them."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.kafka.security import ClusterSecurity
from chaos.setup.model import Setup, unknown
from chaos.setup.names import PRIMARY
from chaos.setup.placeholders import BOOTSTRAP, placeholders


def beside_problems(setup: Setup) -> Iterator[str]:
    """Yield every problem of the clusters beside the first one, and of applications and effects that name them."""
    if setup.clusters and setup.attached:
        yield "clusters: on an existing cluster, a run starts no brokers; give its address to the application itself"
    for name, cluster in setup.clusters.items():
        where = f"clusters.{name}"
        if cluster.driver != "process":
            yield f"{where}.driver: a cluster beside the first one is of processes, not {cluster.driver}"
        if cluster.security != ClusterSecurity():
            yield f"{where}.security: clients of a cluster beside the first one have no login; leave it out"
        if cluster.proxy:
            yield f"{where}.proxy: the relay is before the first cluster only; leave it out"
    known = [PRIMARY, *setup.clusters]
    for i, app in enumerate(setup.apps):
        where = f"apps[{i}]"
        yield from unknown(f"{where}.cluster", app.cluster, "clusters", known)
        for key, text in app.texts():
            for name in placeholders(text):
                if name.startswith(BOOTSTRAP):
                    yield from unknown(f"{where}.{key}: {{{name}}}", name.removeprefix(BOOTSTRAP), "clusters", known)
        if app.cluster != PRIMARY and (app.reads or app.groups):
            yield (
                f"{where}.reads: the run looks at groups and topics of the cluster {PRIMARY} only, and {app.name} is "
                f"at {app.cluster}; leave reads and group out, the effects say when it is done"
            )
        if app.cluster != PRIMARY and app.external:
            yield f"{where}.cluster: an external application gets the address of the cluster {PRIMARY}; leave it out"
    for i, effect in enumerate(setup.effects):
        yield from unknown(f"effects[{i}].cluster", effect.cluster, "clusters", known)
