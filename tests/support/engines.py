"""The availability of a Docker engine: without one, tests that need it are skipped with the reason."""

import pytest

from chaos.cluster.docker.engine import connect
from chaos.errors import MachineError


def _why_not() -> str:
    try:
        connect().close()
    except MachineError as e:
        return str(e)
    return ""


WHY_NOT = _why_not()
needs_engine = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
