"""Addresses of brokers, as scenarios, options and the forms of the DAGs take them."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

_PORT = "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_ADDRESS = rf"\s*[^\s,:/]+:{_PORT}\s*"
_ADDRESSES = f"^{_ADDRESS}(,{_ADDRESS})*$"


def _check(text: object) -> object:
    """Return the value. Raises `ValueError` with what to write, in place of the pattern that the value does not fit."""
    if isinstance(text, str) and not re.match(_ADDRESSES, text):
        raise ValueError(f"{text!r} is no address; write host:port with a port from 1 to 65535, or several with commas")
    return text


Bootstrap = Annotated[str, Field(pattern=_ADDRESSES), BeforeValidator(_check)]
"""One or more addresses host:port, separated by commas."""
