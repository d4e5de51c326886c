"""Faults of applications: the user's own programs, which know nothing of Aftershock.

What an application loses or repeats then is what a run is for, so these faults break nothing that Kafka promises.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import Field, model_validator

from chaos.errors import FaultError
from chaos.faults.base import NOTHING_TO_HEAL, Apps, Fault, FaultSpec, Instance, World
from chaos.faults.wire import LinkSpeed, app_problems, front_of, proxy_of
from chaos.setup.model import Setup, unknown
from chaos.setup.triggers import split_member
from chaos.units import Duration

if TYPE_CHECKING:
    from chaos.relay.rules import Rule
    from chaos.setup.apps import App

NOTHING_TO = "there was nothing to"
"""How the error begins if the instance of a fault does not run."""
LOOK_S = 0.05
FOREVER_S = 1e9
"""A delay that only the heal ends."""


class AppFaultSpec(FaultSpec):
    """A fault of one instance of an application, such as billing/1; of billing: an instance chosen by the seed."""

    effects = frozenset()
    left_out = "of applications; `prove` runs programs of Aftershock"
    run_only = "the applications of a run"
    targets = frozenset({"app"})
    breaks_brokers = False
    of_one: ClassVar[bool] = True
    """Whether the fault is of one instance, and not of the whole application."""

    @property
    def app_name(self) -> str:
        """The name of the application."""
        return str(self.target.selector[1]).partition("/")[0]

    def may_hit(self, instance: str) -> bool:
        """Return whether the target is this instance, or its application."""
        value = str(self.target.selector[1])
        return instance == value or instance.startswith(f"{value}/")

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the scenario has the application, that it has the instance, and that the run starts it."""
        apps: dict[str, App] = {app.name: app for app in setup.apps}
        value = str(self.target.selector[1])
        yield from unknown(f"{where}.target.app", self.app_name, "apps", apps)
        if (app := apps.get(self.app_name)) is None:
            return
        if app.external:
            yield f"{where}: {app.name} is external, so Aftershock cannot reach its processes"
        if "/" in value and not self.of_one:
            yield f"{where}.target.app: {self.kind} is of the whole application; write {app.name}"
        elif "/" in value and split_member(value)[1] > app.instances:
            yield f"{where}.target.app: {app.name} has instances 1 to {app.instances}, not {value.partition('/')[2]}"


S = TypeVar("S", bound=AppFaultSpec)


class AppFault(Fault[S]):
    """A fault of one instance of an application, or of the whole application."""

    def _aim(self, world: World) -> None:
        value = str(self.spec.target.selector[1])
        if "/" in value or not self.spec.of_one:
            self.resolved = value
            return
        if world.moment is not None and self.spec.may_hit(world.moment.front):
            self.resolved = world.moment.front
            return
        running = [instance.name for instance in self._apps(world).of(value) if instance.alive]
        if not running:
            raise FaultError(f"no instance of {value} runs")
        self.resolved = world.rng.choice(running)

    def _apps(self, world: World) -> Apps:
        if world.apps is None:
            raise FaultError("the run has no applications")
        return world.apps

    def _instance(self, world: World) -> Instance:
        return self._apps(world).instance(self.resolved)

    @property
    def _held(self) -> bool:
        """Whether the instance stays down until the heal, because the scenario says when that is."""
        return self.spec.heal is not None

    def _up(self, world: World) -> str:
        again = self._apps(world).up(self.resolved, world.scenario.limits.clients)
        return f"{self.resolved} started again" if again else NOTHING_TO_HEAL


class ProcessFault(AppFault[S]):
    """A fault of the process of one instance, which has to run.

    An instance that comes back within `limits.clients`, by its supervisor or by the heal of another fault, is hit then.
    A moment on the wire is over by then, so there is nothing to do to an instance that has ended.
    """

    verb: ClassVar[str]
    _late_s: float = 0.0

    def _aim(self, world: World) -> None:
        if self.spec.when.wire is None:
            self._late_s = self._wait_back(world)
        super()._aim(world)
        if not self._instance(world).alive:
            when = f" when {wire.describe()} was on the wire" if (wire := self.spec.when.wire) else ""
            raise FaultError(f"{NOTHING_TO} {self.verb}: {self.resolved} did not run{when}")

    def _wait_back(self, world: World) -> float:
        """Wait until an instance of the target runs, unless none comes back. Return how long it took, in s."""
        value, began = str(self.spec.target.selector[1]), time.monotonic()
        apps, limit_s = self._apps(world), world.scenario.limits.clients
        others = [f for f in world.scenario.faults if isinstance(f, AppFaultSpec) and f.name != self.spec.name]
        healed = any(f.heal for f in others if f.app_name == self.spec.app_name)
        found = [apps.instance(value)] if "/" in value else apps.of(value)
        while not any(instance.alive for instance in found):
            if time.monotonic() - began > limit_s or not (healed or any(instance.wanted for instance in found)):
                break
            time.sleep(LOOK_S)
        return time.monotonic() - began

    @property
    def _late(self) -> str:
        """That the fault came later than its time, as the end of a sentence; empty if it did not."""
        return f" once it ran again, {self._late_s:.1f} s later" if self._late_s > LOOK_S / 2 else ""


