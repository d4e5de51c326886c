"""`schema`: the JSON Schema of a scenario."""

from __future__ import annotations

import json
import sys

EXAMPLE = "schema > scenario.schema.json"


def command() -> None:
    """Print the JSON Schema of a scenario, for editors."""
    from chaos.scenario.model import Scenario

    sys.stdout.write(json.dumps(Scenario.model_json_schema(), indent=1) + "\n")
