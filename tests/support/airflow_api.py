"""Requests to the REST API of an Airflow."""

from __future__ import annotations

import io
import json
import urllib.error
import urllib.request
from typing import Any


def ask(address: str, body: Any = None, token: str = "", method: str | None = None) -> Any:
    """Send a request, a POST if there is a body; return the JSON of the answer.

    Raises `OSError`. An `HTTPError` has the begin of the answer as a note, and can be read.
    """
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(address, data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as e:
        text = e.read()
        error = urllib.error.HTTPError(e.url, e.code, e.msg, e.headers, io.BytesIO(text))
        error.add_note(text.decode(errors="replace")[:1000])
        raise error from None
