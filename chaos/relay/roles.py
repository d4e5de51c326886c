"""The roles of the relay, with their files in the run directory and the addresses that these hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Role = Literal["proxy", "switch"]

Listener = Literal["clients", "peers", "quorum"]
LISTENERS: tuple[Listener, ...] = ("clients", "peers", "quorum")
"""The listeners of a broker, by who connects to them. The proxy is in front of `clients` only."""

Address = tuple[str, int]
Endpoints = Mapping[int, Mapping[Listener, Address]]
"""The address of each listener of each broker."""


def socket_name(role: Role) -> str:
    """Return the name of the control socket in the run directory."""
    return f"{role}.sock"


def address_name(role: Role) -> str:
    """Return the name of the file in the run directory that holds the relay's own addresses."""
    return f"{role}.json"
