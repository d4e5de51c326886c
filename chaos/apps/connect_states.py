"""What workers of Kafka Connect say of connectors and tasks: the history in their topic of states (KIP-26).

A task that fails stays FAILED until somebody restarts it, and its worker goes on: nothing ends, and no effect comes.
The cause is in the log of one worker, and in this topic.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from chaos.apps.connect import cause_of
from chaos.kafka.security import Security, librdkafka_settings

READ_S = 10.0
"""Time for reading a topic of states. It has one record per change of a connector or task."""
FAILED = "FAILED"


@dataclass(frozen=True)
class State:
    """One state of a part.

    part: such as `connector orders` or `task 0 of connector orders`. why: the innermost exception, of a failure.
    """

    part: str
    state: str
    why: str
    at_us: int


Record = tuple[bytes | None, bytes | None, int]
"""Key, value and timestamp in ms."""


def states_of(records: Iterable[Record]) -> Iterator[State]:
    """Yield the states in records of the topic. Other records, such as removals, have none."""
    for key, value, at_ms in records:
        kind, _, name = (key or b"").decode(errors="replace").removeprefix("status-").partition("-")
        if value is None or kind not in ("connector", "task"):
            continue
        try:
            said: dict[str, Any] = json.loads(value)
        except ValueError:
            continue
        task = name.rpartition("-")
        part = f"connector {name}" if kind == "connector" else f"task {task[2]} of connector {task[0]}"
        yield State(part, str(said.get("state")), cause_of(str(said.get("trace") or "")), at_ms * 1000)


def sentences(app: str, states: Iterable[State], began_us: int) -> list[str]:
    """Return a sentence for each part that failed, with the first cause, and whether it was failed at the end."""
    history: dict[str, list[State]] = {}
    for state in sorted(states, key=lambda state: state.at_us):
        history.setdefault(state.part, []).append(state)
    found = []
    for part, seen in sorted(history.items()):
        if failed := [state for state in seen if state.state == FAILED]:
            after_s = max(0, failed[0].at_us - began_us) / 1e6
            stayed = "and stayed so" if seen[-1].state == FAILED else f"and is {seen[-1].state} at the end"
            why = f": {failed[0].why.rstrip('.')}" if failed[0].why else ""
            begin = f"{part[0].upper()}{part[1:]} of {app} failed {after_s:.1f} s after the start of the load"
            found.append(f"{begin}, {stayed}{why}.")
    return found


def failed_for_good(states: Iterable[State]) -> bool:
    """Return whether a connector or task was failed at the end."""
    last = {state.part: state.state for state in sorted(states, key=lambda state: state.at_us)}
    return FAILED in last.values()


def read(bootstrap: str, security: Security | None, topic: str) -> list[Record]:
    """Return key, value and timestamp in ms of all records of a topic, as far as brokers answer in time."""
    from confluent_kafka import KafkaException

    from chaos.kafka.reading import records_of

    settings = {"bootstrap.servers": bootstrap, "log_level": 0, **librdkafka_settings(security)}
    try:
        return [(m.key(), m.value(), m.timestamp()[1]) for m in records_of(settings, topic, READ_S)]
    except KafkaException:
        return []
