"""The resolved scenario of a run: every default filled in, the seed drawn, versions recorded."""

from __future__ import annotations

import platform
import random
import secrets
import shlex
import shutil
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ValidationError

from chaos import __version__
from chaos.clients.choice import DEFAULT
from chaos.errors import RunDirError, ScenarioError, UsageError
from chaos.ledger.ids import Ids
from chaos.ledger.record import run_token
from chaos.run.directory import Run, read_json, write_atomically
from chaos.scenario.inputs import Programs, inside, outside, programs_of, programs_problems
from chaos.scenario.mistakes import Source
from chaos.scenario.model import Scenario
from chaos.setup.clients import Subscribe
from chaos.setup.names import PRIMARY, new_prefix, prefixed

_OF_APP = {"partition.assignment.strategy": "stream"}
"""How the members of an application share partitions is not known: nothing is promised, as for Kafka Streams."""


class Seen(NamedTuple):
    """What passed on the wire shows of applications: the entries that read uncommitted records, too, and the topics
    that are written in transactions."""

    uncommitted: frozenset[str] = frozenset()
    in_transactions: frozenset[str] = frozenset()


class Resolved(BaseModel):
    """The content of `resolved.json`: everything that is needed to repeat a run."""

    run_id: str
    name: str
    seed: int
    scenario: Scenario
    overrides: list[str] = []
    versions: dict[str, str]
    created_us: int
    variant: str = ""
    """The variant of an A/B scenario; empty for other scenarios."""
    prefix: str = ""
    """The prefix of all topics and groups on an existing cluster; empty on a new cluster."""
    programs: Programs = {}
    """The programs of applications, which a bundle does not contain."""
    options: list[str] = []
    """The words of the command line of a tap, which has no file with its settings."""

    def rng(self, purpose: str) -> random.Random:
        """Return a generator of random choices for one purpose. Choices for another purpose do not influence it."""
        return random.Random(f"{self.seed}:{purpose}")

    def without_prefix(self, text: str) -> str:
        """Remove the prefix that each run on an existing cluster gives its names."""
        return text.replace(self.prefix, "") if self.prefix else text

    @property
    def ids(self) -> Ids:
        """The ids of records of producers with ids."""
        first, most = {}, 0
        for p in self.scenario.every_producer:  # of all clusters, as they were numbered when the clients started
            if p.value and p.value.has_id:
                for number in range(1, p.count + 1):
                    first[f"{p.name}/{number}"] = most
                    most += p.most_records(self.scenario.limits.drive)
        return Ids(run_token(self.run_id), self.created_us, first, most)

    def at(self, cluster: str) -> Resolved:
        """Return it as one of its clusters has it."""
        return self.model_copy(update={"scenario": self.scenario.at(cluster)})

    def of_clients(self) -> Resolved:
        """Return it without the topics of applications: no record there has an identity of the ledger."""
        scenario = self.scenario.at(PRIMARY)
        topics = [topic for topic in scenario.topics if topic.name not in scenario.app_topics]
        return self.model_copy(update={"scenario": scenario.model_copy(update={"topics": topics})})

    def with_databases(self, urls: Mapping[str, str]) -> Resolved:
        """Return it with the URLs of the databases that applications of the run are, by their names, in effects."""
        effects = [e if e.app is None else e.model_copy(update={"sql": urls[e.app]}) for e in self.scenario.effects]
        return self.model_copy(update={"scenario": self.scenario.model_copy(update={"effects": effects})})

    def audited(self, seen: Seen | None = None) -> Resolved:
        """Return what the audit judges: on the wire applications are clients as others, else it is `of_clients`."""
        scenario, seen = self.scenario.at(PRIMARY), seen or Seen()
        if not scenario.judged_on_wire:
            return self.of_clients()
        readers = [
            Subscribe(
                **{"mode": "subscribe", "name": app.name, "group": group, "topics": app.reads},
                **{"members": max(1, app.instances), "config": _OF_APP | _isolation(app.name in seen.uncommitted)},
            )
            for app in scenario.apps
            for group in app.groups
            if app.reads
        ]
        found = scenario.model_copy(update={"consumers": [*scenario.consumers, *readers]})
        return self.model_copy(update={"scenario": found.seen_in_transactions(seen.in_transactions)})

    def command(self) -> str:
        """Return the command that repeats the run."""
        if self.scenario.tapped:
            words = self.options or ["--bootstrap", str(self.scenario.cluster.bootstrap)]
            return shlex.join(["python", "-m", "chaos", "tap", *words])
        sets = "".join(f" --set {shlex.quote(o)}" for o in self.overrides)
        sets += f" --variant {self.variant}" if self.variant else ""
        client = self.scenario.clients.confluent_kafka or ""
        shared = self.scenario.client_libraries
        if len(shared) == 1 and shared[0].runtime != DEFAULT and shared[0].heap is None:
            client = shared[0].describe()
        if client:
            sets = f" --client {client}{sets}"
        cluster, name = self.scenario.cluster, shlex.quote(self.name)
        if cluster.driver == "attached":
            owned = " --i-own-this-cluster" if cluster.allow_faults else ""
            return f"python -m chaos run {name} --seed {self.seed} --bootstrap {cluster.bootstrap}{sets}{owned}"
        driver = f" --driver {cluster.driver}" if cluster.driver != "process" else ""
        return f"python -m chaos run {name} --seed {self.seed} --kafka {cluster.kafka}{driver}{sets}"


def _isolation(uncommitted: bool) -> dict[str, str]:
    return {"isolation.level": "read_uncommitted" if uncommitted else "read_committed"}


