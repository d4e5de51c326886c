"""`show`: a scenario with every default, and its timeline."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from chaos.cli.options import Scenario, Sets

EXAMPLE = "show leader-kill --set cluster.brokers=5"


def command(
    scenario: Scenario,
    sets: Sets = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Show a scenario with every default filled in, and its timeline."""
    import yaml

    from chaos.scenario import timeline
    from chaos.scenario.load import find, load

    loaded = load(find(scenario), sets or [])
    data = loaded.model_dump(mode="json", exclude_none=True)
    if as_json:
        sys.stdout.write(json.dumps(data, indent=1) + "\n")
        return
    sys.stdout.write(yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=120))
    sys.stdout.write("# timeline:\n")
    for step in timeline.steps(loaded):
        sys.stdout.write(f"#   {step.describe()}\n")
