"""The REST API of Kafka Connect: connectors are put there, are awaited until they and their tasks run, and changed.

Workers of a group forward a request to the one that it concerns, so any of them may be asked.
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

from chaos.apps.instance import Instance
from chaos.errors import ClientError
from chaos.setup.connect import Connect
from chaos.setup.placeholders import filled

ANSWER_S = 30.0
"""A worker answers a request for a connector only when its group has settled."""
ALIVE_S = 1.0
CAUSED = "Caused by: "
Method = Literal["GET", "PUT", "POST"]
_KNOWN = "available connectors are: "
"""Before the descriptions of all classes that a worker has, in its message that a class is missing."""


class Asked(Protocol):
    """A worker that is asked: an instance, with its port among its values."""

    @property
    def name(self) -> str:
        """Its name, such as sink/1."""

    @property
    def values(self) -> Mapping[str, str]:
        """Its values by placeholder."""


def lacks(connect: Connect, instances: Sequence[Instance]) -> list[str]:
    """Return what workers and their connectors still lack; put the connectors that distributed workers do not have.

    Raises `ClientError` if a worker refuses a connector.
    """
    if waiting := [lack for instance in instances if (lack := _worker_lacks(instance))]:
        return waiting
    workers = instances[:1] if connect.distributed else instances
    pairs = [(worker, name) for worker in workers for name in connect.connectors]
    return [lack for worker, name in pairs for lack in _connector_lacks(connect, name, worker)]


def states(worker: Asked, name: str) -> dict[str, str]:
    """Return the state of a connector and of each of its tasks, such as `task 0`. Raises `ClientError`."""
    status = order(worker, f"/connectors/{name}/status", method="GET")
    return {"connector": status["connector"]["state"], **{f"task {t['id']}": t["state"] for t in status["tasks"]}}


def order(worker: Asked, path: str, body: Mapping[str, str] | None = None, method: Method = "PUT") -> Any:
    """Return the answer of a worker to an order; None if it has no text. Raises `ClientError` if it refuses."""
    try:
        return _ask(worker, path, body, method)
    except urllib.error.HTTPError as e:
        raise ClientError(f"{worker.name} refuses {method} {path}: {_message(e)}") from None
    except (OSError, ValueError) as e:
        raise ClientError(f"{worker.name} does not answer {method} {path}: {e}") from None


def _worker_lacks(worker: Instance) -> str:
    try:
        _ask(worker, "/", timeout_s=ALIVE_S)
    except (OSError, ValueError) as e:
        return f"the REST API of {worker.name} does not answer yet: {e}"
    return ""


def _connector_lacks(connect: Connect, name: str, worker: Instance) -> Iterator[str]:
    """Yield what a connector lacks; put it if a distributed worker does not know it."""
    try:
        status = _ask(worker, f"/connectors/{name}/status")
    except urllib.error.HTTPError as e:
        if e.code == 404 and connect.distributed:
            _put(connect, name, worker)
        yield f"connector {name} is not there yet: {_message(e)}"
        return
    except (OSError, ValueError) as e:
        yield f"{worker.name} does not answer about connector {name}: {e}"
        return
    parts = {f"connector {name}": status["connector"]}
    parts |= {f"task {task['id']} of connector {name}": task for task in status["tasks"]}
    if not status["tasks"]:
        yield f"connector {name} has no task yet"
    for part, state in parts.items():
        if state["state"] != "RUNNING":
            why = _cause(str(state.get("trace") or ""))
            yield f"{part} is {state['state']}{why and f': {why}'}"


def _cause(trace: str) -> str:
    """Return the innermost exception of a stack trace; empty if there is none."""
    lines = trace.strip().splitlines()
    causes = [line.removeprefix(CAUSED) for line in lines if line.startswith(CAUSED)]
    return causes[-1] if causes else next(iter(lines), "")


def _put(connect: Connect, name: str, worker: Instance) -> None:
    """Put a connector. Raises `ClientError` if the worker refuses its settings; a group that rebalances is awaited."""
    config = {key: filled(text, dict(worker.values)) for key, text in connect.connectors[name].items()}
    try:
        _ask(worker, f"/connectors/{name}/config", {"name": name, **config}, "PUT")
    except urllib.error.HTTPError as e:
        if e.code == 409:  # it rebalances
            return
        raise ClientError(f"{worker.name} refuses connector {name}: {_message(e)}") from None
    except (OSError, ValueError):
        return  # the next look says what it lacks


def _ask(
    worker: Asked,
    path: str,
    body: Mapping[str, str] | None = None,
    method: Method = "GET",
    timeout_s: float = ANSWER_S,
) -> Any:
    """Return the answer of a worker as JSON; None if it is empty."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{worker.values['port']}{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=timeout_s) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def _message(error: urllib.error.HTTPError) -> str:
    """Return the message of a refusal on one line."""
    try:
        text = str(json.load(error).get("message", ""))
    except (OSError, ValueError, AttributeError):
        text = ""
    found, known = " ".join(text.split()).partition(_KNOWN)[::2]
    names = sorted(set(re.findall(r"name='([^']+)'", known)))
    return f"{found}{_KNOWN}{', '.join(names)}" if known else found or f"status {error.code}"
