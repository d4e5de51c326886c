"""Types for names in the cluster: topics, groups and transactional ids.

On an existing cluster, all of these names get the prefix of the run. `chaos.scenario.prefix` finds them by their types,
so a new field that names a topic or a group only needs the right type.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from chaos.ledger.record import PRODUCER_WIDTH


@dataclass(frozen=True)
class InCluster:
    """A marker of types: their values name something in the cluster, or begin with its name."""

    max_length: int
    """Maximum number of characters of such a name."""


TopicName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$"), InCluster(249)]


def _check_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as e:
        raise ValueError(f"{text!r} is not a regular expression: {e}") from None
    return text


TopicPattern = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9._*+?\[\]\\-]{1,249}$"), AfterValidator(_check_pattern), InCluster(249)
]
"""A regular expression for whole topic names, without alternatives, so that a prefix can be put before it."""
GroupId = Annotated[str, Field(pattern=r"^[^/\s]{1,200}$"), InCluster(200)]
TransactionalId = Annotated[str, Field(pattern=r"^[^/\s]{1,200}$"), InCluster(200)]

ClientName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=PRODUCER_WIDTH - 4)]
"""The name of a client entry. It fits into the header of every record."""
