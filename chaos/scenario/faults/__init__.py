"""The specification of each kind of fault: its parameters, its targets, and the driver capabilities it needs.

One module per family. `chaos.faults` has a module of the same name with the fault itself: injection, proof and heal.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

# isort: off
from chaos.scenario.faults import quorum  # noqa: F401 - after brokers and controllers, which it imports

# in this order, messages, the JSON Schema and the reference list the kinds
from chaos.scenario.faults import brokers, controllers, upgrades, resources  # noqa: F401
from chaos.scenario.faults import clocks, network, wire, raw, clients  # noqa: F401
from chaos.scenario.faults import admin, security, certificates  # noqa: F401
from chaos.scenario.faults.base import SPECS, FaultSpec
# isort: on

__all__ = ["SPECS", "Fault"]

if TYPE_CHECKING:
    Fault = FaultSpec
else:
    Fault = Annotated[reduce(or_, SPECS.values()), Field(discriminator="kind")]
    """The specification of any fault."""
