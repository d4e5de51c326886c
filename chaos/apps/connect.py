"""Workers of Kafka Connect as applications: connectors are put there, and awaited until they and their tasks run."""

from __future__ import annotations

import time
import urllib.error
from collections.abc import Collection, Iterator, Sequence

from chaos.apps.instance import Instance
from chaos.errors import ClientError
from chaos.kafka.connect import ask, message_of
from chaos.setup.connect import Connect
from chaos.setup.placeholders import filled

ALIVE_S = 1.0
IDLE_S = 10.0
"""Time after which a running connector without tasks counts as ready: it may have nothing to do before there are
records, as the checkpoints of MirrorMaker 2 before a group has committed."""
CAUSED = "Caused by: "


def lacks(connect: Connect, instances: Sequence[Instance]) -> list[str]:
    """Return what workers and their connectors still lack; put the connectors that distributed workers do not have.

    A connector or task that failed on a worker which has been ready lacks nothing: only an order over the REST API
    starts it again (Kafka documentation, Connect, Administration), so there is nothing to wait for. The state of a task
    on a worker that is not ready yet may be from before the worker's end.

    Raises `ClientError` if a worker refuses a connector.
    """
    if waiting := [lack for instance in instances if (lack := _worker_lacks(instance))]:
        return waiting
    workers = instances[:1] if connect.distributed else instances
    pairs = [(worker, name) for worker in workers for name in connect.connectors]
    ready = {int(instance.values["port"]) for instance in instances if instance.ready}
    return [lack for worker, name in pairs for lack in _connector_lacks(connect, name, worker, ready)]


def _worker_lacks(worker: Instance) -> str:
    try:
        ask(worker, "/", timeout_s=ALIVE_S)
    except (OSError, ValueError) as e:
        return f"the REST API of {worker.name} does not answer yet: {e}"
    return ""


def _connector_lacks(connect: Connect, name: str, worker: Instance, ready: Collection[int]) -> Iterator[str]:
    """Yield what a connector lacks; put it if a distributed worker does not know it. ready: ports of ready workers."""
    try:
        status = ask(worker, f"/connectors/{name}/status")
    except urllib.error.HTTPError as e:
        if e.code == 404 and connect.distributed:
            _put(connect, name, worker)
        yield f"connector {name} is not there yet: {message_of(e)}"
        return
    except (OSError, ValueError) as e:
        yield f"{worker.name} does not answer about connector {name}: {e}"
        return
    parts = {f"connector {name}": status["connector"]}
    parts |= {f"task {task['id']} of connector {name}": task for task in status["tasks"]}
    if status["tasks"] or status["connector"]["state"] != "RUNNING":
        worker.idle.pop(name, None)
    else:
        since = worker.idle.setdefault(name, time.monotonic())
        if time.monotonic() - since < IDLE_S:
            yield f"connector {name} has no task yet"
    for part, state in parts.items():
        failed_for_good = state["state"] == "FAILED" and int(state["worker_id"].rpartition(":")[2]) in ready
        if state["state"] != "RUNNING" and not failed_for_good:
            why = cause_of(str(state.get("trace") or ""))
            yield f"{part} is {state['state']}{why and f': {why}'}"


def cause_of(trace: str) -> str:
    """Return the innermost exception of a stack trace; empty if there is none."""
    lines = trace.strip().splitlines()
    causes = [line.removeprefix(CAUSED) for line in lines if line.startswith(CAUSED)]
    return causes[-1] if causes else next(iter(lines), "")


def _put(connect: Connect, name: str, worker: Instance) -> None:
    """Put a connector. Raises `ClientError` if the worker refuses its settings; a group that rebalances is awaited."""
    config = {key: filled(text, dict(worker.values)) for key, text in connect.connectors[name].items()}
    try:
        ask(worker, f"/connectors/{name}/config", {"name": name, **config}, "PUT")
    except urllib.error.HTTPError as e:
        if e.code == 409:  # it rebalances
            return
        raise ClientError(f"{worker.name} refuses connector {name}: {message_of(e)}") from None
    except (OSError, ValueError):
        return  # the next look says what it lacks
