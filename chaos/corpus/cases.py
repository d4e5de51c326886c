"""The cases of the corpus that a user selects."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable

from chaos.errors import UsageError
from chaos.reference.bugs import cases
from chaos.scenario.model import Scenario


def select(patterns: Iterable[str] = ()) -> dict[str, Scenario]:
    """Return the cases of which the name or the id of the bug matches a pattern; all without patterns.

    Raises `UsageError` if nothing matches.
    """
    globs = list(patterns) or ["*"]
    found = {
        name: case
        for name, case in cases().items()
        for names in [(name.lower(), case.bug.id.lower() if case.bug else "")]
        if any(fnmatch.fnmatchcase(text, glob.lower()) for glob in globs for text in names)
    }
    if not found:
        raise UsageError(f"no published bug is named {' or '.join(globs)}; `python -m chaos list` shows them")
    return found
