"""ConsumerGroupDescribe (KIP-848): the groups that DescribeGroups does not show."""

from __future__ import annotations

from types import new_class
from typing import Any

from kafka.protocol.api_message import ApiMessage


def _message(name: str) -> Any:
    """The message of that name, whose fields are in the JSON file of that name."""
    return new_class(name, (ApiMessage,), {"load_json": "chaos.kafka.schemas"})


ConsumerGroupDescribeRequest = _message("ConsumerGroupDescribeRequest")
ConsumerGroupDescribeResponse = _message("ConsumerGroupDescribeResponse")