class AppEndSpec(AppFaultSpec):
    """The end of an instance."""

    for_good: bool = Field(
        False, examples=[False], description="it does not come back, as when a program moves; there is nothing to heal"
    )
    ends_sessions: bool = Field(
        False,
        examples=[False],
        description="the brokers remove its dynamic members from their groups once its process has ended, as they do "
        "at the end of their sessions (45 s by default): the same rebalance, sooner",
    )

    @model_validator(mode="after")
    def _check_heal(self) -> Self:
        if self.for_good and self.heal:
            raise ValueError("heal: an instance that ends for_good does not come back; leave one of the two out")
        return self


E = TypeVar("E", bound=AppEndSpec)


class AppEnd(ProcessFault[E]):
    """The end of an instance, which comes back unless it ends for good."""

    @property
    def _held(self) -> bool:
        return self.spec.for_good or super()._held

    @contextmanager
    def _sessions(self, world: World) -> Iterator[None]:
        """Remove the members that the instance was from their groups after the context, in which its process ends."""
        from chaos.kafka import admin

        members = proxy_of(world).members(self.resolved) if self.spec.ends_sessions else {}
        yield
        for group, ids in members.items():
            admin.remove_members(world.kafka, group, ids)

    def _undo(self, world: World) -> str:
        return f"{self.resolved} stays away" if self.spec.for_good else self._up(world)


class AppKillSpec(AppEndSpec):
    """SIGKILL an instance of an application; its supervisor starts it again, or the heal if the scenario has one.

    An instance that is down is hit when it is back.
    """

    kind: Literal["app.kill"]

    def ends_at_once(self, front: str) -> bool:
        """Return whether the target is this instance, or its application: then the instance that spoke is hit."""
        return self.may_hit(front)


class AppKill(AppEnd[AppKillSpec], spec=AppKillSpec):
    """An instance that is killed. Proof: its process ended with SIGKILL."""

    verb = "kill"

    _incarnation: int

    def _inject(self, world: World) -> str:
        instance = self._instance(world)
        self._incarnation = instance.incarnation
        self.evidence = {"pid": instance.pid}
        self.begun = True
        with self._sessions(world):
            self._apps(world).kill(self.resolved, self._held)
        return f"killed {self.resolved}{self._late}"

    def _effect(self, world: World) -> str | None:
        instance = self._instance(world)
        gone = instance.incarnation > self._incarnation or not instance.alive
        return f"the process of {self.resolved} is gone" if gone else None


class AppStopSpec(AppEndSpec):
    """Ask an instance of an application to end, and kill it after its grace; started and healed as after app.kill.

    An instance that is down is hit when it is back.
    """

    kind: Literal["app.stop"]


class AppStop(AppEnd[AppStopSpec], spec=AppStopSpec):
    """An instance that is asked to end. Proof: its process ended, by itself or after its grace."""

    verb = "stop"

    _incarnation: int
    _in_time: bool
    _took_s: float

    def _inject(self, world: World) -> str:
        instance = self._instance(world)
        self._incarnation = instance.incarnation
        self.begun, began = True, time.monotonic()
        with self._sessions(world):
            self._in_time = self._apps(world).stop(self.resolved, self._held)
            self._took_s = time.monotonic() - began
        self.evidence = {"in_time": self._in_time, "seconds": round(self._took_s, 3)}
        return f"sent {instance.app.stop.signal} to {self.resolved}{self._late}"

    def _effect(self, world: World) -> str | None:
        instance = self._instance(world)
        if instance.alive and instance.incarnation == self._incarnation:
            return None
        if self._in_time:
            return f"{self.resolved} ended {self._took_s:.1f} s after {instance.app.stop.signal}"
        stop = instance.app.stop
        return (
            f"{self.resolved} did not end within its grace of {stop.grace:g} s after {stop.signal}, and was killed: "
            f"{instance.app.deaf}"
        )


