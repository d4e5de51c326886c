"""Outcomes of sends and commits by error: ok, fail (definitely did not happen) or unknown (may have happened).

The refusals are in the traits of the library (`Traits.sends`, `Traits.commits`); all other errors are `unknown`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from chaos.clients.committer import Outcome
from chaos.clients.error_codes import ERROR_CODES
from chaos.clients.protocol import Config
from chaos.clients.traits import Refusals, Traits

OF_ONE_PARTITION = frozenset(
    {
        *("TOPIC_AUTHORIZATION_FAILED", "OFFSET_METADATA_TOO_LARGE", "INVALID_COMMIT_OFFSET_SIZE"),
        "UNKNOWN_TOPIC_OR_PARTITION",
    }
)
"""Errors of single partitions: the libraries report the first one for the whole commit, so others may be committed."""


_QUOTED = re.compile(r"\[Error (\d+)\]")


def error_name(error: BaseException) -> str:
    """Return the name of an error in the protocol, or the class of an error of the client."""
    causes = [error.__cause__, *error.args[:1]] if type(error).__name__ == "CommitFailedError" else []
    for cause in causes:  # it names what the coordinator refused, in some releases
        if isinstance(cause, Exception):
            return error_name(cause)
    return ERROR_CODES.get(getattr(error, "errno", None) or 0, type(error).__name__)


def describe(error: BaseException) -> str:
    """Return the name and the text of an error, and the name of another one that the text quotes."""
    name, quoted = error_name(error), _QUOTED.search(str(error))
    cause = ERROR_CODES.get(int(quoted[1]), name) if quoted else name
    return f"{name}: {error}" if cause == name else f"{name} ({cause}): {error}"


def kept_by(config: Config, traits: Traits, release: str, steady: Iterable[str]) -> frozenset[str]:
    """Return what all attempts of a send have in common; see `chaos.clients.traits`."""
    retries = traits.common(config).get("retries", traits.defaults(release).get("retries"))
    return frozenset({*steady, *(("attempt",) if str(retries) == "0" else ())})


def send_outcome(error: BaseException, kept: frozenset[str], refusals: Refusals) -> Outcome:
    """Return the outcome of a send with an error."""
    refusal = refusals.get(error_name(error))
    return "fail" if refusal and ("attempt" in kept or refusal.needs <= kept) else "unknown"


def commit_outcome(error: BaseException | None, partitions: int, only_attempt: bool, refusals: Refusals) -> Outcome:
    """Return the outcome of a commit of some partitions. only_attempt: whether the answer is that to one request."""
    if error is None:
        return "ok"
    name = error_name(error)
    of_all = partitions == 1 or name not in OF_ONE_PARTITION
    return "fail" if only_attempt and of_all and name in refusals else "unknown"
