"""The REST API of Kafka Connect: questions and orders to a worker, and the message of its refusal.

Workers of a group forward a request to the one that it concerns, so any of them may be asked.
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Literal, Protocol

from chaos.errors import ClientError

ANSWER_S = 30.0
"""A worker answers a request for a connector only when its group has settled."""
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


def states(worker: Asked, name: str) -> dict[str, str]:
    """Return the state of a connector and of each of its tasks, such as `task 0`. Raises `ClientError`."""
    status = order(worker, f"/connectors/{name}/status", method="GET")
    return {"connector": status["connector"]["state"], **{f"task {t['id']}": t["state"] for t in status["tasks"]}}


def order(worker: Asked, path: str, body: Mapping[str, str] | None = None, method: Method = "PUT") -> Any:
    """Return the answer of a worker to an order; None if it has no text. Raises `ClientError` if it refuses."""
    try:
        return ask(worker, path, body, method)
    except urllib.error.HTTPError as e:
        raise ClientError(f"{worker.name} refuses {method} {path}: {message_of(e)}") from None
    except (OSError, ValueError) as e:
        raise ClientError(f"{worker.name} does not answer {method} {path}: {e}") from None


def ask(
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


def message_of(error: urllib.error.HTTPError) -> str:
    """Return the message of a refusal on one line."""
    try:
        text = str(json.load(error).get("message", ""))
    except (OSError, ValueError, AttributeError):
        text = ""
    found, known = " ".join(text.split()).partition(_KNOWN)[::2]
    names = sorted(set(re.findall(r"name='([^']+)'", known)))
    return f"{found}{_KNOWN}{', '.join(names)}" if known else found or f"status {error.code}"
