"""A notifier that posts a line of text to a webhook, in the form that Slack, Mattermost, Rocket.Chat and Teams accept.

The address is in an Airflow connection of the type `http`, because it is a secret: whoever knows it can post. The host
is the part before the token, such as `https://hooks.slack.com/services`, and the password is the rest. In the variable
`aftershock_notifiers`:

    {"notifier": "dags.provider.webhook.WebhookNotifier", "conn_id": "aftershock_webhook",
     "text": "{{ message }} <{{ link }}|report>"}
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from typing import Any

from airflow.sdk import BaseNotifier, Connection

TIMEOUT_S = 10.0


class WebhookError(Exception):
    """A webhook that did not take the message. The text never has the address."""


class WebhookNotifier(BaseNotifier):  # type: ignore[misc] # Airflow is not typed for mypy here
    """Posts `{"text": …}` to the address of a connection. fields: more fields of the JSON, such as `channel`."""

    template_fields = ("text", "fields")

    def __init__(self, conn_id: str, text: str = "{{ message }}", fields: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.conn_id, self.text, self.fields = conn_id, text, fields or {}

    def notify(self, context: Any) -> None:
        """Post the message. Raises `WebhookError` unless the answer is 2xx."""
        # values are escaped as HTML, and Slack decodes no quotes
        text = self.text.replace("&quot;", '"').replace("&#x27;", "'").replace("&#39;", "'")
        body = json.dumps({"text": text, **self.fields}).encode()
        request = self._request(body)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S):
                return
        except urllib.error.HTTPError as e:
            raise WebhookError(f"the webhook of the connection {self.conn_id} answered {e.code}") from None
        except (OSError, http.client.HTTPException) as e:
            reason = getattr(e, "reason", None) or type(e).__name__
            raise WebhookError(f"the webhook of the connection {self.conn_id} did not answer: {reason}") from None

    def _request(self, body: bytes) -> urllib.request.Request:
        connection = Connection.get(self.conn_id)
        host, port = (connection.host or "").rstrip("/"), f":{connection.port}" if connection.port else ""
        if "://" not in host:
            host = f"{connection.schema or 'https'}://{host}"
        scheme, _, rest = host.partition("://")
        if scheme not in ("http", "https") or not rest:
            raise WebhookError(f"the connection {self.conn_id} has no host; its host is the address without the token")
        name, slash, path = rest.partition("/")
        token = (connection.password or "").lstrip("/")
        address = f"{scheme}://{name}{port}{slash}{path}" + (f"/{token}" if token else "")
        try:
            return urllib.request.Request(address, body, {"Content-Type": "application/json"})
        except ValueError:
            raise WebhookError(f"the address in the connection {self.conn_id} is not valid") from None
