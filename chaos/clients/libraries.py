"""The client libraries that a scenario can choose: each folder of `chaos.clients` with a module `runtime` is one.

The module `traits` of a folder says what the library can do, `runtime` how to install and start its programs.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from chaos.clients.traits import Ability, Traits

DEFAULT = "confluent"
"""Name of the library of an entry that names none."""


def _found() -> dict[str, Traits]:
    folders = sorted(path.parent.name for path in Path(__file__).parent.glob("*/runtime.py"))
    found: list[Traits] = [import_module(f"{__package__}.{folder}.traits").TRAITS for folder in folders]
    return {traits.name: traits for traits in sorted(found, key=lambda traits: (traits.name != DEFAULT, traits.name))}


RUNTIMES = _found()
"""The traits of each library by name, the default first."""


def having(ability: Ability) -> list[str]:
    """Return the names of the libraries that can do something, in any release."""
    return [name for name, traits in RUNTIMES.items() if ability in traits.abilities]