class AppPauseSpec(AppFaultSpec):
    """SIGSTOP an instance of an application, as a long garbage collection or a frozen machine; healed by SIGCONT.

    An instance that is down is hit when it is back.
    """

    kind: Literal["app.pause"]


class AppPause(ProcessFault[AppPauseSpec], spec=AppPauseSpec):
    """An instance that is suspended. Proof: the system shows its process as stopped."""

    verb = "pause"

    def _inject(self, world: World) -> str:
        self.begun = True
        self._apps(world).pause(self.resolved)
        return f"paused {self.resolved}{self._late}"

    def _effect(self, world: World) -> str | None:
        instance = self._instance(world)
        return f"the process of {self.resolved} is stopped" if instance.paused and instance.suspended() else None

    def _undo(self, world: World) -> str:
        self._apps(world).resume(self.resolved)
        return f"{self.resolved} goes on"


class AppRestartSpec(AppFaultSpec):
    """Restart all instances of an application one after another, as a rolling deployment does; they stay."""

    of_one = False
    kind: Literal["app.restart"]
    between: Duration = Field(1.0, description="pause between two instances, after the first one is ready")


class AppRestart(AppFault[AppRestartSpec], spec=AppRestartSpec):
    """A rolling restart. Proof: every instance runs in a later incarnation."""

    lasting = "all instances run"
    _before: dict[str, int]
    _killed: list[str]

    def _inject(self, world: World) -> str:
        apps = self._apps(world)
        running = [instance for instance in apps.of(self.resolved) if instance.wanted]
        if not running:
            raise FaultError(f"no instance of {self.resolved} runs")
        self._before = {instance.name: instance.incarnation for instance in running}
        self._killed = []
        self.begun = True
        for number, instance in enumerate(running):
            if number:
                time.sleep(self.spec.between)
            if not apps.end(instance.name):
                self._killed.append(instance.name)
            apps.up(instance.name, world.scenario.limits.clients)
            apps.wait_ready(self.resolved)
        self.evidence = {"killed": self._killed}
        return f"restarted {', '.join(self._before)}"

    def _effect(self, world: World) -> str | None:
        now = {instance.name: instance for instance in self._apps(world).of(self.resolved)}
        if not all(now[name].alive and now[name].incarnation > before for name, before in self._before.items()):
            return None
        late = f"; {', '.join(self._killed)} did not end within the grace" if self._killed else ""
        return f"all {len(self._before)} instances of {self.resolved} run in a later incarnation{late}"

    def _undo(self, world: World) -> str:
        apps = self._apps(world)
        again = [name for name in self._before if apps.up(name, world.scenario.limits.clients)]
        return f"{', '.join(again)} started again" if again else f"{self.resolved}: {self.lasting}"


class AppScaleSpec(AppFaultSpec):
    """Change the number of instances of an application; healed by the number before.

    The first instances of an application without any stay to the end, unless the scenario has a `heal`.
    """

    of_one = False
    example = "to=3"
    kind: Literal["app.scale"]
    to: int = Field(ge=0, le=50, description="number of instances")

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check that the number differs."""
        yield from super().problems(setup, where)
        if any(app.name == self.app_name and app.instances == self.to for app in setup.apps):
            yield f"{where}.to: {self.app_name} has {self.to} instances already"


class AppScale(AppFault[AppScaleSpec], spec=AppScaleSpec):
    """More or fewer instances. Proof: so many of them run."""

    _before: list[str]
    _added: list[str]

    def _inject(self, world: World) -> str:
        apps = self._apps(world)
        self._before = [instance.name for instance in apps.of(self.resolved) if instance.wanted]
        self._added = []
        self.begun = True
        for name in self._before[self.spec.to :]:
            apps.end(name)
        while len(self._before) + len(self._added) < self.spec.to:
            self._added.append(apps.add(self.resolved).name)
        return f"changed {self.resolved} from {len(self._before)} to {self.spec.to} instances"

    def _effect(self, world: World) -> str | None:
        running = sum(instance.alive for instance in self._apps(world).of(self.resolved))
        return f"{running} instances of {self.resolved} run" if running == self.spec.to else None

    def _undo(self, world: World) -> str:
        apps = self._apps(world)
        if not self._before and self.spec.heal is None:
            return f"{self.resolved} keeps its {len(self._added)} instances"
        for name in self._added:
            apps.end(name)
        for name in self._before:
            apps.up(name, world.scenario.limits.clients)
        return f"{self.resolved} has {len(self._before)} instances again"


class AppWireSpec(AppFaultSpec):
    """A fault of the connections between an instance, or a whole application, and brokers."""

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check the application. An external one has the fronts of its instances, too."""
        yield from app_problems(setup, f"{where}.target.app", str(self.target.selector[1]))


