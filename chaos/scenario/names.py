"""Names of things in the cluster: topics, groups and transactional ids. Whatever names one has one of these types.

On a cluster that exists, all of them get the run's prefix; `chaos.scenario.prefix` finds them by their types, so a new
key that names a topic or a group needs no more than the right type.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from chaos.ledger.record import PRODUCER_WIDTH


@dataclass(frozen=True)
class InCluster:
    """Marks a type whose values name something in the cluster, or begin with its name."""

    most: int
    """Characters that such a name may have."""


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
"""A regular expression for whole names of topics, without alternatives: then what it matches begins with its text."""
GroupId = Annotated[str, Field(pattern=r"^[^/\s]{1,200}$"), InCluster(200)]
TransactionalId = Annotated[str, Field(pattern=r"^[^/\s]{1,200}$"), InCluster(200)]

ClientName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=PRODUCER_WIDTH - 4)]
"""The name of a client entry: it fits into the identity that each record carries."""
