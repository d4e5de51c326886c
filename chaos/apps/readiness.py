"""What an application still waits for before traffic begins."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Collection, Sequence

from chaos.apps import connect
from chaos.apps.instance import Instance
from chaos.kafka.cleanup import list_groups
from chaos.kafka.client import Kafka
from chaos.kafka.partition import TopicPartition
from chaos.setup.apps import App
from chaos.setup.placeholders import filled, placeholders

ANSWER_S = 1.0
ALIVE_S = 1.0
"""Time that a process runs before it counts as started, if nothing else says so."""


def missing(
    app: App,
    instances: Sequence[Instance],
    kafka: Kafka,
    partitions: Collection[TopicPartition],
    group: str | None,
    members: int,
) -> list[str]:
    """Return what is missing for all instances of an application to count as started; empty if nothing is.

    instances: those that run; none of an external application, for which one member of its group is enough. members:
    of its group, with the instances of other applications in it.
    partitions: all partitions of the run's topics. group: the group that was found for the application, if it names
    none.
    """
    if app.connect is not None and app.ready is None:
        return connect.lacks(app.connect, instances)
    awaited = app.awaited
    if awaited is None and app.reads:
        return [] if group else [f"no consumer group has a member of {app.name} yet"]
    kind, value = awaited.selector if awaited else ("", None)
    if kind == "group":
        return _group(str(value), members, kafka)
    if kind == "topic":
        ends = kafka.end_offsets([p for p in partitions if p.topic == value])
        return [] if any(ends.values()) else [f"nothing is in {value}"]
    if app.external:
        return [lack for lack in [_of_address(kind, str(value), app.name)] if lack]
    return [lack for instance in instances if (lack := _of_one(kind, value, instance))]


def taken(app: App) -> str:
    """Return what answers before an application was started, so that nothing would show when it is ready; or nothing.

    Only a fixed address can be taken: with `{port}`, each instance has a free port.
    """
    kind, value = app.awaited.selector if app.awaited else ("", "")
    text = str(value)
    if kind not in ("port", "http") or list(placeholders(text)) or _of_address(kind, text, app.name):
        return ""
    return (
        f"{app.name}: {f'port {text}' if kind == 'port' else text} answers before {app.name} was started, so another "
        "process uses it: end that one, or write {port}"
    )


def find_group(app: App, instances: int, kafka: Kafka, known: Collection[str]) -> str | None:
    """Return the stable group that reads the topics of an application, with a member for each instance at least.

    known: the groups of the scenario, which it is not. Its assigned partitions show what it reads.
    """
    for name in list_groups(kafka, lambda group: group not in known) or ():
        state = kafka.group(name)
        if state is None or state.state != "Stable" or len(state.members) < instances:
            continue
        if any(partition.topic in app.reads for member in state.members for partition in member.partitions):
            return name
    return None


def _group(group: str, members: int, kafka: Kafka) -> list[str]:
    state = kafka.group(group)
    if state is None:
        return [f"the coordinator of group {group} does not answer"]
    if len(state.members) < members:
        return [f"group {group} has {len(state.members)} of {members} members ({state.state})"]
    return [] if state.state == "Stable" else [f"group {group} is {state.state}"]


def _of_one(kind: str, value: object, instance: Instance) -> str:
    """Return what one instance waits for; empty if nothing."""
    values = dict(instance.values)
    if kind == "log":
        return "" if instance.wrote(str(value)) else f"no line of {instance.name} matches {value}"
    if kind in ("port", "http"):
        return _of_address(kind, filled(str(value), values), instance.name)
    return "" if instance.ran_for() >= ALIVE_S else f"{instance.name} has just started"


def _of_address(kind: str, address: str, name: str) -> str:
    """Return what a port or a URL of an application lacks; empty if nothing."""
    if kind == "http":
        return _lacks_answer(name, address)
    return "" if _connects(int(address)) else f"{name} does not listen on port {address}"


def _connects(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), ANSWER_S):
            return True
    except OSError:
        return False


def _lacks_answer(name: str, url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_S):
            return ""
    except urllib.error.HTTPError as e:
        return f"{name} answers {url} with {e.code}"
    except (OSError, ValueError) as e:
        return f"{name} does not answer {url}: {e}"