A = TypeVar("A", bound=AppWireSpec)


class AppWire(Fault[A]):
    """A fault that is some rules of the wire proxy for the fronts of an application."""

    _rules: list[int]

    def _add(self, world: World, *rules: Rule) -> None:
        self._rules, self.begun = [], True
        for rule in rules:
            self._rules.append(proxy_of(world).add(rule))

    @property
    def _front(self) -> str:
        return front_of(self.resolved)

    def _hits(self, world: World) -> int:
        return sum(proxy_of(world).hits(rule) for rule in self._rules)

    def _undo(self, world: World) -> str:
        """Remove the rules; the proxy sends on what they hold."""
        hits = sum(proxy_of(world).remove(rule).hits for rule in self._rules)
        return f"the wire of {self.resolved} is whole again; {hits:,} frames were hit in all"


class AppIsolateSpec(AppWireSpec):
    """Cut an instance, or a whole application, off from brokers; healed by the connection.

    Silent: its requests and the answers are held, as packets that a network loses, and arrive after the heal. Refused:
    each connection ends at its first request.
    """

    kind: Literal["app.isolate"]
    brokers: Literal["all", "majority", "one"] | Annotated[int, Field(ge=0)] = Field(
        "all",
        examples=["all", "majority"],  # an instance may have nothing to say to one broker
        description="all; a majority or one of them, chosen by the seed; or this broker",
    )
    manner: Literal["silent", "refused"] = "silent"

    def problems(self, setup: Setup, where: str) -> Iterator[str]:
        """Check the broker."""
        yield from super().problems(setup, where)
        if isinstance(self.brokers, int):
            yield from setup.broker_problems(f"{where}.brokers", [self.brokers])


class AppIsolate(AppWire[AppIsolateSpec], spec=AppIsolateSpec):
    """An application that does not reach brokers. Proof: the proxy held a frame, or ended a connection at one.

    A client that waits for an answer sends no other request, so the held answer alone is a proof, too.
    """

    _brokers: list[int]

    def _inject(self, world: World) -> str:
        from chaos.relay.rules import Frames, Rule

        self._brokers = self._choose(world)
        sides: tuple[Literal["request", "response"], ...] = ("request", "response")
        sets = [Frames(tuple(self._brokers), side=side, front=self._front) for side in sides]
        if self.spec.manner == "silent":
            self._add(world, *(Rule("delay", frames, delay_s=FOREVER_S) for frames in sets))
        else:
            self._add(world, *(Rule("cut", frames) for frames in sets))
        return f"cut {self.resolved} off from broker {', '.join(map(str, self._brokers))} ({self.spec.manner})"

    def _choose(self, world: World) -> list[int]:
        known = sorted(world.cluster.broker_ids)
        if isinstance(self.spec.brokers, int):
            return [self.spec.brokers]
        count = {"all": len(known), "majority": len(known) // 2 + 1, "one": 1}[self.spec.brokers]
        return sorted(world.rng.sample(known, count))

    def _effect(self, world: World) -> str | None:
        requests, answers = (proxy_of(world).hits(rule) for rule in self._rules)
        if not requests + answers:
            return None
        kept = f"{requests:,} requests of {self.resolved} did not reach their brokers so far"
        return kept + (f", and {answers:,} answers did not reach it" if answers else "")


class AppSlowSpec(AppWireSpec, LinkSpeed):
    """Slow the connections of an instance, or of a whole application, to all brokers down; healed by full speed."""

    example = "latency=200ms"
    kind: Literal["app.slow"]


class AppSlow(AppWire[AppSlowSpec], spec=AppSlowSpec):
    """A slow link of an application. Proof: the proxy slowed data on it."""

    def _inject(self, world: World) -> str:
        from chaos.relay.rules import Frames, Rule

        frames = Frames(front=self._front)
        self._add(world, Rule("slow", frames, latency_s=self.spec.latency, bandwidth=self.spec.bandwidth))
        return f"slowed the links of {self.resolved}: {self.spec.describe_speed()}"

    def _effect(self, world: World) -> str | None:
        pieces = self._hits(world)
        return f"{pieces:,} pieces of data of {self.resolved} were slowed so far" if pieces else None


FAULTS: dict[str, type[Fault[Any]]] = {
    "app.kill": AppKill,
    "app.stop": AppStop,
    "app.pause": AppPause,
    "app.restart": AppRestart,
    "app.scale": AppScale,
    "app.isolate": AppIsolate,
    "app.slow": AppSlow,
}
