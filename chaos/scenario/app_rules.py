"""Rules of applications: what does not fit between them and the rest of a scenario."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from chaos.faults.apps import AppScaleSpec
from chaos.faults.base import FaultSpec
from chaos.kafka.security import ClusterSecurity
from chaos.setup.apps import App
from chaos.setup.model import Setup, unknown
from chaos.setup.names import PRIMARY, is_called
from chaos.setup.placeholders import (
    HTTP,
    LOGIN,
    OF_MACHINE,
    PORT,
    ROWS,
    TOPIC,
    base_of,
    cluster_in,
    names_brokers,
    placeholders,
)


def application_problems(setup: Setup, faults: Iterable[FaultSpec]) -> Iterator[str]:
    """Yield what does not fit between applications and the rest of a scenario."""
    if setup.apps and not setup.effects and not setup.tapped:
        yield "apps: nothing says what they have to do, so a run would prove nothing about them; give effects"
    for key, entry in setup.placed_entries:
        if read := [topic for topic in getattr(entry, "topics", ()) if topic in setup.app_topics]:
            yield f"{key}.topics: only applications write to {read[0]}, so no record there has an identity to audit"
    yield from _receiver_problems(setup)
    for i, app in enumerate(setup.apps):
        where = f"apps[{i}]"
        yield from setup.topic_problems(f"{where}.reads", app.reads)
        awaited = app.ready.topic if app.ready else None
        yield from setup.topic_problems(f"{where}.ready.topic", [awaited] if awaited else [])
        if not app.instances and app.name not in {f.app_name for f in faults if isinstance(f, AppScaleSpec)}:
            yield f"{where}.instances: none, and no fault app.scale starts one, so {app.name} never runs"
        if app.ready and isinstance(app.ready.port, int) and app.instances > 1:
            yield f"{where}.ready.port: {app.instances} instances cannot have one port; write '{{port}}'"
        if app.group is not None and not app.reads:
            yield f"{where}.reads: which topics does the group {app.group} read? Without them, no drain can wait for it"
        yield from _placeholder_problems(setup, where, app)
        if app.postgres is not None:
            servers = {one.name: one.postgres for one in setup.apps if one.postgres}
            yield from (f"{where}.postgres.standby_of: {text}" for text in app.postgres.problems(app.name, servers))
        if app.superuser:
            yield from (f"{where}.superuser: {problem}; leave it out" for problem in _superuser_problems(setup, app))
        if setup.attached and not app.external:
            yield from _names_of_others(app, where)
        if not any(names_brokers(name) for _, text in app.texts() for name in placeholders(text)) and not (
            app.external or app.files or app.connect or app.postgres
        ):
            yield (
                f"{where}: nothing gives {app.name} the address of the brokers; write {{bootstrap}} in its env, its "
                "command or a template of files"
            )


def _receiver_problems(setup: Setup) -> Iterator[str]:
    """Yield each receiver that no application can call: its port is drawn for the run, and no text has its address."""
    if not setup.apps or any(app.external for app in setup.apps):
        return
    given = {name for app in setup.apps for name in app.names()}
    for i, effect in enumerate(setup.effects):
        if effect.http is not None and effect.http.port is None and HTTP + effect.name not in given:
            yield (
                f"effects[{i}].http: nothing gives an application the address of {effect.name}, so no call can arrive; "
                f"write {{{HTTP}{effect.name}}} in the env or the command of the application that calls it, a template "
                "of files, or give the port that it calls"
            )


def _placeholder_problems(setup: Setup, where: str, app: App) -> Iterator[str]:
    """Yield the placeholders of an application that have no value in the scenario."""
    topics = {topic.name for topic in setup.topics}
    for key, text in app.texts():
        for name in placeholders(text):
            own = name.removeprefix(TOPIC)
            if name != own and not any(is_called(topic, own) for topic in topics):
                yield f"{where}.{key}: there is no topic {own!r} for {{{name}}}"
            if name.startswith(HTTP) and name.removeprefix(HTTP) not in {e.name for e in setup.effects if e.http}:
                yield f"{where}.{key}: no effect {name.removeprefix(HTTP)!r} has http, for {{{name}}}"
            if name.startswith(PORT):
                yield from unknown(f"{where}.{key}", name.removeprefix(PORT), "apps", [a.name for a in setup.apps])
            if name.startswith(ROWS) and name.removeprefix(ROWS) not in setup.row_files:
                yield f"{where}.{key}: no producer {name.removeprefix(ROWS)!r} has rows.file, for {{{name}}}"
            cluster = cluster_in(name) or app.cluster
            at = setup.cluster if cluster == PRIMARY else setup.clusters.get(cluster)
            if at and (lack := _login_lacks(at.security, cluster, base_of(name))):
                yield f"{where}.{key}: {{{name}}} has no value: {lack}"
            if name in OF_MACHINE and app.image:
                yield f"{where}.{key}: {{{name}}} is of this machine, and a container does not have it"
            if name == "group" and not app.groups:
                yield f"{where}.{key}: {{group}} has no value; give group"


def _superuser_problems(setup: Setup, app: App) -> Iterator[str]:
    """Yield why an application cannot log in as the user that may do anything."""
    if setup.attached:
        yield "a run has one login to an existing cluster"
    elif not any(cluster.security.secured for cluster in (setup.cluster, *setup.clusters.values())):
        yield "nobody logs in to a cluster of the scenario, and all may do everything there"
    elif app.uses_primary and setup.cluster.security.client_certificates:
        yield f"the relay presents the certificate of the clients to the cluster {PRIMARY}"


def _names_of_others(app: App, where: str) -> Iterator[str]:
    """Yield that nothing gives an application the names of the run on an existing cluster: it would use others."""
    given = app.names()
    topics = [name.removeprefix(TOPIC) for name in given if name.startswith(TOPIC)]
    if app.reads and not any(is_called(topic, own) for topic in app.reads for own in topics):
        yield (
            f"{where}: on an existing cluster, the names of topics begin with a prefix of the run, so that {app.name} "
            f"does not read a topic {app.reads[0]} of others; write {{{TOPIC}{app.reads[0]}}} in its env, its command "
            "or a template of files"
        )
    if app.groups and "group" not in given:
        yield (
            f"{where}: on an existing cluster, the names of groups begin with a prefix of the run, so that {app.name} "
            f"does not join a group {app.groups[0]} of others; write {{group}} in its env, its command or a template "
            "of files"
        )


def _login_lacks(security: ClusterSecurity, cluster: str, name: str) -> str:
    """Return why a placeholder has no value if it is of the login; empty if it has one."""
    if name not in LOGIN:
        return ""
    if not security.secured:
        where = "cluster" if cluster == PRIMARY else f"clusters.{cluster}"
        return f"the cluster has no {where}.security"
    if name in ("mechanism", "username", "password") and not security.sasl:
        return f"clients do not log in with protocol {security.protocol}"
    if name in ("ca", "truststore", "store_password") and not security.tls:
        return f"protocol {security.protocol} has no certificates"
    certified = security.client_certificates or security.certificate
    if name in ("certificate", "key", "key_password", "keystore") and not certified:
        return "clients have no certificates; set client_certificates, with protocol SSL"
    return ""
