"""`python -m tests.system.fleet_drive SCENARIO VARIANT BOOTSTRAP RUNS_DIR`: a run on an existing cluster, driven and
judged as by `chaos run`, with two workers that somebody else starts. Prints the run directory at once.
"""

from __future__ import annotations

import sys
from pathlib import Path

from chaos.drive import stages
from chaos.lab.lab import drive_and_judge


def main(scenario: str, variant: str, bootstrap: str, runs_dir: str) -> int:
    request = stages.ScenarioRequest(scenario, driver="attached", bootstrap=bootstrap, sets=("fleet.workers=2",))
    run = stages.prepare(request, runs_dir=Path(runs_dir), variant=variant)
    print(run.path, flush=True)
    return drive_and_judge(run, lambda event: None, starts_workers=False)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
