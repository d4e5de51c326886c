"""Plans of histories that depend on a seed alone.

Hypothesis draws from the constants of all modules that are loaded, too: the same seed would make other plans beside
other tests. So a new interpreter, which loads nothing else, draws them: `python -m tests.checks.audit.planning 2000 7`.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.checks.audit.generator import Plan, plans

ROOT = Path(__file__).parents[3]
ANY = list(HealthCheck)


def planned(number: int, of_seed: int) -> list[Plan]:
    """Return `number` plans, drawn by a new interpreter."""
    argv = [sys.executable, "-m", "tests.checks.audit.planning", str(number), str(of_seed)]
    drawn = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return [Plan(*values) for values in pickle.loads(drawn.stdout)]


def draw(number: int, of_seed: int) -> list[Plan]:
    """Draw plans in this interpreter."""
    made: list[Plan] = []

    @seed(of_seed)
    @settings(max_examples=number, phases=[Phase.generate], database=None, deadline=None, suppress_health_check=ANY)
    @given(plans)
    def collect(plan: Plan) -> None:
        made.append(plan)

    collect()
    return made


if __name__ == "__main__":
    found = draw(int(sys.argv[1]), int(sys.argv[2]))
    sys.stdout.buffer.write(pickle.dumps([tuple(vars(plan).values()) for plan in found]))
