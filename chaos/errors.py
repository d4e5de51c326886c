"""The errors of Aftershock, by type.

Every message states what happened, where (a path or a key) and what to do next. `exit_code` is the exit code of the
command line: 2 if nothing was run because of the input or the machine, 3 if a run began without a result.
"""

from __future__ import annotations

PASS, FAIL, USAGE, INCONCLUSIVE, INTERRUPTED = 0, 1, 2, 3, 130


class AftershockError(Exception):
    """Base of all errors that a user can act on; shown as one line, without a traceback."""

    exit_code = INCONCLUSIVE


class UsageError(AftershockError):
    """The command line or its input is invalid, or a cluster refuses access with it."""

    exit_code = USAGE


class ScenarioError(AftershockError):
    """The scenario is invalid: the message names the key and the nearest valid one."""

    exit_code = USAGE


class MachineError(AftershockError):
    """This machine lacks something that the run needs (Java, disk space, a free port)."""

    exit_code = USAGE


class ResolveError(AftershockError):
    """A Kafka release (or another Maven artifact) could not be resolved."""

    exit_code = USAGE


class RunDirError(AftershockError):
    """A path is no run directory, is half-written, or has another schema version."""

    exit_code = USAGE


class ClusterError(AftershockError):
    """A broker did not start, did not answer, or is gone."""


class ClientError(AftershockError):
    """A client process could not start or broke its protocol."""


class HistoryError(AftershockError):
    """The history database cannot be reached, or belongs to another program or version."""

    exit_code = USAGE


class MetricsError(AftershockError):
    """Metrics cannot be written or pushed."""

    exit_code = USAGE


class FaultError(AftershockError):
    """A fault could not be injected or healed."""


class WaitTimeout(AftershockError):
    """A condition did not become true in time."""


def first_line(error: BaseException | None) -> str:
    """Return the first line of an error message, the error's type if it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
