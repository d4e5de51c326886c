"""Errors that prove that a send or a commit did not happen. Every other error of a library is `unknown`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """An error that proves a refusal, if all attempts have in common what it needs.

    needs: attempt (there is only one), batch (each carries the same records), settings, limits (of the topic and the
    brokers), rights. Nothing if any attempt proves it. why: what the proof rests on.
    """

    needs: frozenset[str]
    why: str


Refusals = Mapping[str, Refusal]
"""By the name of the error in the protocol (`org.apache.kafka.common.protocol.Errors`)."""


def refusals(needs: Iterable[str], **why: str) -> dict[str, Refusal]:
    """Return refusals with the same needs, by error."""
    return {name: Refusal(frozenset(needs), text) for name, text in why.items()}
