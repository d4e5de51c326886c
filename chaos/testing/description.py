"""What a test says about one run, in the order in which it happens. `Cluster.verdict` runs it.

Relative paths are those in the working directory of the test.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from chaos.apps.trial import with_address
from chaos.errors import UsageError
from chaos.faults import SPECS
from chaos.setup.names import nearest
from chaos.setup.triggers import Target
from chaos.testing.verdict import Verdict

PARTITIONS, REPLICAS = 4, 3
HEAL_AFTER, PAUSE = "2s", "1s"
"""Time from an injection to its heal, and from a heal to the next fault, unless the test says otherwise."""
LIMITS = {"drive": "5m", "drain": "2m", "clients": "60s"}

Topics = str | Sequence[str]


class Cluster:
    """The brokers of a test, and what happens on them. Nothing starts before `verdict`."""

    def __init__(self, run: Callable[[Mapping[str, Any], int | None], Verdict], cluster: Mapping[str, Any]) -> None:
        """run: runs a scenario with a seed. cluster: as in a scenario."""
        self._run, self._cluster = run, dict(cluster)
        self._topics: dict[str, dict[str, Any]] = {}
        self._producers: list[dict[str, Any]] = []
        self._apps: list[dict[str, Any]] = []
        self._writes: list[str] = []
        self._faults: list[dict[str, Any]] = []
        self._verdict: Verdict | None = None
        self._waits = ""  # what was said last and no verdict has run

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Raise `UsageError` for what no verdict has run, and `AssertionError` for a failed verdict that nobody read.

        Either would be a green test that proved nothing.

        The cluster stays warm for the next test, and the session ends it.
        """
        if kind is None and self._waits:
            raise UsageError(
                f"nothing of this has run: no verdict() follows {self._waits}; end the test with"
                " kafka.verdict(…).assert_passed(), which runs what was said before it"
            )
        if kind is None and self._verdict and not self._verdict.read:
            self._verdict.assert_passed()

    def topic(self, name: str, partitions: int = PARTITIONS, replicas: int | None = None, **config: Any) -> None:
        """Name a topic with its own partitions, replicas and settings; others have 4 partitions and up to 3 replicas.

        config: settings of the topic with `_` for `.`, such as `min_insync_replicas=2`.
        """
        settings = {key.replace("_", "."): value for key, value in config.items()}
        factor = replicas or min(REPLICAS, int(self._cluster["brokers"]))
        self._topics[name] = {"name": name, "partitions": partitions, "replication_factor": factor, "config": settings}

    def send(
        self,
        topic: str,
        *,
        samples: str | Path,
        id: str,
        records: int = 1000,
        rate: str = "200/s",
        **more: Any,
    ) -> None:
        """Send records made from samples, each with an id of its own; they go on until the last fault is healed.

        samples: a file with a JSON document in each line. id: the JSONPath that gets the id. more: other keys of a
        producer in a scenario, such as `config` or `key`.
        """
        self._use(topic)
        self._waits = f"send({topic!r})"
        value = {"samples": str(samples), "id": id}
        name = f"traffic-{len(self._producers) + 1}"
        load = {"records": records, "rate": rate, "outlast_faults": True, "value": value}
        self._producers.append({"name": name, "topic": topic, **load, **more})

    def app(
        self,
        command: Sequence[str] | str,
        *,
        reads: Topics,
        writes: Topics = (),
        name: str = "app",
        instances: int = 1,
        env: Mapping[str, str] | None = None,
        directory: str | Path | None = None,
        **more: Any,
    ) -> Application:
        """Start an application of yours, unmodified, and return it for its faults.

        command: program and arguments; `python` is the Python of the test. env: variables, with placeholders such as
        `{bootstrap}`; the usual names have the address if none names it. more: other keys of an application in a
        scenario.
        """
        words = command.split() if isinstance(command, str) else list(command)
        app: dict[str, Any] = {
            "name": name,
            "command": [sys.executable if words[:1] == ["python"] else words[0], *words[1:]] if words else [],
            "directory": str(directory or "."),
            "instances": instances,
            "env": with_address(env or {}, words),
            "reads": _names(reads),
        }
        self._apps.append(app | more)
        self._waits = f"app({' '.join(words)!r})"
        self._writes += _names(writes)
        for topic in [*_names(reads), *_names(writes)]:
            self._use(topic)
        return Application(self, name)

    def fault(
        self, kind: str, *, heal: str | None = HEAL_AFTER, when: Mapping[str, Any] | None = None, **given: Any
    ) -> str:
        """Break something after the heal of the fault before, and return the name of the fault.

        kind: as in a scenario, such as `broker.kill`. given: the target (`leader_of="orders/0"`) and the parameters of
        the kind. heal: time after the injection; None for a fault that needs no heal. when: a trigger as in a scenario.
        """
        if kind not in SPECS:
            raise UsageError(
                f"{kind!r} is no fault{nearest(kind, SPECS)}; `python -m chaos reference faults` lists them"
            )
        own = SPECS[kind].model_fields  # `app` is a target of app.kill, and a parameter of wire.corrupt
        target = {key: given.pop(key) for key in [*given] if key in Target.model_fields.keys() - own.keys()}
        name = f"{kind.replace('.', '-')}-{len(self._faults) + 1}"
        trigger = when or (self._following() if self._faults else {"acked": self._first})
        fault = {"name": name, "kind": kind, "target": target, "when": dict(trigger), **given}
        self._faults.append(fault | ({"heal": {"after": heal}} if heal else {}))
        self._waits = f"the fault {name}"
        return name

    def _following(self) -> dict[str, Any]:
        """Return the trigger after the last fault: when the first application works again, if there is one."""
        after = f"{self._faults[-1]['name']}.{self._last} + {PAUSE}"
        return {"works": {"app": self._apps[0]["name"], "after": after}} if self._apps else {"after": after}

    @property
    def _first(self) -> int:
        """Acknowledged records before the first fault: a quarter of what is sent at least."""
        return max(1, sum(int(producer["records"]) for producer in self._producers) // 4)

    @property
    def _last(self) -> str:
        """The phase of the last fault that the next one waits for."""
        return "healed" if "heal" in self._faults[-1] else "proven"

    def kill(self, **target: Any) -> str:
        """Kill a broker (SIGKILL), such as `leader_of="orders/0"` or `broker=2`, and start it again."""
        return self.fault("broker.kill", **target)

    def pause(self, **target: Any) -> str:
        """Suspend a broker (SIGSTOP), and let it go on."""
        return self.fault("broker.pause", **target)

    def scenario(
        self,
        effects: Mapping[str, str | Mapping[str, Any]] | None = None,
        expect: Mapping[str, Any] | None = None,
        title: str = "",
    ) -> dict[str, Any]:
        """Return the scenario that `verdict` runs.

        effects: by name, the place of the input's id in the topic of that name, or a whole effect of a scenario; each
        topic that an application writes, with the id at the same place as in the input, if left out. expect: as in a
        scenario.
        """
        if not self._producers:
            raise UsageError("nothing is sent: call send(topic, samples=…, id=…) before verdict()")
        inputs = self._producers[0]
        if effects is None:
            effects = dict.fromkeys(self._writes, inputs["value"]["id"])
        made = [self._effect(name, of, inputs["topic"]) for name, of in effects.items()]
        parts = {"apps": self._apps, "effects": made, "faults": self._faults, "expect": dict(expect or {})}
        return {
            "title": title or f"A test of {', '.join(app['name'] for app in self._apps) or 'the brokers'}",
            "cluster": self._cluster,
            "topics": list(self._topics.values()),
            "producers": self._producers,
            **{key: value for key, value in parts.items() if value},
            "limits": LIMITS,
        }

    def _effect(self, name: str, of: str | Mapping[str, Any], inputs: str) -> dict[str, Any]:
        if not isinstance(of, str):
            return {"name": name, "of": inputs, **of}
        self._use(name)
        return {"name": name, "topic": name, "id": of, "of": inputs}

    def verdict(
        self,
        effects: Mapping[str, str | Mapping[str, Any]] | None = None,
        expect: Mapping[str, Any] | None = None,
        title: str = "",
        seed: int | None = None,
    ) -> Verdict:
        """Run what was said so far, and return the verdict. See `scenario`. Raises as `chaos.testing.Session.run`."""
        self._waits = ""
        self._verdict = self._run(self.scenario(effects, expect, title), seed)
        return self._verdict

    def _use(self, topic: str) -> None:
        if topic not in self._topics:
            self.topic(topic)


class Application:
    """An application of a test, and its faults: each follows the heal of the fault before."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster, self.name = cluster, name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Do nothing: the application runs within `Cluster.verdict`."""

    def kill(self, instance: int | None = None, **more: Any) -> str:
        """Kill an instance (SIGKILL), and start it again; any instance if none is named.

        The brokers end its sessions at once. With `ends_sessions=False`, they miss it for its session time-out first,
        45 s by default.
        """
        return self._fault("app.kill", instance, **{"ends_sessions": True, **more})

    def stop(self, instance: int | None = None, **more: Any) -> str:
        """Ask an instance to end (SIGTERM), and start it again. ends_sessions: see `kill`."""
        return self._fault("app.stop", instance, **{"ends_sessions": True, **more})

    def pause(self, instance: int | None = None, **more: Any) -> str:
        """Suspend an instance (SIGSTOP), and let it go on."""
        return self._fault("app.pause", instance, **more)

    def slow(self, latency: str = "200ms", instance: int | None = None, **more: Any) -> str:
        """Delay what an instance sends and receives."""
        return self._fault("app.slow", instance, latency=latency, **more)

    def isolate(self, instance: int | None = None, **more: Any) -> str:
        """Cut an instance off from the brokers."""
        return self._fault("app.isolate", instance, **more)

    def _fault(self, kind: str, instance: int | None, **more: Any) -> str:
        return self._cluster.fault(kind, app=f"{self.name}/{instance}" if instance else self.name, **more)


def _names(topics: Topics) -> list[str]:
    return [topics] if isinstance(topics, str) else list(topics)
