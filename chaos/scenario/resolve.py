"""A scenario with nothing left open: every default filled in, the seed drawn, versions named."""

from __future__ import annotations

import platform
import random
import secrets
from importlib.metadata import version

from pydantic import BaseModel, ValidationError

from chaos import __version__
from chaos.errors import RunDirError
from chaos.rundir import RunDir, read_json, write_atomically
from chaos.scenario.model import Scenario


class Resolved(BaseModel):
    """`resolved.json`: what a run is made from, and all that is needed to make it again."""

    run_id: str
    name: str
    seed: int
    scenario: Scenario
    overrides: list[str] = []
    versions: dict[str, str]
    created_us: int

    def rng(self, purpose: str) -> random.Random:
        """The random choices for one purpose; another purpose does not disturb them."""
        return random.Random(f"{self.seed}:{purpose}")

    def command(self) -> str:
        """The command that makes this run again."""
        sets = "".join(f" --set {o}" for o in self.overrides)
        cluster = self.scenario.cluster
        driver = f" --driver {cluster.driver}" if cluster.driver != "process" else ""
        return f"python -m chaos run {self.name} --seed {self.seed} --kafka {cluster.kafka}{driver}{sets}"


def resolve(
    scenario: Scenario, *, run_id: str, name: str, created_us: int, seed: int | None, overrides: list[str]
) -> Resolved:
    """Fill in what is still open. `seed` wins over the scenario's own; without either one is drawn."""
    if seed is None:
        seed = scenario.seed if scenario.seed is not None else secrets.randbelow(2**31)
    versions = {
        "aftershock": __version__,
        "kafka": scenario.cluster.kafka,
        "confluent-kafka": version("confluent-kafka"),
        "pyspark": version("pyspark"),
        "great-expectations": version("great-expectations"),
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
    }
    return Resolved(
        run_id=run_id,
        name=name,
        seed=seed,
        scenario=scenario,
        overrides=overrides,
        versions=versions,
        created_us=created_us,
    )


def save(run: RunDir, resolved: Resolved) -> None:
    """Write `resolved.json`."""
    write_atomically(run.resolved, resolved.model_dump_json(indent=1))


def read(run: RunDir) -> Resolved:
    """Read `resolved.json` back."""
    raw = read_json(run.resolved, "resolved scenario")
    try:
        return Resolved.model_validate(raw)
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(str(p) for p in first["loc"])
        raise RunDirError(f"{run.resolved} is not one of this version: {where}: {first['msg']}") from None