def new_seed() -> int:
    """Return a random seed."""
    return secrets.randbelow(2**31)


def seeds(base: int, count: int) -> list[int]:
    """Return different seeds that depend only on the base; the first is the base itself."""
    rng = random.Random(f"{base}:repeat")
    drawn = [base]
    while len(drawn) < count:
        if (seed := rng.randrange(2**31)) not in drawn:
            drawn.append(seed)
    return drawn


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
    """Fill in everything that is open. `seed` overrides the seed of the scenario; without both, a seed is drawn.

    Raises `ScenarioError` if a file of payloads, or the program of an application, is not there.
    """
    if lacking := list(programs_problems(scenario, {})):
        raise ScenarioError("\n  ".join(lacking))
    for p in scenario.producers:
        for key, path in p.value.missing() if p.value else ():
            raise ScenarioError(
                f"producers.{p.name}.value.{key}: there is no {path}; copy it there, "
                f"or name another file with --set producers.{p.name}.value.{key}=FILE"
            )
    if seed is None:
        seed = scenario.seed if scenario.seed is not None else new_seed()
    prefix = ""
    if scenario.cluster.driver == "attached":
        prefix = new_prefix(run_id)
        scenario = _for_existing_cluster(_aimed_as_before(scenario, prefixed(scenario, prefix)))
    versions = {
        "aftershock": __version__,
        "kafka": "of the attached cluster" if prefix else scenario.cluster.kafka,
        **({"kafka later": later} if (later := ", ".join(scenario.later_releases)) else {}),
        **_client_versions(scenario),
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
        programs=programs_of(scenario),
    )


def _client_versions(scenario: Scenario) -> dict[str, str]:
    """Return the releases of the client libraries by name. The platform itself uses the installed confluent-kafka."""
    installed = scenario.clients.confluent_kafka or version("confluent-kafka")
    releases: dict[str, set[str]] = {"confluent-kafka": set()}
    for client in (c for c in scenario.client_libraries if c.command is None):
        releases.setdefault(client.traits.library, set()).add(client.release or installed)
    return {name: ", ".join(sorted(found)) or installed for name, found in releases.items()}


def _aimed_as_before(scenario: Scenario, with_prefix: Scenario) -> Scenario:
    """Return the scenario with the prefix of the run, without it in targets by names of the user."""
    faults = [
        own.model_copy(update={"target": fault.target}) if scenario.is_theirs(fault.target) else own
        for fault, own in zip(scenario.faults, with_prefix.faults, strict=True)
    ]
    return with_prefix.model_copy(update={"faults": faults})


def _for_existing_cluster(scenario: Scenario) -> Scenario:
    """Return the scenario with settings that do not depend on the defaults of the cluster.

    The audit relies on `cleanup.policy: delete`, so every topic sets it unless the scenario sets another policy.
    """
    topics = [t.model_copy(update={"config": {"cleanup.policy": "delete", **t.config}}) for t in scenario.topics]
    cluster = scenario.cluster.model_copy(update={"security": scenario.cluster.security.absolute()})
    return scenario.model_copy(update={"topics": topics, "cluster": cluster})


def check_programs(scenario: Scenario, path: Path) -> None:
    """Raise `UsageError` with the line of each program or file of an application that this machine does not have.

    path: of the file of the scenario.
    """
    source = Source(path.read_text(encoding="utf-8"), str(path))
    lacking = [
        f"{source.origin(('apps', i, *key))}: apps.{app.name}.{'.'.join(key)}: {problem}"
        for i, app in enumerate(scenario.apps)
        for key, problem in app.missing()
    ]
    lacking += [
        f"{source.origin((key, i, 'client'))}: {key}.{entry.name}.client.command: there is no program {program!r} that "
        "can be run"
        for key in ("producers", "consumers", "processors")
        for i, entry in enumerate(getattr(scenario, key))
        if (program := (entry.client.command or ("",))[0]) and shutil.which(program) is None
    ]
    if lacking:
        raise UsageError("\n  ".join(lacking))


def check_owner(scenario: Scenario, i_own_this_cluster: bool) -> None:
    """Raise `UsageError` if faults would break brokers of an existing cluster without the user's confirmation.

    So does a confirmation for a cluster that the run makes: the user means another cluster than the run.
    """
    cluster = scenario.cluster
    if i_own_this_cluster and cluster.driver != "attached":
        raise UsageError(
            f"--i-own-this-cluster is for an existing cluster, and this run makes a new one (driver {cluster.driver}); "
            "give --bootstrap too, or leave it out"
        )
    breaking = [fault.name for fault in scenario.faults if fault.hits_brokers]
    if cluster.driver == "attached" and breaking and not i_own_this_cluster:
        raise UsageError(
            f"{', '.join(breaking)} would break brokers of the cluster at {cluster.bootstrap}; "
            "if you may break it, add --i-own-this-cluster"
        )


def save(run: Run, resolved: Resolved) -> None:
    """Write `resolved.json` of a run."""
    resolved = resolved.model_copy(update={"scenario": outside(resolved.scenario, run.path)})
    write_atomically(run.resolved, resolved.model_dump_json(indent=1))


def read(run: Run) -> Resolved:
    """Return the content of `resolved.json` of a run. Raises `RunDirError` if it is missing or invalid."""
    raw = read_json(run.resolved, "resolved scenario")
    try:
        resolved = Resolved.model_validate(raw)
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(str(p) for p in first["loc"])
        raise RunDirError(f"{run.resolved} does not fit this version of Aftershock: {where}: {first['msg']}") from None
    return resolved.model_copy(update={"scenario": inside(resolved.scenario, run.path)})
