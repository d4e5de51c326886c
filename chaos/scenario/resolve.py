"""A scenario with nothing left open: every default filled in, the seed drawn, versions named."""

from __future__ import annotations

import platform
import random
import secrets
import shlex
from importlib.metadata import version

from pydantic import BaseModel, ValidationError

from chaos import __version__
from chaos.errors import RunDirError, UsageError
from chaos.run.directory import Run, read_json, write_atomically
from chaos.scenario.model import Scenario
from chaos.scenario.prefix import new_prefix, prefixed


class Resolved(BaseModel):
    """`resolved.json`: what a run is made from, and all that is needed to make it again."""

    run_id: str
    name: str
    seed: int
    scenario: Scenario
    overrides: list[str] = []
    versions: dict[str, str]
    created_us: int
    variant: str = ""
    """The side of an A/B scenario; empty for any other."""
    prefix: str = ""
    """Of all topics and groups, on a cluster that existed before the run; empty on one of the run's own."""

    def rng(self, purpose: str) -> random.Random:
        """The random choices for one purpose; another purpose does not disturb them."""
        return random.Random(f"{self.seed}:{purpose}")

    def command(self) -> str:
        """The command that makes this run again."""
        sets = "".join(f" --set {shlex.quote(o)}" for o in self.overrides)
        sets += f" --variant {self.variant}" if self.variant else ""
        if client := self.scenario.clients.confluent_kafka:
            sets = f" --client {client}{sets}"
        cluster = self.scenario.cluster
        if cluster.driver == "attached":
            owned = " --i-own-this-cluster" if cluster.allow_faults else ""
            return f"python -m chaos run {self.name} --seed {self.seed} --bootstrap {cluster.bootstrap}{sets}{owned}"
        driver = f" --driver {cluster.driver}" if cluster.driver != "process" else ""
        return f"python -m chaos run {self.name} --seed {self.seed} --kafka {cluster.kafka}{driver}{sets}"


def new_seed() -> int:
    """A seed, where nobody gave one."""
    return secrets.randbelow(2**31)


def resolve(
    scenario: Scenario,
    *,
    run_id: str,
    name: str,
    created_us: int,
    seed: int | None,
    overrides: list[str],
    variant: str = "",
) -> Resolved:
    """Fill in what is still open. `seed` wins over the scenario's own; without either one is drawn."""
    if seed is None:
        seed = scenario.seed if scenario.seed is not None else new_seed()
    prefix = ""
    if scenario.cluster.driver == "attached":
        prefix = new_prefix(run_id)
        scenario = _on_existing(prefixed(scenario, prefix))
    versions = {
        "aftershock": __version__,
        "kafka": "of the attached cluster" if prefix else scenario.cluster.kafka,
        "confluent-kafka": scenario.clients.confluent_kafka or version("confluent-kafka"),
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
        variant=variant,
        prefix=prefix,
    )


def _on_existing(scenario: Scenario) -> Scenario:
    """As it is to run on a cluster whose settings are not known and must not be changed.

    What the audit relies on is set for each topic: records are deleted, not compacted, unless the scenario says so.
    """
    topics = [t.model_copy(update={"config": {"cleanup.policy": "delete", **t.config}}) for t in scenario.topics]
    cluster = scenario.cluster.model_copy(update={"security": scenario.cluster.security.absolute()})
    return scenario.model_copy(update={"topics": topics, "cluster": cluster})


def check_owner(scenario: Scenario, i_own_this_cluster: bool) -> None:
    """Raise `UsageError` where brokers of a cluster that exists are to be broken and nobody answers for that."""
    cluster = scenario.cluster
    broken = [fault.name for fault in scenario.faults if fault.hits_brokers]
    if cluster.driver == "attached" and broken and not i_own_this_cluster:
        raise UsageError(
            f"{', '.join(broken)} would break brokers of the cluster at {cluster.bootstrap}; "
            "if that is yours to break, say --i-own-this-cluster (in a DAG: the param i_own_this_cluster)"
        )


def save(run: Run, resolved: Resolved) -> None:
    """Write `resolved.json`."""
    write_atomically(run.resolved, resolved.model_dump_json(indent=1))


def read(run: Run) -> Resolved:
    """Read `resolved.json` back."""
    raw = read_json(run.resolved, "resolved scenario")
    try:
        return Resolved.model_validate(raw)
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(str(p) for p in first["loc"])
        raise RunDirError(f"{run.resolved} is not one of this version: {where}: {first['msg']}") from None
