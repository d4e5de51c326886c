"""What can go wrong, as types a caller can tell apart.

AftershockError
├── UsageError            the command line or its input makes no sense, or a cluster does not let us in with it
├── ScenarioError         the scenario is invalid: the message names the key and the nearest known one
├── MachineError          this machine lacks something (Java, disk space, a free port)
├── ResolveError          a Kafka release could not be resolved
├── RunDirError           not a run directory, half-written, or of another schema version
├── ClusterError          a broker did not start, did not answer, or is gone
├── ClientError           a client process could not start or broke its protocol
├── HistoryError          the history's database cannot be reached, or is not (or no more) ours to write
├── FaultError            a fault could not be injected or healed
└── WaitTimeout           a condition did not come true in time

Every message says what happened, where (a path or a key) and what to do next. `exit_code` is what the command line
returns: 2 when nothing was run because input or machine do not allow it, 3 when a run began and cannot tell.
"""

from __future__ import annotations

PASS, FAIL, USAGE, INCONCLUSIVE, INTERRUPTED = 0, 1, 2, 3, 130


class AftershockError(Exception):
    """Base of all errors that a user can act on; shown as one line, without a traceback."""

    exit_code = INCONCLUSIVE


class UsageError(AftershockError):
    """The command line or its input makes no sense."""

    exit_code = USAGE


class ScenarioError(AftershockError):
    """The scenario is invalid."""

    exit_code = USAGE


class MachineError(AftershockError):
    """This machine lacks something that the run needs."""

    exit_code = USAGE


class ResolveError(AftershockError):
    """A Kafka release (or another Maven artifact) could not be resolved."""

    exit_code = USAGE


class RunDirError(AftershockError):
    """A run directory is missing, half-written or of another schema version."""

    exit_code = USAGE


class ClusterError(AftershockError):
    """A broker did not start, did not answer, or is gone."""


class ClientError(AftershockError):
    """A client process could not start or broke its protocol."""


class HistoryError(AftershockError):
    """The history's database cannot be reached, or holds what this version did not make."""

    exit_code = USAGE


class FaultError(AftershockError):
    """A fault could not be injected or healed."""


class WaitTimeout(AftershockError):
    """A condition did not come true in time."""
