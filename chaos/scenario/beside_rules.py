"""Rules about clusters beside the first one: which kinds there are, and who names them."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.faults.base import FaultSpec
from chaos.scenario.effect_rules import has_ids
from chaos.setup.model import Setup, unknown
from chaos.setup.names import PRIMARY
from chaos.setup.placeholders import cluster_in, placeholders


def beside_problems(setup: Setup) -> Iterator[str]:
    """Yield every problem of the clusters beside the first one, and of applications and effects that name them."""
    if setup.clusters and setup.attached:
        yield "clusters: on an existing cluster, a run starts no brokers; give its address to the application itself"
    for name, cluster in setup.clusters.items():
        where = f"clusters.{name}"
        if cluster.driver != "process":
            yield f"{where}.driver: a cluster beside the first one is of processes, not {cluster.driver}"
        if cluster.proxy:
            yield f"{where}.proxy: the relay is before the first cluster only; leave it out"
    known = [PRIMARY, *setup.clusters]
    for i, app in enumerate(setup.apps):
        where = f"apps[{i}]"
        yield from unknown(f"{where}.cluster", app.cluster, "clusters", known)
        for key, text in app.texts():
            for name in placeholders(text):
                if named := cluster_in(name):
                    yield from unknown(f"{where}.{key}: {{{name}}}", named, "clusters", known)
        if app.cluster != PRIMARY and (app.reads or app.groups):
            yield (
                f"{where}.reads: the run looks at groups and topics of the cluster {PRIMARY} only, and {app.name} is "
                f"at {app.cluster}; leave reads and group out, the effects say when it is done"
            )
        if app.cluster != PRIMARY and app.external:
            yield f"{where}.cluster: an external application gets the address of the cluster {PRIMARY}; leave it out"
    for i, effect in enumerate(setup.effects):
        yield from unknown(f"effects[{i}].cluster", effect.cluster, "clusters", known)
    yield from _topic_problems(setup, known)


def _topic_problems(setup: Setup, known: list[str]) -> Iterator[str]:
    """Yield what is wrong with topics of other clusters, and with who writes to them and reads them."""
    others = {topic.name: topic.cluster for topic in setup.topics if topic.cluster != PRIMARY}
    for i, topic in enumerate(setup.topics):
        yield from unknown(f"topics[{i}].cluster", topic.cluster, "clusters", known)
        if topic.later and topic.name in others:
            yield f"topics[{i}].later: a topic of the cluster {topic.cluster} exists from the start; leave later out"
    for i, producer in enumerate(setup.producers):
        places = {others.get(name, PRIMARY) for name in producer.written}
        if len(places) > 1:
            yield f"producers[{i}].topics: are of several clusters ({', '.join(sorted(places))}); name those of one"
        elif places != {PRIMARY} and places and not has_ids(producer):
            yield (
                f"producers[{i}].topic: only effects judge records of the cluster {places.pop()}, and they need ids; "
                "give value.id"
            )
    for key in ("consumers", "processors", "apps"):
        for i, entry in enumerate(getattr(setup, key)):
            given = [*getattr(entry, "topics", ()), *getattr(entry, "reads", ()), getattr(entry, "to", None)]
            for name in (name for name in given if name in others):
                yield (
                    f"{key}[{i}]: {name} is of the cluster {others[name]}, and clients that read, and groups that the "
                    f"run looks at, are at the cluster {PRIMARY} only; an application with cluster: {others[name]} can "
                    "read it"
                )


def elsewhere_problems(setup: Setup, where: str, fault: FaultSpec) -> Iterator[str]:
    """Yield why a fault cannot hit the cluster that it names."""
    yield from unknown(f"{where}.cluster", fault.cluster, "clusters", [PRIMARY, *setup.clusters])
    if not fault.elsewhere:
        return
    if fault.run_only and not fault.of_each_cluster:
        yield (
            f"{where}.cluster: {fault.kind} needs {fault.run_only}, and those are at the cluster {PRIMARY} only; leave "
            f"cluster out, or choose a fault of the brokers or topics of {fault.cluster}"
        )
    for key in ("broker_of_moment", "coordinator_of_app", "transaction_coordinator_of", "share_coordinator_of"):
        if getattr(fault.target, key) is not None:
            yield f"{where}.target.{key}: means a broker of the cluster {PRIMARY}; for {fault.cluster} give another one"
