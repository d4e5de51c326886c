"""Names of workers, and the identity of the machine that one is on."""

from __future__ import annotations

import uuid
from pathlib import Path


def worker_name(number: int) -> str:
    """Return the name of a worker; workers are numbered from 1."""
    return f"worker-{number}"


def machine_id() -> str:
    """Return the same text in all processes of a machine until it boots again, containers included."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return str(uuid.getnode())
